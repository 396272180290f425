#!/bin/sh
# storm.sh PROGRAM FOLDER [RANKS...]: bench-storm on 4 to 64 ranks, or on those that are named. JSON lines go to standard output and to
# FOLDER/storm.json, from which storm.py draws docs/storm.svg. Every rank writes what it stores. Fails when a bound is passed.
set -u
here=$(dirname "$0")
program=$1
folder=$2
shift 2
[ $# -gt 0 ] || set -- 4 8 16 32 64
failed=0
: >"$folder/storm.json"
for ranks in "$@"; do
    sh "$here/ranks.sh" "$ranks" "$program" --json --check --settings aggregate=1 "$folder" >"$folder/storm.part"
    code=$?
    cat "$folder/storm.part"
    [ $code -ne 77 ] || exit 77
    [ $code -eq 0 ] || failed=1
    cat "$folder/storm.part" >>"$folder/storm.json"
done
rm -f "$folder/storm.part"
exit $failed
