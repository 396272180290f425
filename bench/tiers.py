#!/usr/bin/env python3
"""What further tiers cost the program, and how soon they give back what the first one has lost.

    tiers.py [--size MIB] [--steps N] [--rounds N] [--first FOLDER] [--check] FOLDER

A program of one process rewrites a tenth of the pages of MIB (256) with noise, computes, and saves: its first tier is
in --first (FOLDER, unless told), the second one in FOLDER. By turns, each in a process of its own:

  alone    without further tiers
  tier     with the second tier
  slow     with a second tier of 10 MB/s, for which the program does not wait at its end (tiers_seconds=0)

The JSON object has medians of all steps but the first of each round, in seconds: `blocked`, inside of varve_checkpoint;
`safe`, from its call until the first tier has the checkpoint, with the program waiting; `step`, computing beside the
copies. Then what the slow tier was told of: checkpoints that were passed over, and whether log lines named that and
what was left.

At last the first tier is removed and all is dropped from the page cache: `back` is the seconds of varve_open, which
copies the newest checkpoint back, `restart` those of varve_restart after it, and `copy` a cold read of as many bytes
from a file in FOLDER into a new one beside the first tier, with fsync. Before that, while both tiers are whole, the
program restarts from the page cache, five times by turns without the second tier and with it: `nearest_alone` and
`nearest_tier` are the seconds of varve_open and varve_restart together, medians of all rounds. --check fails if blocked
or nearest takes more than 1.10 of alone, or the slow tier was not told. LIBVARVE names the folder of libvarve.so. Wants a quiet machine."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BOUND = 1.10
CASES = {"alone": {}, "tier": {"tiers": "{second}"}, "slow": {"tiers": "{second}?limit=10MB", "tiers_seconds": 0}}

OF = {"back": "tier", "nearest_tier": "tier", "nearest_alone": "alone"}  # programs that restart


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("--size", 256), ("--steps", 8), ("--rounds", 3)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--first")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("folder")
    args = parser.parse_args()
    args.first = pathlib.Path(args.first or args.folder) / "tiers-first"
    args.second = pathlib.Path(args.folder) / "tiers-second"
    return args


# ---- the program ----

def compute(field):
    for _ in range(8):
        field[1:-1] = (field[:-2] + field[1:-1] + field[2:]) / 3


def save_steps(args, session, memory):
    import numpy as np
    pages, rng, field = memory.reshape(-1, 512), np.random.default_rng(1), np.random.default_rng(2).random(1 << 22)
    times = {"blocked": [], "safe": [], "step": []}
    pages[:] = rng.integers(0, 1 << 63, pages.shape)
    for step in range(args.steps):
        begun = time.perf_counter()
        compute(field)
        computed = time.perf_counter()
        changed = rng.choice(len(pages), len(pages) // 10, replace=False)
        pages[changed] = rng.integers(0, 1 << 63, (len(changed), 512))
        called = time.perf_counter()
        session.checkpoint(step)
        returned = time.perf_counter()
        session.wait()
        safe = time.perf_counter()
        if step > 0:
            for name, seconds in (("step", computed - begun), ("blocked", returned - called), ("safe", safe - called)):
                times[name].append(seconds)
    return times


def child(args):
    sys.path.insert(0, str(HERE.parent / "python"))
    import numpy as np
    import varve
    lines, memory = [], np.zeros(args.size << 17, dtype=np.int64)
    settings = {name: value.format(second=args.second) if isinstance(value, str) else value
                for name, value in CASES[OF.get(args.child, args.child)].items()}
    begun = time.perf_counter()
    session = varve.open(str(args.first), "job", keep=2, log=lambda level, line: lines.append(line), **settings)
    told = {"open": time.perf_counter() - begun}
    session.protect("memory", memory)
    if args.child in OF:
        begun = time.perf_counter()
        assert session.restart() == args.steps - 1
        told |= {"restart": time.perf_counter() - begun, "sum": int(memory.sum())}
    else:
        told |= {**save_steps(args, session, memory), "sum": int(memory.sum())}
    stats = session.stats()
    told |= {name: stats[name] for name in ("tiers_passed", "tiers_failed", "tiers_back")}
    session.close()
    print(json.dumps(told | {"lines": lines}))


# ---- the measurement ----

def run(args, case):
    command = [sys.executable, __file__, "--child", case, "--size", str(args.size), "--steps", str(args.steps),
               "--first", str(args.first.parent), args.folder]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def clear(args):
    for folder in (args.first, args.second):
        shutil.rmtree(folder, ignore_errors=True)


def cool(folder):
    os.sync()
    for path in folder.rglob("*") if folder.is_dir() else [folder]:
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write(path, pieces):
    with open(path, "wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
        os.fsync(file.fileno())


def time_copy(args):
    source, target = args.second.with_name("tiers-source"), args.first.with_name("tiers-target")
    write(source, (os.urandom(1 << 20) for _ in range(args.size)))
    cool(source)
    begun = time.perf_counter()
    with open(source, "rb", buffering=0) as file:
        write(target, iter(lambda: file.read(1 << 20), b""))
    seconds = time.perf_counter() - begun
    source.unlink()
    target.unlink()
    return seconds


def time_back(args):
    """The second tier has what `tier` has saved; the first one is lost."""
    copy = time_copy(args)
    saved = run(args, "tier")
    nearest = {f"nearest_{case}": [] for case in ("alone", "tier")}
    for name in 5 * list(nearest):
        found = run(args, name)
        assert found["tiers_back"] == 0 and found["sum"] == saved["sum"]
        nearest[name].append(found["open"] + found["restart"])
    shutil.rmtree(args.first)
    cool(args.second)
    found = run(args, "back")
    assert found["tiers_back"] == 1 and found["sum"] == saved["sum"]
    clear(args)
    return {"back": found["open"], "restart": found["restart"], "copy": copy, **nearest}


def main():
    args = read_arguments()
    if args.child:
        child(args)
        return 0
    runs, backs = {case: [] for case in CASES}, []
    for _ in range(args.rounds):
        for case in CASES:
            clear(args)
            runs[case].append(run(args, case))
        clear(args)
        backs.append(time_back(args))
    line = {"bench": "tiers", "mib": args.size, "steps": args.steps, "rounds": args.rounds, "load": os.getloadavg()[0]}
    for name in ("blocked", "safe", "step"):
        for case in CASES:
            line[f"{name}_{case}"] = round(statistics.median(seconds for one in runs[case] for seconds in one[name]), 4)
    for case in ("tier", "slow"):
        line[f"blocked_{case}_over_alone"] = round(line[f"blocked_{case}"] / line["blocked_alone"], 3)
    line["slow_passed"] = min(one["tiers_passed"] for one in runs["slow"])
    line["slow_told"] = all(any(words in text for text in one["lines"])
                            for one in runs["slow"] for words in ("cannot keep up", "varve flush"))
    for name in ("back", "restart", "copy"):
        line[name] = round(statistics.median(one[name] for one in backs), 3)
    for name in ("nearest_alone", "nearest_tier"):
        line[name] = round(statistics.median(seconds for one in backs for seconds in one[name]), 4)
    line["nearest_tier_over_alone"] = round(line["nearest_tier"] / line["nearest_alone"], 3)
    line["back_over_copy"] = round(line["back"] / line["copy"], 2)
    print(json.dumps(line))
    ratios = [line[name] for name in line if name.endswith("_over_alone")]
    is_good = line["slow_told"] and all(ratio <= BOUND for ratio in ratios)
    return int(args.check and not is_good)


sys.exit(main())
