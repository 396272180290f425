/* Descriptions of arrays that somebody has invented, in checkpoints whose digests are all right: whoever asks for the
 * array gets an answer with its name, soon, and nobody reads or writes what is not there. */
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "../unit/store_data.h"
#include "arrays/global_array.h"

#define OWNERS 3
#define HUGE_COUNT (UINT64_C(1) << 38)

struct hostile {
    const char *what;
    const char *problem; /* what is said of it contains this; NULL: it is whole, and may be read */
    uint64_t length;     /* of each owner's region, in bytes; all of it zeros */
    struct vv_region_shape shape[OWNERS];
};

#define DIM(global_, first_, local_, block_, every_)                                                                   \
    {                                                                                                                  \
        .global = global_, .first = first_, .local = local_, .stride = { block_, every_ }                              \
    }
#define ONE(...)                                                                                                       \
    {                                                                                                                  \
        .type = VARVE_U64, .dims = 1, .dim = { __VA_ARGS__ }                                                           \
    }

static const struct hostile cases[] = {
    {"an array as it should be",
     NULL,
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(300, 100, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"blocks that overlap",
     "ranks 0 and 1 have both stored [99:100]",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(300, 99, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"a block outside",
     "is not the array that it says",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(300, 250, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"a block beyond all numbers",
     "is not the array that it says",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(UINT64_MAX, UINT64_MAX - 10, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"sizes that give other bytes",
     "is not the array that it says",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(300, 100, 99, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"a product that overflows to the length",
     "is not the array that it says",
     0,
     {{.type = VARVE_U64,
       .dims = 2,
       .dim = {DIM(UINT64_C(1) << 32, 0, UINT64_C(1) << 32, 0, 0), DIM(UINT64_C(1) << 32, 0, UINT64_C(1) << 32, 0, 0)}},
      {.type = VARVE_U64, .dims = 2, .dim = {DIM(UINT64_C(1) << 32, 0, 0, 0, 0), DIM(UINT64_C(1) << 32, 0, 0, 0, 0)}},
      {.type = VARVE_U64, .dims = 2, .dim = {DIM(UINT64_C(1) << 32, 0, 0, 0, 0), DIM(UINT64_C(1) << 32, 0, 0, 0, 0)}}}},
    {"sixteen dimensions of 2^63",
     "more bytes than an array can have",
     8,
     {{.type = VARVE_U64, .dims = 16, .dim = {[0 ... 15] = DIM(UINT64_C(1) << 63, 0, 1, 0, 0)}},
      {.type = VARVE_U64, .dims = 16, .dim = {[0 ... 15] = DIM(UINT64_C(1) << 63, 0, 1, 0, 0)}},
      {.type = VARVE_U64, .dims = 16, .dim = {[0 ... 15] = DIM(UINT64_C(1) << 63, 0, 1, 0, 0)}}}},
    {"blocks of nothing",
     "is not the array that it says",
     800,
     {ONE(DIM(300, 0, 100, 0, 5)), ONE(DIM(300, 100, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"blocks longer than their distance",
     "is not the array that it says",
     800,
     {ONE(DIM(3000, 0, 100, 9, 5)), ONE(DIM(3000, 100, 100, 0, 0)), ONE(DIM(3000, 200, 100, 0, 0))}},
    {"distances that overflow",
     "is not the array that it says",
     800,
     {ONE(DIM(UINT64_MAX, 0, 100, 1, UINT64_MAX / 2)), ONE(DIM(UINT64_MAX, 1, 100, 0, 0)),
      ONE(DIM(UINT64_MAX, 200, 100, 0, 0))}},
    {"strides that never meet, for ever",
     "are stored by no rank",
     HUGE_COUNT * 8,
     {ONE(DIM(HUGE_COUNT * 8, 0, HUGE_COUNT, 1, 4)), ONE(DIM(HUGE_COUNT * 8, 1, HUGE_COUNT, 1, 6)),
      ONE(DIM(HUGE_COUNT * 8, 2, HUGE_COUNT, 1, 4))}},
    {"two types",
     "different sizes or types",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)),
      {.type = VARVE_I64, .dims = 1, .dim = {DIM(300, 100, 100, 0, 0)}},
      ONE(DIM(300, 200, 100, 0, 0))}},
    {"two sizes",
     "different sizes or types",
     800,
     {ONE(DIM(300, 0, 100, 0, 0)), ONE(DIM(301, 100, 100, 0, 0)), ONE(DIM(300, 200, 100, 0, 0))}},
    {"a list of some",
     "others not",
     800,
     {ONE(DIM(100, 0, 100, 0, 0)),
      {.type = VARVE_U64, .dims = 1, .distribution = VARVE_JOINED, .dim = {DIM(100, 0, 100, 0, 0)}},
      ONE(DIM(100, 0, 100, 0, 0))}},
};

static void write_checkpoint(struct vv_store *store, const struct hostile *hostile) {
    for (uint32_t owner = 0; owner < OWNERS; owner++) {
        struct vv_pack_options options = {.writer = owner,
                                          .writers = OWNERS,
                                          .ranks = OWNERS,
                                          .first_owner = owner,
                                          .owners = 1,
                                          .part_size = 1u << 30,
                                          .program = "test"};
        struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
        struct vv_region_entry entry = {.number = 1,
                                        .flags = VV_REGION_DESCRIBED,
                                        .length = hostile->length,
                                        .name = "array",
                                        .shape = hostile->shape[owner]};
        struct mf mf;
        mf_begin(&mf, owner, (hostile->length + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE);
        vv_manifest_region(&mf.writer, &entry, 0);
        if (hostile->length)
            mf_run(&mf, VV_RUN_ZERO, hostile->length, NULL, 0);
        vv_manifest_region_end(&mf.writer, (struct vv_hash128){0, 0});
        mf.head.regions = 1;
        mf.head.protected_bytes = hostile->length;
        mf_store(&mf, pack, NULL);
        assert_ok(vv_pack_seal(pack, hostile->length, 1, NULL, &failure));
    }
    commit(store, attempt_at(1, 1), NULL);
}

static int keep_problem(void *arg, const struct varve_global_array *array) {
    assert_string_equal(array->name, "array");
    snprintf(arg, 400, "%s", array->is_private ? "private" : array->problem);
    return 0;
}

static int count_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)offset, (void)data, (void)total;
    *(uint64_t *)arg += size;
    return 0;
}

static void try_case(const struct hostile *hostile, const char *address) {
    struct varve_store *store;
    struct varve_which which = {.name = NAME, .version = 1};
    char problem[400] = "nothing";
    uint64_t bytes = 0;
    assert_int_equal(varve_store_open(address, NULL, &store, &failure), 0);
    assert_int_equal(varve_store_arrays(store, &which, NULL, keep_problem, problem, &failure), 0);
    int rc = varve_store_read_array(store, &which, "array", NULL, 0, count_bytes, &bytes, &failure);
    if (!hostile->problem) {
        assert_int_equal(rc, 0);
        assert_int_equal(bytes, OWNERS * hostile->length);
    } else if (!strstr(problem, hostile->problem) || rc != VARVE_MISMATCH || bytes || !strstr(failure.text, "array")) {
        fail_msg("%s: \"%s\"; read: %d, %llu bytes, %s", hostile->what, problem, rc, (unsigned long long)bytes,
                 failure.text);
    }
    varve_store_close(store);
}

/* One rank wants all of it. */
static void try_restart(const struct hostile *hostile, const char *address) {
    static uint64_t data[300], before[300];
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 1, .dim = {{300, 0, 300}}};
    struct varve_session *session;
    int64_t version;
    memset(data, 7, sizeof data);
    memset(before, hostile->problem ? 7 : 0, sizeof before);
    assert_int_equal(varve_open(address, NAME, NULL, &session, &failure), 0);
    assert_int_equal(varve_protect_array(session, "array", data, &array), 0);
    int rc = varve_restart(session, VARVE_LATEST, &version);
    if (rc != (hostile->problem ? VARVE_MISMATCH : 0) || memcmp(data, before, sizeof data) != 0)
        fail_msg("%s: restart: %d %s", hostile->what, rc, varve_session_error(session)->text);
    if (hostile->problem && !strstr(varve_session_error(session)->text, "array"))
        fail_msg("%s: the array is not named: %s", hostile->what, varve_session_error(session)->text);
    varve_close(session);
}

static void hostile_descriptions_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char address[64];
        snprintf(address, sizeof address, "mem://hostile%zu", i);
        alarm(30); /* nothing here may take for ever */
        struct vv_store *store = open_store(address);
        write_checkpoint(store, &cases[i]);
        try_case(&cases[i], address);
        try_restart(&cases[i], address);
        vv_store_close(store);
    }
    alarm(0);
}

/* A manifest that has the name twice, as arrays of other sizes: the second one is rank 0's as well. */
static void one_rank_cannot_have_two(void **state) {
    const struct vv_region_shape shapes[2] = {ONE(DIM(200, 0, 100, 0, 0)), ONE(DIM(400, 100, 300, 0, 0))};
    struct vv_global_arrays arrays = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct vv_recipe_region region = {.name = "array", .length = i == 0 ? 800 : 2400, .shape = shapes[i]};
        assert_ok(vv_global_arrays_describe(&arrays, 0, &region, &failure));
    }
    assert_ok(vv_global_arrays_check(&arrays, 0, &failure));
    assert_true(arrays.count == 1 && arrays.list[0].is_ambiguous && arrays.list[0].missing == 0);
    assert_non_null(strstr(arrays.list[0].problem, "ranks 0 and 0 have stored blocks of arrays of different sizes"));
    vv_global_arrays_clear(&arrays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_descriptions_are_refused_by_name),
        cmocka_unit_test(one_rank_cannot_have_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
