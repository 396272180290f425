#!/bin/bash
# Prune through one mount of sshfs beside a job on another one, both with the memory of folders that sshfs has unless told.
#
#     prune-beside-job.sh DIR ROUNDS
#
# In each round a job restarts from what was saved last, a dry run of prune lets the other mount remember the folders, the job saves
# three times (keep=2), and prune removes what it takes for waste. Nothing that was saved may be lost: the next restart finds the last
# one with all its bytes, and verify finds everything whole. A prune may refuse because a listing is old; that is counted.
#
# Server and mounts live in namespaces that exist only for this call, and everything else in DIR. Needs root; exit code 77 if
# something is missing. VARVE and JOB name the programs.
set -u

missing() {
    echo "skipped: $*"
    exit 77
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || missing "only root can mount a file system"
    for program in sshfs sshd ssh-keygen unshare ip; do
        command -v $program >/dev/null || missing "there is no $program"
    done
    [ -c /dev/fuse ] || missing "there is no /dev/fuse"
    unshare --mount --net --pid --fork true 2>/dev/null || missing "namespaces cannot be made here"
    exec unshare --mount --net --pid --fork --kill-child --mount-proc /bin/bash "$here/$(basename "$0")" --inside "$@"
fi

mkdir -p "$2" && dir=$(cd "$2" && pwd) || exit 1
rounds=$3 port=2222
rm -rf "${dir:?}"/{keys,server,a,b,out,*.log}
mkdir -p "$dir"/{keys,server,a,b}

die() {
    echo "$*" >&2
    tail -n 5 "$dir"/*.log >&2
    exit 1
}

# ---- the server and two mounts ----

# What the server exports is in memory: 200 rounds make some ten thousand files durable, and the disk is not what is tried here.
mount -t tmpfs none /run && mkdir -p /run/sshd && mount -t tmpfs none "$dir/server" || die "cannot mount"
ip link set lo up || missing "a network of its own cannot be made here"
ssh-keygen -q -t ed25519 -N '' -f "$dir/keys/host" && ssh-keygen -q -t ed25519 -N '' -f "$dir/keys/client" || die "no keys"
cat >"$dir/keys/sshd_config" <<CONFIG
Port $port
ListenAddress 127.0.0.1
HostKey $dir/keys/host
AuthorizedKeysFile $dir/keys/client.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
CONFIG
"$(command -v sshd)" -f "$dir/keys/sshd_config" -E "$dir/sshd.log" || die "sshd does not start"
mount_at() {
    sshfs -p $port -o "IdentityFile=$dir/keys/client" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        "root@127.0.0.1:$dir/server" "$1" 2>>"$dir/sshfs.log"
}
for mount in a b; do
    tries=0
    until mount_at "$dir/$mount"; do # the server may not listen yet
        [ $((tries += 1)) -lt 40 ] || die "sshfs does not mount"
        sleep 0.25
    done
done

# ---- rounds ----

last=0 refused=0 begun=$SECONDS
for ((round = 1; round <= rounds; round++)); do
    coproc JOBS { exec "$JOB" "$dir/a/ck" 2>>"$dir/job.log"; }
    job=$JOBS_PID to=${JOBS[1]}
    exec 7<&"${JOBS[0]}"
    read -r -t 120 -u 7 answer || die "round $round: the job says nothing"
    [ "$answer" = "$([ $last = 0 ] && echo none || echo "restarted $last")" ] ||
        die "round $round: version $last was saved, but the next restart said: $answer"
    [ $last = 0 ] || "$VARVE" prune -n "$dir/b/ck" >/dev/null 2>>"$dir/prune.log"
    for _ in 1 2 3; do
        echo save >&"$to"
        read -r -t 120 -u 7 answer || die "round $round: the job says nothing"
        last=$((last + 1))
        [ "$answer" = "saved $last" ] || die "round $round: $answer"
    done
    if ! "$VARVE" prune "$dir/b/ck" >/dev/null 2>"$dir/out"; then
        grep -q "docs/backends.md" "$dir/out" || die "round $round: prune: $(cat "$dir/out")"
        refused=$((refused + 1))
    fi
    exec {to}>&-
    wait "$job" || die "round $round: the job ended with an error"
    exec 7<&-
    "$VARVE" verify "$dir/server/ck" >"$dir/out" 2>&1 || die "round $round: verify: $(cat "$dir/out")"
done
echo "rounds $rounds, versions $last, prunes refused $refused, lost 0, seconds $((SECONDS - begun))"
