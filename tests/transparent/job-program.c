/* job-program STORE NAME STEPS MILLISECONDS FOLDER: a program as docs/jobs.md wants it, for test_job.py and slurm.py.
 *
 * Each rank (RANK, WORLD_SIZE) works STEPS steps of some MILLISECONDS and writes into FOLDER/steps.RANK what it does:
 * "from STEP" at its start, "saved STEP", "left STEP", and the result into FOLDER/result.RANK. Rank 0 dies after step
 * CRASH_ONCE, if FOLDER/crashed does not exist yet, always after step CRASH, and after CRASH_AFTER steps of
 * each life. From the time SLOW on, its storage needs SLOW_MS instead of FAST_MS for each object (only with fault
 * points). */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve_env.h>

#include "base/fault.h"

#define WORDS 8192

static uint64_t state[WORDS];
static const char *folder;
static int rank;
static FILE *notes;

static void die(const char *what, const char *why) {
    fprintf(stderr, "job-program: rank %d: %s: %s\n", rank, what, why);
    exit(1);
}

static double wall_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void note(const char *word, int64_t step) {
    fprintf(notes, "%s %" PRId64 " %.3f\n", word, step, wall_now());
    fflush(notes);
}

static const char *path_of(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static FILE *open_own(const char *name, const char *mode) {
    char own[64];
    snprintf(own, sizeof own, "%s.%d", name, rank);
    FILE *file = fopen(path_of(own), mode);
    if (!file)
        die(path_of(own), strerror(errno));
    return file;
}

static int64_t number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoll(text) : -1;
}

static void set_storage(int64_t milliseconds) {
#ifdef VARVE_FAULTS
    char text[64];
    snprintf(text, sizeof text, "backend.file.before_link=sleep:%" PRId64, milliseconds);
    if (milliseconds >= 0)
        vv_fault_set(text);
#else
    (void)milliseconds;
#endif
}

static int64_t life; /* steps of it */

static void crash_at(int64_t step) {
    if (rank != 0)
        return;
    if (step == number_of("CRASH_ONCE") && access(path_of("crashed"), F_OK) != 0) {
        fclose(fopen(path_of("crashed"), "w"));
        abort();
    }
    if (step == number_of("CRASH") || ++life == number_of("CRASH_AFTER"))
        abort();
}

static void work(int64_t step, long milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    for (size_t i = (size_t)step % 7; i < WORDS; i += 7)
        state[i] = state[i] * UINT64_C(6364136223846793005) + (uint64_t)step + i + (uint64_t)rank;
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
}

static uint64_t result(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < WORDS; i++)
        sum = sum * 31 + state[i];
    return sum;
}

/* 1: it left before it was done. */
static int run(struct varve_session *s, int64_t step, int64_t steps, long milliseconds) {
    double slow_at = (double)number_of("SLOW");
    while (step < steps) {
        if (slow_at > 0 && wall_now() >= slow_at) {
            set_storage(number_of("SLOW_MS"));
            note("slow", step);
            slow_at = 0;
        }
        work(step++, milliseconds);
        int need = varve_need(s);
        if (need < 0 || (need == 1 && varve_checkpoint(s, step) != 0))
            die("checkpoint", varve_session_error(s)->text);
        if (need)
            note("saved", step);
        crash_at(step);
        if (varve_should_exit(s) == 1) {
            note("left", step);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    int64_t step = 0;
    if (argc != 6)
        die("usage", "job-program STORE NAME STEPS MILLISECONDS FOLDER");
    folder = argv[5];
    rank = getenv("RANK") ? atoi(getenv("RANK")) : 0;
    notes = open_own("steps", "a");
    set_storage(number_of("FAST_MS"));
    if (varve_open_env(argv[1], argv[2], NULL, &s, &error) != 0)
        die("open", error.text);
    if (varve_protect(s, "state", state, sizeof state) != 0)
        die("protect", varve_session_error(s)->text);
    int rc = varve_restart(s, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        die("restart", varve_session_error(s)->text);
    note("from", step);
    int has_left = run(s, step, atoll(argv[3]), atol(argv[4]));
    if (varve_close(s) != 0)
        die("close", "the last checkpoint is not stored");
    if (!has_left) {
        FILE *file = open_own("result", "w");
        fprintf(file, "%016" PRIx64 "\n", result());
        fclose(file);
        note("done", atoll(argv[3]));
    }
    fclose(notes);
    return 0;
}
