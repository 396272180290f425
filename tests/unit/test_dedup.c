/* Origins against a plain array of bytes, and the bounded table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dedup/history.h"
#include "test.h"

#define SPACE 4096 /* bytes of the region in the model */

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

/* What a byte of the region comes from: source * 2^32 + address, or 0 for zeros. */
static void expand(const struct vv_origins *origins, uint64_t *out) {
    for (size_t i = 0; i < origins->count; i++) {
        const struct vv_origin *o = &origins->list[i];
        for (uint64_t j = 0; j < o->length; j++) {
            uint64_t at = o->kind == VV_ORIGIN_REPEATED ? j % o->piece : j;
            out[o->offset + j] = o->kind == VV_ORIGIN_ZERO ? 0 : ((uint64_t)(o->source + 1) << 32) + o->address + at;
        }
    }
}

static struct vv_origin random_origin(uint64_t offset, uint64_t capacity) {
    struct vv_origin o = {.offset = offset, .length = 1 + draw((uint32_t)(capacity < 40 ? capacity : 40))};
    o.kind = draw(3);
    if (o.kind == VV_ORIGIN_ZERO)
        return o;
    o.source = draw(2);
    o.address = draw(3) ? 100 + offset : draw(50);
    o.piece = o.kind == VV_ORIGIN_REPEATED ? 1 + draw((uint32_t)o.length) : 0;
    return o;
}

static void fill(struct vv_origins *origins, uint64_t length, int has_gaps, uint64_t *model) {
    uint64_t at = 0;
    while (at < length) {
        uint64_t gap = has_gaps ? draw(60) : 0;
        if (at + gap >= length)
            break;
        struct vv_origin o = random_origin(at + gap, length - at - gap);
        struct vv_origins one = {&o, 1, 1};
        expand(&one, model);
        assert_int_equal(vv_origins_add(origins, &o), 0);
        at = o.offset + o.length;
    }
}

static void merged_origins_are_the_model(void **unused) {
    (void)unused;
    uint64_t first = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)first);
    for (int round = 0; round < 300; round++) {
        static uint64_t model[SPACE], got[SPACE];
        struct vv_origins below = {0}, top = {0}, merged = {0};
        state = first + (uint64_t)round;
        uint64_t length = 1 + draw(SPACE), shorter = 1 + draw((uint32_t)length);
        fill(&below, length, 0, model);
        memset(got, 0xff, sizeof got);
        expand(&below, got); /* joining changes nothing */
        assert_memory_equal(got, model, length * sizeof *model);
        fill(&top, shorter, 1, model);
        assert_int_equal(vv_origins_merge(&below, &top, shorter, &merged), 0);
        memset(got, 0xff, sizeof got);
        expand(&merged, got);
        assert_memory_equal(got, model, shorter * sizeof *model);
        uint64_t end = 0; /* tiling, ascending */
        for (size_t i = 0; i < merged.count; i++) {
            assert_int_equal(merged.list[i].offset, end);
            end += merged.list[i].length;
            assert_int_equal(vv_origins_find(&merged, merged.list[i].offset), i);
        }
        assert_int_equal(end, shorter);
        vv_origins_clear(&below);
        vv_origins_clear(&top);
        vv_origins_clear(&merged);
    }
}

static void the_same_piece_again_becomes_one_run(void **unused) {
    (void)unused;
    struct vv_origins origins = {0};
    for (uint64_t i = 0; i < 100; i++) {
        struct vv_origin o = {.offset = i * 4096, .length = 4096, .address = 8192, .kind = VV_ORIGIN_FROM};
        assert_int_equal(vv_origins_add(&origins, &o), 0);
    }
    assert_int_equal(origins.count, 1);
    assert_int_equal(origins.list[0].kind, VV_ORIGIN_REPEATED);
    assert_int_equal(origins.list[0].piece, 4096);
    assert_int_equal(origins.list[0].length, 100 * 4096);
    vv_origins_clear(&origins);
}

static void the_table_forgets_but_never_lies(void **unused) {
    (void)unused;
    struct vv_table table = {0};
    uint8_t is_alive[2] = {1, 1};
    uint64_t found = 0;
    assert_int_equal(vv_table_resize(&table, 1024), 0);
    for (uint64_t i = 1; i <= 4096; i++) {
        struct vv_known known = {{i * UINT64_C(0x9e3779b97f4a7c15), i}, 0, 0, i};
        vv_table_put(&table, &known, is_alive);
    }
    for (uint64_t i = 1; i <= 4096; i++) {
        const struct vv_known *known = vv_table_find(&table, (struct vv_hash128){i * UINT64_C(0x9e3779b97f4a7c15), i});
        if (!known)
            continue;
        found++;
        assert_int_equal(known->address, i);
    }
    assert_true(found > 700 && found <= 1024);
    is_alive[0] = 0; /* dead entries give way */
    struct vv_known fresh = {{1, 99999}, 1, 0, 7};
    vv_table_put(&table, &fresh, is_alive);
    assert_int_equal(vv_table_find(&table, fresh.id)->address, 7);
    assert_int_equal(vv_table_resize(&table, 8192), 0);
    assert_int_equal(vv_table_find(&table, fresh.id)->address, 7);
    vv_table_clear(&table);
}

static long resident_kb(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * 4;
}

static void a_dropped_save_leaves_no_trace(void **unused) {
    (void)unused;
    struct vv_history history = {0};
    struct vv_source source = {.generation = 1};
    struct vv_hash128 id = {1, 2};
    assert_int_equal(vv_history_source(&history, &source), 0);
    struct vv_past *past = vv_history_add(&history, 3, "x");
    past->pending_length = 8192;
    assert_int_equal(vv_past_reserve_ids(past, 2), 0);
    struct vv_origin origin = {.length = 8192, .kind = VV_ORIGIN_FROM};
    assert_int_equal(vv_origins_add(&past->changed, &origin), 0);
    assert_int_equal(vv_past_new_id(past, 1, id), 0);
    assert_int_equal(vv_history_merge(&history), 0);
    uint64_t live[2] = {0, 0};
    vv_history_live(&history, live);
    assert_int_equal(live[0], 8192);
    vv_history_accept(&history, live);
    assert_true(vv_hash128_equal(history.list[0].ids[1], id));

    assert_int_equal(vv_history_source(&history, &source), 1);
    past = vv_history_find(&history, 3);
    past->pending_length = 4096;
    origin.source = 1;
    origin.length = 4096;
    assert_int_equal(vv_origins_add(&past->changed, &origin), 0);
    assert_int_equal(vv_past_new_id(past, 0, id), 0);
    vv_history_add(&history, 4, "y");
    assert_int_equal(vv_history_merge(&history), 0);
    vv_history_drop(&history, 1);
    assert_int_equal(history.count, 1);
    past = vv_history_find(&history, 3);
    assert_int_equal(past->length, 8192);
    assert_int_equal(past->origins.count, 1);
    assert_int_equal(past->origins.list[0].source, 0);
    assert_true(vv_hash128_is_zero(past->ids[0]));
    assert_int_equal(history.is_alive[1], 0);
    vv_history_clear(&history);
}

/* A region of 64 GiB with one granule in use becomes small: what was never touched must not be touched now. */
static void shrinking_touches_nothing(void **unused) {
    (void)unused;
    struct vv_history history = {0};
    uint64_t length = UINT64_C(64) << 30, live[1] = {1};
    struct vv_source source = {.generation = 1};
    assert_int_equal(vv_history_source(&history, &source), 0);
    struct vv_past *past = vv_history_add(&history, 0, "x");
    past->pending_length = length;
    assert_int_equal(vv_past_reserve_ids(past, length / 4096), 0);
    struct vv_origin zero = {.length = length - 4096},
                     data = {.offset = length - 4096, .length = 4096, .kind = VV_ORIGIN_FROM};
    vv_origins_add(&past->changed, &zero);
    vv_origins_add(&past->changed, &data);
    vv_past_new_id(past, length / 4096 - 1, (struct vv_hash128){1, 1});
    assert_int_equal(vv_history_merge(&history), 0);
    vv_history_accept(&history, live);
    long before = resident_kb();
    past->pending_length = 4096;
    assert_int_equal(vv_history_merge(&history), 0);
    vv_history_accept(&history, live);
    assert_true(vv_hash128_is_zero(past->ids[length / 4096 - 1]));
    assert_true(resident_kb() - before < 16384);
    vv_history_clear(&history);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_origins_are_the_model),     cmocka_unit_test(the_same_piece_again_becomes_one_run),
        cmocka_unit_test(the_table_forgets_but_never_lies), cmocka_unit_test(a_dropped_save_leaves_no_trace),
        cmocka_unit_test(shrinking_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
