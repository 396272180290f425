"""Kill a program of one process in the middle, start it again until it ends, and compare what it writes with that of a run that nobody
disturbed.

    kill.py --varve VARVE [--runs N] [--seed S] PROGRAM ARGUMENT...     it is run as PROGRAM ARGUMENT... --out FILE STORE
    kill.py --varve VARVE [...] PROGRAM ARGUMENT... OUT ...             STORE and OUT among the arguments are the store and that FILE
    kill.py --varve VARVE --line PATTERN [...] PROGRAM ARGUMENT...      STORE among the arguments is the store; what is compared is
                                                                        the last line it prints that matches

It must say "restarted from step N" after a checkpoint; a run that ends before it is killed, or that was killed before its first
checkpoint, is repeated and not counted. Ends with 77 if the program does."""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time


def start(options, words, place, number):
    out, store = os.path.join(place, "out%d" % number), os.path.join(place, "store")
    log = open(os.path.join(place, "log%d" % number), "w+")
    if options.line or "OUT" in words:
        words = [{"STORE": store, "OUT": out}.get(word, word) for word in words]
    else:
        words = words + ["--out", out, store]
    return subprocess.Popen(words, stdout=log, stderr=log), out, log.name


def read(path, mode="rb"):
    with open(path, mode) as file:
        return file.read()


def result(options, out, log):
    if not options.line:
        return read(out)
    found = re.findall("^.*(?:%s).*$" % options.line, read(log, "r"), re.M)
    return found[-1] if found else sys.exit("no line is as %s:\n%s" % (options.line, read(log, "r")))


def play(options, words, place, wanted, length, rng):
    """How often it was killed, and from which steps it went on."""
    kills, restored, number = 0, [], 0
    while number < 20:
        number += 1
        job, out, log = start(options, words, place, number)
        if kills < 3:
            time.sleep(rng.uniform(0.05, 0.6) * length)
            kills += job.poll() is None
            job.send_signal(signal.SIGKILL)
        code = job.wait(timeout=120)
        restored += [int(step) for step in re.findall(r"restarted from step (\d+)", read(log, "r"))]
        if code == -signal.SIGKILL:
            continue
        if code != 0:
            sys.exit("it ended with %d:\n%s" % (code, read(log, "r")))
        if result(options, out, log) != wanted:
            sys.exit("after %d kills the result differs from that of an undisturbed run" % kills)
        break
    if restored != sorted(restored):
        sys.exit("a step that was restored was lost: %s" % restored)
    found = subprocess.run([options.varve, "verify", os.path.join(place, "store")], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit("varve verify:\n" + found.stdout + found.stderr)
    return kills, restored


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--varve", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--line")
    parser.add_argument("--seed", default=str(time.time_ns() % 1000000))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = [word for word in options.words if word != "--"]
    with tempfile.TemporaryDirectory(prefix="varve-people-") as folder:
        begun = time.monotonic()
        job, out, log = start(options, words, tempfile.mkdtemp(dir=folder), 0)
        code = job.wait(timeout=120)
        if code == 77:
            print("skipped: " + read(log, "r"))
            sys.exit(77)
        if code != 0:
            sys.exit("an undisturbed run failed:\n" + read(log, "r"))
        length, wanted = time.monotonic() - begun, result(options, out, log)
        done, tries, rng = 0, 0, random.Random(options.seed)
        while done < options.runs:
            tries += 1
            if tries > 10 * options.runs:
                sys.exit("always too late")
            kills, restored = play(options, words, tempfile.mkdtemp(dir=folder), wanted, length, rng)
            if kills > 0 and restored and restored[-1] > 0:
                done += 1
                print("killed %d times, went on from %s: the same %s" % (kills, restored, wanted if options.line else "%d bytes" % len(wanted)))
    print("%d runs, seed %s" % (done, options.seed))


main()
