# On Crays the compiler itself knows MPI, and there is no mpicc that tells its options: libvarve_mpi was left out, or built for the MPI of
# another mpicc. It must be built for the MPI of the compiler.
set -u
command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "skipped: cmake or ninja is missing"; exit 77; }
command -v mpicc.mpich >/dev/null || { echo "skipped: this needs MPICH"; exit 77; }
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT

# Like Cray's: compiles MPI programs without further options, and does not understand -show. The other mpicc here is mostly Open MPI's.
cat >"$WORK/cc" <<'END'
#!/bin/sh
for word in "$@"; do
    case $word in -show* | -compile-info | -link-info | --cray*) echo "unrecognized: $word" >&2; exit 1 ;; esac
done
exec mpicc.mpich "$@"
END
chmod +x "$WORK/cc"
cmake -S "$SOURCE" -B "$WORK/build" -G Ninja -DCMAKE_C_COMPILER="$WORK/cc" -DBUILD_TESTING=OFF >"$WORK/log" 2>&1 ||
	{ cat "$WORK/log"; exit 1; }
ninja -C "$WORK/build" src/CMakeFiles/varve_mpi.dir/mpi/comm_mpi.c.o >"$WORK/log" 2>&1 || { cat "$WORK/log"; exit 1; }
# Its compiler links MPI; every word more is of another one.
ninja -C "$WORK/build" -t commands src/libvarve_mpi.so >"$WORK/commands" &&
	grep -q 'libvarve_mpi\.so' "$WORK/commands" ||
	{ echo "no command links libvarve_mpi.so:"; cat "$WORK/commands"; exit 1; }
grep -E 'openmpi|-lmpi' "$WORK/commands" && { echo "this is for two MPIs"; exit 1; }
exit 0
