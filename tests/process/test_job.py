#!/usr/bin/env python3
"""tools/varve-slurm.sh without Slurm, beside client.py: the codes it ends with, and who lives on.

VARVE and JOB are programs. `scontrol` is one of ours, which writes down what it was asked."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

VARVE, JOB = os.environ["VARVE"], os.environ["JOB"]
CLIENT = str(pathlib.Path(__file__).resolve().parent / "client.py")
EXIT_ENDING, EXIT_DUMPED, EXIT_NOT_BACK, EXIT_LOST = 73, 75, 76, 77


class Job(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="varve-job.")
        self.store = os.path.join(self.folder, "ck")
        asked = pathlib.Path(self.folder, "scontrol")
        asked.write_text('#!/bin/sh\n[ "$1" != show ] || { echo JobState=${STATE:-RUNNING}; exit; }\n'
                         'echo "$@" >>"$(dirname "$0")/asked"\n')
        asked.chmod(0o755)
        self.environment = dict(os.environ, VARVE=VARVE, DUMP_OPTIONS="--criu " + CLIENT, UNDUMP_OPTIONS="--criu " + CLIENT,
                                TMPDIR=self.folder, SLURM_JOB_ID="4711", PATH=self.folder + ":" + os.environ["PATH"])

    def tearDown(self):
        pid = self.command_pid()
        if pid and self.is_running(pid):
            os.killpg(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def beside(self, name):
        return pathlib.Path("%s-run.%s" % (self.store, name))

    def command_pid(self):
        return int(self.beside("pid").read_text()) if self.beside("pid").exists() else None

    @staticmethod
    def is_running(pid):
        try:
            return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except FileNotFoundError:
            return False

    def start(self, *command, **environment):
        return subprocess.Popen([JOB, self.store, "run", *command], env=dict(self.environment, **environment),
                                stderr=subprocess.PIPE, text=True)

    def start_and_term(self, **environment):
        job = self.start("sleep", "1000", **environment)
        self.wait_until(self.command_pid)
        time.sleep(0.3)
        job.send_signal(signal.SIGTERM)
        return job, self.command_pid()

    def wait_until(self, what):
        end = time.monotonic() + 20
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def ended(self, job):
        _, told = job.communicate(timeout=30)
        return job.returncode, told

    def test_code_of_the_command(self):
        self.assertEqual(self.ended(self.start("sh", "-c", "echo here; exit 7"))[0], 7)
        self.assertEqual(self.beside("out").read_text(), "here\n")
        code, told = self.ended(self.start("sh", "-c", "exit 8"))
        self.assertEqual(code, 7)
        self.assertIn("has ended before", told)

    def test_preempted(self):
        job, pid = self.start_and_term()
        code, told = self.ended(job)
        self.assertEqual(code, EXIT_DUMPED, told)
        self.assertFalse(self.is_running(pid))
        self.assertEqual(pathlib.Path(self.folder, "asked").read_text(), "requeue 4711\n")
        self.assertEqual(subprocess.run([VARVE, "show", self.store, "run"], capture_output=True).returncode, 0)

    def test_cancelled(self):
        code, told = self.ended(self.start_and_term(STATE="COMPLETING")[0])
        self.assertEqual(code, EXIT_ENDING, told)
        self.assertFalse(pathlib.Path(self.folder, "asked").exists())

    def test_cannot_come_back(self):
        self.ended(self.start_and_term()[0])
        code, told = self.ended(self.start("sh", "-c", "echo started anew", UNDUMP_OPTIONS="--criu false"))
        self.assertEqual(code, EXIT_NOT_BACK, told)
        self.assertIn("cannot be brought back", told)
        self.assertEqual(self.beside("out").read_text(), "")

    def test_pid_file_that_is_empty(self):
        self.ended(self.start_and_term()[0])
        pid = self.beside("pid").read_text()
        self.beside("pid").write_text("")
        code, told = self.ended(self.start("sh", "-c", "echo started anew"))
        self.beside("pid").write_text(pid)
        self.assertEqual(code, EXIT_NOT_BACK, told)
        self.assertIn("does not name a process", told)

    def test_storage_that_does_not_answer(self):
        pathlib.Path(self.store).write_text("no store")
        code, told = self.ended(self.start("sh", "-c", "echo started"))
        self.assertEqual(code, EXIT_NOT_BACK, told)
        self.assertFalse(self.beside("out").exists())

    def test_cannot_be_dumped(self):
        job, pid = self.start_and_term(DUMP_OPTIONS="--criu %s -- --fault fail" % CLIENT)
        self.assertIn("becomes a checkpoint", job.stderr.readline())
        while "runs on" not in job.stderr.readline():
            pass
        self.assertTrue(self.is_running(pid))
        os.killpg(pid, signal.SIGKILL)
        code, told = self.ended(job)
        self.assertEqual(code, EXIT_LOST, told)
        self.assertFalse(pathlib.Path(self.folder, "asked").exists())

    def test_everybody_gets_the_signal(self):
        job = self.start("sleep", "1000")
        self.wait_until(self.command_pid)
        time.sleep(0.3)
        os.killpg(self.command_pid(), signal.SIGTERM)
        time.sleep(0.2)
        self.assertTrue(self.is_running(self.command_pid()))
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(job)[0], EXIT_DUMPED)


unittest.main(verbosity=2)
