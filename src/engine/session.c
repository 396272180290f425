/* Opening and closing a session.
 *
 * Rank 0 is the keeper of the job's name: it makes the store if there is none, claims the next generation, adopts what a
 * former life had finished, and later lists, commits and deletes. The other ranks open the store that is there by then, and
 * make sure that it is the same one: they must see the claim. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

#define LOOKS 12             /* for the keeper's claim */
#define LOOK_NS 10000000u    /* the first pause between two looks; each is twice as long, up to a second */

/* What the keeper tells the others. */
struct entry {
    uint8_t session_id[16];
    uint8_t store_id[16];
    uint32_t generation;
};

static int open_store(struct vv_session *session, const char *uri, int mode, struct varve_error *error) {
    struct vv_backend_options options = {
        .may_create = mode == VV_STORE_WRITE,
        .direct = session->settings.direct,
        .mode = session->settings.mode,
        .min_free = session->settings.min_free,
        .log = &session->log,
    };
    struct varve_backend *backend;
    int rc = vv_backend_open(uri, &options, &backend, error);
    return rc ? rc : vv_store_open(backend, mode, &session->log, &session->store, error);
}

static int take_name(struct vv_session *session, struct varve_error *error) {
    struct vv_lease_options options = {
        .ranks = session->comm->ranks,
        .beat_seconds = (uint32_t)session->settings.beat_seconds,
        .dead_seconds = (uint32_t)session->settings.dead_seconds,
        .takeover_seconds = (uint32_t)session->settings.takeover_seconds,
    };
    int rc = vv_lease_take(session->store, session->name, &options, &session->lease, error);
    if (rc < 0)
        return rc;
    rc = vv_adopt(session->store, session->lease, session->name, error);
    if (rc > 0)
        vv_log(&session->log, VV_LOG_INFO, "a checkpoint of %s that a dead session had finished was adopted",
               session->name);
    return rc < 0 ? rc : 0;
}

static int keep_name(struct vv_session *session, const char *uri, struct entry *entry, struct varve_error *error) {
    int rc = open_store(session, uri, VV_STORE_WRITE, error);
    if (rc == 0)
        rc = take_name(session, error);
    if (rc)
        return rc;
    memcpy(entry->session_id, vv_lease_session(session->lease), sizeof entry->session_id);
    memcpy(entry->store_id, session->store->id, sizeof entry->store_id);
    entry->generation = vv_lease_generation(session->lease);
    return 0;
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

static int join_keeper(struct vv_session *session, const char *uri, const struct entry *entry,
                       struct varve_error *error) {
    char host[64] = "?";
    int rc = open_store(session, uri, VV_STORE_READ, error);
    if (rc == 0 && memcmp(session->store->id, entry->store_id, sizeof entry->store_id) == 0)
        rc = see_claim(session, entry, error);
    if (rc == 1 || (rc < 0 && rc != -ENOENT && rc != VARVE_NO_STORE))
        return rc < 0 ? rc : 0;
    gethostname(host, sizeof host - 1);
    return vv_error(error, VARVE_NO_STORE,
                    "rank %u on %s does not find rank 0's store at %.200s: all ranks must see the same storage; is it mounted there?",
                    session->comm->rank, host, uri);
}

/* All ranks come in, or none. */
static int enter(struct vv_session *session, const char *uri, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    struct entry entry = {.generation = 0};
    int rc = vv_comm_is_root(comm) ? keep_name(session, uri, &entry, error) : 0;
    rc = vv_comm_follow(comm, rc, &entry, sizeof entry, VV_COMM_ROOT, error);
    if (rc)
        return rc;
    if (!vv_comm_is_root(comm))
        rc = join_keeper(session, uri, &entry, error);
    return vv_comm_agree(comm, rc, error);
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
