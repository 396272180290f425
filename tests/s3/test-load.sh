#!/bin/bash
# A libvarve_s3 that lies beside libvarve and does not load: the reason is told, and no other one is looked for.
#
#     test-load.sh LIBVARVE
#
# VARVE is the program.
set -u
export LC_ALL=C
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ldd "$VARVE" | grep -q libvarve || exit 77
cp -L "$1" "$work/libvarve.so" || exit 1
soname=$(ldd "$VARVE" | sed -n 's/.*\(libvarve\.so\.[0-9]*\) =>.*/\1/p')
echo "this is no library" >"$work/libvarve_s3.so.${soname##*.}"
LD_PRELOAD=$work/libvarve.so ASAN_OPTIONS=verify_asan_link_order=0 "$VARVE" ls s3://bkt/a >"$work/out" 2>&1 && exit 1
cat "$work/out"
grep -q "$work/libvarve_s3.so.*\(invalid ELF header\|file too short\)" "$work/out"
