#!/bin/sh
# lost.sh LOST-MPI: nodes that are lost with their disks, with a real MPI between them, or none (tests/nodes/nodes.sh). The
# matrix of test_lost.c, one set of lost nodes of each kind: 3 and 4 nodes, 1 and 2 of them lost, 1 to 3 copies; on the
# nodes that are left, and on empty ones in their place. With a TEST_SCALE below 100 one story in two, without MPI one in
# six: which ones, LOST_SAMPLE says (from 0 on), or chance.
set -u
NODES_HERE=$(dirname "$(readlink -f "$0")")/../nodes
# shellcheck source=tests/nodes/nodes.sh
. "$NODES_HERE/nodes.sh"
program=$1
export VARVE_BEAT_SECONDS=1 VARVE_DEAD_SECONDS=2 VARVE_TAKEOVER_SECONDS=20

sample=
stories=0
one_in=2
[ "${NODES_FLAVOUR:-}" != env ] || one_in=6
if [ "${TEST_SCALE:-100}" -lt 100 ]; then
    sample=${LOST_SAMPLE:-$(($(date +%s) % one_in))}
    echo "LOST_SAMPLE=$sample"
fi
is_drawn() {
    stories=$((stories + 1))
    [ -z "$sample" ] || [ $(((stories - 1) % one_in)) = "$sample" ]
}

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' "$NODES_DIR/log"
    exit 1
}

# has TEXT: it was said, in a line of its own or as part of one.
has() {
    grep -q -E -e "$1" "$NODES_DIR/log" || fail "nothing was said about \"$1\""
}

# run COPIES ACTION...: on $NODES_ORDER, $ranks ranks; the output is in log.
run() {
    # shellcheck disable=SC2034 # nodes_mpi takes it
    NODES_RANKS=$ranks
    nodes_mpi $(((ranks + $(echo "$NODES_ORDER" | wc -w) - 1) / $(echo "$NODES_ORDER" | wc -w))) "$program" \
        "$NODES_DIR/local/ck" "$@" >"$NODES_DIR/log" 2>&1
}

# run_losing NODES COPIES ACTION...: when $until was said, these nodes are killed, and their disks are lost.
until='^staying'
run_losing() {
    victims=$1
    shift
    : >"$NODES_DIR/log"
    run "$@" stay &
    job=$!
    tries=0
    until grep -q "$until" "$NODES_DIR/log"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "nothing was saved in a minute"
        kill -0 $job 2>/dev/null || fail "the job ended too early"
        sleep 0.05
    done
    for victim in $victims; do
        nodes_kill "$victim"
    done
    wait $job && fail "the job did not notice"
    for victim in $victims; do
        rm -rf "$NODES_DIR/disk$victim/ck"
    done
}

# order NODES LOST HOW: where the next life runs.
order() {
    NODES_ORDER=
    for node in $1; do
        case "$3 $2 " in
        "left "*"$node "*) ;;
        *) NODES_ORDER="$NODES_ORDER${NODES_ORDER:+ }$node" ;;
        esac
    done
}

# without_copies NODES LOST COPIES: $gone has the nodes that are lost together with all that had copies of them.
without_copies() {
    count=$(echo "$1" | wc -w)
    gone=
    for node in $1; do
        left=0
        i=0
        while [ $i -lt "$3" ]; do
            case " $2 " in
            *" $(((node + i) % count)) "*) ;;
            *) left=1 ;;
            esac
            i=$((i + 1))
        done
        [ $left = 1 ] || gone="$gone${gone:+ }$node"
    done
}

# said VERSION: which regions of which ranks are lost with it (two ranks on each node).
said() {
    has "job@$1([^0-9]|\$)"
    for node in $gone; do
        for rank in $((node * 2)) $((node * 2 + 1)); do
            has "rank ${rank}[^0-9].*(grid|table|pair|mask|field|halo|sparse|step)"
        done
    done
}

clean() {
    for disk in "$NODES_DIR"/disk*; do
        rm -rf "$disk/ck"
    done
}

# cell NODES LOST COPIES HOW: version 1 with three copies, versions 2 and 3 with COPIES.
cell() {
    is_drawn || return 0
    echo "nodes $1, lost $2, copies $3, $4"
    clean
    ranks=$(($(echo "$1" | wc -w) * 2))
    NODES_ORDER=$1
    run 3 1-1 || fail "version 1"
    run_losing "$2" "$3" restart 2-3
    has '^restarted from 1$'
    has '^saved 3$'
    order "$1" "$2" "$4"
    run "$3" restart 4-5 || fail "the life after the loss"
    without_copies "$1" "$2" "$3"
    if [ -z "$gone" ]; then
        has '^restarted from 3$'
    else
        has '^restarted from 1$'
        said 3
    fi
    has '^saved 5$'
    run "$3" restart || fail "the next life"
    has '^restarted from 5$'
}

# nothing_left NODES LOST COPIES HOW: there is no older one.
nothing_left() {
    is_drawn || return 0
    echo "nodes $1, lost $2, copies $3, $4, nothing older"
    clean
    ranks=$(($(echo "$1" | wc -w) * 2))
    NODES_ORDER=$1
    run_losing "$2" "$3" 1-2
    order "$1" "$2" "$4"
    run "$3" restart && fail "everything is lost, and nobody says so"
    has '^not (restarted|opened): '
    grep -q NO_CHECKPOINT "$NODES_DIR/log" && fail "as if it were a first run"
    without_copies "$1" "$2" "$3"
    said 2
}

nodes_up 4
begun=$(date +%s)
how=left
for copies in 1 2 3; do
    for lost in "1" "0 1"; do
        cell "0 1 2" "$lost" $copies $how
        [ $how = left ] && how=replaced || how=left
    done
    for lost in "2" "1 2" "0 2"; do
        cell "0 1 2 3" "$lost" $copies $how
        [ $how = left ] && how=replaced || how=left
    done
done
nothing_left "0 1 2" "1" 1 left
nothing_left "0 1 2 3" "1 2" 2 replaced

for how in left replaced; do
    is_drawn || continue
    echo "one, three checkpoints, and another: $how"
    clean
    ranks=8
    NODES_ORDER="0 1 2 3"
    run_losing 1 2 1-3
    order "0 1 2 3" "1" $how
    run_losing 2 2 restart 4-6
    has '^restarted from 3$'
    has '^saved 6$'
    [ $how = left ] && NODES_ORDER="0 3"
    run 2 restart 7-7 || fail "the life after both"
    has '^restarted from 6$'
    has '^saved 7$'
done
for copies in 2 3; do
    is_drawn || continue
    echo "in the middle, copies $copies"
    clean
    ranks=6
    NODES_ORDER="0 1 2"
    until='^saved 7'
    run_losing 1 $copies 1-1000
    last=$(sed -n 's/^saved \([0-9]*\)$/\1/p' "$NODES_DIR/log" | tail -n 1)
    until='^staying'
    NODES_ORDER="2 0"
    run $copies restart 2000-2001 || fail "the life after it"
    back=$(sed -n 's/^restarted from \([0-9]*\)$/\1/p' "$NODES_DIR/log")
    [ "${back:-0}" -ge "$last" ] || fail "version $last was saved, and it goes on from version ${back:-?}"
    has '^saved 2001$'
done
echo "all well ($(($(date +%s) - begun)) s)"
