"""Killed in the middle, and the result is the same to the last bit."""
import random
import signal
import subprocess
import sys
import time

import numpy as np
from conftest import ROOT, scale

import varve

HEAT = ROOT / "examples" / "heat.py"
SIZES = ["--rows", "128", "--columns", "256", "--steps", "60", "--every", "4"]


def has_checkpoint(store):
    try:
        return any(varve.Store(store))
    except varve.Error:  # there is no store yet, or it is being made
        return False


def kill_somewhere(command, store, seconds, lines):
    """Start it, and kill it with SIGKILL after so long; the first time, when it has saved something."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not has_checkpoint(store) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), err
    lines += out.splitlines()
    return process.returncode == 0


def test_heat_killed(ck, tmp_path, run):
    run(HEAT, *SIZES, "--out", tmp_path / "quiet.npy", ck + "-quiet")
    chance = random.Random(5)
    command = [sys.executable, str(HEAT), *SIZES, "--delay", "0.02", "--out", str(tmp_path / "killed.npy"), ck]
    lines = []
    kills = 0
    for _ in range(scale(12, 4)):
        if kill_somewhere(command, ck, chance.random() * 1.2, lines):
            break
        kills += 1
    done = run(HEAT, *SIZES, "--out", tmp_path / "killed.npy", ck)
    lines += done.stdout.splitlines()
    assert kills > 0 and any(line.startswith("restarted from step") for line in lines), lines
    quiet, killed = np.load(tmp_path / "quiet.npy"), np.load(tmp_path / "killed.npy")
    assert quiet.tobytes() == killed.tobytes()
    with varve.Store(ck) as store:
        assert [f for f in store.verify() if f.level < 2] == []
        assert store["heat"].latest["temperature"][...].tobytes() == quiet.tobytes()


COUNT = """
import sys, numpy, varve
a = numpy.zeros(100000)
with varve.open(sys.argv[1], "count") as s:
    s.protect("a", a)
    step = s.restart() or 0
    print(step, flush=True)
    while True:
        step += 1
        a += step                       # every element is the same, in every step
        s.checkpoint(step, wait=True)
        print(step, flush=True)
"""


def test_waited_for_is_there(ck):
    """What wait() has promised is there after SIGKILL at any moment, whole."""
    chance = random.Random(7)
    promised = 0
    for _ in range(scale(15, 5)):
        process = subprocess.Popen([sys.executable, "-c", COUNT, ck], stdout=subprocess.PIPE, text=True)
        assert int(process.stdout.readline()) >= promised
        time.sleep(chance.random() * 0.4)
        process.kill()
        lines = process.communicate(timeout=60)[0].splitlines()
        promised = max([promised] + [int(line) for line in lines if line.strip()])
        if promised:
            newest = varve.Store(ck)["count"].latest
            assert newest.version >= promised
            value = newest["a"][...]
            assert (value == newest.version * (newest.version + 1) // 2).all()
    assert promised > 0
