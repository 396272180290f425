"""varve.dcp with the real torch.distributed.checkpoint (2.x), many processes. tests/python/torch26.sh runs it."""
import random
import signal
import subprocess
import sys
import time

import pytest
import ranks
from conftest import HERE, ROOT, scale

import varve

torch = pytest.importorskip("torch", reason="there is no torch")
pytest.importorskip("torch.distributed.checkpoint", reason="this torch has no torch.distributed.checkpoint; "
                    "tests/python/torch26.sh makes a root that has it")

JOB = HERE / "dcp_job.py"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Stores that were saved by 2, 3 and 4 ranks."""
    stores = {}
    for count in (2, 3, 4):
        stores[count] = str(tmp_path_factory.mktemp("saved") / "ck")
        ranks.run(count, JOB, "save", stores[count], timeout=300)
    return stores


@pytest.mark.parametrize("now", [1, 2, 4])
def test_every_sharding_comes_back_as_every_other(saved, now):
    """From 2, 3 and 4 ranks."""
    _, texts = ranks.run(now, JOB, "load", *saved.values(), timeout=600)
    made = [int(line.split()[1]) for line in texts[0].splitlines() if line.startswith("loaded ")]
    assert len(made) == 3 and min(made) > 50, texts[0]


def test_tensors_are_arrays_of_the_store(saved):
    checkpoint = varve.Store(saved[4])["job"].latest
    for array in checkpoint.arrays():
        assert array.is_whole or array.name == "torch.distributed.checkpoint" or array.name.startswith("other."), \
            (array.name, array.problem)
    array = checkpoint["model.shard1.big"]
    assert array.shape == (600, 400) and array.type == "f32"
    assert (array[...].reshape(-1) == [(7 * i + 3) % 251 for i in range(240000)]).all()
    assert checkpoint["model.shard0.uneven"].type == "bf16"
    assert varve.Store(saved[4]).verify() == []


def test_replicas_are_stored_once(saved):
    """All ranks have the replicated tensors, and one of them stores each."""
    checkpoint = varve.Store(saved[4])["job"].latest
    regions = [region for region in checkpoint.regions() if region.name == "model.replicate.big"]
    assert len(regions) == 4 and len({region.digest for region in regions}) == 1


def test_what_changes_after_async_save_is_stored_as_it_was(ck):
    ranks.run(2, JOB, "asynchronous", ck, timeout=300)


def test_replicas_that_differ_are_an_error(ck):
    ranks.run(3, JOB, "differ", ck, timeout=300)


def test_a_planner_that_fails_on_one_rank(ck):
    ranks.run(3, JOB, "broken", ck, timeout=300)


@pytest.mark.parametrize("count", [1, 2])
def test_what_no_rank_can_save(ck, count):
    ranks.run(count, JOB, "broken_alike", ck, timeout=300)


def test_a_load_reads_what_it_needs(ck):
    ranks.run(4, JOB, "bytes_read", ck, "save", timeout=300)
    _, texts = ranks.run(2, JOB, "bytes_read", ck, "load", timeout=300)
    for text in texts:
        words = text.split()
        need, read = int(words[words.index("needs") + 1]), int(words[words.index("reads") + 1])
        assert need == 32 << 20
        assert need <= read <= 1.1 * need, text


def test_all_ranks_are_killed_while_they_save(ck):
    chance = random.Random(5)
    for life in range(scale(4, 1)):
        with ranks.Job(2, JOB, "until_killed", ck) as job:
            first = job.processes[0].stdout
            for _ in range(3):
                line = first.readline()
                while not line.startswith("saved"):
                    assert line, "it has ended"
                    line = first.readline()
            done = int(line.split()[1])
            time.sleep(chance.random() * 0.3)
            for process in job.processes:
                process.send_signal(signal.SIGKILL)
        _, texts = ranks.run(2, JOB, "after_kill", ck, timeout=300)
        assert int(texts[0].rpartition("at ")[2]) >= done
    assert [finding for finding in varve.Store(ck).verify() if finding.level < 2] == []


def test_one_process_without_a_group(ck):
    """No process group, ids with and without numbers, and a run that goes back."""
    import torch.distributed.checkpoint as dcp

    from varve.dcp import VarveReader, VarveWriter

    def loaded(**how):
        state = {"x": torch.zeros(10), "k": 0}
        at = how.pop("checkpoint_id", None)
        dcp.load(state, storage_reader=VarveReader(ck, "one", **how), checkpoint_id=at)
        return state["k"]

    with pytest.raises(dcp.CheckpointException, match="NO_STORE"):
        loaded()
    with VarveWriter(ck, "one", keep="all") as writer:
        for k, at in enumerate(["best", "step-7", None, 20, "best", 12]):
            dcp.save({"x": torch.full((10,), float(k)), "k": k}, storage_writer=writer, checkpoint_id=at)
    assert sorted(varve.Store(ck)["one"]) == [0, 7, 8, 12, 20, 21]
    assert [loaded(checkpoint_id=at) for at in ("best", "step-7", "a/b-8", 20, 12)] == [4, 1, 2, 3, 5]
    assert loaded(version=0) == 0
    assert loaded() == 5  # the newest run, although its number is lower
    with pytest.raises(dcp.CheckpointException, match="99"):
        loaded(checkpoint_id=99)


def test_a_step_that_failed_is_saved_again(ck):
    """No file may grow, so a save fails; then there is space, and the same step is saved."""
    import resource

    import torch.distributed.checkpoint as dcp

    from varve.dcp import VarveWriter

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    state = {"x": torch.randn(1_000_000)}
    with VarveWriter(ck, "one", keep="all") as writer:
        dcp.save(state, storage_writer=writer, checkpoint_id=1)
        state["x"].normal_()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(dcp.CheckpointException):
                dcp.save(state, storage_writer=writer, checkpoint_id=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with pytest.warns(RuntimeWarning, match="the save of version 2 failed"):
            dcp.save(state, storage_writer=writer, checkpoint_id=2)
        dcp.save(state, storage_writer=writer, checkpoint_id=3)
    assert sorted(varve.Store(ck)["one"]) == [1, 2, 3]


def test_the_bench_runs(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "bench/dcp.py"), "--mib", "8", "--ranks", "2", "--repeat", "1",
                           str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "async_save blocked" in done.stdout and "varve" in done.stdout
