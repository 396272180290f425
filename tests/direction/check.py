#!/usr/bin/env python3
"""Fails when an include runs against the direction table of src/CMakeLists.txt.

The table is the USES list of each varve_folder(); mpi/, device/, files/ and cli/ may use public headers only, and
cli/ those of files/. The third column of src/README.md
must say the same. `check.py ROOT` checks a tree and prints who includes whom; `check.py --self-test` plants wrong
includes in a small tree and expects to find exactly those."""
import pathlib
import re
import sys
import tempfile

OUTSIDE = {"mpi": [], "device": [], "files": [], "cli": ["files"]}  # not part of the library, and whom of each other they use
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
    if name.endswith("_private.h"):
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
        "src/device/f.c": '#include <varve/varve_device.h>\n',
        "src/cli/d.c": '#include "cli/d.h"\n#include "files/e.h"\n#include <varve/varve.h>\n',
    }
    planted = [
        ("src/base/wrong.c", '#include "store/c.h"\n'),
        ("src/format/wrong.c", '#  include <store/c.h>\n'),
        ("src/store/wrong.c", '#include "format/b_private.h"\n'),
        ("src/store/wrong.h", '#include "base_a.h"\n'),
        ("src/store/wrong_folder.c", '#include "stroe/c.h"\n'),
        ("src/cli/wrong.c", '#include "base/a.h"\n'),
        ("src/files/wrong.c", '#include "cli/d.h"\n'),
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


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    uses, counts, wrong = check(pathlib.Path(sys.argv[1]))
    show(uses, counts)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
