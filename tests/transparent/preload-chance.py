#!/usr/bin/env python3
"""A program that allocates by chance is killed and started again, many times: every byte that comes back is right, or
the restart is refused. A run as the first one is never refused.

    preload-chance.py VARVE PROGRAM RESTARTS [SEED]"""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

varve, program = sys.argv[1:3]
restarts = max(12, int(sys.argv[3]) * int(os.environ.get("TEST_SCALE", "100")) // 100)
base = int(sys.argv[4]) if len(sys.argv) > 4 else 1
chance = random.Random(base)
folder = tempfile.mkdtemp(prefix="varve-chance-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
RIGHT, REFUSED = 0, 4


def run(store, seed, kill_at, twist):
    done = subprocess.run([varve, "run", "--", program, store, str(seed), str(kill_at), str(twist)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
    return done.returncode, done.stderr


def one(number):
    seed, kill_at = chance.randrange(1 << 60), chance.randrange(1, 7)
    first = 5 if number % 8 == 0 else 0
    twist = 0 if first or number % 2 else chance.choice([1, 2, 3, 4, 6])
    store = os.path.join(folder, "store")
    code, text = run(store, seed, kill_at, first)
    wrong = f"seed {seed}, killed at {kill_at}, twists {first} and {twist}: "
    if code != -signal.SIGKILL:
        return wrong + f"the first run ended with {code}: {text}"
    code, text = run(store, seed, -1, twist)
    expected = REFUSED if first or twist else RIGHT  # with 5 the checkpoint itself holds a block too many
    if code != expected:
        return wrong + f"the second run ended with {code}, not {expected}: {text}"
    if code == RIGHT and "begins at 0\n" in text:
        return wrong + "nothing came back"
    counts[code] = counts.get(code, 0) + 1
    shutil.rmtree(store)
    return None


counts = {}
try:
    for number in range(restarts):
        wrong = one(number)
        if wrong:
            print(wrong)
            sys.exit(1)
finally:
    shutil.rmtree(folder, ignore_errors=True)
print(f"preload-chance: {restarts} points, restarts with seed {base}: {counts.get(RIGHT, 0)} right in every byte, {counts.get(REFUSED, 0)} refused, 0 wrong")
