/* A program for VELOC, file-based: nothing in it knows Varve.  heat_file CONFIG OUT STEPS */
#include "heat.h"
#include "veloc.h"

static int write_file(const struct plate *plate, const char *path) {
    FILE *file = fopen(path, "wb");
    int is_good = file && fwrite(&plate->step, sizeof(int), 1, file) == 1 &&
                  fwrite(plate->now, sizeof(double), CELLS, file) == CELLS;
    return file && fclose(file) == 0 && is_good;
}

static int read_file(struct plate *plate, const char *path) {
    FILE *file = fopen(path, "rb");
    int is_good = file && fread(&plate->step, sizeof(int), 1, file) == 1 &&
                  fread(plate->now, sizeof(double), CELLS, file) == CELLS;
    if (file)
        fclose(file);
    return is_good;
}

static void save(const struct plate *plate) {
    char original[VELOC_MAX_NAME], routed[VELOC_MAX_NAME];
    snprintf(original, sizeof original, "heat-%d_%d.dat", plate->step, plate->rank);
    must(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "VELOC_Checkpoint_wait");
    must(VELOC_Checkpoint_begin("heatfile", plate->step) == VELOC_SUCCESS, "VELOC_Checkpoint_begin");
    must(VELOC_Route_file(original, routed) == VELOC_SUCCESS, "VELOC_Route_file");
    int is_valid = write_file(plate, routed);
    must(VELOC_Checkpoint_end(is_valid) == VELOC_SUCCESS, "VELOC_Checkpoint_end");
}

static void restore(struct plate *plate, int version) {
    char original[VELOC_MAX_NAME], routed[VELOC_MAX_NAME];
    snprintf(original, sizeof original, "heat-%d_%d.dat", version, plate->rank);
    must(VELOC_Restart_begin("heatfile", version) == VELOC_SUCCESS, "VELOC_Restart_begin");
    must(VELOC_Route_file(original, routed) == VELOC_SUCCESS, "VELOC_Route_file");
    int is_valid = read_file(plate, routed);
    must(VELOC_Restart_end(is_valid) == VELOC_SUCCESS, "VELOC_Restart_end");
    must(is_valid && plate->step == version, "the step that was restored");
}

int main(int argc, char **argv) {
    struct plate plate;
    MPI_Init(&argc, &argv);
    must(argc == 4, "usage: heat_file CONFIG OUT STEPS");
    must(VELOC_Init(MPI_COMM_WORLD, argv[1]) == VELOC_SUCCESS, "VELOC_Init");
    set_up(&plate);
    int v = VELOC_Restart_test("heatfile", 0);
    if (v > 0) {
        restore(&plate, v);
        tell(&plate, "restarted from step %d\n");
    }
    while (plate.step < atoi(argv[3])) {
        compute(&plate);
        if (plate.step % EVERY == 0) {
            save(&plate);
            tell(&plate, "step %d saved\n");
        }
    }
    must(VELOC_Finalize(1) == VELOC_SUCCESS, "VELOC_Finalize");
    write_out(&plate, argv[2]);
    MPI_Finalize();
    return 0;
}
