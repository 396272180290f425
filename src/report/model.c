/* From lines to numbers. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/error.h"
#include "report/report.h"

const char *const report_bytes_keys[REPORT_BYTES] = {
    "bytes_protected", "bytes_changed",   "bytes_zero",   "bytes_known",    "bytes_elsewhere",
    "bytes_new",       "bytes_rewritten", "bytes_stored", "bytes_metadata", "freed_bytes"};
const char *const report_seconds_keys[REPORT_SECONDS] = {
    "seconds_blocked",  "seconds_waited", "seconds_durable", "seconds_idle",   "seconds_named",
    "seconds_exchange", "seconds_fine",   "seconds_audit",   "seconds_encode", "seconds_sampled"};

/* A line may be of any type: its members are taken into all, and the type says which one counts. */
struct line {
    char type[REPORT_WORD];
    struct report_life life;
    struct report_point point;
    struct report_event event;
    struct report_codec codec;
    uint64_t freed_objects;
};

static void copy_text(char *out, size_t capacity, const char *text) {
    size_t length = strnlen(text, capacity - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

struct place {
    const char *key;
    void *at;
    enum { WHOLE, SIGNED, REAL, WORD, TEXT } kind;
};

static void put(const struct place *place, const struct report_member *member) {
    if (member->is_text != (place->kind == WORD || place->kind == TEXT))
        return;
    switch (place->kind) {
    case WHOLE:
        *(uint64_t *)place->at = member->whole;
        break;
    case SIGNED:
        *(int64_t *)place->at = member->number < 0 ? -1 : (int64_t)(member->whole & INT64_MAX);
        break;
    case REAL:
        *(double *)place->at = member->number > 0 ? fmin(member->number, REPORT_REAL) : 0;
        break;
    case WORD:
        copy_text(place->at, REPORT_WORD, member->text);
        break;
    case TEXT:
        copy_text(place->at, REPORT_TEXT, member->text);
        break;
    }
}

static void take_sums(struct report_point *point, const struct report_member *member) {
    for (unsigned i = 0; i < REPORT_BYTES; i++)
        if (!member->is_text && strcmp(member->key, report_bytes_keys[i]) == 0)
            point->bytes[i] = member->whole;
    for (unsigned i = 0; i < REPORT_SECONDS; i++)
        if (!member->is_text && strcmp(member->key, report_seconds_keys[i]) == 0)
            put(&(struct place){NULL, &point->seconds[i], REAL}, member);
}

/* Several lines may have a member of the same name. */
static void take_member(void *arg, const struct report_member *member) {
    struct line *line = arg;
    struct report_life *life = &line->life;
    struct report_point *point = &line->point;
    struct report_event *event = &line->event;
    struct report_codec *codec = &line->codec;
    const struct place places[] = {
        {"type", line->type, WORD},
        {"program", life->program, WORD},
        {"host", life->host, TEXT},
        {"pid", &life->pid, WHOLE},
        {"generation", &life->generation, WHOLE},
        {"ranks", &life->ranks, WHOLE},
        {"opened", &life->opened, WHOLE},
        {"written", &life->written, WHOLE},
        {"checkpoints", &life->checkpoints, WHOLE},
        {"failed", &life->failed, WHOLE},
        {"restarts", &life->restarts, WHOLE},
        {"freed_bytes", &life->freed_bytes, WHOLE},
        {"freed_objects", &life->freed_objects, WHOLE},
        {"events_lost", &life->events_lost, WHOLE},
        {"bytes_memory", &life->bytes_memory, WHOLE},
        {"storage_speed", &life->storage_speed, REAL},
        {"capture", life->capture, WORD},
        {"tracker", life->tracker, WORD},
        {"dedup", life->dedup, WORD},
        {"time", &life->ended, WHOLE},
        {"why", life->why, TEXT},
        {"version", &point->version, WHOLE},
        {"generation", &point->generation, WHOLE},
        {"time", &point->time, WHOLE},
        {"count", &point->count, WHOLE},
        {"failed", &point->failed, WHOLE},
        {"blocked_most", &point->blocked_most, REAL},
        {"durable_most", &point->durable_most, REAL},
        {"took_least", &point->took.least, REAL},
        {"took_sum", &point->took_sum, REAL},
        {"took_most", &point->took.most, REAL},
        {"took_rank", &point->took.rank, WHOLE},
        {"written_least", &point->written.least, REAL},
        {"written_median", &point->written.middle, REAL},
        {"written_most", &point->written.most, REAL},
        {"written_rank", &point->written.rank, WHOLE},
        {"writers", &point->writers, WHOLE},
        {"codec", point->codec, WORD},
        {"what", event->what, WORD},
        {"text", event->text, TEXT},
        {"time", &event->time, WHOLE},
        {"version", &event->version, SIGNED},
        {"generation", &event->generation, WHOLE},
        {"seconds", &event->seconds, REAL},
        {"bytes", &event->bytes, WHOLE},
        {"codec", codec->name, WORD},
        {"checkpoints", &codec->checkpoints, WHOLE},
        {"bytes_new", &codec->bytes_new, WHOLE},
        {"bytes_stored", &codec->bytes_stored, WHOLE},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(places[i].key, member->key) == 0)
            put(&places[i], member);
    take_sums(point, member);
}

/* ---- growing ---- */

static void *grow(void *list, size_t count, size_t *capacity, size_t most, size_t size) {
    if (count < *capacity)
        return list;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    void *larger = count >= most ? NULL : realloc(list, wanted * size);
    if (larger)
        *capacity = wanted;
    return larger;
}

static int add_point(struct report *report, const struct report_point *point) {
    struct report_point *list =
        grow(report->points, report->point_count, &report->point_capacity, REPORT_POINTS, sizeof *list);
    if (!list)
        return report->point_count >= REPORT_POINTS ? 0 : -ENOMEM;
    report->points = list;
    report->points[report->point_count] = *point;
    report->points[report->point_count++].life = report->life_count - 1;
    return 0;
}

static int add_event(struct report *report, const struct report_event *event) {
    struct report_event *list =
        grow(report->events, report->event_count, &report->event_capacity, REPORT_EVENTS, sizeof *list);
    if (!list)
        return report->event_count >= REPORT_EVENTS ? 0 : -ENOMEM;
    report->events = list;
    report->events[report->event_count] = *event;
    report->events[report->event_count++].life = report->life_count - 1;
    return 0;
}

static void add_codec(struct report *report, const struct report_codec *codec) {
    size_t at = 0;
    while (at < report->codec_count && strcmp(report->codecs[at].name, codec->name) != 0)
        at++;
    if (at == REPORT_CODECS)
        at--;
    if (at == report->codec_count)
        report->codecs[report->codec_count++] = (struct report_codec){0};
    copy_text(report->codecs[at].name, REPORT_WORD, codec->name);
    report->codecs[at].checkpoints += codec->checkpoints;
    report->codecs[at].bytes_new += codec->bytes_new;
    report->codecs[at].bytes_stored += codec->bytes_stored;
}

/* ---- a log ---- */

static int add_line(struct report *report, const char *text, size_t length) {
    struct line line = {.event.version = -1};
    struct report_life *life = &report->lives[report->life_count - 1];
    if (report_line(text, length, take_member, &line) < 0 || !line.type[0]) {
        report->lines_skipped++;
        return 0;
    }
    if (strcmp(line.type, "job") == 0) {
        uint64_t generation = life->generation;
        *life = line.life;
        life->generation = generation;
        life->ended = 0;
    } else if (strcmp(line.type, "end") == 0) {
        life->ended = line.life.ended;
        copy_text(life->why, sizeof life->why, line.life.why);
    } else if (strcmp(line.type, "codec") == 0) {
        add_codec(report, &line.codec);
    } else if (strcmp(line.type, "event") == 0) {
        return add_event(report, &line.event);
    } else if (strcmp(line.type, "checkpoint") == 0 && (line.point.count || line.point.failed)) {
        return add_point(report, &line.point);
    }
    return 0;
}

static struct report_life *next_life(struct report *report, uint64_t generation) {
    if (report->life_count == REPORT_LIVES)
        return NULL;
    struct report_life *life = &report->lives[report->life_count++];
    *life = (struct report_life){.generation = generation};
    return life;
}

int report_add(struct report *report, uint64_t generation, const char *text, size_t length) {
    const char *end = text + length;
    int rc = 0;
    if (!next_life(report, generation))
        return 0;
    while (text < end && rc == 0) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) { /* cut */
            report->lines_skipped++;
            break;
        }
        rc = add_line(report, text, (size_t)(stop - text));
        text = stop + 1;
    }
    return rc;
}

/* The newest come first, and are added last. */
struct loading {
    struct held {
        uint64_t generation;
        char *text; /* NULL: it cannot be read */
        size_t length;
        char reason[REPORT_TEXT];
    } list[REPORT_LIVES];
    size_t count, most;
};

static int take_log(void *arg, const struct varve_job_log *log) {
    struct loading *loading = arg;
    struct held *held = &loading->list[loading->count];
    *held = (struct held){.generation = log->generation, .length = log->length};
    if (log->text && !(held->text = malloc(log->length + 1)))
        return -ENOMEM;
    if (log->text)
        memcpy(held->text, log->text, log->length);
    copy_text(held->reason, sizeof held->reason, log->reason ? log->reason : "it cannot be read");
    return ++loading->count == loading->most;
}

static int add_log(struct report *report, const struct held *held) {
    if (held->text)
        return report_add(report, held->generation, held->text, held->length);
    struct report_life *life = next_life(report, held->generation);
    if (life)
        copy_text(life->damage, sizeof life->damage, held->reason);
    return 0;
}

static int load_logs(struct report *report, struct varve_store *store, size_t most, struct varve_error *error) {
    struct loading *loading = calloc(1, sizeof *loading);
    if (!loading)
        return -ENOMEM;
    loading->most = most < REPORT_LIVES ? most : REPORT_LIVES;
    int rc = varve_store_logs(store, report->name, take_log, loading, error);
    rc = rc > 0 ? 0 : rc;
    for (size_t i = loading->count; i > 0; i--) {
        rc = rc ? rc : add_log(report, &loading->list[i - 1]);
        free(loading->list[i - 1].text);
    }
    free(loading);
    return rc;
}

/* A session may have claimed more generations since it began its log. Another one has not logged anything yet. */
static int is_of_holder(const struct report_life *life, const struct varve_holder *holder) {
    if (holder->generation <= life->generation)
        return holder->generation == life->generation;
    return holder->pid == life->pid && strcmp(holder->host, life->host) == 0;
}

static void look_at_holder(struct report *report, struct varve_store *store) {
    struct varve_holder holder = {.size = sizeof holder};
    struct report_life *last = &report->lives[report->life_count - 1];
    if (varve_store_holder(store, report->name, &holder, NULL) == 0 && last->ended == 0)
        last->is_running = is_of_holder(last, &holder) &&
                           (holder.holding == VARVE_HELD_BY_LIVING || holder.holding == VARVE_HELD_BY_UNKNOWN);
}

int report_load(struct report *report, struct varve_store *store, const char *name, size_t most,
                struct varve_error *error) {
    memset(report, 0, sizeof *report);
    copy_text(report->name, sizeof report->name, name);
    int rc = load_logs(report, store, most, error);
    if (rc == -ENOMEM)
        return files_error(error, rc, "no memory for the logs of \"%s\"", name);
    if (rc < 0)
        return rc;
    if (report->life_count == 0)
        return files_error(error, VARVE_NO_CHECKPOINT,
                           "no session has left a log of \"%s\": it is written some seconds after a checkpoint and at "
                           "the end, but not on a full storage (`varve stats`); `varve ls` lists all names",
                           name);
    look_at_holder(report, store);
    report_finish(report);
    return 0;
}

void report_clear(struct report *report) {
    free(report->points);
    free(report->events);
    memset(report, 0, sizeof *report);
}

/* ---- sums ---- */

static void add_balance(struct report_balance *to, const struct report_balance *other, int is_first) {
    struct report_balance before = *to;
    *to = *other;
    if (is_first)
        return;
    to->least = before.least < other->least ? before.least : other->least;
    if (before.most < other->most)
        return;
    to->most = before.most;
    to->rank = before.rank;
}

static void add_to(struct report_point *to, const struct report_point *point) {
    for (unsigned i = 0; i < REPORT_BYTES; i++)
        to->bytes[i] += point->bytes[i];
    for (unsigned i = 0; i < REPORT_SECONDS; i++)
        to->seconds[i] += point->seconds[i];
    to->blocked_most = fmax(to->blocked_most, point->blocked_most);
    to->durable_most = fmax(to->durable_most, point->durable_most);
    if (point->writers) {
        add_balance(&to->took, &point->took, to->writers == 0);
        add_balance(&to->written, &point->written, to->writers == 0);
        to->writers = point->writers;
    }
    to->took_sum += point->took_sum;
    to->count += point->count;
    to->failed += point->failed;
    to->version = point->version;
    to->generation = point->generation;
    to->time = point->time;
    to->life = point->life;
    copy_text(to->codec, sizeof to->codec, point->codec);
}

/* Why a session begins with a restart: how the one before it ended. */
static void explain_restarts(struct report *report) {
    size_t told = SIZE_MAX;
    for (size_t i = 0; i < report->event_count; i++) {
        struct report_event *event = &report->events[i];
        if (event->life == told || event->life == 0 || event->text[0] || strcmp(event->what, "restarted") != 0)
            continue;
        told = event->life;
        const struct report_life *before = &report->lives[event->life - 1];
        snprintf(event->text, sizeof event->text, "run %" PRIu64 " before it: %.160s", before->generation,
                 report_end_of(before));
    }
}

void report_finish(struct report *report) {
    report->checkpoints = report->failed = report->restarts = report->freed_objects = report->ranks_most = 0;
    memset(&report->sum, 0, sizeof report->sum);
    for (size_t i = 0; i < report->life_count; i++) {
        const struct report_life *life = &report->lives[i];
        report->checkpoints += life->checkpoints;
        report->failed += life->failed;
        report->restarts += life->restarts;
        report->freed_objects += life->freed_objects;
        report->ranks_most = life->ranks > report->ranks_most ? life->ranks : report->ranks_most;
    }
    for (size_t i = 0; i < report->point_count; i++)
        add_to(&report->sum, &report->points[i]);
    report->sum.bytes[REPORT_FREED] = 0; /* that of the lives has the last one, too */
    for (size_t i = 0; i < report->life_count; i++)
        report->sum.bytes[REPORT_FREED] += report->lives[i].freed_bytes;
    explain_restarts(report);
}

double report_mean(const struct report_point *point, double sum) {
    return point->count ? sum / (double)point->count : 0;
}

uint64_t report_whole(double value) {
    return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

uint64_t report_width(const struct report_point *point) {
    return point->count + point->failed;
}

size_t report_columns(const struct report *report, struct report_point *out, size_t most) {
    uint64_t wanted = report_width(&report->sum) / most + 1;
    size_t count = 0;
    for (size_t i = 0; i < report->point_count; i++) {
        int is_next = count == 0 || report_width(&out[count - 1]) >= wanted;
        if (is_next && count < most)
            memset(&out[count++], 0, sizeof *out);
        add_to(&out[count - 1], &report->points[i]);
    }
    return count;
}

size_t report_cells(const struct report *report, struct report_point *out, size_t most) {
    uint64_t all = report_width(&report->sum), before = 0;
    size_t count = all < most ? (size_t)all : most, next = 0;
    for (size_t i = 0; i < report->point_count; i++) {
        const struct report_point *point = &report->points[i];
        double end = (double)(before += report_width(point));
        while (next < count && ((double)next + 0.5) * (double)all / (double)count <= end)
            out[next++] = *point;
    }
    if (next) /* people look there for the newest */
        out[next - 1] = report->points[report->point_count - 1];
    return next;
}

static double above(double a, double b) {
    return a > b ? a - b : 0;
}

void report_times(const struct report_point *point, struct report_time out[REPORT_TIMES]) {
    const double *s = point->seconds;
    double in_call = above(s[REPORT_BLOCKED], s[REPORT_WAITED]);
    const struct report_time times[REPORT_TIMES] = {
        {"blocked: waiting for the checkpoint before", s[REPORT_WAITED], 0},
        {"blocked: capturing, and what the call stores", in_call, 0},
        {"behind the program, until durable", above(above(s[REPORT_DURABLE], in_call), s[REPORT_IDLE]), 0},
        {"stored, waiting for a call that commits", s[REPORT_IDLE], 0},
        {"compressing", above(s[REPORT_ENCODE], s[REPORT_SAMPLED]), 1},
        {"trying out codecs", s[REPORT_SAMPLED], 1},
        {"naming chunks for other ranks", s[REPORT_NAMED], 1},
        {"asking other ranks for duplicates", s[REPORT_EXCHANGE], 1},
        {"looking at fine chunks", s[REPORT_FINE], 1},
        {"auditing unreported pages", s[REPORT_AUDIT], 1},
    };
    memcpy(out, times, sizeof times);
}

const char *report_end_of(const struct report_life *life) {
    if (life->damage[0])
        return life->damage;
    if (life->ended)
        return life->why;
    return life->is_running ? "running" : "died: it was not closed";
}
