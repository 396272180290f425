#!/bin/sh
# codec-data.sh FOLDER: states of real programs for bench-codec, in FOLDER; two minutes, 200 MB. Prints the options
# --file that bench-codec takes, one per line. What is not installed is left out, and said on standard error; 77 when
# nothing is there.
#
#   lammps       256000 atoms of a Lennard-Jones melt after 100 steps: positions, velocities, forces as float64, ids and
#                types as int32, as they lie in memory
#   lammps-file  the restart file of the same state
#   gromacs      some 780000 atoms of water after 50 steps: positions, velocities, forces as float32
#   gromacs-file the checkpoint file (.cpt) of the same state
#   openfoam     a cavity of 373000 cells after 20 steps: fields in double precision, as icoFoam writes them (binary)
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1" || exit 1
python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import ctypes, struct' 2>/dev/null && python=$candidate && break
done
found=77

say() { echo "$*" >&2; }

lammps() {
    [ -s lammps.restart ] && [ -s lammps.x ] && return 0
    cat >lammps.in <<'EOF'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 40 0 40 0 40
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 40617
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
run 100
write_restart lammps.restart
EOF
    "$python" "$here/codec-data.py" lammps lammps.in >lammps.messages 2>&1
}

gromacs() {
    [ -s gromacs.cpt ] && [ -s gromacs.x ] && return 0
    cat >gromacs.top <<'EOF'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
EOF
    cat >gromacs.mdp <<'EOF'
integrator = md
dt = 0.001
nsteps = 50
gen_vel = yes
gen_temp = 300
gen_seed = 40617
cutoff-scheme = Verlet
coulombtype = Cut-off
rcoulomb = 0.9
rvdw = 0.9
constraints = none
nstxout = 50
nstvout = 50
nstfout = 50
EOF
    {
        gmx solvate -cs spc216 -box 20 20 20 -o gromacs.gro -p gromacs.top &&
            gmx grompp -f gromacs.mdp -c gromacs.gro -p gromacs.top -o gromacs.tpr -po gromacs.out.mdp -maxwarn 9 &&
            gmx mdrun -ntmpi 1 -s gromacs.tpr -deffnm gromacs -cpt 0 &&
            "$python" "$here/codec-data.py" gromacs gromacs.trr &&
            rm -f gromacs.gro gromacs.tpr gromacs.trr gromacs_prev.cpt ./'#gromacs'*
    } >gromacs.messages 2>&1
}

openfoam() {
    [ -s openfoam.U ] && return 0
    export WM_PROJECT_DIR="${WM_PROJECT_DIR:-/usr/share/openfoam}"
    "$python" "$here/codec-data.py" cavity openfoam >openfoam.messages 2>&1 &&
        (cd openfoam && blockMesh && icoFoam) >>openfoam.messages 2>&1 &&
        "$python" "$here/codec-data.py" openfoam openfoam >>openfoam.messages 2>&1
}

option() { # FILE... of a program, as options
    name=$1
    shift
    for file in "$@"; do
        path=${file%%:*}
        [ -s "$path" ] && echo "--file $name=$PWD/$file" && found=0
    done
}

[ -n "$python" ] || { say "python3 is not here"; exit 77; }
if command -v lmp >/dev/null && lammps; then
    option lammps lammps.x:f64x3 lammps.v:f64x3 lammps.f:f64x3 lammps.id:i32 lammps.type:i32
    option lammps-file lammps.restart
else
    say "no state of LAMMPS: lmp is not here, or see $PWD/lammps.messages"
fi
if command -v gmx >/dev/null && gromacs; then
    option gromacs gromacs.x:f32x3 gromacs.v:f32x3 gromacs.f:f32x3
    option gromacs-file gromacs.cpt
else
    say "no state of GROMACS: gmx is not here, or see $PWD/gromacs.messages"
fi
if command -v icoFoam >/dev/null && openfoam; then
    option openfoam openfoam.U:f64x3 openfoam.p:f64 openfoam.phi:f64
else
    say "no state of OpenFOAM: icoFoam is not here, or see $PWD/openfoam.messages"
fi
exit $found
