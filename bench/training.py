#!/usr/bin/env python3
"""training.py FOLDER [--ranks N] [--width N] [--layers N] [--steps N] [--rounds N] [--check]

The workers of examples/train.py save every step: by turns with varve.torch, and by torch.save and fsync of one replica
on worker 0. A JSON object tells, as medians of all steps after the first of each round,

  blocked         seconds that worker 0 was in varve.torch.save, over those of torch.save and fsync; at most 0.10
  bytes           what the store grew by in a step, over the bytes that change in one replica; at most 1.03

and the seconds behind them. --check fails when a bound is not kept. LIBVARVE names the folder of libvarve.so. Wants a
quiet machine; FOLDER is on the storage that is measured, and 77 means that there is no torch."""
import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BOUNDS = {"blocked": 0.10, "bytes": 1.03}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("--ranks", 4), ("--width", 384), ("--layers", 4), ("--steps", 8), ("--rounds", 3)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("folder")
    return parser.parse_args()


def load_example():
    place = os.path.join(HERE, "..", "examples", "train.py")
    spec = importlib.util.spec_from_file_location("train", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def size_of(folder):
    return sum(os.path.getsize(os.path.join(path, file)) for path, _, files in os.walk(folder) for file in files)


class Saver:
    """Times of saving on worker 0, while all workers train."""

    def __init__(self, told, trainer, session, meet):
        self.told, self.trainer, self.session, self.meet = told, trainer, session, meet
        self.step = 0
        self.seconds = {"varve": [], "torch": [], "step": [], "durable": []}

    def train(self):
        """Seconds of a step. Then all workers meet: the wait for the slowest is no part of a save, the next step has it too."""
        begun = time.perf_counter()
        self.trainer.step()
        self.step += 1
        seconds = time.perf_counter() - begun
        self.meet()
        return seconds

    def with_varve(self, varve_torch):
        for i in range(self.told.steps):
            step = self.train()
            begun = time.perf_counter()
            varve_torch.save(self.session, self.step, **self.trainer.state)
            blocked = time.perf_counter() - begun
            if i:
                self.seconds["step"].append(step)
                self.seconds["varve"].append(blocked)
        self.session.wait()
        self.seconds["durable"].append(self.session.stats()["seconds_durable"])

    def with_torch(self, torch, dist):
        for i in range(self.told.steps):
            self.train()
            begun = time.perf_counter()
            if self.trainer.rank == 0:
                with open(os.path.join(self.told.folder, f"replica{i % 2}.pt"), "wb") as file:
                    torch.save({"model": self.trainer.model.state_dict(),
                                "optimizer": self.trainer.optimizer.state_dict()}, file)
                    file.flush()
                    os.fsync(file.fileno())
            if i:
                self.seconds["torch"].append(time.perf_counter() - begun)
            dist.barrier()


def work(told):
    import torch
    import torch.distributed as dist

    import varve
    import varve.torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told.batch, told.zero = 12, False
    trainer = load_example().Trainer(told)
    store = os.path.join(told.folder, "ck")
    grown = []
    with varve.open(store, "train", comm="env", keep="all", log=lambda level, line: None) as session:
        saver = Saver(told, trainer, session, dist.barrier)
        saver.with_varve(varve.torch)  # the first has everything new, and speeds are not known yet
        saver.seconds = {name: [] for name in saver.seconds}
        for _ in range(told.rounds):
            dist.barrier()
            before = size_of(store)
            saver.with_varve(varve.torch)
            dist.barrier()
            grown.append((size_of(store) - before) / told.steps)
            saver.with_torch(torch, dist)
    if trainer.rank == 0:
        report(told, trainer, saver.seconds, grown)
    dist.destroy_process_group()


def report(told, trainer, seconds, grown):
    median = {name: statistics.median(values) for name, values in seconds.items()}
    changed = 12 * trainer.size  # a value and two moments
    shares = {"blocked": median["varve"] / median["torch"], "bytes": statistics.median(grown) / changed}
    print(json.dumps({"bench": "training", "ranks": told.ranks, "replica_bytes": changed, **{
        f"seconds_{name}": round(value, 5) for name, value in median.items()}, **{
        name: round(value, 4) for name, value in shares.items()}}), flush=True)
    broken = [name for name, value in shares.items() if value > BOUNDS[name]]
    if told.check and broken:
        raise SystemExit(f"not kept: {', '.join(broken)}")


def main():
    told = read_arguments()
    if told.worker:
        work(told)
        return 0
    if subprocess.call([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL) != 0:
        print("skipped: there is no torch (python3-torch)")
        return 77
    folder = os.path.join(told.folder, "bench-training")
    os.makedirs(folder)
    try:
        port = random.randrange(10000, 30000)
        environment = dict(os.environ, WORLD_SIZE=str(told.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           OMP_NUM_THREADS="1", USE_LIBUV="0")  # which Debian's torch does not have
        path = [os.path.join(HERE, "..", "python"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        command = [sys.executable, "-B", __file__, "--worker", *sys.argv[1:]]
        command[command.index(told.folder, 4)] = folder
        jobs = [subprocess.Popen(command, env=dict(environment, RANK=str(rank))) for rank in range(told.ranks)]
        return max(abs(job.wait()) for job in jobs)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
