#!/bin/sh
# Programs that `varve run` starts. VARVE, and the programs of this folder beside each other in BIN, come from ctest.
#
#     preload.sh CASE
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/varve-preload-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $1"
    cat out err 2>/dev/null
    exit 1
}

# run CODE COMMAND...
run() {
    code=$1
    shift
    "$@" >out 2>err
    got=$?
    [ $got -eq "$code" ] || fail "$* ends with $got, not $code"
}

has() {
    grep -q -e "$1" err || fail "stderr has not: $1"
}

odd() {
    code=$1
    shift
    run "$code" "$VARVE" run -- "$BIN/preload-odd" "$@"
}

# killed PROGRAM: killed twice, it ends with what it ends with when it is not killed.
killed() {
    program=$1
    run 0 "$VARVE" run -- "$program" whole 40 -1
    has '[0-9] allocations without names are protected here'
    grep -v 'begins at' out >expected
    [ -s expected ] || fail "it says nothing"
    for at in 10 25; do
        run 137 sh -c '"$@"; exit $?' sh "$VARVE" run -- "$program" store 40 $at
    done
    run 0 "$VARVE" run -- "$program" store 40 -1
    cat out err | grep 'begins at' | grep -q -v 'begins at 0$' || fail "it began anew"
    grep -v 'begins at' out >got
    cmp expected got || fail "other results"
}

# Each way of finding and taking changed pages, of blocks that move between checkpoints.
ways() {
    run 0 "$VARVE" run -- "$BIN/preload-steps" whole 40 -1
    mv out expected
    for setting in capture=sync capture=frozen capture=held capture=trap tracker=none tracker=trap-uffd \
        tracker=trap-mprotect threads=0 fine=64 staging=1M; do
        rm -rf store
        "$VARVE" run -- "$BIN/preload-steps" store 40 22 $setting >out 2>err
        grep -q 'does not work here' err && continue
        run 0 "$VARVE" run -- "$BIN/preload-steps" store 40 -1 $setting
        has 'begins at 22'
        cmp expected out || fail "other results with $setting"
    done
}

# What `varve run` wrote does not come back without it, and the other way.
without() {
    run 137 sh -c '"$@"; exit $?' sh "$VARVE" run -- "$BIN/preload-steps" store 40 10
    run 4 "$BIN/preload-steps" store 40 -1
    has 'allocation :heap:.*preload-steps+0x.* bytes are stored but the program has not allocated them'
    run 4 "$VARVE" run -- "$BIN/preload-steps" store 40 -1 heap=off
    has 'bytes are stored but the program has not allocated them'
    run 3 "$BIN/preload-steps" other 40 -1 heap=data
    has 'libvarve_preload is not loaded: start the program by `varve run'
    run 0 "$BIN/preload-steps" other 40 -1
    has 'nothing is protected: a checkpoint holds no memory'
    run 4 "$VARVE" run -- "$BIN/preload-steps" other 40 -1
    has 'has none of this place and number'
    cp "$BIN/preload-steps" renamed
    VARVE_PRELOAD_LEAST=180000 run 4 "$VARVE" run -- "$BIN/preload-steps" store 40 -1
    has 'bytes are stored but the program has not allocated them'
    VARVE_PRELOAD_LEAST=1 run 1 "$VARVE" run -- "$BIN/preload-steps" store 40 -1
    has 'VARVE_PRELOAD_LEAST must be'
    run 0 "$VARVE" run -- "$BIN/preload-steps" store 40 -1
}

# Another build has the same places, perhaps at the same offsets: nobody knows.
build() {
    cp "$BIN/preload-steps" program
    run 137 sh -c '"$@"; exit $?' sh "$VARVE" run -- ./program store 40 10
    cp "$BIN/preload-steps-other" program
    run 4 "$VARVE" run -- ./program store 40 -1
    has 'bytes are stored but the program has not allocated them'
    cp "$BIN/preload-steps" program
    run 0 "$VARVE" run -- ./program store 40 -1
    has 'begins at 10'
}

nameless() {
    run 4 "$VARVE" run -- "$BIN/preload-nameless" plain store
    has 'preload-nameless+0x.* has no build id: link it with -Wl,--build-id'
}

# ranks FLAVOUR PROGRAM: one of three is killed.
ranks() {
    . "$here/../mpi/mpi.sh"
    run_mpi "$1" 3 "$VARVE" run -- "$2" whole 30 -1 >expected 2>err || fail "it does not run"
    [ -s expected ] || fail "it says nothing"
    run_mpi "$1" 3 "$VARVE" run -- "$2" store 30 11 >out 2>err && fail "it was not killed"
    run_mpi "$1" 2 "$VARVE" run -- "$2" store 30 -1 >out 2>err && fail "other ranks were taken"
    has 'come back only on as many ranks'
    run_mpi "$1" 3 "$2" store 30 -1 >out 2>err && fail "without varve run it was taken"
    has 'bytes are stored but the program has not allocated them'
    run_mpi "$1" 3 sh -c 'r=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; [ $r = 1 ] || exec "$0" run -- "$@"; exec "$@"' "$VARVE" \
        "$2" store 30 -1 >out 2>err && fail "a rank without varve run was taken"
    has 'libvarve_preload is not loaded'
    run_mpi "$1" 3 sh -c 'r=${OMPI_COMM_WORLD_RANK-$PMI_RANK}; [ $r = 0 ] || exec "$0" run -- "$@"; exec "$@"' "$VARVE" \
        "$2" store 30 -1 >out 2>err && fail "rank 0 without varve run was taken"
    has 'has started this rank but not rank 0'
    run_mpi "$1" 3 "$VARVE" run -- "$2" store 30 -1 >out 2>err || fail "it does not come back"
    has 'begins at 10'
    cmp expected out || fail "other results"
    run_mpi "$1" 3 "$VARVE" run -- "$2" store 30 -1 list >out 2>err || fail "a list on one rank is not taken"
    "$VARVE" show store ranks >show
    [ "$(grep -c ':heap:.*preload-ranks-.*+0x' show)" -eq 6 ] || { cat show; fail "not two blocks of each rank"; }
    [ "$(grep -c ':heap:' show)" -eq 12 ] || { cat show; fail "there is something of others"; }
}

static() {
    run 3 "$VARVE" run -- "$BIN/preload-static" store 40 -1
    has 'libvarve is linked into the program'
}

threads() {
    odd 4 threads store
    has 'cannot be told from others when it comes back: another thread than the first allocates there'
    has 'preload-odd+0x'
    odd 4 tasks other # the first thread and another: either may take either task
    has 'another thread than the first allocates there'
    odd 0 plain store
    odd 0 plain store
}

addresses() {
    odd 5 addresses store
    has 'of 200000 bytes holds at byte 100000 what looks like an address'
    VARVE_HEAP=unchecked odd 0 addresses store
    VARVE_HEAP=unchecked odd 0 plain other
    odd 4 addresses store # the other process had other addresses: they are found in what came back
    has 'what looks like an address'
}

swapped() {
    odd 0 swapped store
    odd 4 swapped store
    has 'restart: a variable of the program .* pointed to allocation :heap:.* and points to :heap:'
    odd 0 elsewhere other # not to the begin of any
    odd 4 elsewhere other
    has 'restart: a variable of the program .* pointed to allocation :heap:.* and points to no begin of an allocation'
}

# What has a name is stored by it, and its block is not stored again.
named() {
    odd 0 halves store
    odd 0 halves store
    "$VARVE" show store odd >show
    grep -q 'heap:.*preload-odd+0x' show && fail "a block that has names is stored twice"
    odd 4 half other
    has 'allocation :heap:.* of 200000 bytes lies in part in region low: name all of it (varve_protect) or none'
    odd 0 named-threads threads # a name tells what the place cannot
    odd 0 named-threads threads
    odd 0 given given
    odd 4 given given
    has 'restart: .* lie in the same memory, and both are stored'
    odd 0 moving two 2 # each field is where it was
    odd 0 moving two 2
    odd 0 moving one 1 # the name is in the other block now
    odd 4 moving one 1
    has 'allocation :heap:.* bytes are stored but the program has not allocated them'
}

chosen() {
    odd 0 chosen store
    odd 0 chosen store
    odd 0 begun other # varve_restart then works as ever
    has 'begin: varve_restart_begin: allocations without a name .* use varve_restart'
    odd 0 begun other
}

library() {
    odd 4 library store "$BIN/libpreload-library.so"
    has 'libpreload-library.so+0x.* it is not said whether this library holds data of the program'
    for code in 0 0; do # stored, then compared
        run $code "$VARVE" run --include libpreload-library.so -- "$BIN/preload-odd" library store "$BIN/libpreload-library.so"
    done
    "$VARVE" show store odd | grep -q 'heap:.*libpreload-library.so+0x' || fail "it is not stored"
    run 4 "$VARVE" run --exclude libpreload-library.so -- "$BIN/preload-odd" library store "$BIN/libpreload-library.so"
    has 'bytes are stored but the program has not allocated them'
    run 0 "$VARVE" run --exclude libpreload-library.so -- "$BIN/preload-odd" library other "$BIN/libpreload-library.so"
    "$VARVE" show other odd | grep -q 'libpreload-library.so+0x' && fail "it is stored"
    # libvarve may call back; what libvarve_s3 calls allocates for it.
    export CALLED="$BIN/libpreload-library.so"
    odd 4 library refused "$BIN/libvarve_calls.so"
    has 'libpreload-library.so+0x.* it is not said whether this library holds data of the program'
    odd 0 library called "$BIN/libvarve_s3_calls.so"
    "$VARVE" show called odd | grep -q 'lib.*+0x' && fail "it is stored"
    return 0
}

child() {
    odd 0 child store
    odd 0 child store
    LD_PRELOAD=$BIN/libpreload-library.so odd 0 child other # what else is preloaded stays
}

promises() {
    odd 0 promises store
}

# After a checkpoint, with each tracker that works here.
grown() {
    for tracker in auto none trap-uffd trap-mprotect; do
        VARVE_TRACKER=$tracker "$VARVE" run -- "$BIN/preload-odd" grown $tracker >out 2>err
        code=$?
        grep -q 'does not work here' err && continue
        [ $code -eq 0 ] || fail "tracker=$tracker: it ends with $code"
        VARVE_TRACKER=$tracker odd 4 grown $tracker
        has 'allocation :heap:.* of version 4: 4048608 bytes are stored but 1048584 are allocated'
    done
}

# warns KIND TEXT: what a checkpoint warns of does not come back.
warns() {
    odd 0 "$1" "$1"
    has "warn: allocation :heap:.* bytes was $2 after varve_restart: this checkpoint cannot come back"
    odd 4 "$1" "$1"
}

later() {
    warns later made
    warns resized resized
    warns freed 'freed or named'
    odd 0 plain store
    ! grep 'cannot come back' err || fail "a warning for nothing"
    odd 0 grown store2 # three checkpoints have another size
    [ "$(grep -c 'cannot come back' err)" = 1 ] || fail "not one warning"
}

scarce() {
    odd 0 scarce store first
    odd 0 scarce store second
}

refused() {
    run 1 "$VARVE" run -- "$BIN/preload-really-static"
    has 'preload-really-static is linked statically'
    cp "$BIN/preload-odd" setuid && chmod u+s setuid
    run 1 "$VARVE" run -- ./setuid plain store
    has 'setuid runs with other rights than its caller'
    chmod u-s,g+s setuid
    run 1 "$VARVE" run -- ./setuid plain store
    has 'runs with other rights than its caller'
    printf '#!/bin/sh\nexit 0\n' >script && chmod +x script
    run 1 "$VARVE" run -- ./script
    has 'script is a script'
    run 1 "$VARVE" run -- ./nothing
    run 1 "$VARVE" run -- no-such-program-anywhere
    has 'is not found in PATH'
    run 1 "$VARVE" run
    for name in /usr/lib/libasan.so.8 libjemalloc.so.2 /opt/libtcmalloc_minimal.so.4; do
        LD_PRELOAD='' run 1 env LD_PRELOAD= sh -c 'LD_PRELOAD=$1; export LD_PRELOAD; exec "$2" run -- "$3" plain store' \
            sh "$name" "$VARVE" "$BIN/preload-odd"
        has "has an allocator, too"
    done
    [ ! -e store ] || fail "something was started"
}

# An allocator that only the loader knows of: linked with the program, or part of it.
allocators() {
    run 1 env LD_PRELOAD="$BIN/libpreload-allocator.so" "$VARVE" run -- "$BIN/preload-odd" plain store
    has 'another library has an allocator, too.*libpreload-allocator.so'
    run 1 "$VARVE" run -- "$BIN/preload-allocates" plain store
    has 'the program has an allocator of its own'
    [ ! -e store ] || fail "something was started"
}

"$@"
