#!/usr/bin/env python3
"""varve dump and undump beside a client of our own (client.py): what it sends comes back byte for byte, what it does
wrong leaves no checkpoint, and a process that was to be stopped runs on unless its checkpoint is durable."""
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

VARVE = os.environ["VARVE"]
HERE = pathlib.Path(__file__).resolve().parent
CLIENT = str(HERE / "client.py")
EXIT_CORRUPT = 20


def state_of(pid):
    return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]


def is_gone(pid):
    return not os.path.exists("/proc/%d" % pid) or state_of(pid) == "Z"


def wait_until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


class Dump(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="varve-process.")
        self.store = os.path.join(self.folder, "ck")
        self.environment = dict(os.environ, TMPDIR=self.folder)
        for name in ("VARVE_STORE", "VARVE_CONFIG"):
            self.environment.pop(name, None)
        self.victims = []

    def tearDown(self):
        for victim in self.victims:
            victim.kill()
            victim.wait()
        shutil.rmtree(self.folder)

    def varve(self, *arguments, **environment):
        return subprocess.run([VARVE, *arguments], env=dict(self.environment, **environment), capture_output=True, text=True)

    def dump(self, *arguments, fault=None, pid=1, pids=None, **environment):
        more = ["--", "--fault", fault] if fault else []
        which = [word for one in pids or [pid] for word in ("--pid", str(one))]
        return self.varve("dump", self.store, "p", *which, "--criu", CLIENT, *arguments, *more, **environment)

    def summary(self, *arguments, **more):
        done = self.dump("--json", *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stdout)
        return [json.loads(line) for line in done.stdout.splitlines()][-1]

    def victim(self):
        self.victims.append(subprocess.Popen(["sleep", "1000"]))
        return self.victims[-1]

    def run_on(self, pids):
        return wait_until(lambda: all(state_of(pid) == "S" for pid in pids))

    def has_checkpoint(self):
        return self.varve("show", self.store, "p").returncode == 0

    def images(self, seed, heap="64"):
        code = "import sys; sys.argv = ['x', 'check']\ntry: exec(open(%r).read())\nexcept SystemExit: pass\n" % CLIENT
        code += "import pickle; sys.stdout.buffer.write(pickle.dumps(images()))"
        out = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, SEED=seed, HEAP=heap),
                             capture_output=True, check=True)
        return pickle.loads(out.stdout)

    def fetched(self, which="p", store=None):
        target = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = self.varve("undump", store or self.store, which, "--to", str(target))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def same(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for name in found:
            self.assertTrue(found[name] == expected[name], name)  # no list of the differences: that takes minutes

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(self.has_checkpoint())

    def test_images_come_back_byte_for_byte(self):
        for seed in "12":
            done = self.dump(SEED=seed)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.same(self.fetched("p@0"), self.images("1"))
        self.same(self.fetched("p@1"), self.images("2"))
        self.assertEqual(self.varve("verify", self.store).returncode, 0)

    def test_criu_is_told_who_is_not_root(self):
        asked, criu = pathlib.Path(self.folder, "asked"), pathlib.Path(self.folder, "criu")
        criu.write_text('#!/bin/sh\necho "$@" >>%s\nexit 1\n' % asked)
        criu.chmod(0o755)
        os.chmod(self.folder, 0o777)
        for user in (None, 65534) if os.geteuid() == 0 else (None,):
            done = subprocess.run([VARVE, "dump", self.store, "p", "--pid", "1", "--criu", str(criu)], user=user,
                                  env=self.environment, capture_output=True, text=True)
            is_root = user is None and os.geteuid() == 0
            self.refused(done, "nothing was stopped; see `%s check%s`" % (criu, "" if is_root else " --unprivileged"))
            self.assertEqual("--unprivileged" in asked.read_text(), not is_root)
            asked.unlink()

    def test_only_pages_that_are_new_are_stored(self):
        self.dump()
        done = self.varve("dump", "--json", self.store, "p", "--pid", "1", "--criu", CLIENT, SEED="2")
        summary = [json.loads(line) for line in done.stdout.splitlines()][-1]
        self.assertGreater(summary["bytes_known"], 82 * 4096)
        self.assertLess(summary["bytes_stored"], 4096 + 6000)

    def test_pages_count_as_they_were_when_the_process_stood(self):
        done = self.dump(fault="late")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(self.fetched(), self.images("1"))

    def test_criu_that_does_not_ask(self):
        self.refused(self.dump(fault="no-gate"), "without asking")

    def test_gate_needs_criu(self):
        def gate(**environment):
            return subprocess.run([os.environ["GATE"]], env=environment).returncode

        self.assertEqual(gate(CRTOOLS_SCRIPT_ACTION="post-dump", CRTOOLS_IMAGE_DIR=self.folder), 1)
        self.assertEqual(gate(CRTOOLS_SCRIPT_ACTION="pre-dump", CRTOOLS_IMAGE_DIR=self.folder), 0)
        self.assertEqual(gate(), 1)

    def test_store_comes_along(self):
        self.dump()
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.store, other)
        shutil.rmtree(self.store)
        self.same(self.fetched(store=other), self.images("1"))

    def test_several_at_once(self):
        pids = sorted(self.victim().pid for _ in range(4))
        several = self.summary(pids=pids, HEAP="1000")
        self.same(self.fetched(), {"%d/%s" % (pid, name): data for pid in pids
                                          for name, data in self.images("1", "1000").items()})
        self.assertIn("%d/pages-1.img:heap@10000" % pids[2], self.varve("show", self.store, "p").stdout)
        self.store += "2"
        one = self.summary(pid=pids[0], HEAP="1000")
        self.assertLess(several["bytes_stored"], 1.1 * one["bytes_stored"])
        self.assertTrue(self.run_on(pids))

    def test_one_after_another(self):
        """Of one name: what one of them has is known to those behind it, also when another one came between."""
        stored = [self.summary(SEED=seed, HEAP="1000")["bytes_stored"] for seed in "1231"]
        self.assertLess(stored[1], 4096 + 20000)
        self.assertLess(stored[2], 4096 + 20000)
        self.assertLess(stored[3], 20000)

    def test_several_at_once_or_none(self):
        for more in ((), ("--stop",)):
            pids = [self.victim().pid for _ in range(3)]
            done = self.dump(*more, pids=pids, fault="fail=%d" % pids[1])
            self.refused(done, "process %d: criu dump failed (1): a reason that people can read" % pids[1])
            self.assertTrue(self.run_on(pids))
            self.assertEqual(os.listdir(self.folder), [])

    def test_several_end_when_they_are_stored(self):
        victims = [self.victim() for _ in range(3)]
        done = self.dump("--stop", pids=[victim.pid for victim in victims])
        self.assertEqual(done.returncode, 0, done.stderr)
        for victim in victims:
            self.assertEqual(victim.wait(timeout=20), -signal.SIGKILL)

    def test_trees_are_apart(self):
        pid = self.victim().pid
        self.refused(self.dump(pids=[pid, pid]), "process %d belongs to the tree of process %d" % (pid, pid))
        self.refused(self.dump(pids=[pid, os.getpid()]), "process %d belongs to the tree of process %d" % (pid, os.getpid()))
        self.refused(self.dump(pid=2 ** 22 + 1), "there is no process")

    def test_what_has_ended_is_not_dumped(self):
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.refused(self.dump(pid=ended.pid), "process %d has ended" % ended.pid)
        ended.wait()

    def undump_several(self, **environment):
        self.dump(pids=[self.victim().pid for _ in range(3)])
        done = self.varve("undump", self.store, "p", "--criu", CLIENT, **environment)
        with open(os.path.join(self.folder, "restored")) as file:
            lines = [line.split() for line in file]
        for line in lines:
            self.assertLessEqual({"pages-1.img", "inventory.img", "varve.pid"}, set(line[1:]))
        return done, [int(line[0]) for line in lines]

    def test_several_come_back(self):
        done, pids = self.undump_several()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(pids), 3)
        self.assertTrue(self.run_on(pids))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(sorted(os.listdir(self.folder)), ["ck", "restored"])

    def test_several_come_back_or_none(self):
        done, pids = self.undump_several(RESTORE_FAIL="3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("criu restore failed", done.stderr)
        self.assertEqual(len(pids), 2)
        self.assertTrue(wait_until(lambda: all(is_gone(pid) for pid in pids)))

    def test_memory_is_bounded(self):
        watch = os.path.join(self.folder, "watch")
        pids = sorted(self.victim().pid for _ in range(2))
        done = self.dump("--memory", "4M", pids=pids, HEAP="2500", WATCH=watch)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(watch) as file:
            self.assertLess(int(file.read()), 6 << 20)
        os.remove(watch)
        self.same(self.fetched(), {"%d/%s" % (pid, name): data for pid in pids
                                          for name, data in self.images("1", "2500").items()})
        self.assertEqual(self.varve("verify", self.store).returncode, 0)
        self.assertTrue(self.run_on(pids))

    def test_memory_does_not_matter_for_what_is_known(self):
        pid = self.victim().pid
        first = self.summary("--memory", "4M", pid=pid, HEAP="1500")
        second = self.summary(pid=pid, SEED="2", HEAP="1500")
        third = self.summary("--memory", "4M", pid=pid, SEED="2", HEAP="1500")
        self.assertGreater(first["bytes_stored"], 1500 * 4096)
        self.assertLess(second["bytes_stored"], 4096 + 40000)
        self.assertLess(third["bytes_stored"], 40000)
        self.same(self.fetched("p@2"), self.images("2", "1500"))

    def test_memory_is_full_and_criu_fails(self):
        for fault in ("fail", "twice", "no-gate"):
            victim = self.victim()
            self.refused(self.dump("--stop", "--memory", "4M", pid=victim.pid, fault=fault, HEAP="1500"))
            self.assertTrue(self.run_on([victim.pid]))

    def test_memory_is_full_and_the_store_fails(self):
        victim = self.victim()
        done = self.varve("dump", self.store, "p", "--pid", str(victim.pid), "--stop", "--memory", "4M", "--criu", CLIENT,
                          HEAP="1500", VARVE_MIN_FREE="1000T")
        self.refused(done)
        self.assertTrue(self.run_on([victim.pid]))

    def test_memory_is_full_and_it_is_stored(self):
        victim = self.victim()
        done = self.dump("--stop", "--memory", "4M", pid=victim.pid, HEAP="1500")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(victim.wait(timeout=20), -signal.SIGKILL)

    def test_mappings_are_regions(self):
        self.dump()
        shown = self.varve("show", self.store, "p").stdout
        self.assertIn("pages-1.img:heap@10000", shown)
        self.assertIn("pages-1.img:file@700000", shown)
        self.assertNotIn("stack@", shown)  # too small for a region

    def test_nothing_is_left_behind(self):
        self.dump()
        self.dump(fault="fail")
        self.assertEqual(os.listdir(self.folder), ["ck"])

    def test_criu_that_fails(self):
        self.refused(self.dump(fault="fail"), "criu dump failed (1): a reason that people can read")
        self.refused(self.dump(fault="no-connect"), "criu dump failed (1): a reason that people can read")
        self.refused(self.dump(fault="die"), "criu dump failed (137)")

    def test_frequent_errors_have_hints(self):
        """The words are those of criu 4.1.1."""
        for reason, hint in (("The root process 7 is not a session leader. Consider using --shell-job option",
                              "-- --shell-job"),
                             ("inet: Connected TCP socket, consider using --tcp-established option.",
                              "-- --tcp-established"),
                             ("Can't fork for 4711: File exists", "unshare --pid"),
                             ("Can't open file scratch/in on restore: No such file or directory", "bring it back"),
                             ("File scratch/out has bad size 8 (expect 4)", "as it was at the dump")):
            done = self.dump(fault="fail", REASON=reason)
            self.refused(done, reason + "; ", hint)
        self.assertNotIn("; ", self.dump(fault="fail").stderr)

    def test_criu_that_is_not_there(self):
        done = self.varve("dump", self.store, "p", "--pid", "1", "--criu", "/nonexistent/criu")
        self.refused(done, "there is no program /nonexistent/criu", "--criu")
        self.refused(self.dump(CHECK="1"), "criu cannot work here", "nothing was stopped")

    def test_streams_that_lie(self):
        self.refused(self.dump(fault="twice"), "twice", "pages-1.img")
        for name in ("../out", "a/b", ".hidden", "", "x" * 256):
            self.refused(self.dump(fault="name=" + name), "requests of criu")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))

    def test_stopped_process_ends_when_it_is_stored(self):
        victim = self.victim()
        done = self.dump("--stop", pid=victim.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(victim.wait(timeout=20), -signal.SIGKILL)
        self.assertTrue(self.has_checkpoint())

    def test_stopped_process_goes_on_when_it_cannot_be_stored(self):
        for fault in ("fail", "twice"):
            victim = self.victim()
            self.refused(self.dump("--stop", pid=victim.pid, fault=fault))
            self.assertTrue(wait_until(lambda: state_of(victim.pid) == "S"))
        with open(self.store, "w") as file:
            file.write("no folder")
        victim = self.victim()
        self.assertNotEqual(self.dump("--stop", pid=victim.pid).returncode, 0)
        self.assertTrue(wait_until(lambda: state_of(victim.pid) == "S"))

    def test_stopped_process_goes_on_when_the_tool_is_killed(self):
        victim = self.victim()
        marker = os.path.join(self.folder, "marker")
        tool = subprocess.Popen([VARVE, "dump", self.store, "p", "--pid", str(victim.pid), "--stop", "--criu", CLIENT, "--",
                                 "--fault", "marker"], env=self.environment)
        self.assertTrue(wait_until(lambda: os.path.exists(marker)))
        self.assertTrue(wait_until(lambda: state_of(victim.pid) == "T"))
        tool.kill()
        tool.wait()
        self.assertTrue(wait_until(lambda: state_of(victim.pid) == "S"))
        self.assertFalse(self.has_checkpoint())

    def slow_dump(self):
        """A process with a child, both stopped, while their images go to storage that takes seconds for them."""
        root = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
        self.victims.append(root)
        children = pathlib.Path("/proc/%d/task/%d/children" % (root.pid, root.pid))
        self.assertTrue(wait_until(lambda: children.read_text().split()))
        child = int(children.read_text())
        tool = subprocess.Popen([VARVE, "dump", self.store + "?limit=1MB", "p", "--pid", str(root.pid), "--stop", "--criu",
                                 CLIENT], env=dict(self.environment, HEAP="1000"), stderr=subprocess.DEVNULL)
        self.victims.append(tool)
        is_storing = lambda: os.path.exists(self.store) and os.listdir(self.folder) == ["ck"]
        self.assertTrue(wait_until(is_storing))
        time.sleep(0.3)
        self.assertEqual(state_of(child), "T")
        return tool, root, child

    def test_child_of_a_killed_root_goes_on_when_the_tool_is_killed(self):
        tool, root, child = self.slow_dump()
        root.kill()
        root.wait()
        tool.kill()
        tool.wait()
        self.assertTrue(wait_until(lambda: state_of(child) == "S"))
        self.assertFalse(self.has_checkpoint())
        os.kill(child, signal.SIGKILL)

    def test_child_of_a_killed_root_ends_when_it_is_stored(self):
        tool, root, child = self.slow_dump()
        root.kill()
        root.wait()
        self.assertEqual(tool.wait(timeout=60), 0)
        gone = lambda: not os.path.exists("/proc/%d" % child) or state_of(child) == "Z"
        self.assertTrue(wait_until(gone))
        self.assertTrue(self.has_checkpoint())

    def test_guard_that_is_killed(self):
        tool, root, child = self.slow_dump()
        guard = [int(pid) for pid in pathlib.Path("/proc/%d/task/%d/children" % (tool.pid, tool.pid)).read_text().split()]
        self.assertEqual(len(guard), 1)
        os.kill(guard[0], signal.SIGKILL)
        self.assertEqual(tool.wait(timeout=60), 0)
        self.assertEqual(root.wait(timeout=20), -signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not os.path.exists("/proc/%d" % child) or state_of(child) == "Z"))

    def test_interrupt_waits_for_criu(self):
        victim = self.victim()
        marker = os.path.join(self.folder, "marker")
        tool = subprocess.Popen([VARVE, "dump", self.store, "p", "--pid", str(victim.pid), "--stop", "--criu", CLIENT, "--",
                                 "--fault", "marker"], env=self.environment, stderr=subprocess.DEVNULL)
        self.assertTrue(wait_until(lambda: os.path.exists(marker)))
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(timeout=20), 130)
        self.assertTrue(wait_until(lambda: state_of(victim.pid) == "S"))
        self.assertFalse(self.has_checkpoint())
        os.remove(marker)
        self.assertEqual(os.listdir(self.folder), [])

    def test_more_images_than_files_may_be_open(self):
        import resource
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        done = subprocess.run([VARVE, "dump", self.store, "p", "--pid", "1", "--criu", CLIENT, "--", "--fault", "many"],
                              env=self.environment, preexec_fn=limit, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.fetched()), 1105)

    def test_import_is_no_process(self):
        os.makedirs(os.path.join(self.folder, "in", "folder"))
        with open(os.path.join(self.folder, "in", "folder", "x"), "w") as file:
            file.write("x")
        self.varve("import", self.store, "p", "-C", os.path.join(self.folder, "in"), ".")
        done = self.varve("undump", self.store, "p", "--criu", CLIENT)
        self.assertIn("no process", done.stderr)

    def test_damage_is_refused_before_criu_begins(self):
        self.dump()
        for path in pathlib.Path(self.store).rglob("*"):
            if path.is_file() and path.stat().st_size > 50000:
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 1
                path.chmod(0o600)
                path.write_bytes(data)
        done = self.varve("undump", self.store, "p", "--criu", CLIENT)
        self.assertEqual(done.returncode, EXIT_CORRUPT, done.stderr)
        self.assertIn("pages-1.img cannot be given back", done.stderr)


unittest.main(verbosity=2)
