#!/bin/sh
# moved.sh HEAT2D: examples/heat2d on four nodes with node-local storage and two copies. A node is lost with its disk, and nobody takes its
# place: the job goes on with three nodes and three quarters of its ranks. Its field has the same bits as one that was never killed.
set -u
. "$(dirname "$0")/nodes.sh"
heat2d=$1
plate="--rows 120 --columns 100 --steps 120 --every 12"
export VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=3 VARVE_TAKEOVER_SECONDS=20 VARVE_STORAGE=local VARVE_COPIES=2

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' "$NODES_DIR/log"
    exit 1
}

# run ARGUMENT...: two ranks on each node of $NODES_ORDER.
run() {
    # shellcheck disable=SC2086
    nodes_mpi 2 "$heat2d" $plate "$@" >"$NODES_DIR/log" 2>&1
}

# lose_node NODE STORE: after three checkpoints of a slow job.
lose_node() {
    : >"$NODES_DIR/log"
    run --delay 10000 "$2" &
    job=$!
    tries=0
    while [ "$(grep -c saved "$NODES_DIR/log")" -lt 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no three checkpoints in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    nodes_kill "$1"
    wait $job && fail "the job did not notice"
    rm -rf "$NODES_DIR/disk$1/${2##*/}"
    last=$(sed -n 's/^step \([0-9]*\) saved$/\1/p' "$NODES_DIR/log" | tail -n 1)
}

nodes_up 4
NODES_ORDER="0 1 2 3"
run --out "$NODES_DIR/expected" "$NODES_DIR/local/never" || fail "the job that is not killed"
for lost in 0 2; do
    NODES_ORDER="0 1 2 3"
    store=$NODES_DIR/local/ck$lost
    lose_node $lost "$store"
    NODES_ORDER=$(echo "0 1 2 3" | sed "s/$lost *//")
    run --out "$NODES_DIR/field" "$store" || fail "without node $lost"
    from=$(sed -n 's/^restarted from step \([0-9]*\)$/\1/p' "$NODES_DIR/log")
    [ "${from:-0}" -ge "$last" ] || fail "step $last was saved, and it goes on from step ${from:-0}"
    cmp "$NODES_DIR/expected" "$NODES_DIR/field" || fail "without node $lost the field is another one"
    echo "8 ranks on four nodes, step $last; 6 ranks without node $lost, from step $from: the same bits"
done
