/* lost-mpi STORE COPIES ACTION...: a rank of the job of job.h under a real mpirun, or without MPI (JOB_ENV), for
 * lost.sh. The actions, in order:
 *
 *     restart       from the latest; says "restarted from V", all ranks having come back bit for bit, or
 *                   "not restarted: WHY" and ends with 3
 *     FIRST-LAST    save these versions; says "saved V" of each that survives
 *     stay          until somebody kills a node */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef JOB_ENV
#include <varve/varve_env.h>
#else
#include <varve/varve_mpi.h>
#endif

#include "job.h"

static struct lost_job job;
static struct varve_session *session;

#ifdef JOB_ENV
static struct varve_comm *group;

static int start(int *argc, char ***argv) {
    struct varve_error error;
    (void)argc, (void)argv;
    if (varve_comm_env(&group, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(5);
    }
    return (int)group->rank;
}

/* Nobody ends this rank when another has died. */
static uint64_t all_have(uint64_t value) {
    if (group->ops->reduce_min(group, &value, 1) != 0)
        exit(5);
    return value;
}

static void finish(void) {
    group->ops->close(group);
}

static int open_session(const char *store, const struct varve_options *options, struct varve_error *error) {
    return varve_open_env(store, "job", options, &session, error);
}
#else
static int start(int *argc, char ***argv) {
    int rank, level;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static uint64_t all_have(uint64_t value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return value;
}

static void finish(void) {
    MPI_Finalize();
}

static int open_session(const char *store, const struct varve_options *options, struct varve_error *error) {
    return varve_open_mpi(MPI_COMM_WORLD, store, "job", options, &session, error);
}
#endif

static void end(int code, const char *what, const struct varve_error *error) {
    if (job.rank == 0)
        printf("%s: %s: %s\n", what, varve_error_name(error->code), error->text);
    fflush(stdout);
    all_have(0);
    finish();
    exit(code);
}

static void come_back(void) {
    char where[256] = "";
    int64_t version = -1;
    lost_job_spoil(&job);
    if (varve_restart(session, VARVE_LATEST, &version) != 0) {
        struct varve_error error = *varve_session_error(session);
        varve_close(session);
        end(3, "not restarted", &error);
    }
    int is_exact = lost_job_is(&job, version, where, sizeof where);
    if (!is_exact)
        printf("%s\n", where);
    uint64_t all = all_have((uint64_t)is_exact);
    if (job.rank == 0 && all)
        printf("restarted from %" PRId64 "\n", version);
    fflush(stdout);
}

static void save(int64_t first, int64_t last) {
    for (int64_t version = first; version <= last; version++) {
        lost_job_fill(&job, version);
        int rc = varve_checkpoint(session, version);
        if (rc == 0)
            rc = varve_wait(session);
        if (rc)
            end(4, "not saved", varve_session_error(session));
        if (job.rank == 0)
            printf("saved %" PRId64 "\n", version);
        fflush(stdout);
    }
}

static void stay(void) {
    all_have(0);
    if (job.rank == 0)
        printf("staying\n");
    fflush(stdout);
    for (;; sleep(1))
        all_have(0);
}

int main(int argc, char **argv) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char settings[256];
    if (argc < 3)
        return 2;
    lost_job_init(&job, (uint32_t)start(&argc, &argv));
    snprintf(settings, sizeof settings, "storage=local,dedup=exact,keep=20,block_size=64K,copies=%s", argv[2]);
    options.settings = settings;
    if (open_session(argv[1], &options, &error) != 0)
        end(3, "not opened", &error);
    if (lost_job_protect(&job, session) != 0)
        end(4, "not protected", varve_session_error(session));
    for (int i = 3; i < argc; i++) {
        long long first, last;
        if (strcmp(argv[i], "restart") == 0)
            come_back();
        else if (strcmp(argv[i], "stay") == 0)
            stay();
        else if (sscanf(argv[i], "%lld-%lld", &first, &last) == 2)
            save(first, last);
    }
    int rc = varve_close(session);
    lost_job_clear(&job);
    finish();
    return rc ? 4 : 0;
}
