/* bench-scale under a real MPI. */
#include "scale.h"

const int scale_is_simulated = 0;

double scale_start(MPI_Comm mpi, int is_last) {
    (void)is_last;
    MPI_Barrier(mpi);
    MPI_Barrier(mpi); /* the first one has woken them */
    return MPI_Wtime();
}

double scale_stop(void) {
    return 0;
}

struct scale_sent scale_sent(void) {
    return (struct scale_sent){0, 0};
}
