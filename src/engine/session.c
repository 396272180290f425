/* Opening and closing a session.
 *
 * Rank 0 looks for a store, and if it finds none, the others do; only if nobody has one, rank 0 makes it: a rank whose
 * disk is empty or not mounted must not begin another one beside those of its neighbours. Rank 0 claims the next
 * generation. On shared storage the other ranks open the store that is there by then, and make sure that it is the
 * same one: they must see the claim. With node-local stores each rank opens its node's, which becomes like the first
 * one found if it is new, and the first rank on each node makes the same claim there (keepers.c). Then what a former
 * life had finished is adopted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/match.h"
#include "engine/engine_private.h"
#include "gather/comm_near.h"

#define WINDOW_LEAST (1u << 20) /* of a restart, whatever the ceiling of all memory */

/* What rank 0 tells the others. */
struct entry {
    uint8_t session_id[16];
    uint32_t generation;
};

static int open_backend(struct vv_session *session, const char *uri, int may_create, struct varve_backend **out,
                        struct varve_error *error) {
    struct vv_backend_options options = {
        .may_create = may_create,
        .purpose = session->may == VV_MAY_READ ? VV_FOR_READING : VV_FOR_WRITING,
        .direct = session->settings.direct,
        .mode = session->settings.mode,
        .owner = session->settings.owner,
        .min_free = session->settings.min_free,
        .log = &session->log,
    };
    int rc = vv_backend_open(uri, &options, out, error);
    if (rc == 0 && vv_comm_is_root(session->comm) && (rc = vv_backend_probe(*out, error)) < 0)
        vv_backend_close(*out);
    return rc;
}

static int open_store_as(struct vv_session *session, const char *uri, const struct vv_store_object *like,
                         struct varve_error *error) {
    struct varve_backend *backend;
    int rc = open_backend(session, uri, 1, &backend, error);
    if (rc)
        return rc;
    rc = vv_store_open_as(backend, like, &session->log, &session->store, error);
    if (rc == VARVE_NO_STORE)
        vv_error(error, rc,
                 "there are files at %.300s but no store (it would have an object named varve): give a new or an empty folder",
                 uri);
    return rc;
}

void vv_wait_before(int look) {
    long ms = look == 0 ? 0 : look > 7 ? 1000 : 5L << look;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0)
        nanosleep(&time, NULL);
}

void vv_read_host(char *out, size_t room) {
    if (gethostname(out, room - 1) < 0)
        snprintf(out, room, "?");
    out[room - 1] = '\0';
}

static int lost(const struct vv_session *session, const char *uri, uint32_t finder, struct varve_error *error) {
    char host[64];
    vv_read_host(host, sizeof host);
    return vv_error(error, VARVE_NO_STORE,
                    "rank %u on %s does not find rank %u's store at %.200s: is it mounted there? If every node is to have a"
                    " store of its own, remove the one that was made (it keeps what it was made for) and use storage=local",
                    session->comm->rank, host, finder, uri);
}

static int is_like(const struct vv_store *store, const struct vv_store_object *object) {
    return memcmp(store->id, object->store_id, sizeof store->id) == 0 &&
           vv_settings_are_same(&store->settings, &object->settings);
}

/* Is there a store at this rank's address? session->store stays NULL if not. */
static int look_for_store(struct vv_session *session, const char *uri, struct varve_error *error) {
    struct varve_backend *backend;
    int rc = open_backend(session, uri, 0, &backend, error);
    if (rc == 0)
        rc = vv_store_open(backend, VV_STORE_READ, &session->log, &session->store, error);
    if (rc != -ENOENT && rc != VARVE_NO_STORE)
        return rc;
    vv_error_clear(error);
    return 0;
}

/* The store of the first rank that has one; a new one if nobody has. A node that has lost its own must not begin
 * another. Rank 0 looks first: mostly it is there, and a rank that has looked too early may be told the same for a
 * while. */
static int find_store(struct vv_session *session, const char *uri, struct vv_store_object *object, uint32_t *first,
                      struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    object->settings.layout = session->settings.storage == VV_CHOOSE_STORAGE_LOCAL ? VV_LAYOUT_LOCAL : VV_LAYOUT_SHARED;
    uint32_t is_there = 0;
    int rc = vv_comm_is_root(comm) ? look_for_store(session, uri, error) : 0;
    is_there = session->store != NULL;
    rc = vv_comm_follow(comm, rc, &is_there, sizeof is_there, VV_COMM_ROOT, error);
    if (rc == 0 && !is_there)
        rc = vv_comm_agree(comm, vv_comm_is_root(comm) ? 0 : look_for_store(session, uri, error), error);
    uint64_t finder = session->store ? comm->rank : UINT64_MAX;
    if (rc == 0 && (rc = comm->ops->least(comm, &finder, 1)) != 0)
        return vv_error(error, rc, "the ranks could not agree on a store: %s", varve_error_text(rc));
    if (rc)
        return rc;
    *first = finder == UINT64_MAX ? VV_COMM_ROOT : (uint32_t)finder;
    if (comm->rank == *first && !session->store) {
        rc = session->may == VV_MAY_READ
                 ? vv_error(error, VARVE_NO_STORE, "there is no store at %.300s, and with access=read none is made", uri)
                 : open_store_as(session, uri, object, error);
        session->is_store_new = rc == 0;
    }
    if (comm->rank == *first && rc == 0) {
        memcpy(object->store_id, session->store->id, sizeof object->store_id);
        object->settings = session->store->settings;
    }
    return vv_comm_follow(comm, rc, object, sizeof *object, *first, error);
}

/* Open the store that the first rank has found or made, wherever this rank finds it. */
static int join_store(struct vv_session *session, const char *uri, const struct vv_store_object *object, uint32_t first,
                      struct varve_error *error) {
    char host[64];
    int is_local = object->settings.layout == VV_LAYOUT_LOCAL;
    int rc = 0;
    for (int i = 0; i < (is_local ? 1 : VV_LOOKS) && rc == 0 && !session->store; i++) {
        vv_wait_before(i);
        rc = look_for_store(session, uri, error);
    }
    if (rc == 0 && is_local && !session->store && session->may != VV_MAY_READ)
        rc = open_store_as(session, uri, object, error);
    if (rc)
        return rc;
    if (session->store && is_like(session->store, object))
        return 0;
    if (!is_local || !session->store)
        return lost(session, uri, first, error);
    vv_read_host(host, sizeof host);
    return vv_error(error, VARVE_MISMATCH,
                    "rank %u on %s finds another store at %.200s than rank %u: give every job a folder of its own, or remove"
                    " the one that is not needed any more",
                    session->comm->rank, host, uri, first);
}

/* All ranks have the store open, or none. above: no node has a higher claim. */
static int open_stores(struct vv_session *session, const char *uri, uint64_t *above, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    struct vv_store_object object = {.settings = {.layout = VV_LAYOUT_SHARED}};
    uint32_t highest = 0, first = VV_COMM_ROOT;
    int rc = find_store(session, uri, &object, &first, error);
    if (rc)
        return rc;
    if (comm->rank != first)
        rc = join_store(session, uri, &object, first, error);
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

static int see_claim(struct vv_session *session, const struct entry *entry, struct varve_error *error) {
    int rc = 0;
    for (int i = 0; i < VV_LOOKS && rc == 0; i++) {
        vv_wait_before(i);
        rc = vv_claim_is_of(session->store, session->name, entry->generation, entry->session_id, error);
    }
    return rc;
}

/* A rank that is not the first: it sees the claim of a keeper, or becomes the keeper of its node. */
static int join_claim(struct vv_session *session, const char *uri, uint64_t above, const struct entry *entry,
                      struct varve_error *error) {
    if (!vv_is_local(session)) {
        int seen = see_claim(session, entry, error);
        return seen == 0 ? lost(session, uri, VV_COMM_ROOT, error) : seen < 0 ? seen : 0;
    }
    int rc = take_lease(session, above, entry->session_id, error);
    if (rc == 0 && vv_lease_generation(session->lease) != entry->generation)
        rc = vv_error(error, VARVE_BUSY, "another session of %s came between on this node", session->name);
    return rc < 0 ? rc : 0;
}

int vv_claim_together(struct vv_session *session, uint64_t above, struct varve_error *error) {
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
    session->first_generation = entry.generation;
    memcpy(session->claim_tried, entry.session_id, sizeof session->claim_tried);
    if (!vv_comm_is_root(comm))
        rc = join_claim(session, session->address, above, &entry, error);
    return vv_comm_agree(comm, rc, error);
}

/* With whom duplicates and copies are exchanged. Copies travel while chunks are stored: where our own thread must not talk, that is inside the call. */
static int set_up_sharing(struct vv_session *session, struct varve_error *error) {
    int rc = vv_comm_agree(session->comm, vv_copies_open(session, error), error);
    if (rc == 0)
        rc = vv_sharing_open(session, error);
    if (rc == 0)
        rc = vv_team_open(session, error);
    if (rc == 0 && session->copies.count > 0 && !session->aside && vv_is_in_background(session)) {
        session->capturing = VV_CHOOSE_CAPTURE_SYNC;
        vv_capture_inside(session->capture);
        vv_log(&session->log, VV_LOG_INFO, "copies on other nodes are made inside the call: MPI_THREAD_MULTIPLE was not provided");
    }
    return rc;
}

/* Where threads of the group may not talk (MPI below MPI_THREAD_MULTIPLE), ours can through the memory of the node, if
 * all ranks are on one. The caller's thread keeps the group to itself then. */
static void choose_group(struct vv_session *session) {
    struct varve_error why = {.rank = -1};
    session->aside = session->given->aside;
    if (session->aside || session->comm->ranks == 1 || !vv_is_in_background(session))
        return;
    if (vv_comm_near_open(session->given, &session->near, &why) != 0) {
        if (vv_comm_is_root(session->comm))
            vv_log(&session->log, VV_LOG_INFO, "ranks talk to each other in calls of the program only: %s", why.text);
        return;
    }
    session->comm = session->near;
    session->aside = session->given;
}

/* All ranks come in, or none. */
static int enter(struct vv_session *session, const char *uri, struct varve_error *error) {
    uint64_t above = 0;
    choose_group(session);
    int rc = open_stores(session, uri, &above, error);
    if (rc == 0)
        rc = vv_access_open(session, above, error);
    if (rc == 0)
        rc = set_up_sharing(session, error);
    return rc || session->may != VV_MAY_WRITE ? rc : vv_keepers_adopt(session, error);
}

static int create(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                  struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = vv_calloc(1, sizeof *session);
    if (!session)
        return vv_error(error, -ENOMEM, "no memory for a session");
    *out = session;
    strncpy(session->name, name, VV_NAME_MAX);
    session->address = vv_strdup(uri);
    if (!session->address)
        return vv_error(error, -ENOMEM, "no memory for a session");
    session->settings = *settings;
    if (settings->memory > 0 && settings->restart_window > settings->memory / 2)
        session->settings.restart_window = settings->memory / 2 < WINDOW_LEAST ? WINDOW_LEAST : settings->memory / 2;
    session->may = settings->access == VV_CHOOSE_ACCESS_READ ? VV_MAY_READ : VV_MAY_WRITE;
    session->log = *log;
    session->comm = session->given = comm;
    session->opened_ns = session->last_ns = vv_clock_ns();
    session->request.is_done = 1;
    session->changed_share = 1;
    vv_regions_init(&session->regions);
    session->where = (struct vv_placement){session->settings.nice, session->settings.cpus};
    const char *why;
    session->capturing = (int)vv_settings_capture(settings, &why);
    struct vv_capture_options options = {session->capturing, settings->order, settings->tracker, &session->log};
    int rc = vv_capture_create(&options, &session->capture, error);
    if (rc)
        return vv_error_default(error, rc, "%s", varve_error_text(rc));
    unsigned threads = (unsigned)settings->threads;
    rc = vv_pool_create(threads, threads + 2, &session->where, &session->pool);
    if (rc == 0)
        rc = vv_chooser_create(&session->chooser);
    if (rc == 0 && (rc = vv_match_open(settings->match, &session->match, error)) != 0)
        return rc;
    if (rc)
        return vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc));
    return vv_flight_open(session, error);
}

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = NULL;
    int rc = vv_name_check(name) ? vv_error(error, -EINVAL, "a checkpoint's name has 1 to %d bytes; got %zu",
                                            VV_NAME_MAX, strlen(name))
                                 : create(uri, name, settings, log, comm, &session, error);
    rc = vv_comm_agree_call(comm, rc, VV_CALL_OPEN, vv_sum64(name, strlen(name)), error);
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
    vv_flight_close(session);
    vv_team_close(session);
    vv_capture_destroy(session->capture);
    vv_pool_destroy(session->pool);
    vv_chooser_destroy(session->chooser);
    vv_match_close(session->match);
    vv_sharing_close(session);
    vv_copies_close(session);
    if (session->near)
        session->near->ops->close(session->near);
    vv_free(session->save);
    vv_lease_release(session->lease);
    vv_store_close(session->store);
    vv_history_clear(&session->history);
    for (size_t i = 0; i < session->regions.count; i++)
        vv_device_leave(&session->regions.list[i]);
    vv_regions_clear(&session->regions);
    vv_free(session->address);
    vv_free(session->rejected);
    vv_free(session->unsettled);
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
    double next = session->last_blocked;
    return session->seconds_spent + next <= share * run;
}

/* Clocks differ between the ranks: one of them says it. */
int vv_session_is_due(struct vv_session *session, struct varve_error *error) {
    uint32_t due = (uint32_t)is_due(session);
    struct varve_comm *comm = vv_comm_of_caller(session);
    int rc = vv_comm_agree_call(comm, 0, VV_CALL_NEED, 0, error);
    if (rc == 0)
        rc = vv_comm_follow(comm, 0, &due, sizeof due, VV_COMM_ROOT, error);
    return rc ? rc : (int)due;
}
