# particles.sh FLAVOUR PROGRAM: particles that are born, move between ranks and vanish (examples/particles.c). A job is killed,
# its newest checkpoint is damaged, and it is started again: its result must be that of a job that nobody disturbed.
. "$(dirname "$0")/mpi.sh"
flavour=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-particles-XXXXXX")
trap 'rm -rf "$work"' EXIT
program=$work/particles
cp "$2" "$program" || exit 1
export VARVE_KEEP=0

fail() {
    echo "FAILED: $1"
    tail -n 20 "$work"/*.log
    exit 1
}

# A rank is ended, and mpirun then ends the others.
kill_one() {
    pid=$(pgrep -n -f "^$program ") && kill -9 "$pid"
}

# started LOG ARGUMENT...: in the background; returns when a few checkpoints were begun
started() {
    log=$1
    shift
    : >"$log"
    run_mpi "$flavour" 3 "$program" "$@" >"$log" 2>&1 &
    job=$!
    tries=0
    until grep -q '^step 80$' "$log" || [ $tries -ge 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    grep -q '^step 80$' "$log" || fail "the job does not come to step 80"
}

run_mpi "$flavour" 3 "$program" --births 200 "$work/quiet" >"$work/quiet.log" 2>&1
code=$?
[ $code -eq 77 ] && { cat "$work/quiet.log"; exit 77; }
[ $code -eq 0 ] || fail "the undisturbed job ended with $code"
quiet=$(grep '^done' "$work/quiet.log")

started "$work/killed.log" --births 200 --delay 10000 "$work/store"
kill_one || fail "no rank was there to be killed"
wait $job
grep -q '^done' "$work/killed.log" && fail "the job was not killed"

# Some bytes of the newest two, of which one may be unfinished.
for version in $(ls -d "$work"/store/n/particles/data/*/* | sort | tail -n 2); do
    pack=$(find "$version" -name 00000001 -type f | tail -n 1)
    [ -n "$pack" ] && printf '\377\0\377\0\377\0' | dd of="$pack" bs=1 seek=20000 conv=notrunc 2>/dev/null
done

run_mpi "$flavour" 3 "$program" --births 200 "$work/store" >"$work/again.log" 2>&1 || fail "the job that was started again failed"
grep '^restarted from' "$work/again.log" || fail "it did not restart"
grep -q 'skipped checkpoint particles@' "$work/again.log" || fail "no damaged checkpoint was passed over"
[ "$(grep '^done' "$work/again.log")" = "$quiet" ] || fail "not the same as undisturbed: $quiet"
echo "$quiet: the same, undisturbed and killed"
