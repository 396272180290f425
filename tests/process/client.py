#!/usr/bin/env python3
"""Stands in for criu where faults are wanted that a real one does not make on demand: it speaks the same protocol.

    client.py check
    client.py dump -D FOLDER -o LOG --stream -t PID --leave-running|--leave-stopped [--fault WHICH]

The images are made up, but their lists of mappings and pages are true. --fault: no-connect, die, fail, twice, marker
(tells in FOLDER/../marker that all was sent, and waits), many (1,100 more images), or name=NAME for an image of that
name.
"""
import os
import random
import signal
import socket
import struct
import sys
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


def dump(folder, pid, is_stopping, fault):
    if fault == "no-connect":
        return 1
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(folder, "streamer-capture.sock"))
    everything = images()
    if fault.startswith("name="):
        everything[fault[5:]] = b"somewhere else"
    if fault == "many":
        everything.update(("core-%d.img" % i, b"%d" % i) for i in range(1100))
    for name, data in everything.items():
        if fault == "die" and name == "pages-1.img":
            os.kill(os.getpid(), signal.SIGKILL)
        send_image(connection, name, data)
    if fault == "twice":
        send_image(connection, "pages-1.img", b"again")
    if is_stopping:
        for member in [pid] + [int(word) for word in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]:
            os.kill(member, signal.SIGSTOP)
    connection.close()
    if fault == "marker":
        open(os.path.join(os.path.dirname(folder), "marker"), "w").close()
        time.sleep(1)
    return 1 if fault == "fail" else 0


def main(arguments):
    if arguments[0] == "check":
        return int(os.environ.get("CHECK", "0"))
    value = lambda name, otherwise="": arguments[arguments.index(name) + 1] if name in arguments else otherwise
    folder = value("-D")
    with open(os.path.join(folder, value("-o")), "w") as log:
        log.write("(00.1) Error (criu/some.c:12): a reason that people can read\n(00.2) Error (b.c:1): no reason\n")
    return dump(folder, int(value("-t")), "--leave-stopped" in arguments, value("--fault"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
