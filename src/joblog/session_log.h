/* The log that a session leaves in the store for `varve report` (docs/format.md 5, lifecycle/job_log.h).
 *
 * Rank 0 notes its checkpoints and restarts in memory. The heartbeat thread writes what is new, as lines of JSON, and
 * so does the end of the session: no checkpoint waits for it, and none fails with it. A long job keeps its newest
 * checkpoints one by one, and adds older ones up: the log has a bound, and its sums stay true. */
#ifndef VV_SESSION_LOG_H
#define VV_SESSION_LOG_H

#include "base/details.h"
#include "job/job.h"

struct vv_session_log;

/* One request that has come to its end, as rank 0 knows it. */
struct vv_logged {
    uint64_t version;
    int result;
    const struct varve_error *error;
    uint64_t durable_ns, idle_ns;
    const struct vv_details *stats;
    const struct vv_tally *tally; /* of all ranks */
};

/* NULL without memory: then there is no log. */
struct vv_session_log *vv_session_log_open(struct vv_job *job);
/* Accept NULL, and return soon. */
void vv_session_log_checkpoint(struct vv_session_log *log, const struct vv_logged *logged);
/* Its call returns, perhaps before its end; and how its pages were captured. */
struct vv_logged_call {
    uint64_t version, blocked_ns, waited_ns;
    const char *capture, *tracker;
};
void vv_session_log_call(struct vv_session_log *log, const struct vv_logged_call *call);
/* what: "restarted" or "continued"; error is told if rc is not 0. */
void vv_session_log_restart(struct vv_session_log *log, const char *what, int64_t version, double seconds,
                            uint64_t bytes_read, int rc, const struct varve_error *error);
/* Write the rest, with why it ended, and free it; the lease is still there. Accepts NULL. */
void vv_session_log_close(struct vv_session_log *log, const char *why);

#endif
