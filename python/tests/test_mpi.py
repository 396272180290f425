"""Several ranks with mpi4py."""
import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest
from conftest import HERE, ROOT

import varve

JOB = HERE / "job.py"
HEAT = ROOT / "examples" / "heat.py"


def test_other_numbers_of_ranks(ck, mpirun):
    """Two, four, three and one ranks take turns, by rows and by columns; each finds what the one before has saved."""
    for step, (ranks, way) in enumerate([(2, "rows"), (4, "rows"), (3, "columns"), (1, "rows"), (4, "columns")]):
        mpirun(ranks, JOB, way, ck, step)
    newest = varve.Store(ck)["job"].latest
    assert newest.version == 5 and newest.ranks == 4
    assert (newest["field"][...] == np.arange(61 * 40).reshape(61, 40) * 5).all()
    assert (newest["field"][7:50:3, -2::-1] == (np.arange(61 * 40).reshape(61, 40) * 5)[7:50:3, -2::-1]).all()
    assert newest["list"].is_whole and (newest["list"][...] == np.arange(1000) + 5).all()
    parts = [newest.read("list", rank) for rank in range(4)]
    assert (np.concatenate(parts) == np.arange(1000) + 5).all()


def test_sizes_from_the_store_on_other_ranks(ck, mpirun):
    """Each run has other ranks than the one before, and knows no sizes; what it was given is protected."""
    mpirun(3, JOB, "rows", ck, 0)
    for step, ranks in enumerate([2, 4, 1], 1):
        mpirun(ranks, JOB, "allocated", ck, step)
    newest = varve.Store(ck)["job"].latest
    assert newest.version == 4 and (newest["list"][...] == np.arange(1000) + 4).all()
    assert (newest["field"][...] == np.arange(61 * 40).reshape(61, 40) * 4).all()


def test_errors_are_the_same_on_all_ranks(ck, mpirun):
    mpirun(2, JOB, "refuse", ck)
    mine = varve.Store(ck)["private"].latest["mine"]
    assert mine.is_private
    with pytest.raises(varve.Mismatch, match="mine"):
        mine[0]
    assert "refused" in mpirun(3, JOB, "refuse", ck).stdout
    done = mpirun(2, JOB, "disagree", ck)
    assert "disagreed" in done.stdout and done.stdout.count("-20011") == 2, done.stdout + done.stderr


def test_another_mpi(ck, tmp_path, mpirun):
    """libvarve_mpi of another MPI than mpi4py's is refused, with the names of both, before it is called."""
    library = pathlib.Path(os.environ.get("LIBVARVE", "/nowhere"))
    if not (library / "libvarve_mpi_mpich.so.0").exists():
        pytest.skip("this build has no libvarve_mpi for MPICH")
    other = tmp_path / "other"
    other.mkdir()
    (other / "libvarve.so.0").symlink_to(library / "libvarve.so.0")
    (other / "libvarve_mpi.so.0").symlink_to(library / "libvarve_mpi_mpich.so.0")
    done = mpirun(1, JOB, "rows", ck, 0, check=False, library=other)
    assert "varve.errors.Unsupported" in done.stderr and "Open MPI" in done.stderr and "MPICH" in done.stderr


def test_exception_on_one_rank(ck, mpirun):
    begun = time.monotonic()
    done = mpirun(2, JOB, "leave", ck, check=False)
    assert done.returncode != 0 and "left" in done.stdout and time.monotonic() - begun < 60
    assert varve.Store(ck)["leave"].latest.version == 1


def test_interrupt(ck, mpirun):
    begun = time.monotonic()
    done = mpirun(2, JOB, "interrupt", ck, check=False)
    assert done.stdout.count("interrupted") >= 1 and time.monotonic() - begun < 30, done.stdout + done.stderr


def test_interrupt_of_open(ck, mpirun):
    done = mpirun(1, JOB, "interrupt_open", ck, check=False)
    assert "interrupted" in done.stdout and "left open" in done.stderr, done.stdout + done.stderr


def test_rank_killed(ck, tmp_path, mpirun, run):
    """One rank gets SIGKILL in the middle of the job, and fewer ranks go on: the same to the last bit."""
    sizes = ["--rows", "64", "--columns", "64", "--every", "4", "--steps", "80"]
    run(HEAT, *sizes, "--out", tmp_path / "quiet.npy", ck + "-quiet")

    def has_checkpoint():
        try:
            return any(varve.Store(ck))
        except varve.Error:  # there is no store yet, or it is being made
            return False

    def kill_one():
        while not has_checkpoint():
            time.sleep(0.05)
        ranks = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if ck.encode() in words and b"--mpi" in words and b"mpirun" not in words[0]:
                ranks.append(int(pid))
        os.kill(max(ranks), signal.SIGKILL)  # all of them are this job's: its store has a name of its own

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = mpirun(3, HEAT, "--mpi", *sizes, "--delay", "0.05", ck, check=False)
    killer.join()
    assert done.returncode != 0, done.stdout + done.stderr
    done = mpirun(2, HEAT, "--mpi", *sizes, "--out", tmp_path / "killed.npy", ck)
    assert "restarted from step" in done.stdout, done.stdout + done.stderr
    assert np.load(tmp_path / "quiet.npy").tobytes() == np.load(tmp_path / "killed.npy").tobytes()


def test_heat(ck, tmp_path, mpirun, run):
    """The example alone and on ranks: interrupted by an end of its steps, and the same to the last bit."""
    sizes = ["--rows", "50", "--columns", "60", "--every", "5"]
    run(HEAT, *sizes, "--steps", 40, "--out", tmp_path / "one.npy", ck + "-one")
    mpirun(4, HEAT, "--mpi", *sizes, "--steps", 15, ck)
    done = mpirun(3, HEAT, "--mpi", *sizes, "--steps", 25, ck)
    assert "restarted from step 15" in done.stdout
    done = run(HEAT, *sizes, "--steps", 40, "--out", tmp_path / "many.npy", ck)
    assert "restarted from step 25" in done.stdout
    assert np.load(tmp_path / "one.npy").tobytes() == np.load(tmp_path / "many.npy").tobytes()
