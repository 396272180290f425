/* Fine chunks on several ranks: each stores finely what it has changed, what several hold is stored once, and all of
 * it comes back on every rank, whoever writes for whom and wherever it is kept, with a rank that fails in between. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve.h>

#include "details.h"
#include "edits.h"
#include "folder.h"
#include "group.h"
#include "test.h"

#define RANKS 4
#define VERSIONS 7 /* 1 to 6, and one that fails */
#define CAPACITY (64 * 1024)
#define FAILING 4

struct board {
    int codes[VERSIONS + 1][RANKS];
    struct vv_details stats[VERSIONS + 1][RANKS];
};

struct plan {
    const char *settings;
    int is_local; /* each rank is a node with a store of its own */
    uint32_t sparse;
    uint64_t seed;
};

struct job {
    const struct plan *plan;
    struct varve_comm *comm;
    struct varve_session *session;
    struct piece now, then[VERSIONS + 1];
    int is_refusing;
};

static char folder[64];
static struct board *board;
static uint64_t first_seed;

/* ---- in a rank ---- */

static int ask_length(void *arg, uint64_t *length) {
    (void)arg;
    *length = 5000;
    return 0;
}

static int ask_bytes(void *arg, uint64_t offset, void *data, size_t size) {
    const struct job *job = arg;
    memset(data, (int)(job->comm->rank + offset % 7 + 1), size);
    return job->is_refusing ? -EDOM : 0;
}

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)data, (void)size;
    return total == 5000 ? 0 : -EILSEQ;
}

static void open_session(struct job *job) {
    const struct plan *plan = job->plan;
    char address[160];
    struct varve_options options = {.size = sizeof options, .settings = plan->settings};
    struct varve_error error;
    if (plan->is_local)
        snprintf(address, sizeof address, "file://%s/node%u", folder, job->comm->rank);
    else
        snprintf(address, sizeof address, "file://%s/all", folder);
    if (varve_open_comm(group_comm(job->comm), address, "fine", &options, &job->session, &error) != 0)
        group_fail(job->comm, "open: %s", error.text);
    struct varve_callbacks callbacks = {
        .size = sizeof callbacks, .length = ask_length, .save = ask_bytes, .load = take_bytes};
    if (varve_protect_callback(job->session, "asked", &callbacks, job) != 0)
        group_fail(job->comm, "protect");
}

static void protect(struct job *job) {
    if (varve_protect(job->session, "field", job->now.data, job->now.size) != 0)
        group_fail(job->comm, "protect");
}

/* The same whole granules and the same small pieces on several ranks, at different places; and edits of each rank's
 * own. */
static void edit(struct job *job, int version) {
    uint32_t rank = job->comm->rank;
    struct piece shared;
    edits_seed(job->plan->seed + (uint64_t)version * 1000);
    piece_make(&shared, 4 * 4096, 4 * 4096);
    piece_noise(&shared, 0, shared.size);
    if (version == 1)
        for (size_t i = 0; i < job->now.size; i++)
            job->now.data[i] = (uint8_t)edits_draw(256);
    edits_seed(job->plan->seed + (uint64_t)version * 1000 + rank + 1);
    for (uint32_t n = edits_draw(30); n > 0; n--)
        edits_one(&job->now, 1, 64, 1);
    for (uint32_t i = 0; i < 4; i++) {
        size_t at = edits_draw(2) ? edits_draw(16) * 4096 : edits_draw(900) * 64;
        size_t length = edits_draw(2) ? 4096 : 64 * (1 + edits_draw(8));
        if (at + length <= job->now.size)
            memcpy(job->now.data + at, shared.data + (size_t)i * 4096, length);
    }
    piece_free(&shared);
}

static void save(struct job *job, int version) {
    uint32_t rank = job->comm->rank;
    job->is_refusing = version == FAILING && rank == job->plan->sparse;
    protect(job);
    int rc = varve_checkpoint(job->session, version);
    if (rc == 0)
        rc = varve_wait(job->session);
    board->codes[version][rank] = rc;
    vv_details_get(job->session, &board->stats[version][rank]);
    if (rc != (version == FAILING ? -EDOM : 0))
        group_fail(job->comm, "checkpoint %d: %s", version, varve_session_error(job->session)->text);
}

static void remember(struct job *job, int version) {
    piece_make(&job->then[version], job->now.size, CAPACITY);
    memcpy(job->then[version].data, job->now.data, job->now.size);
}

static void check(struct job *job, int version) {
    const struct piece *then = &job->then[version];
    job->now.size = then->size;
    memset(job->now.data, 0xa5, CAPACITY);
    protect(job);
    if (varve_restart(job->session, version, NULL) != 0)
        group_fail(job->comm, "restart of %d: %s", version, varve_session_error(job->session)->text);
    if (memcmp(job->now.data, then->data, then->size) != 0)
        group_fail(job->comm, "WRONG BYTES: version %d (%s), seed %llu", version, job->plan->settings,
                   (unsigned long long)job->plan->seed);
}

static void end_job(struct job *job) {
    varve_close(job->session);
    for (int version = 0; version <= VERSIONS; version++)
        piece_free(&job->then[version]);
    piece_free(&job->now);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    struct job job = {.plan = arg, .comm = comm};
    piece_make(&job.now, 50000 + comm->rank * 1000, CAPACITY);
    open_session(&job);
    for (int version = 1; version <= 5; version++) {
        edit(&job, version);
        remember(&job, version);
        save(&job, version);
    }
    for (int version = 1; version <= 5; version++)
        if (version != FAILING)
            check(&job, version);
    varve_close(job.session);
    open_session(&job); /* others go on from there */
    check(&job, 5);
    for (int version = 6; version <= VERSIONS; version++) {
        edit(&job, version);
        remember(&job, version);
        save(&job, version);
    }
    for (int version = VERSIONS; version > 0; version--)
        if (version != FAILING)
            check(&job, version);
    end_job(&job);
}

/* The same once more without saving it: then what is stored must be all that. */
static void run_again(struct varve_comm *comm, void *arg) {
    struct job job = {.plan = arg, .comm = comm};
    piece_make(&job.now, 50000 + comm->rank * 1000, CAPACITY);
    for (int version = 1; version <= VERSIONS; version++) {
        if (version == 6) { /* it had gone back to 5 */
            memset(job.now.data, 0xa5, CAPACITY);
            job.now.size = job.then[5].size;
            memcpy(job.now.data, job.then[5].data, job.now.size);
        }
        edit(&job, version);
        remember(&job, version);
    }
    open_session(&job);
    check(&job, VERSIONS);
    end_job(&job);
}

/* ---- in the test ---- */

static void look_at_stores(const struct plan *plan) {
    char command[300];
    for (int node = 0; node < (plan->is_local ? RANKS : 1); node++) {
        if (plan->is_local)
            snprintf(command, sizeof command, "%s verify %s/node%d >/dev/null", VARVE_TOOL, folder, node);
        else
            snprintf(command, sizeof command, "%s verify %s/all >/dev/null", VARVE_TOOL, folder);
        assert_int_equal(system(command), 0);
    }
}

/* How many chunks were found elsewhere. */
static uint64_t try_once(const char *settings, int is_local, uint32_t sparse) {
    static uint64_t count;
    struct plan plan = {settings, is_local, sparse, first_seed + 100000 * count++};
    struct group_options options = {.seconds = 60, .ranks_per_node = is_local ? 1 : 0, .has_second = (int)(count % 2)};
    struct group_end end;
    char text[256], lost[80];
    assert_int_equal(folder_make(NULL, "test-fine", folder, sizeof folder), 0);
    memset(board, 0, sizeof *board);
    int rc = group_run(RANKS, run_rank, &plan, &options, &end);
    if (rc == 0)
        look_at_stores(&plan);
    if (rc == 0 && is_local) { /* a node is lost: the others have what it had */
        snprintf(lost, sizeof lost, "%s/node%u", folder, sparse);
        assert_int_equal(folder_remove(lost), 0);
        rc = group_run(RANKS, run_again, &plan, &options, &end);
    }
    assert_int_equal(folder_remove(folder), 0);
    group_describe(&end, text, sizeof text);
    if (rc)
        fail_msg("%s: %s", settings, text);
    uint64_t first = 0, shifted = 0, fixed = 0;
    for (int version = 2; version <= VERSIONS; version++)
        for (int rank = 0; rank < RANKS; rank++) {
            first += board->stats[version][rank].chunks_first;
            shifted += board->stats[version][rank].chunks_shifted;
            fixed += board->stats[version][rank].chunks_fixed;
        }
    assert_true(first > 0 && fixed > 0); /* they were used */
    return shifted;
}

/* The edits of one seed may by chance have none (1794828555 with chunks of 256 bytes): then those of two others. */
static void try(const char *settings, int is_local, uint32_t sparse) {
    int wants_shifted = !strstr(settings, "dedup=none") && !strstr(settings, "basic");
    uint64_t shifted = try_once(settings, is_local, sparse);
    for (int more = 2; more > 0 && wants_shifted && shifted == 0; more--)
        shifted = try_once(settings, is_local, sparse);
    if (wants_shifted)
        assert_true(shifted > 0);
}

#define QUIET ",keep=all,log=error"

static void one_store(void **unused) {
    (void)unused;
    try("fine=64,dedup=exact,aggregate=1" QUIET, 0, 2);
    try("fine=64,dedup=none,aggregate=1" QUIET, 0, 0);
    try("fine=32,dedup=local,aggregate=1,capture=sync" QUIET, 0, 3);
    try("fine=64,fine_method=basic,dedup=exact,aggregate=1" QUIET, 0, 1);
}

static void one_writer(void **unused) {
    (void)unused;
    try("fine=64,dedup=exact,aggregate=4" QUIET, 0, 1);
    try("fine=64,dedup=none,aggregate=4" QUIET, 0, 2);
    try("fine=256,dedup=exact,aggregate=2,capture=sync,threads=0" QUIET, 0, 0);
}

/* Partners keep copies of the pieces. */
static void a_store_on_each_node(void **unused) {
    (void)unused;
    try("storage=local,fine=64,dedup=exact,copies=2,aggregate=1" QUIET, 1, 1);
    try("storage=local,fine=64,dedup=none,copies=2,aggregate=1" QUIET, 1, 3);
    try("storage=local,fine=64,dedup=exact,copies=2,aggregate=4" QUIET, 1, 0);
    try("storage=local,fine=32,dedup=none,copies=3,capture=sync,threads=0" QUIET, 1, 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_store),
        cmocka_unit_test(one_writer),
        cmocka_unit_test(a_store_on_each_node),
    };
    int rounds = argc > 1 ? atoi(argv[1]) : 1, failed = 0;
    board = group_memory(sizeof *board);
    first_seed = edits_first_seed();
    for (int i = 0; i < rounds && failed == 0; i++)
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    group_memory_free(board, sizeof *board);
    return failed;
}
