/* Before a checkpoint is read from node-local stores: is it the same one on all nodes, is the part of every rank, or a
 * copy of it, on some node, and does every node have its record?
 *
 * A node may have missed a commit: the record is copied to it. One node may have forgotten the checkpoint: then so do
 * the others. And nodes that were used by different jobs may have different checkpoints under the same generation and
 * version: their parts must never come together. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host.h"
#include "job/job.h"
#include "store/listing.h"

/* What is to be read. */
struct candidate {
    struct vv_job *job;
    struct vv_peers *peers;
    const struct vv_completeness *wanted;
    uint32_t generation;
    uint64_t version;
    int found;                 /* on this node; on ranks that are no leaders always */
    struct vv_dependency what; /* if it was */
    uint32_t donor;            /* the first leader that has it */
    int is_everywhere;         /* no leader lacks it */
    const struct vv_record *record;
    uint32_t *ranks;         /* that have made each of the attempts it depends on */
    int is_under_replicated; /* something is there fewer times than it should be */
    struct varve_error *error;
};

/* ---- the record ---- */

/* Does this leader have it? 1, 0 when it is missing or damaged here, or why nobody may have it. */
static int look_here(struct candidate *candidate) {
    struct vv_job *job = candidate->job;
    struct vv_buf writers, record;
    vv_buf_init(&writers);
    vv_buf_init(&record);
    int rc = vv_commit_read(job->store, job->name, candidate->generation, candidate->version, &writers, &record,
                            &candidate->what, candidate->error);
    vv_buf_clear(&writers);
    vv_buf_clear(&record);
    return rc == 0 ? 1 : rc == VARVE_CORRUPT || rc == -ENOENT ? 0 : rc;
}

/* Before the tombstone on the other node is pruned away, and what is left here looks like a checkpoint that it has
 * missed. */
static void forget_too(const struct candidate *candidate) {
    struct vv_job *job = candidate->job;
    struct varve_error why = {0};
    int rc = vv_forget(job->store, job->name, candidate->generation, candidate->version, &why);
    vv_log(&job->log, rc < 0 ? VV_LOG_WARN : VV_LOG_INFO,
           "%s@%" PRIu64 " (generation %u) was forgotten on another node%s%s", job->name, candidate->version,
           candidate->generation, rc < 0 ? ", but not on this one: " : "", rc < 0 ? why.text : "");
}

/* Have all nodes that know of this version the same session's claim on its generation? Jobs on different nodes may
 * have used the same generation: then one's tombstone says nothing about the other's checkpoint. 1, 0, or an error of
 * the group. */
static int is_of_one_session(const struct candidate *candidate) {
    struct vv_job *job = candidate->job;
    struct varve_error ignored = {0};
    uint64_t id[2] = {0, 0}, least[5] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1};
    if (job->is_leader && (candidate->found == 1 || candidate->found == VARVE_FORGOTTEN)) {
        uint8_t bytes[16] = {0};
        least[4] = vv_claim_session(job->store, job->name, candidate->generation, bytes, &ignored) == 1;
        memcpy(id, bytes, sizeof id);
        for (int i = 0; i < 2; i++) {
            least[i] = id[i];
            least[2 + i] = ~id[i];
        }
    }
    int rc = job->comm->ops->reduce_min(job->comm, least, 5);
    return rc ? rc : least[4] && least[0] == ~least[2] && least[1] == ~least[3];
}

/* One node has forgotten it. */
static int spread_forgetting(const struct candidate *candidate) {
    int rc = is_of_one_session(candidate);
    if (rc < 0)
        return vv_error(candidate->error, rc, "the ranks could not compare their claims: %s", varve_error_text(rc));
    if (rc == 0)
        return vv_comm_all_say(
            candidate->error, VARVE_CORRUPT,
            "another job, which used the same generation on other nodes, has forgotten a checkpoint of this version");
    if (candidate->job->lease && candidate->found == 1)
        forget_too(candidate);
    return VARVE_FORGOTTEN;
}

/* Leaders that lack it say nothing. */
static int check_same(const struct candidate *candidate) {
    uint64_t own[3] = {candidate->what.attempt.attempt, candidate->what.writers_digest.low,
                       candidate->what.writers_digest.high};
    uint64_t least[6];
    int says = candidate->job->is_leader && candidate->found;
    for (int i = 0; i < 3; i++) {
        least[i] = says ? own[i] : UINT64_MAX;
        least[3 + i] = says ? ~own[i] : UINT64_MAX;
    }
    int rc = candidate->job->comm->ops->reduce_min(candidate->job->comm, least, 6);
    if (rc)
        return vv_error(candidate->error, rc, "the ranks could not compare their records: %s", varve_error_text(rc));
    for (int i = 0; i < 3; i++)
        if (least[i] != ~least[3 + i])
            return vv_comm_all_say(
                candidate->error, VARVE_CORRUPT,
                "the nodes have different checkpoints of this generation and version: they were written by"
                " different jobs, or by attempts of which one failed");
    return 0;
}

/* Who has it, and is it the same? */
static int look_everywhere(struct candidate *candidate) {
    struct vv_job *job = candidate->job;
    candidate->found = job->is_leader ? look_here(candidate) : 1;
    int rc = vv_comm_agree(job->comm, candidate->found < 0 ? candidate->found : 0, candidate->error);
    if (rc == VARVE_FORGOTTEN)
        rc = spread_forgetting(candidate);
    if (rc)
        return rc;
    uint64_t least[2] = {job->is_leader && candidate->found ? job->comm->rank : UINT64_MAX, (uint64_t)candidate->found};
    rc = job->comm->ops->reduce_min(job->comm, least, 2);
    if (rc)
        return vv_error(candidate->error, rc, "the ranks could not compare their records: %s", varve_error_text(rc));
    if (least[0] == UINT64_MAX)
        return vv_comm_all_say(candidate->error, VARVE_CORRUPT, "its record cannot be read on any node");
    candidate->donor = (uint32_t)least[0];
    candidate->is_everywhere = least[1] == 1;
    if (!candidate->is_everywhere && job->may != VV_MAY_WRITE)
        return vv_comm_all_say(candidate->error, VARVE_CORRUPT,
                               "its record is not on every node, and a session that only reads cannot copy it there");
    return check_same(candidate);
}

/* ---- the parts, where ranks can ask each other ---- */

static struct vv_attempt attempt_of(const struct candidate *candidate) {
    return (struct vv_attempt){candidate->generation, candidate->record->attempt, candidate->version};
}

static int exists(struct candidate *candidate, const struct vv_attempt *attempt, int kind, uint32_t writer,
                  struct varve_error *error) {
    struct vv_key key = vv_attempt_key(candidate->job->name, attempt, kind, writer, 0);
    return vv_peers_have(candidate->peers, &key, error);
}

static int load_list(const struct candidate *candidate, struct vv_store *store, const struct vv_dependency *dependency,
                     struct vv_buf *bytes, struct vv_writers *out, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(candidate->job->name, &dependency->attempt, VV_KIND_WRITERS, 0, 0);
    int rc = vv_object_read(store, &key, bytes, error);
    if (rc == 0)
        rc = vv_writers_parse(bytes->data, bytes->size, &key, store->id, out, error);
    if (rc == 0 && !vv_hash128_equal(out->digest, dependency->writers_digest)) {
        vv_writers_clear(out);
        rc = vv_error(error, VARVE_CORRUPT, "a writers list is not the one that the record names");
    }
    return rc;
}

/* The pack of this owner is nowhere: its tables and the pack of a partner can stand in for it. 1, 0, or an error. */
static int has_copy(struct candidate *candidate, struct vv_store *store, uint32_t rank, struct varve_error *error) {
    struct vv_dependency dependency = {attempt_of(candidate), candidate->record->writers_digest};
    struct vv_writers writers;
    struct vv_buf bytes;
    int rc = exists(candidate, &dependency.attempt, VV_KIND_COPY, rank, error);
    if (rc != 1)
        return rc;
    vv_buf_init(&bytes);
    rc = load_list(candidate, store, &dependency, &bytes, &writers, error);
    vv_buf_clear(&bytes);
    if (rc)
        return rc;
    int64_t home = vv_writers_home(&writers, rank);
    const struct vv_writer *entry = home < 0 ? NULL : &writers.list[home];
    int found = 0;
    for (uint32_t i = 0; entry && i < entry->partner_count && found == 0; i++)
        found = exists(candidate, &dependency.attempt, VV_KIND_PACK, entry->partners[i], error);
    vv_writers_clear(&writers);
    return found;
}

/* A job that died after its last pack and before its copies has left an attempt that is adopted, but of whose tables
 * there may be too few copies, or of whose packs too little parity. */
static int check_spare(struct candidate *candidate, const struct vv_attempt *attempt, uint32_t owner,
                       struct varve_error *error) {
    const struct vv_completeness *wanted = candidate->wanted;
    struct vv_key key = vv_attempt_key(candidate->job->name, attempt, VV_KIND_COPY, owner, 0);
    int count = wanted->replicas > 0 ? vv_peers_count(candidate->peers, &key, error) : 0;
    if (count < 0)
        return count;
    candidate->is_under_replicated |= (uint32_t)count < wanted->replicas;
    key.kind = VV_KIND_PACK;
    count = wanted->parity > 0 ? vv_peers_parity(candidate->peers, &key, error) : 0;
    candidate->is_under_replicated |= count >= 0 && (uint32_t)count < wanted->parity;
    return count < 0 ? count : 1;
}

/* Nobody has what this owner stored. A job of another number of ranks does not know its regions. */
static int report_lost(struct candidate *candidate, uint32_t owner, struct varve_error *error) {
    const struct vv_job *job = candidate->job;
    const struct vv_lost all = {0};
    int is_own = owner == job->comm->rank && candidate->record->ranks == job->comm->ranks;
    return vv_lost_report(job, is_own ? candidate->wanted->all : &all, owner, candidate->version, error);
}

/* Is what this owner stored anywhere? Below 0: no. */
static int check_owner(struct candidate *candidate, struct vv_store *store, uint32_t owner, struct varve_error *error) {
    struct vv_attempt attempt = attempt_of(candidate);
    int rc = exists(candidate, &attempt, VV_KIND_PACK, owner, error);
    if (rc == 0) {
        candidate->is_under_replicated = 1;
        rc = has_copy(candidate, store, owner, error);
        if (rc == 0) {
            struct vv_key key = vv_attempt_key(candidate->job->name, &attempt, VV_KIND_PACK, owner, 0);
            rc = vv_peers_can_rebuild(candidate->peers, &key, error);
        }
        if (rc == 0)
            rc = report_lost(candidate, owner, error);
    }
    return rc > 0 ? check_spare(candidate, &attempt, owner, error) : rc;
}

/* The same for an older attempt, of which not all may be needed: that shows when it is read. */
static int check_older(struct candidate *candidate, const struct vv_attempt *attempt, uint32_t owner,
                       struct varve_error *error) {
    int rc = exists(candidate, attempt, VV_KIND_PACK, owner, error);
    candidate->is_under_replicated |= rc == 0;
    return rc < 0 ? rc : check_spare(candidate, attempt, owner, error);
}

/* Its own; where more ranks than these have made an attempt, each looks for a share. Of older attempts the first copy
 * that is missing says all. */
static int check_own(void *arg, struct vv_store *store, struct varve_error *error) {
    struct candidate *candidate = arg;
    const struct vv_record *record = candidate->record;
    const struct varve_comm *comm = candidate->job->comm;
    int rc = 0;
    for (uint64_t owner = comm->rank; owner < record->ranks && rc >= 0; owner += comm->ranks)
        rc = check_owner(candidate, store, (uint32_t)owner, error);
    for (uint32_t i = 0; i < record->dependency_count; i++)
        for (uint64_t owner = comm->rank; owner < candidate->ranks[i] && rc >= 0 && !candidate->is_under_replicated;
             owner += comm->ranks)
            rc = check_older(candidate, &record->dependencies[i].attempt, (uint32_t)owner, error);
    return rc < 0 ? rc : 0;
}

/* ---- the writers lists of the attempts it depends on: every node has them, so a lost or damaged one is not the end
 * ----
 */

/* Does a leader have the list that the record names? 1, 0 if it is missing or damaged, or an error. */
static int has_list(const struct candidate *candidate, const struct vv_dependency *dependency, struct vv_buf *bytes,
                    uint32_t *ranks_out) {
    struct vv_job *job = candidate->job;
    struct vv_writers writers;
    struct varve_error why = {0};
    vv_buf_clear(bytes);
    int rc = load_list(candidate, job->store, dependency, bytes, &writers, &why);
    if (rc == 0) {
        *ranks_out = writers.ranks;
        vv_writers_clear(&writers);
    } else if (rc != -ENOENT && rc != VARVE_CORRUPT && rc != VARVE_FORGOTTEN)
        *candidate->error = why;
    return rc == 0 ? 1 : rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_FORGOTTEN ? 0 : rc;
}

static int put_list(const struct candidate *candidate, const struct vv_dependency *dependency,
                    const struct vv_buf *bytes) {
    struct vv_job *job = candidate->job;
    struct vv_key key = vv_attempt_key(job->name, &dependency->attempt, VV_KIND_WRITERS, 0, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    vv_log(&job->log, VV_LOG_WARN, "%s was missing or damaged on this node: copied from another", text);
    int rc = vv_backend_replace(job->store->backend, text, bytes->data, bytes->size);
    return rc ? vv_error_sys(candidate->error, rc, "cannot write %s", text) : 0;
}

/* Collective, for one attempt that it depends on. */
static int spread_list(struct candidate *candidate, const struct vv_dependency *dependency, struct vv_buf *bytes,
                       uint32_t *ranks_out) {
    struct vv_job *job = candidate->job;
    struct varve_comm *comm = job->comm;
    int found = job->is_leader ? has_list(candidate, dependency, bytes, ranks_out) : 1;
    int rc = vv_comm_agree(comm, found < 0 ? found : 0, candidate->error), has_it = job->is_leader && found == 1;
    uint64_t least[3] = {has_it ? comm->rank : UINT64_MAX, found == 1, has_it ? *ranks_out : UINT64_MAX};
    if (rc == 0 && (rc = comm->ops->reduce_min(comm, least, 3)) != 0)
        return vv_error(candidate->error, rc, "the ranks could not compare their lists: %s", varve_error_text(rc));
    *ranks_out = (uint32_t)least[2];
    if (rc || least[1])
        return rc;
    if (least[0] == UINT64_MAX)
        return vv_comm_all_say(candidate->error, VARVE_CORRUPT, "no node has a writers list that it needs");
    if (job->may != VV_MAY_WRITE)
        return vv_comm_all_say(
            candidate->error, VARVE_CORRUPT,
            "a writers list that it needs is not on every node, and a session that only reads cannot copy it");
    if (comm->rank != least[0])
        vv_buf_clear(bytes);
    rc = vv_comm_share(comm, bytes, (uint32_t)least[0], candidate->error);
    if (rc == 0 && job->lease && !found)
        rc = put_list(candidate, dependency, bytes);
    return vv_comm_agree(comm, rc, candidate->error);
}

static int spread_lists(struct candidate *candidate) {
    struct vv_buf bytes;
    int rc = 0;
    vv_buf_init(&bytes);
    for (uint32_t i = 0; i < candidate->record->dependency_count && rc == 0; i++)
        rc = spread_list(candidate, &candidate->record->dependencies[i], &bytes, &candidate->ranks[i]);
    vv_buf_clear(&bytes);
    return rc;
}

static int find_parts(struct candidate *candidate) {
    const struct vv_record *record = candidate->record;
    struct varve_comm *comm = candidate->job->comm;
    struct vv_attempt *attempts = vv_calloc((size_t)record->dependency_count + 1, sizeof *attempts);
    candidate->ranks = vv_calloc((size_t)record->dependency_count + 1, sizeof *candidate->ranks);
    int rc = attempts && candidate->ranks ? 0 : vv_error(candidate->error, -ENOMEM, "no memory to restart");
    rc = vv_comm_agree(comm, rc, candidate->error);
    if (rc == 0) {
        attempts[0] = attempt_of(candidate);
        for (uint32_t i = 0; i < record->dependency_count; i++)
            attempts[i + 1] = record->dependencies[i].attempt;
        rc = vv_peers_look(candidate->peers, attempts, (size_t)record->dependency_count + 1, candidate->error);
    }
    vv_free(attempts);
    if (rc == 0)
        rc = spread_lists(candidate);
    if (rc == 0)
        rc = vv_peers_run(candidate->peers, check_own, candidate, candidate->error);
    vv_free(candidate->ranks);
    if (rc)
        return rc;
    uint64_t is_full = !candidate->is_under_replicated;
    rc = comm->ops->reduce_min(comm, &is_full, 1);
    if (rc)
        return vv_error(candidate->error, rc, "the ranks could not compare their packs: %s", varve_error_text(rc));
    candidate->is_under_replicated = !is_full;
    return 0;
}

/* ---- the parts, where they cannot: each must be on its rank's node ---- */

static int has_pack(struct vv_job *job, const struct vv_attempt *attempt, uint32_t writer, struct varve_error *error) {
    struct vv_key key = vv_attempt_key(job->name, attempt, VV_KIND_PACK, writer, 0);
    return vv_object_exists(job->store, &key, error);
}

/* Of all attempts that this rank's part is made of, the first of which its pack is not here: 1; 0 when all are. A
 * damaged pack counts as there: reading will tell. */
static int find_missing(struct candidate *candidate, struct vv_attempt *out) {
    struct vv_job *job = candidate->job;
    struct vv_vote vote;
    *out = attempt_of(candidate);
    int rc = has_pack(job, out, job->comm->rank, candidate->error);
    if (rc != 1)
        return rc < 0 ? rc : 1;
    if (vv_vote_read(job->store, job->name, out, job->comm->rank, &vote, candidate->error) != 1) {
        vv_error_clear(candidate->error);
        return 0;
    }
    for (uint32_t i = 0; rc == 1 && i < vote.dependency_count; i++) {
        *out = vote.dependencies[i].attempt;
        rc = has_pack(job, out, job->comm->rank, candidate->error);
    }
    vv_vote_clear(&vote);
    return rc < 0 ? rc : rc == 0;
}

static int say_missing(const struct candidate *candidate, const struct vv_attempt *missing, uint64_t finder,
                       const char *finder_host) {
    char host[64], where[160];
    vv_read_host(host, sizeof host);
    if (finder == UINT64_MAX)
        snprintf(where, sizeof where,
                 "no node of this job has it: a node is not part of the job any more, or its disk was"
                 " lost or is not mounted");
    else
        snprintf(where, sizeof where,
                 "it is on %s, where rank %" PRIu64 " is: start the ranks on the nodes they were on", finder_host,
                 finder);
    return vv_error(candidate->error, VARVE_CORRUPT,
                    "rank %u on %s does not find its part of version %" PRIu64
                    " (generation %u) in its node's store; %s",
                    candidate->job->comm->rank, host, missing->version, missing->generation, where);
}

/* Where is what this rank misses? */
static int explain_missing(struct candidate *candidate, uint32_t rank, const struct vv_attempt *own_missing) {
    struct varve_comm *comm = candidate->job->comm;
    struct vv_attempt missing = *own_missing;
    char host[64];
    struct varve_error ignored = {0};
    int rc = vv_comm_follow(comm, 0, &missing, sizeof missing, rank, candidate->error);
    if (rc)
        return rc;
    uint64_t finder = has_pack(candidate->job, &missing, rank, &ignored) == 1 ? comm->rank : UINT64_MAX;
    vv_read_host(host, sizeof host);
    rc = comm->ops->reduce_min(comm, &finder, 1);
    if (rc == 0 && finder != UINT64_MAX)
        rc = comm->ops->broadcast(comm, host, sizeof host, (uint32_t)finder);
    if (rc == 0 && comm->rank == rank)
        rc = say_missing(candidate, &missing, finder, host);
    return vv_comm_agree(comm, rc, candidate->error);
}

static int check_parts(struct candidate *candidate) {
    struct varve_comm *comm = candidate->job->comm;
    struct vv_attempt missing = {0};
    if (vv_peers_can_ask(candidate->peers))
        return find_parts(candidate);
    if (candidate->record->ranks != comm->ranks)
        return vv_comm_all_say(candidate->error, VARVE_MISMATCH,
                               "the checkpoint is of another number of ranks, and the ranks cannot ask each other for "
                               "what their nodes have: run it with %u",
                               candidate->record->ranks);
    int is_missing = find_missing(candidate, &missing);
    int rc = vv_comm_agree(comm, is_missing < 0 ? is_missing : 0, candidate->error);
    uint64_t rank = is_missing == 1 ? comm->rank : UINT64_MAX;
    if (rc == 0)
        rc = comm->ops->reduce_min(comm, &rank, 1);
    if (rc || rank == UINT64_MAX)
        return rc;
    return explain_missing(candidate, (uint32_t)rank, &missing);
}

/* ---- copying ---- */

static int share_commit(struct candidate *candidate, struct vv_buf *writers, struct vv_buf *record) {
    struct vv_job *job = candidate->job;
    struct vv_dependency what;
    int rc = 0;
    if (job->comm->rank == candidate->donor)
        rc = vv_commit_read(job->store, job->name, candidate->generation, candidate->version, writers, record, &what,
                            candidate->error);
    rc = vv_comm_follow(job->comm, rc, NULL, 0, candidate->donor, candidate->error);
    if (rc == 0)
        rc = vv_comm_share(job->comm, writers, candidate->donor, candidate->error);
    return rc ? rc : vv_comm_share(job->comm, record, candidate->donor, candidate->error);
}

static int copy(struct candidate *candidate, const struct vv_buf *writers, const struct vv_buf *record) {
    struct vv_job *job = candidate->job;
    int rc = 0;
    if (job->lease && !candidate->found) {
        rc = vv_commit_copy(job->store, job->name, candidate->generation, candidate->version, writers, record,
                            candidate->error);
        if (rc == 0)
            vv_log(&job->log, VV_LOG_WARN,
                   "%s@%" PRIu64 " (generation %u) had no record on this node: copied from rank %u's", job->name,
                   candidate->version, candidate->generation, candidate->donor);
    }
    return vv_comm_agree(job->comm, rc, candidate->error);
}

/* Every rank sees the record: its node's, or the one that will be copied there. */
static int load_record(const struct candidate *candidate, const struct vv_buf *bytes, struct vv_record *out) {
    struct vv_job *job = candidate->job;
    struct vv_attempt attempt = {candidate->generation, 0, candidate->version};
    struct vv_key key = vv_attempt_key(job->name, &attempt, VV_KIND_RECORD, 0, 0);
    if (candidate->is_everywhere)
        return vv_record_load(job->store, job->name, candidate->generation, candidate->version, out, candidate->error);
    return vv_record_parse(bytes->data, bytes->size, &key, job->store->id, out, candidate->error);
}

/* Nothing is copied when parts are missing: the record would promise what is not there. */
static int complete(struct candidate *candidate, struct vv_buf *writers, struct vv_buf *bytes) {
    struct varve_comm *comm = candidate->job->comm;
    struct vv_record record = {0};
    int rc = candidate->is_everywhere ? 0 : share_commit(candidate, writers, bytes);
    if (rc)
        return rc;
    rc = vv_comm_agree(comm, load_record(candidate, bytes, &record), candidate->error);
    candidate->record = &record;
    if (rc == 0)
        rc = check_parts(candidate);
    if (rc == 0 && !candidate->is_everywhere)
        rc = copy(candidate, writers, bytes);
    candidate->record = NULL;
    vv_record_clear(&record);
    return rc;
}

int vv_leaders_complete(struct vv_job *job, struct vv_peers *peers, const struct vv_completeness *wanted,
                        uint32_t generation, uint64_t version, int *is_under_replicated_out,
                        struct varve_error *error) {
    struct candidate candidate = {
        .job = job, .peers = peers, .wanted = wanted, .generation = generation, .version = version, .error = error};
    struct vv_buf writers, record;
    *is_under_replicated_out = 0;
    if (!vv_is_local(job))
        return 0;
    int rc = look_everywhere(&candidate);
    if (rc)
        return rc;
    vv_buf_init(&writers);
    vv_buf_init(&record);
    rc = complete(&candidate, &writers, &record);
    vv_buf_clear(&writers);
    vv_buf_clear(&record);
    *is_under_replicated_out = candidate.is_under_replicated;
    return rc;
}
