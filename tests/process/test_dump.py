#!/usr/bin/env python3
"""varve dump and undump beside a client of our own (client.py): what it sends comes back byte for byte, what it does
wrong leaves no checkpoint, and a process that was to be stopped runs on unless its checkpoint is durable."""
import json
import os
import pathlib
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

    def dump(self, *arguments, fault=None, pid=1, **environment):
        more = ["--", "--fault", fault] if fault else []
        return self.varve("dump", self.store, "p", "--pid", str(pid), "--criu", CLIENT, *arguments, *more, **environment)

    def victim(self):
        self.victims.append(subprocess.Popen(["sleep", "1000"]))
        return self.victims[-1]

    def has_checkpoint(self):
        return self.varve("show", self.store, "p").returncode == 0

    def images(self, seed):
        code = "import sys; sys.argv = ['x', 'check']\ntry: exec(open(%r).read())\nexcept SystemExit: pass\n" % CLIENT
        code += "import sys; sys.stdout.buffer.write(repr(images()).encode())"
        out = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, SEED=seed), capture_output=True, check=True)
        return eval(out.stdout)  # pylint: disable=eval-used # what we have just written

    def fetched(self, which="p"):
        target = tempfile.mkdtemp(dir=self.folder)
        done = self.varve("undump", self.store, which, "--to", target)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {path.name: path.read_bytes() for path in pathlib.Path(target).iterdir()}

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(self.has_checkpoint())

    def test_images_come_back_byte_for_byte(self):
        for seed in "12":
            done = self.dump(SEED=seed)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.fetched("p@0"), self.images("1"))
        self.assertEqual(self.fetched("p@1"), self.images("2"))
        self.assertEqual(self.varve("verify", self.store).returncode, 0)

    def test_only_pages_that_are_new_are_stored(self):
        self.dump()
        done = self.varve("dump", "--json", self.store, "p", "--pid", "1", "--criu", CLIENT, SEED="2")
        summary = [json.loads(line) for line in done.stdout.splitlines()][-1]
        self.assertGreater(summary["bytes_known"], 82 * 4096)
        self.assertLess(summary["bytes_stored"], 4096 + 6000)

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
