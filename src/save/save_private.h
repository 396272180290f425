/* What the files of save/ share. */
#ifndef VV_SAVE_PRIVATE_H
#define VV_SAVE_PRIVATE_H

#include "base/details.h"
#include "save/save.h"

/* ---- variable.c ---- */
/* Data of this region follows. */
void vv_save_region(struct vv_save *save, const struct vv_past *past);
/* One of our chunks, which nobody else is known to hold. */
static inline int vv_save_store(struct vv_save *save, uint64_t address, const void *data, uint32_t size,
                                struct vv_hash128 id) {
    struct vv_new_chunk chunk = {.owner = save->job->comm->rank, .address = address, .size = size, .id = id};
    return save->output->ops->add(save->output, &chunk, data);
}

/* ---- scan.c: one region of a save ---- */
struct vv_scan {
    struct vv_save *save;
    struct vv_past *past;
    struct vv_watch *watch; /* the region's when it began: the program may let go of it meanwhile. NULL: it has none */
    uint64_t size;          /* of the region now */
    uint64_t granules;      /* now */
    uint64_t comparable;    /* granules below this have the same bounds as in the past */
    int is_blank;           /* no ids of the past are there, or none shall be: every granule is looked at */
    size_t named_first, named_count; /* its part of the offers, if there is one */
    double grid;                     /* its values are stored as multiples of this; 0: as they are */
    int is_full;                     /* every granule is stored, whatever is known of it */
    struct vv_fine fine;             /* chunk 0: its granules are stored whole */
};
int vv_scan_begin(struct vv_scan *scan, struct vv_save *save, struct vv_past *past, uint64_t size);
/* Chunks [first, last) were never touched. */
int vv_scan_untouched(struct vv_scan *scan, uint64_t first, uint64_t last);
/* The id that a granule has now; once for each. 0 or -ENOMEM. */
int vv_scan_new_id(struct vv_scan *scan, uint64_t index, struct vv_hash128 id);
/* Look at chunks [first, first + count) and hand new ones to the blocks. */
int vv_scan_piece(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data);
/* The next piece of what was captured, of any region: 1, 0 when nothing is left, or an error. arg: the save. */
int vv_scan_next(void *arg, struct varve_error *error);
/* A window of a region that lies behind callbacks, from *at on, which moves behind it. */
int vv_scan_callback(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error);
/* The same in two steps, with other ranks asked in between: give a chunk its id, and a place in the offers if it may be
 * new (1; 0 if there is nothing to store) ... */
int vv_scan_name(struct vv_scan *scan, uint64_t index, const uint8_t *data);
/* ... and hand those of these chunks to the blocks that are ours to store. */
int vv_scan_write(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data, struct varve_error *error);

/* Is an unreported chunk as it was in the last checkpoint? 1 also if nobody knows. Before, with others between: lets
 * what is known of it come from memory; returns its size. */
uint32_t vv_scan_prefetch(const struct vv_scan *scan, uint64_t index);
int vv_scan_is_same(struct vv_scan *scan, uint64_t index, const uint8_t *data);

/* ---- audit.c: are the trackers right? ---- */
/* After vv_capture_begin, in the call. -EFAULT: a tracker has missed a change; the region is named, and looked at whole
 * from then on. */
int vv_audit(struct vv_save *save, struct varve_error *error);
/* A call has taken so much of the processor. */
void vv_audit_learn(struct vv_save *save, double seconds);

/* ---- scan_fine.c: where a granule has changed, only what is new in it is stored ---- */
/* A granule that differs and that nobody knows as a whole: find what is new in it, store that, and note where
 * everything is. */
int vv_scan_fine(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id,
                 const struct vv_hash128 *fine_ids /* of its chunks; NULL: they are not known yet */);
/* How long fine chunks take: every eighth granule stands for all, or the clock would take its share. */
#define VV_FINE_TIMED 8u
static inline uint64_t vv_fine_clock(uint64_t index) {
    return index % VV_FINE_TIMED == 0 ? vv_clock_thread_ns() : 0;
}
static inline uint64_t vv_fine_took(uint64_t index, uint64_t begun) {
    return index % VV_FINE_TIMED == 0 ? (vv_clock_thread_ns() - begun) * VV_FINE_TIMED : 0;
}
/* Is none of it known, so that it may as well be stored whole? */
int vv_scan_fine_is_new(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);
/* It is known or stored elsewhere, as a whole. */
void vv_scan_fine_keep(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);
/* It is stored whole. */
void vv_scan_fine_note(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);

/* ---- fine_policy.c: how finely regions are looked at, and what is remembered of them ---- */
/* The save is about to begin: how much may be remembered, and what may be referred to. 0 or -ENOMEM. */
int vv_fine_prepare(struct vv_save *save);
void vv_scan_fine_begin(struct vv_scan *scan);
/* It was committed: what the samples say for the next. */
void vv_fine_evaluate(struct vv_save *save);
void vv_fine_report(const struct vv_save *save, struct vv_details *stats);
/* How many fine chunks of so much protected memory may be remembered. */
uint64_t vv_fine_capacity(const struct vv_job *job, uint64_t protected_bytes);

/* ---- scan_device.c: a region in the memory of a device ---- */
/* A part of such a region, from *at on, which moves behind it. */
int vv_scan_device(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error);
void vv_device_restored(struct vv_job *job, const struct vv_region *region, const struct vv_past *past);

/* ---- offers.c ---- */
enum vv_disposition {
    VV_DISPOSITION_STORE = 1,
    VV_DISPOSITION_LOCAL_REPLICA = 2,
    VV_DISPOSITION_SHARED = 4, /* other ranks hold it, too */
    VV_DISPOSITION_HELD_BY = 8 /* << j: partner j has it itself */
};
int vv_offers_add(struct vv_offers *offers, struct vv_scan *scan, uint64_t index, struct vv_hash128 id, uint32_t size);
/* It is stored here, whatever the others hold. */
int vv_offers_add_fine(struct vv_offers *offers, struct vv_scan *scan, uint64_t index, struct vv_hash128 id);
/* The offer with this id, or UINT32_MAX. */
uint32_t vv_offers_find(const struct vv_offers *offers, struct vv_hash128 id);
/* The verdicts are there: origins for all named chunks. What is not to be stored here leaves the list. */
int vv_offers_settle(struct vv_save *save, const struct vv_verdict *verdicts);
/* It need not be captured. */
void vv_offers_spare(struct vv_save *save, struct vv_watch *watch, uint64_t index);
/* The first named chunk of a region from this granule on; NULL: none. */
const struct vv_named *vv_offers_at(const struct vv_offers *offers, const struct vv_scan *scan, uint64_t index);
void vv_offers_clear(struct vv_offers *offers);

/* ---- rank_dedup.c. Collective. ---- */
/* Will the checkpoint that begins now be compared with other ranks? The same answer everywhere. */
int vv_rank_dedup_is_due(struct vv_rank_dedup *rank_dedup);
/* Name everything that was captured, ask the other ranks, and settle who stores what. rc: how this rank has fared so
 * far; nobody is left waiting for one that has failed. */
int vv_rank_dedup_run(struct vv_save *save, int rc, struct varve_error *error);

/* ---- replicas.c: everything is kept on several nodes ---- */
/* Store the chunk of offer `number`, as ours or as another rank's copy. */
int vv_replicas_write(struct vv_save *save, uint32_t number, const void *data);
/* The partners say which of our chunks they hold themselves. Collective; the same code everywhere. */
int vv_replicas_agree(struct vv_save *save, int rc, struct varve_error *error);
/* ---- emptying.c: old attempts are emptied ---- */
/* Which, and how much of them. rc: how this rank has fared so far, and what is returned unless that was 0. Collective.
 */
int vv_emptying_plan(struct vv_save *save, int rc, struct varve_error *error);
/* Chunks that have not changed are not looked at, but for those of the sparse sources. */
void vv_emptying_look(struct vv_save *save);
/* May so many bytes be stored again? They are taken off the budget. */
int vv_emptying_take(struct vv_save *save, uint32_t size);
/* Before a commit is accepted: what will die with it. */
void vv_emptying_note(struct vv_save *save);

/* ---- manifest_build.c: dependencies and manifest ---- */
int vv_recipe_write(struct vv_save *save, const uint64_t *live, struct varve_error *error);

#endif
