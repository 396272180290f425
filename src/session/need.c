/* varve_need, varve_should_exit and varve_time_left: is a checkpoint wanted, and by whom? One message of all ranks
 * answers it. */

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
 * costs no more time: this call is none, and there may be no other before the next checkpoint. Before the first, it is
 * what the checkpoint tells that came back, and at least what the restart took. 1: one is in flight. */
static int note_durable(struct vv_session *session, uint64_t now_ns) {
    const struct vv_request *request = &session->request;
    struct vv_schedule *schedule = &session->schedule;
    vv_background_lock(session);
    const struct vv_save *written = vv_background_written(session);
    int is_flying = request->begun_ns && !request->is_done && !written;
    if (!request->begun_ns)
        vv_schedule_guess(schedule, session->restarted.seconds);
    else if (is_flying)
        vv_schedule_flying(schedule, (double)(now_ns - request->begun_ns) * 1e-9);
    else if (written && written->outcome.result == 0)
        vv_schedule_durable(schedule, (double)(written->outcome.sealed_ns - request->begun_ns) * 1e-9);
    else if (request->is_done && request->result == 0)
        vv_schedule_durable(schedule, vv_request_seconds(request));
    else if (request->is_done)
        vv_schedule_failed(schedule);
    vv_background_unlock(session);
    return is_flying;
}

/* The job should end, and the checkpoint that was begun for that has failed, also to get to the tier that durable=N
 * asks for, or none was begun. */
static int is_owed(struct vv_session *session) {
    const struct vv_request *request = &session->request;
    vv_background_lock(session);
    int has_failed = request->is_done && (request->result != 0 || request->tier_result != 0);
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
    vv_schedule_asked(&session->schedule, at.ns);
    int is_flying = note_durable(session, at.ns);
    enum vv_wish wish = vv_asked_look(&session->asked, &look);
    if (!session->asked.is_leaving && vv_schedule_is_ending(&session->schedule, at)) {
        vv_log_note(&session->job.log,
                    "%.0f s are left until the end of the job, and %.0f s are wanted for a last checkpoint",
                    vv_schedule_left(&session->schedule, at), vv_schedule_margin(&session->schedule));
        return VV_WISH_EXIT;
    }
    int is_due =
        vv_schedule_is_due(&session->schedule, at) && !(is_flying && vv_schedule_is_late(&session->schedule, at));
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

/* Below 0: no such attribute. A checkpoint can do without. */
static void note(struct vv_session *session, const char *name, double seconds) {
    struct varve_error ignored = {.rank = -1};
    char text[VV_SECONDS_TEXT];
    vv_attribute_of_seconds(seconds, text);
    (void)vv_session_attribute(session, name, seconds < 0 ? NULL : text, &ignored);
}

/* How long until durable, only if this run has measured it: what was slow once would be told from run to run, and each
 * would begin its last checkpoint at its first question. */
void vv_session_note_cost(struct vv_session *session) {
    const struct vv_schedule *schedule = &session->schedule;
    if (!vv_comm_is_root(session->job.comm) || (schedule->interval != VV_CHOOSE_INTERVAL_AUTO && !schedule->has_end))
        return;
    (void)note_durable(session, vv_clock_ns());
    note(session, VV_ATTRIBUTE_COST, schedule->cost);
    note(session, VV_ATTRIBUTE_DURABLE, schedule->is_measured ? schedule->durable : -1);
}

/* All ranks know it since the same varve_need, and have begun the same checkpoints. Its failure is left to be told by
 * the calls that tell it. */
int vv_session_should_exit(struct vv_session *session) {
    struct varve_error ignored = {.rank = -1};
    if (!session->asked.is_leaving || !session->asked.has_begun)
        return 0;
    vv_background_wait(session);
    if (session->request.result != 0 || vv_request_settle(session, &ignored) != 0)
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
