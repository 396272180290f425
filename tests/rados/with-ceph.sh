#!/bin/bash
# Run a command beside a real Ceph, and leave nothing behind.
#
#     with-ceph.sh DIR memstore|bluestore COMMAND ARGUMENT...
#
# One monitor and one OSD (or CEPH_OSDS of them, with a copy of each object on three), which keeps its objects in memory, or in a file so that
# they outlive it. The command finds them by CEPH_CONF, an address for stores by RADOS_STORE, and DIR by CEPH_DIR. All servers live in namespaces (network, processes) that exist only for this call:
# whatever happens, they are gone when it ends. Needs root; exit code 77 if something is missing. DIR/log has the logs.
set -u

missing() {
    echo "skipped: $*"
    exit 77
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || missing "only root can make namespaces"
    for program in ceph ceph-mon ceph-osd monmaptool unshare ip; do
        command -v $program >/dev/null || missing "there is no $program (ceph-mon ceph-osd ceph-common)"
    done
    unshare --mount --net --pid --fork true 2>/dev/null || missing "namespaces cannot be made here"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc /bin/bash "$here/with-ceph.sh" --inside "$@"
fi

dir=$2 objects=$3 osds=${CEPH_OSDS:-1}
shift 3
copies=$((osds < 3 ? 1 : 3))
rm -rf "${dir:?}" && mkdir -p "$dir"/{mon,rgw,log,run} && dir=$(cd "$dir" && pwd) || exit 1

die() {
    echo "no Ceph: $*" >&2
    tail -n 5 "$dir"/log/* >&2
    exit 1
}

ip link set lo up || missing "a network of its own cannot be made here"
fsid=$(cat /proc/sys/kernel/random/uuid)
# Clients such as radosgw ask the monitor for a secure connection and, without keys, wait for ever, unless told otherwise.
cat >"$dir/ceph.conf" <<C
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:13300,v1:127.0.0.1:16789]
mon initial members = a
public addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc secure
osd pool default size = $copies
osd pool default min size = $(((copies + 1) / 2))
osd pool default pg num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon max pg per osd = 1000
osd crush chooseleaf type = 0
osd heartbeat interval = 2
osd heartbeat grace = 6
mon osd min down reporters = 1
osd recovery sleep hdd = 0
osd recovery max active hdd = 20
run dir = $dir/run
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
mon cluster log file = $dir/log/cluster.log
mon data = $dir/mon
osd data = $dir/osd\$id
osd objectstore = $objects
bluestore block size = 4294967296
bluestore fsck on mount = false
osd memory target = 939524096
memstore device bytes = 2147483648
keyring = $dir/keyring
C
export CEPH_CONF=$dir/ceph.conf
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:13300,v1:127.0.0.1:16789]' "$dir/monmap" >/dev/null &&
    ceph-mon --mkfs -i a --monmap "$dir/monmap" && ceph-mon -i a || die "the monitor does not start"
for ((number = 0; number < osds; number++)); do
    osd=$(cat /proc/sys/kernel/random/uuid)
    mkdir "$dir/osd$number" && timeout 60 ceph osd new "$osd" >/dev/null &&
        ceph-osd -i $number --mkfs --osd-uuid "$osd" >/dev/null 2>&1 && ceph-osd -i $number >/dev/null 2>&1 || die "an OSD does not start"
done
timeout 60 ceph osd pool create ckpt 8 >/dev/null 2>&1 || die "no pool can be made"
export CEPH_DIR=$dir RADOS_STORE=rados://ckpt/test

"$@"
code=$?
# The servers die with this process, the first of its namespace. Logs are kept if something went wrong.
[ $code = 0 ] && rm -rf "${dir:?}"
exit $code
