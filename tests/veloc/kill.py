"""Kill a VELOC program in the middle, start it again until it ends, and compare what it computes with an undisturbed run.

    kill.py --program PROGRAM --varve VARVE [--mpi openmpi|mpich] [--runs N] [--ranks 2,4] [--seed S]

Each run draws from its seed: sync or async, the number of kills, whether one rank is killed or all of them and mpirun, and when. In
sync mode a step that was reported as saved must never be lost. A run that nobody could disturb in time, or that did not restart from
a checkpoint, is repeated and not counted."""
import argparse
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

STEPS = 150


def steps(text, pattern):
    return [int(step) for step in re.findall(pattern, text, re.M)]


def start(options, place, mode, ranks, number):
    config = os.path.join(place, "heat.cfg")
    with open(config, "w") as file:
        file.write("scratch = %s/scratch\npersistent = %s/persistent\nmode = %s\nmax_versions = 3\n" % (place, place, mode))
    os.makedirs(os.path.join(place, "persistent"), exist_ok=True)
    os.makedirs(os.path.join(place, "scratch"), exist_ok=True)
    job = mpijob.Job(ranks, [options.program, config, os.path.join(place, "out"), str(STEPS)],
                     os.path.join(place, "output%d" % number), options.mpi)
    job.out = os.path.join(place, "out")
    return job


def whole_run(options, folder, ranks):
    """What an undisturbed run computes, and how long it takes."""
    place = tempfile.mkdtemp(dir=folder)
    with start(options, place, "sync", ranks, 0) as job:
        if job.wait(120) != 0:
            sys.exit("an undisturbed run failed:\n" + job.text())
        if steps(job.text(), r"^step (\d+) saved$")[-1] != STEPS:
            sys.exit("an undisturbed run saved too little:\n" + job.text())
        with open(job.out, "rb") as file:
            return file.read(), job.seconds()


def disturb(job, rng, seconds):
    pids = job.find_ranks()
    time.sleep(rng.uniform(0.1, 0.9) * seconds)
    if job.is_over() or len(pids) < job.ranks:
        return False
    victims = [rng.choice(sorted(pids.values()))] if rng.random() < 0.5 else list(pids.values()) + [job.process.pid]
    return any([job.signal(pid, signal.SIGKILL) for pid in victims])


def play(options, place, ranks, rng, wanted, seconds):
    """The kills of one run, and from which steps it went on."""
    mode, kills, left = rng.choice(["sync", "async"]), 0, rng.choice([1, 2, 3])
    reported, restored = 0, []
    for number in range(1, 20):
        with start(options, place, mode, ranks, number) as job:
            was_killed = kills < left and disturb(job, rng, seconds)
            kills += was_killed
            code = job.wait(120)
            restored += steps(job.text(), r"^restarted from step (\d+)$")
            if mode == "sync" and steps(job.text(), r"^step (\d+) saved$") and reported > (restored or [0])[-1]:
                sys.exit("step %d was reported as saved, and %s restored:\n%s" % (reported, restored, job.text()))
            reported = max([reported] + steps(job.text(), r"^step (\d+) saved$"))
            if was_killed and code != 0:
                continue
            if code != 0:
                sys.exit("it ended with %d by itself:\n%s" % (code, job.text()))
            with open(job.out, "rb") as file:
                if file.read() != wanted:
                    sys.exit("%s, after %d kills the result differs from that of an undisturbed run" % (mode, kills))
            break
    found = subprocess.run([options.varve, "verify", os.path.join(place, "persistent", "varve")], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit("varve verify:\n" + found.stdout + found.stderr)
    return mode, kills, restored


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--varve", required=True)
    parser.add_argument("--mpi", default="openmpi")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--ranks", default="2,4", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--seed", default=str(time.time_ns() % 1000000))
    options = parser.parse_args()
    options.runs = max(1, options.runs * int(os.environ.get("TEST_SCALE", "100")) // 100)
    mpijob.skip_without(options.mpi)
    rng, known, done, tries = random.Random(options.seed), {}, 0, 0
    with tempfile.TemporaryDirectory(prefix="varve-veloc-") as folder:
        while done < options.runs:
            tries += 1
            if tries > 10 * options.runs:
                sys.exit("always too late")
            ranks = options.ranks[done % len(options.ranks)]
            if ranks not in known:
                known[ranks] = whole_run(options, folder, ranks)
            mode, kills, restored = play(options, tempfile.mkdtemp(dir=folder), ranks, rng, *known[ranks])
            if kills > 0 and restored:
                done += 1
                print("%s, %d ranks: killed %d times, went on from %s: the same bits" % (mode, ranks, kills, restored), flush=True)
    print("%d runs, seed %s" % (done, options.seed))


main()
