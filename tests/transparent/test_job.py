#!/usr/bin/env python3
"""tools/varve-job.sh without Slurm: what it starts, whom it asks, and the codes it ends with.

VARVE, PROGRAM (job-program) and JOB are programs. scontrol, srun, scancel, sinfo and squeue are ours: they write down what they
were asked, and say what the test wants; slurm.py has the real ones."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

VARVE, PROGRAM, JOB = os.environ["VARVE"], os.environ["PROGRAM"], os.environ["JOB"]
DONE, USAGE, ENDING, NOT_QUEUED, QUEUED, STORAGE, GAVE_UP, NOT_STARTED = 0, 2, 73, 74, 75, 76, 78, 79
FAKES = {
    "scontrol": """
case $1:$2 in
show:job) echo "JobId=4711 JobState=${STATE:-RUNNING} RunTime=${RUN:-00:01:00} TimeLimit=1-00:00:00 EndTime=${END:-Unknown}" ;;
show:hostnames) printf '%s\\n' n0 n1 n2 ;;
*) echo "$@" >>"$FOLDER/asked"; exit ${REQUEUE:-0} ;;
esac""",
    # Tasks of a node that the test calls dead do not start; the program's process is srun's.
    "srun": """
options="" node=""
while :; do
    case $1 in
    -w) node=$2; shift 2 ;;
    -*) options="$options $1"; shift ;;
    *) break ;;
    esac
done
if [ -n "$node" ]; then
    ! grep -qx $node "$FOLDER/dead" 2>/dev/null; exit
fi
echo "srun$options $SLURM_JOB_NUM_NODES" >>"$FOLDER/asked"
echo $$ >"$FOLDER/pid"
exec "$@" """,
    "scancel": """echo "scancel $*" >>"$FOLDER/asked"; s=${1#--signal=}; kill -$s $(cat "$FOLDER/pid")""",
    "sinfo": """echo asked >>"$FOLDER/sinfo-asked"
[ "$(wc -l <"$FOLDER/sinfo-asked")" -gt ${SINFO_FAILS:-0} ] || { echo "Unable to contact slurm controller" >&2; exit 1; }
cat "$FOLDER/states" 2>/dev/null; exit 0""",
    "squeue": "exit 0",
}


class Job(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="varve-job.")
        self.store = os.path.join(self.folder, "ck")
        self.jobs = []
        for name, text in FAKES.items():
            self.script(name, text)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        self.environment.update(VARVE=VARVE, FOLDER=self.folder, RANK="0", WORLD_SIZE="1", SLURM_JOB_ID="4711",
                                VARVE_INTERVAL="asked", PATH=self.folder + ":" + os.environ["PATH"])

    def tearDown(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.communicate()
        pid = self.at("pid")
        if pid.exists():
            try:
                os.kill(int(pid.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder)

    def at(self, name):
        return pathlib.Path(self.folder, name)

    def start(self, steps=20, milliseconds=10, options=(), launcher=("srun",), program=PROGRAM, job=JOB, stdin=None, **environment):
        job = subprocess.Popen([job, *options, self.store, "run", "--", *launcher, program, self.store, "run", str(steps),
                                str(milliseconds), self.folder], env=dict(self.environment, **environment),
                               stdin=stdin, stderr=subprocess.PIPE, text=True)
        self.jobs.append(job)
        return job

    def script(self, name, text):
        self.at(name).write_text("#!/bin/sh\n" + text + "\n")
        self.at(name).chmod(0o755)
        return str(self.at(name))

    def job_with(self, **seconds):
        """The script with other times."""
        for name in ("varve-job.sh", "job-parts.sh"):
            text = pathlib.Path(JOB).with_name(name).read_text()
            for variable, value in seconds.items():
                text = re.sub(rf"^{variable}=\d+", f"{variable}={value}", text, flags=re.MULTILINE)
            self.at(name).write_text(text)
        self.at("varve-job.sh").chmod(0o755)
        return str(self.at("varve-job.sh"))

    def ends(self, job, code):
        _, told = job.communicate(timeout=90)
        self.assertEqual(job.returncode, code, told)
        return told

    def asked(self):
        return self.at("asked").read_text().splitlines() if self.at("asked").exists() else []

    def steps(self, *words):
        lines = [line.split() for line in self.at("steps.0").read_text().splitlines()] if self.at("steps.0").exists() else []
        return [int(line[1]) for line in lines if line[0] in words]

    def wait_until(self, what):
        end = time.monotonic() + 30
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def running(self, **environment):
        job = self.start(steps=3000, **environment)
        self.wait_until(lambda: self.steps("from"))
        time.sleep(0.3)
        return job

    def result(self, steps):
        other = self.at("other")
        other.mkdir()
        subprocess.run([PROGRAM, str(other / "ck"), "run", str(steps), "0", str(other)], env=self.environment, check=True)
        self.assertEqual((other / "result.0").read_text(), self.at("result.0").read_text())

    def test_done(self):
        self.ends(self.start(), DONE)
        self.assertEqual(self.asked(), ["srun "])
        self.assertEqual(list(self.at(".").glob("ck-run.job*")), [])
        self.result(20)

    def test_done_without_checkpoint(self):
        """Perhaps the program's store is another one."""
        job = subprocess.Popen([JOB, self.store, "run", "--", "true"], env=self.environment, stderr=subprocess.PIPE, text=True)
        self.jobs.append(job)
        self.assertIn("has no checkpoint of run: if it makes any, they are elsewhere", self.ends(job, DONE))

    def test_warned(self):
        job = self.running()
        job.send_signal(signal.SIGUSR1)
        self.assertIn("has left, and its checkpoint is durable", self.ends(job, QUEUED))
        self.assertEqual(self.asked(), ["srun ", "scancel --signal=TERM 4711", "requeue 4711"])
        steps = self.steps("left")[0] + 20
        self.ends(self.start(steps=steps), DONE)
        self.assertEqual(self.steps("from"), [0, steps - 20])
        self.result(steps)

    def test_program_told_by_slurm(self):
        job = self.running()
        os.kill(int(self.at("pid").read_text()), signal.SIGTERM)
        self.ends(job, QUEUED)
        self.assertEqual(self.asked(), ["srun ", "requeue 4711"])

    def test_other_launcher(self):
        self.script("mpirun", 'exec "$@"')
        job = self.running(launcher=["mpirun"])
        job.send_signal(signal.SIGTERM)
        self.ends(job, QUEUED)
        self.assertEqual(self.asked(), ["requeue 4711"])
        self.assertEqual(len(self.steps("left")), 1)

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "there is no Open MPI")
    def test_mpirun(self):
        """The real one: both ranks leave, told by the store, and by the signal that it passes on."""
        for options in ([], ["--signal", "USR2"]):
            self.leave_mpirun(options)
            shutil.rmtree(self.store)
            self.at("steps.0").unlink()

    def leave_mpirun(self, options):
        rank = 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$0" "$@"'
        job = self.running(options=options, launcher=["mpirun.openmpi", "--oversubscribe", "-n", "2", "sh", "-c", rank], MASTER_ADDR="127.0.0.1",
                           VARVE_PORT=str(random.randrange(10000, 20000)), OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", SLURM_JOB_ID="")
        job.send_signal(signal.SIGTERM)
        self.ends(job, QUEUED)
        self.assertEqual(len(self.steps("left")), 1)

    def test_told_by_the_store(self):
        self.at("scancel").write_text("#!/bin/sh\nexit 1\n")
        job = self.running()
        job.send_signal(signal.SIGUSR1)
        self.ends(job, QUEUED)
        self.assertEqual(len(self.steps("left")), 1)

    def test_end_time_of_scontrol(self):
        end = time.time() + 8
        told = self.ends(self.start(steps=3000, END=time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(end)), VARVE_END_SLACK="4"),
                         QUEUED)
        self.assertIn("has left", told)
        self.assertLess(time.time(), end)

    def test_input(self):
        reader = self.script("reader", 'cat >"$FOLDER/read"')
        job = self.start(launcher=(), program=reader, stdin=subprocess.PIPE)
        job.stdin.write("a line\n")
        job.stdin.close()
        job.stdin = None
        self.ends(job, DONE)
        self.assertEqual(self.at("read").read_text(), "a line\n")
        closed = self.script("closed", 'exec "$REAL" "$@" <&-')
        self.ends(self.start(launcher=(), program=reader, job=closed, REAL=JOB), DONE)
        self.assertEqual(self.at("read").read_text(), "")

    def test_word_of_another(self):
        """Somebody with our process number has left here, on another host."""
        early = self.script("early", ': >"$FOLDER/ck-run.job.left.$$.1"; exec "$REAL" "$@"')
        self.ends(self.start(job=early, REAL=JOB), DONE)

    def test_asked_again(self):
        """A program that does not leave is asked again, and one that has left is left alone."""
        slow = self.script("slow", """trap 'date +%s.%N >>"$FOLDER/told"' TERM
i=0
while [ $i -lt 60 ]; do
    sleep 0.1 & wait
    i=$((i + 1))
    [ $i -ne ${LEAVES:-100} ] || { : >"$VARVE_EXIT_FILE"; date +%s.%N >"$FOLDER/left"; }
done""")
        job = self.job_with(AGAIN_SECONDS=2)
        for leaves, code in (("100", DONE), ("15", QUEUED)):
            self.at("told").write_text("")
            told = self.start(launcher=(), program=slow, job=job, options=["--signal", "TERM"], LEAVES=leaves)
            time.sleep(0.5)
            told.send_signal(signal.SIGUSR1)
            self.ends(told, code)
            asked = [float(line) for line in self.at("told").read_text().splitlines()]
            if code == QUEUED:
                self.assertTrue(asked and asked[-1] < float(self.at("left").read_text()) + 1, asked)
            else:
                self.assertGreaterEqual(len(asked), 2)
            self.assertTrue(all(later - one > 0.9 for one, later in zip(asked, asked[1:])), asked)  # whole seconds count

    def test_after_exit(self):
        job = self.running(options=["--after", "exit"])
        job.send_signal(signal.SIGUSR1)
        self.ends(job, QUEUED)
        self.assertNotIn("requeue 4711", self.asked())

    def test_after_stay(self):
        job = self.running(options=["--after", "stay"])
        job.send_signal(signal.SIGUSR1)
        self.wait_until(lambda: self.steps("left"))
        time.sleep(3)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        self.ends(job, QUEUED)
        self.assertNotIn("requeue 4711", self.asked())

    def test_cancelled(self):
        job = self.running(STATE="COMPLETING")
        job.send_signal(signal.SIGTERM)
        self.ends(job, ENDING)
        self.assertNotIn("requeue 4711", self.asked())

    def test_at_the_time_limit(self):
        job = self.running(STATE="COMPLETING", RUN="1-00:00:08")
        job.send_signal(signal.SIGTERM)
        self.ends(job, QUEUED)
        self.assertIn("requeue 4711", self.asked())

    def test_cannot_be_queued_again(self):
        job = self.running(REQUEUE="1")
        job.send_signal(signal.SIGUSR1)
        self.ends(job, NOT_QUEUED)

    def test_crash(self):
        told = self.ends(self.start(steps=60, CRASH_ONCE="40", VARVE_INTERVAL="given"), DONE)
        self.assertIn("the program ended with 134", told)
        self.assertEqual(len(self.steps("from")), 2)
        self.assertGreater(self.steps("from")[1], 0)
        self.result(60)

    def test_gives_up(self):
        told = self.ends(self.start(CRASH="5", options=["--restarts", "2"]), GAVE_UP)
        self.assertIn("given up", told)
        self.assertEqual(len(self.steps("from")), 3)
        self.assertEqual(list(self.at(".").glob("ck-run.job*")), [])

    def test_gives_up_with_progress(self):
        """Each life makes one more checkpoint, and crashes: not for ever."""
        told = self.ends(self.start(steps=1000, CRASH_AFTER="2", VARVE_INTERVAL="given", options=["--restarts", "0"]), GAVE_UP)
        self.assertIn("has crashed 5 times", told)
        self.assertEqual(len(self.steps("from")), 5)

    def test_gives_up_in_later_lives(self):
        # Each life is warned before its program has begun, and makes no checkpoint.
        warn = self.script("warn", "echo life >>$FOLDER/lives; kill -USR1 $PPID; exec sleep 100")
        for _ in range(3):
            self.ends(self.start(options=["--restarts", "2", "--signal", "TERM"], launcher=(), program=warn), QUEUED)
        self.ends(self.start(options=["--restarts", "2", "--signal", "TERM"], launcher=(), program=warn), GAVE_UP)
        self.assertEqual(self.at("lives").read_text(), "life\n" * 3)
        self.ends(self.start(), DONE)

    def test_another_job_counts_anew(self):
        self.at("ck-run.job").write_text("4710 -1 99\n")
        self.ends(self.start(), DONE)

    def test_progress_is_a_greater_version(self):
        self.at("ck-run.job").write_text("4711 -1 99\n")
        self.ends(self.start(), GAVE_UP)
        subprocess.run([PROGRAM, self.store, "run", "10", "0", self.folder], env=dict(self.environment, VARVE_INTERVAL="given"),
                       check=True)
        self.at("ck-run.job").write_text("4711 3 99\n")
        self.ends(self.start(), DONE)
        self.at("ck-run.job").write_text("4711 1700000000000000000 99\n")
        self.ends(self.start(), GAVE_UP)

    def test_storage_in_trouble(self):
        pathlib.Path(self.store).write_text("no store")
        self.assertIn("nothing more is started", self.ends(self.start(), STORAGE))
        self.assertEqual(self.asked(), [])

    def test_not_started(self):
        self.ends(self.start(launcher=["/nowhere/srun"]), NOT_STARTED)
        self.ends(self.start(options=["--state", "/nowhere/state"]), NOT_STARTED)
        self.ends(self.start(options=["--state", self.folder + "/" + "x" * 250]), NOT_STARTED)
        for options in (["--after", "lunch"], ["--nodes", "x"], ["--signal", "KILL"], ["--restarts"], ["--help"]):
            self.ends(self.start(options=options), USAGE)
        self.assertEqual(self.asked(), [])

    # ---- nodes ----

    def on_nodes(self, **environment):
        return self.start(steps=60, CRASH_ONCE="40", VARVE_INTERVAL="given", SLURM_JOB_NODELIST="n[0-2]", SLURM_JOB_NUM_NODES="3",
                          **environment)

    def test_spare_node(self):
        self.at("dead").write_text("n1\n")
        told = self.ends(self.on_nodes(options=["--nodes", "2"]), DONE)
        self.assertIn("dead: n1", told)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n1 2"])
        self.result(60)

    def test_too_few_nodes(self):
        self.at("dead").write_text("n1\n")
        told = self.ends(self.on_nodes(), QUEUED)
        self.assertIn("2 of 3 nodes are left, and 3 are needed", told)
        self.assertEqual(self.asked(), ["srun 3", "requeue 4711"])

    def test_nodes_that_slurm_knows(self):
        self.at("states").write_text("n0 allocated\nn0 allocated\nn1 allocated*\nn2 down\n")
        told = self.ends(self.on_nodes(options=["--nodes", "1"]), DONE)
        self.assertIn("dead: n1 n2", told)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n1,n2 1"])

    def test_a_node_comes_back(self):
        lives = self.script("lives.sh", """echo life >>"$FOLDER/lives"
case $(wc -l <"$FOLDER/lives") in
1) echo n1 >"$FOLDER/dead"; exit 1 ;;
2) rm "$FOLDER/dead"; exit 1 ;;
esac""")
        self.ends(self.start(program=lives, SLURM_JOB_NODELIST="n[0-2]", SLURM_JOB_NUM_NODES="3", options=["--nodes", "2"]), DONE)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n1 2", "srun 3"])

    def test_zero_with_a_lost_node(self):
        self.at("states").write_text("n0 allocated\nn1 down*\nn2 allocated\n")
        told = self.ends(self.start(SLURM_JOB_NODELIST="n[0-2]", SLURM_JOB_NUM_NODES="3", options=["--nodes", "2"]), DONE)
        self.assertIn("nodes were lost: n1", told)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n1 2"])

    def test_zero_and_no_word_of_nodes(self):
        """Slurm does not answer: for a while, and then says that a node was lost; or for so long that the nodes are asked."""
        self.at("states").write_text("n0 allocated\nn1 down*\nn2 allocated\n")
        nodes = {"SLURM_JOB_NODELIST": "n[0-2]", "SLURM_JOB_NUM_NODES": "3", "options": ["--nodes", "2"],
                 "job": self.job_with(NODES_TRIES=3, NODES_SECONDS=0)}
        told = self.ends(self.start(SINFO_FAILS="2", **nodes), DONE)
        self.assertIn("nodes were lost: n1", told)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n1 2"])
        for name in ("asked", "states", "sinfo-asked"):
            self.at(name).unlink()
        told = self.ends(self.start(SINFO_FAILS="1000", **nodes), DONE)
        self.assertIn("they are asked to start something", told)
        self.assertEqual(self.asked(), ["srun 3"])
        self.at("asked").unlink()
        self.at("dead").write_text("n2\n")
        told = self.ends(self.start(SINFO_FAILS="1000", **nodes), DONE)
        self.assertIn("nodes were lost: n2", told)
        self.assertEqual(self.asked(), ["srun 3", "srun --overlap --exclude=n2 2"])


unittest.main(verbosity=2)
