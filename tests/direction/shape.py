#!/usr/bin/env python3
"""Fails when the tree outgrows its bounds.

    shape.py ROOT        checks a tree
    shape.py --self-test plants each mistake in a small tree and expects to find exactly that one"""
import collections
import pathlib
import re
import sys
import tempfile

FOLDER_LINES = 4500
HEADER_LINES = 250
CODE_COLUMNS = 120
MARKDOWN_COLUMNS = 100
SAME_STATIC = 4  # files that may have a static function of one name
MEMBERS = {"vv_session": 14, "vv_save": 14}
STATIC = re.compile(r"^static (?!const|inline|struct \w+ \w+ =)[^;={}()]*?\b(\w+)\((?![^;{]*;)", re.M)
STRUCT = re.compile(r"^struct (\w+) \{", re.M)


def lines_of(path):
    return path.read_text(errors="replace").split("\n")[:-1]


def sources(root, *folders):
    return [path for folder in folders for path in sorted((root / folder).glob("**/*.[ch]"))]


def check_sizes(root):
    for folder in sorted((root / "src").iterdir()):
        count = sum(len(lines_of(path)) for path in folder.glob("*.[ch]")) if folder.is_dir() else 0
        if count > FOLDER_LINES:
            yield f"{folder.relative_to(root)}: {count} lines; a folder has at most {FOLDER_LINES}"
    for path in sources(root, "src"):
        count = len(lines_of(path))
        if path.suffix == ".h" and count > HEADER_LINES:
            yield f"{path.relative_to(root)}: {count} lines; a header has at most {HEADER_LINES}"


def check_columns(root):
    for path in sources(root, "src", "include", "tests", "bench", "examples", "fortran", "veloc"):
        for number, line in enumerate(lines_of(path), 1):
            if len(line) > CODE_COLUMNS:
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; code has at most {CODE_COLUMNS}"
    for path in sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md")) + sorted(root.glob("examples/**/*.md")):
        is_code = False
        for number, line in enumerate(lines_of(path), 1):
            is_code ^= line.startswith("```")
            is_table = line.lstrip().startswith("|")
            if len(line) > MARKDOWN_COLUMNS and not is_table and not is_code and " " in line.strip():
                yield f"{path.relative_to(root)}:{number}: {len(line)} columns; Markdown has at most {MARKDOWN_COLUMNS}"


def check_names(root):
    structs, statics = collections.defaultdict(set), collections.defaultdict(set)
    for path in sources(root, "src"):
        text = path.read_text()
        for name in STRUCT.findall(text):
            if name.startswith(("vv_", "varve_")):
                structs[name].add(str(path.relative_to(root)))
        for name in STATIC.findall(text):
            statics[name].add(str(path.relative_to(root)))
    for name, files in sorted(structs.items()):
        if len(files) > 1:
            yield f"struct {name} is defined {len(files)} times: {' '.join(sorted(files))}"
    for name, files in sorted(statics.items()):
        if len(files) > SAME_STATIC:
            yield f"static {name} is in {len(files)} files; a backtrace cannot be read: {' '.join(sorted(files))}"


def check_members(root):
    """Each member of the large structs has its owner in a comment."""
    for path in sources(root, "src"):
        text = path.read_text()
        for name, most in MEMBERS.items():
            found = re.search(rf"^struct {name} \{{\n(.*?)^\}};$", text, re.M | re.S)
            members = found.group(1).strip("\n").split("\n") if found else []
            if len(members) > most:
                yield f"struct {name} has {len(members)} members; at most {most}"
            for line in members:
                if "/*" not in line:
                    yield f"struct {name}: {line.strip()} has no owner in a comment"


def check(root):
    return [mistake for rule in (check_sizes, check_columns, check_names, check_members) for mistake in rule(root)]


def self_test():
    save = "struct vv_save {\n" + "    int a; /* x.c */\n" * 14 + "};\n"
    files = {"src/a/a.h": save, "src/a/a.c": "static int f(void) {\n    return 0;\n}\n", "docs/a.md": "text\n"}
    planted = {
        "src/a/long.c": "\n" * FOLDER_LINES,
        "src/a/long.h": "\n" * (HEADER_LINES + 1),
        "tests/wide.c": "x" * (CODE_COLUMNS + 1) + "\n",
        "docs/wide.md": "x " * 60 + "\n",
        "src/a/twice.h": save.replace("};", "    int b; /* x.c */\n};").replace("vv_save", "vv_session"),
        "src/a/nobody.h": "struct vv_session {\n    int b;\n};\n",
        "src/a/same.h": "struct vv_save {\n    int a; /* x.c */\n};\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        assert check(root) == [], check(root)
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
            assert len(check(root)) == 1, (name, check(root))
            (root / name).unlink()
        for i in range(SAME_STATIC):
            (root / f"src/a/s{i}.c").write_text(files["src/a/a.c"])
        assert len(check(root)) == 1, check(root)
    print(f"{len(planted) + 1} planted mistakes found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    wrong = check(pathlib.Path(sys.argv[1]))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
