#!/bin/sh
# ranks.sh PYTHON FLAVOUR PROGRAM: nothing may grow with the number of ranks but the writers list. Runs ranks-job with 4, 16 and 64 of them, and
# ranks.py fits the growth. Only sizes are looked at, so the store may be in memory.
set -u
# Ranks that share a writer: their rings and its blocks grow with the ranks of a node, up to a bound, not with those of the job. Here all are on one.
export VARVE_AGGREGATE=1
here=$(dirname "$0")
. "$here/../mpi/mpi.sh"
MPI_SECONDS=${MPI_SECONDS:-240}

folder=$(mktemp -d "${TEST_FOLDER:-/dev/shm}/size-ranks-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
for ranks in ${SIZE_RANKS:-4 16 64}; do
    for job in "shared 70" "local 5"; do # 70: the catalogue is written after 65
        # shellcheck disable=SC2086
        run_mpi "$2" "$ranks" "$3" "$folder/store" $job >>"$folder/sizes" || {
            echo "the job with $ranks ranks, $job, failed" >&2
            exit 1
        }
        rm -rf "$folder/store"
    done
done
"$1" "$here/ranks.py" "$folder/sizes"
