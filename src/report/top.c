/* A view of a running job, from its heartbeat, its newest checkpoint and its log; all of them lie in the store, so that
 * it may run anywhere. It ends with q or an interrupt; as JSON, also when no session has the name open any more. */
#include "report/top.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "report/report.h"
#include "terminal/json.h"
#include "terminal/progress.h"
#include "terminal/text.h"

#define COLUMNS 60u
#define LOOKS 5u

struct view {
    struct varve_holder holder;
    int has_checkpoint;
    uint32_t generation;
    int64_t version;
    uint64_t time_ns, bytes_protected, bytes_stored;
    struct report report;
    int has_log;
};

static int take_newest(void *arg, const struct varve_checkpoint_info *info) {
    struct view *view = arg;
    if (info->is_damaged)
        return 0;
    view->has_checkpoint = 1;
    view->generation = info->generation;
    view->version = info->version;
    view->time_ns = info->time_ns;
    view->bytes_protected = info->bytes_protected;
    view->bytes_stored = info->bytes_stored;
    return 1;
}

static int is_open(const struct view *view) {
    return view->holder.holding == VARVE_HELD_BY_LIVING || view->holder.holding == VARVE_HELD_BY_UNKNOWN;
}

static int look_at_job(struct view *view, struct varve_store *store, const char *name, struct varve_error *error) {
    struct varve_error ignored;

    memset(view, 0, sizeof *view);
    view->holder.size = sizeof view->holder;
    int rc = varve_store_holder(store, name, &view->holder, error);
    for (unsigned i = 0; i < LOOKS && rc == 0 && !view->has_checkpoint;
         i++) /* a job may forget those that are listed */
        rc = varve_store_list(store, name, take_newest, view, error);
    if (rc < 0)
        return rc;
    view->has_log = report_load(&view->report, store, name, 1, &ignored) == 0;
    if (is_open(view) && view->has_log) /* else it is that of a run before */
        view->has_log = view->report.lives[view->report.life_count - 1].is_running;
    return 0;
}

static const char *state_of(const struct view *view) {
    static const char *const states[] = {"no session has it open", "its session is dead", "perhaps running", "running"};
    unsigned holding = (unsigned)view->holder.holding;
    return states[holding < 4 ? holding : 2];
}

static double seconds_since(uint64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ns ? (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)ns * 1e-9 : 0;
}

/* ---- for people ---- */

static void put_line(const char *what, const struct report_point *columns, size_t count, enum report_bytes which) {
    double values[COLUMNS] = {0};
    char spark[4 * COLUMNS + 1], size[SIZE_CAPACITY];

    for (size_t i = 0; i < count; i++)
        values[i] = report_mean(&columns[i], (double)columns[i].bytes[which]);
    report_spark(spark, values, count);
    text_size(size, count ? report_whole(values[count - 1]) : 0);
    printf("%-10s %10s  %s\n", what, size, spark);
}

static void put_seconds(const char *what, const struct report_point *columns, size_t count, enum report_seconds which) {
    double values[COLUMNS] = {0};
    char spark[4 * COLUMNS + 1];

    for (size_t i = 0; i < count; i++)
        values[i] = report_mean(&columns[i], columns[i].seconds[which]);
    report_spark(spark, values, count);
    printf("%-10s %8.3f s  %s\n", what, count ? values[count - 1] : 0, spark);
}

static void show_log(const struct view *view) {
    static struct report_point columns[COLUMNS];
    const struct report *report = &view->report;
    const struct report_life *life = &report->lives[report->life_count - 1];
    size_t count = report_cells(report, columns, COLUMNS);

    printf("\nits log, written %.0f s ago: %" PRIu64 " checkpoint%s in this run, %" PRIu64 " failed, %" PRIu64
           " restart%s\n\n",
           seconds_since(life->written), life->checkpoints, plural(life->checkpoints), life->failed, life->restarts,
           plural(life->restarts));
    put_line("protected", columns, count, REPORT_PROTECTED);
    put_line("changed", columns, count, REPORT_CHANGED);
    put_line("stored", columns, count, REPORT_STORED);
    put_seconds("blocked", columns, count, REPORT_BLOCKED);
    put_seconds("durable", columns, count, REPORT_DURABLE);
}

static void show(const struct view *view, const char *name) {
    const struct varve_holder *holder = &view->holder;
    char bytes[SIZE_CAPACITY], stored[SIZE_CAPACITY];

    text_put(name);
    printf(": %s", state_of(view));
    if (holder->generation) {
        fputs(", ", stdout);
        text_put(holder->program);
        fputs(" on ", stdout);
        text_put(holder->host);
        printf(", %u rank%s, run %u, heartbeat %.0f s ago", holder->ranks, plural(holder->ranks), holder->generation,
               seconds_since(holder->beat_ns));
    }
    putchar('\n');
    if (view->has_checkpoint) {
        text_size(bytes, view->bytes_protected);
        text_size(stored, view->bytes_stored);
        printf("newest checkpoint: version %" PRId64 ", %.0f s ago, %s, of it stored %s\n", view->version,
               seconds_since(view->time_ns), bytes, stored);
    } else {
        puts("no checkpoint yet");
    }
    if (view->has_log)
        show_log(view);
    fflush(stdout);
}

/* ---- JSON ---- */

static void show_json(const struct view *view, const char *name) {
    const struct report_life *life = view->has_log ? &view->report.lives[view->report.life_count - 1] : NULL;

    json_begin("top");
    json_text("name", name);
    json_text("state", state_of(view));
    json_bool("is_open", is_open(view));
    json_u64("run", view->holder.generation);
    json_u64("ranks", view->holder.ranks);
    json_text("program", view->holder.program);
    json_text("host", view->holder.host);
    if (view->has_checkpoint) {
        json_i64("version", view->version);
        json_u64("generation", view->generation);
        json_time("time", view->time_ns);
        json_u64("bytes_protected", view->bytes_protected);
        json_u64("bytes_stored", view->bytes_stored);
    }
    if (life) {
        json_u64("checkpoints", life->checkpoints);
        json_u64("failed", life->failed);
        json_u64("restarts", life->restarts);
        json_number("seconds_blocked", view->report.sum.seconds[REPORT_BLOCKED]);
        json_number("seconds_durable", view->report.sum.seconds[REPORT_DURABLE]);
    }
    json_end();
}

/* What a line is written for. */
struct seen { /* without gaps, so that it can be compared as bytes */
    int64_t holding, version;
    uint64_t run, generation, written;
};

static struct seen seen_of(const struct view *view) {
    uint64_t written = view->has_log ? view->report.lives[view->report.life_count - 1].written : 0;
    return (struct seen){.holding = view->holder.holding,
                         .version = view->has_checkpoint ? view->version : -1,
                         .run = view->holder.generation,
                         .generation = view->generation,
                         .written = written};
}

/* ---- the loop ---- */

/* A second, or until a key that ends it. */
static int wants_end(int has_keys) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    int ready = poll(&in, has_keys ? 1 : 0, 1000);
    if (progress_update(0, 0))
        return 1;
    if (ready <= 0 || !has_keys)
        return 0;
    return read(STDIN_FILENO, &key, 1) < 1 || key == 'q' || key == 'Q' || key == 3;
}

static int follow(struct cli *cli, const char *name, int has_keys, struct varve_error *error) {
    static struct view view; /* too large for a stack */
    struct seen before, now;
    int rc = 0, is_done = 0;

    memset(&before, 0xff, sizeof before);
    while (rc == 0 && !is_done) {
        rc = look_at_job(&view, cli->store, name, error);
        now = seen_of(&view);
        if (rc == 0 && cli->is_json) {
            if (memcmp(&before, &now, sizeof now) != 0)
                show_json(&view, name);
        } else if (rc == 0) {
            if (has_keys)
                fputs("\033[H\033[J", stdout);
            show(&view, name);
        }
        before = now;
        is_done = (cli->is_json && !is_open(&view)) || (!cli->is_json && !has_keys);
        report_clear(&view.report);
        is_done = is_done || rc < 0 || wants_end(has_keys && !cli->is_json);
    }
    return rc;
}

int report_top(struct cli *cli, const char *name) {
    struct varve_error error = {.text = ""};
    struct termios old, raw;
    int has_keys = !cli->is_json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &old) == 0;

    if (has_keys) {
        raw = old;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    progress_begin(NULL, 0); /* an interrupt ends the loop, and so the terminal is as it was */
    int rc = follow(cli, name, has_keys, &error);
    progress_end();
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &old);
    return rc < 0 ? cli_fail(cli, rc, &error) : EXIT_OK;
}
