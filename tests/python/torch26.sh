#!/bin/sh
# The tests of varve.dcp, those of torch's sharded optimisers included, with torch 2.6 in a Debian 13 of its own:
#
#     torch26.sh [--there] BUILD [argument of pytest...]        as root
#
# --there           skip unless there is a root already: to make one takes three minutes, which the gate does not
#                   have, and the package archive. .ci/long python makes one.
# VARVE_TORCH_ROOT  a root that is there already, with python3-torch, python3-pytest and python3-numpy. Nothing is
#                   changed in it. Without it one is made in BUILD/torch26-root, by mmdebstrap, in three minutes.
# VARVE_TORCH_RUN   run this command in the root instead of pytest; $0 is the folder of the sources.
#
# The libraries of BUILD are used. What they need and the root does not have is taken along. Exit code 77: skipped.
set -u
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "torch26.sh: $*" >&2; exit 1; }

is_made=1
if [ "${1:-}" = --there ]; then
    is_made=0
    shift
fi
[ $# -ge 1 ] || fail "which build?"
build=$(cd "$1" && pwd) || fail "no build in $1"
shift
source=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || skip "only root may use a root of its own"
root=${VARVE_TORCH_ROOT:-$build/torch26-root}
if [ ! -e "$root/usr/lib/python3/dist-packages/torch" ]; then
    [ -z "${VARVE_TORCH_ROOT:-}" ] || skip "$root has no python3-torch"
    [ $is_made = 1 ] || skip "there is no Debian 13 with torch 2.6 here. To run it: tests/python/torch26.sh $build, as root," \
        "makes one in three minutes; VARVE_TORCH_ROOT names one that is there"
    command -v mmdebstrap >/dev/null || skip "there is no mmdebstrap to make a Debian 13 with torch 2.6"
    rm -rf "$root.new"
    mmdebstrap --variant=minbase --include=python3-torch,python3-pytest,python3-numpy,liblz4-1,libzstd1,libxxhash0 \
        trixie "$root.new" >"$build/torch26-root.log" 2>&1 || skip "mmdebstrap failed: $(tail -n 1 "$build/torch26-root.log")"
    mv "$root.new" "$root"
fi

# Mounts of our own, gone with the process: nobody else sees them, and nothing stays behind.
if [ "${VARVE_TORCH_UNSHARED:-}" != 1 ]; then
    unshare --mount true 2>/dev/null || skip "mounts of its own are not allowed here"
    VARVE_TORCH_UNSHARED=1 exec unshare --mount --propagation private "$0" "$build" "$@"
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-torch.XXXXXX") || fail "no folder for libraries"
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib" "$work/tmp"
cp -L "$build"/src/libvarve.so.0 "$work/lib" || fail "no library in $build/src"
cp -L "$build"/src/libvarve_env.so.0 "$work/lib" || skip "libvarve_env was not built: it needs libssl-dev"
LD_LIBRARY_PATH="$build/src" ldd "$build"/src/libvarve.so.0 "$build"/src/libvarve_env.so.0 |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | grep -v libvarve | sort -u | while read -r file; do
    [ -n "$(find "$root/usr/lib" -maxdepth 2 -name "$(basename "$file")" -print -quit)" ] || cp -L "$file" "$work/lib"
done
# An empty memory file system for the mount points, over the root's /mnt.
mount -t tmpfs tmpfs "$root/mnt" && mkdir "$root/mnt/source" "$root/mnt/lib" || fail "cannot mount in $root"
mount --bind "$source" "$root/mnt/source" && mount --bind "$work/lib" "$root/mnt/lib" &&
    mount --bind "$work/tmp" "$root/tmp" && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" ||
    fail "cannot mount in $root"
run=${VARVE_TORCH_RUN:-'python3 -m pytest -q -rs -p no:cacheprovider "$@"'}
[ $# -gt 0 ] || [ -n "${VARVE_TORCH_RUN:-}" ] || set -- /mnt/source/python/tests/test_dcp.py /mnt/source/python/tests/test_sharded.py
chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp LANG=C.UTF-8 LIBVARVE=/mnt/lib \
    LD_LIBRARY_PATH=/mnt/lib PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/mnt/source/python \
    TEST_SCALE="${TEST_SCALE:-100}" VARVE_CONFIG=/dev/null /bin/sh -c "$run" /mnt/source "$@"
code=$?
exit $code
