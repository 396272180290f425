#!/usr/bin/env python3
"""segments.py [PID...]: what the memory of running processes takes in a store, by kind of mapping. Each is dumped twice, half
a second apart, with codec=size; it runs on. VARVE and CRIU name the programs. Needs root. Without a
PID it starts three programs of its own, and ends them.

The second table tells what the second dump would store, before it is compressed, if it looked for what is new by pages, as
it does; by chunks of 128 bytes within those; or by chunks that are cut by content, of 4 KiB in the middle. CUT_LENGTHS names
the test program cut-lengths, which cuts; without it that column is empty."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

VARVE, CRIU = os.environ.get("VARVE", "varve"), os.environ.get("CRIU", "criu")
CUT_LENGTHS = os.environ.get("CUT_LENGTHS")
PAGE, FINE = 4096, 128
PROGRAMS = {
    "array": ["/usr/bin/python3", "-c", """
import numpy, time
a, i = numpy.random.default_rng(1).random(4_000_000), 0
while True:
    i += 1
    a[i % 1000::1000] += 1
    time.sleep(0.001)"""],
    "objects": ["/usr/bin/python3", "-c", """
import time
class Thing: pass
things, i = [Thing() for _ in range(100000)], 0
for thing in things:
    thing.x, thing.y = 0, [0]
while True:
    i += 1
    thing = things[i * 7919 % 100000]
    thing.x = i
    thing.y.append(i) if len(thing.y) < 4 else thing.y.clear()
    time.sleep(0.0005)"""],
    "texts": ["perl", "-e", """
my ($i, %texts) = 0; $texts{"key$_"} = "text $_ of many" for 1..200000;
while (1) { $i++; $texts{"key" . ($i % 200000)} = "changed $i"; select(undef, undef, undef, 0.001); }"""],
}


def run(*words):
    return subprocess.run(words, check=True, env=dict(os.environ, VARVE_CODEC="size"), capture_output=True, text=True).stdout


def dump(store, pid):
    return json.loads(run(VARVE, "dump", "--json", store, "p", "--pid", pid, "--criu", CRIU).splitlines()[-1])


def regions(store, version):
    """(kind, what show says of it) of each region."""
    for region in map(json.loads, run(VARVE, "show", "--json", store, "p@%d" % version).splitlines()):
        if region["message_type"] == "region":
            match = re.search(r":(\w+)@", region["region"])
            yield match.group(1) if match else "small ones", region


def stored(store):
    found = collections.defaultdict(collections.Counter)
    for kind, region in regions(store, 0):
        found[kind].update({name: region[name] for name in ("bytes", "bytes_zero", "bytes_blocks")})
    return found


def memory(store, version, path):
    """The bytes of all mappings of each kind."""
    found = collections.defaultdict(bytes)
    for kind, region in regions(store, version):
        if kind != "small ones":
            run(VARVE, "restore", store, "p@%d" % version, region["region"], "--rank", "0", "-o", path, "--force")
            with open(path, "rb") as file:
                found[kind] += file.read()
    return found


def pieces(data, lengths):
    at = 0
    for length in lengths:
        yield data[at:at + length]
        at += length


def even(data, size):
    return {data[i:i + size] for i in range(0, len(data), size)} | {bytes(size)}


def by_content(data, path):
    with open(path, "wb") as file:
        file.write(data)
    return {piece for piece in pieces(data, map(int, run(CUT_LENGTHS, path, "4096", "4096").split())) if any(piece)}


def ways(old, new, path):
    """Bytes that are new by pages, by fine chunks in those, and by content."""
    pages = even(new, PAGE) - even(old, PAGE)
    fine = {chunk for page in pages for chunk in even(page, FINE)} - even(old, FINE)
    cut = by_content(new, path) - by_content(old, path) if CUT_LENGTHS else []
    return len(pages) * PAGE, len(fine) * FINE, sum(map(len, cut))


def look(name, pid, folder):
    """The lines of both tables."""
    store, path = os.path.join(folder, "ck"), os.path.join(folder, "region")
    os.mkdir(folder)
    dump(store, pid)
    time.sleep(0.5)
    again = dump(store, pid)
    first = ["| %s | %s | %d | %d | %d |" % (name, kind, sums["bytes"] >> 10, sums["bytes_zero"] >> 10,
                                             sums["bytes_blocks"] >> 10) for kind, sums in sorted(stored(store).items())]
    first.append("| %s | all, 0.5 s later | %d | | %d |" % (name, again["bytes"] >> 10, again["bytes_stored"] >> 10))
    old, new = memory(store, 0, path), memory(store, 1, path)
    second = ["| %s | %s | %d | %s |" % (name, kind, len(new[kind]) >> 10,
                                         " | ".join(str(size >> 10) for size in ways(old[kind], new[kind], path)))
              for kind in sorted(new)]
    return first, second


def start(words):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)


def command(pid):
    with open("/proc/%s/comm" % pid) as file:
        return file.read().strip()


def main(pids):
    first, second = [], []
    started = {} if pids else {name: start(words) for name, words in PROGRAMS.items()}
    time.sleep(5 if started else 0)
    folder = tempfile.mkdtemp(prefix="varve-segments.")
    try:
        for name, pid in [(command(pid), pid) for pid in pids] or [(name, str(p.pid)) for name, p in started.items()]:
            lines = look(name, pid, os.path.join(folder, pid))
            first += lines[0]
            second += lines[1]
    finally:
        shutil.rmtree(folder)
        for process in started.values():
            process.kill()
    print("\n".join(["| process | kind | KiB | zero | stored |", "|---|---|---|---|---|"] + first))
    print("\n".join(["", "| process | kind | KiB | new pages | chunks of 128 bytes | by content |",
                     "|---|---|---|---|---|---|"] + second))


main(sys.argv[1:])
