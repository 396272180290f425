"""make_samples.py FOLDER VERSION: writes small HDF5 and netCDF files of every layout below FOLDER, as they are in a version.

Exits with 77 when h5py or netCDF4 is missing."""
import os
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import netCDF4
except ImportError:
    netCDF4 = None


def field(version, shape, kind="f8"):
    """Smooth, with noise that moves from version to version."""
    grids = numpy.meshgrid(*[numpy.linspace(0, 3, n) for n in shape], indexing="ij")
    smooth = sum(numpy.sin(g * (i + 1) + 0.1 * version) for i, g in enumerate(grids))
    noise = numpy.random.default_rng(version).normal(0, 1e-6, shape)
    return (smooth + noise).astype(kind)


def fill(file, version):
    file.attrs["version"] = version
    file["contiguous"] = field(version, (40, 50, 6))
    file["single"] = field(version, (3000,), "f4")
    file["mesh"] = field(0, (9000,))
    file.create_dataset("chunked", data=field(version, (60, 70)), chunks=(16, 32))
    file.create_dataset("gzip", data=field(version, (100, 100)), chunks=(20, 100), compression="gzip", shuffle=True)
    file.create_dataset("grows", data=field(version, (10 + version, 600)), chunks=(4, 600), maxshape=(None, 600))
    file.create_dataset("unwritten", (5000,), "f8")
    file.create_dataset("half", (512, 64), "f8", chunks=(64, 64))[:100] = 1.5
    group = file.create_group("a/b")
    group["integers"] = (numpy.arange(4000) * (version + 1)).astype("i4")
    group["big-endian"] = field(version, (2000,)).astype(">f8")
    group["flags"] = (numpy.arange(6000) % 7 == version).astype("?")
    group["complex"] = field(version, (1000,)) + 1j
    group["f16"] = field(version, (4000,), "f2")
    pair = numpy.zeros(1000, [("id", "i4"), ("where", "f8", 3)])
    pair["id"] = numpy.arange(1000) + version
    group["compound"] = pair
    group["strings"] = ["name %d of %d" % (i, version) for i in range(500)]
    group["empty"] = h5py.Empty("f8")
    group["none"] = numpy.zeros((0, 4))
    file["again"] = file["contiguous"]  # a second hard link
    file["soft"] = h5py.SoftLink("/a/b/integers")


def fill_strangely(file, version):
    """Data that is elsewhere, or in the header: nothing of it is a region."""
    space = h5py.h5s.create_simple((1000,))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F64LE, space, plist)
    compact.write(h5py.h5s.ALL, h5py.h5s.ALL, field(version, (1000,)))
    raw = os.path.join(os.path.dirname(file.filename), "strange.raw")
    file.create_dataset("external", (2000,), "f8", external=[(raw, 0, 16000)])[:] = field(version, (2000,))
    layout = h5py.VirtualLayout((3000,), "f4")
    layout[:] = h5py.VirtualSource("old.h5", "single", (3000,))
    file.create_virtual_dataset("virtual", layout)
    file.create_dataset("scaled", data=field(version, (9000,)), chunks=(3000,), scaleoffset=5)
    file.create_dataset("sums", data=field(version, (9000,)), chunks=(3000,), fletcher32=True)
    file.create_dataset("two", data=field(version, (50, 600)), chunks=(25, 300), maxshape=(None, None))
    file.create_dataset("one", data=field(version, (5000,)), chunks=(5000,))


def write_hdf5(folder, version):
    for name, libver in [("strange.h5", "latest"), ("strange-old.h5", "earliest")]:
        with h5py.File(os.path.join(folder, name), "w", libver=libver) as file:
            fill_strangely(file, version)
    for name, options in [("old.h5", {}), ("latest.h5", {"libver": "latest"}),
                          ("user.h5", {"userblock_size": 1024}), ("sub/user-latest.h5", {"libver": "latest", "userblock_size": 512})]:
        with h5py.File(os.path.join(folder, name), "w", **options) as file:
            fill(file, version)
    for name in ("user.h5", "sub/user-latest.h5"):
        with open(os.path.join(folder, name), "r+b") as file:
            file.write(b"user block %d\n" % version)


def write_netcdf(folder, version):
    for name, kind in [("v4.nc", "NETCDF4"), ("classic.nc", "NETCDF3_CLASSIC"), ("offset64.nc", "NETCDF3_64BIT_OFFSET"),
                       ("data64.nc", "NETCDF3_64BIT_DATA")]:
        with netCDF4.Dataset(os.path.join(folder, name), "w", format=kind) as file:
            file.history = f"version {version}"
            for dim, length in [("time", None), ("y", 30), ("x", 41)]:
                file.createDimension(dim, length)
            file.createVariable("mask", "i1", ("y", "x"))[:] = 1
            file.createVariable("still", "f8", ("y", "x"))[:] = field(0, (30, 41))
            moving = file.createVariable("moving", "f4", ("time", "y", "x"))
            counts = file.createVariable("counts", "i2", ("time", "y", "x"))
            times = file.createVariable("time", "f8", ("time",))
            for i in range(5 + version):
                moving[i] = field(version + i, (30, 41), "f4")
                counts[i] = i
                times[i] = i


def main():
    folder, version = sys.argv[1], int(sys.argv[2])
    os.makedirs(os.path.join(folder, "sub"), exist_ok=True)
    write_hdf5(folder, version)
    if netCDF4:
        write_netcdf(folder, version)
    with open(os.path.join(folder, "plain.txt"), "w") as file:
        file.write("plain text\n" * (1000 + version))
    open(os.path.join(folder, "sub/empty"), "w").close()
    with open(os.path.join(folder, "sub/sparse"), "wb") as file:
        file.truncate(3 << 20)
        file.seek(2 << 20)
        file.write(b"island %d" % version)
    os.chmod(os.path.join(folder, "plain.txt"), 0o640)


main()
