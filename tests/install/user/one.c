/* A user's program: the first run saves, the second gets the same bytes back. */
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve.h>

#define CELLS 100000

static double cells[CELLS];

static double wanted(int i) {
    return (double)i / 7;
}

static int end(struct varve_session *s, const char *what) {
    fprintf(stderr, "one: %s: %s\n", what, varve_session_error(s)->text);
    varve_close(s);
    return 1;
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error;
    int64_t version = -1;
    if (argc != 2)
        return 2;
    if (varve_open(argv[1], "one", NULL, &s, &error) != 0) {
        fprintf(stderr, "one: %s\n", error.text);
        return 1;
    }
    if (varve_protect(s, "cells", cells, sizeof cells) != 0)
        return end(s, "protect");
    int rc = varve_restart(s, VARVE_LATEST, &version);
    if (rc == VARVE_NO_CHECKPOINT) {
        for (int i = 0; i < CELLS; i++)
            cells[i] = wanted(i);
        if (varve_checkpoint(s, 7) != 0 || varve_wait(s) != 0)
            return end(s, "checkpoint");
        printf("one: saved\n");
    } else if (rc == 0) {
        for (int i = 0; i < CELLS; i++)
            if (cells[i] != wanted(i))
                return end(s, "other bytes came back");
        printf("one: version %d came back\n", (int)version);
    } else {
        return end(s, "restart");
    }
    return varve_close(s) == 0 ? 0 : 1;
}
