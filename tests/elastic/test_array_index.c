/* The index of arrays: whoever asks it for some elements gets every rank that has one of them, and no other. Sizes for
 * a million ranks. What is damaged is refused, and never read beyond its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"
#include "base/alloc.h"
#include "test.h"

#define MILLION 1048576u

static uint64_t state = 1;
static uint64_t below(uint64_t bound) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % bound;
}

/* Bytes in memory, and how many were asked for. */
struct stored {
    const uint8_t *data;
    uint64_t size, asked;
};

static int fill(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    struct stored *stored = arg;
    (void)error;
    assert_true(offset <= stored->size && size <= stored->size - offset);
    memcpy(data, stored->data + offset, size);
    stored->asked += size;
    return 0;
}

static void add(struct vv_global_arrays *arrays, uint32_t owner, const char *name, const struct vv_part *part,
                const uint64_t *global, enum varve_distribution how) {
    struct vv_recipe_region region = {
        .length = vv_part_elements(part) * 8,
        .shape = {.type = VARVE_U64, .dims = (uint8_t)part->dims, .distribution = (uint8_t)how}};
    struct varve_error error = {0};
    snprintf(region.name, sizeof region.name, "%s", name);
    for (unsigned i = 0; i < part->dims; i++) {
        const struct vv_part_dim *dim = &part->dim[i];
        region.shape.dim[i].global = global[i];
        region.shape.dim[i].first = dim->first;
        region.shape.dim[i].local = dim->local;
        if (dim->every > dim->block)
            region.shape.dim[i].stride = (struct varve_stride){dim->block, dim->every};
    }
    assert_int_equal(vv_global_arrays_describe(arrays, owner, &region, &error), 0);
}

/* ---- asking ---- */

struct seen {
    uint8_t *is_told;
    uint32_t count;
};

static int see(void *arg, uint32_t owner, const struct vv_part *part) {
    struct seen *seen = arg;
    (void)part;
    assert_int_equal(seen->is_told[owner], 0);
    seen->is_told[owner] = 1;
    seen->count++;
    return 0;
}

/* Against all parts, one by one. */
static void must_answer(const struct vv_buf *index, uint32_t ranks, const struct vv_part *parts, const char *name,
                        const struct vv_part *wanted) {
    struct stored stored = {index->data, index->size, 0};
    struct vv_index opened;
    struct varve_error error = {0};
    struct seen seen = {.is_told = calloc(ranks, 1)};
    if (vv_index_open(&opened, fill, &stored, index->size, ranks, &error) != 0)
        fail_msg("%s", error.text);
    int rc = vv_index_owners(&opened, name, wanted, see, &seen, &error);
    if (rc != 1)
        fail_msg("%d: %s", rc, error.text);
    for (uint32_t i = 0; i < ranks; i++)
        assert_int_equal(seen.is_told[i], vv_overlap_count(&parts[i], wanted) > 0);
    assert_int_equal(vv_index_owners(&opened, "another", wanted, see, &seen, &error), 0);
    vv_index_close(&opened);
    free(seen.is_told);
}

static struct vv_part random_part(unsigned dims, const uint64_t *global) {
    struct vv_part part = {.element = 8, .dims = dims};
    for (unsigned i = 0; i < dims; i++) {
        uint64_t first = below(global[i]), local = below(global[i] - first + 1), length = local ? local : 1;
        part.dim[i] = (struct vv_part_dim){local, first, length, length};
        if (local > 3 && below(3) == 0)
            part.dim[i] = (struct vv_part_dim){local / 2, first, 1, 2};
    }
    return part;
}

/* A grid by a rule for each dimension, or cut anywhere; row-major or the other way round. */
static void make_grid(struct vv_part *parts, unsigned dims, const uint64_t *global, const uint64_t *grid, int order,
                      uint64_t ranks) {
    enum vv_index_rule rule[3];
    uint64_t block[3], shift[3];
    for (unsigned i = 0; i < dims; i++) {
        rule[i] = (enum vv_index_rule)below(5);
        block[i] = 1 + below(9);
        shift[i] = below(3);
    }
    for (uint64_t rank = 0; rank < ranks; rank++) {
        uint64_t number = rank;
        parts[rank] = (struct vv_part){.element = 8, .dims = dims};
        for (unsigned j = 0; j < dims; j++) {
            unsigned i = order ? j : dims - 1 - j;
            uint64_t at = number % grid[i];
            number /= grid[i];
            struct vv_part_dim dim =
                vv_index_cut(rule[i] == VV_CUT_LIST ? VV_CUT_REST : rule[i], global[i], grid[i], at, block[i]);
            if (rule[i] == VV_CUT_LIST && dim.local > shift[i] + 1 && at % 2) /* leaves a hole */
                dim = (struct vv_part_dim){dim.local - shift[i], dim.first, dim.local - shift[i], dim.local - shift[i]};
            parts[rank].dim[i] = dim;
        }
    }
}

static void encode(const struct vv_part *parts, uint32_t ranks, const uint64_t *global, struct vv_buf *out) {
    struct vv_global_arrays arrays = {0};
    for (uint32_t i = 0; i < ranks; i++)
        add(&arrays, i, "field", &parts[i], global, VARVE_BY_DIMS);
    vv_buf_init(out);
    vv_index_encode(&arrays, ranks, out);
    assert_int_equal(out->failed, 0);
    vv_global_arrays_clear(&arrays);
}

static void grids_are_found(void **unused) {
    (void)unused;
    for (int round = 0; round < 300; round++) {
        unsigned dims = 1 + (unsigned)below(3);
        uint64_t global[3], grid[3], ranks = 1;
        struct vv_buf index;
        for (unsigned i = 0; i < dims; i++) {
            global[i] = 1 + below(200);
            grid[i] = 1 + below(9);
            ranks *= grid[i];
        }
        struct vv_part *parts = calloc(ranks, sizeof *parts);
        make_grid(parts, dims, global, grid, (int)below(2), ranks);
        encode(parts, (uint32_t)ranks, global, &index);
        for (int i = 0; i < 10; i++) {
            struct vv_part wanted = random_part(dims, global);
            must_answer(&index, (uint32_t)ranks, parts, "field", &wanted);
        }
        vv_buf_clear(&index);
        free(parts);
    }
}

/* Any parts, which may overlap or be empty. */
static void lists_are_found(void **unused) {
    (void)unused;
    for (int round = 0; round < 100; round++) {
        unsigned dims = 1 + (unsigned)below(3);
        uint64_t global[3] = {1 + below(100), 1 + below(100), 1 + below(100)};
        uint32_t ranks = 1 + (uint32_t)below(1000);
        struct vv_part *parts = calloc(ranks, sizeof *parts);
        struct vv_buf index;
        for (uint32_t i = 0; i < ranks; i++)
            parts[i] = random_part(dims, global);
        encode(parts, ranks, global, &index);
        for (int i = 0; i < 5; i++) {
            struct vv_part wanted = random_part(dims, global);
            must_answer(&index, ranks, parts, "field", &wanted);
        }
        vv_buf_clear(&index);
        free(parts);
    }
}

/* ---- sizes ---- */

static void tile(struct vv_part *part, uint64_t rank, int is_regular) {
    static uint64_t column_end;
    uint64_t row = rank / 1024, column = rank % 1024;
    *part = (struct vv_part){.element = 8, .dims = 2};
    part->dim[0] = vv_index_cut(VV_CUT_REST, 1000000, 1024, row, 0);
    part->dim[1] = vv_index_cut(VV_CUT_FLOOR, 3000000, 1024, column, 0);
    if (is_regular)
        return;
    column_end = column ? column_end : 0; /* each row is cut elsewhere */
    uint64_t end = column == 1023 ? 3000000 : part->dim[1].first + part->dim[1].local - below(500);
    part->dim[1] = (struct vv_part_dim){end - column_end, column_end, end - column_end, end - column_end};
    column_end = end;
}

static void a_million_ranks(void **unused) {
    static const uint64_t global[] = {1000000, 3000000};
    struct vv_part *parts = calloc(MILLION, sizeof *parts);
    (void)unused;
    for (int is_regular = 1; is_regular >= 0; is_regular--) {
        struct vv_index opened;
        struct varve_error error = {0};
        struct vv_buf index;
        for (uint32_t i = 0; i < MILLION; i++)
            tile(&parts[i], i, is_regular);
        encode(parts, MILLION, global, &index);
        struct stored stored = {index.data, index.size, 0};
        struct seen seen = {.is_told = calloc(MILLION, 1)};
        print_message("%s: %zu bytes, %.1f for each block\n", is_regular ? "a rule" : "a list", index.size,
                      (double)index.size / MILLION);
        assert_true(index.size <= (is_regular ? 4096 : 32 * (uint64_t)MILLION));
        /* One of 768 x 1024 ranks asks for its tile. */
        struct vv_part wanted = {.element = 8, .dims = 2};
        wanted.dim[0] = vv_index_cut(VV_CUT_REST, global[0], 768, 300, 0);
        wanted.dim[1] = vv_index_cut(VV_CUT_REST, global[1], 1024, 500, 0);
        assert_int_equal(vv_index_open(&opened, fill, &stored, index.size, MILLION, &error), 0);
        assert_int_equal(vv_index_owners(&opened, "field", &wanted, see, &seen, &error), 1);
        print_message("%s: a rank of 768 x 1024 finds %u owners in %llu bytes\n", is_regular ? "a rule" : "a list",
                      seen.count, (unsigned long long)stored.asked);
        assert_in_range(seen.count, 2, 12);
        assert_true(stored.asked < 512 << 10);
        vv_index_close(&opened);
        vv_buf_clear(&index);
        free(seen.is_told);
    }
    free(parts);
}

/* Lists have the place that follows from the ranks before. */
static int see_place(void *arg, uint32_t owner, const struct vv_part *part) {
    ((uint64_t *)arg)[owner] = part->dim[0].first + 1;
    return 0;
}

static void lists_have_places(void **unused) {
    static const uint64_t counts[] = {5, 0, 7, 1}, global[] = {0};
    struct vv_global_arrays arrays = {0};
    struct vv_index opened;
    struct varve_error error = {0};
    struct vv_buf index;
    uint64_t places[4] = {0}, rows;
    (void)unused;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t length = counts[i] ? counts[i] : 1;
        struct vv_part part = {.element = 8, .dims = 1, .dim = {{counts[i], 0, length, length}}};
        add(&arrays, i, "list", &part, global, VARVE_JOINED);
    }
    vv_buf_init(&index);
    vv_index_encode(&arrays, 4, &index);
    struct stored stored = {index.data, index.size, 0};
    struct vv_part wanted = {.element = 8, .dims = 1, .dim = {{9, 4, 9, 9}}};
    assert_int_equal(vv_index_open(&opened, fill, &stored, index.size, 4, &error), 0);
    assert_int_equal(vv_index_owners(&opened, "list", &wanted, see_place, places, &error), 1);
    assert_int_equal(vv_index_rows(&opened, "list", &rows), 1);
    assert_int_equal(rows, 13);
    assert_true(places[0] == 1 && places[1] == 0 && places[2] == 6 && places[3] == 13);
    vv_index_close(&opened);
    vv_buf_clear(&index);
    vv_global_arrays_clear(&arrays);
}

/* Every byte changed, every length: an answer, or an error with a text. The memory behind is watched by sanitizers. */
static int ignore(void *arg, uint32_t owner, const struct vv_part *part) {
    (void)part;
    assert_true(owner < *(uint32_t *)arg);
    return 0;
}

static void try_damaged(const uint8_t *data, size_t size, uint32_t ranks, const struct vv_part *wanted) {
    uint8_t *copy = malloc(size ? size : 1);
    struct stored stored = {copy, size, 0};
    struct vv_index opened;
    struct varve_error error = {0};
    memcpy(copy, data, size);
    int rc = vv_index_open(&opened, fill, &stored, size, ranks, &error);
    if (rc == 0)
        rc = vv_index_owners(&opened, "field", wanted, ignore, &ranks, &error);
    assert_true(rc >= 0 || error.text[0]);
    vv_index_close(&opened);
    free(copy);
}

static void damage_is_refused(void **unused) {
    static const uint64_t global[] = {90, 70};
    (void)unused;
    for (int kind = 0; kind < 2; kind++) {
        struct vv_part parts[300], wanted = {.element = 8, .dims = 2, .dim = {{50, 3, 50, 50}, {20, 9, 20, 20}}};
        uint32_t ranks = kind ? 300 : 30;
        struct vv_buf index;
        make_grid(parts, 2, global, (const uint64_t[]){5, 6}, 0, 30);
        for (uint32_t i = 0; kind && i < ranks; i++)
            parts[i] = random_part(2, global);
        encode(parts, ranks, global, &index);
        for (size_t i = 0; i < index.size; i++)
            for (int bit = 0; bit < 8; bit++) {
                index.data[i] ^= (uint8_t)(1 << bit);
                try_damaged(index.data, index.size, ranks, &wanted);
                index.data[i] ^= (uint8_t)(1 << bit);
            }
        for (size_t size = 0; size < index.size; size++)
            try_damaged(index.data, size, ranks, &wanted);
        for (int i = 0; i < 20000; i++) {
            uint8_t old[4];
            size_t at[4];
            for (int j = 0; j < 4; j++) {
                at[j] = below(index.size);
                old[j] = index.data[at[j]];
                index.data[at[j]] = (uint8_t)below(256);
            }
            try_damaged(index.data, index.size, ranks, &wanted);
            for (int j = 4; j-- > 0;)
                index.data[at[j]] = old[j];
        }
        vv_buf_clear(&index);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_found),   cmocka_unit_test(lists_are_found),   cmocka_unit_test(a_million_ranks),
        cmocka_unit_test(lists_have_places), cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
