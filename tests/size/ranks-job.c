/* A job that saves and restores a little memory on every rank, and tells how large everything became: lines
 * "STORAGE.WHAT RANKS BYTES" on stdout, from rank 0.
 *
 *   mpirun -n RANKS ranks-job STORE shared|local CHECKPOINTS
 *
 *   heap.PHASE.root, heap.PHASE.rest   most memory the library held during the phase: on rank 0, and on the worst of
 * the others small.PHASE.root, small.PHASE.rest likewise, without pieces so large that they must be buffers of a fixed
 * size object.KIND                        largest object of this kind in the store count.KIND how many there are
 *   pack.metadata                      most bytes of a rank's pack that are not data
 *
 * ranks.sh runs it with several numbers of ranks, and ranks.py fits the growth. All ranks have the same amount of
 * data, and the work is done in the calling thread, so that the figures differ only by what depends on the number of
 * ranks. */
#include <ftw.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

#include "details.h"
#include "heap.h"

#define BYTES 65536u
#define NAME "job"

static int rank, ranks, checkpoints;
static const char *storage;
static uint8_t memory[BYTES];

static void need(int ok, const char *what, const char *text) {
    if (ok)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void tell(const char *group, const char *what, int64_t bytes) {
    if (rank == 0)
        printf("%s.%s.%s %d %lld\n", storage, group, what, ranks, (long long)bytes);
}

/* ---- memory of a phase ---- */

static void tell_worst(const char *group, const char *phase, int64_t own) {
    char name[64];
    int64_t rest = rank == 0 ? 0 : own;
    MPI_Allreduce(MPI_IN_PLACE, &rest, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s.root", phase);
    tell(group, name, own);
    snprintf(name, sizeof name, "%s.rest", phase);
    tell(group, name, rest);
}

static void tell_peak(const char *phase) {
    struct heap peak = heap_peak();
    tell_worst("heap", phase, peak.all);
    tell_worst("small", phase, peak.small);
    heap_watch();
}

/* ---- the job ---- */

static struct varve_session *open_session(const char *store) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    char settings[80];
    snprintf(settings, sizeof settings, "keep=all,threads=0,codec=none,storage=%s", storage);
    options.settings = settings;
    int rc = varve_open_mpi(MPI_COMM_WORLD, store, NAME, &options, &session, &error);
    need(rc == 0, "open", error.text);
    return session;
}

static void need_session(struct varve_session *session, int rc, const char *what) {
    need(rc == 0, what, varve_session_error(session)->text);
}

static uint8_t byte_of(size_t i, int checkpoint) {
    uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u ^ (uint64_t)(rank + 1) << 40 ^ (uint64_t)(checkpoint + 1) << 50;
    return (uint8_t)(x * 0xBF58476D1CE4E5B9u >> 56);
}

/* The first checkpoint is of everything, later ones of the first quarter. */
static void fill(int checkpoint) {
    for (size_t i = 0; i < (checkpoint ? BYTES / 4 : BYTES); i++)
        memory[i] = byte_of(i, checkpoint);
}

static void save(const char *store, int64_t *metadata) {
    struct vv_details stats = {0};
    heap_watch();
    struct varve_session *session = open_session(store);
    tell_peak("open");
    need_session(session, varve_protect(session, "memory", memory, BYTES), "protect");
    for (int i = 0; i < checkpoints; i++) {
        fill(i);
        need_session(session, varve_checkpoint(session, i), "checkpoint");
        need_session(session, varve_wait(session), "wait");
        if (i == 0)
            tell_peak("first");
        need_session(session, vv_details_get(session, &stats), "stats");
        if ((int64_t)stats.bytes_metadata > *metadata)
            *metadata = (int64_t)stats.bytes_metadata;
    }
    tell_peak("later");
    int rc = varve_close(session);
    need(rc == 0, "close", varve_error_text(rc));
    tell_peak("close");
}

static void restore(const char *store) {
    int64_t version = -1;
    memset(memory, 0, BYTES);
    struct varve_session *session = open_session(store);
    tell_peak("reopen");
    need_session(session, varve_protect(session, "memory", memory, BYTES), "protect");
    need_session(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    tell_peak("restart");
    need(version == checkpoints - 1, "restart", "another version than the last");
    for (size_t i = 0; i < BYTES; i++)
        need(memory[i] == byte_of(i, i < BYTES / 4 ? checkpoints - 1 : 0), "restart", "a byte is not what was saved");
    int rc = varve_close(session);
    need(rc == 0, "close", varve_error_text(rc));
}

/* ---- what is in the store ---- */

enum { STORE, CLAIM, HEARTBEAT, RECORD, WRITERS, CATALOGUE, LOG, PACK, KINDS };
static const char *const kind_names[KINDS] = {"store",   "claim",     "beat", "record",
                                              "writers", "catalogue", "log",  "pack"};
static int64_t largest[KINDS], counts[KINDS];

/* The path says what it is, in this order: a writers list lies among the packs. */
static int kind_of(const char *path) {
    static const char *const marks[KINDS] = {"/varve",   "/claim/",    "/beat/", "/record/",
                                             "/writers", "/catalogue", "/log/",  "/data/"};
    for (int i = 0; i < KINDS; i++)
        if (strstr(path, marks[i]))
            return i;
    return -1;
}

static size_t root_length;

static int take_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if (type != FTW_F || strstr(path, "/.reserve,/"))
        return 0;
    int kind = kind_of(path + root_length);
    need(kind >= 0, "an object of a kind this test does not know", path);
    counts[kind]++;
    if (st->st_size > largest[kind])
        largest[kind] = st->st_size;
    return 0;
}

static void tell_objects(const char *store) {
    root_length = strlen(store);
    need(nftw(store, take_file, 16, FTW_PHYS) == 0, "walk", store);
    for (int i = 0; i < KINDS; i++) {
        if (counts[i] == 0)
            continue; /* the catalogue comes after 65 checkpoints */
        tell("object", kind_names[i], largest[i]);
        tell("count", kind_names[i], counts[i]);
    }
}

int main(int argc, char **argv) {
    int64_t metadata = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need(argc == 4, "usage", "ranks-job STORE shared|local CHECKPOINTS");
    storage = argv[2];
    checkpoints = atoi(argv[3]);
    struct heap before = heap_live();
    save(argv[1], &metadata);
    restore(argv[1]);
    need(heap_live().all == before.all, "memory", "not all that was taken was given back");
    MPI_Allreduce(MPI_IN_PLACE, &metadata, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    tell("pack", "metadata", metadata);
    if (rank == 0)
        tell_objects(argv[1]);
    MPI_Finalize();
    return 0;
}
