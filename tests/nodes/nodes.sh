# Several nodes on one machine, for tests with a real MPI between them: `. nodes.sh`, then
#
#     nodes_up COUNT                      nodes 0 to COUNT - 1; ends the script with 77 where that cannot be done
#     nodes_mpi SLOTS PROGRAM ARGUMENT... mpirun over $NODES_ORDER ("0 1 2" unless told), SLOTS ranks on each node, or fewer on the last
#                                         ones if $NODES_RANKS is less in all
#     nodes_kill N                        kill all processes of a node
#
# With NODES_FLAVOUR=env there is no MPI: the ranks are started on their nodes one by one, and find each other by the environment.
#
# A node is a network namespace with an address of its own; all hang on one bridge, in a namespace of its own, and see nothing of this machine's
# network. What runs on a node has a host name of its own (node0, node1, ...) and a view of the file system of its own: there, $NODES_DIR/local is the node's own disk,
# which is $NODES_DIR/disk0 and so on for everybody else. Everything else is shared, processes included.
#
# A script of another folder says in NODES_HERE where this one is. All of it goes when the script ends; what a script left that was killed outright goes when the next one starts.

NODES_ORDER="0 1 2"
nodes_tag=varve-$$
nodes_here=${NODES_HERE:-$(dirname "$(readlink -f "$0")")}
nodes_count=0

nodes_skip() {
    echo "skipped: $1"
    exit 77
}

nodes_kill() {
    for nodes_pid in $(ip netns pids "$nodes_tag-$1" 2>/dev/null); do
        kill -9 "$nodes_pid" 2>/dev/null
    done
    return 0
}

nodes_remove() { # TAG
    for nodes_name in $(ip netns list | awk '{ print $1 }' | grep -E "^$1-[a-z0-9]+\$"); do
        for nodes_pid in $(ip netns pids "$nodes_name"); do
            kill -9 "$nodes_pid" 2>/dev/null
        done
        ip netns del "$nodes_name" 2>/dev/null
    done
    return 0
}

nodes_down() {
    nodes_remove "$nodes_tag"
    if [ -n "${NODES_DIR:-}" ]; then
        rm -rf "$NODES_DIR"
    fi
}

# Of scripts that are gone.
nodes_sweep() {
    for nodes_old in $(ip netns list | awk '{ print $1 }' | sed -n 's/^\(varve-[0-9]*\)-.*/\1/p' | sort -u); do
        [ -e "/proc/${nodes_old#varve-}" ] || nodes_remove "$nodes_old"
    done
}

nodes_add() { # NAME ADDRESS
    ip netns add "$nodes_tag-$1" &&
        ip link add "to-$1" netns "$nodes_tag-switch" type veth peer name eth0 netns "$nodes_tag-$1" &&
        ip -n "$nodes_tag-switch" link set "to-$1" master bridge up &&
        ip -n "$nodes_tag-$1" address add "$2/24" dev eth0 &&
        ip -n "$nodes_tag-$1" link set eth0 up &&
        ip -n "$nodes_tag-$1" link set lo up
}

nodes_switch() {
    ip netns add "$nodes_tag-switch" &&
        ip -n "$nodes_tag-switch" link add bridge type bridge &&
        ip -n "$nodes_tag-switch" link set bridge up &&
        nodes_add launcher 10.88.0.2
}

nodes_up() {
    [ "$(id -u)" = 0 ] || nodes_skip "nodes need root"
    for nodes_tool in ip nsenter unshare awk timeout $([ "${NODES_FLAVOUR:-}" = env ] || echo mpirun.openmpi); do
        command -v $nodes_tool >/dev/null || nodes_skip "there is no $nodes_tool"
    done
    nodes_sweep
    trap nodes_down EXIT
    trap 'exit 1' INT TERM HUP
    NODES_DIR=$(mktemp -d "${TMPDIR:-/tmp}/varve-nodes.XXXXXX") || exit 1
    mkdir "$NODES_DIR/local" "$NODES_DIR/shared"
    nodes_switch 2>"$NODES_DIR/up" || nodes_skip "no network namespaces: $(cat "$NODES_DIR/up")"
    unshare --uts --mount --propagation private true || nodes_skip "no mount namespaces"
    while [ $nodes_count -lt "$1" ]; do
        nodes_add $nodes_count 10.88.0.$((10 + nodes_count)) || exit 1
        mkdir "$NODES_DIR/disk$nodes_count"
        nodes_count=$((nodes_count + 1))
    done
}

# As nodes_mpi; when a rank dies, nobody ends the others.
nodes_env() {
    nodes_slots=$1 nodes_rank=0 nodes_pids= nodes_code=0
    shift
    nodes_ranks=${NODES_RANKS:-$(($(echo "$NODES_ORDER" | wc -w) * nodes_slots))}
    export NODES_TAG="$nodes_tag" NODES_DIR WORLD_SIZE="$nodes_ranks" MASTER_PORT=29500 \
        MASTER_ADDR=10.88.0.$((10 + ${NODES_ORDER%% *}))
    for nodes_node in $NODES_ORDER; do
        for nodes_slot in $(seq "$nodes_slots"); do
            [ $nodes_rank -lt "$nodes_ranks" ] || continue
            RANK=$nodes_rank timeout -k 5 "${NODES_SECONDS:-60}" sh "$nodes_here/agent.sh" 10.88.0.$((10 + nodes_node)) exec "$@" </dev/null &
            nodes_pids="$nodes_pids $!"
            nodes_rank=$((nodes_rank + 1))
        done
    done
    for nodes_pid in $nodes_pids; do
        wait "$nodes_pid" || nodes_code=1
    done
    return $nodes_code
}

# Who waits must yield: there are more ranks than cores. Messages go over the wire only: the nodes are to have nothing else in common.
nodes_mpi() {
    if [ "${NODES_FLAVOUR:-}" = env ]; then
        nodes_env "$@"
        return
    fi
    nodes_hosts=
    nodes_slots=$1
    shift
    for nodes_node in $NODES_ORDER; do
        nodes_hosts=$nodes_hosts${nodes_hosts:+,}10.88.0.$((10 + nodes_node)):$nodes_slots
    done
    export NODES_TAG="$nodes_tag" NODES_DIR
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        nsenter --net="/run/netns/$nodes_tag-launcher" timeout -k 5 "${NODES_SECONDS:-60}" mpirun.openmpi \
        --mca plm_rsh_agent "$nodes_here/agent.sh" --mca plm_rsh_no_tree_spawn 1 \
        --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.88.0.0/24 --mca oob_tcp_if_include 10.88.0.0/24 \
        --mca mpi_yield_when_idle 1 --bind-to none --host "$nodes_hosts" \
        -n "${NODES_RANKS:-$(($(echo "$NODES_ORDER" | wc -w) * nodes_slots))}" "$@" </dev/null
}
