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

static uint32_t hash_of(const char *name) {
    return (uint32_t)vv_digest(name, strlen(name)).low;
}

/* Entries are behind hashes of the names that this rank stores as something else: a device, a part of no array. A name
 * that is an array of some ranks and something else of others is left out of the index, since a restart that asks the
 * index would pass the others by. */
static void put_regions(const struct vv_session *session, struct vv_buf *out) {
    const struct vv_regions *regions = &session->memory.regions;
    struct varve_array array;
    uint32_t others = 0;
    vv_buf_u32(out, 0);
    for (size_t i = 0; i < regions->count; i++) {
        const struct vv_region *region = &regions->list[i];
        if (!region->name || vv_is_ours(region->name) || is_indexed(region, &array))
            continue;
        vv_buf_u32(out, hash_of(region->name));
        others++;
    }
    if (!out->failed)
        vv_put32(out->data, others);
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

/* What meets on the way to rank 0: the hashes, each once, and the frames of ranks. A frame: the rank's number, its
 * bytes' length, its bytes. */
struct said {
    struct vv_buf others, frames;
};
#define FRAME_HEAD 8
#define SAID_MOST ((size_t)128 << 20) /* rank 0 takes some times as much memory for a moment */

static int by_hash(const void *a, const void *b) {
    uint32_t x = vv_get32(a), y = vv_get32(b);
    return x < y ? -1 : x > y;
}

static void keep_each_once(struct vv_buf *hashes) {
    size_t count = hashes->size / 4, kept = 0;
    if (count == 0 || hashes->failed)
        return;
    qsort(hashes->data, count, 4, by_hash);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || by_hash(hashes->data + 4 * i, hashes->data + 4 * (kept - 1)) != 0)
            memmove(hashes->data + 4 * kept++, hashes->data + 4 * i, 4);
    hashes->size = 4 * kept;
}

static int failed(const struct said *said) {
    return said->others.failed ? said->others.failed : said->frames.failed;
}

static int take_said(void *arg, const void *data, size_t size) {
    struct said *said = arg;
    if (size < 4 || vv_get32(data) > (size - 4) / 4)
        return -EPROTO;
    size_t others = 4 * (size_t)vv_get32(data);
    if (said->frames.size + said->others.size + size > SAID_MOST)
        return -E2BIG;
    vv_buf_append(&said->others, (const uint8_t *)data + 4, others);
    vv_buf_append(&said->frames, (const uint8_t *)data + 4 + others, size - 4 - others);
    keep_each_once(&said->others);
    return failed(said);
}

static int give_said(void *arg, struct vv_buf *out) {
    const struct said *said = arg;
    vv_buf_u32(out, (uint32_t)(said->others.size / 4));
    vv_buf_append(out, said->others.data, said->others.size);
    vv_buf_append(out, said->frames.data, said->frames.size);
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

/* A name that only has the hash of another one is left out, too. */
static void leave_out(struct vv_global_arrays *arrays, const struct vv_buf *others) {
    for (size_t i = 0; i < arrays->count && others->size > 0; i++) {
        uint8_t hash[4];
        vv_put32(hash, hash_of(arrays->list[i].name));
        arrays->list[i].is_ambiguous |= bsearch(hash, others->data, others->size / 4, 4, by_hash) != NULL;
    }
}

static int make_index(const struct said *said, uint32_t ranks, struct vv_buf *out, struct varve_error *error) {
    struct vv_global_arrays arrays = {0};
    const uint8_t **list = sort_frames(&said->frames, ranks, error);
    int rc = list ? 0 : error->code;
    for (uint32_t i = 0; i < ranks && rc == 0; i++)
        rc = add_frame(&arrays, list[i], error);
    leave_out(&arrays, &said->others);
    if (rc == 0 && arrays.count > 0)
        vv_index_encode(&arrays, ranks, out);
    vv_global_arrays_clear(&arrays);
    vv_free(list);
    return rc ? rc : out->failed;
}

/* Of this rank, as put_regions has it. */
static void begin_said(const struct vv_session *session, struct said *said) {
    const struct vv_buf *own = &session->about.said;
    size_t others = own->failed ? 0 : 4 * (size_t)vv_get32(own->data);
    size_t entries = own->failed ? 0 : own->size - 4 - others;
    vv_buf_init(&said->others);
    vv_buf_init(&said->frames);
    vv_buf_u32(&said->frames, session->job.comm->rank);
    vv_buf_u32(&said->frames, (uint32_t)entries);
    if (own->failed)
        return;
    vv_buf_append(&said->others, own->data + 4, others);
    vv_buf_append(&said->frames, own->data + 4 + others, entries);
    keep_each_once(&said->others);
}

/* What each rank says, then that of all. */
int vv_index_gather(struct vv_session *session, struct vv_buf *made, struct varve_error *error) {
    struct varve_comm *comm = session->job.comm;
    struct said said;
    const struct vv_merging merging = {take_said, give_said, &said};
    begin_said(session, &said);
    int rc = vv_comm_merge(comm, &merging);
    rc = rc ? rc : session->about.said.failed ? session->about.said.failed : failed(&said);
    if (rc == 0 && vv_comm_is_root(comm))
        rc = make_index(&said, comm->ranks, made, error);
    vv_buf_clear(&said.others);
    vv_buf_clear(&said.frames);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}
