/* From an index to the ranks that have some elements. It may be damaged or invented: nothing in it is believed. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"
#include "base/alloc.h"

#define ENTRIES_MOST (256u << 20)
#define PARTS_MOST UINT64_C(16777216) /* ranks of a job */

static int corrupt(struct varve_error *error, const char *what) {
    return vv_error(error, VARVE_CORRUPT, "the index of arrays: %s", what);
}

/* ---- entries ---- */

struct entry {
    char name[VV_REGION_NAME_MAX + 1];
    uint8_t type, dims, is_list, kind;
    uint64_t global[VV_DIMS_MAX];
    struct {
        uint64_t parts, step, block;
        uint8_t rule;
        const uint8_t *cuts; /* where they stand, of VV_CUT_LIST */
    } grid[VV_DIMS_MAX];
    uint64_t blocks, directory; /* of a list */
};

/* before: the first index of the part before. */
static struct vv_part_dim take_part(struct vv_cursor *cursor, uint64_t before) {
    struct vv_part_dim part = {.first = before + (uint64_t)vv_cursor_svarint(cursor)};
    part.local = vv_cursor_varint(cursor);
    part.block = vv_cursor_varint(cursor);
    part.every = part.block ? vv_cursor_varint(cursor) : 0;
    if (part.block == 0)
        part.block = part.every = part.local ? part.local : 1;
    return part;
}

/* Does it lie in a dimension of this size? */
static int is_within(const struct vv_part_dim *part, uint64_t size) {
    uint64_t end;
    if (part->every < part->block || part->first > size || part->local > size)
        return 0;
    if (part->local == 0)
        return 1;
    return !__builtin_mul_overflow((part->local - 1) / part->block, part->every, &end) &&
           !__builtin_add_overflow(end, (part->local - 1) % part->block, &end) &&
           !__builtin_add_overflow(end, part->first, &end) && end < size;
}

static int take_grid(struct vv_cursor *cursor, uint32_t ranks, struct entry *out) {
    uint64_t product = 1;
    for (unsigned i = 0; i < out->dims; i++) {
        uint64_t parts = vv_cursor_varint(cursor), first = 0;
        out->grid[i].parts = parts;
        out->grid[i].step = vv_cursor_varint(cursor);
        out->grid[i].rule = vv_cursor_u8(cursor);
        if (cursor->failed || parts == 0 || parts > ranks || out->grid[i].step == 0 || out->grid[i].step > ranks ||
            out->grid[i].rule > VV_CUT_LIST || __builtin_mul_overflow(product, parts, &product) || product > ranks)
            return -1;
        if (out->grid[i].rule == VV_CUT_CYCLIC && (out->grid[i].block = vv_cursor_varint(cursor)) == 0)
            return -1;
        out->grid[i].cuts = cursor->at;
        for (uint64_t at = 0; out->grid[i].rule == VV_CUT_LIST && at < parts; at++) {
            struct vv_part_dim part = take_part(cursor, first);
            if (cursor->failed || !is_within(&part, out->global[i]))
                return -1;
            first = part.first;
        }
    }
    return product == ranks ? 0 : -1;
}

static int take_entry(struct vv_cursor *cursor, uint32_t ranks, struct entry *out) {
    vv_cursor_text16(cursor, out->name, sizeof out->name);
    out->type = vv_cursor_u8(cursor);
    out->dims = vv_cursor_u8(cursor);
    out->is_list = vv_cursor_u8(cursor);
    if (cursor->failed || vv_type_size(out->type) == 0 || out->dims < 1 || out->dims > VV_DIMS_MAX || out->is_list > 1)
        return -1;
    for (unsigned i = 0; i < out->dims; i++)
        out->global[i] = vv_cursor_varint(cursor);
    out->kind = vv_cursor_u8(cursor);
    if (out->kind == VV_INDEX_GRID)
        return take_grid(cursor, ranks, out);
    out->blocks = vv_cursor_varint(cursor);
    out->directory = vv_cursor_varint(cursor);
    return cursor->failed || out->kind != VV_INDEX_LIST || out->blocks > ranks ? -1 : 0;
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b, void *arg) {
    const uint8_t *entries = arg, *x = entries + *(const uint32_t *)a, *y = entries + *(const uint32_t *)b;
    size_t left = vv_get16(x), right = vv_get16(y);
    int order = memcmp(x + 2, y + 2, left < right ? left : right);
    return order ? order : left < right ? -1 : left > right;
}

/* Every entry is looked at once. */
static int sort_names(struct vv_index *index, struct varve_error *error) {
    struct vv_cursor cursor;
    struct entry entry;
    if (index->arrays > index->entries_size)
        return corrupt(error, "it has more arrays than bytes");
    index->by_name = vv_calloc((size_t)index->arrays + 1, sizeof *index->by_name);
    if (!index->by_name)
        return vv_error(error, -ENOMEM, "no memory for the index of arrays");
    vv_cursor_init(&cursor, index->entries, index->entries_size);
    for (uint32_t i = 0; i < index->arrays; i++) {
        index->by_name[i] = (uint32_t)(cursor.at - index->entries);
        if (take_entry(&cursor, index->ranks, &entry) != 0)
            return corrupt(error, "an entry is damaged");
    }
    if (vv_cursor_left(&cursor) > 0)
        return corrupt(error, "bytes are left behind its entries");
    qsort_r(index->by_name, index->arrays, sizeof *index->by_name, by_name, index->entries);
    return 0;
}

/* 1 and the entry of this name. */
static int find_entry(const struct vv_index *index, const char *name, struct entry *out) {
    uint32_t low = 0, high = index->arrays;
    struct vv_cursor cursor;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, at = index->by_name[middle];
        vv_cursor_init(&cursor, index->entries + at, index->entries_size - at);
        if (take_entry(&cursor, index->ranks, out) != 0)
            return 0;
        size_t length = strlen(name), other = strlen(out->name);
        int order = memcmp(name, out->name, length < other ? length : other);
        order = order ? order : length < other ? -1 : length > other;
        if (order == 0)
            return 1;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return 0;
}

int vv_index_open(struct vv_index *index, vv_index_fill_fn fill, void *arg, uint64_t length, uint32_t ranks,
                  struct varve_error *error) {
    uint8_t head[VV_INDEX_HEAD];
    *index = (struct vv_index){.fill = fill, .arg = arg, .length = length};
    if (length < sizeof head)
        return corrupt(error, "it is shorter than its head");
    int rc = fill(arg, 0, head, sizeof head, error);
    if (rc)
        return rc;
    if (vv_get32(head) != VV_INDEX_MAGIC)
        return vv_error(error, VARVE_UNKNOWN_FORMAT, "the index of arrays is of an unknown kind");
    index->ranks = vv_get32(head + 4);
    index->arrays = vv_get32(head + 8);
    index->entries_size = vv_get32(head + 12);
    if (index->ranks != ranks || ranks == 0)
        return corrupt(error, "it is of another number of ranks");
    if (index->entries_size > length - sizeof head || index->entries_size > ENTRIES_MOST ||
        vv_get64(head + 16) > length - sizeof head - index->entries_size)
        return corrupt(error, "its parts are longer than it is");
    index->entries = vv_malloc(index->entries_size + 1);
    if (!index->entries)
        return vv_error(error, -ENOMEM, "no memory for the index of arrays");
    rc = fill(arg, sizeof head, index->entries, index->entries_size, error);
    return rc ? rc : sort_names(index, error);
}

void vv_index_close(struct vv_index *index) {
    vv_free(index->by_name);
    vv_free(index->entries);
    *index = (struct vv_index){0};
}

/* ---- who has some of it? ---- */

struct asking {
    const struct vv_index *index;
    const struct entry *entry;
    const struct vv_part *wanted;
    vv_index_owner_fn fn;
    void *arg;
};

static int tell(const struct asking *asking, uint64_t owner, const struct vv_part *part) {
    return vv_overlap_count(part, asking->wanted) > 0 ? asking->fn(asking->arg, (uint32_t)owner, part) : 0;
}

/* Of one dimension, the parts that meet the wanted one, and where they are. */
struct met {
    struct vv_part_dim *parts;
    uint64_t *at;
    size_t count;
};

static int meet_dim(const struct asking *asking, unsigned dim, struct met *out) {
    const struct entry *entry = asking->entry;
    uint64_t parts = entry->grid[dim].parts, first = 0;
    size_t capacity = 0, at_capacity = 0;
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, entry->grid[dim].cuts,
                   (size_t)(asking->index->entries + asking->index->entries_size - entry->grid[dim].cuts));
    for (uint64_t at = 0; at < parts; at++) {
        struct vv_part_dim part = entry->grid[dim].rule == VV_CUT_LIST
                                      ? take_part(&cursor, first)
                                      : vv_index_cut((enum vv_index_rule)entry->grid[dim].rule, entry->global[dim],
                                                     parts, at, entry->grid[dim].block);
        first = part.first;
        if (!vv_part_dims_meet(&part, &asking->wanted->dim[dim]))
            continue;
        if (VV_GROW(out->parts, out->count, capacity) != 0 || VV_GROW(out->at, out->count, at_capacity) != 0)
            return -ENOMEM;
        out->parts[out->count] = part;
        out->at[out->count++] = at;
    }
    return 0;
}

/* Every combination of the parts that were met. */
static int tell_grid(const struct asking *asking, const struct met *met) {
    const struct entry *entry = asking->entry;
    size_t at[VV_DIMS_MAX] = {0};
    struct vv_part part = {.element = vv_type_size(entry->type), .dims = entry->dims};
    unsigned dim = 0;
    for (unsigned i = 0; i < entry->dims; i++)
        if (met[i].count == 0)
            return 0;
    while (dim < entry->dims) {
        uint64_t owner = 0;
        for (unsigned i = 0; i < entry->dims; i++) {
            owner += met[i].at[at[i]] * entry->grid[i].step;
            part.dim[i] = met[i].parts[at[i]];
        }
        int rc = owner < asking->index->ranks ? tell(asking, owner, &part) : VARVE_CORRUPT;
        if (rc)
            return rc;
        for (dim = 0; dim < entry->dims && ++at[dim] == met[dim].count; dim++)
            at[dim] = 0;
    }
    return 0;
}

static int ask_grid(const struct asking *asking, struct varve_error *error) {
    struct met met[VV_DIMS_MAX] = {{0}};
    int rc = 0;
    for (unsigned i = 0; i < asking->entry->dims && rc == 0; i++)
        rc = meet_dim(asking, i, &met[i]);
    if (rc == 0)
        rc = tell_grid(asking, met);
    for (unsigned i = 0; i < asking->entry->dims; i++) {
        vv_free(met[i].parts);
        vv_free(met[i].at);
    }
    if (rc == VARVE_CORRUPT)
        return corrupt(error, "a grid reaches beyond the ranks");
    return rc == -ENOMEM ? vv_error(error, rc, "no memory to look into the index of arrays") : rc;
}

static int tell_group(const struct asking *asking, const uint8_t *data, size_t size, uint32_t count,
                      struct varve_error *error) {
    const struct entry *entry = asking->entry;
    struct vv_part part = {.element = vv_type_size(entry->type), .dims = entry->dims};
    struct vv_cursor cursor;
    int rc = 0;
    vv_cursor_init(&cursor, data, size);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint64_t owner = vv_cursor_varint(&cursor);
        for (unsigned j = 0; j < entry->dims; j++) {
            part.dim[j] = take_part(&cursor, part.dim[j].first);
            if (cursor.failed || owner >= asking->index->ranks || !is_within(&part.dim[j], entry->global[j]))
                return corrupt(error, "a block does not lie in its array");
        }
        rc = tell(asking, owner, &part);
    }
    return rc;
}

/* A group that reaches into what is wanted. */
static int ask_group(const struct asking *asking, const uint8_t *item, uint64_t groups, struct varve_error *error) {
    uint64_t offset = vv_get64(item), size = vv_get32(item + 8), room = asking->index->length - groups;
    uint32_t count = vv_get32(item + 12);
    const struct vv_part *wanted = asking->wanted;
    for (unsigned i = 0; i < asking->entry->dims; i++) {
        uint64_t least = vv_get64(item + 16 + 16 * i), end = vv_get64(item + 24 + 16 * i);
        if (vv_part_end(&wanted->dim[i]) <= least || wanted->dim[i].first >= end)
            return 0;
    }
    if (count > VV_INDEX_GROUP || offset > room || size > room - offset)
        return corrupt(error, "a group lies outside");
    uint8_t *data = vv_malloc(size + 1);
    int rc = data ? asking->index->fill(asking->index->arg, groups + offset, data, size, error)
                  : vv_error(error, -ENOMEM, "no memory to look into the index of arrays");
    if (rc == 0)
        rc = tell_group(asking, data, size, count, error);
    vv_free(data);
    return rc;
}

static int ask_list(const struct asking *asking, struct varve_error *error) {
    const struct vv_index *index = asking->index;
    const struct entry *entry = asking->entry;
    uint8_t head[VV_INDEX_HEAD];
    int rc = index->fill(index->arg, 0, head, sizeof head, error);
    if (rc)
        return rc;
    uint64_t begin = VV_INDEX_HEAD + index->entries_size, room = vv_get64(head + 16), item = 16 + 16 * entry->dims;
    uint64_t groups = (entry->blocks + VV_INDEX_GROUP - 1) / VV_INDEX_GROUP, size = groups * item;
    if (room > index->length - begin || entry->directory > room || size > room - entry->directory)
        return corrupt(error, "a list lies outside");
    uint8_t *directory = vv_malloc(size + 1);
    rc = directory ? index->fill(index->arg, begin + entry->directory, directory, size, error)
                   : vv_error(error, -ENOMEM, "no memory to look into the index of arrays");
    for (uint64_t i = 0; i < groups && rc == 0; i++)
        rc = ask_group(asking, directory + i * item, begin + room, error);
    vv_free(directory);
    return rc;
}

static int is_of(const struct entry *entry, const struct vv_part *wanted) {
    return vv_type_size(entry->type) == wanted->element && entry->dims == wanted->dims;
}

int vv_index_owners(const struct vv_index *index, const char *name, const struct vv_part *wanted, vv_index_owner_fn fn,
                    void *arg, struct varve_error *error) {
    struct entry entry;
    struct asking asking = {index, &entry, wanted, fn, arg};
    if (!find_entry(index, name, &entry) || !is_of(&entry, wanted))
        return 0;
    if (vv_part_elements(wanted) == 0)
        return 1;
    int rc = entry.kind == VV_INDEX_GRID ? ask_grid(&asking, error) : ask_list(&asking, error);
    return rc ? rc : 1;
}

int vv_index_rows(const struct vv_index *index, const char *name, uint64_t *rows) {
    struct entry entry;
    int found = find_entry(index, name, &entry);
    *rows = found ? entry.global[0] : 0;
    return found;
}
