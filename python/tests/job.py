"""A job of several ranks for test_mpi.py: job.py WHAT STORE [STEP]"""
import sys
import warnings

import numpy as np
from mpi4py import MPI

import varve

comm = MPI.COMM_WORLD
ROWS, COLUMNS, LIST = 61, 40, 1000


def part(whole):
    return whole * comm.rank // comm.size, whole * (comm.rank + 1) // comm.size


def values(step):
    return np.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS) * step, np.arange(LIST) + step


def open_all(store, by_columns):
    """Rows or columns of a field, a list, and what all ranks have."""
    s = varve.open(store, "job", comm=comm)
    if by_columns:
        low, high = part(COLUMNS)
        mine, first = np.zeros((ROWS, high - low)), (0, low)
    else:
        low, high = part(ROWS)
        mine, first = np.zeros((high - low, COLUMNS)), (low, 0)
    s.protect("field", mine, global_shape=(ROWS, COLUMNS), first=first)
    low, high = part(LIST)
    joined = np.zeros(high - low, int)
    s.protect("list", joined)
    s.distribute("list", "joined")
    common = np.zeros(3, "f4")
    s.protect("common", common)
    s.distribute("common", "replicated")
    return s, mine, first, joined, common


def check(step, mine, first, joined, common):
    field, numbers = values(step)
    here = field[first[0]:first[0] + mine.shape[0], first[1]:first[1] + mine.shape[1]]
    assert mine.tobytes() == here.tobytes()
    low, high = part(LIST)
    assert (joined == numbers[low:high]).all() and (common == step).all()


def fill(step, mine, first, joined, common):
    field, numbers = values(step)
    mine[:] = field[first[0]:first[0] + mine.shape[0], first[1]:first[1] + mine.shape[1]]
    low, high = part(LIST)
    joined[:] = numbers[low:high]
    common[:] = step


def run(store, last, by_columns):
    """Come back from the last step, on however many ranks, and save the next."""
    s, *state = open_all(store, by_columns)
    with s:
        at = s.restart()
        assert at == (last or None), at
        if last:
            check(last, *state)
        fill(last + 1, *state)
        s.checkpoint(last + 1)
        while not s.wait(timeout=0.01):
            pass
        assert s.test()


def allocated(store, last):
    """Sizes from the store, and other ranks than have saved it: columns of the field, an uneven list."""
    told = {}

    def choose(name, shape, how):
        told[name] = (shape, how.name)
        if name == "field":
            low, high = part(shape[1])
            return (0, low), (shape[0], high - low)
        ends = [shape[0] * i * i // comm.size ** 2 for i in (comm.rank, comm.rank + 1)]
        return ends[1] - ends[0] if name == "list" else None

    with varve.open(store, "job", comm=comm) as s:
        for wrong, error in ((None, varve.Mismatch), (lambda name, shape, how: 1 // 0, ZeroDivisionError)):
            try:
                s.restart(allocate=True, choose=wrong)
                assert False, "the field is nobody's"
            except error:
                pass
        made = s.restart(allocate=True, choose=choose)
        assert made.version == last and told == {"field": ((ROWS, COLUMNS), "BY_DIMS"), "list": ((LIST,), "JOINED"),
                                                 "common": ((3,), "REPLICATED")}, told
        field, numbers = values(last)
        low, high = part(COLUMNS)
        assert (made["field"] == field[:, low:high]).all() and (made["common"] == last).all()
        ends = [LIST * i * i // comm.size ** 2 for i in (comm.rank, comm.rank + 1)]
        assert (made["list"] == numbers[ends[0]:ends[1]]).all() and len(made["list"]) == ends[1] - ends[0]
        made["field"][:] = values(last + 1)[0][:, low:high]
        made["list"] += 1
        made["common"] += 1
        s.checkpoint(last + 1, wait=True)


def refuse(store):
    """A region of which nothing was said, on another number of ranks: the same error on all ranks."""
    with varve.open(store, "private", comm=comm, log=lambda level, line: None) as s:
        s.protect("mine", np.full(5, comm.rank))
        try:
            at = s.restart()
        except varve.Mismatch as why:
            told = comm.allgather((why.code, why.rank, why.text))
            assert len(set(told)) == 1 and "mine" in why.text and why.rank >= 0, told
            print("refused" if comm.rank == 0 else "", flush=True)
        else:
            assert at is None
            s.checkpoint(1, wait=True)


def disagree(store):
    with varve.open(store, "d", comm=comm) as s:
        try:
            s.checkpoint(comm.rank)
        except varve.Disagreed as why:
            print("disagreed" if comm.rank == 0 else "", why.code, flush=True)


def leave(store):
    """An exception on one rank: it must not wait for the others, which wait for it."""
    warnings.simplefilter("ignore")
    try:
        with varve.open(store, "leave", comm=comm) as s:
            s.protect("x", np.full(1000, comm.rank))
            s.checkpoint(1, wait=True)
            if comm.rank == 1:
                raise ZeroDivisionError
            comm.recv(source=1)
    except ZeroDivisionError:
        print("left", flush=True)
        comm.Abort(3)


def interrupt(store):
    """Ctrl-C on all ranks, while they wait for slow storage."""
    import _thread
    import threading

    a = np.random.default_rng(comm.rank).random(1 << 20)
    s = varve.open(f"file://{store}?limit=1MB", "slow", comm=comm)
    s.protect("a", a)
    s.checkpoint(1)
    comm.barrier()
    threading.Timer(0.3, _thread.interrupt_main).start()
    try:
        s.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    comm.Abort(4)


def interrupt_open(store):
    """Ctrl-C while open calls the log function: ctypes would drop the exception."""
    import signal

    from varve import _lib

    def opening(kind, comm, store, name, options, *rest):
        options._obj.log(None, 1, b"a line")
        return real(kind, comm, store, name, options, *rest)

    real, _lib.mpi_lib().varve_open_mpi_of = _lib.mpi_lib().varve_open_mpi_of, opening
    warnings.simplefilter("always")
    try:
        varve.open(store, "a", comm=comm, log=lambda level, line: signal.raise_signal(signal.SIGINT))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stderr.flush()
    comm.Abort(4)


what, store = sys.argv[1], sys.argv[2]
if what in ("rows", "columns"):
    run(store, int(sys.argv[3]), what == "columns")
elif what == "allocated":
    allocated(store, int(sys.argv[3]))
else:
    {"refuse": refuse, "disagree": disagree, "leave": leave, "interrupt": interrupt,
     "interrupt_open": interrupt_open}[what](store)
