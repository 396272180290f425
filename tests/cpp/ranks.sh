#!/bin/sh
# ranks.sh FLAVOUR PROGRAM: see ranks.cpp
. "$(dirname "$0")/../mpi/mpi.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-cpp-XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    cat "$work"/*.log
    exit 1
}
run_mpi "$1" 2 "$2" "$work/store" throw >"$work/thrown.log" 2>&1
code=$?
[ $code -eq 77 ] && exit 77
[ $code -ne 124 ] || fail "the rank that threw waits for the other"
[ $code -ne 0 ] || fail "nobody threw"
grep -q 'caught on rank 1: rank 1 is wrong' "$work/thrown.log" || fail "the exception was not caught"
run_mpi "$1" 2 "$2" "$work/store" >"$work/again.log" 2>&1 || fail "the second run"
grep 'version [12] came back with 1000' "$work/again.log" || fail "nothing came back"
