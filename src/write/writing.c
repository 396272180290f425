#include <errno.h>
#include <string.h>

#include "write/writing.h"

/* Turns are of whole elements. */
static uint32_t power_of_two(uint64_t bytes) {
    uint32_t power = 1024;
    while (power * UINT64_C(2) <= bytes)
        power *= 2;
    return power;
}

static int begin_blocks(struct vv_writing *writing) {
    const struct vv_settings *settings = &writing->outputs->job->settings;
    const struct vv_writing_plan *plan = &writing->plan;
    struct vv_blocks_options options = {
        .pack = writing->pack,
        .pool = plan->pool,
        .chooser = writing->outputs->chooser,
        .block_size = plan->block_size,
        .blocks = plan->blocks,
        .ranks = plan->owners,
        .grouping = settings->grouping,
        .turn = power_of_two(settings->group_block),
        .level = vv_encoding_level(writing->outputs->job),
        .orders = plan->orders,
    };
    return vv_blocks_create(&options, &writing->blocks);
}

int vv_writing_begin(struct vv_writing *writing, struct vv_outputs *outputs, const struct vv_writing_plan *plan,
                     struct varve_error *error) {
    *writing = (struct vv_writing){.outputs = outputs, .plan = *plan};
    struct vv_pack_options options = {
        .writer = plan->writer,
        .writers = plan->writers,
        .ranks = outputs->job->comm->ranks,
        .first_owner = plan->first_owner,
        .owners = plan->owners,
        .parent = plan->parent,
        .part_size = outputs->job->settings.part_size,
        .program = program_invocation_short_name,
    };
    if (plan->owners == 1) { /* partners are of ranks, and keep what those write themselves */
        options.partner_count = outputs->replicas.count;
        memcpy(options.partners, outputs->replicas.partners, outputs->replicas.count * sizeof *options.partners);
    }
    int rc = vv_pack_begin(outputs->job->store, outputs->job->name, &plan->attempt, &options, &writing->pack, error);
    if (rc == 0)
        rc = begin_blocks(writing);
    if (rc == 0)
        vv_encoding_begin(writing);
    return rc ? vv_error_default(error, rc, "the pack could not be begun: %s", varve_error_text(rc)) : 0;
}

int vv_writing_finish(struct vv_writing *writing, struct varve_error *error) {
    int rc = vv_blocks_finish(writing->blocks, error);
    if (rc == 0)
        vv_blocks_grouping(writing->blocks, writing->grouping);
    return rc;
}

int vv_writing_seal(struct vv_writing *writing, uint64_t protected_bytes, uint64_t regions, struct vv_details *stats,
                    struct varve_error *error) {
    struct vv_pack_writer *pack = writing->pack;
    struct vv_pack_sums sums;
    writing->pack = NULL; /* sealing frees it in every case */
    int rc = vv_pack_seal(pack, protected_bytes, regions, &sums, error);
    if (rc)
        return rc;
    stats->bytes_stored = sums.stored_bytes;
    stats->bytes_metadata = sums.metadata_bytes;
    memcpy(stats->grouping, writing->grouping, sizeof stats->grouping);
    vv_encoding_end(writing, stats);
    return 0;
}

void vv_writing_end(struct vv_writing *writing) {
    vv_blocks_destroy(writing->blocks);
    vv_pack_abort(writing->pack);
    writing->blocks = NULL;
    writing->pack = NULL;
}
