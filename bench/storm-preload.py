#!/usr/bin/env python3
"""What `varve run` takes of a program, beside the same program as it is, and beside the same with names.

    storm-preload.py [--rounds 5] [--steps 40] [--every 5] [--size 2048] [--check] VARVE STORM FOLDER

STORM is tests/transparent/preload-storm: a storm in Fortran with five ALLOCATABLE arrays, and several temporary ones in each
step. Without checkpoints it runs as it is, by `varve run` and by `varve run --fixed`; with checkpoints by names, and by
`varve run` without. Medians of runs in turns. --check fails where a bound below is passed.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ADDED = 1.02  # without checkpoints
BYTES = BLOCKED = 1.10  # with checkpoints, beside the same arrays with names

parser = argparse.ArgumentParser()
for name, value in (("rounds", 5), ("steps", 40), ("every", 5), ("size", 2048)):
    parser.add_argument("--" + name, type=int, default=value)
parser.add_argument("--check", action="store_true")
parser.add_argument("varve")
parser.add_argument("storm")
parser.add_argument("folder")
options = parser.parse_args()
WAYS = {  # prefix of the command, steps between two checkpoints, more words
    "as it is": ([], 0, []),
    "varve run": ([options.varve, "run", "--"], 0, []),
    "varve run --fixed": ([options.varve, "run", "--fixed", "--"], 0, []),
    "names": ([], options.every, ["named"]),
    "no names": ([options.varve, "run", "--"], options.every, []),
}


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(prefix, every, more):
    store = pathlib.Path(options.folder, "storm-preload.store")
    shutil.rmtree(store, ignore_errors=True)
    size = str(options.size)
    command = [*prefix, options.storm, str(store), str(options.steps), "-1", size, size, str(every), *more]
    environment = dict(os.environ, VARVE_LOG="error", VARVE_KEEP="3")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(command), done.stderr))
    seconds, blocked = map(float, done.stderr.split()[-2:])
    result = seconds, blocked, bytes_of(store), done.stdout.split()[-1]
    shutil.rmtree(store, ignore_errors=True)
    return result


rows = {way: [] for way in WAYS}
for _ in range(options.rounds):
    for way, how in WAYS.items():
        rows[way].append(run(*how))
if len({row[3] for way in rows for row in rows[way]}) != 1:
    sys.exit("the results differ")
middle = {way: [statistics.median(row[i] for row in rows[way]) for i in range(3)] for way in rows}
for way, (seconds, blocked, stored) in middle.items():
    print("%-18s steps %7.3f s (%.3f to %.3f)   blocked %6.3f s   store %7.1f MiB" % (
        way, seconds, min(row[0] for row in rows[way]), max(row[0] for row in rows[way]), blocked, stored / 2**20))
added = middle["varve run"][0] / middle["as it is"][0]
blocked, stored = (middle["no names"][i] / middle["names"][i] for i in (1, 2))
print("varve run adds %.1f %%; without names %.3f of the time blocked, and %.3f of the bytes" % (
    100 * (added - 1), blocked, stored))
if options.check and (added > ADDED or blocked > BLOCKED or stored > BYTES):
    sys.exit("a bound is passed: %.2f, %.2f, %.2f" % (ADDED, BLOCKED, BYTES))
