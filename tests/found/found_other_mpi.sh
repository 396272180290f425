# A program of one MPI that was linked with the libvarve_mpi of another was aborted inside varve_open_mpi ("Invalid errhandler"), or worse.
# The call must return an error that names both, and the program must be able to end as it likes. The same if the wrong MPI is only loaded.
set -u
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0 VARVE_LOG=error
for flavour in openmpi mpich; do
	[ -e "$BUILD/src/libvarve_mpi_$flavour.so" ] && command -v mpicc.$flavour >/dev/null ||
		{ echo "skipped: this needs Open MPI and MPICH side by side"; exit 77; }
done
grep -q '^VARVE_SANITIZE:STRING=.' "$BUILD/CMakeCache.txt" && { echo "skipped: a build with sanitizers"; exit 77; }

cat >open.c <<'END'
#include <stdio.h>
#include <varve/varve_mpi.h>
int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    MPI_Init(&argc, &argv);
    int rc = varve_open_mpi(MPI_COMM_WORLD, argv[1], "run", NULL, &session, &error);
    printf("%s: %s\n", rc ? varve_error_name(rc) : "opened", rc ? error.text : "");
    if (rc == 0)
        varve_close(session);
    MPI_Finalize();
    return 0;
}
END

fail() {
	echo "$1"
	cat told
	exit 1
}

# build PROGRAM LIBRARY: compiled with the one, linked with libvarve_mpi for the other.
build() {
	mpicc.$1 -o "$1-$2" open.c -I"$SOURCE/include" -I"$BUILD/include" -L"$BUILD/src" "-lvarve_mpi_$2" -lvarve \
		-Wl,-rpath,"$BUILD/src" >told 2>&1 || fail "$1-$2 does not compile"
}

# run PROGRAM-LIBRARY PATTERN...: ends well and says all this.
run() {
	program=$1
	shift
	timeout -k 5 60 "./$program" "$WORK/ck" >told 2>&1 || fail "$program ended with $?"
	for pattern in "$@"; do
		grep -q "$pattern" told || fail "$program did not say: $pattern"
	done
}

for pair in "openmpi openmpi" "mpich mpich" "openmpi mpich" "mpich openmpi"; do
	build $pair
done
run openmpi-openmpi '^opened'
run mpich-mpich '^opened'
run openmpi-mpich '^UNSUPPORTED' 'compiled with Open MPI [0-9]' 'built for MPICH [0-9]'
run mpich-openmpi '^UNSUPPORTED' 'compiled with MPICH [0-9]' 'built for Open MPI [0-9]'

# Compiled with the right one, and another is loaded before it.
library=$(ldd ./openmpi-openmpi | sed -n 's/.*libmpi\.so.* => \(.*\) (.*/\1/p')
[ -n "$library" ] ||
	{ echo "skipped: all four pairs are right; no libmpi.so among the libraries of Open MPI to load before"; exit 77; }
export LD_PRELOAD=$library
run mpich-mpich '^UNSUPPORTED' 'has loaded is "Open MPI' 'built for MPICH [0-9]'
