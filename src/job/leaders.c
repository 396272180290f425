/* The leaders of a job are the ranks that hold a lease: each keeps the claims and records of one store.
 *
 * On shared storage that is rank 0 alone, which finds all votes in the store. With node-local stores (layout local)
 * one rank per node is a leader, the one that came first there. Packs lie where they were written, so the votes travel
 * to rank 0 by message, and come back as the writers list and the record, which every leader creates: all of them
 * check, then all of them create the list, then all of them the record. A checkpoint is reported when every leader has
 * it. When a job dies in between, the next one finds a record on one node at least, or full votes; it copies what is
 * missing, or adopts. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host.h"
#include "job/job.h"

/* ---- votes by message; all ranks run the same program, so structs travel as they are ---- */

static int put_vote(struct vv_buf *buf, const struct vv_vote *vote) {
    vv_buf_append(buf, vote, sizeof *vote);
    vv_buf_append(buf, vote->dependencies, vote->dependency_count * sizeof *vote->dependencies);
    return buf->failed;
}

struct counting {
    struct vv_count *count;
    struct varve_error *error;
};

static int take_vote(void *arg, uint32_t rank, const void *data, size_t size) {
    struct counting *counting = arg;
    struct vv_vote vote;
    (void)rank;
    if (size < sizeof vote)
        return vv_error(counting->error, -EPROTO, "the vote of rank %u has %zu bytes", rank, size);
    memcpy(&vote, data, sizeof vote);
    if ((size - sizeof vote) / sizeof *vote.dependencies != vote.dependency_count)
        return vv_error(counting->error, -EPROTO, "the vote of rank %u has %zu bytes", rank, size);
    vote.dependencies = vv_malloc(size - sizeof vote + 1); /* aligned */
    if (!vote.dependencies)
        return vv_error(counting->error, -ENOMEM, "no memory to count the votes");
    memcpy(vote.dependencies, (const char *)data + sizeof vote, size - sizeof vote);
    int rc = vv_count_add(counting->count, &vote, counting->error);
    vv_vote_clear(&vote);
    return rc;
}

/* Does every rank find its own pack? 1 and its vote, 0 when a rank does not, or an error; the same everywhere. */
static int read_votes(struct vv_job *job, const struct vv_attempt *attempt, struct vv_vote *vote,
                      struct varve_error *error) {
    int found = vv_vote_read(job->store, job->name, attempt, job->comm->rank, vote, error);
    uint64_t has_all = found > 0;
    int rc = vv_comm_agree(job->comm, found < 0 ? found : 0, error);
    if (rc == 0)
        rc = job->comm->ops->reduce_min(job->comm, &has_all, 1);
    if (rc == 0 && has_all)
        return 1;
    if (found > 0)
        vv_vote_clear(vote);
    return rc;
}

/* Rank 0 gets the writers list and the record. Like vv_votes_read, and the same everywhere. */
static int count_votes(struct vv_job *job, const struct vv_attempt *attempt, struct vv_writers *writers_out,
                       struct vv_record *record_out, struct varve_error *error) {
    struct vv_vote vote;
    struct counting counting = {.error = error};
    struct vv_buf buf;
    int is_root = vv_comm_is_root(job->comm);
    int rc = read_votes(job, attempt, &vote, error);
    if (rc != 1)
        return rc;
    vv_buf_init(&buf);
    rc = put_vote(&buf, &vote);
    vv_vote_clear(&vote);
    if (rc == 0 && is_root)
        rc = vv_count_begin(job->store, job->name, attempt, &counting.count);
    rc = vv_comm_agree(job->comm, rc, error);
    if (rc == 0)
        rc = job->comm->ops->gather(job->comm, buf.data, buf.size, take_vote, &counting);
    uint32_t is_full = 0;
    int ended = vv_count_end(counting.count, rc == 0 ? writers_out : NULL, record_out, error);
    is_full = ended == 1;
    vv_buf_clear(&buf);
    rc = vv_comm_follow(job->comm, rc ? rc : ended < 0 ? ended : 0, &is_full, sizeof is_full, VV_COMM_ROOT, error);
    if (rc && ended == 1) {
        vv_writers_clear(writers_out);
        vv_record_clear(record_out);
    }
    return rc ? rc : (int)is_full;
}

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

/* 1 committed, 0 not all votes are there, or an error; the same everywhere. */
static int commit_local(struct vv_job *job, const struct vv_attempt *attempt, struct vv_hash128 *digest_out,
                        struct varve_error *error) {
    struct vv_writers writers = {0};
    struct vv_record record = {0};
    int rc = count_votes(job, attempt, &writers, &record, error);
    if (rc != 1)
        return rc;
    rc = vv_comm_agree(job->comm, share_commit(job, attempt, &writers, &record, error), error);
    if (rc == 0)
        rc = create_everywhere(job, attempt, &writers, &record, error);
    *digest_out = record.writers_digest;
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    return rc ? rc : 1;
}

int vv_leaders_commit(struct vv_job *job, const struct vv_attempt *attempt, struct vv_hash128 *digest_out,
                      struct varve_error *error) {
    struct vv_record record = {0};
    int rc = 0;
    if (vv_is_local(job)) {
        rc = commit_local(job, attempt, digest_out, error);
        return rc == 1   ? 0
               : rc == 0 ? vv_comm_all_say(error, VARVE_DISAGREED, "not all ranks find what they have stored")
                         : rc;
    }
    if (job->lease) {
        rc = VARVE_DISAGREED; /* a pack may come into sight late */
        for (int look = 0; look < VV_LOOKS && rc == VARVE_DISAGREED; look++) {
            vv_wait_before(look);
            vv_error_clear(error);
            rc = vv_commit(job->store, job->lease, job->name, attempt, &record, error);
        }
        *digest_out = record.writers_digest;
        vv_record_clear(&record);
    }
    return vv_comm_follow(job->comm, rc, digest_out, sizeof *digest_out, VV_COMM_ROOT, error);
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

static int adopt_attempt(struct vv_job *job, const struct vv_attempt *attempt, struct varve_error *error) {
    struct vv_hash128 digest;
    int rc = is_of_one_session(job, attempt->generation, error);
    return rc == 1 ? commit_local(job, attempt, &digest, error) : rc;
}

/* Rank 0 has found an attempt that may be full. */
static int finish_attempt(void *arg, const struct vv_attempt *attempt, struct varve_error *error) {
    struct vv_job *job = arg;
    struct vv_attempt told = *attempt;
    int rc = job->comm->ops->broadcast(job->comm, &told, sizeof told, VV_COMM_ROOT);
    return rc ? rc : adopt_attempt(job, attempt, error);
}

static int help_adopting(struct vv_job *job, struct varve_error *error) {
    struct vv_attempt attempt;
    int rc;
    while ((rc = job->comm->ops->broadcast(job->comm, &attempt, sizeof attempt, VV_COMM_ROOT)) == 0 &&
           attempt.generation != 0)
        adopt_attempt(job, &attempt, error); /* what it came to, rank 0 tells in the end */
    vv_error_clear(error);
    return rc;
}

int vv_leaders_adopt(struct vv_job *job, struct varve_error *error) {
    struct vv_attempt none = {0};
    uint32_t count = 0;
    int rc = 0;
    if (!vv_is_local(job))
        rc = job->lease ? vv_adopt(job->store, job->lease, job->name, error) : 0;
    else if (!vv_comm_is_root(job->comm))
        rc = help_adopting(job, error);
    else {
        rc = vv_adopt_with(job->store, job->lease, job->name, finish_attempt, job, error);
        int told = job->comm->ops->broadcast(job->comm, &none, sizeof none, VV_COMM_ROOT);
        rc = told ? told : rc;
    }
    count = rc > 0;
    return vv_comm_follow(job->comm, rc < 0 ? rc : 0, &count, sizeof count, VV_COMM_ROOT, error);
}
