/* From the blocks of all ranks to an index. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"
#include "base/alloc.h"

#define CUTS_MOST 512 /* that a rule writes down one by one; more become a list */

static struct vv_part_dim together(uint64_t first, uint64_t local) {
    uint64_t length = local ? local : 1;
    return (struct vv_part_dim){local, first, length, length};
}

static struct vv_part_dim deal(uint64_t size, uint64_t parts, uint64_t at, uint64_t block) {
    uint64_t round, before;
    if (__builtin_mul_overflow(block, parts, &round) || __builtin_mul_overflow(block, at, &before) || before >= size)
        return together(size, 0);
    uint64_t rest = size % round, more = rest <= before ? 0 : rest - before < block ? rest - before : block;
    uint64_t local = size / round * block + more;
    return local <= block ? together(before, local) : (struct vv_part_dim){local, before, block, round};
}

struct vv_part_dim vv_index_cut(enum vv_index_rule rule, uint64_t size, uint64_t parts, uint64_t at, uint64_t block) {
    uint64_t share = size / parts, rest = size % parts, first, end;
    switch (rule) {
    case VV_CUT_FLOOR: /* without a product that could overflow */
        first = share * at + (uint64_t)((unsigned __int128)rest * at / parts);
        end = share * (at + 1) + (uint64_t)((unsigned __int128)rest * (at + 1) / parts);
        return together(first, end - first);
    case VV_CUT_REST:
        first = share * at + (at < rest ? at : rest);
        return together(first, share + (at < rest));
    case VV_CUT_CEIL:
        share += rest > 0;
        first = share > 0 && at > size / share ? size : share * at;
        first = first < size ? first : size;
        return together(first, share < size - first ? share : size - first);
    default:
        return deal(size, parts, at, block);
    }
}

/* ---- is it a grid? ---- */

struct grid_dim {
    uint64_t parts, step; /* rank r is at (r / step) mod parts */
    enum vv_index_rule rule;
    uint64_t block;
    struct vv_part_dim *cuts;
};

static const struct vv_part_dim *box_of(const struct vv_global_array *global, size_t block, unsigned dim) {
    return &global->boxes[block * global->array.dims + dim];
}

static int by_first(const void *a, const void *b) {
    const struct vv_part_dim *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->local < y->local ? -1 : x->local > y->local;
}

static int is_same(const struct vv_part_dim *a, const struct vv_part_dim *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* The different parts of this dimension, ascending. */
static int find_cuts(const struct vv_global_array *global, unsigned dim, struct grid_dim *out) {
    struct vv_part_dim *cuts = vv_calloc(global->count, sizeof *cuts);
    if (!cuts)
        return -ENOMEM;
    for (size_t i = 0; i < global->count; i++)
        cuts[i] = *box_of(global, i, dim);
    qsort(cuts, global->count, sizeof *cuts, by_first);
    out->parts = 1;
    for (size_t i = 1; i < global->count; i++)
        if (!is_same(&cuts[i], &cuts[out->parts - 1]))
            cuts[out->parts++] = cuts[i];
    out->cuts = cuts;
    out->step = 1;
    while (out->parts > 1 && out->step < global->count &&
           is_same(box_of(global, 0, dim), box_of(global, (size_t)out->step, dim)))
        out->step++;
    return 0;
}

static void find_rule(uint64_t size, struct grid_dim *dim) {
    dim->block = dim->cuts[0].block;
    for (int rule = VV_CUT_FLOOR; rule < VV_CUT_LIST; rule++) {
        uint64_t at = 0;
        for (struct vv_part_dim cut; at < dim->parts; at++) {
            cut = vv_index_cut((enum vv_index_rule)rule, size, dim->parts, at, dim->block);
            if (!is_same(&cut, &dim->cuts[at]))
                break;
        }
        dim->rule = (enum vv_index_rule)rule;
        if (at == dim->parts)
            return;
    }
    dim->rule = VV_CUT_LIST;
}

/* Has every rank the block that its number says? */
static int is_grid(const struct vv_global_array *global, uint32_t ranks, const struct grid_dim *grid) {
    uint64_t product = 1;
    for (unsigned i = 0; i < global->array.dims; i++)
        if (__builtin_mul_overflow(product, grid[i].parts, &product) ||
            (grid[i].rule == VV_CUT_LIST && grid[i].parts > CUTS_MOST))
            return 0;
    if (product != ranks || global->count != ranks)
        return 0;
    for (size_t i = 0; i < global->count; i++)
        for (unsigned j = 0; j < global->array.dims; j++)
            if (global->blocks[i].owner != i ||
                !is_same(box_of(global, i, j), &grid[j].cuts[i / grid[j].step % grid[j].parts]))
                return 0;
    return 1;
}

static void put_part(struct vv_buf *out, const struct vv_part_dim *part, uint64_t before) {
    int is_apart = part->every > part->block;
    vv_buf_svarint(out, (int64_t)(part->first - before));
    vv_buf_varint(out, part->local);
    vv_buf_varint(out, is_apart ? part->block : 0);
    if (is_apart)
        vv_buf_varint(out, part->every);
}

static void put_grid(struct vv_buf *out, const struct grid_dim *grid, unsigned dims) {
    for (unsigned i = 0; i < dims; i++) {
        vv_buf_varint(out, grid[i].parts);
        vv_buf_varint(out, grid[i].step);
        vv_buf_u8(out, (uint8_t)grid[i].rule);
        if (grid[i].rule == VV_CUT_CYCLIC)
            vv_buf_varint(out, grid[i].block);
        for (uint64_t at = 0; grid[i].rule == VV_CUT_LIST && at < grid[i].parts; at++)
            put_part(out, &grid[i].cuts[at], at ? grid[i].cuts[at - 1].first : 0);
    }
}

/* ---- blocks one by one ---- */

/* Where the groups of a list begin is known when all entries are: until then, from the end of them. */
struct lists {
    struct vv_buf *directory, *groups;
};

static int by_place(const void *a, const void *b, void *arg) {
    const struct vv_global_array *global = arg;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    for (unsigned i = 0; i < global->array.dims; i++) {
        uint64_t left = box_of(global, x, i)->first, right = box_of(global, y, i)->first;
        if (left != right)
            return left < right ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static int has_elements(const struct vv_global_array *global, size_t block) {
    for (unsigned i = 0; i < global->array.dims; i++)
        if (box_of(global, block, i)->local == 0)
            return 0;
    return 1;
}

static void put_group(const struct vv_global_array *global, const size_t *order, size_t count,
                      const struct lists *lists) {
    unsigned dims = global->array.dims;
    uint64_t before[VV_DIMS_MAX] = {0};
    size_t begin = lists->groups->size;
    for (size_t i = 0; i < count; i++) {
        vv_buf_varint(lists->groups, global->blocks[order[i]].owner);
        for (unsigned j = 0; j < dims; j++) {
            const struct vv_part_dim *part = box_of(global, order[i], j);
            put_part(lists->groups, part, before[j]);
            before[j] = part->first;
        }
    }
    vv_buf_u64(lists->directory, begin);
    vv_buf_u32(lists->directory, (uint32_t)(lists->groups->size - begin));
    vv_buf_u32(lists->directory, (uint32_t)count);
    for (unsigned j = 0; j < dims; j++) {
        uint64_t least = UINT64_MAX, end = 0;
        for (size_t i = 0; i < count; i++) {
            const struct vv_part_dim *part = box_of(global, order[i], j);
            least = part->first < least ? part->first : least;
            end = vv_part_end(part) > end ? vv_part_end(part) : end;
        }
        vv_buf_u64(lists->directory, least);
        vv_buf_u64(lists->directory, end);
    }
}

static void put_list(struct vv_buf *out, struct vv_global_array *global, const struct lists *lists) {
    size_t *order = vv_calloc(global->count + 1, sizeof *order), count = 0;
    if (!order) {
        out->failed = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < global->count; i++)
        if (has_elements(global, i))
            order[count++] = i;
    qsort_r(order, count, sizeof *order, by_place, global);
    vv_buf_varint(out, count);
    vv_buf_varint(out, lists->directory->size);
    for (size_t i = 0; i < count; i += VV_INDEX_GROUP)
        put_group(global, order + i, count - i < VV_INDEX_GROUP ? count - i : VV_INDEX_GROUP, lists);
    vv_free(order);
}

/* ---- all of it ---- */

static void put_blocks(struct vv_buf *out, struct vv_global_array *global, uint32_t ranks, const struct lists *lists) {
    struct grid_dim grid[VV_DIMS_MAX] = {{0}};
    unsigned dims = global->array.dims;
    int rc = 0;
    for (unsigned i = 0; i < dims && rc == 0; i++) {
        rc = find_cuts(global, i, &grid[i]);
        if (rc == 0)
            find_rule(global->array.dim[i].global, &grid[i]);
    }
    int kind = rc == 0 && is_grid(global, ranks, grid) ? VV_INDEX_GRID : VV_INDEX_LIST;
    vv_buf_u8(out, (uint8_t)kind);
    if (kind == VV_INDEX_GRID)
        put_grid(out, grid, dims);
    else
        put_list(out, global, lists);
    for (unsigned i = 0; i < dims; i++)
        vv_free(grid[i].cuts);
    out->failed = rc ? rc : out->failed;
}

static void put_array(struct vv_buf *out, struct vv_global_array *global, uint32_t ranks, const struct lists *lists) {
    vv_buf_text16(out, global->name);
    vv_buf_u8(out, (uint8_t)global->array.type);
    vv_buf_u8(out, (uint8_t)global->array.dims);
    vv_buf_u8(out, global->joined > 0);
    for (unsigned i = 0; i < global->array.dims; i++)
        vv_buf_varint(out, global->array.dim[i].global);
    put_blocks(out, global, ranks, lists);
}

void vv_index_encode(const struct vv_global_arrays *arrays, uint32_t ranks, struct vv_buf *out) {
    struct vv_buf entries, directory, groups;
    const struct lists lists = {&directory, &groups};
    uint32_t count = 0;
    vv_buf_init(&entries);
    vv_buf_init(&directory);
    vv_buf_init(&groups);
    for (size_t i = 0; i < arrays->count; i++) {
        struct vv_global_array *global = &arrays->list[i];
        if (global->is_ambiguous || global->uneven || (global->joined > 0 && global->joined < global->count))
            continue;
        put_array(&entries, global, ranks, &lists);
        count++;
    }
    vv_buf_u32(out, VV_INDEX_MAGIC);
    vv_buf_u32(out, ranks);
    vv_buf_u32(out, count);
    vv_buf_u32(out, (uint32_t)entries.size);
    vv_buf_u64(out, directory.size);
    vv_buf_append(out, entries.data, entries.size);
    vv_buf_append(out, directory.data, directory.size);
    vv_buf_append(out, groups.data, groups.size);
    if (entries.failed || directory.failed || groups.failed || entries.size > UINT32_MAX)
        out->failed = -ENOMEM;
    vv_buf_clear(&entries);
    vv_buf_clear(&directory);
    vv_buf_clear(&groups);
}
