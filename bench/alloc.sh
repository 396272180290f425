#!/bin/sh
# bench-alloc as it is, by `varve run`, and with jemalloc if it is installed, in turns. Medians of ROUNDS (5 unless told), and what
# `varve run` adds.
#
#     alloc.sh VARVE BENCH [ROUNDS [OPTION...]]
varve=$1
bench=$2
rounds=${3:-5}
[ $# -le 3 ] && set -- "$1" "$2" "$rounds"
shift 3
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
jemalloc=$(ldconfig -p 2>/dev/null | sed -n 's/.*libjemalloc.so.2.* => //p' | head -1)
round=0
while [ $round -lt "$rounds" ]; do
    "$bench" --json "$@" >>"$folder/plain" || exit 1
    "$varve" run -- "$bench" --json "$@" >>"$folder/preload" || exit 1
    [ -z "$jemalloc" ] || LD_PRELOAD=$jemalloc "$bench" --json "$@" >>"$folder/jemalloc" || exit 1
    round=$((round + 1))
done
python3 - "$folder" <<'END'
import json, os, statistics, sys
found = {}
for name in ("plain", "preload", "jemalloc"):
    path = os.path.join(sys.argv[1], name)
    if os.path.exists(path):
        runs = [json.loads(line) for line in open(path)]
        found[name] = {key: statistics.median(run[key] for run in runs) for key in ("ns_small", "ns_large")}
        print(f"{name:8}  small {found[name]['ns_small']:8.2f} ns   large {found[name]['ns_large']:10.1f} ns")
for key in ("ns_small", "ns_large"):
    print(f"varve run adds {100 * (found['preload'][key] / found['plain'][key] - 1):.1f} % to {key[3:]} allocations")
END
