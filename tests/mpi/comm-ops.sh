#!/bin/sh
# comm-ops.sh FLAVOUR PROGRAM: with 1, 2, 3 and 5 ranks.
set -u
here=$(dirname "$0")
. "$here/mpi.sh"

for ranks in 1 2 3 5; do
    if ! run_mpi "$1" $ranks "$2"; then
        echo "FAILED with $ranks ranks" >&2
        exit 1
    fi
done
