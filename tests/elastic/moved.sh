#!/bin/sh
# moved.sh FLAVOUR PROGRAM ARGUMENT...: an example on four ranks is killed with SIGKILL and comes back on one, three, six and eight, and once
# more with a damaged checkpoint. What it writes with --out has the same bits as that of a job that was never killed.
set -u
flavour=$1
program=$2
shift 2
. "$(dirname "$0")/killed.sh"

run 4 "$@" --out quiet quiet-store || fail "the job that nobody kills"
for ranks in 1 3 6 8; do
    store=$folder/store-$ranks
    run_killed $((ranks / 2 + 1)) 4 "$@" --delay 10000 "$store"
    killed=$(grep "^step $last saved" log)
    run $ranks "$@" --out killed "$store" || fail "on $ranks ranks"
    check_restart "on $ranks ranks"
    cmp quiet killed || fail "on $ranks ranks it ends otherwise"
    echo "4 ranks ($killed) to $ranks, from step $from: the same bits"
done

# The newest checkpoint is damaged: another number of ranks passes over it, too.
newest=$(find store-8/n/*/data -mindepth 2 -maxdepth 2 -type d | sort | tail -n 1)
largest=$(find "$newest" -type f -exec ls -S {} + | head -n 1)
printf 'damage' | dd of="$largest" bs=1 seek=$(($(stat -c %s "$largest") / 2)) conv=notrunc 2>dd.log || fail "dd"
run 3 "$@" --out damaged "$store" || fail "after damage"
grep -q 'skipped checkpoint' log || fail "no damaged checkpoint was passed over"
grep -q '^restarted from step [1-9]' log || fail "it began anew after damage"
cmp quiet damaged || fail "after damage it ends otherwise"
echo "8 ranks to 3, past a damaged checkpoint: the same bits"
