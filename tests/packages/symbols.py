#!/usr/bin/env python3
"""What the libraries export is what was promised: symbols.py SOURCE LIBRARY...

debian/*.symbols (and UNPACKAGED below) has every symbol with the version of Varve that brought it, and its library's SONAME. A symbol that is missing, or has
another version of the linker's, breaks programs that were built before. A new one must be written down. Where git knows a tag
vX.Y.Z, nothing of the newest one may be missing there, unless the SONAME changed.
"""
import pathlib
import re
import subprocess
import sys

# In no package, so in no debian/*.symbols.
UNPACKAGED = {"libvarve_rados.so.0": {"varve_backend_open2_rados@Base": "0.2.0"}}


def promised(text):
    """{soname: {"symbol@version": since}}"""
    out = {}
    for line in text.splitlines():
        if line[:1] == " ":
            symbol, since = line.split()[:2]
            name, version = symbol.split("@")
            if name != version:  # the linker's mark of the version itself
                out[soname][symbol] = since
        elif line[:1].isalpha():
            soname = line.split()[0]
            out[soname] = {}
    return out


def exported(library):
    soname = re.search(r"SONAME.*\[(.*)\]", subprocess.check_output(["readelf", "-d", library], text=True)).group(1)
    listed = subprocess.check_output(["nm", "-D", "--defined-only", "--with-symbol-versions", library], text=True)
    symbols = [line.split()[-1].replace("@@", "@") for line in listed.splitlines() if line.split()[-2] != "A"]
    return soname, {one if "@" in one else one + "@Base" for one in symbols}


def last_release(source):
    """(tag, what debian/*.symbols said there), or None."""
    run = lambda *words: subprocess.run(["git", "-C", source, *words], capture_output=True, text=True)
    tag = run("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*").stdout.strip()
    if not tag:
        return None
    names = [name for name in run("ls-tree", "--name-only", tag, "debian/").stdout.split() if name.endswith(".symbols")]
    return tag, [promised(run("show", f"{tag}:{name}").stdout) for name in names]


def main(source, *libraries):
    now = dict(UNPACKAGED)
    for path in sorted(pathlib.Path(source, "debian").glob("*.symbols")):
        now.update(promised(path.read_text()))
    wrong = []
    for library in libraries:
        soname, has = exported(library)
        if soname not in now:
            wrong.append(f"{soname} is in no debian/*.symbols")
            continue
        wrong += [f"{soname}: {one} is gone; a program that calls it does not start" for one in sorted(set(now[soname]) - has)]
        wrong += [f"{soname}: {one} is new; write it into debian/*.symbols with this version" for one in sorted(has - set(now[soname]))]
    release = last_release(source)
    for before in release[1] if release else []:
        for soname, symbols in before.items():
            wrong += [f"{soname}: {one} of {release[0]} is in no debian/*.symbols" for one in symbols if soname in now and one not in now[soname]]
    print("\n".join(wrong) or f"{len(libraries)} libraries export what debian/*.symbols promises, "
          + (f"and all of {release[0]}" if release else "and there is no release before"))
    return 1 if wrong or not libraries else 0


sys.exit(main(*sys.argv[1:]))
