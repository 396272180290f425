/* Where a rank's new data goes: into the pack it writes itself, or to the writer of its team. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/grid.h"
#include "engine/engine_private.h"
#include "format/manifest.h"

int vv_outlet_begin(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_outlet *outlet = &save->outlet;
    if (!save->is_gathered)
        return 0;
    session->team.attempts++;
    vv_client_open(&outlet->client, &session->team, session->comm->local);
    outlet->is_begun = 1;
    struct vv_say_begin begin = {.kind = VV_SAY_BEGIN,
                                 .number = outlet->client.number,
                                 .attempt = save->attempt,
                                 .parent = session->parent,
                                 .block_size = session->settings.block_size};
    return vv_client_begin(&outlet->client, &begin, error);
}

int vv_outlet_open(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_outlet *outlet = &save->outlet;
    if (outlet->is_begun)
        return 0;
    struct vv_writing_plan plan = {
        .attempt = save->attempt,
        .parent = session->parent,
        .writer = session->comm->rank,
        .writers = session->comm->ranks,
        .first_owner = session->comm->rank,
        .owners = 1,
        .block_size = save->room.block_size,
        .blocks = save->room.blocks,
        .pool = session->pool,
        .threads = (unsigned)session->settings.threads,
    };
    int rc = vv_writing_begin(&outlet->writing, session, &plan, error);
    if (rc)
        vv_writing_end(&outlet->writing);
    else
        outlet->is_begun = 1;
    return rc;
}

int vv_outlet_expect(struct vv_save *save, int rc, uint64_t bytes, struct varve_error *error) {
    if (!save->is_gathered)
        return rc;
    rc = vv_moves_plan(save, rc, &bytes, error);
    struct varve_error ignored = {.rank = -1};
    int told = vv_client_amount(&save->outlet.client, rc ? 0 : bytes, rc ? &ignored : error); /* writers wait for it */
    return rc ? rc : told;
}

/* ---- data ---- */

static uint64_t mix(uint64_t key, uint64_t value) {
    return (key ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ key >> 31;
}

static void describe(struct vv_save *save, const struct vv_past *past, struct vv_variable *out) {
    const struct vv_array *array = past ? past->pending_array : NULL;
    *out = (struct vv_variable){.region = UINT64_MAX, .owner = save->session->comm->rank, .content = {.type = VARVE_BYTES}};
    if (past) {
        out->region = past->number;
        out->length = past->pending_length;
        out->is_large = (uint32_t)past->pending_nameless;
        out->key = past->variable;
    }
    if (array) {
        uint64_t row = array->dims > 1 ? array->dim[array->dims - 1].local : 0;
        out->content.type = array->type;
        out->content.row = row < UINT32_MAX ? (uint32_t)row : 0;
        out->content.grid = array->bound > 0 ? vv_grid_of(array->bound) : 0;
        out->key = mix(mix(out->key, array->type), array->dims);
        for (unsigned i = 1; i < array->dims; i++) /* the slowest one is where ranks differ */
            out->key = mix(out->key, array->dim[i].local);
    }
}

void vv_outlet_region(struct vv_save *save, const struct vv_past *past) {
    struct vv_outlet *outlet = &save->outlet;
    if (past && past == outlet->past)
        return;
    outlet->past = past;
    describe(save, past, &outlet->variable);
    if (save->is_gathered)
        vv_client_variable(&outlet->client, &outlet->variable);
    else
        vv_blocks_variable(outlet->writing.blocks, &outlet->variable);
}

int vv_outlet_add(struct vv_save *save, uint32_t owner, uint64_t address, const void *data, uint32_t size,
                  struct vv_hash128 id) {
    struct varve_error why = {.rank = -1}; /* if it was the writer, it is asked again in the end */
    if (save->is_gathered) {
        struct vv_say_chunk chunk = {VV_SAY_CHUNK, address, id, owner, size};
        int moved = vv_moves_take(save, &save->outlet.variable, &chunk, data, &why);
        return moved ? (moved > 0 ? 0 : moved) : vv_client_add(&save->outlet.client, address, data, size, id, &why);
    }
    return vv_blocks_add(save->outlet.writing.blocks, owner, address, data, size, id);
}

int vv_outlet_explain(struct vv_save *save, int rc, struct varve_error *error) {
    const struct varve_error *why = &save->outlet.client.result.error;
    if (!save->is_gathered || !why->code)
        return rc;
    *error = *why;
    return why->code;
}

int vv_outlet_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error) {
    int more = 1;
    if (save->session->copies.count > 0)
        return vv_copies_consume(save, rc, step, error);
    if (save->moves.is_on)
        return vv_moves_consume(save, rc, step, error);
    while (rc == 0 && more > 0)
        rc = (more = step(save, error)) < 0 ? more : 0;
    return rc;
}

int vv_outlet_finish(struct vv_save *save, int rc, struct varve_error *error) {
    struct vv_outlet *outlet = &save->outlet;
    struct varve_error why = {.rank = -1};
    int finished = 0;
    if (save->is_gathered) {
        vv_memory_note(); /* the writer's blocks are another's */
        if (rc == 0)
            rc = vv_client_data_end(&outlet->client, error);
        return vv_outlet_explain(save, rc, error);
    }
    if (outlet->is_begun)
        finished = vv_writing_finish(&outlet->writing, &why);
    if (finished) /* who stops because a block failed knows only that */
        *error = why;
    return finished ? finished : rc;
}

/* ---- leans and manifest ---- */

int vv_outlet_leans(struct vv_save *save, const struct vv_lean *leans, uint32_t count, struct vv_buf *out,
                    struct varve_error *error) {
    if (save->is_gathered)
        return vv_client_leans(&save->outlet.client, leans, count, out, error);
    if (count)
        vv_buf_append(out, leans, count * sizeof *leans);
    return out->failed ? out->failed : vv_pack_leans(save->outlet.writing.pack, leans, count, error);
}

/* The digest of a manifest that goes to the writer is computed on both sides, and compared there. */
static int begin_digest(struct vv_save *save, const struct vv_manifest_head *head) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_manifest_head_encode(&buf, head);
    int rc = buf.failed ? buf.failed : vv_digest_begin(&save->manifest);
    if (rc == 0)
        vv_digest_add(save->manifest, buf.data, buf.size);
    vv_buf_clear(&buf);
    return rc;
}

int vv_outlet_manifest_begin(struct vv_save *save, const struct vv_manifest_head *head, struct varve_error *error) {
    if (!save->is_gathered)
        return vv_pack_manifest_begin(save->outlet.writing.pack, head, error);
    int rc = begin_digest(save, head);
    return rc ? rc : vv_client_manifest(&save->outlet.client, head, error);
}

int vv_outlet_manifest_add(struct vv_save *save, const void *data, size_t size, struct varve_error *error) {
    if (!save->is_gathered)
        return vv_pack_manifest_add(save->outlet.writing.pack, data, size, error);
    if (size)
        vv_digest_add(save->manifest, data, size);
    return vv_client_bytes(&save->outlet.client, data, size, error);
}

int vv_outlet_manifest_end(struct vv_save *save, struct vv_hash128 *digest_out, struct varve_error *error) {
    if (!save->is_gathered)
        return vv_pack_manifest_end(save->outlet.writing.pack, digest_out, error);
    *digest_out = save->manifest_digest = vv_digest_end(save->manifest);
    save->manifest = NULL;
    return 0;
}

/* ---- the end ---- */

int vv_outlet_seal(struct vv_save *save, struct varve_error *error) {
    struct vv_outlet *outlet = &save->outlet;
    if (!save->is_gathered) {
        outlet->writing.looked = save->sums.looked;
        return vv_writing_seal(&outlet->writing, save->sums.protected_bytes, save->regions, &save->stats, error);
    }
    struct vv_say_end end = {VV_SAY_MANIFEST_END, save->sums.protected_bytes, save->regions, save->sums.looked,
                             save->manifest_digest};
    int rc = vv_client_end(&outlet->client, &end, error);
    if (rc)
        return rc;
    const struct varve_stats *told = &outlet->client.result.stats;
    struct varve_stats *stats = &save->stats;
    stats->bytes_stored = told->bytes_stored;
    stats->bytes_metadata = told->bytes_metadata;
    stats->bytes_moved = told->bytes_moved;
    stats->seconds_encode = told->seconds_encode;
    stats->seconds_sampled = told->seconds_sampled;
    stats->storage_speed = told->storage_speed;
    memcpy(stats->codec, told->codec, sizeof stats->codec);
    memcpy(stats->codec_reason, told->codec_reason, sizeof stats->codec_reason);
    memcpy(stats->grouping, told->grouping, sizeof stats->grouping);
    return 0;
}

void vv_outlet_end(struct vv_save *save) {
    struct vv_outlet *outlet = &save->outlet;
    vv_digest_drop(save->manifest);
    save->manifest = NULL;
    vv_moves_end(save);
    if (!outlet->is_begun)
        return;
    outlet->is_begun = 0;
    if (save->is_gathered) {
        struct varve_error why = save->error;
        if (!why.code)
            vv_error(&why, -ECANCELED, "rank %u has given the checkpoint up", save->session->comm->rank);
        vv_client_close(&outlet->client, &why);
    } else
        vv_writing_end(&outlet->writing);
}
