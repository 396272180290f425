/* What the files of job/ share. */
#ifndef VV_JOB_PRIVATE_H
#define VV_JOB_PRIVATE_H

#include "job/job.h"

/* This rank does not find what another one has: VARVE_NO_STORE. */
int vv_store_is_lost(const struct vv_job *job, const char *uri, uint32_t finder, struct varve_error *error);

#endif
