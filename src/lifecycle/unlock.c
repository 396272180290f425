/* Who holds a name, and freeing it when its holder is dead. Nothing that another session wrote is changed: a higher
 * claim that has ended is all there is to it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "lifecycle/lease.h"
#include "lifecycle/lifecycle.h"

#define HEARTBEAT_SECONDS_USUAL 15u /* where the claim cannot be read */
#define DEAD_SECONDS_USUAL 60u

static void take_claim(struct vv_holder *out, const struct vv_claim *claim) {
    out->has_claim = 1;
    out->claimed_ns = claim->time_ns;
    out->pid = claim->pid;
    out->ranks = claim->ranks;
    out->beat_seconds = claim->beat_seconds ? claim->beat_seconds : HEARTBEAT_SECONDS_USUAL;
    out->dead_seconds = claim->dead_seconds ? claim->dead_seconds : DEAD_SECONDS_USUAL;
    memcpy(out->host, claim->host, sizeof out->host);
    memcpy(out->program, claim->program, sizeof out->program);
}

static void decide(struct vv_holder *out, int holding, const char *evidence) {
    out->holding = holding;
    snprintf(out->evidence, sizeof out->evidence, "%s", evidence);
}

static void judge_process(struct vv_holder *out, const struct vv_claim *claim) {
    int process = vv_process_look(claim);
    if (vv_lease_is_open_here(claim->session_id))
        decide(out, VV_HELD_BY_LIVING, "a session of this process holds it");
    else if (process == VV_PROCESS_GONE)
        decide(out, VV_HELD_BY_DEAD, "it ran on this machine, and there is no such process any more");
    else if (process == VV_PROCESS_THERE)
        decide(out, VV_HELD_BY_LIVING, "its process runs on this machine");
    else
        decide(out, VV_HELD_BY_UNKNOWN,
               "it ran on another host, before this one was started, or where its processes cannot be seen: only its "
               "heartbeat tells");
}

int vv_holder_look(struct vv_store *store, const char *name, struct vv_holder *out, struct varve_error *error) {
    struct vv_claim claim;
    struct vv_heartbeat heartbeat = {0};
    *out = (struct vv_holder){.beat_seconds = HEARTBEAT_SECONDS_USUAL, .dead_seconds = DEAD_SECONDS_USUAL};
    int rc = vv_claims_highest(store, name, &out->generation, error);
    if (rc < 0 || out->generation == 0)
        return rc;
    int claimed = vv_claim_load(store, name, out->generation, &claim, error);
    if (claimed < 0 && !vv_says_nothing(claimed))
        return claimed;
    rc = vv_heartbeat_load(store, name, out->generation, &heartbeat, error);
    if (rc < 0 && !vv_says_nothing(rc))
        return rc;
    vv_error_clear(error);
    if (claimed == 0)
        take_claim(out, &claim);
    int is_its_own =
        rc == 0 && (claimed < 0 || memcmp(heartbeat.session_id, claim.session_id, sizeof heartbeat.session_id) == 0);
    out->beat_ns = is_its_own ? heartbeat.time_ns : 0;
    if (is_its_own && heartbeat.state == VV_HEARTBEAT_ENDED)
        decide(out, VV_HELD_BY_NOBODY, "its last session has ended");
    else if (claimed == 0)
        judge_process(out, &claim);
    else
        decide(out, VV_HELD_BY_UNKNOWN, "its claim cannot be read: only its heartbeat tells");
    return 0;
}

static int refuse_unlock(const struct vv_holder *holder, const char *name, struct varve_error *error) {
    uint64_t now = vv_clock_wall_ns();
    return vv_error(error, VARVE_BUSY,
                    "%s is in use: process %" PRIu32 " (%s) on host %s claimed it %" PRIu64
                    " s ago and is alive (%s); end it first",
                    name, holder->pid, holder->program[0] ? holder->program : "?", holder->host,
                    now > holder->claimed_ns ? (now - holder->claimed_ns) / UINT64_C(1000000000) : 0, holder->evidence);
}

static uint32_t seconds_to_watch(const struct vv_holder *holder, int is_dead) {
    uint64_t some = 2 * (uint64_t)holder->beat_seconds + 1;
    return is_dead && some < holder->dead_seconds ? (uint32_t)some : holder->dead_seconds;
}

int vv_unlock(struct vv_store *store, const char *name, int is_dead, int (*progress)(void *, uint64_t, uint64_t),
              void *arg, struct vv_holder *out, struct varve_error *error) {
    int rc = vv_holder_look(store, name, out, error);
    if (rc < 0 || out->holding == VV_HELD_BY_NOBODY)
        return rc;
    if (out->holding == VV_HELD_BY_LIVING)
        return refuse_unlock(out, name, error);
    if (out->holding == VV_HELD_BY_UNKNOWN) {
        uint32_t seconds = seconds_to_watch(out, is_dead);
        rc = vv_watch_shown(store, name, out->generation, seconds, progress, arg, error);
        if (rc == VARVE_BUSY) {
            decide(out, VV_HELD_BY_LIVING, "its heartbeat was renewed while it was watched");
            return refuse_unlock(out, name, error);
        }
        if (rc < 0)
            return rc;
        out->holding = VV_HELD_BY_DEAD;
        snprintf(out->evidence, sizeof out->evidence, "its heartbeat was seen unchanged for %" PRIu32 " s%s", seconds,
                 is_dead && seconds < out->dead_seconds ? ", and you say that it is dead" : "");
    }
    return vv_lease_end_above(store, name, out->generation, error);
}
