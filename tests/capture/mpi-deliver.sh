#!/bin/sh
# mpi-deliver.sh FLAVOUR PROGRAM: messages delivered into protected memory while a checkpoint is in flight, through
# shared memory and by copies from process to process, and through TCP. Who is root does it again as nobody.
set -u
here=$(dirname "$0")
. "$here/../mpi/mpi.sh"

flavour=$1 program=$2
base=${TMPDIR:-/dev/shm}
[ -w "$base" ] || base=/tmp
folder=$(mktemp -d "$base/mpi-deliver-XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
must=
[ "$(id -u)" = 0 ] && must=must-hold
number=0

deliver() { # SETTINGS [must-hold|must-freeze]
    number=$((number + 1))
    run_mpi "$flavour" 2 "$program" "file://$folder/store$number" "$@"
    result=$?
    if [ $result -ne 0 ]; then
        echo "mpi-deliver: $flavour, $way, $*: ended with $result"
        exit $result
    fi
    rm -rf "$folder/store$number"
}

deliver_all() {
    way=$1
    echo "mpi-deliver: $flavour, $way"
    deliver capture=auto,staging=64M
    deliver capture=held,staging=512K $must
    deliver capture=frozen,staging=512K must-freeze
    deliver capture=trap,staging=512K $must
    deliver capture=sync
}

deliver_all "one node"
case $flavour in
openmpi) mpi_options_openmpi="$mpi_options_openmpi --mca pml ob1 --mca btl self,tcp" ;;
mpich)
    MPIR_CVAR_NOLOCAL=1 # as if the ranks were on different nodes
    export MPIR_CVAR_NOLOCAL
    ;;
esac
deliver_all "TCP"

[ "$(id -u)" = 0 ] || exit 0
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
if ! command -v setpriv >/dev/null || ! $nobody test -x "$program"; then
    echo "mpi-deliver: not as nobody, who cannot start $program"
    exit 0
fi
chown 65534:65534 "$folder"
unset MPIR_CVAR_NOLOCAL
echo "mpi-deliver: as nobody"
HOME=$folder TMPDIR=$folder $nobody sh "$0" "$@"
