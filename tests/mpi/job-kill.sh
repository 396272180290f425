#!/bin/sh
# job-kill.sh FLAVOUR PROGRAM POINTS [POINT]: under mpirun, a random rank of a job of four is killed at a random operation of its storage or at a fault
# point; mpirun ends the others (without it, FLAVOUR env, they end by themselves); then another job looks at what there is (tests/crash/job.h).
#
# JOB_SEED repeats a run; JOB_SLICE=3/10 tries the third tenth of its points; a single POINT, as printed when one fails, repeats it alone. The sample of operations is drawn from as many as
# there are, roughly: a job that has ended before that operation was met is looked at all the same, and counted as unmet.
set -u
here=$(dirname "$0")
. "$here/mpi.sh"

flavour=$1 program=$2 points=$3
case ${TEST_SCALE:-100} in
100 | "") ;;
*) points=$((points * TEST_SCALE / 100 + 1)) ;;
esac
seed=${JOB_SEED:-${SAFETY_SEED:-$(date +%s)}}
base=${TMPDIR:-/dev/shm}
[ -w "$base" ] || base=/tmp
folder=$(mktemp -d "$base/job-kill-XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
echo "job-kill: $flavour, seed $seed"

fail() {
    echo "job-kill: FAILED: $*"
    cat "$folder/output"
    echo "  again: JOB_SEED=$seed job-kill.sh $flavour $program 1 '$point'"
    trap - EXIT
    echo "  what it left is in $folder"
    exit 1
}

# Ends with 0 if the job came to its end, 1 if its victim was killed.
run_job() {
    : >"$folder/board"
    if run_mpi "$flavour" 4 "$program" run "$1" "$folder/board" "$2" "$3" "$4" "$5" >"$folder/output" 2>&1; then
        return 0
    elif [ $? -eq 124 ]; then
        fail "the job hangs"
    fi
    grep -Eq '^(\[[^]]*\])?rank [0-9]+, step' "$folder/output" && fail "the job says that something is wrong"
    return 1
}

look() {
    : >"$folder/board.after"
    run_mpi "$flavour" 4 "$program" after "$folder/store" "$folder/board" >"$folder/output" 2>&1 ||
        fail "afterwards not all was well"
}

# RANK LIFE FAULT POINT, one per line. Rank 0, which keeps the name, does more than the others; who has another rank write for it (VARVE_AGGREGATE)
# does little.
draw() {
    awk -v seed="$seed" -v points="$points" -v team="${VARVE_AGGREGATE:-1}" 'BEGIN {
        srand(seed)
        split("fresh second adopting", lives)
        split("220 640 150", most0); split("95 170 60", most); split("14 56 14", most_member)
        split("store.record.before_create store.record.after_create store.writers.after_create store.pack.after_seal " \
              "engine.save.before_commit engine.save.before_seal store.claim.after_create store.beat.after_refer " \
              "engine.restart.before_fetch", names)
        split("engine.writer.begin engine.writer.after_data engine.writer.before_seal engine.writer.after_seal", writing)
        for (i = 0; i < points; i++) {
            rank = int(rand() * 4); life = 1 + int(rand() * 3)
            is_member = rank % team != 0
            n = rank == 0 ? most0[life] : is_member ? most_member[life] : most[life]
            k = 1 + int(rand() * n); kind = rand() < 0.5 ? "kill" : "kill-after"
            if (i % 4 == 1 && team > 1)
                print rank - rank % team, lives[life], "-", writing[1 + int(rand() * 4)] "=kill:" (1 + int(rand() * 3))
            else if (i % 4 == 3)
                print rank, lives[life], "-", names[1 + int(rand() * 9)] "=kill:" (1 + int(rand() * 3))
            else
                print rank, lives[life], kind ":" k, "-"
        }
    }'
}

point="the store with something to adopt"
run_job "$folder/prepared" dying 0 - store.record.before_create=kill:3 && fail "it should have died"
if [ $# -gt 3 ]; then
    echo "$4" >"$folder/points"
else
    draw | awk -v slice="${JOB_SLICE:-1/1}" 'BEGIN { split(slice, of, "/") } NR % of[2] == of[1] % of[2]' >"$folder/points"
fi
killed=0 tried=0
while read -r rank life fault name <&3; do
    point="$rank $life $fault $name"
    rm -rf "$folder/store"
    if [ "$life" = adopting ]; then
        cp -a "$folder/prepared" "$folder/store"
    fi
    run_job "$folder/store" "$life" "$rank" "$fault" "$name" || killed=$((killed + 1))
    look
    tried=$((tried + 1))
done 3<"$folder/points"
echo "job-kill: $tried points, in $killed of them the job was killed, seed $seed"
if [ $tried -ge 10 ] && [ $((killed * 2)) -lt $tried ]; then
    echo "job-kill: FAILED: too many points were not met: the sample is drawn from too many operations"
    exit 1
fi
