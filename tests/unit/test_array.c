/* Regions that say what they hold: the description is stored and comes back, values come back as promised. */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "backend/backend.h"
#include "details.h"
#include "test.h"

#define NX 300
#define NY 200
#define COUNT ((size_t)NX * NY)

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    options.settings = settings;
    if (varve_open("mem://array", "array", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    return session;
}

static int forget_store(void **unused) {
    (void)unused;
    vv_mem_drop("array");
    return 0;
}

static double *waves(double phase) {
    double *field = malloc(COUNT * sizeof *field);
    for (size_t i = 0; i < COUNT; i++)
        field[i] = 100 * sin(0.03 * (double)(i % NX) + phase) * cos(0.02 * (double)(i / NX));
    return field;
}

static struct varve_array block_of(const char *lossy, double bound) {
    return (struct varve_array){.size = sizeof(struct varve_array),
                                .type = VARVE_F64,
                                .dims = 2,
                                .dim = {{NY, NY, 4 * NY}, {NX, 0, 0}},
                                .lossy = lossy,
                                .bound = bound};
}

static void save(struct varve_session *s, int64_t version) {
    if (varve_checkpoint(s, version) != 0 || varve_wait(s) != 0)
        fail_msg("checkpoint: %s", varve_session_error(s)->text);
}

/* ---- what is told ---- */

struct told {
    int count;
    struct varve_array array;
    uint64_t bytes;
};

static int note(void *arg, const struct varve_region_info *region) {
    struct told *told = arg;
    if (strcmp(region->name, "field") == 0) {
        told->array = *region->array;
        told->bytes = region->bytes;
    }
    told->count++;
    return 0;
}

static struct told ask(struct varve_session *s) {
    struct told told = {0};
    assert_int_equal(varve_stored(s, VARVE_LATEST, note, &told, NULL), 0);
    return told;
}

static void descriptions_come_back(void **unused) {
    (void)unused;
    double *field = waves(0);
    int step = 7;
    struct varve_array array = block_of(NULL, 0);
    struct varve_session *s = open_session(NULL);
    assert_int_equal(varve_protect_array(s, "field", field, &array), 0);
    assert_int_equal(varve_protect(s, "step", &step, sizeof step), 0);
    save(s, 1);
    struct told told = ask(s);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.bytes, COUNT * 8);
    assert_int_equal(told.array.type, VARVE_F64);
    assert_int_equal(told.array.dims, 2);
    assert_null(told.array.lossy);
    assert_int_equal(told.array.dim[0].local, NY);
    assert_int_equal(told.array.dim[0].first, NY);
    assert_int_equal(told.array.dim[0].global, 4 * NY);
    assert_int_equal(told.array.dim[1].global, NX); /* as many as here */
    assert_int_equal(varve_close(s), 0);
    free(field);
}

/* An overlay must repeat a description that has changed, although no byte did. */
static void descriptions_change_alone(void **unused) {
    (void)unused;
    double *field = waves(0);
    char *much = calloc(1, 1 << 20); /* a manifest with something to depend on */
    struct varve_array array = block_of(NULL, 0);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "much", much, 1 << 20);
    for (int i = 0; i < 1 << 20; i += 8192)
        memcpy(much + i, &i, sizeof i);
    varve_protect_array(s, "field", field, &array);
    save(s, 1);
    array.dims = 1;
    array.dim[0] = (struct varve_dim){COUNT, 0, 0};
    assert_int_equal(varve_describe(s, "field", &array), 0);
    save(s, 2);
    assert_int_equal(ask(s).array.dims, 1);
    struct vv_details stats = {0};
    vv_details_get(s, &stats);
    assert_int_equal(stats.bytes_new, 0);
    assert_int_equal(varve_describe(s, "field", NULL), 0);
    save(s, 3);
    assert_int_equal(ask(s).array.type, VARVE_BYTES);
    assert_int_equal(varve_protect(s, "field", field, COUNT * 8), 0);
    assert_int_equal(varve_describe(s, "field", &array), 0);
    save(s, 4);
    assert_int_equal(ask(s).array.type, VARVE_F64);
    assert_int_equal(varve_protect(s, "field", field, COUNT * 8), 0); /* plain: bytes again */
    save(s, 5);
    assert_int_equal(ask(s).array.type, VARVE_BYTES);
    assert_int_equal(varve_close(s), 0);
    free(field);
    free(much);
}

static void what_does_not_fit_is_bytes(void **unused) {
    (void)unused;
    double *field = waves(0);
    struct varve_array array = block_of(NULL, 0);
    struct varve_session *s = open_session(NULL);
    varve_protect(s, "field", field, COUNT * 8 - 8);
    assert_int_equal(varve_describe(s, "field", &array), 0);
    assert_int_equal(varve_describe(s, "nobody", &array), -ENOENT);
    save(s, 1);
    assert_int_equal(ask(s).array.type, VARVE_BYTES);
    assert_int_equal(varve_close(s), 0);
    free(field);
}

static void nonsense_is_refused(void **unused) {
    (void)unused;
    static double x[8];
    struct varve_array good = {.size = sizeof good, .type = VARVE_F64, .dims = 1, .dim = {{8, 0, 0}}}, bad;
    struct varve_session *s = open_session(NULL);
    assert_int_equal(varve_protect_array(s, "x", x, &good), 0);
    bad = good, bad.size = 8;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.type = 15;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.dims = 0;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.dims = 17;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.dim[0].global = 7;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.dim[0].first = 1, bad.dim[0].global = 8;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    assert_non_null(strstr(varve_session_error(s)->text, "x"));
    bad = good, bad.dims = 3, bad.dim[1] = bad.dim[2] = (struct varve_dim){UINT64_C(1) << 40, 0, 0};
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.lossy = "sz", bad.bound = 1;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad = good, bad.lossy = "zfp", bad.bound = 0;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad.bound = NAN;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    bad.bound = 0.1, bad.lossy = NULL;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    assert_non_null(strstr(varve_session_error(s)->text, "lossy"));
    bad.lossy = "zfp", bad.type = VARVE_I64;
    assert_int_equal(varve_protect_array(s, "x", x, &bad), -EINVAL);
    assert_int_equal(varve_protect_array(s, "x", x, NULL), -EINVAL);
    assert_int_equal(varve_close(s), 0);
}

/* ---- values ---- */

static void restart_gives(const char *settings, const struct varve_array *array, const double *wanted, double bound) {
    double *field = calloc(COUNT, sizeof *field);
    struct varve_session *s = open_session(settings);
    assert_int_equal(varve_protect_array(s, "field", field, array), 0);
    if (varve_restart(s, VARVE_LATEST, NULL) != 0)
        fail_msg("restart: %s", varve_session_error(s)->text);
    for (size_t i = 0; i < COUNT; i++)
        if (!(fabs(field[i] - wanted[i]) <= bound))
            fail_msg("value %zu is %.17g, was %.17g", i, field[i], wanted[i]);
    assert_int_equal(varve_close(s), 0);
    free(field);
}

/* Every way of encoding gives every bit back. */
static void every_codec_gives_every_bit(void **unused) {
    static const char *const codecs[] = {"auto",           "size",
                                         "none",           "lz4",
                                         "zstd",           "lz4-zstd",
                                         "shuffle-lz4",    "shuffle-zstd",
                                         "bitshuffle-lz4", "bitshuffle-zstd",
                                         "delta-lz4",      "delta-zstd",
                                         "xor-zstd",       "rotate-zstd",
                                         "fpzip",          "zfp"};
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        char settings[64];
        double *field = waves((double)i);
        struct varve_array array = block_of(NULL, 0);
        snprintf(settings, sizeof settings, "codec=%s,block_size=64K", codecs[i]);
        struct varve_session *s = open_session(settings);
        varve_protect_array(s, "field", field, &array);
        save(s, 1);
        struct vv_details stats = {0};
        vv_details_get(s, &stats);
        assert_true(stats.codec_reason[0] != '\0');
        if (strstr(codecs[i], "shuffle") || strstr(codecs[i], "delta") || strcmp(codecs[i], "size") == 0)
            assert_true(stats.bytes_stored < stats.bytes_new * 9 / 10);
        assert_int_equal(varve_close(s), 0);
        restart_gives(settings, &array, field, 0);
        free(field);
        forget_store(unused);
    }
}

/* Normally distributed, as weights are; all that codec=size can do about them is to code their exponents. */
static void weights_get_smaller(void **unused) {
    (void)unused;
    enum { WEIGHTS = 2 << 20 };
    uint16_t *weights = malloc(WEIGHTS * sizeof *weights), *wanted = malloc(WEIGHTS * sizeof *wanted);
    struct varve_array array = {.size = sizeof array, .type = VARVE_BF16, .dims = 1, .dim = {{WEIGHTS, 0, 0}}};
    struct vv_details stats = {0};
    srand(3);
    for (size_t i = 0; i < WEIGHTS; i++) {
        double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (double)RAND_MAX;
        float x = (float)(0.02 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        wanted[i] = weights[i] = (uint16_t)(bits >> 16);
    }
    struct varve_session *s = open_session("codec=size");
    varve_protect_array(s, "weights", weights, &array);
    save(s, 1);
    vv_details_get(s, &stats);
    assert_string_equal(stats.codec, "rotate-zstd");
    assert_true((double)stats.bytes_new >= 1.45 * (double)stats.bytes_stored);
    memset(weights, 0, WEIGHTS * sizeof *weights);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_memory_equal(weights, wanted, WEIGHTS * sizeof *weights);
    assert_int_equal(varve_close(s), 0);
    free(weights);
    free(wanted);
}

/* fpzip takes no NaN: such a block is still compressed. */
static void one_nan_does_not_spoil_a_block(void **unused) {
    (void)unused;
    double *field = waves(0);
    struct varve_array array = block_of(NULL, 0);
    struct vv_details stats = {0};
    field[COUNT / 2] = NAN;
    struct varve_session *s = open_session("codec=fpzip");
    varve_protect_array(s, "field", field, &array);
    save(s, 1);
    vv_details_get(s, &stats);
    assert_true(stats.bytes_stored < stats.bytes_new * 95 / 100);
    memset(field, 0, COUNT * sizeof *field);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_true(isnan(field[COUNT / 2]) && field[1] != 0);
    assert_int_equal(varve_close(s), 0);
    free(field);
}

static void lossy_keeps_its_bound(void **unused) {
    static const double bounds[] = {10, 0.3, 1e-3, 1e-6, 1e-12, 1e-300};
    uint64_t before = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        double *field = waves(1);
        struct varve_array array = block_of("zfp", bounds[i]);
        struct varve_session *s = open_session("codec=size,block_size=64K");
        assert_int_equal(varve_protect_array(s, "field", field, &array), 0);
        save(s, 1);
        struct told told = ask(s);
        assert_string_equal(told.array.lossy, "zfp");
        assert_true(told.array.bound == bounds[i]);
        struct vv_details stats = {0};
        vv_details_get(s, &stats);
        print_message("bound %g: %.2f times smaller, %s\n", bounds[i],
                      (double)stats.bytes_new / (double)stats.bytes_stored, stats.codec);
        assert_true(stats.bytes_stored > before); /* the tighter, the larger */
        before = stats.bytes_stored;
        assert_int_equal(varve_close(s), 0);
        restart_gives(NULL, &array, field, bounds[i]);
        free(field);
        forget_store(unused);
    }
}

static void lossy_leaves_what_is_not_finite(void **unused) {
    (void)unused;
    float x[1024] = {0}, y[1024];
    struct varve_array array = {
        .size = sizeof array, .type = VARVE_F32, .dims = 1, .dim = {{1024, 0, 0}}, .lossy = "zfp", .bound = 0.5};
    x[1] = NAN, x[2] = INFINITY, x[3] = -INFINITY, x[4] = 3e38f, x[5] = 0.3f, x[6] = -0.3f, x[7] = 1e-40f;
    memcpy(y, x, sizeof x);
    struct varve_session *s = open_session(NULL);
    varve_protect_array(s, "x", x, &array);
    save(s, 1);
    memset(x, 1, sizeof x);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_true(isnan(x[1]) && x[2] == y[2] && x[3] == y[3] && x[4] == y[4]);
    assert_true(fabsf(x[5] - y[5]) <= 0.5f && fabsf(x[6] - y[6]) <= 0.5f && fabsf(x[7] - y[7]) <= 0.5f);
    assert_int_equal(varve_close(s), 0);
}

/* A bound that is taken back, or made tighter, reaches pages that nobody wrote. */
static void bounds_may_change(void **unused) {
    (void)unused;
    double *field = waves(2);
    struct varve_array loose = block_of("zfp", 1), tight = block_of("zfp", 1e-9), exact = block_of(NULL, 0);
    struct varve_session *s = open_session(NULL);
    varve_protect_array(s, "field", field, &loose);
    save(s, 1);
    varve_describe(s, "field", &tight);
    save(s, 2);
    assert_int_equal(varve_close(s), 0);
    restart_gives(NULL, &tight, field, 1e-9);
    s = open_session(NULL);
    varve_protect_array(s, "field", field, &tight);
    save(s, 3);
    varve_describe(s, "field", &exact);
    save(s, 4);
    assert_int_equal(varve_close(s), 0);
    restart_gives(NULL, &exact, field, 0);
    free(field);
}

/* The same bound means other bits for another type. */
static void types_of_bounded_regions_may_change(void **unused) {
    (void)unused;
    double *field = waves(2);
    struct varve_array right = block_of("zfp", 1e-3), wrong = right;
    wrong.type = VARVE_F32;
    wrong.dim[1] = (struct varve_dim){2 * NX, 0, 0};
    struct varve_session *s = open_session(NULL);
    varve_protect_array(s, "field", field, &wrong);
    save(s, 1);
    varve_describe(s, "field", &right);
    save(s, 2);
    assert_int_equal(varve_close(s), 0);
    restart_gives(NULL, &right, field, 1e-3);
    free(field);
}

/* What came back and was not written again is not changed: errors do not add up. */
static void errors_do_not_add_up(void **unused) {
    (void)unused;
    double *field = waves(3), *first = waves(3);
    struct varve_array array = block_of("zfp", 0.01);
    struct varve_session *s = open_session(NULL);
    varve_protect_array(s, "field", field, &array);
    save(s, 1);
    for (int i = 2; i < 6; i++) {
        assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
        save(s, i);
        struct vv_details stats = {0};
        vv_details_get(s, &stats);
        assert_int_equal(stats.bytes_new, 0);
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(field[i] - first[i]) <= 0.01);
    assert_int_equal(varve_close(s), 0);
    free(field);
    free(first);
}

/* Small variables of the same type share blocks; of different types they do not: each gets what is good for it. */
static void small_variables_share_blocks_by_type(void **unused) {
    (void)unused;
    enum { SMALL = 400, EACH = 512 };
    static double numbers[SMALL][EACH];
    static uint8_t flags[SMALL][EACH];
    struct varve_session *s = open_session("codec=size");
    for (int i = 0; i < SMALL; i++) {
        char name[32];
        struct varve_array of_numbers = {
            .size = sizeof of_numbers, .type = VARVE_F64, .dims = 1, .dim = {{EACH, 0, 0}}};
        struct varve_array of_flags = {.size = sizeof of_flags, .type = VARVE_U8, .dims = 1, .dim = {{EACH, 0, 0}}};
        for (int j = 0; j < EACH; j++) {
            numbers[i][j] = 300 + sin(0.001 * (i * EACH + j));
            flags[i][j] = (uint8_t)(rand() % 2);
        }
        snprintf(name, sizeof name, "numbers %d", i);
        varve_protect_array(s, name, numbers[i], &of_numbers);
        snprintf(name, sizeof name, "flags %d", i);
        varve_protect_array(s, name, flags[i], &of_flags);
    }
    save(s, 1);
    struct vv_details stats = {0};
    vv_details_get(s, &stats);
    assert_true(stats.bytes_stored < sizeof numbers * 3 / 4); /* a mixture of both would hardly get smaller */
    static double before[SMALL][EACH];
    memcpy(before, numbers, sizeof numbers);
    memset(numbers, 0, sizeof numbers);
    assert_int_equal(varve_restart(s, VARVE_LATEST, NULL), 0);
    assert_memory_equal(before, numbers, sizeof numbers);
    assert_int_equal(varve_close(s), 0);
}

/* A program may trap invalid operations and flush tiny numbers to zero: looking at its values neither ends it nor finds
 * other values than a tool that does neither. */
static void arithmetic_of_the_program_does_not_matter(void **unused) {
    (void)unused;
    static double x[4096];
    struct varve_array array = {.size = sizeof array, .type = VARVE_F64, .dims = 1, .dim = {{4096, 0, 0}}};
    struct varve_store *store;
    struct varve_range range;
    struct varve_which which = {"array", 0, -1};
    for (size_t i = 0; i < 4096; i++)
        x[i] = 5e-324 * (double)(1 + i);
    x[7] = NAN;
    feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
#ifdef __SSE2__
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040); /* tiny numbers are zeros */
#endif
    struct varve_session *s = open_session("codec=size");
    varve_protect_array(s, "x", x, &array);
    save(s, 1);
    assert_int_equal(varve_close(s), 0);
#ifdef __SSE2__
    __builtin_ia32_ldmxcsr(before);
#endif
    fedisableexcept(FE_ALL_EXCEPT);
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result;
    assert_int_equal(varve_store_open("mem://array", NULL, &store, NULL), 0);
    assert_int_equal(varve_store_verify(store, &options, &result, NULL), 0);
    assert_int_equal(result.damaged_objects, 0);
    assert_int_equal(varve_store_range(store, &which, 0, "x", &range, NULL), 0);
    assert_true(range.is_known && range.has_nan && range.low == 5e-324 && range.high == 5e-324 * 4096);
    varve_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(descriptions_come_back, forget_store),
        cmocka_unit_test_teardown(descriptions_change_alone, forget_store),
        cmocka_unit_test_teardown(what_does_not_fit_is_bytes, forget_store),
        cmocka_unit_test_teardown(nonsense_is_refused, forget_store),
        cmocka_unit_test_teardown(every_codec_gives_every_bit, forget_store),
        cmocka_unit_test_teardown(weights_get_smaller, forget_store),
        cmocka_unit_test_teardown(one_nan_does_not_spoil_a_block, forget_store),
        cmocka_unit_test_teardown(lossy_keeps_its_bound, forget_store),
        cmocka_unit_test_teardown(lossy_leaves_what_is_not_finite, forget_store),
        cmocka_unit_test_teardown(bounds_may_change, forget_store),
        cmocka_unit_test_teardown(types_of_bounded_regions_may_change, forget_store),
        cmocka_unit_test_teardown(errors_do_not_add_up, forget_store),
        cmocka_unit_test_teardown(arithmetic_of_the_program_does_not_matter, forget_store),
        cmocka_unit_test_teardown(small_variables_share_blocks_by_type, forget_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
