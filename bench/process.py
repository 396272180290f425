#!/usr/bin/env python3
"""Processes that nobody changed: `varve dump` beside `criu dump` and what compresses its images.

    process.py [--processes 1,2,4,8] [--versions 5] [--mib 128] [--repeat 3] [--varve V] [--criu C] [--check]
               [--json] FOLDER

Each process is Python with NumPy and has --mib MiB: half is a table that all of them share by chance (each has made its
own), a quarter is a smooth field that changes everywhere between two versions, a quarter is random numbers of which a
tenth is new in each version. They are stopped while they are dumped, so that all ways see the same memory: the pages of
`criu dump` and of `varve undump --to` must be equal, byte for byte.

Bytes are those of all versions so far:

  criu                 images as `criu dump` writes them
  + gzip, lz4, zstd    images of a version one behind the other through `gzip`, `lz4 -1` (as criu-image-streamer is used),
                       `zstd`
  tar | zstd --long    images of a version in one archive, with a window of 128 MiB
  all | zstd --long    images of all versions so far in one archive, with a window of 2 GiB: none can be had alone
  varve                all files of the store; and of one with VARVE_CODEC=size, which compresses whatever it costs

Two programs run on while they are dumped twice, a second apart: Python that sleeps, and Python that replaces random
numbers. "new pages" are pages of the second images that are nowhere in the first; VARVE_CODEC=none stores them as they
are, so that nothing else can hide behind their compression.

Seconds are the median of --repeat dumps of the same memory: `criu dump` until each file and the folder are durable,
`varve dump` into a new store, and into one that has the version before. "stopped" is the time for which criu, by its own
count, kept the processes frozen. Needs root, and a FOLDER on the disk that is meant. --check fails where a bound below
is missed.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"
PROGRAM = """
import os, signal, sys
import numpy as np
path, processes, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
number = 0
for one in range(1, processes):
    if os.fork() == 0:
        number = one
        break
told = os.open("%s-%d" % (path, number), os.O_WRONLY | os.O_CREAT)
count = mib * 131072
table = np.random.default_rng(0).random(count // 2)
field = np.sin(np.arange(count // 4) * 1e-4 + number)
events = np.random.default_rng(1 + number).random(count // 4)
new = np.random.default_rng(1000 + number)
version = 0
while True:
    os.pwrite(told, b"%12d %12d\\n" % (os.getpid(), version), 0)
    signal.sigwait({signal.SIGUSR1})
    version += 1
    np.multiply(field, 0.999, out=field)
    field += 1e-6 * version
    tenth = len(events) // 10
    at = version % 10 * tenth
    events[at:at + tenth] = new.random(tenth)
"""
COMPRESSED = {"+ gzip": "cat * | gzip", "+ lz4": "cat * | lz4 -q -1", "+ zstd": "cat * | zstd -q",
              "tar | zstd --long": "tar c . | zstd -q --long=27"}
ALL = "all | zstd --long"
SMALL = "varve, codec=size"
RUNNING = {"idle": "time.sleep(1)",
           "computing": "at = (at + 20_000) % (len(x) - 80_000); x[at:at + 80_000] = new.random(80_000); time.sleep(0.01)"}
RUNS = """
import sys, time
import numpy as np
new = np.random.default_rng(1)
x, at = new.random(int(sys.argv[1]) * 131072), 0
open(sys.argv[2], "w").close()
while True:
    """
BOUNDS = {"idle, second / first": 0.02, "computing, stored / new pages": 1.05, "first / criu": 1.5, "later / criu": 1.1,
          "first, stopped / criu": 1.1, "later, stopped / criu": 1.1, "bytes / smallest other way": 1.0}
WAYS = ("criu", *COMPRESSED, ALL, "varve", SMALL)
MIB = 1 << 20


def fail(text):
    raise SystemExit("FAILED: " + text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--processes", default="1,2,4,8")
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--varve", default="varve")
    parser.add_argument("--criu", default="criu")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


# ---- the processes ----


class Processes:
    def __init__(self, folder, count, mib):
        self.path, self.count = folder / "told", count
        nothing = subprocess.DEVNULL
        one = min(os.sched_getaffinity(0))  # Linux writes the number of its processor into each thread's memory (rseq)
        self.root = subprocess.Popen([PYTHON, "-c", PROGRAM, str(self.path), str(count), str(mib)], stdin=nothing,
                                     stdout=nothing, stderr=nothing, start_new_session=True,
                                     preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.wait_for(0)

    def told(self):
        """Each process's id and version."""
        texts = [pathlib.Path("%s-%d" % (self.path, number)) for number in range(self.count)]
        return [tuple(map(int, text.read_text().split())) for text in texts if text.exists() and text.stat().st_size]

    def wait_for(self, version):
        end = time.monotonic() + 120
        while [one[1] for one in self.told()] != [version] * self.count:
            if time.monotonic() > end or self.root.poll() is not None:
                fail("the processes do not come to version %d: %s" % (version, self.told()))
            time.sleep(0.01)
        time.sleep(0.05)  # until they wait
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for pid, _ in self.told():
            os.kill(pid, number)

    def next(self, version):
        self.signal(signal.SIGUSR1)
        self.signal(signal.SIGCONT)
        self.wait_for(version)

    def end(self):
        os.killpg(self.root.pid, signal.SIGKILL)
        self.root.wait()


# ---- the ways ----


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def frozen_seconds(path):
    """From criu's statistics: two magics, a length, and in field 1 a message whose second number it is."""
    data = path.read_bytes()
    at = 12
    key, at = varint(data, at)
    size, at = varint(data, at)
    end = at + size
    while key >> 3 == 1 and at < end:
        field, at = varint(data, at)
        value, at = varint(data, at)
        if field >> 3 == 2:
            return value / 1e6
    return fail("%s has no frozen time" % path)


def sync(folder):
    for path in [*folder.iterdir(), folder]:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def renew(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    return done.stdout if done.returncode == 0 else fail("%s: %s" % (" ".join(map(str, command)), done.stderr))


def criu_dump(options, processes, folder):
    """Seconds until it is durable, and for which they were frozen."""
    begun = time.perf_counter()
    run([options.criu, "dump", "-t", str(processes.root.pid), "-D", folder, "--leave-running", "-o", "log"])
    sync(folder)
    seconds = time.perf_counter() - begun
    frozen = frozen_seconds(folder / "stats-dump")
    (folder / "log").unlink()
    (folder / "stats-dump").unlink()
    return seconds, frozen


def varve_dump(options, processes, store, **environment):
    work = renew(options.folder / "work")
    begun = time.perf_counter()
    run([options.varve, "dump", store, "p", "--pid", str(processes.root.pid), "--criu", options.criu, "--", "-W", work],
        **environment)
    seconds = time.perf_counter() - begun
    return seconds, frozen_seconds(work / "stats-dump")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def compressed(folder, command):
    with subprocess.Popen(["sh", "-c", command], cwd=folder, stdout=subprocess.PIPE) as running:
        size = sum(len(part) for part in iter(lambda: running.stdout.read(MIB), b""))
    return size if running.returncode == 0 else fail(command)


def compare(options, store, version, images):
    """What comes back has the same pages as criu's own dump; other images have times and numbers of their own."""
    back = renew(options.folder / "back")
    run([options.varve, "undump", store, "p@%d" % version, "--to", back])
    names = sorted(path.name for path in images.iterdir())
    if sorted(path.name for path in back.iterdir()) != names:
        fail("varve and criu have other images: %s" % names)
    equal = [name for name in names if (images / name).read_bytes() == (back / name).read_bytes()]
    different = [name for name in names if name.startswith("pages") and name not in equal]
    if different:
        fail("version %d: other pages in %s" % (version, different))
    shutil.rmtree(back)
    return len(equal), len(names)


# ---- programs that run on ----


def stored_by(options, pid, store):
    before = size_of(store) if store.exists() else 0
    run([options.varve, "dump", store, "p", "--pid", str(pid), "--criu", options.criu], VARVE_CODEC="none")
    return size_of(store) - before


def pages_of(options, store, version):
    back = renew(options.folder / "back")
    run([options.varve, "undump", store, "p@%d" % version, "--to", back])
    data = b"".join(path.read_bytes() for path in sorted(back.glob("pages-*.img")))
    shutil.rmtree(back)
    return {data[at:at + 4096] for at in range(0, len(data), 4096)} - {bytes(4096)}


def measure_running(options, what):
    """Bytes that the two dumps have stored, and of pages that are new in the second."""
    folder, nothing = renew(options.folder / "run"), subprocess.DEVNULL
    ready, store = folder / "ready", folder / "ck"
    program = subprocess.Popen([PYTHON, "-c", RUNS + RUNNING[what], str(options.mib), ready], stdin=nothing, stdout=nothing,
                               stderr=nothing, start_new_session=True)
    try:
        while not ready.exists():
            time.sleep(0.1)
        first = stored_by(options, program.pid, store)
        time.sleep(1)
        second = stored_by(options, program.pid, store)
    finally:
        program.kill()
        program.wait()
    new = len(pages_of(options, store, 1) - pages_of(options, store, 0)) * 4096
    shutil.rmtree(folder)
    return first, second, new


def report_running(options):
    """The figures that have bounds."""
    taken = {what: measure_running(options, what) for what in RUNNING}
    if options.json:
        print(json.dumps({"running": taken, "mib": options.mib}), flush=True)
    else:
        print("\nPrograms of %d MiB that run on; MiB\n%-20s%10s%10s%10s" % (options.mib, "", "first", "second", "new pages"))
        for what, sizes in taken.items():
            print("%-20s" % what + "".join("%10.2f" % (size / MIB) for size in sizes), flush=True)
    first, second, _ = taken["idle"]
    yield "idle, second / first", second / first
    _, second, new = taken["computing"]
    yield "computing, stored / new pages", second / new


# ---- the table ----


def measure(options, count):
    folder = renew(options.folder / "run")
    store, small, kept = folder / "ck", folder / "small", folder / "images"
    processes = Processes(folder, count, options.mib)
    bytes_of = {way: [] for way in WAYS}
    times = {"criu": [], "varve, first": [], "varve, later": [], SMALL: []}
    equal = []
    try:
        for version in range(options.versions):
            if version:
                processes.next(version)
            if version == 0:
                times["varve, first"] += [varve_dump(options, processes, folder / ("first%d" % turn))
                                          for turn in range(options.repeat)]
            before = folder / "before"
            for _ in range(options.repeat - 1 if version else 0):
                shutil.copytree(store, before)
                times["varve, later"].append(varve_dump(options, processes, before))
                shutil.rmtree(before)
            taken = varve_dump(options, processes, store)
            times["varve, later" if version else "varve, first"].append(taken)
            times[SMALL].append(varve_dump(options, processes, small, VARVE_CODEC="size"))
            for _ in range(options.repeat):
                images = renew(kept / str(version))
                times["criu"].append(criu_dump(options, processes, images))
            compare(options, small, version, images)
            equal.append(compare(options, store, version, images))
            now = {"criu": size_of(images), **{way: compressed(images, text) for way, text in COMPRESSED.items()}}
            for way, size in now.items():
                bytes_of[way].append(size + (bytes_of[way][-1] if version else 0))
            bytes_of[ALL].append(compressed(kept, "tar c . | zstd -q --long=31"))
            bytes_of["varve"].append(size_of(store))
            bytes_of[SMALL].append(size_of(small))
    finally:
        processes.end()
    shutil.rmtree(folder)
    return bytes_of, times, equal


def ratios(bytes_of, times):
    """The figures that have bounds."""
    middle = {way: [statistics.median(column) for column in zip(*taken)] for way, taken in times.items() if taken}
    for which in ("first", "later"):
        for name, column in ((which, 0), (which + ", stopped", 1)):
            if "varve, " + which in middle:
                yield name + " / criu", middle["varve, " + which][column] / middle["criu"][column]
    others = [sizes[-1] for way, sizes in bytes_of.items() if not way.startswith("varve")]
    yield "bytes / smallest other way", bytes_of["varve"][-1] / min(others)


def compare_with_bounds(options, name, found):
    """How many bounds are missed."""
    missed = 0
    for what, ratio in found:
        is_missed = ratio > BOUNDS[what]
        missed += is_missed
        if options.check:
            print("%s: %s: %.3f, bound %.2f%s" % (name, what, ratio, BOUNDS[what], ": MISSED" if is_missed else ""),
                  file=sys.stderr, flush=True)
    return missed


def report(options, count, bytes_of, times, equal):
    if options.json:
        print(json.dumps({"processes": count, "mib": options.mib, "bytes": bytes_of, "seconds": times, "equal": equal}))
        return
    print("\n%d processes of %d MiB; MiB of all versions so far" % (count, options.mib))
    print("%-20s" % "" + "".join("%10s" % ("1 to %d" % (n + 1)) for n in range(options.versions)) + "%16s" % "of criu's")
    for way, sizes in bytes_of.items():
        print("%-20s" % way + "".join("%10.1f" % (size / MIB) for size in sizes)
              + "%15.1f%%" % (100 * sizes[-1] / bytes_of["criu"][-1]))
    print("%-20s%10s%10s" % ("seconds", "durable", "stopped"))
    for way, taken in times.items():
        if taken:
            print("%-20s%10.3f%10.3f" % (way, *(statistics.median(column) for column in zip(*taken))))
    print("pages equal in all versions; all images equal: %s" % ", ".join("%d of %d" % one for one in equal), flush=True)


def main():
    options = arguments()
    if os.getuid():
        fail("needs root")
    options.folder = options.folder.resolve()
    missed = compare_with_bounds(options, "running", report_running(options))
    for count in map(int, options.processes.split(",")):
        bytes_of, times, equal = measure(options, count)
        report(options, count, bytes_of, times, equal)
        missed += compare_with_bounds(options, "%d processes" % count, ratios(bytes_of, times))
    shutil.rmtree(options.folder / "work", ignore_errors=True)
    return options.check and missed > 0


sys.exit(int(main()))
