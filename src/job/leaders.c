/* The leaders of a job are the ranks that hold a lease: each keeps the claims and records of one store.
 *
 * On shared storage that is rank 0 alone. With node-local stores (layout local) one rank per node is a leader, the one
 * that came first there. The votes travel to rank 0 (count_votes.c); from there the writers list and the record go to
 * every leader: all of them check, then all of them create the list, then all of them the record. A checkpoint is
 * reported when every leader has it. When a job dies in between, the next one finds a record on one node at least, or
 * full votes; it copies what is missing, or adopts. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "base/host.h"
#include "job/job_private.h"

/* ---- the writers list and the record, the same for everybody ---- */

static int share_commit(struct vv_job *job, const struct vv_attempt *attempt, struct vv_writers *writers,
                        struct vv_record *record, struct varve_error *error) {
    struct vv_key list = vv_attempt_key(job->name, attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_key key = vv_attempt_key(job->name, attempt, VV_KIND_RECORD, 0, 0);
    const uint8_t *id = job->store->id;
    int is_root = vv_comm_is_root(job->comm);
    struct vv_buf bytes[2];
    vv_buf_init(&bytes[0]);
    vv_buf_init(&bytes[1]);
    if (is_root) {
        vv_writers_encode(&bytes[0], &list, id, writers, NULL);
        vv_record_encode(&bytes[1], &key, id, record);
    }
    int rc = vv_comm_share(job->comm, &bytes[0], VV_COMM_ROOT, error);
    if (rc == 0)
        rc = vv_comm_share(job->comm, &bytes[1], VV_COMM_ROOT, error);
    if (rc == 0 && !is_root)
        rc = vv_writers_parse(bytes[0].data, bytes[0].size, &list, id, writers, error);
    if (rc == 0 && !is_root && (rc = vv_record_parse(bytes[1].data, bytes[1].size, &key, id, record, error)) < 0)
        vv_writers_clear(writers);
    vv_buf_clear(&bytes[0]);
    vv_buf_clear(&bytes[1]);
    return rc;
}

/* ---- committing ---- */

static int create_everywhere(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers *writers,
                             struct vv_record *record, struct varve_error *error) {
    int rc = 0;
    if (job->lease)
        rc = vv_commit_check(job->store, job->lease, job->name, attempt, record, error);
    rc = vv_comm_agree(job->comm, rc, error);
    if (rc)
        return rc;
    if (job->lease)
        rc = vv_commit_list(job->store, job->name, attempt, writers, error);
    rc = vv_comm_agree(job->comm, rc, error);
    if (rc)
        return rc;
    if (job->lease)
        rc = vv_commit_record(job->store, job->name, attempt, record, error);
    return vv_comm_agree(job->comm, rc, error);
}

static int commit_local(struct vv_job *job, const struct vv_attempt *attempt, struct vv_writers *writers,
                        struct vv_record *record, struct varve_error *error) {
    int rc = vv_comm_agree(job->comm, share_commit(job, attempt, writers, record, error), error);
    return rc ? rc : create_everywhere(job, attempt, writers, record, error);
}

static int commit_shared(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers *writers,
                         struct vv_record *record, struct varve_error *error) {
    int rc = 0;
    if (job->lease)
        rc = vv_votes_commit(job->store, job->lease, job->name, attempt, writers, record, error);
    return vv_comm_follow(job->comm, rc, &record->writers_digest, sizeof record->writers_digest, VV_COMM_ROOT, error);
}

/* From packs to a checkpoint. VARVE_DISAGREED: not all votes are there. */
static int finish(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map, int looks,
                  struct vv_tally *tally, struct vv_hash128 *digest_out, struct varve_error *error) {
    struct vv_writers writers = {0};
    struct vv_record record = {0};
    int rc = vv_votes_count(job, attempt, map, looks, tally, &writers, &record, error);
    if (rc)
        return rc;
    if (tally && vv_comm_is_root(job->comm))
        vv_tally_writers(tally, &writers);
    rc = vv_is_local(job) ? commit_local(job, attempt, &writers, &record, error)
                          : commit_shared(job, attempt, &writers, &record, error);
    *digest_out = record.writers_digest;
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc;
}

/* Whoever took over may have removed the packs that are missing: then that is the reason to tell. */
static int explain_missing(struct vv_job *job, struct varve_error *error) {
    struct varve_error why = {0};
    int rc = job->lease ? vv_lease_check(job->lease, &why) : 0;
    rc = vv_comm_agree(job->comm, rc, &why);
    if (rc == 0)
        return VARVE_DISAGREED;
    *error = why;
    return rc;
}

int vv_leaders_commit(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map,
                      struct vv_tally *tally, struct vv_hash128 *digest_out, struct varve_error *error) {
    int rc = finish(job, attempt, map, VV_LOOKS, tally, digest_out, error);
    return rc == VARVE_DISAGREED ? explain_missing(job, error) : rc;
}

/* ---- adopting ---- */

/* Jobs that ran on different nodes may have used the same generation: only the packs of one session belong together.
 * 1, 0, or an error. */
static int is_of_one_session(struct vv_job *job, uint32_t generation, struct varve_error *error) {
    uint8_t id[16] = {0};
    uint64_t is_same = 1;
    int known = vv_comm_is_root(job->comm) ? vv_claim_session(job->store, job->name, generation, id, error) : 0;
    int rc = vv_comm_follow(job->comm, known < 0 ? known : 0, id, sizeof id, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    int same = job->lease ? vv_claim_is_of(job->store, job->name, generation, id, error) : 1;
    rc = vv_comm_agree(job->comm, same < 0 ? same : 0, error);
    is_same = same > 0;
    if (rc == 0)
        rc = job->comm->ops->reduce_min(job->comm, &is_same, 1);
    return rc ? rc : (int)is_same;
}

/* What rank 0 has found, and all ranks help to finish. */
struct found {
    struct vv_attempt attempt;
    uint32_t writers; /* for which it was written; 0: nothing more was found */
};

/* 1 adopted, 0 not all votes are there, or an error; the same everywhere. */
static int adopt_attempt(struct vv_job *job, const struct found *found, struct varve_error *error) {
    const struct vv_writers_map map = {.writers = found->writers};
    struct vv_hash128 digest;
    int rc = vv_is_local(job) ? is_of_one_session(job, found->attempt.generation, error) : 1;
    if (rc != 1)
        return rc;
    rc = finish(job, &found->attempt, &map, 1, NULL, &digest, error);
    if (rc == VARVE_DISAGREED)
        vv_error_clear(error);
    return rc == 0 ? 1 : rc == VARVE_DISAGREED ? 0 : rc;
}

/* Rank 0 has found an attempt that may be full. */
static int finish_attempt(void *arg, const struct vv_attempt *attempt, struct varve_error *error) {
    struct vv_job *job = arg;
    struct found found = {.attempt = *attempt};
    struct vv_vote vote;
    int rc = vv_vote_read(job->store, job->name, attempt, 0, &vote, error);
    if (rc != 1)
        return rc;
    found.writers = vote.writers;
    vv_vote_clear(&vote);
    if ((rc = VV_FAULT("store.adopt.before_commit")) < 0)
        return vv_error_sys(error, rc, "cannot adopt");
    rc = job->comm->ops->broadcast(job->comm, &found, sizeof found, VV_COMM_ROOT);
    return rc ? rc : adopt_attempt(job, &found, error);
}

static int help_adopting(struct vv_job *job, struct varve_error *error) {
    struct found found;
    int rc;
    while ((rc = job->comm->ops->broadcast(job->comm, &found, sizeof found, VV_COMM_ROOT)) == 0 && found.writers != 0)
        adopt_attempt(job, &found, error); /* what it came to, rank 0 tells in the end */
    vv_error_clear(error);
    return rc;
}

int vv_leaders_adopt(struct vv_job *job, struct varve_error *error) {
    struct found none = {.writers = 0};
    uint32_t count = 0;
    int rc;
    if (!vv_comm_is_root(job->comm))
        rc = help_adopting(job, error);
    else {
        rc = vv_adopt_with(job->store, job->lease, job->name, finish_attempt, job, error);
        int told = job->comm->ops->broadcast(job->comm, &none, sizeof none, VV_COMM_ROOT);
        rc = told ? told : rc;
    }
    count = rc > 0;
    return vv_comm_follow(job->comm, rc < 0 ? rc : 0, &count, sizeof count, VV_COMM_ROOT, error);
}
