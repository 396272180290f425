/* A program that does what it is told, for tests that break the storage under its feet.
 *
 *     life STORE
 *
 * It opens the store and restarts from the newest checkpoint, if there is one, then reads commands, one per line:
 *
 *     save      take the next checkpoint
 *     restart   go back to the newest checkpoint
 *     quit      close the session (so does the end of the input)
 *
 * Each is answered by one line: "saved V", "restarted V", "none" (no checkpoint), "closed", or "failed CODE: text".
 * Restored memory that is not that of its version is "wrong V". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <varve/varve.h>

#define CELLS 8192

static uint64_t cells[CELLS];
static int64_t version = -1;

static uint64_t cell(int64_t of, int i) {
    return ((uint64_t)of + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i;
}

static int is_right(int64_t of) {
    int right = 1;
    for (int i = 0; i < CELLS; i++)
        right &= cells[i] == cell(of, i);
    return right;
}

static void fail(int rc, const struct varve_error *error) {
    printf("failed %s: %s\n", varve_error_name(rc), error->text);
}

static void save(struct varve_session *session) {
    for (int i = 0; i < CELLS; i++)
        cells[i] = cell(version + 1, i);
    int rc = varve_checkpoint(session, version + 1);
    if (rc == 0)
        rc = varve_wait(session);
    if (rc < 0) {
        fail(rc, varve_session_error(session));
        return;
    }
    version++;
    printf("saved %" PRId64 "\n", version);
}

static int restart(struct varve_session *session) {
    int64_t got = -1;
    memset(cells, 0, sizeof cells);
    int rc = varve_restart(session, VARVE_LATEST, &got);
    if (rc == VARVE_NO_CHECKPOINT) {
        puts("none");
    } else if (rc < 0) {
        fail(rc, varve_session_error(session));
        return rc;
    } else {
        version = got;
        printf("%s %" PRId64 "\n", is_right(got) ? "restarted" : "wrong", got);
    }
    return 0;
}

static int obey(struct varve_session *session) {
    char line[64];
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0)
        if (strcmp(line, "save\n") == 0)
            save(session);
        else if (strcmp(line, "restart\n") == 0)
            restart(session);
        else
            printf("what is %s", line);
    struct varve_error last = *varve_session_error(session);
    int rc = varve_close(session);
    if (rc < 0)
        fail(rc, &last);
    else
        puts("closed");
    return rc < 0;
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2) {
        fprintf(stderr, "usage: life STORE\n");
        return 2;
    }
    int rc = varve_open(argv[1], "life", NULL, &session, &error);
    if (rc < 0) {
        fail(rc, &error);
        return 1;
    }
    rc = varve_protect(session, "cells", cells, sizeof cells);
    if (rc == 0)
        rc = restart(session);
    if (rc < 0) {
        varve_close(session);
        return 1;
    }
    return obey(session);
}
