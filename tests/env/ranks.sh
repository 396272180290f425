#!/bin/sh
# ranks.sh -n RANKS PROGRAM ARGUMENT...: the processes of a job on this host, started by a shell and by nothing else. Ends with 0 when all
# have, else with the code of the first rank that did not; when one dies, nobody ends the others.
#
# MASTER_ADDR is 127.0.0.1 unless told, and MASTER_PORT is drawn by lot. JOB_DOMAINS=2: the ranks are on two nodes in turn, as it seems.
ranks=$2
shift 2
if [ -z "${MASTER_PORT:-}" ]; then # none that the kernel gives away by itself
    MASTER_PORT=$((10000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
fi
WORLD_SIZE=$ranks MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
export WORLD_SIZE MASTER_ADDR MASTER_PORT
pids= rank=0
while [ $rank -lt "$ranks" ]; do
    [ -z "${JOB_DOMAINS:-}" ] || export VARVE_DOMAIN=node$((rank % JOB_DOMAINS))
    RANK=$rank LOCAL_RANK=$rank "$@" </dev/null &
    pids="$pids $!"
    rank=$((rank + 1))
done
worst=0
for pid in $pids; do
    wait "$pid" || { code=$? && [ $worst -ne 0 ] || worst=$code; }
done
exit $worst
