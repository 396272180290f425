/* What all ranks have stored, by name: each rank reads the descriptions of its share of them, and all put theirs
 * together along a tree. */
#include "restart/stored_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/attributes.h"

static int by_name(const void *a, const void *b) {
    const struct vv_stored_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->owner < y->owner ? -1 : x->owner > y->owner;
}

static void clear_name(struct vv_stored_name *entry) {
    vv_free(entry->name);
    vv_array_drop(entry->array);
}

static void clear_list(struct vv_stored_list *list) {
    for (size_t i = 0; i < list->count; i++)
        clear_name(&list->list[i]);
    vv_free(list->list);
    *list = (struct vv_stored_list){0};
}

void vv_names_clear(struct vv_stored_names *names) {
    clear_list(&names->all);
    clear_list(&names->own);
}

static const struct vv_stored_name *find(const struct vv_stored_list *list, const char *name) {
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, list->list[middle].name);
        if (order == 0)
            return &list->list[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct vv_stored_name *vv_names_own(const struct vv_stored_names *names, const char *name) {
    return find(&names->own, name);
}

/* The array is taken over, also on failure. */
static int add(struct vv_stored_list *list, const char *name, const struct vv_stored_name *values) {
    struct vv_stored_name entry = *values;
    entry.name = vv_strdup(name);
    if (!entry.name || VV_GROW(list->list, list->count, list->capacity) != 0) {
        clear_name(&entry);
        return -ENOMEM;
    }
    list->list[list->count++] = entry;
    return 0;
}

/* ---- the same name on several ranks ---- */

/* Of a list, or of what belongs to one rank, places mean nothing. */
static void forget_places(struct varve_array *array) {
    memset(array->stride, 0, sizeof array->stride);
    for (unsigned i = 0; i < array->dims; i++)
        array->dim[i] = (struct varve_dim){array->dim[i].local, 0, array->dim[i].local};
}

static void see_whole(struct varve_array *array) {
    memset(array->stride, 0, sizeof array->stride);
    for (unsigned i = 0; i < array->dims; i++)
        array->dim[i] = (struct varve_dim){array->dim[i].global, 0, array->dim[i].global};
}

static int add_stored(struct vv_stored_list *list, uint32_t owner, const struct vv_recipe_region *stored,
                      int is_whole) {
    struct vv_stored_name entry = {.how = (enum varve_distribution)stored->shape.distribution,
                                   .owner = owner,
                                   .bytes = stored->length,
                                   .total = stored->length};
    struct varve_array array;
    vv_array_of(&stored->shape, &array);
    if (is_whole && entry.how == VARVE_BY_DIMS)
        see_whole(&array);
    if (is_whole && entry.how == VARVE_JOINED)
        forget_places(&array);
    if (array.type != VARVE_BYTES || array.dims > 0) {
        entry.array = vv_array_make(&array);
        if (!entry.array)
            return -ENOMEM;
    }
    return add(list, stored->name, &entry);
}

static int is_array(const struct vv_stored_name *entry) {
    return entry->array && entry->array->dims > 0;
}

/* Rows of the same kind? Then it is one list with both. */
static int join_lists(struct vv_stored_name *into, const struct vv_stored_name *more) {
    uint64_t bytes;
    if (__builtin_add_overflow(into->bytes, more->bytes, &bytes) || is_array(into) != is_array(more))
        return 0;
    if (is_array(into)) {
        struct vv_array *a = into->array, *b = more->array;
        uint64_t rows;
        if (a->type != b->type || a->dims != b->dims || a->bound != b->bound ||
            memcmp(a->dim + 1, b->dim + 1, (a->dims - 1u) * sizeof a->dim[0]) != 0 ||
            __builtin_add_overflow(a->dim[0].local, b->dim[0].local, &rows))
            return 0;
        a->dim[0].local = a->dim[0].global = rows;
    }
    into->bytes = bytes;
    return 1;
}

/* Of what all have, or each its own, the lowest rank's stands for all. */
static void combine_two(struct vv_stored_name *into, const struct vv_stored_name *more) {
    int fits = into->how == more->how;
    if (fits && into->how == VARVE_JOINED)
        fits = join_lists(into, more);
    else if (fits && into->how == VARVE_BY_DIMS && (is_array(into) || is_array(more)))
        fits = is_array(into) && is_array(more) && vv_array_equal(into->array, more->array);
    into->is_mixed |= !fits || more->is_mixed;
    if (__builtin_add_overflow(into->total, more->total, &into->total))
        into->total = UINT64_MAX;
}

static void combine(struct vv_stored_list *list) {
    size_t kept = 0;
    if (list->count)
        qsort(list->list, list->count, sizeof *list->list, by_name);
    for (size_t i = 0; i < list->count; i++) {
        if (kept > 0 && strcmp(list->list[kept - 1].name, list->list[i].name) == 0) {
            combine_two(&list->list[kept - 1], &list->list[i]);
            clear_name(&list->list[i]);
        } else {
            list->list[kept++] = list->list[i];
        }
    }
    list->count = kept;
}

/* ---- this rank's share ---- */

static int read_owner(struct vv_stored_names *names, struct vv_view *view, uint32_t owner, int is_own,
                      struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(view, owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        rc = vv_is_about(stored.name) ? 0 : add_stored(&names->all, owner, &stored, 1);
        if (rc == 0 && is_own && !vv_is_about(stored.name))
            rc = add_stored(&names->own, owner, &stored, 0);
    }
    vv_recipe_close(recipe);
    return rc;
}

int vv_names_read(struct vv_stored_names *names, struct vv_view *view, const struct varve_comm *comm,
                  struct varve_error *error) {
    uint64_t ranks = vv_view_record(view)->ranks;
    int rc = 0;
    for (uint64_t owner = comm->rank; owner < ranks && rc == 0; owner += comm->ranks) {
        rc = read_owner(names, view, (uint32_t)owner, owner == comm->rank, error);
        combine(&names->all); /* as many as there are names, and those of one rank */
    }
    combine(&names->own);
    return rc ? vv_error_default(error, rc, "the stored regions could not be listed: %s", varve_error_text(rc)) : 0;
}

/* ---- those of all ranks ---- */

static int give_names(void *arg, struct vv_buf *out) {
    const struct vv_stored_list *list = arg;
    for (size_t i = 0; i < list->count; i++) {
        const struct vv_stored_name *entry = &list->list[i];
        unsigned dims = entry->array ? entry->array->dims : 0;
        vv_buf_text16(out, entry->name);
        vv_buf_u8(out, (uint8_t)entry->how);
        vv_buf_u8(out, (uint8_t)entry->is_mixed);
        vv_buf_u32(out, entry->owner);
        vv_buf_u64(out, entry->bytes);
        vv_buf_u64(out, entry->total);
        vv_buf_u8(out, entry->array ? entry->array->type : VARVE_BYTES);
        vv_buf_u8(out, (uint8_t)dims);
        vv_buf_append(out, &(double){entry->array ? entry->array->bound : 0}, sizeof(double));
        if (dims)
            vv_buf_append(out, entry->array->dim, dims * sizeof entry->array->dim[0]);
    }
    return out->failed;
}

static int take_one(struct vv_stored_list *list, struct vv_cursor *at) {
    char name[VV_REGION_NAME_MAX + 1];
    struct vv_stored_name entry = {0};
    struct vv_array_dim dim[VARVE_DIMS_MAX];
    struct varve_array array = {.size = sizeof array};
    vv_cursor_text16(at, name, sizeof name);
    entry.how = (enum varve_distribution)vv_cursor_u8(at);
    entry.is_mixed = vv_cursor_u8(at);
    entry.owner = vv_cursor_u32(at);
    entry.bytes = vv_cursor_u64(at);
    entry.total = vv_cursor_u64(at);
    array.type = vv_cursor_u8(at);
    array.dims = vv_cursor_u8(at);
    const uint8_t *bound = vv_cursor_take(at, sizeof array.bound);
    const uint8_t *dims = array.dims <= VARVE_DIMS_MAX ? vv_cursor_take(at, array.dims * sizeof dim[0]) : NULL;
    if (!bound || !dims || at->failed)
        return -EBADMSG;
    memcpy(&array.bound, bound, sizeof array.bound);
    memcpy(dim, dims, array.dims * sizeof dim[0]);
    array.lossy = array.bound > 0 ? "zfp" : NULL;
    for (unsigned i = 0; i < array.dims; i++) {
        array.dim[i] = (struct varve_dim){dim[i].local, dim[i].first, dim[i].global};
        array.stride[i] = dim[i].stride;
    }
    if (array.type != VARVE_BYTES || array.dims > 0) {
        entry.array = vv_array_make(&array);
        if (!entry.array)
            return -ENOMEM;
    }
    return add(list, name, &entry);
}

static int take_names(void *arg, const void *data, size_t size) {
    struct vv_stored_list *list = arg;
    struct vv_cursor at;
    int rc = 0;
    vv_cursor_init(&at, data, size);
    while (rc == 0 && vv_cursor_left(&at) > 0)
        rc = take_one(list, &at);
    combine(list);
    return rc;
}

int vv_names_merge(struct vv_stored_names *names, struct varve_comm *comm, struct varve_error *error) {
    const struct vv_merging merging = {take_names, give_names, &names->all};
    struct vv_buf all;
    vv_buf_init(&all);
    int rc = vv_comm_merge(comm, &merging);
    if (rc == 0 && vv_comm_is_root(comm))
        rc = give_names(&names->all, &all);
    if (rc)
        vv_error(error, rc, "the ranks could not put together what is stored: %s", varve_error_text(rc));
    rc = vv_comm_agree(comm, rc, error);
    if (rc == 0)
        rc = vv_comm_share(comm, &all, VV_COMM_ROOT, error);
    if (rc == 0 && !vv_comm_is_root(comm)) {
        clear_list(&names->all);
        rc = take_names(&names->all, all.data, all.size);
        if (rc)
            vv_error(error, rc, "the names of the stored regions could not be taken: %s", varve_error_text(rc));
    }
    vv_buf_clear(&all);
    return vv_comm_agree(comm, rc, error);
}

/* ---- in a program's words ---- */

static uint64_t bytes_of(const struct vv_array *array) {
    uint64_t bytes = vv_type_size(array->type);
    for (unsigned i = 0; i < array->dims; i++)
        if (__builtin_mul_overflow(bytes, array->dim[i].local, &bytes))
            return UINT64_MAX;
    return bytes;
}

void vv_names_tell(const struct vv_stored_name *entry, struct varve_array *array, struct varve_region_info *out) {
    int is_said = !entry->is_mixed;
    vv_array_tell(is_said ? entry->array : NULL, array);
    *out = (struct varve_region_info){entry->name, entry->bytes, array, is_said ? entry->how : VARVE_BY_DIMS};
    if (is_said && is_array(entry) && entry->how == VARVE_BY_DIMS)
        out->bytes = bytes_of(entry->array);
}
