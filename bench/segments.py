#!/usr/bin/env python3
"""segments.py PID...: what the memory of running processes takes in a store, by kind of mapping. Each is dumped twice, half
a second apart, with codec=size; it runs on. VARVE and CRIU name the programs. Needs root."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

VARVE, CRIU = os.environ.get("VARVE", "varve"), os.environ.get("CRIU", "criu")


def dump(store, pid):
    said = subprocess.run([VARVE, "dump", "--json", store, "p", "--pid", pid, "--criu", CRIU], check=True,
                          env=dict(os.environ, VARVE_CODEC="size"), capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])


def kinds(store):
    found = collections.defaultdict(collections.Counter)
    shown = subprocess.run([VARVE, "show", "--json", store, "p@0"], check=True, capture_output=True, text=True).stdout
    for region in map(json.loads, shown.splitlines()):
        if region["message_type"] == "region":
            match = re.search(r":(\w+)@", region["region"])
            found[match.group(1) if match else "small ones"].update(
                {name: region[name] for name in ("bytes", "bytes_zero", "bytes_blocks")})
    return found


def main(pids):
    print("| process | kind | KiB | zero | stored |\n|---|---|---|---|---|")
    for pid in pids:
        with open("/proc/%s/comm" % pid) as file:
            name = file.read().strip()
        folder = tempfile.mkdtemp(prefix="varve-segments.")
        try:
            store = os.path.join(folder, "ck")
            dump(store, pid)
            time.sleep(0.5)
            again = dump(store, pid)
            for kind, sums in sorted(kinds(store).items()):
                print("| %s | %s | %d | %d | %d |" % (name, kind, sums["bytes"] >> 10, sums["bytes_zero"] >> 10,
                                                      sums["bytes_blocks"] >> 10))
            print("| %s | all, 0.5 s later | %d | | %d |" % (name, again["bytes"] >> 10, again["bytes_stored"] >> 10))
        finally:
            shutil.rmtree(folder)


main(sys.argv[1:])
