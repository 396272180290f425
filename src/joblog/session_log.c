/* What a session remembers for its log (session_log.h). The lines are made in session_log_lines.c. */
#include "joblog/session_log_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "lifecycle/job_log.h"

/* ---- a bound for any number of checkpoints ---- */

static void add_spread(struct vv_spread *to, const struct vv_spread *other, int is_first) {
    if (is_first)
        *to = *other;
    else
        vv_spread_add(to, other);
}

/* to is the earlier one. */
static void add_entry(struct vv_log_entry *to, const struct vv_log_entry *other) {
    int is_first = to->count == 0;
    for (unsigned i = 0; i < VV_TALLY_SUMS; i++)
        to->tally.sums[i] += other->tally.sums[i];
    for (unsigned i = 0; i < VV_LOG_TIMES; i++)
        to->seconds[i] += other->seconds[i];
    to->blocked_most = other->blocked_most > to->blocked_most ? other->blocked_most : to->blocked_most;
    to->durable_most = other->durable_most > to->durable_most ? other->durable_most : to->durable_most;
    if (other->count > 0) {
        add_spread(&to->tally.changed, &other->tally.changed, is_first);
        add_spread(&to->tally.took, &other->tally.took, is_first);
        add_spread(&to->tally.written, &other->tally.written, is_first);
        to->tally.written_median = other->tally.written_median;
        to->tally.writers = other->tally.writers;
        memcpy(to->codec, other->codec, sizeof to->codec);
    }
    to->count += other->count;
    to->failed += other->failed;
    to->freed_bytes += other->freed_bytes;
    to->freed_objects += other->freed_objects;
    to->version = other->version;
    to->generation = other->generation;
    to->time_ns = other->time_ns;
}

static unsigned requests_of(const struct vv_log_entry *entry) {
    return entry->count + entry->failed;
}

static void halve(struct vv_session_log *log) {
    size_t left = 0;
    for (size_t i = 0; i < log->old_count; i += 2, left++) {
        log->old[left] = log->old[i];
        if (i + 1 < log->old_count)
            add_entry(&log->old[left], &log->old[i + 1]);
    }
    log->old_count = left;
    log->stride *= 2;
}

/* The oldest of those that are kept one by one joins the others. */
static void retire(struct vv_session_log *log) {
    struct vv_log_entry *last = log->old_count ? &log->old[log->old_count - 1] : NULL;
    if (last && requests_of(last) < log->stride) {
        add_entry(last, &log->fresh[0]);
    } else {
        if (log->old_count == VV_LOG_OLD)
            halve(log);
        log->old[log->old_count++] = log->fresh[0];
    }
    log->fresh_count--;
    memmove(log->fresh, log->fresh + 1, log->fresh_count * sizeof *log->fresh);
}

static struct vv_log_entry *next_entry(struct vv_session_log *log) {
    if (log->fresh_count == VV_LOG_FRESH)
        retire(log);
    struct vv_log_entry *entry = &log->fresh[log->fresh_count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

/* Of more events than there is room for, the first ones and the newest stay. */
static struct vv_log_event *next_event(struct vv_session_log *log) {
    if (log->event_count == VV_LOG_EVENTS) {
        size_t first = VV_LOG_EVENTS / 4;
        memmove(&log->events[first], &log->events[first + 1], (VV_LOG_EVENTS - first - 1) * sizeof *log->events);
        log->event_count--;
        log->events_lost++;
    }
    struct vv_log_event *event = &log->events[log->event_count++];
    memset(event, 0, sizeof *event);
    event->time_ns = vv_clock_wall_ns();
    event->generation = log->job->lease ? vv_lease_generation(log->job->lease) : 0;
    return event;
}

static void note_codec(struct vv_session_log *log, const struct vv_log_entry *entry) {
    size_t at = 0;
    while (at < log->codec_count && strcmp(log->codecs[at].name, entry->codec) != 0)
        at++;
    if (at == VV_LOG_CODECS)
        at--;
    else if (at == log->codec_count)
        memcpy(log->codecs[log->codec_count++].name, entry->codec, sizeof entry->codec);
    log->codecs[at].checkpoints++;
    log->codecs[at].bytes_new += entry->tally.sums[VV_TALLY_NEW] + entry->tally.sums[VV_TALLY_REWRITTEN];
    log->codecs[at].bytes_stored += entry->tally.sums[VV_TALLY_STORED];
}

/* ---- writing ---- */

/* While the storage is full, what room there is belongs to checkpoints. */
static int is_worth_writing(const struct vv_session_log *log, const char *why) {
    int is_new = log->is_changed || (why && log->is_written);
    return is_new && log->generation != 0 && log->last_result != -ENOSPC && log->last_result != -EDQUOT;
}

static void thin(struct vv_session_log *log) {
    struct varve_error error = {0};
    if (log->is_written)
        return;
    if (vv_job_logs_thin(log->job->store, log->job->name, VV_JOB_LOGS_KEPT, NULL, NULL, &error) < 0)
        vv_log(&log->job->log, VV_LOG_DEBUG, "logs of older sessions could not be removed: %s", error.text);
}

/* The next heartbeat tries again. */
static void note_failure(struct vv_session_log *log) {
    log->failures++;
    pthread_mutex_lock(&log->lock);
    log->is_changed = 1;
    pthread_mutex_unlock(&log->lock);
}

/* why: the session ends, or NULL. */
static void write_log(struct vv_session_log *log, const char *why) {
    struct varve_error error = {0};
    struct vv_buf text;
    vv_buf_init(&text);
    pthread_mutex_lock(&log->writing);
    pthread_mutex_lock(&log->lock);
    int is_due = is_worth_writing(log, why);
    if (is_due) {
        vv_session_log_print(log, why, &text);
        log->is_changed = 0;
    }
    pthread_mutex_unlock(&log->lock);
    int rc = text.failed;
    if (rc == 0 && is_due)
        rc = vv_job_log_write(log->job->store, log->job->name, log->generation, (const char *)text.data, text.size,
                              &error);
    if (rc == 0 && is_due) {
        thin(log);
        log->is_written = 1;
    }
    if (rc < 0)
        note_failure(log);
    if (rc < 0 && log->failures == 1)
        vv_log(&log->job->log, VV_LOG_WARN,
               "the log for `varve report` could not be written; checkpoints are as good: %s",
               error.text[0] ? error.text : varve_error_text(rc));
    pthread_mutex_unlock(&log->writing);
    vv_buf_clear(&text);
}

static void on_heartbeat(void *arg) {
    write_log(arg, NULL);
}

/* A session may get its claim late. */
static void listen(struct vv_session_log *log) {
    if (log->generation != 0 || !log->job->lease)
        return;
    log->generation = vv_lease_generation(log->job->lease);
    vv_lease_on_heartbeat(log->job->lease, on_heartbeat, log);
}

/* ---- its life ---- */

struct vv_session_log *vv_session_log_open(struct vv_job *job) {
    struct vv_session_log *log = vv_calloc(1, sizeof *log);
    if (!log)
        return NULL;
    log->job = job;
    log->pid = getpid();
    log->stride = 1;
    log->opened_ns = vv_clock_wall_ns();
    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->writing, NULL);
    return log;
}

static void fill(struct vv_session_log *log, struct vv_log_entry *entry, const struct vv_logged *logged) {
    const struct vv_details *stats = logged->stats;
    const double seconds[VV_LOG_TIMES] = {[VV_LOG_DURABLE] = (double)logged->durable_ns * 1e-9,
                                          [VV_LOG_IDLE] = (double)logged->idle_ns * 1e-9,
                                          [VV_LOG_NAMED] = stats->seconds_named,
                                          [VV_LOG_EXCHANGE] = stats->seconds_exchange,
                                          [VV_LOG_FINE] = stats->seconds_fine,
                                          [VV_LOG_AUDIT] = stats->seconds_audit,
                                          [VV_LOG_ENCODE] = stats->seconds_encode,
                                          [VV_LOG_SAMPLED] = stats->seconds_sampled};
    entry->count = 1;
    entry->tally = *logged->tally;
    memcpy(entry->seconds, seconds, sizeof seconds);
    entry->durable_most = seconds[VV_LOG_DURABLE];
    memcpy(entry->codec, stats->codec, sizeof entry->codec);
    log->storage_speed = stats->storage_speed;
    snprintf(log->dedup, sizeof log->dedup, "%s", stats->dedup);
    note_codec(log, entry);
}

static void add_blocked(struct vv_session_log *log, struct vv_log_entry *entry) {
    entry->blocked_most = (double)log->blocked_ns * 1e-9;
    entry->seconds[VV_LOG_BLOCKED] = entry->blocked_most;
    entry->seconds[VV_LOG_WAITED] = (double)log->waited_ns * 1e-9;
    log->awaits_call = log->has_blocked = 0;
}

void vv_session_log_checkpoint(struct vv_session_log *log, const struct vv_logged *logged) {
    if (!log)
        return;
    listen(log);
    pthread_mutex_lock(&log->lock);
    struct vv_log_entry *entry = next_entry(log);
    entry->time_ns = vv_clock_wall_ns();
    entry->version = logged->version;
    entry->generation = log->job->lease ? vv_lease_generation(log->job->lease) : 0;
    if (logged->result == 0) {
        fill(log, entry, logged);
        log->checkpoints++;
    } else {
        struct vv_log_event *event = next_event(log);
        event->what = "failed";
        event->version = (int64_t)logged->version;
        snprintf(event->text, sizeof event->text, "%.199s",
                 logged->error->text[0] ? logged->error->text : varve_error_text(logged->result));
        entry->failed = 1;
        log->failed++;
    }
    entry->freed_bytes = log->job->freed.bytes - log->freed.bytes;
    entry->freed_objects = log->job->freed.objects - log->freed.objects;
    log->freed = log->job->freed;
    log->last_result = logged->result;
    log->awaits_call = 1;
    if (log->has_blocked && log->blocked_version == logged->version)
        add_blocked(log, entry);
    log->is_changed = 1;
    pthread_mutex_unlock(&log->lock);
}

void vv_session_log_call(struct vv_session_log *log, const struct vv_logged_call *call) {
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->blocked_ns = call->blocked_ns;
    log->waited_ns = call->waited_ns;
    log->blocked_version = call->version;
    log->has_blocked = 1;
    snprintf(log->capture, sizeof log->capture, "%s", call->capture);
    snprintf(log->tracker, sizeof log->tracker, "%s", call->tracker);
    log->memory = vv_memory_most();
    if (log->awaits_call && log->fresh[log->fresh_count - 1].version == call->version)
        add_blocked(log, &log->fresh[log->fresh_count - 1]);
    pthread_mutex_unlock(&log->lock);
}

void vv_session_log_restart(struct vv_session_log *log, const char *what, int64_t version, double seconds,
                            uint64_t bytes_read, int rc, const struct varve_error *error) {
    if (!log || rc == VARVE_NO_CHECKPOINT) /* a first run */
        return;
    listen(log);
    pthread_mutex_lock(&log->lock);
    struct vv_log_event *event = next_event(log);
    event->what = rc ? "restart failed" : what;
    event->version = rc ? -1 : version;
    event->seconds = seconds;
    event->bytes = bytes_read;
    if (rc)
        snprintf(event->text, sizeof event->text, "%.199s", error->text[0] ? error->text : varve_error_text(rc));
    log->restarts += rc == 0;
    log->is_changed = 1;
    pthread_mutex_unlock(&log->lock);
}

void vv_session_log_close(struct vv_session_log *log, const char *why) {
    if (!log)
        return;
    if (log->pid == getpid()) { /* a child has its parent's session, and must not speak for it */
        if (log->job->lease && log->generation != 0)
            vv_lease_on_heartbeat(log->job->lease, NULL, NULL);
        log->freed = log->job->freed;
        if (log->job->lease)
            write_log(log, why);
    }
    pthread_mutex_destroy(&log->lock);
    pthread_mutex_destroy(&log->writing);
    vv_free(log);
}
