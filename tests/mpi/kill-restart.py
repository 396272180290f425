"""Kill a job in the middle, start it again until it ends, and compare: the field that heat2d computes must have the same bits as in a
run that nobody disturbed.

    kill-restart.py --heat2d PROGRAM --varve VARVE [--mpi openmpi|mpich|env] [--kill one|all|stop] [--runs N] [--ranks 1,2,4,8]
                    [--seed S] [--first N] [--dir FOLDER]

    one     SIGKILL of one rank; mpirun then ends the others, and without it (env) they end by themselves
    all     SIGKILL of all ranks and of mpirun
    stop    SIGSTOP of one rank for longer than dead_seconds, while a second job wants the name. If the rank is 0, whose heartbeat stops
            too, the second job takes over and finishes; the first one, continued, must end as fenced and harm nothing. If it is
            another rank, the job is alive: the second one must be refused, and the first one, continued, finishes.

Victims and moments are random: run N of seed S always draws the same, though not the same system call is hit. Each run must have
been disturbed before its end and, if killed, restored from a checkpoint; one that was too fast for the kill is repeated and not
counted. What was reported as saved must never be lost. Ends with 1 if a run failed, 77 without mpirun."""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "field"))
import mpijob  # noqa: E402

ROWS, COLUMNS, STEPS, EVERY, DELAY_US = 192, 256, 200, 5, 500
LIFE = {"VARVE_BEAT_SECONDS": "1", "VARVE_DEAD_SECONDS": "6", "VARVE_TAKEOVER_SECONDS": "30"}
FENCED = "no longer has the highest claim"
BUSY = "is in use"
WATCHING = "waiting for process"
PAUSE_SECONDS = 2  # more than the quarter of dead_seconds after which a watcher knows that it was stopped itself
SECONDS = 300  # for one job; more means that it hangs


class Failed(Exception):
    pass


class TooLate(Exception):
    """The job had ended before it was disturbed."""


def expect(is_true, text):
    if not is_true:
        raise Failed(text)


class Told:
    """What a job has said so far."""

    def __init__(self, job):
        text = job.text()
        found = re.search(r"^restarted from step (\d+)$", text, re.M)
        self.restored = int(found.group(1)) if found else 0
        self.saved = [int(step) for step in re.findall(r"^step (\d+) saved$", text, re.M)]
        self.adopted = len(re.findall(r"adopted generation", text))
        self.skipped = re.findall(r"^.*skipped checkpoint.*$", text, re.M)
        self.unsaved = re.findall(r"^.*not saved: .*$", text, re.M)
        self.has_open = self.restored > 0 or bool(self.saved)


class Campaign:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.counts = dict.fromkeys(["kills", "stops", "starts", "restores", "adoptions", "takeovers", "pauses", "fenced", "refused",
                                     "repeated"], 0)
        self.restored = []
        self.field = None  # as it must be
        self.lengths = {}  # per number of ranks: seconds that an undisturbed run takes after its first checkpoint

    # ---- one job ----

    def start(self, place, ranks, environment, number):
        out = os.path.join(place, "field%d" % number)
        arguments = [self.options.heat2d, "--rows", ROWS, "--columns", COLUMNS, "--steps", STEPS, "--every", EVERY, "--delay", DELAY_US,
                     "--out", out, os.path.join(place, "store")]
        job = mpijob.Job(ranks, [str(word) for word in arguments], os.path.join(place, "output%d" % number), self.options.mpi,
                         dict(environment, VARVE_LOG="info"))
        job.out = out
        self.counts["starts"] += 1
        return job

    def expect_field(self, job, what):
        with open(job.out, "rb") as file:
            expect(file.read() == self.field, "%s: the field differs from that of an undisturbed run" % what)

    def wait_for_saved(self, job, count):
        """Until so many checkpoints were reported; False if the job has ended before."""
        while True:
            is_over = job.is_over()
            if len(Told(job).saved) >= count:
                return not is_over
            if is_over:
                return False
            if job.seconds() > SECONDS:
                job.kill_all()
                raise Failed("nothing was saved:\n" + job.text())
            time.sleep(0.002)

    def note_end(self, job, reported, expect_saved=True):
        """Count what the job did, and check that it began with what the one before had reported."""
        told = Told(job)
        self.counts["adoptions"] += told.adopted
        if told.restored > 0:
            self.counts["restores"] += 1
            self.restored.append(told.restored)
        expect(not told.skipped, "a checkpoint was damaged:\n" + "\n".join(told.skipped))
        expect(not told.unsaved or not expect_saved, "a checkpoint failed:\n" + "\n".join(told.unsaved))
        if told.has_open and reported > 0:
            expect(told.restored >= reported, "step %d was reported as saved, and step %d is restored" % (reported, told.restored))
        return told

    def verify(self, place):
        found = subprocess.run([self.options.varve, "verify", os.path.join(place, "store")], capture_output=True, text=True)
        expect(found.returncode == 0, "varve verify:\n" + found.stdout + found.stderr)

    # ---- undisturbed ----

    def learn(self, ranks):
        """The field, the same on any number of ranks, and how long it takes."""
        place = tempfile.mkdtemp(prefix="undisturbed-", dir=self.folder)
        with self.start(place, ranks, {}, 0) as job:
            self.wait_for_saved(job, 1)
            begun = time.monotonic()
            code = job.wait(SECONDS)
            expect(code == 0, "an undisturbed run ended with %d:\n%s" % (code, job.text()))
            self.lengths[ranks] = time.monotonic() - begun
            if self.field is None:
                with open(job.out, "rb") as file:
                    self.field = file.read()
                expect(len(self.field) == ROWS * COLUMNS * 8, "the field has another size")
            self.expect_field(job, "%d ranks, undisturbed" % ranks)
        shutil.rmtree(place)

    # ---- killed ----

    def kill(self, job, pids, rng):
        """True if somebody was still there to be killed."""
        if self.options.kill == "one":
            return job.signal(pids[rng.randrange(len(pids))], signal.SIGKILL)
        everybody = list(pids.values()) + [job.process.pid]
        rng.shuffle(everybody)
        return any([job.signal(pid, signal.SIGKILL) for pid in everybody])

    def disturb(self, job, rng, is_first, length):
        """The first time after a checkpoint was reported, later at any moment, also while it opens. True if it was killed."""
        pids = job.find_ranks()
        if is_first and not self.wait_for_saved(job, 1):
            return False
        time.sleep(rng.uniform(0, length * (0.7 if is_first else 1.1)))
        if len(pids) < job.ranks or job.is_over() or not self.kill(job, pids, rng):
            return False
        self.counts["kills"] += 1
        return True

    def play_kill(self, place, ranks, rng):
        environment = {"VARVE_KEEP": str(rng.choice([0, 2, 3]))}
        kills = rng.choice([1, 1, 2, 3])
        reported, number, is_restored = 0, 0, False
        while True:
            number += 1
            expect(number < 20, "started %d times and never finished" % number)
            with self.start(place, ranks, environment, number) as job:
                was_killed = kills > 0 and self.disturb(job, rng, number == 1, self.lengths[ranks])
                code = job.wait(SECONDS)
                told = self.note_end(job, reported, expect_saved=not was_killed)
                reported = max([reported] + told.saved)
                is_restored = is_restored or told.restored > 0
                kills -= 1
                if was_killed and code != 0:
                    continue
                expect(code == 0, "the job ended with %d by itself:\n%s" % (code, job.text()))
                if not is_restored:
                    raise TooLate()
                self.expect_field(job, "after %d starts" % number)
                return self.verify(place)

    # ---- stopped ----

    def play_stop(self, place, ranks, rng):
        victim = 0 if ranks == 1 or rng.random() < 0.5 else rng.randrange(1, ranks)
        with self.start(place, ranks, LIFE, 1) as first:
            pids = first.find_ranks()
            if not self.wait_for_saved(first, rng.randint(1, STEPS // EVERY // 2)):
                raise TooLate()
            time.sleep(rng.uniform(0, 0.1))
            if first.is_over() or not first.signal(pids[victim], signal.SIGSTOP):
                raise TooLate()
            self.counts["stops"] += 1
            play = self.take_over if victim == 0 else self.be_refused
            play(place, ranks, first, pids[victim], rng)
        self.verify(place)

    def pause_watcher(self, second):
        """Stop the one who watches the other's heartbeat for a while: it must not take its own pause for anybody's life or death."""
        watcher = second.find_ranks().get(0)
        while WATCHING not in second.text() and not second.is_over() and second.seconds() < SECONDS:
            time.sleep(0.01)
        if second.signal(watcher, signal.SIGSTOP):
            time.sleep(PAUSE_SECONDS)
            second.signal(watcher, signal.SIGCONT)
            self.counts["pauses"] += 1

    def take_over(self, place, ranks, first, stopped, rng):
        time.sleep(0.3)  # what rank 0 had said is in the file by now
        reported = max(Told(first).saved)
        with self.start(place, ranks, LIFE, 2) as second:
            if rng.random() < 0.5:
                self.pause_watcher(second)
            code = second.wait(SECONDS)
            expect(code == 0, "the job that should have taken over ended with %d:\n%s" % (code, second.text()))
            self.note_end(second, reported)
            self.expect_field(second, "taken over")
        self.counts["takeovers"] += 1
        expect(not first.is_over(), "the stopped job ended by itself:\n" + first.text())
        expect(first.signal(stopped, signal.SIGCONT), "the stopped rank is gone")
        code = first.wait(SECONDS)
        expect(code != 0 and FENCED in first.text(), "the job that was taken over should end as fenced, ended with %d:\n%s" %
               (code, first.text()))
        self.counts["fenced"] += 1
        with self.start(place, ranks, LIFE, 3) as third:  # finds the end of the second, untouched
            code = third.wait(SECONDS)
            told = self.note_end(third, STEPS)
            expect(code == 0 and told.restored == STEPS, "after the fenced job: ended with %d:\n%s" % (code, third.text()))
            self.expect_field(third, "after the fenced job")

    def be_refused(self, place, ranks, first, stopped, _):
        with self.start(place, ranks, LIFE, 2) as second:
            code = second.wait(SECONDS)
            expect(code != 0 and BUSY in second.text() and not os.path.exists(second.out),
                   "the name of a living job was given to another (ended with %d):\n%s" % (code, second.text()))
        self.counts["refused"] += 1
        expect(not first.is_over() and first.signal(stopped, signal.SIGCONT), "the stopped rank is gone:\n" + first.text())
        code = first.wait(SECONDS)
        expect(code == 0, "the continued job ended with %d:\n%s" % (code, first.text()))
        self.note_end(first, 0)
        self.expect_field(first, "continued")

    # ---- all runs ----

    def run(self, number, ranks):
        """A run that was too late is tried again with other moments."""
        for attempt in range(20):
            rng = random.Random("%s.%d.%d" % (self.options.seed, number, attempt))
            place = tempfile.mkdtemp(prefix="run%d-" % number, dir=self.folder)
            try:
                (self.play_stop if self.options.kill == "stop" else self.play_kill)(place, ranks, rng)
            except TooLate:
                self.counts["repeated"] += 1
                shutil.rmtree(place)
                continue
            except (Failed, mpijob.TookTooLong) as failure:
                raise Failed("run %d, %d ranks (files in %s; again: --seed %s --first %d --runs 1): %s" %
                             (number, ranks, place, self.options.seed, number, failure))
            shutil.rmtree(place)
            return
        raise Failed("run %d, %d ranks: always too late" % (number, ranks))

    def report(self, runs, begun):
        counts = self.counts
        restored = sorted(self.restored)
        print("kill-restart: %d points, each disturbed in the middle, kill %s, %s, ranks %s, seed %s" %
              (runs, self.options.kill, self.options.mpi, ",".join(map(str, self.options.ranks)), self.options.seed))
        print("%d starts, %d kills, %d stops, %d restored from a checkpoint" %
              (counts["starts"], counts["kills"], counts["stops"], counts["restores"]))
        if restored:
            print("steps restored: %d different ones from %d to %d, median %d; adoptions %d; repeated as too late %d" %
                  (len(set(restored)), restored[0], restored[-1], restored[len(restored) // 2], counts["adoptions"], counts["repeated"]))
        if self.options.kill == "stop":
            print("taken over %d (%d with a pause of the watcher), of these fenced %d; refused as busy %d" %
                  (counts["takeovers"], counts["pauses"], counts["fenced"], counts["refused"]))
        print("all %d fields identical to an undisturbed run; %.0f s" % (runs, time.monotonic() - begun), flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heat2d", required=True)
    parser.add_argument("--varve", required=True)
    parser.add_argument("--mpi", default="openmpi", choices=["openmpi", "mpich", "env"])
    parser.add_argument("--kill", default="one", choices=["one", "all", "stop"])
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--ranks", default="1,2,4,8", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--seed", default=str(time.time_ns() % 1000000))
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the stores are")
    options = parser.parse_args()
    options.runs = max(1, options.runs * int(os.environ.get("TEST_SCALE", "100")) // 100)
    return options


def main():
    options = read_options()
    mpijob.skip_without(options.mpi)
    os.makedirs(options.dir, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="varve-kill-", dir=options.dir)
    campaign = Campaign(options, folder)
    begun = time.monotonic()
    try:
        for number in range(options.first, options.first + options.runs):
            ranks = options.ranks[number % len(options.ranks)]
            if ranks not in campaign.lengths:
                campaign.learn(ranks)
            campaign.run(number, ranks)
    except (Failed, mpijob.TookTooLong) as failure:
        print("FAILED: %s" % failure)
        return 1
    shutil.rmtree(folder)
    campaign.report(options.runs, begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
