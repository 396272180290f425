/* Counting the votes of an attempt, all ranks together: each reads a share, and rank 0 has all in the end.
 *
 * With node-local stores a rank finds its own pack only. On shared storage the others can see it too, and that is part
 * of what is to be shown: so a pack is read from another node than it was written on, wherever there is another one. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/host.h"
#include "job/job_private.h"

struct counting {
    struct vv_job *job;
    const struct vv_attempt *attempt;
    const struct vv_writers_map *map;
    struct vv_count *count;
    struct vv_tally *tally;
    int looks; /* a pack may come into sight late */
    int rc;    /* of this rank */
    struct varve_error *error;
};

static int not_there(struct counting *counting, uint32_t writer) {
    struct vv_key key = vv_attempt_key(counting->job->name, counting->attempt, VV_KIND_PACK, writer, 0);
    char text[VV_KEY_CAPACITY];
    vv_key_print(&key, text);
    return vv_error(counting->error, VARVE_DISAGREED, "%s, which a writer has stored, is not there", text);
}

static int read_vote(struct counting *counting, uint32_t writer) {
    int rc = 0;
    for (int look = 0; look < counting->looks && rc == 0; look++) {
        vv_wait_before(look);
        vv_error_clear(counting->error);
        rc = vv_count_read(counting->count, writer, counting->error);
    }
    return rc == 0 ? not_there(counting, writer) : rc < 0 ? rc : 0;
}

static uint32_t writer_of(const struct counting *counting, uint32_t node, uint32_t local) {
    struct varve_comm *comm = counting->job->comm;
    const struct vv_writers_map *map = counting->map;
    return map->writer_of ? map->writer_of(map->arg, node, local) : comm->ops->rank_of(comm, node, local);
}

/* The packs of the node before: each rank takes those of some of its ranks. Ranks that share a writer follow one
 * another, and the first of them stands for it. */
static int read_neighbours(struct counting *counting) {
    struct varve_comm *comm = counting->job->comm;
    uint32_t before = (comm->node + comm->nodes - 1) % comm->nodes;
    uint32_t count = comm->ops->node_size(comm, before), step = comm->ops->node_size(comm, comm->node);
    int rc = 0;
    for (uint64_t i = comm->local; rc == 0 && i < count; i += step) {
        uint32_t local = (uint32_t)i, writer = writer_of(counting, before, local);
        if (local == 0 || writer_of(counting, before, local - 1) != writer)
            rc = read_vote(counting, writer);
    }
    return rc;
}

/* Nobody knows who wrote on which node: as many for each rank, and writers whose numbers are half the job away. */
static int read_distant(struct counting *counting) {
    const struct varve_comm *comm = counting->job->comm;
    uint64_t writers = counting->map->writers, part = ((uint64_t)comm->rank + comm->ranks / 2) % comm->ranks;
    int rc = 0;
    for (uint64_t writer = writers * part / comm->ranks; rc == 0 && writer < writers * (part + 1) / comm->ranks;
         writer++)
        rc = read_vote(counting, (uint32_t)writer);
    return rc;
}

static int read_share(struct counting *counting) {
    const struct varve_comm *comm = counting->job->comm;
    int is_known = counting->map->writer_of || counting->map->writers == comm->ranks;
    if (vv_is_local(counting->job))
        return read_vote(counting, comm->rank);
    if (is_known && comm->nodes > 1 && comm->ops->node_size && comm->ops->rank_of)
        return read_neighbours(counting);
    return read_distant(counting);
}

/* Votes, and behind them what the ranks have done. */
static int take_votes(void *arg, const void *data, size_t size) {
    struct counting *counting = arg;
    struct vv_tally other;
    size_t behind = counting->tally ? sizeof other : 0;
    if (counting->rc)
        return counting->rc;
    if (size < behind)
        return vv_error(counting->error, -EPROTO, "votes of another rank have %zu bytes", size);
    size -= behind;
    if (behind) {
        memcpy(&other, (const char *)data + size, sizeof other);
        vv_tally_add(counting->tally, &other);
    }
    return vv_count_merge(counting->count, data, size, counting->error);
}

static int give_votes(void *arg, struct vv_buf *out) {
    struct counting *counting = arg;
    int rc = counting->rc ? counting->rc : vv_count_put(counting->count, out);
    if (rc == 0 && counting->tally)
        vv_buf_append(out, counting->tally, sizeof *counting->tally);
    return rc ? rc : out->failed;
}

static int begin(struct counting *counting) {
    int rc = VV_FAULT("store.votes.before_read");
    if (rc == 0)
        rc = vv_count_begin(counting->job->store, counting->job->name, counting->attempt, &counting->count);
    return rc < 0 ? vv_error_sys(counting->error, rc, "cannot count the votes of %s", counting->job->name) : 0;
}

/* Rank 0 has all of them, if nobody has failed. */
static int end(struct counting *counting, struct vv_writers *writers_out, struct vv_record *record_out) {
    struct varve_comm *comm = counting->job->comm;
    int rc = vv_comm_is_root(comm) ? vv_count_end(counting->count, writers_out, record_out, counting->error) : 1;
    int is_full = rc == 1 && vv_comm_is_root(comm);
    if (rc == 0)
        rc = vv_error(counting->error, VARVE_DISAGREED, "the votes of version %" PRIu64 " are not complete",
                      counting->attempt->version);
    rc = vv_comm_follow(comm, rc < 0 ? rc : 0, NULL, 0, VV_COMM_ROOT, counting->error);
    if (rc && is_full) {
        vv_writers_clear(writers_out);
        vv_record_clear(record_out);
    }
    return rc;
}

int vv_votes_count(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map, int looks,
                   struct vv_tally *tally, struct vv_writers *writers_out, struct vv_record *record_out,
                   struct varve_error *error) {
    struct counting counting = {
        .job = job, .attempt = attempt, .map = map, .tally = tally, .looks = looks, .error = error};
    struct vv_merging merging = {take_votes, give_votes, &counting};
    counting.rc = begin(&counting);
    if (counting.rc == 0)
        counting.rc = read_share(&counting);
    int merged = vv_comm_merge(job->comm, &merging);
    int rc = vv_comm_agree(job->comm, counting.rc ? counting.rc : merged, error);
    if (rc == 0)
        rc = end(&counting, writers_out, record_out);
    vv_count_clear(counting.count);
    return rc;
}
