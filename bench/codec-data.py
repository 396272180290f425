#!/usr/bin/env python3
"""States of real programs as raw arrays; codec-data.sh calls this.

    codec-data.py lammps INPUT       run it in the library, write lammps.x, .v, .f, .id, .type from the program's memory
    codec-data.py gromacs FILE.trr   write gromacs.x, .v, .f: the last frame of a trajectory
    codec-data.py cavity FOLDER      an OpenFOAM case
    codec-data.py openfoam FOLDER    write openfoam.U, .p, .phi from its last time
"""
import array
import ctypes
import ctypes.util
import os
import pathlib
import struct
import sys


def lammps(path):
    library = ctypes.CDLL(ctypes.util.find_library("lammps") or "liblammps.so.0", mode=ctypes.RTLD_GLOBAL)
    library.lammps_open_no_mpi.restype = ctypes.c_void_p
    library.lammps_extract_atom.restype = ctypes.c_void_p
    words = [b"lmp", b"-log", b"none"]
    handle = ctypes.c_void_p(library.lammps_open_no_mpi(len(words), (ctypes.c_char_p * len(words))(*words), None))
    library.lammps_file(handle, path.encode())
    count = library.lammps_extract_setting(handle, b"nlocal")
    for name in ("x", "v", "f", "id", "type"):
        where = library.lammps_extract_atom(handle, name.encode())
        is_vector = name in "xvf"
        if is_vector:  # an array of rows, which lie in one piece
            where = ctypes.cast(where, ctypes.POINTER(ctypes.c_void_p))[0]
        pathlib.Path("lammps." + name).write_bytes(ctypes.string_at(where, count * (24 if is_vector else 4)))
    library.lammps_close(handle)


def gromacs(path):
    """XDR: big-endian; a frame is a head of sizes, then box, positions, velocities, forces."""
    data = pathlib.Path(path).read_bytes()
    at, frame = 0, None
    while at < len(data):
        magic, _, length = struct.unpack_from(">iii", data, at)
        assert magic == 1993
        at += 12 + (length + 3) // 4 * 4
        sizes = struct.unpack_from(">10i", data, at)
        atoms = struct.unpack_from(">3i", data, at + 40)[0]
        real = sizes[2] // 9 or sizes[7] // (3 * atoms)
        at += 40 + 12 + 2 * real
        frame = (at + sum(sizes[:7]), sizes[7:10])
        at += sum(sizes)
    at, sizes = frame
    for name, size in zip("xvf", sizes):
        values = array.array("f", data[at : at + size])
        values.byteswap()
        pathlib.Path("gromacs." + name).write_bytes(values.tobytes())
        at += size


HEAD = "FoamFile {{ version 2.0; format ascii; class {kind}; object {name}; }}\n"
CASE = {
    "system/controlDict": (
        "dictionary",
        "application icoFoam; startFrom startTime; startTime 0; stopAt endTime; endTime 0.004; deltaT 0.0002; "
        "writeControl timeStep; writeInterval 20; writeFormat binary; writePrecision 12; writeCompression off;",
    ),
    "system/fvSchemes": (
        "dictionary",
        "ddtSchemes { default Euler; } gradSchemes { default Gauss linear; } "
        "divSchemes { default none; div(phi,U) Gauss linear; } laplacianSchemes { default Gauss linear orthogonal; } "
        "interpolationSchemes { default linear; } snGradSchemes { default orthogonal; }",
    ),
    "system/fvSolution": (
        "dictionary",
        "solvers { p { solver PCG; preconditioner DIC; tolerance 1e-5; relTol 0.05; } pFinal { $p; relTol 0; } "
        "U { solver smoothSolver; smoother symGaussSeidel; tolerance 1e-5; relTol 0; } } "
        "PISO { nCorrectors 2; nNonOrthogonalCorrectors 0; pRefCell 0; pRefValue 0; }",
    ),
    "system/blockMeshDict": (
        "dictionary",
        "convertToMeters 0.1; vertices ((0 0 0) (1 0 0) (1 1 0) (0 1 0) (0 0 1) (1 0 1) (1 1 1) (0 1 1)); "
        "blocks (hex (0 1 2 3 4 5 6 7) (72 72 72) simpleGrading (1 1 1)); edges (); boundary ( "
        "lid { type wall; faces ((3 7 6 2)); } "
        "walls { type wall; faces ((0 4 7 3) (2 6 5 1) (1 5 4 0) (0 3 2 1) (4 5 6 7)); } );",
    ),
    "constant/transportProperties": ("dictionary", "nu 0.01;"),
    "0/p": (
        "volScalarField",
        "dimensions [0 2 -2 0 0 0 0]; internalField uniform 0; "
        "boundaryField { lid { type zeroGradient; } walls { type zeroGradient; } }",
    ),
    "0/U": (
        "volVectorField",
        "dimensions [0 1 -1 0 0 0 0]; internalField uniform (0 0 0); "
        "boundaryField { lid { type fixedValue; value uniform (1 0 0); } walls { type noSlip; } }",
    ),
}


def cavity(folder):
    for name, (kind, text) in CASE.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD.format(kind=kind, name=path.name) + text + "\n")


def openfoam(folder):
    times = [entry for entry in os.listdir(folder) if entry.replace(".", "").isdigit() and float(entry) > 0]
    last = pathlib.Path(folder, max(times, key=float))
    for name, width in (("U", 24), ("p", 8), ("phi", 8)):
        data = (last / name).read_bytes()
        at = data.index(b"internalField") if b"internalField" in data else 0
        at = data.index(b">", at) + 1
        end = data.index(b"(", at)
        count = int(data[at:end].split()[0])
        pathlib.Path("openfoam." + name).write_bytes(data[end + 1 : end + 1 + count * width])


def main():
    commands = {"lammps": lammps, "gromacs": gromacs, "cavity": cavity, "openfoam": openfoam}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2])


if __name__ == "__main__":
    main()
