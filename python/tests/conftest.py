"""What all tests use. LIBVARVE names the folder of libvarve.so, TEST_SCALE (percent) lets longer tests do less."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
os.environ["VARVE_CONFIG"] = "/dev/null"
# A shell that starts the tests in its background lets them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)


def scale(whole, least):
    return max(least, whole * int(os.environ.get("TEST_SCALE", "100")) // 100)


def pytest_sessionfinish(session, exitstatus):
    """A file of which nothing can run here is skipped, and not failed."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77


@pytest.fixture
def ck(tmp_path):
    """A store that is not there yet. Removed afterwards: pytest would keep it."""
    yield str(tmp_path / "ck")
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def fast(tmp_path):
    """A store in memory, where there is such a folder: for tests of many checkpoints that are not about the disk."""
    folder = f"/dev/shm/varve-python-{os.getpid()}" if os.access("/dev/shm", os.W_OK) else str(tmp_path / "fast")
    os.makedirs(folder)
    yield folder + "/ck"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run():
    """Run a program text or a file in a Python of its own: run(text, argument...) -> CompletedProcess."""

    def run_python(program, *arguments, check=True, timeout=120, **more):
        head = [sys.executable, "-W", "error::ResourceWarning"]
        head += [str(program)] if isinstance(program, pathlib.Path) else ["-c", program]
        done = subprocess.run(head + [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=timeout, text=True, **more)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run_python


@pytest.fixture
def mpirun():
    """Run a file under Open MPI's mpirun, for which Debian's mpi4py is made: mpirun(ranks, file, argument...)."""
    pytest.importorskip("mpi4py")
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not program:
        pytest.skip("there is no mpirun")

    def run_ranks(ranks, file, *arguments, check=True, timeout=120, library=None):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if library:
            environment["LIBVARVE"] = str(library)
        options = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                   "--mca", "btl_base_warn_component_unused", "0"]
        done = subprocess.run([program, *options, "-n", str(ranks), sys.executable, str(file), *map(str, arguments)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              timeout=timeout, text=True, env=environment)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run_ranks
