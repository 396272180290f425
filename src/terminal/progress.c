#include "terminal/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "terminal/json.h"
#include "terminal/text.h"

#define TERMINAL_NS UINT64_C(100000000) /* ten times a second is enough to look alive */
#define JSON_NS UINT64_C(1000000000)

static struct {
    const char *what;
    int is_json;
    int is_terminal;
    int is_shown; /* a line stands on the terminal */
    uint64_t began_ns;
    uint64_t told_ns;
} work;
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

void progress_begin(const char *what, int is_json) {
    work.what = what;
    work.is_json = what && is_json;
    work.is_terminal = what && !is_json && isatty(STDERR_FILENO);
    work.is_shown = 0;
    work.began_ns = work.told_ns = now_ns();
    is_working = 1;
}

double progress_seconds(void) {
    return (double)(now_ns() - work.began_ns) / 1e9;
}

static void tell_json(uint64_t done, uint64_t total, double seconds, double remaining) {
    json_begin("status");
    json_number("seconds_elapsed", seconds);
    json_number("seconds_remaining", remaining);
    json_number("percent_done", total ? (double)done / (double)total : 0);
    json_u64("bytes_done", done);
    json_u64("total_bytes", total);
    json_end();
}

static void tell_terminal(uint64_t done, uint64_t total, double seconds, double remaining) {
    char done_size[SIZE_CAPACITY], total_size[SIZE_CAPACITY], rate[SIZE_CAPACITY];

    text_size(done_size, done);
    text_size(total_size, total);
    text_size(rate, (uint64_t)((double)done / seconds));
    fprintf(stderr, "\r\033[K%s %.0f %%, %s of %s, %s/s, %.0f s left", work.what,
            total ? 100.0 * (double)done / (double)total : 0.0, done_size, total_size, rate, remaining);
    fflush(stderr);
    work.is_shown = 1;
}

static double seconds_left(uint64_t done, uint64_t total, double seconds) {
    return done && total > done ? seconds * (double)(total - done) / (double)done : 0;
}

int progress_update(uint64_t done, uint64_t total) {
    uint64_t now = now_ns();

    if ((work.is_terminal && now - work.told_ns >= TERMINAL_NS) || (work.is_json && now - work.told_ns >= JSON_NS)) {
        double seconds = (double)(now - work.began_ns) / 1e9;
        double remaining = seconds_left(done, total, seconds);
        work.told_ns = now;
        if (work.is_json)
            tell_json(done, total, seconds, remaining);
        else
            tell_terminal(done, total, seconds, remaining);
    }
    return is_stopped ? -EINTR : 0;
}

int progress_count(uint64_t done, uint64_t total, const char *things) {
    uint64_t now = now_ns();

    if (work.is_terminal && now - work.told_ns >= TERMINAL_NS) {
        double seconds = (double)(now - work.began_ns) / 1e9;
        work.told_ns = now;
        work.is_shown = 1;
        fprintf(stderr, "\r\033[K%s ", work.what);
        if (total)
            fprintf(stderr, "%.0f %%, %" PRIu64 " of ", 100.0 * (double)done / (double)total, done);
        fprintf(stderr, "%" PRIu64 " %s, %.0f/s", total ? total : done, things, (double)done / seconds);
        if (total)
            fprintf(stderr, ", %.0f s left", seconds_left(done, total, seconds));
        fflush(stderr);
    }
    return is_stopped ? -EINTR : 0;
}

int progress_callback(void *arg, uint64_t done, uint64_t total) {
    (void)arg;
    return progress_update(done, total);
}

int progress_steps(void *arg, uint64_t done, uint64_t total) {
    (void)arg;
    return progress_count(done, total, "steps");
}

void progress_clear(void) {
    if (work.is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        work.is_shown = 0;
    }
}

void progress_end(void) {
    progress_clear();
    is_working = 0;
}
