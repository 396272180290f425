/* Restarts of ranks that share data on shared storage: what several need is read once and passed on. Bytes read are
 * those that the count wrapper has seen. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "folder.h"
#include "group.h"
#include "session/session.h"
#include "test.h"

#define RANKS_MOST 16
#define SIZE (4u << 20)
#define UNEVEN (SIZE - 1234)

enum shape {
    SAME, /* all ranks hold the same */
    OWN,  /* nothing is shared */
    MIXED /* a half is the same for all, a quarter for pairs; the rest is each rank's own */
};

struct plan {
    enum shape shape;
    uint32_t ranks;
    const char *settings;
    int versions; /* to make; 0: restart */
    int64_t from;
    uint64_t fail_at; /* the allocation of rank 1 that fails in its restart; 0: none */
    int has_callback; /* the same bytes are also protected behind callbacks, which the calling thread must call */
};

/* What the ranks tell the test. */
struct board {
    int code[RANKS_MOST];
    int64_t version[RANKS_MOST];
    uint64_t read[RANKS_MOST];
    char text[RANKS_MOST][256];
    uint64_t allocations; /* of rank 1 in its restart */
};

static struct board *board;
static char folder[128];

/* ---- in the ranks ---- */

struct rank {
    const struct plan *plan;
    struct varve_comm *comm;
    struct vv_session *session;
    uint8_t *field;
    uint8_t *loaded;
    pthread_t self;
};

static uint8_t byte_of(uint64_t who, int64_t version, size_t at) {
    uint64_t page = at / 4096, x = who * 1000003 + page * 10007 + (uint64_t)(version + (int64_t)page) / 3 * 101 + at;
    x = (x ^ (x >> 13)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(x >> 40);
}

static uint64_t owner_of(const struct rank *rank, size_t at) {
    uint32_t r = rank->comm->rank;
    if (rank->plan->shape == SAME)
        return 1000;
    if (rank->plan->shape == OWN)
        return r;
    return at < SIZE / 2 ? 1000 : at < SIZE / 4 * 3 ? 500 + r / 2 : r;
}

static void fill(struct rank *rank, int64_t version) {
    for (size_t i = 0; i < UNEVEN; i++)
        rank->field[i] = byte_of(owner_of(rank, i), version, i);
}

static void check(struct rank *rank, const uint8_t *data, int64_t version) {
    for (size_t i = 0; i < UNEVEN; i++)
        if (data[i] != byte_of(owner_of(rank, i), version, i))
            group_fail(rank->comm, "WRONG BYTES: version %" PRId64 " differs at %zu", version, i);
}

static uint64_t bytes_read(const struct rank *rank) {
    struct vv_backend_counts counts;
    if (vv_count_get(rank->session->job.store->backend, &counts) != 0)
        group_fail(rank->comm, "there is no count");
    return counts.bytes_read;
}

static int get_length(void *arg, uint64_t *out) {
    (void)arg;
    *out = UNEVEN;
    return 0;
}

static int save_field(void *arg, uint64_t offset, void *buffer, size_t size) {
    struct rank *rank = arg;
    memcpy(buffer, rank->field + offset, size);
    return 0;
}

static int load_field(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    struct rank *rank = arg;
    if (total != UNEVEN || offset + size > UNEVEN || !pthread_equal(pthread_self(), rank->self))
        return 1;
    memcpy(rank->loaded + offset, buffer, size);
    return 0;
}

static void open_rank(struct rank *rank) {
    static const struct varve_callbacks callbacks = {sizeof callbacks, get_length, save_field, load_field, 0};
    struct vv_settings settings;
    static struct vv_log log = {.level = VV_LOG_ERROR, .rank = -1};
    struct varve_error error = {0};
    char text[256], address[256];
    snprintf(text, sizeof text, "block_size=128K,beat_seconds=1,dead_seconds=2,takeover_seconds=20,codec=none,%s",
             rank->plan->settings);
    snprintf(address, sizeof address, "file://%s?count=1", folder);
    vv_settings_init(&settings);
    int rc = vv_settings_load(&settings, text, &log, &error);
    if (rc == 0)
        rc = vv_session_open(address, "job", &settings, &log, group_comm(rank->comm), &rank->session, &error);
    if (rc)
        group_fail(rank->comm, "open: %s", error.text);
    rc = vv_session_protect(rank->session, "field", rank->field, UNEVEN, 0);
    if (rc == 0 && rank->plan->has_callback)
        rc = vv_session_protect_callback(rank->session, "again", &callbacks, rank);
    if (rc)
        group_fail(rank->comm, "protect: %d", rc);
}

static void save_all(struct rank *rank) {
    for (int64_t version = 1; version <= rank->plan->versions; version++) {
        struct varve_error error = {0};
        fill(rank, version);
        int rc = vv_session_checkpoint(rank->session, version, &error);
        if (rc == 0)
            rc = vv_session_wait(rank->session, &error);
        if (rc)
            group_fail(rank->comm, "checkpoint %" PRId64 ": %s", version, error.text);
    }
}

static void restart(struct rank *rank) {
    struct vv_restart_options options = {.version = rank->plan->from};
    struct varve_error error = {0};
    uint32_t r = rank->comm->rank;
    uint64_t before = bytes_read(rank);
    memset(rank->field, 0xa5, UNEVEN);
    vv_alloc_fail_at(r == 1 ? rank->plan->fail_at : 0);
    board->code[r] = vv_session_restart(rank->session, &options, &board->version[r], &error);
    if (r == 1)
        board->allocations = vv_alloc_count();
    vv_alloc_fail_at(0);
    board->read[r] = bytes_read(rank) - before;
    snprintf(board->text[r], sizeof board->text[r], "%.255s", error.text);
    if (board->code[r] == 0)
        check(rank, rank->field, board->version[r]);
    if (board->code[r] == 0 && rank->plan->has_callback)
        check(rank, rank->loaded, board->version[r]);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm, .field = malloc(SIZE), .loaded = malloc(SIZE)};
    rank.self = pthread_self();
    open_rank(&rank);
    if (rank.plan->versions)
        save_all(&rank);
    else
        restart(&rank);
    struct varve_comm *inner = rank.session->job.given;
    vv_session_close(rank.session);
    inner->ops->close(inner);
    free(rank.field);
    free(rank.loaded);
}

/* ---- in the test ---- */

static int setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    return folder_make(NULL, "varve-peers", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

static void run(const struct plan *plan) {
    struct group_options options = {.seconds = 60, .ranks_per_node = 4};
    memset(board, 0, sizeof *board);
    group_must_run(plan->ranks, run_rank, plan, &options, NULL);
}

/* Make versions 1 to n, then come back to `from`. Returns the bytes that all ranks together have read. */
static uint64_t come_back(struct plan *plan, int versions, int64_t from, int64_t expected) {
    uint64_t sum = 0;
    plan->versions = versions;
    if (versions)
        run(plan);
    plan->versions = 0;
    plan->from = from;
    run(plan);
    for (uint32_t i = 0; i < plan->ranks; i++) {
        if (board->code[i] != 0)
            fail_msg("rank %u: %s", i, board->text[i]);
        assert_int_equal(board->version[i], expected);
        sum += board->read[i];
    }
    return sum;
}

static void assert_at_most(uint64_t bytes, uint64_t unique, double factor) {
    print_message("[          ] %.3f of the unique bytes\n", (double)bytes / (double)unique);
    if ((double)bytes > factor * (double)unique)
        fail_msg("%" PRIu64 " bytes were read of %" PRIu64, bytes, unique);
}

static void same_everywhere(void **state) {
    (void)state;
    struct plan plan = {.shape = SAME, .ranks = 16, .settings = "dedup=exact,threads=2"};
    assert_at_most(come_back(&plan, 1, VARVE_LATEST, 1), UNEVEN, 1.1);
    plan.settings = "dedup=exact,threads=0";
    assert_at_most(come_back(&plan, 0, VARVE_LATEST, 1), UNEVEN, 1.1);
}

/* Versions that depend on each other. */
static void several_versions(void **state) {
    (void)state;
    struct plan plan = {.shape = SAME, .ranks = 5, .settings = "dedup=exact,threads=2"};
    assert_at_most(come_back(&plan, 4, VARVE_LATEST, 4), UNEVEN, 1.6); /* old blocks have dead bytes in them */
    come_back(&plan, 0, 2, 2);
}

/* Nobody needs anything of the others: as if each were alone. */
static void nothing_shared(void **state) {
    (void)state;
    struct plan plan = {.shape = OWN, .ranks = 6, .settings = "dedup=exact,threads=2"};
    uint64_t together = come_back(&plan, 1, VARVE_LATEST, 1);
    assert_at_most(together, UINT64_C(6) * UNEVEN, 1.1);
}

static void mixed(void **state) {
    (void)state;
    uint64_t unique = SIZE / 2 + SIZE / 4 * 4 + (UNEVEN - SIZE / 4 * 3) * UINT64_C(8);
    struct plan plan = {.shape = MIXED, .ranks = 8, .settings = "dedup=exact,threads=2"};
    assert_at_most(come_back(&plan, 1, VARVE_LATEST, 1), unique, 1.1);
    plan.settings = "dedup=exact,threads=1,restart_window=1M"; /* few bytes per round, and little is kept */
    come_back(&plan, 0, VARVE_LATEST, 1);
}

static void behind_callbacks(void **state) {
    (void)state;
    struct plan plan = {.shape = MIXED, .ranks = 4, .settings = "dedup=exact,threads=2", .has_callback = 1};
    come_back(&plan, 2, VARVE_LATEST, 2);
}

/* ---- packs, by the end of their path ---- */

static char wanted[64], found[512];

static int look_at(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    size_t size = strlen(path), end = strlen(wanted);
    (void)st, (void)ftw;
    if (kind == FTW_F && size > end && strcmp(path + size - end, wanted) == 0)
        snprintf(found, sizeof found, "%s", path);
    return 0;
}

static int has_pack(unsigned version, unsigned writer) {
    snprintf(wanted, sizeof wanted, "%016x/00000000/%08x", version, writer);
    found[0] = '\0';
    nftw(folder, look_at, 16, FTW_PHYS);
    return found[0] != '\0';
}

/* Four ranks share a writer, and so every block: one of them reads and decodes it for all. */
static void shared_writers(void **state) {
    (void)state;
    static const char *const settings[] = {
        "dedup=local,threads=2,aggregate=4,grouping=aware-block,group_block=4K",
        "dedup=local,threads=2,aggregate=4,grouping=aware-block,group_block=1K,codec=lz4",
        "dedup=local,threads=1,aggregate=4,grouping=aware,codec=zstd,restart_window=1M",
        "dedup=local,threads=0,aggregate=4,grouping=agnostic",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct plan plan = {.shape = OWN, .ranks = 8, .settings = settings[i], .has_callback = i == 1};
        uint64_t read = come_back(&plan, 1, VARVE_LATEST, 1);
        assert_at_most(read, UINT64_C(8) * UNEVEN, 1.25);
        assert_true(has_pack(1, 1) && !has_pack(1, 2));
        come_back(&plan, 3, VARVE_LATEST, 3);
        teardown(NULL);
        setup(NULL);
    }
}

/* One rank's pack is damaged: others need it, too, and all go back together. */
static void damaged_pack(void **state) {
    (void)state;
    struct plan plan = {.shape = SAME, .ranks = 4, .settings = "dedup=exact,threads=2", .versions = 2};
    run(&plan);
    assert_true(has_pack(2, 1));
    FILE *file = fopen(found, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 100, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, 100, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    come_back(&plan, 0, VARVE_LATEST, 1);
    assert_int_equal(unlink(found), 0);
    come_back(&plan, 0, VARVE_LATEST, 1);
}

/* One rank has no memory at some point: all are told the same, and nobody waits for ever. */
static void no_memory(void **state) {
    (void)state;
    struct plan plan = {.shape = MIXED, .ranks = 3, .settings = "dedup=exact,threads=2"};
    come_back(&plan, 2, VARVE_LATEST, 2);
    uint64_t count = board->allocations, failed = 0;
    if (count == 0)
        skip(); /* a build without fault points */
    /* How many a restart can do without differs from run to run: if too few failed, the next ones are tried. */
    const uint64_t step = count / 15 + 1;
    for (uint64_t i = 0; i < step && failed <= 3; i++)
        for (uint64_t k = 1 + i; k <= count; k += step) {
            plan.fail_at = k;
            run(&plan);
            assert_true(board->code[0] == 0 || board->code[0] == -ENOMEM);
            assert_int_equal(board->code[1], board->code[0]);
            assert_int_equal(board->code[2], board->code[0]);
            failed += board->code[0] != 0;
        }
    assert_true(failed > 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(same_everywhere), TEST(several_versions), TEST(nothing_shared),
                                       TEST(mixed),           TEST(behind_callbacks), TEST(shared_writers),
                                       TEST(damaged_pack),    TEST(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
