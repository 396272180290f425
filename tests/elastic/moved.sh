#!/bin/sh
# moved.sh FLAVOUR PROGRAM ARGUMENT...: an example on four ranks is killed with SIGKILL and comes back on one, three, six and eight, and once more
# with a damaged checkpoint. What it writes with --out has the same bits as that of a job that was never killed.
set -u
. "$(dirname "$0")/../mpi/mpi.sh"
flavour=$1
program=$2
shift 2
arguments=$*
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
    run_mpi "$flavour" "$ranks" "$program" $arguments "$@" >log 2>&1
}

# run_killed COUNT STORE: on four ranks, slowly, until so many checkpoints are there.
run_killed() {
    : >log
    run 4 --delay 10000 "$folder/$2" &
    job=$!
    tries=0
    while [ "$(grep -c saved log)" -lt "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no $1 checkpoints in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    pkill -9 -f "^$program .*$folder/$2" || fail "there was nobody to kill"
    wait $job && fail "the job did not notice"
    last=$(sed -n 's/^step \([0-9]*\) saved.*$/\1/p' log | tail -n 1)
}

run 4 --out quiet quiet-store
case $? in
0) ;;
77) exit 77 ;;
*) fail "the job that nobody kills" ;;
esac
for ranks in 1 3 6 8; do
    run_killed $((ranks / 2 + 1)) "store-$ranks"
    killed=$(grep "^step $last saved" log)
    run $ranks --out killed "$folder/store-$ranks" || fail "on $ranks ranks"
    from=$(sed -n 's/^restarted from step \([0-9]*\).*/\1/p' log)
    [ "${from:-0}" -ge "$last" ] || fail "on $ranks ranks: step $last was saved, but it began at ${from:-0}"
    cmp quiet killed || fail "on $ranks ranks it ends otherwise"
    echo "4 ranks ($killed) to $ranks, from step $from: the same bits"
done

# The newest checkpoint is damaged: another number of ranks passes over it, too.
newest=$(find store-8/n/*/data -mindepth 2 -maxdepth 2 -type d | sort | tail -n 1)
largest=$(find "$newest" -type f -exec ls -S {} + | head -n 1)
printf 'damage' | dd of="$largest" bs=1 seek=$(($(stat -c %s "$largest") / 2)) conv=notrunc 2>dd.log || fail "dd"
run 3 --out damaged "$folder/store-8" || fail "after damage"
grep -q 'skipped checkpoint' log || fail "no damaged checkpoint was passed over"
grep -q '^restarted from step [1-9]' log || fail "it began anew after damage"
cmp quiet damaged || fail "after damage it ends otherwise"
echo "8 ranks to 3, past a damaged checkpoint: the same bits"
