/* The same on the ranks that the environment names. */
#include <stdio.h>
#include <varve/varve_env.h>

#define CELLS 10000

static double cells[CELLS];

static int end(const char *what, const char *why) {
    fprintf(stderr, "ranks: %s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error;
    int64_t version = -1;
    if (argc != 2 || varve_open_env(argv[1], "ranks", NULL, &s, &error) != 0)
        return end("open", argc != 2 ? "ranks STORE" : error.text);
    if (varve_protect(s, "cells", cells, sizeof cells) != 0)
        return end("protect", varve_session_error(s)->text);
    int rc = varve_restart(s, VARVE_LATEST, &version);
    if (rc == VARVE_NO_CHECKPOINT) {
        for (int i = 0; i < CELLS; i++)
            cells[i] = i / 7.0;
        if (varve_checkpoint(s, 7) != 0 || varve_wait(s) != 0)
            return end("checkpoint", varve_session_error(s)->text);
    } else if (rc != 0 || cells[CELLS - 1] != (CELLS - 1) / 7.0) {
        return end("restart", rc ? varve_session_error(s)->text : "other bytes came back");
    } else {
        printf("ranks: version %d came back\n", (int)version);
    }
    return varve_close(s) == 0 ? 0 : end("close", "the checkpoint is lost");
}
