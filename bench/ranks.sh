#!/bin/sh
# ranks.sh RANKS PROGRAM ARGUMENT...: run a benchmark on several ranks of this machine, with the mpirun of the MPI it was built with.
# 77 if there is none.
set -u
. "$(dirname "$0")/../tests/mpi/mpi.sh"

case $(ldd "$2") in
*libmpich*) flavour=mpich ;;
*libmpi*) flavour=openmpi ;;
*)
    echo "skipped: $2 was built without MPI"
    exit 77
    ;;
esac
MPI_SECONDS=${MPI_SECONDS:-900}
run_mpi $flavour "$@"
