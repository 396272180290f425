/* The session's own thread: it writes what was captured while the program goes on, and looks now and then at the order
 * in which pages are written when it has nothing else to do.
 *
 * A group of one commits here, and one whose threads may all communicate. Elsewhere ranks may talk to each other only
 * in the thread that makes a collective call: then the commit waits for the next such call (test, wait, checkpoint,
 * restart, close). If the job dies before, all parts are stored, and the next life adopts them.
 *
 * In a group of one, whoever asks is told as soon as the record is durable. The upkeep that follows (beat, forget,
 * prune) goes on behind, and the next call that begins, chooses or ends anything waits for it. */
#include <errno.h>
#include <time.h>

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
    unsigned sample_ms; /* when to look at the written pages again; 0: not in this epoch */
};

static void *open_lock(struct vv_background_thread *flight) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&flight->lock, NULL);
    pthread_cond_init(&flight->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return flight;
}

/* With the lock: wait for something to do, and sample in between. */
static void rest(struct vv_background_thread *flight) {
    struct timespec until;
    if (flight->sample_ms == 0) {
        pthread_cond_wait(&flight->changed, &flight->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += flight->sample_ms / 1000;
    until.tv_nsec += (long)(flight->sample_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    int rc = pthread_cond_timedwait(&flight->changed, &flight->lock, &until);
    if (rc == ETIMEDOUT && flight->state == IDLE)
        flight->sample_ms = vv_capture_sample(flight->session->memory.capture);
}

/* Does our own thread commit, too? */
static int is_committed_behind(const struct vv_session *session) {
    return session->job.comm->ranks == 1 || session->job.aside;
}

static void *fly(void *arg) {
    struct vv_background_thread *flight = arg;
    struct vv_session *session = flight->session;
    vv_thread_place(&session->outputs.where);
    pthread_mutex_lock(&flight->lock);
    while (!flight->is_closing) {
        if (flight->state != FLYING) {
            rest(flight);
            continue;
        }
        pthread_mutex_unlock(&flight->lock);
        vv_save_write(session->save);
        if (is_committed_behind(session))
            vv_request_finish(session);
        pthread_mutex_lock(&flight->lock);
        flight->state = WRITTEN;
        pthread_cond_broadcast(&flight->changed);
    }
    pthread_mutex_unlock(&flight->lock);
    return NULL;
}

struct varve_comm *vv_comm_of_caller(const struct vv_session *session) {
    return session->background.is_flying && session->job.aside ? session->job.aside : session->job.comm;
}

int vv_flight_open(struct vv_session *session, struct varve_error *error) {
    struct vv_background_thread *flight = vv_calloc(1, sizeof *flight);
    if (!flight)
        return vv_error(error, -ENOMEM, "no memory for a session");
    flight->session = session;
    open_lock(flight);
    if (vv_is_in_background(&session->memory)) {
        flight->has_thread = 1;
        int rc = vv_thread_start(&flight->thread, fly, flight);
        if (rc) {
            pthread_mutex_destroy(&flight->lock);
            pthread_cond_destroy(&flight->changed);
            vv_free(flight);
            return vv_error(error, rc, "the session's threads could not be started: %s", varve_error_text(rc));
        }
    }
    session->background.thread = flight;
    session->memory.lock = &flight->lock;
    return 0;
}

void vv_flight_close(struct vv_session *session) {
    struct vv_background_thread *flight = session->background.thread;
    if (!flight)
        return;
    if (session->job.comm->ranks == 1)
        vv_flight_land(session);
    if (flight->has_thread) {
        pthread_mutex_lock(&flight->lock);
        while (flight->state == FLYING)
            pthread_cond_wait(&flight->changed, &flight->lock);
        flight->is_closing = 1;
        pthread_cond_broadcast(&flight->changed);
        pthread_mutex_unlock(&flight->lock);
        pthread_join(flight->thread, NULL);
    }
    pthread_mutex_destroy(&flight->lock);
    pthread_cond_destroy(&flight->changed);
    vv_free(flight);
    session->background.thread = NULL;
}

void vv_flight_start(struct vv_session *session) {
    struct vv_background_thread *flight = session->background.thread;
    session->background.is_flying = 1;
    pthread_mutex_lock(&flight->lock);
    flight->state = FLYING;
    pthread_cond_broadcast(&flight->changed);
    pthread_mutex_unlock(&flight->lock);
}

void vv_flight_land(struct vv_session *session) {
    struct vv_background_thread *flight = session->background.thread;
    if (!session->background.is_flying)
        return;
    pthread_mutex_lock(&flight->lock);
    while (flight->state == FLYING)
        pthread_cond_wait(&flight->changed, &flight->lock);
    pthread_mutex_unlock(&flight->lock);
    if (!is_committed_behind(session))
        vv_request_finish(session);
    session->background.is_flying = 0;
    session->background.has_landed = 1;
    vv_flight_rest(session);
}

/* With the lock. Ranks stay together: there everybody waits for the upkeep, which is collective, too. So does the first
 * checkpoint of a session: jobs that make one and end without closing would never forget any. */
static int is_told_early(const struct vv_session *session) {
    return session->job.comm->ranks == 1 && session->background.has_landed && session->request.is_done &&
           session->request.result == 0;
}

void vv_flight_tell(struct vv_session *session) {
    pthread_cond_broadcast(&session->background.thread->changed);
}

void vv_flight_wait(struct vv_session *session) {
    struct vv_background_thread *flight = session->background.thread;
    if (!session->background.is_flying)
        return;
    pthread_mutex_lock(&flight->lock);
    while (flight->state == FLYING && !is_told_early(session))
        pthread_cond_wait(&flight->changed, &flight->lock);
    int has_landed = flight->state != FLYING;
    pthread_mutex_unlock(&flight->lock);
    if (has_landed)
        vv_flight_land(session);
}

/* What is not in flight any more may still be guarded. No signals: a handler of the program's that writes a held page
 * would wait for the session's thread, which may want the lock to begin. */
static int try_to_release(struct vv_session *session, size_t *next) {
    struct vv_background_thread *flight = session->background.thread;
    sigset_t before;
    vv_signals_block(&before);
    pthread_mutex_lock(&flight->lock);
    int is_free = flight->state != FLYING || vv_capture_is_free(session->memory.capture, next);
    if (is_free && flight->state != BUSY)
        vv_capture_unguard(session->memory.capture);
    pthread_mutex_unlock(&flight->lock);
    vv_signals_restore(&before);
    return is_free;
}

void vv_flight_release(struct vv_session *session) {
    size_t next = 0;
    while (!try_to_release(session, &next))
        vv_sleep_ms(1);
}

void vv_flight_occupy(struct vv_session *session) {
    pthread_mutex_lock(&session->background.thread->lock);
    session->background.thread->state = BUSY;
    pthread_mutex_unlock(&session->background.thread->lock);
}

void vv_flight_rest(struct vv_session *session) {
    pthread_mutex_lock(&session->background.thread->lock);
    session->background.thread->state = IDLE;
    session->background.thread->sample_ms = 1;
    pthread_cond_broadcast(&session->background.thread->changed);
    pthread_mutex_unlock(&session->background.thread->lock);
}

int vv_flight_test(struct vv_session *session) {
    struct vv_background_thread *flight = session->background.thread;
    if (!session->background.is_flying)
        return 1;
    pthread_mutex_lock(&flight->lock);
    uint64_t is_written = flight->state == WRITTEN || is_told_early(session);
    pthread_mutex_unlock(&flight->lock);
    struct varve_comm *comm = vv_comm_of_caller(session);
    int rc = comm->ops->least(comm, &is_written, 1);
    return rc ? rc : (int)is_written;
}

void vv_flight_lock(struct vv_session *session) {
    pthread_mutex_lock(&session->background.thread->lock);
}

void vv_flight_unlock(struct vv_session *session) {
    pthread_mutex_unlock(&session->background.thread->lock);
}

void vv_flight_sample(struct vv_session *session) {
    session->background.thread->sample_ms = 1;
    pthread_cond_broadcast(&session->background.thread->changed);
}
