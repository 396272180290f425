/* A program for VELOC. First run: saves version 7. Second run: restarts from it. */
#include <stdio.h>
#include <veloc.h>

int main(int argc, char **argv) {
    int rank, ranks, number = 0, rc = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 2 && VELOC_Init(MPI_COMM_WORLD, argv[1]) == VELOC_SUCCESS) {
        VELOC_Mem_protect(0, &number, 1, sizeof number);
        int version = VELOC_Restart_test("user", 0);
        if (version > 0) {
            rc = VELOC_Restart("user", version) != VELOC_SUCCESS || number != 100 + rank;
            if (rank == 0 && rc == 0)
                printf("version %d came back on %d ranks\n", version, ranks);
        } else {
            number = 100 + rank;
            rc = VELOC_Checkpoint("user", 7) != VELOC_SUCCESS;
        }
        if (VELOC_Finalize(1) != VELOC_SUCCESS)
            rc = 1;
    }
    MPI_Finalize();
    return rc;
}
