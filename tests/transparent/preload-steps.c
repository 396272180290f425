#ifdef PRELOAD_OTHER
const char preload_other[] = "another build of the same program";
#endif
/* A program that names nothing: it opens a session, restarts, and makes checkpoints. All its state lies in large
 * allocations, of C and of C's other functions. Usage: preload-steps STORE STEPS KILL_AT [settings]
 * It kills itself with SIGKILL at step KILL_AT (-1: never), and prints the digest of all it has at the end. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#define ARRAYS 6
#define WORDS 20000u

/* Not in main: a compiler may keep what never leaves a function in registers, across all calls of the session. */
static double *arrays[ARRAYS];
static size_t words[ARRAYS];

static double *make(size_t count) {
    double *a = malloc(count * sizeof *a);
    for (size_t i = 0; a && i < count; i++)
        a[i] = (double)i;
    return a;
}

static uint64_t digest(void) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int k = 0; k < ARRAYS; k++) {
        const uint8_t *bytes = (const uint8_t *)arrays[k];
        for (size_t i = 0; i < words[k] * sizeof(double); i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

/* Two from the same place, with the same size; one zeroed, one aligned, one that has grown, one that has shrunk. */
static void make_all(void) {
    for (int k = 0; k < ARRAYS; k++)
        words[k] = WORDS + 1000u * (k > 1 ? (size_t)k : 0);
    arrays[0] = make(words[0]);
    free(make(WORDS)); /* counts, too */
    arrays[1] = make(words[1]);
    arrays[2] = calloc(words[2], sizeof(double));
    if (posix_memalign((void **)&arrays[3], 65536, words[3] * sizeof(double)) != 0)
        arrays[3] = NULL;
    if (arrays[3])
        memset(arrays[3], 0, words[3] * sizeof(double));
    arrays[4] = realloc(make(WORDS), words[4] * sizeof(double));
    if (arrays[4])
        memset(arrays[4] + WORDS, 0, (words[4] - WORDS) * sizeof(double));
    arrays[5] = realloc(make(2 * WORDS), words[5] * sizeof(double));
}

static void step_all(int step) {
    double *scratch = make(WORDS);
    for (int k = 0; k < ARRAYS; k++)
        for (size_t i = (size_t)step % 7; i < words[k]; i += 7)
            arrays[k][i] = arrays[k][i] * 1.0000001 + arrays[(k + 1) % ARRAYS][i % WORDS] * 1e-3 + scratch[i % WORDS];
    free(scratch);
    /* It moves, perhaps, and stays what it is. */
    arrays[5] = realloc(realloc(arrays[5], (size_t)(20 + step) * words[5]), words[5] * sizeof(double));
}

int main(int argc, char **argv) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    int64_t step = -1;
    if (argc < 4)
        return 2;
    int steps = atoi(argv[2]), kill_at = atoi(argv[3]);
    options.settings = argc > 4 ? argv[4] : NULL;
    if (varve_open(argv[1], "steps", &options, &session, &error) != 0)
        return fprintf(stderr, "open: %s\n", error.text), 3;
    make_all();
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fprintf(stderr, "restart: %s\n", varve_session_error(session)->text), 4;
    fprintf(stderr, "begins at %lld\n", (long long)step + 1);
    for (step++; step < steps; step++) {
        step_all((int)step);
        if (step % 3 == 0 && varve_checkpoint(session, step) != 0)
            return fprintf(stderr, "checkpoint: %s\n", varve_session_error(session)->text), 5;
        if (step == kill_at) {
            varve_wait(session);
            kill(getpid(), SIGKILL);
        }
    }
    if (varve_close(session) != 0)
        return 6;
    printf("%016llx\n", (unsigned long long)digest());
    for (int k = 0; k < ARRAYS; k++)
        free(arrays[k]);
    return 0;
}
