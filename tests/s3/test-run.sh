#!/bin/bash
# `varve run` with a store in a bucket: killed, it ends with the results of a run in a folder.
#
#     test-run.sh PROGRAM
#
# PROGRAM is preload-steps of tests/transparent, VARVE the program, S3_STORE a bucket.
set -u
export LC_ALL=C
unset VARVE_STORE VARVE_CONFIG XDG_CONFIG_HOME
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
store="$S3_STORE/run-$$?timeout=5s"

fail() {
    echo "FAILED: $*"
    cat out err
    exit 1
}

"$VARVE" run -- "$1" whole 40 -1 >expected 2>err || fail "a run in a folder"
"$VARVE" run -- "$1" "$store" 40 22 >out 2>err
[ $? -eq 137 ] || fail "it is not killed, but ends at a checkpoint"
"$VARVE" run -- "$1" "$store" 40 -1 >out 2>err || fail "a second run"
grep -q 'begins at 22' err || fail "it began anew"
cmp expected out || fail "other results"
