#!/bin/sh
# What the programs of this folder need around them.
#
#     run.sh calls FLAVOUR PROGRAM          every call, 2 ranks
#     run.sh trouble FLAVOUR PROGRAM PART   one part of trouble.c, 2 ranks
#     run.sh single FLAVOUR PROGRAM         the same by processes that are each for themselves
#     run.sh keys FLAVOUR PROGRAM VARVE     the keys of the configuration file
. "$(dirname "$0")/../mpi/mpi.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-veloc-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$work"/*.log 2>/dev/null
    exit 1
}

calls() {
    run_mpi "$1" 2 "$2" "$work" >"$work/calls.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -eq 0 ] || fail "ended with $code"
    [ "$(grep -c ': all calls$' "$work/calls.log")" -eq 2 ] || fail "a rank is missing"
}

trouble() {
    run_mpi "$1" 2 "$2" "$work" "$3" >"$work/trouble.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -eq 0 ] || fail "ended with $code"
    [ "$(grep -c ': all calls$' "$work/trouble.log")" -eq 2 ] || fail "a rank is missing"
    [ "$3" != later ] || grep -q 'VELOC_Checkpoint_wait: heat@52: .*seal: ' "$work/trouble.log" || fail "it is not told why"
}

single() {
    run_mpi "$1" 2 "$2" "$work" single >"$work/calls.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    [ $code -eq 0 ] || fail "ended with $code"
    [ "$(grep -c ': all calls$' "$work/calls.log")" -eq 2 ] || fail "a process is missing"
}

# heat STORE STEPS: with the configuration in $work/cfg and the store $work/STORE/varve
heat() {
    { echo "persistent = $work/$1"; cat "$work/cfg"; } >"$work/whole.cfg"
    run_mpi "$flavour" 2 "$program" "$work/whole.cfg" "$work/out" "$2" >"$work/heat.log" 2>&1
    code=$?
    [ $code -eq 77 ] && exit 77
    return $code
}

# listed STORE COUNT
listed() {
    found=$("$varve" ls "$work/$1/varve" heat 2>/dev/null | grep -c heat)
    [ "$found" -eq "$2" ] || fail "$1 has $found checkpoints, not $2: $("$varve" ls "$work/$1/varve" heat)"
}

# refused TEXT: the configuration in $work/cfg is not accepted
refused() {
    heat refused 5 && fail "accepted: $(cat "$work/cfg")"
    grep -q "$1" "$work/heat.log" || fail "it does not say: $1"
    [ ! -e "$work/refused" ] || fail "something was written"
}

damage() {
    newest=$(find "$work/$1/varve/n/heat/data" -name 00000001 -path '*000000000000001e*') # 30, rank 1
    [ -f "$newest" ] || fail "there is no pack of 30"
    python3 - "$newest" <<'PYTHON'
import os
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(os.path.getsize(sys.argv[1]) // 2)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 255]))
PYTHON
}

keys() {
    flavour=$1
    program=$2
    varve=$3
    echo "mode = sync" >"$work/cfg"
    heat all 30 || fail "the shortest configuration"
    listed all 6
    printf 'mode = async\nmax_versions = 2\nscratch_versions = 1\nec_interval = -1\ncolour = blue\n[section]\nmode = x\n' >"$work/cfg"
    heat two 30 || fail "max_versions"
    listed two 2
    for text in 'line 4: scratch_versions has no effect' 'line 5: ec_interval has no effect' \
        'line 6: colour is not a key' 'line 8: mode is not a key'; do
        [ "$(grep -c "$text" "$work/heat.log")" -eq 1 ] || fail "said not once: $text"
    done
    VELOC_MAX_VERSIONS=3 heat three 30 || fail "the environment"
    listed three 3
    echo "mode = sometimes" >"$work/cfg"
    refused 'line 2: mode = sometimes: it is sync or async'
    echo "max_versions = -2" >"$work/cfg"
    refused 'line 2: max_versions = -2: it is a number'
    echo "what is this" >"$work/cfg"
    refused 'line 2: it is not "key = value": what is this'
    run_mpi "$flavour" 2 "$program" /dev/null "$work/out" 5 >"$work/heat.log" 2>&1 && fail "no persistent"
    grep -q 'there is no key persistent' "$work/heat.log" || fail "persistent"

    # A damaged checkpoint: passed over by VELOC_Restart_test, or with chksum = false noticed by VELOC_Restart.
    damage all
    printf 'mode = sync\nchksum = false\n' >"$work/cfg"
    heat all 30 && fail "damaged data was restored"
    grep -q 'failed: VELOC_Restart$' "$work/heat.log" || fail "it failed elsewhere"
    printf 'mode = sync\nchksum = true\n' >"$work/cfg"
    heat all 30 || fail "it does not fall back"
    grep -q 'skipped checkpoint heat@30 (damaged on rank 1)' "$work/heat.log" || fail "what was skipped is not told"
    grep -q '^restarted from step 25' "$work/heat.log" || fail "it does not fall back to 25"
}

"$@"
