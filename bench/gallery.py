#!/usr/bin/env python3
"""The programs of docs/gallery: run, killed, started again, counted and drawn.

    gallery.py [--build build] [--page docs/gallery/NAME.md] [--out FOLDER] heat2d|particles|lammps|training|hdf5|process

Each is killed with SIGKILL in the middle and must end with the same bits as an undisturbed run. Two have no such run: the
files of hdf5 must come back with the same bits, and process must go on with its next line. Then the picture of its page
is drawn (FOLDER/NAME.svg, with matplotlib), and its number printed: bytes that Varve has stored, over those that are stored
without it. --page fails unless the page tells that number, give or take a twentieth. 77: something it needs is not here."""
import argparse
import filecmp
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    import matplotlib
    import numpy as np

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
BLUE, RED, GREY = "#2f6f9f", "#b03a2e", "#b8c2cc"
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "varve", "font.size": 9, "axes.spines.top": False,
                     "axes.spines.right": False})


class Missing(Exception):
    """What is not installed here."""


class Gallery:
    """A build, a folder to work in, and how programs are run and killed there."""

    def __init__(self, told, work):
        self.build, self.out, self.work = pathlib.Path(told.build).resolve(), told.out, pathlib.Path(work)
        self.varve = self.build / "bin" / "varve"
        self.environment = dict(
            os.environ, LIBVARVE=str(self.build / "src"), PYTHONPATH=str(SOURCE / "python"), PYTHONDONTWRITEBYTECODE="1",
            VARVE_KEEP="all", VARVE_CODEC="size", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1",
            OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none", USE_LIBUV="0")

    def start(self, *command, **environment):
        log = open(self.work / "log", "a", encoding="utf-8")
        return subprocess.Popen([str(word) for word in command], cwd=self.work, stdout=log, stderr=log,
                                stdin=subprocess.DEVNULL, start_new_session=True, env={**self.environment, **environment})

    def run(self, *command, **environment):
        if self.start(*command, **environment).wait() != 0:
            raise SystemExit(f"{command} failed:\n" + (self.work / "log").read_text()[-2000:])

    def tell(self, *command):
        return subprocess.run([str(word) for word in command], cwd=self.work, env=self.environment, check=True,
                              stdout=subprocess.PIPE).stdout

    def listed(self, store):
        """Checkpoints, oldest first; none when there is no store yet."""
        told = subprocess.run([self.varve, "ls", store, "--json"], cwd=self.work, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        lines = [json.loads(line) for line in told.stdout.splitlines()]
        return sorted((line for line in lines if line["message_type"] == "checkpoint"), key=lambda line: line["version"])

    def kill_after(self, checkpoints, store, processes):
        """All of them, when the store has so many checkpoints."""
        self.kill_when(lambda: len(self.listed(store)) >= checkpoints, processes)

    def kill_when(self, is_due, processes):
        """They must not have ended before."""
        while not is_due():
            if any(process.poll() is not None for process in processes):
                raise SystemExit("ended before it was killed:\n" + (self.work / "log").read_text()[-2000:])
            time.sleep(0.02)
        for process in processes:
            os.killpg(process.pid, 9)
            process.wait()

    def same(self, one, other):
        if not filecmp.cmp(self.work / one, self.work / other, shallow=False):
            raise SystemExit(f"{one} and {other} differ")

    def restored(self, store, name, array, version=None):
        which = name if version is None else f"{name}@{version}"
        self.tell(self.varve, "restore", store, which, array, "-o", "array.npy", "--force")
        return np.load(self.work / "array.npy")

    def draw(self, name, figure):
        if self.out:
            figure.savefig(pathlib.Path(self.out) / f"{name}.svg", metadata={"Date": None})


def size_of(path):
    return sum(one.stat().st_size for one in pathlib.Path(path).rglob("*") if one.is_file())


def stored_over_protected(checkpoints):
    return sum(c["bytes_stored"] + c["bytes_metadata"] for c in checkpoints) / sum(c["bytes_protected"] for c in checkpoints)


def need(path, what):
    if not path or not pathlib.Path(path).exists():
        raise Missing(what)
    return path


def need_module(name, package):
    if subprocess.call([PYTHON, "-c", f"import {name}"], stderr=subprocess.DEVNULL) != 0:
        raise Missing(package)


def mpirun(ranks, *command):
    return ["mpirun", "-n", ranks, *command]


# ---- the programs ----

def heat2d(g):
    program = need(g.build / "examples" / "heat2d_openmpi", "heat2d_openmpi: a build with Open MPI")
    plate = [program, "--rows", 240, "--columns", 480, "--steps", 3000, "--every", 300]
    g.run(*mpirun(4, *plate, "--out", "quiet.field", "quiet"))
    job = g.start(*mpirun(4, *plate, "--delay", 1000, "--out", "killed.field", "ck"))
    g.kill_after(4, "ck", [job])
    killed = g.listed("ck")[-1]["version"]
    g.run(*mpirun(3, *plate, "--out", "killed.field", "ck"))
    g.same("quiet.field", "killed.field")
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.3), layout="constrained")
    for one, version, ranks, word in ((axes[0], killed, 4, "killed"), (axes[1], 3000, 3, "ended")):
        image = one.imshow(g.restored("ck", "heat2d", "temperature", version), cmap="inferno", vmin=0, vmax=100)
        one.set(title=f"step {version}: {word} on {ranks} ranks", yticks=[240 * r // ranks for r in range(ranks)], xticks=[])
    figure.colorbar(image, ax=axes, label="temperature")
    g.draw("heat2d", figure)
    return stored_over_protected(g.listed("quiet"))


def particles(g):
    program = need(g.build / "examples" / "tracers_openmpi", "tracers_openmpi: a build with Open MPI")
    flow = [program, "--steps", 300, "--every", 20]
    g.run(*mpirun(4, *flow, "--out", "quiet.out", "quiet"))
    job = g.start(*mpirun(4, *flow, "--delay", 5000, "--out", "killed.out", "ck"))
    g.kill_after(5, "ck", [job])
    killed = g.listed("ck")[-1]["version"]
    g.run(*mpirun(2, *flow, "--out", "killed.out", "ck"))
    g.same("quiet.out", "killed.out")
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
    for one, version, word in ((axes[0], killed, "killed on 4 ranks"), (axes[1], 300, "ended on 2 ranks")):
        at = g.restored("ck", "tracers", "positions", version)[::25]
        one.scatter(at[:, 0], at[:, 1], s=1, c=at[:, 2], cmap="viridis", linewidths=0, rasterized=True)
        one.set(title=f"step {version}: {word}", xlabel="x", aspect="equal")
    axes[0].set_ylabel("y")
    g.draw("particles", figure)
    return stored_over_protected(g.listed("quiet"))


def lammps(g):
    need_module("lammps", "python3-lammps")
    melt = [PYTHON, SOURCE / "examples" / "melt.py", "--steps", 200, "--every", 20]
    g.run(*melt, "--out", "quiet.npy", "quiet")
    g.kill_after(4, "ck", [g.start(*melt, "--out", "killed.npy", "ck")])
    g.run(*melt, "--out", "killed.npy", "ck")
    g.same("quiet.npy", "killed.npy")
    g.run(PYTHON, "-c", f"import sys; sys.path.insert(0, {str(SOURCE / 'examples')!r}); import melt\n"
          "l = melt.lammps(cmdargs=['-screen', 'none', '-log', 'none'])\n"
          "l.commands_string(melt.MELT.format(cells=16)); l.command('run 20 post no'); l.command('write_restart own')")
    own = (g.work / "own").stat().st_size
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
    for one, version, word in ((axes[0], 20, "still a crystal"), (axes[1], 200, "molten")):
        at = g.restored("ck", "melt", "x", version)
        layer = at[(at[:, 2] > 6) & (at[:, 2] < 8)]
        one.scatter(layer[:, 0], layer[:, 1], s=4, c=BLUE if version == 20 else RED, linewidths=0, rasterized=True)
        one.set(title=f"step {version}: {word}", xlabel="x", aspect="equal")
    axes[0].set_ylabel("y")
    g.draw("lammps", figure)
    found = g.listed("quiet")
    return sum(c["bytes_stored"] + c["bytes_metadata"] for c in found) / len(found) / own


def training(g):
    need_module("torch", "python3-torch")

    def workers(store, losses):
        group = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 29000))}
        command = [PYTHON, SOURCE / "examples" / "train.py", "--width", 96, "--steps", 30, "--keep", 1000, "--losses", losses]
        return [g.start(*command, store, RANK=str(rank), **group) for rank in range(4)]

    def finish(started):
        if any([process.wait() for process in started]):
            raise SystemExit("a worker failed:\n" + (g.work / "log").read_text()[-2000:])

    def read(losses):
        """Steps after the last checkpoint are there twice."""
        lines = {tuple(line.split()[:2]) for line in (g.work / losses).read_text().splitlines()}
        return sorted((int(step), float.fromhex(value)) for step, value in lines)

    finish(workers("quiet", "quiet.txt"))
    g.kill_after(12, "ck", workers("ck", "killed.txt"))
    killed = g.listed("ck")[-1]["version"]
    finish(workers("ck", "killed.txt"))
    quiet = read("quiet.txt")
    if quiet != read("killed.txt"):
        raise SystemExit("the losses differ")
    figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
    axes.plot([step for step, _ in quiet], [loss for _, loss in quiet], color=BLUE)
    axes.axvline(killed, color=RED, linestyle="--")
    axes.annotate("all four killed", (killed, axes.get_ylim()[1]), xytext=(5, -10), textcoords="offset points", color=RED)
    axes.set(xlabel="step", ylabel="loss")
    g.draw("training", figure)
    found = g.listed("quiet")[1:]  # each rank protects a whole replica
    return stored_over_protected(found)


WAVE = """
import sys
import h5py, numpy as np
n, folder = 400, sys.argv[1]
x, z = np.meshgrid(np.arange(n) * 5.0, np.arange(n) * 5.0)
speed = 1500 + 500 * (z > 500) + 700 * (z > 1100 + 0.2 * x) + 20 * np.random.default_rng(1).standard_normal((n, n))
density = 310 * speed ** 0.25
now, before = np.zeros((n, n)), np.zeros((n, n))
for step in range(801):
    if step % 40 == 0:
        with h5py.File(f"{folder}/shot-{step:04d}.h5", "w") as file:
            for name, array in dict(x=x, z=z, speed=speed, density=density, pressure=now, before=before).items():
                file[name] = array
    bend = np.zeros((n, n))
    bend[1:-1, 1:-1] = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]
    after = 2 * now - before + (speed * 0.0012 / 5) ** 2 * bend
    after[2, n // 2] += np.exp(-((step - 40) / 12) ** 2) * (1 - 2 * ((step - 40) / 12) ** 2)
    now, before = after, now
"""


def hdf5(g):
    need_module("h5py", "python3-h5py")
    (g.work / "shots").mkdir()
    g.run(PYTHON, "-c", WAVE, "shots")
    files = sorted((g.work / "shots").iterdir())
    # When it has taken the name and reads the files; nothing half is left behind.
    g.kill_when((g.work / "ck/n/shots/claim/00000001").exists, [g.start(g.varve, "import", "ck", "shots", "shots")])
    if g.listed("ck"):
        raise SystemExit("the import was over when it was killed")
    g.run(g.varve, "import", "ck", "shots", "shots")
    (g.work / "back").mkdir()
    g.run(g.varve, "export", "ck", "shots", "-C", "back")
    for file in files:
        g.same(file.relative_to(g.work), pathlib.Path("back") / file.relative_to(g.work))
    import h5py
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.6), layout="constrained")
    for one, step in zip(axes, (200, 480, 800)):
        with h5py.File(g.work / "back" / "shots" / f"shot-{step:04d}.h5") as file:
            one.imshow(file["speed"][:], cmap="Greys", alpha=0.5)
            image = file["pressure"][:]
            one.imshow(image, cmap="RdBu", vmin=-abs(image).max() / 5, vmax=abs(image).max() / 5, alpha=0.7)
        one.set(title=f"step {step}", xticks=[], yticks=[])
    g.draw("hdf5", figure)
    return size_of(g.work / "ck") / size_of(g.work / "shots")


NOBODY_CHANGED = """
import os, time
import numpy as np
points, inside, total = np.random.default_rng(7), 0, 0
table = np.random.default_rng(3).random(4_000_000)
out = open("said", "a", buffering=1)
while not os.path.exists("enough"):
    x, y = points.random(200_000), points.random(200_000)
    inside += int(np.count_nonzero(x * x + y * y < 1))
    total += 200_000
    print(total, 4 * inside / total, file=out)
    time.sleep(0.05)
print("sum", table.sum(), file=out)
"""


def process(g):
    criu = os.environ.get("CRIU") or shutil.which("criu")
    need(criu, "criu 4.1 or newer (CRIU)")
    if os.geteuid() != 0 or subprocess.call([criu, "check"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
        raise Missing("root, and a criu that works on this kernel")

    def said():
        path = g.work / "said"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_for(is_there):
        while not is_there():
            time.sleep(0.05)

    child = g.start(PYTHON, "-c", NOBODY_CHANGED)
    for version in range(4):
        before = len(said())
        wait_for(lambda: len(said()) >= before + 20)
        g.run(g.varve, "dump", "--criu", criu, "ck", "pi", "--pid", child.pid)
    os.kill(child.pid, 9)
    child.wait()
    dead = len(said())
    g.run(g.varve, "undump", "--criu", criu, "ck", "pi")
    wait_for(lambda: len(said()) >= 2 * dead)
    (g.work / "enough").touch()
    wait_for(lambda: said()[-1].startswith("sum"))
    lines = said()
    sums = [float(line.split()[1]) for line in lines if line.startswith("sum")]
    if sums != [float(np.random.default_rng(3).random(4_000_000).sum())]:
        raise SystemExit(f"the table came back with the sum {sums}")
    told = {line for line in lines if not line.startswith("sum")}  # those after the last dump are there twice
    if sorted(int(line.split()[0]) for line in told) != [200_000 * (i + 1) for i in range(len(told))]:
        raise SystemExit("the program did not go on where it was")
    versions = g.listed("ck")
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained")
    axes[0].plot(range(len(lines) - 1), [float(line.split()[1]) for line in lines[:-1]], color=BLUE)
    axes[0].axvline(dead, color=RED, linestyle="--")
    axes[0].annotate("killed, brought back", (dead, axes[0].get_ylim()[1]), xytext=(5, -10), textcoords="offset points",
                     color=RED)
    axes[0].set(xlabel="line of output", ylabel="estimate of pi")
    places = np.arange(len(versions))
    axes[1].bar(places - 0.2, [v["bytes_protected"] / 2 ** 20 for v in versions], 0.4, color=GREY, label="images of criu")
    axes[1].bar(places + 0.2, [v["bytes_stored"] / 2 ** 20 for v in versions], 0.4, color=BLUE, label="stored")
    axes[1].set(xlabel="dump", ylabel="MiB", xticks=places)
    axes[1].legend(frameon=False, ncol=2, loc="lower left", bbox_to_anchor=(0, 1))
    g.draw("process", figure)
    return stored_over_protected(versions)


PROGRAMS = (heat2d, particles, lammps, training, hdf5, process)


def check_page(path, number):
    """A page begins with its number, and its row in the list of all pages ends with it."""
    page = pathlib.Path(path)
    row = rf"^\|.*\({re.escape(page.name)}\).*\| (\d\.\d+) \|$"
    for told_by, pattern in ((page, r"\*\*(\d\.\d+)\*\*"), (page.with_name("README.md"), row)):
        told = re.search(pattern, told_by.read_text(encoding="utf-8"), re.M)
        if not told or abs(float(told.group(1)) - number) > 0.05 * number + 0.005:
            raise SystemExit(f"{told_by} tells {told.group(1) if told else 'no number'}, measured were {number:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--page")
    parser.add_argument("--out")
    parser.add_argument("name", choices=[one.__name__ for one in PROGRAMS])
    told = parser.parse_args()
    program = next(one for one in PROGRAMS if one.__name__ == told.name)
    with tempfile.TemporaryDirectory(prefix="varve-gallery-") as work:
        try:
            number = program(Gallery(told, work))
        except Missing as missing:
            print(f"skipped: there is no {missing}")
            return 77
    ended = {"hdf5": "the files came back with", "process": "went on with its next line, and the sum of its table has"}.get(told.name, "ended with")
    print(f"{told.name}: killed, {ended} the same bits; stored / without Varve {number:.3f}")
    if told.page:
        check_page(told.page, number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
