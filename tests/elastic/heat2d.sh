#!/bin/sh
# heat2d.sh FLAVOUR HEAT2D: the example on four ranks is killed with SIGKILL and comes back on one, three, six and eight. Its field has the
# same bits as that of a job that was never killed.
set -u
. "$(dirname "$0")/../mpi/mpi.sh"
flavour=$1
heat2d=$2
plate="--rows 120 --columns 100 --steps 120 --every 6"
export VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=3 VARVE_TAKEOVER_SECONDS=20

folder=$(mktemp -d "${TMPDIR:-/tmp}/elastic-XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' log
    exit 1
}

# run RANKS ARGUMENT...: to its end; the output is in log.
run() {
    ranks=$1
    shift
    # shellcheck disable=SC2086
    run_mpi "$flavour" "$ranks" "$heat2d" $plate "$@" >log 2>&1
}

# run_killed STORE: on four ranks, slowly, until three checkpoints are there.
run_killed() {
    : >log
    run 4 --delay 10000 "$1" &
    job=$!
    tries=0
    while [ "$(grep -c saved log)" -lt 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no three checkpoints in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    pkill -9 -f "^$heat2d .*$1" || fail "there was nobody to kill"
    wait $job && fail "the job did not notice"
    last=$(sed -n 's/^step \([0-9]*\) saved$/\1/p' log | tail -n 1)
}

run 4 --out quiet quiet-store
case $? in
0) ;;
77) exit 77 ;;
*) fail "the job that nobody kills" ;;
esac
for ranks in 1 3 6 8; do
    run_killed "store-$ranks"
    run $ranks --out killed "store-$ranks" || fail "on $ranks ranks"
    from=$(sed -n 's/^restarted from step //p' log)
    [ "${from:-0}" -ge "$last" ] || fail "on $ranks ranks: step $last was saved, but it began at ${from:-0}"
    cmp quiet killed || fail "on $ranks ranks the field is another one"
    echo "4 ranks to $ranks, from step $from: the same bits"
done
