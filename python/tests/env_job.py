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


def fail_alone(store):
    """What only rank 1 cannot save or load fails on all ranks, and the next call works."""
    import torch

    import varve.torch

    def fails(call, *arguments, **more):
        try:
            call(*arguments, **more)
        except (varve.Disagreed if RANK == 0 else (TypeError, varve.Mismatch)) as why:
            assert RANK == 1 or ("on rank 1" in str(why) and "exception" in str(why)), why
        else:
            raise AssertionError("it did not fail")

    good = {"x": torch.ones(5)}
    with varve.open(store, "alone", comm="env") as s:
        varve.torch.save(s, 1, state=good, wait=True)
        fails(varve.torch.save, s, 2, state=good if RANK == 0 else {"x": object()})
        varve.torch.save(s, 2, state=good, wait=True)
        other = {"x": torch.zeros(5 if RANK == 0 else 6)}
        fails(varve.torch.load, s, state=other)
        assert not other["x"].any()
        assert varve.torch.load(s, state=good).step == 2
        s.protect_object("o", lambda: b"" if RANK == 0 else 3, lambda data: None)
        s.distribute("o", "by_rank")
        fails(s.checkpoint, 3)
    print("closed", flush=True)


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
    {"rows": rows, "disagree": disagree, "leave": leave, "fail_alone": fail_alone, "exit_early": exit_early,
     "interrupt": interrupt, "fork": fork}[what](*arguments)


main(*sys.argv[1:])
