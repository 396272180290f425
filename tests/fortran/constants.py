#!/usr/bin/env python3
"""The numbers of varve.f90 are those of the headers: constants.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
module = (root / "fortran/varve.f90").read_text()
error = (root / "include/varve/varve_error.h").read_text()
header = (root / "include/varve/varve.h").read_text()
wanted = {name: int(number) for name, number in re.findall(r"X\((\w+), (-\d+),", error)}
distribution = re.sub(r"/\*.*?\*/", "", re.search(r"enum varve_distribution \{(.*?)\};", header, re.S).group(1), flags=re.S)
wanted.update({name: i for i, name in enumerate(re.findall(r"VARVE_(\w+)", distribution))})
told = {name: int(number) for name, number in re.findall(r"VARVE_(\w+) = (-?\d+)\b(?!_)", module)}
wrong = sorted(name for name in wanted if told.get(name) != wanted[name])
print(f"{len(wanted)} constants, {len(wrong)} differ: {' '.join(wrong)}")
text = int(re.search(r"char text\[(\d+)\]", error).group(1))
if f"text({text})" not in module:
    wrong.append("text")
    print("c_error is not struct varve_error")
sys.exit(1 if wrong or len(wanted) < 17 else 0)
