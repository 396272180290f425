/* A program for VELOC, memory-based: nothing in it knows Varve.  heat_mem CONFIG OUT STEPS */
#include "heat.h"
#include "veloc.h"

int main(int argc, char **argv) {
    struct plate plate;
    MPI_Init(&argc, &argv);
    must(argc == 4, "usage: heat_mem CONFIG OUT STEPS");
    must(VELOC_Init(MPI_COMM_WORLD, argv[1]) == VELOC_SUCCESS, "VELOC_Init");
    set_up(&plate);
    VELOC_Mem_protect(0, &plate.step, 1, sizeof(int));
    VELOC_Mem_protect(1, plate.now, CELLS, sizeof(double));
    int v = VELOC_Restart_test("heat", 0);
    if (v > 0) {
        must(VELOC_Restart("heat", v) == VELOC_SUCCESS, "VELOC_Restart");
        must(plate.step == v, "the step that was restored");
        tell(&plate, "restarted from step %d\n");
    }
    while (plate.step < atoi(argv[3])) {
        compute(&plate);
        if (plate.step % EVERY == 0) {
            must(VELOC_Checkpoint("heat", plate.step) == VELOC_SUCCESS, "VELOC_Checkpoint");
            tell(&plate, "step %d saved\n");
        }
    }
    must(VELOC_Finalize(1) == VELOC_SUCCESS, "VELOC_Finalize");
    write_out(&plate, argv[2]);
    MPI_Finalize();
    return 0;
}
