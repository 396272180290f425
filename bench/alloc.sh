#!/bin/sh
# bench-alloc as it is, by `varve run`, by `varve run --fixed`, with a library that only passes calls on, which is the least that any
# library takes that stands before malloc, and with jemalloc if it is installed, in turns. Medians of ROUNDS (5 unless told), and what
# `varve run` adds. --check fails if it takes over 5 % more than the C library or jemalloc; without jemalloc it is skipped.
#
#     alloc.sh [--check] VARVE BENCH [ROUNDS [OPTION...]]
check=
[ "$1" = --check ] && check=$1 && shift
varve=$1
bench=$2
rounds=${3:-5}
[ $# -le 3 ] && set -- "$1" "$2" "$rounds"
shift 3
export VARVE_LOG=error # it opens no session, and that is meant
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
jemalloc=$(ldconfig -p 2>/dev/null | sed -n 's/.*libjemalloc.so.2.* => //p' | head -1)
cat >"$folder/pass.c" <<'END'
#include <stddef.h>
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *ptr);
void *malloc(size_t size) {
    return __libc_malloc(size);
}
void free(void *ptr) {
    __libc_free(ptr);
}
END
${CC:-cc} -O2 -fPIC -fno-plt -shared -o "$folder/pass.so" "$folder/pass.c" || exit 1
round=0
while [ $round -lt "$rounds" ]; do
    "$bench" --json "$@" >>"$folder/plain" || exit 1
    "$varve" run -- "$bench" --json "$@" >>"$folder/preload" || exit 1
    "$varve" run --fixed -- "$bench" --json "$@" >>"$folder/fixed" || exit 1
    LD_PRELOAD=$folder/pass.so "$bench" --json "$@" >>"$folder/pass" || exit 1
    [ -z "$jemalloc" ] || LD_PRELOAD=$jemalloc "$bench" --json "$@" >>"$folder/jemalloc" || exit 1
    round=$((round + 1))
done
[ -n "$jemalloc" ] || echo "libjemalloc.so.2 is not installed: nothing is compared with it"
[ -n "$jemalloc" ] || [ -z "$check" ] || exit 77
python3 - "$folder" "$check" <<'END'
import json, os, statistics, sys
BOUND = 5  # percent
found, is_good = {}, True
for name in ("plain", "pass", "preload", "fixed", "jemalloc"):
    path = os.path.join(sys.argv[1], name)
    if os.path.exists(path):
        runs = [json.loads(line) for line in open(path)]
        found[name] = {key: statistics.median(run[key] for run in runs) for key in ("ns_small", "ns_large")}
        print(f"{name:8}  small {found[name]['ns_small']:8.2f} ns   large {found[name]['ns_large']:10.1f} ns")
for key in ("ns_small", "ns_large"):
    print(f"varve run --fixed adds {found['fixed'][key] - found['plain'][key]:.0f} ns to {key[3:]} allocations")
    for name, text in (("plain", "the C library"), ("jemalloc", "jemalloc")):
        if name in found:
            more = 100 * (found["preload"][key] / found[name][key] - 1)
            is_good = is_good and more <= BOUND
            print(f"varve run takes {more:+.1f} % of {text}'s time for {key[3:]} allocations{'' if more <= BOUND else '  TOO MUCH'}")
sys.exit(1 if sys.argv[2] and not is_good else 0)
END
