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

# killed PROGRAM [OPTION]: killed twice, it ends with what it ends with when it is not killed.
killed() {
    program=$1
    option=$2
    run 0 "$VARVE" run $option -- "$program" whole 40 -1
    has 'are protected here'
    grep -v 'begins at' out >expected
    [ -s expected ] || fail "it says nothing"
    for at in 10 25; do
        run 137 sh -c '"$@"; exit $?' sh "$VARVE" run $option -- "$program" store 40 $at
    done
    run 0 "$VARVE" run $option -- "$program" store 40 -1
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
    run 4 "$VARVE" run --include libpreload-nameless-library.so -- "$BIN/preload-odd" library other \
        "$BIN/libpreload-nameless-library.so"
    has 'libpreload-nameless-library.so+0x.* has no build id: link it with -Wl,--build-id'
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
    odd 0 addresses-later later # known to be late: a block is searched when it is first stored
    odd 4 addresses-later later
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

# Known to be wrong: where other memory points is not seen. When it is, the page has to say so.
swapped_unseen() {
    for kind in fields-small fields-stack fields-inside fields-thread fields-library; do
        for steps_code in 20 11; do # after two steps each field is where it was
            for code in 0 ${steps_code#?}; do
                run $code "$VARVE" run --include libpreload-library.so -- "$BIN/preload-odd" $kind $kind.$steps_code \
                    ${steps_code%?} "$BIN/libpreload-library.so"
            done
        done
        has 'the fields that came back are wrong'
    done
}

# Known to be wrong: descriptors, process ids and keys of threads are numbers, and come back as they were stored.
numbers() {
    odd 0 numbers store
    odd 1 numbers store
    has '^file 1, process 0, key 1$' # the same way: the same numbers, but another process
    odd 1 numbers store other        # which has opened another file first, and made another key
    has '^file 0, process 0, key 0$'
}

# What libraries allocate for the program, small blocks, variables and maps are as the program makes them.
left() {
    odd 0 left store
    odd 0 left store
    "$VARVE" show store odd >show
    [ "$(grep -c ':heap:.*+0x' show)" -eq 1 ] || { cat show; fail "more is stored than one block"; }
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
    block=$("$VARVE" show store odd | sed -n 's/.*\(:heap:[^ ]*preload-odd+0x[0-9a-f]*\).*/\1/p' | head -1)
    [ -n "$block" ] || fail "there is no block"
    for name in "$block" :heap:addresses :heap:pointers :varve:attributes; do # without what checks the pointers
        odd 4 chosen store "$name"
        has "region $name cannot be asked for: .*or restore all regions"
    done
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
    odd 4 library other "$BIN/libmpimodel.so" # a name that begins as that of a library of MPI
    has 'libmpimodel.so+0x.* it is not said whether this library holds data of the program'
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
    run 0 env LD_PRELOAD="$BIN/libpreload-library.so" "$VARVE" run -- "$BIN/preload-odd" child other libpreload-library.so
    odd 1 child third libpreload-library.so # it would be noticed
}

# Handlers of fork that allocate, of a library that was there before ours.
forking() {
    export LD_PRELOAD="$BIN/libpreload-atfork.so"
    for i in 1 2; do
        run 0 timeout 60 "$VARVE" run --include libpreload-atfork.so -- "$BIN/preload-odd" child store
    done
    for step in 0 1; do
        run 0 timeout 60 "$VARVE" run --fixed --include libfixed-library.so --include libpreload-atfork.so -- \
            "$BIN/fixed-odd" forks fixed
        grep -qx $step out || fail "it is not at step $step"
    done
}

# unopened_lines COUNT: so often it was said that there was no session.
unopened_lines() {
    [ "$(grep -c 'warn: .* has opened no session' err)" -eq "$1" ] || fail "it is not said $1 times"
}

# A program without a session says so at its end: once, and only where somebody reads it.
unopened() {
    python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
    run 0 "$VARVE" run -- true
    has 'varve: warn: true has opened no session (varve_open), so nothing was stored'
    run 0 "$VARVE" run --fixed -- true
    unopened_lines 1
    run 0 "$VARVE" run -- "$python" -c 'import os, sys; child = os.fork(); child and os.waitpid(child, 0); sys.exit(0)'
    unopened_lines 1
    run 7 "$VARVE" run -- "$python" -c 'import sys; sys.exit(7)' # with the code that it has
    unopened_lines 1
    run 137 "$VARVE" run -- sh -c 'kill -9 $$'
    unopened_lines 0 # it cannot say anything
    run 0 env VARVE_LOG=error "$VARVE" run -- true
    unopened_lines 0
    run 0 env PMIX_RANK=1 "$VARVE" run -- true
    unopened_lines 0
    run 0 "$VARVE" run -- "$python" -c 'import os; os.dup2(os.open("data", os.O_WRONLY | os.O_CREAT), 2)'
    [ -e data ] && [ ! -s data ] || fail "it went into a file of the program"
    for heap in auto off; do
        VARVE_HEAP=$heap odd 0 plain $heap
        unopened_lines 0
    done
}

# pw.x of Quantum ESPRESSO never calls Varve: it computes the same, ends with the same, and is told.
espresso() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
    cp "$1" Si.UPF || exit 1
    cat >si.in <<'END'
&control
 calculation='scf', prefix='si', pseudo_dir='.', outdir='./scratch'
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=20.0
/
&electrons
/
ATOMIC_SPECIES
 Si 28.086 Si.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.25 0.25 0.25
K_POINTS automatic
 2 2 2 1 1 1
END
    sed s/ecutwfc/nothing/ si.in >wrong.in
    run 0 pw.x -in si.in
    grep '^!.*total energy' out >expected || fail "no energy"
    run 0 "$VARVE" run -- pw.x -in si.in
    grep '^!.*total energy' out | cmp expected - || fail "another energy"
    has 'varve: warn: pw.x has opened no session (varve_open), so nothing was stored; .varve dump. stores programs'
    unopened_lines 1
    pw.x -in wrong.in >out 2>err
    run $? "$VARVE" run -- pw.x -in wrong.in
    grep -q 'Error in routine' out || fail "it took a wrong input"
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
    warns named-since 'freed or named'
    odd 0 plain store
    ! grep 'cannot come back' err || fail "a warning for nothing"
    odd 0 grown store2 # three checkpoints have another size
    [ "$(grep -c 'cannot come back' err)" = 1 ] || fail "not one warning"
}

scarce() {
    odd 0 scarce store first
    odd 0 scarce store second
}

many() {
    odd 0 many store
}

# copy_with BYTE PLACE FILE: the program with another byte is refused.
copy_with() {
    cp "$BIN/preload-odd" "$3"
    printf "$1" | dd of="$3" bs=1 seek="$2" conv=notrunc 2>dd || fail "dd: $(cat dd)"
    run 1 "$VARVE" run -- "./$3" plain store
}

refused() {
    run 1 "$VARVE" run -- "$BIN/preload-really-static"
    has 'preload-really-static is linked statically'
    cp "$BIN/preload-odd" setuid && chmod u+s setuid
    run 1 "$VARVE" run -- ./setuid plain store
    has 'setuid is setuid: nothing is preloaded into programs that run with other rights'
    chmod u-s,g+s setuid
    run 1 "$VARVE" run -- ./setuid plain store
    has 'setuid is setgid: nothing is preloaded'
    cp "$BIN/preload-odd" capable
    if python3 -c 'import os; os.setxattr("capable", "security.capability", bytes.fromhex("0000000200000001000000000000000000000000"))' \
        2>err; then
        run 1 "$VARVE" run -- ./capable plain store
        has 'capable has file capabilities: nothing is preloaded'
    else
        echo "file capabilities cannot be set here"
    fi
    echo nothing >nothing && chmod +x nothing
    run 1 "$VARVE" run -- ./nothing
    has 'nothing is no program: it is not ELF'
    copy_with "\001" 4 other # 32 bits
    has 'other has addresses of another size'
    copy_with "\267" 18 other # ARM
    has 'other is a program of another kind of machine'
    rm nothing
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

# Hooks of MPI and UCX that stand before mmap, munmap and others, in both ways they have.
hooks() {
    ucx=$(ompi_info 2>/dev/null | sed -n 's/.*MCA pml: \(ucx\) .*/\1/p')
    export OMPI_MCA_mpi_leave_pinned=1 OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
    export UCX_MEM_EVENTS=y UCX_TLS=self,sm,tcp UCX_WARN_UNUSED_ENV_VARS=n
    for UCX_MEM_MMAP_HOOK_MODE in reloc bistro; do
        for OMPI_MCA_pml in ob1 $ucx; do
            export UCX_MEM_MMAP_HOOK_MODE OMPI_MCA_pml
            rm -rf whole store
            echo "pml=$OMPI_MCA_pml hooks=$UCX_MEM_MMAP_HOOK_MODE"
            ranks_once "$1" "$2"
        done
    done
    [ -n "$ucx" ] || { echo "skipped: this Open MPI has no UCX" && exit 77; }
}

# ranks_once FLAVOUR PROGRAM [OPTION]: one of three is killed, and the job ends as if it was not.
ranks_once() {
    . "$here/../mpi/mpi.sh"
    run_mpi "$1" 3 "$VARVE" run $3 -- "$2" whole 30 -1 >expected 2>err || fail "it does not run"
    [ -s expected ] || fail "it does not run"
    # With --fixed: Open MPI's threads map memory while it loads its components, which lie elsewhere then now and again, on a
    # busy machine more often: also when the checkpoint is made.
    for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
        if [ $((try % 3)) -eq 1 ]; then
            rm -rf store
            run_mpi "$1" 3 "$VARVE" run $3 -- "$2" store 30 11 >out 2>err && fail "it was not killed"
        fi
        run_mpi "$1" 3 "$VARVE" run $3 -- "$2" store 30 -1 >out 2>err && break
        grep -q 'libmca.* and here it is elsewhere' err || fail "it does not run"
        echo "start $try is refused: a component of Open MPI is elsewhere"
    done
    has 'begins at 10'
    cmp expected out || fail "other results"
}

# Signals, system calls and what a program inherits are as without `varve run`.
as_before() {
    run 0 "$BIN/preload-before"
    mv out expected
    [ "$(wc -l <expected)" -gt 20 ] || fail "it says too little"
    for option in "" --fixed "--include libpreload-library.so" "--fixed --exclude libpreload-library.so"; do
        run 0 "$VARVE" run $option -- "$BIN/preload-before"
        diff expected out || fail "it is not as before with varve run $option"
    done
}

# Allocators as they are: linked, or preloaded.
real_allocators() {
    if [ -x "$BIN/preload-asan" ]; then
        run 1 "$VARVE" run -- "$BIN/preload-asan" plain store
        has 'libasan.*: the program was not started\|ASan runtime does not come first'
    fi
    missing=
    for name in libjemalloc.so.2 libtcmalloc_minimal.so.4 libasan.so.8; do
        path=$(ldconfig -p | sed -n "s/.*$name .*x86-64.* => //p" | head -1)
        [ -n "$path" ] || { missing="$missing $name" && continue; }
        run 1 env LD_PRELOAD="$path" "$VARVE" run -- "$BIN/preload-odd" plain store
        has "$name in LD_PRELOAD has an allocator, too"
        cp "$path" libother.so # by its symbols, not by its name
        run 1 env LD_PRELOAD="$PWD/libother.so" "$VARVE" run -- "$BIN/preload-odd" plain store
        has 'libother.so): the program was not started\|ASan runtime does not come first'
    done
    [ ! -e store ] || fail "something was started"
    [ -z "$missing" ] || { echo "skipped:$missing is not installed" && exit 77; }
}

# lammps: its rows of pointers are refused as data; with the pointers it comes back.
lammps() {
    run 5 "$VARVE" run --include liblammps.so -- "$BIN/apps-lammps" data 20 -1
    has 'liblammps.so.*holds at byte .* what looks like an address'
    killed "$BIN/apps-lammps" "--fixed --exclude lib --include liblammps.so"
}

# An allocator that only the loader knows of: linked with the program, or part of it.
allocators() {
    run 1 env LD_PRELOAD="$BIN/libpreload-allocator.so" "$VARVE" run -- "$BIN/preload-odd" plain store
    has 'another library has an allocator, too.*libpreload-allocator.so'
    run 1 "$VARVE" run -- "$BIN/preload-allocates" plain store
    has 'the program has an allocator of its own'
    [ ! -e store ] || fail "something was started"
}

# ---- address-true mode ----

# fixed CODE KIND [ARGUMENT]...
fixed() {
    code=$1
    shift
    run "$code" "$VARVE" run --fixed --include libfixed-library.so -- "$BIN/fixed-odd" "$@"
}

# fixed_restarts COUNT: killed at every second step, with all pointers walked after each restart. TEST_SCALE (percent)
# asks for less.
fixed_restarts() {
    steps=$((2 * ($1 * ${TEST_SCALE:-100} / 100)))
    [ $steps -gt 0 ] || steps=2
    run 0 "$VARVE" run --fixed -- "$BIN/fixed-objects" whole $steps -1
    grep -v 'begins at' out >expected
    at=0
    while [ $at -lt $steps ]; do
        run 137 sh -c '"$@"; exit $?' sh "$VARVE" run --fixed -- "$BIN/fixed-objects" store $steps $at
        [ $at -eq 0 ] || has "begins at $((at - 1))$"
        at=$((at + 2))
    done
    run 0 "$VARVE" run --fixed -- "$BIN/fixed-objects" store $steps -1
    cmp expected out || fail "other results"
}

# Each way of finding and taking changed pages, of variables and of a heap that grows.
fixed_ways() {
    run 0 "$VARVE" run --fixed -- "$BIN/fixed-objects" whole 16 -1
    grep -v 'begins at' out >expected
    for setting in CAPTURE=sync CAPTURE=frozen CAPTURE=held CAPTURE=trap TRACKER=none TRACKER=trap-uffd \
        TRACKER=trap-mprotect THREADS=0 FINE=64 STAGING=1M; do
        rm -rf store
        export "VARVE_$setting"
        "$VARVE" run --fixed -- "$BIN/fixed-objects" store 16 6 >out 2>err
        if ! grep -q 'does not work here' err; then
            run 0 "$VARVE" run --fixed -- "$BIN/fixed-objects" store 16 -1
            has 'begins at 7'
            cmp expected out || fail "other results with $setting"
        fi
        unset "VARVE_${setting%%=*}"
    done
}

# What belongs to the process: set before varve_restart it is this process's, set later the checkpoint is refused.
fixed_process() {
    for kind in plain early-file closed freed static copied exec joined joined-c11; do
        for step in 0 1 2; do
            fixed 0 $kind $kind
            grep -qx $step out || fail "$kind is not at step $step"
        done
    done
    fixed 0 sparse sparse
    SHIFT=1 fixed 0 early-file early-file # other addresses
    grep -qx 3 out || fail "early-file is not at step 3"
    for kind in file heap-file stack reopened; do
        fixed 5 $kind $kind
        has 'checkpoint: :heap:fixed:.* of memory that does not come back'
    done
    for kind in thread thread-c11; do
        fixed 5 $kind $kind
        has 'checkpoint: :heap:fixed:heap of .* cannot come back: the program has other threads'
    done
    for kind in buffer buffer-static; do
        fixed 5 $kind $kind
        has 'checkpoint: .* a FILE has its buffer in memory of the program'
    done
    "$VARVE" run --fixed --include libfixed-library.so -- "$BIN/fixed-odd" team team >out 2>err
    case $? in
    5) has 'the program has other threads' ;;
    8) echo "there is no OpenMP" ;;
    *) fail "a team of OpenMP is taken" ;;
    esac
    fixed 4 named named
    has 'lies in part in region total: all memory of the program is stored'
}

# The heap has another size than it had.
fixed_sizes() {
    for step in 0 1 2; do
        fixed 0 grow grow
        grep -qx $step out || fail "it is not at step $step"
    done
    fixed 0 plain more
    MORE=1 fixed 0 grow more
    grep -qx 1 out || fail "it began anew"
}

# What stays as this run made it, though nobody notices.
fixed_stays() {
    for kind in on-stack jump texts; do
        for step in 0 1 2; do
            fixed 0 $kind $kind
            grep -qx $step out || fail "$kind is not at step $step"
        done
    done
    fixed 0 way way
    fixed 0 way way
    OTHER_WAY=1 fixed 7 way way # known to be wrong: this run has another file there
    has 'the path is /dev/null, and the file is another'
    fixed 0 rotated rotated # known to be wrong: the file that was opened again is not noticed
    fixed 7 rotated rotated
    has 'the path is /dev/zero, and the file is another'
    fixed 0 numbers numbers
    fixed 0 numbers numbers              # the same way: the same numbers
    OTHER_WAY=1 fixed 7 numbers numbers # known to be wrong: numbers come back as they were stored
    has 'file 0, key 0: numbers of another process came back'
    fixed 0 random random
    fixed 7 random random # known to be wrong: random numbers of the C library begin again
    has 'random numbers begin again'
    for step in 0 1 2; do # nobody has said that it is the program's, and it never allocates
        fixed 0 opened-silent silent "$BIN/libpreload-library.so"
        grep -qx $step out || fail "opened-silent is not at step $step"
        fixed 0 opened-silent linked "$BIN/libfixed-linked.so" # which is linked with one that says nothing
        grep -qx $step out || fail "opened-silent is not at step $step in a library of a library"
    done
}

fixed_libraries() {
    for step in 0 1 2; do
        fixed 0 library store
        grep -qx $step out || fail "it is not at step $step"
    done
    run 4 "$VARVE" run --fixed -- "$BIN/fixed-odd" plain unsaid
    has 'the program is linked with library libfixed-library.so.*, and it is not said'
    fixed 5 makes unsaid "$BIN/libpreload-library.so"
    has 'memory was allocated by library libpreload-library.so, and it is not said'
    # It keeps its own with --exclude, so nothing of it comes back: the program sees that.
    run 0 "$VARVE" run --fixed --exclude libfixed-library.so -- "$BIN/fixed-odd" library without
    run 7 "$VARVE" run --fixed --exclude libfixed-library.so -- "$BIN/fixed-odd" library without
    run 4 env LD_LIBRARY_PATH="$BIN/other" "$VARVE" run --fixed --include libfixed-library.so -- "$BIN/fixed-odd" \
        library store
    has 'stored by a process with libfixed-library.so:[0-9a-f]* (file, build id), and this one has another or none'
    fixed 0 library store
    # What is loaded after varve_restart stays away; a pointer to it is refused.
    fixed 0 dlopen-only later "$BIN/libpreload-library.so"
    fixed 0 dlopen-only later "$BIN/libpreload-library.so"
    fixed 5 dlopen handle "$BIN/libpreload-library.so"
    has 'of memory that does not come back'
    run 5 "$VARVE" run --fixed --include libfixed-library.so --include libpreload-library.so -- "$BIN/fixed-odd" \
        dlopen-only included "$BIN/libpreload-library.so"
    has 'a library of the program was loaded or unloaded after varve_restart'
    run 5 "$VARVE" run --fixed --include libfixed-library.so --include libpreload-library.so -- "$BIN/fixed-odd" \
        opened-closed closed "$BIN/libpreload-library.so"
    has 'a library of the program was loaded or unloaded after varve_restart'
    for step in 0 1 2; do
        run 0 "$VARVE" run --fixed --include libfixed-library.so --include libpreload-library.so -- "$BIN/fixed-odd" \
            opened-threads threads "$BIN/libpreload-library.so"
        grep -qx $step out || fail "opened-threads is not at step $step"
    done
    fixed 4 opened two "$BIN/other/libfixed-library.so"
    has 'fixed:data:libfixed-library.so.* is there twice'
}

# Another kernel brings another vdso: here its build id seems to be another.
fixed_kernel() {
    export LD_PRELOAD="$BIN/libfixed-kernel.so"
    fixed 0 plain store
    OTHER_KERNEL=1 fixed 4 plain store
    has 'stored by a process with linux-vdso.so.1:[0-9a-f]* (file, build id), and this one has another or none'
    fixed 0 plain store
    grep -qx 1 out || fail "it began anew"
}

# What libstdc++ keeps for itself in the program's heap.
fixed_kept() {
    for own in OWN_BUFFERS OWN_LOCALE OWN_CATCH; do
        run 4 env $own=1 "$VARVE" run --fixed -- "$BIN/fixed-objects" store 4 -1
        has 'restart: .* libstdc++ keeps memory of its own'
    done
}

# The restart brings back that a static variable was made, but the C library does not know of its destructor.
fixed_ends() {
    run 0 env OWN_END=1 "$VARVE" run --fixed -- "$BIN/fixed-objects" store 3 -1
    has '^goodbye$'
    run 0 env OWN_END=1 "$VARVE" run --fixed -- "$BIN/fixed-objects" store 5 -1
    has 'begins at 3'
    ! grep '^goodbye$' err || fail "the destructor is called"
}

# The same files at other addresses, or another build of the program.
fixed_placed() {
    cp "$BIN/fixed-odd" program
    run 0 env LD_LIBRARY_PATH="$BIN" "$VARVE" run --fixed --include libfixed-library.so -- ./program plain store
    run 4 sh -c 'ulimit -s 1000000 && LD_LIBRARY_PATH=$BIN "$@"' sh "$VARVE" run --fixed --include libfixed-library.so -- \
        ./program plain store
    has 'was stored by a process with .* (file, address), and here it is elsewhere'
    cp "$BIN/fixed-odd-other" program
    run 4 env LD_LIBRARY_PATH="$BIN" "$VARVE" run --fixed --include libfixed-library.so -- ./program plain store
    has 'was stored by a process with program:[0-9a-f]* (file, build id)'
    cp "$BIN/fixed-odd" program
    run 0 env LD_LIBRARY_PATH="$BIN" OTHER="an environment that moves the stack" "$VARVE" run --fixed --include \
        libfixed-library.so -- ./program plain store
    grep -qx 1 out || fail "it began anew"
}

fixed_mode() {
    fixed 0 plain store
    run 4 "$VARVE" run -- "$BIN/fixed-odd" plain store
    run 4 "$BIN/fixed-odd" plain store
    odd 0 plain data
    VARVE_HEAP=data fixed 3 plain other
    has 'this process was started by `varve run --fixed`, but heap=fixed is not set'
    run 3 env VARVE_HEAP=fixed "$VARVE" run -- "$BIN/fixed-odd" plain other
    has 'heap=fixed is set, .* but this process was not'
    fixed 0 plain store
    grep -qx 1 out || fail "it began anew"
}

fixed_start() {
    preload=$(dirname "$(ldd "$BIN/fixed-odd" | sed -n 's/.*libvarve.so[^ ]* => \([^ ]*\).*/\1/p')")/libvarve_preload.so
    run 1 env VARVE_PRELOAD_FIXED=set LD_PRELOAD="$preload" "$BIN/fixed-odd" plain store
    has 'addresses are still placed at random'
    run 1 sh -c 'ulimit -v 60000000 && exec "$@"' sh "$VARVE" run --fixed -- "$BIN/fixed-odd" plain store
    has 'there is no room for the heap of address-true mode'
    [ ! -e store ] || fail "something was started"
}

# ---- programs that never call Varve ----

# after CODE STORE PROGRAM [ARGUMENT]...
after() {
    code=$1
    store=$2
    program=$3
    shift 3
    run "$code" "$VARVE" run --restart-after called_step --to "$store" --name run --exclude libpreload-called -- \
        "$BIN/$program" "$@"
}

# Killed three times, and asked to leave once: the result of a run without Varve, with its exit code.
called_killed() {
    run 9 "$BIN/preload-called" static 40
    mv out expected
    for program in preload-called preload-called-directly; do
        after 9 $program.whole $program static 40
        cmp expected out || fail "other results by varve run"
        for at in 6 7 20; do
            END_AT=$at after 137 $program $program static 40
            [ $at -eq 6 ] || has '^first step [1-9]'
        done
        LEAVE=1 END_AT=30 VARVE_EXIT_SIGNAL=USR2 after 0 $program $program static 40
        [ ! -s out ] || fail "it did not leave"
        OTHER="a variable that moves the stack" after 9 $program $program static 40
        has '^first step 3[1-9]'
        cmp expected out || fail "other results after restarts"
    done
    after 9 forks preload-called forks 40 # a child goes its own way
    cmp expected out || fail "other results with a child"
    [ "$(grep -c 'a first run' err)" -eq 1 ] || fail "the child has opened a session, too"
}

# What would come back wrong is not stored: the program is told, and goes on.
called_changed() {
    for kind in stack register; do
        run 9 "$BIN/preload-called" $kind 20
        mv out expected
        END_AT=10 after 137 $kind preload-called $kind 20
        has 'varve: warn: no checkpoint: .* has changed since the first call of called_step, and does not come back'
        [ "$(grep -c 'does not come back' err)" -eq 1 ] || fail "it is told more than once"
        after 9 $kind preload-called $kind 20
        cmp expected out || fail "it did not begin anew"
    done
    after 9 places preload-called places 20
    has 'warn: no checkpoint was made: called_step was not called again where it was called first'
}

# Known to be wrong: which of two texts of the C library an argument pointed to is known by its address alone.
called_pointer() {
    run 9 "$BIN/preload-called" pointer 20
    mv out expected
    for way in '' other; do
        LEAVE=1 END_AT=6 VARVE_EXIT_SIGNAL=USR2 after 0 "store$way" preload-called pointer 20
        OTHER_WAY=$way
        [ -z "$way" ] || export OTHER_WAY
        after 9 "store$way" preload-called pointer 20
        has '^first step 7$'
        cmp -s expected out && is_right=yes || is_right=no
        [ "$is_right" = "$([ -z "$way" ] && echo yes || echo no)" ] || fail "the result is right: $is_right, way: $way"
    done
}

called_refused() {
    run 1 "$VARVE" run --restart-after called_step -- "$BIN/preload-called" static 4
    has 'belong together'
    run 1 "$VARVE" run --to store --name run -- "$BIN/preload-called" static 4
    has 'belong together'
    for symbol in missing main end_here; do # none, and two that the program has itself
        run 1 "$VARVE" run --restart-after $symbol --to store --name run -- "$BIN/preload-called" static 4
        has "the program calls no such function of a library.* ($symbol): the program was not started"
    done
    run 1 "$VARVE" run --restart-after varve_open --to store --name run -- "$BIN/preload-odd" plain store
    has 'the program calls Varve itself'
    PMI_SIZE=2 after 1 store preload-called static 4
    has 'for programs of one process'
    run 1 "$VARVE" run --restart-after called_step --to store --name run -- "$BIN/preload-really-static"
    [ ! -e store ] || fail "something was stored"
    END_AT=5 after 137 store preload-called static 9
    cp "$BIN/preload-called-directly" preload-called # another build
    run 1 env LD_LIBRARY_PATH="$BIN" "$VARVE" run --restart-after called_step --to store --name run --exclude \
        libpreload-called -- ./preload-called static 9
    has 'varve: restart: .*; nothing was restored'
}

"$@"
