/* A library whose function a program calls in each step. Its own variables belong to the process. */
#include <stdio.h>

#include "called.h"

static int calls;

double called_step(double *field, long count, long step, double weight, const char *name) {
    if (calls++ == 0)
        fprintf(stderr, "first step %ld\n", step);
    for (long i = step % 3; i < count; i += 3)
        field[i] = field[i] * 0.5 + weight * (double)(i % 7 + step) + name[0];
    return field[step % count];
}
