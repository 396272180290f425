#include "ranks.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "test.h"

#define NAME "job"
#define SETTINGS "keep=all,block_size=64K,threads=0,beat_seconds=1,dead_seconds=2,takeover_seconds=20"

static struct board *board;
static char folder[128];
static const uint32_t *nodes;

/* ---- in the test ---- */

int ranks_setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    return folder_make(NULL, "varve-ranks", folder, sizeof folder);
}

int ranks_teardown(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

const char *ranks_folder(void) {
    return folder;
}

int ranks_stride(void) {
    const char *percent = getenv("TEST_SCALE");
    return percent && atoi(percent) > 0 && atoi(percent) <= 25 ? 4 : 1;
}

struct start {
    const struct plan *plan;
    struct board *board;
};

static void run_job(struct varve_comm *comm, void *arg) {
    const struct plan *plan = ((struct start *)arg)->plan;
    struct ranks_job *job = calloc(1, sizeof *job);
    if (!job)
        abort();
    job->comm = comm;
    job->plan = plan;
    job->board = ((struct start *)arg)->board;
    job->folder = folder;
    job->rank = (int)comm->rank;
    job->is_faulty = job->rank == plan->faulty_rank;
    plan->fn(job);
    free(job);
}

static void compare_answers(const struct answer *first, const struct answer *other, int rank) {
    int is_same = first->code == other->code && first->version == other->version &&
                  strcmp(first->call, other->call) == 0 && first->error.code == other->error.code &&
                  first->error.rank == other->error.rank && strcmp(first->error.text, other->error.text) == 0;
    if (!is_same)
        fail_msg("%s: rank 0 was told %s, version %" PRId64 ", error %d of rank %d (%s);\n"
                 "rank %d: %s: %s, version %" PRId64 ", error %d of rank %d (%s)",
                 first->call, varve_error_name(first->code), first->version, first->error.code, first->error.rank,
                 first->error.text, rank, other->call, varve_error_name(other->code), other->version, other->error.code,
                 other->error.rank, other->error.text);
}

void ranks_place(const uint32_t *node_of) {
    nodes = node_of;
}

static uint32_t ranks_of(const struct plan *plan) {
    return plan->ranks ? plan->ranks : RANKS;
}

int ranks_run_on(struct board *of, const struct plan *plan, struct group_end *end) {
    struct group_options options = {.seconds = 60, .node_of = nodes};
    struct start start = {plan, of};
    memset(of, 0, sizeof *of);
    return group_run(ranks_of(plan), run_job, &start, &options, end);
}

void ranks_compare(const struct board *of, const struct plan *plan) {
    for (uint32_t rank = 1; rank < ranks_of(plan); rank++) {
        assert_int_equal(of->count[rank], of->count[0]);
        for (size_t i = 0; i < of->count[0]; i++)
            compare_answers(&of->answers[0][i], &of->answers[rank][i], (int)rank);
    }
}

const struct board *ranks_run(const struct plan *plan) {
    struct group_end end;
    char text[256];
    if (ranks_run_on(board, plan, &end) != 0) {
        group_describe(&end, text, sizeof text);
        fail_msg("%s", text);
    }
    ranks_compare(board, plan);
    return board;
}

const struct answer *ranks_answer(const struct board *of, const char *call, int n) {
    for (size_t i = 0; i < of->count[0]; i++)
        if (strcmp(of->answers[0][i].call, call) == 0 && --n == 0)
            return &of->answers[0][i];
    fail_msg("there was no such call of %s", call);
    return NULL;
}

void ranks_expect(const struct board *of, const char *call, int n, int code, int rank, const char *word) {
    const struct answer *answer = ranks_answer(of, call, n);
    if (answer->code != code)
        fail_msg("%s number %d gave %s (%s), not %s", call, n, varve_error_name(answer->code), answer->error.text,
                 varve_error_name(code));
    if (code >= 0)
        return;
    assert_int_equal(answer->error.code, code);
    if (rank >= 0 && answer->error.rank != rank)
        fail_msg("%s failed on rank %d, and is said to have failed on rank %d: %s", call, rank, answer->error.rank,
                 answer->error.text);
    if (!strstr(answer->error.text, word))
        fail_msg("%s failed with \"%s\", which says nothing about \"%s\"", call, answer->error.text, word);
}

static char wanted[64], found[512];

static int look_at(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    size_t size = strlen(path), end = strlen(wanted);
    (void)st, (void)ftw;
    /* .../data/GGGGGGGG/VVVVVVVVVVVVVVVV/AAAAAAAA/WWWWWWWW: compare version and writer, keep the last in order of names
     */
    if (kind != FTW_F || size < 45 + end || strcmp(path + size - 8, wanted + 17) != 0 ||
        strncmp(path + size - 34, wanted, 16) != 0 || strncmp(path + size - 49, "/data/", 6) != 0)
        return 0;
    if (strcmp(path, found) > 0)
        snprintf(found, sizeof found, "%s", path);
    return 0;
}

void ranks_pack_path(int64_t version, int writer, char *out, size_t capacity) {
    snprintf(wanted, sizeof wanted, "%016" PRIx64 "/%08x", (uint64_t)version, (unsigned)writer);
    found[0] = '\0';
    nftw(folder, look_at, 16, FTW_PHYS);
    if (!found[0])
        fail_msg("there is no pack of version %" PRId64 ", writer %d", version, writer);
    snprintf(out, capacity, "%s", found);
}

/* ---- in the ranks ---- */

static void note_line(void *arg, int level, const char *line) {
    struct ranks_job *job = arg;
    char *log = job->board->log[job->rank];
    size_t used = strlen(log);
    if (getenv("GROUP_LOG"))
        fprintf(stderr, "rank %d [%d] %s\n", job->rank, level, line);
    if (level <= 1)
        snprintf(log + used, sizeof job->board->log[0] - used, "%s\n", line);
}

static void note(struct ranks_job *job, const char *call, int code, int64_t version, const struct varve_error *error) {
    size_t *count = &job->board->count[job->rank];
    if (*count == ANSWERS_MAX)
        group_fail(job->comm, "more calls than the board has room for");
    struct answer *answer = &job->board->answers[job->rank][(*count)++];
    snprintf(answer->call, sizeof answer->call, "%s", call);
    answer->code = code;
    answer->version = version;
    if (code < 0 && error)
        answer->error = *error;
    if (getenv("GROUP_LOG"))
        fprintf(stderr, "rank %d: %s: %s, version %" PRId64 ": %s\n", job->rank, call, varve_error_name(code), version,
                code < 0 && error ? error->text : "");
}

int rank_note(struct ranks_job *job, const char *call, int code, int64_t version) {
    note(job, call, code, version, varve_session_error(job->session));
    return code;
}

int rank_open_as(struct ranks_job *job, const char *address, const char *name, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char usual[512], all[256];
    const char *fault = job->is_faulty ? job->plan->fault : NULL;
    const char *more = settings ? settings : job->plan->settings;
    snprintf(usual, sizeof usual, "file://%s%s%s", job->folder, fault ? "?fault=" : "", fault ? fault : "");
    snprintf(all, sizeof all, SETTINGS "%s%s", more && *more ? "," : "", more ? more : "");
    options.settings = all;
    options.log = note_line;
    options.log_arg = job;
    int rc = varve_open_comm(group_comm(job->comm), address ? address : usual, name ? name : NAME, &options,
                             &job->session, &error);
    note(job, "open", rc, -2, &error);
    if (rc == 0)
        rank_protect(job);
    else
        job->session = NULL;
    return rc;
}

int rank_open(struct ranks_job *job) {
    return rank_open_as(job, NULL, NULL, NULL);
}

int rank_close(struct ranks_job *job) {
    int rc = varve_close(job->session);
    job->session = NULL;
    note(job, "close", rc, -2, NULL);
    return rc;
}

void rank_protect(struct ranks_job *job) {
    if (varve_protect(job->session, "field", job->field, sizeof job->field) != 0 ||
        varve_protect(job->session, "step", &job->step, sizeof job->step) != 0)
        group_fail(job->comm, "protect: %s", varve_session_error(job->session)->text);
}

/* A third of the pages is new in each version. */
static uint8_t byte_of(int rank, int64_t version, size_t at) {
    size_t page = at / 4096;
    uint64_t x = (uint64_t)rank * 1000003 + page * 10007 + (uint64_t)(version + (int64_t)page) / 3 * 101 + at;
    x = (x ^ (x >> 13)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(x >> 40);
}

void rank_set(struct ranks_job *job, int64_t version) {
    for (size_t i = 0; i < sizeof job->field; i++)
        job->field[i] = byte_of(job->rank, version, i);
    job->step = (uint64_t)version;
}

void rank_garbage(struct ranks_job *job) {
    memset(job->field, 0xa5, sizeof job->field);
    memset(&job->step, 0xa5, sizeof job->step);
}

void rank_check(struct ranks_job *job, int64_t version) {
    for (size_t i = 0; i < sizeof job->field; i++)
        if (job->field[i] != byte_of(job->rank, version, i))
            group_fail(job->comm, "WRONG BYTES: version %" PRId64 " differs at %zu", version, i);
    if (job->step != (uint64_t)version)
        group_fail(job->comm, "WRONG BYTES: step %" PRIu64 " in version %" PRId64, job->step, version);
}

void rank_check_garbage(struct ranks_job *job) {
    for (size_t i = 0; i < sizeof job->field; i++)
        if (job->field[i] != 0xa5)
            group_fail(job->comm, "a restart that promised to write nothing has written byte %zu", i);
    if (job->step != UINT64_C(0xa5a5a5a5a5a5a5a5))
        group_fail(job->comm, "a restart that promised to write nothing has written the step");
}

int rank_checkpoint(struct ranks_job *job, int64_t version) {
    rank_set(job, version);
    return rank_note(job, "checkpoint", varve_checkpoint(job->session, version), -2);
}

int rank_wait(struct ranks_job *job) {
    return rank_note(job, "wait", varve_wait(job->session), -2);
}

int rank_restart(struct ranks_job *job, int64_t version) {
    int64_t got = -2;
    rank_garbage(job);
    int rc = varve_restart(job->session, version, &got);
    rank_note(job, "restart", rc, got);
    if (rc == 0)
        rank_check(job, got);
    if (rc == VARVE_NO_CHECKPOINT || rc == VARVE_MISMATCH)
        rank_check_garbage(job);
    return rc;
}

void rank_make_store(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    for (int64_t version = 1; version <= job->plan->value; version++)
        rank_checkpoint(job, version);
    rank_close(job);
}
