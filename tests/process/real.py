#!/usr/bin/env python3
"""real.py [ROUNDS]: programs that know nothing of Varve are dumped by a real criu while they run, killed, and brought
back from the newest checkpoint and from an older one. Each counts, checks its own memory, and must go on with the count
that it had at the dump. Then ROUNDS (5) dumps at random moments of one of them, each brought back.

VARVE and THREADS are programs; CRIU is a criu, or the one in PATH. Ends with 77 where none works on this kernel."""
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

VARVE, THREADS = os.environ["VARVE"], os.environ["THREADS"]
CRIU = os.environ.get("CRIU", "criu")
PYTHON = "/usr/bin/python3"
DUMPS = 5

TELL = """
import os, sys, time
def tell(count, is_well):
    with open(sys.argv[1] + ".new", "w") as file:
        file.write("%d %s\\n" % (count, "well" if is_well else "WRONG"))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
NUMPY = TELL + """
import numpy as np
x = np.arange(1_000_000.0)
count = 0
while True:
    count += 1
    x += 1
    tell(count, bool((x == np.arange(1_000_000.0) + count).all()))
    time.sleep(0.01)
"""
PIPE = TELL + """
ours, theirs = os.pipe()
if os.fork() == 0:
    count = 0
    while True:
        count += 1
        os.write(theirs, b"%12d" % count)
        time.sleep(0.01)
last = 0
while True:
    count = int(os.read(ours, 12))
    tell(count, count == last + 1)
    last = count
"""
SERVER = TELL + """
import socket
server = socket.create_server(("127.0.0.1", int(sys.argv[2])))
count = 0
server.settimeout(0.02)
while True:
    count += 1
    tell(count, True)
    try:
        with server.accept()[0] as client:
            client.sendall(b"%d" % count)
    except TimeoutError:
        pass
"""
PERL = r"""
my ($path) = @ARGV;
my %seen;
for (my $count = 1;; $count++) {
    $seen{$count} = $count * 3;
    my $well = $count == 1 || $seen{$count - 1} == ($count - 1) * 3 && keys(%seen) == $count ? "well" : "WRONG";
    open(my $file, ">", "$path.new") or die; print $file "$count $well\n"; close $file; rename "$path.new", $path;
    select(undef, undef, undef, 0.01);
}
"""


def fail(text):
    raise SystemExit("FAILED: " + text)


def adopt():
    """Processes whose parents are gone are ours: nobody else may care, and a dead one keeps its id."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_group(pid):
    try:
        os.killpg(pid, 0)
        return True
    except ProcessLookupError:
        return False


def varve(*arguments):
    done = subprocess.run([VARVE, *arguments], capture_output=True, text=True)
    if done.returncode:
        fail("varve %s: %s" % (" ".join(arguments), done.stderr))


class Program:
    """A process in a session of its own, and the count that it writes."""

    def __init__(self, folder, name, command):
        self.path, self.store, self.name = os.path.join(folder, name), os.path.join(folder, "ck"), name
        nothing = subprocess.DEVNULL
        self.pid = subprocess.Popen([word.replace("FILE", self.path) for word in command], stdin=nothing, stdout=nothing,
                                    stderr=nothing, start_new_session=True, close_fds=True).pid
        self.wait_for(lambda count: count > 5)

    def count(self):
        try:
            with open(self.path) as file:
                count, word = file.read().split()
        except FileNotFoundError:
            return 0
        return int(count) if word == "well" else fail("%s found its memory wrong at %s" % (self.name, count))

    def wait_for(self, what):
        end = time.monotonic() + 60
        while not what(self.count()):
            if time.monotonic() > end:
                fail("%s stands still at %d" % (self.name, self.count()))
            time.sleep(0.005)

    def dump(self):
        """The counts before and after: that of the checkpoint lies between."""
        before = self.count()
        varve("dump", self.store, self.name, "--pid", str(self.pid), "--criu", CRIU)
        return before, self.count()

    def kill(self):
        os.killpg(self.pid, signal.SIGKILL)
        while is_group(self.pid):
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.01)
        os.remove(self.path)

    def come_back(self, version, least, most):
        """It writes its next count, which is one of these or the next, and goes on from there."""
        varve("undump", self.store, "%s@%d" % (self.name, version), "--criu", CRIU)
        self.wait_for(lambda count: count > 0)
        first = self.count()
        if not least <= first <= most + 30:
            fail("%s@%d came back with %d, not %d to %d" % (self.name, version, first, least, most))
        self.wait_for(lambda count: count > first + 5)


def try_program(folder, name, command):
    program = Program(folder, name, command)
    counts = []
    for _ in range(DUMPS):
        counts.append(program.dump())
        last = program.count()
        program.wait_for(lambda count: count > last + 40)
    for version in (DUMPS - 1, 1):
        program.kill()
        program.come_back(version, *counts[version])
    program.kill()
    print("%s: %d dumps, back from the last and from the second" % (name, DUMPS), flush=True)


def can_dump_sockets(folder, command):
    """criu 4.1 asks sockets for an option that Linux 6.16 and newer have for UNIX sockets only."""
    program = Program(folder, "server", command)
    done = subprocess.run([VARVE, "dump", program.store, "socket", "--pid", str(program.pid), "--criu", CRIU],
                          capture_output=True, text=True)
    program.kill()
    if "Can't get 1:16 opt" in done.stderr:
        print("server: SKIPPED: this criu cannot dump TCP sockets on this kernel: %s" % done.stderr.strip(), flush=True)
        return False
    return True


def try_moments(folder, rounds, command):
    program = Program(folder, "moments", command)
    dice = random.Random(int(os.environ.get("SEED", "1")))
    for version in range(rounds):
        time.sleep(dice.random() * 0.3)
        counts = program.dump()
        time.sleep(dice.random() * 0.1)
        program.kill()
        program.come_back(version, *counts)
    program.kill()
    print("moments: %d dumps at random, each brought back" % rounds, flush=True)


def main(rounds):
    if os.getuid() != 0 or subprocess.run(["sh", "-c", '"$0" check', CRIU], capture_output=True).returncode:
        print("skipped: no criu that works on this kernel, or not root; CRIU may name another one")
        return 77
    adopt()
    folder = tempfile.mkdtemp(prefix="varve-real.")
    port = str(random.randrange(20000, 30000))
    try:
        try_program(folder, "threads", [THREADS, "FILE"])
        try_program(folder, "numpy", [PYTHON, "-c", NUMPY, "FILE"])
        try_program(folder, "perl", ["perl", "-e", PERL, "FILE"])
        try_program(folder, "pipe", [PYTHON, "-c", PIPE, "FILE"])
        if can_dump_sockets(folder, [PYTHON, "-c", SERVER, "FILE", port]):
            try_program(folder, "server", [PYTHON, "-c", SERVER, "FILE", port])
        try_moments(folder, rounds, [THREADS, "FILE"])
    finally:
        subprocess.run(["pkill", "-KILL", "-f", folder], check=False)
        shutil.rmtree(folder)
    return 0


sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
