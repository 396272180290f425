/* The session's own thread: it writes what was captured while the program goes on, and looks now and then at the order
 * in which pages are written when it has nothing else to do.
 *
 * A group of one commits here, and one whose threads may all communicate. Elsewhere ranks may talk to each other only
 * in the thread that makes a collective call: then the commit waits for the next such call (test, wait, checkpoint,
 * restart, close). If the job dies before, all parts are stored, and the next life adopts them.
 *
 * Where the commit is ours, whoever asks is told as soon as the record is durable. The upkeep that follows (heartbeat,
 * forget, prune) goes on behind, and the next call that begins, chooses or ends anything waits for it. Nodes with a
 * storage each agree on what they forget, so there everybody waits for the upkeep. */
#include <errno.h>
#include <signal.h>

#include "base/alloc.h"
#include "memory/signals.h"
#include "session/session_private.h"

enum state {
    IDLE,
    BUSY, /* the caller's thread has the capture to itself */
    FLYING,
    WRITTEN
};

struct vv_background_thread {
    struct vv_session *session;
    pthread_t thread;
    pthread_mutex_t lock; /* the state, the request's outcome, and the capture while nothing is in flight */
    pthread_cond_t changed;
    enum state state;
    int is_closing, has_thread;
    sigset_t signals;   /* of the thread that has the lock by vv_background_lock, as they were before */
    unsigned sample_ms; /* when to look at the written pages again; 0: not in this epoch */
};

/* With the lock: wait for something to do, and sample in between. */
static void rest(struct vv_background_thread *own) {
    if (own->sample_ms == 0) {
        pthread_cond_wait(&own->changed, &own->lock);
        return;
    }
    int rc = vv_cond_wait_until(&own->changed, &own->lock, vv_clock_ns() + own->sample_ms * UINT64_C(1000000));
    if (rc == ETIMEDOUT && own->state == IDLE)
        own->sample_ms = vv_capture_sample(own->session->memory.capture);
}

/* Does our own thread commit, too? */
static int is_committed_behind(const struct vv_session *session) {
    return session->job.comm->ranks == 1 || session->job.caller_comm;
}

static void *fly(void *arg) {
    struct vv_background_thread *own = arg;
    struct vv_session *session = own->session;
    vv_thread_place(&session->outputs.where);
    pthread_mutex_lock(&own->lock);
    while (!own->is_closing) {
        if (own->state != FLYING) {
            rest(own);
            continue;
        }
        pthread_mutex_unlock(&own->lock);
        vv_save_write(session->save);
        if (is_committed_behind(session))
            vv_request_finish(session);
        pthread_mutex_lock(&own->lock);
        own->state = WRITTEN;
        pthread_cond_broadcast(&own->changed);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

struct varve_comm *vv_comm_of_caller(const struct vv_session *session) {
    return session->background.is_apart && session->job.caller_comm ? session->job.caller_comm : session->job.comm;
}

int vv_background_open(struct vv_session *session, struct varve_error *error) {
    struct vv_background_thread *own = vv_calloc(1, sizeof *own);
    if (!own)
        return vv_error(error, -ENOMEM, "no memory for a session");
    own->session = session;
    pthread_mutex_init(&own->lock, NULL);
    vv_cond_init(&own->changed);
    if (vv_is_in_background(&session->memory)) {
        own->has_thread = 1;
        int rc = vv_thread_start(&own->thread, fly, own);
        if (rc) {
            pthread_mutex_destroy(&own->lock);
            pthread_cond_destroy(&own->changed);
            vv_free(own);
            return vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc));
        }
    }
    session->background.thread = own;
    session->memory.lock = &own->lock;
    return 0;
}

void vv_background_close(struct vv_session *session) {
    struct vv_background_thread *own = session->background.thread;
    if (!own)
        return;
    if (session->job.comm->ranks == 1)
        vv_background_land(session);
    if (own->has_thread) {
        pthread_mutex_lock(&own->lock);
        while (own->state == FLYING)
            pthread_cond_wait(&own->changed, &own->lock);
        own->is_closing = 1;
        pthread_cond_broadcast(&own->changed);
        pthread_mutex_unlock(&own->lock);
        pthread_join(own->thread, NULL);
    }
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->changed);
    vv_free(own);
    session->background.thread = NULL;
    session->memory.lock = NULL;
}

void vv_background_start(struct vv_session *session) {
    struct vv_background_thread *own = session->background.thread;
    session->background.is_flying = session->background.is_apart = 1;
    vv_background_lock(session);
    own->state = FLYING;
    pthread_cond_broadcast(&own->changed);
    vv_background_unlock(session);
}

static void land(struct vv_session *session) {
    struct vv_background_thread *own = session->background.thread;
    if (!session->background.is_flying)
        return;
    pthread_mutex_lock(&own->lock);
    while (own->state == FLYING)
        pthread_cond_wait(&own->changed, &own->lock);
    pthread_mutex_unlock(&own->lock);
    if (!is_committed_behind(session)) {
        session->request.idle_ns = vv_clock_ns() - session->save->outcome.sealed_ns;
        vv_request_finish(session);
    }
    session->background.is_flying = 0;
    session->background.has_landed = 1;
    vv_background_rest(session);
}

void vv_background_land(struct vv_session *session) {
    land(session);
    session->background.is_apart = 0;
}

const struct vv_save *vv_background_written(const struct vv_session *session) {
    return session->background.thread->state == WRITTEN ? session->save : NULL;
}

/* With the lock. The same on all ranks once the request is done: what it hangs on is theirs together. Everybody waits
 * for the upkeep of a session's first checkpoint: jobs that make one and end without closing would never forget any. */
static int is_told_early(const struct vv_session *session) {
    int is_upkeep_of_one = session->job.comm->ranks == 1 || (session->job.caller_comm && !vv_is_local(&session->job));
    return is_upkeep_of_one && session->background.has_landed && session->request.is_done &&
           session->request.result == 0;
}

void vv_background_tell(struct vv_session *session) {
    pthread_cond_broadcast(&session->background.thread->changed);
}

/* Some ranks land here and others later, if they are told early: until all have, none of them changes the group it
 * talks in. */
void vv_background_wait(struct vv_session *session) {
    struct vv_background_thread *own = session->background.thread;
    if (!session->background.is_flying)
        return;
    pthread_mutex_lock(&own->lock);
    while (own->state == FLYING && !is_told_early(session))
        pthread_cond_wait(&own->changed, &own->lock);
    int has_landed = own->state != FLYING, stays_apart = is_told_early(session);
    pthread_mutex_unlock(&own->lock);
    if (has_landed)
        land(session);
    session->background.is_apart = stays_apart;
}

/* What is not in flight any more may still be guarded. No signals: a handler of the program's that writes a held page
 * would wait for the session's thread, which may want the lock to begin. */
static int try_to_release(struct vv_session *session, size_t *next) {
    struct vv_background_thread *own = session->background.thread;
    sigset_t before;
    vv_signals_block(&before);
    pthread_mutex_lock(&own->lock);
    int is_free = own->state != FLYING || vv_capture_is_free(session->memory.capture, next);
    if (is_free && own->state != BUSY)
        vv_capture_unguard(session->memory.capture);
    pthread_mutex_unlock(&own->lock);
    vv_signals_restore(&before);
    return is_free;
}

void vv_background_release(struct vv_session *session) {
    size_t next = 0;
    while (!try_to_release(session, &next))
        vv_sleep_ms(1);
}

void vv_background_occupy(struct vv_session *session) {
    pthread_mutex_lock(&session->background.thread->lock);
    session->background.thread->state = BUSY;
    pthread_mutex_unlock(&session->background.thread->lock);
}

void vv_background_rest(struct vv_session *session) {
    pthread_mutex_lock(&session->background.thread->lock);
    session->background.thread->state = IDLE;
    session->background.thread->sample_ms = 1;
    pthread_cond_broadcast(&session->background.thread->changed);
    pthread_mutex_unlock(&session->background.thread->lock);
}

int vv_background_test(struct vv_session *session) {
    struct vv_background_thread *own = session->background.thread;
    if (!session->background.is_apart)
        return 1;
    vv_background_lock(session);
    uint64_t is_written = own->state != FLYING || is_told_early(session);
    vv_background_unlock(session);
    struct varve_comm *comm = vv_comm_of_caller(session);
    int rc = comm->ops->reduce_min(comm, &is_written, 1);
    return rc ? rc : (int)is_written;
}

/* No signals, as in try_to_release. */
void vv_background_lock(struct vv_session *session) {
    sigset_t before;
    vv_signals_block(&before);
    pthread_mutex_lock(&session->background.thread->lock);
    session->background.thread->signals = before;
}

void vv_background_unlock(struct vv_session *session) {
    sigset_t before = session->background.thread->signals;
    pthread_mutex_unlock(&session->background.thread->lock);
    vv_signals_restore(&before);
}

void vv_background_sample(struct vv_session *session) {
    session->background.thread->sample_ms = 1;
    pthread_cond_broadcast(&session->background.thread->changed);
}
