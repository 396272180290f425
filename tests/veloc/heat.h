/* Heat in a plate, for the two programs beside: each rank has ROWS rows between two of its neighbours'. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 48
#define COLUMNS 256
#define CELLS ((ROWS + 2) * COLUMNS)
#define EVERY 5

struct plate {
    int rank, ranks, step;
    double *now, *next; /* with a row of the neighbour above and one below */
};

static void set_up(struct plate *plate) {
    MPI_Comm_rank(MPI_COMM_WORLD, &plate->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &plate->ranks);
    plate->now = calloc(CELLS, sizeof(double));
    plate->next = calloc(CELLS, sizeof(double));
    if (!plate->now || !plate->next)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < CELLS; i++)
        plate->now[i] = (i * 7 + plate->rank * 13) % 100;
    plate->step = 0;
}

static void compute(struct plate *plate) {
    int above = plate->rank > 0 ? plate->rank - 1 : MPI_PROC_NULL;
    int below = plate->rank + 1 < plate->ranks ? plate->rank + 1 : MPI_PROC_NULL;
    double *t = plate->now;
    MPI_Sendrecv(t + COLUMNS, COLUMNS, MPI_DOUBLE, above, 1, t + (ROWS + 1) * COLUMNS, COLUMNS, MPI_DOUBLE, below, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(t + ROWS * COLUMNS, COLUMNS, MPI_DOUBLE, below, 2, t, COLUMNS, MPI_DOUBLE, above, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    memcpy(plate->next, t, CELLS * sizeof *t);
    for (int y = 1; y <= ROWS; y++)
        for (int x = 1; x < COLUMNS - 1; x++) {
            const double *c = t + y * COLUMNS + x;
            plate->next[y * COLUMNS + x] = *c + 0.1 * (c[-1] + c[1] + c[-COLUMNS] + c[COLUMNS] - 4 * *c);
        }
    memcpy(t, plate->next, CELLS * sizeof *t);
    plate->step++;
    usleep(500);
}

static void must(int is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "failed: %s\n", what);
        usleep(300000); /* mpirun passes on what was said before */
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void tell(const struct plate *plate, const char *format) {
    if (plate->rank == 0) {
        printf(format, plate->step);
        fflush(stdout);
    }
}

static void write_out(const struct plate *plate, const char *path) {
    double *all = malloc((size_t)plate->ranks * ROWS * COLUMNS * sizeof *all);
    must(all != NULL, "memory");
    MPI_Gather(plate->now + COLUMNS, ROWS * COLUMNS, MPI_DOUBLE, all, ROWS * COLUMNS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (plate->rank == 0) {
        FILE *file = fopen(path, "wb");
        size_t count = (size_t)plate->ranks * ROWS * COLUMNS;
        must(file && fwrite(all, sizeof *all, count, file) == count && fclose(file) == 0, path);
    }
    free(all);
    free(plate->now);
    free(plate->next);
}
