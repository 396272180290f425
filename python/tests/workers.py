"""Training jobs whose workers are forked from one process that has imported torch, which takes seconds.

In a test: Server().job(ranks, folder, arguments) starts examples/train.py, or the program that Server was told, and
`job.pids` can be killed."""
import importlib
import json
import os
import random
import runpy
import subprocess
import sys
import time

from conftest import HERE, ROOT


class Server:
    def __init__(self, program=ROOT / "examples/train.py", modules=("varve.torch",)):
        self.process = subprocess.Popen([sys.executable, str(HERE / "workers.py"), str(program), *modules],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, OMP_NUM_THREADS="1"))

    def ask(self, **what):
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def job(self, ranks, folder, *arguments, **variables):
        return Job(self, ranks, folder, [str(a) for a in arguments], variables)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Job:
    def __init__(self, server, ranks, folder, arguments, variables):
        self.server = server
        self.logs = [os.path.join(folder, f"log{rank}") for rank in range(ranks)]
        for path in self.logs:
            open(path, "w").close()
        self.pids = server.ask(start=arguments, logs=self.logs, variables=variables)

    def wait(self, timeout=120):
        """Codes of all workers, those that are killed included. When the time is over, all are."""
        return self.server.ask(wait=timeout)

    def is_running(self):
        """Unless some worker has ended and may be waited for."""
        return all(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z" for pid in self.pids)

    def text(self):
        texts = []
        for path in self.logs:
            with open(path) as file:
                texts.append(file.read())
        return "\n".join(texts)


def work(rank, ranks, port, what):
    log = os.open(what["logs"][rank], os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      VARVE_CONNECT_SECONDS="30", USE_LIBUV="0", **what["variables"])
    # USE_LIBUV: torch 2.6 of Debian 13 has none, and asks for it
    program = sys.argv[1]
    sys.argv = [program, *what["start"]]
    code = 1
    try:
        runpy.run_path(program, run_name="__main__")
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without what the parent has registered


def serve():
    import torch  # noqa: F401
    import torch.distributed  # noqa: F401

    for module in sys.argv[2:]:
        importlib.import_module(module)
    pids = []
    for line in sys.stdin:
        what = json.loads(line)
        if "start" in what:
            port = random.randrange(10000, 30000)
            pids = []
            for rank in range(len(what["logs"])):
                pid = os.fork()
                if pid == 0:
                    work(rank, len(what["logs"]), port, what)
                pids.append(pid)
            print(json.dumps(pids), flush=True)
        else:
            print(json.dumps(wait_codes(pids, what["wait"])), flush=True)


def wait_codes(pids, timeout):
    """Exit codes as subprocess has them: negative for signals. A worker that had to be ended has None."""
    codes = {}
    end = time.monotonic() + timeout
    while len(codes) < len(pids):
        is_late = time.monotonic() > end
        for pid in pids:
            if pid in codes:
                continue
            if is_late:
                os.kill(pid, 9)
            found, status = os.waitpid(pid, 0 if is_late else os.WNOHANG)
            if found == pid:
                codes[pid] = None if is_late else os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return [codes[pid] for pid in pids]


if __name__ == "__main__":
    serve()
