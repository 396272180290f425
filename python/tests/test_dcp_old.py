"""varve.dcp with the names that torch 1.13 has: torch.distributed._shard.checkpoint, one process.

Python 3.11 cannot import that module: a dataclass there has a default that cannot be hashed. The program below makes
it so that it can."""
import pytest

torch = pytest.importorskip("torch", reason="there is no torch")
pytestmark = pytest.mark.skipif(not torch.__version__.startswith("1.13"),
                                reason=f"torch is {torch.__version__}: test_dcp.py is for that")

PROGRAM = """
import dataclasses, sys

process = dataclasses._process_class
def hashable(cls, *rest, **more):
    made = process(cls, *rest, **more)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made
dataclasses._process_class = hashable

import torch
import torch.distributed._shard.checkpoint as dcp
from varve.dcp import VarveReader, VarveWriter

def state(k):
    return {"x": torch.arange(3000.0) + k, "t": torch.arange(12).reshape(3, 4).t() + k,
            "b": torch.ones(5).bfloat16() * k, "s": torch.tensor(2.5 + k), "k": {"step": k}}

with VarveWriter(sys.argv[1], "old") as writer:
    for k in (1, 2):
        dcp.save_state_dict(state(k), writer, no_dist=True)
for version, k in ((0, 1), (None, 2)):
    found = state(77)
    dcp.load_state_dict(found, VarveReader(sys.argv[1], "old", version=version), no_dist=True)
    for key, value in state(k).items():
        is_same = torch.equal(found[key], value) if isinstance(value, torch.Tensor) else found[key] == value
        assert is_same, (key, found[key])
print("loaded")
"""


def test_save_and_load(ck, run):
    assert "loaded" in run(PROGRAM, ck, timeout=280).stdout
