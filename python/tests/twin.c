/* The twin of test_limits.py: how long does a checkpoint of many small arrays take in C?
 *
 *     twin STORE ARRAYS CHECKPOINTS      prints the seconds inside varve_checkpoint of each */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <varve/varve.h>

enum { CELLS = 128 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int protect(struct varve_session *s, int count, double **arrays) {
    char name[32];
    struct varve_array a = {.size = sizeof a, .type = VARVE_F64, .dims = 1, .dim = {{CELLS, 0, CELLS}}};
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "array%d", i);
        arrays[i] = calloc(CELLS, sizeof(double));
        if (!arrays[i] || varve_protect_array(s, name, arrays[i], &a) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error;
    if (argc != 4)
        return 2;
    int count = atoi(argv[2]), checkpoints = atoi(argv[3]);
    double **arrays = calloc((size_t)count, sizeof *arrays);
    if (!arrays || varve_open(argv[1], "small", NULL, &s, &error) != 0 || protect(s, count, arrays) != 0)
        return 1;
    for (int step = 1; step <= checkpoints; step++) {
        for (int i = 0; i < count; i++)
            arrays[i][step % CELLS] += step;
        double begun = now();
        if (varve_checkpoint(s, step) != 0)
            return 1;
        printf("%.9f\n", now() - begun);
        if (varve_wait(s) != 0)
            return 1;
    }
    return varve_close(s) == 0 ? 0 : 1;
}
