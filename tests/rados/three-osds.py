#!/usr/bin/env python3
"""A job beside a Ceph of three OSDs, which are killed one at a time and started again; the job itself is killed, too.

    CEPH_OSDS=3 with-ceph.sh DIR bluestore python3 three-osds.py [--mib MIB] [--seed N] MEGABYTES

The job saves MIB (64) of noise that its version determines, until it has written MEGABYTES. No checkpoint that it has reported
may be lost, whole or in part: each life begins with a restart that compares all bytes, and `varve verify` reads everything
at the end. No checkpoint may take longer than DEADLINE. One may fail while an OSD is away, and is told then.

VARVE names the tool, LIBVARVE the folder of libvarve.so, RADOS_STORE the store."""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

try:
    import rados
except ImportError:
    print("skipped: there is no python3-rados")
    sys.exit(77)

DEADLINE = 120  # seconds for one checkpoint: the timeout of an operation (20 s), some of which follow each other
START = 90      # for an OSD to be back, and all copies with it
GROUPS = 8      # placement groups of the pool, the first one of the cluster


# ---- the job ----

def noise(version, mib):
    import numpy as np
    return np.random.default_rng(version).integers(0, 1 << 63, mib << 17, dtype=np.uint64)


def job(args):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import numpy as np
    import varve
    memory = np.zeros(args.mib << 17, dtype=np.uint64)
    with varve.open(os.environ["RADOS_STORE"] + "?timeout=20s", "job", keep=2) as session:
        session.protect("memory", memory)
        version = session.restart()
        if version is not None and not np.array_equal(memory, noise(version, args.mib)):
            version = "wrong"
        print("restarted", version, flush=True)
        for version in range(0 if version is None else version + 1, 1 << 30):
            memory[:] = noise(version, args.mib)
            try:
                session.checkpoint(version)
                session.wait()
                print("saved", version, flush=True)
            except varve.Error as error:
                print("failed", version, str(error).replace("\n", " "), flush=True)


# ---- the cluster ----

class Osds(threading.Thread):
    """Kills one OSD after the other, as soon as all copies of all objects are there again."""

    def __init__(self, rng):
        super().__init__(daemon=True)
        self.rng, self.kills, self.trouble, self.is_ended = rng, 0, None, threading.Event()
        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        self.cluster.connect()

    def is_whole(self):
        """The monitor knows the OSDs, and only they the placement groups: there is no manager."""
        told, status, _ = self.cluster.mon_command(json.dumps({"prefix": "status", "format": "json"}), b"", 30)
        if told != 0 or json.loads(status)["osdmap"]["num_up_osds"] != 3:
            return False
        for group in range(GROUPS):
            told, state, _ = self.cluster.pg_command(f"1.{group:x}", json.dumps({"prefix": "query", "pgid": f"1.{group:x}"}), b"", 30)
            if told != 0 or json.loads(state)["state"] != "active+clean":
                return False
        return True

    def wait_whole(self):
        until = time.monotonic() + START
        while time.monotonic() < until:
            if self.is_whole():
                return
            time.sleep(1)
        raise TimeoutError("an OSD did not come back")

    def kill(self, number):
        pid = int(pathlib.Path(os.environ["CEPH_DIR"], "run", f"osd.{number}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        time.sleep(self.rng.uniform(0.5, 12))
        subprocess.run(["ceph-osd", "-i", str(number)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.kills += 1

    def run(self):
        try:
            while not self.is_ended.wait(self.rng.uniform(0, 2)):
                self.wait_whole()
                self.kill(self.kills % 3)
            self.wait_whole()
        except Exception as trouble:  # the main thread tells it
            self.trouble = trouble


# ---- the test ----

class Story:
    def __init__(self, args):
        self.args, self.rng = args, random.Random(args.seed)
        self.reported, self.saved, self.failed, self.lives, self.longest = None, 0, 0, 0, 0.0

    def read(self, child):
        """The next line of the job, which has a deadline."""
        begun = time.monotonic()
        timer = threading.Timer(DEADLINE, child.kill)
        timer.start()
        words = child.stdout.readline().split(None, 2)
        timer.cancel()
        self.longest = max(self.longest, time.monotonic() - begun)
        assert words, f"the job ended or took longer than {DEADLINE} s, after version {self.reported}"
        return words

    def live(self, enough):
        child = subprocess.Popen([sys.executable, __file__, "--job", "--mib", str(self.args.mib), "0"], stdout=subprocess.PIPE, text=True)
        try:
            words = self.read(child)
            version = None if words[1] == "None" else int(words[1])
            assert self.reported is None or version is not None and version >= self.reported, f"{version}, not {self.reported} or later"
            self.reported = version
            for _ in range(self.rng.randint(3, 10)):
                words = self.read(child)
                if words[0] == "saved":
                    self.reported, self.saved = int(words[1]), self.saved + 1
                else:
                    self.failed += 1
                    print(*words, flush=True)
                if enough():
                    break
            time.sleep(self.rng.uniform(0, 0.5))
        finally:
            child.kill()
            child.wait()
        self.lives += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("megabytes", type=int)
    args = parser.parse_args()
    if args.job:
        return job(args)
    story, osds = Story(args), Osds(random.Random(args.seed))
    osds.wait_whole()
    osds.start()
    while story.saved * args.mib < args.megabytes or osds.kills < 3:
        story.live(lambda: story.saved * args.mib >= args.megabytes and osds.kills >= 3)
        print(f"life {story.lives}: {story.saved} saved, {story.failed} failed, {osds.kills} OSDs killed, longest {story.longest:.1f} s",
              flush=True)
        assert osds.trouble is None, osds.trouble
        assert story.failed <= story.saved + 10, "most checkpoints fail"
    osds.is_ended.set()
    osds.join()
    assert osds.trouble is None, osds.trouble
    story.live(lambda: True)
    told = subprocess.run([os.environ["VARVE"], "verify", os.environ["RADOS_STORE"]], stdout=subprocess.PIPE, text=True)
    assert told.returncode == 0 and "no damage found" in told.stdout, told.stdout
    print(f"three-osds: {story.saved} points: checkpoints of {args.mib} MiB saved, {story.failed} failed and told, {story.lives} lives, "
          f"{osds.kills} OSDs killed, the longest wait {story.longest:.0f} s")


sys.exit(main())
