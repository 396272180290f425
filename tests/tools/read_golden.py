#!/usr/bin/env python3
"""read_golden.py TOOL READER STORE: the store that make-typed wrote once, kept for ever, holds what it must, for the
tool and for the independent reader."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile


def weights():
    for i in range(5001):
        n = i * 2654435761 & 0xffffffff
        yield n & 0x807fffff | 118 + (n >> 20) % 4 << 23


def expected(version):
    if version == 11:
        return {"weights": struct.pack("<5001I", *weights()),
                "narrow": struct.pack("<5001H", *(w >> 16 for w in weights()))}
    if version >= 7:
        places = [version + i % 3 * 1000 - i // 3 * 0.25 for i in range(2100)]
        moves = [version - i % 3 * 50 + i // 3 % 7 * 0.5 for i in range(2100)]
        return {"places": struct.pack("<2100d", *places), "moves": struct.pack("<2100f", *moves)}
    field = [version + (i // 40) ** 2 * 0.5 + i % 40 * 0.125 for i in range(24 * 40)]
    lossy = [i % 500 * (i % 500) // 200 + version for i in range(3000)]
    return {"field": struct.pack("<960d", *field), "lossy": struct.pack("<3000f", *lossy)}


def main(tool, reader, golden, folder):
    store, out, skipped = folder + "/store", folder + "/out", set()
    shutil.copytree(golden, store)
    for version in range(1, 12):
        for region, want in expected(version).items():
            for argv in ([tool, "restore", store, f"typed@{version}", region, "-o", out],
                         [sys.executable, reader, "restore", store, "typed", str(version), "0", region, "-o", out]):
                if os.path.exists(out):
                    os.unlink(out)
                done = subprocess.run(argv, capture_output=True, text=True)
                if done.returncode and ("was not built in" in done.stderr or "cannot load the library" in done.stderr):
                    skipped.add(done.stderr.strip())
                    continue
                if done.returncode:
                    sys.exit(f"{' '.join(argv)}: {done.stderr}")
                with open(out, "rb") as file:
                    if file.read() != want:
                        sys.exit(f"{' '.join(argv)}: not the bytes that were stored")
    if skipped:
        print("\n".join(sorted(skipped)))
        sys.exit(77)
    subprocess.run([tool, "verify", store], check=True)
    subprocess.run([sys.executable, reader, "verify", store], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="varve-read-golden.") as name:
        main(*sys.argv[1:4], name)
