#!/bin/sh
# run.sh PROGRAM CORPUS FOLDER MIB: fuzz for VARVE_FUZZ_SECONDS (20), starting from CORPUS. What is found stays in FOLDER.
# One allocation may have MIB.
set -eu
mkdir -p "$3/found"
exec "$1" -max_total_time="${VARVE_FUZZ_SECONDS:-20}" -rss_limit_mb=1024 -malloc_limit_mb="$4" -max_len=65536 \
  -print_final_stats=1 -artifact_prefix="$3/" "$3/found" "$2"
