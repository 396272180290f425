#!/bin/sh
# comm-ops.sh FLAVOUR PROGRAM: with 1, 2, 3 and 5 ranks; then with one machine standing for several nodes, and where only one
# thread may communicate.
set -u
here=$(dirname "$0")
. "$here/mpi.sh"

unset VARVE_DOMAIN
for run in 1: 2: 3: 5: 7:uneven 6:rows 6:robin 3:some 2:funneled; do
    ranks=${run%%:*} layout=${run#*:}
    if ! run_mpi "$1" "$ranks" "$2" $layout; then
        echo "FAILED with $ranks ranks${layout:+, $layout}" >&2
        exit 1
    fi
done
