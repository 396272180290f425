/* make-fine DIR FIRST LAST SEED SETTINGS: checkpoints FIRST to LAST of two regions in the store DIR/store, with fine
 * chunks and random edits in between, and beside it in DIR/expect what each region of each version holds, as
 * VERSION.REGION. If FIRST is not 1, the checkpoint before it is restored and compared first. For the tool and the
 * independent reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve.h>

#include "details.h"
#include "edits.h"

#define REGIONS 2
#define CAPACITY (48 * 1024)

static const char *const names[REGIONS] = {"a", "b"};
static struct piece pieces[REGIONS];

static void die(const char *what) {
    fprintf(stderr, "make-fine: %s\n", what);
    exit(1);
}

static FILE *open_expected(const char *dir, int version, unsigned region, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/expect/%d.%s", dir, version, names[region]);
    FILE *file = fopen(path, mode);
    if (!file)
        die(path);
    return file;
}

static void expect(const char *dir, int version) {
    for (unsigned i = 0; i < REGIONS; i++) {
        FILE *file = open_expected(dir, version, i, "w");
        if (fwrite(pieces[i].data, 1, pieces[i].size, file) != pieces[i].size || fclose(file) != 0)
            die("cannot write what is expected");
    }
}

static void protect(struct varve_session *session) {
    for (unsigned i = 0; i < REGIONS; i++)
        if (varve_protect(session, names[i], pieces[i].data, pieces[i].size) != 0)
            die(varve_session_error(session)->text);
}

static void go_on_from(struct varve_session *session, const char *dir, int version) {
    static uint8_t then[REGIONS][CAPACITY];
    for (unsigned i = 0; i < REGIONS; i++) {
        FILE *file = open_expected(dir, version, i, "r");
        pieces[i].size = fread(then[i], 1, CAPACITY, file);
        fclose(file);
    }
    protect(session);
    if (varve_restart(session, version, NULL) != 0)
        die(varve_session_error(session)->text);
    for (unsigned i = 0; i < REGIONS; i++)
        if (memcmp(then[i], pieces[i].data, pieces[i].size) != 0)
            die("WRONG BYTES after a restart");
}

static void edit(int version) {
    for (uint32_t n = 10 + edits_draw(40); version > 1 && n > 0; n--)
        edits_one(pieces, REGIONS, 64, 1);
}

int main(int argc, char **argv) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    char path[4096];
    if (argc != 6)
        return 2;
    int first = atoi(argv[2]), last = atoi(argv[3]);
    edits_seed(strtoull(argv[4], NULL, 10) + (uint64_t)first);
    char settings[256];
    snprintf(settings, sizeof settings, "keep=all,%s", argv[5]);
    options.settings = settings;
    snprintf(path, sizeof path, "%s/expect", argv[1]);
    mkdir(argv[1], 0700);
    mkdir(path, 0700);
    for (unsigned i = 0; i < REGIONS; i++) {
        piece_make(&pieces[i], CAPACITY / 2 + edits_draw(CAPACITY / 2), CAPACITY);
        piece_noise(&pieces[i], 0, pieces[i].size);
    }
    snprintf(path, sizeof path, "%s/store", argv[1]);
    if (varve_open(path, "fine", &options, &session, &error) != 0)
        die(error.text);
    if (first > 1)
        go_on_from(session, argv[1], first - 1);
    for (int version = first; version <= last; version++) {
        edit(version);
        protect(session);
        if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
            die(varve_session_error(session)->text);
        expect(argv[1], version);
    }
    struct vv_details stats = {0};
    vv_details_get(session, &stats);
    if (stats.chunks_first == 0)
        die("nothing was stored finely");
    return varve_close(session) == 0 ? 0 : 1;
}
