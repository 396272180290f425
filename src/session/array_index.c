/* The index of arrays (arrays/array_index.h), made of what all ranks say and kept as a region of rank 0. It is made
 * again when a rank says something else than before, and not missed if it cannot be made: a restart on other ranks then
 * reads all descriptions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "session/session_private.h"

/* ---- what this rank says ---- */

/* What becomes an entry: arrays, and lists whatever they are of. */
static int is_indexed(const struct vv_region *region, struct varve_array *array) {
    if (!region->name || vv_is_about(region->name) || region->is_callback || region->device)
        return 0;
    int is_array = region->array && region->array->dims > 0 && vv_array_is_of(region->array, region->size);
    vv_array_tell(is_array ? region->array : NULL, array);
    if (!is_array) {
        array->dims = 1;
        array->dim[0] = (struct varve_dim){region->size, 0, region->size};
    }
    return (is_array && region->distribution == VARVE_BY_DIMS) || region->distribution == VARVE_JOINED;
}

static void put_region(struct vv_buf *out, const struct vv_region *region, const struct varve_array *array) {
    vv_buf_text16(out, region->name);
    vv_buf_u8(out, (uint8_t)array->type);
    vv_buf_u8(out, (uint8_t)array->dims);
    vv_buf_u8(out, region->distribution);
    for (unsigned i = 0; i < array->dims; i++) {
        vv_buf_varint(out, array->dim[i].global);
        vv_buf_varint(out, array->dim[i].first);
        vv_buf_varint(out, array->dim[i].local);
        vv_buf_varint(out, array->stride[i].block);
        vv_buf_varint(out, array->stride[i].every);
    }
}

static void put_regions(const struct vv_session *session, struct vv_buf *out) {
    const struct vv_regions *regions = &session->memory.regions;
    struct varve_array array;
    for (size_t i = 0; i < regions->count; i++)
        if (is_indexed(&regions->list[i], &array))
            put_region(out, &regions->list[i], &array);
}

int vv_index_is_told(struct vv_session *session) {
    struct vv_about *about = &session->about;
    vv_buf_clear(&about->said);
    if (session->job.comm->ranks == 1)
        return 1;
    put_regions(session, &about->said);
    struct vv_hash128 digest = vv_digest(about->said.data, about->said.size);
    return !about->said.failed && vv_hash128_equal(digest, about->told);
}

/* ---- what all ranks say ---- */

/* Of each rank: its number, its bytes' length, its bytes. */
#define FRAME_HEAD 8
#define FRAMES_MOST ((size_t)128 << 20) /* rank 0 takes some times as much memory for a moment */

static int take_frames(void *arg, const void *data, size_t size) {
    struct vv_buf *frames = arg;
    if (frames->size + size > FRAMES_MOST)
        return -E2BIG;
    vv_buf_append(frames, data, size);
    return frames->failed;
}

static int give_frames(void *arg, struct vv_buf *out) {
    const struct vv_buf *frames = arg;
    vv_buf_append(out, frames->data, frames->size);
    return out->failed;
}

static int by_owner(const void *a, const void *b) {
    uint32_t x = vv_get32(*(const uint8_t *const *)a), y = vv_get32(*(const uint8_t *const *)b);
    return x < y ? -1 : x > y;
}

static void take_region(struct vv_cursor *cursor, struct vv_recipe_region *out) {
    *out = (struct vv_recipe_region){0};
    vv_cursor_text16(cursor, out->name, sizeof out->name);
    out->shape.type = vv_cursor_u8(cursor);
    out->shape.dims = vv_cursor_u8(cursor);
    out->shape.distribution = vv_cursor_u8(cursor);
    out->length = vv_type_size(out->shape.type);
    for (unsigned i = 0; i < out->shape.dims && i < VV_DIMS_MAX; i++) {
        out->shape.dim[i].global = vv_cursor_varint(cursor);
        out->shape.dim[i].first = vv_cursor_varint(cursor);
        out->shape.dim[i].local = vv_cursor_varint(cursor);
        out->shape.dim[i].stride.block = vv_cursor_varint(cursor);
        out->shape.dim[i].stride.every = vv_cursor_varint(cursor);
        out->length *= out->shape.dim[i].local;
    }
}

static int add_frame(struct vv_global_arrays *arrays, const uint8_t *frame, struct varve_error *error) {
    struct vv_recipe_region region;
    struct vv_cursor cursor;
    int rc = 0;
    vv_cursor_init(&cursor, frame + FRAME_HEAD, vv_get32(frame + 4));
    while (rc == 0 && vv_cursor_left(&cursor) > 0) {
        take_region(&cursor, &region);
        rc = cursor.failed || region.shape.dims > VV_DIMS_MAX
                 ? vv_error(error, -EPROTO, "what rank %u says of its arrays cannot be read", vv_get32(frame))
                 : vv_global_arrays_describe(arrays, vv_get32(frame), &region, error);
    }
    return rc;
}

/* The frames, ascending by rank; to be freed. */
static const uint8_t **sort_frames(const struct vv_buf *frames, uint32_t ranks, struct varve_error *error) {
    const uint8_t **list = vv_calloc((size_t)ranks + 1, sizeof(const uint8_t *));
    size_t at = 0;
    uint32_t count = 0;
    for (; list && count < ranks && frames->size - at >= FRAME_HEAD; count++) {
        uint32_t size = vv_get32(frames->data + at + 4);
        if (size > frames->size - at - FRAME_HEAD)
            break;
        list[count] = frames->data + at;
        at += FRAME_HEAD + size;
    }
    if (!list || count < ranks || at != frames->size) {
        vv_error(error, list ? -EPROTO : -ENOMEM, "not all ranks have said what arrays they have");
        vv_free(list);
        return NULL;
    }
    qsort(list, ranks, sizeof *list, by_owner);
    return list;
}

static int make_index(const struct vv_buf *frames, uint32_t ranks, struct vv_buf *out, struct varve_error *error) {
    struct vv_global_arrays arrays = {0};
    const uint8_t **list = sort_frames(frames, ranks, error);
    int rc = list ? 0 : error->code;
    for (uint32_t i = 0; i < ranks && rc == 0; i++)
        rc = add_frame(&arrays, list[i], error);
    if (rc == 0 && arrays.count > 0)
        vv_index_encode(&arrays, ranks, out);
    vv_global_arrays_clear(&arrays);
    vv_free(list);
    return rc ? rc : out->failed;
}

/* Each rank's own frame, then those of all. */
int vv_index_gather(struct vv_session *session, struct vv_buf *made, struct varve_error *error) {
    struct varve_comm *comm = session->job.comm;
    struct vv_buf frames;
    const struct vv_merging merging = {take_frames, give_frames, &frames};
    vv_buf_init(&frames);
    vv_buf_u32(&frames, comm->rank);
    vv_buf_u32(&frames, (uint32_t)session->about.said.size);
    vv_buf_append(&frames, session->about.said.data, session->about.said.size);
    int rc = vv_comm_merge(comm, &merging);
    rc = rc ? rc : session->about.said.failed ? session->about.said.failed : frames.failed;
    if (rc == 0 && vv_comm_is_root(comm))
        rc = make_index(&frames, comm->ranks, made, error);
    vv_buf_clear(&frames);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}
