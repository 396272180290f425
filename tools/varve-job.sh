#!/bin/bash
# varve-job [OPTION...] STORE NAME -- COMMAND [ARGUMENT...]: a batch job whose program makes its own checkpoints with Varve.
#
#     #SBATCH --requeue --open-mode=append --signal=B:USR1@300
#     exec varve-job /scratch/ck run-7 -- srun ./simulation input
#
# Passes the batch system's warning on, so that the program makes a checkpoint and ends, and queues the job again. A program that
# crashes is started again in the same allocation, without nodes that are dead. man varve-job; docs/jobs.md.
#
# How it knows that the program is not done although it ended with 0: varve_should_exit makes a file (the setting exit_file).
# How it knows of progress: the newest checkpoint has a greater version. What it must know in the job's next life is in a file.
set -u

tool=$(basename "$0" .sh)
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=job-parts.sh
. "$here/job-parts.sh" 2>/dev/null || . "$here/../share/varve/job-parts.sh" || exit 2

PROBE_SECONDS=30 # a node that starts nothing in that time is dead
AGAIN_SECONDS=30 # a program that does not leave is asked again
STORE_TRIES=3
CRASHES_TIMES=5 # so many times --restarts, and once more: a fault of the program lets each life make one more checkpoint, perhaps
NODES_TRIES=3 # sinfo may fail for some time, as when slurmctld is started again
NODES_SECONDS=10
PATH_MOST=255 # bytes of a setting

usage() {
    cat >&2 <<'TEXT'
usage: varve-job [OPTION...] STORE NAME -- COMMAND [ARGUMENT...]
  --after requeue|stay|exit   when the program has left: queue the job again (scontrol), wait until the job
                              is ended, or only end with 75
  --nodes N                   the program needs N nodes of the job: others are spare; all unless told
  --restarts N                give up after so many restarts without a newer checkpoint; 3
  --signal NAME               tell the program with this signal to leave: TERM, USR1, ...
  --state FILE                where the next life of the job finds what this one knew; STORE-NAME.job
TEXT
    exit "$EXIT_USAGE"
}

# ---- the command line ----

is_number() {
    [[ $1 =~ ^[0-9]{1,19}$ ]]
}

after=requeue needed='' restarts=3 signal='' state=''
while [ $# -gt 0 ]; do
    case $1 in
    --after | --nodes | --restarts | --signal | --state)
        [ $# -gt 1 ] || usage
        case $1 in
        --after) after=$2 ;;
        --nodes) needed=$2 ;;
        --restarts) restarts=$2 ;;
        --signal) signal=${2#SIG} ;;
        --state) state=$2 ;;
        esac
        shift 2
        ;;
    -*) usage ;;
    *) break ;;
    esac
done
case $after in
requeue | stay | exit) ;;
*) usage ;;
esac
if ! is_number "$restarts" || ! is_number "${needed:-1}" || [ $# -lt 4 ] || [ "$3" != -- ]; then
    usage
fi
store=$1 name=$2
shift 3
command=("$@")
launcher=$(basename "$1")

# Slurm tells the tasks of srun with SIGTERM that the job is preempted: the program understands that.
signal=${signal:-${VARVE_EXIT_SIGNAL:-}}
is_signal_given=${signal:+1}
signal=${signal:-TERM}
case $signal in
USR1 | USR2 | HUP | INT | TERM | XCPU) ;;
*) usage ;;
esac
path=${store%%\?*}
path=${path#file://}
case $path in
*://*) beside=$name.job ;; # the state is a file, and lies in no such store
*) beside=${path%/}-$name.job ;;
esac
state=${state:-$beside}
case $state in
/*) ;;
*) state=$PWD/$state ;;
esac

# ---- what the next life of the job must know: the job, the greatest version, starts since then ----

job_id=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${FLUX_JOB_ID:-}}}}
best=-1 tries=-1 crashed=0 # crashed: also those that have made progress

read_state() {
    local job version count crashes
    [ -n "$job_id" ] && [ -e "$state" ] || return 0
    read -r job version count crashes <"$state" || return 0
    if [ "$job" = "$job_id" ] && is_number "${version#-}" && is_number "$count"; then
        best=$version tries=$count
        is_number "$crashes" && crashed=$crashes
    fi
}

write_state() {
    if ! { echo "${job_id:-none} $best $tries $crashed" >"$state.new" && sync "$state.new" && mv "$state.new" "$state"; }; then
        give_up "$EXIT_NOT_STARTED" "cannot write $state: nothing is started; --state names another file"
    fi
}

# Before each start.
count_start() {
    tries=$((tries + 1))
    if [ -n "$newest" ] && [ "$newest" -gt "$best" ]; then
        best=$newest tries=0
    fi
    if [ "$tries" -gt "$restarts" ]; then
        rm -f "$state"
        give_up "$EXIT_GAVE_UP" "given up: $tries starts, and no checkpoint of $name newer than ${newest:-none at all}"
    fi
    if [ "$crashed" -ge $((CRASHES_TIMES * (restarts + 1))) ]; then
        rm -f "$state"
        give_up "$EXIT_GAVE_UP" "given up: the program has crashed $crashed times in this job; newest checkpoint of $name:" \
            "${newest:-none}. A greater --restarts allows more"
    fi
    write_state
}

ask_store() {
    local i
    for ((i = 1; i <= STORE_TRIES; i++)); do
        find_newest && return
        [ "$i" -eq "$STORE_TRIES" ] || nap 5
    done
    give_up "$EXIT_STORAGE" "the storage is in trouble: nothing more is started"
}

# ---- nodes ----

dead=() # nodes of the job

# Only with srun can nodes be left out: its options are known.
has_nodes() {
    [ "$launcher" = srun ] && [ -n "${SLURM_JOB_NODELIST:-}" ]
}

# Nodes that Slurm calls down, or that do not answer it. Fails when Slurm does not say.
list_down() {
    local told
    told=$(sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %T') || return
    sed -n 's/^\([^ ]*\) \(.*\*\|down.*\|fail.*\|unk.*\)$/\1/p' <<<"$told" | sort -u
}

probe() {
    timeout "$PROBE_SECONDS" srun --overlap -Q -N1 -n1 -w "$1" true </dev/null >/dev/null 2>&1 || echo "$1"
}

# Slurm takes minutes to notice that a node is gone: those that it believes in are asked to start something.
find_dead() {
    local node down
    dead=()
    has_nodes || return 0
    down=$(list_down) || : # then all are asked
    mapfile -t dead < <(
        for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
            if grep -qx "$node" <<<"$down"; then
                echo "$node"
            else
                probe "$node" &
            fi
        done
        wait
    )
    [ ${#dead[@]} -eq 0 ] || say "dead: ${dead[*]}"
}

# Steps of a program that crashed may hold on to processors.
end_steps() {
    local step
    has_nodes || return 0
    for step in $(squeue -h -s -j "$SLURM_JOB_ID" -o %i); do
        case $step in
        *.[0-9]*) scancel -Q --signal=KILL "$step" || : ;;
        esac
    done
}

# Sets line to the command as it is started now. A step that lost a node may keep its processors for ever: overlap.
make_line() {
    local IFS=,
    line=("${command[@]}")
    has_nodes || return 0
    export SLURM_JOB_NUM_NODES=$((all_nodes - ${#dead[@]})) # what srun takes where the command does not say
    export SLURM_NNODES=$SLURM_JOB_NUM_NODES
    [ ${#dead[@]} -gt 0 ] || return 0
    line=("${command[0]}" --overlap "--exclude=${dead[*]}" "${command[@]:1}")
}

# ---- the program ----

warned='' # the signal by which the batch system wants us gone

# srun would kill its tasks if it got a SIGTERM itself. Which signals other launchers pass on differs between them (Open MPI 4.1
# SIGUSR2 only, MPICH SIGUSR1 only): without --signal the store tells the program.
pass_on() {
    say "SIG$warned: $name is asked to leave"
    told=$SECONDS
    if [ "$launcher" = srun ] && [ -n "${SLURM_JOB_ID:-}" ]; then
        scancel --signal="$signal" "$SLURM_JOB_ID" && return
    elif [ -n "$is_signal_given" ]; then
        kill -s "$signal" "$pid" && return
    fi
    run_varve trigger --exit "$store" "$name" >&2 || told=$((SECONDS - AGAIN_SECONDS + 5))
}

start() {
    left=$state.left.$$.$((starts += 1)) # a new name: a node may remember for some time that there is no such file
    [ ${#left} -le "$PATH_MOST" ] || give_up "$EXIT_NOT_STARTED" "$left is longer than $PATH_MOST bytes: --state names another file"
    rm -f "$left" # of another host's process with our number
    export VARVE_EXIT_FILE=$left VARVE_EXIT_SIGNAL=$signal VARVE_TRIGGER=on
    make_line
    say "start: ${line[*]}; newest checkpoint: ${newest:-none}"
    "${line[@]}" <&0 & # without it, /dev/null would be its input
    pid=$!
}

# A host may remember for some time that there is no such file (NFS), but not when it has just changed the folder.
has_left() {
    { : >"$left.look" && rm -f "$left.look"; } 2>/dev/null || :
    [ -e "$left" ]
}

# Sets code.
wait_for_end() {
    local told=-$AGAIN_SECONDS # when pass_on was called; the program may not have begun by then
    while kill -0 "$pid" 2>/dev/null; do
        if [ -n "$warned" ] && [ $((SECONDS - told)) -ge $AGAIN_SECONDS ]; then
            if has_left; then # and may have no handler any more
                told=$SECONDS
            else
                pass_on
            fi
        fi
        nap 1
    done
    code=0
    wait "$pid" || code=$?
}

# The program has ended: is it done? Returns if it should be started again.
judge() {
    if has_left; then
        rm -f "$left"
        say "$name has left, and its checkpoint is durable"
        leave
    fi
    if [ "$code" -eq 0 ] && ! has_lost_nodes; then
        rm -f "$state"
        if [ -z "$newest" ] && find_newest && [ -z "$newest" ]; then
            say "the program is done, and $store has no checkpoint of $name: if it makes any, they are elsewhere"
        fi
        exit 0
    fi
    say "the program ended with $code"
    [ -z "$warned" ] || leave
}

# srun may end with 0 although a node was lost with its tasks. Where Slurm does not say, the nodes are asked.
has_lost_nodes() {
    has_nodes || return 1
    local i down known=("${dead[@]-}")
    for ((i = 1; ; i++)); do
        down=$(list_down) && break
        if [ "$i" -eq "$NODES_TRIES" ] || [ -n "$warned" ]; then
            say "Slurm does not say whether nodes were lost (sinfo): they are asked to start something"
            find_dead
            down=$(printf '%s\n' "${dead[@]-}")
            break
        fi
        nap "$NODES_SECONDS"
    done
    down=$(grep -vxF "$(printf '%s\n' "${known[@]}")" <<<"$down")
    [ -n "$down" ] && say "nodes were lost: $down"
}

leave() {
    case $after in
    exit) exit "$EXIT_QUEUED" ;;
    stay)
        warned=
        while [ "$warned" != TERM ]; do
            nap 1
        done
        exit "$EXIT_QUEUED"
        ;;
    esac
    queue_again
}

# Not every Slurm tells jobs when they end: 22.05 does not.
find_end_time() {
    local told end
    [ -z "${SLURM_JOB_END_TIME:-}" ] && [ -n "${SLURM_JOB_ID:-}" ] || return 0
    told=$(job_field EndTime)
    end=$(date -d "${told:-Unknown}" +%s 2>/dev/null) && export SLURM_JOB_END_TIME=$end
}

# ---- the life of the job ----

for warning in TERM USR1 USR2 XCPU; do
    # shellcheck disable=SC2064 # now
    trap "warned=$warning" $warning
done
[ -e /dev/fd/0 ] || exec </dev/null # the command would get what is closed, too
type -P "${command[0]}" >/dev/null || give_up "$EXIT_NOT_STARTED" "there is no ${command[0]}: nothing is started"
find_end_time
export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1} # a rank that dies takes the others with it; else they wait for it
all_nodes=${SLURM_JOB_NUM_NODES:-1}
needed=${needed:-$all_nodes}
starts=0
read_state
while :; do
    ask_store
    count_start
    start
    wait_for_end
    judge
    end_steps
    known=${#dead[@]}
    find_dead
    [ "${#dead[@]}" -gt "$known" ] || crashed=$((crashed + 1))
    if [ $((all_nodes - ${#dead[@]})) -lt "$needed" ]; then
        say "$((all_nodes - ${#dead[@]})) of $all_nodes nodes are left, and $needed are needed: the job is queued again"
        leave
    fi
    [ -z "$warned" ] || leave
done
