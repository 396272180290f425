"""make_hostile.py GOOD BAD SEED: damages the files below GOOD in about a hundred ways, and writes others that were never good."""
import os
import random
import struct
import sys

good, bad = sys.argv[1:3]
dice = random.Random(int(sys.argv[3]))
os.makedirs(bad, exist_ok=True)
count = 0


def write(name, data):
    global count
    count += 1
    with open(os.path.join(bad, f"{count:03d}-{name}"), "wb") as file:
        file.write(data)


def flipped(data, flips, below):
    data = bytearray(data)
    for _ in range(flips):
        data[dice.randrange(min(below, len(data)))] = dice.choice([0, 1, 0x7f, 0x80, 0xff, dice.randrange(256)])
    return bytes(data)


def metadata(data):
    """Where an HDF5 file keeps what it knows about itself: damage there is what hurts."""
    places = []
    for mark in b"TREE", b"OHDR", b"SNOD", b"HEAP", b"FRHP", b"FADB", b"FAHD", b"EAHD", b"EADB", b"BTHD", b"OCHK":
        at = data.find(mark)
        while at >= 0:
            places.append(at)
            at = data.find(mark, at + 1)
    return places


def damage(name, data):
    for _ in range(2):
        write("cut-" + name, data[:dice.randrange(len(data))])
    write("start-" + name, flipped(data, 3, 600))
    write("all-" + name, flipped(data, 200, len(data)))
    places = metadata(data)
    for _ in range(8 if places else 0):
        at = dice.choice(places) + dice.randrange(4, 200)
        write("inside-" + name, data[:at] + bytes([dice.choice([0, 1, 0x7f, 0xff])]) + data[at + 1:])
    write("longer-" + name, data + b"\0" * 10000)


def classic(dims, variables, records=0):
    def name(text):
        return struct.pack(">I", len(text)) + text + b"\0" * (-len(text) % 4)
    out = b"CDF\2" + struct.pack(">III", records, 10, len(dims))
    for i, length in enumerate(dims):
        out += name(b"d%d" % i) + struct.pack(">I", length)
    out += struct.pack(">IIII", 0, 0, 11, len(variables))
    for i, (ids, kind, begin) in enumerate(variables):
        out += name(b"v%d" % i) + struct.pack(">I", len(ids)) + struct.pack(f">{len(ids)}I", *ids)
        out += struct.pack(">IIIIQ", 0, 0, kind, 0, begin)
    return out.ljust(20000, b"x")


for folder, _, names in sorted(os.walk(good)):
    for one in sorted(names):
        if one.endswith((".h5", ".nc")):
            with open(os.path.join(folder, one), "rb") as file:
                damage(one, file.read())
signature = b"\x89HDF\r\n\x1a\n"
write("signature", signature)
write("signature-behind", b"\0" * 512 + signature + b"\0" * 100)
write("signature-zeros", signature + b"\0" * 5000)
write("signature-ones", signature + b"\xff" * 5000)
write("overlap.nc", classic([1000], [([0], 6, 1000), ([0], 6, 1000), ([0], 6, 5000)]))
write("behind.nc", classic([1000], [([0], 6, 1 << 60), ([0], 6, 19000)]))
write("huge.nc", classic([0xffffffff] * 4, [([0, 1, 2, 3], 6, 1000)]))
write("records.nc", classic([0, 1], [([0, 1], 1, 1000), ([0, 1], 1, 1004)], 0xfffffffe))
write("streamed.nc", classic([0, 1], [([0, 1], 1, 1000), ([0, 1], 1, 1004)], 0xffffffff))
write("itself.nc", classic([0, 1000], [([0, 1], 1, 0), ([0, 1], 1, 1)], 10))
write("many.nc", b"CDF\5" + b"\xff" * 100)
write("dims.nc", b"CDF\1" + struct.pack(">III", 0, 10, 0xffffffff))
print(f"{count} files")
