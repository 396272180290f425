#!/bin/bash
# Install a build, move it elsewhere, and be a user of it: with pkg-config, with find_package, with the static library, with MPI and without.
#
#     run.sh BUILD SOURCE WORK [MPICC]      MPICC: the compiler libvarve_mpi was built with; none: no MPI in this build
#
# Needs a build without sanitizers. Exit code 77: skipped.
set -euo pipefail

build=$1
source=$2
work=$3
mpicc=${4:-}
user=$source/tests/install/user
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
failed=0
count=0

say() {
    count=$((count + 1))
    if [ "$1" = ok ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        failed=$((failed + 1))
    fi
}

# check NAME COMMAND...: shows what it printed if it fails
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        say ok "$name"
    else
        say bad "$name"
        sed 's/^/# /' "$work/log"
    fi
}

# twice NAME EXPECTED PROGRAM...: the first run saves, the second gets it back
twice() {
    local name=$1 expected=$2
    shift 2
    rm -rf "$work/ck"
    check "$name: save" "$@" "$work/ck"
    check "$name: restart" "$@" "$work/ck"
    mv "$work/log" "$work/told"
    check "$name: it came back" grep "$expected" "$work/told"
    check "$name: the store is whole" "$prefix/bin/varve" verify "$work/ck"
}

# Texts, and where programs look for libraries.
is_relocatable() {
    ! grep -rI -e "$work/first" -e "$build" "$prefix" &&
        ! readelf -d "$prefix"/bin/varve "$libraries"/*.so | grep -e "PATH.*$work/first" -e "PATH.*$build"
}

# What scdoc itself prints makes empty paragraphs; everything else is ours.
lint() {
    local page faults
    for page in "$prefix"/share/man/man*/*; do
        faults=$(mandoc -T lint -W warning "$page" | grep -v 'skipping paragraph macro: PP' || true)
        [ -z "$faults" ] || { echo "$faults"; return 1; }
    done
}

each_source_is_a_page() {
    local scd name
    for scd in "$source"/docs/man/*.scd; do
        name=$(basename "$scd" .scd)
        [ -s "$prefix/share/man/man${name##*.}/$name" ] || { echo "no $name"; return 1; }
    done
}

configure_user() {
    cmake -G "$generator" -S "$user" -B "$1" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release "${@:2}" && cmake --build "$1"
}

# finds VERSION COMPONENT: does a project get it that asks for this?
finds() {
    rm -rf "$work/asks"
    mkdir "$work/asks"
    printf 'cmake_minimum_required(VERSION 3.20)\nproject(x C)\nfind_package(varve %s REQUIRED COMPONENTS %s)\n' "$1" \
        "$2" >"$work/asks/CMakeLists.txt"
    cmake -G "$generator" -S "$work/asks" -B "$work/asks/build" -DCMAKE_PREFIX_PATH="$prefix"
}

# A project of Fortran alone gets both targets, and no warning about its MPI.
fortran_only() {
    rm -rf "$work/asks"
    mkdir "$work/asks"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(x Fortran)' \
        'find_package(varve REQUIRED COMPONENTS fortran mpi)' "add_executable(many $user/many.f90)" \
        'target_link_libraries(many varve::varve_fortran_mpi)' >"$work/asks/CMakeLists.txt"
    cmake -G "$generator" -S "$work/asks" -B "$work/asks/build" -DCMAKE_PREFIX_PATH="$prefix" 2>"$work/asks/said" || return 1
    cat "$work/asks/said"
    ! grep -q Warning "$work/asks/said" && cmake --build "$work/asks/build"
}

refuses() {
    ! finds "$@"
}

# The MPI that libvarve_mpi was built for, if its programs can be run.
find_flavour() {
    local runner
    runner=$(dirname "$mpicc")/$(basename "$mpicc" | sed s/mpicc/mpirun/)
    flavour=
    case $("$runner" --version 2>&1) in
    *"Open MPI"*) flavour=openmpi ;;
    *HYDRA*) flavour=mpich ;;
    *) echo "# $runner is missing: MPI programs are compiled and not run" ;;
    esac
}

rm -rf "$work"
mkdir -p "$work"
check "cmake --install" cmake --install "$build" --prefix "$work/first"
prefix=$work/second
mv "$work/first" "$prefix"
check "bin/varve runs" "$prefix/bin/varve" --version --build
if [ -n "$(find "$prefix" -name libvarve_preload.so)" ]; then
    check "varve run finds its library" "$prefix/bin/varve" run true
fi
# It is looked for before criu is, and nothing is stopped without it.
dump_finds_gate() {
    local told
    told=$("$prefix/bin/varve" dump "$work/dumped" p --pid $$ --criu /nonexistent 2>&1) && return 1
    grep /nonexistent <<<"$told"
}
check "varve dump finds its gate" dump_finds_gate
# Both find what they share: a store that is none is told by it.
job_scripts_run() {
    local code=0
    touch "$work/no-store"
    "$prefix/bin/varve-job" --after exit "$work/ck-job" run -- true || return 1
    VARVE=$prefix/bin/varve "$prefix/bin/varve-slurm" "$work/no-store" run true || code=$?
    [ $code -eq 76 ]
}
# Every picture that a page shows, and the pages of the gallery.
documents_are_whole() {
    local folder=$prefix/share/doc/varve page picture missing=
    for page in "$folder"/*.md "$folder"/docs/*.md "$folder"/docs/gallery/*.md; do
        [ -e "$page" ] || { missing+=" $page" && continue; }
        for picture in $(sed -n 's/.*!\[[^]]*\](\([^)]*\)).*/\1/p' "$page"); do
            [ -e "$(dirname "$page")/$picture" ] || missing+=" $page:$picture"
        done
    done
    echo "missing:$missing"
    [ -z "$missing" ]
}
check "documents have their pictures" documents_are_whole
PATH=$prefix/bin:$PATH check "varve-job and varve-slurm run" job_scripts_run
if [ -d "$build/docs/man" ] && command -v scdoc >/dev/null && command -v mandoc >/dev/null; then
    check "every manual page is there" each_source_is_a_page
    check "mandoc finds no fault" lint
    check "pages and headers say the same" python3 "$source/tests/install/check-pages.py" "$source/include" \
        "$source/docs/man" "$prefix/share/man/man3"
fi

PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig)
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir varve)
version=$(pkg-config --modversion varve)
check "nothing in it names the old place or the build" is_relocatable
warn="-Wall -Wextra -Wpedantic -Werror"

# shellcheck disable=SC2046,SC2086 # flags are words
check "compile with pkg-config" cc $warn -o "$work/one" "$user/one.c" $(pkg-config --cflags --libs varve) \
    -Wl,-rpath,"$libraries"
twice "pkg-config" "version 7 came back" "$work/one"
# Wholly static only where there is an archive of every library: of fpzip and zfp there is none in Debian.
static=-static
for flag in $(pkg-config --static --libs-only-l varve); do
    [ "$flag" = -lvarve ] || [ -e "$(cc -print-file-name="lib${flag#-l}.a")" ] || static=
done
# shellcheck disable=SC2046,SC2086
check "compile statically" cc $warn $static -o "$work/one_static" "$user/one.c" \
    $(pkg-config --static --cflags --libs varve | sed "s#-lvarve#$libraries/libvarve.a#")
check "it needs no libvarve.so" bash -c '! readelf -d "$0" | grep NEEDED.*libvarve' "$work/one_static"
twice "static" "version 7 came back" "$work/one_static"
check "varve-read reads it" "$prefix/bin/varve-read" verify "$work/ck"

# The package must find the library that was installed with it.
python=$(find "$prefix" -path '*/dist-packages' -prune)
for candidate in python3 /usr/bin/python3; do
    if [ -n "$python" ] && $candidate -c 'import numpy' 2>/dev/null; then
        PYTHONPATH=$python PYTHONDONTWRITEBYTECODE=1 check "Python reads it" env -u LIBVARVE $candidate -c "
import os, sys, varve
assert os.path.realpath(varve._lib.lib()._name).startswith(os.path.realpath('$prefix')), varve._lib.lib()._name
assert varve.Store('$work/ck').verify() == []"
        break
    fi
done

flavour=
with_mpi=OFF
if [ -n "$mpicc" ]; then
    with_mpi=ON
    # shellcheck source=../mpi/mpi.sh
    . "$source/tests/mpi/mpi.sh"
    find_flavour
    # shellcheck disable=SC2046,SC2086
    check "compile with mpicc and pkg-config" "$mpicc" $warn -o "$work/many" "$user/many.c" \
        $(pkg-config --cflags --libs varve-mpi) -Wl,-rpath,"$libraries"
    [ -z "$flavour" ] || twice "mpicc" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/many"
    # Varve statically; MPI is as mpicc links it.
    # shellcheck disable=SC2046,SC2086
    check "compile with mpicc statically" "$mpicc" $warn -o "$work/many_static" "$user/many.c" \
        $(pkg-config --static --cflags --libs varve-mpi | sed 's/-l\(varve[a-z_]*\)/-l:lib\1.a/g')
    check "it needs no libvarve_mpi.so" bash -c '! readelf -d "$0" | grep NEEDED.*libvarve' "$work/many_static"
    [ -z "$flavour" ] || twice "mpicc, static" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/many_static"
fi

# run_veloc PROGRAM STORE: a program for VELOC has a configuration file, and the store in a folder of its own
run_veloc() {
    [ -e "$2" ] || rm -rf "$2.veloc"
    printf 'scratch = %s/scratch\npersistent = %s\nmode = sync\n' "$work" "$2.veloc" >"$work/veloc.cfg"
    run_mpi $flavour 2 "$1" "$work/veloc.cfg" && ln -sfn "$2.veloc/varve" "$2"
}
if [ -n "$mpicc" ]; then
    # shellcheck disable=SC2046,SC2086
    check "compile a program for VELOC" "$mpicc" $warn -o "$work/veloc" "$user/veloc.c" \
        $(pkg-config --cflags --libs varve-veloc) -Wl,-rpath,"$libraries"
    [ -z "$flavour" ] || twice "VELOC" "version 7 came back on 2 ranks" run_veloc "$work/veloc"
fi

run_env() {
    env -u MASTER_PORT timeout 60 sh "$source/tests/env/ranks.sh" -n 2 "$@"
}
with_env=OFF
if [ -e "$libraries/libvarve_env.so" ]; then
    with_env=ON
    # shellcheck disable=SC2046,SC2086
    check "compile with pkg-config for jobs without MPI" cc $warn -o "$work/ranks" "$user/ranks.c" \
        $(pkg-config --cflags --libs varve-env) -Wl,-rpath,"$libraries"
    twice "no MPI" "version 7 came back" run_env "$work/ranks"
fi

# The example, small and short; 77: there is no device.
run_cells() {
    POCL_CACHE_DIR=$work/cache "$cells" "$1" 1 15
}
with_cl=
cells=$work/cells
if [ -e "$libraries/libvarve_cl.so" ]; then
    with_cl=$prefix/share/doc/varve/examples/cells_cl.c
    # shellcheck disable=SC2046,SC2086
    check "compile with pkg-config for OpenCL" cc $warn -o "$cells" "$with_cl" $(pkg-config --cflags --libs varve-cl) \
        -Wl,-rpath,"$libraries"
    mkdir -p "$work/cache"
    code=0
    run_cells "$work/ck-cells" >"$work/log" 2>&1 || code=$?
    [ $code -ne 77 ] || { echo "# no OpenCL device: the program is compiled and not run"; cells=; }
    [ -z "$cells" ] || twice "OpenCL" "restarted from step 10" run_cells
fi

if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046,SC2086
    check "compile C++ with pkg-config" c++ -std=c++17 $warn -o "$work/walkers" "$prefix/share/doc/varve/examples/walkers.cpp" \
        $(pkg-config --cflags --libs varve) -Wl,-rpath,"$libraries"
    twice "C++" "restarted from step 40 " "$work/walkers" --steps 40
fi

with_fortran=OFF
if [ -e "$libraries/libvarve_fortran.so" ]; then
    with_fortran=ON
    # shellcheck disable=SC2046
    check "compile with gfortran and pkg-config" gfortran -Wall -Werror -o "$work/one_fortran" "$user/one.f90" \
        $(pkg-config --cflags --libs varve-fortran) -Wl,-rpath,"$libraries"
    twice "Fortran" "version 7 came back" "$work/one_fortran"
fi
if [ -e "$libraries/libvarve_fortran_mpi.so" ]; then
    mpifort=$(dirname "$mpicc")/$(basename "$mpicc" | sed s/mpicc/mpifort/)
    # shellcheck disable=SC2046
    check "compile with mpifort and pkg-config" "$mpifort" -Wall -Werror -o "$work/many_fortran" "$user/many.f90" \
        $(pkg-config --cflags --libs varve-fortran-mpi) -Wl,-rpath,"$libraries"
    [ -z "$flavour" ] || twice "mpifort" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/many_fortran"
fi

check "a project with find_package" configure_user "$work/project" -DWITH_MPI=$with_mpi -DWITH_ENV=$with_env -DWITH_CL="$with_cl" \
    -DWITH_FORTRAN=$with_fortran
twice "find_package" "version 7 came back" "$work/project/one"
twice "find_package, static" "version 7 came back" "$work/project/one_static"
[ -z "$flavour" ] || twice "find_package, MPI" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/project/many"
[ -z "$flavour" ] || twice "find_package, MPI, static" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/project/many_static"
[ -z "$flavour" ] || twice "find_package, VELOC" "version 7 came back on 2 ranks" run_veloc "$work/project/veloc"
if [ $with_env = ON ]; then
    twice "find_package, no MPI" "version 7 came back" run_env "$work/project/ranks"
    twice "find_package, no MPI, static" "version 7 came back" run_env "$work/project/ranks_static"
fi
[ $with_fortran = OFF ] || twice "find_package, Fortran" "version 7 came back" "$work/project/one_fortran"
[ ! -e "$work/project/many_fortran" ] || [ -z "$flavour" ] ||
    twice "find_package, Fortran, MPI" "version 7 came back on 2 ranks" run_mpi $flavour 2 "$work/project/many_fortran"
if [ -n "$with_cl" ] && [ -n "$cells" ]; then
    cells=$work/project/cells
    twice "find_package, OpenCL" "restarted from step 10" run_cells
fi
[ ! -e "$libraries/libvarve_fortran_mpi.so" ] || check "find_package in a project of Fortran alone" fortran_only
check "find_package finds this version" finds "$version" static
check "find_package refuses a version of the future" refuses 9.0 static
check "find_package refuses a component that is not there" refuses "$version" telepathy

echo "1..$count"
[ $failed -eq 0 ] && rm -rf "$work"
[ $failed -eq 0 ]
