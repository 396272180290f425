"""Jobs without MPI: the processes of a job on this host, each with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
import os
import random
import subprocess
import sys
import time


class Job:
    """A job that runs. Use it in a with statement, which ends what is left of it."""

    def __init__(self, ranks, file, *arguments, **variables):
        port = random.randrange(10000, 30000)  # none that the kernel gives away by itself
        self.processes = []
        for rank in range(ranks):
            environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), VARVE_CONNECT_SECONDS="30",
                               OMP_NUM_THREADS="1", **{key: str(value) for key, value in variables.items()})
            self.processes.append(subprocess.Popen(
                [sys.executable, str(file), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, env=environment))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            process.stdout.close()

    def wait(self, timeout=120):
        """(codes, texts) of all ranks."""
        end = time.monotonic() + timeout
        texts = [process.communicate(timeout=max(0.1, end - time.monotonic()))[0] for process in self.processes]
        return [process.returncode for process in self.processes], texts


def run(ranks, file, *arguments, check=True, timeout=120, **variables):
    """Run a job to its end: (codes, texts)."""
    with Job(ranks, file, *arguments, **variables) as job:
        codes, texts = job.wait(timeout)
    assert not check or codes == [0] * ranks, "\n".join(texts)
    return codes, texts
