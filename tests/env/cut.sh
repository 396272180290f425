#!/bin/sh
# cut.sh HEAT2D: a node is cut off from the network, without a word, as by a broken switch. The ranks on both sides end in time; when the node
# is there again, the job comes back. Needs root (tests/nodes/nodes.sh).
set -u
NODES_HERE=$(dirname "$(readlink -f "$0")")/../nodes NODES_FLAVOUR=env
# shellcheck source=tests/nodes/nodes.sh
. "$NODES_HERE/nodes.sh"
heat2d=$1
plate="--rows 120 --columns 100 --steps 150 --every 10"
export VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=3 VARVE_TAKEOVER_SECONDS=30 VARVE_PEER_SECONDS=4

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' "$NODES_DIR/log"
    exit 1
}

run() {
    # shellcheck disable=SC2086
    nodes_mpi 2 "$heat2d" $plate "$@" >"$NODES_DIR/log" 2>&1
}

nodes_up 3
run --out "$NODES_DIR/expected" "$NODES_DIR/shared/quiet" || fail "the job that nobody cuts"
: >"$NODES_DIR/log"
run --delay 10000 "$NODES_DIR/shared/ck" &
job=$!
tries=0
while [ "$(grep -c saved "$NODES_DIR/log")" -lt 3 ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "no three checkpoints in a minute"
    kill -0 $job 2>/dev/null || fail "the job ended too early"
    sleep 0.05
done
ip -n "$nodes_tag-switch" link set to-2 down
begun=$(date +%s)
wait $job && fail "the job did not notice"
seconds=$(($(date +%s) - begun))
[ $seconds -le 20 ] || fail "it took $seconds s"
[ "$(grep -c 'cannot talk any more' "$NODES_DIR/log")" -ge 6 ] || fail "not all ranks said why"
last=$(sed -n 's/^step \([0-9]*\) saved$/\1/p' "$NODES_DIR/log" | tail -n 1)
ip -n "$nodes_tag-switch" link set to-2 up
run --out "$NODES_DIR/field" "$NODES_DIR/shared/ck" || fail "it does not come back"
from=$(sed -n 's/^restarted from step //p' "$NODES_DIR/log")
[ "${from:-0}" -ge "$last" ] || fail "step $last was saved, and it goes on from step ${from:-0}"
cmp "$NODES_DIR/expected" "$NODES_DIR/field" || fail "the field is another one"
echo "cut off, ended after $seconds s, from step $from: the same bits"
