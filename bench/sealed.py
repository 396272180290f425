#!/usr/bin/env python3
"""What encryption costs: bench-field on all-new data with and without encrypt=on, by turns.

    sealed.py [--turns N] [--check] BENCH_FIELD FOLDER [OPTION of bench-field...]

Prints one line of JSON: medians of the seconds until a checkpoint is durable, of a restart, and of processor time, and the ratios.
With --check it fails if durable takes more than 1.15 of what it takes without encryption."""
import argparse
import json
import os
import statistics
import subprocess
import sys

BOUND = 1.15
FIELDS = ("seconds_durable", "seconds_cpu", "seconds_restart", "seconds_bare")


def run(args, settings):
    env = {**os.environ, "SEALED_KEY": "%064d" % 1}
    command = [args.bench, "--json", "--mode", "unique-none", *settings, *args.options, args.folder]
    out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("bench")
    parser.add_argument("folder")
    args, args.options = parser.parse_known_args()
    plain, sealed = [], []
    for _ in range(args.turns):
        plain.append(run(args, []))
        sealed.append(run(args, ["--settings", "encrypt=on,key=env:SEALED_KEY"]))
    line = {"bench": "sealed", "turns": args.turns, "bytes": plain[0]["bytes"]}
    for field in FIELDS:
        without, with_it = (statistics.median(one[field] for one in runs) for runs in (plain, sealed))
        line |= {field: without, field + "_sealed": with_it, field.replace("seconds", "ratio"): round(with_it / without, 3)}
    print(json.dumps(line))
    return int(args.check and line["ratio_durable"] > BOUND)


sys.exit(main())
