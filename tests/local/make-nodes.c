/* make-nodes DIR [SETTINGS]: a job of four ranks on two nodes, whose stores are DIR/node0 and DIR/node1, saves versions
 * 1 to 3; then, in a second life, 4. DIR/expect has what each region of each rank of each version holds, as
 * VERSION.RANK.REGION. For the tools. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve_comm.h>

#include "group.h"

#define RANKS 4
#define FIELD (300 * 1024 + 77)

static const char *dir, *more = "";
static uint8_t field[FIELD];
static int64_t step;

static void expect(const struct varve_comm *comm, const char *region, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/expect/%lld.%u.%s", dir, (long long)step, comm->rank, region);
    FILE *file = fopen(path, "we");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        group_fail(comm, "cannot write %s", path);
}

static void check(const struct varve_comm *comm, const char *what, int rc, const char *why) {
    if (rc != 0)
        group_fail(comm, "%s: %s: %s", what, varve_error_name(rc), why);
}

static void save(struct varve_comm *comm, struct varve_session *session) {
    step++;
    for (size_t i = 0; i < FIELD / 3; i++) /* another third each time */
        field[(i + (size_t)step * (FIELD / 3)) % FIELD] = (uint8_t)(i * (comm->rank + 3) + (size_t)step * 7 + i / 251);
    check(comm, "checkpoint", varve_checkpoint(session, step), varve_session_error(session)->text);
    expect(comm, "field", field, sizeof field);
    expect(comm, "step", &step, sizeof step);
}

static void live(struct varve_comm *comm, void *arg) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    char store[4096], settings[256];
    int is_second = *(int *)arg;
    /* what ranks share would be on one node only, and could not be looked at on the other */
    snprintf(settings, sizeof settings, "keep=all,storage=local,block_size=64K,threads=0,dedup=local%s%s",
             *more ? "," : "", more);
    options.settings = settings;
    snprintf(store, sizeof store, "%s/node%u", dir, comm->rank / 2);
    check(comm, "open", varve_open_comm(group_comm(comm), store, "job", &options, &session, &error), error.text);
    varve_protect(session, "field", field, sizeof field);
    varve_protect(session, "step", &step, sizeof step);
    if (is_second)
        check(comm, "restart", varve_restart(session, VARVE_LATEST, NULL), varve_session_error(session)->text);
    for (int i = 0; i < (is_second ? 1 : 3); i++)
        save(comm, session);
    check(comm, "close", varve_close(session), "");
}

int main(int argc, char **argv) {
    char expected[4096];
    if (argc != 2 && argc != 3)
        return 2;
    dir = argv[1];
    more = argc == 3 ? argv[2] : "";
    mkdir(dir, 0700);
    snprintf(expected, sizeof expected, "%s/expect", dir);
    mkdir(expected, 0700);
    struct group_options options = {.ranks_per_node =
                                        *more ? 2 : 0}; /* without a word of nodes, nothing is elsewhere */
    for (int is_second = 0; is_second < 2; is_second++)
        if (group_run(RANKS, live, &is_second, &options, NULL) != 0)
            return 1;
    return 0;
}
