/* A program that never calls Varve. Its steps are counted in static variables. Usage: preload-called KIND STEPS
 *
 *     static      in static variables, as codes do whose state is global
 *     stack       in a variable on the stack, and the field in memory: that cannot come back
 *     register    in a register, if the compiler likes to
 *     places      the first call is at another place than the others
 *     forks       a child calls the function first
 *     pointer     an argument is one of two texts of the C library, which are made in another order with OTHER_WAY
 *
 * After step END_AT of the environment it kills itself; with LEAVE there it signals that it shall leave. Both may be
 * others in each run, so they are no variables of the program. It prints the digest of all it has. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "called.h"

#define COUNT 30000

static struct {
    long step;
    double sum, *field;
    char *texts[64]; /* small blocks */
} state;
static long steps;

static void end_here(long step) {
    char text[32];
    snprintf(text, sizeof text, "step %ld", step);
    free(state.texts[step % 64]);
    state.texts[step % 64] = strdup(text);
    const char *end_at = getenv("END_AT");
    if (end_at && step == atol(end_at))
        raise(getenv("LEAVE") ? SIGUSR2 : SIGKILL);
}

static void run_static(void) {
    while (state.step < steps) {
        state.sum += called_step(state.field, COUNT, state.step, 1.0 / (double)(state.step + 1), "x");
        end_here(state.step++);
    }
}

static void run_stack(void) {
    for (volatile long step = 0; step < steps; step++) {
        state.sum += called_step(state.field, COUNT, step, 1.0, "x");
        end_here(step);
    }
}

static void run_register(void) {
    for (long step = 0; step < steps; step++) {
        state.sum += called_step(state.field, COUNT, step, 1.0, "x");
        end_here(step);
    }
}

static int fork_first(void) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        called_step(state.field, COUNT, 5, 1.0, "x");
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static char *names[2];

static int make_names(void) {
    int first = getenv("OTHER_WAY") != NULL;
    return asprintf(&names[first], "%c", 'x' + first) == 1 && asprintf(&names[!first], "%c", 'x' + !first) == 1;
}

static void run_pointer(void) {
    while (state.step < steps) {
        state.sum += called_step(state.field, COUNT, state.step, 1.0, names[state.step % 2]);
        end_here(state.step++);
    }
}

static uint64_t digest(void) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < COUNT * sizeof *state.field; i++)
        hash = (hash ^ ((const unsigned char *)state.field)[i]) * 0x100000001b3u;
    for (int i = 0; i < 64; i++)
        for (const char *at = state.texts[i]; at && *at; at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    steps = atol(argv[2]);
    state.field = calloc(COUNT, sizeof *state.field);
    if (!make_names() || !state.field || chdir("/") != 0 || (strcmp(argv[1], "forks") == 0 && !fork_first()))
        return 2;
    if (strcmp(argv[1], "places") == 0)
        called_step(state.field, COUNT, 0, 1.0, "x");
    if (strcmp(argv[1], "stack") == 0)
        run_stack();
    else if (strcmp(argv[1], "register") == 0)
        run_register();
    else if (strcmp(argv[1], "pointer") == 0)
        run_pointer();
    else
        run_static();
    printf("%016llx %.17g\n", (unsigned long long)digest(), state.sum);
    return 9; /* so that it is seen that this does not change */
}
