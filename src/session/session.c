/* Opening and closing a session. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/match.h"
#include "capture/device.h"
#include "encode/choice.h"
#include "gather/comm_near.h"
#include "session/session_private.h"

#define WINDOW_LEAST (1u << 20) /* of a restart, whatever the ceiling of all memory */

/* With whom duplicates and copies are exchanged. Copies travel while chunks are stored: where our own thread must not
 * talk, that is inside the call. */
static int set_up_sharing(struct vv_session *session, struct varve_error *error) {
    int rc = vv_comm_agree(session->job.comm, vv_replicas_open(&session->outputs, error), error);
    if (rc == 0)
        rc = vv_comm_agree(session->job.comm, vv_parity_group_open(&session->outputs, error), error);
    if (rc == 0)
        rc = vv_rank_dedup_open(&session->rank_dedup, &session->job, error);
    if (rc == 0)
        rc = vv_team_open(&session->outputs, error);
    if (rc == 0 && (session->outputs.replicas.count > 0 || session->outputs.lost_most > 0) &&
        !session->job.caller_comm && vv_is_in_background(&session->memory)) {
        session->memory.capturing = VV_CHOOSE_CAPTURE_SYNC;
        vv_capture_inside(session->memory.capture);
        vv_log(&session->job.log, VV_LOG_INFO,
               "copies or parity on other nodes are made inside the call: MPI_THREAD_MULTIPLE was not provided");
    }
    return rc;
}

/* Where threads of the group may not talk (MPI below MPI_THREAD_MULTIPLE), ours can through the memory of the node, if
 * all ranks are on one. The caller's thread keeps the group to itself then. */
static void choose_group(struct vv_session *session) {
    struct varve_error why = {.rank = -1};
    session->job.caller_comm = session->job.given->second;
    if (session->job.caller_comm || session->job.comm->ranks == 1 || !vv_is_in_background(&session->memory))
        return;
    if (vv_comm_near_open(session->job.given, &session->job.near, &why) != 0) {
        if (vv_comm_is_root(session->job.comm))
            vv_log(&session->job.log, VV_LOG_INFO, "ranks talk to each other in calls of the program only: %s",
                   why.text);
        return;
    }
    session->job.comm = session->job.near;
    session->job.caller_comm = session->job.given;
}

/* ---- tiers: rank 0 has them ---- */

static int open_tiers(struct vv_session *session, struct varve_error *error) {
    struct vv_job *job = &session->job;
    struct vv_tiers_options options = {job->address, job->name, &job->settings, &job->log};
    if (!*job->settings.tiers)
        return 0;
    if (vv_is_local(job))
        return vv_comm_all_say(error, VARVE_UNSUPPORTED,
                               "tiers take whole checkpoints from one store, and %.200s is made of one for each node: "
                               "use shared storage, or no tiers",
                               job->address);
    if (job->may == VV_MAY_READ) {
        if (vv_comm_is_root(job->comm))
            vv_log(&job->log, VV_LOG_INFO, "tiers are not looked at: access=read");
        return 0;
    }
    int rc = vv_comm_is_root(job->comm) ? vv_tiers_open(&options, &session->background.tiers, error) : 0;
    if (rc == 0)
        rc = vv_tiers_bring_back(session->background.tiers, job->store, error);
    return vv_comm_agree(job->comm, rc, error);
}

/* After what was adopted, and claimed. */
static int start_tiers(struct vv_session *session, struct varve_error *error) {
    struct vv_job *job = &session->job;
    if (!*job->settings.tiers || job->may == VV_MAY_READ)
        return 0;
    int rc = vv_tiers_start(session->background.tiers, job->store, job->lease, error);
    if (session->background.tiers) {
        job->spared = vv_tiers_spared;
        job->spared_arg = session->background.tiers;
    }
    return vv_comm_agree(job->comm, rc, error);
}

/* All ranks come in, or none. */
static int enter(struct vv_session *session, const char *uri, struct varve_error *error) {
    uint64_t above = 0;
    choose_group(session);
    int rc = vv_job_open_store(&session->job, uri, &above, error);
    if (rc == 0)
        rc = open_tiers(session, error);
    if (rc == 0)
        rc = vv_access_open(&session->job, above, error);
    if (rc == 0)
        rc = set_up_sharing(session, error);
    if (rc == 0 && session->job.may == VV_MAY_WRITE)
        rc = vv_leaders_adopt(&session->job, error);
    return rc ? rc : start_tiers(session, error);
}

static int create(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                  struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = vv_calloc(1, sizeof *session);
    if (!session)
        return vv_error(error, -ENOMEM, "no memory for a session");
    *out = session;
    strncpy(session->job.name, name, VV_NAME_MAX);
    session->job.address = vv_strdup(uri);
    if (!session->job.address)
        return vv_error(error, -ENOMEM, "no memory for a session");
    session->job.settings = *settings;
    if (settings->memory > 0 && settings->restart_window > settings->memory / 2)
        session->job.settings.restart_window =
            settings->memory / 2 < WINDOW_LEAST ? WINDOW_LEAST : settings->memory / 2;
    session->job.may = settings->access == VV_CHOOSE_ACCESS_READ ? VV_MAY_READ : VV_MAY_WRITE;
    session->job.log = *log;
    session->job.comm = session->job.given = comm;
    struct vv_now now = {vv_clock_ns(), vv_clock_wall_ns()};
    vv_schedule_open(&session->schedule, settings, now);
    session->request.is_done = 1;
    session->measured.changed_share = 1;
    session->outputs.job = &session->job;
    session->outputs.measured = &session->measured;
    vv_regions_init(&session->memory.regions);
    session->outputs.where = (struct vv_placement){session->job.settings.nice, session->job.settings.cpus};
    const char *why;
    session->memory.capturing = (int)vv_settings_capture(settings, &why);
    struct vv_capture_options options = {session->memory.capturing, settings->order, settings->tracker,
                                         &session->job.log};
    int rc = vv_capture_create(&options, &session->memory.capture, error);
    if (rc)
        return vv_error_default(error, rc, "%s", varve_error_text(rc));
    unsigned threads = (unsigned)settings->threads;
    rc = vv_pool_create(threads, threads + 2, &session->outputs.where, &session->outputs.pool);
    if (rc == 0)
        rc = vv_chooser_create(&session->outputs.chooser);
    if (rc == 0 && (rc = vv_match_open(settings->match, &session->memory.match, error)) != 0)
        return rc;
    if (rc)
        return vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc));
    rc = vv_comm_is_root(session->job.comm) ? vv_asked_check_word(settings->exit_file, error) : 0;
    if (rc == 0)
        rc = vv_asked_open(&session->asked, settings, now.ns, now.wall_ns, error);
    if (rc == 0)
        rc = vv_heap_open(session, error);
    return rc ? rc : vv_background_open(session, error);
}

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct varve_comm *comm, struct vv_session **out, struct varve_error *error) {
    struct vv_session *session = NULL;
    int rc = vv_name_check(name)
                 ? vv_error(error, -EINVAL, "a checkpoint's name has 1 to %d bytes, and this one %zu: choose another",
                            VV_NAME_MAX, strlen(name))
                 : create(uri, name, settings, log, comm, &session, error);
    rc = vv_comm_agree_call(comm, rc, VV_CALL_OPEN, vv_sum64(name, strlen(name)), error);
    if (rc == 0)
        rc = enter(session, uri, error);
    if (rc) {
        vv_session_close(session);
        return rc;
    }
    if (vv_comm_is_root(session->job.comm) && session->job.may != VV_MAY_READ)
        session->about.log = vv_session_log_open(&session->job);
    *out = session;
    return 0;
}

void vv_session_close(struct vv_session *session) {
    if (!session)
        return;
    if (session->asked.is_word_stuck)
        vv_session_leave_word(session);
    vv_asked_close(&session->asked);
    vv_background_close(session);
    vv_tiers_close(session->background.tiers);
    vv_team_close(&session->outputs);
    vv_capture_destroy(session->memory.capture);
    vv_pool_destroy(session->outputs.pool);
    vv_chooser_destroy(session->outputs.chooser);
    vv_match_close(session->memory.match);
    vv_rank_dedup_close(&session->rank_dedup);
    vv_replicas_close(&session->outputs);
    vv_parity_group_close(&session->outputs);
    if (session->save)
        vv_output_destroy(session->save->output);
    vv_free(session->save);
    vv_session_log_close(session->about.log, session->asked.is_leaving ? "asked to end" : "closed");
    vv_job_clear(&session->job); /* before the program's own code runs: the claim must not hang on it */
    for (size_t i = 0; i < session->memory.regions.count; i++)
        vv_device_leave(&session->memory.regions.list[i]);
    vv_regions_clear(&session->memory.regions);
    vv_heap_close(session);
    vv_buf_clear(&session->about.attributes);
    vv_buf_clear(&session->about.index);
    vv_buf_clear(&session->about.said);
    vv_free(session);
}
