#!/usr/bin/env python3
"""torch.distributed.checkpoint through Varve, beside torch's own FileSystemWriter.

    dcp.py [--mib 256] [--ranks 2] [--tensors 32] [--repeat 5] FOLDER

Every rank has --mib MiB of float32, in tensors that are sharded by rows. All of it is new at each save. Times are of
the slowest rank, and the median of the repeats, after a first save that does not count:

  async_save blocked   until async_save returns: the tensors may change then
  async_save durable   until its future is done
  async_save is true   the tensors are changed right after it has returned: is what it was called with stored?
  save durable         until save returns
  load                 into the same shards; the page cache is warm

torch's async_save keeps no copy of tensors that are on the CPU already, unless its writer is told to cache one.

The ways take turns, so that a disk that becomes slower meets all of them. Needs torch 2.4 or later.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

ROWS = ("async_save blocked", "async_save durable", "save durable", "load")
WAYS = {"varve": "VarveWriter", "files1": "FileSystemWriter, 1 thread", "copies": "the same, cached copy",
        "files2": "FileSystemWriter, 2 threads"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tensors", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--stats", action="store_true", help="what Varve says about each save, of rank 0")
    return parser.parse_args()


class Way:
    """A writer, and a reader of what it has written last."""

    def __init__(self, name, folder):
        import torch.distributed.checkpoint as dcp

        from varve.dcp import VarveReader, VarveWriter

        self.name, self.folder, self.dcp, self.number = name, os.path.join(folder, name), dcp, 0
        self.writer = VarveWriter(self.folder, "bench", keep=2) if name == "varve" else None
        self.reader = VarveReader
        self.copying = dcp.FileSystemWriter(folder, cache_staged_state_dict=True) if name == "copies" else None
        self.is_true = True

    def next(self):
        """The arguments of save."""
        self.number += 1
        if self.writer is not None:
            return {"storage_writer": self.writer, "checkpoint_id": self.number}
        path = f"{self.folder}/{self.number}"
        if self.copying is not None:
            return {"storage_writer": self.copying, "checkpoint_id": path}
        return {"storage_writer": self.dcp.FileSystemWriter(path, thread_count=int(self.name[-1]))}

    def load(self, state):
        if self.writer is not None:
            self.dcp.load(state, storage_reader=self.reader(self.folder, "bench"))
        else:
            self.dcp.load(state, storage_reader=self.dcp.FileSystemReader(f"{self.folder}/{self.number}"))

    def clean(self, is_first):
        """Files of the save before; Varve does that itself."""
        if self.writer is None and is_first:
            shutil.rmtree(f"{self.folder}/{self.number - 1}", ignore_errors=True)


def rank():
    import warnings

    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    options = arguments()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    rows = max(1, (options.mib << 20) // options.tensors // 4096)
    local = [torch.empty(rows, 1024) for _ in range(options.tensors)]
    state = {f"w{i}": DTensor.from_local(one, mesh, [Shard(0)]) for i, one in enumerate(local)}
    generator = torch.Generator().manual_seed(dist.get_rank())
    ways = [Way(name, options.folder) for name in WAYS]
    taken = {(way.name, row): [] for way in ways for row in ROWS}

    def slowest(seconds):
        told = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return float(told[0])

    def renew():
        for one in local:
            one.uniform_(generator=generator)
        dist.barrier()
        return time.perf_counter()

    for turn in range(options.repeat + 1):
        for way in ways:
            begun = renew()
            saving = way.dcp.async_save(state, **way.next())
            blocked = time.perf_counter() - begun
            wanted = [one[0, 0].item() for one in local]
            for one in local:
                one[0, 0] += 1
            saving.result()
            times = [slowest(blocked), slowest(time.perf_counter() - begun)]
            way.load(state)
            way.is_true &= wanted == [one[0, 0].item() for one in local]
            way.clean(dist.get_rank() == 0)
            begun = renew()
            way.dcp.save(state, **way.next())
            times.append(slowest(time.perf_counter() - begun))
            wanted = [float(one.sum(dtype=torch.float64)) for one in local]
            for one in local:
                one.zero_()
            dist.barrier()
            begun = time.perf_counter()
            way.load(state)
            times.append(slowest(time.perf_counter() - begun))
            found = [float(one.sum(dtype=torch.float64)) for one in local]
            assert wanted == found, f"{way.name} has loaded other values"
            way.clean(dist.get_rank() == 0)
            if turn > 0:
                for row, seconds in zip(ROWS, times):
                    taken[way.name, row].append(seconds)
            if options.stats and way.writer is not None and dist.get_rank() == 0:
                print(json.dumps(way.writer._session.stats()), file=sys.stderr)
    for way in ways:
        if way.writer is not None:
            way.writer.close()
    if dist.get_rank() == 0:
        report(options, taken, {way.name: way.is_true for way in ways})
    dist.barrier()
    dist.destroy_process_group()


def report(options, taken, is_true):
    print(f"{options.ranks} ranks, {options.mib} MiB of each, {options.tensors} tensors, all new; median of "
          f"{options.repeat}, seconds; beside it, relative to FileSystemWriter with 1 thread")
    print(f"{'':20}" + "".join(f"{text:>30}" for text in WAYS.values()))
    for row in ROWS:
        base = statistics.median(taken["files1", row])
        cells = [statistics.median(taken[name, row]) for name in WAYS]
        print(f"{row:20}" + "".join(f"{cell:>22.3f} ({cell / base:5.2f})" for cell in cells))
    print(f"{'async_save is true':20}" + "".join(f"{'yes' if is_true[name] else 'NO':>30}" for name in WAYS))


def main():
    options = arguments()
    os.makedirs(options.folder, exist_ok=True)
    import random

    port = random.randrange(10000, 30000)
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:]],
                              env=dict(os.environ, DCP_BENCH_RANK="1", RANK=str(number), WORLD_SIZE=str(options.ranks),
                                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1",
                                       USE_LIBUV="0"))  # Debian's torch is without
             for number in range(options.ranks)]
    codes = [one.wait() for one in ranks]
    for name in WAYS:
        shutil.rmtree(os.path.join(options.folder, name), ignore_errors=True)
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(rank() if os.environ.get("DCP_BENCH_RANK") else main())
