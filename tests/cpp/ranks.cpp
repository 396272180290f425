// An exception on one of several ranks: its session must not wait for the others, which know nothing of it.
//
//     mpirun -n 2 ranks STORE [throw]      with throw, rank 1 throws in the loop after a checkpoint, and ends the job
#include <cstdlib>
#include <iostream>
#include <string>
#include <varve/varve.hpp>
#include <varve/varve_mpi.h>
#include <vector>

static void run(const char *store, int rank, bool is_thrown) {
    std::vector<double> v;
    varve::session s = varve::open_mpi(MPI_COMM_WORLD, store, "ranks");
    s.protect("v", v);
    auto version = s.restart();
    for (double one : v)
        if (one != rank)
            MPI_Abort(MPI_COMM_WORLD, 2);
    if (version && rank == 0)
        std::cout << "version " << *version << " came back with " << v.size() << std::endl;
    v.assign(1000 * static_cast<std::size_t>(rank + 1), rank);
    s.checkpoint(version.value_or(0) + 1);
    s.wait();
    v[0] = rank;
    s.checkpoint(version.value_or(0) + 2); // its last step is taken inside a collective call
    if (is_thrown && rank == 1)
        throw std::runtime_error("rank 1 is wrong");
    if (is_thrown)
        MPI_Barrier(MPI_COMM_WORLD); // for ever
    s.close();
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setenv("VARVE_DOMAIN", rank == 0 ? "one" : "other", 1); // two nodes: ranks talk only when they both call
    try {
        run(argv[1], rank, argc > 2);
    } catch (const std::exception &e) {
        std::cerr << "caught on rank " + std::to_string(rank) + ": " + e.what() + "\n" << std::flush; // in one write
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Finalize();
    return 0;
}
