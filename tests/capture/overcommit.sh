#!/bin/sh
# overcommit.sh PROGRAM: tests/capture/overcommit.c where the kernel counts what it promises (vm.overcommit_memory=2). That is
# for the whole machine, and a program that maps much without touching it, such as one with the address sanitizer, cannot
# begin meanwhile. So it is done only if CAPTURE_OVERCOMMIT is 1, by root; what was set before is set again at the end.
# 3 GiB are left for all.
set -u
program=$1 folder=/proc/sys/vm mode='' ratio='' kilobytes='' failed=0 skipped=0
skip() {
    echo "skipped: $*"
    exit 77
}
[ "${CAPTURE_OVERCOMMIT:-}" = 1 ] || skip "CAPTURE_OVERCOMMIT is not 1: vm.overcommit_memory stays $(cat $folder/overcommit_memory)"
[ "$(id -u)" -eq 0 ] || skip "only root may set vm.overcommit_memory"

# shellcheck disable=SC2317 # called by the trap
restore() {
    [ -z "$mode" ] || echo "$mode" >$folder/overcommit_memory
    if [ "${kilobytes:-0}" -ne 0 ]; then # of these two, the one that is written sets the other to 0
        echo "$kilobytes" >$folder/overcommit_kbytes
    elif [ -n "$ratio" ]; then
        echo "$ratio" >$folder/overcommit_ratio
    fi
}
trap restore EXIT
trap 'exit 1' INT TERM HUP

mode=$(cat $folder/overcommit_memory) ratio=$(cat $folder/overcommit_ratio) kilobytes=$(cat $folder/overcommit_kbytes)
promised=$(sed -n 's/^Committed_AS: *\([0-9]*\) .*/\1/p' /proc/meminfo)
{ echo $((promised + 3 * 1024 * 1024)) >$folder/overcommit_kbytes && echo 2 >$folder/overcommit_memory; } ||
    skip "vm.overcommit_memory cannot be set"

# try OPTION...
try() {
    timeout 60 "$program" "$@"
    case $? in
    0) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
}
try --settings capture=auto,staging=512K
try --settings capture=auto,staging=512K --nobody
try --settings capture=frozen,staging=512K --must-hold
try --settings capture=frozen,staging=512K --must-hold --nobody
try --settings capture=held,staging=512K
echo "overcommit: $failed failed, $skipped could not be tried here"
[ $failed -eq 0 ]
