/* Capturing memory while it is written: a model that knows every byte, with guards real and fake; the order learned;
 * and what happens when things go wrong. TEST_SCALE in percent; TEST_TRACKER=softdirty: where the tracker is left open,
 * that one. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "capture/capture_private.h"
#include "fake_guard.h"
#include "test.h"

#define CHUNK 4096u
#define KB 1024u
#define MB (1024u * KB)
#define REGIONS 4

enum guard_kind { FAKE, UFFD, MPROTECT };

/* ---- random numbers ---- */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
static uint64_t below(uint64_t *state, uint64_t limit) {
    return next_random(state) % limit;
}

/* ---- a program ---- */

struct region {
    uint8_t *map; /* two pages more than the largest region */
    uint8_t *ptr;
    uint64_t size;
    struct vv_watch *watch; /* NULL: not protected */
    uint8_t *at_call, *stored, *committed;
};

struct program {
    struct vv_capture *capture;
    struct fake_guard *fake;
    unsigned flags;
    struct region regions[REGIONS];
    uint64_t random;
    char what[128]; /* for people, when it fails */
};

#define CAPACITY (2 * MB + 2 * CHUNK)

static void put(struct program *program, uint8_t *address, uint8_t value) {
    if (program->fake)
        fake_write(program->fake, address, value);
    else
        *(volatile uint8_t *)address = value;
}

static struct vv_capture *create(enum guard_kind kind, int capture, int order, int tracker,
                                 struct fake_guard **fake_out) {
    static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};
    const char *wanted = getenv("TEST_TRACKER");
    if (tracker == VV_CHOOSE_TRACKER_AUTO && wanted && strcmp(wanted, "softdirty") == 0)
        tracker = VV_CHOOSE_TRACKER_SOFTDIRTY;
    struct vv_capture_options options = {capture, order, tracker, &quiet};
    struct vv_capture *out = NULL;
    struct varve_error error = {0};
    struct fake_guard *fake = kind == FAKE ? fake_open() : NULL;
    int rc = vv_capture_create_guarded(&options, fake ? &fake->base : NULL, &out, &error);
    if (rc != 0)
        print_message("%s\n", error.text);
    assert_int_equal(rc, 0);
    if (kind == MPROTECT && !out->guard_tried) {
        char why[128];
        assert_int_equal(vv_guard_mprotect(vv_capture_trapped, out, &out->guard, why, sizeof why), 0);
        out->guard_tried = 1;
        vv_trap_init(&out->trap, out, "mprotect");
    }
    if (fake) {
        fake->fn = vv_capture_trapped;
        fake->arg = out;
    }
    *fake_out = fake;
    return out;
}

static void protect(struct program *program, int i) {
    struct region *region = &program->regions[i];
    char name[16];
    snprintf(name, sizeof name, "r%d", i);
    region->ptr = region->map + (below(&program->random, 2) ? 16 : 0);
    uint64_t sizes[] = {1, below(&program->random, CHUNK) + 1, below(&program->random, 64 * KB) + 1, 300 * KB,
                        below(&program->random, 2 * MB - 16) + 1};
    region->size = sizes[below(&program->random, sizeof sizes / sizeof sizes[0])];
    region->watch = vv_capture_watch(program->capture, name, region->ptr, region->size, program->flags);
    assert_non_null(region->watch);
    region->watch->user = region;
    memset(region->committed, 0xee, CAPACITY); /* nothing of it is right until it was stored */
}

static void unprotect(struct program *program, struct region *region) {
    vv_capture_leave(program->capture, region->watch);
    vv_capture_unwatch(program->capture, region->watch);
    region->watch = NULL;
    (void)program;
}

static void open_program(struct program *program) {
    for (int i = 0; i < REGIONS; i++) {
        struct region *region = &program->regions[i];
        region->map = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(region->map, MAP_FAILED);
        /* The kernel does not know what a fake guard has armed: it would make huge pages of dropped ones. */
        madvise(region->map, CAPACITY, MADV_NOHUGEPAGE);
        region->at_call = calloc(1, CAPACITY);
        region->stored = calloc(1, CAPACITY);
        region->committed = calloc(1, CAPACITY);
        protect(program, i);
    }
}

static void close_program(struct program *program) {
    vv_capture_destroy(program->capture);
    for (int i = 0; i < REGIONS; i++) {
        struct region *region = &program->regions[i];
        munmap(region->map, CAPACITY);
        free(region->at_call);
        free(region->stored);
        free(region->committed);
    }
}

/* Some bytes here and there, or a whole stretch. */
static void scribble(struct program *program, uint64_t *random, uint64_t count) {
    struct region *region = &program->regions[below(random, REGIONS)];
    uint64_t at = below(random, region->size), is_run = below(random, 2);
    for (uint64_t i = 0; i < count; i++) {
        put(program, region->ptr + at, (uint8_t)next_random(random));
        at = is_run ? (at + 1500) % region->size : below(random, region->size);
    }
}

/* Pages are given back to the kernel: they read as zeros without anybody having written them. */
static void drop_pages(struct program *program) {
    struct region *region = &program->regions[below(&program->random, REGIONS)];
    size_t length;
    uintptr_t start = vv_watch_inside(region->watch, &length);
    if (length == 0)
        return;
    uint64_t first = below(&program->random, length / CHUNK);
    uint64_t count = below(&program->random, length / CHUNK - first) + 1;
    madvise((void *)(start + first * CHUNK), count * CHUNK, MADV_DONTNEED);
}

/* ---- its checkpoints ---- */

static int note_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    struct region *region = watch->user;
    (void)arg;
    assert_true(first < last && last <= watch->chunks);
    uint64_t end = last * CHUNK < region->size ? last * CHUNK : region->size;
    memset(region->stored + first * CHUNK, 0, end - first * CHUNK);
    return 0;
}

static void store(const struct vv_piece *piece) {
    struct region *region = piece->watch->user;
    assert_true(piece->count >= 1 && piece->count <= 64 && piece->first + piece->count <= piece->watch->chunks);
    uint64_t from = piece->first * CHUNK, end = from + (uint64_t)piece->count * CHUNK;
    memcpy(region->stored + from, piece->data, (end < region->size ? end : region->size) - from);
}

struct scribbler {
    struct program *program;
    uint64_t random;
    atomic_int is_over;
};

static void *scribble_on(void *arg) {
    struct scribbler *scribbler = arg;
    while (!atomic_load(&scribbler->is_over))
        scribble(scribbler->program, &scribbler->random, 40);
    return NULL;
}

static void consume(struct program *program, int limit) {
    struct vv_piece piece;
    struct varve_error error = {0};
    int rc = 1;
    while (limit-- != 0 && (rc = vv_capture_next(program->capture, &piece, &error)) == 1) {
        store(&piece);
        if (below(&program->random, 8) == 0)
            usleep((useconds_t)below(&program->random, 60));
        vv_capture_done(program->capture, &piece);
    }
    if (rc < 0)
        print_message("%d %s: %s\n", rc, error.text, program->what);
    assert_true(rc >= 0);
}

static void compare(struct program *program) {
    for (int i = 0; i < REGIONS; i++) {
        struct region *region = &program->regions[i];
        int is_same = memcmp(region->stored, region->at_call, region->size) == 0;
        for (uint64_t at = 0; !is_same && at < region->size; at++) {
            if (region->stored[at] != region->at_call[at]) {
                print_message("region %d of %lu at %p, %s: byte %lu of chunk %lu is %02x, was %02x, %02x before\n", i,
                              (unsigned long)region->size, (void *)region->ptr, region->watch->tracker->ops->name,
                              (unsigned long)(at % CHUNK), (unsigned long)(at / CHUNK), region->stored[at],
                              region->at_call[at], region->committed[at]);
                print_message("%s\n", program->what);
                fail();
            }
        }
        memcpy(region->committed, region->stored, region->size);
    }
}

static void begin(struct program *program, uint64_t staging, double speed) {
    struct vv_capture_plan plan = {staging, speed, 1, 0, 0, 0, 0};
    struct varve_error error = {0};
    for (int i = 0; i < REGIONS; i++) {
        struct region *region = &program->regions[i];
        memcpy(region->at_call, region->ptr, region->size);
        memcpy(region->stored, region->committed, region->size);
    }
    assert_int_equal(vv_capture_begin(program->capture, &plan, note_untouched, program, &error), 0);
    assert_int_equal(vv_capture_decide(program->capture, &error), 0);
    while (vv_capture_must_drain(program->capture)) {
        struct vv_piece piece;
        assert_int_equal(vv_capture_next(program->capture, &piece, &error), 1);
        store(&piece);
        vv_capture_done(program->capture, &piece);
    }
    assert_int_equal(vv_capture_go(program->capture, &error), 0);
}

/* One checkpoint, somebody scribbling from the moment the call returns. */
static void checkpoint(struct program *program, uint64_t staging) {
    int will_fail = below(&program->random, 4) == 0;
    struct scribbler scribbler = {program, next_random(&program->random) | 1, 0};
    pthread_t thread;
    begin(program, staging, below(&program->random, 3) ? 1.0 : 1e12);
    assert_int_equal(pthread_create(&thread, NULL, scribble_on, &scribbler), 0);
    consume(program, will_fail ? (int)below(&program->random, 20) : -1);
    if (will_fail)
        vv_capture_stop(program->capture);
    atomic_store(&scribbler.is_over, 1);
    pthread_join(thread, NULL);
    if (!will_fail)
        compare(program);
    vv_capture_settle(program->capture, !will_fail);
}

static void run_model(enum guard_kind kind, int capture, int order, int tracker, uint64_t staging, uint64_t seed) {
    struct program program = {.random = seed * 0x9e3779b97f4a7c15u + 1};
    snprintf(program.what, sizeof program.what, "guard %d capture %d order %d tracker %d staging %lu seed %lu", kind,
             capture, order, tracker, (unsigned long)staging, (unsigned long)seed);
    program.flags = kind == MPROTECT ? VARVE_NO_KERNEL_WRITES : 0;
    program.capture = create(kind, capture, order, tracker, &program.fake);
    open_program(&program);
    for (int round = 0; round < 8; round++) {
        for (uint64_t i = below(&program.random, 6); i > 0; i--)
            scribble(&program, &program.random, below(&program.random, 300));
        if (below(&program.random, 4) == 0)
            drop_pages(&program);
        checkpoint(&program, staging);
        if (below(&program.random, 5) == 0) {
            int i = (int)below(&program.random, REGIONS);
            unprotect(&program, &program.regions[i]);
            protect(&program, i);
        }
    }
    close_program(&program);
}

/* Pages that become zeros without a write, amidst chunks that nobody touches and that lie in two pages each. */
static void dropped_pages_are_noticed(void **state) {
    (void)state;
    static const int trackers[] = {VV_CHOOSE_TRACKER_AUTO, VV_CHOOSE_TRACKER_TRAP_UFFD};
    for (size_t i = 0; i < 2; i++) {
        struct program program = {.random = 5};
        program.capture = create(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, trackers[i], &program.fake);
        open_program(&program);
        struct region *region = &program.regions[0];
        unprotect(&program, region);
        region->ptr = region->map + 16;
        region->size = 300 * KB;
        region->watch = vv_capture_watch(program.capture, "skewed", region->ptr, region->size, 0);
        region->watch->user = region;
        memset(region->ptr, 7, region->size);
        for (int round = 0; round < 4; round++) {
            begin(&program, 4 * MB, 1);
            consume(&program, -1);
            compare(&program);
            vv_capture_settle(program.capture, 1);
            madvise(region->map + (size_t)(10 + round * 10) * CHUNK, 3 * CHUNK, MADV_DONTNEED);
        }
        close_program(&program);
    }
}

/* A dropped page that was read again, and then made a part of a huge page: it is the page of zeros no more. Linux 6.18
 * does that to memory that mprotect has closed, too. */
static void collapsed_pages_are_noticed(void **state) {
    (void)state;
    const size_t huge = 2 * MB;
    struct program program = {.random = 7, .flags = VARVE_NO_KERNEL_WRITES};
    program.capture = create(MPROTECT, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_TRAP_MPROTECT,
                             &program.fake);
    open_program(&program);
    struct region *region = &program.regions[0];
    uint8_t *map = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    unprotect(&program, region);
    region->ptr = (uint8_t *)(((uintptr_t)map + huge - 1) & ~(uintptr_t)(huge - 1));
    region->size = huge;
    madvise(region->ptr, huge, MADV_NOHUGEPAGE);
    memset(region->ptr, 7, huge);
    madvise(region->ptr, huge, MADV_HUGEPAGE);
    region->watch = vv_capture_watch(program.capture, "collapsed", region->ptr, region->size, program.flags);
    region->watch->user = region;
    for (int round = 0; round < 4; round++) {
        begin(&program, 4 * MB, 1);
        consume(&program, -1);
        compare(&program);
        vv_capture_settle(program.capture, 1);
        uint8_t *page = region->ptr + (size_t)(10 + round * 10) * CHUNK;
        madvise(page, CHUNK, MADV_DONTNEED);
        (void)*(volatile uint8_t *)page;
        madvise(region->ptr, huge, 25 /* MADV_COLLAPSE, Linux 6.1 */);
        if (round % 2) /* small pages again before anybody looks */
            madvise(region->ptr, CHUNK, MADV_DONTNEED);
    }
    close_program(&program);
    munmap(map, 2 * huge);
}

static int has_uffd(void) {
    struct vv_guard *guard = NULL;
    char why[128] = "";
    if (vv_guard_uffd(vv_capture_trapped, NULL, &guard, why, sizeof why) != 0) {
        print_message("skipped: %s\n", why);
        return 0;
    }
    guard->ops->close(guard);
    return 1;
}

static void run_models(enum guard_kind kind) {
    static const uint64_t slots[] = {0, 1, 7, 40, 300, 4096};
    const char *text = getenv("TEST_SCALE");
    char why[160];
    unsigned rounds = text ? (unsigned)atoi(text) / 50 + 1 : 3;
    int trap = kind == MPROTECT ? VV_CHOOSE_TRACKER_TRAP_MPROTECT : VV_CHOOSE_TRACKER_TRAP_UFFD;
    const int ways[][3] = {{VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO},
                           {VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO},
                           {VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_ADDRESS, VV_CHOOSE_TRACKER_NONE},
                           {VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, trap},
                           {VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO},
                           {VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_ORDER_ADDRESS, VV_CHOOSE_TRACKER_NONE},
                           {VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_ORDER_LEARNED, trap},
                           {VV_CHOOSE_CAPTURE_SYNC, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO},
                           {VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_LEARNED, trap},
                           {VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_ADDRESS, trap}};
    for (uint64_t seed = 1; seed <= rounds; seed++)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
            for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++)
                if (ways[i][0] != VV_CHOOSE_CAPTURE_FROZEN || vv_frozen_works(why, sizeof why) == 0)
                    run_model(kind, ways[i][0], ways[i][1], ways[i][2], slots[k] * CHUNK, seed * 100 + i * 10 + k);
}

static void model_with_a_fake_guard(void **state) {
    (void)state;
    run_models(FAKE);
}

static void model_with_userfaultfd(void **state) {
    (void)state;
    if (!has_uffd())
        skip();
    run_models(UFFD);
}

static void model_with_mprotect(void **state) {
    (void)state;
    run_models(MPROTECT);
}

/* ---- one region, one thread, step by step ---- */

/* A program and a consumer that take turns: nothing here depends on time. */
struct steps {
    struct vv_capture *capture;
    struct fake_guard *fake;
    uint8_t *ptr;
    uint64_t pages;
    struct vv_watch *watch;
    struct vv_piece piece;
    uint32_t left; /* chunks of the piece not consumed yet */
    int is_over, result;
    uint64_t seen; /* chunks */
};

static int ignore_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    (void)arg, (void)watch, (void)first, (void)last;
    return 0;
}

static struct steps open_steps(enum guard_kind kind, int capture, int order, int tracker, uint64_t pages) {
    struct steps steps = {.pages = pages};
    steps.capture = create(kind, capture, order, tracker, &steps.fake);
    steps.ptr = mmap(NULL, pages * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(steps.ptr, MAP_FAILED);
    memset(steps.ptr, 1, pages * CHUNK);
    steps.watch = vv_capture_watch(steps.capture, "field", steps.ptr, pages * CHUNK,
                                   kind == MPROTECT ? VARVE_NO_KERNEL_WRITES : 0);
    return steps;
}

static void close_steps(struct steps *steps) {
    vv_capture_destroy(steps->capture);
    munmap(steps->ptr, steps->pages * CHUNK);
}

/* Consume one chunk. */
static void step(struct steps *steps) {
    if (steps->left == 0 && !steps->is_over) {
        steps->result = vv_capture_next(steps->capture, &steps->piece, NULL);
        steps->is_over = steps->result != 1;
        steps->left = steps->is_over ? 0 : steps->piece.count;
        steps->seen += steps->left;
    }
    if (steps->left > 0 && --steps->left == 0)
        vv_capture_done(steps->capture, &steps->piece);
}

/* Up to the return of the call. */
static void start(struct steps *steps, uint64_t slots, double speed) {
    struct vv_capture_plan plan = {slots * CHUNK, speed, 1, 0, 0, 0, 0};
    steps->is_over = steps->left = steps->result = 0;
    steps->seen = 0;
    assert_int_equal(vv_capture_begin(steps->capture, &plan, ignore_untouched, NULL, NULL), 0);
    assert_int_equal(vv_capture_decide(steps->capture, NULL), 0);
    while (vv_capture_must_drain(steps->capture))
        step(steps);
    assert_int_equal(vv_capture_go(steps->capture, NULL), 0);
    steps->left = 0;
}

static void finish(struct steps *steps, int is_committed) {
    while (!steps->is_over)
        step(steps);
    vv_capture_settle(steps->capture, is_committed);
}

static struct vv_capture_sums sums_of(const struct steps *steps) {
    struct vv_capture_sums sums;
    vv_capture_sums(steps->capture, &sums);
    return sums;
}

/* A checkpoint, then everything is written in this order; whenever `burst` pages were written, the program rests for
 * `rest` chunks of the consumer's. */
static struct vv_capture_sums epoch(struct steps *steps, const uint32_t *order, uint64_t slots, uint32_t burst,
                                    uint32_t rest) {
    start(steps, slots, 1);
    for (uint64_t i = 0; i < steps->pages; i++) {
        uint8_t *address = steps->ptr + (uint64_t)order[i] * CHUNK;
        while (!fake_try_write(steps->fake, address, (uint8_t)(*address + 1))) {
            assert_false(steps->is_over);
            step(steps);
        }
        for (uint32_t k = 0; k < rest && i % burst == burst - 1; k++)
            step(steps);
    }
    finish(steps, 1);
    assert_int_equal(steps->seen, steps->pages);
    return sums_of(steps);
}

enum pattern { ASCENDING, DESCENDING, SHUFFLED };
#define PAGES 1024u

static void make_order(enum pattern pattern, uint32_t *order) {
    uint64_t random = 77;
    for (uint32_t i = 0; i < PAGES; i++)
        order[i] = pattern == DESCENDING ? PAGES - 1 - i : i;
    for (uint32_t i = PAGES - 1; pattern == SHUFFLED && i > 0; i--) {
        uint32_t k = (uint32_t)below(&random, i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

static struct vv_capture_sums last_epoch(int capture, int ordering, enum pattern pattern, int epochs) {
    uint32_t order[PAGES];
    struct vv_capture_sums sums = {0};
    struct steps steps =
        open_steps(FAKE, capture, ordering,
                   capture == VV_CHOOSE_CAPTURE_TRAP ? VV_CHOOSE_TRACKER_AUTO : VV_CHOOSE_TRACKER_NONE, PAGES);
    make_order(pattern, order);
    for (int i = 0; i < epochs; i++)
        sums = capture == VV_CHOOSE_CAPTURE_TRAP ? epoch(&steps, order, 64, 128, 160) : epoch(&steps, order, 64, 1, 1);
    close_steps(&steps);
    return sums;
}

static void order_is_learned(void **state) {
    (void)state;
    for (enum pattern pattern = ASCENDING; pattern <= SHUFFLED; pattern++) {
        struct vv_capture_sums sums = last_epoch(VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, pattern, 5);
        assert_string_equal(sums.reason, "what did not fit was held");
        assert_true(sums.wait_pages + sums.cow_pages <= PAGES / 32);
        assert_true(sums.ahead_pages >= PAGES * 3 / 4);
        assert_int_equal(sums.bytes_staged + sums.bytes_held, PAGES * CHUNK);
        struct vv_capture_sums blind = last_epoch(VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_ADDRESS, pattern, 5);
        assert_true(pattern == ASCENDING || blind.wait_pages + blind.cow_pages > PAGES / 8);
    }
}

/* The paper's mode and its async-no-pattern. */
static void order_of_the_paper(void **state) {
    (void)state;
    for (enum pattern pattern = ASCENDING; pattern <= SHUFFLED; pattern++) {
        struct vv_capture_sums learned = last_epoch(VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_LEARNED, pattern, 6);
        struct vv_capture_sums blind = last_epoch(VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_ADDRESS, pattern, 6);
        print_message("%d: learned %lu wait %lu cow %lu avoided, by address %lu wait %lu cow %lu avoided\n",
                      (int)pattern, (unsigned long)learned.wait_pages, (unsigned long)learned.cow_pages,
                      (unsigned long)learned.avoided_pages, (unsigned long)blind.wait_pages,
                      (unsigned long)blind.cow_pages, (unsigned long)blind.avoided_pages);
        assert_int_equal(learned.bytes_held, PAGES * CHUNK);
        assert_int_equal(learned.trapped_pages, PAGES);
        assert_int_equal(learned.bytes_staged + learned.bytes_drained, 0);
        assert_true(pattern == ASCENDING || learned.wait_pages * 2 <= blind.wait_pages);
    }
}

/* Only what was written comes again; neighbours only where a trap frees them. */
static void trap_tracker_knows_what_was_written(void **state) {
    (void)state;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 100);
    start(&steps, 4, 1);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 100);
    assert_true(fake_try_write(steps.fake, steps.ptr + 7 * CHUNK, 9));
    assert_int_equal(sums_of(&steps).trapped_pages, 1);
    start(&steps, 4, 1);
    assert_true(fake_try_write(steps.fake, steps.ptr + 8 * CHUNK, 9)); /* armed, but not of this checkpoint */
    assert_int_equal(sums_of(&steps).avoided_pages, 1);
    finish(&steps, 0);
    assert_int_equal(steps.seen, 1);
    start(&steps, 4, 1);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 2); /* 7 is carried over */
    start(&steps, 4, 1);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 0);
    close_steps(&steps);
}

static void slots_and_waiting(void **state) {
    (void)state;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_TRAP, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 100);
    start(&steps, 2, 1);
    assert_true(fake_try_write(steps.fake, steps.ptr + 50 * CHUNK, 9));
    assert_true(fake_try_write(steps.fake, steps.ptr + 60 * CHUNK, 9));
    assert_false(fake_try_write(steps.fake, steps.ptr + 70 * CHUNK, 9)); /* no slot is left */
    assert_false(fake_try_write(steps.fake, steps.ptr + 70 * CHUNK, 9)); /* asking again counts once */
    step(&steps);
    assert_int_equal(steps.piece.first, 70); /* waited for: first */
    assert_int_equal(steps.piece.data[0], 1);
    assert_true(fake_try_write(steps.fake, steps.ptr + 70 * CHUNK, 9));
    step(&steps);
    assert_int_equal(steps.piece.first, 50); /* then copies, oldest first */
    assert_int_equal(steps.piece.data[0], 1);
    step(&steps);
    assert_int_equal(steps.piece.first, 60);
    struct vv_capture_sums sums = sums_of(&steps);
    assert_int_equal(sums.wait_pages, 1);
    assert_int_equal(sums.cow_pages, 2);
    assert_int_equal(sums.trapped_pages, 3);
    assert_true(sums.seconds_waited > 0);
    finish(&steps, 1);
    start(&steps, 2, 1); /* in the order WAIT, COW */
    step(&steps);
    assert_int_equal(steps.piece.first, 70);
    step(&steps);
    assert_int_equal(steps.piece.first, 50);
    step(&steps);
    assert_int_equal(steps.piece.first, 60);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 3);
    close_steps(&steps);
}

/* ---- what is done with what ---- */

static void what_fits_is_staged(void **state) {
    (void)state;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_NONE, 100);
    start(&steps, 100, 1);
    assert_int_equal(sums_of(&steps).bytes_staged, 100 * CHUNK);
    assert_string_equal(sums_of(&steps).reason, "everything fitted staging");
    memset(steps.ptr, 7, 100 * CHUNK);
    step(&steps);
    assert_int_equal(steps.piece.count, 64);
    assert_int_equal(steps.piece.data[63 * CHUNK], 1);
    assert_int_equal(steps.fake->arms, 0);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 100);
    start(&steps, 90, 1e15); /* a storage faster than any trap */
    assert_int_equal(sums_of(&steps).bytes_drained, 10 * CHUNK);
    assert_string_equal(sums_of(&steps).reason, "what did not fit was drained: cheaper than holding");
    finish(&steps, 1);
    steps.fake->fail_arm = -ENOMEM;
    start(&steps, 90, 1);
    assert_int_equal(sums_of(&steps).bytes_drained, 10 * CHUNK);
    finish(&steps, 1);
    close_steps(&steps);
}

static void stop_lets_everybody_go(void **state) {
    (void)state;
    for (int mode = VV_CHOOSE_CAPTURE_TRAP; mode <= VV_CHOOSE_CAPTURE_HELD; mode += 2) {
        struct steps steps = open_steps(FAKE, mode, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 200);
        start(&steps, mode == VV_CHOOSE_CAPTURE_HELD ? 4 : 1, 1);
        assert_true(fake_try_write(steps.fake, steps.ptr + 199 * CHUNK, 9)); /* the only free slot */
        assert_false(fake_try_write(steps.fake, steps.ptr + 150 * CHUNK, 9));
        vv_capture_stop(steps.capture);
        for (uint64_t i = 0; i < 200; i++)
            assert_true(fake_try_write(steps.fake, steps.ptr + i * CHUNK, 9));
        vv_capture_settle(steps.capture, 0);
        start(&steps, 0, 1);
        finish(&steps, 1);
        assert_int_equal(steps.seen, 200);
        close_steps(&steps);
    }
}

/* The program takes memory away that is held: an error that names it, and the next checkpoint has everything. */
static void lose_memory(enum guard_kind kind, int mode) {
    struct steps steps = open_steps(kind, mode, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 200);
    struct vv_capture_plan plan = {0, 1, 1, 0, 0, 0, 0};
    struct varve_error error = {0};
    start(&steps, 0, 1);
    assert_int_equal(sums_of(&steps).bytes_held, 200 * CHUNK);
    step(&steps);
    assert_int_equal(steps.result, 1);
    munmap(steps.ptr + 100 * CHUNK, 50 * CHUNK);
    while (!steps.is_over && vv_capture_next(steps.capture, &steps.piece, &error) == 1)
        vv_capture_done(steps.capture, &steps.piece);
    assert_int_equal(error.code, -EFAULT);
    assert_non_null(strstr(error.text, "field"));
    vv_capture_stop(steps.capture);
    vv_capture_settle(steps.capture, 0);
    assert_int_equal(vv_capture_begin(steps.capture, &plan, ignore_untouched, NULL, &error), -EFAULT); /* still gone */
    assert_ptr_not_equal(mmap(steps.ptr + 100 * CHUNK, 50 * CHUNK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         MAP_FAILED);
    memset(steps.ptr, 3, 200 * CHUNK);
    start(&steps, 0, 1);
    assert_int_equal(sums_of(&steps).bytes_held, 0);
    finish(&steps, 1);
    close_steps(&steps);
}

static void lost_memory_is_an_error(void **state) {
    (void)state;
    lose_memory(MPROTECT, VV_CHOOSE_CAPTURE_HELD);
    if (!has_uffd())
        return;
    lose_memory(UFFD, VV_CHOOSE_CAPTURE_HELD);
    lose_memory(UFFD, VV_CHOOSE_CAPTURE_TRAP);
}

/* Other pages at the same address: reading them works, and they are not what was promised. */
static void replaced_memory_is_an_error(void **state) {
    (void)state;
    if (!has_uffd())
        skip();
    for (int mode = VV_CHOOSE_CAPTURE_TRAP; mode <= VV_CHOOSE_CAPTURE_HELD; mode += 2) {
        struct steps steps = open_steps(UFFD, mode, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 200);
        start(&steps, 0, 1);
        uint8_t *there = mmap(steps.ptr + 199 * CHUNK, CHUNK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        *there = 5;
        finish(&steps, 0);
        assert_int_equal(steps.result, -EFAULT);
        close_steps(&steps);
    }
}

/* Memory that two regions share is never held, and both get it right. */
static void overlapping_regions(void **state) {
    (void)state;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 400);
    start(&steps, 10, 1);
    assert_true(steps.watch->is_plain);
    assert_true(sums_of(&steps).bytes_held > 0);
    finish(&steps, 1);
    struct vv_watch *other = vv_capture_watch(steps.capture, "other", steps.ptr + 100 * CHUNK, 200 * CHUNK, 0);
    steps.ptr[150 * CHUNK] = 77;
    start(&steps, 10, 1);
    assert_false(steps.watch->is_plain || other->is_plain);
    assert_int_equal(sums_of(&steps).bytes_held, 0);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 600);
    vv_capture_leave(steps.capture, other);
    vv_capture_unwatch(steps.capture, other);
    start(&steps, 10, 1);
    assert_true(steps.watch->is_plain);
    finish(&steps, 1);
    close_steps(&steps);
}

static void *consume_slowly(void *arg) {
    struct steps *steps = arg;
    while (!steps->is_over) {
        step(steps);
        usleep(100);
    }
    return NULL;
}

static void leave_waits_until_nothing_is_held(void **state) {
    (void)state;
    for (int mode = VV_CHOOSE_CAPTURE_TRAP; mode <= VV_CHOOSE_CAPTURE_HELD; mode += 2) {
        struct steps steps = open_steps(FAKE, mode, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 300);
        pthread_t thread;
        start(&steps, 20, 1);
        assert_int_equal(pthread_create(&thread, NULL, consume_slowly, &steps), 0);
        vv_capture_leave(steps.capture, steps.watch);
        assert_ptr_equal(steps.watch->tracker, &vv_tracker_none);
        assert_false(steps.watch->is_plain);
        munmap(steps.ptr, 300 * CHUNK);
        pthread_join(thread, NULL);
        assert_int_equal(steps.result, 0);
        assert_int_equal(steps.seen, 300);
        vv_capture_settle(steps.capture, 1);
        start(&steps, 20, 1); /* not looked at any more */
        finish(&steps, 1);
        assert_int_equal(steps.seen, 0);
        close_steps(&steps);
    }
}

/* ---- costs ---- */

static void what_changes_as_a_whole_is_not_tracked(void **state) {
    (void)state;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 400);
    if (!steps.capture->noted) {
        close_steps(&steps);
        skip();
    }
    int tracked = 0;
    for (int i = 0; i < 18; i++) {
        memset(steps.ptr, i, 400 * CHUNK);
        start(&steps, 400, 1);
        finish(&steps, 1);
        assert_int_equal(steps.seen, 400);
        tracked += steps.watch->tracker != &vv_tracker_none;
    }
    assert_true(tracked >= 2 && tracked <= 4);
    memset(steps.ptr, 99, 400 * CHUNK);
    for (int i = 0; i < 10; i++) { /* until it is tried again */
        start(&steps, 400, 1);
        finish(&steps, 1);
    }
    assert_int_equal(steps.seen, 0);
    steps.ptr[5 * CHUNK] = 1;
    start(&steps, 400, 1);
    finish(&steps, 1);
    assert_int_equal(steps.seen, 1);
    close_steps(&steps);
}

static uint64_t resident(void) {
    unsigned long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &pages), 2);
    fclose(file);
    return (uint64_t)pages * CHUNK;
}

static int count_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    (void)watch;
    *(uint64_t *)arg += last - first;
    return 0;
}

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

static void sparse_regions_cost_nothing(void **state) {
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(thread_sanitizer) ||                  \
    HAS_FEATURE(address_sanitizer)
    skip(); /* its shadow of so much memory is not sparse */
#endif
    const uint64_t size = UINT64_C(1) << 40;
    struct steps steps = open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, 1);
    uint8_t *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED) {
        close_steps(&steps);
        skip();
    }
    madvise(ptr, size, MADV_NOHUGEPAGE);
    assert_non_null(vv_capture_watch(steps.capture, "sparse", ptr, size, 0));
    uint64_t before = resident();
    for (int i = 0; i < 3; i++) {
        struct vv_capture_plan plan = {16 * CHUNK, 1, 1, 0, 0, 0, 0};
        uint64_t untouched = 0;
        for (uint64_t k = 0; k < 40; k++)
            ptr[k * (size / 40)] = (uint8_t)(i + 1);
        assert_int_equal(vv_capture_begin(steps.capture, &plan, count_untouched, &untouched, NULL), 0);
        assert_int_equal(vv_capture_decide(steps.capture, NULL), 0);
        assert_int_equal(untouched, size / CHUNK - 40);
        steps.is_over = steps.left = 0;
        while (vv_capture_must_drain(steps.capture))
            step(&steps);
        assert_int_equal(vv_capture_go(steps.capture, NULL), 0);
        finish(&steps, 1);
    }
    assert_true(resident() - before < 4 * MB);
    close_steps(&steps);
    munmap(ptr, size);
}

static void page_state_is_small(void **state) {
    (void)state;
    uint32_t order[PAGES];
    make_order(SHUFFLED, order);
    struct steps steps =
        open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_NONE, PAGES);
    for (int i = 0; i < 3; i++) {
        struct vv_capture_sums sums = epoch(&steps, order, 64, 1, 1);
        assert_true(sums.memory <= 64 * CHUNK + (uint64_t)PAGES * CHUNK / 400);
    }
    close_steps(&steps);
}

/* Whichever allocation fails: an error, and the next checkpoint has everything. */
static void memory_runs_out(void **state) {
    (void)state;
    uint64_t pages = 200, limit = 1;
    for (uint64_t k = 1; k <= limit; k++) {
        struct steps steps =
            open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, pages);
        struct vv_capture_plan plan = {20 * CHUNK, 1, 1, 0, 0, 0, 0};
        struct varve_error error = {0};
        vv_alloc_fail_at(k);
        int rc = vv_capture_begin(steps.capture, &plan, ignore_untouched, NULL, &error);
        if (rc == 0)
            rc = vv_capture_decide(steps.capture, &error);
        if (k == 1)
            limit = vv_alloc_count() + 8; /* fewer than it takes: this one stopped early */
        vv_alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        assert_true(rc == 0 || error.code == -ENOMEM);
        vv_capture_settle(steps.capture, 0);
        start(&steps, 20, 1);
        finish(&steps, 1);
        assert_int_equal(steps.seen, pages);
        close_steps(&steps);
    }
}

/* They are of the whole process: a second session does without, until the first is closed. */
static void one_session_has_the_soft_dirty_bits(void **state) {
    (void)state;
    struct vv_capture_options options = {VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_SOFTDIRTY,
                                         NULL};
    for (int i = 0; i < 2; i++) { /* the second round: it was given back */
        struct vv_capture *first = NULL, *second = NULL;
        struct varve_error error = {0};
        if (vv_capture_create(&options, &first, &error) != 0) {
            print_message("%s\n", error.text);
            assert_int_equal(i, 0);
            skip();
        }
        assert_string_equal(vv_capture_tracker(first), "softdirty");
        assert_int_equal(vv_capture_create(&options, &second, &error), -ENOTSUP);
        assert_non_null(strstr(error.text, "another session"));
        vv_capture_destroy(first);
    }
}

/* The order is known before anything was ever held. */
static void samples_teach_the_order(void **state) {
    (void)state;
    struct steps steps =
        open_steps(FAKE, VV_CHOOSE_CAPTURE_HELD, VV_CHOOSE_ORDER_LEARNED, VV_CHOOSE_TRACKER_AUTO, PAGES);
    if (!steps.capture->noted) {
        close_steps(&steps);
        skip();
    }
    uint32_t order[PAGES];
    make_order(DESCENDING, order);
    steps.capture->hold_traps = 1e9; /* so that it is drained */
    start(&steps, 64, 1e9);
    finish(&steps, 1);
    assert_int_equal(sums_of(&steps).bytes_held, 0);
    steps.capture->hold_traps = -1;
    for (uint32_t i = 0; i < PAGES; i++) {
        steps.ptr[(uint64_t)order[i] * CHUNK]++;
        if (i % 16 == 0)
            assert_true(vv_capture_sample(steps.capture) > 0);
    }
    vv_capture_sample(steps.capture);
    struct vv_capture_sums sums = epoch(&steps, order, 64, 1, 1);
    assert_string_equal(sums.reason, "what did not fit was held");
    assert_true(sums.wait_pages + sums.cow_pages <= PAGES / 16);
    close_steps(&steps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_with_a_fake_guard),
        cmocka_unit_test(model_with_userfaultfd),
        cmocka_unit_test(model_with_mprotect),
        cmocka_unit_test(dropped_pages_are_noticed),
        cmocka_unit_test(collapsed_pages_are_noticed),
        cmocka_unit_test(order_is_learned),
        cmocka_unit_test(order_of_the_paper),
        cmocka_unit_test(trap_tracker_knows_what_was_written),
        cmocka_unit_test(slots_and_waiting),
        cmocka_unit_test(what_fits_is_staged),
        cmocka_unit_test(stop_lets_everybody_go),
        cmocka_unit_test(lost_memory_is_an_error),
        cmocka_unit_test(replaced_memory_is_an_error),
        cmocka_unit_test(overlapping_regions),
        cmocka_unit_test(leave_waits_until_nothing_is_held),
        cmocka_unit_test(what_changes_as_a_whole_is_not_tracked),
        cmocka_unit_test(sparse_regions_cost_nothing),
        cmocka_unit_test(page_state_is_small),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(samples_teach_the_order),
        cmocka_unit_test(one_session_has_the_soft_dirty_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
