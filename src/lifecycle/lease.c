/* The lease of a session: its claim, and the thread that renews its heartbeat.
 *
 * Only a higher claim ends a lease. A heartbeat that was renewed late proves nothing by itself: a storage that stands
 * still for some minutes delays every session's heartbeat, and none of them may lose its right to commit over it. So
 * the thread and vv_lease_check look at the claims, and the order of section 10 holds whatever happens between the look
 * and the commit.
 *
 * The lock guards heartbeat, is_halfway and is_stopping, and the changes of generation; it is held while a heartbeat is
 * written, so that heartbeats appear in the order of their counters. The fence is never taken back. */
#include "lifecycle/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "lifecycle/lifecycle.h"

#define SECOND UINT64_C(1000000000)
#define UNSEEN_SECONDS 4
#define UNSEEN_POLL_MS 50u

enum fence { FENCE_NONE, FENCE_TAKEN_OVER, FENCE_CLAIM_GONE };

struct vv_lease {
    struct vv_store *store;
    char name[VV_NAME_MAX + 1];
    struct vv_claim claim;
    pid_t pid; /* of the process that has the heartbeat thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint generation;
    struct vv_heartbeat heartbeat;
    uint64_t renewed_ns; /* when the last heartbeat was written, on our own clock */
    int is_stopping;
    int is_running; /* the thread was started */
    int is_halfway; /* an advance failed: the claim above ours may be ours too */
    atomic_int fence;
    pthread_mutex_t listener_lock; /* held while it is called */
    void (*listener)(void *arg);
    void *listener_arg;
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

/* Sessions of this process that have failed while they made their claim, or could not write their end. The claim may
 * stand, and nobody renews its heartbeat. */
#define GIVEN_UP 32
static uint8_t given_up[GIVEN_UP][16];
static unsigned given_up_next;

static void note_given_up(const uint8_t session_id[16]) {
    pthread_mutex_lock(&open_lock);
    memcpy(given_up[given_up_next++ % GIVEN_UP], session_id, 16);
    pthread_mutex_unlock(&open_lock);
}

int vv_lease_is_given_up_here(const uint8_t session_id[16]) {
    static const uint8_t none[16];
    int found = 0;
    pthread_mutex_lock(&open_lock);
    for (unsigned i = 0; i < GIVEN_UP && !found; i++)
        found = memcmp(given_up[i], session_id, 16) == 0;
    pthread_mutex_unlock(&open_lock);
    return found && memcmp(session_id, none, 16) != 0;
}

/* ---- the heartbeat ---- */

static int write_heartbeat(struct vv_lease *lease, uint32_t generation, const struct vv_heartbeat *heartbeat,
                           struct varve_error *error) {
    struct vv_key key = vv_generation_key(lease->name, generation, VV_KIND_HEARTBEAT);
    char text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_heartbeat_encode(&buf, &key, lease->store->id, heartbeat);
    vv_key_print(&key, text);
    int rc = buf.failed ? buf.failed : vv_backend_replace(lease->store->backend, text, buf.data, buf.size);
    vv_buf_clear(&buf);
    if (rc < 0)
        vv_error_sys(error, rc, "cannot renew %s", text);
    return vv_error_shortage(lease->store, rc, error);
}

/* The next heartbeat with this state and reference. Under the lock. The reference changes in memory only once it is
 * durable. */
static int renew(struct vv_lease *lease, uint32_t state, const struct vv_attempt *refers, struct varve_error *error) {
    struct vv_heartbeat next = lease->heartbeat;
    next.counter++;
    next.time_ns = vv_clock_wall_ns();
    next.state = state;
    next.refers = *refers;
    lease->heartbeat.counter++; /* used up, also when it is not known whether it was written */
    int rc = write_heartbeat(lease, lease->generation, &next, error);
    if (rc < 0)
        return rc;
    lease->heartbeat = next;
    lease->renewed_ns = vv_clock_ns();
    return 0;
}

int vv_claim_session(struct vv_store *store, const char *name, uint32_t generation, uint8_t session_out[16],
                     struct varve_error *error) {
    struct vv_claim claim;
    int rc = vv_claim_load(store, name, generation, &claim, error);
    if (rc < 0)
        return rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT ? 0 : rc;
    memcpy(session_out, claim.session_id, sizeof claim.session_id);
    return 1;
}

int vv_claim_is_of(struct vv_store *store, const char *name, uint32_t generation, const uint8_t session_id[16],
                   struct varve_error *error) {
    uint8_t found[16];
    int rc = vv_claim_session(store, name, generation, found, error);
    return rc == 1 ? memcmp(found, session_id, sizeof found) == 0 : rc;
}

/* Is the claim on this generation ours, and not that of another process of our session? 1, 0, or an error of the
 * storage. */
static int is_own_claim(const struct vv_lease *lease, uint32_t generation, struct varve_error *error) {
    const struct vv_claim *own = &lease->claim;
    struct vv_claim claim;
    int rc = vv_claim_load(lease->store, lease->name, generation, &claim, error);
    if (rc == 0)
        return memcmp(claim.session_id, own->session_id, sizeof claim.session_id) == 0 && claim.pid == own->pid &&
               claim.pid_start == own->pid_start && claim.pid_namespace == own->pid_namespace &&
               memcmp(claim.boot_id, own->boot_id, sizeof claim.boot_id) == 0 && strcmp(claim.host, own->host) == 0;
    return rc == -ENOENT || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT ? 0 : rc;
}

/* ---- entering a generation ---- */

/* Somebody has the claim. It is ours when a former try of this session made it; perhaps it was not durable then. */
static int confirm_claim(const struct vv_lease *lease, const struct vv_key *key, struct varve_error *error) {
    char text[VV_KEY_CAPACITY];
    int rc = is_own_claim(lease, key->generation, error);
    if (rc < 1)
        return rc < 0 ? rc : -EEXIST;
    vv_key_print(key, text);
    vv_error_clear(error);
    rc = vv_backend_sync(lease->store->backend, text);
    return rc < 0 ? vv_error_sys(error, rc, "cannot make %s durable", text) : 0;
}

static int create_claim(struct vv_lease *lease, uint32_t generation, struct varve_error *error) {
    struct vv_key key = vv_generation_key(lease->name, generation, VV_KIND_CLAIM);
    struct vv_buf buf;
    int rc = VV_FAULT("store.claim.before_create");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    lease->claim.time_ns = vv_clock_wall_ns();
    vv_buf_init(&buf);
    vv_claim_encode(&buf, &key, lease->store->id, &lease->claim);
    rc = vv_object_create(lease->store, &key, &buf, error);
    vv_buf_clear(&buf);
    if (rc == -EEXIST)
        rc = confirm_claim(lease, &key, error);
    if (rc == 0 && (rc = VV_FAULT("store.claim.after_create")) < 0)
        vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    return rc;
}

/* Claim this generation and write its first heartbeat, which names the same checkpoint as the last one. -EEXIST when
 * another session has it. After another error the claim may stand. */
static int enter_generation(struct vv_lease *lease, uint32_t generation, struct varve_error *error) {
    lease->heartbeat.counter++; /* also when it fails: whether it was written is not known then */
    struct vv_heartbeat heartbeat = lease->heartbeat;
    heartbeat.time_ns = vv_clock_wall_ns();
    heartbeat.state = VV_HEARTBEAT_RUNNING;
    int rc = create_claim(lease, generation, error);
    if (rc == 0)
        rc = write_heartbeat(lease, generation, &heartbeat, error);
    if (rc == 0 && (rc = VV_FAULT("store.beat.after_first")) < 0)
        vv_error_sys(error, rc, "cannot claim generation %u of %s", generation, lease->name);
    if (rc < 0)
        return rc;
    atomic_store(&lease->generation, generation);
    lease->heartbeat = heartbeat;
    lease->renewed_ns = vv_clock_ns();
    return 0;
}

/* Nobody shall wait for the owner of a claim that was made half-way. Only if it is ours: another session may have
 * been faster, and the heartbeat is its own then. */
static void end_generation(struct vv_lease *lease, uint32_t generation) {
    struct vv_heartbeat heartbeat = lease->heartbeat;
    if (is_own_claim(lease, generation, NULL) != 1)
        return;
    heartbeat.counter++;
    heartbeat.time_ns = vv_clock_wall_ns();
    heartbeat.state = VV_HEARTBEAT_ENDED;
    if (write_heartbeat(lease, generation, &heartbeat, NULL) < 0)
        vv_log(lease->store->log, VV_LOG_DEBUG, "the end of generation %u of %s was not written", generation,
               lease->name);
}

/* One more generation for the same session. It begins before the old one ends: at no moment can a third session find
 * neither. */
static int advance(struct vv_lease *lease, struct varve_error *error) {
    uint32_t old = atomic_load(&lease->generation);
    struct vv_heartbeat last = lease->heartbeat;
    if (old == UINT32_MAX)
        return vv_error(error, -EOVERFLOW, "%s has no generation left to claim", lease->name);
    int rc = enter_generation(lease, old + 1, error);
    lease->is_halfway = rc < 0 && rc != -EEXIST;
    if (rc == -EEXIST)
        atomic_store(&lease->fence, FENCE_TAKEN_OVER);
    if (rc < 0)
        return rc;
    last.counter++;
    last.time_ns = vv_clock_wall_ns();
    last.state = VV_HEARTBEAT_ENDED;
    if (write_heartbeat(lease, old, &last, NULL) < 0) /* it is superseded all the same */
        vv_log(lease->store->log, VV_LOG_DEBUG, "the end of generation %u of %s was not written", old, lease->name);
    return 0;
}

/* Is the highest claim ours? If it is the one an advance has made half-way, the advance is finished now. Under the
 * lock. */
static int look_for_fence(struct vv_lease *lease, struct varve_error *error) {
    uint32_t highest = 0, own = atomic_load(&lease->generation);
    int rc = vv_claims_highest(lease->store, lease->name, &highest, error);
    if (rc < 0 || highest == own)
        return rc;
    if (lease->is_halfway && highest == own + 1) {
        if ((rc = is_own_claim(lease, highest, error)) < 0)
            return rc;
        if (rc == 1)
            return advance(lease, error);
    }
    atomic_store(&lease->fence, highest > own ? FENCE_TAKEN_OVER : FENCE_CLAIM_GONE);
    return 0;
}

static int fenced(const struct vv_lease *lease, struct varve_error *error) {
    uint32_t generation = atomic_load(&lease->generation);
    if (atomic_load(&lease->fence) == FENCE_CLAIM_GONE)
        return vv_error(error, VARVE_FENCED,
                        "claim %u of %s is gone: without it another session may use the name, so this one cannot go on",
                        generation, lease->name);
    return vv_error(error, VARVE_FENCED,
                    "generation %u of %s no longer has the highest claim: this session was taken for dead, and another "
                    "one goes on in its place; end this process",
                    generation, lease->name);
}

/* ---- the thread ---- */

/* One turn of the thread, under the lock. Trouble is logged and left to the next turn. */
static void heartbeat_turn(struct vv_lease *lease) {
    struct varve_error error = {0};
    uint64_t late = vv_clock_ns() - lease->renewed_ns;
    int rc = VV_FAULT("store.beat.before_renew");
    if (rc == 0)
        rc = look_for_fence(lease, &error);
    if (atomic_load(&lease->fence)) {
        fenced(lease, &error);
        vv_log(lease->store->log, VV_LOG_WARN, "%s", error.text);
        return;
    }
    int renewed = renew(lease, VV_HEARTBEAT_RUNNING, &lease->heartbeat.refers, &error);
    rc = renewed < 0 ? renewed : rc;
    if (rc < 0)
        vv_log(lease->store->log, VV_LOG_WARN, "heartbeat of %s, generation %u: %s", lease->name, lease->generation,
               error.text[0] ? error.text : varve_error_text(rc));
    else if (late > lease->claim.dead_seconds * SECOND)
        vv_log(lease->store->log, VV_LOG_WARN,
               "heartbeat of %s was renewed after %" PRIu64 " s; others may take a session for dead after %u s",
               lease->name, late / SECOND, lease->claim.dead_seconds);
}

static uint64_t next_turn(const struct vv_lease *lease) {
    return vv_clock_ns() + lease->claim.beat_seconds * SECOND;
}

static void call_listener(struct vv_lease *lease) {
    pthread_mutex_lock(&lease->listener_lock);
    if (lease->listener)
        lease->listener(lease->listener_arg);
    pthread_mutex_unlock(&lease->listener_lock);
}

void vv_lease_on_heartbeat(struct vv_lease *lease, void (*fn)(void *arg), void *arg) {
    pthread_mutex_lock(&lease->listener_lock);
    lease->listener = fn;
    lease->listener_arg = arg;
    pthread_mutex_unlock(&lease->listener_lock);
}

static void *heartbeat_main(void *arg) {
    struct vv_lease *lease = arg;
    pthread_mutex_lock(&lease->lock);
    uint64_t until = next_turn(lease);
    while (!lease->is_stopping && !atomic_load(&lease->fence)) {
        int rc = 0;
        while (!lease->is_stopping && rc != ETIMEDOUT)
            rc = vv_cond_wait_until(&lease->wake, &lease->lock, until);
        if (lease->is_stopping)
            break;
        heartbeat_turn(lease);
        /* counted from here: a slow listener takes nothing of the time until others give up */
        until = next_turn(lease);
        pthread_mutex_unlock(&lease->lock);
        call_listener(lease);
        pthread_mutex_lock(&lease->lock);
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
        rc = pthread_create(&lease->thread, NULL, heartbeat_main, lease);
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

static void read_program(char *out, size_t capacity) {
    FILE *file = fopen("/proc/self/comm", "re");
    if (!file || !fgets(out, (int)capacity, file))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (file)
        fclose(file);
}

static int lease_create(struct vv_store *store, const char *name, const struct vv_lease_options *options,
                        struct vv_lease **out, struct varve_error *error) {
    struct vv_lease *lease = vv_calloc(1, sizeof *lease);
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
    int rc = 0;
    if (options->session_id)
        memcpy(lease->claim.session_id, options->session_id, sizeof lease->claim.session_id);
    else
        rc = vv_random(lease->claim.session_id, sizeof lease->claim.session_id);
    if (rc < 0) {
        vv_free(lease);
        return vv_error_sys(error, rc, "cannot choose a session id");
    }
    memcpy(lease->heartbeat.session_id, lease->claim.session_id, sizeof lease->heartbeat.session_id);
    pthread_mutex_init(&lease->lock, NULL);
    pthread_mutex_init(&lease->listener_lock, NULL);
    vv_cond_init(&lease->wake);
    *out = lease;
    return 0;
}

/* Has another process of the session we take part in been faster? */
static int is_kept(const struct vv_lease *lease, const struct vv_lease_options *options, uint32_t highest,
                   struct varve_error *error) {
    if (!options->session_id || highest == 0)
        return 0;
    return vv_claim_is_of(lease->store, lease->name, highest, options->session_id, error);
}

/* A claim that the storage says is there, and shows nowhere: neither in a listing nor by its key. */
struct unseen {
    uint32_t generation;
    uint64_t since_ns;
};

/* Another session was faster, so its claim will be the highest at the next look. If it is not, waiting may help, for a
 * while. -EEXIST: look again. */
static int look_again(const struct vv_lease *lease, struct unseen *unseen, uint32_t generation,
                      struct varve_error *error) {
    uint64_t now = vv_clock_ns();
    if (unseen->generation != generation) {
        *unseen = (struct unseen){generation, now};
        vv_error_clear(error);
        return -EEXIST;
    }
    if (now - unseen->since_ns > UNSEEN_SECONDS * SECOND)
        return vv_error(error, -ESTALE,
                        "claim %u of %s cannot be looked at: this host sees an old state of the storage (wait a "
                        "minute, see docs/backends.md on mount options), or claim/%08x is no claim, such as a dead "
                        "link: remove it",
                        generation, lease->name, generation);
    vv_sleep_ms(UNSEEN_POLL_MS);
    vv_error_clear(error);
    return -EEXIST;
}

/* The generation above the highest, once the highest claim's owner is known to be dead. */
static int claim_next(struct vv_lease *lease, const struct vv_lease_options *options, struct varve_error *error) {
    uint64_t deadline = vv_clock_ns() + options->takeover_seconds * SECOND;
    struct unseen unseen = {0};
    for (;;) {
        uint32_t highest = 0;
        int rc = vv_claims_highest(lease->store, lease->name, &highest, error);
        if (rc == 0 && (rc = is_kept(lease, options, highest, error)) != 0)
            return rc;
        if (rc == 0 && highest > 0)
            rc = vv_watch(lease->store, lease->name, highest, lease->claim.dead_seconds, deadline, options, error);
        uint32_t base = highest > options->above ? highest : options->above;
        if (rc == 0 && base == UINT32_MAX)
            rc = vv_error(error, -EOVERFLOW, "%s has no generation left to claim", lease->name);
        if (rc == 0 && (rc = enter_generation(lease, base + 1, error)) < 0 && rc != -EEXIST) {
            end_generation(lease, base + 1);
            if (!options->session_id) /* else other processes go on with it */
                note_given_up(lease->claim.session_id);
        }
        if (rc == -EEXIST)
            rc = look_again(lease, &unseen, base + 1, error);
        if (rc != -EEXIST)
            return rc;
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
    if (rc != 0) {
        vv_lease_abandon(lease);
        return rc;
    }
    open_add(lease);
    vv_log(store->log, VV_LOG_DEBUG, "claimed generation %u of %s", lease->generation, name);
    *out = lease;
    return 0;
}

int vv_lease_end_above(struct vv_store *store, const char *name, uint32_t highest, struct varve_error *error) {
    const struct vv_lease_options options = {.ranks = 1, .beat_seconds = 1, .dead_seconds = 2};
    struct vv_lease *lease = NULL;
    if (highest == UINT32_MAX)
        return vv_error(error, -EOVERFLOW, "%s has no generation left to claim", name);
    int rc = lease_create(store, name, &options, &lease, error);
    if (rc < 0)
        return rc;
    rc = enter_generation(lease, highest + 1, error);
    if (rc == -EEXIST)
        rc = vv_error(error, VARVE_BUSY, "%s was taken by another session meanwhile", name);
    else if (rc == 0)
        rc = renew(lease, VV_HEARTBEAT_ENDED, &lease->heartbeat.refers, error);
    if (rc < 0 && rc != VARVE_BUSY)
        end_generation(lease, highest + 1);
    vv_lease_abandon(lease);
    return rc;
}

uint32_t vv_lease_generation(const struct vv_lease *lease) {
    return atomic_load(&lease->generation);
}

const uint8_t *vv_lease_session(const struct vv_lease *lease) {
    return lease->claim.session_id;
}

void vv_lease_refers(struct vv_lease *lease, struct vv_attempt *out) {
    pthread_mutex_lock(&lease->lock);
    *out = lease->heartbeat.refers;
    pthread_mutex_unlock(&lease->lock);
}

int vv_lease_check(struct vv_lease *lease, struct varve_error *error) {
    pthread_mutex_lock(&lease->lock);
    int rc = atomic_load(&lease->fence) ? 0 : look_for_fence(lease, error);
    pthread_mutex_unlock(&lease->lock);
    if (atomic_load(&lease->fence))
        return fenced(lease, error);
    return rc;
}

int vv_lease_advance(struct vv_lease *lease, struct varve_error *error) {
    uint32_t before = atomic_load(&lease->generation);
    int rc = vv_lease_check(lease, error);
    if (rc < 0 || atomic_load(&lease->generation) != before)
        return rc; /* it has finished an advance that was made half-way: that is the one */
    pthread_mutex_lock(&lease->lock);
    rc = advance(lease, error);
    pthread_mutex_unlock(&lease->lock);
    return rc == -EEXIST ? fenced(lease, error) : rc;
}

int vv_lease_refer(struct vv_lease *lease, const struct vv_attempt *attempt, struct varve_error *error) {
    int rc = VV_FAULT("store.beat.before_refer");
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot renew the heartbeat of %s", lease->name);
    pthread_mutex_lock(&lease->lock);
    rc = renew(lease, VV_HEARTBEAT_RUNNING, attempt, error);
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
        if (lease->is_halfway)
            end_generation(lease, atomic_load(&lease->generation) + 1);
        if (renew(lease, VV_HEARTBEAT_ENDED, &lease->heartbeat.refers, &error) < 0) {
            note_given_up(lease->claim.session_id); /* this process, at least, need not wait for it */
            vv_log(lease->store->log, VV_LOG_WARN, "the end of generation %u of %s was not written: %s",
                   lease->generation, lease->name, error.text);
        }
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
        pthread_mutex_destroy(&lease->listener_lock);
        vv_free(lease);
    }
}
