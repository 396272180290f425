#!/bin/bash
# varve-slurm STORE NAME COMMAND [ARGUMENT...]: a batch job that is preempted goes on where it was.
#
#     #SBATCH --requeue --signal=B:TERM@120 --open-mode=append
#     varve-slurm /scratch/ck run-7 ./simulation input
#
# The first start runs the command. On SIGTERM, which Slurm sends to a job that is preempted or near its time limit, it
# becomes a checkpoint and ends, and the job is queued again. The next start brings it back.
#
# The command's output goes to STORE-NAME.out, for the output of the job grows while the command does not run: criu wants
# open files as they were. The code it ends with goes to STORE-NAME.code. A name whose command has ended is not run again.
#
# For programs that know nothing of Varve; those that make their own checkpoints have varve-job. The codes it ends with are in
# docs/jobs.md.
#
# If it cannot be dumped it runs on, until Slurm kills it. VARVE ("varve") may have more words, such as "sudo varve";
# DUMP_OPTIONS and UNDUMP_OPTIONS hold more arguments, such as "-- --tcp-established". Both need root: docs/processes.md.
set -u

if [ $# -lt 3 ]; then
    echo "usage: varve-slurm STORE NAME COMMAND [ARGUMENT...]" >&2
    exit 2
fi
tool=$(basename "$0" .sh) store=$1 name=$2
shift 2
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=job-parts.sh
. "$here/job-parts.sh" 2>/dev/null || . "$here/../share/varve/job-parts.sh" || exit 2
output=${store%/}-$name.out code=${store%/}-$name.code pid_file=${store%/}-$name.pid
read -r -a dump_options <<<"${DUMP_OPTIONS:-}"
read -r -a undump_options <<<"${UNDUMP_OPTIONS:-}"

# A shell of its own, which is dumped with the command, writes down how it ended: whoever is brought back has another parent. Slurm's SIGTERM
# may reach every process of the job; it is ours.
begin() {
    # shellcheck disable=SC2016 # its own arguments
    setsid bash -c 'trap "" TERM; code=$1; shift; "$@"; told=$?; echo $told >"$code.new" && sync "$code.new" && mv "$code.new" "$code"' \
        varve-slurm "$code" "$@" </dev/null >>"$output" 2>&1 &
    pid=$!
    if ! { echo "$pid" >"$pid_file.new" && sync "$pid_file.new" && mv "$pid_file.new" "$pid_file"; }; then
        kill -9 -- "-$pid"
        give_up "$EXIT_STORAGE" "cannot write $pid_file: nothing goes on"
    fi
}

come_back() {
    pid=$(cat "$pid_file") || return
    case $pid in
    '' | *[!0-9]*) give_up "$EXIT_STORAGE" "$pid_file does not name a process" ;;
    esac
    run_varve undump "$store" "$name" ${undump_options[@]+"${undump_options[@]}"}
}

is_running() {
    [ -d "/proc/$pid" ] && ! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null
}

# In the middle of a wait that a signal ends.
dump() {
    say "SIGTERM: $name becomes a checkpoint"
    if ! run_varve dump "$store" "$name" --pid "$pid" --stop ${dump_options[@]+"${dump_options[@]}"}; then
        say "$name could not be dumped, and runs on"
        return
    fi
    queue_again
}

is_asked=0
trap 'is_asked=1' TERM
if [ -e "$code" ]; then
    say "$name has ended before, with $(cat "$code")"
    exit "$(cat "$code")"
fi
find_newest || exit "$EXIT_STORAGE"
if [ -n "$newest" ]; then
    come_back || give_up "$EXIT_STORAGE" "$name cannot be brought back; its checkpoints are in $store"
    say "$name goes on as process $pid"
else
    begin "$@"
fi
while is_running; do
    if [ $is_asked = 1 ]; then
        is_asked=0
        dump
    fi
    nap 1
done
if [ ! -e "$code" ]; then
    give_up "$EXIT_LOST" "$name is gone and has not said how"
fi
exit "$(cat "$code")"
