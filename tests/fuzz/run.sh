#!/bin/sh
# run.sh PROGRAM CORPUS FOLDER: fuzz for VARVE_FUZZ_SECONDS (20), starting from CORPUS. What is found stays in FOLDER.
set -eu
mib=64 # that one allocation may have
case $1 in
*/fuzz_stream) mib=136 ;; # WINDOW_MOST of archive/stream.c, and the step behind it
esac
mkdir -p "$3/found"
# Unless told, libFuzzer ends with 77 after a crash, which ctest and .ci/long take for skipped.
exec "$1" -max_total_time="${VARVE_FUZZ_SECONDS:-20}" -rss_limit_mb=1024 -malloc_limit_mb=$mib -max_len=65536 \
  -print_final_stats=1 -error_exitcode=1 -artifact_prefix="$3/" "$3/found" "$2"
