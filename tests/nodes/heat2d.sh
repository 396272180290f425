#!/bin/sh
# heat2d.sh HEAT2D VARVE: examples/heat2d on three nodes with two ranks each, with node-local and with shared storage. It is killed, a rank or a whole node, and
# started again; in the end its field has the same bits as one that was never killed. And what is said when nodes do not see what they should.
set -u
. "$(dirname "$0")/nodes.sh"
heat2d=$1
varve=$2
plate="--rows 240 --columns 200 --steps 300 --every 15"
export VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=3 VARVE_TAKEOVER_SECONDS=20

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' "$NODES_DIR/log"
    exit 1
}

# run STORAGE ARGUMENT...: to its end; the output is in log.
run() {
    storage=$1
    shift
    # shellcheck disable=SC2086
    VARVE_STORAGE=$storage nodes_mpi 2 "$heat2d" $plate "$@" >"$NODES_DIR/log" 2>&1
}

# has TEXT: it was said.
has() {
    grep -q -e "$1" "$NODES_DIR/log" || fail "nothing was said about \"$1\""
}

saved() {
    grep -c saved "$NODES_DIR/log"
}

# run_killed KILLER STORAGE ARGUMENT...: slowly; KILLER comes after three checkpoints. Not one of all that were reported may be lost.
run_killed() {
    killer=$1
    shift
    : >"$NODES_DIR/log"
    run "$@" --delay 8000 "$store" &
    job=$!
    tries=0
    while [ "$(saved)" -lt 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "no three checkpoints in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    $killer
    wait $job && fail "the job did not notice"
    last=$(sed -n 's/^step \([0-9]*\) saved$/\1/p' "$NODES_DIR/log" | tail -n 1)
    echo "  killed after step $last was saved"
}

kill_rank() {
    # the second of those on node 1
    pid=$(ip netns pids "$nodes_tag-1" | while read -r pid; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$(basename "$heat2d" | cut -c1-15)" ] && echo "$pid"
    done | tail -n 1)
    kill -9 "$pid" || fail "there is no rank to kill on node 1"
}

kill_node() {
    nodes_kill 2
}

restarted_from() {
    sed -n 's/^restarted from step \([0-9]*\)$/\1/p' "$NODES_DIR/log"
}

check_last() { # nothing that was reported is lost
    [ "$(restarted_from)" -ge "$last" ] || fail "step $last was saved, and it goes on from step $(restarted_from)"
}

comes_back() { # WHAT: the last step is there, with all its bits
    run local --out "$NODES_DIR/field" "$store" || fail "$1, and it does not come back"
    [ "$(restarted_from)" = 300 ] || fail "$1, and it goes on from step $(restarted_from)"
    cmp "$NODES_DIR/expected" "$NODES_DIR/field" || fail "$1, and the field is another one"
}

seconds() {
    echo "  ($(($(date +%s) - begun)) s)"
}

nodes_up 3
begun=$(date +%s)

echo "never killed, shared storage"
store=$NODES_DIR/shared/never
run shared --out "$NODES_DIR/expected" "$store" || fail "the job that is not killed"
has '^done: 300 steps'
seconds

for storage in local shared; do
    echo "killed, $storage storage"
    store=$NODES_DIR/$storage/ck
    run_killed kill_rank $storage
    first=$last
    run_killed kill_node $storage
    [ "$(restarted_from)" -ge "$first" ] || fail "step $first was saved, and it goes on from step $(restarted_from)"
    run $storage --out "$NODES_DIR/field" "$store" || fail "the last life"
    check_last
    cmp "$NODES_DIR/expected" "$NODES_DIR/field" || fail "the field is not that of a job that was never killed"
    seconds
done

echo "each node has its own part, and is well"
for node in 0 1 2; do
    disk=$NODES_DIR/disk$node/ck
    "$varve" verify "$disk" >"$NODES_DIR/log" 2>&1 || fail "verify of node $node"
    has 'are not on this node: they are kept on other nodes, or missing'
    packs=$(find "$disk/n/heat2d/data" -type f -name '0000000[0-9]' | sed 's/.*\///' | sort -u | tr -d '\n')
    [ "$packs" = "0000000$((node * 2))0000000$((node * 2 + 1))" ] || fail "node $node has the packs of $packs"
done

echo "ranks on other nodes than before"
store=$NODES_DIR/local/ck
NODES_ORDER="0 2 1"
comes_back "ranks were moved"
NODES_ORDER="0 1 2"
seconds

echo "a disk that is lost"
mv "$NODES_DIR/disk1/ck" "$NODES_DIR/disk1/lost"
comes_back "a disk is lost"
has 'were read from copies or rebuilt from parity, since the originals are missing'
rm -rf "$NODES_DIR/disk1/ck" && mv "$NODES_DIR/disk1/lost" "$NODES_DIR/disk1/ck"
comes_back "the disk is there again"
seconds

echo "a disk that is lost, without copies"
export VARVE_COPIES=1
store=$NODES_DIR/local/single
run local "$store" || fail "the job without copies"
mv "$NODES_DIR/disk1/single" "$NODES_DIR/disk1/lost"
run local "$store" && fail "a disk is lost, and nobody says so"
has 'of rank 2 are lost'
has 'of rank 3 are lost'
rm -rf "$NODES_DIR/disk1/single" && mv "$NODES_DIR/disk1/lost" "$NODES_DIR/disk1/single"
comes_back "the disk is there again"
unset VARVE_COPIES
seconds

echo "storage that should be shared and is not"
store=$NODES_DIR/local/not-shared
run shared "$store" && fail "the nodes have different stores, and nobody says so"
has "on node[12] does not find rank 0's store at .*local/not-shared: is it mounted there? If each node is to have its own, remove the one that was made as shared, and use storage=local"
seconds
echo "all well"
