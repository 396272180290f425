#!/usr/bin/env python3
"""States of real programs, cut into ranks; aware-data.sh calls this. Each state becomes FOLDER/TIME.RANK, all arrays of
a rank one after another, and FOLDER/TIME.RANK.list, which says what they are: "NAME TYPE DIMENSION...".

    aware-data.py lammps INPUT FOLDER     under mpirun: run INPUT, and PART four times after it; each rank's own memory
    aware-data.py gromacs FILE.trr FOLDER RANKS     frames of a trajectory, cut by where atoms are
                                          both make FOLDER-restart, too: what the program's own restart files hold
    aware-data.py cavity FOLDER RANKS     an OpenFOAM case that is to be cut into so many parts
    aware-data.py openfoam CASE FOLDER    from what decomposePar has made of it
"""
import array
import ctypes
import ctypes.util
import importlib.util
import pathlib
import struct
import sys

TIMES = 4
PART = "run 25 post no"


def neighbour_module():
    """codec-data.py knows the formats; it is no module by its name."""
    path = pathlib.Path(__file__).with_name("codec-data.py")
    spec = importlib.util.spec_from_file_location("codec_data", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder, time, rank, arrays):
    """arrays: (name, type, dimensions, bytes)."""
    base = pathlib.Path(folder, f"{time}.{rank}")
    base.parent.mkdir(parents=True, exist_ok=True)
    base.write_bytes(b"".join(data for _, _, _, data in arrays))
    lines = [" ".join([name, kind, *map(str, dims)]) + "\n" for name, kind, dims, _ in arrays]
    base.with_name(base.name + ".list").write_text("".join(lines))


# ---- LAMMPS ----


def lammps_array(library, handle, name):
    count = library.lammps_extract_setting(handle, b"nlocal")
    where = library.lammps_extract_atom(handle, name.encode())
    is_vector = name in "xvf"
    if is_vector:  # an array of rows, which lie in one piece
        where = ctypes.cast(where, ctypes.POINTER(ctypes.c_void_p))[0]
    data = ctypes.string_at(where, count * (24 if is_vector else 4))
    return (name, "f64" if is_vector else "i32", (count, 3) if is_vector else (count,), data)


def lammps(path, folder):
    library = ctypes.CDLL(ctypes.util.find_library("lammps") or "liblammps.so.0", mode=ctypes.RTLD_GLOBAL)
    library.lammps_open_no_mpi.restype = ctypes.c_void_p
    library.lammps_extract_atom.restype = ctypes.c_void_p
    words = [b"lmp", b"-log", b"none"]
    handle = ctypes.c_void_p(library.lammps_open_no_mpi(len(words), (ctypes.c_char_p * len(words))(*words), None))
    library.lammps_file(handle, path.encode())
    rank = library.lammps_extract_setting(handle, b"world_rank")
    for time in range(TIMES):
        library.lammps_command(handle, PART.encode())
        for end, names in (("", "x v f id type"), ("-restart", "x v id type mask image")):
            write(folder + end, time, rank, [lammps_array(library, handle, name) for name in names.split()])
    library.lammps_close(handle)
    library.lammps_mpi_finalize()


# ---- GROMACS ----


def frames_of(data):
    """XDR: big-endian; a frame is a head of sizes, then box, positions, velocities, forces."""
    at = 0
    while at < len(data):
        magic, _, length = struct.unpack_from(">iii", data, at)
        assert magic == 1993
        at += 12 + (length + 3) // 4 * 4
        sizes = struct.unpack_from(">10i", data, at)
        atoms = struct.unpack_from(">3i", data, at + 40)[0]
        real = sizes[2] // 9 or sizes[7] // (3 * atoms)
        at += 40 + 12 + 2 * real
        box = struct.unpack_from(">9f", data, at)
        first = at + sum(sizes[:7])
        fields = []
        for size in sizes[7:10]:
            values = array.array("f", data[first : first + size])
            values.byteswap()
            fields.append(values)
            first += size
        yield box, fields
        at += sum(sizes)


def cut_grid(ranks):
    """The ranks as a grid, x fastest: as near to a cube as it gets."""
    best = min(
        ((x, y, ranks // x // y) for x in range(1, ranks + 1) for y in range(1, ranks + 1) if ranks % (x * y) == 0),
        key=lambda grid: max(grid) / min(grid),
    )
    return sorted(best, reverse=True)


def gromacs(path, folder, ranks):
    grid = cut_grid(int(ranks))
    frames = list(frames_of(pathlib.Path(path).read_bytes()))
    for time, (box, fields) in enumerate(frames[-TIMES:]):
        parts = [[array.array("f") for _ in fields] for _ in range(int(ranks))]
        places = fields[0]
        for atom in range(0, len(places) // 3, 3):  # a molecule of water stays together
            at = [int(places[3 * atom + d] / box[4 * d] * grid[d]) % grid[d] for d in range(3)]
            part = parts[(at[2] * grid[1] + at[1]) * grid[0] + at[0]]
            for to, field in zip(part, fields):
                to.extend(field[3 * atom : 3 * atom + 9])
        for rank, part in enumerate(parts):
            arrays = [(name, "f32", (len(to) // 3, 3), to.tobytes()) for name, to in zip("xvf", part)]
            write(folder, time, rank, arrays)
            write(folder + "-restart", time, rank, arrays[:2])


# ---- OpenFOAM ----


def cavity(folder, ranks):
    known = neighbour_module()
    grid = cut_grid(int(ranks))
    case = dict(known.CASE)
    for name, change in {
        "system/controlDict": ("writeInterval 20;", "writeInterval 5;"),
        "system/blockMeshDict": ("(72 72 72)", "(88 88 88)"),
    }.items():
        kind, text = case[name]
        assert change[0] in text
        case[name] = (kind, text.replace(*change))
    case["system/decomposeParDict"] = (
        "dictionary",
        f"numberOfSubdomains {ranks}; method simple; "
        f"simpleCoeffs {{ n ({grid[0]} {grid[1]} {grid[2]}); delta 0.001; }}",
    )
    known.CASE = case
    known.cavity(folder)


def field_of(path, width):
    data = path.read_bytes()
    at = data.index(b">", data.index(b"internalField") if b"internalField" in data else 0) + 1
    end = data.index(b"(", at)
    count = int(data[at:end].split()[0])
    return count, data[end + 1 : end + 1 + count * width]


def openfoam(case, folder):
    for part in pathlib.Path(case).glob("processor*"):
        times = [entry for entry in part.iterdir() if entry.name.replace(".", "").isdigit() and float(entry.name) > 0]
        times.sort(key=lambda entry: float(entry.name))
        for time, where in enumerate(times[-TIMES:]):
            arrays = []
            for name, width in (("U", 24), ("p", 8), ("phi", 8)):
                count, data = field_of(where / name, width)
                arrays.append((name, "f64", (count, 3) if width == 24 else (count,), data))
            write(folder, time, int(part.name[len("processor") :]), arrays)


def main():
    commands = {"lammps": (lammps, 2), "gromacs": (gromacs, 3), "cavity": (cavity, 2), "openfoam": (openfoam, 2)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if not command or len(sys.argv) != 2 + count:
        sys.exit(__doc__)
    command(*sys.argv[2:])


main()
