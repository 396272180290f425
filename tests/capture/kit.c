#include "kit.h"
#include "details.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

char kit_where[256];

static void say(const char *word, const char *format, va_list args) {
    fflush(stdout);
    fprintf(stderr, "%s%s%s: ", kit_where, kit_where[0] ? ": " : "", word);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void fail(const char *format, ...) {
    va_list args;
    storage_heal(); /* or the complaint does not fit, either */
    va_start(args, format);
    say("FAILED", format, args);
    va_end(args);
    _exit(1);
}

void skip(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("skipped", format, args);
    va_end(args);
    _exit(77);
}

/* ---- randomness ---- */

uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t roll(struct dice *dice) {
    return mix(dice->state++);
}

uint64_t roll_below(struct dice *dice, uint64_t limit) {
    return roll(dice) % limit;
}

void fill(void *at, size_t size, uint64_t seed) {
    uint8_t *bytes = at;
    uint64_t state = mix(seed);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mix(state++);
        memcpy(bytes + i, &word, size - i < 8 ? size - i : 8);
    }
}

/* ---- folders and stores ---- */

void kit_folder(char *out, size_t capacity, const char *purpose) {
    const char *base = getenv("TMPDIR");
    if (!base || access(base, W_OK) != 0)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(out, capacity, "%s/capture-%s-XXXXXX", base, purpose);
    if (!mkdtemp(out))
        fail("no folder %s: %s", out, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void kit_folder_remove(const char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void log_line(void *arg, int level, const char *line) {
    (void)arg;
    if (getenv("KIT_LOG"))
        fprintf(stderr, "log %d: %s\n", level, line);
}

int kit_try_open(const char *store, const char *settings, struct varve_session **out, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    char all[512];
    /* Beats would meet storage_break, and are not what is tested. */
    snprintf(all, sizeof all, "keep=all,beat_seconds=600,dead_seconds=1200%s%s", settings[0] ? "," : "", settings);
    options.settings = all;
    options.log = log_line;
    return varve_open(store, KIT_NAME, &options, out, error);
}

struct varve_session *kit_open(const char *store, const char *settings) {
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    if (kit_try_open(store, settings, &session, &error) != 0)
        fail("open %s with %s: %s", store, settings, error.text);
    return session;
}

void kit_stats(struct varve_session *session, struct vv_details *out) {
    *out = (struct vv_details){0};
    if (vv_details_get(session, out) != 0)
        fail("no statistics: %s", varve_session_error(session)->text);
}

double kit_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void storage_break(uint64_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

void storage_heal(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* ---- images ---- */

void images_add(struct images *images, const char *name, const void *data, size_t size) {
    if (images->count == sizeof images->list / sizeof *images->list)
        fail("too many regions for this test");
    struct image *image = &images->list[images->count++];
    snprintf(image->name, sizeof image->name, "%s", name);
    image->size = size;
    image->data = malloc(size ? size : 1);
    if (!image->data)
        fail("no memory for an image of %s", name);
    memcpy(image->data, data, size);
}

void images_clear(struct images *images) {
    for (size_t i = 0; i < images->count; i++)
        free(images->list[i].data);
    *images = (struct images){.version = -1, .rank = images->rank};
}

struct difference {
    const struct image *image;
    uint64_t seen, pages, first, last;
};

static void note_differences(struct difference *difference, uint64_t offset, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size;) {
        size_t step = PAGE - (offset + i) % PAGE;
        if (step > size - i)
            step = size - i;
        if (memcmp(difference->image->data + offset + i, data + i, step) != 0) {
            if (difference->pages++ == 0)
                difference->first = (offset + i) / PAGE;
            difference->last = (offset + i) / PAGE;
        }
        i += step;
    }
}

static int compare_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct difference *difference = arg;
    if (total != difference->image->size || offset + size > total)
        return -ERANGE;
    note_differences(difference, offset, data, size);
    difference->seen += size;
    return 0;
}

static void complain(const struct difference *difference, const char *what) {
    if (difference->pages)
        fail("WRONG DATA: %s: region %s of %zu bytes: %llu chunks differ from the state at the call, first %llu, last "
             "%llu",
             what, difference->image->name, difference->image->size, (unsigned long long)difference->pages,
             (unsigned long long)difference->first, (unsigned long long)difference->last);
}

void image_compare(const struct image *image, const void *data, size_t size, const char *what) {
    struct difference difference = {.image = image};
    if (size != image->size)
        fail("%s: region %s has %zu bytes instead of %zu", what, image->name, size, image->size);
    note_differences(&difference, 0, data, size);
    complain(&difference, what);
}

struct offers {
    const struct images *images;
    size_t seen;
};

static int check_name(void *arg, const struct varve_stored_region *region) {
    struct offers *offers = arg;
    const struct images *images = offers->images;
    if (region->rank != images->rank)
        return 0;
    offers->seen++;
    for (size_t i = 0; i < images->count; i++)
        if (strcmp(images->list[i].name, region->name) == 0 && images->list[i].size == region->bytes)
            return 0;
    fail("version %lld holds region %s of %llu bytes, which was not protected so", (long long)images->version,
         region->name, (unsigned long long)region->bytes);
}

static struct varve_store *open_store(const char *store) {
    struct varve_store *opened = NULL;
    struct varve_error error = {0};
    if (varve_store_open(store, NULL, &opened, &error) != 0)
        fail("the store %s cannot be looked at: %s", store, error.text);
    return opened;
}

static void check_region(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                         const struct image *image) {
    struct difference difference = {.image = image};
    struct varve_error error = {0};
    int rc = varve_store_read(store, which, rank, image->name, 0, compare_bytes, &difference, &error);
    if (rc != 0)
        fail("version %lld, region %s of %zu bytes cannot be read back: %s", (long long)which->version, image->name,
             image->size, error.text);
    if (difference.seen != image->size)
        fail("region %s: %llu of %zu bytes came back", image->name, (unsigned long long)difference.seen, image->size);
    char what[64];
    snprintf(what, sizeof what, "version %lld", (long long)which->version);
    complain(&difference, what);
}

void images_check(const struct images *images, const char *address) {
    struct varve_store *store = open_store(address);
    struct varve_which which = {.name = KIT_NAME, .version = images->version};
    struct varve_checkpoint_detail detail;
    struct offers offers = {.images = images};
    struct varve_error error = {0};
    if (varve_store_show(store, &which, &detail, check_name, &offers, &error) != 0)
        fail("version %lld is said to be there but cannot be shown: %s", (long long)images->version, error.text);
    if (offers.seen != images->count)
        fail("version %lld holds %zu regions instead of %zu", (long long)images->version, offers.seen, images->count);
    for (size_t i = 0; i < images->count; i++)
        check_region(store, &which, images->rank, &images->list[i]);
    varve_store_close(store);
}

int is_stored(const char *address, int64_t version) {
    struct varve_store *store = open_store(address);
    struct varve_which which = {.name = KIT_NAME, .version = version};
    struct varve_error error = {0};
    int rc = varve_store_resolve(store, &which, &error);
    varve_store_close(store);
    return rc == 0;
}

/* ---- scribblers ---- */

#define SCRIBBLERS 2u

struct scribblers {
    pthread_t threads[SCRIBBLERS];
    struct scribble_target *targets;
    size_t count;
    enum scribble_pattern pattern;
    unsigned one_in;
    uint64_t seed;
    atomic_int state; /* 0 wait, 1 write, 2 stop */
    atomic_uint next;
    atomic_ullong pages;
};

/* Writes somewhere in the page: every value it may have had is another one afterwards. */
static void touch(const struct scribble_target *target, size_t page, uint64_t where) {
    size_t capacity = target->size - page * PAGE;
    if (capacity > PAGE)
        capacity = PAGE;
    volatile uint8_t *at = target->ptr + page * PAGE;
    at[where % capacity]++;
    at[capacity - 1] = (uint8_t)(at[capacity - 1] + 3);
}

static size_t pages_of(const struct scribble_target *target) {
    return (target->size + PAGE - 1) / PAGE;
}

/* The n-th page that a pattern visits. Any number without a factor of pages visits all of them in turn; a prime above
 * every count here will do. */
static size_t visit(enum scribble_pattern pattern, size_t n, size_t pages) {
    if (pattern == ASCENDING)
        return n;
    return pattern == DESCENDING ? pages - 1 - n : (size_t)((n * UINT64_C(1000003) + 7) % pages);
}

static int is_chosen(unsigned one_in, uint64_t seed, size_t target, size_t page) {
    return one_in <= 1 || mix(seed ^ (target << 40) ^ page) % one_in == 0;
}

static void scribble_target(struct scribblers *all, size_t target, unsigned self, uint64_t pass) {
    const struct scribble_target *at = &all->targets[target];
    size_t pages = pages_of(at);
    for (size_t n = 0; n < pages && atomic_load(&all->state) == 1; n++) {
        size_t page = visit(all->pattern, n, pages);
        /* Neighbours in memory go to different threads, but no byte to two of them. */
        if ((page + target) % SCRIBBLERS != self || !is_chosen(all->one_in, all->seed, target, page))
            continue;
        touch(at, page, mix(all->seed + pass * pages + page));
        atomic_fetch_add(&all->pages, 1);
    }
}

static void *scribbler(void *arg) {
    struct scribblers *all = arg;
    unsigned self = atomic_fetch_add(&all->next, 1);
    while (atomic_load(&all->state) == 0)
        usleep(50);
    for (uint64_t pass = 0; atomic_load(&all->state) == 1; pass++) {
        for (size_t i = 0; i < all->count; i++)
            scribble_target(all, i, self, pass);
        usleep(1000); /* leave something of the processor to others */
    }
    return NULL;
}

struct scribblers *scribblers_prepare(const struct scribble_target *targets, size_t count,
                                      enum scribble_pattern pattern, unsigned one_in, uint64_t seed) {
    struct scribblers *all = calloc(1, sizeof *all);
    if (!all || !(all->targets = calloc(count ? count : 1, sizeof *targets)))
        fail("no memory for scribblers");
    memcpy(all->targets, targets, count * sizeof *targets);
    all->count = count;
    all->pattern = pattern;
    all->one_in = one_in;
    all->seed = seed;
    for (unsigned i = 0; i < SCRIBBLERS; i++)
        if (pthread_create(&all->threads[i], NULL, scribbler, all) != 0)
            fail("no thread to scribble with");
    return all;
}

void scribblers_go(struct scribblers *all) {
    atomic_store(&all->state, 1);
}

uint64_t scribblers_stop(struct scribblers *all) {
    atomic_store(&all->state, 2);
    for (unsigned i = 0; i < SCRIBBLERS; i++)
        pthread_join(all->threads[i], NULL);
    uint64_t pages = atomic_load(&all->pages);
    free(all->targets);
    free(all);
    return pages;
}

void scribble_once(const struct scribble_target *target, unsigned one_in, uint64_t seed) {
    for (size_t page = 0; page < pages_of(target); page++)
        if (is_chosen(one_in, seed, 0, page))
            touch(target, page, mix(seed + page));
}
