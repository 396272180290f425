#!/usr/bin/env python3
"""varve-read - an independent reader of Varve stores (format version 1).

This program was written from docs/format.md, shares no code with the library, and needs nothing but the
Python 3.11 standard library (and, for blocks that were packed with them, the program `zstd`, libfpzip or libzfp; and, for
encrypted stores, the package `cryptography`). It exists to prove that the document is enough to get data back, and to give a second opinion when the library refuses a
store. It favours plainness over speed: reckon with roughly 0.1 s per MiB, or twice that where filters are undone.

    varve-read.py ls      STORE [--all]                            all checkpoints of all names, newest first
    varve-read.py show    STORE NAME [VERSION]                     the regions of a checkpoint
    varve-read.py restore STORE NAME VERSION RANK REGION -o FILE   the bytes of one region
    varve-read.py verify  STORE                                    read and check everything

With --key file:PATH or --key env:NAME each of them reads an encrypted store.

STORE is a folder or a file:// URI; VERSION is a number or `latest`; REGION is a number or a region's name. `latest`
in restore is the newest checkpoint that is whole, as section 10 of the document defines it, so all of it is checked.

Of a node-local store (settings, layout 1) this sees one node: packs of ranks that ran elsewhere are not here. They are counted,
and named when they are needed, but are no damage.

Exit status: 0 all is well; 1 it cannot be done (not found, storage error); 2 wrong usage; 3 something unknown was
met, probably written by a newer program; 20 damage. Section numbers in comments are those of docs/format.md.
"""

import argparse
import array
import bisect
import collections
import ctypes
import datetime
import errno
import functools
import hashlib
import hmac
import itertools
import math
import operator
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import urllib.parse

GRANULE = 4096
CHUNK = 1 << 20
LIMIT = 1 << 62                         # section 13
LOG_MAX = 256 << 10
IN_MEMORY = 1 << 30                     # bound of this program: no piece of metadata above 1 GiB is read
BLOCK_CACHE = 64 << 20
MAGIC = b"\x89Varve\r\n"
STORE, CLAIM, BEAT, PACK, PART, WRITERS, RECORD, TOMBSTONE, CATALOGUE, COPY, PIN, TRIGGER, LOG = range(1, 14)
SEALED, PARITY = 14, 15
KINDS = ["", "store", "claim", "beat", "pack", "part", "writers", "record", "tombstone", "catalogue", "copy",
         "pin", "trigger", "log", "sealed", "parity"]
REASONS = {1: "a writer failed", 2: "pruned", 3: "forgotten", 4: "given up"}
DISTRIBUTIONS = ["by dims", "joined", "replicated", "by rank", "dropped"]
TYPES = ["bytes", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "f16", "bf16", "c64", "c128"]
S_BLOCKS, S_EXTENTS, S_IDS, S_MOVED, S_MANIFEST, S_OPTIONAL, S_RANGES = 1, 2, 3, 4, 5, 0x8000, 0x8001


class Refuse(Exception):
    """It cannot be done. The message is one line: the object, then what is wrong."""
    code = 1

    def __init__(self, where, what):
        super().__init__(f"{where}: {what}")


class Damage(Refuse):
    code = 20


class Absent(Damage):
    """An object that should be there is not. Damage when a record asks for it."""


class Elsewhere(Refuse):
    """A pack that is not in this node's store, and need not be."""

    def __init__(self, where):
        super().__init__(where, "not on this node: kept on another one, or missing; this cannot be told from here")


class Unknown(Refuse):
    code = 3


def printable(text):
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


NOTED = set()


def note(text):
    if text not in NOTED:
        NOTED.add(text)
        print("varve-read: " + printable(text), file=sys.stderr)


# ---------------------------------------------------------------------------------------------------------------
# XXH3 (64 and 128 bits), for all lengths and seeds

M64 = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRMX = 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def _r32(b, i):
    return int.from_bytes(b[i:i + 4], "little")


def _r64(b, i):
    return int.from_bytes(b[i:i + 8], "little")


def _swap(x, n):
    return int.from_bytes(x.to_bytes(n, "little"), "big")


def _rotl64(x, r):
    return (x << r | x >> (64 - r)) & M64


def _fold(a, b):
    p = a * b
    return (p & M64) ^ (p >> 64)


def _avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def _avalanche64(h):
    h ^= h >> 33
    h = h * P64_2 & M64
    h ^= h >> 29
    h = h * P64_3 & M64
    return h ^ h >> 32


def _mix16(d, i, s, seed):
    return _fold(_r64(d, i) ^ (_r64(SECRET, s) + seed & M64), _r64(d, i + 8) ^ (_r64(SECRET, s + 8) - seed & M64))


@functools.lru_cache(maxsize=8)
def _keys(seed):
    """The secret for a seed, and what the long form needs of it: one number for 16 stripes, the scramble words."""
    secret = SECRET
    if seed:
        words = struct.unpack("<24Q", SECRET)
        secret = struct.pack("<24Q", *((w - seed if i & 1 else w + seed) & M64 for i, w in enumerate(words)))
    stripes = b"".join(secret[8 * n:8 * n + 64] for n in range(16))
    return (secret, [int.from_bytes(stripes[:64 * n], "little") for n in range(17)],
            struct.unpack("<8Q", secret[128:]), int.from_bytes(secret[121:185], "little"))


_WORDS = [(struct.Struct("<%dI" % (16 * n)), struct.Struct("<%dQ" % (8 * n))) for n in range(17)]


def _accumulate(acc, stripes, n, key):
    """n stripes of 64 bytes at once: the sums over stripes within one block do not depend on their order."""
    w = _WORDS[n][0].unpack((int.from_bytes(stripes, "little") ^ key).to_bytes(64 * n, "little"))
    d = _WORDS[n][1].unpack(stripes)
    return [acc[i] + sum(map(operator.mul, w[2 * i::16], w[2 * i + 1::16])) + sum(d[i ^ 1::8]) & M64
            for i in range(8)]


def _long(data, seed):
    secret, keys, scramble, last = _keys(seed)
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    data = memoryview(data)
    size, at = len(data), 0
    while size - at > 1024:
        acc = _accumulate(acc, data[at:at + 1024], 16, keys[16])
        acc = [(a ^ a >> 47 ^ k) * P32_1 & M64 for a, k in zip(acc, scramble)]
        at += 1024
    n = (size - 1 - at) // 64
    if n:
        acc = _accumulate(acc, data[at:at + 64 * n], n, keys[n])
    return _accumulate(acc, data[size - 64:], 1, last), secret


def _merge(acc, secret, s, start):
    for i in range(0, 8, 2):
        start += _fold(acc[i] ^ _r64(secret, s + 8 * i), acc[i + 1] ^ _r64(secret, s + 8 * i + 8))
    return _avalanche(start & M64)


def xxh3_64(d, seed=0):
    n, s = len(d), SECRET
    if n > 240:
        acc, secret = _long(d, seed)
        return _merge(acc, secret, 11, n * P64_1)
    if n == 0:
        return _avalanche64(seed ^ _r64(s, 56) ^ _r64(s, 64))
    if n <= 3:
        lo = d[0] << 16 | d[n >> 1] << 24 | d[n - 1] | n << 8
        return _avalanche64(lo ^ ((_r32(s, 0) ^ _r32(s, 4)) + seed & M64))
    if n <= 8:
        seed ^= _swap(seed & 0xFFFFFFFF, 4) << 32
        h = (_r32(d, n - 4) + (_r32(d, 0) << 32)) ^ ((_r64(s, 8) ^ _r64(s, 16)) - seed & M64)
        h ^= _rotl64(h, 49) ^ _rotl64(h, 24)
        h = h * PRMX & M64
        h ^= (h >> 35) + n
        h = h * PRMX & M64
        return h ^ h >> 28
    if n <= 16:
        lo = _r64(d, 0) ^ ((_r64(s, 24) ^ _r64(s, 32)) + seed & M64)
        hi = _r64(d, n - 8) ^ ((_r64(s, 40) ^ _r64(s, 48)) - seed & M64)
        return _avalanche(n + _swap(lo, 8) + hi + _fold(lo, hi) & M64)
    acc = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            acc += _mix16(d, 16 * i, 32 * i, seed) + _mix16(d, n - 16 * i - 16, 32 * i + 16, seed)
        return _avalanche(acc & M64)
    acc = _avalanche(acc + sum(_mix16(d, 16 * i, 16 * i, seed) for i in range(8)) & M64)
    acc += sum(_mix16(d, 16 * i, 16 * i - 125, seed) for i in range(8, n // 16))
    return _avalanche(acc + _mix16(d, n - 16, 119, seed) & M64)


def xxh3_128(d, seed=0):
    """(low, high)"""
    n, s = len(d), SECRET
    if n > 240:
        acc, secret = _long(d, seed)
        return (_merge(acc, secret, 11, n * P64_1 & M64), _merge(acc, secret, 117, ~(n * P64_2) & M64))
    if n == 0:
        return (_avalanche64(seed ^ _r64(s, 64) ^ _r64(s, 72)), _avalanche64(seed ^ _r64(s, 80) ^ _r64(s, 88)))
    if n <= 3:
        lo = d[0] << 16 | d[n >> 1] << 24 | d[n - 1] | n << 8
        hi = _swap(lo, 4)
        hi = (hi << 13 | hi >> 19) & 0xFFFFFFFF
        return (_avalanche64(lo ^ ((_r32(s, 0) ^ _r32(s, 4)) + seed & M64)),
                _avalanche64(hi ^ ((_r32(s, 8) ^ _r32(s, 12)) - seed & M64)))
    if n <= 8:
        seed ^= _swap(seed & 0xFFFFFFFF, 4) << 32
        key = (_r32(d, 0) + (_r32(d, n - 4) << 32)) ^ ((_r64(s, 16) ^ _r64(s, 24)) + seed & M64)
        m = key * (P64_1 + (n << 2))
        lo, hi = m & M64, m >> 64
        hi = hi + (lo << 1) & M64
        lo ^= hi >> 3
        lo ^= lo >> 35
        lo = lo * PRMX & M64
        return (lo ^ lo >> 28, _avalanche(hi))
    if n <= 16:
        hi = _r64(d, n - 8)
        m = (_r64(d, 0) ^ hi ^ ((_r64(s, 32) ^ _r64(s, 40)) - seed & M64)) * P64_1
        lo, mh = (m & M64) + ((n - 1) << 54) & M64, m >> 64
        hi ^= (_r64(s, 48) ^ _r64(s, 56)) + seed & M64
        mh = mh + hi + (hi & 0xFFFFFFFF) * (P32_2 - 1) & M64
        lo ^= _swap(mh, 8)
        m = lo * P64_2
        return (_avalanche(m & M64), _avalanche((m >> 64) + mh * P64_2 & M64))
    lo, hi = n * P64_1 & M64, 0

    def mix32(i, j, t, sd):
        nonlocal lo, hi
        lo = (lo + _mix16(d, i, t, sd) & M64) ^ (_r64(d, j) + _r64(d, j + 8) & M64)
        hi = (hi + _mix16(d, j, t + 16, sd) & M64) ^ (_r64(d, i) + _r64(d, i + 8) & M64)

    if n <= 128:
        for i in reversed(range((n - 1) // 32 + 1)):
            mix32(16 * i, n - 16 * i - 16, 32 * i, seed)
    else:
        for i in range(4):
            mix32(32 * i, 32 * i + 16, 32 * i, seed)
        lo, hi = _avalanche(lo), _avalanche(hi)
        for i in range(4, n // 32):
            mix32(32 * i, 32 * i + 16, 32 * i - 125, seed)
        mix32(n - 16, n - 32, 103, -seed & M64)
    return (_avalanche(lo + hi & M64), -_avalanche(lo * P64_1 + hi * P64_4 + (n - seed) * P64_2 & M64) & M64)


def digest(data):
    return struct.pack("<QQ", *xxh3_128(data))


# ---------------------------------------------------------------------------------------------------------------
# Codecs

def lz4_block(src, raw):
    """Decode one raw LZ4 block into exactly raw bytes, or raise ValueError."""
    out, i, n = bytearray(), 0, len(src)

    def more(length):
        nonlocal i
        while i < n:
            i += 1
            length += src[i - 1]
            if src[i - 1] != 255:
                return length
        raise ValueError("LZ4 block cut off within a length")

    while i < n:
        token = src[i]
        i += 1
        count = token >> 4
        if count == 15:
            count = more(count)
        if count > n - i or count > raw - len(out):
            raise ValueError("LZ4 literals run over the end")
        out += src[i:i + count]
        i += count
        if i == n:
            if len(out) != raw:
                raise ValueError(f"LZ4 block decodes to {len(out)} bytes, not {raw}")
            return bytes(out)
        if n - i < 2:
            raise ValueError("LZ4 block cut off within an offset")
        back = src[i] | src[i + 1] << 8
        i += 2
        count = token & 15
        if count == 15:
            count = more(count)
        count += 4
        if not 0 < back <= len(out):
            raise ValueError("LZ4 offset points before the start")
        if count > raw - len(out):
            raise ValueError("LZ4 match runs over the end")
        piece = out[len(out) - back:]
        out += (piece * (count // back + 1))[:count] if count > back else piece[:count]
    raise ValueError("LZ4 block ends without literals")


def zstd_is_one_frame(src):
    """Walk the blocks of a frame without decoding them: it must end where the bytes end."""
    if src[:4] != b"\x28\xb5\x2f\xfd" or len(src) < 6 or src[4] & 8:
        return False
    single = src[4] >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[src[4] & 3] + (single, 2, 4, 8)[src[4] >> 6]
    while at + 3 <= len(src):
        head = int.from_bytes(src[at:at + 3], "little")
        kind = head >> 1 & 3
        at += 3 + (1 if kind == 1 else head >> 3)
        if kind == 3:
            return False
        if head & 1:
            return at + (4 if src[4] & 4 else 0) == len(src)
    return False


def zstd_frame(src, raw):
    if not zstd_is_one_frame(src):
        raise ValueError("not one zstd frame")
    with tempfile.TemporaryFile() as file:
        file.write(src)
        file.seek(0)
        try:
            run = subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as e:
            raise Refuse("zstd", f"cannot run the program needed for this block: {e.strerror}") from None
        with run:
            out = run.stdout.read(raw + 1)
            if len(out) > raw:
                run.kill()
            else:
                run.wait()
    if run.returncode != 0 or len(out) != raw:
        raise ValueError(f"zstd frame does not decode to {raw} bytes")
    return out


def lz4_zstd(src, raw):
    if len(src) < 4 or not 1 <= _r32(src, 0) <= raw + raw // 255 + 16:
        raise ValueError("impossible length of an LZ4 block within a zstd frame")
    return lz4_block(zstd_frame(src[4:], _r32(src, 0)), raw)


# ---------------------------------------------------------------------------------------------------------------
# Filters (section 6, coding): undone, whole blocks at a time

def numbers(data, letter):
    """Little-endian numbers; letters as in the module array."""
    out = array.array(letter, data)
    if sys.byteorder == "big":
        out.byteswap()
    return out


def lanes_of(e):
    """Numbers in an element that shuffles take one by one: vectors have three."""
    return 3 if e in (12, 24) else 1


def undo_shuffle(data, e):
    n, lanes = len(data) // e, lanes_of(e)
    out = bytearray(data)
    for plane in range(e):
        k = plane % lanes * (e // lanes) + plane // lanes
        out[k:n * e:e] = data[plane * n:(plane + 1) * n]
    return bytes(out)


SPREAD = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]


def undo_bitshuffle(data, e):
    m, lanes = len(data) // e // 8 * 8, lanes_of(e)
    out = bytearray(data)
    for k in range(e):
        total, lane, byte = 0, k // (e // lanes), k % (e // lanes)
        for b in range(8):
            at = ((8 * byte + b) * lanes + lane) * (m // 8)
            bits = b"".join(map(SPREAD.__getitem__, data[at:at + m // 8]))      # a byte for every element
            total |= int.from_bytes(bits, "little") << b
        out[k:m * e:e] = total.to_bytes(m, "little")
    return bytes(out)


def undo_running(data, e, combine):
    """Delta and xor: every element is combined with the result before it; 16 bytes are two halves, 12 and 24
    three thirds."""
    whole = len(data) // e * e
    lanes = 2 if e == 16 else lanes_of(e)
    letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[e // lanes]
    mask, out = (1 << 8 * (e // lanes)) - 1, numbers(data[:whole], letter)
    for lane in range(lanes):
        out[lane::lanes] = array.array(letter, [x & mask for x in itertools.accumulate(out[lane::lanes], combine)])
    return numbers(out.tobytes(), letter).tobytes() + data[whole:]


def undo_rotate(data, e):
    """Numbers as in delta; the lowest bit becomes the highest again."""
    whole = len(data) // e * e
    bits = 64 if e == 16 else 8 * e // lanes_of(e)
    letter = {8: "B", 16: "H", 32: "I", 64: "Q"}[bits]
    out = array.array(letter, [x >> 1 | (x & 1) << bits - 1 for x in numbers(data[:whole], letter)])
    return numbers(out.tobytes(), letter).tobytes() + data[whole:]


def undo_filter(number, data, e):
    if number in (1, 2):
        return (undo_shuffle if number == 1 else undo_bitshuffle)(data, e)
    if number == 5:
        return undo_rotate(data, e)
    return undo_running(data, e, operator.add if number == 3 else operator.xor)


# ---------------------------------------------------------------------------------------------------------------
# Codecs for floating-point numbers: by the libraries, if they are there. These believe what they read; it has been
# checked against its sum before.

@functools.lru_cache(maxsize=None)
def library(name):
    try:
        return ctypes.CDLL(f"lib{name}.so.1")
    except OSError as e:
        raise Refuse(f"lib{name}.so.1", f"cannot load the library needed for this block: {e}") from None


def call(lib, name, result, *args):
    """A function of a C library. Arguments are pointers (c_void_p), sizes or numbers, made by the caller."""
    function = getattr(lib, name)
    function.restype = result
    return function(*args)


def fpzip_stream(stream, element, nx, ny):
    class Fpz(ctypes.Structure):
        _fields_ = [(field, ctypes.c_int) for field in ("type", "prec", "nx", "ny", "nz", "nf")]
    lib = library("fpzip")
    source = ctypes.create_string_buffer(bytes(stream) + bytes(64))
    out = ctypes.create_string_buffer(nx * ny * element)
    fpz = call(lib, "fpzip_read_from_buffer", ctypes.POINTER(Fpz), source)
    if not fpz:
        raise ValueError("libfpzip cannot read")
    fpz.contents.type, fpz.contents.prec, fpz.contents.nx, fpz.contents.ny = element // 8, 0, nx, ny
    fpz.contents.nz = fpz.contents.nf = 1
    got = call(lib, "fpzip_read", ctypes.c_size_t, fpz, out)
    call(lib, "fpzip_read_close", None, fpz)
    if not got or got > len(stream):
        raise ValueError("the fpzip stream is no such field")
    return out.raw


def zfp_stream(stream, element, nx, ny, tolerance):
    """tolerance: None for reversible mode."""
    lib, pointer, size = library("zfp"), ctypes.c_void_p, ctypes.c_size_t
    out = ctypes.create_string_buffer(nx * ny * element)
    kind = ctypes.c_int(3 if element == 4 else 4)
    field = (call(lib, "zfp_field_2d", pointer, out, kind, size(nx), size(ny)) if ny > 1 else
             call(lib, "zfp_field_1d", pointer, out, kind, size(nx)))
    zfp = call(lib, "zfp_stream_open", pointer, None)
    if tolerance is None:
        call(lib, "zfp_stream_set_reversible", None, pointer(zfp))
    else:
        call(lib, "zfp_stream_set_accuracy", ctypes.c_double, pointer(zfp), ctypes.c_double(tolerance))
    room = call(lib, "zfp_stream_maximum_size", size, pointer(zfp), pointer(field))
    source = ctypes.create_string_buffer(bytes(stream).ljust(room, b"\0") + bytes(64))
    bits = call(lib, "stream_open", pointer, source, size(len(source)))
    call(lib, "zfp_stream_set_bit_stream", None, pointer(zfp), pointer(bits))
    got = call(lib, "zfp_decompress", size, pointer(zfp), pointer(field))
    call(lib, "zfp_field_free", None, pointer(field))
    call(lib, "zfp_stream_close", None, pointer(zfp))
    call(lib, "stream_close", None, pointer(bits))
    if not got or got > len(stream) + 7:
        raise ValueError("the zfp stream is no such field")
    return out.raw


def on_grid(x, exponent, limit):
    """The nearest multiple of 2 to the power of the exponent."""
    try:
        steps = math.ldexp(x, -exponent)
        near = math.ldexp(round(steps), exponent) if abs(steps) < 1 << 52 else x
    except (OverflowError, ValueError):         # larger than any multiple that counts, or not finite
        return x
    return near if abs(near) <= limit else x


def floats(codec, data, raw, element):
    """Codecs 3, 4 and 5: u32 row, exponents, the rest of the bytes, the stream."""
    head, rest, count = 8 if codec == 5 else 4, raw % element, raw // element
    if len(data) < head + rest:
        raise ValueError("payload of a codec for floating-point numbers is cut off")
    row = _r32(data, 0)
    if row and not 4 <= row <= count // 4 or not count:
        raise ValueError(f"rows of {row} numbers, with {count} in the block")
    nx, ny = (row, -(-count // row)) if row else (count, 1)
    stream, letter = data[head + rest:], "f" if element == 4 else "d"
    if codec == 3:
        out = fpzip_stream(stream, element, nx, ny)
    elif codec == 4:
        out = zfp_stream(stream, element, nx, ny, None)
    else:
        grid, tolerance = struct.unpack("<hh", data[4:8])
        if not -1021 <= grid <= 1023 or not -1074 <= tolerance <= 1023:
            raise ValueError(f"exponents of grid and tolerance are {grid} and {tolerance}")
        limit = sys.float_info.max if element == 8 else (2 - 2.0**-23) * 2.0**127
        out = array.array(letter, zfp_stream(stream, element, nx, ny, math.ldexp(1, tolerance)))
        out = array.array(letter, [on_grid(x, grid, limit) + 0.0 for x in out]).tobytes()
    return numbers(out[:count * element], letter).tobytes() + data[head:head + rest]


CODECS = {1: lz4_block, 2: zstd_frame, 6: lz4_zstd}


def decode(block, data):
    """The raw bytes of a block, or ValueError."""
    if block.codec in (3, 4, 5):
        data = floats(block.codec, data, block.raw, block.element)
    elif block.codec:
        data = CODECS[block.codec](data, block.raw)
    for number in reversed(block.filters):
        data = undo_filter(number, data, block.element)
    return data


# ---------------------------------------------------------------------------------------------------------------
# Values (section 6, ranges)

Range = collections.namedtuple("Range", "type has_nan low high")        # low and high: None if there is nothing but NaN
VALUES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f32": "f",
          "f64": "d", "c64": "f", "c128": "d"}
WIDTH = {"c64": 8, "c128": 16, "f16": 2, "bf16": 2}


def values_of(kind, data):
    width = WIDTH.get(kind) or struct.calcsize("<" + VALUES[kind])
    data = data[:len(data) // width * width]
    if kind == "f16":
        return struct.unpack("<%de" % (len(data) // 2), data)
    if kind == "bf16":          # the upper half of a float32
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return numbers(bytes(wide), "f")
    return numbers(data, VALUES[kind])


def range_of(kind, data):
    """The range of all values, or None if there is no whole one."""
    values = values_of(kind, data)
    if not len(values):
        return None
    if kind[0] in "iu":
        return Range(kind, False, min(values), max(values))
    real = [x for x in values if x == x]
    return Range(kind, len(real) < len(values), *((min(real) + 0.0, max(real) + 0.0) if real else (None, None)))


def join_ranges(a, b):
    if a is None or b is None:
        return a or b
    ends = [x for x in (a.low, a.high, b.low, b.high) if x is not None]
    return Range(a.type, a.has_nan or b.has_nan, min(ends, default=None), max(ends, default=None))


# ---------------------------------------------------------------------------------------------------------------
# Parsing

class Cursor:
    """Takes fields off a piece of bytes. Nothing is taken that is not there."""

    def __init__(self, buf, where, at=0):
        self.buf, self.where, self.at = buf, where, at

    def bad(self, what):
        return Damage(self.where, what)

    def unknown(self, what):
        return Unknown(self.where, what)

    def take(self, n):
        if n > len(self.buf) - self.at:
            raise self.bad(f"cut off at byte {self.at}: {n} bytes wanted, {len(self.buf) - self.at} left")
        self.at += n
        return self.buf[self.at - n:self.at]

    def room(self, count, size, what):
        if count * size > len(self.buf) - self.at:
            raise self.bad(f"claims {count} {what}, more than fit in its {len(self.buf)} bytes")

    def fields(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return self.fields("H")[0]

    def u32(self):
        return self.fields("I")[0]

    def u64(self):
        return self.fields("Q")[0]

    def reserved(self, n):
        value = self.take(n)
        if any(value):
            raise self.unknown(f"reserved bytes at {self.at - n} are not zero: {value.hex()}")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                raise self.bad(f"varint before byte {self.at} exceeds 64 bits")
        if byte == 0 and shift:
            raise self.bad(f"varint before byte {self.at} is not in its shortest form")
        if value > M64:
            raise self.bad(f"varint before byte {self.at} exceeds 64 bits")
        return value

    def svarint(self):
        value = self.varint()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def text16(self, what, low=0, high=65535):
        text = bytes(self.take(self.u16()))
        if not low <= len(text) <= high:
            raise self.bad(f"{what} has {len(text)} bytes")
        if b"\0" in text:
            raise self.bad(f"{what} contains NUL")
        return text

    def end(self):
        if self.at != len(self.buf):
            raise self.bad(f"{len(self.buf) - self.at} bytes left over after the last field")


Ref = collections.namedtuple("Ref", "generation version attempt")       # in the order of lean entries


def read_ref(cur):
    generation, attempt, version = cur.fields("IIQ")
    if version >> 63 or (generation == 0 and (version or attempt)):
        raise cur.bad("invalid attempt reference")
    return Ref(generation, version, attempt)


def read_leans(cur, count, own):
    """Lean entries: {Ref: digest of the writers object}, in order."""
    if count > 1 << 20:
        raise cur.bad(f"claims {count} lean entries; the limit is 1,048,576")
    cur.room(count, 32, "lean entries")
    leans, before = {}, None
    for _ in range(count):
        ref = read_ref(cur)
        if ref.generation == 0 or ref == own or (before is not None and ref <= before):
            raise cur.bad("lean entries are not ascending, or one is none or the attempt itself")
        leans[ref], before = cur.take(16), ref
    return leans


def read_settings(cur, expected=None):
    raw = cur.take(24)
    kind, log2, layout, seed, _ = struct.unpack("<HHIQQ", raw)
    if kind not in (1, 2):
        raise cur.unknown(f"id kind {kind} is not known")
    if log2 != 12:
        raise cur.unknown(f"log2 of the granule is {log2}; only 12 is known")
    if layout not in (0, 1):
        raise cur.unknown(f"layout {layout} is not known")
    if kind == 2 and seed:
        raise cur.bad("id kind 2 with a seed")
    if expected is not None and raw != expected:
        raise cur.bad("settings differ from those of the store")
    return raw


def read_partners(cur, count, raw, writers):
    partners = struct.unpack("<3I", raw)
    if count > 3 or any(partners[count:]) or any(p >= writers for p in partners[:count]):
        raise cur.bad(f"invalid partners: {count} of {partners}, with {writers} writers")
    return partners[:count]


def encode_name(raw):
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
    return "".join(chr(b) if b in plain and not (i == 0 and b == 46) else f"%{b:02X}" for i, b in enumerate(raw))


def decode_name(component):
    if not re.fullmatch(r"(?:[A-Za-z0-9_.-]|%[0-9A-F]{2}){1,240}", component):
        raise Damage("n/" + component, "not the encoding of a name")
    raw = urllib.parse.unquote_to_bytes(component)
    if encode_name(raw) != component or len(raw) > 80 or b"\0" in raw:
        raise Damage("n/" + component, "not the encoding of a name")
    return raw


FRAME, TAG = 65536, 16                  # section 17


class Secret:
    """Section 17: a key, its id, and the cipher of one object that was sealed with it."""

    def __init__(self, key):
        self.key = key
        self.id = self.derive(bytes(32), b"varve key id 1")[:16]

    def derive(self, salt, info):
        """HKDF-SHA256 for 32 bytes."""
        middle = hmac.digest(salt, self.key, "sha256")
        return hmac.digest(middle, info + b"\x01", "sha256")

    def cipher(self, key, head):
        if len(head) < 96 or head[:8] != MAGIC or xxh3_64(head[:88]) != _r64(head, 88):
            raise Damage(key, "head of an encrypted object is damaged")
        form, kind, reserved, required, optional = struct.unpack("<HHIQQ", head[8:32])
        if form == 1 and kind != SEALED:
            raise Damage(key, "not encrypted, in a store that is")
        if form != 1 or required != 1 or reserved or optional:
            raise Unknown(key, "format, features or reserved field of an encrypted object are not known")
        if head[32:48] != self.id:
            raise Damage(key, "encrypted with another key, as objects of another store are")
        if _r64(head, 80) != xxh3_64(key.encode()):
            raise Damage(key, "was written under another key of the store")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise Refuse(key, "is encrypted, and the Python package cryptography is missing") from None
        return AESGCM(self.derive(head[48:80], b"varve object 1" + head + key.encode()))


def open_frame(cipher, key, number, data):
    from cryptography.exceptions import InvalidTag
    if len(data) < TAG:
        raise Damage(key, "end of an encrypted object is cut off")
    try:
        return cipher.decrypt(struct.pack("<QI", number, len(data) < FRAME + TAG), data, None)
    except InvalidTag:
        raise Damage(key, f"frame {number} is not what was encrypted") from None


def user_key(source):
    kind, _, what = source.partition(":")
    try:
        text = open(what).read() if kind == "file" else os.environ[what] if kind == "env" else ""
    except (OSError, KeyError):
        raise Refuse(source, "there is no key") from None
    if not re.fullmatch("[0-9a-fA-F]{64}", text.strip()):
        raise Refuse(source, "a key is 64 hexadecimal digits, from file:PATH or env:NAME")
    return Secret(bytes.fromhex(text.strip()))


class Object:
    """A stored object. Its size is what the file system says; every read is checked against it."""

    def __init__(self, store, key):
        self.key, self.path = key, os.path.join(store.root, *key.split("/"))
        self.size = self.cipher = None
        with self.open() as file:
            self.size = os.fstat(file.fileno()).st_size
        if self.size >= LIMIT:
            raise Damage(key, "object length is not below 2^62")
        if store.secret:
            self.cipher = store.secret.cipher(key, self.read(0, min(96, self.size), "head"))
            full, rest = divmod(self.size - 96, FRAME + TAG)
            if rest < TAG:
                raise Damage(key, "end of an encrypted object is cut off")
            self.size = full * FRAME + rest - TAG

    def open(self):
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise Damage(self.key, "not a regular file")
            return os.fdopen(fd, "rb")
        except FileNotFoundError:
            raise Absent(self.key, "object is missing") from None
        except OSError as e:                                    # never taken for absence (section 10)
            raise Refuse(self.key, f"cannot be opened: {e.strerror}") from None

    def read(self, offset, length, what):
        if offset < 0 or length < 0 or offset > self.size or length > self.size - offset:
            raise Damage(self.key, f"{what} (bytes {offset} to {offset + length}) does not fit in {self.size} bytes")
        if length > IN_MEMORY:
            raise Refuse(self.key, f"{what} has {length} bytes, more than this program reads in one piece")
        try:
            with self.open() as file:
                if self.cipher:
                    data = self.read_frames(file, offset, length)
                else:
                    file.seek(offset)
                    data = file.read(length)
        except OSError as e:
            raise Refuse(self.key, f"cannot be read: {e.strerror}") from None
        if len(data) != length:
            raise Damage(self.key, f"{what} ended after {len(data)} of {length} bytes")
        return data

    def read_frames(self, file, offset, length):
        first, last = offset // FRAME, (offset + length) // FRAME
        file.seek(96 + first * (FRAME + TAG))
        opened = b"".join(open_frame(self.cipher, self.key, number, file.read(FRAME + TAG))
                          for number in range(first, last + 1))
        return opened[offset - first * FRAME:][:length]


class Store:
    def __init__(self, where, key=None):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
            uri = urllib.parse.urlsplit(where)
            if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
                raise Refuse(where, "only folders and file:// URIs can be read")
            where = urllib.parse.unquote(uri.path)
        self.root, self.id, self.settings = where, None, None
        self.attempts, self.blocks, self.cached = {}, collections.OrderedDict(), 0
        if not os.path.isdir(where):
            raise Refuse(where, "no such folder")
        self.defect = self.secret = None
        if key:
            self.secret = self.find_key(user_key(key))
        try:
            obj = self.small("varve", (STORE,))
            cur = obj.body
            settings = read_settings(cur)
            cur.end()
            self.id, self.settings = obj.id, settings
        except Damage as e:
            self.defect = e
            self.rebuild()
        kind, _, layout, seed, _ = struct.unpack("<HHIQQ", self.settings)
        self.is_local, self.writers_here = layout == 1, {}
        self.content_id = ((lambda g: struct.pack("<QQ", *xxh3_128(g, seed))) if kind == 1 else
                           (lambda g: hashlib.sha256(g).digest()[:16]))

    def find_key(self, user):
        """Section 17: the store's key, from the first of its two copies that the user's key opens; if the store object has
        another key, and the second copy that one, from the second."""
        found, wrong = [], []
        for key in ("keys/0", "keys/1"):
            try:
                self.secret = user
                obj = Object(self, key)
                if obj.size != 32:
                    raise Damage(key, "wrong length")
                found.append(Secret(obj.read(0, 32, "key")))
            except Refuse as e:
                wrong.append(e)
        if not found:
            raise Refuse(self.root, f"the key does not open this store: {wrong[0]}")
        self.secret = None
        try:
            used = Object(self, "varve").read(0, 96, "head")[32:48]
        except Refuse:
            used = None
        return next((secret for secret in found if secret.id == used), found[0])

    def rebuild(self):
        """Section 12: without a store object, the id and settings come from records and claims; all must agree."""
        found = {}
        for name in self.names(quiet=True):
            for kind, folder in ((RECORD, "record"), (CLAIM, "claim")):
                for component in self.list(f"n/{encode_name(name)}/{folder}"):
                    key = f"n/{encode_name(name)}/{folder}/{component}"
                    try:
                        obj = self.small(key, (kind,), name=name, generation=None, version=None, attempt=None)
                        found[(obj.id, read_settings(obj.body))] = key
                    except Damage:
                        continue
        if not found:
            raise self.defect if not isinstance(self.defect, Absent) else Refuse(self.root, "not a Varve store")
        if len(found) > 1:
            raise Damage("varve", "store object is lost, and %s and %s disagree" % tuple(sorted(found.values())[:2]))
        note(f"{self.defect}; store id and settings taken from {list(found.values())[0]}")
        (self.id, self.settings), = found

    def list(self, key):
        try:
            return sorted(os.listdir(os.path.join(self.root, *key.split("/"))))
        except FileNotFoundError:
            return []
        except OSError as e:
            raise Refuse(key, f"cannot be listed: {e.strerror}") from None

    def is_elsewhere(self, name, ref, w):
        """Section 10, node-local stores: a writer that has no pack of this generation here ran on another node."""
        key = name, ref.generation
        if self.is_local and key not in self.writers_here:
            base = "n/%s/data/%08x" % (encode_name(name), ref.generation)
            self.writers_here[key] = {
                pack for version in self.list(base) for attempt in self.list(f"{base}/{version}")
                for pack in self.list(f"{base}/{version}/{attempt}") if re.fullmatch("[0-9a-f]{8}", pack)}
        return self.is_local and "%08x" % w not in self.writers_here[key]

    def names(self, quiet=False, problems=None):
        names = []
        for component in self.list("n"):
            try:
                names.append(decode_name(component))
            except Damage as e:
                if not quiet:
                    problems.append(e)
        return names

    def head(self, buf, key, kinds, generation=0, version=0, attempt=0, writer=0, part=0, name=None):
        """Section 4. Numbers given as None are not in the key. Returns the head's fields."""
        cur = Cursor(buf, key)
        if len(buf) < 96:
            raise cur.bad(f"{len(buf)} bytes are too few for a head")
        if buf[:8] != MAGIC:
            raise cur.bad("wrong magic in head")
        if xxh3_64(buf[:88]) != _r64(buf, 88):
            raise cur.bad("wrong sum of head")
        (form, kind, res1, required, optional, store_id, g, a, v, w, p, name_sum, res2) = struct.unpack(
            "<HHIQQ16sIIQIIQQ", buf[8:88])
        if form != 1:
            raise cur.unknown(f"format version {form} is not known")
        if kind == SEALED:
            raise cur.unknown("encrypted: --key is missing")
        if not 1 <= kind <= PARITY:
            raise cur.unknown(f"kind {kind} is not known")
        if required:
            raise cur.unknown(f"required features {required:#x} are not known")
        if res1 or res2:
            raise cur.unknown("reserved field of the head is not zero")
        if kind not in kinds:
            raise cur.bad(f"is a {KINDS[kind]}, not a {KINDS[kinds[0]]}")
        if self.id is not None and store_id != self.id:
            raise cur.bad("belongs to another store")
        for what, have, want in (("generation", g, generation), ("version", v, version), ("attempt", a, attempt),
                                 ("writer", w, writer), ("part", p, part)):
            if want is not None and have != want:
                raise cur.bad(f"head says {what} {have}, the key {want}")
        if v >> 63:
            raise cur.bad(f"version {v} is above 2^63-1")
        if name_sum != (0 if name is None else xxh3_64(name)):
            raise cur.bad("head belongs to another name")
        return kind, required, store_id, Ref(g, v, a)

    def small(self, key, kinds, limit=64 << 20, **numbers):
        """Section 5: a small object, checked up to its body."""
        obj = Object(self, key)
        if not 120 <= obj.size <= limit:
            raise Damage(key, f"{obj.size} bytes: too short or too long")
        buf = obj.read(0, obj.size, "object")
        obj.kind, _, obj.id, obj.ref = self.head(buf, key, kinds, **numbers)
        if _r64(buf, obj.size - 24) != obj.size:
            raise Damage(key, f"tail says {_r64(buf, obj.size - 24)} bytes, object has {obj.size}")
        obj.digest = buf[-16:]
        covered = writers_index(buf, key) if obj.kind == WRITERS else 0
        if digest(buf[:covered or -16]) != obj.digest:
            raise Damage(key, "wrong digest")
        obj.body = Cursor(buf[:-24], key, 96)
        return obj

    def attempt(self, name, ref, sum16):
        key = (name, ref, sum16)
        if key not in self.attempts:
            self.attempts[key] = Attempt(self, name, ref, sum16)
        return self.attempts[key]


# ---------------------------------------------------------------------------------------------------------------
# Attempts and packs

PAGE = 512  # writers


def pages_of(count):
    return -(-count // PAGE) if count > PAGE else 0


def writers_index(buf, key):
    """Section 5: the bytes that the digest of a long writers list covers, whose pages have digests; 0 for a short list."""
    count = _r32(buf, 96) if len(buf) >= 128 else 0
    start = 104 + 16 * pages_of(count)
    if not pages_of(count) or len(buf) != start + 64 * count + 24:
        return 0
    for page in range(pages_of(count)):
        at = start + 64 * PAGE * page
        if digest(buf[at:min(at + 64 * PAGE, len(buf) - 24)]) != buf[104 + 16 * page:120 + 16 * page]:
            raise Damage(key, f"wrong digest of page {page}")
    return start

Home = collections.namedtuple("Home", "first owners parts partners length parts_length footer_digest")


class Attempt:
    """One attempt, reached by the digest of its writers list."""

    def __init__(self, store, name, ref, sum16):
        self.store, self.name, self.ref, self.digest, self.packs = store, name, ref, sum16, {}
        self.folder = "n/%s/data/%08x/%016x/%08x" % (encode_name(name), ref.generation, ref.version, ref.attempt)
        self.numbers = dict(generation=ref.generation, version=ref.version, attempt=ref.attempt, name=name)
        self.key = self.folder + "/writers"
        self.defect = None
        try:
            obj = store.small(self.key, (WRITERS,), limit=4 << 30, **self.numbers)
            if obj.digest != sum16:
                raise Damage(self.key, "is not the writers list that is leaned on: its digest differs")
            self.size, cur = obj.size, obj.body
        except Damage as e:
            self.defect = e
            cur = self.rebuild()
        count, self.ranks = cur.fields("II")
        if count >> 31 or self.ranks >> 31 or not count:
            raise cur.bad(f"{count} writers, {self.ranks} ranks")
        cur.take(16 * pages_of(count))
        cur.room(count, 64, "writers")
        self.homes, owner = [], 0
        for _ in range(count):
            first, owners, parts, partners, raw = cur.fields("IIII12s")
            cur.reserved(4)
            length, parts_length, footer = cur.fields("QQ16s")
            partners = read_partners(cur, partners, raw, count)
            if first != owner or parts > 1 << 20 or length >= LIMIT or (parts == 0) != (parts_length == 0):
                raise cur.bad(f"entry of writer {len(self.homes)} is invalid")
            owner += owners
            self.homes.append(Home(first, owners, parts, partners, length, parts_length, footer))
        cur.end()
        if owner != self.ranks:
            raise cur.bad(f"owner counts add up to {owner}, not to {self.ranks} ranks")
        self.firsts = [h.first for h in self.homes]

    def rebuild(self):
        """Section 12: the writers list follows from the footers; its digest tells whether it came out right."""
        body, count, w = b"", 1, 0
        try:
            while w < count:
                obj = Object(self.store, f"{self.folder}/{w:08x}")
                raw = read_tables(self.store, obj, (PACK, TOMBSTONE), dict(self.numbers, writer=w))
                f = Footer(Cursor(raw, obj.key + " footer"), self)
                if w == 0:
                    count, body = f.writers, struct.pack("<II", f.writers, f.ranks)
                body += struct.pack("<IIII12sIQQ", f.first, f.owners, len(f.parts), len(f.partners),
                                    struct.pack("<3I", *f.partners, *[0] * (3 - len(f.partners))), 0, obj.size,
                                    sum(f.parts)) + digest(raw)
                w += 1
        except Damage:
            raise self.defect from None
        g, v, a = self.ref
        head = struct.pack("<8sHHIQQ16sIIQIIQQ", MAGIC, 1, WRITERS, 0, 0, 0, self.store.id, g, a, v, 0, 0,
                           xxh3_64(self.name), 0)
        entries = body[8:]
        pages = b"".join(digest(entries[i:i + 64 * PAGE]) for i in range(0, len(entries), 64 * PAGE) if pages_of(count))
        index = head + struct.pack("<Q", xxh3_64(head)) + body[:8] + pages
        buf = index + entries + struct.pack("<Q", len(index) + len(entries) + 24)
        if digest(index if pages else buf) != self.digest:
            raise self.defect
        note(f"{self.defect}; rebuilt from the footers of {count} packs")
        self.size = len(buf) + 16
        return Cursor(buf[:-8], self.key, 96)

    def home(self, owner):
        if not 0 <= owner < self.ranks:
            raise Damage(self.key, f"there is no owner {owner} among {self.ranks}")
        return bisect.bisect_right(self.firsts, owner) - 1

    def pack(self, w):
        if w not in self.packs:
            if not 0 <= w < len(self.homes):
                raise Damage(self.key, f"there is no writer {w} among {len(self.homes)}")
            if self.store.is_elsewhere(self.name, self.ref, w):
                raise Elsewhere(f"{self.folder}/{w:08x}")
            self.packs[w] = Pack(self, w)
        return self.packs[w]

    def read(self, owner, address, length, copy):
        """The bytes at a place (section 7). Without a wanted copy, partners stand in for what is damaged."""
        home = self.homes[self.home(owner)]
        if copy > len(home.partners):
            raise Damage(self.key, f"copy {copy} of owner {owner} wanted, but there are {len(home.partners)} partners")
        try:
            return self.read_copy(owner, address, length, copy)
        except Damage as e:
            for j in range(1, len(home.partners) + 1) if copy == 0 else ():
                try:
                    data = self.read_copy(owner, address, length, j)
                    note(f"{e}; read from partner {home.partners[j - 1]} instead")
                    return data
                except Damage:
                    continue
            raise

    def read_copy(self, owner, address, length, copy):
        return b"".join(pack.block(block)[offset:offset + n]
                        for pack, block, offset, n in self.locate(owner, address, length, copy))

    def locate(self, owner, address, length, copy):
        """Where the bytes of a place are: (pack, block, offset in it, bytes)."""
        w = self.home(owner)
        pack = self.pack(w if copy == 0 else self.homes[w].partners[copy - 1])
        while length:
            source, hit = pack, pack.find(owner, address)
            if hit is None and copy == 0:
                other = pack.find_moved(owner, address)
                if other is not None:
                    source = self.pack(other[0])
                    hit = source.find(owner, address)
                    hit = hit and (hit[0], hit[1], min(hit[2], other[1]))
            if hit is None:
                raise Damage(pack.key, f"no extent covers address {address} of owner {owner}")
            block, offset, n = hit
            n = min(n, length)
            yield source, block, offset, n
            address += n
            length -= n


class Footer:
    def __init__(self, cur, attempt):
        read_settings(cur, attempt.store.settings)
        self.writers, self.ranks, self.first, self.owners, partners, raw = cur.fields("IIIII12s")
        self.partners = read_partners(cur, partners, raw, self.writers)
        self.parent = read_ref(cur)
        (self.time, self.protected, self.new_raw, self.new_stored, self.regions, parts, leans,
         sections) = cur.fields("QQQQQIII")
        cur.reserved(4)
        if cur.text16("name", 1, 80) != attempt.name:
            raise cur.bad("footer belongs to another name")
        cur.text16("program")
        if parts > 1 << 20 or sections >> 31:
            raise cur.bad(f"claims {parts} parts and {sections} sections")
        cur.room(parts, 8, "parts")
        self.parts = cur.fields(f"{parts}Q")
        if any(not 96 <= n < LIMIT for n in self.parts):
            raise cur.bad("impossible length of a part")
        self.leans = read_leans(cur, leans, attempt.ref)
        self.lean_list = [(attempt.ref, attempt.digest), *self.leans.items()]
        cur.room(sections, 40, "sections")
        self.sections = [cur.fields("IIQQ16s") for _ in range(sections)]
        cur.end()


def read_tables(store, obj, kinds, numbers, shift=0):
    """Head and end of a pack or copy; returns the footer's bytes, checked against the end. A copy lacks the pack's
    blocks: its offsets are those of the pack, shift bytes too high."""
    obj.kind, _, _, _ = store.head(obj.read(0, min(96, obj.size), "head"), obj.key, kinds,
                                              **numbers)
    if obj.kind == TOMBSTONE:
        raise Damage(obj.key, "a tombstone stands where a pack should be")
    offset, length, magic, sum16 = struct.unpack("<QI4s16s", obj.read(obj.size - 32, 32, "end"))
    if magic != b"VEND":
        raise Damage(obj.key, "wrong magic in end")
    offset -= shift
    if offset < 96 or offset + length + 32 != obj.size or length > 256 << 20:
        raise Damage(obj.key, f"footer (offset {offset}, length {length}) does not reach to the end")
    raw = obj.read(offset, length, "footer")
    if digest(raw) != sum16:
        raise Damage(obj.key, "footer does not match the digest in the end")
    return raw


Block = collections.namedtuple("Block", "part codec filters element offset stored raw sum has_ids ids_before")


def check_coding(cur, who, codec, filters, element):
    """Section 6, coding: what is not known, and what cannot be."""
    if codec > 6:
        raise cur.unknown(f"codec {codec} of {who} is not known")
    for number in filters:
        if number > 5:
            raise cur.unknown(f"filter {number} of {who} is not known")
    need = (4, 8) if 3 <= codec <= 5 else (1, 2, 4, 8, 12, 16, 24) if filters[0] else (0,)
    if (filters[1] and not filters[0]) or (filters[0] and codec in (0, 3, 4, 5)) or element not in need:
        raise cur.bad(f"{who} has codec {codec}, filters {filters[0]} and {filters[1]}, element size {element}, "
                      "which do not fit together")


class Pack:
    """What one writer stored. Tables come from the pack or, if that is damaged, from its copy object."""

    def __init__(self, attempt, w):
        self.attempt, self.store, self.writer, self.home = attempt, attempt.store, w, attempt.homes[w]
        self.key = f"{attempt.folder}/{w:08x}"
        self.objects, self.tables, self.value_ranges = {}, None, None
        self.obj = self.copy = self.defect = None
        try:
            obj = Object(self.store, self.key)
            raw = read_tables(self.store, obj, (PACK, TOMBSTONE), dict(attempt.numbers, writer=w))
            if obj.size != self.home.length:
                raise Damage(self.key, f"has {obj.size} bytes, the writers list says {self.home.length}")
            if digest(raw) != self.home.footer_digest:
                raise Damage(self.key, "footer does not match the digest in the writers list")
            self.obj = obj
            self.objects[len(Footer(Cursor(raw, self.key + " footer"), attempt).parts)] = obj
        except Damage as e:
            self.defect = e
            try:
                raw = self.open_copy()
            except Damage:
                raise e from None
            note(f"{e}; tables read from {self.copy.key}")
        self.check_footer(Footer(Cursor(raw, self.key + " footer"), attempt), len(raw))

    def open_copy(self):
        """Section 6, copy object: everything behind the pack's blocks, byte for byte."""
        obj = Object(self.store, self.key + ".copy")
        obj.shift = self.home.length - obj.size
        if obj.shift < 0:
            raise Damage(obj.key, "longer than the pack it repeats")
        raw = read_tables(self.store, obj, (COPY,), dict(self.attempt.numbers, writer=self.writer), obj.shift)
        if digest(raw) != self.home.footer_digest:
            raise Damage(obj.key, "footer does not match the digest in the writers list")
        self.copy = obj
        return raw

    def check_footer(self, f, size):
        self.footer, h, where = f, self.home, self.key + " footer"
        if (f.writers, f.ranks) != (len(self.attempt.homes), self.attempt.ranks):
            raise Damage(where, f"{f.writers} writers, {f.ranks} ranks: not as in the writers list")
        if (f.first, f.owners, len(f.parts), f.partners, sum(f.parts)) != (
                h.first, h.owners, h.parts, h.partners, h.parts_length):
            raise Damage(where, "owners, parts or partners are not as in the writers list")
        at, order, manifest = h.length - 32 - size - sum(s[3] for s in f.sections), 0, f.first
        self.blocks_end, self.sections = at, {}
        if at < 96:
            raise Damage(where, "sections are longer than the object")
        for kind, owner, offset, length, sum16 in f.sections:
            if offset != at:
                raise Damage(where, f"section of kind {kind} begins at {offset}, not at {at}")
            at += length
            if kind == S_RANGES:
                if owner or (kind, 0) in self.sections:
                    raise Damage(where, f"a second ranges section, or one of owner {owner}")
                self.sections[kind, 0] = (offset, length, sum16)
            if kind >= S_OPTIONAL:
                continue
            if not 1 <= kind <= S_MANIFEST:
                raise Unknown(where, f"section kind {kind} is not known")
            if kind < order or (kind, owner) in self.sections or owner != (manifest if kind == S_MANIFEST else 0):
                raise Damage(where, f"section of kind {kind}, owner {owner} is out of order")
            order = kind
            manifest += kind == S_MANIFEST
            self.sections[kind, owner] = (offset, length, sum16)
        if not all((kind, 0) in self.sections for kind in (S_BLOCKS, S_EXTENTS, S_IDS)):
            raise Damage(where, "section blocks, extents or ids is missing")
        if manifest != f.first + f.owners:
            raise Damage(where, f"{manifest - f.first} manifests for {f.owners} owners")

    def section(self, kind, owner=0):
        offset, length, sum16 = self.sections[kind, owner]
        defect = self.defect
        if self.obj is not None:
            data = self.obj.read(offset, length, f"section {kind}")
            if digest(data) == sum16:
                return data
            defect = Damage(self.key, f"wrong digest of section {kind}" + (f" of owner {owner}" if kind == 5 else ""))
            try:
                if self.copy is None:
                    self.open_copy()
                note(f"{defect}; section read from {self.copy.key}")
            except Damage:
                raise defect from None
        data = self.copy.read(offset - self.copy.shift, length, f"section {kind}")
        if digest(data) != sum16:
            raise defect
        return data

    def load(self):
        """Read blocks, extents, ids and moved, and check all that section 6 says of them."""
        if self.tables is not None:
            return self.tables
        table = self.section(S_BLOCKS)
        cur = Cursor(table, self.key + " blocks")
        ext = Cursor(self.section(S_EXTENTS), self.key + " extents")
        if len(table) % 64:
            raise cur.bad("length is not a multiple of 64")
        ends = [*self.footer.parts, self.blocks_end]
        blocks, found, part, at, ids = [], {}, 0, 96, 0
        while cur.at < len(table):
            (p, codec, filter1, filter2, element, offset, stored, raw, sum8, first, count, flags, before,
             owner) = cur.fields("IBBBBQIIQQIIQI")
            cur.reserved(4)
            who = f"block {len(blocks)}"
            check_coding(cur, who, codec, (filter1, filter2), element)
            if flags & ~3:
                raise cur.unknown(f"flags {flags:#x} of {who} are not known")
            while part < p < len(ends) and at == ends[part]:
                part, at = part + 1, 96
            if p != part or offset != at or stored > ends[part] - at:
                raise cur.bad(f"{who} is not where the one before ends, or beyond its object")
            if not 1 <= stored <= raw <= 16 << 20 or (codec == 0 and stored != raw):
                raise cur.bad(f"{who} has stored length {stored}, raw length {raw}")
            if count < 1 or first != ext.at or before != ids:
                raise cur.bad(f"{who} does not begin at its extents, or at its ids")
            at += stored
            pos, address = 0, 0
            for _ in range(count):
                length, owner, address = self.extent(ext, owner, address)
                if length > raw - pos:
                    raise ext.bad(f"extents of {who} are longer than the block")
                if flags & 1:
                    if address % GRANULE:
                        raise ext.bad(f"an extent of {who}, which has ids, does not begin at a granule")
                    ids += -(-length // GRANULE)
                found.setdefault(owner, []).append((address, length, len(blocks), pos))
                pos += length
                address += length
            if pos != raw:
                raise ext.bad(f"extents of {who} cover {pos} of its {raw} bytes")
            blocks.append(Block(p, codec, [f for f in (filter1, filter2) if f], element, offset, stored, raw, sum8,
                                flags & 1, before))
        while part < len(ends) - 1 and at == ends[part]:
            part, at = part + 1, 96
        if (part, at) != (len(ends) - 1, ends[-1]):
            raise cur.bad("blocks do not reach to the end of their object")
        ext.end()
        if self.sections[S_IDS, 0][1] != 16 * ids:
            raise Damage(self.key, f"section ids has not the length of {ids} ids")
        moved, owner, address = {}, self.footer.first, 0
        if (S_MOVED, 0) in self.sections:
            cur = Cursor(self.section(S_MOVED), self.key + " moved")
            last = (-1, 0)
            while cur.at < len(cur.buf):
                length, owner, address = self.extent(cur, owner, address)
                writer = cur.varint()
                if not self.footer.first <= owner < self.footer.first + self.footer.owners:
                    raise cur.bad(f"owner {owner} does not belong to this writer")
                if (owner, address) < last or writer >= len(self.attempt.homes) or writer == self.writer:
                    raise cur.bad("entries are out of order, or name an impossible writer")
                moved.setdefault(owner, []).append((address, length, writer, 0))
                address += length
                last = (owner, address)
        for owner, extents in found.items():
            extents.sort()
            everything = sorted(extents + moved.get(owner, []))
            for (a, n, *_), (b, *_) in zip(everything, everything[1:]):
                if b < a + n:
                    raise ext.bad(f"two extents overlap at address {b} of owner {owner}")
        self.tables = blocks, found, moved
        return self.tables

    def ranges(self):
        """{block: Range}, for blocks that have one."""
        if self.value_ranges is None:
            found, last, count = {}, -1, len(self.load()[0])
            cur = Cursor(self.section(S_RANGES) if (S_RANGES, 0) in self.sections else b"", self.key + " ranges")
            while cur.at < len(cur.buf):
                block, kind, flags = cur.fields("IBB")
                cur.reserved(2)
                if not last < block < count:
                    raise cur.bad(f"range of block {block} after that of block {last}, of {count} blocks")
                if kind == 0:
                    raise cur.bad(f"range of block {block} is one of bytes")
                if kind >= len(TYPES):
                    raise cur.unknown(f"element type {kind} of the range of block {block} is not known")
                if flags & ~3:
                    raise cur.unknown(f"flags {flags:#x} of the range of block {block} are not known")
                found[block] = self.one_range(cur, block, TYPES[kind], flags)
                last = block
            self.value_ranges = found
        return self.value_ranges

    @staticmethod
    def one_range(cur, block, kind, flags):
        is_integer = kind[0] in "iu"
        low, high = cur.fields({"i": "qq", "u": "QQ"}.get(kind[0], "dd"))
        if flags == 2 or (flags and is_integer) or (flags & 2 and any(cur.buf[cur.at - 16:cur.at])) or not low <= high:
            raise cur.bad(f"range of block {block} is impossible: flags {flags:#x}, {low} to {high}")
        if is_integer:
            half = 1 << int(kind[1:]) - 1
            if low < (-half if kind[0] == "i" else 0) or high >= (half if kind[0] == "i" else 2 * half):
                raise cur.bad(f"range of block {block}, {low} to {high}, is not within {kind}")
        return Range(kind, bool(flags & 1), *((None, None) if flags & 2 else (low, high)))

    def extent(self, cur, owner, address):
        value = cur.varint()
        if value & 1:
            owner += cur.svarint()
        address += cur.svarint()
        length = value >> 1
        if length < 1 or address < 0 or address + length > LIMIT or not 0 <= owner < self.attempt.ranks:
            raise cur.bad(f"impossible extent before byte {cur.at}: owner {owner}, address {address}, length {length}")
        return length, owner, address

    @staticmethod
    def search(table, owner, address):
        extents = table.get(owner, ())
        i = bisect.bisect_right(extents, (address, LIMIT + 1)) - 1
        if i < 0 or address >= extents[i][0] + extents[i][1]:
            return None
        start, length, where, pos = extents[i]
        return where, pos + address - start, start + length - address

    def find(self, owner, address):
        """(block, offset in it, bytes from there) of an address, or None"""
        return self.search(self.load()[1], owner, address)

    def find_moved(self, owner, address):
        """(writer, bytes from there), or None"""
        hit = self.search(self.load()[2], owner, address)
        return hit and (hit[0], hit[2])

    def object(self, part):
        """A part, or the pack object itself, with its head and length checked."""
        if part not in self.objects:
            last = part == len(self.footer.parts)
            obj = Object(self.store, self.key if last else f"{self.key}.{part:08x}")
            self.store.head(obj.read(0, min(96, obj.size), "head"), obj.key, (PACK if last else PART,),
                            **dict(self.attempt.numbers, writer=self.writer, part=0 if last else part))
            if obj.size != (self.home.length if last else self.footer.parts[part]):
                raise Damage(obj.key, f"has {obj.size} bytes, not as many as the footer or the writers list says")
            self.objects[part] = obj
        return self.objects[part]

    def block(self, i):
        """The decoded bytes of a block."""
        store, key = self.store, (self.key, i)
        if key in store.blocks:
            store.blocks.move_to_end(key)
            return store.blocks[key]
        block = self.load()[0][i]
        obj = self.object(block.part)
        data = obj.read(block.offset, block.stored, f"block {i}")
        if xxh3_64(data) != block.sum:
            raise Damage(obj.key, f"wrong sum of block {i}")
        try:
            data = decode(block, data)
        except ValueError as e:
            raise Damage(obj.key, f"block {i}: {e}") from None
        store.blocks[key] = data
        store.cached += block.raw
        while store.cached > BLOCK_CACHE and len(store.blocks) > 1:
            store.cached -= len(store.blocks.popitem(last=False)[1])
        return data

    def check_blocks(self):
        """Decode every block and compare the stored ids and ranges."""
        blocks, found, _ = self.load()
        ids, by_block, ranges = self.section(S_IDS), {}, self.ranges()
        for extents in found.values():
            for _, length, block, pos in extents:
                by_block.setdefault(block, []).append((pos, length))
        for i, block in enumerate(blocks):
            data, at = self.block(i), 16 * block.ids_before
            if i in ranges and range_of(ranges[i].type, data) != ranges[i]:
                raise Damage(self.key, f"range of block {i} is not that of its values")
            for pos, length in sorted(by_block[i]) if block.has_ids else ():
                for p in range(pos, pos + length, GRANULE):
                    granule = data[p:min(p + GRANULE, pos + length)]
                    have, at = ids[at:at + 16], at + 16
                    if have != self.store.content_id(granule) and not (any(granule) is False and not any(have)):
                        raise Damage(self.key, f"id {at // 16 - 1}, in block {i}, is not that of its granule")

    def check_objects(self):
        """Parts without blocks, and the copy."""
        for part in range(len(self.footer.parts) + 1):
            self.object(part)
        try:
            self.open_copy()
        except Absent:
            return
        for (kind, owner), (offset, length, sum16) in self.sections.items():
            if digest(self.copy.read(offset - self.copy.shift, length, "section")) != sum16:
                raise Damage(self.copy.key, f"wrong digest of section {kind}, owner {owner}")


# ---------------------------------------------------------------------------------------------------------------
# Manifests (section 8)

Place = collections.namedtuple("Place", "ref sum16 owner address copy")
Run = collections.namedtuple("Run", "length kind places piece phase")      # piece and phase: of repeated runs
HERE, FROM, ANY, ZERO, REPEATED, KEEP = 1, 2, 3, 4, 5, 6


class Region:
    """A region in effect. starts[i] is the offset of runs[i]."""

    def __init__(self, number, length, description, runs, sum16):
        self.number, self.length, self.runs, self.digest = number, length, runs, sum16
        self.description = description
        self.name, self.address, self.type, self.dims, self.bound, self.distribution = description
        self.starts, at = [], 0
        for run in runs:
            self.starts.append(at)
            at += run.length

    def slice(self, offset, length):
        i = bisect.bisect_right(self.starts, offset) - 1
        while length:
            run, skip = self.runs[i], offset - self.starts[i]
            n = min(run.length - skip, length)
            if run.kind == REPEATED:
                yield run._replace(length=n, phase=(run.phase + skip) % run.piece)
            else:
                yield run._replace(length=n, places=[p._replace(address=p.address + skip) for p in run.places])
            offset, length, i = offset + n, length - n, i + 1


def unpacked(cur):
    """The entries of a packed manifest: pieces, each u32 raw length, u32 stored length, bytes."""
    out = []
    while cur.at < len(cur.buf):
        raw, stored = cur.fields("II")
        if not 0 < stored <= raw <= min(1 << 20, 256 * stored):
            raise cur.bad(f"a piece of {raw} bytes, {stored} as stored")
        data = cur.take(stored)
        try:
            out.append(data if stored == raw else zstd_frame(data, raw))
        except ValueError as e:
            raise cur.bad(f"a piece: {e}") from None
    return b"".join(out)


class Manifest:
    """One layer, merged with those below it."""

    def __init__(self, checkpoint, attempt, w, owner, expected=None):
        self.pack, self.owner, self.attempt = attempt.pack(w), owner, attempt
        where = f"{self.pack.key} manifest of owner {owner}"
        if (S_MANIFEST, owner) not in self.pack.sections:
            raise Damage(where, "there is no such section")
        if expected is not None and self.pack.sections[S_MANIFEST, owner][2] != expected:
            raise Damage(where, "digest is not the one that the layer above wants")
        cur = Cursor(self.pack.section(S_MANIFEST, owner), where)
        have, below, regions, protected, layout, entries, runs = cur.fields("IIQQQQQ")
        packed, below = below >> 16 & 1, below & ~(1 << 16)
        if have != owner or below > 3 or layout >= LIMIT:
            raise cur.bad(f"owner {have}, {below} lower layers, {layout} layout bytes")
        self.layers, lower = [], None
        for i in range(3):
            lean, writer, sum16 = cur.fields("II16s")
            if i >= below:
                if lean or writer or any(sum16):
                    raise cur.bad("unused lower layer is not zero")
                continue
            if not 0 < lean < len(self.pack.footer.lean_list):
                raise cur.bad(f"lean index {lean} of a lower layer is impossible")
            self.layers.append((*self.pack.footer.lean_list[lean], writer, sum16))
        if packed:
            cur = Cursor(unpacked(cur), where)
        if self.layers:
            ref, lean_sum, writer, sum16 = self.layers[-1]
            under = checkpoint.attempt(ref, lean_sum, where)
            if under.home(owner) != writer:
                raise cur.bad(f"writer {writer} is not the home of owner {owner} in the attempt of the layer below")
            lower = Manifest(checkpoint, under, writer, owner, sum16)
            if lower.layers != self.layers[:-1]:
                raise cur.bad("the layer below stands on other layers than this one lists")
        self.cur, self.runs_read = cur, 0
        self.regions = dict(lower.regions) if lower else {}
        self.gone = set(lower.gone) if lower else set()
        cur.room(entries, 2, "region entries")
        number = -1
        for _ in range(entries):
            number += cur.varint() + 1
            self.entry(number, lower.regions.get(number) if lower else None, lower is None)
        cur.end()
        if self.runs_read != runs:
            raise cur.bad(f"{self.runs_read} runs, header says {runs}")
        if len(self.regions) != regions or sum(r.length for r in self.regions.values()) != protected:
            raise cur.bad("regions or bytes in effect are not as the header says")
        if len({r.name for r in self.regions.values()}) != regions:
            raise cur.bad("two regions have the same name")
        end = 0
        for r in sorted((r for r in self.regions.values() if r.length), key=lambda r: r.address):
            if r.address < end or r.address + r.length > layout:
                raise cur.bad(f"region {r.number} overlaps another or exceeds the layout")
            end = r.address + r.length
        self.protected = protected

    def entry(self, number, old, base):
        cur = self.cur
        if number >= 1 << 64 or number in self.gone:
            raise cur.bad(f"region number {number} is impossible, or that of a removed region")
        flags = cur.u8()
        if flags & ~3:
            raise cur.unknown(f"flags {flags:#x} of region {number} are not known")
        if flags & 2:
            if old is None or flags & 1:
                raise cur.bad(f"region {number} is removed, but not known from below, or described too")
            del self.regions[number]
            self.gone.add(number)
            return
        length = cur.varint()
        if length >= LIMIT:
            raise cur.bad(f"length of region {number} is not below 2^62")
        if flags & 1:
            description = self.describe(number, length)
        elif old is not None:
            description = old.description
        else:
            raise cur.bad(f"region {number} is new, but not described")
        address, at, out = description[1], 0, []
        while (value := cur.varint()) != 0:
            n, kind = value >> 3, value & 7
            self.runs_read += 1
            if kind == 7:
                raise cur.unknown("run kind 7 is not known")
            if kind == 0 or not 1 <= n <= length - at:
                raise cur.bad(f"run of kind {kind}, length {n} at {at} of region {number}, which has {length} bytes")
            here = address + at
            if kind == HERE:
                out.append(Run(n, FROM, [Place(self.attempt.ref, self.attempt.digest, self.owner, here, 0)], 0, 0))
            elif kind == FROM:
                out.append(Run(n, FROM, [self.place(here, n)], 0, 0))
            elif kind == ANY:
                count = cur.varint()
                if not 2 <= count <= 16:
                    raise cur.bad(f"run from any of {count} places")
                out.append(Run(n, FROM, [self.place(here, n)._replace(copy=cur.varint()) for _ in range(count)], 0, 0))
            elif kind == ZERO:
                out.append(Run(n, ZERO, [], 0, 0))
            elif kind == REPEATED:
                piece = cur.varint()
                if not 1 <= piece <= min(n, (1 << 32) - 1):
                    raise cur.bad(f"run of {n} bytes repeats a piece of {piece}")
                out.append(Run(n, REPEATED, [self.place(here, piece)], piece, 0))
            elif base or old is None or at + n > old.length:
                raise cur.bad(f"region {number} keeps bytes that are not in the layer below")
            else:
                out.extend(old.slice(at, n))
            at += n
        if at != length:
            raise cur.bad(f"runs of region {number} cover {at} of {length} bytes")
        self.regions[number] = Region(number, length, description, out, cur.take(16))

    def describe(self, number, length):
        cur = self.cur
        name = cur.text16(f"name of region {number}", 1, 255)
        address = cur.varint() * GRANULE
        if address + length >= LIMIT:
            raise cur.bad(f"address of region {number} is not below 2^62")
        kind = cur.u8()
        if kind >= len(TYPES):
            raise cur.unknown(f"element type {kind} of region {number} is not known")
        count = cur.u8()
        values = 5 if count & 32 else 3  # with the stride, or without
        count &= ~32
        if count > 16:
            raise cur.bad(f"region {number} has {count} dimensions")
        dims = [tuple(cur.varint() for _ in range(values)) for _ in range(count)]
        exactness = cur.u8()
        if exactness & 0xE or exactness >> 4 >= len(DISTRIBUTIONS):
            raise cur.unknown(f"exactness {exactness} of region {number} is not known")
        bound = cur.fields("d")[0] if exactness & 1 else None
        return name, address, TYPES[kind], dims, bound, DISTRIBUTIONS[exactness >> 4]

    def place(self, here, length):
        cur, leans = self.cur, self.pack.footer.lean_list
        lean = cur.varint()
        if lean >= len(leans):
            raise cur.bad(f"lean index {lean} is impossible; the footer has {len(leans) - 1} entries")
        owner, address = self.owner + cur.svarint(), here + cur.svarint()
        if owner < 0 or address < 0 or address + length > LIMIT:
            raise cur.bad(f"impossible place: owner {owner}, address {address}")
        return Place(*leans[lean], owner, address, 0)


# Section 8: what two regions of owner 0 say about the whole checkpoint
ATTRIBUTES, ARRAYS = b":varve:attributes", b":varve:arrays"
ATTRIBUTES_MOST = 65536
GRID, LIST = 1, 2
RULES = ["floor", "rest first", "rounded up", "cyclic", "listed"]


def attributes_of(data, where):
    """Pairs of texts, each ended by a byte 0."""
    cur = Cursor(data, f"{where} attributes")
    if len(data) > ATTRIBUTES_MOST or (data and data[-1]):
        raise cur.bad(f"{len(data)} bytes, or the last text has no end")
    texts = bytes(data).split(b"\0")[:-1]
    if len(texts) % 2 or not all(1 <= len(name) <= 255 for name in texts[::2]):
        raise cur.bad("a name without a value, or of an impossible length")
    return list(zip(texts[::2], texts[1::2]))


class Part(collections.namedtuple("Part", "first local block every")):
    """What an owner has of a dimension. Block 0: the elements follow each other, which is also what one block is."""

    @staticmethod
    def of(first, local, block=0, every=0):
        is_apart = block and every != block and local > block
        return Part(first, local, block, every) if is_apart else Part(first, local, 0, 0)

    def end(self):
        if not self.local:
            return self.first
        last = self.local - 1
        return self.first + (last // self.block * self.every + last % self.block if self.block else last) + 1

    @staticmethod
    def read(cur, before, size):
        first, local, block = before + cur.svarint(), cur.varint(), cur.varint()
        every = cur.varint() if block else 0
        part = Part.of(first, local, block, every)
        if first < 0 or every < block or part.end() > size:
            raise cur.bad(f"a part from {first} on, of {local} indices, in a dimension of {size}")
        return part

    @staticmethod
    def cut(rule, size, count, at, block):
        """Part `at` of `count`."""
        share, rest = divmod(size, count)
        if rule == 0:
            return Part.of(size * at // count, size * (at + 1) // count - size * at // count)
        if rule == 1:
            return Part.of(share * at + min(at, rest), share + (at < rest))
        if rule == 2:
            first = min(size, at * (share + (rest > 0)))
            return Part.of(first, min(share + (rest > 0), size - first))
        rounds, rest = divmod(size, block * count)
        return Part.of(block * at, rounds * block + min(block, max(0, rest - block * at)), block, block * count)


class IndexedArray:
    """An entry of the index of arrays."""

    def __init__(self, cur, ranks):
        self.name = cur.text16("name of an array", 1, 255)
        kind, dims, self.is_list = cur.u8(), cur.u8(), cur.u8()
        if kind >= len(TYPES):
            raise cur.unknown(f"element type {kind} of an array is not known")
        if not 1 <= dims <= 16 or self.is_list > 1:
            raise cur.bad(f"an array of {dims} dimensions, or whose blocks are neither by place nor a list")
        self.type, self.sizes = TYPES[kind], [cur.varint() for _ in range(dims)]
        self.elements, self.kind = cur.varint(), cur.u8()
        self.grid, self.blocks, product = [], {}, 1
        if self.kind == GRID:
            for size in self.sizes:
                parts, step, rule = cur.varint(), cur.varint(), cur.u8()
                if rule >= len(RULES):
                    raise cur.unknown(f"rule {rule} of a dimension is not known")
                product *= parts
                if not parts or not step or product > ranks:
                    raise cur.bad(f"{parts} parts, each {step} times, of a dimension")
                block, cuts, before = cur.varint() if rule == 3 else 0, [], 0
                if rule == 3 and not block:
                    raise cur.bad("blocks without elements are dealt out")
                for _ in range(parts if rule == 4 else 0):
                    cuts.append(Part.read(cur, before, size))
                    before = cuts[-1].first
                self.grid.append((parts, step, rule, block, cuts))
            if product != ranks:
                raise cur.bad(f"a grid of {product} parts for {ranks} ranks")
        elif self.kind == LIST:
            self.count, self.directory = cur.varint(), cur.varint()
            if self.count > ranks:
                raise cur.bad(f"{self.count} blocks of {ranks} ranks")
        else:
            raise cur.unknown(f"kind {self.kind} of an array is not known")

    def read_blocks(self, cur, directories, groups, ranks):
        """Of a list: all its groups. Returns how many bytes of directories and of groups it has."""
        dims, used = len(self.sizes), 0
        directory = Cursor(directories, cur.where, self.directory)
        for at in range(0, self.count, 256):
            offset, length, count = directory.fields("QII")
            reach = [directory.fields("QQ") for _ in range(dims)]
            if count != min(256, self.count - at) or offset + length > len(groups):
                raise cur.bad(f"a group of {count} blocks at {offset} is impossible")
            group, before, seen = Cursor(groups[offset:offset + length], cur.where), [0] * dims, []
            for _ in range(count):
                owner, parts = group.varint(), []
                for i, size in enumerate(self.sizes):
                    parts.append(Part.read(group, before[i], size))
                    before[i] = parts[i].first
                if owner >= ranks or owner in self.blocks or not all(p.local for p in parts):
                    raise cur.bad(f"owner {owner} has a block twice, or an empty one, or does not exist")
                self.blocks[owner] = parts
                seen.append(parts)
            group.end()
            used += length
            if reach != [(min(p[i].first for p in seen), max(p[i].end() for p in seen)) for i in range(dims)]:
                raise cur.bad("a directory does not say how far the blocks of a group reach")
            if [[p.first for p in parts] for parts in seen] != sorted([p.first for p in parts] for parts in seen):
                raise cur.bad("blocks are not in order")
        return directory.at - self.directory, used

    def parts(self, owner):
        """What this owner has; None: nothing."""
        if self.kind == LIST:
            return self.blocks.get(owner)
        out = []
        for size, (count, step, rule, block, cuts) in zip(self.sizes, self.grid):
            at = owner // step % count
            out.append(cuts[at] if rule == 4 else Part.cut(rule, size, count, at, block))
        return out if all(p.local for p in out) else None

    def __str__(self):
        sizes = " x ".join(map(str, self.sizes))
        how = f"{self.count} blocks" if self.kind == LIST else "grid " + " x ".join(
            f"{count} ({RULES[rule]}{f' {block}' if block else ''})" for count, _, rule, block, _ in self.grid)
        return (f"array {printable(self.name)}  type {self.type}  {sizes}  elements {self.elements}  {how}"
                + ("  joined" if self.is_list else ""))


def arrays_of(data, ranks, where):
    """The index of arrays, as a list of its entries."""
    cur = Cursor(data, f"{where} index of arrays")
    magic, have, count, entries, directories = cur.fields("4sIIIQ")
    if magic != b"VVX1":
        raise cur.unknown(f"it begins with {magic.hex()}")
    if have != ranks:
        raise cur.bad(f"it is of {have} ranks, the checkpoint of {ranks}")
    table = Cursor(cur.take(entries), cur.where)
    table.room(count, 9, "arrays")
    arrays = [IndexedArray(table, ranks) for _ in range(count)]
    table.end()
    directories = cur.take(directories)
    groups = cur.take(len(data) - cur.at)
    used = [a.read_blocks(cur, directories, groups, ranks) for a in arrays if a.kind == LIST]
    if [sum(column) for column in zip((0, 0), *used)] != [len(directories), len(groups)]:
        raise cur.bad("bytes of directories or groups belong to no array")
    if len({a.name for a in arrays}) != count:
        raise cur.bad("an array is there twice")
    return arrays


class IndexCheck:
    """Does the index say what the owners' descriptions say? They come one by one, ascending, and all of them."""

    def __init__(self, arrays, where):
        self.arrays, self.where = {a.name: a for a in arrays}, where
        self.elements, self.rows = collections.Counter(), collections.Counter()

    def wrong(self, array_, owner, what):
        return Damage(self.where, f"index of arrays: {printable(array_.name)}: of owner {owner}: {what}")

    def owner(self, owner, regions):
        known = {r.name: r for r in regions.values()}
        for array_ in self.arrays.values():
            region, indexed = known.get(array_.name), array_.parts(owner)
            described = region and self.described(array_, region)
            if described and (region.type, region.distribution == "joined") != (array_.type, bool(array_.is_list)):
                raise self.wrong(array_, owner, f"it is {region.type}, {region.distribution}")
            if described != indexed:
                raise self.wrong(array_, owner, f"it has {described}, the index says {indexed}")
            self.elements[array_.name] += math.prod(p.local for p in indexed or [Part.of(0, 0)])

    def described(self, array_, region):
        """The parts that a region says it has; None if that is nothing."""
        dims = region.dims or [(region.length, 0, region.length)]
        parts = [Part.of(first, local, *more) for _, first, local, *more in dims]
        if array_.is_list:      # its place follows from the owners before
            parts[0] = Part.of(self.rows[array_.name], parts[0].local)
            self.rows[array_.name] += parts[0].local
        if [d[0] or d[2] for d in dims][array_.is_list:] != array_.sizes[array_.is_list:]:
            raise Damage(self.where, f"index of arrays: {printable(array_.name)} has other sizes than described")
        return parts if all(p.local for p in parts) else None

    def end(self):
        for array_ in self.arrays.values():
            elements, rows = self.elements[array_.name], self.rows[array_.name]
            if elements != array_.elements or (array_.is_list and rows != array_.sizes[0]):
                raise Damage(self.where, f"index of arrays: {printable(array_.name)} has {elements} elements, not "
                             f"{array_.elements}, or a list of another length")


class RegionDigest:
    """Section 9. Stretches of zeros cost nothing."""

    def __init__(self, content_id):
        self.content_id, self.index, self.sum, self.part, self.last = content_id, 0, 0, bytearray(), (b"", b"")

    def granule(self, data):
        if data.count(0) != len(data):
            if data != self.last[0]:
                self.last = data, self.content_id(data)
            low, high = xxh3_128(struct.pack("<Q", self.index) + self.last[1])
            self.sum += low | high << 64
        self.index += 1

    def feed(self, data):
        self.part += data
        whole = len(self.part) // GRANULE * GRANULE
        for at in range(0, whole, GRANULE):
            self.granule(bytes(self.part[at:at + GRANULE]))
        del self.part[:whole]

    def zeros(self, n):
        if self.part:
            pad = min(n, GRANULE - len(self.part))
            self.feed(bytes(pad))
            n -= pad
        self.index += n // GRANULE
        self.feed(bytes(n % GRANULE))

    def result(self):
        if self.part:
            self.granule(bytes(self.part))
        return (self.sum & (1 << 128) - 1).to_bytes(16, "little")


# ---------------------------------------------------------------------------------------------------------------
# Checkpoints

class Checkpoint:
    """A record, and what it leans on."""

    def __init__(self, store, name, component):
        self.store, self.name, self.key = store, name, f"n/{encode_name(name)}/record/{component}"
        self.generation, self.version = record_numbers(component, self.key)
        obj = store.small(self.key, (RECORD, TOMBSTONE), name=name, generation=self.generation, version=self.version,
                          attempt=None)
        cur = obj.body
        self.tombstone = None
        if obj.kind == TOMBSTONE:
            self.tombstone = read_tombstone(cur)
            return
        self.ref = obj.ref
        read_settings(cur, store.settings)
        self.time, self.ranks, self.writers, self.list_length, self.list_digest = cur.fields("QIIQ16s")
        self.parent = read_ref(cur)
        (self.protected, self.new_raw, self.new_stored, self.metadata, self.regions, leans) = cur.fields("QQQQQI")
        cur.reserved(4)
        self.leans = read_leans(cur, leans, self.ref)
        if cur.text16("name", 1, 80) != name:
            raise cur.bad("record belongs to another name")
        self.program = cur.text16("program")
        cur.end()
        self.own = self.problems = None

    def attempt(self, ref, sum16, where):
        if ref == self.ref:
            known = self.list_digest
        elif ref in self.leans:
            known = self.leans[ref]
        else:
            raise Damage(self.key, "leans on generation %d, version %d, attempt %d without saying so" % ref)
        if known != sum16:
            raise Damage(where, "writers list of generation %d, version %d, attempt %d has another digest in the record"
                         % ref)
        return self.store.attempt(self.name, ref, sum16)

    def top(self):
        if self.own is None:
            own = self.attempt(self.ref, self.list_digest, self.key)
            if (len(own.homes), own.ranks, own.size) != (self.writers, self.ranks, self.list_length):
                raise Damage(self.key, "writers, ranks or length of the writers list are not as in the list")
            self.own = own
        return self.own

    def manifest(self, rank):
        own = self.top()
        if not 0 <= rank < self.ranks:
            raise Refuse(self.key, f"there is no rank {rank} among {self.ranks}")
        pack = own.pack(own.home(rank))
        for ref, sum16 in pack.footer.leans.items():
            self.attempt_known(ref, sum16, pack)
        return Manifest(self, own, own.home(rank), rank)

    def attempt_known(self, ref, sum16, pack):
        if self.leans.get(ref) != sum16:
            raise Damage(self.key, f"lean entries do not include those of {pack.key}")

    def read_any(self, places, skip, length):
        """The same bytes from any of the places: the first that can be read. When verifying, from all."""
        first = data = None
        for place in places:
            try:
                got = self.attempt(place.ref, place.sum16, self.key).read(
                    place.owner, place.address + skip, length, place.copy)
                if data is not None and got != data:
                    self.problems.append(Damage(self.key, f"places of a run differ, at {place[2:]} in {place.ref}"))
                data = got if data is None else data
                if self.problems is None:
                    break
            except Damage as e:
                first = first or e
        if data is None:
            raise first
        if first is not None:
            note(f"{first}; read from another place instead")
            if self.problems is not None:
                self.problems.append(first)
        return data

    def stream(self, region):
        """The region's bytes in pieces; a number stands for that many zeros."""
        for run in region.runs:
            if run.kind == ZERO:
                yield run.length
            elif run.kind == FROM:
                for at in range(0, run.length, CHUNK):
                    yield self.read_any(run.places, at, min(CHUNK, run.length - at))
            elif run.piece <= CHUNK:
                piece = self.read_any(run.places, 0, run.piece)
                piece = piece[run.phase:] + piece[:run.phase]
                many = piece * (1 + min(CHUNK, run.length) // run.piece)
                for at in range(0, run.length, len(many)):
                    yield many[:run.length - at]
            else:
                at, phase = 0, run.phase
                while at < run.length:
                    n = min(CHUNK, run.piece - phase, run.length - at)
                    yield self.read_any(run.places, phase, n)
                    at, phase = at + n, (phase + n) % run.piece

    def region_range(self, region):
        """(Range, whether the region has these values, not only values within them) from the ranges of its blocks; None
        where one has no range, or one of another type."""
        total, used, zeros = None, {}, False
        for run in region.runs:
            zeros = zeros or run.kind == ZERO
            for place in run.places[:1]:
                attempt = self.attempt(place.ref, place.sum16, self.key)
                for pack, block, offset, n in attempt.locate(place.owner, place.address, run.piece or run.length,
                                                             place.copy):
                    used.setdefault((pack, block), set()).add((offset, n))
        exact = True
        for (pack, block), pieces in used.items():
            found, at = pack.ranges().get(block), 0
            if found is None or found.type != region.type:
                return None
            total = join_ranges(total, found)
            for offset, n in sorted(pieces):
                at = max(at, offset + n) if offset <= at else at
            exact = exact and at == pack.load()[0][block].raw
        if zeros:
            zero = 0 if region.type[0] in "iu" else 0.0
            total = join_ranges(total, Range(region.type, False, zero, zero))
        return total and (total, exact)

    def read_region(self, rank, region, write=None):
        total = RegionDigest(self.store.content_id)
        try:
            for piece in self.stream(region):
                if isinstance(piece, int):
                    total.zeros(piece)
                else:
                    total.feed(piece)
                if write:
                    write(piece)
        except Absent:
            raise
        except Damage as e:
            raise Damage(self.key, f"rank {rank}, region {region.number}: {e}") from None
        if total.result() != region.digest:
            raise Damage(self.key, f"rank {rank}, region {region.number}: wrong digest of the region's bytes")

    def about(self, name, manifest):
        """The bytes of a region of owner 0 that tells of the whole checkpoint; None if there is none."""
        region = next((r for r in manifest.regions.values() if r.name == name), None)
        if region is None:
            return None
        if region.length > IN_MEMORY:
            raise Refuse(self.key, f"region {printable(name)} has {region.length} bytes")
        out = []
        self.read_region(0, region, lambda piece: out.append(bytes(piece)))
        return b"".join(out)

    def attributes(self, manifest):
        data = self.about(ATTRIBUTES, manifest)
        return [] if data is None else attributes_of(data, self.key)

    def arrays(self, manifest):
        data = self.about(ARRAYS, manifest)
        return [] if data is None else arrays_of(data, self.ranks, self.key)

    def verify_about(self, check, rank, manifest):
        """What owner 0 says of all, with the manifests of all. Returns what is needed for the next one."""
        if rank == 0:
            self.attributes(manifest)
            check = IndexCheck(self.arrays(manifest), self.key)
        if check:
            check.owner(rank, manifest.regions)
        if check and rank == self.ranks - 1:
            check.end()
        return check

    def verify(self, problems):
        """Read all regions of all ranks (on this node). Damage goes to problems; true if every region could be had."""
        own, self.problems = self.top(), problems
        sums, ok, is_partial, check = [0, 0, 0, 0], True, False, None
        for w in range(len(own.homes)):
            try:
                pack = own.pack(w)
                f = pack.footer
                for ref, sum16 in f.leans.items():
                    self.attempt_known(ref, sum16, pack)
                if f.parent != self.parent:
                    raise Damage(pack.key, "footer and record name different parents")
                sums = [a + b for a, b in zip(sums, (f.protected, f.new_raw, f.new_stored, f.regions))]
                mine = [0, 0]
                for rank in range(f.first, f.first + f.owners):
                    manifest = self.manifest(rank)
                    mine = [mine[0] + manifest.protected, mine[1] + len(manifest.regions)]
                    for region in manifest.regions.values():
                        self.read_region(rank, region)
                    try:
                        check = self.verify_about(check, rank, manifest)
                    except Refuse as e:         # what the checkpoint holds is there all the same
                        problems.append(e)
                        check = None
                if mine != [f.protected, f.regions]:
                    raise Damage(pack.key, "bytes protected or regions in footer are not those of the manifests")
            except Elsewhere:
                is_partial, check = True, None
            except Damage as e:
                problems.append(e)
                ok, check = False, None
        if ok and not is_partial and sums != [self.protected, self.new_raw, self.new_stored, self.regions]:
            problems.append(Damage(self.key, "bytes or regions are not the sums over the footers"))
        self.problems = None
        return ok

    def __str__(self):
        when = datetime.datetime.fromtimestamp(self.time // 10**9, datetime.timezone.utc)
        return (f"{printable(self.name)}  generation {self.generation}  version {self.version}  attempt "
                f"{self.ref.attempt}  {when:%Y-%m-%dT%H:%M:%SZ}  ranks {self.ranks}  regions {self.regions}  "
                f"bytes {self.protected}  leans on {len(self.leans)}")


def read_tombstone(cur):
    reason = cur.u32()
    cur.reserved(4)
    cur.u64()
    if reason not in REASONS:
        raise cur.unknown(f"reason {reason} of a tombstone is not known")
    text = cur.text16("text")
    cur.end()
    return REASONS[reason], text


def record_numbers(component, key):
    generation, version = 0xFFFFFFFF ^ int(component[:8], 16), M64 ^ int(component[8:], 16)
    if generation == 0 or version >> 63:
        raise Damage(key, f"generation {generation}, version {version} cannot be")
    return generation, version


def record_keys(store, name):
    """Components of the records of a name, newest first."""
    return [c for c in store.list(f"n/{encode_name(name)}/record") if re.fullmatch("[0-9a-f]{24}", c)]


def pin_keys(store, name):
    """Components of the records that have something under the key of their pin."""
    return [c[4:] for c in store.list(f"n/{encode_name(name)}") if re.fullmatch(r"pin\.[0-9a-f]{24}", c)]


def read_pin(store, name, component):
    """The reason of a pin, or None for a tombstone in its place: then the checkpoint is being forgotten."""
    key = f"n/{encode_name(name)}/pin.{component}"
    generation, version = record_numbers(component, key)
    obj = store.small(key, (PIN, TOMBSTONE), name=name, generation=generation, version=version)
    cur, reason = obj.body, None
    if obj.kind == PIN:
        cur.u64()
        if cur.text16("name", 1, 80) != name:
            raise cur.bad("pin belongs to another name")
        cur.text16("host")
        reason = cur.text16("reason")
    else:
        read_tombstone(cur)
    cur.end()
    return reason


def verify_log(cur, store, name):
    """Lines for people: what is no JSON object is skipped by whoever reads it."""
    length = len(cur.buf) - cur.at
    if length > LOG_MAX:
        raise cur.bad(f"the log has {length} bytes")
    cur.take(length)


def verify_trigger(cur, name):
    wish, reserved = cur.u32(), cur.u32()
    if wish not in (1, 2):
        raise cur.unknown(f"wish {wish} is not known")
    if reserved:
        raise cur.unknown(f"reserved field is {reserved}")
    cur.u64()
    if cur.text16("name", 1, 80) != name:
        raise cur.bad("trigger belongs to another name")
    cur.text16("host")
    cur.end()


def pin_text(store, name, component):
    """What `ls` adds to a checkpoint. What cannot be interpreted counts as a pin."""
    if component not in pin_keys(store, name):
        return ""
    try:
        reason = read_pin(store, name, component)
    except Refuse as e:
        return f"  pinned (damaged: {e})"
    return "" if reason is None else f"  pinned{': ' if reason else ''}{printable(reason)}"


def choose(store, args):
    """The checkpoint that VERSION and --generation mean; for `latest`, all candidates, newest first."""
    name = os.fsencode(args.name)
    where = f"n/{encode_name(name)}"
    if not 1 <= len(name) <= 80 or not record_keys(store, name):
        raise Refuse(where, "no checkpoint of this name")
    buried = None
    for component in record_keys(store, name):
        generation, version = record_numbers(component, f"{where}/record/{component}")
        if (args.version not in (None, version)) or (args.generation not in (None, generation)):
            continue
        try:
            cp = Checkpoint(store, name, component)
        except Damage as e:
            if args.version is not None:
                raise
            note(str(e))
            buried = buried or e
            continue
        if cp.tombstone is None:
            yield cp
        elif args.version is not None:
            buried = buried or Refuse(cp.key, f"not a checkpoint: {cp.tombstone[0]} ({printable(cp.tombstone[1])})")
    raise buried or Refuse(where, "no such checkpoint")


# ---------------------------------------------------------------------------------------------------------------
# Commands

def cmd_ls(store, args):
    problems = []
    for name in store.names(problems=problems):
        for component in record_keys(store, name):
            try:
                cp = Checkpoint(store, name, component)
                if cp.tombstone is None:
                    print(f"{cp}{pin_text(store, name, component)}")
                elif args.all:
                    print(f"{printable(name)}  generation {cp.generation}  version {cp.version}  "
                          f"{cp.tombstone[0]}: {printable(cp.tombstone[1])}")
            except Refuse as e:
                problems.append(e)
    return problems


def cmd_show(store, args):
    cp = next(choose(store, args))
    print(cp)
    for rank in range(cp.ranks) if args.rank is None else [args.rank]:
        try:
            manifest = cp.manifest(rank)
        except Elsewhere as e:
            if args.rank is not None:
                raise
            note(f"rank {rank}: {e}")
            continue
        if rank == 0:
            show_about(cp, manifest)
        for number, r in sorted(manifest.regions.items()):
            if r.name in (ATTRIBUTES, ARRAYS) and rank == 0:
                continue
            dims = "".join(f" {first}+{local}/{size}" + "".join(f" stride {b}/{e}" for b, e in [more] if b)
                           for size, first, local, *more in (d if len(d) > 3 else d + (0, 0) for d in r.dims))
            print(f"rank {rank}  region {number}  {printable(r.name)}  length {r.length}  type {r.type}"
                  + (f"  dims{dims}" if dims else "") + (f"  lossy {r.bound:g}" if r.bound is not None else "")
                  + (f"  {r.distribution}" if r.distribution != "by dims" else "")
                  + (show_range(cp, r) if r.type != "bytes" else ""))
    return []


def show_about(cp, manifest):
    """What owner 0 says of the whole checkpoint; without it the rest can be shown all the same."""
    try:
        for name, value in cp.attributes(manifest):
            print(f"attribute {printable(name)}  {printable(value)}")
        for array_ in cp.arrays(manifest):
            print(array_)
    except Refuse as e:
        note(str(e))


def show_range(cp, region):
    """Blocks may hold more than the region: then the values are only known to lie within."""
    try:
        found = cp.region_range(region)
    except Refuse as e:         # the region may be readable all the same
        note(f"range of region {region.number}: {e}")
        found = None
    if found is None:
        return ""
    (_, has_nan, low, high), exact = found
    text = "" if low is None else f"  min {low!r}  max {high!r}" if exact else f"  within {low!r} to {high!r}"
    return text + ("" if not has_nan else "  nan" if exact else "  perhaps nan")


def cmd_restore(store, args):
    for cp in choose(store, args):
        if args.version is None:
            # section 10, read: the newest whole checkpoint is the first that passes every check
            problems = []
            try:
                whole = cp.verify(problems)
            except Damage as e:
                whole, problems = False, [e]
            if not whole:
                note(f"{cp.key}: passed over: {problems[0]}")
                continue
            note(f"latest is generation {cp.generation}, version {cp.version}")
        break
    regions = cp.manifest(args.rank).regions
    wanted = os.fsencode(args.region)
    number = int(wanted) if re.fullmatch(rb"[0-9]{1,20}", wanted) else None
    region = regions.get(number) or next((r for r in regions.values() if r.name == wanted), None)
    if region is None:
        raise Refuse(cp.key, f"rank {args.rank} has no region {args.region}")
    target = args.output
    if os.path.lexists(target) and not os.path.isfile(target):
        raise Refuse(target, "is there, and is not a regular file")
    folder = os.path.dirname(os.path.abspath(target))
    need = sum(run.length for run in region.runs if run.kind != ZERO)
    try:
        if need > shutil.disk_usage(folder).free:
            raise Refuse(target, f"no room for {need} bytes")
        fd, temporary = tempfile.mkstemp(prefix=".varve-read.", dir=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                def write(piece):
                    file.seek(piece, 1) if isinstance(piece, int) else file.write(piece)
                cp.read_region(args.rank, region, write)
                file.truncate(region.length)
                mask = os.umask(0)
                os.umask(mask)
                os.fchmod(file.fileno(), 0o666 & ~mask)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as e:
        raise Refuse(target, f"cannot be written: {e.strerror}") from None
    return []


def cmd_verify(store, args):
    problems = [store.defect] if store.defect else []
    count = checked = elsewhere = 0
    for name in store.names(problems=problems):
        base = f"n/{encode_name(name)}"
        found = {}
        for component in record_keys(store, name):
            try:
                cp = Checkpoint(store, name, component)
                if cp.tombstone is None:
                    count += 1
                    found[cp.ref] = cp
                    checked += cp.verify(problems)
            except Refuse as e:
                problems.append(e)
        for cp in found.values():       # invariant 4 of section 10, as far as the parent is still there
            parent = found.get(cp.parent)
            allowed = {*parent.leans, parent.ref} if parent else set() if cp.parent.generation == 0 else None
            if allowed is not None and not allowed.issuperset(cp.leans):
                problems.append(Damage(cp.key, "leans on an attempt that its parent does not lean on"))
        for folder, kind, rest in (("claim", CLAIM, verify_claim), ("beat", BEAT, verify_beat),
                                   ("log", LOG, verify_log)):
            for component in store.list(f"{base}/{folder}"):
                try:
                    if re.fullmatch("[0-9a-f]{8}", component):
                        obj = store.small(f"{base}/{folder}/{component}", (kind,), name=name,
                                          generation=int(component, 16))
                        rest(obj.body, store, name)
                        obj.body.end()
                except Refuse as e:
                    problems.append(e)
        for component in pin_keys(store, name):
            try:
                read_pin(store, name, component)
            except Refuse as e:
                problems.append(e)
        try:
            verify_trigger(store.small(f"{base}/trigger", (TRIGGER,), name=name).body, name)
        except Absent:
            pass
        except Refuse as e:
            problems.append(e)
        try:
            verify_catalogue(store.small(f"{base}/catalogue", (CATALOGUE,), limit=LIMIT, name=name).body)
        except Absent:
            pass
        except Refuse as e:
            problems.append(e)
    for attempt in list(store.attempts.values()):       # all that any record reached: every block, once
        problems.extend([attempt.defect] if attempt.defect else [])
        for w in range(len(attempt.homes)):
            try:
                pack = attempt.pack(w)
                if pack.defect:
                    problems.append(pack.defect)
                pack.check_blocks()
                pack.check_objects()
            except Elsewhere:
                elsewhere += 1
            except Refuse as e:
                problems.append(e)
        for component in store.list(attempt.folder):
            try:
                if re.fullmatch("[0-9a-f]{8}\\.parity", component):
                    verify_parity(store, attempt, int(component[:8], 16))
            except Refuse as e:
                problems.append(e)
    print(f"{checked} of {count} checkpoints can be restored; {len({str(p) for p in problems})} problems")
    if store.is_local:
        print(f"this is one node's store, and only it was looked at; {elsewhere} packs are not on this node: kept on other "
              "nodes, or missing; this cannot be told from here")
    return problems


def read_covered(cur, count, members):
    """Section 6, parity object: the streams of the members, which are the packs with their parts."""
    streams, before = [0] * members, None
    cur.room(count, 24, "objects")
    for i in range(count):
        at = cur.fields("IIIIQ")
        member, writer, part, is_pack, length = at
        if before is None or before[3]:
            fits = part == 0 and (before is None or before[:2] < at[:2])
        else:
            fits = (member, writer, part) == (before[0], before[1], before[2] + 1)
        if not fits or member >= members or is_pack > 1 or writer >= 0x7fffffff or not 96 <= length < LIMIT:
            raise cur.bad(f"object {i} of the group is invalid")
        streams[member] += length
        before = at
    if before and not before[3]:
        raise cur.bad("the last pack of the group is missing")
    if sum(streams) >= LIMIT:
        raise cur.bad("the group is too large")
    return streams


def verify_parity(store, attempt, writer):
    """Section 6, parity object: its table, and its bytes by its sums. What it is parity of may be on other nodes."""
    obj = Object(store, f"{attempt.folder}/{writer:08x}.parity")
    store.head(obj.read(0, min(96, obj.size), "head"), obj.key, (PARITY,), **dict(attempt.numbers, writer=writer))
    if obj.size < 96 + 32 + 32:
        raise Damage(obj.key, "is too short")
    offset, length, magic, sum16 = struct.unpack("<QI4s16s", obj.read(obj.size - 32, 32, "end"))
    if magic != b"VPAR" or not 32 <= length <= 32 + 24 * 65536 or offset < 96 or offset + length + 32 != obj.size:
        raise Damage(obj.key, f"its table (offset {offset}, length {length}) does not fit")
    raw = obj.read(offset, length, "table")
    if digest(raw) != sum16:
        raise Damage(obj.key, "wrong digest of the table")
    cur = Cursor(raw, obj.key + " table")
    k, m, member, count, sums16 = cur.fields("IIII16s")
    if not (1 <= k and 1 <= m <= 3 and k + m <= 16):
        raise cur.unknown(f"code {k}+{m} is not known")
    if member >= k + m:
        raise cur.bad(f"member {member} of {k + m}")
    streams = read_covered(cur, count, k + m)
    cur.end()
    rows = [max(-(-streams[(member - t + m + d) % (k + m)] // k) for d in range(k)) for t in range(m)]
    slices = [-(-row // 65536) for row in rows]
    at = 96 + sum(rows)
    if at + 8 * (k + 1) * sum(slices) != offset:
        raise cur.bad("its bytes and sums do not end where the table begins")
    sums = obj.read(at, offset - at, "sums")
    if digest(sums) != sums16:
        raise Damage(obj.key, "wrong digest of the sums")
    place, which = 96, 0
    for row in rows:
        for start in range(0, row, 65536):
            data = obj.read(place + start, min(65536, row - start), "parity")
            if xxh3_64(data) != _r64(sums, 8 * (which * (k + 1) + k)):
                raise Damage(obj.key, f"wrong sum of the bytes at {place + start}")
            which += 1
        place += row


def verify_claim(cur, store, name):
    read_settings(cur, store.settings)
    cur.take(72)
    if cur.text16("name", 1, 80) != name:
        raise cur.bad("claim belongs to another name")
    cur.text16("host")
    cur.text16("program")


def verify_beat(cur, *_):
    cur.take(32)
    state = cur.u32()
    if state not in (1, 2):
        raise cur.unknown(f"state {state} of a beat is not known")
    cur.reserved(4)
    read_ref(cur)


def verify_catalogue(cur):
    count, last = cur.u64(), None
    cur.room(count, 64, "entries")
    for _ in range(count):
        generation, _, version, *_, state = cur.fields("IIQQQQQQII")
        if state not in (1, 2):
            raise cur.unknown(f"state {state} in a catalogue is not known")
        if last is not None and (generation, version) >= last:
            raise cur.bad("entries are not in key order")
        last = generation, version
    cur.end()


def version_number(text):
    if text == "latest":
        return None
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise ValueError
    return value


def main(argv=None):
    parser = argparse.ArgumentParser(prog="varve-read.py", description="read a Varve store (format version 1)",
                                     allow_abbrev=False)
    sub = parser.add_subparsers(dest="command", required=True)
    for command, function in (("ls", cmd_ls), ("show", cmd_show), ("restore", cmd_restore), ("verify", cmd_verify)):
        p = sub.add_parser(command, allow_abbrev=False)
        p.set_defaults(function=function)
        p.add_argument("store", metavar="STORE")
        p.add_argument("--key", metavar="SOURCE", help="of an encrypted store: file:PATH or env:NAME")
        if command == "ls":
            p.add_argument("--all", action="store_true", help="list tombstones too")
        if command in ("show", "restore"):
            p.add_argument("name", metavar="NAME")
            p.add_argument("version", metavar="VERSION", type=version_number,
                           nargs="?" if command == "show" else None, help="a number, or latest")
            p.add_argument("--generation", type=int, help="default: the highest that has the version")
        if command == "show":
            p.add_argument("--rank", type=int, help="only this rank")
        if command == "restore":
            p.add_argument("rank", metavar="RANK", type=int)
            p.add_argument("region", metavar="REGION", help="number or name")
            p.add_argument("-o", dest="output", metavar="FILE", required=True)
    args = parser.parse_args(argv)
    NOTED.clear()
    try:
        problems = args.function(Store(args.store, args.key), args)
        for text in dict.fromkeys(str(p) for p in problems):
            print("varve-read: " + printable(text), file=sys.stderr)
        sys.stdout.flush()
        return max((p.code for p in problems), default=0)
    except Refuse as e:
        print("varve-read: " + printable(str(e)), file=sys.stderr)
        return e.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as e:
        print(f"varve-read: {errno.errorcode.get(e.errno, '')} {printable(str(e))}", file=sys.stderr)
        return 1
    except Exception as e:      # a defect of this program; still one line
        if os.environ.get("VARVE_READ_TRACE"):
            raise
        print(f"varve-read: internal error: {type(e).__name__}: {printable(str(e))}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
