# Breaking a volume that with-gluster.sh has started: `. gluster.sh`, inside it only. $GLUSTER_BRICKS is the number of bricks.

# What each brick should be: 1 up, 0 down.
bricks_wanted=()
for ((brick = 1; brick <= GLUSTER_BRICKS; brick++)); do
    bricks_wanted[brick]=1
done

# What the clients of both mounts say of brick N.
brick_state() {
    local mount state states=
    for mount in mnt mnt2; do
        state=$(sed -n 's/^connected = //p' "$GLUSTER/$mount/.meta/graphs/active/ck-client-$(($1 - 1))/private" 2>/dev/null)
        states+=${state:-?}
    done
    case $states in
    00) echo 0 ;;
    11) echo 1 ;;
    *) echo "?" ;;
    esac
}

bricks_are_as_wanted() {
    local brick
    for brick in "${!bricks_wanted[@]}"; do
        [ "$(brick_state "$brick")" = "${bricks_wanted[brick]}" ] || return 1
    done
}

wait_for_bricks() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        bricks_are_as_wanted && return 0
        sleep 0.1
    done
    echo "the bricks are not ${bricks_wanted[*]} after half a minute" >&2
    return 1
}

# kill_brick N [unseen]: and wait until the clients have noticed, unless they show nothing any more since all is lost; and a
# second more, for which they and the kernel remember its files. How it was started is kept, as nobody else will start it again.
kill_brick() {
    local pid
    pid=$(pgrep -f -- "--brick-name $GLUSTER/b$1 ") || return 1
    cat "/proc/$pid/cmdline" >"$GLUSTER/brick$1.cmdline"
    bricks_wanted[$1]=0
    kill -9 "$pid"
    [ "${2:-}" = unseen ] || wait_for_bricks
    local code=$?
    sleep 1.2
    return $code
}

start_brick() {
    local command
    mapfile -d "" -t command <"$GLUSTER/brick$1.cmdline"
    bricks_wanted[$1]=1
    "${command[@]}" && wait_for_bricks
}
