/* Rank 0 claims the next generation. On shared storage the other ranks make sure that they see the claim. With
 * node-local stores the first rank on each node makes the same claim there. */
#include <string.h>

#include "base/host.h"
#include "job/job_private.h"

/* What rank 0 tells the others. */
struct entry {
    uint8_t session_id[16];
    uint32_t generation;
};

static int take_lease(struct vv_job *job, uint64_t above, const uint8_t *session_id, struct varve_error *error) {
    struct vv_lease_options options = {
        .ranks = job->comm->ranks,
        .beat_seconds = (uint32_t)job->settings.beat_seconds,
        .dead_seconds = (uint32_t)job->settings.dead_seconds,
        .takeover_seconds = (uint32_t)job->settings.takeover_seconds,
        .above = (uint32_t)above,
        .session_id = session_id,
    };
    return vv_lease_take(job->store, job->name, &options, &job->lease, error);
}

static int see_claim(struct vv_job *job, const struct entry *entry, struct varve_error *error) {
    int rc = 0;
    for (int i = 0; i < VV_LOOKS && rc == 0; i++) {
        vv_wait_before(i);
        rc = vv_claim_is_of(job->store, job->name, entry->generation, entry->session_id, error);
    }
    return rc;
}

/* A rank that is not the first: it sees the claim of a leader, or becomes the leader of its node. */
static int join_claim(struct vv_job *job, const char *uri, uint64_t above, const struct entry *entry,
                      struct varve_error *error) {
    if (!vv_is_local(job)) {
        int seen = see_claim(job, entry, error);
        return seen == 0 ? vv_store_is_lost(job, uri, VV_COMM_ROOT, error) : seen < 0 ? seen : 0;
    }
    int rc = take_lease(job, above, entry->session_id, error);
    if (rc == 0 && vv_lease_generation(job->lease) != entry->generation)
        rc = vv_error(error, VARVE_BUSY, "another session of %s came between on this node", job->name);
    return rc < 0 ? rc : 0;
}

int vv_claim_together(struct vv_job *job, uint64_t above, struct varve_error *error) {
    struct varve_comm *comm = job->comm;
    struct entry entry = {.generation = 0};
    int rc = 0;
    if (vv_comm_is_root(comm) && (rc = take_lease(job, above, NULL, error)) == 0) {
        memcpy(entry.session_id, vv_lease_session(job->lease), sizeof entry.session_id);
        entry.generation = vv_lease_generation(job->lease);
    }
    rc = vv_comm_follow(comm, rc, &entry, sizeof entry, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    job->first_generation = entry.generation;
    memcpy(job->claim_tried, entry.session_id, sizeof job->claim_tried);
    if (!vv_comm_is_root(comm))
        rc = join_claim(job, job->address, above, &entry, error);
    return vv_comm_agree(comm, rc, error);
}
