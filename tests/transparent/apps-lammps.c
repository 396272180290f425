/* LAMMPS by its library: a melt, with checkpoints between the runs. It names nothing. Usage: apps-lammps STORE STEPS
 * KILL_AT [CELLS]. Prints a digest of all positions and velocities. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

/* Of lammps/library.h. */
void *lammps_open_no_mpi(int argc, char **argv, void **out);
void lammps_command(void *lammps, const char *text);
double lammps_get_natoms(void *lammps);
void *lammps_extract_atom(void *lammps, const char *name);

/* Outside of main: the stack does not come back. */
void *lammps;
int64_t step = -1;

static void command(const char *text) {
    lammps_command(lammps, text);
}

static void begin(int cells) {
    char text[128];
    snprintf(text, sizeof text, "region box block 0 %d 0 %d 0 %d", cells, cells, cells);
    const char *const list[] = {"units lj",
                                "atom_style atomic",
                                "lattice fcc 0.8442",
                                text,
                                "create_box 1 box",
                                "create_atoms 1 box",
                                "mass 1 1.0",
                                "velocity all create 3.0 87287 loop geom",
                                "pair_style lj/cut 2.5",
                                "pair_coeff 1 1 1.0 1.0 2.5",
                                "neighbor 0.3 bin",
                                "neigh_modify every 5 delay 0 check no",
                                "fix 1 all nve",
                                "thermo 1000",
                                "run 0"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        command(list[i]);
}

static uint64_t digest(void) {
    uint64_t hash = 0xcbf29ce484222325u;
    size_t count = (size_t)lammps_get_natoms(lammps);
    const char *const names[] = {"x", "v"};
    for (int k = 0; k < 2; k++) {
        double **rows = lammps_extract_atom(lammps, names[k]);
        const uint8_t *bytes = (const uint8_t *)rows[0];
        for (size_t i = 0; i < 3 * count * sizeof(double); i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

int main(int argc, char **argv) {
    char *words[] = {"lammps", "-screen", "none", "-log", "none"};
    struct varve_session *session;
    struct varve_error error;
    struct timespec from, to;
    if (argc < 4)
        return 2;
    if (varve_open(argv[1], "lammps", NULL, &session, &error) != 0)
        return fprintf(stderr, "open: %s\n", error.text), 3;
    lammps = lammps_open_no_mpi(5, words, NULL);
    begin(argc > 4 ? atoi(argv[4]) : 10);
    int rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fprintf(stderr, "restart: %s\n", varve_session_error(session)->text), 4;
    fprintf(stderr, "begins at %d\n", (int)step + 1);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (step++; step < atoi(argv[2]); step++) {
        command("run 5 post no");
        if (step % 3 == 0 && varve_checkpoint(session, step) != 0)
            return fprintf(stderr, "checkpoint: %s\n", varve_session_error(session)->text), 5;
        if (step == atoi(argv[3]) && varve_wait(session) == 0)
            kill(getpid(), SIGKILL);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    fprintf(stderr, "seconds %.3f\n", (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    if (varve_close(session) != 0)
        return 6;
    printf("%016llx\n", (unsigned long long)digest());
    return 0;
}
