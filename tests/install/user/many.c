/* The same on several ranks, each with an array of its own size. */
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve_mpi.h>

#define CELLS 10000

static int rank, ranks;

static double wanted(int i) {
    return (double)i / 7 + rank;
}

static void end(const char *what, const char *why) {
    fprintf(stderr, "many: rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void save(struct varve_session *s, double *cells, int count) {
    for (int i = 0; i < count; i++)
        cells[i] = wanted(i);
    if (varve_checkpoint(s, 7) != 0 || varve_wait(s) != 0)
        end("checkpoint", varve_session_error(s)->text);
    if (rank == 0)
        printf("many: saved on %d ranks\n", ranks);
}

static void compare(const double *cells, int count, int64_t version) {
    for (int i = 0; i < count; i++)
        if (cells[i] != wanted(i))
            end("restart", "other bytes came back");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("many: version %d came back on %d ranks\n", (int)version, ranks);
}

int main(int argc, char **argv) {
    struct varve_session *s;
    struct varve_error error;
    int64_t version = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2)
        end("usage", "many STORE");
    if (varve_open_mpi(MPI_COMM_WORLD, argv[1], "many", NULL, &s, &error) != 0)
        end("open", error.text);
    int count = CELLS * (rank + 1);
    double *cells = varve_alloc(s, "cells", (size_t)count * sizeof *cells);
    if (!cells)
        end("alloc", varve_session_error(s)->text);
    int rc = varve_restart(s, VARVE_LATEST, &version);
    if (rc == VARVE_NO_CHECKPOINT)
        save(s, cells, count);
    else if (rc == 0)
        compare(cells, count, version);
    else
        end("restart", varve_session_error(s)->text);
    if (varve_close(s) != 0)
        end("close", "the checkpoint is lost");
    MPI_Finalize();
    return 0;
}
