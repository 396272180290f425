#!/bin/sh
# scalapack.sh FLAVOUR PROGRAM: what comes back on another grid of processes is what ScaLAPACK's pdgemr2d moves there (scalapack.c).
set -u
flavour=$1
program=$2
. "$(dirname "$0")/killed.sh"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

run 6 "$folder/store" || fail "with $?"
[ "$(grep -c 'the same bits as from pdgemr2d' log)" -eq 5 ] || fail "not every grid was compared"
grep 'the same bits' log
