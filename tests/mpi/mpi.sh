# For all tests that run under mpirun: `. mpi.sh`, then
#
#     run_mpi FLAVOUR RANKS PROGRAM ARGUMENT...      FLAVOUR: openmpi or mpich; or env, without MPI (../env/ranks.sh)
#
# returns what mpirun does, or 124 after MPI_SECONDS (60 unless told), and ends the script with 77 if this mpirun is missing. More
# ranks than cores are all right.
#
# Variables of the environment reach the ranks: those of the same host inherit it.

# Open MPI refuses to run as root unless told; with both, ranks that wait keep a core busy unless they are asked to yield.
mpi_options_openmpi="--oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl_base_warn_component_unused 0"
mpi_options_mpich=""

find_mpirun() {
    MPIRUN=$(command -v "mpirun.$1") && return 0
    # Without Debian's suffix: take mpirun if it is of this flavour.
    MPIRUN=$(command -v mpirun) || MPIRUN=
    case $1 in
    openmpi) [ -n "$MPIRUN" ] && "$MPIRUN" --version 2>&1 | grep -q 'Open MPI' ;;
    mpich) [ -n "$MPIRUN" ] && "$MPIRUN" --version 2>&1 | grep -q 'HYDRA' ;;
    *) false ;;
    esac
}

run_mpi() {
    mpi_flavour=$1
    mpi_ranks=$2
    shift 2
    if [ "$mpi_flavour" = env ]; then
        mpi_here=$(dirname "$0")/../env/ranks.sh # or from bench
        [ -e "$mpi_here" ] || mpi_here=$(dirname "$0")/../tests/env/ranks.sh
        timeout -k 5 "${MPI_SECONDS:-60}" sh "$mpi_here" -n "$mpi_ranks" "$@" </dev/null
        return
    fi
    if ! find_mpirun "$mpi_flavour"; then
        echo "skipped: there is no mpirun of $mpi_flavour"
        exit 77
    fi
    eval "mpi_options=\$mpi_options_$mpi_flavour"
    # In builds with sanitizers: what MPI itself does is not our business.
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
    TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1
    export ASAN_OPTIONS TSAN_OPTIONS
    # shellcheck disable=SC2086
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MPIR_CVAR_POLLS_BEFORE_YIELD=1 \
        timeout -k 5 "${MPI_SECONDS:-60}" "$MPIRUN" $mpi_options -n "$mpi_ranks" "$@" </dev/null
}
