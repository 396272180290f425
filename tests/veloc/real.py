"""The programs beside, compiled once more against VELOC itself: both libraries must compute the same, from the same steps.

    real.py --prefix VELOC --mem PROGRAM --file PROGRAM [--kills N] [--seed S]

VELOC is where its `cmake --install` went. PROGRAM is heat_mem or heat_file with Varve's veloc.h. Each job of two ranks, in mode sync and
async, ends at step 77 and is started again with 150 steps to do. Then N jobs with each library are killed, one rank or all, at a random
moment, and started again up to twice: what came of them is told, and only those with Varve must all end with the right bits. 77 without
VELOC."""
import argparse
import collections
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "field"))
import mpijob  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, FIRST, LAST = 2, 77, 150


def compiled(name, prefix, folder):
    program = os.path.join(folder, "real_" + name)
    library = os.path.join(prefix, "lib")
    subprocess.run(["mpicc.openmpi", "-std=gnu11", "-O2", "-I" + os.path.join(prefix, "include"), os.path.join(HERE, name + ".c"),
                    "-o", program, "-L" + library, "-lveloc-client", "-Wl,-rpath," + library], check=True)
    return program


class Runs:
    """One program in a place of its own, started as often as it takes."""

    def __init__(self, program, mode, folder):
        self.program, self.place, self.number = program, tempfile.mkdtemp(dir=folder), 0
        os.chdir(self.place)  # the program with files names them there
        for name in ("scratch", "persistent"):
            os.mkdir(name)
        with open("cfg", "w") as file:
            file.write("scratch = %s/scratch\npersistent = %s/persistent\nmode = %s\nmax_versions = 3\n" % (self.place, self.place, mode))

    def start(self, steps):
        self.number += 1
        for left in glob.glob("/dev/shm/veloc-*"):  # of the daemon, which has ended with the job before
            os.remove(left)
        return mpijob.Job(RANKS, [self.program, self.place + "/cfg", self.place + "/out", str(steps)],
                          os.path.join(self.place, "output%d" % self.number))

    def result(self):
        with open(os.path.join(self.place, "out"), "rb") as file:
            return file.read()


def restarted(job):
    return [int(step) for step in re.findall(r"^restarted from step (\d+)$", job.text(), re.M)]


def ended(program, mode, folder):
    """The steps it went on from, and what it computed."""
    runs, steps = Runs(program, mode, folder), []
    for last in (FIRST, LAST):
        with runs.start(last) as job:
            if job.wait(120) != 0:
                sys.exit("%s, %s: failed:\n%s" % (program, mode, job.text()))
            steps += restarted(job)
    return steps, runs.result()


def killed(program, mode, folder, seed, wanted):
    """What came of a job that was killed once, soon after some step, and started again up to twice."""
    rng, runs = random.Random(seed), Runs(program, mode, folder)
    with runs.start(LAST) as job:
        pids, step = job.find_ranks(), rng.randrange(5, LAST - 30, 5)
        while not job.is_over() and "step %d saved\n" % step not in job.text():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.01))
        victims = [rng.choice(sorted(pids.values()))] if rng.random() < 0.5 else list(pids.values()) + [job.process.pid]
        if job.is_over() or not all([job.signal(pid, signal.SIGKILL) for pid in victims]):
            return "over before it was killed"
        job.wait(120)
    for _ in range(2):
        with runs.start(LAST) as job:
            if job.wait(120) != 0:
                continue
            if runs.result() != wanted:
                return "other bits"
            return "went on, the same bits" if restarted(job) else "began anew, the same bits"
    return "failed twice"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default=os.environ.get("VELOC_PREFIX"))
    parser.add_argument("--mem", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    if not options.prefix:
        print("skipped: VELOC_PREFIX does not say where VELOC is installed")
        sys.exit(mpijob.SKIP)
    mpijob.skip_without("openmpi")
    os.environ["PATH"] = os.path.join(options.prefix, "bin") + ":" + os.environ["PATH"]  # veloc-backend
    os.environ["LD_LIBRARY_PATH"] = os.path.join(options.prefix, "lib")  # for what its library needs in turn
    with tempfile.TemporaryDirectory(prefix="varve-veloc-") as folder:
        for name, ours in (("heat_mem", options.mem), ("heat_file", options.file)):
            real = compiled(name, options.prefix, folder)
            for mode in ("sync", "async"):
                (steps, wanted), (our_steps, bits) = ended(real, mode, folder), ended(ours, mode, folder)
                if steps != our_steps or bits != wanted:
                    sys.exit("%s, %s: VELOC went on from %s, Varve from %s, and the bits are %s" %
                             (name, mode, steps, our_steps, "the same" if bits == wanted else "others"))
                print("%s, %s: both went on from %s and computed the same bits" % (name, mode, steps), flush=True)
                for who, program in (("VELOC", real), ("Varve", ours)) if options.kills else ():
                    counts = collections.Counter(killed(program, mode, folder, "%s %d" % (options.seed, number), wanted)
                                                 for number in range(options.kills))
                    print("    %s killed: %s" % (who, ", ".join("%d %s" % (n, what) for what, n in counts.most_common())), flush=True)
                    if who == "Varve" and (counts["other bits"] or counts["failed twice"]):
                        sys.exit("%s, %s: a job with Varve did not come back" % (name, mode))
        os.chdir("/")


main()
