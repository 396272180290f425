"""import.py VARVE FOLDER [--size MIB] [--files N] [--versions N] [--layout NAME] [--check] [--keep]

Writes the files of a made-up simulation in several versions, imports each version, exports all of them again and compares
them byte for byte and with h5diff. A JSON object per layout tells the size of the store over that of `tar | zstd -3
--long=27` of the same files, all versions in order. --size is that of a version, 256 MiB unless told: more than the window
of zstd has, as versions of checkpoints are. --check fails when the bounds are not kept.

The fields are not recorded from a simulation. They are sums of waves of random phases with the spectrum of turbulence, each
wave turning at a speed of its own; pressure and energy follow from others, levels of refinement from gradients; the mesh and the
numbers of the cells stay as they are from version to version."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import h5py
import numpy

SHAPE = (47, 31)  # of a slice; a file has as many slices as its size asks for
BYTES_PER_CELL = 9 * 8 + 2 * 4 + 8  # what write_file writes
BOUNDS = {"contiguous": 0.9, "chunked": 0.9, "gzip": 1.0}


class Waves:
    """A random field and its motion."""

    def __init__(self, seed, shape, slope=-11 / 6):
        dice = numpy.random.default_rng(seed)
        grids = numpy.meshgrid(*[numpy.fft.fftfreq(n) * n for n in shape[:-1]], numpy.arange(shape[-1] // 2 + 1), indexing="ij")
        length = numpy.sqrt(sum(g * g for g in grids))
        length[0, 0, 0] = 1
        self.shape = shape
        self.strength = length ** slope * dice.rayleigh(1, length.shape)
        self.phase = dice.uniform(0, 2 * numpy.pi, length.shape)
        self.speed = 0.3 * length ** (2 / 3)

    def at(self, step):
        turned = self.strength * numpy.exp(1j * (self.phase + self.speed * step))
        field = numpy.fft.irfftn(turned, self.shape, axes=(0, 1, 2))
        return field / field.std()


def make_fields(number, step, slices):
    shape = (slices,) + SHAPE
    waves = [Waves(1000 * number + i, shape) for i in range(5)]
    density = numpy.exp(0.3 * waves[0].at(step))
    energy = 2.5 * numpy.exp(0.2 * waves[1].at(step))
    velocity = [w.at(step) for w in waves[2:]]
    gradient = numpy.abs(numpy.gradient(density, axis=0))
    cells = numpy.arange(density.size, dtype="i8").reshape(shape) + number * density.size
    where = numpy.meshgrid(*[numpy.linspace(0, 1, n) ** 1.1 for n in shape], indexing="ij")
    jitter = numpy.random.default_rng(number).normal(0, 1e-4, (3,) + shape)
    return {
        "mesh/x": where[0] + jitter[0], "mesh/y": where[1] + jitter[1], "mesh/z": where[2] + jitter[2], "mesh/cell": cells,
        "density": density, "energy": energy, "pressure": 0.4 * density * energy,
        "velocity/x": velocity[0], "velocity/y": velocity[1], "velocity/z": velocity[2],
        "temperature": (energy / 0.7).astype("f4"), "level": numpy.clip(gradient * 20, 0, 7).astype("i4"),
    }


def write_file(path, number, step, slices, layout):
    options = {"contiguous": {}, "chunked": {"chunks": True}, "gzip": {"chunks": True, "compression": "gzip"}}[layout]
    with h5py.File(path, "w") as file:
        file.attrs["step"] = step
        file.attrs["time"] = step * 0.01
        for name, data in make_fields(number, step, slices).items():
            file.create_dataset(name, data=data, **options)


def write_versions(folder, layout, options):
    slices = max(2, options.size * (1 << 20) // options.files // BYTES_PER_CELL // (SHAPE[0] * SHAPE[1]))
    for version in range(options.versions):
        os.makedirs(f"{folder}/{version}")
        for number in range(options.files):
            write_file(f"{folder}/{version}/part-{number:03d}.h5", number, version, slices, layout)


def rival(folder, versions):
    names = " ".join(str(v) for v in range(versions))
    command = f"tar -C '{folder}' --sort=name -c {names} | zstd -3 --long=27 | wc -c"
    return int(subprocess.run(["sh", "-c", command], check=True, capture_output=True).stdout)


def run(command):
    """Its summary, and the most memory it and its children had, in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed: {out.decode()}")
    return json.loads(out.splitlines()[-1]), usage.ru_maxrss << 10


def is_same(first, second):
    if subprocess.run(["diff", "-r", "-q", first, second]).returncode:
        return False
    if shutil.which("h5diff") is None:
        return True
    return all(subprocess.run(["h5diff", f"{first}/{name}", f"{second}/{name}"], capture_output=True).stdout == b""
               for name in sorted(os.listdir(first)))


def measure(varve, folder, layout, options):
    data, store, back = f"{folder}/{layout}", f"{folder}/{layout}.ck", f"{folder}/{layout}.back"
    for path in data, store, back:
        shutil.rmtree(path, ignore_errors=True)
    write_versions(data, layout, options)
    total = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(data) for name in names)
    peak, began, notes, identical = 0, time.monotonic(), 0, True
    for version in range(options.versions):
        summary, memory = run([varve, "import", store, layout, "-C", f"{data}/{version}", ".", "--json"])
        peak, notes = max(peak, memory), notes + summary["notes"]
    imported = time.monotonic() - began
    stored = run([varve, "stats", store, "--json"])[0]["bytes"]
    began = time.monotonic()
    for version in range(options.versions):
        os.makedirs(f"{back}/{version}")
        peak = max(peak, run([varve, "export", store, f"{layout}@{version}", "-C", f"{back}/{version}", "--json"])[1])
    exported = time.monotonic() - began
    for version in range(options.versions):
        identical = identical and is_same(f"{data}/{version}", f"{back}/{version}")
    shutil.rmtree(back)
    other = rival(data, options.versions)
    result = {"bench": "import", "layout": layout, "files": options.files, "versions": options.versions, "bytes": total,
              "bytes_stored": stored, "bytes_tar_zstd": other, "over_tar_zstd": round(stored / other, 4),
              "ratio": round(total / stored, 4), "peak_memory": peak, "identical": identical, "notes": notes,
              "import_mb_s": round(total / imported / 1e6, 1), "export_mb_s": round(total / exported / 1e6, 1)}
    print(json.dumps(result), flush=True)
    if not options.keep:
        shutil.rmtree(data)
        shutil.rmtree(store)
    return identical and peak < 512 << 20 and (not options.check or stored / other <= BOUNDS[layout])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("varve")
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--versions", type=int, default=4)
    parser.add_argument("--layout", choices=BOUNDS, action="append")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    results = [measure(os.path.abspath(options.varve), options.folder, layout, options) for layout in options.layout or BOUNDS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
