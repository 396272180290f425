#!/bin/sh
# Applications by `varve run`, where they are installed: what it adds to their time, whether they compute the same, and what their
# checkpoints take. Others are named as missing.
#
#     applications.sh VARVE FOLDER [ROUNDS [NAME...]]     FOLDER has apps-lammps (tests/transparent of the build)
#
# lammps       by its library (liblammps-dev), in address-true mode: as data it is refused, since its rows hold addresses
# melt         LAMMPS as a program (lammps), in both modes. It does not call Varve, so nothing is stored; `varve analyze`
#              tells what its memory holds while it runs
# espresso     pw.x of Quantum ESPRESSO, silicon (quantum-espresso, quantum-espresso-data), the same. PSEUDO_DIR has its
#              pseudopotential, if not the package's folder
# foam         icoFoam of OpenFOAM, the cavity (openfoam, openfoam-examples); it is refused: libOpenFOAM has a malloc of its own
varve=$1
folder=$2
rounds=${3:-3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1

median() {
    sort -n "$1" | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'
}

# timed FILE COMMAND...: its seconds into the file, its output into out.
timed() {
    times=$1
    shift
    from=$(date +%s.%N)
    "$@" >out 2>err || return 1
    echo "$(date +%s.%N) $from" | awk '{print $1 - $2}' >>"$times"
}

# compare NAME RESULT COMMAND...: as it is and by varve run, in turns. RESULT filters what must be equal.
compare() {
    name=$1
    result=$2
    shift 2
    rm -f times.*
    round=0
    while [ $round -lt "$rounds" ]; do
        timed times.plain "$@" || { echo "$name fails: $(tail -1 err)" && exit 1; }
        eval "$result" <out >expected
        [ -s expected ] || { echo "$name: no result" && exit 1; }
        for option in "" "--fixed --exclude lib"; do
            # shellcheck disable=SC2086
            timed "times.${option:+fixed}" "$varve" run $option -- "$@" || {
                echo "$name is refused: $(tail -1 err)"
                return
            }
            eval "$result" <out | cmp -s expected - || { echo "$name: other results with varve run $option" && exit 1; }
        done
        round=$((round + 1))
    done
    printf '%-10s %8.2f s, by varve run %8.2f s, with --fixed %8.2f s; nothing is stored: it does not call Varve\n' "$name" \
        "$(median times.plain)" "$(median times.)" "$(median times.fixed)"
}

# redundancy NAME COMMAND...: what its memory holds and what changes in it, looked at from outside while it runs.
redundancy() {
    name=$1
    shift
    "$@" >out 2>err &
    pid=$!
    sleep 5
    if "$varve" analyze --pid $pid --again 5 >looked 2>err; then
        echo "$name: varve analyze --pid --again 5, from 5 s on"
        cat looked
    else
        echo "$name: $(tail -1 err)"
    fi
    kill $pid 2>/dev/null
    wait $pid 2>/dev/null
}

lammps() {
    options="--fixed --exclude lib --include liblammps.so"
    [ -x "$folder/apps-lammps" ] || { echo "lammps: apps-lammps is not built (liblammps-dev)" && return; }
    round=0
    while [ $round -lt "$rounds" ]; do
        rm -rf plain fixed
        "$folder/apps-lammps" plain 40 -1 20 >result.plain 2>err || exit 1
        sed -n 's/^seconds //p' err >>times.plain
        # shellcheck disable=SC2086
        "$varve" run $options -- "$folder/apps-lammps" fixed 40 -1 20 >result.fixed 2>err || { cat err && exit 1; }
        sed -n 's/^seconds //p' err >>times.fixed
        cmp result.plain result.fixed || exit 1
        round=$((round + 1))
    done
    for mode in plain fixed; do
        printf '%-10s %-6s %8.2f s for 200 steps of 32000 atoms%s\n' lammps $mode "$(median times.$mode)" \
            "$([ $mode = fixed ] && echo ', with 14 checkpoints')"
    done
    "$varve" show fixed lammps | grep -e '^protected' -e '^stored'
}

melt() {
    command -v lmp >/dev/null || { echo "lmp: not installed (lammps)" && return; }
    cat >in.melt <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run 200
END
    compare melt "grep -E '^ +[0-9]+ +[0-9.]+ '" lmp -log none -in in.melt
    sed -i 's/^run .*/run 100000/' in.melt
    redundancy melt lmp -log none -in in.melt
}

espresso() {
    command -v pw.x >/dev/null || { echo "pw.x: not installed" && return; }
    pseudo=$(find ${PSEUDO_DIR:-/usr/share/doc/quantum-espresso} -name Si.pz-vbc.UPF.gz 2>/dev/null | head -1)
    [ -n "$pseudo" ] || { echo "pw.x: no Si.pz-vbc.UPF.gz" && return; }
    gunzip -c "$pseudo" >Si.pz-vbc.UPF
    cat >si.in <<'END'
&control
 calculation='scf', prefix='si', pseudo_dir='.', outdir='./qetmp'
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=30.0
/
&electrons
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.25 0.25 0.25
K_POINTS automatic
 4 4 4 1 1 1
END
    compare pw.x "grep '^!'" pw.x -in si.in
    # Long enough to be looked at:
    sed -i -e 's/nat=2/nat=8/' -e 's/ibrav=2/ibrav=1/' -e 's/ecutwfc=30/ecutwfc=90/' -e '/^ATOMIC_POSITIONS/,$d' si.in
    cat >>si.in <<'END'
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.00 0.50 0.50
 Si 0.50 0.00 0.50
 Si 0.50 0.50 0.00
 Si 0.25 0.25 0.25
 Si 0.25 0.75 0.75
 Si 0.75 0.25 0.75
 Si 0.75 0.75 0.25
K_POINTS automatic
 4 4 4 1 1 1
END
    redundancy pw.x pw.x -in si.in
}

foam() {
    command -v icoFoam >/dev/null || { echo "icoFoam: not installed" && return; }
    cavity=$(find /usr/share /usr/lib -type d -path '*icoFoam/cavity/cavity' 2>/dev/null | head -1)
    [ -n "$cavity" ] || { echo "icoFoam: no cavity (openfoam-examples)" && return; }
    export WM_PROJECT_DIR=/usr/share/openfoam
    cp -r "$cavity" cavity && (cd cavity && gunzip -rq . 2>/dev/null; blockMesh >../mesh 2>&1) || { tail -3 mesh && return; }
    compare icoFoam "grep 'Final residual'" icoFoam -case cavity
}

if [ $# -gt 3 ]; then
    shift 3
else
    set -- lammps melt espresso foam
fi
for name in "$@"; do
    $name
done
