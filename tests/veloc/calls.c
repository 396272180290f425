/* VELOC's calls one by one.  calls FOLDER [single]: as a job, or as processes for themselves */
#include "veloc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 20000
#define OK VELOC_SUCCESS
#define BAD VELOC_FAILURE

static int rank, ranks, step, failed;
static double *data;
static char folder[512];

#define IS(call, must) is(#call, call, must, __LINE__)
static void is(const char *what, int got, int must, int line) {
    if (got != must) {
        printf("FAILED: rank %d, line %d: %s is %d, not %d\n", rank, line, what, got, must);
        failed = 1;
    }
}

static void fill(int version) {
    step = version;
    for (int i = 0; i < COUNT; i++)
        data[i] = i % 100 < 80 ? i : version * 1000.0 + rank * 7 + i;
}

static int holds(int version) {
    for (int i = 0; i < COUNT; i++)
        if (data[i] != (i % 100 < 80 ? i : version * 1000.0 + rank * 7 + i))
            return 0;
    return step == version;
}

static void spoil(void) {
    memset(data, 0xa5, COUNT * sizeof *data);
    step = -1;
}

static void protect(void) {
    IS(VELOC_Mem_protect(0, &step, 1, sizeof step), OK);
    IS(VELOC_Mem_protect(1, data, COUNT, sizeof *data), OK);
}

static const char *configure(const char *mode) {
    static char path[600];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s.cfg.%d", folder, mode, rank);
    file = fopen(path, "w");
    if (!file)
        exit(2);
    fprintf(file, "# a comment\nscratch = %s/scratch\n; another\npersistent=%s/persistent ; here\nmode = %s\n", folder,
            folder, mode);
    fclose(file);
    return path;
}

static int is_single;
static int init(const char *path) {
    return is_single ? VELOC_Init_single((unsigned)rank, path) : VELOC_Init(MPI_COMM_WORLD, path);
}

static void before(void) {
    IS(VELOC_Mem_protect(0, &step, 1, sizeof step), BAD);
    IS(VELOC_Checkpoint("a", 1), BAD);
    IS(VELOC_Checkpoint_wait(), BAD);
    IS(VELOC_Checkpoint_finished(), BAD);
    IS(VELOC_Restart_test("a", 0), BAD);
    IS(VELOC_Restart("a", 1), BAD);
    IS(VELOC_Recover_size(0), BAD);
    IS(VELOC_Cleanup("a"), BAD);
    IS(VELOC_Finalize(1), BAD);
    IS(init("/nowhere/veloc.cfg"), BAD);
}

static void arguments(void) {
    IS(VELOC_Restart_test("nothing", 0), BAD);
    IS(VELOC_Restart("nothing", 3), BAD);
    IS(VELOC_Checkpoint("a", -1), BAD);
    IS(VELOC_Restart_test("a", -1), BAD);
    IS(VELOC_Restart("a", -1), BAD);
    IS(VELOC_Checkpoint("a b", 1), BAD);
    IS(VELOC_Checkpoint("", 1), BAD);
    IS(VELOC_Mem_unprotect(99), BAD);
    IS(VELOC_Mem_protect(3, data, SIZE_MAX, 16), BAD);
    IS(VELOC_Mem_protect(3, NULL, 1, 1), BAD);
    if (rank == 0) /* one rank without regions is enough */
        protect();
    IS(VELOC_Checkpoint("a", 1), is_single && rank == 0 ? OK : BAD);
    protect();
    IS(VELOC_Mem_protect(3, data, 1, 8), OK);
    IS(VELOC_Mem_unprotect(3), OK);
    IS(VELOC_Mem_unprotect(3), BAD);
}

static void versions(void) {
    for (int version = 10; version <= 30; version += 10) {
        fill(version);
        IS(VELOC_Checkpoint("heat", version), OK);
    }
    IS(VELOC_Checkpoint("heat", 30), BAD); /* it is there already */
    IS(VELOC_Restart_test("heat", 0), 30);
    IS(VELOC_Restart_test("heat", 30), 30);
    IS(VELOC_Restart_test("heat", 29), 20);
    IS(VELOC_Restart_test("heat", 10), 10);
    IS(VELOC_Restart_test("heat", 9), BAD);
    IS(VELOC_Restart("heat", 25), BAD);
    for (int version = 10; version <= 30; version += 10) {
        spoil();
        IS(VELOC_Restart("heat", version), OK);
        IS(holds(version), 1);
    }
    IS(VELOC_Restart_test("heat", 30), 20); /* what was restored is not good enough, if one asks so */
    IS(VELOC_Restart_test("heat", 0), 30);
}

static void sizes(void) {
    int some[] = {0}, none[] = {77}, extra = 5;
    double *large = malloc(2 * COUNT * sizeof *large), *old = data;
    IS(VELOC_Restart_begin("heat", 20), OK);
    IS(VELOC_Restart_begin("heat", 20), BAD);
    IS(VELOC_Recover_size(0), (int)sizeof step);
    IS(VELOC_Recover_size(1), (int)(COUNT * sizeof *data));
    IS(VELOC_Recover_size(77), -1);
    spoil();
    IS(VELOC_Mem_protect(1, data, rank == ranks - 1 ? COUNT - 1 : COUNT, sizeof *data), OK);
    IS(VELOC_Recover_mem(), is_single && rank != ranks - 1 ? OK : BAD); /* too small on one rank: fails on all */
    IS(VELOC_Mem_unprotect(1), OK);
    IS(VELOC_Recover_mem(), BAD); /* stored, and not protected */
    data = large;
    spoil();
    for (int i = COUNT; i < 2 * COUNT; i++)
        data[i] = 7;
    IS(VELOC_Mem_protect(1, data, 2 * COUNT, sizeof *data), OK);
    IS(VELOC_Mem_protect(9, &extra, 1, sizeof extra), OK);
    IS(VELOC_Recover_selective(VELOC_RECOVER_SOME, none, 1), BAD);
    IS(VELOC_Recover_selective(7, some, 1), BAD);
    IS(VELOC_Recover_selective(VELOC_RECOVER_SOME, some, 1), OK);
    IS(step, 20);
    IS(data[0] == 0, 0);
    IS(VELOC_Recover_selective(VELOC_RECOVER_REST, some, 1), OK);
    IS(VELOC_Restart_end(1), OK);
    IS(holds(20), 1);
    for (int i = COUNT; i < 2 * COUNT; i++) /* what is not stored stays */
        if (data[i] != 7)
            IS(i, -1);
    IS(extra, 5);
    IS(VELOC_Mem_unprotect(9), OK);
    data = old;
    protect();
    free(large);
}

/* What one part of a restart has not filled must be stored as it is. */
static void partly(void) {
    int some[] = {0};
    fill(31);
    IS(VELOC_Restart_begin("heat", 20), OK);
    IS(VELOC_Recover_selective(VELOC_RECOVER_SOME, some, 1), OK);
    IS(VELOC_Restart_end(1), OK);
    IS(step, 20);
    step = 31;
    IS(VELOC_Checkpoint("heat", 31), OK);
    spoil();
    IS(VELOC_Restart_test("heat", 0), 31);
    IS(VELOC_Restart("heat", 31), OK);
    IS(holds(31), 1);
}

static void phases(void) {
    int some[] = {1};
    IS(VELOC_Checkpoint_mem(), BAD);
    IS(VELOC_Checkpoint_end(1), BAD);
    IS(VELOC_Restart_end(1), BAD);
    IS(VELOC_Recover_mem(), BAD);
    IS(VELOC_Checkpoint_begin("heat", 40), OK);
    IS(VELOC_Checkpoint_begin("heat", 40), BAD);
    IS(VELOC_Restart_begin("heat", 30), BAD);
    IS(VELOC_Checkpoint_wait(), BAD);
    IS(VELOC_Checkpoint_end(1), BAD); /* nothing was given */
    fill(40);
    IS(VELOC_Checkpoint_begin("heat", 40), OK);
    IS(VELOC_Checkpoint_mem(), OK);
    IS(VELOC_Checkpoint_end(rank != ranks - 1), is_single && rank != ranks - 1 ? OK : BAD);
    IS(VELOC_Checkpoint_begin("heat", 41), OK);
    IS(VELOC_Checkpoint_mem(), OK);
    data[COUNT - 1] += rank == 0;
    IS(VELOC_Checkpoint_end(1), is_single && rank != 0 ? OK : BAD); /* changed in between on one rank */
    if (!is_single)
        IS(VELOC_Restart_test("heat", 0), 31);
    fill(42);
    IS(VELOC_Checkpoint_begin("heat", 42), OK);
    IS(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, some, 1), OK);
    IS(VELOC_Checkpoint_end(1), OK);
    IS(VELOC_Restart_begin("heat", 42), OK);
    IS(VELOC_Recover_size(0), -1);
    IS(VELOC_Recover_size(1), (int)(COUNT * sizeof *data));
    spoil();
    IS(VELOC_Recover_mem(), OK);
    IS(VELOC_Restart_end(rank != ranks - 1), is_single && rank != ranks - 1 ? OK : BAD);
    IS(step, -1);
    step = 42;
    IS(holds(42), 1);
}

/* Two names, the same memory; one has a region of its own as well. */
static void names(void) {
    double own[100];
    for (int version = 50; version < 56; version++) {
        fill(version);
        IS(VELOC_Checkpoint(version % 2 ? "odd" : "even", version), OK);
    }
    spoil();
    IS(VELOC_Restart_test("even", 0), 54);
    IS(VELOC_Restart("even", 54), OK);
    IS(holds(54), 1);
    IS(VELOC_Restart("odd", 53), OK);
    IS(holds(53), 1);
    for (int i = 0; i < 100; i++)
        own[i] = i + rank;
    IS(VELOC_Region_protect(1, own, 100, sizeof *own, "owner"), OK);
    IS(VELOC_Checkpoint("owner", 1), OK);
    memset(own, 0, sizeof own);
    IS(VELOC_Restart_begin("owner", 1), OK);
    IS(VELOC_Recover_size(0), -1);
    IS(VELOC_Recover_size(1), (int)sizeof own);
    IS(VELOC_Recover_mem(), OK);
    IS(VELOC_Restart_end(1), OK);
    IS(own[99] == 99 + rank, 1);
    IS(VELOC_Region_unprotect(1, "odd"), BAD);
    IS(VELOC_Region_clear("owner"), OK);
    IS(VELOC_Region_unprotect(1, "owner"), BAD);
    IS(VELOC_Mem_protect(5, NULL, 0, 8), OK); /* no bytes */
    IS(VELOC_Checkpoint("owner", 2), OK);
    IS(VELOC_Restart_begin("owner", 2), OK);
    IS(VELOC_Recover_size(5), 0);
    IS(VELOC_Recover_mem(), OK);
    IS(VELOC_Restart_end(1), OK);
    IS(VELOC_Mem_unprotect(5), OK);
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    IS(file && fputs(text, file) >= 0 && fclose(file) == 0, 1);
}

static void files(void) {
    char path[VELOC_MAX_NAME], text[64], must[64];
    IS(VELOC_Route_file("x", path), BAD);
    for (int version = 1; version <= 3; version++) {
        IS(VELOC_Checkpoint_begin("files", version), OK);
        IS(VELOC_Route_file("x", path), OK);
        snprintf(text, sizeof text, "version %d of rank %d", version, rank);
        put(path, version == 3 ? "" : text);
        IS(VELOC_Checkpoint_mem(), BAD);
        IS(VELOC_Checkpoint_end(1), OK);
        IS(access(path, F_OK), -1);
    }
    IS(VELOC_Checkpoint_begin("files", 4), OK);
    IS(VELOC_Route_file("x", path), OK);
    IS(VELOC_Checkpoint_end(1), BAD); /* nothing was written */
    IS(VELOC_Restart_test("files", 0), 3);
    for (int version = 1; version <= 3; version++) {
        memset(text, 0, sizeof text);
        snprintf(must, sizeof must, "version %d of rank %d", version, rank);
        IS(VELOC_Restart_begin("files", version), OK);
        IS(VELOC_Route_file("x", path), OK);
        FILE *file = fopen(path, "rb");
        IS(file != NULL, 1);
        if (file) {
            IS(fread(text, 1, sizeof text - 1, file) == (version == 3 ? 0 : strlen(must)), 1);
            fclose(file);
        }
        IS(strcmp(text, version == 3 ? "" : must), 0);
        IS(VELOC_Restart_end(1), OK);
        IS(access(path, F_OK), -1);
    }
    IS(VELOC_Restart_begin("heat", 31), OK);
    IS(VELOC_Route_file("x", path), BAD); /* it has none */
    IS(VELOC_Restart_end(1), OK);
    snprintf(path, sizeof path, "%s/scratch/files-%d-77.dat", folder, rank);
    put(path, "left by a killed run");
    IS(VELOC_Cleanup("file"), OK); /* another name */
    IS(access(path, F_OK), 0);
    IS(VELOC_Cleanup("files"), OK);
    IS(access(path, F_OK), -1);
}

/* Files of others in scratch, and of what has begun. */
static void cleanup(void) {
    const char *const others[] = {"files-%d-100.data", "files-%d-5.dat.bak", "files-%d-05.dat", "files-%d- 5.dat"};
    char path[VELOC_MAX_NAME], name[64];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, others[i], rank);
        snprintf(path, sizeof path, "%s/scratch/%s", folder, name);
        put(path, "not ours");
        IS(VELOC_Cleanup("files"), OK);
        IS(access(path, F_OK), 0);
    }
    IS(VELOC_Checkpoint_begin("files", 5), OK);
    IS(VELOC_Route_file("x", path), OK);
    put(path, "begun");
    IS(VELOC_Cleanup("files"), OK);
    IS(VELOC_Checkpoint_end(1), OK);
    IS(VELOC_Restart_begin("files", 5), OK);
    IS(VELOC_Cleanup("files"), OK);
    IS(access(path, F_OK), 0);
    IS(VELOC_Restart_end(1), OK);
}

/* Links at names that can be guessed: nothing is written or read through them. */
static void links(void) {
    char path[VELOC_MAX_NAME], link[VELOC_MAX_NAME], target[VELOC_MAX_NAME];
    struct stat status;
    snprintf(target, sizeof target, "%s/target.%d", folder, rank);
    snprintf(link, sizeof link, "%s/scratch/files-%d-6.dat", folder, rank);
    IS(symlink(target, link), 0);
    IS(VELOC_Checkpoint_begin("files", 6), OK);
    IS(VELOC_Route_file("x", path), OK);
    IS(strcmp(path, link), 0);
    IS(access(target, F_OK), -1);
    put(target, "secret");
    IS(symlink(target, link), 0);
    IS(VELOC_Checkpoint_end(1), BAD);
    IS(unlink(link), 0);
    IS(VELOC_Checkpoint_begin("files", 7), OK);
    IS(VELOC_Route_file("x", path), OK);
    put(path, "not a secret, and longer");
    IS(VELOC_Checkpoint_end(1), OK);
    IS(symlink(target, path), 0);
    IS(VELOC_Restart_begin("files", 7), OK);
    IS(lstat(path, &status) == 0 && S_ISREG(status.st_mode), 1);
    IS(stat(target, &status) == 0 && status.st_size == 6, 1);
    IS(VELOC_Restart_end(1), OK);
}

static void again(void) {
    IS(VELOC_Finalize(0), OK);
    IS(VELOC_Finalize(0), BAD);
    IS(init(configure("async")), OK);
    IS(init(configure("async")), BAD);
    protect();
    spoil();
    IS(VELOC_Restart_test("odd", 0), 55);
    IS(VELOC_Restart("odd", 55), OK);
    IS(holds(55), 1);
    if (!is_single && ranks > 1) /* ranks that do not agree */
        IS(VELOC_Checkpoint("odd", 60 + rank), BAD);
    fill(70);
    IS(VELOC_Checkpoint("odd", 70), OK);
    int tries = 0, is_finished;
    while ((is_finished = VELOC_Checkpoint_finished()) == 0 && tries++ < 10000)
        usleep(1000);
    IS(is_finished, 1);
    IS(VELOC_Checkpoint_wait(), OK);
    IS(VELOC_Mem_clear(), OK);
    IS(VELOC_Checkpoint("odd", 71), BAD);
    IS(VELOC_Finalize(1), OK);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    is_single = argc == 3;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    data = malloc(COUNT * sizeof *data);
    fill(0);
    before();
    IS(init(configure("sync")), OK);
    arguments();
    versions();
    sizes();
    partly();
    phases();
    names();
    files();
    cleanup();
    links();
    again();
    free(data);
    printf("rank %d: %s\n", rank, failed ? "failed" : "all calls");
    MPI_Finalize();
    return failed;
}
