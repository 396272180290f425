/* What two parts of a global array have in common, against a comparison element by element. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/overlap.h"
#include "test.h"

#define MOST 12 /* indices of a dimension */
#define ROUNDS 20000

static uint32_t state = 1;

static uint32_t below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % bound;
}

static struct vv_part_dim random_dim(void) {
    struct vv_part_dim dim = {.first = below(MOST / 2), .local = below(MOST)};
    dim.block = dim.every = dim.local ? dim.local : 1;
    if (below(2)) {
        dim.block = 1 + below(4);
        dim.every = dim.block + below(4);
    }
    return dim;
}

static uint64_t index_of(const struct vv_part_dim *dim, uint64_t local) {
    return dim->first + local / dim->block * dim->every + local % dim->block;
}

/* The global place of an element, one number for all dimensions. */
static uint64_t place_of(const struct vv_part *part, uint64_t element) {
    uint64_t place = 0, scale = 1;
    for (unsigned i = part->dims; i-- > 0;) {
        place += index_of(&part->dim[i], element % part->dim[i].local) * scale;
        element /= part->dim[i].local;
        scale *= UINT64_C(1) << 16;
    }
    return place;
}

static uint64_t size_of(const struct vv_part *part) {
    uint64_t size = 1;
    for (unsigned i = 0; i < part->dims; i++)
        size *= part->dim[i].local;
    return size;
}

/* Every stretch is right, ascending, and as long as it can be said to be; all together are all. */
static void check(const struct vv_part *there, const struct vv_part *here) {
    uint64_t there_size = size_of(there), here_size = size_of(here), expected = 0, told = 0, last = 0;
    for (uint64_t i = 0; i < there_size; i++)
        for (uint64_t j = 0; j < here_size; j++)
            expected += place_of(there, i) == place_of(here, j);
    struct vv_overlap overlap;
    struct vv_stretch stretch;
    assert_int_equal(vv_overlap_begin(&overlap, there, here), expected > 0);
    while (vv_overlap_next(&overlap, &stretch)) {
        assert_true(stretch.length > 0 && stretch.length % here->element == 0);
        assert_true(told == 0 || stretch.from >= last);
        last = stretch.from + stretch.length;
        assert_true(last <= there_size * here->element && stretch.to + stretch.length <= here_size * here->element);
        for (uint64_t at = 0; at < stretch.length; at += here->element)
            assert_int_equal(place_of(there, (stretch.from + at) / here->element),
                             place_of(here, (stretch.to + at) / here->element));
        told += stretch.length / here->element;
    }
    assert_int_equal(told, expected);
    assert_int_equal(vv_overlap_count(there, here), expected);
}

static void agrees_with_every_element(void **unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        struct vv_part there = {.element = 1 + below(8), .dims = 1 + below(2)}, here = there;
        if (round % 50 == 0)
            there.dims = here.dims = 3;
        for (unsigned i = 0; i < there.dims; i++) {
            there.dim[i] = random_dim();
            here.dim[i] = below(4) ? random_dim() : there.dim[i];
        }
        check(&there, &here);
    }
}

/* Rows that both have wholly are one stretch, whatever their number. */
static void whole_dimensions_lie_together(void **unused) {
    (void)unused;
    const struct vv_part there = {8, 3, {{10, 0, 10, 10}, {7, 0, 7, 7}, {5, 0, 5, 5}}};
    const struct vv_part here = {8, 3, {{6, 2, 6, 6}, {7, 0, 7, 7}, {5, 0, 5, 5}}};
    struct vv_overlap overlap;
    struct vv_stretch stretch;
    assert_int_equal(vv_overlap_begin(&overlap, &there, &here), 1);
    assert_int_equal(vv_overlap_next(&overlap, &stretch), 1);
    assert_int_equal(stretch.from, 2 * 35 * 8);
    assert_int_equal(stretch.to, 0);
    assert_int_equal(stretch.length, 6 * 35 * 8);
    assert_int_equal(vv_overlap_next(&overlap, &stretch), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_every_element),
        cmocka_unit_test(whole_dimensions_lie_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
