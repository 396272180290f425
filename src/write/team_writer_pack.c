/* The pack of a team's writer: what comes into it, in which order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "write/team_writer_private.h"

void vv_writer_begin_pack(struct vv_team_writer *writer) {
    const struct vv_team *team = writer->team;
    struct varve_error why = {.rank = -1};
    struct vv_writing_plan plan = {
        .attempt = writer->begin.attempt,
        .parent = writer->begin.parent,
        .writer = team->writer,
        .writers = team->writers,
        .first_owner = team->first,
        .owners = team->count,
        .block_size = (uint32_t)writer->begin.block_size,
        .blocks = writer->threads + 2,
        .pool = writer->pool,
        .threads = writer->threads,
        .orders = writer->orders,
    };
    int rc = VV_FAULT("engine.writer.begin");
    if (rc == 0) {
        rc = vv_writing_begin(&writer->writing, writer->outputs, &plan, &why);
        writer->is_writing = 1;
    }
    if (rc)
        vv_writer_fail(writer, rc, &why);
}

void vv_writer_store(struct vv_team_writer *writer, const struct vv_sender *sender, const struct vv_say_chunk *chunk) {
    struct vv_blocks *blocks = writer->writing.blocks;
    struct varve_error why = {.rank = -1};
    vv_blocks_variable(blocks, &sender->variable);
    struct vv_new_chunk new = {.owner = chunk->owner,
                               .address = chunk->address,
                               .size = chunk->size,
                               .id = chunk->id,
                               .is_shared = chunk->is_shared != 0};
    int rc = vv_blocks_add(blocks, &new, chunk + 1);
    int finished = rc ? vv_blocks_finish(blocks, &why) : 0;
    if (finished) /* the block that failed knows more */
        rc = finished;
    if (rc)
        vv_writer_fail(writer, rc, &why);
}

/* ---- dependencies and manifests ---- */

/* The union of what the ranks depend on. */
static int merge_dependencies(struct vv_team_writer *writer, struct vv_buf *out, struct varve_error *error) {
    for (uint32_t i = 0; i < writer->team->count; i++) {
        struct vv_buf *dependencies = &writer->ranks[i].dependencies;
        if (dependencies->failed) /* a rank would miss what it depends on */
            return dependencies->failed;
        if (dependencies->size)
            vv_buf_append(out, dependencies->data, dependencies->size);
        vv_buf_clear(dependencies);
    }
    struct vv_dependency *list = (struct vv_dependency *)out->data;
    size_t count = out->size / sizeof *list, kept = 0;
    if (out->failed || count == 0)
        return out->failed;
    qsort(list, count, sizeof *list, vv_dependency_compare);
    for (size_t i = 0; i < count; i++) {
        int is_new = kept == 0 || vv_dependency_compare(&list[kept - 1], &list[i]) != 0;
        if (!is_new && !vv_hash128_equal(list[kept - 1].writers_digest, list[i].writers_digest))
            return vv_error(error, VARVE_DISAGREED, "ranks depend on different writers lists of the same attempt");
        if (is_new)
            list[kept++] = list[i];
    }
    out->size = kept * sizeof *list;
    return 0;
}

static int send_dependencies(struct vv_team_writer *writer, const struct vv_buf *dependencies) {
    uint64_t kind = VV_SAY_DEPENDENCIES, end = VV_SAY_DEPENDENCIES_END;
    size_t unit = sizeof(struct vv_dependency),
           most = (vv_post_longest(writer->team->post) - sizeof kind) / unit * unit;
    int rc = 0;
    for (uint32_t i = 0; i < writer->team->count && rc == 0; i++) {
        for (size_t at = 0; at < dependencies->size && rc == 0; at += most)
            rc = vv_post_send(&writer->ranks[i].out, &kind, sizeof kind, dependencies->data + at,
                              dependencies->size - at < most ? dependencies->size - at : most);
        if (rc == 0)
            rc = vv_post_send(&writer->ranks[i].out, &end, sizeof end, NULL, 0);
    }
    return rc;
}

static int compare_moved(const void *a, const void *b) {
    const struct vv_extent *x = &((const struct vv_moved *)a)->extent, *y = &((const struct vv_moved *)b)->extent;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int write_moved(struct vv_team_writer *writer, struct varve_error *error) {
    struct vv_moved *list = (struct vv_moved *)writer->moved.data;
    size_t count = writer->moved.size / sizeof *list, kept = 0;
    if (count == 0)
        return 0;
    qsort(list, count, sizeof *list, compare_moved);
    for (size_t i = 0; i < count; i++) {
        struct vv_moved *last = kept ? &list[kept - 1] : NULL;
        if (last && last->extent.owner == list[i].extent.owner && last->writer == list[i].writer &&
            last->extent.address + last->length == list[i].extent.address)
            last->length += list[i].length;
        else
            list[kept++] = list[i];
    }
    return vv_pack_moved(writer->writing.pack, list, kept, error);
}

void vv_writer_end_data(struct vv_team_writer *writer) {
    struct varve_error why = {.rank = -1};
    struct vv_buf dependencies;
    vv_buf_init(&dependencies);
    int rc = vv_writing_finish(&writer->writing, &why);
    if (rc == 0)
        rc = VV_FAULT("engine.writer.after_data");
    if (rc == 0)
        rc = merge_dependencies(writer, &dependencies, &why);
    if (rc == 0)
        rc = vv_pack_dependencies(writer->writing.pack, (const struct vv_dependency *)dependencies.data,
                                  (uint32_t)(dependencies.size / sizeof(struct vv_dependency)), &why);
    if (rc == 0)
        rc = write_moved(writer, &why);
    writer->are_dependencies_sent = 1;
    if (rc == 0)
        rc = send_dependencies(writer, &dependencies);
    vv_buf_clear(&dependencies);
    if (rc)
        vv_writer_fail(writer, rc, &why);
}

void vv_writer_manifest(struct vv_team_writer *writer, const struct vv_sender *sender, uint64_t kind,
                        const uint8_t *message, size_t size) {
    struct vv_pack_writer *pack = writer->writing.pack;
    struct varve_error why = {.rank = -1};
    struct vv_hash128 digest;
    int rc = -EPROTO;
    if (kind == VV_SAY_MANIFEST && size == sizeof(struct vv_say_manifest)) {
        const struct vv_say_manifest *manifest = (const void *)message;
        if (manifest->head.owner == sender->rank)
            rc = vv_pack_manifest_begin(pack, &manifest->head, &why);
    } else if (kind == VV_SAY_BYTES) {
        rc = vv_pack_manifest_add(pack, message + sizeof kind, size - sizeof kind, &why);
    } else if (kind == VV_SAY_MANIFEST_END && size == sizeof(struct vv_say_end)) {
        const struct vv_say_end *end = (const void *)message;
        rc = vv_pack_manifest_end(pack, &digest, &why);
        if (rc == 0 && !vv_hash128_equal(digest, end->digest))
            rc = vv_error(&why, -EIO, "the manifest of rank %u has changed on its way", sender->rank);
        writer->protected_bytes += end->protected_bytes;
        writer->regions += end->regions;
        writer->writing.looked += end->looked;
        writer->turn++;
    }
    if (rc)
        vv_writer_fail(writer, rc, &why);
}

int vv_writer_seal(struct vv_team_writer *writer, struct vv_details *stats) {
    struct varve_error why = {.rank = -1};
    int rc = VV_FAULT("engine.writer.before_seal");
    if (rc == 0)
        rc = vv_writing_seal(&writer->writing, writer->protected_bytes, writer->regions, stats, &why);
    if (rc == 0)
        rc = VV_FAULT("engine.writer.after_seal");
    if (rc)
        vv_writer_fail(writer, rc, &why);
    else
        vv_writer_end_pack(writer);
    return rc == 0;
}

void vv_writer_end_pack(struct vv_team_writer *writer) {
    if (writer->is_writing)
        vv_writing_end(&writer->writing);
    writer->is_writing = 0;
}
