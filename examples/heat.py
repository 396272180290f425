#!/usr/bin/env python3
"""Heat spreading over a plate, in NumPy, and it survives being killed.

    heat.py [--rows N] [--columns N] [--steps N] [--every N] [--delay SECONDS] [--out FILE.npy] STORE
    mpirun -n 4 heat.py --mpi ... STORE

Kill it at any time and start it again in the same way: it goes on from the last checkpoint. With --mpi each rank has
some rows of the plate, and any number of ranks may go on. The result has the same bits however often it was killed, and
on however many ranks it ran, since every cell is computed from the same numbers in the same order."""
import argparse
import time

import numpy as np

import varve


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("--rows", 256), ("--columns", 256), ("--steps", 200), ("--every", 20)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--delay", type=float, default=0, help="seconds to sleep in each step")
    parser.add_argument("--out", help="write the plate here at the end")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("store")
    return parser.parse_args()


class Plate:
    """The rows of this rank, and one row of each neighbour."""

    def __init__(self, rows, columns, comm):
        self.comm = comm
        rank, ranks = (comm.rank, comm.size) if comm else (0, 1)
        self.first = rows * rank // ranks
        self.rows = rows * (rank + 1) // ranks - self.first
        self.field = np.empty((self.rows + 2, columns))
        place = np.arange(self.first - 1, self.first + self.rows + 1)[:, None]
        self.field[:] = (place * 37 + np.arange(columns) * 17) % 100
        if rank == 0:
            self.field[0] = 100  # hot above the first row
        if rank == ranks - 1:
            self.field[-1] = 0  # cold below the last
        self.above = rank - 1 if rank > 0 else None
        self.below = rank + 1 if rank < ranks - 1 else None

    def mine(self):
        return self.field[1:-1]

    def trade_edges(self):
        if self.comm:
            from mpi4py import MPI

            above = MPI.PROC_NULL if self.above is None else self.above
            below = MPI.PROC_NULL if self.below is None else self.below
            self.comm.Sendrecv(self.field[1], above, recvbuf=self.field[-1], source=below)
            self.comm.Sendrecv(self.field[-2], below, recvbuf=self.field[0], source=above)

    def step(self):
        self.trade_edges()
        f = self.field
        f[1:-1, 1:-1] = 0.25 * ((f[:-2, 1:-1] + f[2:, 1:-1]) + (f[1:-1, :-2] + f[1:-1, 2:]))


def main():
    told = read_arguments()
    comm = None
    if told.mpi:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    is_first = comm is None or comm.rank == 0
    plate = Plate(told.rows, told.columns, comm)
    with varve.open(told.store, "heat", comm=comm) as s:
        s.protect("temperature", plate.mine(), global_shape=(told.rows, told.columns), first=(plate.first, 0))
        start = s.restart()
        if start is not None and is_first:
            print(f"restarted from step {start}", flush=True)
        for step in range(start or 0, told.steps):
            plate.step()
            time.sleep(told.delay)
            if (step + 1) % told.every == 0:
                s.checkpoint(step + 1)
    parts = comm.gather(plate.mine()) if comm else [plate.mine()]
    if told.out and is_first:
        np.save(told.out, np.concatenate(parts))


if __name__ == "__main__":
    main()
