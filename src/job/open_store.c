/* The store of a job.
 *
 * Rank 0 looks for a store, and if it finds none, the others do; only if nobody has one, rank 0 makes it: a rank whose
 * disk is empty or not mounted must not begin another one beside those of its neighbours. On shared storage the other
 * ranks open the store that is there by then, and make sure that it is the same one: they must see the claim (claim.c).
 * With node-local stores each rank opens its node's, which becomes like the first one found if it is new. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host.h"
#include "job/job_private.h"
#include "storage/storage.h"

int vv_store_is_lost(const struct vv_job *job, const char *uri, uint32_t finder, struct varve_error *error) {
    char host[64];
    vv_read_host(host, sizeof host);
    return vv_error(
        error, VARVE_NO_STORE,
        "rank %u on %s does not find rank %u's store at %.200s: is it mounted there? If each node is to have its own,"
        " remove the one that was made as shared, and use storage=local",
        job->comm->rank, host, finder, uri);
}

/* What the first rank has found or made, for the others. */
struct found_store {
    struct vv_store_object object;
    uint32_t is_encrypted;
    struct vv_keys keys;
};

/* like: make a store if there is none, and let it have the keys of this one. */
static int open_backend(struct vv_job *job, const char *uri, const struct found_store *like, struct varve_backend **out,
                        struct varve_error *error) {
    struct vv_backend_options options = {
        .may_create = like != NULL,
        .purpose = job->may == VV_MAY_READ ? VV_FOR_READING : VV_FOR_WRITING,
        .direct = job->settings.direct,
        .mode = job->settings.mode,
        .owner = job->settings.owner,
        .min_free = job->settings.min_free,
        .encrypt = job->settings.encrypt || (like && like->is_encrypted),
        .key = job->settings.key,
        .keys_like = like && like->is_encrypted ? &like->keys : NULL,
        .log = &job->log,
    };
    struct varve_backend *bare;
    int rc = vv_backend_open(uri, &options, &bare, error);
    if (rc == 0 && (rc = vv_count_backend_wrap(bare, out)) < 0) {
        vv_backend_close(bare);
        vv_error_sys(error, rc, "cannot open the store");
    }
    if (rc == 0 && vv_comm_is_root(job->comm) && (rc = vv_backend_probe(*out, error)) < 0)
        vv_backend_close(*out);
    return rc;
}

static int open_store_as(struct vv_job *job, const char *uri, const struct found_store *like,
                         struct varve_error *error) {
    struct varve_backend *backend;
    int rc = open_backend(job, uri, like, &backend, error);
    if (rc)
        return vv_error_store(error, rc, uri);
    rc = vv_store_open_as(backend, &like->object, &job->log, &job->store, error);
    if (rc == VARVE_NO_STORE)
        vv_error(error, rc,
                 "there are files at %.300s but no store (it would have an object named varve): give a new or an empty "
                 "folder",
                 uri);
    return vv_error_store(error, rc, uri);
}

static int is_like(const struct vv_store *store, const struct vv_store_object *object) {
    return memcmp(store->id, object->store_id, sizeof store->id) == 0 &&
           vv_settings_are_same(&store->settings, &object->settings);
}

/* Is there a store at this rank's address? job->store stays NULL if not. */
static int look_for_store(struct vv_job *job, const char *uri, struct varve_error *error) {
    struct varve_backend *backend;
    int rc = open_backend(job, uri, NULL, &backend, error);
    if (rc == 0)
        rc = vv_store_open(backend, VV_STORE_READ, &job->log, &job->store, error);
    if (rc != -ENOENT && rc != VARVE_NO_STORE)
        return vv_error_store(error, rc, uri);
    vv_error_clear(error);
    return 0;
}

/* The store of the first rank that has one; a new one if nobody has. A node that has lost its own must not begin
 * another. Rank 0 looks first: mostly it is there, and a rank that has looked too early may be told the same for a
 * while. */
static int find_store(struct vv_job *job, const char *uri, struct found_store *found, uint32_t *first,
                      struct varve_error *error) {
    struct varve_comm *comm = job->comm;
    found->object.settings.layout =
        job->settings.storage == VV_CHOOSE_STORAGE_LOCAL ? VV_LAYOUT_LOCAL : VV_LAYOUT_SHARED;
    uint32_t is_there = 0;
    int rc = vv_comm_is_root(comm) ? look_for_store(job, uri, error) : 0;
    is_there = job->store != NULL;
    rc = vv_comm_follow(comm, rc, &is_there, sizeof is_there, VV_COMM_ROOT, error);
    if (rc == 0 && !is_there)
        rc = vv_comm_agree(comm, vv_comm_is_root(comm) ? 0 : look_for_store(job, uri, error), error);
    uint64_t finder = job->store ? comm->rank : UINT64_MAX;
    if (rc == 0 && (rc = comm->ops->reduce_min(comm, &finder, 1)) != 0)
        return vv_error(error, rc, "the ranks could not agree on a store: %s", varve_error_text(rc));
    if (rc)
        return rc;
    *first = finder == UINT64_MAX ? VV_COMM_ROOT : (uint32_t)finder;
    if (comm->rank == *first && !job->store) {
        rc = job->may == VV_MAY_READ ? vv_error(error, VARVE_NO_STORE,
                                                "there is no store at %.300s, and with access=read none is made", uri)
                                     : open_store_as(job, uri, found, error);
        job->is_store_new = rc == 0;
    }
    if (comm->rank == *first && rc == 0) {
        memcpy(found->object.store_id, job->store->id, sizeof found->object.store_id);
        found->object.settings = job->store->settings;
        rc = vv_keys_get(job->store->backend, &found->keys, error);
        found->is_encrypted = rc == 1;
    }
    return vv_comm_follow(comm, rc < 0 ? rc : 0, found, sizeof *found, *first, error);
}

/* Open the store that the first rank has found or made, wherever this rank finds it. */
static int join_store(struct vv_job *job, const char *uri, const struct found_store *found, uint32_t first,
                      struct varve_error *error) {
    char host[64];
    int is_local = found->object.settings.layout == VV_LAYOUT_LOCAL;
    int rc = 0;
    for (int i = 0; i < (is_local ? 1 : VV_LOOKS) && rc == 0 && !job->store; i++) {
        vv_wait_before(i);
        rc = look_for_store(job, uri, error);
    }
    if (rc == 0 && is_local && !job->store && job->may != VV_MAY_READ)
        rc = open_store_as(job, uri, found, error);
    if (rc)
        return rc;
    if (job->store && is_like(job->store, &found->object))
        return 0;
    if (!is_local || !job->store)
        return vv_store_is_lost(job, uri, first, error);
    vv_read_host(host, sizeof host);
    return vv_error(
        error, VARVE_MISMATCH,
        "rank %u on %s finds another store at %.200s than rank %u: give every job a folder of its own, or remove"
        " the one that is not needed any more",
        job->comm->rank, host, uri, first);
}

/* All ranks have the store open, or none. above: no node has a higher claim. */
int vv_job_open_store(struct vv_job *job, const char *uri, uint64_t *above, struct varve_error *error) {
    struct varve_comm *comm = job->comm;
    struct found_store found = {.object = {.settings = {.layout = VV_LAYOUT_SHARED}}};
    uint32_t highest = 0, first = VV_COMM_ROOT;
    int rc = find_store(job, uri, &found, &first, error);
    if (rc)
        return rc;
    if (comm->rank != first)
        rc = join_store(job, uri, &found, first, error);
    if (rc == 0 && vv_is_local(job))
        rc = vv_claims_highest(job->store, job->name, &highest, error);
    rc = vv_comm_agree(comm, rc, error);
    *above = highest;
    return rc ? rc : vv_comm_most(comm, above);
}

void vv_job_clear(struct vv_job *job) {
    if (job->near)
        job->near->ops->close(job->near);
    vv_lease_release(job->lease);
    vv_store_close(job->store);
    vv_lineage_clear(&job->lineage);
    vv_free(job->address);
    vv_free(job->in_doubt);
}
