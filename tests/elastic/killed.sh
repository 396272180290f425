# For tests that kill an example under mpirun and start it again in another shape. Set flavour and program, then `. killed.sh`. It enters a
# folder of its own, $folder.
. "$(dirname "$0")/../mpi/mpi.sh"
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
    on=$1
    shift
    run_mpi "$flavour" "$on" "$program" "$@" >log 2>&1
}

# run_killed COUNT RANKS ARGUMENT... STORE: until so many checkpoints are there. The number of the last one is in $last.
run_killed() {
    wanted=$1
    shift
    : >log
    run "$@" &
    job=$!
    tries=0
    while [ "$(grep -c saved log)" -lt "$wanted" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no $wanted checkpoints in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    pkill -9 -f "^$program .*$folder/" || fail "there was nobody to kill"
    wait $job && fail "the job did not notice"
    last=$(sed -n 's/^[a-z]* \([0-9]*\) saved.*$/\1/p' log | tail -n 1)
}

# check_restart WHAT: the job of log went on from the last checkpoint, or a later one. Its number is in $from.
check_restart() {
    from=$(sed -n 's/^restarted from [a-z]* \([0-9]*\).*/\1/p' log)
    [ "${from:-0}" -ge "$last" ] || fail "$1: $last was saved, but it began at ${from:-0}"
}
