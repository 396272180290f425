/* varve_store_range and varve_store_ranges against the values themselves, after checkpoints that change parts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/array.h"
#include "test.h"

#define NAME "ranges"
#define URI "mem://" NAME
#define SETTINGS "keep=all,block_size=64K,codec=lz4,tracker=scan,threads=1"
#define PAGE 4096u
#define VERSIONS 6
#define REGIONS 11

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t random_u64(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* What is protected, and how it was at each checkpoint. */
static const struct kind {
    const char *name;
    int type;
    uint64_t elements;
} kinds[REGIONS] = {
    {"large f64", VARVE_F64, 80000}, {"large f32", VARVE_F32, 100001}, {"i64", VARVE_I64, 30000},
    {"u8", VARVE_U8, 200000},        {"c64", VARVE_C64, 20000},        {"f16", VARVE_F16, 70000},
    {"bytes", VARVE_BYTES, 300000},  {"small f64", VARVE_F64, 20},     {"small i16", VARVE_I16, 9},
    {"bf16", VARVE_BF16, 3000},      {"scalar", VARVE_U32, 1},
};

struct world {
    struct varve_session *session;
    struct varve_store *store;
    uint8_t *data[REGIONS];
    uint8_t *past[VERSIONS][REGIONS];
};

static size_t bytes_of(int region) {
    return kinds[region].elements * vv_type_size(kinds[region].type);
}

static void put_value(int type, uint8_t *at, double value) {
#define PUT(TYPE)                                                                                                      \
    do {                                                                                                               \
        TYPE value_ = (TYPE)value;                                                                                     \
        memcpy(at, &value_, sizeof value_);                                                                            \
    } while (0)
    switch (type) {
    case VARVE_U8:
        value = fabs(value);
        PUT(uint8_t);
        break;
    case VARVE_I16:
        PUT(int16_t);
        break;
    case VARVE_U32:
        value = fabs(value);
        PUT(uint32_t);
        break;
    case VARVE_I64:
        PUT(int64_t);
        break;
    case VARVE_F32:
    case VARVE_C64:
        PUT(float);
        break;
    case VARVE_F64:
        PUT(double);
        break;
    case VARVE_F16: { /* only small whole numbers: enough to be in an order */
        uint16_t bits = (uint16_t)((random_u64() & 0x83ff) | 0x3c00);
        memcpy(at, &bits, 2);
        break;
    }
    case VARVE_BF16: {
        float wide = (float)value;
        memcpy(at, (uint8_t *)&wide + 2, 2);
        break;
    }
    default:
        *at = (uint8_t)random_u64();
        break;
    }
#undef PUT
}

static size_t part_size(int type) {
    return type == VARVE_C64 ? 4 : vv_type_size(type);
}

static long double get_value(int type, const uint8_t *at) {
#define GET(TYPE)                                                                                                      \
    do {                                                                                                               \
        TYPE value_;                                                                                                   \
        memcpy(&value_, at, sizeof value_);                                                                            \
        return (long double)value_;                                                                                    \
    } while (0)
    switch (type) {
    case VARVE_U8:
        GET(uint8_t);
    case VARVE_I16:
        GET(int16_t);
    case VARVE_U32:
        GET(uint32_t);
    case VARVE_I64:
        GET(int64_t);
    case VARVE_F32:
    case VARVE_C64:
        GET(float);
    case VARVE_F64:
        GET(double);
    case VARVE_F16: {
        uint16_t bits;
        memcpy(&bits, at, 2);
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                                      : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
        return bits >> 15 ? -value : value;
    }
    default: {
        uint16_t bits;
        memcpy(&bits, at, 2);
        uint32_t wide = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &wide, 4);
        return value;
    }
    }
#undef GET
}

struct truth {
    long double low, high;
    int has_nan, is_empty;
};

static struct truth look(int type, const uint8_t *data, size_t size) {
    struct truth truth = {.is_empty = 1};
    for (size_t at = 0; at < size; at += part_size(type)) {
        long double value = get_value(type, data + at);
        if (isnan(value)) {
            truth.has_nan = 1;
            continue;
        }
        truth.low = truth.is_empty || value < truth.low ? value : truth.low;
        truth.high = truth.is_empty || value > truth.high ? value : truth.high;
        truth.is_empty = 0;
    }
    return truth;
}

/* i64 that no double can hold are rounded outwards. */
static int is_near(double told, long double value) {
    return (double)value == value ? told == value : fabsl(told - value) < 2048;
}

static void assert_holds(const struct varve_range *range, const struct truth *truth) {
    assert_true(range->is_known);
    assert_true(range->has_nan || !truth->has_nan);
    assert_true(truth->is_empty || (range->low <= truth->low && range->high >= truth->high));
    if (range->is_exact) {
        assert_int_equal(range->has_nan, truth->has_nan);
        assert_true(truth->is_empty ? isnan(range->low)
                                    : is_near(range->low, truth->low) && is_near(range->high, truth->high));
    }
}

/* ---- changes ---- */

static void write_some(struct world *world, int region) {
    int type = kinds[region].type;
    size_t step = part_size(type), count = bytes_of(region) / step;
    size_t first = random_u64() % count, many = 1 + random_u64() % 3000;
    double scale = (double)(1 + random_u64() % 100);
    for (size_t i = first; i < count && i < first + many; i++)
        put_value(type, world->data[region] + i * step, (double)(random_u64() % 1000) / 1000 * scale);
}

/* Pages of zeros, pages all alike, pages of another region: what is stored in special ways, or is stored already under
 * another type. */
static void write_pages(struct world *world, int region) {
    size_t pages = bytes_of(region) / PAGE;
    int other = (int)(random_u64() % REGIONS);
    size_t other_pages = bytes_of(other) / PAGE;
    if (!pages)
        return;
    uint8_t *page = world->data[region] + random_u64() % pages * PAGE;
    switch (random_u64() % 3) {
    case 0:
        memset(page, 0, PAGE);
        break;
    case 1:
        for (size_t i = 0; i < pages; i++)
            memmove(world->data[region] + i * PAGE, page, random_u64() % 3 ? PAGE : 0);
        break;
    default:
        memcpy(page, other_pages ? world->data[other] + random_u64() % other_pages * PAGE : page, PAGE);
        break;
    }
}

static void write_nan(struct world *world, int region) {
    int type = kinds[region].type;
    if (type == VARVE_F64 || type == VARVE_F32)
        put_value(type, world->data[region] + random_u64() % kinds[region].elements * vv_type_size(type), NAN);
}

static void change(struct world *world) {
    for (int i = 0; i < 12; i++) {
        int region = (int)(random_u64() % REGIONS);
        uint64_t what = random_u64() % 10;
        if (what < 6)
            write_some(world, region);
        else if (what < 9)
            write_pages(world, region);
        else
            write_nan(world, region);
    }
}

/* ---- the world ---- */

static int begin(void **state) {
    struct world *world = calloc(1, sizeof *world);
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = SETTINGS;
    assert_int_equal(varve_open(URI, NAME, &options, &world->session, NULL), 0);
    for (int i = 0; i < REGIONS; i++) {
        struct varve_array array = {
            .size = sizeof array, .type = kinds[i].type, .dims = 1, .dim = {{.local = kinds[i].elements}}};
        assert_int_equal(posix_memalign((void **)&world->data[i], PAGE, bytes_of(i)), 0);
        memset(world->data[i], 0, bytes_of(i));
        for (size_t at = 0; at < bytes_of(i); at += part_size(kinds[i].type))
            put_value(kinds[i].type, world->data[i] + at, (double)(random_u64() % 2000) / 10 - 50 * (i % 2));
        assert_int_equal(varve_protect_array(world->session, kinds[i].name, world->data[i], &array), 0);
    }
    *state = world;
    return 0;
}

static int end(void **state) {
    struct world *world = *state;
    varve_store_close(world->store);
    assert_int_equal(varve_close(world->session), 0);
    for (int i = 0; i < REGIONS; i++) {
        free(world->data[i]);
        for (int version = 0; version < VERSIONS; version++)
            free(world->past[version][i]);
    }
    free(world);
    vv_mem_drop(NAME);
    return 0;
}

static void save(struct world *world, int version) {
    assert_int_equal(varve_checkpoint(world->session, version), 0);
    assert_int_equal(varve_wait(world->session), 0);
    for (int i = 0; i < REGIONS; i++) {
        world->past[version][i] = malloc(bytes_of(i));
        memcpy(world->past[version][i], world->data[i], bytes_of(i));
    }
}

/* ---- what is told ---- */

struct parts {
    int region;
    const uint8_t *data;
    uint64_t next; /* offset */
    uint64_t read, exact;
    struct world *world;
};

static int on_part(void *arg, const struct varve_block_range *part) {
    struct parts *parts = arg;
    int type = kinds[parts->region].type;
    assert_true(part->offset == parts->next);
    assert_true(part->size <= bytes_of(parts->region) - part->offset);
    assert_true(strlen(part->codec) > 0);
    parts->next += part->size;
    parts->read++;
    if (type == VARVE_BYTES) {
        assert_false(part->range.is_known);
        return 0;
    }
    struct truth truth = look(type, parts->data + part->offset, part->size);
    assert_holds(&part->range, &truth);
    parts->exact += part->range.is_exact != 0;
    return 0;
}

static uint64_t check_region(struct world *world, const struct varve_which *which, int region) {
    struct parts parts = {.region = region, .data = world->past[which->version][region], .world = world};
    struct varve_range range;
    struct varve_error error;
    int rc = varve_store_range(world->store, which, 0, kinds[region].name, &range, &error);
    if (rc != 0)
        fail_msg("%s: %s", kinds[region].name, error.text);
    if (kinds[region].type == VARVE_BYTES) {
        assert_false(range.is_known);
    } else {
        struct truth truth = look(kinds[region].type, parts.data, bytes_of(region));
        assert_holds(&range, &truth);
    }
    assert_int_equal(varve_store_ranges(world->store, which, 0, kinds[region].name, on_part, &parts, &error), 0);
    assert_true(parts.next == bytes_of(region));
    return range.is_known && range.is_exact;
}

static void test_ranges_hold_the_values(void **state) {
    struct world *world = *state;
    uint64_t exact = 0, within = 0;
    assert_int_equal(varve_store_open(URI, NULL, &world->store, NULL), 0);
    for (int version = 0; version < VERSIONS; version++) {
        if (version > 0)
            change(world);
        save(world, version);
        for (int region = 0; region < REGIONS; region++) {
            struct varve_which which = {.name = NAME, .version = version};
            uint64_t is_exact = check_region(world, &which, region);
            exact += is_exact;
            within += !is_exact && kinds[region].type != VARVE_BYTES;
            /* All that was just stored for the first time is used as a whole. */
            assert_true(version > 0 || is_exact || kinds[region].type == VARVE_BYTES);
        }
    }
    /* Older versions too, and in any order. */
    for (int i = 0; i < 30; i++) {
        struct varve_which which = {
            .name = NAME, .version = (int64_t)(random_u64() % VERSIONS), .generation = (uint32_t)(random_u64() % 2)};
        check_region(world, &which, (int)(random_u64() % REGIONS));
    }
    assert_true(exact > 0 && within > 0); /* else nothing was tried */
}

/* One block of 16 pages, page i full of numbers from i * 10 on. */
#define PAGES 16

static void fill_pages(double *data, const int *order) {
    for (int page = 0; page < PAGES; page++)
        for (int i = 0; i < 512; i++)
            data[page * 512 + i] = order[page] * 10 + i / 512.0;
}

static struct varve_range range_after(struct varve_session *session, int64_t version) {
    struct varve_which which = {.name = NAME, .version = version};
    struct varve_store *store;
    struct varve_range range;
    assert_int_equal(varve_checkpoint(session, version), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_store_open(URI, NULL, &store, NULL), 0);
    assert_int_equal(varve_store_range(store, &which, 0, "pages", &range, NULL), 0);
    varve_store_close(store);
    assert_true(range.is_known && !range.has_nan);
    return range;
}

/* Whichever page of a block is used no longer, the block has more than the region; but not if its pages only change
 * places, or one is there twice. */
static void test_blocks_used_in_part(void **state) {
    static double data[PAGES * 512] __attribute__((aligned(4096)));
    const int lost[] = {0, PAGES / 2, PAGES - 1};
    int order[PAGES];
    (void)state;
    for (size_t round = 0; round < 3; round++) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_array array = {
            .size = sizeof array, .type = VARVE_F64, .dims = 2, .dim = {{.local = PAGES}, {.local = 512}}};
        struct varve_session *session;
        options.settings = SETTINGS;
        assert_int_equal(varve_open(URI, NAME, &options, &session, NULL), 0);
        assert_int_equal(varve_protect_array(session, "pages", data, &array), 0);
        for (int i = 0; i < PAGES; i++)
            order[i] = i;
        fill_pages(data, order);
        struct varve_range range = range_after(session, 1);
        assert_true(range.is_exact && range.low == 0 && range.high == 150 + 511 / 512.0);
        for (int i = 0; i < PAGES; i++)
            order[i] = PAGES - 1 - i;
        fill_pages(data, order);
        range = range_after(session, 2);
        assert_true(range.is_exact && range.low == 0 && range.high == 150 + 511 / 512.0);
        order[PAGES - 1 - lost[round]] = lost[round] == 3 ? 4 : 3;
        fill_pages(data, order);
        range = range_after(session, 3);
        assert_true(!range.is_exact && range.low == 0 && range.high == 150 + 511 / 512.0);
        assert_int_equal(varve_close(session), 0);
        vv_mem_drop(NAME);
    }
}

struct known {
    uint64_t yes, no; /* bytes */
};

static int count_known(void *arg, const struct varve_block_range *part) {
    struct known *known = arg;
    *(part->range.is_known ? &known->yes : &known->no) += part->size;
    return 0;
}

/* Stored as bytes first, and called an array afterwards: no block has a range, and it is too much to be read for it. */
static void test_large_data_is_not_read(void **state) {
    enum { MIB = 1 << 20, SIZE = 70 * MIB };
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_array array = {.size = sizeof array, .type = VARVE_F64, .dims = 1, .dim = {{.local = SIZE / 8}}};
    struct varve_which which = {.name = NAME, .version = 2};
    struct known known = {0};
    struct varve_session *session;
    struct varve_store *store;
    struct varve_range range;
    (void)state;
    double *data = calloc(1, SIZE);
    assert_non_null(data);
    for (int i = 0; i < SIZE / 8; i++) {
        int page = i / 512;
        data[i] = 1 + page;
    }
    options.settings = "codec=lz4,threads=1";
    assert_int_equal(varve_open(URI, NAME, &options, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_describe(session, "data", &array), 0);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(varve_store_open(URI, NULL, &store, NULL), 0);
    assert_int_equal(varve_store_range(store, &which, 0, "data", &range, NULL), 0);
    assert_false(range.is_known);
    assert_int_equal(varve_store_ranges(store, &which, 0, "data", count_known, &known, NULL), 0);
    assert_true(known.yes <= 64 * MIB && known.yes > 60 * MIB && known.yes + known.no == SIZE);
    varve_store_close(store);
    free(data);
    vv_mem_drop(NAME);
}

static int ask_more(void *arg, const struct varve_block_range *part) {
    struct parts *parts = arg;
    struct varve_which which = {.name = NAME, .version = 0};
    struct varve_range range;
    (void)part;
    assert_int_equal(varve_store_range(parts->world->store, &which, 0, "scalar", &range, NULL), 0);
    parts->read++;
    return parts->read == 2 ? 1 : 0;
}

static int refuse(void *arg, const struct varve_block_range *part) {
    (void)arg;
    (void)part;
    return -ENOSPC;
}

static void test_the_function_may_ask_and_stop(void **state) {
    struct world *world = *state;
    struct varve_which which = {.name = NAME, .version = -1};
    struct parts parts = {.world = world};
    struct varve_range range;
    assert_int_equal(varve_store_open(URI, NULL, &world->store, NULL), 0);
    save(world, 0);
    assert_int_equal(varve_store_ranges(world->store, &which, 0, "large f64", ask_more, &parts, NULL), 0);
    assert_int_equal(parts.read, 2);
    assert_int_equal(varve_store_ranges(world->store, &which, 0, "large f64", refuse, NULL, NULL), -ENOSPC);
    assert_int_equal(varve_store_range(world->store, &which, 0, "nothing", &range, NULL), VARVE_MISMATCH);
    assert_int_equal(varve_store_range(world->store, &which, 1, "scalar", &range, NULL), VARVE_MISMATCH);
    which.version = 7;
    assert_int_equal(varve_store_range(world->store, &which, 0, "scalar", &range, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_store_range(world->store, &which, 0, NULL, &range, NULL), -EINVAL);
}

static int pass_over(void *arg, const struct varve_block_range *part) {
    (void)arg;
    (void)part;
    return 0;
}

/* Whichever allocation fails: no memory is told, nothing is left behind, and the same handle works afterwards. */
static void test_without_memory(void **state) {
    struct world *world = *state;
    struct varve_which which = {.name = NAME, .version = 1, .generation = 1};
    struct varve_range range;
    uint64_t failed = 0;
    int rc = -ENOMEM;
    save(world, 0);
    change(world);
    save(world, 1);
    for (uint64_t k = 1; rc != 0; k++) {
        assert_int_equal(varve_store_open(URI, NULL, &world->store, NULL), 0);
        vv_alloc_fail_at(k);
        rc = varve_store_ranges(world->store, &which, 0, "large f64", pass_over, NULL, NULL);
        rc = rc ? rc : varve_store_range(world->store, &which, 0, "small f64", &range, NULL);
        vv_alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        failed += rc != 0;
        assert_int_equal(varve_store_range(world->store, &which, 0, "large f64", &range, NULL), 0);
        assert_true(range.is_known);
        varve_store_close(world->store);
        world->store = NULL;
    }
#ifdef VARVE_FAULTS
    assert_true(failed > 10);
#else
    assert_int_equal(failed, 0);
#endif
}

/* ---- what varve_store_show says of an array ---- */

struct shown {
    int regions;
    uint64_t bytes_blocks;
};

static int on_region(void *arg, const struct varve_stored_region *region) {
    struct shown *shown = arg;
    const struct kind *kind = &kinds[0];
    while (strcmp(kind->name, region->name) != 0)
        kind++;
    assert_int_equal(region->array->type, kind->type);
    assert_string_equal(region->type, vv_type_name(kind->type));
    assert_int_equal(region->array->dims, 1);
    assert_true(region->array->dim[0].local == kind->elements && region->array->dim[0].global == kind->elements);
    assert_null(region->array->lossy);
    assert_true(region->bytes_blocks > 0 && region->bytes_blocks <= region->bytes + 1);
    assert_true(!strcmp(region->codec, "lz4") || !strcmp(region->codec, "none"));
    shown->regions++;
    shown->bytes_blocks += region->bytes_blocks;
    return 0;
}

static void test_show_tells_arrays(void **state) {
    struct world *world = *state;
    struct varve_which which = {.name = NAME, .version = -1};
    struct varve_checkpoint_detail detail;
    struct shown shown = {0};
    assert_int_equal(varve_store_open(URI, NULL, &world->store, NULL), 0);
    save(world, 0);
    assert_int_equal(varve_store_show(world->store, &which, &detail, on_region, &shown, NULL), 0);
    assert_int_equal(shown.regions, REGIONS);
    /* Nothing is shared in the first checkpoint, so all shares together are all blocks, but for rounding. */
    assert_true(shown.bytes_blocks + REGIONS >= detail.info.bytes_stored);
    assert_true(shown.bytes_blocks <= detail.info.bytes_stored + REGIONS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges_hold_the_values, begin, end),
        cmocka_unit_test(test_blocks_used_in_part),
        cmocka_unit_test(test_large_data_is_not_read),
        cmocka_unit_test_setup_teardown(test_the_function_may_ask_and_stop, begin, end),
        cmocka_unit_test_setup_teardown(test_without_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_show_tells_arrays, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
