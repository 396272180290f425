#!/usr/bin/env python3
"""margin.py JOBS: so many jobs that know when they end. The storage of every other one becomes ten times slower in the middle;
those between have slow storage from the begin, an interval that is longer than the job, and hardly any slack. Each must have
its last checkpoint durable before its end, and must not have left much earlier than it had to.

PROGRAM is job-program, in a build with fault points. All run at the same time: they mostly wait."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["PROGRAM"]
SECONDS, SLACK, STEP_MS, INTERVAL = 50, 5, 20, 2
FAST_MS, SLOW_MS = 100, 1000  # for each object; a checkpoint has four or five


def fail(text):
    raise SystemExit("FAILED: " + text)


def start(folder, seed, has_interval):
    choice = random.Random(seed)
    seconds = SECONDS * choice.uniform(0.8, 1.2)
    begin = time.time()
    slow = begin + seconds * choice.uniform(0.4, 0.6) if has_interval else begin - 2
    environment = dict(os.environ, RANK="0", WORLD_SIZE="1", VARVE_INTERVAL_SECONDS=str(INTERVAL if has_interval else 3600),
                       VARVE_LOG="error", VARVE_END_TIME="%.3f" % (begin + seconds),
                       VARVE_END_SLACK=str(SLACK if has_interval else 1), FAST_MS=str(FAST_MS), SLOW_MS=str(SLOW_MS),
                       SLOW="%.0f" % slow)
    os.mkdir(folder)
    return subprocess.Popen([PROGRAM, folder + "/ck", "run", "1000000", str(STEP_MS), folder], env=environment), begin + seconds


def check(folder, end, has_interval):
    """How long before the end it had left."""
    lines = [line.split() for line in pathlib.Path(folder, "steps.0").read_text().splitlines()]
    left, saved, slow = ([(int(line[1]), float(line[2])) for line in lines if line[0] == word] for word in ("left", "saved", "slow"))
    if len(left) != 1 or not slow or not any(step > slow[0][0] for step, _ in saved[:-1]) and has_interval:
        fail("%s: it has not left, or there was no checkpoint while the storage was slow: %s" % (folder, lines))
    if not has_interval and len(saved) != 2:
        fail("%s: the first one and the last one were wanted: %s" % (folder, lines))
    (step, at), (last, begun) = left[0], saved[-1]  # begun: when the call returned
    if last != step or at > end:
        fail("%s: %s was durable %.1f s after the end" % (folder, last, at - end))
    took = at - begun
    if end - at > 3 * took + SLACK + 5:
        fail("%s: it left %.1f s before its end, and its checkpoint took %.1f s" % (folder, end - at, took))
    return end - at, took


def main():
    jobs, seed = int(sys.argv[1]), int(os.environ.get("SEED", "1"))
    folder = tempfile.mkdtemp(prefix="varve-margin.")
    running = [(start("%s/%d" % (folder, i), seed + i, i % 2 == 0), "%s/%d" % (folder, i)) for i in range(jobs)]
    left = []
    for i, ((process, end), where) in enumerate(running):
        if process.wait(timeout=4 * SECONDS) != 0:
            fail("%s: it ended with %d" % (where, process.returncode))
        left.append(check(where, end, i % 2 == 0))
    print("margin: %d points, jobs in time, %d of them with storage that became slow in the middle: "
          "%.1f to %.1f s before their end, checkpoints of %.1f to %.1f s" % (
              len(left), len(left[::2]), min(left)[0], max(left)[0], min(took for _, took in left), max(took for _, took in left)))
    shutil.rmtree(folder)
    return 0


sys.exit(main())
