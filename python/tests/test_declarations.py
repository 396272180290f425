"""What _lib.py declares is what the headers say: every struct, every constant, every function.

The compiler tells sizes, offsets and values; prototypes are read from the headers' text."""
import ctypes
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

from varve import _lib

HEADERS = ["varve_error.h", "varve.h", "varve_inspect.h", "varve_mpi.h", "varve_env.h"]
STRUCTS = {name: value for name, value in vars(_lib).items()
           if isinstance(value, type) and issubclass(value, ctypes.Structure) and name.startswith("varve_")}
CALLBACKS = {name: value for name, value in vars(_lib).items() if name.startswith("varve_") and name.endswith("_fn")}
CONSTANTS = {name: value for name, value in vars(_lib).items() if name.startswith("VARVE_")}


def text_of(name):
    text = (ROOT / "include/varve" / name).read_text()
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))


TEXT = " ".join(text_of(name) for name in HEADERS)



@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a C program says: {"sizeof varve_error": 500, "varve_error.rank": (4, 4), "VARVE_BUSY": -20004, ...}"""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("told")
    (folder / "varve").mkdir()
    (folder / "varve/varve_version.h").write_text("#define VARVE_VERSION \"\"\n")
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("sizeof {name} %zu 0\\n", sizeof(struct {name}));')
        for field in struct._fields_:
            where = f"((struct {name} *)0)->{field[0]}"
            place = f"offsetof(struct {name}, {field[0]})"
            lines.append(f'printf("{name}.{field[0]} %zu %zu\\n", {place}, sizeof {where});')
    for name in CONSTANTS:
        lines.append(f'printf("{name} %lld 0\\n", (long long)(intptr_t){name});')
    # varve_mpi.h needs an mpi.h; for its struct an MPI_Comm of any kind will do
    (folder / "mpi.h").write_text("typedef void *MPI_Comm;\n#define MPI_VERSION 3\n#define MPI_SUBVERSION 1\n")
    source = "#include <stdio.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    source += "".join(f"#include <varve/{header}>\n" for header in HEADERS)
    source += "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    (folder / "told.c").write_text(source)
    subprocess.run([compiler, "-std=c11", "-w", "-I", str(folder), "-I", str(ROOT / "include"), "-o",
                    str(folder / "told"), str(folder / "told.c")], check=True)
    out = {}
    for line in subprocess.check_output([str(folder / "told")], text=True).splitlines():
        key, first, second = line.rsplit(" ", 2)
        out[key] = (int(first), int(second))
    return out


def test_constants(told):
    for name, value in CONSTANTS.items():
        assert told[name][0] == ctypes.c_int64(value).value, name


def test_structs(told):
    assert len(STRUCTS) >= 19
    for name, struct in STRUCTS.items():
        assert told[f"sizeof {name}"][0] == ctypes.sizeof(struct), name
        for field in struct._fields_:
            mine = getattr(struct, field[0])
            assert told[f"{name}.{field[0]}"] == (mine.offset, mine.size), f"{name}.{field[0]}"


def members_of(name):
    """[(type, name)] of a struct in the headers; function pointers as ("(*)", name)."""
    body = re.search(rf"struct {name} \{{ (.*?) \}};", TEXT).group(1)
    found = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.match(r"(.+?)\(\*(\w+)\)\((.*)\)$", declaration)
        if pointer:
            found.append((pointer.group(1).strip(), pointer.group(2), pointer.group(3)))
            continue
        kind, names = re.match(r"(.*?[ *])(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)$", declaration).groups()
        found += [(kind.strip(), one, None) for one in names.split(", ")]
    return found


SIMPLE = {
    "int": ctypes.c_int, "unsigned": ctypes.c_uint, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32, "uint16_t": ctypes.c_uint16,
    "char *": ctypes.c_char_p,
    "void *": ctypes.c_void_p, "void": None, "struct varve_session *": ctypes.c_void_p,
    "struct varve_store *": ctypes.c_void_p, "struct varve_session **": ctypes.POINTER(ctypes.c_void_p),
    "struct varve_store **": ctypes.POINTER(ctypes.c_void_p), "int64_t *": ctypes.POINTER(ctypes.c_int64),
    "uint64_t *": ctypes.POINTER(ctypes.c_uint64), "char *const *": ctypes.POINTER(ctypes.c_char_p),
    "enum varve_distribution": ctypes.c_int, "enum varve_distribution *": ctypes.POINTER(ctypes.c_int),
}


def ctype_of(text):
    """The type of ctypes for one of C, as declared."""
    text = re.sub(r"\bconst (?!\*)", "", text).strip()
    if text in SIMPLE:
        return SIMPLE[text]
    if text in CALLBACKS:
        return CALLBACKS[text]
    struct = re.match(r"struct (\w+)( \*)?$", text)
    assert struct and struct.group(1) in STRUCTS, f"no type of ctypes for {text!r}"
    made = STRUCTS[struct.group(1)]
    return ctypes.POINTER(made) if struct.group(2) else made


def parameters(text):
    if text == "void":
        return []
    return [ctype_of(re.sub(r"\w+$", "", one).strip() if not re.match(r"\w+$", one) else one)
            for one in text.split(", ")]


def test_members_have_the_types_of_the_headers():
    for name, struct in STRUCTS.items():
        declared = members_of(name)
        assert [m[1].partition("[")[0] for m in declared] == [f[0] for f in struct._fields_], name
        for (kind, member_name, arguments), (_, mine) in zip(declared, (f[:2] for f in struct._fields_)):
            if arguments is not None:
                assert mine._restype_ == ctype_of(kind), f"{name}.{member_name}"
                assert list(mine._argtypes_) == parameters(arguments), f"{name}.{member_name}"
            elif "[" in member_name:
                assert mine._type_ == (ctypes.c_char if kind == "char" else ctype_of(kind)), f"{name}.{member_name}"
            else:
                assert mine == ctype_of(kind), f"{name}.{member_name}"


def test_functions_have_the_prototypes_of_the_headers():
    prototypes = {name: (kind.strip(), arguments) for kind, name, arguments in
                  re.findall(r"VARVE_API ([^();]*?[ *])(varve_\w+)\(([^()]*)\);", TEXT)}
    assert len(prototypes) > 50
    for name, (result, *arguments) in {**_lib.FUNCTIONS, **_lib.MPI_FUNCTIONS, **_lib.ENV_FUNCTIONS}.items():
        kind, declared = prototypes[name]
        assert result == ctype_of(kind), name
        assert arguments == parameters(declared), name


def test_callbacks_have_the_types_of_the_headers():
    typedefs = {name: (kind.strip(), arguments) for kind, name, arguments in
                re.findall(r"typedef ([^();]*?)\(\*(varve_\w+)\)\(([^()]*)\);", TEXT)}
    for name, callback in CALLBACKS.items():
        kind, declared = typedefs[name]
        assert callback._restype_ == ctype_of(kind), name
        assert list(callback._argtypes_) == parameters(declared), name


def test_every_code_has_a_class():
    from varve import errors

    codes = {int(number) for number in re.findall(r"X\(\w+, (-\d+), \"", TEXT)}
    assert len(codes) >= 12
    assert codes <= set(errors.CLASSES)


def test_version_is_that_of_the_library():
    import varve

    project = (ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"project\(varve VERSION (\S+)", project).group(1) == varve.__version__
    assert f'version = "{varve.__version__}"' in (ROOT / "python/pyproject.toml").read_text()


def test_a_wrong_declaration_is_found(told):
    """The comparison can fail: planted mistakes of each kind."""
    class shifted(ctypes.Structure):
        _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 492), ("rank", ctypes.c_int)]

    assert told["varve_error.rank"] != (shifted.rank.offset, shifted.rank.size)
    assert parameters("struct varve_session *session, int64_t version") != [ctypes.c_void_p, ctypes.c_int]
    assert ctype_of("const char *") != ctypes.c_void_p
