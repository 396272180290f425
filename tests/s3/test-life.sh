#!/bin/bash
# Sessions end to end in a bucket: checkpoint, kill, restart, prune, verify; beside a server that S3_STORE names.
#
#     test-life.sh ROUNDS
#
# In each round a job is killed at a moment of its own, after some checkpoints that it has reported. The next one must restart from the
# last of these or a later one, whole. VARVE and LIFE name programs.
set -u
export LC_ALL=C
unset VARVE_STORE VARVE_CONFIG XDG_CONFIG_HOME
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
store="$S3_STORE/life-$$?timeout=5s"
failed=0

fail() {
    echo "FAILED: $*"
    tail -n 5 "$work"/*
    failed=1
}

reported=-1
for ((round = 1; round <= $1; round++)); do
    coproc life { exec timeout 120 "$LIFE" "$store" 2>"$work/err"; }
    pid=$life_PID
    exec 5<&"${life[0]}" 6>&"${life[1]}"
    read -r -t 60 answer version <&5 || answer="no answer"
    if [ $reported -ge 0 ]; then
        { [ "$answer" = restarted ] && [ "$version" -ge $reported ]; } || fail "round $round: $answer $version, not $reported or later"
        [ "$answer" = restarted ] && reported=$version
    fi
    for ((save = 0; save < round % 3; save++)); do
        echo save >&6
        read -r -t 60 answer version <&5
        [ "$answer" = saved ] || fail "round $round: $answer $version"
        reported=$version
    done
    echo save >&6
    sleep "0.0$((RANDOM % 10))"
    kill -9 "$(pgrep -P "$pid")" 2>/dev/null || kill -9 "$pid"
    exec 5<&- 6>&-
    wait "$pid" 2>/dev/null
done
[ $reported -ge 0 ] || fail "nothing was saved"

"$VARVE" ls "$store" >"$work/ls" 2>&1 || fail "varve ls"
grep -q "^life .* $reported " "$work/ls" || fail "varve ls does not show version $reported"
"$VARVE" verify "$store" >"$work/verify" 2>&1 || fail "varve verify"
"$VARVE" prune "$store" >"$work/prune" 2>&1 || fail "varve prune"
"$VARVE" verify "$store" >"$work/verify" 2>&1 || fail "varve verify after prune"
grep -q "no damage found" "$work/verify" || fail "verify finds damage"
echo "life: $1 points, restarted from version $reported at last"
exit $failed
