#!/usr/bin/env python3
"""A checkpoint in a bucket of a real S3 server, beside the same bytes put by libcurl alone, and beside a folder.

    sudo bash tests/s3/with-radosgw.sh DIR python3 bench/bucket.py [--size MIB] [--steps N] [--rounds N] BENCH_PUT FOLDER

Ceph and its S3 server run on this machine, and keep their objects in memory, 2 GiB at most: what was removed stays there
for hours. By turns, each in a process of its own:

  put      bench-put: one object of MIB (96) of noise, in parts of 8 MiB, eight at a time
  bucket   a program that saves MIB of noise, all new in each of N (3) steps, into the bucket; keep=2
  folder   the same into a folder on FOLDER

The JSON object has medians of all steps but the first of each round: `put`, and of both programs `safe`, seconds from
the call of varve_checkpoint until it is durable, and `blocked`, inside of the call; then ratios. `objects` are new
objects of a checkpoint in the bucket. `requests` are those of a step, by method, as the
server has logged them; `usd_per_gb` what these cost for each GB stored at the prices below. LIBVARVE names the folder of
libvarve.so."""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# Amazon S3 Standard, us-east-1, US dollars for 1,000 requests. DELETE is free.
PRICES = {"PUT": 0.005, "POST": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
LINE = re.compile(r'"([A-Z]+) (/bkt\S*) HTTP/1.1" (\d+)')


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("--size", 96), ("--steps", 3), ("--rounds", 2)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("bench_put")
    parser.add_argument("folder")
    return parser.parse_args()


# ---- the program ----

def child(args):
    sys.path.insert(0, str(HERE.parent / "python"))
    import numpy as np
    import varve
    memory, rng = np.zeros(args.size << 17, dtype=np.uint64), np.random.default_rng()
    steps = []
    with varve.open(args.child, "job", keep=2) as session:
        session.protect("memory", memory)
        for step in range(args.steps):
            memory[:] = rng.integers(0, 1 << 63, memory.size, dtype=np.uint64)
            begun = time.time()
            called = time.perf_counter()
            session.checkpoint(step)
            returned = time.perf_counter()
            session.wait()
            steps.append({"blocked": returned - called, "safe": time.perf_counter() - called, "begun": begun, "ended": time.time()})
    print(json.dumps(steps[1:]))


# ---- the measurement ----

def run(args, store):
    command = [sys.executable, __file__, "--child", store, "--size", str(args.size), "--steps", str(args.steps), args.bench_put,
               args.folder]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def put(args):
    command = [args.bench_put, "--size", f"{args.size}M", "--rounds", str(args.steps), "bkt", "bare"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return [float(seconds) for seconds in lines[1:]]


def count_requests(log, since):
    """Those of the server's log from this offset on."""
    counts = collections.Counter()
    with open(log, errors="replace") as file:
        file.seek(since)
        for method, target, status in LINE.findall(file.read()):
            is_list = method == "GET" and "list-type" in target
            counts["LIST" if is_list else method] += 1
            if status == "200" and (method == "PUT" and "partNumber" not in target or method == "POST" and "uploadId" in target):
                counts["objects"] += 1
    return counts


def main():
    args = read_arguments()
    if args.child:
        child(args)
        return 0
    log = pathlib.Path(os.environ["CEPH_DIR"]) / "log" / "rgw.log"
    folder = pathlib.Path(args.folder) / "bucket-folder"
    puts, steps, counts = [], {"bucket": [], "folder": []}, collections.Counter()
    for turn in range(args.rounds):
        puts += put(args)
        since = log.stat().st_size
        steps["bucket"] += run(args, f"s3://bkt/turn{turn}")
        time.sleep(1)  # for the log
        counts += count_requests(log, since)
        shutil.rmtree(folder, ignore_errors=True)
        steps["folder"] += run(args, str(folder))
    saves = args.rounds * args.steps
    line = {"bench": "bucket", "mib": args.size, "steps": args.steps, "rounds": args.rounds, "load": os.getloadavg()[0],
            "put": round(statistics.median(puts), 3)}
    for place in steps:
        for name in ("safe", "blocked"):
            line[f"{name}_{place}"] = round(statistics.median(step[name] for step in steps[place]), 4)
    line["safe_over_put"] = round(line["safe_bucket"] / line["put"], 3)
    line["blocked_over_folder"] = round(line["blocked_bucket"] / line["blocked_folder"], 3)
    line["objects"] = round(counts.pop("objects") / saves, 2)
    line["requests"] = {method: round(count / saves, 2) for method, count in sorted(counts.items())}
    price = sum(PRICES.get(method, 0) / 1000 * count for method, count in counts.items())
    line["usd_per_gb"] = round(price / (saves * args.size * 2**20 / 1e9), 6)
    print(json.dumps(line))
    return 0


sys.exit(main())
