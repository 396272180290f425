#!/bin/sh
# agent.sh [OPTION...] ADDRESS COMMAND...: what mpirun uses instead of ssh (nodes.sh).
while [ "${1#-}" != "$1" ]; do
    shift
done
node=$((${1##*.} - 10))
shift
export NODE_COMMAND="$*"
# shellcheck disable=SC2016
exec nsenter --net="/run/netns/$NODES_TAG-$node" unshare --uts --mount --propagation private sh -c '
    hostname "node$1" && mount --bind "$NODES_DIR/disk$1" "$NODES_DIR/local" && exec sh -c "$NODE_COMMAND"' sh $node
