/* Sessions without a claim.
 *
 * Restarting needs none. The claim, and the heartbeat that names what is read, are a courtesy: whoever forgets
 * checkpoints leaves that one alone. Without them it may be forgotten and pruned while it is read. That is found out by
 * reading, and then another one is tried (restart/candidates.c); wrong bytes are found by their digests.
 *
 * A session has no claim because it was asked to read only (access=read), and then it never writes anything. Or because
 * nothing could be written when it was opened: the file system is full to the last byte, mounted read-only, or somebody
 * else's. Then the first restart, and after it the first checkpoint, try to claim once more. It must be the very next
 * claim of the name: if another session came between, what we go on from is not the newest any more, and ours would
 * hide what that one has saved. Nor may there be a newer record than those we chose from: the session before us was
 * taken for dead, and may have gone on all the same. Whether what we go on from is still a checkpoint is looked at by
 * every commit (lifecycle/commit.c). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "job/job.h"

static int cannot_write(int rc) {
    return rc == -ENOSPC || rc == -EDQUOT || rc == -EROFS || rc == -EACCES || rc == -EPERM;
}

/* Who lists and reads the records: rank 0, or the first rank of every node, as far as the group knows the nodes. */
static int is_reading_leader(const struct vv_job *job) {
    struct varve_comm *comm = job->comm;
    if (!vv_is_local(job))
        return vv_comm_is_root(comm);
    return comm->nodes == 0 || !comm->ops->rank_of || comm->ops->rank_of(comm, comm->node, 0) == comm->rank;
}

static void drop_claim(struct vv_job *job, enum vv_may may) {
    vv_lease_release(job->lease); /* of a node that could be written */
    job->lease = NULL;
    job->may = may;
    job->is_leader = is_reading_leader(job);
}

int vv_access_open(struct vv_job *job, uint64_t above, struct varve_error *error) {
    if (job->may == VV_MAY_READ) {
        drop_claim(job, VV_MAY_READ);
        return 0;
    }
    int rc = vv_claim_together(job, above, error);
    job->is_leader = job->lease != NULL;
    if (!cannot_write(rc))
        return rc;
    if (vv_comm_is_root(job->comm))
        vv_log(&job->log, VV_LOG_WARN, "%s is open for reading only, until a checkpoint can be written: %s", job->name,
               error->text);
    drop_claim(job, VV_MAY_WRITE_LATER);
    vv_error_clear(error);
    uint32_t highest = 0;
    rc = job->is_leader ? vv_claims_highest(job->store, job->name, &highest, error) : 0;
    rc = vv_comm_agree(job->comm, rc, error);
    uint64_t seen = highest;
    if (rc == 0 && (rc = vv_comm_most(job->comm, &seen)) != 0)
        return vv_error(error, rc, "the ranks could not compare their claims: %s", varve_error_text(rc));
    job->claims_seen = (uint32_t)seen;
    vv_access_look(job);
    return rc;
}

static int take_newest(void *arg, uint32_t generation, uint64_t version) {
    *(struct vv_attempt *)arg = (struct vv_attempt){generation, 0, version};
    return 1;
}

int vv_newest_record(struct vv_job *job, struct vv_attempt *out, struct varve_error *error) {
    *out = (struct vv_attempt){0};
    int rc = vv_records_list_whole(job->store, job->name, take_newest, out, error);
    return rc < 0 ? rc : 0;
}

/* The newest of all nodes, known to all ranks: who lists for a node and who claims it need not be the same. If one
 * cannot tell, what was seen before counts: then a checkpoint may be refused that would have been right. */
void vv_access_look(struct vv_job *job) {
    struct varve_error ignored = {0};
    struct vv_attempt newest = {0};
    if (job->may != VV_MAY_WRITE_LATER)
        return;
    uint64_t is_told = !job->is_leader || vv_newest_record(job, &newest, &ignored) == 0;
    if (job->comm->ops->reduce_min(job->comm, &is_told, 1) != 0 || !is_told)
        return;
    uint64_t generation = newest.generation, version = 0;
    if (vv_comm_most(job->comm, &generation) != 0)
        return;
    version = newest.generation == generation ? newest.version : 0;
    if (vv_comm_most(job->comm, &version) == 0)
        job->newest_seen = (struct vv_attempt){(uint32_t)generation, 0, version};
}

static int check_unsaved(struct vv_job *job, struct varve_error *error) {
    struct vv_attempt newest;
    int rc = vv_newest_record(job, &newest, error);
    if (rc < 0 || !vv_attempt_is_newer(&newest, &job->newest_seen) ||
        !vv_attempt_is_newer(&newest, &job->lineage.parent))
        return rc;
    return vv_error(error, VARVE_FENCED,
                    "another session has saved version %" PRIu64
                    " of %s since this one was opened for reading only: close it"
                    " and open it again",
                    newest.version, job->name);
}

static int is_own(const struct vv_job *job, const uint8_t owner[16]) {
    return vv_lease_is_given_up_here(owner) || memcmp(owner, job->claim_tried, sizeof job->claim_tried) == 0;
}

/* A claim above the one we saw may be our own, made half-way by a try that failed, on this rank or on another of its
 * node. */
static int check_unclaimed(struct vv_job *job, struct varve_error *error) {
    uint8_t owner[16];
    uint32_t highest = 0;
    int rc = vv_claims_highest(job->store, job->name, &highest, error);
    if (rc < 0 || highest <= job->claims_seen)
        return rc < 0 ? rc : check_unsaved(job, error);
    rc = vv_claim_session(job->store, job->name, highest, owner, error);
    if (rc == 1 && highest == job->claims_seen + 1 && is_own(job, owner)) {
        job->claims_seen = highest;
        return check_unsaved(job, error);
    }
    return rc < 0
               ? rc
               : vv_error(
                     error, VARVE_FENCED,
                     "another session has claimed %s since this one was opened for reading only: close it and open it"
                     " again",
                     job->name);
}

/* We have claims; are they the very next, and does the heartbeat name what we go on from? */
static int settle_claim(struct vv_job *job, uint64_t above, struct varve_error *error) {
    if (!job->lease)
        return 0;
    if (vv_lease_generation(job->lease) != above + 1)
        return vv_error(error, VARVE_FENCED, "another session of %s came between: close this one and open it again",
                        job->name);
    int rc = check_unsaved(job, error); /* again: from now on nobody else can commit */
    return rc == 0 && job->lineage.parent.generation ? vv_lease_refer(job->lease, &job->lineage.parent, error) : rc;
}

static int claim_late(struct vv_job *job, struct varve_error *error) {
    int rc = vv_comm_agree(job->comm, job->is_leader ? check_unclaimed(job, error) : 0, error);
    uint64_t above = job->claims_seen;
    if (rc == 0 && (rc = vv_comm_most(job->comm, &above)) != 0)
        return vv_error(error, rc, "the ranks could not compare their claims: %s", varve_error_text(rc));
    if (rc == 0)
        rc = vv_claim_together(job, above, error);
    if (rc == 0)
        rc = vv_comm_agree(job->comm, settle_claim(job, above, error), error);
    if (rc) {
        uint64_t own = job->lease ? vv_lease_generation(job->lease) : 0;
        if (vv_comm_most(job->comm, &own) == 0 && own == above + 1)
            job->claims_seen = (uint32_t)own; /* ours, on some node, which ends now: nobody came between */
        drop_claim(job, VV_MAY_WRITE_LATER);
        return rc;
    }
    job->is_leader = job->lease != NULL;
    job->may = VV_MAY_WRITE;
    return 0;
}

/* What a dead session had fully written is adopted by whoever has the claim: before anything is chosen. */
int vv_access_choose(struct vv_job *job, int has_begun, struct varve_error *error) {
    struct varve_error why = {0};
    int is_undecided = job->lineage.parent.generation == 0 && !has_begun;
    if (job->may != VV_MAY_WRITE_LATER || !is_undecided)
        return 0;
    if (claim_late(job, &why) == 0)
        return vv_leaders_adopt(job, error);
    if (vv_comm_is_root(job->comm))
        vv_log(&job->log, VV_LOG_INFO, "%s is still open for reading only: %s", job->name, why.text);
    return 0;
}

int vv_access_refuse(struct vv_job *job, struct varve_error *error) {
    if (job->may != VV_MAY_READ)
        return 0;
    return vv_comm_all_say(
        error, -EROFS, "this session of %s only reads (access=read): open one with access=write to save checkpoints",
        job->name);
}

int vv_access_write(struct vv_job *job, struct varve_error *error) {
    return job->may == VV_MAY_WRITE_LATER ? claim_late(job, error) : 0;
}
