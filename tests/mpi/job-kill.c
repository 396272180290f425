/* One rank of the job of tests/crash/job.h under a real mpirun, or without MPI (JOB_ENV); job-kill.sh says which rank
 * is to die where.
 *
 *     job-kill run STORE BOARD fresh|dying|adopting VICTIM FAULT POINT    FAULT as in "?fault=", POINT as in
 * VARVE_FAULT, or - job-kill after STORE BOARD        what must be true afterwards; BOARD is that of the job before
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef JOB_ENV
#include <varve/varve_env.h>
#else
#include <varve/varve_mpi.h>
#endif

#include "campaign.h"
#include "job.h"

#ifdef JOB_ENV
#define ENDS_ALONE 1

static int open_session(void *arg, const char *store, const char *name, const struct varve_options *options,
                        struct varve_session **out, struct varve_error *error) {
    (void)arg;
    return varve_open_env(store, name, options, out, error);
}

static struct varve_comm *group;

static void start(int *argc, char ***argv, int *rank, int *ranks) {
    struct varve_error error;
    (void)argc, (void)argv;
    if (varve_comm_env(&group, &error) != 0)
        child_fail("rank %s, step 0: %s", getenv("RANK"), error.text);
    *rank = (int)group->rank;
    *ranks = (int)group->ranks;
}

static void meet(void) {
    uint64_t value = 0;
    group->ops->reduce_min(group, &value, 1);
}

static void finish(void) {
    group->ops->close(group);
}
#else
#define ENDS_ALONE 0 /* mpirun kills the others */

static int open_session(void *arg, const char *store, const char *name, const struct varve_options *options,
                        struct varve_session **out, struct varve_error *error) {
    (void)arg;
    return varve_open_mpi(MPI_COMM_WORLD, store, name, options, out, error);
}

static void start(int *argc, char ***argv, int *rank, int *ranks) {
    int level;
    MPI_Init_thread(argc, argv, getenv("JOB_ASIDE") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

static void meet(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void finish(void) {
    MPI_Finalize();
}
#endif

static void run(const struct job_way *way, char **argv) {
    struct job_plan plan = {.faulty_rank = atoi(argv[3])};
    struct job_board *board = job_board_open(argv[1]);
    snprintf(plan.folder, sizeof plan.folder, "%s", argv[0]);
    plan.start = strcmp(argv[2], "dying") == 0      ? JOB_DYING
                 : strcmp(argv[2], "adopting") == 0 ? JOB_ADOPTING
                                                    : JOB_FRESH;
    plan.handle = strcmp(argv[2], "adopting") == 0 ? 2 : strcmp(argv[2], "second") == 0 ? 1 : 0;
    if (strcmp(argv[4], "-") != 0)
        snprintf(plan.fault, sizeof plan.fault, "%s", argv[4]);
    if (strcmp(argv[5], "-") != 0 && way->rank == plan.faulty_rank)
        setenv("VARVE_FAULT", argv[5], 1); /* before the library looks for it */
    job_run(way, &plan, board);
    job_board_close(board);
}

static void look(const struct job_way *way, char **argv) {
    struct job_board *before = job_board_open(argv[1]), *board = NULL;
    struct job_plan plan = {.faulty_rank = -1};
    struct job_after after;
    char text[512], path[1024];
    if (job_board_compare(before, text, sizeof text) != 0)
        child_fail("rank %d, step 0: THE RANKS DISAGREE: %s", way->rank, text);
    snprintf(plan.folder, sizeof plan.folder, "%s", argv[0]);
    job_after_from(before, &plan, &after);
    job_board_close(before);
    snprintf(path, sizeof path, "%s.after", argv[1]);
    board = job_board_open(path);
    job_after_check(way, &after, board);
    meet();
    if (job_board_compare(board, text, sizeof text) != 0)
        child_fail("rank %d, step 0: afterwards THE RANKS DISAGREE: %s", way->rank, text);
    if (way->rank == 0)
        printf("%zu were promised, the newest is %lld\n", after.count, (long long)after.newest);
    job_board_close(board);
}

int main(int argc, char **argv) {
    int rank, ranks;
    start(&argc, &argv, &rank, &ranks);
    struct job_way way = {.open = open_session, .rank = rank, .ranks = ranks, .ends_alone = ENDS_ALONE};
    if (ranks != JOB_RANKS)
        child_fail("rank %d, step 0: this wants %d ranks", rank, JOB_RANKS);
    if (argc == 8 && strcmp(argv[1], "run") == 0)
        run(&way, argv + 2);
    else if (argc == 4 && strcmp(argv[1], "after") == 0)
        look(&way, argv + 2);
    else
        child_fail("rank %d, step 0: usage: job-kill run|after STORE BOARD ...", rank);
    finish();
    return 0;
}
