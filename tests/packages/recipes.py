#!/usr/bin/env python3
"""Recipes for package managers belong to this tree: recipes.py SOURCE VERSION CMAKECACHE

They can be read, name this version, give only options that CMake here knows, and all that take what is found: a build must not depend on
what happens to be installed. The Spack recipe is run with a stand-in for Spack, which knows the words that it uses: that shows that its
parts fit together, not that Spack builds it.
"""
import ast
import pathlib
import re
import shutil
import subprocess
import sys

wrong = []


def expect(condition, text):
    if not condition:
        wrong.append(text)


class Spec:
    """One in which the variants of `on` are chosen, and no others."""
    version = "0"

    def __init__(self, on):
        self.on = on

    def satisfies(self, text):
        return (text[1:] in self.on) == (text[0] == "+")

    def __getitem__(self, name):
        return type("Dependency", (), {"mpicc": "/mpicc"})


class CMakePackage:
    prefix = "/prefix"

    def __init__(self, on):
        self.spec = Spec(on)

    def define(self, name, value):
        return name, value

    def define_from_variant(self, name, variant):
        expect(variant in told["variant"], f"Spack: there is no variant {variant}")
        return name, variant in self.spec.on


told = {}


def directive(word):
    told[word] = {}
    return lambda *arguments, **named: told[word].setdefault(arguments[0], []).append(named)


def check_spack(path, version, options, found):
    text = path.read_text()
    words = {name: directive(name) for name in
             ("version", "variant", "depends_on", "extends", "license", "generator", "conflicts")}
    module = {"CMakePackage": CMakePackage, "python_platlib": "/prefix/lib/python", **words}
    tree = ast.parse(text)
    tree.body = [part for part in tree.body if not isinstance(part, ast.ImportFrom)]
    exec(compile(tree, str(path), "exec"), module)
    variants = set(told["variant"])
    expect(version in told["version"], f"Spack: version {version} is missing")
    expect({"mpi", "hdf5", "opencl", "python"} <= variants, "Spack: a variant is missing")
    for rows in told["depends_on"].values():
        for row in rows:
            expect(row.get("when", "+mpi")[1:] in variants, f"Spack: a dependency is for {row}")
    for on in [set(), variants] + [{one} for one in variants]:
        given = dict(module["Varve"](on).cmake_args())
        expect(set(given) - {"CMAKE_DISABLE_FIND_PACKAGE_fpzip", "CMAKE_DISABLE_FIND_PACKAGE_zfp"} <= options,
               f"Spack: CMake has no {set(given) - options}")
        expect(set(found) <= set(given), f"Spack: a build would depend on what it finds: {set(found) - set(given)}")
        expect(given["VARVE_MPI"] == ("mpi" in on), "Spack: the variant mpi changes nothing")
    expect(all(len(line) <= 99 and line == line.rstrip() for line in text.splitlines()), "Spack: a line is too long")
    # What `spack style` runs, with its settings.
    for command in (["black", "-q", "--check", "-l", "99"], ["flake8", "--max-line-length", "99", "--extend-ignore=F403,F405"]):
        program = shutil.which(command[0], path="/usr/bin") or shutil.which(command[0])
        if program:
            expect(subprocess.run([program, *command[1:], path]).returncode == 0, f"Spack: {command[0]} has something to say")
        else:
            print(f"skipped: {command[0]} is not here")
    expect(re.search(r"def test_\w+\(self\):\n +\"\"\"", text), "Spack: there is no smoke test")


def check_debian(source, found):
    """What a build makes is in a package, or switched off."""
    off = set(re.findall(r"-D(\w+)=OFF", (source / "debian/rules").read_text()))
    listed = "".join(path.read_text() for path in sorted((source / "debian").glob("*.install")))
    for option, what in found.items():
        library = re.search(r"libvarve_\w+", what)
        for ending in (r"\.so", r"\.so\.\*") if library and option not in off else ():
            expect(re.search(rf"/{library.group()}(_\w+)?{ending}$", listed, re.M), f"debian: {library.group()}{ending} is in no package")


def check_told(source, found):
    """`varve --version --build` tells every library that a build may have."""
    told = re.search(r"foreach\(library (.*)\)", (source / "cmake/install.cmake").read_text()).group(1).split()
    for library in re.findall(r"libvarve_(\w+)", " ".join(found.values())):
        expect(library in told, f"--version --build does not tell libvarve_{library}")


def check_others(source, version, options, found):
    conda = (source / "packaging/conda/meta.yaml").read_text()
    expect(f'set version = "{version}"' in conda, "conda: another version")
    script = source / "packaging/conda/build.sh"
    expect(subprocess.run(["bash", "-n", script]).returncode == 0, "conda: build.sh is no shell script")
    expect(set(found) <= set(re.findall(r"-D(\w+)=", script.read_text())), "conda: a build would depend on what it finds")
    for path in (script, source / "debian/rules"):
        given = set(re.findall(r"-D(\w+)=", path.read_text()))
        expect(given and given <= options, f"{path.name}: CMake has no {given - options}")
    expect((source / "debian/changelog").read_text().startswith(f"varve ({version}-"), "debian/changelog: another version")
    for name in ("python/pyproject.toml", "python/varve/__init__.py"):
        expect(f'"{version}"' in (source / name).read_text(), f"{name}: another version")
    expect(re.search(rf"^## {re.escape(version)}\b", (source / "CHANGES.md").read_text(), re.M), "CHANGES.md: another version")
    module = source / "packaging/modulefiles/varve"
    expect(module.read_text().startswith("#%Module\n"), "the modulefile does not begin as one")
    if shutil.which("tclsh"):
        run = "proc module-whatis t {}; proc conflict t {}; proc prepend-path {v p} {puts $v}; source [lindex $argv 0]"
        ran = subprocess.run(["tclsh", "-", module], input=f"set argv [list {module}]\n{run}", capture_output=True, text=True)
        expect("PATH\nMANPATH" in ran.stdout, f"the modulefile does not run: {ran.stderr}")
    else:
        print("skipped: tclsh is not here, the modulefile was not run")


def main(source, version, cache):
    source = pathlib.Path(source)
    listed = subprocess.check_output(["cmake", "-LAH", "-N", pathlib.Path(cache).parent], text=True)
    options = set(re.findall(r"^(\w+):\w+=", listed, re.M)) | {"MPI_C_COMPILER", "CMAKE_PREFIX_PATH", "CMAKE_SKIP_INSTALL_RPATH"} \
        | {"CMAKE_INSTALL_LIBDIR"}
    found = {option: what for what, option in re.findall(r"^// *(.*\bfound\b.*)\n(VARVE_\w+):BOOL", listed, re.M)}
    expect({"VARVE_S3", "VARVE_HDF5"} <= set(found), "CMake tells no options for what it finds")
    check_spack(source / "packaging/spack/package.py", version, options, found)
    check_debian(source, found)
    check_told(source, found)
    check_others(source, version, options, found)
    print("\n".join(wrong) or "the recipes belong to this tree; neither Spack nor conda was run")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
