#!/usr/bin/env python3
"""real.py [ROUNDS]: programs that know nothing of Varve are dumped by a real criu while they run, killed, and brought
back from the newest checkpoint and from an older one. Each counts, checks its own memory, and must go on with the count
that it had at the dump. One of them tells what else comes back: shared memory, mapped files, timers, handlers, a signal
that waits, and the place in a file. An editor in a terminal multiplexer must have the text that was typed before. Images
that criu wrote by itself are imported. Four equal programs are dumped at once and come back from a copy of the store; one
goes through 4 MiB of memory; one comes back by criu alone. Then ROUNDS (5) dumps at random moments of one of them; a
random one of those so far is brought back each time.

VARVE and THREADS are programs; CRIU is a criu, or the one in PATH. Ends with 77 where none works on this kernel."""
import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

VARVE, THREADS = os.environ["VARVE"], os.environ["THREADS"]
CRIU = os.environ.get("CRIU", "criu")
PYTHON = "/usr/bin/python3"
DUMPS = 5
EQUALLY = ["setarch", "-R", "env", "PYTHONHASHSEED=0"]  # else addresses and hashes differ, and so do the pages with them

# Into the same file, of the same size: at every moment it is as criu wants to find it.
TELL = """
import os, sys, time
told = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
def tell(count, is_well, what="WRONG"):
    os.pwrite(told, b"%12d %-5s\\n" % (count, b"well" if is_well else what.encode()), 0)
tell(0, True)
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
EQUAL = TELL + """
import numpy as np
x = np.random.default_rng(1).random(5_000_000)
expected = x.sum()
count = 0
while True:
    count += 1
    tell(count, x.sum() == expected)
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
# Two processes that share memory; a file that is mapped, for all and for itself; a timer of each kind, with its handler; a
# signal that is blocked and waits; and a file that is read on. Without one of them it is WRONG, or stands still.
THINGS = TELL + """
import ctypes, mmap, signal
C = ctypes.CDLL(None)
records, mapped = sys.argv[1] + ".records", sys.argv[1] + ".mapped"
with open(records, "wb") as file:
    file.write(b"".join(b"%12d\\n" % number for number in range(100_000)))
with open(mapped, "wb") as file:
    file.write(b"f" * 12288)
shared = mmap.mmap(-1, 4096)
if os.fork() == 0:
    while True:
        shared[16:28] = shared[:12]
        time.sleep(0.001)
place, file = os.open(records, os.O_RDONLY), os.open(mapped, os.O_RDWR)
os.read(place, 13)
ours, private = mmap.mmap(file, 12288), mmap.mmap(file, 12288, mmap.MAP_PRIVATE)
rung = {signal.SIGALRM: 0, signal.SIGUSR2: 0}
def ring(number, frame):
    rung[number] += 1
for number in rung:
    signal.signal(number, ring)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
event, posix = (ctypes.c_int * 16)(0, 0, signal.SIGUSR2, 0), ctypes.c_void_p()
C.timer_create(1, event, ctypes.byref(posix))
C.timer_settime(posix, 0, (ctypes.c_long * 4)(0, 5_000_000, 0, 5_000_000), None)
count = 0
while True:
    count += 1
    now, before = b"%12d" % count, dict(rung)
    shared[:12] = now
    while shared[16:28] != now or any(rung[number] == before[number] for number in rung):
        time.sleep(0.001)
    ours[:12] = now # it is the file's, which is as it was left, and not as it was dumped
    holds = (os.read(place, 13) == now + b"\\n", os.pread(file, 12, 0) == now, private[8192:] == b"f" * 4096,
             count == 1 or private[4096:4108] == b"%12d" % (count - 1), signal.SIGUSR1 in signal.sigpending())
    tell(count, all(holds), "".join("x" if one else "-" for one in holds))
    private[4096:4108] = now
"""
PERL = r"""
use IO::Handle;
open(my $file, ">", $ARGV[0]) or die; $file->autoflush(1);
my %seen;
for (my $count = 1;; $count++) {
    $seen{$count} = $count * 3;
    my $well = $count == 1 || $seen{$count - 1} == ($count - 1) * 3 && keys(%seen) == $count ? "well" : "WRONG";
    seek($file, 0, 0); printf $file "%12d %-5s\n", $count, $well;
    select(undef, undef, undef, 0.01);
}
"""


points = 0  # how often something has come back


def fail(text):
    raise SystemExit("FAILED: " + text)


def adopt():
    """Processes whose parents are gone are ours: nobody else may care, and a dead one keeps its id."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury():
    """Those of a restore that failed, who have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def is_group(pid):
    try:
        os.killpg(pid, 0)
        return True
    except ProcessLookupError:
        return False


def varve(*arguments, **settings):
    done = subprocess.run([VARVE, *arguments], env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode:
        fail("varve %s: %s" % (" ".join(arguments), done.stderr))
    return done.stdout


def undump(*arguments):
    """Where a process has the id of one that shall come back, the error says to wait until it has ended."""
    for _ in range(5):
        done = subprocess.run([VARVE, "undump", *arguments], capture_output=True, text=True)
        taken = re.search(r"for (\d+): File exists; a process has that id", done.stderr)
        if not taken:
            break
        print("waited for", describe(taken.group(1)), flush=True)
        time.sleep(1)
        bury()
    if done.returncode:
        fail("varve undump %s: %s" % (" ".join(arguments), done.stderr))


def describe(pid):
    try:
        status = open("/proc/%s/status" % pid).read()
        return " ".join(re.findall(r"^(?:Name|State|Tgid|PPid):.*$", status, re.M))
    except OSError:
        return "%s, which is nobody's now" % pid


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
                count, word = (file.read() or "0 well").split()
        except (FileNotFoundError, ValueError):  # it is made, or written, just now
            return 0
        return int(count) if word == "well" else fail("%s found its memory wrong at %s: %s" % (self.name, count, word))

    def state(self):
        try:
            with open("/proc/%d/status" % self.pid) as status, open("/proc/%d/wchan" % self.pid) as waits:
                return " ".join(line.strip() for line in status if line.startswith(("State", "Threads"))) + ", in " + waits.read()
        except OSError as error:
            return str(error)

    def wait_for(self, what):
        end = time.monotonic() + 60
        while not what(self.count()):
            if time.monotonic() > end:
                fail("%s stands still at %d: %s" % (self.name, self.count(), self.state()))
            time.sleep(0.005)

    def dump(self):
        """The counts before and after: that of the checkpoint lies between."""
        before = self.count()
        varve("dump", self.store, self.name, "--pid", str(self.pid), "--criu", CRIU)
        return before, self.count()

    def dump_slowly(self):
        """varve stands still again and again, and longer than criu needs to send what is left."""
        before = self.count()
        tool = subprocess.Popen([VARVE, "dump", self.store, self.name, "--pid", str(self.pid), "--criu", CRIU],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while tool.poll() is None:
            tool.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            tool.send_signal(signal.SIGCONT)
            time.sleep(0.002)
        if tool.returncode:
            fail("varve dump ended with %d" % tool.returncode)
        return before, self.count()

    def kill(self):
        os.killpg(self.pid, signal.SIGKILL)
        while is_group(self.pid):
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.01)
        self.forget()

    def forget(self):
        """The next count that we read was written after this. The size stays."""
        with open(self.path, "r+") as file:
            file.write("%12d %-5s\n" % (0, "well"))

    def come_back(self, version, least, most):
        """It writes its next count, which is one of these or the next, and goes on from there."""
        undump(self.store, "%s@%d" % (self.name, version), "--criu", CRIU)
        self.check_back("%s@%d" % (self.name, version), least, most)

    def check_back(self, which, least, most):
        global points
        points += 1
        self.wait_for(lambda count: count > 0)
        first = self.count()
        if not least <= first <= most + 30:
            fail("%s came back with %d, not %d to %d" % (which, first, least, most))
        self.wait_for(lambda count: count > first + 5)


def ask_server(program, port):
    """Somebody who connects gets the count of now."""
    with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as client:
        told = int(client.recv(32))
    if not 0 <= program.count() - told <= 100:
        fail("the server told %d, and counts %d" % (told, program.count()))


def try_program(folder, name, command, ask=lambda program: None):
    program = Program(folder, name, command)
    counts = []
    for _ in range(DUMPS):
        counts.append(program.dump())
        last = program.count()
        program.wait_for(lambda count: count > last + 40)
    for version in (DUMPS - 1, 1):
        program.kill()
        program.come_back(version, *counts[version])
        ask(program)
    program.kill()
    print("%s: %d dumps, back from the last and from the second" % (name, DUMPS), flush=True)


class Several:
    """Equal programs that are dumped at once."""

    def __init__(self, folder, count, command):
        self.programs = [Program(folder, "several%d" % i, command) for i in range(count)]
        self.folder, self.store, self.counts = folder, os.path.join(folder, "several"), []

    def dump(self, which, *more):
        before = [program.count() for program in self.programs]
        pids = [word for program in self.programs[:which] for word in ("--pid", str(program.pid))]
        # Sizes before compression: codec=auto may choose another coding when the machine is busy.
        said = varve("dump", "--json", self.store, "%d-at-once" % which, *pids, "--criu", CRIU, *more, VARVE_CODEC="none")
        self.counts = list(zip(before, [program.count() for program in self.programs]))
        return json.loads(said.splitlines()[-1])["bytes_stored"]

    def come_back(self, name):
        for program in self.programs:
            program.kill()
        elsewhere = os.path.join(self.folder, "elsewhere")
        shutil.copytree(self.store, elsewhere)
        undump(elsewhere, name, "--criu", CRIU)
        for program, counts in zip(self.programs, self.counts):
            program.check_back(name, *counts)
        shutil.rmtree(elsewhere)


def try_several(folder, command):
    """Four are stored in little more than one, and come back from a copy of the store, all of them."""
    several = Several(folder, 4, command)
    one, four = several.dump(1), several.dump(4)
    several.come_back("4-at-once")
    print("several: one stored in %d bytes, four at once in %d, %.2f of one" % (one, four, four / one), flush=True)
    if four > 1.1 * one:
        fail("four equal processes take %.2f of one" % (four / one))
    several.dump(4, "--memory", "4M")
    several.come_back("4-at-once@1")
    for program in several.programs:
        program.kill()
    print("several: back from a copy of the store, and through 4 MiB of memory", flush=True)


def try_alone(folder, command):
    """criu restores what undump --to has written, without us."""
    program = Program(folder, "alone", command)
    counts = program.dump()
    program.kill()
    target = os.path.join(folder, "plain")
    os.mkdir(target)
    undump(program.store, "alone", "--to", target)
    shutil.rmtree(program.store)
    subprocess.run([CRIU, "restore", "-D", target, "--restore-detached"], check=True, stdin=subprocess.DEVNULL)
    program.check_back("images of criu", *counts)
    program.kill()
    print("alone: back by criu alone", flush=True)


def can_dump_sockets(folder, command):
    """criu 4.1 asks sockets for an option that Linux 6.16 and newer have for UNIX sockets only."""
    program = Program(folder, "server", command)
    done = subprocess.run([VARVE, "dump", program.store, "socket", "--pid", str(program.pid), "--criu", CRIU],
                          capture_output=True, text=True)
    program.kill()
    if "Can't get 1:16 opt" in done.stderr:
        print("not run: server: this criu cannot dump TCP sockets on this kernel: %s" % done.stderr.strip(), flush=True)
        return False
    return True


def try_slow(folder, command):
    """criu passes pages by reference. The program must not change them before they were taken."""
    program = Program(folder, "slow", command)
    for version in range(3):
        counts = program.dump_slowly()
        program.kill()
        program.come_back(version, *counts)
    program.kill()
    print("slow: 3 dumps by a varve that stands still, each brought back", flush=True)


class Editor:
    """vi in a session of tmux to which no terminal is attached: the server and all below it are dumped."""

    def __init__(self, folder):
        self.folder, self.store, self.file = folder, os.path.join(folder, "ck"), os.path.join(folder, "text")
        self.environment = {**os.environ, "TMUX_TMPDIR": folder, "TERM": "xterm"}
        self.environment.pop("TMUX", None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "exec vi -n -u NONE " + self.file)
        self.pid = int(self.tmux("display-message", "-p", "#{pid}"))
        self.tmux("send-keys", "i")

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)
        return done.stdout if done.returncode == 0 else fail("tmux %s: %s" % (" ".join(arguments), done.stderr))

    def wait_for(self, text, seconds=20):
        end = time.monotonic() + seconds
        while text not in self.tmux("capture-pane", "-p"):
            if time.monotonic() > end:
                fail("the editor does not show %r, but %r" % (text, self.tmux("capture-pane", "-p").strip()))
            time.sleep(0.02)

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.wait_for(text.rstrip())

    def dump(self):
        varve("dump", self.store, "editor", "--pid", str(self.pid), "--criu", CRIU)

    def kill(self):
        """vi has a session of its own."""
        below = [int(pid) for pid in open("/proc/%d/task/%d/children" % (self.pid, self.pid)).read().split()]
        for pid in [*below, self.pid]:
            os.kill(pid, signal.SIGKILL)
        while any(os.path.exists("/proc/%d" % pid) for pid in [*below, self.pid]):
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.01)

    def come_back(self, version, text, not_text):
        global points
        points += 1
        undump(self.store, "editor@%d" % version, "--criu", CRIU)
        self.wait_for(text)
        if not_text in self.tmux("capture-pane", "-p"):
            fail("the editor of version %d has text that was typed later" % version)


def try_editor(folder):
    missing = [program for program in ("tmux", "vi") if not shutil.which(program)]
    if missing:
        print("not run: editor: there is no %s" % " and no ".join(missing), flush=True)
        return
    editor = Editor(folder)
    for number in range(DUMPS):
        editor.type("dump %d; " % number)
        editor.dump()
    editor.type("dump %d; " % DUMPS)
    for version in range(DUMPS):
        editor.kill()
        editor.come_back(version, "dump %d;" % version, "dump %d;" % (version + 1))
    editor.type("typed after")
    editor.tmux("send-keys", "Escape", ":w", "Enter")
    wanted = "".join("dump %d; " % number for number in range(DUMPS)) + "typed after\n"
    end = time.monotonic() + 20
    while not os.path.exists(editor.file) or open(editor.file).read() != wanted:
        if time.monotonic() > end:
            fail("the editor did not write %r" % wanted)
        time.sleep(0.02)
    editor.kill()
    print("editor: vi in tmux has the text of each of %d dumps, and goes on" % DUMPS, flush=True)


def refuse(program, *words):
    """It does not come back, and what varve says leads on."""
    done = subprocess.run([VARVE, "undump", program.store, program.name, "--criu", CRIU], capture_output=True, text=True)
    if done.returncode == 0 or not all(word in done.stderr for word in words):
        fail("undump ended with %d, and said %r without %r" % (done.returncode, done.stderr, words))
    bury()


def try_hints(folder, command):
    """The messages of this criu are those that varve has a hint for."""
    global points
    program = Program(folder, "hints", command)
    counts = program.dump()
    refuse(program, "a process has that id already")
    program.kill()
    kept = program.path + ".kept"
    os.rename(program.path, kept)
    refuse(program, program.path[1:], "bring it back")
    shutil.copy(kept, program.path)
    with open(program.path, "a") as file:
        file.write("more")
    refuse(program, program.path[1:], "as it was")
    os.rename(kept, program.path)
    program.come_back(0, *counts)
    program.kill()
    points += 3
    print("hints: for an id that is taken, a file that is gone, and one that grew", flush=True)


def try_moments(folder, rounds, command):
    """From the last dump, or, each third time, from one before it by chance."""
    program = Program(folder, "moments", command)
    dice = random.Random(int(os.environ.get("SEED", "1")))
    counts = []
    for latest in range(rounds):
        time.sleep(dice.random() * 0.3)
        counts.append(program.dump())
        time.sleep(dice.random() * 0.1)
        program.kill()
        version = dice.randrange(rounds) % (latest + 1) if dice.randrange(3) == 0 else latest
        program.come_back(version, *counts[version])
    program.kill()
    print("moments: %d dumps at random, %d times brought back" % (rounds, rounds), flush=True)


def try_imported(folder, command):
    """Images that criu has written to a folder of its own come back byte for byte, after a dump of the same process they
    take next to nothing, and in an archive that is packed they take as little."""
    program = Program(folder, "images", command)
    made, back = os.path.join(folder, "made"), os.path.join(folder, "back")
    os.mkdir(made)
    os.mkdir(back)
    program.dump()
    done = subprocess.run([CRIU, "dump", "-t", str(program.pid), "-D", made, "--leave-running"], capture_output=True, text=True)
    program.kill()
    if done.returncode:
        fail("criu dump: " + done.stderr)
    pages = sum(os.path.getsize(os.path.join(made, name)) for name in os.listdir(made) if name.startswith("pages-"))
    with tarfile.open(os.path.join(folder, "made.tar.gz"), "w:gz", compresslevel=1) as archive:
        archive.add(made, "checkpoint")
    for what in (["-C", made, "."], ["-C", folder, "made.tar.gz"]):
        done = subprocess.run([VARVE, "import", "--json", program.store, "images", *what], capture_output=True, text=True)
        stored = done.returncode or json.loads(done.stdout.splitlines()[-1])["bytes_stored"]
        if done.returncode or stored > pages // 4:  # the program went on between the two
            fail("import of %s: %s of %d bytes stored: %s" % (what, stored, pages, done.stderr))
        varve("export", program.store, "images", "-C", back)
    for one, other in ((made, back), (os.path.join(folder, "made.tar.gz"), os.path.join(back, "made.tar.gz"))):
        if subprocess.run(["diff", "-r", "-x", "made.tar.gz", one, other], check=False).returncode:
            fail("%s did not come back" % one)
    print("images: %d bytes of pages, in a folder and in an archive" % pages, flush=True)


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
        try_program(folder, "things", [PYTHON, "-c", THINGS, "FILE"])
        try_program(folder, "pipe", [PYTHON, "-c", PIPE, "FILE"])
        try_editor(folder)
        if can_dump_sockets(folder, [PYTHON, "-c", SERVER, "FILE", port]):
            try_program(folder, "server", [PYTHON, "-c", SERVER, "FILE", port], lambda program: ask_server(program, port))
        try_slow(folder, [THREADS, "FILE"])
        try_imported(folder, [PYTHON, "-c", PIPE, "FILE"])
        try_several(folder, EQUALLY + [PYTHON, "-c", EQUAL, "FILE"])
        try_alone(folder, [THREADS, "FILE"])
        try_hints(folder, [THREADS, "FILE"])
        try_moments(folder, rounds, [THREADS, "FILE"])
        print("process-real: %d points" % points, flush=True)
    finally:
        subprocess.run(["pkill", "-KILL", "-f", folder], check=False)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    # In a namespace of its own: elsewhere somebody else may take the id of a process that is to come back.
    if os.getuid() == 0 and os.getpid() != 1:
        os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv])
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
