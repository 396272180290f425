#!/usr/bin/env python3
"""Fails when an include or a call runs against the direction table of src/CMakeLists.txt.

The table is the USES list of each varve_folder(). The third column of src/README.md must be the same. mpi/, env/, s3/,
rados/, cipher/, device/, preload/, files/, process/, archive/, terminal/, analyze/, report/, transfer/ and cli/ may use
public headers only, process/ those of files/, gate/ those of process/, archive/ those of both, analyze/ and report/
those of files/ and terminal/, transfer/ those of terminal/, and cli/ those of the seven.

    check.py ROOT            includes of a tree; prints a table of them
    check.py ROOT OBJECTS    also calls, from the symbols of the object files below OBJECTS; prints for each folder
                             the largest circle of files that call each other
    check.py --self-test     plants mistakes in a small tree and expects to find exactly those"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Not part of the library, and whom of each other they use.
OUTSIDE = {"mpi": [], "env": [], "s3": [], "rados": [], "cipher": [], "device": [], "preload": [], "files": [],
           "process": ["files"], "gate": ["process"], "archive": ["files", "process"], "terminal": [], "analyze": ["files", "terminal"],
           "report": ["files", "terminal"], "transfer": ["terminal"],
           "cli": ["files", "process", "archive", "analyze", "report", "transfer", "terminal"]}
CIRCLE = 4  # files of a folder that may call each other in one
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_uses(root):
    text = (root / "src/CMakeLists.txt").read_text()
    uses = {}
    for name, rest in re.findall(r"^varve_folder\((\w+)([^)]*)\)", text, re.M):
        uses[name] = set(rest.split()) - {"USES"}
    return uses


def read_readme(root):
    """The same table as src/README.md tells it."""
    rows = re.findall(r"^\| (\w+) \|[^|]*\| ([^|]*) \|$", (root / "src/README.md").read_text(), re.M)
    told, above = {}, set()
    for name, words in rows:
        if words == "may include" or name in OUTSIDE:
            continue
        told[name] = set(above) if words == "all above" else set(re.findall(r"\w+", words.replace("nothing of ours", "")))
        above.add(name)
    return told


def judge(path, mark, target, uses):
    """Why this include is wrong, or None; and the folder it leads to, or None."""
    folder = path.parent.name
    if target.startswith("varve/"):
        return None, None
    head, slash, name = target.partition("/")
    if not slash:
        is_own = mark == "<" or (path.parent / target).exists()
        return (None if is_own else f'"{target}" does not name its folder'), None
    if head not in uses and head not in OUTSIDE:
        return ('no such folder' if mark == '"' else None), None
    if head == folder:
        return None, head
    if folder in OUTSIDE:
        return (None if head in OUTSIDE[folder] else f"{folder} uses public headers only"), head
    if head not in uses.get(folder, set()):
        return f"{folder} may not include {head}", head
    if name.endswith("private.h"):
        return f"{name} is for {head} alone", head
    return None, head


def check(root):
    uses = read_uses(root)
    counts, wrong = {}, []
    for path in sorted((root / "src").glob("*/*.[ch]")):
        for mark, target in INCLUDE.findall(path.read_text()):
            reason, head = judge(path, mark, target, uses)
            if head:
                counts[path.parent.name, head] = counts.get((path.parent.name, head), 0) + 1
            if reason:
                wrong.append(f"{path.relative_to(root)} includes {target}: {reason}")
    for name, used in uses.items():
        wrong += [f"src/CMakeLists.txt: {name} uses {other}, which comes later or is itself"
                  for other in used if list(uses).index(other) >= list(uses).index(name)]
    if read_readme(root) != uses:
        wrong.append("src/README.md and src/CMakeLists.txt tell different tables")
    return uses, counts, wrong


def read_symbols(paths):
    """{path: what an object file defines for others, and what it needs}"""
    symbols = {path: (set(), set()) for path in map(str, paths)}
    for line in subprocess.run(["nm", "-A", *symbols], check=True, capture_output=True, text=True).stdout.splitlines():
        path, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind in "TDBRCVWU":
            symbols[path][kind == "U"].add(name)
    return symbols


def read_calls(objects, uses, sources=None):
    """{(folder, file): {(folder, file): a symbol}}: whom each file calls, or whose data it uses. Objects of files that are
    not below `sources` any more do not count."""
    files, needs, owners = {}, {}, {}
    for path in sorted(objects.glob("**/*.c.o")):
        file = path.parent.name, path.name[:-2]
        is_there = not sources or (sources / file[0] / file[1]).exists()
        if is_there and file[0] in uses and f"varve_{file[0]}.dir" in path.parts:
            files[str(path)] = file
    for path, (defined, needed) in read_symbols(files).items() if files else ():
        needs[files[path]] = needed
        owners.update((name, files[path]) for name in defined)
    return {file: {owners[name]: name for name in sorted(needed) if owners.get(name, file) != file}
            for file, needed in needs.items()}


def judge_calls(calls, uses):
    return [f"src/{file[0]}/{file[1]} calls {name} of {other[1]}: {file[0]} may not use {other[0]}"
            for file, others in calls.items() for other, name in others.items()
            if other[0] != file[0] and other[0] not in uses[file[0]]]


def reach(file, calls):
    """All files of its folder that it calls, and that those call."""
    found, open_files = set(), [file]
    while open_files:
        for other in calls[open_files.pop()]:
            if other[0] == file[0] and other not in found:
                found.add(other)
                open_files.append(other)
    return found


def largest_circles(calls):
    """{folder: the names of most files that all reach each other}; a folder without a circle has one file."""
    reached = {file: reach(file, calls) for file in calls}
    circles = collections.defaultdict(list)
    for file in sorted(calls):
        circle = sorted({file[1]} | {other[1] for other in reached[file] if file in reached[other]})
        circles[file[0]] = max(circles[file[0]], circle, key=len)
    return circles


def check_calls(objects, uses, sources=None):
    calls = read_calls(objects, uses, sources)
    if {file[0] for file in calls} != set(uses):
        return [f"{objects} has no object files of all folders"]
    wrong = judge_calls(calls, uses)
    for folder, circle in largest_circles(calls).items():
        if len(circle) > CIRCLE:
            wrong.append(f"src/{folder}: {len(circle)} files call each other in a circle; at most {CIRCLE}")
        print(f"{folder:<11}" + (f"largest circle {len(circle)}: {' '.join(circle)}" if len(circle) > 1 else "no circle"))
    return wrong


def show(uses, counts):
    names = list(uses) + list(OUTSIDE)
    print("includes   " + "".join(f"{name:>9}" for name in names))
    for name in names:
        print(f"{name:<11}" + "".join(f"{counts.get((name, other), '.'):>9}" for other in names))


def self_test():
    files = {
        "src/CMakeLists.txt": "varve_folder(base)\nvarve_folder(format USES base)\nvarve_folder(store USES base format)\n",
        "src/README.md": "| folder | for | may include |\n|---|---|---|\n| base | x | nothing of ours |\n"
                         "| format | x | base |\n| store | x | all above |\n",
        "src/base/a.h": "",
        "src/base/a.c": '#include "base/a.h"\n#include <stdio.h>\n#include <sys/mman.h>\n#include <varve/varve_error.h>\n',
        "src/format/b_private.h": "",
        "src/format/b.c": '#include "base/a.h"\n#include "format/b_private.h"\n#include "b_private.h"\n',
        "src/store/c.c": '#include "format/b.h"\n',
        "src/files/e.h": "",
        "src/terminal/g.h": "",
        "src/device/f.c": '#include <varve/varve_device.h>\n',
        "src/cli/d.c": '#include "cli/d.h"\n#include "files/e.h"\n#include "terminal/g.h"\n#include <varve/varve.h>\n',
    }
    planted = [
        ("src/base/wrong.c", '#include "store/c.h"\n'),
        ("src/format/wrong.c", '#  include <store/c.h>\n'),
        ("src/store/wrong.c", '#include "format/b_private.h"\n'),
        ("src/store/wrong.c", '#include "format/private.h"\n'),
        ("src/store/wrong.h", '#include "base_a.h"\n'),
        ("src/store/wrong_folder.c", '#include "stroe/c.h"\n'),
        ("src/cli/wrong.c", '#include "base/a.h"\n'),
        ("src/files/wrong.c", '#include "cli/d.h"\n'),
        ("src/terminal/wrong.c", '#include "cli/d.h"\n'),
        ("src/device/wrong.c", '#include "base/a.h"\n'),
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        assert check(root)[2] == [], check(root)[2]
        for name, text in planted:
            (root / name).write_text(text)
            wrong = check(root)[2]
            assert len(wrong) == 1 and wrong[0].startswith(name), (name, wrong)
            (root / name).unlink()
        (root / "src/README.md").write_text(files["src/README.md"].replace("all above", "base"))
        assert len(check(root)[2]) == 1
        (root / "src/README.md").write_text(files["src/README.md"].replace("nothing of ours", "store"))
        (root / "src/CMakeLists.txt").write_text(files["src/CMakeLists.txt"].replace("(base)", "(base USES store)"))
        assert len(check(root)[2]) == 1
    print(f"{len(planted) + 2} planted mistakes found")
    self_test_calls()


def self_test_calls():
    """Three files in a circle, and a call from base up into format."""
    files = {
        "base/a.c": "int b(void); int a(void) { return b(); }",
        "base/b.c": "int c(void); int b(void) { return c(); }",
        "base/c.c": "int a(void); int c(void) { return a(); }",
        "base/up.c": "int d(void); int up(void) { return d(); }",
        "format/d.c": "int a(void); int d(void) { return a(); }",
    }
    uses = {"base": set(), "format": {"base"}}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, f"varve_{name.split('/')[0]}.dir", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            subprocess.run([shutil.which("cc") or "gcc", "-c", path, "-o", f"{path}.o"], check=True)
        calls = read_calls(pathlib.Path(folder), uses)
        wrong = judge_calls(calls, uses)
        assert wrong == ["src/base/up.c calls d of d.c: base may not use format"], wrong
        circles = largest_circles(calls)
        assert circles["base"] == ["a.c", "b.c", "c.c"] and circles["format"] == ["d.c"], circles
        assert check_calls(pathlib.Path(folder), {"base": set(), "format": set(), "store": set()})
    print("one call that runs back and one circle found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    uses, counts, wrong = check(pathlib.Path(sys.argv[1]))
    show(uses, counts)
    if len(sys.argv) > 2:
        wrong += check_calls(pathlib.Path(sys.argv[2]), uses, pathlib.Path(sys.argv[1]) / "src")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
