/* Job logs: what sessions leave in the store about their checkpoints (docs/format.md 5). One object for each session,
 * under its generation, replaced as a whole now and then. Nothing depends on it, and only people read it. */
#ifndef VV_JOB_LOG_H
#define VV_JOB_LOG_H

#include "format/job_log_object.h"
#include "lifecycle/commit.h"

#define VV_JOB_LOGS_KEPT 32u /* of a name */

int vv_job_log_write(struct vv_store *store, const char *name, uint32_t generation, const char *text, size_t size,
                     struct varve_error *error);
/* The logs of a name, the newest first, until fn returns nonzero, which is returned. text: NULL and why, if it cannot
 * be read. */
typedef int (*vv_job_log_fn)(void *arg, uint32_t generation, const char *text, size_t size,
                             const struct varve_error *why);
int vv_job_logs_each(struct vv_store *store, const char *name, vv_job_log_fn fn, void *arg, struct varve_error *error);
/* All but the newest `kept` go. options and result may be NULL. */
int vv_job_logs_thin(struct vv_store *store, const char *name, size_t kept, const struct vv_prune_options *options,
                     struct vv_prune_result *result, struct varve_error *error);

#endif
