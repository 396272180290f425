#!/usr/bin/env python3
"""The manual pages of section 3 and the headers say the same: check-pages.py INCLUDE_FOLDER PAGES_FOLDER MAN3_FOLDER

Every function of the headers is declared in exactly these words in a page of PAGES_FOLDER (*.3.scd) and has a page or a link in
MAN3_FOLDER; every declaration in a page is in a header; every member of a struct is spoken of; every error has its number."""
import pathlib
import re
import sys


def squeeze(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^ *#.*$", " ", text, flags=re.M)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"\s*([(){};,*])\s*", r"\1", text)


def functions(text):
    """Declarations outside structs, without comments and line ends."""
    text = re.sub(r"struct \w+ ?\{.*?\};", "", squeeze(text), flags=re.S)
    text = re.sub(r"static inline (.*?\))\{.*?\}", r"\1;", text)
    return set(re.findall(r"(?:const )?\w+(?: \w+)?[ *]varve_\w+\([^()]*\);", text))


def members(text):
    for name, body in re.findall(r"struct (varve_\w+)\{(.*?)\};", squeeze(text)):
        for declaration in filter(None, body.split(";")):
            yield name, re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$", declaration).group(1, 2)


def check(headers, pages, man3):
    wrong = []
    told = {}
    for page in pages:
        blocks = re.findall(r"^```$(.*?)^```$", page.split("# DESCRIPTION")[0], flags=re.S | re.M)
        for declaration in functions(" ".join(blocks)):
            told[declaration] = page.split("(", 1)[0]
    words = " ".join(pages)
    declared = set()
    for header in headers:
        declared |= functions(header.replace("VARVE_API", ""))
        for struct, names in members(header):
            name = names[0] or names[1]
            if not re.search(rf"_{name}_|\b{name}\b", words):
                wrong.append(f"member {name} of struct {struct} is in no page")
        for name, number in re.findall(r"X\((\w+), (-\d+),", header):
            if f"*VARVE_{name}* ({number})" not in words:
                wrong.append(f"VARVE_{name} ({number}) is in no page")
    wrong += [f"in no page: {one}" for one in declared - set(told)]
    wrong += [f"{told[one]}(3) has what no header has: {one}" for one in set(told) - declared]
    for one in declared:
        name = re.search(r"(varve_\w+)\(", one).group(1)
        if not (man3 / f"{name}.3").exists():
            wrong.append(f"man 3 {name} would find nothing")
    return declared, wrong


def main():
    include, folder, man3 = map(pathlib.Path, sys.argv[1:])
    headers = [path.read_text() for path in sorted(include.glob("varve/*.h"))]
    pages = [path.read_text() for path in sorted(folder.glob("*.3.scd"))]
    declared, wrong = check(headers, pages, man3)
    for line in sorted(wrong):
        print(line)
    print(f"{len(declared)} functions, {len(pages)} pages, {len(wrong)} differences")
    return 1 if wrong or not declared else 0


sys.exit(main())
