# asked.sh FLAVOUR PROGRAM: one rank that is asked for a checkpoint is enough (asked.c).
. "$(dirname "$0")/mpi.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-asked-XXXXXX")
trap 'rm -rf "$work"' EXIT
run_mpi "$1" 4 "$2" "$work/store" >"$work/log" 2>&1
code=$?
cat "$work/log"
[ $code -eq 0 ] || exit $code
grep -q '^asked: 5 checkpoints$' "$work/log"
