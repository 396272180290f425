/* Opening and closing a session.
 *
 * Rank 0 makes the store if there is none and claims the next generation. On shared storage the other ranks open the store that is there by then, and make sure that
 * it is the same one: they must see the claim. With node-local stores each rank opens its node's, which becomes like rank 0's if it is new, and the first rank on each node
 * makes the same claim there (keepers.c). Then what a former life had finished is adopted. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

#define LOOKS 12             /* for the keeper's claim */
#define LOOK_NS 10000000u    /* the first pause between two looks; each is twice as long, up to a second */

/* What rank 0 tells the others. */
struct entry {
    uint8_t session_id[16];
    uint32_t generation;
};

static int open_backend(struct vv_session *session, const char *uri, int may_create, struct varve_backend **out,
                        struct varve_error *error) {
    struct vv_backend_options options = {
        .may_create = may_create,
        .direct = session->settings.direct,
        .mode = session->settings.mode,
        .min_free = session->settings.min_free,
        .log = &session->log,
    };
    return vv_backend_open(uri, &options, out, error);
}

static int open_store_as(struct vv_session *session, const char *uri, const struct vv_store_object *like,
                         struct varve_error *error) {
    struct varve_backend *backend;
    int rc = open_backend(session, uri, 1, &backend, error);
    return rc ? rc : vv_store_open_as(backend, like, &session->log, &session->store, error);
}

static int lost(const struct vv_session *session, const char *uri, struct varve_error *error) {
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    return vv_error(error, VARVE_NO_STORE,
                    "rank %u on %s does not find rank 0's store at %.200s: is it mounted there? If every node is to have a store"
                    " of its own, make it with storage=local",
                    session->comm->rank, host, uri);
}

/* Open the store of rank 0, wherever this rank finds it. */
static int join_store(struct vv_session *session, const char *uri, const struct vv_store_object *root,
                      struct varve_error *error) {
    struct varve_backend *backend;
    if (root->settings.layout == VV_LAYOUT_LOCAL)
        return open_store_as(session, uri, root, error);
    int rc = open_backend(session, uri, 0, &backend, error);
    if (rc == 0)
        rc = vv_store_open(backend, VV_STORE_READ, &session->log, &session->store, error);
    if (rc == -ENOENT || rc == VARVE_NO_STORE ||
        (rc == 0 && memcmp(session->store->id, root->store_id, sizeof root->store_id) != 0))
        return lost(session, uri, error);
    return rc;
}

/* All ranks have the store open, or none. above: no node has a higher claim. */
static int open_stores(struct vv_session *session, const char *uri, uint64_t *above, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    struct vv_store_object object = {.settings = {.layout = session->settings.storage == VV_CHOOSE_STORAGE_LOCAL
                                                                ? VV_LAYOUT_LOCAL
                                                                : VV_LAYOUT_SHARED}};
    uint32_t highest = 0;
    int rc = vv_comm_is_root(comm) ? open_store_as(session, uri, &object, error) : 0;
    if (rc == 0 && vv_comm_is_root(comm)) {
        memcpy(object.store_id, session->store->id, sizeof object.store_id);
        object.settings = session->store->settings;
    }
    rc = vv_comm_follow(comm, rc, &object, sizeof object, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    if (!vv_comm_is_root(comm))
        rc = join_store(session, uri, &object, error);
    if (rc == 0 && vv_is_local(session))
        rc = vv_claims_highest(session->store, session->name, &highest, error);
    rc = vv_comm_agree(comm, rc, error);
    *above = highest;
    return rc ? rc : vv_comm_most(comm, above);
}

static int take_lease(struct vv_session *session, uint64_t above, const uint8_t *session_id,
                      struct varve_error *error) {
    struct vv_lease_options options = {
        .ranks = session->comm->ranks,
        .beat_seconds = (uint32_t)session->settings.beat_seconds,
        .dead_seconds = (uint32_t)session->settings.dead_seconds,
        .takeover_seconds = (uint32_t)session->settings.takeover_seconds,
        .above = (uint32_t)above,
        .session_id = session_id,
    };
    return vv_lease_take(session->store, session->name, &options, &session->lease, error);
}

/* Some file systems show a new file to other hosts a little late. */
static int see_claim(struct vv_session *session, const struct entry *entry, struct varve_error *error) {
    long pause = LOOK_NS;
    int rc = 0;
    for (int i = 0; i < LOOKS && rc == 0; i++) {
        struct timespec time = {pause / 1000000000, pause % 1000000000};
        if (i > 0)
            nanosleep(&time, NULL);
        pause = i == 0 ? pause : pause < 500000000 ? pause * 2 : 1000000000;
        rc = vv_claim_is_of(session->store, session->name, entry->generation, entry->session_id, error);
    }
    return rc;
}

/* A rank that is not the first: it sees the claim of a keeper, or becomes the keeper of its node. */
static int join_claim(struct vv_session *session, const char *uri, uint64_t above, const struct entry *entry,
                      struct varve_error *error) {
    if (!vv_is_local(session)) {
        int seen = see_claim(session, entry, error);
        return seen == 0 ? lost(session, uri, error) : seen < 0 ? seen : 0;
    }
    int rc = take_lease(session, above, entry->session_id, error);
    if (rc == 0 && vv_lease_generation(session->lease) != entry->generation)
        rc = vv_error(error, VARVE_BUSY, "another session of %s came between on this node", session->name);
    return rc < 0 ? rc : 0;
}

static int claim(struct vv_session *session, const char *uri, uint64_t above, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    struct entry entry = {.generation = 0};
    int rc = 0;
    if (vv_comm_is_root(comm) && (rc = take_lease(session, above, NULL, error)) == 0) {
        memcpy(entry.session_id, vv_lease_session(session->lease), sizeof entry.session_id);
        entry.generation = vv_lease_generation(session->lease);
    }
    rc = vv_comm_follow(comm, rc, &entry, sizeof entry, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    if (!vv_comm_is_root(comm))
        rc = join_claim(session, uri, above, &entry, error);
    return vv_comm_agree(comm, rc, error);
}

/* All ranks come in, or none. */
static int enter(struct vv_session *session, const char *uri, struct varve_error *error) {
    uint64_t above = 0;
    int rc = open_stores(session, uri, &above, error);
    if (rc == 0)
        rc = claim(session, uri, above, error);
    return rc ? rc : vv_keepers_adopt(session, error);
}

static int create(const char *name, const struct vv_settings *settings, const struct vv_log *log,
                  struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = vv_calloc(1, sizeof *session);
    if (!session)
        return vv_error(error, -ENOMEM, "no memory for a session");
    *out = session;
    strncpy(session->name, name, VV_NAME_MAX);
    session->settings = *settings;
    session->log = *log;
    session->comm = comm;
    session->tracker = &vv_tracker_none;
    session->opened_ns = session->last_ns = vv_clock_ns();
    session->request.is_done = 1;
    session->request.stats.version = -1;
    vv_regions_init(&session->regions);
    unsigned threads = (unsigned)settings->threads;
    int rc = vv_pool_create(threads, threads + 2, &session->pool);
    return rc ? vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc)) : 0;
}

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = NULL;
    int rc = vv_name_check(name) ? vv_error(error, -EINVAL, "a checkpoint's name has 1 to %d bytes; got %zu",
                                            VV_NAME_MAX, strlen(name))
                                 : create(name, settings, log, comm, &session, error);
    rc = vv_comm_agree_same(comm, rc, vv_sum64(name, strlen(name)), "the name (its hash)", error);
    if (rc == 0)
        rc = enter(session, uri, error);
    if (rc) {
        vv_session_close(session);
        return rc;
    }
    *out = session;
    return 0;
}

void vv_session_close(struct vv_session *session) {
    if (!session)
        return;
    vv_pool_destroy(session->pool);
    vv_lease_release(session->lease);
    vv_store_close(session->store);
    vv_history_clear(&session->history);
    vv_regions_clear(&session->regions);
    vv_free(session->rejected);
    vv_free(session);
}

static int is_due(const struct vv_session *session) {
    double seconds = session->settings.interval_seconds, share = session->settings.interval_share;
    if (seconds <= 0 && share <= 0)
        return 1;
    double since = (double)(vv_clock_ns() - session->last_ns) * 1e-9;
    if (seconds > 0 && since >= seconds)
        return 1;
    if (share <= 0)
        return 0;
    /* Due when one more checkpoint like the last keeps the total within its share of the run so far. */
    double run = (double)(vv_clock_ns() - session->opened_ns) * 1e-9;
    double next = session->request.stats.seconds_blocked;
    return session->seconds_spent + next <= share * run;
}

/* Clocks differ between the ranks: one of them says it. */
int vv_session_is_due(struct vv_session *session, struct varve_error *error) {
    uint32_t due = (uint32_t)is_due(session);
    int rc = vv_comm_follow(session->comm, 0, &due, sizeof due, VV_COMM_ROOT, error);
    return rc ? rc : (int)due;
}
