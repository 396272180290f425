"""docs/python.md and docs/training.md to the letter: their sh blocks after the build, in order, in one shell; and what
help() shows."""
import os
import pathlib
import pydoc
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

import varve

def blocks(kind, page="python"):
    return re.findall(rf"^```{kind}\n(.*?)^```$", (ROOT / f"docs/{page}.md").read_text(), re.M | re.S)


def follow(page, tmp_path, needed, timeout):
    """Run the commands of a page: what they have written."""
    library = os.environ.get("LIBVARVE")
    build = pathlib.Path(library).parent if library else None
    if not build or not (build / "cmake_install.cmake").exists():
        pytest.skip("LIBVARVE does not name the src folder of a build")
    if not list(build.glob(f"src/{needed}.so*")):
        pytest.skip(f"this build has no {needed}")
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)  # that which has NumPy
    (tmp_path / "build").symlink_to(build)
    commands = [block for block in blocks("sh", page) if "apt-get" not in block]
    assert len(commands) >= 6
    environment = {key: value for key, value in os.environ.items() if key not in ("LIBVARVE", "PYTHONPATH")}
    environment.update(HOME=str(tmp_path / "home"), PATH=f"{tmp_path}/bin:{os.environ['PATH']}",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(["bash", "-e", "-c", "\n".join(commands)], cwd=tmp_path, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    logs = "".join(path.read_text() for path in sorted((tmp_path / "home").glob("*/log*")))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout, done.stdout + done.stderr + logs


def test_followed(tmp_path):
    pytest.importorskip("mpi4py")
    out, told = follow("python", tmp_path, "libvarve_mpi", 170)
    for promised in ("walk: the same to the last bit", "heat: the same on other ranks", "(500, 200)", "MISMATCH 0 "):
        assert promised in out, (promised, told)
    # on a slow machine the first run may be killed before its first checkpoint
    assert re.search(r"restarted from step [1-9]\d*0$", out, re.M), told
    for line in "".join(blocks("text")).splitlines():
        assert line in out.splitlines(), (line, told)


def test_training_followed(tmp_path):
    pytest.importorskip("torch", reason="there is no torch (python3-torch)")
    out, told = follow("training", tmp_path, "libvarve_env", 550)
    for promised in ("training: the same losses to the last bit", "shards: the same state on two workers",
                     "a worker ended with 137", "begins at 6 on 3 workers", "<varve.Array optimizer/state/0/exp_avg"):
        assert promised in out, (promised, told)
    # the others end by themselves, with an error; the next run goes on
    assert out.count("a worker ended with") == 4 and re.search(r"^begins at [1-9]", out, re.M), told


def test_pip_without_a_network(tmp_path):
    if subprocess.call([sys.executable, "-c", "import setuptools, wheel, pip"], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("pip, setuptools or wheel is missing")
    shutil.copytree(ROOT / "python", tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
                    "--target", str(tmp_path / "there"), str(tmp_path / "source")], check=True, stderr=subprocess.PIPE)
    place = subprocess.check_output([sys.executable, "-c", "import varve; print(varve.__file__)"], text=True,
                                    cwd=tmp_path, env=dict(os.environ, PYTHONPATH=str(tmp_path / "there")))
    assert place.startswith(str(tmp_path / "there"))
    assert (tmp_path / "there/varve/py.typed").exists()


def test_python_blocks_compile():
    assert len(blocks("python")) >= 2
    for page in ("python", "training"):
        for block in blocks("python", page):
            compile(block, f"docs/{page}.md", "exec")


def test_help_is_enough_to_begin():
    """Every public name has a text, and the example at the top runs as it is."""
    for name in varve.__all__:
        assert name in ("LATEST", "DIMS_MAX") or getattr(varve, name).__doc__, name
    for kind in (varve.Session, varve.Store, varve.Checkpoint):
        for name, value in vars(kind).items():
            if not name.startswith("_") and callable(value) and name not in ("close",):
                assert value.__doc__, f"{kind.__name__}.{name}"
    text = pydoc.render_doc(varve)
    for word in ("restart", "checkpoint", "protect", "mpi4py", "Store"):
        assert word in text


def test_example_of_help(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = varve.__doc__[varve.__doc__.index("    import numpy"):varve.__doc__.index("Six words")]
    code = "\n".join(line[4:] for line in example.splitlines())
    steps = []
    exec(compile(code, "help", "exec"), {"compute": steps.append})
    assert len(steps) == 5000 and list(varve.Store("ck")["heat"]) == [5000, 4900, 4800]
