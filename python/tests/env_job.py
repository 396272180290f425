"""A job without MPI for test_env.py: env_job.py WHAT STORE [STEPS]. Ranks talk through Varve only."""
import os
import sys
import time
import warnings

import numpy as np

import varve

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ROWS, COLUMNS = 61, 40


def rows(store, steps):
    """Rows of a field, to which every step adds. Goes on from the last checkpoint, on however many ranks."""
    low, high = ROWS * RANK // RANKS, ROWS * (RANK + 1) // RANKS
    mine = np.zeros((high - low, COLUMNS))
    add = np.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS)[low:high]
    with varve.open(store, "job", comm="env") as s:
        s.protect("field", mine, global_shape=(ROWS, COLUMNS), first=(low, 0))
        start = s.restart() or 0
        assert (mine == add * start).all()
        print("begun at", start, flush=True)
        for step in range(start, int(steps)):
            mine += add
            s.checkpoint(step + 1)
            time.sleep(0.01)
            print("step", step + 1, flush=True)


def disagree(store):
    with varve.open(store, "d", comm="env") as s:
        try:
            s.checkpoint(RANK)
        except varve.Disagreed as why:
            print("disagreed", why.code, flush=True)


def leave(store):
    """An exception on one rank: it must not wait for the others. They learn that it has ended."""
    warnings.simplefilter("ignore")
    with varve.open(store, "leave", comm="env", log=lambda level, line: None) as s:
        s.protect("x", np.full(1000, RANK))
        s.checkpoint(1, wait=True)
        if RANK == 1:
            raise ZeroDivisionError
        s.checkpoint(2, wait=True)


def exit_early(store, where):
    """A program that ends with a checkpoint in flight."""
    mine = np.random.default_rng(RANK).random(4_000_000)
    opened = varve.open(store, "exit", comm="env")
    if where == "block":
        with opened as s:
            s.protect("x", mine)
            s.checkpoint(1)
            sys.exit(0)
    opened.protect("x", mine)
    opened.checkpoint(1)
    sys.exit(0)


def interrupt(store):
    """Ctrl-C while it waits for a rank that does not come."""
    import signal
    import threading

    if RANK == 1:
        return
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        varve.open(store, "a", comm="env")
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def fork(store):
    """Children of fork beside a session: they cannot use it, and their end does not disturb it."""
    a = np.zeros(100000)
    with varve.open(store, "fork", comm="env") as s:
        s.protect("a", a)
        s.distribute("a", "by_rank")
        for step in range(1, 11):
            a += step
            s.checkpoint(step)
            child = os.fork()
            if child == 0:
                try:
                    s.wait()
                except RuntimeError:
                    s.close()
                    os._exit(0)
                os._exit(1)
            a[:] = a + 1
            assert os.waitpid(child, 0)[1] == 0
        s.wait()
    print("closed", flush=True)


def main(what, *arguments):
    {"rows": rows, "disagree": disagree, "leave": leave, "exit_early": exit_early, "interrupt": interrupt,
     "fork": fork}[what](*arguments)


main(*sys.argv[1:])
