#!/usr/bin/env python3
"""Stands in for criu where faults are wanted that a real one does not make on demand: it speaks the same protocol.

    client.py check
    client.py dump -D FOLDER -o LOG --stream -t PID --leave-running|--leave-stopped --action-script PROGRAM [--fault WHICH]
    client.py restore -D FOLDER -o LOG --restore-detached [--leave-stopped --pidfile FILE]

The images are made up, but their lists of mappings and pages are true. --fault: no-connect, die, fail, twice, marker
(tells in FOLDER/../marker that all was sent, and waits), no-gate (ends well without asking), late (changes the last
pages as soon as it may go on), many (1,100 more images), or name=NAME for an image of that name. fail=PID fails for that
process alone. REASON is the first error of its log. WATCH=FILE tells in it how much of the images is in memory. restore
starts a `sleep` and writes a line about it into FOLDER/../../restored; RESTORE_FAIL=N makes the Nth one fail.
"""
import ctypes
import fcntl
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PAGE = 4096
PROCESS = 77


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def image(magic, entries):
    return struct.pack("<II", 0x54564319, magic) + b"".join(struct.pack("<I", len(e)) + e for e in entries)


def pages_of(start, count, seed):
    return b"".join(random.Random((start + i) * 1000 + seed).randbytes(PAGE) for i in range(count))


def images():
    """A heap of HEAP pages, 16 of a library and 3 of a stack. Each SEED has another first page of the heap."""
    seed, size = int(os.environ.get("SEED", "1")), int(os.environ.get("HEAP", "64"))
    heap, library, stack = 0x10000, 0x700000, 0x7ff000
    maps = [number(1, a) + number(2, a + n * PAGE) + number(5, 3) + number(7, s)
            for a, n, s in ((heap, size, 1 << 5), (library, 16, 1 << 6), (stack, 3, 1 << 1))]
    runs = [number(1, 1)] + [number(1, a) + number(2, n) + number(4, 4)
                             for a, n in ((heap, size), (library, 16), (stack, 3))]
    return {
        "inventory.img": b"an inventory",
        "mm-%d.img" % PROCESS: image(0x57492820, [b"".join(message(14, m) for m in maps)]),
        "pagemap-%d.img" % PROCESS: image(0x56084025, runs),
        "pages-1.img": pages_of(heap, 1, seed) + pages_of(heap + 1, size - 1, 0) + pages_of(library, 16, 0)
                       + pages_of(stack, 3, 0),
        "empty.img": b"",
    }


def send_image(connection, name, data):
    request = message(1, name.encode())
    connection.sendall(struct.pack("<I", len(request)) + request)
    read_end, write_end = os.pipe()
    socket.send_fds(connection, [b"\0"], [read_end])
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stream:
        stream.write(data)


class Late:
    """Pages are in the pipe by reference: they are what they are when somebody reads them. Half of them comes late."""

    def __init__(self, connection, name, data):
        request = message(1, name.encode())
        connection.sendall(struct.pack("<I", len(request)) + request)
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 20)  # all of it
        socket.send_fds(connection, [b"\0"], [read_end])
        os.close(read_end)
        self.memory = mmap.mmap(-1, len(data))
        self.memory[:] = data
        self.address, self.pipe = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)), write_end
        self.send(0, len(data) // 2)
        threading.Timer(1, self.send, (len(data) // 2, len(data))).start()

    def send(self, at, end):
        while at < end:
            part = (ctypes.c_size_t * 2)(self.address + at, end - at)
            at += ctypes.CDLL(None).vmsplice(self.pipe, part, 1, 0)
        if end == len(self.memory):
            os.close(self.pipe)

    def change(self):
        self.memory[:] = b"\xee" * len(self.memory)


def watch(path):
    """Writes how many bytes of images the tool has in memory at the most."""
    most, folder = 0, "/proc/%d/fd" % os.getppid()
    while True:
        held = 0
        for name in os.listdir(folder):
            try:
                if os.readlink(os.path.join(folder, name)).startswith("/memfd:"):
                    held += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
        if held > most:
            most = held
            with open(path, "w") as file:
                file.write("%d" % most)
        time.sleep(0.005)


def ask(program, folder):
    """Before its processes go on criu runs this, as it does at other moments."""
    for action in ("network-lock", "post-dump"):
        environment = dict(os.environ, CRTOOLS_SCRIPT_ACTION=action, CRTOOLS_IMAGE_DIR=folder)
        code = subprocess.run([program], env=environment, stdin=subprocess.DEVNULL).returncode
        if code:
            return code
    return 0


def dump(folder, pid, is_stopping, fault, program):
    late = None
    if "WATCH" in os.environ:
        threading.Thread(target=watch, args=(os.environ["WATCH"],), daemon=True).start()
    if fault == "no-connect":
        return 1
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(folder, "streamer-capture.sock"))
    everything = images()
    if fault == "late":  # the tool comes late, too: all requests, and the question at the gate, wait for it
        os.kill(os.getppid(), signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (os.getppid(), signal.SIGCONT)).start()
    if fault.startswith("name="):
        everything[fault[5:]] = b"somewhere else"
    if fault == "many":
        everything.update(("core-%d.img" % i, b"%d" % i) for i in range(1100))
    for name, data in everything.items():
        if fault == "die" and name == "pages-1.img":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "late" and name == "pages-1.img":
            late = Late(connection, name, data)
        else:
            send_image(connection, name, data)
    if fault == "twice":
        send_image(connection, "pages-1.img", b"again")
    if fault in ("fail", "fail=%d" % pid):
        time.sleep(0.3)  # others come before it
        connection.close()
        return 1
    if fault != "no-gate" and ask(program, folder) != 0:
        return 1
    if late:
        late.change()
    if is_stopping:
        for member in [pid] + [int(word) for word in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]:
            os.kill(member, signal.SIGSTOP)
    connection.close()
    if fault == "marker":
        open(os.path.join(os.path.dirname(folder), "marker"), "w").close()
        time.sleep(1)
    return 0


def restore(folder, value):
    """What comes back is a process that sleeps, stopped if that is wanted."""
    record = os.path.join(os.path.dirname(os.path.dirname(folder)), "restored")
    done = len(open(record).read().splitlines()) if os.path.exists(record) else 0
    if os.environ.get("RESTORE_FAIL") == str(done + 1):
        return 1
    pid = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, start_new_session=True).pid
    if value("--pidfile"):
        os.kill(pid, signal.SIGSTOP)
        with open(os.path.join(folder, value("--pidfile")), "w") as file:
            file.write("%d" % pid)
    with open(record, "a") as file:
        file.write("%d %s\n" % (pid, " ".join(sorted(os.listdir(folder)))))
    return 0


def main(arguments):
    if arguments[0] == "check":
        return int(os.environ.get("CHECK", "0"))
    value = lambda name, otherwise="": arguments[arguments.index(name) + 1] if name in arguments else otherwise
    folder = value("-D")
    with open(os.path.join(folder, value("-o")), "w") as log:
        log.write("(00.1) Error (criu/some.c:12): %s\n(00.2) Error (b.c:1): no reason\n" %
                  os.environ.get("REASON", "a reason that people can read"))
    if arguments[0] == "restore":
        return restore(folder, value)
    return dump(folder, int(value("-t")), "--leave-stopped" in arguments, value("--fault"), value("--action-script"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
