#!/bin/sh
# Each public header compiles alone, twice, strictly: check.sh "COMPILER FLAGS" INCLUDE_FOLDER...
# PATTERN: which (*.h unless told). MPI_INCLUDES, CL_INCLUDES: the options with which mpi.h and CL/cl.h are found, if there is one.
compiler=$1
shift
status=0
count=0
flags=
for folder in "$@"; do
    flags="$flags -I$folder"
done
for folder in "$@"; do
    for header in "$folder"/varve/${PATTERN:-*.h}; do
        [ -e "$header" ] || continue
        name=varve/$(basename "$header")
        # The headers that need MPI and OpenCL are compiled where these are.
        case $name in
        varve/varve_mpi.h) [ -n "${MPI_INCLUDES:-}" ] || continue ;;
        varve/varve_cl.h) [ -n "${CL_INCLUDES:-}" ] || continue ;;
        esac
        count=$((count + 1))
        # shellcheck disable=SC2086 # the flags are words
        printf '#include <%s>\n#include <%s>\nint varve_header_test;\n' "$name" "$name" |
            $compiler $flags ${MPI_INCLUDES:-} ${CL_INCLUDES:-} -pedantic -Wall -Wextra -Werror -fsyntax-only - || {
            echo "$name does not compile alone with: $compiler"
            status=1
        }
    done
done
echo "$count headers"
[ "$count" -gt 0 ] || status=1
exit $status
