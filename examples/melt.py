#!/usr/bin/env python3
"""A melting crystal, computed by LAMMPS through its library, and it survives being killed.

    melt.py [--cells N] [--steps N] [--every N] [--out FILE.npy] STORE

LAMMPS computes; this program asks it for its arrays of positions, velocities and image flags, and protects them where
they are. Kill it at any time and start it again: the last positions have the same bits as if nothing had been. Needs
Debian's python3-lammps and liblammps-dev. One process: on several ranks LAMMPS moves atoms from one to the other, so lists that all ranks
have a part of are needed (tracers.c)."""
import argparse

import numpy as np
from lammps import lammps

import varve

MELT = """
units lj
atom_style atomic
atom_modify sort 0 0 map array
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
"""


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("--cells", 16), ("--steps", 200), ("--every", 20)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--out", help="write the positions here at the end")
    parser.add_argument("store")
    return parser.parse_args()


def main():
    told = read_arguments()
    melt = lammps(cmdargs=["-screen", "none", "-log", "none"])
    melt.commands_string(MELT.format(cells=told.cells))
    melt.command("run 0 post no")  # its arrays have their size now
    with varve.open(told.store, "melt") as s:
        for name in "x", "v", "image":
            s.protect(name, lambda name=name: melt.numpy.extract_atom(name))  # asked each time, since LAMMPS may move them
        step = s.restart() or 0
        if step:
            print("restarted from step", step, flush=True)
        while step < told.steps:
            # Each piece finds its neighbours and forces anew, so that it does not matter where a restart begins.
            melt.command(f"run {told.every} post no")
            step += told.every
            s.checkpoint(step)
    print(f"{melt.get_natoms()} atoms, temperature {melt.get_thermo('temp'):.6f}")
    if told.out:
        np.save(told.out, melt.numpy.extract_atom("x"))


if __name__ == "__main__":
    main()
