"""memory.py VARVE MEBIBYTES: import and export of files of this size take less than 512 MiB of memory, the children that look into them
included. The files are one with noise, and one that is a classic netCDF file of many records."""
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

MOST = 512 << 20


def write_noise(path, mebibytes):
    dice = random.Random(1)
    with open(path, "wb") as file:
        for _ in range(mebibytes):
            file.write(dice.randbytes(1 << 20))


def write_records(path, mebibytes):
    """Two variables whose records of 4 KiB take turns: the most pieces for its size."""
    def name(text):
        return struct.pack(">I", len(text)) + text + b"\0" * (-len(text) % 4)
    records = mebibytes * 128
    out = b"CDF\2" + struct.pack(">III", records, 10, 2) + name(b"time") + struct.pack(">I", 0) + name(b"x")
    out += struct.pack(">IIIII", 4096, 0, 0, 11, 2)
    for i in range(2):
        out += name(b"v%d" % i) + struct.pack(">III", 2, 0, 1) + struct.pack(">IIIIQ", 0, 0, 1, 4096, 512 + i * 4096)
    with open(path, "wb") as file:
        file.write(out.ljust(512, b"\0"))
        for i in range(records):
            file.write(struct.pack("<Q", i) * 1024)


def run(*command):
    before = os.times()
    subprocess.run(command, check=True)
    after = os.times()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    print(f"{command[1]}: peak so far {peak >> 20} MiB, {after.elapsed - before.elapsed:.1f} s", flush=True)
    return peak


def main():
    varve, mebibytes = sys.argv[1], int(sys.argv[2])
    folder = tempfile.mkdtemp(prefix="varve-memory.", dir=os.environ.get("TEST_FOLDER"))
    try:
        os.mkdir(f"{folder}/in")
        os.mkdir(f"{folder}/back")
        write_noise(f"{folder}/in/noise", mebibytes // 2)
        write_records(f"{folder}/in/records.nc", mebibytes // 2)
        os.environ.pop("VARVE_CONFIG", None)
        run(varve, "import", f"{folder}/ck", "big", "-C", f"{folder}/in", ".")
        run(varve, "import", f"{folder}/ck", "big", "-C", f"{folder}/in", ".")
        peak = run(varve, "export", f"{folder}/ck", "big", "-C", f"{folder}/back")
        for name in "noise", "records.nc":
            subprocess.run(["cmp", f"{folder}/in/{name}", f"{folder}/back/{name}"], check=True)
    finally:
        shutil.rmtree(folder)
    if peak >= MOST:
        sys.exit(f"{peak >> 20} MiB are too much")


main()
