"""One worker: writes some checkpoints, lets go of the caches, and reads all of them; every byte is compared."""
import argparse
import ctypes
import faulthandler
import gc
import json
import os
import shutil
import sys
import time
import warnings

import torch
import torch.distributed as dist

import state as states
import ways

STUCK_SECONDS = int(os.environ.get("MLPERF_STUCK_SECONDS", "300"))


def _memory(field):
    """Bytes, of this process."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _peak_anew():
    """What was freed before does not count."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _memory("VmRSS")


def _all(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _cool(folder):
    """Pages of these files leave the cache of the system: all have been made durable."""
    for where, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(where, name), os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def _size(folder):
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(folder) for name in names)


class Worker:
    def __init__(self, options, case, way):
        self.rank = int(os.environ["RANK"])
        self.options = options
        self.folder = os.path.join(options.folder, "data")
        self.state = states.make(case, self.rank, options.workers, options.parameters)
        self.way = ways.WAYS[way](self.state, self.folder, self.rank)
        self.seen = []  # digests of each version
        self.details = {}  # of the last save and the last load
        self.unique = {}  # digest: its place counts once

    def _write(self, version):
        """(seconds blocked, seconds until durable, bytes of memory) of this worker."""
        self.state.step(version)
        digests = states.digests(tensor for _, tensor, _ in self.state.tensors())
        self.seen.append(digests)
        self.unique.update(dict.fromkeys(digests))
        before = _peak_anew()
        dist.barrier()
        begin = time.monotonic()
        blocked = self.way.save(version)
        blocked = time.monotonic() - begin if blocked is None else blocked
        self.way.finish()
        durable = time.monotonic() - begin
        self.details["save"] = self.way.details()
        return blocked, durable, max(0, _memory("VmHWM") - before) + self.way.memory_beside()

    def _read(self, version):
        if self.way.in_place:
            for _, tensor, _ in self.state.tensors():
                states.bytes_of(tensor)[:] = 0xa5
        if self.rank == 0:
            _cool(self.folder)
        before = _peak_anew()
        dist.barrier()
        begin = time.monotonic()
        tensors = self.way.load(version)
        seconds = time.monotonic() - begin
        memory = max(0, _memory("VmHWM") - before)
        self.details["load"] = self.way.details()
        assert states.digests(tensors) == self.seen[version - 1], f"version {version} came back changed"
        self.way.close()
        return seconds, memory

    def _unique_bytes(self):
        """Of all workers, in pieces of 4 KiB; short ones at the ends of tensors count as whole ones."""
        every = set()
        for found in _all(list(self.unique)):
            every.update(found)
        return len(every) * states.CHUNK

    def run(self):
        versions = range(1, self.options.writes + 1)
        self.way.open()
        written = [_all(self._write(version)) for version in versions]
        self.way.close()
        dist.barrier()
        stored = _size(self.folder)
        read = [_all(self._read(version)) for version in versions]
        count, state = len(written), sum(_all(self.state.bytes()))
        mean = lambda lists, which, how: sum(how(one[which] for one in line) for line in lists) / count
        return {"blocked": mean(written, 0, max), "durable": mean(written, 1, max), "load": mean(read, 0, max),
                "memory_saving": max(sum(one[2] for one in line) for line in written),
                "memory_loading": max(sum(one[1] for one in line) for line in read),
                "state": state, "stored": stored, "unique": self._unique_bytes(), "writes": count, "verified": count,
                "details": self.details,
                "durable_each": [max(one[1] for one in line) for line in written],
                "load_each": [max(one[0] for one in line) for line in read]}


def main():
    """worker.py OPTIONS, in JSON: all cases and ways. The first worker prints a line of JSON for each."""
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")  # of torch, about itself
    options = argparse.Namespace(**json.loads(sys.argv[1]))
    ways.Varve.settings = dict(text.split("=", 1) for text in options.setting)
    data = os.path.join(options.folder, "data")
    dist.init_process_group("gloo")
    for case in options.cases:
        for way in options.ways:
            dist.barrier()
            if dist.get_rank() == 0:
                shutil.rmtree(data, ignore_errors=True)
                os.makedirs(data)
            dist.barrier()
            result = Worker(options, case, way).run()
            if dist.get_rank() == 0:
                print(json.dumps({"case": case, "way": way, **result}), flush=True)
            faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(data, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
