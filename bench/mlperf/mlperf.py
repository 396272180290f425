#!/usr/bin/env python3
"""The checkpoints of MLPerf Storage in small, with Varve beside what PyTorch has.

    mlperf.py [--size MIB] [--workers 8] [--writes 10] [--cases LIST] [--ways LIST] [--setting NAME=VALUE]...
              [--json] FOLDER

Workers write checkpoints of together --size MiB, let go of the caches, and read all of them, each worker its own
part. Cases are in state.py, ways in ways.py. Every checkpoint that was read is compared with what was written. Of each
case and way:

    blocked   seconds until the program may go on; the slowest worker, mean of all checkpoints
    durable   seconds until the checkpoint survives the machine's power
    load      seconds to read one
    memory    bytes that all workers took beyond what they had, with Varve's copies of these processes: while saving,
              while loading
    stored    bytes in files, of all checkpoints; unique: different pieces of 4 KiB in them

It needs torch 2.6 (1.13 for all but dcp-1 and dcp-2), numpy, and libvarve (LIBVARVE). Times mean nothing while the
machine does other work. FOLDER/data is written over, and gone at the end.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
MIB = 1 << 20
BYTES_PER_PARAMETER = 14
CASES = "identical", "new", "adam"
WAYS = "files", "torch.save", "dcp-1", "dcp-2", "varve"

# What is wanted of Varve: (case, figure, way that it is beside, at most so much of it).
WANTED = (("new", "durable", "files", 1.1), ("new", "durable", "torch.save", 0.6), ("new", "load", "files", 1.1),
          ("new", "load", "torch.save", 0.6))
WANTED_UNIQUE = 1.03  # bytes stored over unique ones, adam


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--size", type=float, default=96, metavar="MIB", help="of one checkpoint, all workers together")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--writes", type=int, default=10)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--setting", action="append", default=[], help="of Varve")
    parser.add_argument("--json", action="store_true", help="one line for each case and way")
    options = parser.parse_args()
    options.cases, options.ways = options.cases.split(","), options.ways.split(",")
    options.parameters = int(options.size * MIB / BYTES_PER_PARAMETER) // options.workers * options.workers
    return options


# ---- processes ----

def start(options):
    """The workers. All of them do all cases and ways, since loading torch takes seconds."""
    port = str(random.randrange(10000, 30000))  # none that the kernel gives away by itself
    workers = []
    for rank in range(options.workers):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.workers),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=port, VARVE_CONNECT_SECONDS="60", OMP_NUM_THREADS="1",
                           USE_LIBUV="0", TORCH_CPP_LOG_LEVEL="ERROR",  # Debian's torch has no libuv
                           PYTHONPATH=os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH")])))
        workers.append(subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py"), json.dumps(vars(options))],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True))
    return workers


def run(options):
    """The results, as they come. A worker that fails would leave the others waiting."""
    workers = start(options)
    watch = threading.Thread(target=end_together, args=(workers,), daemon=True)
    watch.start()
    for line in workers[0].stdout:
        yield json.loads(line)
    watch.join()
    if any(one.returncode for one in workers):
        raise SystemExit("mlperf: a worker failed")


def end_together(workers):
    while any(one.poll() is None for one in workers):
        if any(one.poll() for one in workers):
            for one in workers:
                one.kill()
        time.sleep(0.2)


# ---- what it says ----

def print_head():
    print(f"{'case':10} {'way':10} {'blocked s':>10} {'durable s':>10} {'load s':>8} {'save MiB':>9} {'load MiB':>9} "
          f"{'stored MiB':>11} {'of unique':>10}")


def print_line(result):
    print(f"{result['case']:10} {result['way']:10} {result['blocked']:10.4f} {result['durable']:10.4f} "
          f"{result['load']:8.4f} {result['memory_saving'] / MIB:9.1f} {result['memory_loading'] / MIB:9.1f} "
          f"{result['stored'] / MIB:11.1f} {result['stored'] / result['unique']:10.3f}", flush=True)


def compare(found):
    """(text, value, bound) of what is wanted, as far as it was run."""
    for case, figure, beside, bound in WANTED:
        if (case, "varve") in found and (case, beside) in found:
            value = found[case, "varve"][figure] / found[case, beside][figure]
            yield f"{case}: {figure}, of {beside}", value, bound
    if ("adam", "varve") in found:
        result = found["adam", "varve"]
        yield "adam: bytes stored, of unique ones", result["stored"] / result["unique"], WANTED_UNIQUE


def main():
    options = read_options()
    found, begin = {}, time.monotonic()
    if not options.json:
        print(f"{options.workers} workers, {options.writes} checkpoints, each verified; identical: the same data each "
              "time, as the benchmark of MLPerf writes")
        print_head()
    for result in run(options):
        found[result["case"], result["way"]] = result
        if options.json:
            print(json.dumps({"bench": "mlperf", "workers": options.workers, **result}), flush=True)
        else:
            print_line(result)
    for text, value, bound in compare(found):
        if options.json:
            print(json.dumps({"bench": "mlperf", "compared": text, "value": value, "wanted": bound}))
        else:
            print(f"varve, {text}: {value:.3f} (wanted: at most {bound}) {'' if value <= bound else 'MISSED'}")
    if not options.json:
        print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
