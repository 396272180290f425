/* Watching another session's heartbeat until it is certain that the session is dead, or the time given is over.
 *
 * Clocks of two hosts are never compared: what counts is that the observer itself saw the same bytes for the time the
 * claim states. A read that failed is no look at all, and the count begins anew after it. When much time has passed
 * since the look before, the observer itself was stopped, and perhaps the other one with it: then only a part of that
 * time counts. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/thread.h"
#include "lifecycle/lease.h"
#include "lifecycle/lifecycle.h"

#define SECOND UINT64_C(1000000000)
#define POLL_MS_MAX 1000u
#define POLL_MS_MIN 50u

struct watch {
    struct vv_store *store;
    const char *name;
    uint32_t generation;
    struct vv_claim claim;
    int has_claim;
    uint32_t dead_seconds;
    struct vv_buf seen; /* the heartbeat's bytes; empty when there is none */
    int has_seen;
    uint64_t counted_ns; /* for how long they were seen unchanged */
    uint64_t looked_ns;  /* when the last look ended */
    vv_watch_fn progress;
    void *arg;
    int is_renewed; /* its heartbeat has changed while we watched: it is alive, and waiting is of no use */
};

static int is_transient(int rc) {
    return rc == -EAGAIN || rc == -EINTR || rc == -ETIMEDOUT || rc == -EBUSY || rc == -ECONNRESET;
}

/* There are at least 16 looks in dead_seconds, unless the storage is slow or the processor busy. */
static uint64_t count_since(const struct watch *watch, uint64_t now_ns) {
    uint64_t gap = now_ns - watch->looked_ns, most = watch->dead_seconds * SECOND / 4;
    return gap < most ? gap : most;
}

/* 1 if the heartbeat has not changed for long enough, 0 if it may be alive. What counts is the time from the end of one
 * look to the beginning of the next. */
static int look_at_lease(struct watch *watch, struct varve_error *error) {
    struct vv_key key = vv_generation_key(watch->name, watch->generation, VV_KIND_HEARTBEAT);
    uint64_t begun = vv_clock_ns();
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(watch->store, &key, &buf, error);
    if (rc < 0 && rc != -ENOENT && rc != VARVE_CORRUPT) {
        vv_buf_clear(&buf);
        watch->has_seen = 0;
        return is_transient(rc) ? 0 : rc;
    }
    int is_equal = watch->has_seen && buf.size == watch->seen.size &&
                   (buf.size == 0 || memcmp(buf.data, watch->seen.data, buf.size) == 0);
    watch->counted_ns = is_equal ? watch->counted_ns + count_since(watch, begun) : 0;
    watch->looked_ns = vv_clock_ns();
    if (is_equal) {
        vv_buf_clear(&buf);
        return watch->counted_ns >= watch->dead_seconds * SECOND;
    }
    watch->is_renewed = watch->has_seen;
    vv_buf_clear(&watch->seen);
    watch->seen = buf;
    watch->has_seen = 1;
    return 0;
}

static int busy(const struct watch *watch, struct varve_error *error) {
    const struct vv_claim *claim = &watch->claim;
    uint64_t now = vv_clock_wall_ns();
    if (!watch->has_claim)
        return vv_error(error, VARVE_BUSY,
                        "%s may be in use: its claim %u cannot be read, and its heartbeat was not watched for %u s",
                        watch->name, watch->generation, watch->dead_seconds);
    return vv_error(
        error, VARVE_BUSY,
        "%s is in use: process %u (%s) on host %s claimed it %" PRIu64
        " s ago; end that process first, or use another name; if it is dead, `varve unlock STORE %s` frees the"
        " name",
        watch->name, claim->pid, claim->program[0] ? claim->program : "?", claim->host,
        now > claim->time_ns ? (now - claim->time_ns) / SECOND : 0, watch->name);
}

static unsigned poll_ms(const struct watch *watch, uint64_t left_ns) {
    uint64_t ms = watch->dead_seconds * UINT64_C(1000) / 16;
    ms = ms > POLL_MS_MAX ? POLL_MS_MAX : ms < POLL_MS_MIN ? POLL_MS_MIN : ms;
    return (unsigned)(left_ns / 1000000 < ms ? left_ns / 1000000 + 1 : ms);
}

static int load_claim(struct watch *watch, struct varve_error *error) {
    int rc = vv_claim_load(watch->store, watch->name, watch->generation, &watch->claim, error);
    if (rc < 0 && rc != VARVE_CORRUPT && rc != -ENOENT)
        return rc;
    watch->has_claim = rc == 0;
    if (rc == 0 && watch->claim.dead_seconds)
        watch->dead_seconds = watch->claim.dead_seconds;
    return 0;
}

static int watch_until(struct watch *watch, uint64_t deadline_ns, const struct vv_lease_options *options,
                       struct varve_error *error) {
    int is_told = 0;
    for (;;) {
        int life = VV_LIFE_MAYBE;
        int rc = vv_life_look(watch->store, watch->name, watch->generation, 0, &life, NULL, error);
        if (rc < 0 && !is_transient(rc))
            return rc;
        if (rc == 0 && life == VV_LIFE_DEAD)
            return 0;
        if (watch->is_renewed || (watch->has_claim && vv_lease_is_open_here(watch->claim.session_id)))
            return busy(watch, error);
        if ((rc = look_at_lease(watch, error)) != 0)
            return rc < 0 ? rc : 0;
        uint64_t now = vv_clock_ns();
        if (now >= deadline_ns)
            return busy(watch, error);
        if (options->stop && options->stop(options->arg))
            return vv_error(error, -EINTR, "the watch over %s was stopped", watch->name);
        if (!is_told++)
            vv_log(watch->store->log, VV_LOG_WARN,
                   "waiting for process %u on host %s, which claimed %s: it counts as dead when its heartbeat has not "
                   "changed for %u s",
                   watch->claim.pid, watch->has_claim ? watch->claim.host : "?", watch->name, watch->dead_seconds);
        vv_sleep_ms(poll_ms(watch, deadline_ns - now));
    }
}

int vv_watch(struct vv_store *store, const char *name, uint32_t generation, uint32_t dead_seconds, uint64_t deadline_ns,
             const struct vv_lease_options *options, struct varve_error *error) {
    struct watch watch = {.store = store, .name = name, .generation = generation, .dead_seconds = dead_seconds};
    vv_buf_init(&watch.seen);
    int rc = load_claim(&watch, error);
    if (rc == 0)
        rc = watch_until(&watch, deadline_ns, options, error);
    if (rc == 0)
        vv_error_clear(error);
    vv_buf_clear(&watch.seen);
    return rc;
}

/* Asked for by a person, who sees how far it is and may stop it. */
static int watch_shown(struct watch *watch, struct varve_error *error) {
    for (;;) {
        int rc = look_at_lease(watch, error);
        if (rc < 0)
            return rc;
        if (watch->is_renewed)
            return busy(watch, error);
        uint64_t whole = watch->dead_seconds * SECOND;
        uint64_t done = watch->counted_ns < whole ? watch->counted_ns : whole;
        if (watch->progress && watch->progress(watch->arg, done / 1000000, whole / 1000000) != 0)
            return vv_error(error, -EINTR, "the watch over %s was stopped", watch->name);
        if (done == whole)
            return 0;
        vv_sleep_ms(poll_ms(watch, whole - done));
    }
}

int vv_watch_shown(struct vv_store *store, const char *name, uint32_t generation, uint32_t seconds,
                   vv_watch_fn progress, void *arg, struct varve_error *error) {
    struct watch watch = {.store = store, .name = name, .generation = generation, .progress = progress, .arg = arg};
    vv_buf_init(&watch.seen);
    int rc = load_claim(&watch, error);
    watch.dead_seconds = seconds;
    if (rc == 0)
        rc = watch_shown(&watch, error);
    if (rc == 0)
        vv_error_clear(error);
    vv_buf_clear(&watch.seen);
    return rc;
}
