#include "terminal/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "terminal/json.h"
#include "terminal/text.h"

#define TERMINAL_NS UINT64_C(100000000) /* ten times a second is enough to look alive */
#define JSON_NS UINT64_C(1000000000)

static volatile sig_atomic_t is_working;
static volatile sig_atomic_t is_stopped;

static void on_interrupt(int number) {
    (void)number;
    if (!is_working || is_stopped)
        _exit(EXIT_INTERRUPTED);
    is_stopped = 1;
}

/* A signal that is ignored (nohup, a job in the background) stays so. */
static void catch_signal(int number) {
    struct sigaction action;

    if (sigaction(number, NULL, &action) < 0 || action.sa_handler == SIG_IGN)
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, NULL);
}

void interrupts_init(void) {
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_begin(struct progress *progress, const char *what, int is_json) {
    memset(progress, 0, sizeof *progress);
    progress->what = what;
    progress->is_json = is_json;
    progress->is_terminal = !is_json && isatty(STDERR_FILENO);
    progress->began_ns = now_ns();
    progress->told_ns = progress->began_ns;
    is_working = 1;
}

double progress_seconds(const struct progress *progress) {
    return (double)(now_ns() - progress->began_ns) / 1e9;
}

static void tell_json(const struct progress *progress, double seconds, double remaining) {
    json_begin("status");
    json_number("seconds_elapsed", seconds);
    json_number("seconds_remaining", remaining);
    json_number("percent_done", progress->total ? (double)progress->done / (double)progress->total : 0);
    json_u64("bytes_done", progress->done);
    json_u64("total_bytes", progress->total);
    json_end();
}

static void tell_terminal(struct progress *progress, double seconds, double remaining) {
    char done[SIZE_CAPACITY];
    char total[SIZE_CAPACITY];
    char rate[SIZE_CAPACITY];

    text_size(done, progress->done);
    text_size(total, progress->total);
    text_size(rate, (uint64_t)((double)progress->done / seconds));
    fprintf(stderr, "\r\033[K%s %.0f %%, %s of %s, %s/s, %.0f s left", progress->what,
            progress->total ? 100.0 * (double)progress->done / (double)progress->total : 0.0, done, total, rate,
            remaining);
    fflush(stderr);
    progress->is_shown = 1;
}

int progress_update(struct progress *progress, uint64_t done, uint64_t total) {
    uint64_t now = now_ns();

    progress->done = done;
    progress->total = total;
    if ((progress->is_terminal && now - progress->told_ns >= TERMINAL_NS) ||
        (progress->is_json && now - progress->told_ns >= JSON_NS)) {
        double seconds = (double)(now - progress->began_ns) / 1e9;
        double remaining = done && total > done ? seconds * (double)(total - done) / (double)done : 0;
        progress->told_ns = now;
        if (progress->is_json)
            tell_json(progress, seconds, remaining);
        else
            tell_terminal(progress, seconds, remaining);
    }
    return is_stopped ? -EINTR : 0;
}

void progress_clear(struct progress *progress) {
    if (progress->is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->is_shown = 0;
    }
}

void progress_end(struct progress *progress) {
    progress_clear(progress);
    is_working = 0;
}
