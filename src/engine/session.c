/* Opening and closing a session. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"

static int open_store(struct vv_session *session, const char *uri, struct varve_error *error) {
    struct vv_backend_options options = {
        .may_create = 1,
        .direct = session->settings.direct,
        .mode = session->settings.mode,
        .min_free = session->settings.min_free,
        .log = &session->log,
    };
    struct varve_backend *backend;
    int rc = vv_backend_open(uri, &options, &backend, error);
    return rc ? rc : vv_store_open(backend, VV_STORE_WRITE, &session->log, &session->store, error);
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

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct vv_comm *comm, struct vv_session **out, struct varve_error *error) {
    if (vv_name_check(name) != 0)
        return vv_error(error, -EINVAL, "a checkpoint's name has 1 to %d bytes; got %zu", VV_NAME_MAX, strlen(name));
    struct vv_session *session = vv_calloc(1, sizeof *session);
    if (!session)
        return vv_error(error, -ENOMEM, "no memory for a session");
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
    if (rc)
        vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc));
    if (rc == 0)
        rc = open_store(session, uri, error);
    if (rc == 0)
        rc = take_name(session, error);
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

int vv_session_is_due(struct vv_session *session) {
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
