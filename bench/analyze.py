#!/usr/bin/env python3
"""analyze.py VARVE FOLDER [--workloads NAME,...] [--bench FOLDER] [--size MIB] [--check]

How near `varve analyze` comes to what checkpoints store, and how long it takes. Each workload makes checkpoints with codec=size and
without fine chunks; their content is then taken out of the store, version by version, and analyzed. A JSON line for each:

  wrong           what analyze tells for all versions, over what they have stored, less 1; within 0.03 either way
  wrong_most      the same of the version with which it is worst; the same bound
  cold, warm      seconds of analyze over seconds of reading the same files, from storage and from memory; cold is at most 3
  missed          which of these bounds were passed

field and storm are bench-field and bench-storm, in the folder that --bench names; training is examples/train.py, where there is torch;
lammps is examples/melt.py, where there is LAMMPS for Python (python3-lammps); noise and grid are files, which are imported. --check
fails when a bound was passed. Wants a quiet machine; FOLDER is on the storage that is measured. Workloads that cannot run are told."""
import argparse
import array
import json
import math
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND_WRONG, BOUND_COLD = 0.03, 3.0
PLAIN = {"VARVE_CODEC": "size", "VARVE_FINE": "off", "VARVE_KEEP": "all", "VARVE_SPACE": "off"}
MIB = 1 << 20


class Skipped(Exception):
    pass


def run(words, **env):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode == 77:
        raise Skipped(done.stdout.strip() or "not built in")
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Bench:
    def __init__(self, told):
        self.told = told
        self.work = os.path.join(told.folder, "analyze")

    def path(self, *names):
        return os.path.join(self.work, *names)

    def varve(self, *words):
        lines = run([self.told.varve, *words, "--json"]).splitlines()
        return [json.loads(line) for line in lines]

    # ---- where data comes from: each gives the folders of its versions, and what each has stored ----

    def take_out(self, store):
        """The versions of the only name in a store, as files."""
        found = sorted((m["version"], m["name"], m["bytes_stored"] + m["bytes_metadata"])
                       for m in self.varve("ls", store) if m["message_type"] == "checkpoint")
        folders = []
        for version, name, _ in found:
            folder = self.path(f"v{version}")
            os.makedirs(folder)
            which = f"{name}@{version}"
            regions = [m for m in self.varve("show", store, which) if m["message_type"] == "region"]
            if any(m["type"] != "bytes" for m in regions):
                run([self.told.varve, "export", store, which, "--arrays", os.path.join(folder, "arrays.h5")])
            for number, region in enumerate(m for m in regions if m["type"] == "bytes" and m["bytes"]):
                run([self.told.varve, "restore", store, which, region["region"], "--format", "raw", "-o",
                     os.path.join(folder, f"region{number:04}")])
            folders.append(folder)
        return folders, [stored for _, _, stored in found]

    def field(self):
        words = [os.path.join(self.told.bench, "bench-field"), "--keep", "--mode", "sync", "--size", str(self.told.size), "--rounds", "1",
                 "--checkpoints", "3", self.work]
        run(words, **PLAIN)
        return self.take_out(next(self.path(name) for name in os.listdir(self.work) if "store" in name))

    def storm(self):
        run([os.path.join(self.told.bench, "bench-storm"), "--keep", "--mode", "local", self.work], **PLAIN)
        return self.take_out(self.path("bench-storm.store"))

    def training(self):
        source, store = os.path.dirname(HERE), self.path("ck")
        if not self.told.torch:
            raise Skipped("no Python with torch")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        run([self.told.torch, os.path.join(source, "examples/train.py"), "--steps", "3", "--width", "256", "--keep", "0", store],
            RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **self.python())
        return self.take_out(store)

    def lammps(self):
        """Half a million atoms of a melting crystal: all of them move, from order to disorder."""
        if not self.told.lammps:
            raise Skipped("no Python with lammps")
        store = self.path("ck")
        run([self.told.lammps, os.path.join(os.path.dirname(HERE), "examples/melt.py"), "--cells", "50", "--steps", "60", "--every", "20",
             store], **self.python())
        return self.take_out(store)

    def python(self):
        """The environment of an example in Python."""
        paths = [os.path.join(os.path.dirname(HERE), "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": ":".join(paths), "LIBVARVE": self.told.library, "PYTHONDONTWRITEBYTECODE": "1", **PLAIN}

    def imported(self, *folders):
        stored = []
        for folder in folders:
            told = self.varve("import", self.path("ck"), "x", "-C", folder, ".")
            stored += [m["bytes_stored"] for m in told if m["message_type"] == "summary"]
        return list(folders), stored

    def write(self, folder, name, parts):
        os.makedirs(self.path(folder), exist_ok=True)
        with open(self.path(folder, name), "wb") as file:
            for part in parts:
                file.write(part)
            os.fsync(file.fileno())
        return self.path(folder)

    def noise(self):
        """Two versions of what does not compress, of which a tenth of the pages differ."""
        draw = random.Random(1)
        data = [draw.randbytes(MIB) for _ in range(self.told.size)]
        first = self.write("a", "f", data)
        second = self.write("b", "f", (draw.randbytes(MIB // 10 // 4096 * 4096) + part[MIB // 10 // 4096 * 4096:] for part in data))
        return self.imported(first, second)

    def grid(self):
        """Smooth numbers, from calm to rough, and a part that was never used."""
        draw = random.Random(2)

        def part(number):
            rough = 10.0 ** (-12 + 12 * number / self.told.size)
            return array.array("d", (math.sin(number + i * 1e-3) + rough * draw.random() for i in range(MIB // 8))).tobytes()

        return self.imported(self.write("a", "f", [*map(part, range(self.told.size)), bytes(self.told.size * MIB // 4)]))

    # ---- measuring ----

    def read(self, folders):
        """Seconds to read all files."""
        begun = time.perf_counter()
        for path in files_of(folders):
            with open(path, "rb", buffering=0) as file:
                while file.read(MIB):
                    pass
        return time.perf_counter() - begun

    def timed(self, folders, is_cold):
        """Seconds of reading, of analyzing, and of the processor for that; by turns, the least of each."""
        reading, analyzing, computing = [], [], []
        for _ in range(3):
            if is_cold:
                drop(folders)
            reading.append(self.read(folders))
            if is_cold:
                drop(folders)
            begun, computed = time.perf_counter(), processor()
            self.varve("analyze", *folders)
            analyzing.append(time.perf_counter() - begun)
            computing.append(processor() - computed)
        return min(reading), min(analyzing), min(computing)

    def measure(self, name):
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        folders, stored = getattr(self, name)()
        looks = [m for m in self.varve("analyze", *folders) if m["message_type"] == "look"]
        told = [m["bytes_stored"] + m["bytes_metadata"] for m in looks]
        result = {"bench": "analyze", "workload": name, "versions": len(folders), "bytes": sum(m["bytes"] for m in looks),
                  "stored": sum(stored), "told": sum(told), "wrong": round(sum(told) / sum(stored) - 1, 5),
                  "wrong_most": max((round(one / other - 1, 5) for one, other in zip(told, stored)), key=abs)}
        for word in ("cold", "warm"):
            read, analyzed, computed = self.timed(folders, word == "cold")
            result.update({f"seconds_read_{word}": round(read, 3), f"seconds_{word}": round(analyzed, 3),
                           f"seconds_processor_{word}": round(computed, 3), word: round(analyzed / read, 2)})
        return {**result, "missed": missed(result)}


def missed(result):
    """The bounds that this result has passed."""
    bounds = {"wrong": BOUND_WRONG, "wrong_most": BOUND_WRONG, "cold": BOUND_COLD}
    return [name for name, bound in bounds.items() if not abs(result[name]) <= bound]


def files_of(folders):
    return [os.path.join(path, name) for folder in folders for path, _, names in os.walk(folder) for name in sorted(names)]


def drop(folders):
    for path in files_of(folders):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def processor():
    """Seconds that ended children have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def find_python(module):
    for python in (os.environ.get(f"{module.upper()}_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", f"import {module}, numpy"], capture_output=True).returncode == 0:
            return python
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("varve")
    parser.add_argument("folder")
    parser.add_argument("--workloads", default="storm,field,training,lammps,noise,grid")
    parser.add_argument("--bench", help="folder of bench-field and bench-storm; default beside VARVE's")
    parser.add_argument("--size", type=int, default=256, help="MiB of a version")
    parser.add_argument("--check", action="store_true")
    told = parser.parse_args()
    build = os.path.dirname(os.path.dirname(os.path.abspath(told.varve)))
    told.bench = told.bench or os.path.join(build, "bench")
    told.library = os.path.join(build, "src")
    told.torch = find_python("torch") if "training" in told.workloads else None
    told.lammps = find_python("lammps") if "lammps" in told.workloads else None
    bench, failed = Bench(told), 0
    for name in told.workloads.split(","):
        try:
            result = bench.measure(name)
        except Skipped as why:
            print(json.dumps({"bench": "analyze", "workload": name, "skipped": str(why)}), flush=True)
            continue
        finally:
            shutil.rmtree(bench.work, ignore_errors=True)
        print(json.dumps(result), flush=True)
        failed += len(result["missed"])
    return 1 if failed and told.check else 0


if __name__ == "__main__":
    sys.exit(main())
