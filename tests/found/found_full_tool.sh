#!/bin/bash
# On a file system without a free inode, or without a free byte, `varve forget` and `varve prune` could not free anything. Now they do, and
# an import, a listing and a restore work afterwards.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || { echo "only root can mount file systems here"; exit 77; }
    exec unshare --mount --propagation private bash "$0" --inside
fi
work=$(mktemp -d)
trap 'umount -l "$work/small" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/small"
export VARVE_KEEP=0 VARVE_MIN_FREE=0 VARVE_CODEC=none

one_kind() {
    local options=$1 size=$2 last=0 i
    mount -t tmpfs -o "$options" none "$work/small"
    mkdir "$work/small/others"
    while head -c "$size" /dev/urandom >"$work/file" && "$VARVE" import "$work/small/ck" run -C "$work" file >"$work/out" 2>&1; do
        cp "$work/file" "$work/last"
        last=$((last + 1))
    done
    grep -q "are short in $work/small/ck" "$work/out" || { cat "$work/out"; echo "the reason is not told"; exit 1; }
    ! grep -q "free, 0 must be" "$work/out" || { cat "$work/out"; echo "this is no reason"; exit 1; }
    [ $last -gt 4 ] || { cat "$work/out"; echo "only $last imports"; exit 1; }
    cat /dev/zero >"$work/small/others/zeros" 2>/dev/null || true
    for i in $(seq 500); do : >"$work/small/others/$i" || break; done 2>/dev/null
    "$VARVE" forget "$work/small/ck" run --keep-last 1
    "$VARVE" prune "$work/small/ck" | tail -1
    "$VARVE" ls "$work/small/ck" run
    "$VARVE" verify "$work/small/ck" | tail -1
    mkdir "$work/back"
    "$VARVE" export "$work/small/ck" run -C "$work/back"
    cmp "$work/last" "$work/back/file"
    "$VARVE" import "$work/small/ck" run -C "$work" file
    rm -r "$work/back"
    umount "$work/small"
}
one_kind nr_inodes=140,size=64m 20000
one_kind size=6m 300000
