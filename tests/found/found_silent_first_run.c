/* A mistyped name or path looked like a first run, and nothing said so: the job computed from the start for days.
 * Now one warning tells what was looked for and what is there instead, once per session, on rank 0 only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "ranks.h"
#include "test.h"

static char told[4096];
static int lines;

static void note_line(void *arg, int level, const char *line) {
    (void)arg;
    if (level > 1) /* quieter than the default */
        return;
    lines++;
    strncat(told, line, sizeof told - strlen(told) - 2);
    strcat(told, "\n");
}

static struct varve_session *open_name(const char *address, const char *name) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    options.log = note_line;
    told[0] = 0;
    lines = 0;
    if (varve_open(address, name, &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    told[0] = 0; /* what open says is not our subject */
    lines = 0;
    return session;
}

static void make_checkpoint(const char *address, const char *name) {
    char byte = 1;
    struct varve_session *session = open_name(address, name);
    assert_int_equal(varve_protect(session, "byte", &byte, 1), 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_close(session), 0);
}

static void a_mistyped_name(void **state) {
    char address[512];
    (void)state;
    snprintf(address, sizeof address, "%s/ck", ranks_folder());
    make_checkpoint(address, "heat");
    make_checkpoint(address, "lulesh");
    struct varve_session *session = open_name(address, "heat2");
    assert_int_equal(varve_stored(session, VARVE_LATEST, NULL, NULL, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(told, "no checkpoint of heat2 in "));
    assert_non_null(strstr(told, address));
    assert_non_null(strstr(told, "a first run (names there: heat, lulesh)"));
}

static void a_mistyped_path(void **state) {
    char address[512];
    (void)state;
    snprintf(address, sizeof address, "%s/kc", ranks_folder());
    struct varve_session *session = open_name(address, "heat");
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(told, "a first run (the store is new)"));
    session = open_name(address, "heat"); /* it is there now, and has nothing else */
    assert_int_equal(varve_continue(session, VARVE_LATEST, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(told, "a first run (no other names are there)"));
}

static void many_names_stay_one_line(void **state) {
    char address[512], name[32];
    (void)state;
    snprintf(address, sizeof address, "%s/many", ranks_folder());
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "run%02d", i);
        assert_int_equal(varve_close(open_name(address, name)), 0);
    }
    struct varve_session *session = open_name(address, "other");
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(told, "run00"));
    assert_non_null(strstr(told, " and 7 more)"));
}

static void a_restart_says_nothing(void **state) {
    char address[512], byte = 0;
    (void)state;
    snprintf(address, sizeof address, "%s/ck", ranks_folder());
    make_checkpoint(address, "heat");
    struct varve_session *session = open_name(address, "heat");
    assert_int_equal(varve_protect(session, "byte", &byte, 1), 0);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(lines, 0);
}

static void look(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

static void one_rank_says_it(void **state) {
    struct plan plan = {.fn = look};
    (void)state;
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "restart", 1, VARVE_NO_CHECKPOINT, -1, "");
    assert_non_null(strstr(board->log[0], "a first run"));
    for (int rank = 1; rank < RANKS; rank++)
        assert_null(strstr(board->log[rank], "a first run"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_mistyped_name, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(a_mistyped_path, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(many_names_stay_one_line, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(a_restart_says_nothing, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(one_rank_says_it, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
