#!/bin/bash
# A libvarve_s3 that lies beside libvarve and does not load, or is of another version: the reason is told, and no other
# one is looked for.
#
#     test-load.sh LIBVARVE EARLIER
#
# VARVE is the program.
set -u
export LC_ALL=C
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ldd "$VARVE" | grep -q libvarve || exit 77
cp -L "$1" "$work/libvarve.so" || exit 1
soname=$(ldd "$VARVE" | sed -n 's/.*\(libvarve\.so\.[0-9]*\) =>.*/\1/p')

# refused PATTERN: an address fails, and this is what is said.
refused() {
    LD_PRELOAD=$work/libvarve.so ASAN_OPTIONS=verify_asan_link_order=0 "$VARVE" ls s3://bkt/a >"$work/out" 2>&1 && exit 1
    cat "$work/out"
    grep -q "$1" "$work/out" || exit 1
}

echo "this is no library" >"$work/libvarve_s3.so.${soname##*.}"
refused "$work/libvarve_s3.so.*\(invalid ELF header\|file too short\)"
cp -L "$2" "$work/libvarve_s3.so.${soname##*.}" || exit 1
refused "libvarve_s3.so has no function .*: it is of another version"
