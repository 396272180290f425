#!/bin/sh
# aware.sh PROGRAM FOLDER [STORES [RANKS]]: bench-aware with everything: its own states and those of real programs (aware-data.sh), all kept in
# FOLDER/aware-data, as dumps of RANKS ranks (32 unless told). Stores lie in STORES (/dev/shm unless told). JSON lines go to FOLDER/aware.json,
# from which aware.py prints the tables of docs/measurements/grouping.md and draws docs/aware.svg. An hour on two cores, and 2 GB; what else the machine does only
# costs time. Fails when a bound is passed. AWARE_DATA in the environment: only these states;
# AWARE_SWEEPS: over sizes of groups and turns only these.
# aware.sh quick PROGRAM FOLDER: one small state on 4 ranks, and only whether all comes back with every scheme, and lines are JSON.
set -u
here=$(dirname "$0")
MPI_SECONDS=${MPI_SECONDS:-7200}
export MPI_SECONDS
if [ "$1" = quick ]; then
    mkdir -p "$3/aware-quick"
    sh "$here/ranks.sh" 4 "$2" --make --dumps "$3/aware-quick" --data float32 --group 1,4 --block 1024 --codec zstd --time 0 \
        "$3/aware-quick" >"$3/aware-quick.json"
    code=$?
    rm -rf "$3/aware-quick"
    [ $code -eq 0 ] || { cat "$3/aware-quick.json"; exit $code; }
    command -v python3 >/dev/null || exit 0
    exec python3 "$here/aware.py" "$3/aware-quick.json"
fi
program=$1
folder=$2
stores=${3:-/dev/shm}
ranks=${4:-32}
dumps=$folder/aware-data
failed=0
mkdir -p "$dumps"
: >"$folder/aware.json"
real=$(sh "$here/aware-data.sh" "$dumps" "$ranks") || echo "no states of real programs" >&2
states=${AWARE_DATA:-hydro,storm,float32,counters,text,random${real:+,$(echo "$real" | tr '\n' ',')}}
states=${states%,}

measure() { # of which states, what is measured, options
    of=$1
    echo "$2" >&2
    shift 2
    sh "$here/ranks.sh" "$ranks" "$program" --make --dumps "$dumps" --data "$of" "$@" "$stores" >"$folder/aware.part"
    code=$?
    [ $code -ne 77 ] || { cat "$folder/aware.part"; exit 77; }
    [ $code -eq 0 ] || failed=1
    cat "$folder/aware.part" >>"$folder/aware.json"
    rm -f "$folder/aware.part"
}

measure "$states" "all times" --check --scheme aware,auto --group "1,$ranks"
measure "$states" "all schemes" --check --group "1,$ranks" --time 3
measure "$states" "with deduplication" --group "1,$ranks" --scheme auto --dedup exact --time 3
measure "$states" "other codecs" --group "1,$ranks" --scheme agnostic,aware --codec zstd,shuffle-zstd --time 3
measure "$states" "codec=auto, storage of 100 MB/s" --group "1,$ranks" --scheme auto --codec auto --limit 100 --time 3
sweeps=${AWARE_SWEEPS:-$states}
measure "$sweeps" "sizes of groups" --group 2,4,8,16 --time 3
measure "$sweeps" "bytes of a turn" --group "$ranks" --scheme agnostic-block,aware-block --block 1024,2048,8192,16384,32768,65536 --time 3
python3 "$here/aware.py" "$folder/aware.json" "$folder/aware.svg"
exit $failed
