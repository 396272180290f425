#!/usr/bin/env python3
"""Fails when an error or a note is too long to be read where it appears.

    texts.py ROOT        checks every text that is handed to a function which formats it for people, as it is written
    texts.py --self-test plants a long text and expects to find it"""
import pathlib
import re
import sys
import tempfile

MOST = 200  # characters, before anything is filled in
FOLDERS = ("src", "include", "veloc", "fortran")
ATTRIBUTE = r"__attribute__\(\((?:format\(printf[^)]*\)[, \w]*)\)\)"
# A function that formats, with the attribute before or behind its name.
BEHIND = re.compile(r"\b(\w+)\((?:[^;{}()]|\([^()]*\))*?\)\s*" + ATTRIBUTE)
BEFORE = re.compile(ATTRIBUTE + r"\s*[\w\s*]*?\b(\w+)\(")
PLAIN = {"fprintf", "snprintf"}
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
# Parts that the compiler joins, and the names that stand between them (PRIu64).
TEXT = re.compile(rf"{LITERAL}(?:\s*(?:[A-Z]\w+\s*)?{LITERAL})*")


def without_comments(text):
    return re.sub(rf"({LITERAL})|/\*.*?\*/|//[^\n]*", lambda m: m.group(1) or re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).glob("**/*.[ch]")):
            yield path, without_comments(path.read_text(errors="replace"))


def arguments(text, at):
    """What is between the bracket at this place and the one that closes it."""
    depth = 0
    for match in re.compile(rf"{LITERAL}|[()]").finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return text[at:match.start()]
    return text[at:]


def length(text):
    return sum(len(re.sub(r"\\.", "_", part)) - 2 for part in re.findall(LITERAL, text))


def check(root):
    texts = list(sources(root))
    names = PLAIN | {name for _, text in texts for rule in (BEHIND, BEFORE) for name in rule.findall(text)}
    wrong, count = [], 0
    for path, text in texts:
        for call in re.finditer(rf"\b(?:{'|'.join(sorted(names))})(?=\()", text):
            for found in TEXT.finditer(arguments(text, call.end())):
                count += 1
                if length(found.group()) > MOST:
                    line = text.count("\n", 0, call.start()) + 1
                    wrong.append(f"{path.relative_to(root)}:{line}: {length(found.group())} characters; a text has at most {MOST}")
    return wrong, count, names


def self_test():
    head = "int tell(int a, const char *f, ...) __attribute__((format(printf, 2, 3)));\n"
    long = "x" * 120 + '"\n        " (at %" PRIu64 ") ' + "y" * 80
    planted = {
        "tell(1, \"" + long + '", 1ul);': 1,
        'tell(f(2), a ? "short" : "' + long + '");': 1,
        'tell(1, "' + "x" * MOST + '");': 0,
        '/* tell(1, "' + long + '") */': 0,
        'help("' + long + '");': 0,
    }
    for text, wanted in planted.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src").mkdir()
            (root / "src/a.h").write_text(head)
            (root / "src/a.c").write_text(f"void f(void) {{\n    {text}\n}}\n")
            assert len(check(root)[0]) == wanted, (text, check(root))
    print(f"{len(planted)} planted texts judged")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    wrong, count, names = check(pathlib.Path(sys.argv[1]))
    print("\n".join(wrong) or f"{count} texts of {len(names)} functions have at most {MOST} characters")
    return 1 if wrong or count < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
