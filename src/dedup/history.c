/* The history of a session and its change by a save. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "base/search.h"
#include "dedup/history.h"

static void drop_pending(struct vv_past *past) {
    vv_free(past->new_ids);
    past->new_ids = NULL;
    past->new_count = past->new_capacity = 0;
    vv_origins_clear(&past->changed);
    vv_origins_clear(&past->merged);
    vv_array_drop(past->pending_array);
    past->pending_array = NULL;
    past->is_gone = past->is_moved = past->is_retold = 0;
}

/* Large arrays are mapped, so that ids of memory never touched cost nothing; a million small ones must not be. */
#define MAPPED (128u << 10)

static struct vv_hash128 *alloc_ids(uint64_t capacity) {
    return capacity * sizeof(struct vv_hash128) < MAPPED ? vv_calloc(capacity, sizeof(struct vv_hash128))
                                                         : vv_pages_map(capacity * sizeof(struct vv_hash128));
}

static void free_ids(struct vv_past *past) {
    if (past->ids_capacity * sizeof *past->ids < MAPPED)
        vv_free(past->ids);
    else
        vv_pages_unmap(past->ids, past->ids_capacity * sizeof *past->ids);
    past->ids = NULL;
    past->ids_capacity = 0;
}

#define MARKS_SMALL (128u << 10) /* bytes: there may be a million regions, and mappings are few */

static struct vv_fine_mark *alloc_marks(uint64_t capacity) {
    uint64_t bytes = capacity * sizeof(struct vv_fine_mark);
    return bytes < MARKS_SMALL ? vv_calloc(1, bytes) : vv_pages_map(bytes);
}

void vv_past_drop_marks(struct vv_past *past) {
    uint64_t bytes = past->marks_capacity * sizeof *past->marks;
    if (bytes < MARKS_SMALL)
        vv_free(past->marks);
    else
        vv_pages_unmap(past->marks, bytes);
    past->marks = NULL;
    past->marks_capacity = 0;
    past->are_marks_pending = 0;
}

/* From `from` on (a multiple of a granule): take them from `old`, or, if that is NULL, forget them. Only what was not
 * zero has marks: the rest is not touched. */
static void copy_marks(const struct vv_past *past, uint64_t from, struct vv_fine_mark *marks,
                       const struct vv_fine_mark *old) {
    for (size_t at = vv_origins_find(&past->origins, from); at < past->origins.count; at++) {
        const struct vv_origin *origin = &past->origins.list[at];
        uint64_t begin = origin->offset > from ? origin->offset / VV_GRANULE * VV_GRANULE : from;
        uint64_t end = (origin->offset + origin->length + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE;
        size_t bytes = (end - begin) / past->marks_chunk * sizeof *marks, first = begin / past->marks_chunk;
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        if (old)
            memcpy(marks + first, old + first, bytes);
        else
            memset(marks + first, 0, bytes);
    }
}

void vv_past_marks(struct vv_past *past, uint64_t size, uint32_t chunk) {
    uint64_t capacity = (size + VV_GRANULE - 1) / VV_GRANULE * (VV_GRANULE / chunk);
    if (past->are_marks_pending || past->marks_chunk != chunk)
        vv_past_drop_marks(past);
    past->marks_chunk = chunk;
    if (past->marks && size != past->length) /* what lies behind the end that both have is of another time */
        copy_marks(past, (size < past->length ? size : past->length) / VV_GRANULE * VV_GRANULE, past->marks, NULL);
    if (capacity <= past->marks_capacity)
        return;
    struct vv_fine_mark *marks = alloc_marks(capacity);
    if (marks && past->marks)
        copy_marks(past, 0, marks, past->marks);
    vv_past_drop_marks(past);
    past->marks = marks;
    past->marks_capacity = marks ? capacity : 0;
}

static void clear_past(struct vv_past *past) {
    drop_pending(past);
    vv_free(past->name);
    vv_array_drop(past->array);
    free_ids(past);
    vv_origins_clear(&past->origins);
    vv_fine_sample_free(past->sample);
    vv_past_drop_marks(past);
}

void vv_history_clear(struct vv_history *history) {
    for (size_t i = 0; i < history->count; i++)
        clear_past(&history->list[i]);
    vv_free(history->list);
    vv_free(history->sources);
    vv_free(history->is_alive);
    vv_table_clear(&history->table);
    vv_fine_index_clear(&history->seen);
    vv_fine_set_clear(&history->met);
    memset(history, 0, sizeof *history);
}

struct vv_past *vv_history_find(struct vv_history *history, uint64_t number) {
    size_t at;
    VV_SEARCH(at, 0, history->count, history->list[at].number < number);
    return at < history->count && history->list[at].number == number ? &history->list[at] : NULL;
}

struct vv_past *vv_history_add(struct vv_history *history, uint64_t number, const char *name) {
    if (VV_GROW(history->list, history->count, history->capacity) != 0)
        return NULL;
    char *copy = vv_strdup(name);
    if (!copy)
        return NULL;
    struct vv_past *past = &history->list[history->count++];
    memset(past, 0, sizeof *past);
    past->number = number;
    past->name = copy;
    past->is_new = 1;
    return past;
}

int64_t vv_history_source(struct vv_history *history, const struct vv_source *source) {
    if (history->source_count == history->source_capacity) {
        uint32_t capacity = history->source_capacity ? history->source_capacity * 2 : 16;
        struct vv_source *sources = vv_realloc(history->sources, capacity * sizeof *sources);
        if (!sources)
            return -ENOMEM;
        history->sources = sources;
        uint8_t *is_alive = vv_realloc(history->is_alive, capacity);
        if (!is_alive)
            return -ENOMEM;
        history->is_alive = is_alive;
        history->source_capacity = capacity;
    }
    history->sources[history->source_count] = *source;
    history->is_alive[history->source_count] = 1;
    return history->source_count++;
}

int vv_past_reserve_ids(struct vv_past *past, uint64_t granules) {
    if (granules <= past->ids_capacity)
        return 0;
    struct vv_hash128 *ids = alloc_ids(granules);
    if (!ids)
        return -ENOMEM;
    for (uint64_t i = 0; i < past->ids_capacity; i++)
        if (!vv_hash128_is_zero(past->ids[i])) /* leave untouched what is zero */
            ids[i] = past->ids[i];
    free_ids(past);
    past->ids = ids;
    past->ids_capacity = granules;
    return 0;
}

int vv_past_new_id(struct vv_past *past, uint64_t index, struct vv_hash128 id) {
    if (VV_GROW_FROM(past->new_ids, past->new_count, past->new_capacity, 1) !=
        0) /* a million regions may have one granule */
        return -ENOMEM;
    past->new_ids[past->new_count++] = (struct vv_new_id){index, id};
    return 0;
}

int vv_history_merge(struct vv_history *history) {
    for (size_t i = 0; i < history->count; i++) {
        struct vv_past *past = &history->list[i];
        if (past->is_gone || (past->changed.count == 0 && past->pending_length == past->length))
            continue;
        vv_origins_sort(&past->changed);
        int rc = vv_origins_merge(&past->origins, &past->changed, past->pending_length, &past->merged);
        if (rc)
            return rc;
    }
    return 0;
}

const struct vv_origins *vv_past_after(const struct vv_past *past) {
    return past->merged.count || past->pending_length == 0 ? &past->merged : &past->origins;
}

void vv_history_live(const struct vv_history *history, uint64_t *live_out) {
    memset(live_out, 0, history->source_count * sizeof *live_out);
    for (size_t i = 0; i < history->count; i++) {
        const struct vv_past *past = &history->list[i];
        if (past->is_gone)
            continue;
        const struct vv_origins *origins = vv_past_after(past);
        for (size_t j = 0; j < origins->count; j++) {
            const struct vv_origin *origin = &origins->list[j];
            if (origin->kind != VV_ORIGIN_ZERO)
                live_out[origin->source] += origin->kind == VV_ORIGIN_REPEATED ? origin->piece : origin->length;
        }
    }
}

void vv_history_own(struct vv_history *history, uint32_t rank) {
    for (uint32_t i = 0; i < history->source_count; i++)
        history->sources[i].own_bytes = 0;
    for (size_t i = 0; i < history->count; i++) {
        if (history->list[i].is_gone)
            continue;
        const struct vv_origins *origins = vv_past_after(&history->list[i]);
        for (size_t j = 0; j < origins->count; j++) {
            const struct vv_origin *origin = &origins->list[j];
            if (origin->kind != VV_ORIGIN_ZERO && origin->owner == rank)
                history->sources[origin->source].own_bytes +=
                    origin->kind == VV_ORIGIN_REPEATED ? origin->piece : origin->length;
        }
    }
}

/* Ids behind a shorter end must be zero should the region grow again. Origins tell where there are any: the rest is not
 * touched. */
static void clear_tail(struct vv_past *past) {
    uint64_t end = (past->pending_length + VV_GRANULE - 1) / VV_GRANULE;
    if (past->pending_length >= past->length)
        return;
    for (size_t i = vv_origins_find(&past->origins, end * VV_GRANULE); i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        uint64_t from = origin->offset / VV_GRANULE;
        uint64_t to = (origin->offset + origin->length + VV_GRANULE - 1) / VV_GRANULE;
        from = from > end ? from : end;
        if (origin->kind != VV_ORIGIN_ZERO && from < to)
            memset(past->ids + from, 0, (to - from) * sizeof *past->ids);
    }
}

static void accept_ids(struct vv_past *past) {
    if (past->pending_no_ids)
        free_ids(past);
    for (size_t i = 0; i < past->new_count; i++)
        past->ids[past->new_ids[i].index] = past->new_ids[i].id;
    if (!past->has_no_ids && !past->pending_no_ids)
        clear_tail(past);
    past->has_no_ids = past->pending_no_ids;
}

static void accept_past(struct vv_past *past) {
    past->are_marks_pending = 0;
    accept_ids(past);
    if (past->merged.count || past->pending_length == 0) {
        vv_origins_clear(&past->origins);
        past->origins = past->merged;
        memset(&past->merged, 0, sizeof past->merged);
    }
    past->length = past->pending_length;
    past->address = past->pending_address;
    past->slot = past->pending_slot;
    past->digest = past->pending_digest;
    vv_array_drop(past->array);
    past->array = past->pending_array;
    past->pending_array = NULL;
    past->distribution = past->pending_distribution;
    past->is_new = 0;
    drop_pending(past);
}

void vv_history_accept(struct vv_history *history, const uint64_t *live) {
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++) {
        if (history->list[i].is_gone) {
            clear_past(&history->list[i]);
            continue;
        }
        accept_past(&history->list[i]);
        history->list[kept++] = history->list[i];
    }
    history->count = kept;
    for (uint32_t i = 0; i < history->source_count; i++) {
        history->sources[i].live_bytes = live[i];
        if (live[i] == 0)
            history->is_alive[i] = 0;
    }
}

void vv_history_drop(struct vv_history *history, uint32_t source) {
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++) {
        if (history->list[i].is_new) {
            clear_past(&history->list[i]);
            continue;
        }
        drop_pending(&history->list[i]);
        history->list[kept++] = history->list[i];
    }
    history->count = kept;
    if (source < history->source_count)
        history->is_alive[source] = 0;
}
