/* asked STORE: a job of four ranks under mpirun. Each rank in turn gets a signal; then another process than rank 0 asks
 * through the store that the job ends. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_inspect.h>
#include <varve/varve_mpi.h>

static int rank, ranks;

static void expect(const char *what, int is, int expected) {
    if (is == expected)
        return;
    fprintf(stderr, "FAILED: rank %d: %s is %d, not %d\n", rank, what, is, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void signal_each(struct varve_session *s, unsigned char *data, int64_t *version) {
    for (int asked = 0; asked < ranks; asked++) {
        expect("need before", varve_need(s), 0);
        if (rank == asked)
            raise(SIGUSR1);
        expect("need", varve_need(s), 1);
        data[asked]++;
        expect("checkpoint", varve_checkpoint(s, ++*version), 0);
        expect("exit", varve_should_exit(s), 0);
    }
}

static void end_by_trigger(struct varve_session *s, const char *address, int64_t *version) {
    struct varve_store *store;
    struct varve_error error;
    int count = 0, is_exit = 0;
    if (rank == ranks - 1) {
        expect("open", varve_store_open(address, NULL, &store, &error), 0);
        expect("trigger", varve_store_trigger(store, "asked", VARVE_TRIGGER_EXIT, &error), 0);
        varve_store_close(store);
    }
    for (int i = 0; i < 200 && !is_exit; i++) {
        usleep(50000);
        if (varve_need(s) == 1) {
            count++;
            expect("checkpoint", varve_checkpoint(s, ++*version), 0);
        }
        is_exit = varve_should_exit(s);
    }
    expect("exit", is_exit, 1);
    expect("checkpoints", count, 1);
}

int main(int argc, char **argv) {
    static unsigned char data[1 << 20];
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *s;
    struct varve_error error;
    int64_t version = 0;
    options.settings = "interval=asked,signal=USR1,keep=all";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(data, rank + 1, sizeof data);
    expect("arguments", argc, 2);
    expect("varve_open_mpi", varve_open_mpi(MPI_COMM_WORLD, argv[1], "asked", &options, &s, &error), 0);
    expect("protect", varve_protect(s, "data", data, sizeof data), 0);
    signal_each(s, data, &version);
    end_by_trigger(s, argv[1], &version);
    expect("close", varve_close(s), 0);
    if (rank == 0)
        printf("asked: %d checkpoints\n", (int)version);
    MPI_Finalize();
    return 0;
}
