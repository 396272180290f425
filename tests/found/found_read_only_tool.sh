#!/bin/bash
# The commands that only read must work on a read-only mount and in a store of somebody else, and write nothing there; also where they could.
set -eu
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || { echo "only root can mount file systems here"; exit 77; }
    exec unshare --mount --propagation private bash "$0" --inside
fi
work=$(mktemp -d /tmp/varve-found-XXXXXX)
trap 'umount -l "$work/ck" 2>/dev/null || true; rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022
# Others may not be able to reach the folder of the build.
mkdir "$work/bin"
cp "$VARVE" "$BUILD"/src/libvarve.so* "$work/bin/"
export VARVE_MODE=umask LD_LIBRARY_PATH=$work/bin
varve=$work/bin/varve

head -c 300000 /dev/urandom >"$work/file"
"$VARVE" import "$work/ck" run -C "$work" file 2>/dev/null
head -c 1000 /dev/urandom >>"$work/file"
"$VARVE" import "$work/ck" run -C "$work" file 2>/dev/null

look() { find "$work/ck" -printf '%p %s %m %T@ %C@\n' | sort; }
all_commands() {
    local out=$1
    shift
    mkdir -m 777 "$out"
    for command in "ls $work/ck" "show $work/ck run@1" "verify $work/ck" "stats $work/ck" \
        "export $work/ck run@1 -C $out" "restore $work/ck run@1 file -o $out/region"; do
        # shellcheck disable=SC2086 # several words
        "$@" "$varve" $command >"$work/out" 2>&1 || { cat "$work/out"; echo "failed: $command"; exit 1; }
    done
    "$@" "$varve" diff "$work/ck" run@0 run@1 >"$work/out" 2>&1 || [ $? -eq 1 ] || { cat "$work/out"; exit 1; }
    cmp "$work/file" "$out/file"
    cmp "$work/file" "$out/region"
}
look >"$work/before"
all_commands "$work/own"
all_commands "$work/nobody" setpriv --reuid 65534 --regid 65534 --clear-groups
look >"$work/after"
cmp "$work/before" "$work/after"
mount --bind "$work/ck" "$work/ck"
mount -o remount,bind,ro "$work/ck"
all_commands "$work/mounted"
