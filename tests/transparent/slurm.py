#!/usr/bin/env python3
"""slurm.py [LIMIT WORK]: jobs of two ranks under tools/varve-job.sh and a real Slurm with three nodes: their time limit is over
again and again, they are preempted, one of their ranks alone is signalled, they lose a node, they crash, they are cancelled.

Each must end with the result of a run without Slurm, and begin where it has left. LIMIT (1) is the time limit in minutes, WORK
(40) how many seconds of work the job has. VARVE, PROGRAM (job-program) and JOB are programs. Ends with 77 where there is no
Slurm."""
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "slurm"))
import cluster
from cluster import fail, run, wait_until

PROGRAM, JOB = os.environ["PROGRAM"], os.environ["JOB"]
RANKS, STEP_MS = 2, 100
LIMIT, WORK = (int(word) for word in sys.argv[1:3] or (1, 40))
BEGIN = time.monotonic()


class Job:
    """One that is queued, and its folder."""

    def __init__(self, slurm, name, steps, options="", environment="", **sbatch):
        self.slurm, self.name, self.steps = slurm, name, steps
        self.folder = pathlib.Path(slurm.folder, name)
        self.folder.mkdir()
        self.store = self.folder / "ck"
        rank = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS exec %s %s run %d %d %s" % (
            PROGRAM, self.store, steps, STEP_MS, self.folder)
        script = "export MASTER_ADDR=127.0.0.1 VARVE_PORT=%d VARVE_INTERVAL=asked %s\nexec %s %s %s run -- srun -N %d -n %d sh -c %s" % (
            random.randrange(10000, 20000), environment, JOB, options, self.store, RANKS, RANKS, shlex.quote(rank))
        self.number = slurm.submit("low", script, name, **{"nodes": 3, "requeue": True, **sbatch})

    def notes(self, *words, rank=0):
        path = self.folder / ("steps.%d" % rank)
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [int(line[1]) for line in lines if line[0] in words]

    def told(self):
        return "%s: %s\n%s" % (self.name, self.slurm.job(self.number), self.slurm.told(self.name))

    def wait(self, what, text, seconds=90):
        wait_until(what, lambda: "%s: %s" % (text, self.told()), seconds)

    def wait_begun(self, lives=1):
        self.wait(lambda: all(len(self.notes("from", rank=rank)) >= lives for rank in range(RANKS)), "it does not begin")
        time.sleep(1)

    def wait_queued(self, restarts=1):
        """It has left, and is queued again."""
        self.wait(lambda: self.slurm.job(self.number)["Restarts"] == str(restarts) and self.slurm.state(self.number) == "PENDING",
                  "it is not queued again")
        self.slurm.begin_now(self.number)

    def wait_ended(self, state, code, seconds=150):
        self.wait(lambda: self.slurm.state(self.number) == state, "it is not " + state, seconds)
        if self.slurm.job(self.number)["ExitCode"] != "%d:0" % code:
            fail("not the code %d: %s" % (code, self.told()))

    def check_result(self):
        other = self.folder / "other"
        other.mkdir()
        environment = dict(os.environ, WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", VARVE_PORT=str(random.randrange(10000, 20000)),
                           VARVE_INTERVAL="asked", VARVE_END_TIME="off")
        ranks = [subprocess.Popen([PROGRAM, str(other / "ck"), "run", str(self.steps), "0", str(other)],
                                  env=dict(environment, RANK=str(rank))) for rank in range(RANKS)]
        for rank, process in enumerate(ranks):
            if process.wait(timeout=60) != 0:
                fail("%s: no result to compare with" % self.name)
            if (other / ("result.%d" % rank)).read_text() != (self.folder / ("result.%d" % rank)).read_text():
                fail("%s: rank %d has another result" % (self.name, rank))

    def check_lives(self):
        """Each went on exactly where the one before had left."""
        for rank in range(RANKS):
            if self.notes("from", rank=rank)[1:] != self.notes("left", rank=rank):
                fail("rank %d has lost steps, or done some twice: %s" % (rank, self.told()))
        self.check_result()
        print("%s: %d lives, left at %s; after %.0f s" % (self.name, len(self.notes("from")), self.notes("left"),
                                                         time.monotonic() - BEGIN), flush=True)


def time_limit(slurm):
    """The job needs several times its limit. The wrapper finds the end by scontrol, and the program leaves in time."""
    slack = 60 * LIMIT - 15 if LIMIT == 1 else 30
    job = Job(slurm, "limit", WORK * 1000 // STEP_MS, environment="VARVE_END_SLACK=%d" % slack, time=LIMIT)
    lives = 0
    while slurm.state(job.number) != "COMPLETED":
        restarts = int(slurm.job(job.number)["Restarts"])
        if slurm.state(job.number) == "PENDING" and restarts > lives:
            lives = restarts
            slurm.begin_now(job.number)
        if slurm.state(job.number) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "COMPLETED") or lives > 40:
            fail("it ends before it is done: " + job.told())
        time.sleep(0.5)
    if lives < 2:
        fail("the limit was not too short: " + job.told())
    job.wait_ended("COMPLETED", 0)
    job.check_lives()


def preempted(slurm, name, options=""):
    job = Job(slurm, name, 150, options=options, time=60, signal="B:USR1@60")
    job.wait_begun()
    high = slurm.submit("high", "sleep 1", name + ".high", nodes=3, time=1)
    job.wait_queued()
    wait_until(lambda: slurm.state(high) == "COMPLETED", "the other job does not run")
    job.wait_ended("COMPLETED", 0)
    job.check_lives()


def one_rank(slurm):
    job = Job(slurm, "one-rank", 100, time=60)
    job.wait_begun()
    found = [pid for pid in slurm.processes("RANK=1") if cluster.name_of(pid) == "job-program"]
    os.kill(found[0] if len(found) == 1 else fail("no rank 1: %s" % found), signal.SIGTERM)
    job.wait_queued()
    job.wait_ended("COMPLETED", 0)
    job.check_lives()


def lost_node(slurm):
    """Ranks are on n0 and n1, n2 is spare. What was done after the last durable checkpoint is done again."""
    job = Job(slurm, "lost-node", 300, options="--nodes 2", environment="VARVE_INTERVAL=given VARVE_INTERVAL_SECONDS=1", time=60,
              no_kill=True)
    job.wait(lambda: len(job.notes("saved")) >= 3, "it does not begin")
    slurm.kill_node(1)
    saved = job.notes("saved")
    job.wait_ended("COMPLETED", 0)
    begun = job.notes("from")
    if len(begun) != 2 or begun[1] < saved[-2] or "--exclude=n1" not in job.told():
        fail("from %s, saved %s: %s" % (begun, saved, job.told()))
    job.check_result()
    print("lost-node: n1 killed after step %d, again from %d without it; after %.0f s" % (saved[-1], begun[1],
                                                                                        time.monotonic() - BEGIN), flush=True)
    slurm.start_node(1)
    wait_until(slurm.is_up, "n1 does not come back")


def codes(slurm):
    crash = Job(slurm, "crash", 100, options="--restarts 2", environment="CRASH=3", time=60)
    crash.wait_ended("FAILED", 78)
    starts = crash.notes("from")  # the first lives may have made a checkpoint before they crashed
    if not 3 <= len(starts) <= 6 or len(set(starts[-3:])) != 1:
        fail("not three starts from one checkpoint, but %s: %s" % (starts, crash.told()))
    (pathlib.Path(slurm.folder) / "no-folder").touch()
    Job(slurm, "nothing", 10, options="--state %s/no-folder/x" % slurm.folder, time=60).wait_ended("FAILED", 79)
    trouble = Job(slurm, "trouble", 10, time=60, hold=True)
    trouble.store.write_text("no store")
    run("scontrol", "release", trouble.number)
    trouble.wait_ended("FAILED", 76)
    gone = Job(slurm, "cancelled", 1000, time=60)
    gone.wait_begun()
    run("scancel", gone.number)
    gone.wait(lambda: slurm.state(gone.number) == "CANCELLED", "it is not cancelled")
    time.sleep(3)
    if slurm.state(gone.number) != "CANCELLED" or slurm.job(gone.number)["Restarts"] != "0":
        fail("it comes back: " + gone.told())
    print("codes: gave up, not started, storage, cancelled; after %.0f s" % (time.monotonic() - BEGIN), flush=True)


def with_slurm(changes, *tests):
    folder = tempfile.mkdtemp(prefix="varve-job.")
    slurm = cluster.Slurm(folder, [("GraceTime=60", "GraceTime=30"), ("SlurmdTimeout=30", "SlurmdTimeout=10"), *changes], nodes=3)
    try:
        for test in tests:
            test(slurm)
    finally:
        slurm.stop()
    shutil.rmtree(folder)


def main():
    why = cluster.missing()
    if why:
        print("skipped: " + why)
        return 77
    with_slurm([], time_limit, lambda slurm: preempted(slurm, "preempted"), one_rank, lost_node, codes)
    # Slurm tells the tasks alone, and not the script; and it queues a job again that stays until the grace time is over.
    with_slurm([("SlurmctldParameters=preempt_send_user_signal\n", "")], lambda slurm: preempted(slurm, "preempted-plain"),
               lambda slurm: preempted(slurm, "preempted-stay", "--after stay"))
    return 0


sys.exit(main())
