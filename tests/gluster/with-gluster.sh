#!/bin/bash
# Run a command beside a real GlusterFS volume, and leave nothing behind.
#
#     with-gluster.sh distributed|replicated|sets DIR COMMAND ARGUMENT...
#
# distributed: over three bricks. replicated: on three bricks, each with everything. sets: distributed over two sets of three
# bricks, each set replicated. Bricks are the folders DIR/b1, DIR/b2 and so on. The volume is mounted twice, as two hosts would:
# DIR/mnt and DIR/mnt2. DIR/log has the logs. The command finds DIR in $GLUSTER, and functions to break the volume in gluster.sh.
#
# All servers and mounts live in namespaces (network, processes, mounts) that exist only for this call: whatever happens, they
# are gone when it ends. Needs root; exit code 77 if something is missing.
set -u

missing() {
    echo "skipped: $*"
    exit 77
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || missing "only root can mount a file system"
    for program in glusterd gluster mount.glusterfs unshare ip pgrep; do
        command -v $program >/dev/null || missing "there is no $program"
    done
    [ -c /dev/fuse ] || missing "there is no /dev/fuse"
    unshare --mount --net --pid --fork true 2>/dev/null || missing "namespaces cannot be made here"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc /bin/bash "$here/with-gluster.sh" --inside "$@"
fi

case $2 in
distributed) GLUSTER_BRICKS=3 kind= ;;
replicated) GLUSTER_BRICKS=3 kind="replica 3" ;;
sets) GLUSTER_BRICKS=6 kind="replica 3" ;;
*) echo "distributed, replicated or sets, not $2" >&2 && exit 2 ;;
esac
mkdir -p "$3" && GLUSTER=$(cd "$3" && pwd) || exit 1
export GLUSTER GLUSTER_BRICKS
shift 3

die() {
    echo "no GlusterFS volume: $*" >&2
    tail -n 5 "$GLUSTER"/log/*.log >&2
    exit 1
}

# What the servers share with others of their kind is private here. glusterd refuses a loopback address for a brick's host, and
# mpirun a network that is nothing but loopback.
address=10.77.0.1
rm -rf "${GLUSTER:?}"/{log,b?,mnt,mnt2}
mkdir -p "$GLUSTER"/{log,mnt,mnt2} /var/lib/glusterd /var/log/glusterfs
mount -t tmpfs none /run && mount -t tmpfs none /var/lib/glusterd && mount --bind "$GLUSTER/log" /var/log/glusterfs ||
    die "cannot mount"
mkdir -p /run/gluster /var/lib/glusterd/vols
ip link set lo up && ip link add net0 type veth peer name net1 && ip address add $address/24 dev net0 &&
    ip link set net0 up && ip link set net1 up || missing "a network of its own cannot be made here"
glusterd || die "glusterd does not start"
for ((tries = 0; tries < 200; tries++)); do
    gluster --mode=script pool list >/dev/null 2>&1 && break
    sleep 0.1
done
bricks=()
for ((brick = 1; brick <= GLUSTER_BRICKS; brick++)); do
    mkdir "$GLUSTER/b$brick"
    bricks+=("$address:$GLUSTER/b$brick")
done
# shellcheck disable=SC2086
gluster --mode=script volume create ck $kind "${bricks[@]}" force >"$GLUSTER/log/cli.out" 2>&1 &&
    gluster --mode=script volume start ck >>"$GLUSTER/log/cli.out" 2>&1 || die "$(cat "$GLUSTER/log/cli.out")"
for mount in mnt mnt2; do
    mount -t glusterfs -o log-file="$GLUSTER/log/$mount.log" $address:/ck "$GLUSTER/$mount" || die "cannot mount"
done
. "$here/gluster.sh"
wait_for_bricks || die "the bricks do not come up"

"$@"
code=$?
umount -l "$GLUSTER/mnt" "$GLUSTER/mnt2"
# The servers die with this process, the first of its namespace. What lies on the bricks is kept if something went wrong.
[ $code = 0 ] && rm -rf "${GLUSTER:?}"/{log,b?,mnt,mnt2}
exit $code
