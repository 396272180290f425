/* After a commit: the heartbeat names the new checkpoint, older ones go by keep=N, and the catalogue is renewed now and
 * then. What goes wrong here is said and tried again next time. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "job/job.h"
#include "lifecycle/catalogue.h"

#define CATALOGUE_EVERY 65 /* checkpoints; more than the catalogue itself thinks worth writing */
#define CATALOGUE_SPARE 1000
#define SPARED_MOST 256

/* Keep listing fast: now and then what the records say goes into the catalogue. The more there is in it, the less often
 * it is written, but never so seldom that a listing has thousands of records to read. */
static void catalogue(struct vv_job *job) {
    struct vv_catalogue all = {0};
    struct varve_error error = {0};
    uint64_t spare = job->catalogued / 8 < CATALOGUE_SPARE ? job->catalogued / 8 : CATALOGUE_SPARE;
    if (++job->uncatalogued <= CATALOGUE_EVERY + spare)
        return;
    job->uncatalogued = 0;
    if (vv_catalogue_load(job->store, job->name, 1, NULL, NULL, &all, &error) == 0)
        job->catalogued = all.count;
    else
        vv_log(&job->log, VV_LOG_INFO, "the catalogue could not be renewed: %s", error.text);
    vv_catalogue_clear(&all);
}

/* After a restart that failed, what the session saves may be a beginning by mistake: it replaces nothing of earlier
 * runs. */
static struct vv_keep_options keep_options(struct vv_job *job) {
    return (struct vv_keep_options){.keep = (uint32_t)job->settings.keep,
                                    .from = job->lineage.has_failed_restart ? job->first_generation : job->keep_from,
                                    .origin = job->lineage.origin,
                                    .rejected = job->lineage.rejected,
                                    .rejected_count = job->lineage.rejected_count,
                                    .freed = &job->freed};
}

/* Up to which checkpoint all leaders keep: 1, 0 when one of them has not enough, or cannot tell. Collective. */
static int agree_on_cut(struct vv_job *job, struct vv_attempt *cut) {
    struct vv_keep_options options = keep_options(job);
    struct varve_error error = {0};
    uint64_t generation = UINT64_MAX, version = UINT64_MAX;
    if (job->lease) {
        int is_found = vv_keep_cut(job->store, job->lease, job->name, &options, cut, &error) == 1;
        generation = is_found ? cut->generation : 0;
        version = is_found ? cut->version : 0;
    }
    uint64_t oldest = generation;
    if (job->comm->ranks == 1) /* nobody calls MPI after varve_wait */
        return job->lease && generation > 0;
    if (job->comm->ops->reduce_min(job->comm, &oldest, 1) != 0)
        return 0;
    version = generation == oldest ? version : UINT64_MAX;
    if (job->comm->ops->reduce_min(job->comm, &version, 1) != 0)
        return 0;
    *cut = (struct vv_attempt){.generation = (uint32_t)oldest, .version = version};
    return oldest > 0;
}

/* How many checkpoints of earlier sessions the default may find and still forget. Under the default there are at most
 * `keep` of them, and one more for every session in a row that died between its commit and this place. */
static uint64_t most_by_default(const struct vv_job *job) {
    return 2 * (uint64_t)job->settings.keep;
}

/* Nobody has set keep, and there is more than the default would have left: somebody has kept those checkpoints on
 * purpose, or a library did that still kept everything. They stay. One answer for all leaders; none of them can count:
 * they stay. */
static uint32_t find_keep_from(struct vv_job *job, uint64_t *older) {
    struct varve_error error = {0};
    uint64_t may_go = 1;
    if (!vv_setting_is_default(&job->settings, VV_SETTING_keep))
        return 0;
    if (job->lease)
        may_go = vv_keep_count(job->store, job->name, job->first_generation, older, &error) == 0 &&
                 *older <= most_by_default(job);
    if (vv_is_local(job) && job->comm->ranks > 1 && job->comm->ops->reduce_min(job->comm, &may_go, 1) != 0)
        may_go = 0;
    return may_go ? 0 : job->first_generation;
}

/* Deletions are announced, once, before the first one. Whoever has set keep knows, and reads it with log=info. */
static void tell_kept(const struct vv_job *job, uint64_t older) {
    int keep = job->settings.keep;
    if (!vv_setting_is_default(&job->settings, VV_SETTING_keep))
        vv_log(&job->log, VV_LOG_INFO, "keeping the newest %d checkpoints of %s in %s (keep=%d, from %s)", keep,
               job->name, job->address, keep, job->settings.origins[VV_SETTING_keep]);
    else if (job->keep_from && !job->lineage.has_failed_restart)
        vv_log_note(&job->log,
                    "keeping the newest %d checkpoints that this run makes of %s in %s (keep=%d), and the %" PRIu64
                    " of earlier runs; if keep=%d is set, those are forgotten, too; keep=all keeps every one",
                    keep, job->name, job->address, keep, older, keep);
    else
        vv_log_note(&job->log, "keeping the newest %d checkpoints of %s in %s (keep=%d); keep=all keeps every one",
                    keep, job->name, job->address, keep);
}

static void tell_failed_restart(const struct vv_job *job) {
    vv_log(
        &job->log, VV_LOG_WARN,
        "the restart of %s failed, and new checkpoints are made all the same: those of earlier runs are not forgotten",
        job->name);
}

static void begin_keeping(struct vv_job *job) {
    uint64_t older = 0;
    if (job->is_keep_told)
        return;
    job->is_keep_told = 1;
    job->keep_from = find_keep_from(job, &older);
    if (vv_comm_is_root(job->comm))
        tell_kept(job, older);
    if (vv_comm_is_root(job->comm) && job->lineage.has_failed_restart)
        tell_failed_restart(job);
}

static void tell_not_removed(const struct vv_job *job, const struct varve_error *error) {
    vv_log(&job->log, VV_LOG_WARN, "older checkpoints could not be removed: %s", error->text);
}

/* The oldest that any leader has pinned, newer than `after`: 1, 0 when there is none, or an error of the group.
 * Collective; keeping is NULL on ranks that have none. */
static int next_pinned(struct vv_job *job, const struct vv_keeping *keeping, const struct vv_attempt *after,
                       struct vv_attempt *out) {
    struct vv_attempt own;
    int has_one = keeping && vv_keep_next_pinned(keeping, after, &own);
    uint64_t generation = has_one ? own.generation : UINT64_MAX, version;
    uint64_t oldest = generation;
    if (job->comm->ranks > 1 && job->comm->ops->reduce_min(job->comm, &oldest, 1) != 0)
        return -ECOMM;
    if (oldest == UINT64_MAX)
        return 0;
    version = has_one && generation == oldest ? own.version : UINT64_MAX;
    if (job->comm->ranks > 1 && job->comm->ops->reduce_min(job->comm, &version, 1) != 0)
        return -ECOMM;
    *out = (struct vv_attempt){.generation = (uint32_t)oldest, .version = version};
    return 1;
}

/* What one node has pinned stays on all of them: its data is spread over them. A leader that cannot tell spares all
 * that the others would forget. Collective. */
static void keep_on_nodes(struct vv_job *job, const struct vv_attempt *cut) {
    struct varve_error error = {0};
    struct vv_keep_options options = keep_options(job);
    struct vv_keeping *keeping = NULL;
    struct vv_attempt at = {0};
    options.cut = cut;
    int rc = job->lease ? vv_keep_begin(job->store, job->lease, job->name, &options, &keeping, &error) : 0;
    uint64_t all_can = rc == 0;
    if (job->comm->ranks > 1 && job->comm->ops->reduce_min(job->comm, &all_can, 1) != 0)
        all_can = 0;
    int more = 0;
    while (all_can && (more = next_pinned(job, keeping, &at, &at)) == 1)
        if (keeping)
            vv_keep_spare(keeping, &at);
    if (keeping && all_can && more == 0)
        rc = vv_keep_forget(keeping, &error);
    if (rc < 0)
        tell_not_removed(job, &error);
    vv_keep_end(keeping);
}

static void keep_newest(struct vv_job *job) {
    struct varve_error error = {0};
    struct vv_attempt cut = {0};
    if (job->settings.keep == 0)
        return;
    begin_keeping(job);
    if (vv_is_local(job)) {
        if (agree_on_cut(job, &cut))
            keep_on_nodes(job, &cut);
    } else if (job->lease) {
        struct vv_keep_options options = keep_options(job);
        struct vv_attempt spared[SPARED_MOST];
        options.spared = spared;
        options.spared_count = job->spared ? job->spared(job->spared_arg, spared, SPARED_MOST) : 0;
        if (vv_keep(job->store, job->lease, job->name, &options, &error) < 0)
            tell_not_removed(job, &error);
    }
}

void vv_maintain(struct vv_job *job) {
    struct varve_error error = {0};
    if (job->lease && vv_lease_refer(job->lease, &job->lineage.parent, &error) != 0)
        vv_log(&job->log, VV_LOG_WARN, "the heartbeat could not be renewed: %s", error.text);
    vv_in_doubt_forget(job);
    keep_newest(job);
    if (job->lease)
        catalogue(job);
}
