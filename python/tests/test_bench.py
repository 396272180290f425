"""bench/mlperf with little data: all of it comes back, and the bytes are as they must be."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

if not importlib.util.find_spec("torch"):  # to import it takes seconds
    pytest.skip("there is no torch (python3-torch)", allow_module_level=True)
library = os.environ.get("LIBVARVE")
if library and not (pathlib.Path(library) / "libvarve_env.so.0").exists():
    pytest.skip("this build has no libvarve_env (libssl-dev)", allow_module_level=True)

WRITES = 2


def test_mlperf(tmp_path):
    command = [sys.executable, "-B", str(ROOT / "bench/mlperf/mlperf.py"), "--size", "4", "--workers", "2", "--writes",
               str(WRITES), "--ways", "files,torch.save,varve", "--json", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {(line["case"], line["way"]): line for line in lines if "way" in line}
    assert len(found) == 9 and all(one["verified"] == WRITES for one in found.values())
    for case in ("identical", "new"):
        files, mine = found[case, "files"], found[case, "varve"]
        assert files["stored"] == WRITES * files["state"]  # all of it, each time
        share = mine["stored"] / files["state"]
        copies = 1 if case == "identical" else WRITES
        assert 0.5 * copies < share < 1.1 * copies, (case, share)  # the tables weigh more where there is little
    mine, unique = (found["adam", "varve"][name] for name in ("stored", "unique"))
    assert mine < 1.1 * unique, mine / unique
    assert all(0 < one["blocked"] <= one["durable"] and one["load"] > 0 for one in found.values())
    compared = [line["compared"] for line in lines if "compared" in line]
    assert "adam: bytes stored, of unique ones" in compared and "new: durable, of files" in compared
