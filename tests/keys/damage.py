#!/usr/bin/env python3
"""Damage to an encrypted store: damage.py VARVE MAKE_STORE POINTS

A bit that flips, an end that is cut off or added, or two objects that are exchanged, at random places of random objects. `varve
verify` must find each of them, and a restore must give the right bytes or fail. Prints its seed; SEED in the environment repeats it."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

VARVE, MAKE_STORE, POINTS = sys.argv[1], sys.argv[2], int(sys.argv[3])
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
ENV = {**os.environ, "VARVE_ENCRYPT": "on", "VARVE_KEY": "env:SEALED_KEY", "SEALED_KEY": "%064d" % 1}
CORRUPT = 20


def run(*command):
    return subprocess.run(command, env=ENV, capture_output=True, text=True)


def flip(rng, path, _):
    data = bytearray(path.read_bytes())
    bit = rng.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return f"bit {bit}"


def cut(rng, path, _):
    length = rng.randrange(path.stat().st_size)
    os.truncate(path, length)
    return f"cut to {length}"


def add(rng, path, _):
    more = rng.choice([1, 16, 65552])
    path.write_bytes(path.read_bytes() + bytes(more))
    return f"{more} bytes more"


def exchange(rng, path, others):
    other = rng.choice([one for one in others if one != path])
    path.write_bytes(other.read_bytes())
    return f"now {other}"


def restore_is_right(store, wanted, version, region, out):
    out.unlink(missing_ok=True)
    done = run(VARVE, "restore", str(store), f"heat@{version}", region, "-o", str(out))
    return done.returncode != 0 or out.read_bytes() == (wanted / f"{version}.{region}").read_bytes()


def try_one(rng, folder, number):
    store, wanted = folder / "damaged", folder / "wanted"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(folder / "store", store)
    objects = sorted(path for path in store.rglob("*")
                     if path.is_file() and path.relative_to(store).parts[0] in ("n", "varve", "keys"))
    path = rng.choice(objects)
    what = f"point {number}: {path.relative_to(store)}: {rng.choice([flip, flip, cut, add, exchange])(rng, path, objects)}"
    done = run(VARVE, "verify", str(store))
    assert done.returncode == CORRUPT, f"{what}: verify ends with {done.returncode}: {done.stdout}{done.stderr}"
    assert str(path.relative_to(store)) in done.stdout + done.stderr, f"{what}: not named: {done.stdout}{done.stderr}"
    for version in (100, 300):
        assert restore_is_right(store, wanted, version, "temperature", folder / "out"), f"{what}: wrong bytes in {version}"


def main():
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "wanted").mkdir()
        made = run(MAKE_STORE, str(folder / "store"), str(folder / "wanted"))
        assert made.returncode == 0, made.stderr
        assert run(VARVE, "verify", str(folder / "store")).returncode == 0
        for number in range(POINTS):
            try_one(rng, folder, number)
    print(f"{POINTS} points")


main()
