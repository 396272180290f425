/* varve_need, varve_should_exit and varve_time_left: is a checkpoint wanted, and by whom? One message of all ranks
 * answers it. */
#include <math.h>
#include <stdio.h>

#include "base/thread.h"
#include "format/attributes.h"
#include "session/session_private.h"

static struct vv_now now(void) {
    return (struct vv_now){vv_clock_ns(), vv_clock_wall_ns()};
}

static enum vv_wish stronger(enum vv_wish a, enum vv_wish b) {
    return a < b ? a : b;
}

/* How long the last checkpoint took, or has taken so far. One that is written and waits for a call that commits it
 * costs no more time: this call is none, and there may be no other before the next checkpoint. Before the first, what
 * the restart took is the best guess. */
static void note_durable(struct vv_session *session, uint64_t now_ns, int *is_flying_out) {
    const struct vv_request *request = &session->request;
    double last = session->schedule.durable;
    vv_background_lock(session);
    const struct vv_save *written = vv_background_written(session);
    *is_flying_out = request->begun_ns && !request->is_done && !written;
    if (*is_flying_out)
        last = fmax(last, (double)(now_ns - request->begun_ns) * 1e-9);
    else if (written && written->outcome.result == 0)
        last = (double)(written->outcome.sealed_ns - request->begun_ns) * 1e-9;
    else if (request->is_done && request->result == 0)
        last = (double)(request->durable_ns - request->begun_ns - request->idle_ns) * 1e-9;
    vv_background_unlock(session);
    vv_schedule_durable(&session->schedule, request->begun_ns ? last : session->restarted.seconds);
}

/* The job should end, and the checkpoint that was begun for that has failed, or none was begun. */
static int is_owed(struct vv_session *session) {
    vv_background_lock(session);
    int has_failed = session->request.is_done && session->request.result != 0;
    vv_background_unlock(session);
    return session->asked.is_leaving && (!session->asked.has_begun || has_failed);
}

static struct vv_asked_look look_at(const struct vv_session *session, uint64_t now_ns) {
    return (struct vv_asked_look){.settings = &session->job.settings,
                                  .store = session->job.may == VV_MAY_WRITE ? session->job.store : NULL,
                                  .name = session->job.name,
                                  .log = &session->job.log,
                                  .now_ns = now_ns};
}

/* Clocks differ between the ranks, and looking costs: one of them does it. */
static enum vv_wish look_as_root(struct vv_session *session) {
    struct vv_now at = now();
    struct vv_asked_look look = look_at(session, at.ns);
    int is_flying;
    vv_schedule_asked(&session->schedule, at.ns);
    note_durable(session, at.ns, &is_flying);
    enum vv_wish wish = vv_asked_look(&session->asked, &look);
    if (!session->asked.is_leaving && vv_schedule_is_ending(&session->schedule, at)) {
        vv_log(&session->job.log, VV_LOG_INFO,
               "%.0f s are left until the end of the job, and %.0f s are wanted for a last checkpoint",
               vv_schedule_left(&session->schedule, at), vv_schedule_margin(&session->schedule));
        return VV_WISH_EXIT;
    }
    int is_due =
        vv_schedule_is_due(&session->schedule, at.ns) && !(is_flying && vv_schedule_is_late(&session->schedule, at));
    return stronger(wish, is_due ? VV_WISH_DUE : VV_WISH_NONE);
}

int vv_session_is_due(struct vv_session *session, struct varve_error *error) {
    struct vv_asked *asked = &session->asked;
    struct varve_comm *comm = vv_comm_of_caller(session);
    enum vv_wish wish = stronger(asked->pending, vv_asked_signals(asked));
    if (is_owed(session))
        wish = stronger(wish, VV_WISH_CHECKPOINT);
    if (vv_comm_is_root(comm))
        wish = stronger(wish, look_as_root(session));
    if (wish < VV_WISH_DUE)
        asked->pending = wish; /* kept if the ranks cannot talk now */
    uint64_t least = wish;
    int rc = vv_comm_agree_least(comm, 0, VV_CALL_NEED, 0, &least, error);
    if (rc)
        return rc;
    if (least == VV_WISH_EXIT) {
        asked->is_leaving = 1;
        asked->has_begun = 0;
    }
    asked->pending = least < VV_WISH_DUE ? VV_WISH_CHECKPOINT : VV_WISH_NONE;
    return least < VV_WISH_NONE;
}

void vv_session_note_cost(struct vv_session *session) {
    const struct vv_schedule *schedule = &session->schedule;
    struct varve_error ignored = {.rank = -1};
    char text[32];
    if (schedule->interval != VV_CHOOSE_INTERVAL_AUTO || !schedule->has_cost)
        return;
    snprintf(text, sizeof text, "%.9g", schedule->cost);
    (void)vv_session_attribute(session, VV_ATTRIBUTE_COST, text, &ignored); /* a checkpoint can do without */
}

/* All ranks know it since the same varve_need, and have begun the same checkpoints. Its failure is left to be told by
 * the calls that tell it. */
int vv_session_should_exit(struct vv_session *session) {
    if (!session->asked.is_leaving || !session->asked.has_begun)
        return 0;
    vv_background_wait(session);
    if (session->request.result != 0)
        return 0;
    if (vv_comm_is_root(session->job.comm))
        vv_session_leave_word(session);
    return 1;
}

void vv_session_leave_word(struct vv_session *session) {
    struct vv_asked_look look = look_at(session, vv_clock_ns());
    vv_asked_leave_word(&session->asked, &look);
}

double vv_session_time_left(const struct vv_session *session) {
    return vv_schedule_left(&session->schedule, now());
}
