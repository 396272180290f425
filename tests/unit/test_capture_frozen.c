/* Capturing with a frozen copy of the process: memory is free as soon as the call returns, what a copy would not
 * have is taken inside the call, and a copy that cannot be made or is lost does no harm. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "capture/capture_private.h"
#include "freezing.h"
#include "refuse.h"
#include "test.h"

#define CHUNK 4096u
#define PAGES 1000u
#define SIZE ((size_t)PAGES * CHUNK)

/* ---- a program with one region ---- */

struct program {
    struct vv_capture *capture;
    struct vv_watch *watch;
    uint8_t *ptr;
    uint8_t *stored; /* by the last checkpoint */
    uint64_t seen;   /* chunks of it */
};

static uint8_t *map(size_t size, int flags) {
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void fill(uint8_t *at, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i += 64)
        memset(at + i, (int)((i / 64 + seed) * 2654435761u >> 9), 64);
}

static int is_filled(const uint8_t *at, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        if (at[i] != (uint8_t)((i / 64 + seed) * 2654435761u >> 9))
            return 0;
    return 1;
}

static struct vv_capture *create(int choice, int tracker) {
    static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};
    struct vv_capture_options options = {choice, VV_CHOOSE_ORDER_LEARNED, tracker, &quiet};
    struct vv_capture *capture = NULL;
    struct varve_error error = {0};
    if (vv_capture_create(&options, &capture, &error) != 0)
        fprintf(stderr, "%s\n", error.text);
    CHECK(capture);
    return capture;
}

static struct program open_program(int choice, int tracker, uint8_t *ptr, unsigned flags) {
    struct program program = {.capture = create(choice, tracker), .ptr = ptr, .stored = map(SIZE, MAP_PRIVATE)};
    fill(ptr, SIZE, 1);
    program.watch = vv_capture_watch(program.capture, "field", ptr, SIZE, flags);
    return program;
}

static void close_program(struct program *program) {
    vv_capture_destroy(program->capture);
    munmap(program->stored, SIZE);
    munmap(program->ptr, SIZE);
}

static int note_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    struct program *program = arg;
    (void)watch;
    memset(program->stored + first * CHUNK, 0, (last - first) * CHUNK);
    return 0;
}

static int take(struct program *program, struct varve_error *error) {
    struct vv_piece piece;
    int rc = vv_capture_next(program->capture, &piece, error);
    if (rc == 1) {
        if (piece.watch == program->watch)
            memcpy(program->stored + piece.first * CHUNK, piece.data, (size_t)piece.count * CHUNK);
        program->seen += piece.count;
        vv_capture_done(program->capture, &piece);
    }
    return rc;
}

/* Up to the return of the call. */
static void begin_with(struct program *program, struct vv_capture_plan plan) {
    struct varve_error error = {0};
    program->seen = 0;
    CHECK(vv_capture_begin(program->capture, &plan, note_untouched, program, &error) == 0);
    CHECK(vv_capture_decide(program->capture, &error) == 0);
    while (vv_capture_must_drain(program->capture))
        CHECK(take(program, &error) == 1);
    CHECK(vv_capture_go(program->capture, &error) == 0);
}

static void begin(struct program *program, uint64_t slots, int must_not_hold) {
    begin_with(program, (struct vv_capture_plan){slots * CHUNK, 1e6, 1, must_not_hold, 0, 0, 0});
}

static int finish(struct program *program, struct varve_error *error) {
    int rc = 1;
    while (rc == 1)
        rc = take(program, error);
    vv_capture_stop(program->capture);
    vv_capture_settle(program->capture, rc == 0);
    return rc;
}

static struct vv_capture_sums sums_of(const struct program *program) {
    struct vv_capture_sums sums;
    vv_capture_sums(program->capture, &sums);
    return sums;
}

/* ---- free at once ---- */

static void memory_is_free_at_once(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    for (int way = 0; way < 4; way++) {
        struct program program =
            open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
        begin(&program, way * 20u, way == 2);
        assert_int_equal(sums_of(&program).bytes_frozen, SIZE - way * 20u * CHUNK);
        assert_int_equal(sums_of(&program).bytes_held + sums_of(&program).bytes_drained, 0);
        assert_string_equal(sums_of(&program).reason, "what did not fit was frozen");
        if (way != 3)
            vv_capture_leave(program.capture, program.watch); /* nobody consumes: it must not wait */
        if (way == 0)
            munmap(program.ptr, SIZE);
        else
            memset(program.ptr, 9, SIZE);
        assert_int_equal(finish(&program, NULL), 0);
        assert_int_equal(program.seen, PAGES);
        assert_true(is_filled(program.stored, SIZE, 1));
        close_program(&program);
    }
}

/* The program writes these chunks, but changes nothing. */
static void touch(uint8_t *at, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        ((volatile uint8_t *)at)[i * CHUNK] = at[i * CHUNK];
}

/* What is written after the call is in the next checkpoint, and what is not is not, with a tracker whose notes the
 * copy must not disturb. Never more than half is written: the tracker would take a rest. */
static void notes_survive(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    uint8_t *then = map(SIZE, MAP_PRIVATE);
    if (!program.capture->noted) {
        close_program(&program);
        skip();
    }
    begin(&program, 10, 0);
    assert_int_equal(finish(&program, NULL), 0);
    for (unsigned round = 0; round < 6; round++) {
        unsigned first = round * 100, count = 30 + round;
        touch(program.ptr, first, 400); /* much is written, */
        memcpy(then, program.ptr, SIZE);
        begin(&program, 10, 0); /* and frozen, */
        assert_int_equal(sums_of(&program).bytes_frozen, 390 * CHUNK);
        for (unsigned i = 0; i < count; i++) /* and some is written while it is, */
            program.ptr[(first + i) * CHUNK] ^= 0xff;
        assert_int_equal(finish(&program, NULL), 0);
        assert_memory_equal(program.stored, then, SIZE);
        program.ptr[(first + 60) * CHUNK] ^= 0xff; /* and one page later. */
        assert_ptr_equal(program.watch->tracker, program.capture->noted);
        begin(&program, 10, 0);
        assert_int_equal(program.capture->order.count, count + 1);
        assert_int_equal(sums_of(&program).bytes_frozen, (count + 1 - 10) * CHUNK);
        assert_int_equal(finish(&program, NULL), 0);
        assert_memory_equal(program.stored, program.ptr, SIZE);
    }
    munmap(then, SIZE);
    close_program(&program);
}

/* ---- looked at in the background ---- */

#define SKEWED (20 * CHUNK - 100) /* bytes, from the middle of a page on */

struct looking {
    struct program *program;
    uint8_t *seen;
    uint64_t chunks, last;
    struct vv_watch *watch, *before[8];
    unsigned watches;
    int is_ordered, is_right; /* as naming needs it; the other regions are of one byte each */
};

static int look(void *arg, struct vv_watch *watch, uint64_t first, uint32_t count, const uint8_t *data) {
    struct looking *looking = arg;
    if (watch != looking->watch) {
        for (unsigned i = 0; i < looking->watches; i++)
            looking->is_ordered &= looking->before[i] != watch; /* all of a watch together, */
        looking->is_ordered &= first == 0;                      /* from its beginning, */
        looking->before[looking->watches++] = looking->watch = watch;
    } else {
        looking->is_ordered &= first == looking->last; /* without a gap */
    }
    looking->last = first + count;
    looking->chunks += count;
    if (watch == looking->program->watch)
        memcpy(looking->seen + first * CHUNK, data, (size_t)count * CHUNK);
    uint64_t end = (first + count) * CHUNK < watch->size ? (first + count) * CHUNK : watch->size;
    for (uint64_t i = first * CHUNK; i < end && watch != looking->program->watch; i++)
        looking->is_right &= data[i - first * CHUNK] == (watch->size == 10 * CHUNK ? 6 : watch->size == SKEWED ? 4 : 5);
    return 0;
}

/* Every chunk is shown in its order, and those that are not skipped come once more; both as they were at the call. */
static void deferred(unsigned slots, unsigned every) {
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    uint8_t *second = map(SIZE, MAP_PRIVATE), *shared = map(10 * CHUNK, MAP_SHARED);
    uint8_t *skewed = map(21 * CHUNK, MAP_PRIVATE);
    struct vv_capture_plan plan = {slots * CHUNK, 1e6, 1, 0, 0, 0, 0};
    struct looking looking = {.program = &program, .seen = map(SIZE, MAP_PRIVATE), .is_ordered = 1, .is_right = 1};
    struct varve_error error = {0};
    memset(second, 5, SIZE);
    memset(shared, 6, 10 * CHUNK);
    memset(skewed, 4, 21 * CHUNK);
    assert_non_null(vv_capture_watch(program.capture, "second", second, SIZE, 0));
    assert_non_null(vv_capture_watch(program.capture, "skewed", skewed + 300, SKEWED, 0));
    assert_non_null(vv_capture_watch(program.capture, "nothing", skewed, 0, 0));
    assert_non_null(vv_capture_watch(program.capture, "shared", shared, 10 * CHUNK, 0));
    assert_int_equal(vv_capture_begin(program.capture, &plan, note_untouched, &program, &error), 0);
    assert_int_equal(vv_capture_later(program.capture), slots < 2 * PAGES + 30 ? VV_LATER_FROZEN : VV_LATER_STAGED);
    assert_int_equal(vv_capture_freeze(program.capture), 1);
    assert_int_equal(vv_capture_decide(program.capture, &error), 0);
    assert_int_equal(vv_capture_must_drain(program.capture), 0);
    assert_int_equal(vv_capture_go(program.capture, &error), 0);
    assert_int_equal(sums_of(&program).bytes_staged, 10 * CHUNK); /* what a copy does not have */
    memset(program.ptr, 9, SIZE);
    munmap(second, SIZE);
    memset(shared, 9, 10 * CHUNK);
    memset(skewed, 9, 21 * CHUNK);
    assert_int_equal(vv_capture_look(program.capture, look, &looking, &error), 0);
    assert_int_equal(looking.chunks, 2 * PAGES + 10 + 20);
    assert_true(looking.is_ordered && looking.is_right);
    assert_true(is_filled(looking.seen, SIZE, 1));
    memset(program.stored, 0, SIZE);
    for (uint64_t chunk = 0; chunk < PAGES; chunk++)
        if (every == 0 || chunk % every != 0)
            vv_capture_skip(program.capture, program.watch, chunk);
    program.seen = 0;
    assert_int_equal(finish(&program, &error), 0);
    for (uint64_t chunk = 0; chunk < PAGES && every > 0; chunk += every)
        assert_memory_equal(program.stored + chunk * CHUNK, looking.seen + chunk * CHUNK, CHUNK);
    uint64_t least = PAGES + 10 + 20 + (every ? (PAGES + every - 1) / every : 0);
    /* Of frozen ones none comes that was skipped; staged ones may. */
    assert_in_range(program.seen, least, least + slots);
    munmap(looking.seen, SIZE);
    munmap(shared, 10 * CHUNK);
    munmap(skewed, 21 * CHUNK);
    close_program(&program);
}

static void all_is_looked_at_later(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    deferred(10, 1);
    deferred(100, 7);
    deferred(1500, 2);
    deferred(40, 0);
}

/* What cannot be frozen does not fit, or another rank does not defer: everything is as before. */
static void deferring_is_undone(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    uint8_t *shared = map(20 * CHUNK, MAP_SHARED);
    struct vv_watch *watch = vv_capture_watch(program.capture, "shared", shared, 20 * CHUNK, 0);
    memset(shared, 6, 20 * CHUNK);
    for (int is_possible_here = 0; is_possible_here < 2; is_possible_here++) {
        struct vv_capture_plan plan = {10 * CHUNK, 1e6, 1, 0, 0, 0, 0};
        struct looking looking = {.program = &program, .seen = map(SIZE, MAP_PRIVATE), .is_ordered = 1, .is_right = 1};
        struct varve_error error = {0};
        fill(program.ptr, SIZE, 1);
        assert_int_equal(vv_capture_begin(program.capture, &plan, note_untouched, &program, &error), 0);
        assert_int_equal(vv_capture_later(program.capture), is_possible_here ? VV_LATER_FROZEN : VV_LATER_NOT);
        if (is_possible_here)
            assert_int_equal(vv_capture_freeze(program.capture), 1);
        vv_capture_unfreeze(program.capture);
        assert_int_equal(vv_capture_look(program.capture, look, &looking, &error), 0);
        assert_int_equal(looking.chunks, PAGES + (is_possible_here ? 0 : 20));
        assert_true(looking.is_ordered);
        vv_capture_drop(program.watch, 3);
        assert_int_equal(vv_capture_decide(program.capture, &error), 0);
        program.seen = 0;
        while (vv_capture_must_drain(program.capture))
            assert_int_equal(take(&program, &error), 1);
        assert_int_equal(vv_capture_go(program.capture, &error), 0);
        memset(program.ptr, 9, SIZE);
        assert_int_equal(finish(&program, &error), 0);
        assert_int_equal(program.seen, PAGES - 1 + (is_possible_here ? 0 : 20));
        memcpy(program.stored + 3 * CHUNK, looking.seen + 3 * CHUNK, CHUNK);
        assert_true(is_filled(program.stored, SIZE, 1));
        munmap(looking.seen, SIZE);
        if (!is_possible_here)
            vv_capture_unwatch(program.capture, watch);
    }
    munmap(shared, 20 * CHUNK);
    close_program(&program);
}

/* Ranks that disturb each other name slowly: from then on all is named in the background. */
static void slow_naming_is_deferred(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    struct vv_capture_plan plan = {10 * CHUNK, 1e12, 1, 0, 0, 0.01, 1e12};
    for (int was_slow = 0; was_slow < 2; was_slow++) {
        struct varve_error error = {0};
        fill(program.ptr, SIZE, 1);
        assert_int_equal(vv_capture_begin(program.capture, &plan, note_untouched, &program, &error), 0);
        assert_int_equal(vv_capture_later(program.capture), was_slow ? VV_LATER_FROZEN : VV_LATER_NOT);
        vv_capture_named(program.capture, 10);
        assert_int_equal(vv_capture_decide(program.capture, &error), 0);
        while (vv_capture_must_drain(program.capture))
            assert_int_equal(take(&program, &error), 1);
        assert_int_equal(vv_capture_go(program.capture, &error), 0);
        assert_int_equal(finish(&program, &error), 0);
        assert_true(is_filled(program.stored, SIZE, 1));
    }
    close_program(&program);
}

/* ---- what a copy would not have ---- */

static void expect_drained(struct program *program, uint64_t pages) {
    begin(program, 0, 0);
    assert_int_equal(sums_of(program).bytes_drained, pages * CHUNK);
    assert_int_equal(sums_of(program).bytes_frozen, SIZE - pages * CHUNK);
    memset(program->ptr, 7, SIZE);
    assert_int_equal(finish(program, NULL), 0);
    assert_true(is_filled(program->stored, SIZE, 1));
    close_program(program);
}

static void other_memory_is_drained(void **state) {
    (void)state;
    static const int advices[] = {MADV_DONTFORK, MADV_WIPEONFORK};
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_SHARED), 0);
    expect_drained(&program, PAGES);
    for (int i = 0; i < 2; i++) {
        uint8_t *at = map(SIZE, MAP_PRIVATE);
        assert_int_equal(madvise(at + 10 * CHUNK, 5 * CHUNK, advices[i]), 0);
        program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, at, 0);
        expect_drained(&program, PAGES);
    }
    program =
        open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), VARVE_DEVICE_WRITES);
    expect_drained(&program, PAGES);
    program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    expect_drained(&program, 0);
}

/* Read for one region it would be given back, and be missing for the other. */
static void overlapping_regions_are_drained(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    struct vv_watch *other = vv_capture_watch(program.capture, "other", program.ptr + 100 * CHUNK, 50 * CHUNK, 0);
    uint8_t *third = map(SIZE, MAP_PRIVATE);
    fill(third, SIZE, 2);
    assert_non_null(vv_capture_watch(program.capture, "third", third, SIZE, 0));
    assert_non_null(other);
    begin(&program, 0, 0);
    assert_int_equal(sums_of(&program).bytes_drained, (PAGES + 50) * CHUNK);
    assert_int_equal(sums_of(&program).bytes_frozen, SIZE);
    memset(program.ptr, 7, SIZE);
    assert_int_equal(finish(&program, NULL), 0);
    assert_int_equal(program.seen, 2 * PAGES + 50);
    assert_true(is_filled(program.stored, SIZE, 1));
    close_program(&program);
    munmap(third, SIZE);
}

/* Anywhere in the process: writing one that a copy has, too, takes another from the pool, which may be empty. */
static void nothing_is_frozen_beside_a_pool(void **state) {
    (void)state;
    size_t size = (size_t)2 << 20;
    if (!can_freeze())
        skip();
    void *pool =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
    if (pool == MAP_FAILED)
        skip(); /* the kernel has none */
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    expect_drained(&program, PAGES);
    munmap(pool, size);
    program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    expect_drained(&program, 0);
}

/* ---- what goes wrong ---- */

static void a_lost_copy_fails_the_checkpoint(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    for (int mode = VV_CHOOSE_CAPTURE_AUTO; mode <= VV_CHOOSE_CAPTURE_FROZEN; mode += VV_CHOOSE_CAPTURE_FROZEN) {
        struct program program = open_program(mode, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
        struct varve_error error = {0};
        begin(&program, 10, 1);
        assert_true(sums_of(&program).bytes_frozen > 0);
        assert_int_equal(take(&program, &error), 1);
        kill(vv_frozen_pid(program.capture->frozen), SIGKILL);
        memset(program.ptr, 7, SIZE);
        assert_int_equal(finish(&program, &error), -ECHILD);
        assert_non_null(strstr(error.text, "field"));
        assert_non_null(strstr(error.text, "signal 9"));
        fill(program.ptr, SIZE, 1);
        begin(&program, 10, 1); /* all of it, in another way unless this one was asked for */
        assert_int_equal(sums_of(&program).bytes_frozen > 0, mode == VV_CHOOSE_CAPTURE_FROZEN);
        assert_int_equal(finish(&program, &error), 0);
        assert_true(is_filled(program.stored, SIZE, 1));
        close_program(&program);
    }
}

static void check_refused_later(void) {
    struct program program = open_program(VV_CHOOSE_CAPTURE_FROZEN, VV_CHOOSE_TRACKER_AUTO, map(SIZE, MAP_PRIVATE), 0);
    refuse(SYS_clone, 0, ENOMEM);
    begin(&program, 10, 0);
    struct vv_capture_sums sums = sums_of(&program);
    CHECK(sums.bytes_frozen == 0 && sums.bytes_staged == 10 * CHUNK && sums.bytes_drained == SIZE - 10 * CHUNK);
    memset(program.ptr, 7, SIZE);
    CHECK(finish(&program, NULL) == 0);
    CHECK(program.seen == PAGES && is_filled(program.stored, SIZE, 1));
}

static void check_refused_from_the_start(void) {
    static const struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};
    struct vv_capture_options options = {VV_CHOOSE_CAPTURE_FROZEN, 0, VV_CHOOSE_TRACKER_NONE, &quiet};
    struct vv_capture *capture = NULL;
    struct varve_error error = {0};
    refuse(SYS_clone, 0, EPERM);
    CHECK(vv_capture_create(&options, &capture, &error) == -ENOTSUP);
    CHECK(strstr(error.text, "Operation not permitted"));
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    begin(&program, 10, 1);
    CHECK(sums_of(&program).bytes_frozen == 0 && finish(&program, NULL) == 0);
    CHECK(is_filled(program.stored, SIZE, 1));
}

/* No copy is made, not even to try it, where memory is pinned or draining is cheaper. */
static void check_not_tried(void) {
    struct program program =
        open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), VARVE_NO_DEVICE_WRITES);
    refuse(SYS_clone, 0, EPERM);
    begin_with(&program, (struct vv_capture_plan){10 * CHUNK, 1e15, 0.01, 1, 0, 0, 0});
    CHECK(finish(&program, NULL) == 0);
    CHECK(!program.capture->frozen && !program.capture->cannot_freeze);
    program.capture->pinned = 4096;
    begin(&program, 10, 1);
    CHECK(finish(&program, NULL) == 0);
    CHECK(!program.capture->frozen && !program.capture->cannot_freeze);
    program.capture->pinned = 0;
    begin(&program, 10, 1);
    CHECK(sums_of(&program).bytes_frozen == 0 && finish(&program, NULL) == 0);
    CHECK(program.capture->cannot_freeze);
    CHECK(is_filled(program.stored, SIZE, 1));
}

static void copies_that_are_not_needed(void **state) {
    (void)state;
    assert_true(in_child(check_not_tried));
}

/* A process short of something just now is asked again later. */
static void check_refused_for_a_while(void) {
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    struct rlimit limit, none;
    int frozen_at = -1;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    int next = dup(STDERR_FILENO);
    CHECK(next >= 0 && close(next) == 0);
    none.rlim_cur = (rlim_t)next + 1; /* one more, for the list of mappings, but not the two of a pipe */
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    begin(&program, 10, 1);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(sums_of(&program).bytes_frozen == 0 && finish(&program, NULL) == 0);
    for (int i = 0; i < 20 && frozen_at < 0; i++) {
        begin(&program, 10, 1);
        if (sums_of(&program).bytes_frozen > 0)
            frozen_at = i;
        CHECK(finish(&program, NULL) == 0);
    }
    CHECK(frozen_at > 0);
    CHECK(is_filled(program.stored, SIZE, 1));
}

static void copies_that_cannot_be_made(void **state) {
    (void)state;
    assert_true(in_child(check_refused_from_the_start)); /* before the answer is known here */
    if (!can_freeze())
        skip();
    assert_true(in_child(check_refused_later));
    assert_true(in_child(check_refused_for_a_while));
}

/* ---- choosing ---- */

/* The list of mappings is long: where nothing of it can be frozen, it is not read each time. */
static void nothing_to_freeze_is_remembered(void **state) {
    (void)state;
    unsigned asked = 0;
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_SHARED), 0);
    for (int i = 0; i < 20; i++) {
        program.capture->freeze_asked_ns = 0;
        begin(&program, 10, 1);
        asked += program.capture->freeze_asked_ns > 0;
        assert_int_equal(sums_of(&program).bytes_frozen, 0);
        assert_int_equal(finish(&program, NULL), 0);
    }
    assert_true(asked >= 2 && asked <= 4);
    assert_true(is_filled(program.stored, SIZE, 1));
    close_program(&program);
}

/* Nor where it takes too long for what freezing gains. */
static void long_lists_are_charged(void **state) {
    (void)state;
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    vv_cost_walked(program.capture, 1e-9, 1000);
    assert_true(program.capture->freeze_seconds_per_page == 0); /* less than was assumed says nothing of the copy */
    vv_cost_walked(program.capture, 1e5, 1000);
    begin(&program, 10, 1);
    assert_true(sums_of(&program).bytes_frozen == 0 && program.capture->freeze_asked_ns == 0);
    assert_int_equal(finish(&program, NULL), 0);
    assert_true(is_filled(program.stored, SIZE, 1));
    close_program(&program);
}

/* A program that rewrites everything at once makes the copy grow: next time some is drained, so that the copy has no
 * more than staging and two per cent, but for its stack; and with a slow one nothing. */
static void memory_is_bounded(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    uint64_t most = 50 * CHUNK + SIZE / 50, stack = 32 * CHUNK;
    for (int round = 0; round < 4; round++) {
        begin(&program, 50, 1);
        struct vv_capture_sums sums = sums_of(&program);
        uint64_t bound = round == 0 ? SIZE : SIZE - SIZE / 2;
        if (round > 1 && sums.bytes_frozen == 0) /* a busy machine had made it dear, and then it says so */
            assert_non_null(strstr(sums.reason, "cheaper than"));
        else
            assert_true(sums.bytes_frozen > 0);
        assert_true(sums.bytes_frozen <= bound);
        fill(program.ptr, SIZE, 1);
        assert_int_equal(finish(&program, NULL), 0);
        assert_true(is_filled(program.stored, SIZE, 1));
        assert_true(sums.bytes_frozen == 0 || sums_of(&program).frozen_memory > 0);
        assert_true(round == 0 || sums_of(&program).frozen_memory <= most + stack);
        print_message("frozen %u KiB, drained %u, kept %u of %u\n", (unsigned)(sums.bytes_frozen >> 10),
                      (unsigned)(sums.bytes_drained >> 10), (unsigned)(sums_of(&program).frozen_memory >> 10),
                      (unsigned)(most >> 10));
    }
    for (int round = 0; round < 8; round++) {
        begin(&program, 50, 1);
        assert_int_equal(finish(&program, NULL), 0);
        fill(program.ptr, SIZE, 1);
    }
    begin(&program, 50, 1);
    assert_true(sums_of(&program).bytes_drained < SIZE / 2);
    assert_int_equal(finish(&program, NULL), 0);
    close_program(&program);
}

/* A copy that was dear once, when the machine was busy, is not for ever. */
static void costs_fade(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    for (int way = 0; way < 3; way++) {
        struct program program =
            open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
        int frozen_at = -1;
        for (int i = 0; i < 60 && frozen_at < 0; i++) {
            begin(&program, 10, 1);
            if (i == 0) {
                program.capture->freeze_seconds_per_page = way == 0 ? 1 : 0;
                program.capture->drain_first = way == 1 ? PAGES * 10 : 0;
                program.capture->frozen_copies = way == 2 ? 1e12 : 0;
                program.capture->sums.bytes_frozen = 0; /* nothing else is learnt from this one */
            } else if (sums_of(&program).bytes_frozen > 0) {
                frozen_at = i;
            }
            assert_int_equal(finish(&program, NULL), 0);
        }
        print_message("way %d: frozen again after %d\n", way, frozen_at);
        assert_true(frozen_at > (way == 2 ? 0 : 1));
        assert_true(is_filled(program.stored, SIZE, 1));
        close_program(&program);
    }
}

static int64_t just_too_little(void) {
    return (int64_t)(PAGES - 10) * CHUNK * 2 - 2;
}
static int64_t just_enough(void) {
    return (int64_t)(PAGES - 10) * CHUNK * 2;
}

static void short_memory_is_left_alone(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    for (int mode = VV_CHOOSE_CAPTURE_AUTO; mode <= VV_CHOOSE_CAPTURE_FROZEN; mode += VV_CHOOSE_CAPTURE_FROZEN) {
        struct program program = open_program(mode, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
        program.capture->memory_left = just_too_little;
        begin(&program, 10, 1);
        assert_int_equal(sums_of(&program).bytes_frozen > 0, mode == VV_CHOOSE_CAPTURE_FROZEN); /* it was asked for */
        assert_true(sums_of(&program).bytes_frozen > 0 || strstr(sums_of(&program).reason, "too little memory"));
        assert_int_equal(finish(&program, NULL), 0);
        program.capture->memory_left = just_enough;
        begin(&program, 10, 1);
        assert_true(sums_of(&program).bytes_frozen > 0);
        assert_int_equal(finish(&program, NULL), 0);
        assert_true(is_filled(program.stored, SIZE, 1));
        close_program(&program);
    }
}

static void fast_storage_is_drained_to(void **state) {
    (void)state;
    struct program program = open_program(VV_CHOOSE_CAPTURE_AUTO, VV_CHOOSE_TRACKER_NONE, map(SIZE, MAP_PRIVATE), 0);
    begin_with(&program, (struct vv_capture_plan){10 * CHUNK, 1e15, 0.01, 1, 0, 0, 0});
    assert_int_equal(sums_of(&program).bytes_frozen, 0);
    print_message("%s\n", sums_of(&program).reason);
    assert_int_equal(finish(&program, NULL), 0);
    close_program(&program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_that_cannot_be_made),
        cmocka_unit_test(copies_that_are_not_needed),
        cmocka_unit_test(memory_is_free_at_once),
        cmocka_unit_test(notes_survive),
        cmocka_unit_test(all_is_looked_at_later),
        cmocka_unit_test(slow_naming_is_deferred),
        cmocka_unit_test(deferring_is_undone),
        cmocka_unit_test(other_memory_is_drained),
        cmocka_unit_test(overlapping_regions_are_drained),
        cmocka_unit_test(nothing_is_frozen_beside_a_pool),
        cmocka_unit_test(a_lost_copy_fails_the_checkpoint),
        cmocka_unit_test(nothing_to_freeze_is_remembered),
        cmocka_unit_test(long_lists_are_charged),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(costs_fade),
        cmocka_unit_test(short_memory_is_left_alone),
        cmocka_unit_test(fast_storage_is_drained_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
