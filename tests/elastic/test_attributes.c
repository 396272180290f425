/* Small values that a program attaches to its checkpoints: they come with each, change with it, and never stand in the
 * way of a restart. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "format/attributes.h"
#include "group.h"
#include "test.h"

static char folder[128], address[160];

static int setup(void **state) {
    (void)state;
    if (folder_make(NULL, "test-attributes", folder, sizeof folder) != 0)
        return -1;
    snprintf(address, sizeof address, "file://%s", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    options.settings = settings;
    if (varve_open(address, "run", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    return session;
}

static int append(void *arg, const char *name, const char *value) {
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, 1000 - used, "%s=%s;", name, value);
    return 0;
}

static void must_have(int64_t version, const char *wanted) {
    struct varve_which which = {.name = "run", .version = version};
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    char text[1000] = "";
    assert_int_equal(varve_store_open(address, NULL, &store, &error), 0);
    if (varve_store_attributes(store, &which, append, text, &error) != 0)
        fail_msg("%s", error.text);
    assert_string_equal(text, wanted);
    varve_store_close(store);
}

static void save(struct varve_session *session, int64_t version) {
    if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
        fail_msg("%s", varve_session_error(session)->text);
}

static void come_with_each_checkpoint(void **state) {
    uint64_t data[600] = {1, 2, 3};
    struct varve_session *session = open_session("keep=all");
    (void)state;
    assert_int_equal(varve_protect(session, "data", data, sizeof data), 0);
    save(session, 1);
    assert_int_equal(varve_attribute(session, "time", "0.25"), 0);
    assert_int_equal(varve_attribute(session, "commit", "abc"), 0);
    save(session, 2);
    assert_int_equal(varve_attribute(session, "time", "0.50000"), 0);
    save(session, 3);
    assert_int_equal(varve_attribute(session, "commit", NULL), 0);
    save(session, 4);
    assert_int_equal(varve_attribute(session, "time", NULL), 0);
    assert_int_equal(varve_attribute(session, "never", NULL), 0);
    save(session, 5);
    assert_int_equal(varve_close(session), 0);
    must_have(1, "");
    must_have(2, "time=0.25;commit=abc;");
    must_have(3, "commit=abc;time=0.50000;");
    must_have(4, "time=0.50000;");
    must_have(5, "");
}

/* With as many attributes as were stored, with fewer, with more and with none; nobody is asked for their memory. */
static void leave_restarts_alone(void **state) {
    uint64_t data[600] = {1, 2, 3}, back[600] = {0};
    int64_t version;
    struct varve_session *session = open_session("");
    (void)state;
    assert_int_equal(varve_protect(session, "data", data, sizeof data), 0);
    assert_int_equal(varve_attribute(session, "time", "0.25"), 0);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    for (int way = 0; way < 3; way++) {
        session = open_session("");
        assert_int_equal(varve_protect(session, "data", back, sizeof back), 0);
        if (way > 0)
            assert_int_equal(varve_attribute(session, "time", way == 1 ? "0.25" : "longer than before"), 0);
        memset(back, 0, sizeof back);
        if (varve_restart(session, VARVE_LATEST, &version) != 0)
            fail_msg("%s", varve_session_error(session)->text);
        assert_memory_equal(back, data, sizeof data);
        save(session, version + 1);
        assert_int_equal(varve_close(session), 0);
    }
    must_have(2, "");
    must_have(3, "time=0.25;");
    must_have(4, "time=longer than before;");
}

static void *give(void *arg, const struct varve_region_info *region) {
    (*(int *)arg)++;
    static uint64_t given[600];
    return strcmp(region->name, "data") == 0 && region->bytes == sizeof given ? given : NULL;
}

static void take_back(void *arg, const char *region, void *ptr) {
    (void)arg;
    (void)region;
    (void)ptr;
}

static int count_region(void *arg, const struct varve_region_info *region) {
    (void)region;
    (*(int *)arg)++;
    return 0;
}

static void are_no_region_for_programs(void **state) {
    uint64_t data[600] = {1, 2, 3};
    int asked = 0, told = 0;
    int64_t version;
    struct varve_session *session = open_session("");
    (void)state;
    assert_int_equal(varve_protect(session, "data", data, sizeof data), 0);
    assert_int_equal(varve_attribute(session, "time", "0.25"), 0);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    session = open_session("");
    assert_int_equal(varve_protect(session, VV_ATTRIBUTES, data, sizeof data), -EINVAL);
    assert_int_equal(varve_stored(session, VARVE_LATEST, count_region, &told, &version), 0);
    assert_int_equal(told, 1);
    const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give, .release = take_back};
    if (varve_restart_alloc(session, VARVE_LATEST, &allocator, &asked, &version) != 0)
        fail_msg("%s", varve_session_error(session)->text);
    assert_int_equal(asked, 1);
    assert_int_equal(varve_close(session), 0);
}

static void are_refused_when_too_many(void **state) {
    static char large[VV_ATTRIBUTES_MOST], name[300];
    struct varve_session *session = open_session("");
    (void)state;
    memset(large, 'x', sizeof large - 1);
    memset(name, 'n', sizeof name - 1);
    assert_int_equal(varve_attribute(session, "large", large), -E2BIG);
    assert_int_equal(varve_attribute(session, name, "value"), -EINVAL);
    assert_int_equal(varve_attribute(session, "", "value"), -EINVAL);
    assert_int_equal(varve_attribute(session, NULL, "value"), -EINVAL);
    large[sizeof large - 10] = '\0';
    assert_int_equal(varve_attribute(session, "large", large), 0);
    assert_int_equal(varve_attribute(session, "more", "value"), -E2BIG);
    save(session, 1); /* what was there stays */
    assert_int_equal(varve_close(session), 0);
}

/* On other ranks; what rank 0 says counts, and it is a private region of which nobody has to say what becomes. */
static void run_rank(struct varve_comm *comm, void *arg) {
    const char *time = arg;
    uint64_t row[100];
    char mine[32];
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    int64_t version = 0;
    uint64_t first = 120 * (uint64_t)comm->rank / comm->ranks, end = 120 * ((uint64_t)comm->rank + 1) / comm->ranks;
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 1, .dim = {{end - first, first, 120}}};
    snprintf(mine, sizeof mine, "%s", comm->rank ? "of another rank" : time);
    int rc = varve_open_comm(group_comm(comm), address, "run", NULL, &session, &error);
    rc = rc ? rc : varve_protect_array(session, "row", row, &array);
    rc = rc ? rc : varve_attribute(session, "time", mine);
    if (rc == 0 && strcmp(time, "1") != 0)
        rc = varve_restart(session, VARVE_LATEST, &version);
    for (uint64_t i = first; rc == 0 && version == 0 && i < end; i++)
        row[i - first] = i * i;
    for (uint64_t i = first; rc == 0 && i < end; i++)
        if (row[i - first] != i * i)
            group_fail(comm, "element %d is wrong", (int)i);
    rc = rc ? rc : varve_checkpoint(session, version + 1);
    rc = rc ? rc : varve_wait(session);
    if (rc)
        group_fail(comm, "%s %s", error.text, session ? varve_session_error(session)->text : "");
    if (varve_close(session) != 0)
        group_fail(comm, "close failed");
}

static void go_with_other_ranks(void **state) {
    (void)state;
    group_must_run(4, run_rank, "1", NULL, NULL);
    group_must_run(3, run_rank, "2", NULL, NULL);
    group_must_run(2, run_rank, "3 and longer", NULL, NULL);
    must_have(1, "time=1;");
    must_have(2, "time=2;");
    must_have(3, "time=3 and longer;");
}

static void must_be_pairs(void **state) {
    struct vv_attribute attribute;
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int first;
    } cases[] = {{"", 0, 0},         {"a\0b", 4, 1},       {"a\0b", 3, -EBADMSG}, {"a", 2, -EBADMSG},
                 {"a", 1, -EBADMSG}, {"\0b", 3, -EBADMSG}, {"a\0", 3, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vv_attribute_reader reader = {cases[i].bytes, cases[i].size};
        assert_int_equal(vv_attribute_next(&reader, &attribute), cases[i].first);
    }
}

static void the_tool_tells_them(void **state) {
    char command[600];
    uint64_t data[10] = {0};
    struct varve_session *session = open_session("");
    (void)state;
    assert_int_equal(varve_protect(session, "data", data, sizeof data), 0);
    assert_int_equal(varve_attribute(session, "simulated time", "12.5 s"), 0);
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    snprintf(command, sizeof command, "%s show %s run | grep -q '^attribute   simulated time = 12.5 s$'", VARVE_TOOL,
             address);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s show %s run | grep -q '^regions     1$'", VARVE_TOOL, address);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s ls -L %s | grep -q 'simulated time=12.5 s'", VARVE_TOOL, address);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s ls --long --json %s | grep -q '\"value\": *\"12.5 s\"'", VARVE_TOOL, address);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s show %s run | grep -q varve:attributes", VARVE_TOOL, address);
    assert_int_not_equal(system(command), 0);
    snprintf(command, sizeof command, "%s verify %s >/dev/null", VARVE_TOOL, address);
    assert_int_equal(system(command), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(come_with_each_checkpoint), TEST(leave_restarts_alone), TEST(are_no_region_for_programs),
        TEST(are_refused_when_too_many), TEST(go_with_other_ranks),  TEST(the_tool_tells_them),
        cmocka_unit_test(must_be_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
