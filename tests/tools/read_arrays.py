#!/usr/bin/env python3
"""read_arrays.py TOOL READER STORE MAKE_ARRAYS: the store that make-arrays wrote once, kept for ever, holds what it
must, for the tool, for the independent reader, and for jobs of other numbers of ranks. What the index of arrays says is
what the descriptions say; where a bit of it is flipped, the reader sees that."""

import contextlib
import importlib.util
import io
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

# name, letter of struct, sizes; in the order of make-arrays
ARRAYS = [("floor", "d", (10, 7)), ("rest", "i", (11,)), ("rounded up", "i", (10,)), ("cyclic", "H", (9, 14)),
          ("uneven", "Q", (20,)), ("patches", "q", (6, 6))]
SHOWN = """attribute time  {time}
{note}attribute empty  \n\
array floor  type f64  10 x 7  elements 70  grid 2 (floor) x 2 (floor)
array rest  type i32  11  elements 11  grid 4 (rest first)
array rounded up  type i32  10  elements 10  grid 4 (rounded up)
array cyclic  type u16  9 x 14  elements 126  grid 2 (cyclic 2) x 2 (cyclic {block})
array uneven  type u64  20  elements 20  grid 4 (listed)
array patches  type i64  6 x 6  elements 36  4 blocks
array list  type u64  10 x 2  elements 20  grid 4 (listed) x 1 (floor)  joined
array letters  type bytes  10  elements 10  grid 4 (listed)  joined
rank 0  region 0  floor  length 120  type f64  dims 0+5/10 0+3/7  """


def expected(version):
    """The arrays as a whole."""
    out = {}
    for i, (name, letter, sizes) in enumerate(ARRAYS):
        count = math.prod(sizes)
        values = [version * 1000 + 200 * i + place + (0.5 if letter == "d" else 0) for place in range(count)]
        out[name] = struct.pack(f"<{count}{letter}", *values)
    out["list"] = struct.pack("<20Q", *(x for i in range(10) for x in (version * 1000 + i, 7 * i)))
    out["letters"] = bytes(ord("a") + version + i for i in range(10))
    return out


def must(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def npy_data(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:]


def check_tool(tool, store, folder):
    for version in (1, 2):
        for name, want in expected(version).items():
            if name == "letters":       # bytes are no array to the tool
                continue
            out = f"{folder}/{version}.{name}.npy"
            if os.path.exists(out):
                os.unlink(out)
            must([tool, "restore", store, f"arrays@{version}", name, "-o", out])
            if npy_data(out) != want:
                sys.exit(f"{name}@{version}: not the elements that were stored")
    shown = must([tool, "show", store, "arrays@1"])
    for text in ("0.25", "two"):
        if text not in shown:
            sys.exit(f"the tool does not show the attribute {text}:\n{shown}")
    must([tool, "verify", store])


def check_reader(reader, store):
    for version, time, note, block in ((1, "0.25", "attribute note  two\\nlines\n", 3), (2, "0.5", "", 4)):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = reader.main(["show", store, "arrays", str(version)])
        want = SHOWN.format(time=time, note=note, block=block)
        if code or not out.getvalue().split("\n", 1)[1].startswith(want):
            sys.exit(f"version {version} is shown as\n{out.getvalue()}instead of\n{want}")
    if reader.main(["verify", store]):
        sys.exit("the reader finds something wrong")


def says(reader, data, manifests):
    """What an index says of all owners; None if it is refused, or the descriptions say something else."""
    try:
        arrays = reader.arrays_of(data, len(manifests), "test")
        check = reader.IndexCheck(arrays, "test")
        for owner, manifest in enumerate(manifests):
            check.owner(owner, manifest.regions)
        check.end()
    except reader.Refuse:
        return None
    return [(a.name, a.type, a.is_list, a.sizes, [a.parts(owner) for owner in range(len(manifests))]) for a in arrays]


def check_flips(reader, path):
    """A bit that makes no difference is one of a rule that says the same, or of a name: then it is another array."""
    store = reader.Store(path)
    component = sorted(reader.record_keys(store, b"arrays"))[0]
    checkpoint = reader.Checkpoint(store, b"arrays", component)
    manifests = [checkpoint.manifest(rank) for rank in range(checkpoint.ranks)]
    data = checkpoint.about(reader.ARRAYS, manifests[0])
    right, same, refused = says(reader, data, manifests), 0, 0
    if right is None:
        sys.exit("the index itself is refused")
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found = says(reader, bytes(flipped), manifests)
        refused += found is None
        same += found == right
        if found not in (None, right):
            sys.exit(f"bit {bit} of the index is flipped, and nobody sees it")
    if says(reader, data[:-1], manifests) or says(reader, data + b"\0", manifests):
        sys.exit("an index that is too short, or too long, passes")
    print(f"{refused} flipped bits are seen, {same} make no difference")
    if same > len(data) * 8 // 10:
        sys.exit("too many make no difference")


def check_verify(reader, path):
    """An index that says something else is found, and the checkpoints can be restored all the same."""
    about, out, err = reader.Checkpoint.about, io.StringIO(), io.StringIO()

    def other(self, name, manifest):
        data = about(self, name, manifest)
        return data.replace(b"\x04\x00rest\x05\x01\x00\x0b\x0b\x01\x04\x01\x01",
                            b"\x04\x00rest\x05\x01\x00\x0b\x0b\x01\x04\x01\x00")
    reader.Checkpoint.about = other
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = reader.main(["verify", path])
    reader.Checkpoint.about = about
    if code != 20 or "2 of 2 checkpoints can be restored; 2 problems" not in out.getvalue():
        sys.exit(f"a wrong index: {code}: {out.getvalue()}{err.getvalue()}")
    if "index of arrays: rest: of owner 0: " not in err.getvalue():
        sys.exit(f"a wrong index is not named: {err.getvalue()}")


def check_golden(reader, folder):
    """The golden indexes and attributes: the reader has what expected.txt has, and refuses what is refused there."""
    with open(folder + "/expected.txt", encoding="utf-8") as file:
        expected = dict(part.split("\n", 1) for part in file.read().split("== ")[1:])
    for name in sorted(expected):
        kind = name.split("-")[1].split(".")[0]
        if kind not in ("arrays", "attributes"):
            continue
        with open(f"{folder}/{name}", "rb") as file:
            data = file.read()
        try:
            found = [f'attribute "{n.decode()}": "{v.decode()}"' for n, v in reader.attributes_of(data, name)] \
                if kind == "attributes" else list(index_lines(reader.arrays_of(data, 6, name)))
        except reader.Refuse:
            found = None
        want = sorted(expected[name].splitlines()) if name.startswith("good-") else None
        if want != (found and sorted(found)):
            sys.exit(f"{name}: {found} instead of {want}")


def index_lines(arrays):
    for array in arrays:
        yield f"array {array.name.decode()}: {array.elements} elements"
        for owner in range(6):
            dims = [f" {p.local} from {p.first} in {p.block or p.local}/{p.every or p.local}"
                    for p in array.parts(owner) or []]
            if dims:
                yield f"  owner {owner}:{''.join(dims)}"


def main(tool, path, golden, make, folder):
    store = folder + "/store"
    shutil.copytree(golden, store)
    spec = importlib.util.spec_from_file_location("varve_read", path)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    check_tool(tool, store, folder)
    check_reader(reader, store)
    check_flips(reader, store)
    check_verify(reader, store)
    check_golden(reader, os.path.dirname(os.path.abspath(golden)) + "/golden")
    for ranks in (1, 3, 4, 7):
        must([make, "--check", store, str(ranks)])
    must([make, f"{folder}/made"])      # today's program writes the same
    check_tool(tool, f"{folder}/made", folder)
    check_reader(reader, f"{folder}/made")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="varve-read-arrays.") as name:
        main(*sys.argv[1:5], name)
