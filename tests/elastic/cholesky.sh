#!/bin/sh
# cholesky.sh FLAVOUR CHOLESKY: a factorisation is killed with SIGKILL and goes on with another grid of processes and other blocks, and again.
# All its arithmetic is exact: it counts the elements that are wrong.
set -u
flavour=$1
program=$2
. "$(dirname "$0")/killed.sh"
matrix="--size 336 --panel 48"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# As many ranks as a grid has.
ranks_of() {
    echo $((${1%x*} * ${1#*x}))
}

# shellcheck disable=SC2086
for moves in "2x3 16 row 3x2 24 row 1x4 8 column" "2x2 12 column 1x3 16 row 4x2 6 row"; do
    set -- $moves
    store=$folder/$1
    run_killed 2 "$(ranks_of "$1")" --grid "$1" $matrix --block "$2" --order "$3" --delay 200000 "$store"
    first=$last
    run_killed 1 "$(ranks_of "$4")" --grid "$4" $matrix --block "$5" --order "$6" --delay 200000 "$store"
    grep -q "^restarted from column [1-9]" log || fail "$4 did not go on from $1"
    run "$(ranks_of "$7")" --grid "$7" $matrix --block "$8" --order "$9" "$store" || fail "on $7"
    check_restart "on $7"
    grep -q '^done: 0 elements are wrong' log || fail "on $7 the factor is another one"
    echo "$1 in blocks of $2, from column $first $4 in blocks of $5, from column $from $7 in blocks of $8: exact"
done
