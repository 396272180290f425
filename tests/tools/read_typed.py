#!/usr/bin/env python3
"""read_typed.py WRITE_TYPED READER: arrays written by the library with every codec, read by the independent
reader: bytes, types, dimensions, least and greatest values."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True


def run(reader, *argv):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = reader.main(list(argv))
    if code:
        sys.exit(f"{' '.join(argv)}: exit status {code}")
    return out.getvalue()


def main(write, path, folder):
    spec = importlib.util.spec_from_file_location("varve_read", path)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    subprocess.run([write, folder], check=True)
    store, count, codecs, vectors = folder + "/store", 0, set(), set()
    for file in sorted(os.listdir(folder + "/expect")):
        version, region = file.split(".", 1)
        run(reader, "restore", store, "typed", version, "0", region, "-o", folder + "/out")
        with open(folder + "/out", "rb") as got, open(f"{folder}/expect/{file}", "rb") as want:
            if got.read() != want.read():
                sys.exit(f"{file}: other bytes than expected")
        count += 1
    shown, known = {}, 0
    for line in open(folder + "/ranges"):
        version, region, low, high = re.fullmatch(r"(\d+) (.*) (\S+) (\S+)\n", line).groups()
        if version not in shown:
            shown[version] = run(reader, "show", store, "typed", version)
        line = re.search(rf"region \d+  {region}  .*", shown[version]).group()
        found = re.search(r"(?:min|within) (\S+) +(?:max|to) (\S+)", line)
        if not found:           # its last block is shared with others
            continue
        known += 1
        if "min" in line and [float(x) for x in found.groups()] != [float(low), float(high)]:
            sys.exit(f"version {version}: {line}\nexpected {low} to {high}")
        if float(found.group(1)) > float(low) or float(found.group(2)) < float(high):
            sys.exit(f"version {version}: {line}\nbut there are {low} and {high}")
    for text in ("field  length 331200  type f64  dims 180+180/720 0+230/230",
                 "lossy field  length 331200  type f64  dims 180+180/720 0+230/230  lossy 0.001",
                 "places  length 288264  type f64  dims 0+12011/12011 0+3/3", "moves  length 144132  type f32",
                 "complexes  length 80000  type c128  dims 0+5000/5000", "bytes  length 100003  type bytes\n"):
        if text not in shown["0"]:
            sys.exit(f"not shown: {text}\n{shown['0']}")
    opened = reader.Store(store)
    for component in reader.record_keys(opened, b"typed"):
        pack = reader.Checkpoint(opened, b"typed", component).top().pack(0)
        codecs |= {(b.codec, *b.filters) for b in pack.load()[0]}
        vectors |= {(b.element, *b.filters) for b in pack.load()[0] if b.element in (12, 24)}
    print(f"{count} regions read back; ranges known: {known}; codecs and filters met: {sorted(codecs)}")
    print(run(reader, "verify", store), end="")
    if known < 20:
        sys.exit("ranges are known of too few regions")
    wanted = {(0,), (1,), (2,), (6,), (1, 1), (2, 1), (1, 2), (2, 2), (1, 3, 1), (2, 3, 1), (2, 4, 1), (2, 5, 1)}
    if not wanted <= codecs:
        sys.exit(f"never used: {sorted(wanted - codecs)}")
    wanted = {(e, *filters) for e in (12, 24) for filters in ((1,), (2,), (3, 1), (4, 1))}
    wanted.add((12, 5, 1))  # of float32 only
    if vectors != wanted:
        sys.exit(f"filters of vectors are {sorted(vectors)} instead of {sorted(wanted)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="varve-read-typed.") as name:
        main(sys.argv[1], sys.argv[2], name)
