#!/usr/bin/env python3
"""Tests of tools/varve-read.py.

The stores read here are made by a small writer in this file, which like the reader was written from docs/format.md
alone. Run: python3 -m unittest tests/tools/test_varve_read.py   (or run this file)
"""

import contextlib
import ctypes
import functools
import importlib.util
import io
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "varve-read.py")
spec = importlib.util.spec_from_file_location("varve_read", TOOL)
vr = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(vr)

SEED = 0x9D3A5F0C71E2B846
ROUNDS = int(os.environ.get("VARVE_TEST_ROUNDS", "1"))          # more of the random tests
SEED_OF_TESTS = int(os.environ.get("VARVE_TEST_SEED", "0"))


@functools.lru_cache(maxsize=None)
def pattern(n, x=2463534242):
    out = bytearray()
    for _ in range(n):
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        out.append(x >> 11 & 255)
    return bytes(out)


# length, then with seed 0 and with SEED: XXH3-64, XXH3-128 (low, high) of pattern(length), as libxxhash 0.8 says
VECTORS = [
    (0,
     0x2d06800538d394c2, (0x6001c324468d497f, 0x99aa06d3014798d8),
     0xd826b012d57c8336, (0xcee679f6fb3fb165, 0x09150b809709f839)),
    (1,
     0x48a895eb05a3c780, (0x48a895eb05a3c780, 0x284c100906a5e66e),
     0xe680b9dc6a57da28, (0xe680b9dc6a57da28, 0x9c4843ee3e513b53)),
    (3,
     0xd14824dc7f8c93c6, (0xd14824dc7f8c93c6, 0x3630d24a492506d3),
     0xb680e64748764b76, (0xb680e64748764b76, 0x2c97dfb0d429659d)),
    (4,
     0x2bd80051e417d0f3, (0x5c3a4c5ad1503609, 0x75f472f2c38e7140),
     0xcd16e47f6efdb742, (0xd2a1c4afb2dcbef7, 0x9e85db5af890196d)),
    (8,
     0x06828e3a07520e44, (0x85cccadba11cb5d2, 0xed3591453f0335cf),
     0xe037446e3ca76c4e, (0xd3d37a17fafcdefb, 0x1bc43268570f90d8)),
    (9,
     0x2619b6365d844779, (0x1ab931e2f3394361, 0x89a4ea1f141e7469),
     0x5f4b6aefea1bd73f, (0xe11b46ae5c95a38b, 0xb8fee68b2e951341)),
    (16,
     0xbd94bddffb5454eb, (0x7eb59c727ce0795c, 0xf441eede2f1686ba),
     0x14e8d13a68a00d62, (0x28acf6de7b75138a, 0xd8b032f9a142acd2)),
    (17,
     0xa16fd0e856be1180, (0x48b3d6b61944751c, 0x5bb9c258a27824ad),
     0x09d005d1574283eb, (0x8dba5fdf8c249002, 0x542ad5cb2d33b61b)),
    (128,
     0x26c3b72e42e168b5, (0xffa0a0535db61b30, 0x8b1752690b83fd65),
     0xf598d5ac8d2a8d22, (0x23075f2c308f2418, 0x0de25f3fef7cbab7)),
    (129,
     0xe35dff23529738f2, (0xf9d669dc9b601d0a, 0x9c4411b4368266e7),
     0x789e34a588e08f81, (0xc982d5e24ff8c51f, 0xe61968947e99e53e)),
    (240,
     0x467738cd880ef6db, (0xb8c2a1748a64d8a8, 0xd34db05395a25dd0),
     0xcb0532d8c877ca63, (0xb00f05d2e411df3c, 0x437876c1d0632646)),
    (241,
     0xe8af57a347b6aa85, (0xe8af57a347b6aa85, 0x5e2ec8f5ef6df2a3),
     0x2169d28ef5fd9c19, (0x2169d28ef5fd9c19, 0xd6c1182fa4220c19)),
    (1024,
     0xa82c3364ef82121e, (0xa82c3364ef82121e, 0xb541c3a7ef81a65e),
     0xe09ed8e6d33c28d5, (0xe09ed8e6d33c28d5, 0xea142ddc6bd2b41e)),
    (4096,
     0x7c2685223089bd91, (0x7c2685223089bd91, 0x92412399f8864946),
     0xfd76d8afd39027c8, (0xfd76d8afd39027c8, 0x9de21622f07cdbfb)),
    (100000,
     0xd265914a9e486c01, (0xd265914a9e486c01, 0x092e39993dd7327b),
     0x4ae0108b9eb331c8, (0x4ae0108b9eb331c8, 0x239cc614b29d7221)),
]


class Hashes(unittest.TestCase):
    def test_known_answers(self):
        for n, a64, a128, b64, b128 in VECTORS:
            data = pattern(n)
            with self.subTest(length=n):
                self.assertEqual((vr.xxh3_64(data), vr.xxh3_128(data)), (a64, a128))
                self.assertEqual((vr.xxh3_64(data, SEED), vr.xxh3_128(data, SEED)), (b64, b128))


class Lz4(unittest.TestCase):
    def test_literals(self):
        self.assertEqual(vr.lz4_block(b"\x50hello", 5), b"hello")
        long = pattern(300)
        self.assertEqual(vr.lz4_block(lz4_literals(long), 300), long)

    def test_matches(self):
        self.assertEqual(vr.lz4_block(b"\x14a\x01\x00\x10b", 10), b"aaaaaaaaab")
        self.assertEqual(vr.lz4_block(b"\x30abc\x03\x00\x1fz\x01\x00\x03\x10!", 31), b"abcabca" + b"z" * 23 + b"!")

    def test_refused(self):
        for data, raw in ((b"", 1), (b"\x50hell", 5), (b"\x50hello", 4), (b"\x50hello", 6), (b"\x14a\x00\x00\x10b", 10),
                          (b"\x14a\x02\x00\x10b", 10), (b"\x14a\x01\x00\x10b", 9), (b"\x14a\x01\x00", 9),
                          (b"\x14a\x01", 9), (b"\xf0\xff", 300), (b"\xf0", 15)):
            with self.subTest(data=data, raw=raw), self.assertRaises(ValueError):
                vr.lz4_block(data, raw)

    @unittest.skipUnless(shutil.which("lz4"), "needs the program lz4")
    def test_real(self):
        data = (pattern(5000) + b"ab" * 700 + bytes(3000)) * 3
        frame = subprocess.run(["lz4", "-c", "-B4", "--no-frame-crc"], input=data, capture_output=True, check=True)
        frame = frame.stdout
        at = 7 + (8 if frame[4] & 8 else 0)
        size = vr._r32(frame, at)
        self.assertLess(size, 1 << 31)
        self.assertEqual(vr.lz4_block(frame[at + 4:at + 4 + size], len(data)), data)


# The filters and codecs of section 6 forwards, word for word and slowly

def in_lanes(data, e):
    """Vectors of three numbers taken apart: all first, all second, all third numbers, and the size of one."""
    if e not in (12, 24):
        return data, e
    return b"".join(data[at:at + e // 3] for lane in range(3) for at in range(lane * (e // 3), len(data), e)), e // 3


def shuffle(data, e):
    whole, rest = data[:len(data) // e * e], data[len(data) // e * e:]
    whole, e = in_lanes(whole, e)
    return bytes(whole[i + k] for k in range(e) for i in range(0, len(whole), e)) + rest


def bitshuffle(data, e):
    m = len(data) // e // 8 * 8
    (whole, e), rest = in_lanes(data[:m * e], e), data[m * e:]
    out = bytearray()
    for k in range(e):
        for b in range(8):
            for group in range(0, len(whole) // e, 8):
                out.append(sum((whole[(group + i) * e + k] >> b & 1) << i for i in range(8)))
    return bytes(out) + rest


def running(data, e, combine):
    part = e // 3 if e in (12, 24) else min(e, 8)
    step = [data[at:at + part] for at in range(0, len(data) // e * e, part)]
    back, out = e // part, b""
    for i, piece in enumerate(step):
        before = step[i - back] if i >= back else bytes(part)
        out += (combine(int.from_bytes(piece, "little"), int.from_bytes(before, "little")) % (1 << 8 * part)
                ).to_bytes(part, "little")
    return out + data[len(out):]


def delta(data, e):
    return running(data, e, lambda x, y: x - y)


def xor(data, e):
    return running(data, e, lambda x, y: x ^ y)


def rotate(data, e):
    bits = 8 * (e // 3 if e in (12, 24) else min(e, 8))
    whole, out = len(data) // e * e, b""
    for at in range(0, whole, bits // 8):
        x = int.from_bytes(data[at:at + bits // 8], "little")
        out += ((x << 1 | x >> bits - 1) % (1 << bits)).to_bytes(bits // 8, "little")
    return out + data[whole:]


FILTERS = [None, shuffle, bitshuffle, delta, xor, rotate]


def filtered(data, filters, e):
    for number in filters:
        data = FILTERS[number](data, e) if number else data
    return data


class Filters(unittest.TestCase):
    def test_known_answers(self):
        two = bytes(range(1, 8))        # three elements of two bytes and a byte
        self.assertEqual(vr.undo_filter(1, bytes((1, 3, 5, 2, 4, 6, 7)), 2), two)
        self.assertEqual(vr.undo_filter(2, b"\x81\x02" + bytes(6) + b"ab", 1), b"\1\2\0\0\0\0\0\1ab")
        self.assertEqual(vr.undo_filter(3, b"\xff\x00\x01\xff!", 2), b"\xff\x00\x00\x00!")
        self.assertEqual(vr.undo_filter(4, b"\xf0\x0f\xff", 1), b"\xf0\xff\x00")
        self.assertEqual(vr.undo_filter(5, bytes.fromhex("01 80 81 7f 80 7f 77"), 2), bytes.fromhex("00c0 c0bf c03f 77"))
        # two vectors of three numbers of four bytes and a byte: 1 2 3, 0x104 5 0
        three = bytes.fromhex("01000000 02000000 03000000 04010000 05000000 00000000 21")
        self.assertEqual(vr.undo_filter(1, bytes((1, 4, 2, 5, 3, 0, 0, 1)) + bytes(16) + b"!", 12), three)
        self.assertEqual(vr.undo_filter(3, three[:12] + bytes.fromhex("03010000 03000000 fdffffff 21"), 12), three)
        self.assertEqual(vr.undo_filter(4, three[:12] + bytes.fromhex("05010000 07000000 03000000 21"), 12), three)
        # bit 0 of the first numbers of eight vectors, of the second, of the third; then bit 1
        vectors = b"".join(struct.pack("<3Q", i == 0, i == 1, 2 * (i == 7)) for i in range(8))
        self.assertEqual(vr.undo_filter(2, b"\1\2\0\0\0\x80" + bytes(186) + b"!", 24), vectors + b"!")

    def test_undone(self):
        for e in (1, 2, 4, 8, 12, 16, 24):
            for n in (0, 1, e - 1, e, 8 * e - 1, 8 * e, 9 * e + 3, 1000, 4096 + e // 2):
                data = pattern(n, 17 + e)
                for filters in ((1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (3, 2), (4, 1), (4, 2), (1, 3), (2, 4), (3, 3),
                                (5, 0), (5, 1), (5, 2), (3, 5)):
                    packed = filtered(data, filters, e)
                    self.assertEqual(len(packed), n)
                    for number in reversed([f for f in filters if f]):
                        packed = vr.undo_filter(number, packed, e)
                    self.assertEqual(packed, data, (e, n, filters))


def have(name):
    try:
        return vr.library(name)
    except vr.Refuse:
        return None


def fpzip(raw, e, nx, ny):
    lib = vr.library("fpzip")

    class Fpz(ctypes.Structure):
        _fields_ = [(field, ctypes.c_int) for field in ("type", "prec", "nx", "ny", "nz", "nf")]
    lib.fpzip_write_to_buffer.restype, lib.fpzip_write.restype = ctypes.POINTER(Fpz), ctypes.c_size_t
    out = ctypes.create_string_buffer(2 * len(raw) + 1024)
    fpz = lib.fpzip_write_to_buffer(out, ctypes.c_size_t(len(out)))
    fpz[0] = Fpz(e // 8, 0, nx, ny, 1, 1)
    size = lib.fpzip_write(fpz, raw)
    lib.fpzip_write_close(fpz)
    return out.raw[:size]


def zfp(raw, e, nx, ny, tolerance):
    lib, size = vr.library("zfp"), ctypes.c_size_t
    for name in ("zfp_field_1d", "zfp_field_2d", "zfp_stream_open", "stream_open"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.zfp_compress.restype, lib.zfp_stream_set_accuracy.restype = size, ctypes.c_double
    out = ctypes.create_string_buffer(2 * len(raw) + 1024)
    dims = (size(nx), size(ny)) if ny > 1 else (size(nx),)
    field = ctypes.c_void_p((lib.zfp_field_2d if ny > 1 else lib.zfp_field_1d)(raw, 3 + e // 8, *dims))
    stream = ctypes.c_void_p(lib.zfp_stream_open(None))
    if tolerance is None:
        lib.zfp_stream_set_reversible(stream)
    else:
        lib.zfp_stream_set_accuracy(stream, ctypes.c_double(tolerance))
    lib.zfp_stream_set_bit_stream(stream, ctypes.c_void_p(lib.stream_open(out, size(len(out)))))
    used = lib.zfp_compress(stream, field)
    return out.raw[:used]


class Floats(unittest.TestCase):
    def payloads(self, codec):
        """(raw bytes, element size, payload), with and without rows and a rest of the bytes."""
        for e, letter in ((4, "f"), (8, "d")):
            for count, row, rest in ((1, 0, 0), (7, 0, 3), (1000, 0, 1), (1000, 250, 0), (999, 37, e - 1)):
                values = [math.sin(i / 30) * 20 + i // 100 for i in range(count)]
                if codec == 5:
                    values = [round(x * 1024) / 1024 + 0.0 for x in values]
                raw = struct.pack("<%d%s" % (count, letter), *values)
                ny = -(-count // row) if row else 1
                nx = row or count
                full = raw.ljust(nx * ny * e, b"\0")
                head = struct.pack("<I", row) + (struct.pack("<hh", -10, -12) if codec == 5 else b"")
                stream = (fpzip(full, e, nx, ny) if codec == 3 else
                          zfp(full, e, nx, ny, None if codec == 4 else 2.0**-12))
                yield raw + b"rest..."[:rest], e, head + b"rest..."[:rest] + stream

    def check(self, codec):
        for raw, e, payload in self.payloads(codec):
            self.assertEqual(vr.floats(codec, payload, len(raw), e), raw)
            for bad in (b"", payload[:3], struct.pack("<I", 3) + payload[4:], struct.pack("<I", 2**31) + payload[4:]):
                with self.assertRaises(ValueError):
                    vr.floats(codec, bad, len(raw), e)
        with self.assertRaises(ValueError):
            vr.floats(codec, payload, e - 1, e)         # no whole number
        if codec == 5:
            for exponents in ((-1022, 0), (1024, 0), (0, -1075), (0, 1024)):
                with self.assertRaises(ValueError):
                    vr.floats(5, payload[:4] + struct.pack("<hh", *exponents) + payload[8:], len(raw), e)

    @unittest.skipUnless(have("fpzip"), "needs libfpzip")
    def test_fpzip(self):
        self.check(3)

    @unittest.skipUnless(have("zfp"), "needs libzfp")
    def test_zfp(self):
        self.check(4)
        self.check(5)

    def test_grid(self):
        big = vr.sys.float_info.max
        for x, exponent, want in ((0.3, -1, 0.5), (0.25, -1, 0.0), (0.75, -1, 1.0), (-1.2, 0, -1.0), (5.0, 1, 4.0),
                                  (7.0, 1, 8.0), (1e300, -1000, 1e300), (big, 1023, big),
                                  (2.0**60 + 4096, 0, 2.0**60 + 4096),
                                  (5e-324, 1023, 0.0), (2.0**1023, 1023, 2.0**1023), (float("inf"), 3, float("inf"))):
            self.assertEqual(vr.on_grid(x, exponent, big), want, (x, exponent))
        self.assertEqual(vr.on_grid(3.4e38, 127, 3.4028234663852886e38), 3.4e38)        # 2^128 is no float32

    def test_missing_library(self):
        with unittest.mock.patch.object(vr, "library", vr.library.__wrapped__), \
                unittest.mock.patch.object(vr.ctypes, "CDLL", side_effect=OSError("not there")):
            for codec, name in ((3, "fpzip"), (4, "zfp")):
                with self.assertRaises(vr.Refuse) as caught:
                    vr.floats(codec, bytes(100), 80, 8)
                self.assertIn(f"lib{name}.so.1: cannot load the library needed for this block", str(caught.exception))


class Values(unittest.TestCase):
    def test_ranges(self):
        nan = float("nan")
        for kind, form, values, want in (
                ("i8", "b", (-128, 5, 127), (False, -128, 127)), ("u8", "B", (255, 3), (False, 3, 255)),
                ("i16", "h", (-9, -8), (False, -9, -8)), ("u32", "I", (2**32 - 1,), (False, 2**32 - 1, 2**32 - 1)),
                ("i64", "q", (-2**63, 2**63 - 1), (False, -2**63, 2**63 - 1)),
                ("u64", "Q", (2**64 - 1, 0), (False, 0, 2**64 - 1)),
                ("f32", "f", (1.5, nan, -2.5), (True, -2.5, 1.5)), ("f64", "d", (nan, nan), (True, None, None)),
                ("f64", "d", (-0.0,), (False, 0.0, 0.0)), ("f16", "e", (-0.5, 65504), (False, -0.5, 65504.0)),
                ("c64", "f", (1, -7, 3, 4), (False, -7.0, 4.0)), ("c128", "d", (1, 2), (False, 1.0, 2.0))):
            data = struct.pack("<%d%s" % (len(values), form), *values)
            tail = b"" if kind in ("i8", "u8") else b"x"
            self.assertEqual(vr.range_of(kind, data + tail), vr.Range(kind, *want), kind)
        self.assertEqual(vr.range_of("bf16", b"\x80\x3f\x00\xc0\xc0\x7f"), vr.Range("bf16", True, -2.0, 1.0))
        self.assertEqual(str(vr.range_of("f64", struct.pack("<d", -0.0)).low), "0.0")
        self.assertIsNone(vr.range_of("c128", bytes(15)))


class Varints(unittest.TestCase):
    def test_round_trip(self):
        for n in (0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1):
            cur = vr.Cursor(varint(n), "x")
            self.assertEqual(cur.varint(), n)
            cur.end()
        for n in (0, -1, 1, -64, 64, 2**62, -2**62, 2**63 - 1, -2**63):
            self.assertEqual(vr.Cursor(svarint(n), "x").svarint(), n)

    def test_refused(self):
        for data in (b"", b"\x80", b"\x80\x00", b"\xff\x80\x00", b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"):
            with self.subTest(data=data), self.assertRaises(vr.Damage):
                vr.Cursor(data, "x").varint()


class Names(unittest.TestCase):
    def test_encoding(self):
        for raw, text in ((b"heat2d", "heat2d"), (b".", "%2E"), (b"..", "%2E."), (b"a/b c", "a%2Fb%20c"),
                          (b"\xff%", "%FF%25"), (b"x" * 80, "x" * 80), (b"/" * 80, "%2F" * 80)):
            self.assertEqual(vr.encode_name(raw), text)
            self.assertEqual(vr.decode_name(text), raw)

    def test_refused(self):
        for text in ("", ".", "..", "%2e", "a%", "a%2", "%41", "a b", "x" * 81, "%00", ".hidden"):
            with self.subTest(text=text), self.assertRaises(vr.Damage):
                vr.decode_name(text)


# ---------------------------------------------------------------------------------------------------------------
# A writer, as small as can be

def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def svarint(n):
    return varint(2 * n if n >= 0 else -2 * n - 1)


def text16(b):
    return struct.pack("<H", len(b)) + b


def lz4_literals(data):
    out, n = bytearray(), len(data)
    if n < 15:
        out.append(n << 4)
    else:
        out.append(0xF0)
        out += b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])
    return bytes(out) + data


def pack_ref(ref):
    g, v, a = ref
    return struct.pack("<IIQ", g, a, v)


NONE = (0, 0, 0)


class Maker:
    """Writes a store. tamper(what, bytes) may change any piece before its checksum is taken."""

    def __init__(self, root, name=b"heat", id_kind=1, tamper=None, layout=0):
        self.root, self.name, self.tamper = root, name, tamper or (lambda what, data: data)
        self.id, self.seed = pattern(16, 99), SEED if id_kind == 1 else 0
        self.settings = struct.pack("<HHIQQ", id_kind, 12, layout, self.seed, 10**18)
        self.id_kind, self.lists, self.manifests, self.expected = id_kind, {}, {}, {}
        self.small("varve", 1, self.settings, named=False)
        self.small(self.key("claim/00000001"), 2,
                   self.settings + pattern(16, 7) + struct.pack("<Q16sQQIIII", 10**18, b"", 0, 0, 1, 4, 10, 60)
                   + text16(name) + text16(b"host") + text16(b"program"), ref=(1, 0, 0))
        self.small(self.key("beat/00000001"), 3,
                   pattern(16, 7) + struct.pack("<QQII", 5, 10**18, 1, 0) + pack_ref(NONE), ref=(1, 0, 0))

    def key(self, rest):
        return f"n/{vr.encode_name(self.name)}/{rest}"

    def put(self, key, data):
        path = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)

    def head(self, kind, ref=NONE, writer=0, part=0, required=0, named=True):
        head = struct.pack("<8sHHIQQ16sIIQIIQQ", b"\x89Varve\r\n", 1, kind, 0, required, 0, self.id, ref[0], ref[2],
                           ref[1], writer, part, vr.xxh3_64(self.name) if named else 0, 0)
        head = self.tamper(f"head {kind}", head)
        return head + struct.pack("<Q", vr.xxh3_64(head))

    def small(self, key, kind, body, ref=NONE, named=True, writer=0):
        data = self.head(kind, ref, named=named, writer=writer) + self.tamper(f"body {kind}", body)
        data += struct.pack("<Q", len(data) + 24)
        self.put(key, data + vr.digest(data))
        return vr.digest(data), len(data) + 16

    def content_id(self, g):
        return (struct.pack("<QQ", *vr.xxh3_128(g, self.seed)) if self.id_kind == 1
                else vr.hashlib.sha256(g).digest()[:16])

    def region_digest(self, data):
        total = 0
        for i in range(0, len(data), 4096):
            g = data[i:i + 4096]
            if any(g):
                low, high = vr.xxh3_128(struct.pack("<Q", i // 4096) + self.content_id(g))
                total += low + (high << 64)
        return struct.pack("<QQ", total & vr.M64, total >> 64 & vr.M64)

    def manifest(self, ref, owner, entries, in_effect, layout, layers=(), element_type=10, bound=None):
        """entries: (number, None) removes; (number, data, runs, address or None, name or None) else.
        in_effect: {number: data} after all layers."""
        body, before, runs_total = b"", -1, 0
        addresses = dict(self.manifests[layers[-1][0], owner][1]) if layers else {}
        for number, data, *rest in entries:
            body += varint(number - before - 1)
            before = number
            if data is None:
                body += b"\x02"
                continue
            runs, address, name = rest
            body += bytes([name is not None]) + varint(len(data))
            if name is not None:
                body += text16(name) + varint(address // 4096)
                body += bytes((element_type, 1)) + varint(100) + varint(0) + varint(7)          # one dimension
                body += b"\0" if bound is None else struct.pack("<Bd", 1, bound)
                addresses[number] = address
            at = addresses[number]
            for kind, n, *more in runs:
                body += varint(8 * n + kind)

                def place(lean, o, a):
                    return varint(lean) + svarint(o - owner) + svarint(a - at)
                if kind == 2:
                    body += place(*more[0])
                elif kind == 3:
                    body += varint(len(more[0])) + b"".join(place(*p[:3]) + varint(p[3]) for p in more[0])
                elif kind == 5:
                    body += varint(more[0]) + place(*more[1])
                at += n
                runs_total += 1
            body += b"\0" + self.region_digest(data)
        table = b""
        for low_ref, lean, writer in layers:
            table += struct.pack("<II", lean, writer) + self.manifests[low_ref, owner][0]
        section = struct.pack("<IIQQQQQ", owner, len(layers), len(in_effect), sum(map(len, in_effect.values())), layout,
                              len(entries), runs_total) + table.ljust(72, b"\0") + body
        section = self.tamper("section 5", section)
        self.manifests[ref, owner] = vr.digest(section), addresses
        for number, data in in_effect.items():
            self.expected[ref[1], owner, number] = data
        return section, sum(map(len, in_effect.values())), len(in_effect)

    @staticmethod
    def extents(extents, owner, address, writers=None):
        out = b""
        for i, (o, a, n) in enumerate(extents):
            out += varint(2 * n + (o != owner)) + (svarint(o - owner) if o != owner else b"") + svarint(a - address)
            out += varint(writers[i]) if writers else b""
            owner, address = o, a + n
        return out

    def pack(self, ref, w, writers, ranks, first, manifests, blocks, leans=(), partners=(), moved=(), parent=NONE,
             parts=0, copy=False, ranges=b""):
        """blocks: (part, codec or (codec, filter, filter, element), has_ids, [(owner, address, bytes)], encoded form if it
        is not to be made here). Returns the entry of the writers list and the sums for the record."""
        folder = self.key("data/%08x/%016x/%08x/" % ref)
        numbers = dict(ref=ref, writer=w)
        bodies = [self.head(5, part=p, **numbers) for p in range(parts)]
        bodies.append(self.head(4, **numbers))
        table = extents = ids = b""
        raw_total = stored_total = 0
        for part, coding, has_ids, pieces, *given in blocks:
            raw = b"".join(p for _, _, p in pieces)
            codec, *filters, element = coding if isinstance(coding, tuple) else (coding, 0, 0, 0)
            stored = given[0] if given else ENCODE[codec](filtered(raw, filters, element))
            first_extent = len(extents)
            extents += self.extents([(o, a, len(p)) for o, a, p in pieces], pieces[0][0], 0)
            table += struct.pack("<IBBBBQIIQQIIQII", part, codec, *filters, element, len(bodies[part]), len(stored), len(raw),
                                 vr.xxh3_64(stored), first_extent, len(pieces), int(has_ids), len(ids) // 16,
                                 pieces[0][0], 0)
            for _, _, p in pieces if has_ids else ():
                ids += b"".join(self.content_id(p[i:i + 4096]) for i in range(0, len(p), 4096))
            bodies[part] += stored
            raw_total += len(raw)
            stored_total += len(stored)
        sections = [(1, 0, table), (2, 0, extents), (3, 0, ids)]
        if moved:
            sections.append((4, 0, self.extents([m[:3] for m in moved], first, 0, [m[3] for m in moved])))
        sections = [(k, o, self.tamper(f"section {k}", d)) for k, o, d in sections]
        sections += [(5, first + i, m[0]) for i, m in enumerate(manifests)]
        if ranges:
            sections.append((0x8001, 0, self.tamper("section 32769", ranges)))
        sections = self.tamper("sections", sections)

        def finish(buf):
            rows = b""
            for kind, owner, data in sections:
                rows += struct.pack("<IIQQ16s", kind, owner, len(buf), len(data), vr.digest(data))
                buf += data
            footer = self.settings + struct.pack(
                "<IIIII12s16sQQQQQIIII", writers, ranks, first, len(manifests), len(partners),
                b"".join(struct.pack("<I", p) for p in partners), pack_ref(parent), 10**18,
                sum(m[1] for m in manifests), raw_total, stored_total, sum(m[2] for m in manifests), parts, len(leans),
                len(sections), 0)
            footer += text16(self.name) + text16(b"program")
            footer += b"".join(struct.pack("<Q", len(b)) for b in bodies[:parts])
            footer += b"".join(pack_ref(r) + self.lists[r] for r in leans) + rows
            footer = self.tamper("footer", footer)
            buf += footer
            return buf + self.tamper("end", struct.pack("<QI4s", len(buf) - len(footer), len(footer), b"VEND")
                                     ) + vr.digest(footer), footer
        for p in range(parts):
            self.put(f"{folder}{w:08x}.{p:08x}", bodies[p])
        data, footer = finish(bodies[parts])
        self.put(f"{folder}{w:08x}", data)
        if copy:
            self.put(f"{folder}{w:08x}.copy", self.head(10, **numbers) + data[len(bodies[parts]):])
        entry = struct.pack("<IIII12sIQQ", first, len(manifests), parts, len(partners),
                            b"".join(struct.pack("<I", p) for p in partners), 0, len(data),
                            sum(len(b) for b in bodies[:parts])) + vr.digest(footer)
        return entry, [sum(m[1] for m in manifests), raw_total, stored_total, sum(m[2] for m in manifests)]

    def commit(self, ref, ranks, entries, leans=(), parent=NONE):
        body = struct.pack("<II", len(entries), ranks) + b"".join(e for e, _ in entries)
        digest, length = self.small(self.key("data/%08x/%016x/%08x/writers" % ref), 6, body, ref)
        self.lists[ref] = digest
        protected, raw, stored, regions = (sum(s[i] for _, s in entries) for i in range(4))
        body = self.settings + struct.pack("<QIIQ16s16sQQQQQII", 10**18, ranks, len(entries), length, digest,
                                           pack_ref(parent), protected, raw, stored, 0, regions, len(leans), 0)
        body += b"".join(pack_ref(r) + self.lists[r] for r in leans) + text16(self.name) + text16(b"program")
        self.small(self.key("record/%08x%016x" % (ref[0] ^ 0xFFFFFFFF, ref[1] ^ vr.M64)), 7, body, ref)


def zstd(raw):
    return subprocess.run(["zstd", "-qc"], input=raw, capture_output=True, check=True).stdout


def lz4_zstd(raw):
    block = lz4_literals(raw)
    return struct.pack("<I", len(block)) + zstd(block)


ENCODE = {0: bytes, 1: lz4_literals, 2: zstd, 6: lz4_zstd}


def range_entry(block, kind, flags, low, high):
    form = "dd" if kind > 8 else "qq" if kind % 2 else "QQ"
    return struct.pack("<IBBH" + form, block, kind, flags, 0, low, high)


HERE, FROM, ANY, ZERO, REPEATED, KEEP = 1, 2, 3, 4, 5, 6


def base_store(root, tamper=None, codec=0, id_kind=1, name=b"heat"):
    """One writer, one rank, two regions."""
    mk = Maker(root, name=name, tamper=tamper, id_kind=id_kind)
    ref, a, b = (1, 5, 0), bytes(range(256)) * 16 + b"tail" * 5 + bytes(100) + b"x", b"scalar"
    man = mk.manifest(ref, 0, [(0, a, [(HERE, len(a))], 0, b"a"), (3, b, [(HERE, 6)], 8192, b"b")], {0: a, 3: b}, 8198)
    blocks = [(0, codec, True, [(0, 0, a)]), (0, 0, True, [(0, 8192, b)])]
    mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], blocks)])
    return mk


def typed_store(root, tamper=None, partners=False):
    """A part and a pack, filters, ranges. Version 5: three regions of f64; version 6 uses half of a block again."""
    mk = Maker(root, tamper=tamper)
    ref, nan = (1, 5, 0), float("nan")
    a = struct.pack("<1024d", *(i * 0.5 - 100 for i in range(1024)))
    b = struct.pack("<600d", *(7.0 if i % 3 else nan for i in range(600)))
    c = struct.pack("<3d", 1, 2, 3)
    man = mk.manifest(ref, 0, [(0, a, [(HERE, len(a))], 0, b"a"), (1, b, [(HERE, len(b))], 8192, b"b"),
                               (2, c, [(HERE, len(c))], 16384, b"c")], {0: a, 1: b, 2: c}, 16408)
    blocks = [(0, (2, 3, 1, 8), True, [(0, 0, a)]), (1, (2, 2, 0, 8), True, [(0, 8192, b)]),
              (1, 0, True, [(0, 16384, c)])]
    ranges = range_entry(0, 10, 0, -100, 411.5) + range_entry(1, 10, 1, 7, 7)
    mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], blocks, parts=1, copy=True, ranges=ranges)])
    r6 = (1, 6, 0)
    half = a[:4096] + bytes(4096)
    man = mk.manifest(r6, 0, [(0, half, [(FROM, 4096, (1, 0, 0)), (ZERO, 4096)], 0, b"a")], {0: half}, 8192)
    mk.commit(r6, 1, [mk.pack(r6, 0, 1, 1, 0, [man], [], leans=[ref], parent=ref)], leans=[ref], parent=ref)
    return mk


def local_store(root, layout=1):
    """Two versions of four ranks, each rank its own writer; generation 2 was written by a job whose ranks sat otherwise."""
    mk = Maker(root, layout=layout)
    for ref in ((1, 5, 0), (1, 6, 0), (2, 7, 0)):
        entries = []
        for w in range(4):
            a = pattern(6000, 100 * ref[1] + w)
            man = mk.manifest(ref, w, [(0, a, [(HERE, len(a))], 0, b"a")], {0: a}, len(a))
            entries.append(mk.pack(ref, w, 4, 4, w, [man], [(0, 0, True, [(w, 0, a)])]))
        mk.commit(ref, 4, entries)
    return mk


def rich_store(root, tamper=None):
    """Four ranks, two writers; parts, partners, copies, moved extents; three overlays and a base made of pieces."""
    mk = Maker(root, tamper=tamper, name=b"heat/2d")
    ref, a, b, addr_b = (1, 10, 0), {}, {}, 16384
    for o in range(4):
        a[o], b[o] = pattern(4096 * 3 + 100, 1000 + o), pattern(5000, 2000 + o)
    b[1] = bytes(4096) + b"after a granule of zeros"

    def base(o):
        return mk.manifest(ref, o, [(0, a[o], [(HERE, len(a[o]))], 0, b"a"),
                                    (1, b[o], [(ZERO, 4096), (HERE, len(b[o]) - 4096)] if o == 1 else
                                     [(HERE, len(b[o]))], addr_b, b"b")], {0: a[o], 1: b[o]}, addr_b + len(b[o]))
    # writer 0: owner 0 without [4096, 8192), owner 1; a copy of owner 2. Part 0 has two blocks, the pack two.
    w0 = mk.pack(ref, 0, 2, 4, 0, [base(0), base(1)], [
        (0, 0, True, [(0, 0, a[0][:4096]), (0, 8192, a[0][8192:])]),
        (0, 0, False, [(1, addr_b + 4096, b[1][4096:]), (0, addr_b, b[0])]),
        (1, 0, True, [(1, 0, a[1])]),
        (1, 0, False, [(2, 0, a[2][:5000]), (2, 5000, a[2][5000:]), (2, addr_b, b[2])])],
        partners=[1], moved=[(0, 4096, 4096, 1)], parts=1, copy=True)
    # writer 1: owners 2 and 3, and all of owner 0's region a, both as its moved extent and as a copy.
    w1 = mk.pack(ref, 1, 2, 4, 2, [base(2), base(3)], [
        (0, 0, True, [(2, 0, a[2]), (2, addr_b, b[2])]),
        (0, 0, True, [(3, addr_b, b[3]), (3, 0, a[3]), (0, 0, a[0])]),
        (0, 0, False, [(0, addr_b, b[0][:777]), (0, addr_b + 777, b[0][777:])])], partners=[0], copy=True)
    mk.commit(ref, 4, [w0, w1])

    def overlay(ref, owner0, leans, layers, blocks, parent):
        """owner0: arguments of the manifest of owner 0; all other owners are unchanged."""
        mans = [mk.manifest(ref, 0, *owner0, layers)]
        for o in range(1, 4):
            mans.append(mk.manifest(ref, o, [], {0: a[o], 1: b[o]}, addr_b + len(b[o]),
                                    [(r, lean, o // 2) for r, lean, _ in layers]))
        e0 = mk.pack(ref, 0, 2, 4, 0, mans[:2], blocks, leans=leans, parent=parent)
        e1 = mk.pack(ref, 1, 2, 4, 2, mans[2:], [], leans=leans, parent=parent)
        mk.commit(ref, 4, [e0, e1], leans=leans, parent=parent)

    r11, r12, r13, r14, r15 = ((1, v, 0) for v in range(11, 16))
    # 11: region 0 has a changed second granule and zeros; region 2 is new, a repeated piece of owner 1
    new = pattern(4096, 31)
    a11 = a[0][:4096] + new + bytes(4096) + a[0][12288:]
    c11 = (a[1][100:107] * 2000)[:9999]
    overlay(r11, ([(0, a11, [(KEEP, 4096), (HERE, 4096), (ZERO, 4096), (KEEP, 100)], None, None),
                   (2, c11, [(REPEATED, 9999, 7, (1, 1, 100))], 24576, b"c")],
                  {0: a11, 1: b[0], 2: c11}, 40000),
            [ref], [(ref, 1, 0)], [(0, 0, True, [(0, 4096, new)])], ref)
    # 12: region 1 is gone; region 0 has grown and moved to another address; from, from any
    a12 = a11 + b[3][:3000] + a[2][:4000]
    overlay(r12, ([(0, a12, [(KEEP, len(a11)), (FROM, 3000, (1, 3, addr_b)),
                             (ANY, 4000, [(1, 2, 0, 0), (1, 2, 0, 1)])], 65536, b"a"), (1, None)],
                  {0: a12, 2: c11}, 65536 + len(a12)),
            [ref, r11], [(ref, 1, 0), (r11, 2, 0)], [], r11)
    # 13: region 2 has shrunk, and a slice of the repeated piece is overwritten; region 4 is empty
    c13 = c11[:1000] + b"NEW" * 100 + c11[1300:5000]
    overlay(r13, ([(2, c13, [(KEEP, 1000), (HERE, 300), (KEEP, 3700)], None, None), (4, b"", [], 0, b"empty")],
                  {0: a12, 2: c13, 4: b""}, 65536 + len(a12)),
            [ref, r11, r12], [(ref, 1, 0), (r11, 2, 0), (r12, 3, 0)],
            [(0, 0, False, [(0, 24576 + 1000, b"NEW" * 100)])], r12)
    # 14: a base of one rank, one writer, a single region from everywhere, also from this attempt
    mine = pattern(64, 5)
    d14 = mine * 10 + new + bytes(5000) + b[1][4096:] + mine[8:]
    man = mk.manifest(r14, 0, [(7, d14, [(REPEATED, 640, 64, (0, 0, 1 << 20)), (FROM, 4096, (2, 0, 4096)), (ZERO, 5000),
                                         (FROM, len(b[1]) - 4096, (1, 1, addr_b + 4096)),
                                         (FROM, 56, (0, 0, (1 << 20) + 8))], 0, b"d")], {7: d14}, (1 << 20) + 64)
    mk.commit(r14, 1, [mk.pack(r14, 0, 1, 1, 0, [man], [(0, 0, False, [(0, 1 << 20, mine)])], leans=[ref, r11],
                               parent=r13)], leans=[ref, r11], parent=r13)
    # 15 is forgotten
    mk.small(mk.key("record/%08x%016x" % (0xFFFFFFFE, 15 ^ vr.M64)), 8,
             struct.pack("<IIQ", 3, 0, 1) + text16(b"bye"), r15)
    return mk


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = vr.main(list(argv))
    return code, out.getvalue(), err.getvalue()


class Stores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="varve-read-test.")
        self.addCleanup(folder.cleanup)
        self.root, self.out = os.path.join(folder.name, "store"), os.path.join(folder.name, "out")
        os.mkdir(self.root)

    def restore(self, name, version, rank, region, *more):
        if os.path.exists(self.out):
            os.unlink(self.out)
        code, _, err = run("restore", self.root, name, str(version), str(rank), str(region), "-o", self.out, *more)
        self.assertNotIn("internal error", err)
        self.assertEqual(code == 0, os.path.exists(self.out))
        if code:
            self.assertEqual(sorted(os.listdir(os.path.dirname(self.out))), ["store"])
            return code, err
        with open(self.out, "rb") as f:
            return 0, f.read()

    def check_all(self, mk):
        for (version, rank, number), data in mk.expected.items():
            with self.subTest(version=version, rank=rank, number=number):
                self.assertEqual(self.restore(mk.name.decode(), version, rank, number), (0, data))
        code, out, err = run("verify", self.root)
        self.assertEqual((code, err), (0, ""))

    def objects(self):
        for folder, _, files in os.walk(self.root):
            for file in sorted(files):
                yield os.path.join(folder, file)

    def test_base(self):
        self.check_all(base_store(self.root))
        code, out, err = run("ls", self.root)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^heat  generation 1  version 5  attempt 0  2001-09-09T01:46:40Z  ranks 1  regions 2 ")
        code, out, err = run("show", "file://" + self.root, "heat")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("rank 0  region 3  b  length 6  type f64  dims 0+7/100\n", out)
        self.assertEqual(self.restore("heat", "latest", 0, "b"), (0, b"scalar"))
        for argv in (["heat", 6, 0, 0], ["cold", 5, 0, 0], ["heat", 5, 1, 0], ["heat", 5, 0, 1],
                     ["heat", 5, 0, 0, "--generation", "2"]):
            self.assertEqual(self.restore(*argv)[0], 1)
        self.assertEqual(run("ls", self.root + "/none")[0], 1)
        self.assertEqual(run("ls", "s3://bucket/x")[0], 1)

    def test_sha256_ids(self):
        self.check_all(base_store(self.root, id_kind=2))

    @unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
    def test_zstd(self):
        self.check_all(base_store(self.root, codec=2))

    @unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
    def test_codings(self):
        """Every filter and every element size, over codecs 2 and 6."""
        mk, ref, regions, blocks = Maker(self.root), (1, 5, 0), [], []
        for i, (codec, f1, f2, e) in enumerate((codec, f1, f2, e) for codec in (2, 6) for f1 in range(1, 6)
                                               for f2 in (0, 1, 2) for e in (1, 2, 4, 8, 12, 16, 24)):
            data = b"".join(struct.pack("<I", 3 * x + i) for x in range(700)) + b"ends"[:i % 4]
            regions.append((i, data, [(HERE, len(data))], 4096 * i, b"r%d" % i))
            blocks.append((0, (codec, f1, f2, e), False, [(0, 4096 * i, data)]))
        man = mk.manifest(ref, 0, regions, {r[0]: r[1] for r in regions}, 4096 * len(regions))
        mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], blocks)])
        code, out, err = run("verify", self.root)       # every region's digest
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(self.restore("heat", 5, 0, 17), (0, regions[17][1]))

    @unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
    def test_typed(self):
        self.check_all(typed_store(self.root))
        out = run("show", self.root, "heat", "5")[1]
        self.assertIn("a  length 8192  type f64  dims 0+7/100  min -100.0  max 411.5\n", out)
        self.assertIn("b  length 4800  type f64  dims 0+7/100  min 7.0  max 7.0  nan\n", out)
        self.assertIn("c  length 24  type f64  dims 0+7/100\n", out)           # nobody stored its range
        out = run("show", self.root, "heat", "6")[1]
        self.assertIn("type f64  dims 0+7/100  within -100.0 to 411.5\n", out)
        # without the pack, the copy has tables and ranges; the part has its block
        os.unlink(os.path.join(self.root, "n/heat/data/00000001/0000000000000005/00000000/00000000"))
        code, out, err = run("show", self.root, "heat", "5")
        self.assertIn("min -100.0  max 411.5\n", out)
        self.assertEqual(self.restore("heat", 6, 0, 0)[0], 0)

    @unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
    def test_ranges_refused(self):
        """What is wrong with ranges is found by verify; show does without; the data can be had all the same."""
        def first(at, value, size=1):
            return lambda d: d[:at] + value.to_bytes(size, "little") + d[at + size:]
        for change, code in (
                (lambda d: d, 0), (first(0, 1, 4), 20), (first(24, 3, 4), 20), (first(4, 0), 20), (first(4, 15), 3),
                (first(5, 4), 3), (first(5, 2), 20), (first(5, 3), 20), (first(6, 1, 2), 3), (first(15, 0x7f), 20),
                (first(8, 1, 8), 20), (first(16, 0, 8), 20), (first(5, 1), 20), (first(4, 5), 20),
                (first(24 + 5, 0), 20),
                (lambda d: d[:-1], 20), (lambda d: d + d, 20)):
            self.refused("section 32769", change, 0, make=typed_store)
            got, out, err = run("verify", self.root)
            self.assertEqual(got, code, err)
            self.assertEqual(run("show", self.root, "heat", "5")[0], 0)

    @unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
    def test_lossy(self):
        mk, ref, a = Maker(self.root), (1, 5, 0), struct.pack("<512f", *range(512))
        man = mk.manifest(ref, 0, [(0, a, [(HERE, len(a))], 0, b"a")], {0: a}, len(a), element_type=9, bound=0.5)
        mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], [(0, (6, 4, 2, 4), True, [(0, 0, a)])])])
        self.check_all(mk)
        self.assertIn("type f32  dims 0+7/100  lossy 0.5\n", run("show", self.root, "heat", "5")[1])

    def test_codings_refused(self):
        def coding(codec, f1, f2, e):
            return lambda d: d[:4] + bytes((codec, f1, f2, e)) + d[8:]
        for fields, code in (((7, 0, 0, 0), 3), ((2, 6, 0, 4), 3), ((2, 1, 6, 4), 3), ((0, 1, 0, 4), 20),
                             ((2, 0, 1, 4), 20), ((2, 1, 0, 0), 20), ((2, 1, 0, 3), 20), ((2, 0, 0, 4), 20),
                             ((3, 0, 0, 0), 20), ((4, 0, 0, 16), 20), ((5, 1, 0, 8), 20), ((6, 0, 0, 1), 20)):
            self.refused("section 1", coding(*fields), code)

    def test_lz4_zstd_refused(self):
        for data, raw in ((b"", 5), (b"\0\0\0", 5), (struct.pack("<I", 0) + zstd(b""), 5),
                          (struct.pack("<I", 2**31) + zstd(b"\x50hello"), 5),
                          (struct.pack("<I", 5) + zstd(b"\x50hello"), 5),
                          (struct.pack("<I", 6) + zstd(b"\x50hello") + b"x", 5),
                          (struct.pack("<I", 6) + zstd(b"\x50hello"), 4)) if shutil.which("zstd") else ():
            with self.subTest(data=data, raw=raw), self.assertRaises(ValueError):
                vr.lz4_zstd(data, raw)

    def test_lz4(self):
        mk = Maker(self.root)
        ref, a = (1, 5, 0), b"abcd" * 500 + b"end"
        man = mk.manifest(ref, 0, [(0, a, [(HERE, len(a))], 0, b"a")], {0: a}, len(a))
        stored = b"\x4fabcd\x04\x00" + b"\xff" * 7 + bytes([1996 - 4 - 15 - 7 * 255]) + b"\x30end"
        mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], [(0, 1, True, [(0, 0, a)], stored)])])
        self.check_all(mk)

    def test_stored_longer_than_raw(self):
        # literals alone are longer than what they stand for, which section 6 does not allow
        base_store(self.root, codec=1)
        self.assertEqual(self.restore("heat", 5, 0, 0)[0], 20)

    def test_rich(self):
        mk = rich_store(self.root)
        self.check_all(mk)
        code, out, _ = run("ls", self.root)
        self.assertEqual([line.split()[4] for line in out.splitlines()], ["14", "13", "12", "11", "10"])
        self.assertIn("version 15  forgotten: bye", run("ls", self.root, "--all")[1])
        self.assertEqual(self.restore("heat/2d", 15, 0, 0)[0], 1)
        self.assertEqual(self.restore("heat/2d", "latest", 0, "d"), (0, mk.expected[14, 0, 7]))

    # --- node-local stores

    def lose(self, generation, version, *writers):
        for w in writers:
            os.unlink(os.path.join(self.root, "n/heat/data/%08x/%016x/00000000/%08x" % (generation, version, w)))

    def test_one_node(self):
        mk = local_store(self.root)
        self.check_all(mk)
        for version in 5, 6:
            self.lose(1, version, 0, 1)
        self.lose(2, 7, 2, 3)
        code, out, err = run("verify", self.root)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("3 of 3 checkpoints can be restored; 0 problems", out)
        self.assertIn("6 packs are not on this node: kept on other nodes, or missing; this cannot be told from here", out)
        for (version, rank, number), want in mk.expected.items():
            code, got = self.restore("heat", version, rank, number)
            if (rank < 2) == (version == 7):
                self.assertEqual((code, got), (0, want))
            else:
                self.assertEqual(code, 1)
                self.assertIn("not on this node: kept on another one, or missing", got)
        code, out, err = run("show", self.root, "heat", "6")
        self.assertEqual((code, out.count("\nrank "), err.count("not on this node")), (0, 2, 2))

    def test_one_node_and_loss(self):
        local_store(self.root)
        for version in 5, 6:
            self.lose(1, version, 0, 1)
        self.lose(1, 6, 3)              # the other version shows that writer 3 ran here
        code, out, err = run("verify", self.root)
        self.assertEqual(code, 20)
        self.assertIn("0000000000000006/00000000/00000003: object is missing", err)
        self.assertEqual(self.restore("heat", 6, 3, 0)[0], 20)
        self.assertEqual(self.restore("heat", 6, 2, 0)[0], 0)
        self.assertEqual(self.restore("heat", 6, 0, 0)[0], 1)

    def test_layouts(self):
        local_store(self.root, layout=0)
        self.lose(1, 5, 0, 1)
        self.lose(1, 6, 0, 1)
        self.assertEqual(run("verify", self.root)[0], 20)       # one store has everything
        shutil.rmtree(self.root)
        os.mkdir(self.root)
        local_store(self.root, layout=2)
        code, _, err = run("verify", self.root)
        self.assertEqual(code, 3)
        self.assertIn("layout 2 is not known", err)

    def test_highest_generation(self):
        mk = base_store(self.root)
        mk.expected.clear()
        ref = (2, 5, 1)
        man = mk.manifest(ref, 0, [(0, b"second", [(HERE, 6)], 0, b"a")], {0: b"second"}, 6)
        mk.commit(ref, 1, [mk.pack(ref, 0, 1, 1, 0, [man], [(0, 0, True, [(0, 0, b"second")])])])
        self.check_all(mk)
        self.assertNotEqual(self.restore("heat", 5, 0, 0, "--generation", "1")[1], b"second")

    # --- loss and repair

    def test_lost_objects(self):
        mk = rich_store(self.root)
        data = os.path.join(self.root, "n/heat%2F2d/data/00000001/000000000000000a/00000000")
        everything = {k: d for k, d in mk.expected.items() if k[1] == 0}
        for lost, hurt in (("../../../../../../varve", ()), (data + "/writers", ()),
                           (data + "/00000000", None), (data + "/00000001.copy", ())):
            path = os.path.normpath(os.path.join(data, lost))
            os.rename(path, self.root + "/saved")
            with self.subTest(lost=lost):
                for (version, rank, number), want in everything.items():
                    code, got = self.restore("heat/2d", version, rank, number)
                    if hurt is not None:
                        self.assertEqual((code, got), (0, want))
                    else:       # owner 1 of writer 0 has no copy; owner 0 has
                        self.assertIn((code, got), ((0, want), (20, got)))
                        self.assertTrue(code == 0 or version > 10)
                self.assertEqual(run("verify", self.root)[0], 0 if lost.endswith("copy") else 20)
            os.rename(self.root + "/saved", path)

    def test_latest_passes_over_damage(self):
        mk = rich_store(self.root)
        os.unlink(os.path.join(self.root, "n/heat%2F2d/data/00000001/000000000000000e/00000000/00000000"))
        self.assertEqual(self.restore("heat/2d", "latest", 0, "c"), (0, mk.expected[13, 0, 2]))
        self.assertEqual(self.restore("heat/2d", 14, 0, 7)[0], 20)

    def test_moved_objects(self):
        rich_store(self.root)
        base = os.path.join(self.root, "n/heat%2F2d/record/fffffffe")
        os.replace(base + "%016x" % (10 ^ vr.M64), base + "%016x" % (9 ^ vr.M64))
        self.assertEqual(self.restore("heat/2d", 9, 0, 0)[0], 20)
        self.assertEqual(run("ls", self.root)[0], 20)
        os.rename(os.path.join(self.root, "n/heat%2F2d"), os.path.join(self.root, "n/cold"))
        self.assertEqual(self.restore("cold", 11, 0, 0)[0], 20)
        os.mkdir(os.path.join(self.root, "n/no%name"))
        self.assertIn("n/no%name: not the encoding of a name", run("ls", self.root)[2])

    # --- damage

    def flips(self, mk, wanted, step=None, count=None):
        """Flip a bit in every step-th byte, or in count bytes, of every object; ask for one of the wanted regions."""
        rng, refused = random.Random(SEED_OF_TESTS + 1), 0
        for path in list(self.objects()):
            with open(path, "rb") as f:
                good = f.read()
            places = (range(rng.randrange(step), len(good), step) if step else
                      [len(good) - 1 - int(len(good) * rng.random() ** 2) for _ in range(count)])
            for at in places:
                bad = bytearray(good)
                bad[at] ^= 1 << rng.randrange(8)
                with open(path, "wb") as f:
                    f.write(bad)
                version, rank, number = rng.choice(wanted)
                code, got = self.restore(mk.name.decode(), version, rank, number)
                if code == 0:
                    self.assertEqual(got, mk.expected[version, rank, number], (path, at))
                else:
                    self.assertEqual(code, 20, (path, at, got))
                    self.assertEqual(got.splitlines()[-1][:12], "varve-read: ", got)
                    refused += 1
            with open(path, "wb") as f:
                f.write(good[:rng.randrange(len(good))])
            for version, rank, number in wanted:
                code, got = self.restore(mk.name.decode(), version, rank, number)
                self.assertIn((code, got), ((0, mk.expected[version, rank, number]), (20, got)))
            with open(path, "wb") as f:
                f.write(good)
        return refused

    def test_flips_base(self):
        mk = base_store(self.root)
        # beat, claim and store object are not needed; every other byte outside the other region's block is
        self.assertGreater(self.flips(mk, [(5, 0, 0)], step=6), 800)

    def test_flips_rich(self):
        mk = rich_store(self.root)
        self.flips(mk, [(10, 0, 0), (10, 3, 1), (13, 0, 0), (13, 0, 2), (14, 0, 7)], count=12 * ROUNDS)

    def test_flips_are_seen_by_verify(self):
        base_store(self.root)
        rng = random.Random(SEED_OF_TESTS + 2)
        for path in list(self.objects()):
            with open(path, "rb") as f:
                good = f.read()
            for _ in range(12):
                bad = bytearray(good)
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
                with open(path, "wb") as f:
                    f.write(bad)
                self.assertEqual(run("verify", self.root)[0], 20, path)
            with open(path, "wb") as f:
                f.write(good)

    # --- well-signed nonsense

    def refused(self, what, change, code, make=base_store, version=5, rank=0, region=0, name="heat"):
        """Make a store in which one piece is changed before its checksums are taken."""
        shutil.rmtree(self.root)
        os.mkdir(self.root)
        make(self.root, tamper=lambda w, data: change(data) if w == what else data)
        got, message = self.restore(name, version, rank, region)
        self.assertEqual(got, code, message)
        if code:
            self.assertEqual(message.count("\n"), 1, message)

    def test_unknown(self):
        def put(at, value, size=1):
            return lambda d: d[:at] + value.to_bytes(size, "little") + d[at + size:]
        self.refused("head 4", put(8, 2), 3)                    # format version
        self.refused("head 7", put(10, 77), 3)                  # kind
        self.refused("head 4", put(16, 32), 3)                  # required feature
        self.refused("head 4", put(24, 32), 0)                  # optional feature
        self.refused("head 4", put(80, 1), 3)                   # reserved
        self.refused("head 7", put(48, 9), 20)                  # generation
        self.refused("head 7", put(72, 9), 20)                  # name
        self.refused("section 1", put(4, 9), 3)                 # codec
        self.refused("section 1", put(5, 6), 3)                 # filters
        self.refused("section 1", put(6, 9), 3)
        self.refused("section 1", put(5, 1), 20)                # without a codec
        self.refused("section 1", put(7, 8), 20)                # an element without use
        self.refused("section 1", put(44, 5), 3)                # flags
        self.refused("section 1", put(60, 3), 3)                # reserved
        self.refused("body 7", put(0, 3), 3)                    # id kind
        self.refused("body 7", put(124, 3), 3)                  # reserved
        self.refused("body 7", lambda d: d + b"x", 20)          # bytes left over
        self.refused("section 5", lambda d: d + b"x", 20)
        self.refused("footer", lambda d: d + b"x", 20)
        self.refused("end", put(12, 0), 20)
        self.refused("end", put(0, 2**60, 8), 20)
        self.refused("end", put(8, 2**32 - 1, 4), 20)
        self.refused("footer", put(120, 2**31 - 1, 4), 20)      # counts
        self.refused("footer", put(116, 2**32 - 1, 4), 20)
        self.refused("footer", put(112, 2**20, 4), 20)
        self.refused("body 6", put(0, 2**31 - 1, 4), 20)
        self.refused("body 7", put(120, 2**20, 4), 20)
        self.refused("sections", lambda s: s + [(0x8002, 5, b"optional"), (0x8002, 5, b"twice")], 0)
        self.refused("sections", lambda s: s + [(0x8001, 5, b"")], 20)          # ranges have no owner
        self.refused("sections", lambda s: s + [(0x8001, 0, b"")] * 2, 20)
        self.refused("sections", lambda s: s + [(0x8001, 0, b"short")], 0)      # nobody asked for it
        self.assertEqual(run("verify", self.root)[0], 20)
        self.refused("sections", lambda s: s + [(6, 0, b"new")], 3)
        self.refused("sections", lambda s: s[1:], 20)
        self.refused("sections", lambda s: s[:3], 20)
        self.refused("sections", lambda s: s[:3] + [(4, 0, b"")] + s[3:], 0)    # moved, but nothing in it
        self.refused("section 3", lambda d: d + bytes(16), 20)

    def test_manifests(self):
        a = bytes(range(256)) * 16 + b"tail" * 5 + bytes(100) + b"x"

        def entry(old, new):
            def change(d):
                self.assertIn(old, d[120:])
                return d[:120] + d[120:].replace(old, new, 1)
            return change
        here, n = varint(8 * len(a) + 1), len(a)
        self.refused("section 5", entry(here, here), 0)
        self.refused("section 5", entry(here, varint(8 * n + 7)), 3)            # run kind 7
        self.refused("section 5", entry(here, varint(8 * n)), 20)               # end with a length
        self.refused("section 5", entry(here, varint(8 * n + 6)), 20)           # keep in a base
        self.refused("section 5", entry(here, varint(8 * n + 9)), 20)           # beyond the region
        self.refused("section 5", entry(here, varint(8 * n - 7)), 20)           # short of it
        self.refused("section 5", entry(here, varint(8 * n + 4)), 20)           # zeros: wrong digest
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\0\0\0"), 0)        # from here, the long way
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\0\0\2"), 20)       # not covered
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\1\0\0"), 20)       # lean index
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\0\2\0"), 20)       # owner 1 of 1
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\0\1\0"), 20)       # owner -1
        self.refused("section 5", entry(here, varint(8 * n + 2) + b"\0\0\x80\0"), 20)   # long varint
        self.refused("section 5", entry(here, varint(8 * n + 3) + b"\1\0\0\0\0"), 20)   # from any of one
        self.refused("section 5", entry(here, varint(8 * n + 3) + b"\2\0\0\2\0\0\0\0\0"), 0)  # the second is right
        self.assertEqual(run("verify", self.root)[0], 20)
        self.refused("section 5", entry(here, varint(8 * n + 5) + b"\0\0\0\0"), 20)     # piece of 0 bytes
        self.refused("section 5", entry(b"\1\0a", b"\1\0b"), 20)                # two regions of one name
        self.refused("section 5", entry(b"\1\0b\2", b"\1\0b\1"), 20)            # overlapping layout
        self.refused("section 5", lambda d: d[:120] + b"\0\5" + d[122:], 3)     # flag
        self.refused("section 5", lambda d: d[:120] + b"\0\2" + d[122:], 20)    # removed in a base
        for at in (0, 4, 8, 16, 32, 40, 48, 119):
            self.refused("section 5", lambda d: d[:at] + bytes([d[at] ^ 1]) + d[at + 1:], 20)

    def test_fuzz(self):
        """Random changes under right checksums: any answer will do, but not a breakdown."""
        rng, codes = random.Random(SEED_OF_TESTS + 3), set()
        pieces = ["section 1", "section 2", "section 3", "section 4", "section 5", "footer", "end", "body 6", "body 7"]
        for i in range(30 * ROUNDS):
            what, skip = rng.choice(pieces), rng.randrange(3)

            def change(w, d):
                nonlocal skip
                if w == what and d:
                    skip -= 1
                    if skip == -1:
                        d = bytearray(d)
                        at = rng.choice((rng.randrange(len(d)), rng.randrange(len(d)) & ~3))
                        new = rng.choice((b"", b"\xff", b"\0", rng.randbytes(4), b"\xff" * 4))
                        d[at:at + rng.choice((0, 1, 1, 4))] = new
                        d = bytes(d)
                return d
            shutil.rmtree(self.root)
            os.mkdir(self.root)
            rich_store(self.root, tamper=change)
            for argv in (("ls", self.root), ("verify", self.root), ("show", self.root, "heat/2d", "13", "--rank", "0")):
                code, _, err = run(*argv)
                self.assertNotIn("internal error", err, (i, what))
                self.assertIn(code, (0, 3, 20), err)
                codes.add(code)
        self.assertLessEqual({0, 20}, codes)

    def test_program(self):
        base_store(self.root)
        done = subprocess.run([sys.executable, TOOL, "verify", self.root], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "1 of 1 checkpoints can be restored; 0 problems\n", ""))
        os.truncate(os.path.join(self.root, "n/heat/data/00000001/0000000000000005/00000000/00000000"), 300)
        done = subprocess.run([sys.executable, TOOL, "restore", self.root, "heat", "5", "0", "0", "-o", self.out],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (20, ""))
        self.assertRegex(done.stderr, r"^varve-read: n/heat/data/[0-9a-f/]*/00000000: .*\n$")


if __name__ == "__main__":
    unittest.main()
