"""What the rows in field.py are made of: run the MPI program, break what it left, and see what a new job restores.

A restart is right when both ranks tell exactly the same story: the same codes, the same version, every byte as it was. So the
logs of the two ranks must be equal line by line, whatever the outcome."""

import json
import os
import random
import re
import shutil
import struct
import subprocess

import mpijob

RANKS = 2
NAME = "field"
TOMBSTONE = 8


class Failed(Exception):
    pass


def expect(is_true, text):
    if not is_true:
        raise Failed(text)


class Run:
    """What a job that has ended left: its exit code, its output, and per rank its lines, and the milliseconds of its saves."""

    def __init__(self, code, text, logs):
        self.code = code
        self.text = text
        self.lines = [[line for line in log if not line.startswith("#")] for log in logs]
        self.ms = [float(line.split()[1]) for log in logs for line in log if line.startswith("#")]

    def was_reported(self, version):
        return any("saved %d OK" % version in lines for lines in self.lines)

    def was_begun(self, version):
        return all("begin %d" % version in lines for lines in self.lines)

    def story(self):
        return "\n".join("rank %d: %s" % (rank, line) for rank, lines in enumerate(self.lines) for line in lines)


class Scene:
    def __init__(self, options, row, folder):
        self.job = options.job
        self.varve = options.varve
        self.kind = options.kind
        self.seconds = options.seconds
        self.folder = folder
        self.random = random.Random("%s.%s" % (options.seed, row))
        self.count = 0

    def fresh(self, word="store"):
        self.count += 1
        return os.path.join(self.folder, "%s%d" % (word, self.count))

    # ---- running ----

    def run(self, store, *acts, parameters="", **environment):
        log = self.fresh("log")
        environment.setdefault("VARVE_LOG", "info")
        with mpijob.Job(RANKS, [self.job, log, store + parameters] + list(acts), self.fresh("output"), self.kind,
                        environment) as job:
            code = job.wait(self.seconds)
            logs = []
            for rank in range(RANKS):
                with open("%s.%d" % (log, rank)) as file:
                    logs.append(file.read().splitlines())
            return Run(code, job.text(), logs)

    def run_whole(self, store, *acts, **more):
        """A run in which nothing may fail."""
        run = self.run(store, *acts, **more)
        expect(run.code == 0, "a run that should succeed failed:\n%s\n%s" % (run.story(), run.text))
        self.expect_same(run)
        return run

    def expect_same(self, run):
        expect(run.lines[0] == run.lines[1], "the ranks tell different stories:\n%s\n%s" % (run.story(), run.text))

    def save(self, last=3, *acts, **more):
        """A store with checkpoints 1 to last, whose session has ended."""
        store = self.fresh()
        self.run_whole(store, *acts, "open:" + NAME, "save:1-%d" % last, **more)
        return store

    def killed(self, store, *acts, version=3, **more):
        """A run that is killed in the checkpoint of this version, after the earlier ones were reported. None when nobody was
        killed: it was over before."""
        run = self.run(store, *acts, "open:" + NAME, "save:1-%d" % version, **more)
        expect(run.was_begun(version) and run.was_reported(version - 1),
               "the run did not come to checkpoint %d:\n%s\n%s" % (version, run.story(), run.text))
        if run.code == 0:
            return None
        if run.was_reported(version):  # to one rank: the other may have died while it cleaned up
            expect(self.newest_complete(store, version) == version, "checkpoint %d was reported and is lost" % version)
        return run

    # ---- restarting ----

    CHECKED = ["open:" + NAME, "restart:latest", "more:1", "close", "open:" + NAME, "restart:latest", "close"]

    @staticmethod
    def story_of(version):
        """What both ranks must say of CHECKED: restored, went on, and what they then saved is there for the next."""
        return ["open OK", "restart OK %d %d whole" % (version, version), "begin %d" % (version + 1),
                "saved %d OK" % (version + 1), "close OK", "open OK",
                "restart OK %d %d whole" % (version + 1, version + 1), "close OK"]

    def expect_restart(self, store, version, setup=(), **more):
        """A new job restores this version on both ranks, byte for byte, and goes on."""
        run = self.run(store, *setup, *self.CHECKED, **more)
        for rank in range(RANKS):
            expect(run.lines[rank] == self.story_of(version),
                   "rank %d should have restored %d:\n%s\n%s" % (rank, version, run.story(), run.text))
        expect(run.code == 0, "the job that restored ended with %d" % run.code)
        return run

    def expect_restarts(self, cases, setup=(), **more):
        """The same for several stores in one job. cases: (what was done, store, version)."""
        acts = []
        for _, store, _ in cases:
            acts += ["store:" + store] + self.CHECKED
        run = self.run(cases[0][1], *setup, *acts, **more)
        size = len(self.story_of(0))
        for rank in range(RANKS):
            at = 0
            for what, _, version in cases:
                lines = run.lines[rank][at:at + size]
                expect(lines == self.story_of(version), "%s: rank %d should have restored %d:\n%s\n%s" %
                       (what, rank, version, "\n".join(run.lines[rank][at:at + size + 2]), run.text))
                at += size
        expect(run.code == 0, "the job that restored ended with %d" % run.code)
        return run

    def expect_named(self, run, version, times=1):
        """Rank 0's log names the checkpoint that was passed over."""
        found = len(re.findall(r"skipped checkpoint %s@%d " % (NAME, version), run.text))
        expect(found >= times, "the log names the damaged checkpoint %d %d times, not %d:\n%s" %
               (version, found, times, run.text))

    def expect_there(self, store, *versions, setup=()):
        """These checkpoints can be restored by their numbers; in a copy, so that nothing changes."""
        copy = self.copy(store)
        run = self.run(copy, *setup, "open:" + NAME, *["restart:%d" % version for version in versions], "close")
        must = ["open OK"] + ["restart OK %d %d whole" % (v, v) for v in versions] + ["close OK"]
        for rank in range(RANKS):
            expect(run.lines[rank] == must, "checkpoints %s should be there:\n%s\n%s" %
                   (versions, run.story(), run.text))
        shutil.rmtree(copy)

    # ---- looking at and breaking a store ----

    def copy(self, store):
        path = self.fresh("copy")
        shutil.copytree(store, path)
        return path

    @staticmethod
    def key(store, *parts):
        return os.path.join(store, "n", NAME, *parts)

    def attempt(self, store, version, attempt=0, generation=1):
        return self.key(store, "data", "%08x" % generation, "%016x" % version, "%08x" % attempt)

    def pack(self, store, version, rank):
        return os.path.join(self.attempt(store, version), "%08x" % rank)

    def record(self, store, version, generation=1):
        return self.key(store, "record", "%08x%016x" % (generation ^ 0xFFFFFFFF, version ^ 0xFFFFFFFFFFFFFFFF))

    @staticmethod
    def is_tombstone(path):
        with open(path, "rb") as file:
            return struct.unpack("<H", file.read(12)[10:])[0] == TOMBSTONE

    def votes(self, store, version):
        """Ranks whose pack of this version is there."""
        return [rank for rank in range(RANKS) if os.path.exists(self.pack(store, version, rank))]

    def newest_complete(self, store, version):
        """By the files alone: this version if every rank's pack is there and nobody gave it up, else the one before."""
        record = self.record(store, version)
        writers = os.path.join(self.attempt(store, version), "writers")
        if os.path.exists(record):
            expect(not self.is_tombstone(record), "nobody should have forgotten %d" % version)
            return version
        if len(self.votes(store, version)) < RANKS or any(self.is_tombstone(self.pack(store, version, rank))
                                                          for rank in range(RANKS)):
            return version - 1
        return version - 1 if os.path.exists(writers) and self.is_tombstone(writers) else version

    def verify(self, store, code):
        found = subprocess.run([self.varve, "verify", store], capture_output=True, text=True)
        expect(found.returncode == code, "varve verify ended with %d, not %d:\n%s%s" %
               (found.returncode, code, found.stdout, found.stderr))
        return found.stdout

    def tool(self, kind, *words):
        """The lines of this kind that the tool gives."""
        text = subprocess.run([self.varve, *words, "--json"], capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in text.splitlines()]
        return [row for row in rows if row["message_type"] == kind]

    def listed(self, store):
        """How many checkpoints varve ls shows."""
        return len(self.tool("checkpoint", "ls", store))

    def settings(self):
        """(name, bounds) of every setting."""
        return [(row["name"], row["bounds"]) for row in self.tool("setting", "config", "--list")]


def change_bytes(path, count, offset=None):
    """Invert so many bytes, in the middle unless told; a negative offset counts from the end."""
    size = os.path.getsize(path)
    offset = size // 2 if offset is None else offset % size
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in old))


def cut(path, size):
    """Leave the first bytes; a float is a share, a negative number what is taken off."""
    old = os.path.getsize(path)
    os.truncate(path, int(old * size) if isinstance(size, float) else size if size >= 0 else old + size)


def torn_copy(path, to, share=0.5):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copyfile(path, to)
    cut(to, share)
