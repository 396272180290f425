/* Ranks that trade their edges, and name nothing. Usage: preload-ranks STORE STEPS KILL_AT [list]; rank 1
 * kills itself. With list rank 1 asks for one region, the others for all, and nothing is computed. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_mpi.h>

#define WORDS 40000

static int rank, ranks;
static double *now, *after;
static MPI_Comm own; /* of this process, though it is a static variable */

static void step_once(void) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    /* large enough that MPI takes buffers of its own */
    MPI_Sendrecv(now + WORDS / 2, WORDS / 4, MPI_DOUBLE, right, 0, now, WORDS / 4, MPI_DOUBLE, left, 0, own,
                 MPI_STATUS_IGNORE);
    for (int i = 1; i < WORDS - 1; i++)
        after[i] = 0.25 * now[i - 1] + 0.5 * now[i] + 0.25 * now[i + 1] + 1e-3 * rank;
    memcpy(now + 1, after + 1, (WORDS - 2) * sizeof *now);
}

static uint64_t digest(void) {
    uint64_t hash = 0xcbf29ce484222325u, sum = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t word[2];
        memcpy(&word[0], &now[i], 8);
        memcpy(&word[1], &after[i], 8);
        hash = ((hash ^ word[0]) * 0x100000001b3u ^ word[1]) * 0x100000001b3u;
    }
    MPI_Reduce(&hash, &sum, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    return sum;
}

static int stop(const char *call, const char *text) {
    fprintf(stderr, "%s: %s\n", call, text);
    fflush(stderr);
    usleep(300000); /* or the text is lost on its way */
    MPI_Abort(MPI_COMM_WORLD, 4);
    return 4;
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int64_t step = -1;
    void *window;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    if (argc < 4)
        return 2;
    if (varve_open_mpi(MPI_COMM_WORLD, argv[1], "ranks", NULL, &session, &error) != 0)
        return stop("open", error.text);
    MPI_Alloc_mem(WORDS * sizeof *now, MPI_INFO_NULL, &window); /* left out: it is memory of MPI */
    now = malloc(WORDS * sizeof *now);
    after = calloc(WORDS, sizeof *after);
    for (int i = 0; i < WORDS; i++)
        now[i] = i * 1e-3 + rank;
    const char *const list[] = {"rank"};
    int is_list = argc > 4, number = rank;
    varve_protect(session, list[0], &number, sizeof number);
    int rc = varve_restart_regions(session, VARVE_LATEST, is_list && rank == 1 ? list : NULL, 1, 0, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return stop("restart", varve_session_error(session)->text);
    if (is_list && varve_checkpoint(session, step + 1) != 0)
        return stop("checkpoint", varve_session_error(session)->text);
    if (rank == 0)
        fprintf(stderr, "begins at %d\n", (int)step + 1);
    for (step++; step < atoi(argv[2]) && !is_list; step++) {
        step_once();
        if (step % 3 == 0 && varve_checkpoint(session, step) != 0)
            return stop("checkpoint", varve_session_error(session)->text);
        if (step == atoi(argv[3]) && varve_wait(session) == 0 && rank == 1)
            kill(getpid(), SIGKILL);
    }
    if (varve_close(session) != 0)
        return stop("close", "the last checkpoint is not safe");
    uint64_t sum = digest();
    if (rank == 0)
        printf("%016llx\n", (unsigned long long)sum);
    free(now);
    free(after);
    MPI_Free_mem(window);
    MPI_Finalize();
    return 0;
}
