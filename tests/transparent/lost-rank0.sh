#!/bin/sh
# lost-rank0.sh JOB_PROGRAM: three ranks with a store each and copies know when their job ends. The store of rank 0 is lost. The
# restart reads all from the copies; what is told beside it must not wait for ranks that do not answer any more.
set -u
program=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/out"

# run LAST_STEP CRASH_AFTER
run() {
    port=$((20000 + $$ % 20000))
    for rank in 0 1 2; do
        RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port VARVE_DOMAIN=n$rank VARVE_STORAGE=local VARVE_COPIES=2 \
            VARVE_END_TIME=$(($(date +%s) + 7200)) VARVE_INTERVAL_SECONDS=0 CRASH=$2 \
            timeout -s KILL 60 "$program" "$folder/s$rank" run "$1" 5 "$folder/out" 2>"$folder/told.$rank" &
    done
    wait
}

run 20 8
[ -e "$folder/s0/varve" ] || { echo "nothing was stored" && cat "$folder"/told.* && exit 1; }
rm -rf "$folder/s0"
run 20 -1
for rank in 0 1 2; do
    [ -s "$folder/out/result.$rank" ] || { echo "rank $rank has no result" && tail -3 "$folder"/told.* && exit 1; }
done
grep -q '^from [1-9]' "$folder/out/steps.0" || { echo "rank 0 did not go on" && cat "$folder/out/steps.0" && exit 1; }
