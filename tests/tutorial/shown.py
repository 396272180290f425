#!/usr/bin/env python3
"""What the tutorial shows is what its commands print: shown.py TUTORIAL.md TOLD

Every line of a ```text block must be among the lines of TOLD, in the order of the block. Numbers, sizes, times, codecs and whether a
range is exact depend on the machine: they are compared as placeholders, but where a line is about a step, version or exit code the
number counts. "..." stands for anything, at the end of a line or as lines of its own."""
import re
import sys

CODECS = r"\b(?:none|lz4|zstd|lz4-zstd|(?:bit)?shuffle-(?:lz4|zstd)|delta-(?:lz4|zstd)|xor-zstd|rotate-zstd|fpzip|zfp)\b"


def plain(line):
    line = re.sub(r"\b(step|@|exit code) ?(\d+)", lambda m: m.group(1) + m.group(2).translate(str.maketrans("0123456789", "abcdefghij")), line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line)
    line = re.sub(CODECS, "CODEC", line)
    line = re.sub(r"\bwithin ", "", line)
    line = re.sub(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "#", line)
    line = re.sub(r"# (?:B|KiB|MiB|GiB)\b", "SIZE", line)
    return " ".join(line.split())


def blocks(path):
    inside, lines = False, []
    for line in open(path):
        if inside and line.startswith("```"):
            yield lines
            inside, lines = False, []
        elif inside:
            lines.append(line.rstrip("\n"))
        inside = inside or line.rstrip() == "```text"


def is_shown(wanted, line):
    return line.startswith(wanted[:-3].rstrip()) if wanted.endswith("...") else line == wanted


def main(tutorial, told):
    printed = [plain(line) for line in open(told, errors="replace")]
    wrong = count = 0
    for block in blocks(tutorial):
        at = 0
        for line in block:
            if line.strip() == "...":
                continue
            count += 1
            found = next((i for i in range(at, len(printed)) if is_shown(plain(line), printed[i])), None)
            if found is None:
                wrong += 1
                print(f"the tutorial shows, and no command prints: {line}")
            else:
                at = found + 1
    print(f"{count} lines are shown, {wrong} of them are not printed")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
