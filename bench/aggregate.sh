#!/bin/bash
# aggregate.sh PROGRAMS FOLDER [STAGE...]: what few writers are worth. PROGRAMS is the folder of the benchmarks. JSON lines on standard
# output; fails when a bound is passed. Without names of stages, all:
#
# time: 16 ranks on storage that is held at 100 MB/s for all of them together, as a busy file system is. The store is in AGGREGATE_HELD, or in
#     /dev/shm, so that the disk's own ups and downs are not in it.
# files: 64 ranks on a GlusterFS volume of three bricks in FOLDER; files of a checkpoint, and seconds. Needs root; left out where something
#     for it is missing.
# load: bench-storm on 64 ranks; what the busiest writer writes.
# field: the asynchronous bounds of bench-field, with shared writers.
#
# AGGREGATE_SLACK widens the bounds on times. Wants a quiet machine.
set -u
here=$(cd "$(dirname "$0")" && pwd)
programs=$(cd "$1" && pwd) || exit 2
mkdir -p "$2" && folder=$(cd "$2" && pwd) || exit 2
shift 2
slack=${AGGREGATE_SLACK:-1}
failed=0

# run RANKS PROGRAM OPTION...
run() {
    sh "$here/ranks.sh" "$1" "$programs/$2" "${@:3}"
    local code=$?
    [ $code -ne 77 ] || exit 77
    [ $code -eq 0 ] || failed=1
}

run_time() {
    local held
    held=$(mktemp -d "${AGGREGATE_HELD:-/dev/shm}/varve-aggregate-XXXXXX") || exit 1
    run 16 bench-aggregate --json --check --slack "$slack" --limit 100MB --size 16 --ways 1:none,16:auto "$held"
    rmdir "$held"
}

# Small, since there are so many: 2 MiB per rank.
run_files() {
    export MPI_SECONDS=900
    bash "$here/../tests/gluster/with-gluster.sh" distributed "$folder/gluster" sh -c "mkdir \$GLUSTER/mnt/bench &&
        sh '$here/ranks.sh' 64 '$programs/bench-aggregate' --json --check --size 2 --checkpoints 5 --rounds 4 \
            --ways 1:auto,32:auto,0:auto \$GLUSTER/mnt/bench"
    local code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
}

run_load() {
    local group
    for group in 1 8 16 32; do
        run 64 bench-storm --json --check --mode exact --settings "aggregate=$group" "$folder"
    done
}

run_field() {
    local ranks pattern
    for ranks in 2 4; do
        for pattern in p0 p1; do
            run $ranks bench-field --json --check --slack "$slack" --mode async --rounds 9 --pattern $pattern \
                --settings "aggregate=$ranks" "$folder"
        done
        run $ranks bench-field --json --check --slack "$slack" --mode async-unique --rounds 9 --settings "aggregate=$ranks" \
            "$folder"
    done
}

[ $# -gt 0 ] || set -- time files load field
for stage in "$@"; do
    case $stage in
    time | files | load | field) "run_$stage" ;;
    *) echo "usage: aggregate.sh PROGRAMS FOLDER [time|files|load|field]..." >&2 && exit 2 ;;
    esac
done
exit $failed
