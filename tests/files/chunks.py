#!/usr/bin/env python3
"""Content-defined chunks: the cuts are those of docs/format.md (section 16), which is written down here once more; bytes
that are inserted cost a few chunks; and import and export keep every byte."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

VARVE, LENGTHS, READER = os.environ["VARVE"], os.environ["CUT_LENGTHS"], os.environ["READER"]
TARGETS = {"512": 512, "4K": 4096, "32K": 32768}


def oracle(data, target):
    """The rule of the document, byte by byte."""
    minimum, maximum = target // 2, 4 * target
    bits = (target // 2).bit_length() - 1
    spread = [(b * 0x70F9 & 0xFFFF) ^ (b * 0x70F9 & 0xFFFF) >> 8 for b in range(256)]
    factor = 0x9E7D
    power_16, power_48 = pow(factor, 16, 65536), pow(factor, 48, 65536)
    begin, p48, p16, lengths = 0, 0, 0, []
    for i, byte in enumerate(data):
        p48 = p48 * factor + spread[byte]
        p16 = p16 * factor + spread[byte]
        if i >= 48:
            p48 -= power_48 * spread[data[i - 48]]
        if i >= 16:
            p16 -= power_16 * spread[data[i - 16]]
        p48 &= 0xFFFF
        p16 &= 0xFFFF
        length = i + 1 - begin
        is_cut = ((p48 + (p16 >> 8)) & 0xFFFF) >> (16 - bits) == 0x5AA4 >> (16 - bits)
        if length == maximum or (length >= minimum and is_cut):
            lengths.append(length)
            begin = i + 1
    return lengths + ([len(data) - begin] if begin < len(data) else [])


def pieces_of(lengths, data):
    at = 0
    for length in lengths:
        yield data[at:at + length]
        at += length


def read_map(data):
    """[(path, mode, [(region, offset, length)])] of a map (section 16)."""
    at = 8

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed():
        value = number()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def text():
        nonlocal at
        size = number()
        at += size
        return data[at - size:at]

    assert data[:8] == b"VarveMap" and number() in (1, 2)
    regions, ends, files = [], {}, []
    for _ in range(number()):
        regions.append(text())
        number()
        text()
    for _ in range(number()):
        path, _, mode, _, _ = text(), number(), number(), signed(), number()
        region, pieces = 0, []
        for _ in range(number()):
            region += signed()
            offset = ends.get(region, 0) + signed()
            pieces.append((regions[region], offset, number()))
            ends[region] = offset + pieces[-1][2]
        files.append((path, mode, pieces))
        if mode >= 0o120000:
            text()
    assert at == len(data)
    return files


class Chunks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="varve-chunks."))
        self.random = random.Random(11)
        (self.folder / "in").mkdir()
        self.environment = dict(os.environ, VARVE_CHUNK="cdc", VARVE_CODEC="lz4")
        for name in ("VARVE_STORE", "VARVE_CONFIG", "VARVE_KEEP", "VARVE_CHUNK_SIZE"):
            self.environment.pop(name, None)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def lengths(self, data, target, step=4096):
        path = self.folder / "data"
        path.write_bytes(data)
        run = subprocess.run([LENGTHS, path, str(target), str(step)], capture_output=True, text=True, check=True)
        return [int(line) for line in run.stdout.split()]

    def varve(self, *arguments, **environment):
        run = subprocess.run([VARVE, *map(str, arguments)], env=dict(self.environment, **environment), capture_output=True,
                             text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def imported(self, store="ck", **environment):
        out = self.varve("import", self.folder / store, "r", "-C", self.folder / "in", ".", "--json", **environment)
        return json.loads(out.strip().split("\n")[-1])

    def map_of(self, store="ck", version=0):
        path = self.folder / "map"
        subprocess.run([sys.executable, READER, "restore", self.folder / store, "r", str(version), "0", ":files", "-o", path],
                       check=True, capture_output=True)
        return path.read_bytes()

    def stored(self, store="ck"):
        return sum(path.stat().st_size for path in (self.folder / store / "n").rglob("*") if path.is_file())

    def kinds(self, size):
        noise = self.random.randbytes
        yield "noise", noise(size)
        yield "text", " ".join(str(self.random.randrange(10 ** 6)) for _ in range(size // 7)).encode()
        yield "two letters", bytes(self.random.choices(b"01", k=size))
        yield "bits", bytes(self.random.choices(b"\0\xff", k=size))
        yield "holes", b"".join(noise(self.random.randrange(9000)) + bytes(self.random.randrange(90000))
                                for _ in range(size // 50000))
        yield "short", noise(300)
        yield "empty", b""

    def test_cuts_are_those_of_the_document(self):
        for target in TARGETS.values():
            for kind, data in self.kinds(250000):
                expected = oracle(data, target)
                for step in (4096, 300, 1):
                    with self.subTest(target=target, kind=kind, step=step):
                        self.assertEqual(self.lengths(data, target, step), expected)

    def test_sizes(self):
        data = self.random.randbytes(30000000)
        for target in TARGETS.values():
            lengths = self.lengths(data, target)
            self.assertLessEqual(max(lengths), 4 * target)
            self.assertGreaterEqual(min(lengths[:-1]), target // 2)
            self.assertAlmostEqual(sum(lengths) / len(lengths) / target, 1, delta=0.1)

    def test_zeros_and_periods_have_the_maximum(self):
        for target in TARGETS.values():
            for byte in (0, 1, 32, 48, 127, 128, 255):
                self.assertEqual(set(self.lengths(bytes([byte]) * 12 * target, target)), {4 * target})
            for period in (b"\0\1", b"abc", bytes(range(16)), b"0123456789\n"):
                data = (period * (12 * target // len(period) + 1))[:12 * target]
                self.assertEqual(set(self.lengths(data, target)), {4 * target}, period)

    def test_cuts_meet_again_behind_a_change(self):
        for target in TARGETS.values():
            data = self.random.randbytes(60 * target)
            before = set(pieces_of(self.lengths(data, target), data))
            for _ in range(60):
                at, size = self.random.randrange(len(data) * 3 // 4), self.random.choice((0, 1, 2, 100, 5000))
                changed = data[:at] + self.random.randbytes(size) + data[at + (size == 0):]
                new = [p for p in pieces_of(self.lengths(changed, target), changed) if p not in before]
                self.assertLessEqual(len(new), 3 + size // (target // 2), (target, at, size))

    def test_map_and_threads(self):
        data = self.random.randbytes(300000) + bytes(600000) + self.random.randbytes(543210)
        (self.folder / "in" / "a").write_bytes(data)
        for word, target in TARGETS.items():
            maps = []
            for threads in ("0", "1", "4"):
                store = "ck" + word + threads
                self.imported(store, VARVE_THREADS=threads, VARVE_CHUNK_SIZE=word)
                maps.append(self.map_of(store))
            self.assertEqual(maps[0], maps[1])
            self.assertEqual(maps[0], maps[2])
            (path, _, pieces), = read_map(maps[0])
            self.assertEqual(path, b"a")
            expected = []
            for length in oracle(data, target): # what begins at a granule anyway is one piece with the one before
                if expected and expected[-1] % 4096 == 0:
                    expected[-1] += length
                else:
                    expected.append(length)
            self.assertEqual([length for _, _, length in pieces], expected)
            self.assertTrue(all(offset % 4096 == 0 for _, offset, _ in pieces))

    def test_a_byte_in_the_middle_costs_three_chunks_at_most(self):
        for word in TARGETS:
            with self.subTest(chunk_size=word):
                self.insert_a_byte("ck" + word, 100000000, VARVE_CHUNK_SIZE=word)
        grown = self.insert_a_byte("fixed", 100000000, VARVE_CHUNK="fixed")
        self.assertGreater(grown, 33000000) # why there is cdc

    def insert_a_byte(self, store, size, **environment):
        path, back = self.folder / "in" / "a", self.folder / "back"
        data = self.random.randbytes(size)
        changed = data[:size // 2] + b"x" + data[size // 2:]
        back.mkdir(exist_ok=True)
        chunks = []
        for content in (data, changed):
            path.write_bytes(content)
            before = self.stored(store) if chunks else 0
            self.imported(store, **environment)
            grown = self.stored(store) - before
            encoded = self.map_of(store, len(chunks))
            (_, _, pieces), = read_map(encoded)
            chunks.append({hashlib.sha256(p).digest(): len(p) for p in pieces_of([p[2] for p in pieces], content)})
            self.varve("export", self.folder / store, "r", "-C", back, "--force")
            self.assertEqual((back / "a").read_bytes(), content)
        if store == "fixed":
            return grown
        new = [length for key, length in chunks[1].items() if key not in chunks[0]]
        self.assertTrue(1 <= len(new) <= 3, new)
        # beside the chunks: the map, the manifest and the tables of the pack
        self.assertLess(grown, sum(new) + len(encoded) + 65536)
        return grown

    def test_many_files_share_a_region(self):
        contents = {"f%d" % i: self.random.randbytes(self.random.randrange(3000)) for i in range(4200)}
        contents["large"] = self.random.randbytes(500000)
        for name, content in contents.items():
            (self.folder / "in" / name).write_bytes(content)
        self.imported()
        contents["large"] = b"new" + contents["large"]
        (self.folder / "in" / "large").write_bytes(contents["large"])
        summary = self.imported()
        self.assertLess(summary["bytes_stored"], 300000)
        self.assertLess(summary["bytes_known"], summary["bytes"])  # without what fills the chunks
        self.assertGreater(summary["bytes_known"], 0.9 * summary["bytes"])
        (self.folder / "back").mkdir()
        self.varve("export", self.folder / "ck", "r", "-C", self.folder / "back")
        for name, content in contents.items():
            self.assertEqual((self.folder / "back" / name).read_bytes(), content)
        self.varve("verify", self.folder / "ck")


if __name__ == "__main__":
    unittest.main()
