/* What two parts of a global array have in common, against a comparison element by element. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrays/once.h"
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

/* ---- what nobody has, and what several have ---- */

static int has(const struct vv_part *part, const uint64_t *index) {
    uint64_t change;
    for (unsigned i = 0; i < part->dims; i++)
        if (!vv_part_has(&part->dim[i], index[i], &change))
            return 0;
    return 1;
}

static struct vv_part random_part(unsigned dims) {
    struct vv_part part = {.element = 8, .dims = dims};
    for (unsigned i = 0; i < dims; i++)
        part.dim[i] = random_dim();
    return part;
}

#define SPAN 80 /* no index of a random part reaches it */

/* Every index of the box is wanted and nobody's; the first such index of all is the first of the box. */
static void check_hole(const struct vv_part *wanted, const struct vv_part *parts, size_t count, int found,
                       const struct vv_box *box) {
    uint64_t in_box = 0, holes = 0, size = (box->end[0] - box->first[0]) * (box->end[1] - box->first[1]);
    for (uint64_t i = 0; i < (uint64_t)SPAN * SPAN; i++) {
        const uint64_t index[2] = {i / SPAN, i % SPAN};
        int is_hole = has(wanted, index);
        for (size_t j = 0; j < count; j++)
            is_hole = is_hole && !has(&parts[j], index);
        if (is_hole && holes++ == 0)
            assert_true(found && index[0] == box->first[0] && index[1] == box->first[1]);
        in_box += is_hole && index[0] >= box->first[0] && index[0] < box->end[0] && index[1] >= box->first[1] &&
                  index[1] < box->end[1];
    }
    assert_int_equal(found, holes > 0);
    if (found)
        assert_int_equal(in_box, size);
}

static void finds_what_nobody_has(void **unused) {
    int holes = 0;
    (void)unused;
    for (int round = 0; round < 1000; round++) {
        struct vv_part wanted = random_part(2), parts[6];
        const struct vv_part *list[6];
        struct vv_box box = {.dims = 2};
        size_t count = 0;
        for (size_t most = below(7); count < most;) {
            parts[count] = below(3) ? random_part(2) : wanted;
            if (below(2))
                parts[count].dim[0].block = parts[count].dim[0].every; /* dense, so that often nothing is missing */
            if (vv_part_elements(&parts[count]) == 0)
                break;
            list[count] = &parts[count];
            count++;
        }
        int found = vv_parts_hole(&wanted, list, count, &box);
        check_hole(&wanted, parts, count, found, &box);
        holes += found;
    }
    assert_true(holes > 100 && holes < 900);
}

static void names_what_two_have(void **unused) {
    int met = 0;
    (void)unused;
    for (int round = 0; round < 2000; round++) {
        struct vv_part a = random_part(2), b = random_part(2);
        struct vv_owned list[2] = {{.part = a, .owner = 7}, {.part = b, .owner = 3}};
        const struct vv_part *parts[2];
        struct vv_twice twice;
        size_t used, common = 0;
        int rc = vv_parts_once(list, 2, parts, &used, &twice);
        assert_int_equal(rc, vv_overlap_count(&a, &b) > 0);
        if (!rc)
            continue;
        met++;
        assert_true(twice.owner[0] == 3 && twice.owner[1] == 7 && !twice.is_other);
        for (uint64_t i = twice.box.first[0]; i < twice.box.end[0]; i++)
            for (uint64_t j = twice.box.first[1]; j < twice.box.end[1]; j++, common++)
                assert_true(has(&a, (uint64_t[]){i, j}) && has(&b, (uint64_t[]){i, j}));
        assert_true(common > 0);
    }
    assert_true(met > 100);
}

/* Of equal ones the first owner's counts; with other bits they are told. */
static void equal_parts_count_once(void **unused) {
    const struct vv_part part = {8, 1, {{10, 5, 10, 10}}};
    struct vv_owned list[3] = {{.part = part, .owner = 2}, {.part = part, .owner = 1}, {.part = part, .owner = 4}};
    const struct vv_part *parts[3];
    struct vv_twice twice;
    char text[VV_BOX_TEXT];
    size_t used;
    (void)unused;
    assert_int_equal(vv_parts_once(list, 3, parts, &used, &twice), 0);
    assert_true(used == 1 && parts[0] == &list[0].part && list[0].owner == 1 && !list[0].is_again);
    assert_true(list[1].is_again && list[2].is_again);
    list[1].digest.low = 1;
    assert_int_equal(vv_parts_once(list, 3, parts, &used, &twice), 1);
    assert_true(twice.is_other && twice.owner[0] == 1 && twice.owner[1] == 2);
    assert_string_equal(vv_box_text(&twice.box, text), "[5:15]");
}

static void long_indices_are_cut(void **unused) {
    struct vv_box box = {.dims = VV_DIMS_MAX};
    char text[VV_BOX_TEXT];
    (void)unused;
    for (unsigned i = 0; i < VV_DIMS_MAX; i++)
        box.end[i] = UINT64_MAX;
    assert_true(strlen(vv_box_text(&box, text)) < VV_BOX_TEXT);
    assert_string_equal(text + strlen(text) - 7, "5, ...]");
}

/* ---- do any of many meet? ---- */

/* Element by element. */
static int have_common(const struct vv_part *a, const struct vv_part *b) {
    for (uint64_t i = 0; i < size_of(a); i++)
        for (uint64_t j = 0; j < size_of(b); j++)
            if (place_of(a, i) == place_of(b, j))
                return 1;
    return 0;
}

#define PARTS_MOST 27

/* Of a grid of blocks that come again or not, with other starts than the first one now and then; at its end some
 * elements are nobody's. Now and then a part is moved or becomes any other. */
static size_t random_parts(struct vv_part *parts) {
    unsigned dims = 1 + below(3), cuts = 1 + below(3);
    size_t count = 1;
    uint64_t block[3], rounds[3];
    for (unsigned i = 0; i < dims; i++) {
        block[i] = 1 + below(3);
        rounds[i] = 1 + below(3);
        count *= cuts;
    }
    for (size_t n = 0; n < count; n++) {
        size_t number = n;
        parts[n] = (struct vv_part){.element = 8, .dims = dims};
        for (unsigned i = 0; i < dims; i++) {
            struct vv_part_dim *dim = &parts[n].dim[i];
            *dim = (struct vv_part_dim){block[i] * rounds[i], number % cuts * block[i], block[i], block[i] * cuts};
            dim->local -= below(3) ? 0 : below((uint32_t)dim->local);
            if (dim->local <= dim->block) /* as it is told of what lies together */
                dim->block = dim->every = dim->local ? dim->local : 1;
            number /= cuts;
        }
    }
    if (below(2)) {
        struct vv_part_dim *dim = &parts[below((uint32_t)count)].dim[below(dims)];
        dim->first += below(4);
        if (below(2))
            *dim = random_dim();
    }
    return count;
}

/* Does any element of it have this mark? All have the other one then. */
static int remark(uint8_t *marks, const struct vv_part *part, uint8_t mark) {
    int found = 0;
    for (uint64_t i = 0; i < size_of(part); i++) {
        uint64_t place = place_of(part, i), at = ((place >> 32) * 128 + (place >> 16) % 65536) * 128 + place % 65536;
        assert_true(at < 128 * 128 * 128);
        found |= marks[at] == mark;
        marks[at] = mark;
    }
    return found;
}

static void finds_any_that_meet(void **unused) {
    static uint8_t marks[128 * 128 * 128];
    int met = 0;
    (void)unused;
    for (int round = 0; round < 4000; round++) {
        struct vv_part parts[PARTS_MOST];
        const struct vv_part *list[PARTS_MOST];
        size_t count = random_parts(parts), first = 0, second = 0;
        int expected = 0;
        for (size_t i = 0; i < count; i++) {
            list[i] = &parts[i];
            expected |= remark(marks, &parts[i], 1);
        }
        for (size_t i = 0; i < count; i++)
            remark(marks, &parts[i], 0);
        assert_int_equal(vv_parts_meet(list, count, &first, &second), expected);
        assert_true(!expected || (first < second && have_common(&parts[first], &parts[second])));
        met += expected;
    }
    assert_true(met > 500 && met < 3500);
}

/* Block-cyclic on a grid of so many in each dimension, as ScaLAPACK lays it out: the last ones have a block less. */
static struct vv_part *cyclic_grid(unsigned dims, uint64_t cuts, size_t *count) {
    *count = 1;
    for (unsigned i = 0; i < dims; i++)
        *count *= cuts;
    struct vv_part *parts = calloc(*count, sizeof *parts);
    assert_non_null(parts);
    for (size_t n = 0; n < *count; n++) {
        size_t number = n;
        parts[n] = (struct vv_part){.element = 8, .dims = dims};
        for (unsigned i = 0; i < dims; i++) {
            uint64_t at = number % cuts, local = at < cuts / 2 ? 64 : at + 1 < cuts ? 32 : 7, block = local / 32 * 32;
            block = block > 32 ? 32 : local;
            parts[n].dim[i] = (struct vv_part_dim){local, at * 32, block, block < local ? cuts * 32 : local};
            number /= cuts;
        }
    }
    return parts;
}

static int meet_soon(const struct vv_part *parts, size_t count, size_t *first, size_t *second) {
    const struct vv_part **list = calloc(count, sizeof(const struct vv_part *));
    assert_non_null(list);
    clock_t begin = clock();
    for (size_t i = 0; i < count; i++)
        list[i] = &parts[i];
    int rc = vv_parts_meet(list, count, first, second);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("%zu parts of %u dimensions: %d after %.2f s\n", count, parts->dims, rc, seconds);
    assert_true(seconds < 5); /* pairs took minutes */
    free(list);
    return rc;
}

static void cyclic_grids_are_taken_apart(void **unused) {
    static const uint64_t cuts[] = {60000, 100, 27};
    (void)unused;
    for (unsigned dims = 1; dims <= 3; dims++) {
        size_t count, first, second;
        struct vv_part *parts = cyclic_grid(dims, cuts[dims - 1], &count);
        assert_int_equal(meet_soon(parts, count, &first, &second), 0);
        parts[count / 3].dim[0].first++; /* into its neighbour */
        assert_int_equal(meet_soon(parts, count, &first, &second), 1);
        assert_true(first == count / 3 && second == count / 3 + 1);
        free(parts);
    }
}

/* Four arms turn around the others, so that no cut leaves all of them whole. */
static void too_many_pairs_are_refused(void **unused) {
    enum { COUNT = 20000, PERIOD = COUNT + 2 };
    struct vv_part *parts = calloc(COUNT + 4, sizeof *parts);
    size_t first, second;
    (void)unused;
    assert_non_null(parts);
    for (size_t i = 0; i < COUNT; i++)
        parts[i] = (struct vv_part){8, 2, {{4, 1 + i, 1, PERIOD}, {1, 1, 1, 1}}};
    parts[COUNT] = (struct vv_part){8, 2, {{PERIOD - 1, 0, PERIOD - 1, PERIOD - 1}, {1, 0, 1, 1}}};
    parts[COUNT + 1] = (struct vv_part){8, 2, {{1, PERIOD - 1, 1, 1}, {2, 0, 2, 2}}};
    parts[COUNT + 2] = (struct vv_part){8, 2, {{PERIOD - 1, 1, PERIOD - 1, PERIOD - 1}, {1, 2, 1, 1}}};
    parts[COUNT + 3] = (struct vv_part){8, 2, {{1, 0, 1, 1}, {2, 1, 2, 2}}};
    assert_int_equal(meet_soon(parts, COUNT + 4, &first, &second), -E2BIG);
    assert_int_equal(meet_soon(parts + COUNT - 500, 504, &first, &second), 0);
    free(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_every_element),
        cmocka_unit_test(whole_dimensions_lie_together),
        cmocka_unit_test(finds_what_nobody_has),
        cmocka_unit_test(names_what_two_have),
        cmocka_unit_test(equal_parts_count_once),
        cmocka_unit_test(finds_any_that_meet),
        cmocka_unit_test(cyclic_grids_are_taken_apart),
        cmocka_unit_test(too_many_pairs_are_refused),
        cmocka_unit_test(long_indices_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
