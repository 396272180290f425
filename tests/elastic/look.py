"""Does this file have the arrays that test_arrays stored? Read by h5py, and by netCDF4 where there is one."""
import sys

import h5py
import numpy


def value_of(place):
    x = place * numpy.uint64(0x9E3779B97F4A7C15)
    return (x ^ (x >> numpy.uint64(29))) * numpy.uint64(0xBF58476D1CE4E5B9)


path, shape = sys.argv[1], tuple(int(size) for size in sys.argv[2].split("x"))
with numpy.errstate(over="ignore"):
    wanted = value_of(numpy.arange(numpy.prod(shape), dtype=numpy.uint64)).reshape(shape)
with h5py.File(path) as file:
    attributes = dict(file.attrs)
    assert attributes.pop("varve_time").endswith("Z") and attributes.pop("varve_program"), dict(file.attrs)
    assert attributes == {
        "varve_name": "grid",
        "varve_version": "1",
        "time": "12.5 \u00b5s",
        "run/of": "",
        "varve_name~2": "the program's own",
    }, attributes
    assert file["field"].dtype == numpy.dtype("<u8"), file["field"].dtype
    assert numpy.array_equal(file["field"][...], wanted)
    assert numpy.array_equal(file["field"][shape[0] // 2 :, ..., 1], wanted[shape[0] // 2 :, ..., 1])
try:
    import netCDF4
except ImportError:
    sys.exit()
with netCDF4.Dataset(path) as file:
    field = file.variables["field"]
    assert field.dimensions == tuple(f"field_{i}" for i in range(len(shape))), field.dimensions
    assert set(file.variables) == {"field"}, set(file.variables)
    assert numpy.array_equal(field[...], wanted)
