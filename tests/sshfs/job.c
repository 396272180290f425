/* A job that saves when it is told to. Each version changes one piece of sixteen, so that it depends on those before
 * it.
 *
 *     sshfs-job STORE
 *
 * It restarts from the newest checkpoint, if there is one, and prints "restarted V" or "none". Then each line of its
 * input is one more checkpoint, answered by "saved V". What goes wrong is "failed CODE: text", or "wrong V" for other
 * bytes than those of V, and ends it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <varve/varve.h>

#define PIECES 16
#define WORDS 8192

static uint64_t cells[PIECES][WORDS];

/* What a piece holds at a version: the number of the version that wrote it last. */
static uint64_t word_of(int64_t version, int piece, int word) {
    int64_t back = (version - piece) % PIECES;
    int64_t writer = version < piece ? 0 : version - back;
    return (uint64_t)writer * 0x9e3779b97f4a7c15u + (uint64_t)piece * WORDS + (uint64_t)word;
}

static void fill(int64_t version) {
    for (int piece = 0; piece < PIECES; piece++)
        for (int word = 0; word < WORDS; word++)
            cells[piece][word] = word_of(version, piece, word);
}

static int is_right(int64_t version) {
    int is_same = 1;
    for (int piece = 0; piece < PIECES; piece++)
        for (int word = 0; word < WORDS; word++)
            is_same &= cells[piece][word] == word_of(version, piece, word);
    return is_same;
}

static int failed(int rc, const char *text) {
    printf("failed %s: %s\n", varve_error_name(rc), text);
    return 1;
}

static int restart(struct varve_session *session, int64_t *version) {
    int rc = varve_restart(session, VARVE_LATEST, version);
    if (rc == VARVE_NO_CHECKPOINT) {
        puts("none");
        *version = 0;
    } else if (rc < 0) {
        return failed(rc, varve_session_error(session)->text);
    } else {
        printf(is_right(*version) ? "restarted %" PRId64 "\n" : "wrong %" PRId64 "\n", *version);
    }
    return fflush(stdout) != 0 || (rc == 0 && !is_right(*version));
}

int main(int count, char **arguments) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char line[64];
    int64_t version = 0;
    options.settings = "keep=2,space=0";
    int rc = count == 2 ? varve_open(arguments[1], "job", &options, &session, &error) : -1;
    if (rc < 0)
        return failed(rc, error.text);
    rc = varve_protect(session, "cells", cells, sizeof cells);
    if (rc == 0)
        rc = restart(session, &version);
    while (rc == 0 && fgets(line, sizeof line, stdin)) {
        fill(++version);
        if ((rc = varve_checkpoint(session, version)) < 0 || (rc = varve_wait(session)) < 0)
            return failed(rc, varve_session_error(session)->text);
        printf("saved %" PRId64 "\n", version);
        fflush(stdout);
    }
    int closed = varve_close(session);
    return rc || closed ? 1 : 0;
}
