/* Node-local stores, and a job that comes back on another number of ranks: on all its nodes, or without one that is
 * lost with its disk. What an element should be follows from its place in the global array and the version alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define ROWS 300
#define COLUMNS 700
#define LIST 1000

struct life {
    uint32_t ranks;
    uint32_t node_of[12];
    int64_t back;  /* the version that must come back; 0: it is the first life */
    int64_t saved; /* and the one that is saved then; 0: none */
    int is_by_columns;
    const char *settings;
    int is_mute;       /* the group cannot exchange messages */
    int code;          /* of the restart, whose error says `words`, */
    const char *words; /* and of which rank 0's log has a line with `logged` */
    const char *logged;
};

static char folder[128];

static uint64_t value_of(uint64_t place, int64_t version) {
    /* A tenth of the rows changes from version to version. */
    uint64_t row = place / COLUMNS, salt = (uint64_t)version - (((uint64_t)version - row) % 10);
    return (place + 1) * UINT64_C(0x9e3779b97f4a7c15) + salt;
}

struct part {
    uint64_t first, count; /* rows or columns */
    uint64_t list_first, list_count;
    uint64_t *field, *list;
};

static void cut(const struct life *life, uint32_t rank, struct part *out) {
    uint64_t size = life->is_by_columns ? COLUMNS : ROWS;
    out->first = size * rank / life->ranks;
    out->count = size * (rank + 1) / life->ranks - out->first;
    out->list_first = LIST * rank / life->ranks;
    out->list_count = LIST * (rank + 1) / life->ranks - out->list_first;
    out->field = calloc(ROWS * COLUMNS, sizeof *out->field);
    out->list = calloc(LIST, sizeof *out->list);
}

static uint64_t place_of(const struct life *life, const struct part *part, uint64_t i) {
    return life->is_by_columns ? i / part->count * COLUMNS + part->first + i % part->count : part->first * COLUMNS + i;
}

static uint64_t elements_of(const struct life *life, const struct part *part) {
    return part->count * (life->is_by_columns ? ROWS : COLUMNS);
}

static int protect(struct varve_session *session, const struct life *life, struct part *part) {
    struct varve_array field = {.size = sizeof field, .type = VARVE_U64, .dims = 2}, list = field;
    field.dim[0] =
        (struct varve_dim){life->is_by_columns ? ROWS : part->count, life->is_by_columns ? 0 : part->first, ROWS};
    field.dim[1] =
        (struct varve_dim){life->is_by_columns ? part->count : COLUMNS, life->is_by_columns ? part->first : 0, COLUMNS};
    list.dims = 1;
    list.dim[0] = (struct varve_dim){part->list_count, 0, part->list_count};
    int rc = varve_protect_array(session, "field", part->field, &field);
    rc = rc ? rc : varve_protect_array(session, "list", part->list, &list);
    return rc ? rc : varve_distribute(session, "list", VARVE_JOINED);
}

static void fill(const struct life *life, struct part *part, int64_t version) {
    for (uint64_t i = 0; i < elements_of(life, part); i++)
        part->field[i] = value_of(place_of(life, part, i), version);
    for (uint64_t i = 0; i < part->list_count; i++)
        part->list[i] = value_of(part->list_first + i, version);
}

static void check(struct varve_comm *comm, const struct life *life, const struct part *part, int64_t version) {
    for (uint64_t i = 0; i < elements_of(life, part); i++)
        if (part->field[i] != value_of(place_of(life, part, i), version))
            group_fail(comm, "WRONG: element %d of the field", (int)i);
    for (uint64_t i = 0; i < part->list_count; i++)
        if (part->list[i] != value_of(part->list_first + i, version))
            group_fail(comm, "WRONG: element %d of the list", (int)i);
}

static struct varve_comm *comm_of(struct varve_comm *comm, const struct life *life) {
    static struct varve_comm_ops mute;
    struct varve_comm *made = group_comm(comm);
    mute = *made->ops;
    mute.exchange = NULL;
    if (life->is_mute)
        made->ops = &mute;
    return made;
}

struct hearing {
    const char *wanted;
    int is_heard;
};

static void hear(void *arg, int level, const char *line) {
    struct hearing *hearing = arg;
    (void)level;
    hearing->is_heard |= hearing->wanted && strstr(line, hearing->wanted);
}

static int is_written(const struct life *life, const struct part *part) {
    for (uint64_t i = 0; i < elements_of(life, part); i++)
        if (part->field[i] != 0)
            return 1;
    return 0;
}

/* It must have failed, and said so. */
static void check_refusal(struct varve_comm *comm, const struct life *life, struct varve_session *session, int rc,
                          const struct part *part, const struct hearing *hearing) {
    const char *text = varve_session_error(session)->text;
    if (rc != life->code || !strstr(text, life->words))
        group_fail(comm, "%s instead of %s: %s", varve_error_name(rc), varve_error_name(life->code), text);
    if (is_written(life, part))
        group_fail(comm, "it was refused, but something was written");
    if (hearing->wanted && comm->rank == 0 && !hearing->is_heard)
        group_fail(comm, "the log does not say: %s", hearing->wanted);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct life *life = arg;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    struct part part;
    char store[256], settings[256];
    int64_t version = 0;
    cut(life, comm->rank, &part);
    snprintf(store, sizeof store, "%s/node%u", folder, life->node_of[comm->rank]);
    snprintf(settings, sizeof settings,
             "storage=local,copies=2,keep=20,block_size=64K,beat_seconds=1,dead_seconds=2,takeover_seconds=20%s%s",
             life->settings ? "," : "", life->settings ? life->settings : "");
    struct hearing hearing = {.wanted = life->logged};
    options.settings = settings;
    options.log = hear;
    options.log_arg = &hearing;
    int rc = varve_open_comm(comm_of(comm, life), store, "job", &options, &session, &error);
    if (rc)
        group_fail(comm, "open: %s", error.text);
    rc = protect(session, life, &part);
    rc = rc || !life->back ? rc : varve_restart(session, VARVE_LATEST, &version);
    if (life->code) {
        check_refusal(comm, life, session, rc, &part, &hearing);
        rc = 0;
        version = life->back;
    }
    if (rc)
        group_fail(comm, "restart: %s", varve_session_error(session)->text);
    if (version != life->back)
        group_fail(comm, "version %d came back", (int)version);
    if (life->back && !life->code)
        check(comm, life, &part, version);
    for (int64_t next = version + 1; rc == 0 && next <= life->saved; next++) {
        fill(life, &part, next);
        rc = varve_checkpoint(session, next);
        rc = rc ? rc : varve_wait(session);
    }
    if (rc)
        group_fail(comm, "save: %s", varve_session_error(session)->text);
    if (varve_close(session) != 0)
        group_fail(comm, "close failed");
    free(part.field);
    free(part.list);
}

static void live(const struct life *life) {
    const struct group_options options = {.node_of = life->node_of};
    group_must_run(life->ranks, run_rank, life, &options, NULL);
}

static void lose(uint32_t node) {
    char path[256];
    snprintf(path, sizeof path, "%s/node%u", folder, node);
    assert_int_equal(folder_remove(path), 0);
}

static int setup(void **state) {
    (void)state;
    return folder_make(NULL, "local-elastic", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const struct life eight = {.ranks = 8, .node_of = {0, 0, 1, 1, 2, 2, 3, 3}, .saved = 3};

static void other_ranks_on_the_same_nodes(void **state) {
    (void)state;
    live(&eight);
    live(&(struct life){.ranks = 4, .node_of = {0, 1, 2, 3}, .back = 3, .saved = 5});
    live(&(struct life){
        .ranks = 12, .node_of = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}, .back = 5, .saved = 6, .is_by_columns = 1});
    live(&(struct life){.ranks = 8, .node_of = {0, 0, 1, 1, 2, 2, 3, 3}, .back = 6});
}

/* Two ranks on each of four nodes; one is lost, and nobody takes its place. */
static void without_a_lost_node(void **state) {
    (void)state;
    for (uint32_t lost = 0; lost < 4; lost++) {
        struct life six = {.ranks = 6, .back = 3, .saved = 5, .is_by_columns = (int)(lost % 2)};
        struct life three = {.ranks = 3, .back = 5, .saved = 6};
        for (uint32_t node = 0, used = 0; node < 4; node++)
            if (node != lost) {
                six.node_of[2 * used] = six.node_of[2 * used + 1] = three.node_of[used] = node;
                used++;
            }
        teardown(NULL);
        setup(NULL);
        live(&eight);
        lose(lost);
        live(&six);
        live(&three);
    }
}

/* And once more: what has only one copy left gets another one. */
static void one_node_after_the_other(void **state) {
    (void)state;
    live(&eight);
    lose(1);
    live(&(struct life){.ranks = 6, .node_of = {0, 0, 2, 2, 3, 3}, .back = 3, .saved = 4});
    lose(3);
    live(&(struct life){.ranks = 4, .node_of = {0, 0, 2, 2}, .back = 4, .saved = 5});
}

/* Of a rank that is gone: a copy of what it has stored is lost, and later checkpoints of fewer ranks refer to that. It
 * is noticed, and the next checkpoint depends on nothing that is there once. */
static void copy_of_a_rank_that_is_gone(void **state) {
    char path[256];
    (void)state;
    live(&eight);
    live(&(struct life){.ranks = 4, .node_of = {0, 1, 2, 3}, .back = 3, .saved = 4});
    for (int version = 1; version <= 3; version++) {
        snprintf(path, sizeof path, "%s/node0/n/job/data/00000001/%016x/00000000/00000006.copy", folder, version);
        assert_int_equal(unlink(path), 0);
    }
    live(&(struct life){.ranks = 4, .node_of = {0, 1, 2, 3}, .back = 4, .saved = 5});
    for (int node = 0; node < 4; node++)
        for (int generation = 1; generation <= 2; generation++) {
            snprintf(path, sizeof path, "%s/node%d/n/job/data/%08d", folder, node, generation);
            assert_int_equal(folder_remove(path), 0);
        }
    lose(3);
    live(&(struct life){.ranks = 3, .node_of = {0, 1, 2}, .back = 5});
}

/* Both nodes that have a part are lost: the others learn of which rank, and get nothing. */
static void two_nodes_that_had_each_other(void **state) {
    (void)state;
    live(&eight);
    lose(1);
    lose(2);
    live(&(struct life){.ranks = 2,
                        .node_of = {0, 3},
                        .back = 3,
                        .code = VARVE_CORRUPT,
                        .words = "version 3: all regions of rank 2 are lost",
                        .logged = "version 1: all regions of rank 2 are lost"});
    live(&(struct life){
        .ranks = 6, .node_of = {0, 0, 0, 3, 3, 3}, .back = 3, .code = VARVE_CORRUPT, .words = "of rank 2 are lost"});
}

/* A group that cannot exchange messages comes back as it was, and not on other ranks. */
static void without_messages(void **state) {
    struct life four = {.ranks = 4, .node_of = {0, 0, 1, 1}, .saved = 2, .is_mute = 1};
    (void)state;
    live(&four);
    live(&(struct life){.ranks = 2,
                        .node_of = {0, 1},
                        .back = 2,
                        .is_mute = 1,
                        .code = VARVE_MISMATCH,
                        .words = "the ranks cannot ask each other for what their nodes have: run it with 4"});
    live(&(struct life){.ranks = 6,
                        .node_of = {0, 0, 0, 1, 1, 1},
                        .back = 2,
                        .is_mute = 1,
                        .code = VARVE_MISMATCH,
                        .words = "run it with 4"});
    four.back = 2;
    four.saved = 3;
    live(&four);
    live(&(struct life){.ranks = 2, .node_of = {0, 1}, .back = 3}); /* this one can */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(other_ranks_on_the_same_nodes), TEST(without_a_lost_node), TEST(one_node_after_the_other),
        TEST(two_nodes_that_had_each_other), TEST(without_messages),    TEST(copy_of_a_rank_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
