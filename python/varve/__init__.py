"""Varve: checkpoints for programs that run long.

    import numpy, varve

    t = numpy.zeros((1000, 1000))
    with varve.open("ck", "heat") as s:              # a folder, and a name
        s.protect("t", t)                            # in place, no copy
        step = s.restart()                           # None: a first run
        for step in range(0 if step is None else step, 5000):
            compute(t)
            if (step + 1) % 100 == 0:
                s.checkpoint(step + 1)               # stored while the program goes on
                                                     # the end of the block waits until the last one is safe

Six words to learn: open, protect, checkpoint, wait, restart, close. A checkpoint exists entirely or not at all.
checkpoint() promises that the memory may be changed again. wait() promises that the checkpoint survives the process,
the machine's power and a full disk.

With mpi4py: varve.open("ck", "heat", comm=MPI.COMM_WORLD), and all ranks make the same calls. Each rank protects its
own block with its place in the whole array, and may then come back on another number of ranks. Without MPI, as under
torchrun: comm="env".

    s.protect("t", mine, global_shape=(NY, NX), first=(y0, 0))

To look into a store without a program, a mapping from names to versions to arrays:

    varve.Store("ck")["heat"].latest["t"][10:20, 5]

help(varve.Session), help(varve.Store) and help(varve.Error) have the rest; docs/python.md is ten minutes long.

What to know before trusting it:
 - Only protected memory is saved. `t = t + 1` makes a new array: write `t += 1`, or protect the function `lambda: t`.
 - No other thread may write protected memory during checkpoint() and restart(). Afterwards it may.
 - Ctrl-C ends open, wait, close, and the wait of checkpoint for the one before (open and checkpoint without comm only).
   It is answered late, when the call is done, in restart, in the capture of checkpoint, and in all of Store.
"""
from ._lib import VARVE_DIMS_MAX as DIMS_MAX
from .errors import (BadSetting, Busy, Corrupt, Disagreed, EarlierFailed, Error, Fenced, Forgotten, Mismatch,
                     NoCheckpoint, NoStore, NotFound, UnknownFormat, Unsupported)
from .session import LATEST, Arrays, Distribution, Env, Flags, Session, Stored, open
from .store import Array, Checkpoint, Checkpoints, Finding, Region, Store

__version__ = "0.2.0"
__all__ = ["open", "Session", "Store", "Checkpoints", "Checkpoint", "Array", "Arrays", "Region", "Stored", "Finding",
           "Flags", "Distribution", "Env", "LATEST", "DIMS_MAX", "Error", "NotFound", "NoCheckpoint", "NoStore",
           "Corrupt", "UnknownFormat", "Busy", "Fenced", "Mismatch", "Forgotten", "BadSetting", "Unsupported", "Disagreed",
           "EarlierFailed"]
