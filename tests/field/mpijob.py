"""Jobs for tests that kill, of MPI or (kind env) of a plain shell: start one, find the process of each rank, send it signals, and leave nothing running.

(../mpi/mpi.sh runs jobs to their end; this is about their processes.)

The processes of a job are told by an environment variable that only they have: also those whose mpirun is dead. Output goes to a
file, not through a pipe that a killed process might hold open."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

MARK = "TEST_JOB_MARK"
SKIP = 77


class TookTooLong(Exception):
    pass


def find_mpirun(kind):
    """Debian's name, or plain mpirun if it is of this kind."""
    path = shutil.which("mpirun." + kind)
    if path or not shutil.which("mpirun"):
        return path
    text = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return shutil.which("mpirun") if {"openmpi": "Open MPI", "mpich": "HYDRA"}[kind] in text else None


def launcher(kind):
    """The words before the program, without the number of ranks; or None when this MPI is not here."""
    if kind == "env":
        return ["sh", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "env", "ranks.sh")]
    path = find_mpirun(kind)
    if not path:
        return None
    if kind == "openmpi":
        # More ranks than cores, which do not spin; after a death the others are not given a second to end by themselves.
        return [path, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                "--mca", "odls_base_sigkill_timeout", "0"]
    return [path]


def skip_without(kind):
    if not launcher(kind):
        print("skipped: there is no mpirun." + kind)
        sys.exit(SKIP)


def read_environment(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return {}
    return dict(pair.decode(errors="replace").split("=", 1) for pair in pairs if b"=" in pair)


def is_dead(pid):
    """Gone, or only waiting to be reaped."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


class Job:
    def __init__(self, ranks, arguments, output, kind="openmpi", environment=None):
        self.ranks = ranks
        self.program = os.path.realpath(arguments[0])
        self.mark = uuid.uuid4().hex
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **(environment or {}))
        env[MARK] = self.mark
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # MPI itself leaks
        # What Open MPI shares between its ranks stays behind when mpirun is killed: so it goes where we can remove it.
        self.shared = tempfile.mkdtemp(prefix="varve-job-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        env.update(OMPI_MCA_orte_tmpdir_base=self.shared, OMPI_MCA_btl_vader_backing_directory=self.shared)
        self.output = output
        self.started = time.monotonic()
        with open(output, "wb") as file:
            self.process = subprocess.Popen(launcher(kind) + ["-n", str(ranks)] + list(arguments), env=env, stdout=file,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def text(self):
        with open(self.output, errors="replace") as file:
            return file.read()

    def seconds(self):
        return time.monotonic() - self.started

    def is_over(self):
        return self.process.poll() is not None

    def processes(self):
        """All that belong to the job, as (pid, rank); rank is None for mpirun and its helpers."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            env = read_environment(int(name))
            if env.get(MARK) != self.mark:
                continue
            rank = env.get("OMPI_COMM_WORLD_RANK", env.get("PMI_RANK", env.get("RANK")))
            try:
                is_program = os.readlink("/proc/%s/exe" % name) == self.program
            except OSError:
                continue
            found.append((int(name), int(rank) if rank is not None and is_program else None))
        return found

    def find_ranks(self, seconds=20):
        """The process of each rank, once all are there; what there is when the job has ended before."""
        while True:
            found = {rank: pid for pid, rank in self.processes() if rank is not None}
            if len(found) == self.ranks or self.is_over():
                return found
            if self.seconds() > seconds:
                self.kill_all()
                raise TookTooLong("the ranks did not start")
            time.sleep(0.005)

    def signal(self, pid, number):
        """True if the process was still this job's and alive."""
        if read_environment(pid).get(MARK) != self.mark or is_dead(pid):
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds):
        """Exit code of mpirun; everything of the job is gone then."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            states = self.states()
            is_launcher_alone = all(rank is None for _, rank in self.processes())
            self.kill_all()
            if is_launcher_alone and "exited on signal" in self.text():  # mpirun of Open MPI 4.1 may hang when it has told that
                return 128 + signal.SIGKILL
            raise TookTooLong("not finished after %d s:\n%s\n%s" % (seconds, states, self.text()[-4000:]))
        self.kill_all()  # a rank may outlive a launcher that was killed
        return code

    def states(self):
        """What each process is doing: state, seconds of work, and where in the kernel it waits."""
        lines = []
        for pid, rank in self.processes():
            try:
                with open("/proc/%d/stat" % pid) as file:
                    words = file.read().rsplit(")", 1)[1].split()
                with open("/proc/%d/wchan" % pid) as file:
                    place = file.read()
            except OSError:
                continue
            ticks = int(words[11]) + int(words[12])
            lines.append("%s: process %d, state %s, %.1f s of work, %s" % (
                "helper" if rank is None else "rank %d" % rank, pid, words[0], ticks / os.sysconf("SC_CLK_TCK"), place))
        return "\n".join(sorted(lines))

    def kill_all(self):
        """mpirun first, so that it has no time to say anything to the ranks."""
        if not self.is_over():
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for _ in range(500):
            left = [pid for pid, _ in self.processes() if not is_dead(pid)]
            if not left:
                shutil.rmtree(self.shared, ignore_errors=True)
                return
            for pid in left:
                self.signal(pid, signal.SIGKILL)
            time.sleep(0.01)
        raise TookTooLong("processes that do not die: %s" % left)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()
