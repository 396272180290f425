/* The lease of a session: its claim, and the thread that renews its beat.
 *
 * Only a higher claim ends a lease. A beat that was renewed late proves nothing by itself: a storage that stands
 * still for some minutes delays every session's beat, and none of them may lose its right to commit over it. So the
 * thread and vv_lease_check look at the claims, and the order of section 10 holds whatever happens between the look
 * and the commit.
 *
 * The lock guards generation, beat and is_stopping, and is held while a beat is written, so that beats appear in the
 * order of their counters. is_fenced is never taken back. */
#include "store/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "store/store_private.h"

#define SECOND UINT64_C(1000000000)

struct vv_lease {
    struct vv_store *store;
    char name[VV_NAME_MAX + 1];
    struct vv_claim claim;
    pid_t pid; /* of the process that has the beat thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    uint32_t generation;
    struct vv_beat beat;
    uint64_t renewed_ns; /* when the last beat was written, on our own clock */
    int is_stopping;
    int is_running; /* the thread was started */
    atomic_int is_fenced;
    struct vv_lease *next_open;
};

/* The sessions of this process: waiting for one of them to die would be waiting for ourselves. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vv_lease *open_leases;

static void open_add(struct vv_lease *lease) {
    pthread_mutex_lock(&open_lock);
    lease->next_open = open_leases;
    open_leases = lease;
    pthread_mutex_unlock(&open_lock);
}

static void open_remove(struct vv_lease *lease) {
    pthread_mutex_lock(&open_lock);
    for (struct vv_lease **at = &open_leases; *at; at = &(*at)->next_open) {
        if (*at == lease) {
            *at = lease->next_open;
            break;
        }
    }
    pthread_mutex_unlock(&open_lock);
}

int vv_lease_is_open_here(const uint8_t session_id[16]) {
    int is_open = 0;
    pthread_mutex_lock(&open_lock);
    for (const struct vv_lease *at = open_leases; at && !is_open; at = at->next_open)
        is_open = at->pid == getpid() && memcmp(at->claim.session_id, session_id, 16) == 0;
    pthread_mutex_unlock(&open_lock);
    return is_open;
}

static struct vv_key lease_key(const struct vv_lease *lease, uint32_t generation, int kind) {
    struct vv_attempt attempt = {.generation = generation};
    return vv_attempt_key(lease->name, &attempt, kind, 0, 0);
}

/* ---- the beat ---- */

static int write_beat(struct vv_lease *lease, uint32_t generation, const struct vv_beat *beat,
                      struct varve_error *error) {
    struct vv_key key = lease_key(lease, generation, VV_KIND_BEAT);
    char text[VV_KEY_ROOM];
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_beat_encode(&buf, &key, lease->store->id, beat);
    vv_key_print(&key, text);
    int rc = buf.failed ? buf.failed : vv_backend_replace(lease->store->backend, text, buf.data, buf.size);
    vv_buf_clear(&buf);
    return rc < 0 ? vv_error_sys(error, rc, "cannot renew %s", text) : 0;
}

/* The next beat with this state and reference. Under the lock. The reference changes in memory only once it is
 * durable. */
static int renew(struct vv_lease *lease, uint32_t state, const struct vv_attempt *refers, struct varve_error *error) {
    struct vv_beat next = lease->beat;
    next.counter++;
    next.time_ns = vv_clock_wall_ns();
    next.state = state;
    next.refers = *refers;
    lease->beat.counter++; /* used up, also when it is not known whether it was written */
    int rc = write_beat(lease, lease->generation, &next, error);
    if (rc < 0)
        return rc;
    lease->beat = next;
    lease->renewed_ns = vv_clock_ns();
    return 0;
}

static int look_for_fence(struct vv_lease *lease, struct varve_error *error) {
    uint32_t highest = 0;
    int rc = vv_claims_highest(lease->store, lease->name, &highest, error);
    if (rc == 0 && highest != lease->generation)
        atomic_store(&lease->is_fenced, 1);
    return rc;
}

/* One turn of the thread, under the lock. Trouble is logged and left to the next turn. */
static void beat_turn(struct vv_lease *lease) {
    struct varve_error error = {0};
    uint64_t late = vv_clock_ns() - lease->renewed_ns;
    int rc = VV_FAULT("store.beat.before_renew");
    if (rc == 0)
        rc = look_for_fence(lease, &error);
    if (atomic_load(&lease->is_fenced)) {
        vv_log(lease->store->log, VV_LOG_WARN, "another session has taken %s over from generation %u", lease->name,
               lease->generation);
        return;
    }
    int renewed = renew(lease, VV_BEAT_RUNNING, &lease->beat.refers, &error);
    rc = renewed < 0 ? renewed : rc;
    if (rc < 0)
        vv_log(lease->store->log, VV_LOG_WARN, "heartbeat of %s, generation %u: %s", lease->name, lease->generation,
               error.text[0] ? error.text : varve_error_text(rc));
    else if (late > lease->claim.dead_seconds * SECOND)
        vv_log(lease->store->log, VV_LOG_WARN,
               "heartbeat of %s was renewed after %" PRIu64 " s; others may take a session for dead after %u s",
               lease->name, late / SECOND, lease->claim.dead_seconds);
}

static struct timespec next_turn(const struct vv_lease *lease) {
    uint64_t at = vv_clock_ns() + lease->claim.beat_seconds * SECOND;
    return (struct timespec){.tv_sec = (time_t)(at / SECOND), .tv_nsec = (long)(at % SECOND)};
}

static void *beat_main(void *arg) {
    struct vv_lease *lease = arg;
    pthread_mutex_lock(&lease->lock);
    while (!lease->is_stopping && !atomic_load(&lease->is_fenced)) {
        struct timespec until = next_turn(lease);
        int rc = 0;
        while (!lease->is_stopping && rc != ETIMEDOUT)
            rc = pthread_cond_timedwait(&lease->wake, &lease->lock, &until);
        if (!lease->is_stopping)
            beat_turn(lease);
    }
    pthread_mutex_unlock(&lease->lock);
    return NULL;
}

/* Signals belong to the program: none may arrive in this thread. */
static int start_thread(struct vv_lease *lease, struct varve_error *error) {
    sigset_t all, before;
    sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc == 0) {
        rc = pthread_create(&lease->thread, NULL, beat_main, lease);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (rc != 0)
        return vv_error_sys(error, -rc, "cannot start the heartbeat of %s", lease->name);
    lease->is_running = 1;
    return 0;
}

static void stop_thread(struct vv_lease *lease) {
    if (!lease->is_running)
        return;
    pthread_mutex_lock(&lease->lock);
    lease->is_stopping = 1;
    pthread_cond_signal(&lease->wake);
    pthread_mutex_unlock(&lease->lock);
    pthread_join(lease->thread, NULL);
    lease->is_running = 0;
}

/* ---- taking it ---- */

static int create_claim(struct vv_lease *lease, uint32_t generation, struct varve_error *error) {
    struct vv_key key = lease_key(lease, generation, VV_KIND_CLAIM);
    struct vv_buf buf;
    int rc = VV_FAULT("store.claim.before_create");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    lease->claim.time_ns = vv_clock_wall_ns();
    vv_buf_init(&buf);
    vv_claim_encode(&buf, &key, lease->store->id, &lease->claim);
    rc = vv_object_create(lease->store, &key, &buf, error);
    vv_buf_clear(&buf);
    if (rc == 0 && (rc = VV_FAULT("store.claim.after_create")) < 0)
        vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    return rc;
}

/* Claim this generation and write its first beat. When that fails half-way, the claim may stand: nobody, not even
 * this process, shall wait for its owner. */
static int enter_generation(struct vv_lease *lease, uint32_t generation, struct varve_error *error) {
    struct vv_beat beat = lease->beat;
    beat.counter = 1;
    beat.time_ns = vv_clock_wall_ns();
    beat.state = VV_BEAT_RUNNING;
    beat.refers = (struct vv_attempt){0};
    int rc = create_claim(lease, generation, error);
    if (rc == 0)
        rc = write_beat(lease, generation, &beat, error);
    if (rc == 0 && (rc = VV_FAULT("store.beat.after_first")) < 0)
        vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    if (rc < 0 && rc != -EEXIST) {
        beat.state = VV_BEAT_ENDED;
        beat.counter++;
        write_beat(lease, generation, &beat, NULL);
    }
    if (rc < 0)
        return rc;
    lease->generation = generation;
    lease->beat = beat;
    lease->renewed_ns = vv_clock_ns();
    return 0;
}

static void read_program(char *out, size_t room) {
    FILE *file = fopen("/proc/self/comm", "re");
    if (!file || !fgets(out, (int)room, file))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (file)
        fclose(file);
}

static int lease_create(struct vv_store *store, const char *name, const struct vv_lease_options *options,
                        struct vv_lease **out, struct varve_error *error) {
    struct vv_lease *lease = vv_calloc(1, sizeof *lease);
    pthread_condattr_t attributes;
    if (!lease)
        return vv_error_sys(error, -ENOMEM, "cannot claim %s", name);
    lease->store = store;
    lease->pid = getpid();
    snprintf(lease->name, sizeof lease->name, "%s", name);
    lease->claim.settings = store->settings;
    lease->claim.ranks = options->ranks;
    lease->claim.beat_seconds = options->beat_seconds ? options->beat_seconds : 1;
    lease->claim.dead_seconds = options->dead_seconds ? options->dead_seconds : 1;
    vv_process_self(&lease->claim);
    if (options->program)
        snprintf(lease->claim.program, sizeof lease->claim.program, "%s", options->program);
    else
        read_program(lease->claim.program, sizeof lease->claim.program);
    int rc = vv_random(lease->claim.session_id, sizeof lease->claim.session_id);
    if (rc < 0) {
        vv_free(lease);
        return vv_error_sys(error, rc, "cannot choose a session id");
    }
    memcpy(lease->beat.session_id, lease->claim.session_id, sizeof lease->beat.session_id);
    pthread_mutex_init(&lease->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lease->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = lease;
    return 0;
}

/* The generation above the highest, once the highest claim's owner is known to be dead. */
static int claim_next(struct vv_lease *lease, const struct vv_lease_options *options, struct varve_error *error) {
    uint64_t deadline = vv_clock_ns() + options->takeover_seconds * SECOND;
    for (;;) {
        uint32_t highest = 0;
        int rc = vv_claims_highest(lease->store, lease->name, &highest, error);
        if (rc == 0 && highest > 0)
            rc = vv_watch(lease->store, lease->name, highest, lease->claim.dead_seconds, deadline, error);
        if (rc == 0 && highest == UINT32_MAX)
            rc = vv_error(error, -EOVERFLOW, "%s has no generation left to claim", lease->name);
        if (rc == 0)
            rc = enter_generation(lease, highest + 1, error);
        if (rc != -EEXIST)
            return rc;
        vv_error_clear(error); /* somebody else was faster: look again */
    }
}

int vv_lease_take(struct vv_store *store, const char *name, const struct vv_lease_options *options,
                  struct vv_lease **out, struct varve_error *error) {
    struct vv_lease *lease = NULL;
    if (vv_name_check(name) < 0)
        return vv_error(error, -EINVAL, "a name has 1 to %d bytes", VV_NAME_MAX);
    int rc = lease_create(store, name, options, &lease, error);
    if (rc == 0)
        rc = claim_next(lease, options, error);
    if (rc == 0 && (rc = start_thread(lease, error)) < 0) {
        vv_lease_release(lease);
        return rc;
    }
    if (rc < 0) {
        vv_lease_abandon(lease);
        return rc;
    }
    open_add(lease);
    vv_log(store->log, VV_LOG_DEBUG, "claimed generation %u of %s", lease->generation, name);
    *out = lease;
    return 0;
}

uint32_t vv_lease_generation(const struct vv_lease *lease) {
    return lease->generation;
}

void vv_lease_refers(struct vv_lease *lease, struct vv_attempt *out) {
    pthread_mutex_lock(&lease->lock);
    *out = lease->beat.refers;
    pthread_mutex_unlock(&lease->lock);
}

static int fenced(const struct vv_lease *lease, struct varve_error *error) {
    return vv_error(error, VARVE_FENCED,
                    "generation %u of %s no longer has the highest claim: this session was taken for dead, and another "
                    "one goes on in its place",
                    lease->generation, lease->name);
}

int vv_lease_check(struct vv_lease *lease, struct varve_error *error) {
    int rc = atomic_load(&lease->is_fenced) ? 0 : look_for_fence(lease, error);
    if (rc < 0)
        return rc;
    return atomic_load(&lease->is_fenced) ? fenced(lease, error) : 0;
}

/* The new generation begins before the old one ends: at no moment can a third session find neither. */
static int advance(struct vv_lease *lease, struct varve_error *error) {
    uint32_t old = lease->generation;
    struct vv_beat last = lease->beat;
    if (old == UINT32_MAX)
        return vv_error(error, -EOVERFLOW, "%s has no generation left to claim", lease->name);
    int rc = enter_generation(lease, old + 1, error);
    if (rc == -EEXIST) {
        atomic_store(&lease->is_fenced, 1);
        return fenced(lease, error);
    }
    if (rc < 0)
        return rc;
    last.counter++;
    last.time_ns = vv_clock_wall_ns();
    last.state = VV_BEAT_ENDED;
    if (write_beat(lease, old, &last, error) < 0) /* it is superseded all the same */
        vv_log(lease->store->log, VV_LOG_DEBUG, "the end of generation %u of %s was not written", old, lease->name);
    vv_error_clear(error);
    return 0;
}

int vv_lease_advance(struct vv_lease *lease, struct varve_error *error) {
    int rc = vv_lease_check(lease, error);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&lease->lock);
    rc = advance(lease, error);
    pthread_mutex_unlock(&lease->lock);
    return rc;
}

int vv_lease_refer(struct vv_lease *lease, const struct vv_attempt *attempt, struct varve_error *error) {
    int rc = VV_FAULT("store.beat.before_refer");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot renew the heartbeat of %s", lease->name);
    pthread_mutex_lock(&lease->lock);
    rc = renew(lease, VV_BEAT_RUNNING, attempt, error);
    pthread_mutex_unlock(&lease->lock);
    if (rc == 0 && (rc = VV_FAULT("store.beat.after_refer")) < 0)
        vv_error_sys(error, rc, "cannot renew the heartbeat of %s", lease->name);
    return rc;
}

void vv_lease_release(struct vv_lease *lease) {
    struct varve_error error = {0};
    if (!lease)
        return;
    if (lease->pid == getpid()) {
        stop_thread(lease);
        if (renew(lease, VV_BEAT_ENDED, &lease->beat.refers, &error) < 0)
            vv_log(lease->store->log, VV_LOG_WARN, "the end of generation %u of %s was not written: %s",
                   lease->generation, lease->name, error.text);
    }
    vv_lease_abandon(lease);
}

/* In a child after fork the thread does not exist, and the locks may be in any state: then the memory stays in the
 * list of open sessions, where its process id says that it is nobody's. */
void vv_lease_abandon(struct vv_lease *lease) {
    if (!lease)
        return;
    if (lease->pid == getpid()) {
        open_remove(lease);
        stop_thread(lease);
        pthread_cond_destroy(&lease->wake);
        pthread_mutex_destroy(&lease->lock);
        vv_free(lease);
    }
}
