"""A Slurm of its own for a test, in a folder: munged, slurmctld and a slurmd for each of its nodes n0, n1, ..., all on this
machine. For tests/process/slurm.py and tests/transparent/slurm.py; needs root. Everything it starts ends with stop()."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo")
NODE = "NodeName=n%d NodeHostname=localhost NodeAddr=127.0.0.1 Port=%d CPUs=%d State=UNKNOWN\n"


def fail(text):
    raise SystemExit("FAILED: " + text)


def missing():
    """Why there can be no Slurm here, or None."""
    programs = [program for program in NEEDED if not shutil.which(program)]
    if programs:
        return "there is no " + ", no ".join(programs)
    return "not root" if os.getuid() else None


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else fail("%s: %s" % (" ".join(command), done.stderr))


def wait_until(what, text, seconds=90):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            fail(text() if callable(text) else text)
        time.sleep(0.2)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def name_of(pid):
    return pathlib.Path("/proc/%d/comm" % pid).read_text().strip() if os.path.exists("/proc/%d" % pid) else ""


def parent_of(pid):
    try:
        return int(pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Slurm:
    """changes: texts of slurm.conf, and what to put in their place."""

    def __init__(self, folder, changes=(), nodes=1, cpus=1):
        self.folder, self.nodes, self.daemons = folder, nodes, {}
        for name in ("m", "state", "log", *("spooln%d" % i for i in range(nodes))):
            os.mkdir(os.path.join(folder, name))
        self.configure(changes, cpus)
        key = pathlib.Path(folder, "munge.key")
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        path = lambda name: os.path.join(folder, "m", name)
        try:
            self.start("munged", "-F", "-f", "--key-file=%s" % key, "--socket=" + path("munge.socket"),
                       "--pid-file=" + path("munged.pid"), "--log-file=" + path("log"), "--seed-file=" + path("seed"))
            wait_until(lambda: os.path.exists(path("munge.socket")), "munged does not start")
            self.start("slurmctld", "-D", "-c")
            for i in range(nodes):
                self.start_node(i)
            wait_until(self.is_up, "Slurm does not start; see its log: %s" % folder)
        except BaseException:
            self.stop()
            raise

    def configure(self, changes, cpus):
        port = random.randrange(20000, 30000)
        text = (HERE / "slurm.conf").read_text().replace("@DIR@", self.folder).replace("@PORT@", str(port))
        text = text.replace("@NODES@\n", "".join(NODE % (i, port + 1 + i, cpus) for i in range(self.nodes)))
        for old, new in changes:
            text = text.replace(old, new) if old in text else fail("slurm.conf has no %s" % old)
        configuration = pathlib.Path(self.folder, "slurm.conf")
        configuration.write_text(text)
        os.environ["SLURM_CONF"] = str(configuration)

    def start(self, *command):
        self.daemons[" ".join(command)] = daemon = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return daemon

    def start_node(self, i):
        self.start("slurmd", "-D", "-N", "n%d" % i)

    def kill_node(self, i):
        """As if its machine had lost power: the daemon, those of its steps, and what runs below them."""
        daemon = self.daemons.pop("slurmd -D -N n%d" % i)
        daemon.kill()
        daemon.wait()
        tasks = self.processes("SLURMD_NODENAME=n%d" % i)
        for pid in tasks | {parent for parent in map(parent_of, tasks) if name_of(parent) == "slurmstepd"}:
            kill(pid)

    def processes(self, *words):
        """Those of this Slurm, by its configuration in their environment."""
        wanted = {word.encode() for word in ("SLURM_CONF=%s/slurm.conf" % self.folder, *words)}
        found = set()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.add(int(entry.name))
            except OSError:
                pass
        return found

    def is_up(self):
        done = subprocess.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], capture_output=True, text=True)
        return len(set(done.stdout.split())) == self.nodes

    def stop(self):
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.processes():  # what is left of jobs
            kill(pid)

    def submit(self, partition, script, name=None, **options):
        more = ["--%s=%s" % (word.replace("_", "-"), value) if value is not True else "--" + word.replace("_", "-")
                for word, value in options.items()]
        done = subprocess.run(["sbatch", "--parsable", "-p", partition, "-D", self.folder, "-o", self.output(name or partition),
                               "--open-mode=append", *more], input="#!/bin/sh\n" + script + "\n", capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else fail("sbatch: " + done.stderr)

    def output(self, name):
        return os.path.join(self.folder, name + ".job")

    def told(self, name):
        return open(self.output(name)).read() if os.path.exists(self.output(name)) else "nothing"

    @staticmethod
    def job(number):
        words = run("scontrol", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    @staticmethod
    def begin_now(number):
        """A job that is queued again. Slurm lets it wait for two minutes: in the first second it would not start."""
        time.sleep(3)
        run("scontrol", "update", "jobid=" + number, "StartTime=now")

    def state(self, number):
        return self.job(number)["JobState"]
