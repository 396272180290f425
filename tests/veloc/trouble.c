/* What a job does when the store cannot be read, or a checkpoint fails, for a while.  trouble FOLDER PART */
#include "veloc.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define COUNT 200000
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

static void init(const char *mode) {
    char persistent[600], scratch[600];
    snprintf(persistent, sizeof persistent, "%s/persistent", folder);
    snprintf(scratch, sizeof scratch, "%s/scratch", folder);
    setenv("VELOC_PERSISTENT", persistent, 1);
    setenv("VELOC_SCRATCH", scratch, 1);
    setenv("VELOC_MODE", mode, 1);
    IS(VELOC_Init(MPI_COMM_WORLD, NULL), OK);
    IS(VELOC_Mem_protect(0, &step, 1, sizeof step), OK);
    IS(VELOC_Mem_protect(1, data, COUNT, sizeof *data), OK);
}

static void fill(int version) {
    step = version;
    for (int i = 0; i < COUNT; i++)
        data[i] = version * 1000.0 + rank * 7 + i;
}

static void limit(int resource, rlim_t bound) {
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = bound < now.rlim_max ? bound : now.rlim_max;
    IS(setrlimit(resource, &now), 0);
}

/* ---- the store cannot be read ---- */

/* No file can be opened on one rank: what is stored is neither damaged nor missing. */
static void unread(int which) {
    const char *new_name = which == 0 ? "new0" : "new1";
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    if (rank == which)
        limit(RLIMIT_NOFILE, 3);
    IS(VELOC_Restart_test("heat", 0), BAD);
    IS(VELOC_Restart_test(new_name, 0), BAD); /* its session does not open */
    limit(RLIMIT_NOFILE, before.rlim_cur);
    IS(VELOC_Checkpoint("heat", 100 + which), BAD);
    IS(VELOC_Checkpoint(new_name, 1), BAD);
    IS(VELOC_Checkpoint_finished(), 1);
    IS(VELOC_Checkpoint_wait(), OK);
    IS(VELOC_Restart_test("heat", 0), 20 + which);
    IS(VELOC_Restart_test(new_name, 0), BAD);
    IS(VELOC_Checkpoint("heat", 21 + which), OK);
    IS(VELOC_Checkpoint(new_name, 1), OK);
}

/* One more file can be opened each time: wherever it fails, the newest version is not passed over. */
static void nearly_read(int newest) {
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    for (int more = 0; more < 12; more++) {
        int lowest = dup(0);
        close(lowest);
        if (rank == 1)
            limit(RLIMIT_NOFILE, (rlim_t)(lowest + more));
        int found = VELOC_Restart_test("heat", 0);
        limit(RLIMIT_NOFILE, before.rlim_cur);
        IS(found == BAD ? newest : found, newest);
        if (found == BAD)
            IS(VELOC_Checkpoint("heat", newest + 1), BAD);
    }
    IS(VELOC_Restart_test("heat", 0), newest);
}

static void looks(void) {
    init("sync");
    fill(10);
    IS(VELOC_Checkpoint("heat", 10), OK);
    fill(20);
    IS(VELOC_Checkpoint("heat", 20), OK);
    IS(VELOC_Finalize(1), OK);
    init("sync");
    unread(0);
    unread(1);
    nearly_read(22);
    IS(VELOC_Restart("heat", 20), OK);
    IS(step, 20);
    IS(VELOC_Finalize(1), OK);
}

/* ---- damage ---- */

static const char *damaged_part, *damaged_version;
static int damaged;
static int damage_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)at;
    if (kind != FTW_F || status->st_size < 16 || !strstr(path, damaged_part) || !strstr(path, damaged_version))
        return 0;
    FILE *file = fopen(path, "r+b");
    IS(file && fseek(file, (long)status->st_size / 2, SEEK_SET) == 0, 1);
    int byte = file ? fgetc(file) : 0;
    IS(file && fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 255, file) != EOF && fclose(file) == 0, 1);
    damaged++;
    return 0;
}

/* Every file of a version, which is in their paths in hex. */
static void damage(const char *part, const char *version) {
    char path[600];
    snprintf(path, sizeof path, "%s/persistent/varve", folder);
    MPI_Barrier(MPI_COMM_WORLD);
    damaged_part = part;
    damaged_version = version;
    damaged = 0;
    if (rank == 0) {
        IS(nftw(path, damage_one, 16, FTW_PHYS), 0);
        IS(damaged > 0, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A version that was damaged is offered again when it has been stored anew. */
static void anew(void) {
    init("sync");
    for (int version = 16; version <= 64; version += 16) {
        fill(version);
        IS(VELOC_Checkpoint("heat", version), OK);
    }
    IS(VELOC_Finalize(1), OK);
    damage("/n/heat/record/", "ffffffffffffffbf"); /* 64: counted down */
    damage("/n/heat/data/", "0000000000000030");   /* 48 */
    init("sync");
    IS(VELOC_Restart_test("heat", 0), 32);
    IS(VELOC_Restart("heat", 32), OK);
    IS(step, 32);
    fill(48);
    IS(VELOC_Checkpoint("heat", 48), OK);
    IS(VELOC_Restart_test("heat", 0), 48);
    fill(64);
    IS(VELOC_Checkpoint("heat", 64), OK);
    IS(VELOC_Restart_test("heat", 0), 64);
    fill(0);
    IS(VELOC_Restart("heat", 64), OK);
    IS(step, 64);
    IS(VELOC_Finalize(1), OK);
}

/* ---- checkpoints that fail after their call has returned ---- */

static int save(int version) {
    fill(version);
    IS(VELOC_Checkpoint_begin("heat", version), OK);
    IS(VELOC_Checkpoint_mem(), OK);
    return VELOC_Checkpoint_end(1);
}

/* Files cannot grow until it is known what became of it. */
static void save_in_vain(int version) {
    limit(RLIMIT_FSIZE, 4096);
    IS(save(version), OK);
}

static int finished(void) {
    int is_finished, tries = 0;
    while ((is_finished = VELOC_Checkpoint_finished()) == 0 && tries++ < 10000)
        usleep(1000);
    return is_finished;
}

static void later(void) {
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    init("async");
    IS(save(10), OK);
    IS(finished(), 1);
    save_in_vain(20);
    IS(VELOC_Restart_test("heat", 0), 10);
    limit(RLIMIT_FSIZE, before.rlim_cur);
    IS(save(30), OK);
    IS(VELOC_Checkpoint_wait(), BAD); /* 20, once */
    IS(VELOC_Checkpoint_wait(), OK);
    save_in_vain(40);
    IS(finished(), BAD);
    limit(RLIMIT_FSIZE, before.rlim_cur);
    IS(save(50), OK);
    IS(VELOC_Checkpoint_wait(), OK); /* 40 was told */
    save_in_vain(52);
    IS(VELOC_Checkpoint_wait(), BAD);
    IS(VELOC_Checkpoint_wait(), OK); /* or who saves only after a wait would never save again */
    limit(RLIMIT_FSIZE, before.rlim_cur);
    IS(save(54), OK);
    IS(VELOC_Checkpoint_wait(), OK);
    save_in_vain(60);
    usleep(1500000);
    limit(RLIMIT_FSIZE, before.rlim_cur);
    IS(save(70), OK);
    IS(VELOC_Restart_test("heat", 0), 70); /* it waits for what is in flight */
    IS(VELOC_Restart_test("heat", 69), 54);
    IS(VELOC_Finalize(1), BAD); /* 60 */
}

/* ---- files ---- */

static char routed[VELOC_MAX_NAME];
static int save_file(int version) {
    IS(VELOC_Checkpoint_begin("files", version), OK);
    IS(VELOC_Route_file("x", routed), OK);
    FILE *file = fopen(routed, "wb");
    IS(file && fwrite(data, sizeof *data, COUNT, file) == COUNT && fclose(file) == 0, 1);
    return VELOC_Checkpoint_end(1);
}

/* With a store that is slow: VARVE_FAULT. */
static void scratch(void) {
    init("async");
    fill(1);
    for (int version = 1; version <= 3; version++) {
        IS(save_file(version), OK);
        IS(access(routed, F_OK), 0);
        IS(VELOC_Cleanup("files"), OK);
        IS(access(routed, F_OK), 0);
        IS(version == 1 ? VELOC_Checkpoint_wait() : version == 2 ? finished() - 1 : VELOC_Finalize(1), OK);
        IS(access(routed, F_OK), -1);
    }
    init("async");
    IS(save_file(4), OK);
    char earlier[VELOC_MAX_NAME];
    memcpy(earlier, routed, sizeof earlier);
    IS(save_file(5), OK);
    IS(access(earlier, F_OK), -1);
    IS(access(routed, F_OK), 0);
    IS(VELOC_Finalize(1), OK);
    IS(access(routed, F_OK), -1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    data = malloc(COUNT * sizeof *data);
    if (argc == 3 && strcmp(argv[2], "looks") == 0)
        looks();
    else if (argc == 3 && strcmp(argv[2], "anew") == 0)
        anew();
    else if (argc == 3 && strcmp(argv[2], "later") == 0)
        later();
    else if (argc == 3 && strcmp(argv[2], "scratch") == 0)
        scratch();
    else
        failed = 1;
    free(data);
    printf("rank %d: %s\n", rank, failed ? "failed" : "all calls");
    MPI_Finalize();
    return failed;
}
