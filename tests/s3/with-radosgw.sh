#!/bin/bash
# Run a command beside a real Ceph with radosgw, its S3 server, and leave nothing behind.
#
#     with-radosgw.sh DIR COMMAND ARGUMENT...
#
# One monitor, one OSD in memory and one radosgw, with a bucket. The command finds them by AWS_ENDPOINT_URL and so on, and S3_STORE. All
# servers live in namespaces (network, processes) that exist only for this call: whatever happens, they are gone when it ends. Needs root;
# exit code 77 if something is missing. DIR/log has the logs.
set -u

missing() {
    echo "skipped: $*"
    exit 77
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || missing "only root can make namespaces"
    for program in ceph ceph-mon ceph-osd monmaptool radosgw radosgw-admin curl unshare ip; do
        command -v $program >/dev/null || missing "there is no $program (ceph-mon ceph-osd ceph-common radosgw)"
    done
    unshare --mount --net --pid --fork true 2>/dev/null || missing "namespaces cannot be made here"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc /bin/bash "$here/with-radosgw.sh" --inside "$@"
fi

dir=$2
shift 2
rm -rf "${dir:?}" && mkdir -p "$dir"/{mon,osd0,rgw,log,run} && dir=$(cd "$dir" && pwd) || exit 1

die() {
    echo "no radosgw: $*" >&2
    tail -n 5 "$dir"/log/* >&2
    exit 1
}

ip link set lo up || missing "a network of its own cannot be made here"
fsid=$(cat /proc/sys/kernel/random/uuid)
# radosgw asks the monitor for a secure connection and, without keys, waits for ever, unless told otherwise.
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
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon max pg per osd = 1000
osd crush chooseleaf type = 0
run dir = $dir/run
admin socket = $dir/run/\$name.asok
pid file = $dir/run/\$name.pid
log file = $dir/log/\$name.log
mon cluster log file = $dir/log/cluster.log
mon data = $dir/mon
osd data = $dir/osd\$id
osd objectstore = memstore
memstore device bytes = 2147483648
keyring = $dir/keyring
C
export CEPH_CONF=$dir/ceph.conf
monmaptool --create --fsid "$fsid" --addv a '[v2:127.0.0.1:13300,v1:127.0.0.1:16789]' "$dir/monmap" >/dev/null &&
    ceph-mon --mkfs -i a --monmap "$dir/monmap" && ceph-mon -i a || die "the monitor does not start"
osd=$(cat /proc/sys/kernel/random/uuid)
timeout 60 ceph osd new "$osd" >/dev/null && ceph-osd -i 0 --mkfs --osd-uuid "$osd" >/dev/null 2>&1 &&
    ceph-osd -i 0 >/dev/null 2>&1 || die "the OSD does not start"
export AWS_ENDPOINT_URL=http://127.0.0.1:17480 AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=SECRETTEST
export AWS_REGION=us-east-1 S3_STORE=s3://bkt no_proxy='*'
unset AWS_SESSION_TOKEN AWS_PROFILE AWS_ENDPOINT_URL_S3
timeout 120 radosgw -n client.rgw.a --rgw-frontends "beast endpoint=127.0.0.1:17480" --rgw-data "$dir/rgw" --setuser root \
    --setgroup root --pid-file "$dir/run/rgw.pid" --log-file "$dir/log/rgw.log" >/dev/null 2>&1 || die "radosgw does not start"
for ((tries = 0; tries < 300; tries++)); do
    curl -s -o /dev/null $AWS_ENDPOINT_URL && break
    sleep 0.2
done
timeout 60 radosgw-admin user create --uid=t --display-name=t --access-key=$AWS_ACCESS_KEY_ID \
    --secret-key=$AWS_SECRET_ACCESS_KEY >/dev/null 2>&1 || die "no user can be made"
empty=$(printf '' | sha256sum | cut -d' ' -f1)
curl -sf -o /dev/null --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
    -H "x-amz-content-sha256: $empty" -X PUT $AWS_ENDPOINT_URL/bkt || die "no bucket can be made"

"$@"
code=$?
# The servers die with this process, the first of its namespace. Logs are kept if something went wrong.
[ $code = 0 ] && rm -rf "${dir:?}"
exit $code
