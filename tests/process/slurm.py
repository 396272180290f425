#!/usr/bin/env python3
"""slurm.py: a job under tools/varve-slurm.sh is preempted by one of a better partition, is dumped within the grace time,
queued again, and goes on where it was; the code it ends with is its command's.

Twice: Slurm tells the job when it is preempted, or only when the grace time is over, with a signal to all its processes.
Starts a Slurm of its own, with one node, in a folder. VARVE, THREADS and JOB (varve-slurm.sh) are programs; CRIU is a
criu. Ends with 77 where Slurm or criu are not there."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import real

HERE = pathlib.Path(__file__).resolve().parent
JOB = os.environ["JOB"]
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "setsid")
COMMAND = real.TELL + """
count = 0
while not os.path.exists(sys.argv[1] + ".finish"):
    count += 1
    tell(count, True)
    time.sleep(0.01)
sys.exit(7)
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else real.fail("%s: %s" % (" ".join(command), done.stderr))


def wait_until(what, text, seconds=90):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            real.fail(text)
        time.sleep(0.2)


class Slurm:
    def __init__(self, folder, is_plain):
        self.folder, self.daemons = folder, []
        for name in ("m", "state", "spooln0", "log"):
            os.mkdir(os.path.join(folder, name))
        port = random.randrange(20000, 30000)
        text = (HERE / "slurm.conf").read_text().replace("@DIR@", folder)
        text = text.replace("@PORT@", str(port)).replace("@PORT1@", str(port + 1))
        if is_plain:
            text = text.replace("SlurmctldParameters=preempt_send_user_signal\n", "").replace("GraceTime=60", "GraceTime=3")
        configuration = pathlib.Path(folder, "slurm.conf")
        configuration.write_text(text)
        os.environ["SLURM_CONF"] = str(configuration)
        key = pathlib.Path(folder, "munge.key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        path = lambda name: os.path.join(folder, "m", name)
        self.start("munged", "-F", "-f", "--key-file=%s" % key, "--socket=" + path("munge.socket"),
                   "--pid-file=" + path("munged.pid"), "--log-file=" + path("log"), "--seed-file=" + path("seed"))
        wait_until(lambda: os.path.exists(path("munge.socket")), "munged does not start")
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D", "-N", "n0")
        wait_until(self.is_up, "Slurm does not start; see its log: %s" % folder)

    def start(self, *command):
        self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))

    @staticmethod
    def is_up():
        done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True)
        return done.stdout.strip() in ("1", "1\n1")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def submit(self, partition, *command, **options):
        more = ["--%s=%s" % (name.replace("_", "-"), value) for name, value in options.items()]
        script = "#!/bin/sh\nexec %s\n" % " ".join("'%s'" % word for word in command)
        done = subprocess.run(["sbatch", "--parsable", "-p", partition, "-n", "1", "-D", self.folder, "-o",
                               os.path.join(self.folder, partition + ".job"), "--open-mode=append", *more],
                              input=script, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else real.fail("sbatch: " + done.stderr)

    @staticmethod
    def job(number):
        words = run("scontrol", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def told(folder):
    path = os.path.join(folder, "low.job")
    return open(path).read() if os.path.exists(path) else "nothing"


def preempt(slurm, folder):
    path, store = os.path.join(folder, "count"), os.path.join(folder, "ck")
    count = lambda: int((open(path).read() or "0").split()[0]) if os.path.exists(path) else 0
    pathlib.Path(folder, "command.py").write_text(COMMAND)
    low = slurm.submit("low", JOB, store, "run", real.PYTHON, os.path.join(folder, "command.py"), path, signal="B:TERM@60",
                       time="60")
    wait_until(lambda: count() > 20, "the job does not run: %s %s" % (slurm.job(low), told(folder)))
    high = slurm.submit("high", "sleep", "1", time="1")
    wait_until(lambda: slurm.job(low)["JobState"] == "PENDING" and slurm.job(low)["Restarts"] == "1",
               "the job is not queued again: %s" % told(folder))
    last = count()
    run(real.VARVE, "show", store, "run")
    wait_until(lambda: slurm.job(high)["JobState"] == "COMPLETED", "the other job does not run")
    if count() != last:
        real.fail("the command runs on: %d, %d" % (last, count()))
    run("scontrol", "update", "jobid=" + low, "StartTime=now")
    wait_until(lambda: count() != last, "the job does not come back: %s %s" % (slurm.job(low), told(folder)))
    if count() < last:
        real.fail("it has begun anew, at %d instead of %d" % (count(), last))
    wait_until(lambda: count() > last + 20, "the job does not go on at %d: %s %s" % (last, slurm.job(low), told(folder)))
    if "goes on as process" not in told(folder):
        real.fail("it was not brought back: %s" % told(folder))
    pathlib.Path(path + ".finish").touch()
    wait_until(lambda: slurm.job(low)["JobState"] == "FAILED", "the job does not end: %s" % told(folder))
    if slurm.job(low)["ExitCode"] != "7:0":
        real.fail("the job ended with %s, not 7:0" % slurm.job(low)["ExitCode"])
    print("slurm: preempted at %d, queued again, brought back, ended with the code of its command" % last, flush=True)


def try_slurm(is_plain):
    folder = tempfile.mkdtemp(prefix="varve-slurm.")
    slurm = None
    try:
        slurm = Slurm(folder, is_plain)
        preempt(slurm, folder)
    finally:
        if slurm:
            slurm.stop()
        subprocess.run(["pkill", "-KILL", "-f", folder], check=False)
    shutil.rmtree(folder)


def main():
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing or os.getuid():
        print("skipped: there is no %s" % ", no ".join(missing) if missing else "skipped: not root")
        return 77
    if subprocess.run(["sh", "-c", '"$0" check', real.CRIU], capture_output=True).returncode:
        print("skipped: no criu that works on this kernel; CRIU may name another one")
        return 77
    os.environ.update(DUMP_OPTIONS="--criu " + real.CRIU, UNDUMP_OPTIONS="--criu " + real.CRIU)
    for is_plain in (False, True):
        try_slurm(is_plain)
    return 0


sys.exit(main())
