#!/bin/sh
# aware-data.sh FOLDER [RANKS]: states of real programs for bench-aware, each at four times and cut into RANKS (32 unless told) parts, in
# FOLDER/NAME/TIME.RANK and TIME.RANK.list (aware-data.py). Three minutes, 700 MB. What is there already stays. Prints the names of what is
# there. What is not installed is left out, and said on standard error; 77 when nothing is there.
#
#   lammps    442000 atoms of a Lennard-Jones melt on RANKS ranks of LAMMPS: positions, velocities, forces as float64, ids and types as
#             int32, as they lie in the memory of each rank, every 25 steps
#   gromacs   some 780000 atoms of water every 25 steps: positions, velocities, forces as float32. GROMACS writes all atoms in one order;
#             they are cut into RANKS boxes by where their molecules are
#   lammps-restart, gromacs-restart   the same without forces, which are computed anew: what the restart files of these programs hold
#   openfoam  a cavity of 681000 cells every 5 steps: fields in double precision, computed in one part, and cut by decomposePar
set -u
here=$(cd "$(dirname "$0")" && pwd)
ranks=${2:-32}
mkdir -p "$1" && cd "$1" || exit 1
python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import ctypes, struct' 2>/dev/null && python=$candidate && break
done
found=77
. "$here/../tests/mpi/mpi.sh"
MPI_SECONDS=900

say() { echo "$*" >&2; }

is_there() { [ -s "$1/3.$((ranks - 1)).list" ] && [ ! -e "$1/0.$ranks" ]; }

lammps() {
    cat >lammps.in <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 48 0 48 0 48
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 40617
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
END
    (run_mpi openmpi "$ranks" "$python" "$here/aware-data.py" lammps lammps.in lammps) >lammps.messages 2>&1
}

gromacs() {
    cat >gromacs.top <<'END'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
END
    cat >gromacs.mdp <<'END'
integrator = md
dt = 0.001
nsteps = 100
gen_vel = yes
gen_temp = 300
gen_seed = 40617
cutoff-scheme = Verlet
coulombtype = Cut-off
rcoulomb = 0.9
rvdw = 0.9
constraints = none
nstxout = 25
nstvout = 25
nstfout = 25
END
    {
        gmx solvate -cs spc216 -box 20 20 20 -o gromacs.gro -p gromacs.top &&
            gmx grompp -f gromacs.mdp -c gromacs.gro -p gromacs.top -o gromacs.tpr -po gromacs.out.mdp -maxwarn 9 &&
            gmx mdrun -ntmpi 1 -s gromacs.tpr -deffnm gromacs -cpt 0 &&
            "$python" "$here/aware-data.py" gromacs gromacs.trr gromacs "$ranks" &&
            rm -f gromacs.gro gromacs.tpr gromacs.trr gromacs.cpt gromacs_prev.cpt ./'#gromacs'*
    } >gromacs.messages 2>&1
}

openfoam() {
    export WM_PROJECT_DIR="${WM_PROJECT_DIR:-/usr/share/openfoam}"
    {
        "$python" "$here/aware-data.py" cavity openfoam.case "$ranks" &&
            (cd openfoam.case && blockMesh && icoFoam && decomposePar -time '1e-10:') &&
            "$python" "$here/aware-data.py" openfoam openfoam.case openfoam && rm -rf openfoam.case
    } >openfoam.messages 2>&1
}

state() { # NAME PROGRAM
    if is_there "$1" || { rm -rf "$1" "$1-restart" && command -v "$2" >/dev/null && "$1"; }; then
        echo "$1"
        [ ! -d "$1-restart" ] || echo "$1-restart"
        found=0
    else
        say "no state of $1: $2 is not here, or see $PWD/$1.messages"
    fi
}

[ -n "$python" ] || { say "python3 is not here"; exit 77; }
state lammps lmp
state gromacs gmx
state openfoam icoFoam
exit $found
