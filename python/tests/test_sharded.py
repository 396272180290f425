"""torch's own sharded optimisers (ZeroRedundancyOptimizer, FSDP): four workers are killed, and other numbers of workers
go on through varve.dcp. tests/python/torch26.sh runs it."""
import os
import random
import shutil
import time

import pytest
from conftest import HERE

pytest.importorskip("torch", reason="there is no torch")
pytest.importorskip("torch.distributed.checkpoint", reason="this torch has no torch.distributed.checkpoint; "
                    "tests/python/torch26.sh makes a root that has it")

import ranks  # noqa: E402
import varve  # noqa: E402
import workers  # noqa: E402

MORE = 4  # steps after the restart


@pytest.fixture(scope="module")
def server():
    made = workers.Server(HERE / "sharded_job.py",
                          ["varve.dcp", "torch.distributed.fsdp", "torch.distributed.optim",
                           "torch.distributed.checkpoint.state_dict"])
    yield made
    made.close()


def lines_of(path):
    """Of each step the loss and the digest of the state, as hexadecimal numbers."""
    found = {}
    for line in path.read_text().splitlines():
        step, *rest = line.split()
        assert found.setdefault(int(step), rest) == rest, f"step {step} was done twice, and otherwise"
    return found


def run(server, ranks, folder, kind, steps, *options):
    """Run a job to its end: where it begins, with which state, and its lines."""
    folder.mkdir(exist_ok=True)
    job = server.job(ranks, folder, kind, steps, folder / "losses", *options)
    assert job.wait() == [0] * ranks, job.text()
    _, step, state = next(line for line in job.text().splitlines() if line.startswith("begins ")).split()
    return int(step), state, lines_of(folder / "losses")


def kill_in_the_middle(server, folder, kind):
    """Four workers, all killed at some moment after a few steps: what they have done."""
    folder.mkdir()
    (folder / "torch").mkdir()
    losses = folder / "losses"
    job = server.job(4, folder, kind, 100000, losses, "--store", folder / "ck", "--torch", folder / "torch")
    end = time.monotonic() + 60
    while not losses.exists() or losses.read_text().count("\n") < 5:
        assert time.monotonic() < end and job.is_running(), job.text()
        time.sleep(0.01)
    time.sleep(random.Random(3).random())
    for pid in job.pids:
        os.kill(pid, 9)
    assert job.wait() == [-9] * 4, job.text()
    text = losses.read_text()
    losses.write_text(text[:text.rindex("\n") + 1])
    return lines_of(losses)


@pytest.mark.parametrize("kind", ["zero", "fsdp"])
def test_other_numbers_of_workers(server, tmp_path, kind):
    """The state is the same to the last bit. What follows is what torch alone makes of it on as many workers."""
    killed = tmp_path / "killed"
    done = kill_in_the_middle(server, killed, kind)
    check_shares(varve.Store(killed / "ck")["train"].latest, kind)
    for count in (2, 3, 4):
        folder = tmp_path / f"on{count}"
        shutil.copytree(killed / "ck", folder / "ck")
        step = varve.Store(folder / "ck")["train"].latest.version
        assert step >= 4
        first, state, lines = run(server, count, folder, kind, step + MORE, "--store", folder / "ck")
        assert (first, state) == (step, done[step][1]), f"on {count} workers"
        if count == 4:
            first, _, wanted = run(server, 4, tmp_path / "quiet", kind, step + MORE)
            assert first == 0 and {**done, **lines}.keys() >= wanted.keys()
            assert {at: one for at, one in done.items() if at in wanted} == \
                {at: one for at, one in wanted.items() if at in done}
        else:
            first, state, wanted = run(server, count, tmp_path / f"torch{count}", kind, step + MORE,
                                       "--begin", killed / f"torch/{step}.pt")
            assert (first, state) == (step, done[step][1])
        assert sorted(lines) == list(range(step + 1, step + MORE + 1))
        assert lines == {at: one for at, one in wanted.items() if at > step}, f"on {count} workers"


def test_zero_without_a_state_yet(ck):
    _, texts = ranks.run(3, HERE / "dcp_job.py", "zero_edges", ck)
    assert all("edges done" in text for text in texts)


def check_shares(checkpoint, kind):
    """Each worker has stored its part of the moments, and no other."""
    owners = {}
    for region in checkpoint.regions():
        if region.name.endswith(".exp_avg"):
            owners.setdefault(region.name, []).append(region.rank)
    found = [rank for each in owners.values() for rank in each]
    assert len(owners) > 20 and set(found) == {0, 1, 2, 3}
    assert kind == "fsdp" or len(found) == len(owners)
    for array in checkpoint.arrays():
        assert not array.name.endswith(".exp_avg") or array.is_whole, array.problem
