#!/bin/sh
# collective.sh whole|short PROGRAM FOLDER: what deduplication between ranks stores and takes, with bench-collective. JSON lines on standard
# output; fails when a bound is passed. COLLECTIVE_SLACK widens the bounds on times.
#
# whole: 2 to 64 ranks; about half an hour, 20 GB in FOLDER, and it wants a quiet machine. short: half a minute, with less data.
set -u
export VARVE_AGGREGATE=1 # what each rank stores is looked at
here=$(dirname "$0")
set_of_runs=$1
program=$2
folder=$3
failed=0

# run RANKS OPTION...
run() {
    ranks=$1
    shift
    sh "$here/ranks.sh" "$ranks" "$program" --json --check --slack "${COLLECTIVE_SLACK:-1}" "$@" "$folder"
    code=$?
    [ $code -ne 77 ] || exit 77
    [ $code -eq 0 ] || failed=1
}

run_short() {
    COLLECTIVE_SLACK=${COLLECTIVE_SLACK:-2}
    run 4 --case same --limit 10MB --size 16M --rounds 1 --mode local,exact
    run 4 --case unique --size 32M --rounds 3 --mode local,exact
    run 6 --case mixed --size 4M --rounds 1 --mode local,top-k,exact --top 1024 # no power of two, and a pair too few
    run 16 --case same --size 16M --rounds 1 --mode exact
}

run_whole() {
    for ranks in 2 4 8 16; do
        run $ranks --case same --limit 10MB
    done
    run 32 --case same --limit 10MB --size 16M
    run 64 --case same --limit 10MB --size 8M
    for ranks in 2 4 8 16; do
        run $ranks --case unique --rounds 5
    done
    run 32 --case unique --size 16M
    run 64 --case unique --size 8M
    for top in 65536 131072 262144; do # the paper's thresholds: a quarter, half and all of what 16 ranks have
        run 16 --case unique --mode local,top-k --top $top --no-restart
    done
    for ranks in 2 3 4 8 16; do
        run $ranks --case mixed --rounds 1
    done
    run 32 --case mixed --rounds 1 --size 16M
    run 64 --case mixed --rounds 1 --size 8M
}

case $set_of_runs in
whole | short) run_$set_of_runs ;;
*)
    echo "usage: collective.sh whole|short PROGRAM FOLDER" >&2
    exit 2
    ;;
esac
exit $failed
