#!/bin/sh
# races.sh TEST RACING_TEST: the test under oclgrind, which runs OpenCL step by step and tells of data races. The second has one in it.
oclgrind=$(command -v oclgrind) || {
    echo "1..0 # skipped: oclgrind is not installed"
    exit 77
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

"$oclgrind" --data-races "$1" small >"$out" 2>&1
code=$?
cat "$out"
[ $code -eq 0 ] || exit 1
grep -q 'OK.*test_small' "$out" || { echo "the test was not run"; exit 1; }
if grep -qi 'race\|invalid\|error' "$out"; then
    echo "oclgrind has found something"
    exit 1
fi
"$oclgrind" --data-races --max-errors 1 "$2" small >"$out" 2>&1
grep -qi 'data race' "$out" || { cat "$out"; echo "the race that was planted was not found"; exit 1; }
echo "no race; the planted one was found"
