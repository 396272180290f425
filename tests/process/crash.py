#!/usr/bin/env python3
"""crash.py [--points N] [--seed S] [--slice K/N] [--replay POINT] [--dir FOLDER]

varve dump is killed at every step, and so are its guard, criu, and the whole machine. Its storage fails at every fault
point. Afterwards each process of the dumped tree runs on, well; or all of them are gone and their checkpoint is whole.
The older checkpoint is whole in any case. A dump that says it did well has done what it was told.

A step is a system call that others can see (steps.c). A point is one of

    stop OF NUMBER VICTIM    dump --stop: at step NUMBER of OF, tool or child (the guard), VICTIM is killed: tool, child,
                             program (criu), or machine: all of them and the processes that are dumped
    run OF NUMBER VICTIM     the same without --stop
    fault NAME=ACTION        dump --stop with VARVE_FAULT

VARVE, STEPS and THREADS are programs. CRIU is a criu, or client.py, which plays one; with a real criu, a tree that has
ended is brought back from its checkpoint and must go on with its count.
"""
import argparse
import collections
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import real

HERE = pathlib.Path(__file__).resolve().parent
CLIENT = str(HERE / "client.py")
VARVE, STEPS, CRIU = os.environ["VARVE"], os.environ["STEPS"], os.environ.get("CRIU", CLIENT)
ENDED, RUNS = "ended with a whole checkpoint", "runs on"
PATIENCE = 60


class Failed(Exception):
    pass


def start_of(pid):
    """When it was started, and its state; nothing of one that is gone."""
    try:
        words = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None, None
    return words[19], words[0]


def children_of(pid):
    return [int(word) for word in pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def wait_until(what, complaint):
    end = time.monotonic() + PATIENCE
    while not what():
        reap()
        if time.monotonic() > end:
            raise Failed(complaint())
        time.sleep(0.005)


class Tree:
    """A process and its child, with a pipe between them."""

    def __init__(self, folder):
        self.program = real.Program(folder, "p", [real.PYTHON, "-c", real.PIPE, "FILE"])
        self.members = {pid: start_of(pid)[0] for pid in [self.program.pid, *children_of(self.program.pid)]}
        if len(self.members) != 2:
            raise Failed("the tree has %d processes" % len(self.members))

    def states(self):
        now = {pid: start_of(pid) for pid in self.members}
        return {pid: state for pid, (start, state) in now.items() if start == self.members[pid]}

    def settle(self, is_killed):
        """All of them have ended, or all of them run. What the dump started is gone by now."""
        if is_killed:
            wait_until(lambda: not self.states(), lambda: "killed, but there: %s" % self.states())
            return None
        before = self.program.count()
        wait_until(lambda: self.program.count() > before + 3 or not self.states(),
                   lambda: "stands still at %d: %s" % (before, self.states()))
        states = self.states()
        if not states:
            return ENDED
        if len(states) < 2 or set(states.values()) & {"T", "t", "Z"}:
            raise Failed("a part of it is not there, or stopped: %s" % states)
        return RUNS

    def end(self):
        if self.states():
            for pid in self.states():
                os.kill(pid, 9)
            wait_until(lambda: not self.states(), lambda: "cannot be killed")


class Point:
    """One of them, in a folder of its own with a store that has version 0."""

    def __init__(self, campaign, text):
        self.words, self.campaign = text.split(), campaign
        self.folder = os.path.join(campaign.folder, "point")
        os.mkdir(self.folder)
        self.store = os.path.join(self.folder, "ck")
        shutil.copytree(campaign.store, self.store)
        self.environment = dict(os.environ, TMPDIR=self.folder, SEED="2")

    def varve(self, *arguments):
        return subprocess.run([VARVE, *arguments], env=self.environment, capture_output=True, text=True)

    def dump(self, tree):
        """The code with which it ended, and who was killed."""
        pids = [str(pid) for pid in tree.members]
        command = [VARVE, "dump", self.store, "p", "--pid", pids[0], "--criu", CRIU]
        victim = "tool"
        if self.words[0] == "fault":
            self.environment["VARVE_FAULT"] = self.words[1]
            command.append("--stop")
        else:
            command += ["--stop"] if self.words[0] == "stop" else []
            victim = self.words[3]
            command = [STEPS, os.path.join(self.folder, "steps"), *self.words[1:4], *pids, "--", *command]
        done = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)
        self.environment.pop("VARVE_FAULT", None)
        if done.returncode == 99:
            raise Failed(done.stderr)
        return done, victim

    def counted(self):
        return dict(line.split() if " " in line else (line, "1")
                    for line in pathlib.Path(self.folder, "steps").read_text().splitlines())

    def wait_for_helpers(self, tree):
        """The guard and criu may live longer than the tool. We adopt them."""
        others = lambda: [pid for pid in children_of(os.getpid()) if pid not in tree.members]
        wait_until(lambda: not others(), lambda: "still there: %s" % [
            pathlib.Path("/proc/%d/cmdline" % pid).read_text().replace("\0", " ") for pid in others()])

    def check_whole(self, version):
        """Is it there? Then each byte of it must be."""
        if self.varve("show", self.store, "p@%d" % version).returncode:
            return False
        target = os.path.join(self.folder, "images-%d" % version)
        os.mkdir(target)
        done = self.varve("undump", self.store, "p@%d" % version, "--to", target)
        if done.returncode:
            raise Failed("version %d is there, and not whole: %s" % (version, done.stderr))
        found = images_in(target)
        if CRIU == CLIENT and found != self.campaign.images[version] or len(found) < 3:
            raise Failed("version %d is there, with other bytes" % version)
        return True

    def check(self, done, tree, outcome, is_machine):
        verified = self.varve("verify", self.store)
        if verified.returncode:
            raise Failed("verify: %s%s" % (verified.stdout, verified.stderr))
        if not self.check_whole(0):
            raise Failed("the older checkpoint is gone")
        is_there = self.check_whole(1)
        if outcome == ENDED and not is_there:
            raise Failed("the processes are gone, and no checkpoint is there")
        if done.returncode == 0 and not is_machine:
            if not is_there or self.words[0] != "run" and outcome != ENDED or self.words[0] == "run" and outcome != RUNS:
                raise Failed("the dump said that it did well; checkpoint: %s, the tree %s" % (is_there, outcome))
        if is_there and outcome != RUNS and CRIU != CLIENT:
            self.come_back(tree)
        return is_there

    def come_back(self, tree):
        last = tree.program.count()
        tree.program.forget()
        done = self.varve("undump", self.store, "p@1", "--criu", CRIU)
        if done.returncode:
            raise Failed("undump: %s" % done.stderr)
        tree.program.wait_for(lambda count: count > 0)
        if not 0 < tree.program.count() <= last + 50:
            raise Failed("came back with %d, and had counted to %d" % (tree.program.count(), last))
        tree.members = {pid: start_of(pid)[0] for pid in tree.members}
        tree.settle(False)

    def run(self):
        tree = Tree(self.folder)
        try:
            done, victim = self.dump(tree)
            is_machine = victim == "machine" and "killed" in self.counted()
            self.wait_for_helpers(tree)
            outcome = tree.settle(is_machine)
            is_there = self.check(done, tree, outcome, is_machine)
            if self.words[0] == "run" and outcome == ENDED:
                raise Failed("nobody wanted it to end")
        finally:
            tree.end()
        shutil.rmtree(self.folder)
        return outcome or "all is dead", is_there


def images_in(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


class Campaign:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="varve-crash.", dir=options.dir)
        self.store = os.path.join(self.folder, "first")
        self.images = []
        environment = dict(os.environ, TMPDIR=self.folder)
        for seed in "12":
            tree = Tree(self.folder)
            store = self.store if seed == "1" else self.store + "2"
            subprocess.run([VARVE, "dump", store, "p", "--pid", str(tree.program.pid), "--criu", CRIU], check=True,
                           env=dict(environment, SEED=seed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            target = os.path.join(self.folder, "images-" + seed)
            os.mkdir(target)
            subprocess.run([VARVE, "undump", store, "p", "--to", target], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            self.images.append(images_in(target))
            tree.end()
            os.remove(tree.program.path)

    def count(self, mode):
        """How many steps there are when nobody is killed, or how often each fault point is met."""
        point = Point(self, "%s tool 0 tool" % mode)
        listing = os.path.join(self.folder, "faults-" + mode)
        point.environment["VARVE_FAULT_LIST"] = listing
        tree = Tree(point.folder)
        done, _ = point.dump(tree)
        tree.end()
        if done.returncode:
            raise Failed("a dump without faults: " + done.stderr)
        counted = point.counted()
        shutil.rmtree(point.folder)
        names = collections.Counter(pathlib.Path(listing).read_text().split()) if os.path.exists(listing) else {}
        return {"tool": int(counted["tool"]), "child": int(counted["child"])}, names

    def points(self):
        victims = {"stop": ("tool", "child", "program", "machine"), "run": ("tool", "program", "machine")}
        for mode, others in victims.items():
            steps, names = self.count(mode)
            for of, count in steps.items():
                if of == "child" and mode == "run":
                    continue  # it is criu that has not begun
                yield from ("%s %s %d %s" % (mode, of, number, victim) for number in range(1, count + 1)
                            for victim in others)
        if not names:
            print("no fault points in this build: the storage does not fail")
        for name, count in names.items():
            yield from ("fault %s=%s" % (name, action) for action in
                        ["error:5", "error:28", *("kill:%d" % (number + 1) for number in range(count))])

    def order(self, point):
        return int(hashlib.sha256(("%d %s" % (self.options.seed, point)).encode()).hexdigest()[:12], 16)

    def chosen(self):
        """Only the seed and its text decide where a point is."""
        part, parts = (int(word) for word in self.options.slice.split("/"))
        points = sorted(self.points(), key=self.order)
        print("process-crash: there are %d points" % len(points))
        if self.options.points:  # a sample, of which TEST_SCALE (percent) asks for less
            points = points[:max(1, self.options.points * int(os.environ.get("TEST_SCALE", "100")) // 100)]
        return [point for point in points if self.order(point) % parts == part - 1]

    def run(self):
        outcomes = collections.Counter()
        points = [self.options.replay] if self.options.replay else self.chosen()
        for point in points:
            try:
                outcomes[Point(self, point).run()] += 1
            except (Failed, SystemExit, subprocess.TimeoutExpired) as failure:
                print("FAILED: %s: %s\nagain: --seed %d --replay '%s'; its store is in %s" % (
                    point, failure, self.options.seed, point, self.folder))
                return 1
        for (outcome, is_there), count in sorted(outcomes.items()):
            print("%6d  %s%s" % (count, outcome, "" if outcome == ENDED else ", checkpoint" if is_there else ", none"))
        print("process-crash: %d points, seed %d" % (len(points), self.options.seed))
        shutil.rmtree(self.folder)
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slice", default="1/1")
    parser.add_argument("--replay")
    parser.add_argument("--dir")
    options = parser.parse_args()
    if CRIU != CLIENT and (os.getuid() or subprocess.run([CRIU, "check"], capture_output=True).returncode):
        print("skipped: %s does not work on this kernel, or not root" % CRIU)
        return 77
    real.adopt()
    return Campaign(options).run()


sys.exit(main())
