#!/usr/bin/env python3
"""slurm.py: a job under tools/varve-slurm.sh is preempted by one of a better partition, is dumped within the grace time,
queued again, and goes on where it was; the code it ends with is its command's.

Twice: Slurm tells the job when it is preempted, or only when the grace time is over, with a signal to all its processes.
Starts a Slurm of its own, with one node, in a folder. VARVE, THREADS and JOB (varve-slurm.sh) are programs; CRIU is a
criu. Ends with 77 where Slurm or criu are not there."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import real

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "slurm"))
import cluster
from cluster import run, wait_until

JOB = os.environ["JOB"]
COMMAND = real.TELL + """
count = 0
while not os.path.exists(sys.argv[1] + ".finish"):
    count += 1
    tell(count, True)
    time.sleep(0.01)
sys.exit(7)
"""


def preempt(slurm, folder):
    path, store = os.path.join(folder, "count"), os.path.join(folder, "ck")
    count = lambda: int((open(path).read() or "0").split()[0]) if os.path.exists(path) else 0
    pathlib.Path(folder, "command.py").write_text(COMMAND)
    words = [JOB, store, "run", real.PYTHON, os.path.join(folder, "command.py"), path]
    low = slurm.submit("low", "exec " + shlex.join(words), ntasks=1, signal="B:TERM@60", time=60)
    wait_until(lambda: count() > 20, "the job does not run: %s %s" % (slurm.job(low), slurm.told("low")))
    high = slurm.submit("high", "sleep 1", ntasks=1, time=1)
    wait_until(lambda: slurm.job(low)["JobState"] == "PENDING" and slurm.job(low)["Restarts"] == "1",
               "the job is not queued again: %s" % slurm.told("low"))
    last = count()
    run(real.VARVE, "show", store, "run")
    wait_until(lambda: slurm.job(high)["JobState"] == "COMPLETED", "the other job does not run")
    if count() != last:
        real.fail("the command runs on: %d, %d" % (last, count()))
    slurm.begin_now(low)
    wait_until(lambda: count() != last, "the job does not come back: %s %s" % (slurm.job(low), slurm.told("low")))
    if count() < last:
        real.fail("it has begun anew, at %d instead of %d" % (count(), last))
    wait_until(lambda: count() > last + 20, "the job does not go on at %d: %s %s" % (last, slurm.job(low), slurm.told("low")))
    if "goes on as process" not in slurm.told("low"):
        real.fail("it was not brought back: %s" % slurm.told("low"))
    pathlib.Path(path + ".finish").touch()
    wait_until(lambda: slurm.job(low)["JobState"] == "FAILED", "the job does not end: %s" % slurm.told("low"))
    if slurm.job(low)["ExitCode"] != "7:0":
        real.fail("the job ended with %s, not 7:0" % slurm.job(low)["ExitCode"])
    print("preempted at %d, queued again, brought back, ended with the code of its command" % last, flush=True)


def try_slurm(is_plain):
    folder = tempfile.mkdtemp(prefix="varve-slurm.")
    plain = [("SlurmctldParameters=preempt_send_user_signal\n", ""), ("GraceTime=60", "GraceTime=3")]
    slurm = cluster.Slurm(folder, plain if is_plain else [])
    try:
        preempt(slurm, folder)
    finally:
        slurm.stop()
    shutil.rmtree(folder)


def main():
    why = cluster.missing() or (None if shutil.which("setsid") else "there is no setsid")
    if why:
        print("skipped: " + why)
        return 77
    if subprocess.run(["sh", "-c", '"$0" check', real.CRIU], capture_output=True).returncode:
        print("skipped: no criu that works on this kernel; CRIU may name another one")
        return 77
    os.environ.update(DUMP_OPTIONS="--criu " + real.CRIU, UNDUMP_OPTIONS="--criu " + real.CRIU)
    for is_plain in (False, True):
        try_slurm(is_plain)
    print("process-slurm: 2 points")
    return 0


sys.exit(main())
