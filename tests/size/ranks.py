"""How sizes grow with the number of ranks: ranks.py FILE, with lines "STORAGE.WHAT RANKS BYTES" as ranks-job prints them.

Fits a line through the sizes of each thing (least squares) and prints its slope, in bytes per rank. Fails when one is over its bound:

  object.writers   64: the entry of a writer
  count.pack       one pack per rank and checkpoint
  heap, small      a rank may hold writers lists while it reads or makes them: entries of one or two, and the bytes of one, in a buffer that is
                   doubled when it is full; and about 125 bytes per partner while ranks ask each other for duplicates: here all ranks are on one node,
                   so all are partners (with many nodes there are a node's ranks and two square roots of the nodes)
  everything else  nothing; a byte or so in all, where a number is written with as many bytes as it needs
"""
import sys

ENTRY = 64
PARTNER = 128
HEAP = 4 * ENTRY + PARTNER
NOTHING = 0.05
DIGITS = 16  # of decimal numbers that sum up all ranks; the log has 256 KiB at the most, however many there are

MUST_BE_THERE = [kind + "." + what for kind in ("count", "object")
                 for what in ("store", "claim", "beat", "record", "writers", "pack", "catalogue")]


def bound(group, what, checkpoints):
    if (group, what) == ("object", "writers"):
        return ENTRY
    if (group, what) == ("count", "pack"):
        return checkpoints
    if (group, what) == ("object", "log"):
        return DIGITS
    return HEAP if group in ("heap", "small") else NOTHING


def slope(points):
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    across = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / across


def read(path):
    sizes = {}
    with open(path) as lines:
        for line in lines:
            what, ranks, size = line.split()
            sizes.setdefault(what, {})[int(ranks)] = int(size)
    return sizes


def check_complete(sizes, numbers):
    missing = [what for what in MUST_BE_THERE if "shared." + what not in sizes]
    missing += [what for what in sizes if sorted(sizes[what]) != numbers]
    if missing or len(numbers) < 3:
        sys.exit("not told for three numbers of ranks: " + " ".join(missing))


def main():
    sizes = read(sys.argv[1])
    numbers = sorted({number for points in sizes.values() for number in points})
    check_complete(sizes, numbers)
    failed = 0
    print("%-26s %s %10s %8s" % ("bytes, with so many ranks", "".join("%10d" % n for n in numbers), "per rank", "at most"))
    for name in sorted(sizes):
        storage, group, what = name.split(".", 2)
        points = sorted(sizes[name].items())
        grows, most = slope(points), bound(group, what, sizes[storage + ".count.record"][numbers[0]])
        over = grows > most + 1e-6
        failed += over
        print("%-26s %s %10.3f %8g%s" % (name, "".join("%10d" % size for _, size in points), grows, most,
                                         "  OVER" if over else ""))
    if failed:
        sys.exit("%d sizes grow with the number of ranks more than they may" % failed)


main()
