/* What the files of job/ share. */
#ifndef VV_JOB_PRIVATE_H
#define VV_JOB_PRIVATE_H

#include "job/job.h"

/* This rank does not find what another one has: VARVE_NO_STORE. */
int vv_store_is_lost(const struct vv_job *job, const char *uri, uint32_t finder, struct varve_error *error);

/* ---- count_votes.c ---- */
/* Do all writers of an attempt have their packs in the store? 0, and rank 0 has the writers list and the record;
 * VARVE_DISAGREED when one is missing after so many looks; or an error. The same everywhere. tally (NULL: none, on all
 * ranks) travels with the votes. */
int vv_votes_count(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map, int looks,
                   struct vv_tally *tally, struct vv_writers *writers_out, struct vv_record *record_out,
                   struct varve_error *error);

#endif
