#!/bin/bash
# What a store does when a server of its file system dies.
#
#     test-gluster.sh distributed|replicated|sets|backend DIR
#
# distributed: every file lies on one of three bricks. Whichever dies, opening the store must say that storage is missing, and
# must not choose an older checkpoint; when it is back, the newest one is there. replicated: everything lies on all three, and
# with one of them dead all goes on. sets: every file lies on one of two sets of three bricks; one may die, not two of a set.
# backend: the tests of the backend on a distributed volume, all bricks alive, and a race between two hosts of GLUSTER_ROUNDS
# (30). VARVE, LIFE, TWO_CLIENTS, CONFORMANCE and BACKEND_FILE name programs; HEAT2D may be left out.
set -u
here=$(cd "$(dirname "$0")" && pwd)

if [ "${GLUSTER_INSIDE:-}" != "$1" ]; then
    export GLUSTER_INSIDE=$1
    volume=$1
    [ "$1" = backend ] && volume=distributed
    exec /bin/bash "$here/with-gluster.sh" "$volume" "$2" /bin/bash "$0" "$1"
fi

. "$here/gluster.sh"
. "$here/../mpi/mpi.sh"
export HOME=$GLUSTER LC_ALL=C MPI_SECONDS=40
unset VARVE_STORE VARVE_CONFIG XDG_CONFIG_HOME
store=$GLUSTER/mnt/store
failed=0
begun=$SECONDS

say() { # RESULT WHAT: one line; the last output if it went wrong
    echo "$1: $2 ($((SECONDS - begun)) s)"
    if [ "$1" != ok ]; then
        failed=$((failed + 1))
        sed 's/^/    /' "$GLUSTER/out" 2>/dev/null | tail -n 20
    fi
}

# expect CODE PATTERN WHAT COMMAND...: the command ends so (! for any failure) and says a line that matches.
expect() {
    local code=$1 pattern=$2 what=$3 got
    shift 3
    timeout -k 5 "${seconds:-120}" "$@" </dev/null >"$GLUSTER/out" 2>&1
    got=$?
    if { [ "$code" = ! ] && [ $got -ne 0 ] && [ $got -lt 124 ] || [ $got = "$code" ]; } &&
        grep -q -e "$pattern" "$GLUSTER/out"; then
        say ok "$what"
    else
        say FAILED "$what (code $got; wanted $code and: $pattern)"
    fi
}

# ---- a session that goes on while bricks come and go ----

begin_life() {
    coproc life { exec "$LIFE" "$1" 2>"$GLUSTER/life.err"; }
    read -r -t 60 answer <&"${life[0]}" || answer="no answer"
}

tell_life() { # COMMAND: its answer is in $answer
    echo "$1" >&"${life[1]}"
    read -r -t 60 answer <&"${life[0]}" || answer="no answer"
}

end_life() {
    local pid=$life_PID
    tell_life quit
    wait "$pid"
}

answers() { # PATTERN WHAT
    echo "$answer" >"$GLUSTER/out"
    case $answer in
    $1) say ok "$2: ${answer:0:60}" ;;
    *) say FAILED "$2 (wanted: $1)" ;;
    esac
}

# ---- where things lie ----

everything() { # names and sizes on all bricks, dead or alive
    (cd "$GLUSTER" && find b1/store b2/store b3/store -type f ! -path '*/beat/*' -printf '%p %s\n' | sort)
}

brick_of() { # PATH below the store: the numbers of the bricks that have it
    local brick
    for brick in 1 2 3; do
        [ -e "$GLUSTER/b$brick/store/$1" ] && echo -n $brick
    done
}

# The brick on which the record, the pack and the heartbeat of the newest checkpoint lie, all of them; "" if there is none. Without
# it nothing shows that this checkpoint was ever made. (The writers list is in the pack's folder, and GlusterFS never puts these two
# names on the same third of a folder.)
only_brick() {
    local name=n/life record data beat where
    record=$(cd "$GLUSTER" && find b?/store/$name/record -type f -printf '%f\n' | sort | head -n 1)
    data=$(cd "$GLUSTER" && find b?/store/$name/data -type f -name 00000000 -printf '%P\n' | sort | tail -n 1)
    beat=$(cd "$GLUSTER" && find b?/store/$name/beat -type f -printf '%f\n' | sort | tail -n 1)
    where=$(brick_of $name/record/"$record")
    [ "$(brick_of $name/data/"$data")" = "$where" ] && [ "$(brick_of $name/beat/"$beat")" = "$where" ] && echo "$where"
}

# ---- the tests ----

backend() {
    mkdir -p "$GLUSTER/mnt/backend" "$GLUSTER/mnt/race" && cd "$GLUSTER/mnt/backend" || exit 1
    expect 0 PASSED "the backend's promises hold" "$CONFORMANCE" file
    expect 0 PASSED "also with buffered writes" "$CONFORMANCE" file-buffered
    expect 0 PASSED "and what only the file backend promises" "$BACKEND_FILE"
    cd / || exit 1
    seconds=3600 expect 0 passed "two hosts keep out of each other's way" \
        "$TWO_CLIENTS" "$GLUSTER/mnt/race" "$GLUSTER/mnt2/race" "${GLUSTER_ROUNDS:-30}"
    cat "$GLUSTER/out"
}

# Checkpoints until nothing outside one brick tells of the newest one.
make_checkpoints() {
    local tries
    begin_life "$store"
    answers none "a first life"
    for tries in $(seq 150); do
        tell_life save
        [ "$answer" = "saved $((tries - 1))" ] || break
        newest=$((tries - 1))
        [ $tries -gt 5 ] && trap_brick=$(only_brick) && [ -n "$trap_brick" ] && break
    done
    answers "saved $newest" "checkpoints, the newest on brick ${trap_brick:-?} alone"
    [ -n "${trap_brick:-}" ] || say FAILED "no checkpoint of $tries lies on one brick alone"
    end_life
    answers closed "the end of the first life"
    everything >"$GLUSTER/before"
    if [ -n "$(cd "$GLUSTER" && find b?/store -type f -perm -1000)" ]; then
        say FAILED "some objects lie elsewhere than GlusterFS looks for them first"
    else
        say ok "every object lies where GlusterFS looks for it first"
    fi
}

heat() { # STEPS
    run_mpi openmpi 4 "$HEAT2D" --rows 64 --columns 64 --every 10 --steps "$1" "$GLUSTER/mnt/heat"
}

# The functions of this file, for `timeout`.
export -f heat run_mpi find_mpirun
export mpi_options_openmpi

with_mpi() {
    [ -n "${HEAT2D:-}" ] && find_mpirun openmpi
}

lose_brick() { # 1 to 3
    local what="brick $1 dead" incomplete="not complete.*parts of the GlusterFS volume.*down"
    kill_brick "$1" || say FAILED "brick $1 cannot be killed"
    expect 1 "^failed ENOTCONN: .*$incomplete" "$what: a restart says so" "$LIFE" "$store"
    expect ! "parts of this GlusterFS volume are down" "$what: varve ls says so" "$VARVE" ls "$store"
    expect ! "parts of this GlusterFS volume are down" "$what: varve verify says so" "$VARVE" verify "$store"
    expect ! "parts of this GlusterFS volume are down" "$what: varve prune refuses" "$VARVE" prune "$store"
    with_mpi && expect ! "$incomplete" "$what: a job of four ranks says so" bash -c "heat 30"
    everything | cmp -s - "$GLUSTER/before" && say ok "$what: nothing was changed" || say FAILED "$what: something was changed"
    start_brick "$1" || say FAILED "brick $1 does not come back"
    expect 0 "^restarted $newest\$" "brick $1 back: the newest checkpoint is there" "$LIFE" "$store"
    expect 0 " $newest " "brick $1 back: varve ls shows it" "$VARVE" ls "$store"
    everything >"$GLUSTER/before"
}

lose_brick_in_session() { # 1 to 3
    local what="brick $1 dead in a session"
    begin_life "$store"
    answers "restarted $newest" "a session"
    kill_brick "$1"
    tell_life restart
    answers "failed ENOTCONN*" "$what: no older checkpoint is taken"
    tell_life save
    answers "failed ENOTCONN*" "$what: a checkpoint fails"
    start_brick "$1"
    tell_life save
    answers "saved $((newest + 1))" "$what, then back: a checkpoint"
    newest=$((newest + 1))
    tell_life restart
    answers "restarted $newest" "$what, then back: a restart"
    end_life
    answers closed "$what, then back: the end"
}

# Where the state of the client cannot be seen, a session still notices when it opens the store.
lose_brick_unseen() { # 1 to 3
    mkdir -p "$GLUSTER/bound"
    mount --bind "$store" "$GLUSTER/bound"
    expect 0 "^restarted $newest\$" "a mount of the store's folder alone" "$LIFE" "$GLUSTER/bound"
    kill_brick "$1"
    expect 1 "^failed ENOTCONN: .*not complete.*a folder cannot be made" "and brick $1 dead: a restart says so" \
        "$LIFE" "$GLUSTER/bound"
    start_brick "$1"
    umount "$GLUSTER/bound"
}

distributed() {
    local brick
    make_checkpoints
    with_mpi && expect 0 . "a job of four ranks" bash -c "heat 30"
    for brick in 1 2 3; do
        lose_brick $brick
    done
    with_mpi && expect 0 "restarted from step 30" "the job of four ranks goes on" bash -c "heat 40"
    lose_brick_in_session "$trap_brick"
    lose_brick_unseen "$trap_brick"
    expect 0 . "varve verify at the end" "$VARVE" verify "$store"
}

# One brick dead of all, or of a set: a session, another one, a job, and the tools go on.
go_on_without_brick_2() {
    begin_life "$store"
    tell_life save
    tell_life save
    answers "saved 1" "checkpoints"
    kill_brick 2
    tell_life save
    answers "saved 2" "brick 2 dead: a checkpoint"
    tell_life restart
    answers "restarted 2" "brick 2 dead: a restart"
    end_life
    begin_life "$store"
    answers "restarted 2" "brick 2 dead: a new life"
    tell_life save
    answers "saved 3" "brick 2 dead: its checkpoint"
    end_life
    expect 0 . "brick 2 dead: varve verify" "$VARVE" verify "$store"
    with_mpi && expect 0 . "brick 2 dead: a job of four ranks" bash -c "heat 30"
}

all_is_back() {
    expect 0 "^restarted 3\$" "all bricks back: the newest checkpoint is there" "$LIFE" "$store"
    expect 0 . "all bricks back: varve verify" "$VARVE" verify "$store"
}

replicated() {
    go_on_without_brick_2
    kill_brick 3 unseen
    expect 1 "^failed" "bricks 2 and 3 dead: a restart fails" "$LIFE" "$store"
    expect ! . "bricks 2 and 3 dead: varve ls fails" "$VARVE" ls "$store"
    start_brick 2
    start_brick 3
    all_is_back
}

sets() {
    go_on_without_brick_2
    kill_brick 3
    expect 1 "^failed ENOTCONN: .*not complete.*ck-replicate-0" "bricks 2 and 3 dead: a restart says so" "$LIFE" "$store"
    expect ! "parts of this GlusterFS volume are down" "bricks 2 and 3 dead: varve ls says so" "$VARVE" ls "$store"
    expect ! "parts of this GlusterFS volume are down" "bricks 2 and 3 dead: varve prune refuses" "$VARVE" prune "$store"
    start_brick 2
    start_brick 3
    all_is_back
}

"$1"
echo "$1: $failed failed, $((SECONDS - begun)) s"
[ $failed = 0 ]
