/* Commits that failed half-way: some nodes have the record, others do not.
 *
 * Nobody was told of such a checkpoint. If the job dies now, the next one completes it. If it goes on, the record must
 * go: it would count as one of the newest where it is (keep=N) and push out an older one that was reported, while the
 * other nodes remove its packs. */
#include <inttypes.h>

#include "base/alloc.h"
#include "job/job.h"

static int is_same_version(const struct vv_attempt *a, const struct vv_attempt *b) {
    return a->generation == b->generation && a->version == b->version;
}

void vv_in_doubt_add(struct vv_job *job, const struct vv_attempt *attempt) {
    if (!vv_is_local(job))
        return;
    for (size_t i = 0; i < job->in_doubt_count; i++)
        if (is_same_version(&job->in_doubt[i], attempt))
            return;
    size_t size = (job->in_doubt_count + 1) * sizeof *job->in_doubt;
    struct vv_attempt *list = vv_realloc(job->in_doubt, size);
    if (!list)
        return; /* then there may be one to fall back to less */
    job->in_doubt = list;
    list[job->in_doubt_count++] = *attempt;
}

void vv_in_doubt_drop(struct vv_job *job) {
    size_t left = 0;
    for (size_t i = 0; i < job->in_doubt_count; i++)
        if (!is_same_version(&job->in_doubt[i], &job->lineage.parent))
            job->in_doubt[left++] = job->in_doubt[i];
    job->in_doubt_count = left;
}

void vv_in_doubt_forget(struct vv_job *job) {
    size_t left = 0;
    vv_in_doubt_drop(job);
    for (size_t i = 0; job->lease && i < job->in_doubt_count; i++) {
        const struct vv_attempt at = job->in_doubt[i];
        struct varve_error why = {0};
        int rc = vv_forget(job->store, job->name, at.generation, at.version, &why);
        if (rc == 0 || rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
            continue;
        job->in_doubt[left++] = at;
        vv_log(&job->log, VV_LOG_WARN, "what is left of version %" PRIu64 ", which failed, could not be forgotten: %s",
               at.version, why.text);
    }
    job->in_doubt_count = left;
}
