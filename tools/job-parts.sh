# shellcheck shell=bash disable=SC2034,SC2154
# What varve-job and varve-slurm share. They source it, and have set tool, store and name before.

# The codes they end with, beside that of the command: docs/jobs.md has the table.
EXIT_USAGE=2
# 73 to 75: the program has left or ended after the warning, or lacks nodes. If it left, its checkpoint is durable.
EXIT_ENDING=73     # the batch system is ending the job, which is not queued again
EXIT_NOT_QUEUED=74 # the job could not be queued again
EXIT_QUEUED=75     # the job is queued again
EXIT_STORAGE=76    # the store did not answer, or the work could not be brought back; nothing more was started
EXIT_LOST=77       # varve-slurm: the command is gone, and nobody knows with which code
EXIT_GAVE_UP=78    # varve-job: it was started too often without progress
EXIT_NOT_STARTED=79
# of varve
NO_STORE=10 DAMAGED=20

read -r -a varve <<<"${VARVE:-varve}"

say() {
    echo "$tool: $*" >&2
}

# give_up CODE TEXT...
give_up() {
    local code=$1
    shift
    say "$@"
    exit "$code"
}

# Unlike a sleep in front, it ends with a signal.
nap() {
    sleep "$1" &
    wait $! || :
}

# Signals are for the script: varve, and criu below it, must not end in the middle.
run_varve() {
    (
        trap '' TERM USR1 USR2
        exec "${varve[@]}" "$@"
    )
}

# Sets newest to the greatest version of a whole checkpoint, or to nothing if there is none yet. Fails when the storage does
# not answer, which is not the same.
find_newest() {
    local told rc=0
    told=$(run_varve list --json "$store" "$name" 2>&1) || rc=$?
    newest=
    case $rc:$told in
    "$NO_STORE":* | *'"NO_CHECKPOINT"'*) return 0 ;;
    0:* | "$DAMAGED":*) newest=$(sed -n '/"is_damaged":false/s/^{"message_type":"checkpoint","name":"[^"]*","version":\([0-9]*\),.*/\1/p' <<<"$told" |
        sort -n | tail -n 1) ;;
    esac
    [ -n "$newest" ] || { say "cannot ask $store for $name: $told" && return 1; }
}

# job_field NAME: what Slurm says of this job, such as JobState
job_field() {
    scontrol show job "$SLURM_JOB_ID" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$1=//p" | head -n 1
}

# seconds_of [DAYS-]HOURS:MINUTES:SECONDS; fails for words such as UNLIMITED
seconds_of() {
    local days=0 rest=$1 h m s
    [[ $1 =~ ^([0-9]+-)?[0-9]+:[0-9]+:[0-9]+$ ]] || return 1
    [[ $1 != *-* ]] || days=${1%%-*} rest=${1#*-}
    IFS=: read -r h m s <<<"$rest"
    echo $((((10#$days * 24 + 10#$h) * 60 + 10#$m) * 60 + 10#$s))
}

is_at_time_limit() {
    local run limit
    run=$(seconds_of "$(job_field RunTime)") && limit=$(seconds_of "$(job_field TimeLimit)") && [ "$run" -ge "$limit" ]
}

# Queue the job again, and end. scontrol would also bring back a job that its user has just cancelled. Slurm calls such a
# job COMPLETING, and also one at the end of its grace time, which it queues again itself, and one at its time limit.
queue_again() {
    [ -n "${SLURM_JOB_ID:-}" ] || exit "$EXIT_QUEUED"
    case $(job_field JobState) in
    RUNNING | SUSPENDED) ;;
    COMPLETING)
        is_at_time_limit || give_up "$EXIT_ENDING" "Slurm is ending job $SLURM_JOB_ID: it is not queued again from here"
        ;;
    *) give_up "$EXIT_NOT_QUEUED" "Slurm does not say that job $SLURM_JOB_ID runs: it is not queued again" ;;
    esac
    trap '' TERM USR1 USR2 # what comes now is the end that this asks for
    scontrol requeue "$SLURM_JOB_ID" || give_up "$EXIT_NOT_QUEUED" "job $SLURM_JOB_ID cannot be queued again"
    exit "$EXIT_QUEUED"
}
