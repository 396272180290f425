#!/bin/sh
# ordinary.sh PROGRAM FOLDER [OPTION...]: what checkpoints cost an ordinary user, who may not stop writes by userfaultfd.
# PROGRAM is bench-field, run as nobody in a new folder inside FOLDER on each number of ranks in RANKS (1 2 4 unless
# told), with the modes async, async-unique and, for comparison, unique. JSON lines on standard output, and one for each
# number of ranks that sums up, with the load of the machine before. Fails when a bound is passed.
#
# As root it sets vm.unprivileged_userfaultfd to 0 and restores it at the end. Else it says what it is, and runs as
# whoever calls. It wants a quiet machine.
set -u
here=$(dirname "$0")
program=$1
folder=$2
shift 2
setting=/proc/sys/vm/unprivileged_userfaultfd
nobody=65534
before=
work=$(mktemp -d "$folder/ordinary-XXXXXX") || exit 1

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ -z "$before" ] || echo "$before" >"$setting"
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM
failed=0

user=
if [ "$(id -u)" -eq 0 ]; then
    user="setpriv --reuid $nobody --regid $nobody --clear-groups --inh-caps=-all"
    chown $nobody:$nobody "$work"
    if before=$(cat $setting 2>/dev/null) && [ "$before" != 0 ]; then
        echo 0 >$setting || echo "$setting could not be set to 0: it is $before" >&2
    fi
else
    echo "not root: vm.unprivileged_userfaultfd stays $(cat $setting 2>/dev/null || echo unknown)" >&2
fi

# run OPTION...: on $ranks ranks.
run() {
    set -- "$program" --json --mode unique,async,async-unique "$@" "$work"
    [ "$ranks" -eq 1 ] || set -- sh "$here/ranks.sh" "$ranks" "$@"
    # shellcheck disable=SC2086 # several words
    $user "$@"
}

export HOME="$work" TMPDIR="$work" MPI_SECONDS="${MPI_SECONDS:-1800}"
for ranks in ${RANKS:-1 2 4}; do
    load=$(cut -d ' ' -f 1 /proc/loadavg)
    run "$@" >"$work/lines" || exit
    cat "$work/lines"
    python3 -B "$here/ordinary.py" "$load" "$work/lines" || failed=1
done
exit $failed
