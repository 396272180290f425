#!/usr/bin/env python3
"""varve import of images that exist already: folders of criu, archives of podman and kubelet, files of DMTCP. All come
back byte for byte; what they have in common is stored once; what is damaged or means harm is kept as plain bytes."""
import gzip
import io
import json
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import tarfile
import tempfile
import unittest
import zlib

import client

VARVE = os.environ["VARVE"]
HERE = pathlib.Path(__file__).resolve().parent
CLIENT = str(HERE / "client.py")
PAGE = client.PAGE
IMAGES = 8 << 20  # bytes of pages in an archive


def images(seed, heap=64):
    os.environ.update(SEED=str(seed), HEAP=str(heap))
    return client.images()


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1700000000
    archive.addfile(info, io.BytesIO(data))


def tar_of(members, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as archive:
        for name, data in members.items():
            add(archive, name, data)
    return out.getvalue()


def text_of(words):
    rng = random.Random(7)
    known = ["%x" % rng.getrandbits(rng.randint(8, 40)) for _ in range(500)]
    return " ".join(rng.choices(known, k=words)).encode()


def container(seed, heap=IMAGES // PAGE):
    """An archive as podman makes it. Each SEED has another first page of the heap, other times and another file in its
    root; the members before the pages differ in length, so that no page lies where it was."""
    files = {"etc/hostname": b"box", "var/log/log": text_of(30000 * seed),
             "var/data": random.Random(4711).randbytes(200000)}
    members = {"config.dump": b"{}" * 300 * seed, "spec.dump": b"{}", "network.status": b"[]",
               "checkpoint/inventory.img": b"i" * 700 * seed}
    members.update(("checkpoint/" + name, data) for name, data in images(seed, heap).items() if name != "inventory.img")
    members["rootfs-diff.tar"] = tar_of(files)
    return tar_of(members, format=tarfile.PAX_FORMAT)


def gzip_of(data, level=6):
    out = io.BytesIO()
    with gzip.GzipFile("a.tar", "wb", level, out, mtime=1) as file:
        file.write(data)
    return out.getvalue()


def zstd_of(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


class Archive(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="varve-archive."))
        self.store = str(self.folder / "ck")
        self.environment = dict(os.environ, TMPDIR=str(self.folder))
        for name in ("VARVE_STORE", "VARVE_CONFIG"):
            self.environment.pop(name, None)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def varve(self, *arguments, **environment):
        return subprocess.run([VARVE, *arguments], env=dict(self.environment, **environment), capture_output=True, text=True)

    def stored(self, files, name="p"):
        """Import these files, see that they come back, and return the summary, with the notes."""
        source = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for path, data in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(data)
        done = self.varve("import", "--json", self.store, name, "-C", str(source), ".")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(self.exported(name), files)
        summary = [line for line in lines if line["message_type"] == "summary"][0]
        summary["told"] = [line["message"] for line in lines if line["message_type"] == "note"]
        return summary

    def exported(self, name="p", *paths):
        target = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = self.varve("export", self.store, name, "-C", str(target), *paths)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def regions(self, name="p"):
        done = self.varve("show", "--json", self.store, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line["region"] for line in map(json.loads, done.stdout.splitlines()) if line["message_type"] == "region"]


    def test_folder_of_criu_after_a_dump_of_the_same(self):
        done = self.varve("dump", self.store, "p", "--pid", "1", "--criu", CLIENT, SEED="1", HEAP="64")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = self.stored(images(1))
        self.assertLess(summary["bytes_stored"], 4096)
        self.assertIn("pages-1.img:heap@10000", self.regions())
        self.assertEqual(summary["told"], [])
        target = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.assertEqual(self.varve("undump", self.store, "p", "--to", str(target)).returncode, 0)
        self.assertEqual({path.name: path.read_bytes() for path in target.iterdir()}, images(1))

    def test_images_in_an_archive_after_a_dump_of_the_same(self):
        done = self.varve("dump", self.store, "p", "--pid", "1", "--criu", CLIENT, SEED="1", HEAP="512")
        self.assertEqual(done.returncode, 0, done.stderr)
        known = self.stored({"a.tar.gz": gzip_of(container(1, 512))})["bytes_known"]
        self.assertGreaterEqual(known, (512 + 16 + 3) * PAGE)
        self.assertIn("a.tar.gz+unpacked:checkpoint/pages-1.img/heap@10000", self.regions())
        self.assertIn("a.tar.gz+unpacked:rootfs-diff.tar/var/data", self.regions())

    def test_three_archives_of_a_container(self):
        archives = [container(seed) for seed in (1, 2, 3)]
        packed = sum(len(gzip_of(data)) for data in archives)
        for name, pack in (("tar", bytes), ("gz", gzip_of), ("zst", zstd_of)):
            stored = 0
            for number, data in enumerate(archives):
                summary = self.stored({"ck%d.%s" % (number, name): pack(data)}, name)
                self.assertEqual(summary["told"], [])
                stored += summary["bytes_stored"]
            self.assertLess(stored, 0.35 * packed, name)

    def test_recipes_of_gzip(self):
        data = container(1, 100)
        files = {"%d.tar.gz" % level: gzip_of(data, level) for level in range(1, 10)}
        head, body, tail = b"\x1f\x8b\x08\x1e\0\0\0\0\2\3\3\0abcname\0comment\0\1\2", files["9.tar.gz"][16:-8], files["9.tar.gz"][-8:]
        files["head.tgz"] = head + body + tail
        files["padded.tgz"] = files["1.tar.gz"] + b"\0" * 5000
        summary = self.stored(files)
        self.assertEqual(summary["told"], [])
        self.assertLess(summary["bytes_stored"], len(data) * 1.2)
        self.assertEqual(self.exported("p", "3.tar.gz+unpacked"), {"3.tar.gz+unpacked": data})
        self.assertEqual(self.exported("p", "3.tar.gz"), {"3.tar.gz": files["3.tar.gz"]})

    def test_recipes_of_zstd(self):
        data = container(1, 100)
        files = {"%d.zst" % i: zstd_of(data, *options.split())
                 for i, options in enumerate(("-1", "-3", "-9", "--no-check", "--single-thread", "-T2", "--stream-size=%d" % len(data)))}
        summary = self.stored(files)
        self.assertEqual(summary["told"], [])
        self.assertLess(summary["bytes_stored"], len(data) * 1.2)

    @staticmethod
    def gzip_of_another_bit():
        """As long as zlib makes it, with a bit set behind the end of the deflate stream that means nothing."""
        for size in range(20000, 20100):
            content = tar_of({"a": text_of(size)})
            packed = bytearray(gzip_of(content))
            if packed[-9] < 0x80:
                packed[-9] |= 0x80
                try:
                    if gzip.decompress(bytes(packed)) == content:
                        return bytes(packed)
                except (OSError, EOFError, zlib.error):
                    continue
        raise AssertionError("no stream ends within a byte")

    def test_what_cannot_be_packed_again_is_kept_and_told(self):
        data = container(1, 100)
        two = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
        body = two.compress(data) + two.flush()
        strange = b"\x1f\x8b\x08\0\0\0\0\0\0\3" + body + struct.pack("<II", zlib.crc32(data), len(data))
        self.assertEqual(gzip.decompress(strange), data)
        files = {"strange.tar.gz": strange, "19.zst": zstd_of(data, "-19"), "one-bit.tar.gz": self.gzip_of_another_bit()}
        self.assertEqual(len(self.stored(files)["told"]), 3)
        self.assertEqual(self.stored({"text.gz": gzip_of(b"no archive" * 10000)})["told"], [])

    def test_another_zlib_is_told_and_the_content_comes_back(self):
        data = container(1, 100)
        self.stored({"a.tar.gz": gzip_of(data), "b": b"b", "c.tar.gz": gzip_of(data, 1)})
        target = tempfile.mkdtemp(dir=self.folder)
        done = self.varve("export", self.store, "p", "-C", target, LD_PRELOAD=os.environ["OTHER_ZLIB"])
        self.assertNotEqual(done.returncode, 0)
        for path in ("a.tar.gz", "c.tar.gz"):  # one gets longer, one shorter
            self.assertIn(path + " cannot be given back: zlib", done.stderr)
        self.assertIn("+unpacked", done.stderr)
        self.assertEqual(os.listdir(target), ["b"])
        self.assertEqual(self.exported("p", "a.tar.gz+unpacked"), {"a.tar.gz+unpacked": data})

    def test_a_name_that_is_taken(self):
        data = gzip_of(container(1, 20))
        self.stored({"a.tar.gz": data, "a.tar.gz+unpacked": b"somebody's own"})

    def test_permissions_and_times(self):
        path = self.folder / "a.tgz"
        path.write_bytes(gzip_of(container(1, 20)))
        os.utime(path, ns=(1, 1600000000123456789))
        path.chmod(0o640)
        self.assertEqual(self.varve("import", self.store, "p", "-C", str(self.folder), "a.tgz").returncode, 0)
        self.assertIn(":packed", self.regions())
        (self.folder / "to").mkdir()
        self.assertEqual(self.varve("export", self.store, "p", "-C", str(self.folder / "to")).returncode, 0)
        stat = (self.folder / "to/a.tgz").stat()
        self.assertEqual((stat.st_mtime_ns, stat.st_mode & 0o777), (1600000000123456789, 0o640))

    # ---- DMTCP ----

    @staticmethod
    def dmtcp(seed, areas=None):
        """As DMTCP 4.1 writes it: each SEED has another inode in a description, and another page of the heap."""
        def area(address, size, name=b"", properties=0, file_size=0):
            return struct.pack("<11Q", address, address + size, size, 0, 3, 0x22, 8, seed, 77, file_size, properties).ljust(88, b"\0") + name.ljust(4008, b"\0")
        heap = random.Random(seed).randbytes(PAGE) + random.Random(0).randbytes(99 * PAGE)
        library = random.Random(5).randbytes(70001)
        out = [b"DMTCP_CHECKPOINT_IMAGE_v4.0\n".ljust(PAGE, b"\0")] * 2
        out += [area(0x700000, 70656, b"/lib/libx.so", 0, len(library)), library]
        out += [area(0x10000, 200 * PAGE, b"[heap]", 2), area(0x10000, 60 * PAGE, b"[heap]", 4), heap[:60 * PAGE],
                area(0x10000 + 60 * PAGE, 100 * PAGE, b"[heap]", 5), area(0x10000 + 160 * PAGE, 40 * PAGE, b"[heap]", 4),
                heap[60 * PAGE:]]
        out += areas or []
        return b"".join(out) + struct.pack("<QQQ", 0, 0, 2 ** 64 - 1).ljust(PAGE, b"\0")

    def test_dmtcp(self):
        first = self.dmtcp(1)
        self.assertEqual(self.stored({"ckpt_x.dmtcp": first})["told"], [])
        self.assertIn("ckpt_x.dmtcp:[heap]@10000", self.regions())
        self.assertIn("ckpt_x.dmtcp:libx.so@700000", self.regions())
        for files in ({"ckpt_x.dmtcp": self.dmtcp(2)}, {"ckpt_x.dmtcp.gz": gzip_of(self.dmtcp(3), 1)}):
            summary = self.stored(files)
            self.assertEqual(summary["told"], [])
            self.assertLess(summary["bytes_stored"], 8 * PAGE)

    # ---- what means harm ----

    def hostile_tars(self):
        good = container(1, 40)
        yield good[:100000]
        yield good[:-10240]
        for number in (b"77777777777\0", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"-1\0" + b" " * 9, b"\0" * 12):
            block = bytearray(good[:512])
            block[124:136] = number
            block[148:156] = b"%06o\0 " % (sum(block[:148]) + 8 * 32 + sum(block[156:]))
            yield bytes(block) + good[512:]
        yield tar_of({"../../../etc/passwd": b"x" * 70000, "/etc/shadow": b"y" * 70000, "a\n\x1b[31mb": b"z" * 70000})
        yield tar_of({"n" * 5000: b"x" * 70000, "dir/" * 3000 + "f": b"y" * 70000}, format=tarfile.GNU_FORMAT)
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
                info = tarfile.TarInfo("checkpoint/pages-1.img")
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
            info = tarfile.TarInfo("big")
            info.size, info.pax_headers = 70000, {"size": "18446744073709551615", "path": "p" * 60000}
            archive.addfile(info, io.BytesIO(b"q" * 70000))
        yield out.getvalue()
        yield tar_of({"a.tar": tar_of({"b.tar": tar_of({"c.tar": tar_of({"d": b"d" * 70000})})})})

    def test_hostile_archives(self):
        for number, data in enumerate(self.hostile_tars()):
            with self.subTest(number):
                self.stored({"a.tar": data, "a.tar.gz": gzip_of(data)}, "n%d" % number)

    def test_damaged_gzip(self):
        good = gzip_of(container(1, 40))
        broken = bytearray(good)
        broken[-300:-200] = bytes(100)
        for number, data in enumerate((good[:-1], good[:-8], good[:5000], good[:11], good + good, bytes(broken),
                                       zstd_of(container(1, 40))[:-9])):
            summary = self.stored({"a.tar.gz": data}, "g%d" % number)
            self.assertEqual(len(summary["told"]), 1 if len(data) > 600 else 0, number)

    def test_bombs(self):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        head = tarfile.TarInfo("zeros")
        head.size = 1 << 32
        bomb = packer.compress(head.tobuf()) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
        summary = self.stored({"bomb.tar.gz": bomb})
        self.assertIn("too large", summary["told"][0])
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 400000)

    def test_hostile_lists(self):
        number, message, image = client.number, client.message, client.image
        run = lambda address, pages: number(1, address) + number(2, pages) + number(4, 4)
        good = images(1, 64)
        lists = [[number(1, 1)] + [run(0x10000, 40), run(0x10000, 43)],  # overlap
                 [number(1, 1)] + [run(0x10000, 1 << 60)],
                 [number(1, 1)] + [run(0xfffffffffffff000, 83)],
                 [number(1, 1)] + [run(0x10000, 0)] * 20000,
                 [number(1, 1), b"\xff" * 9], [message(1, b"x" * 100)] * 9, []]
        bomb = b""
        for _ in range(2000):
            bomb = message(14, bomb)
        for which, entries in enumerate(lists):
            self.stored(dict(good, **{"pagemap-77.img": image(0x56084025, entries)}), "l%d" % which)
        for which, entry in enumerate((bomb, message(14, run(0, 1)) * 30000, b"\x72\xff\xff\xff\xff\x0f", b"")):
            self.stored(dict(good, **{"mm-77.img": image(0x57492820, [entry])}), "m%d" % which)
        self.stored(dict(good, **{"mm-77.img": b"\x19\x43\x56\x54 \x28\x49\x57\xff\xff\xff\xff"}), "m")

    def test_hostile_dmtcp(self):
        good = self.dmtcp(1)
        for number, at in enumerate((16, 72, 80)):
            data = bytearray(good)
            data[2 * PAGE + at:2 * PAGE + at + 8] = struct.pack("<Q", 2 ** 63 + 5)
            self.assertLessEqual(len(self.stored({"a.dmtcp": bytes(data)}, "d%d" % number)["told"]), 1)
        for number, size in enumerate((28, 5000, 2 * PAGE, 3 * PAGE, len(good) - PAGE)):
            self.stored({"a.dmtcp": good[:size]}, "e%d" % number)


if __name__ == "__main__":
    unittest.main()
