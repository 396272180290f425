/* What a writer does for one attempt: its pack, and the blocks on their way into it. For a rank that writes by itself,
 * and for the writer of a team. */
#ifndef VV_WRITING_H
#define VV_WRITING_H

#include "base/details.h"
#include "base/processors.h"
#include "store/pack_writer.h"
#include "write/output.h"

struct vv_writing_plan {
    struct vv_attempt attempt, parent;
    uint32_t writer, writers;
    uint32_t first_owner, owners;
    uint32_t block_size;
    unsigned blocks;
    struct vv_pool *pool;
    unsigned threads;              /* of the pool */
    struct vv_known_order *orders; /* of the writer of a team; else NULL */
};
struct vv_writing {
    struct vv_outputs *outputs;
    struct vv_writing_plan plan;
    struct vv_pack_writer *pack;
    struct vv_blocks *blocks;
    struct vv_processors processors; /* as they were when the pack was begun */
    uint64_t looked;                 /* bytes that were hashed for it */
    char grouping[32];
};
/* When it fails, vv_writing_end is still to be called. */
int vv_writing_begin(struct vv_writing *writing, struct vv_outputs *outputs, const struct vv_writing_plan *plan,
                     struct varve_error *error);
/* All blocks are written; the first error of any. */
int vv_writing_finish(struct vv_writing *writing, struct varve_error *error);
/* The pack is sealed: its yes. stats gets what is known of it. */
int vv_writing_seal(struct vv_writing *writing, uint64_t protected_bytes, uint64_t regions, struct vv_details *stats,
                    struct varve_error *error);
void vv_writing_end(struct vv_writing *writing); /* whatever became of it */

/* ---- output_coding.c: how blocks are encoded: what the settings and this machine say about it ---- */
/* Of zstd. */
int vv_encoding_level(const struct vv_job *job);
/* A pack is begun. */
void vv_encoding_begin(struct vv_writing *writing);
/* It is sealed: what was chosen, and what that tells for the next. */
void vv_encoding_end(struct vv_writing *writing, struct vv_details *stats);

#endif
