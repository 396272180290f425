#!/bin/bash
# Run a command beside a real Ceph with radosgw, its S3 server, and leave nothing behind: see tests/rados/with-ceph.sh.
#
#     with-radosgw.sh DIR COMMAND ARGUMENT...
#
# The command finds a bucket by S3_STORE, and the server by AWS_ENDPOINT_URL and so on.
set -u

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
    for program in radosgw radosgw-admin curl; do
        command -v $program >/dev/null || {
            echo "skipped: there is no $program (radosgw curl)"
            exit 77
        }
    done
    dir=$1
    shift
    exec /bin/bash "$here/../rados/with-ceph.sh" "$dir" memstore /bin/bash "$here/with-radosgw.sh" --inside "$@"
fi

shift
dir=$CEPH_DIR

die() {
    echo "no radosgw: $*" >&2
    tail -n 5 "$dir"/log/* >&2
    exit 1
}

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
