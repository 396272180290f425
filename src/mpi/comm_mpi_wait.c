/* How a rank waits for MPI.
 *
 * MPI libraries wait by looking again and again. Here a rank often waits for others that still write, on the same
 * processors, so it sleeps between two looks once the answer does not come at once.
 *
 * The functions return what MPI does. A simulator of MPI, for which looking and sleeping take time, brings its own
 * (bench/scale_wait.c). */
#include <time.h>

#include "comm_mpi.h"

#define LOOKS 200 /* before the first sleep */
#define SLEEP_MAX_NS 500000L

static void pause_after(unsigned looks) {
    long ns = looks < LOOKS ? 0 : (long)(looks - LOOKS + 1) * 10000;
    struct timespec time = {0, ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS};
    if (ns > 0)
        nanosleep(&time, NULL);
}

int vv_mpi_wait(MPI_Request *request, unsigned looks_max) {
    int is_done = 0, rc = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    for (unsigned looks = 0; rc == MPI_SUCCESS && !is_done && looks < looks_max; looks++) {
        pause_after(looks);
        rc = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    }
    return rc;
}

static int wait_for(int rc, MPI_Request *request) {
    return rc == MPI_SUCCESS ? vv_mpi_wait(request, FOR_EVER) : rc;
}

int vv_mpi_reduce_min(MPI_Comm mpi, int64_t *values, int count) {
    MPI_Request request;
    return wait_for(MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MIN, mpi, &request), &request);
}

int vv_mpi_broadcast(MPI_Comm mpi, void *data, int size, int root) {
    MPI_Request request;
    return wait_for(MPI_Ibcast(data, size, MPI_BYTE, root, mpi, &request), &request);
}

int vv_mpi_next(MPI_Comm mpi, int tag, const uint32_t *pending, size_t count, size_t *which, int *size) {
    MPI_Status status;
    int is_there = 0, rc = MPI_SUCCESS;
    for (unsigned looks = 0; rc == MPI_SUCCESS && !is_there; looks++) {
        pause_after(looks);
        for (size_t i = 0; i < count && rc == MPI_SUCCESS && !is_there; i++) {
            *which = *which + 1 < count ? *which + 1 : 0;
            rc = MPI_Iprobe((int)pending[*which], tag, mpi, &is_there, &status);
        }
    }
    return rc == MPI_SUCCESS ? MPI_Get_count(&status, MPI_BYTE, size) : rc;
}

int vv_mpi_receive(MPI_Comm mpi, int tag, uint32_t rank, void *buffer, int size) {
    return MPI_Recv(buffer, size, MPI_BYTE, (int)rank, tag, mpi, MPI_STATUS_IGNORE);
}
