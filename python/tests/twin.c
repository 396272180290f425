/* The twin of test_limits.py: how long does a checkpoint of so many arrays, with so many cells each, take in C?
 *
 *     twin STORE ARRAYS CELLS CHECKPOINTS      prints the seconds inside varve_checkpoint of each */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <varve/varve.h>

enum { PAGE = 512 }; /* doubles: one of each page changes */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int protect(struct varve_session *s, int count, size_t cells, double **arrays) {
    char name[32];
    struct varve_array a = {.size = sizeof a, .type = VARVE_F64, .dims = 1, .dim = {{cells, 0, cells}}};
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "array%d", i);
        arrays[i] = calloc(cells, sizeof(double));
        if (!arrays[i] || varve_protect_array(s, name, arrays[i], &a) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error;
    if (argc != 5)
        return 2;
    int count = atoi(argv[2]), checkpoints = atoi(argv[4]);
    size_t cells = strtoull(argv[3], NULL, 10), most = cells < PAGE ? cells : PAGE;
    double **arrays = calloc((size_t)count, sizeof *arrays);
    if (!arrays || varve_open(argv[1], "small", NULL, &s, &error) != 0 || protect(s, count, cells, arrays) != 0)
        return 1;
    for (int step = 1; step <= checkpoints; step++) {
        for (int i = 0; i < count; i++)
            for (size_t k = (size_t)step % most; k < cells; k += PAGE)
                arrays[i][k] += (double)step + (double)(k / PAGE);
        double begun = now();
        if (varve_checkpoint(s, step) != 0)
            return 1;
        printf("%.9f\n", now() - begun);
        if (varve_wait(s) != 0)
            return 1;
    }
    return varve_close(s) == 0 ? 0 : 1;
}
