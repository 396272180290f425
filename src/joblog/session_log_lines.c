/* The lines of a session's log: JSON objects without others in them (docs/format.md 5). */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "format/job_log_object.h"
#include "joblog/session_log_private.h"
#include "lifecycle/lifecycle.h"

static void put(struct vv_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct vv_buf *out, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length > 0)
        vv_buf_append(out, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static void put_text(struct vv_buf *out, const char *key, const char *text) {
    put(out, ",\"%s\":\"", key);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            put(out, "\\%c", c);
        else if (c < 32 || c == 127)
            put(out, "\\u%04x", c);
        else
            vv_buf_append(out, text, 1);
    }
    put(out, "\"");
}

static void put_number(struct vv_buf *out, const char *key, uint64_t value) {
    put(out, ",\"%s\":%" PRIu64, key, value);
}

/* Without %f, which prints a comma in some languages. */
static void put_seconds(struct vv_buf *out, const char *key, double seconds) {
    int64_t us = seconds > 0 && seconds < 1e12 ? (int64_t)(seconds * 1e6 + 0.5) : 0;
    put(out, ",\"%s\":%" PRId64 ".%06" PRId64, key, us / 1000000, us % 1000000);
}

static void begin_line(struct vv_buf *out, const char *type) {
    put(out, "{\"type\":\"%s\"", type);
}

static void end_line(struct vv_buf *out) {
    put(out, "}\n");
}

static void put_job(const struct vv_session_log *log, struct vv_buf *out) {
    struct vv_claim self = {0};
    vv_process_self(&self);
    begin_line(out, "job");
    put_text(out, "program", program_invocation_short_name);
    put_text(out, "host", self.host);
    put_number(out, "pid", (uint64_t)log->pid);
    put_number(out, "generation", log->generation);
    put_number(out, "ranks", log->job->comm->ranks);
    put_number(out, "opened", log->opened_ns);
    put_number(out, "written", vv_clock_wall_ns());
    put_number(out, "checkpoints", log->checkpoints);
    put_number(out, "failed", log->failed);
    put_number(out, "restarts", log->restarts);
    put_number(out, "events_lost", log->events_lost);
    put_number(out, "freed_bytes", log->freed.bytes);
    put_number(out, "freed_objects", log->freed.objects);
    put_number(out, "bytes_memory", log->memory);
    put(out, ",\"storage_speed\":%.0f", log->storage_speed);
    put_text(out, "capture", log->capture);
    put_text(out, "tracker", log->tracker);
    put_text(out, "dedup", log->dedup);
    end_line(out);
}

static void put_events(const struct vv_session_log *log, struct vv_buf *out) {
    for (size_t i = 0; i < log->event_count; i++) {
        const struct vv_log_event *event = &log->events[i];
        begin_line(out, "event");
        put_text(out, "what", event->what);
        put_number(out, "time", event->time_ns);
        put(out, ",\"version\":%" PRId64, event->version);
        put_number(out, "generation", event->generation);
        put_seconds(out, "seconds", event->seconds);
        put_number(out, "bytes", event->bytes);
        put_text(out, "text", event->text);
        end_line(out);
    }
}

static void put_codecs(const struct vv_session_log *log, struct vv_buf *out) {
    for (size_t i = 0; i < log->codec_count; i++) {
        begin_line(out, "codec");
        put_text(out, "codec", log->codecs[i].name);
        put_number(out, "checkpoints", log->codecs[i].checkpoints);
        put_number(out, "bytes_new", log->codecs[i].bytes_new);
        put_number(out, "bytes_stored", log->codecs[i].bytes_stored);
        end_line(out);
    }
}

/* The seconds of a rank are counted in nanoseconds. */
static void put_balance(const struct vv_tally *tally, struct vv_buf *out) {
    put_number(out, "changed_least", tally->changed.least);
    put_number(out, "changed_most", tally->changed.most);
    put_number(out, "changed_rank", tally->changed.most_rank);
    put_seconds(out, "took_least", (double)tally->took.least * 1e-9);
    put_seconds(out, "took_sum", (double)tally->took.sum * 1e-9);
    put_seconds(out, "took_most", (double)tally->took.most * 1e-9);
    put_number(out, "took_rank", tally->took.most_rank);
    put_number(out, "written_least", tally->written.least);
    put_number(out, "written_median", tally->written_median);
    put_number(out, "written_most", tally->written.most);
    put_number(out, "written_rank", tally->written.most_rank);
    put_number(out, "writers", tally->writers);
}

static void put_entry(const struct vv_session_log *log, const struct vv_log_entry *entry, struct vv_buf *out) {
    static const char *const bytes[VV_TALLY_SUMS] = {"bytes_protected", "bytes_changed",   "bytes_zero",
                                                     "bytes_known",     "bytes_elsewhere", "bytes_new",
                                                     "bytes_rewritten", "bytes_stored",    "bytes_metadata"};
    static const char *const times[VV_LOG_TIMES] = {
        "seconds_blocked",  "seconds_waited", "seconds_durable", "seconds_idle",   "seconds_named",
        "seconds_exchange", "seconds_fine",   "seconds_audit",   "seconds_encode", "seconds_sampled"};
    begin_line(out, "checkpoint");
    put_number(out, "version", entry->version);
    put_number(out, "generation", entry->generation);
    put_number(out, "time", entry->time_ns);
    put_number(out, "count", entry->count);
    put_number(out, "failed", entry->failed);
    for (unsigned i = 0; i < VV_TALLY_SUMS; i++)
        put_number(out, bytes[i], entry->tally.sums[i]);
    for (unsigned i = 0; i < VV_LOG_TIMES; i++)
        if (entry->seconds[i] > 0)
            put_seconds(out, times[i], entry->seconds[i]);
    put_seconds(out, "blocked_most", entry->blocked_most);
    put_seconds(out, "durable_most", entry->durable_most);
    if (entry->freed_objects) {
        put_number(out, "freed_bytes", entry->freed_bytes);
        put_number(out, "freed_objects", entry->freed_objects);
    }
    if (entry->count && log->job->comm->ranks > 1)
        put_balance(&entry->tally, out);
    put_text(out, "codec", entry->codec);
    end_line(out);
}

/* So many lines of so many bytes fit. Should they not, the log ends early, after a whole line. */
void vv_session_log_print(const struct vv_session_log *log, const char *why, struct vv_buf *out) {
    put_job(log, out);
    put_codecs(log, out);
    put_events(log, out);
    for (size_t i = 0; i < log->old_count + log->fresh_count; i++) {
        size_t before = out->size;
        put_entry(log, i < log->old_count ? &log->old[i] : &log->fresh[i - log->old_count], out);
        if (out->size > VV_JOB_LOG_MAX - VV_LOG_TEXT) {
            out->size = before;
            break;
        }
    }
    if (why) {
        begin_line(out, "end");
        put_number(out, "time", vv_clock_wall_ns());
        put_text(out, "why", why);
        end_line(out);
    }
}
