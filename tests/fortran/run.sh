#!/bin/sh
# What the programs of this folder need around them.
#
#     run.sh calls PROGRAM                      checks of every call
#     run.sh stops PROGRAM                      an error without stat ends the program, with its text
#     run.sh target COMPILER MODULES            what is not a target is refused by the compiler
#     run.sh comm FLAVOUR PROGRAM               integer communicators, twice
#     run.sh order FLAVOUR FORTRAN C VARVE      heat2d in Fortran and in C: the same checkpoints
. "$(dirname "$0")/../mpi/mpi.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-fortran-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$work"/*.log 2>/dev/null
    exit 1
}

stops() {
    "$1" "$work" >"$work/stops.log" 2>&1 && fail "it ended with 0"
    grep -q 'ERROR STOP varve: region rows: the elements of this section are not contiguous' "$work/stops.log" ||
        fail "the text is missing"
    grep -q 'it went on' "$work/stops.log" && fail "it went on"
    cat "$work/stops.log"
}

# compiles DECLARATION: can x be protected?
compiles() {
    printf '%s\n' "subroutine p(s, x)" "use varve" "type(varve_session), intent(inout) :: s" "$1" \
        'call varve_protect(s, "x", x)' "end subroutine" >"$work/p.f90"
    "$compiler" -fsyntax-only -I"$modules" "$work/p.f90" >"$work/p.log" 2>&1
}

target() {
    compiler=$1
    modules=$2
    compiles "real, allocatable, target :: x(:, :)" || fail "a target is refused"
    compiles "real, allocatable :: x(:, :)" && fail "what is not a target is taken"
    grep -q 'no specific subroutine' "$work/p.log" || fail "another error"
    compiles "real, target :: x(4, *)" && fail "an array of unknown size is taken"
    echo "the compiler wants targets"
}

comm() {
    run_mpi "$1" 3 "$2" "$work/store" >"$work/one.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -eq 0 ] || fail "the first run ended with $code"
    run_mpi "$1" 3 "$2" "$work/store" >"$work/two.log" 2>&1 || fail "the second run"
    grep 'version 1 came back on 3 ranks' "$work/two.log" || fail "nothing came back"
}

# heat STEPS RANKS PROGRAM STORE OUT
heat() {
    run_mpi "$flavour" "$2" "$3" --rows 48 --columns 40 --every 20 --steps "$1" --out "$work/$5" "$work/$4" >"$work/$5.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -eq 0 ] || fail "$3 ended with $code"
}

same() {
    cmp "$work/$1" "$work/$2" || fail "$1 and $2 differ"
}

# Each goes on from what the other has stored, on other numbers of ranks; the tool shows the same array.
order() {
    flavour=$1
    heat 20 2 "$2" by_fortran f20
    heat 20 2 "$3" by_c c20
    same f20 c20
    for store in by_fortran by_c; do
        "$4" restore "$work/$store" heat2d temperature -o "$work/$store.array" >"$work/restore.log" 2>&1 || fail "varve restore"
        same $store.array c20 # row after row
        "$4" show "$work/$store" heat2d | grep -E '^ +[01]  temperature' | awk '{print $1, $2, $3, $4, $5, $6, $7, $8}' >"$work/$store.shown"
    done
    grep -q '24x40 of 48x40 at 24,0' "$work/by_fortran.shown" || fail "rows by columns: $(cat "$work/by_fortran.shown")"
    same by_fortran.shown by_c.shown
    heat 40 3 "$2" by_c f40
    heat 40 1 "$3" by_fortran c40
    grep -q 'restarted from step 20' "$work/f40.log" || fail "Fortran did not take what C has stored"
    grep -q 'restarted from step 20' "$work/c40.log" || fail "C did not take what Fortran has stored"
    same f40 c40
    echo "the same checkpoints in Fortran and in C"
}

case $1 in
calls) "$2" "$work" 2>"$work/calls.log" || fail "$(tail -n 3 "$work/calls.log")" ;;
*) "$@" ;;
esac
