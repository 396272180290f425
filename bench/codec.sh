#!/bin/sh
# codec.sh PROGRAM FOLDER [HELD [OPTION...]]: bench-codec with everything: its own states, and those of real programs
# (codec-data.sh, kept in FOLDER/codec-data). Stores whose speed is held lie in HELD (/dev/shm if it is not given). JSON
# lines go to FOLDER/codec.json, from which codec.py prints a table, and draws docs/codec.svg. Half an hour, on a
# machine that does nothing else. Fails when a bound is passed.
# codec.sh quick PROGRAM FOLDER: small states, and only whether all comes back with every coding, and lines are JSON.
set -u
here=$(dirname "$0")
if [ "$1" = quick ]; then
    "$2" --quick "$3" >"$3/codec-quick.json" || exit 1
    command -v python3 >/dev/null || { cat "$3/codec-quick.json"; exit 0; }
    exec python3 "$here/codec.py" "$3/codec-quick.json"
fi
program=$1
folder=$2
held=${3:-/dev/shm}
shift 2
[ $# -eq 0 ] || shift
failed=0
files=$(sh "$here/codec-data.sh" "$folder/codec-data") || echo "no states of real programs" >&2
# Fast storage has more to do, so that it takes long enough. There are no blanks in $files but those between words.
# shellcheck disable=SC2086
"$program" --check --held "$held" --speed 20,100 --size 32 $files "$@" "$folder" >"$folder/codec.json" || failed=1
# shellcheck disable=SC2086
"$program" --check --held "$held" --speed 1000,0 --size 64 $files "$@" "$folder" >>"$folder/codec.json" || failed=1
python3 "$here/codec.py" "$folder/codec.json"
exit $failed
