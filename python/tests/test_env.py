"""Several ranks without MPI: varve.open(..., comm="env")."""
import os
import pathlib
import random
import re
import time

import numpy as np
import pytest
import ranks
from conftest import HERE, scale

import varve

JOB = HERE / "env_job.py"
FIELD = np.arange(61 * 40, dtype="f8").reshape(61, 40)

library = os.environ.get("LIBVARVE")
if library and not (pathlib.Path(library) / "libvarve_env.so.0").exists():
    pytest.skip("this build has no libvarve_env (libssl-dev)", allow_module_level=True)


def test_other_numbers_of_ranks(ck):
    for last, count in enumerate([2, 4, 3, 1, 4]):
        _, texts = ranks.run(count, JOB, "rows", ck, last + 1)
        assert all(f"begun at {last}\n" in text for text in texts), texts
    newest = varve.Store(ck)["job"].latest
    assert newest.version == 5 and newest.ranks == 4
    assert (newest["field"][...] == FIELD * 5).all()


def test_one_rank_is_killed(ck):
    """At any moment. The others end with an error and do not hang; the next run goes on, on another number of ranks."""
    chance = random.Random(11)
    seen = done = 0
    for turn in range(scale(10, 4)):
        count = 2 + turn % 3
        with ranks.Job(count, JOB, "rows", ck, 100000) as job:
            killed = chance.randrange(count)
            lines = []
            while not lines or not lines[-1].startswith("step"):
                lines.append(job.processes[killed].stdout.readline())
                assert lines[-1], lines
            time.sleep(chance.random() * 0.3)
            job.processes[killed].kill()
            codes, texts = job.wait(timeout=60)
        begun = int(re.match(r"begun at (\d+)", lines[0]).group(1))
        assert begun >= done, "a checkpoint that the next one waited for is gone"
        assert codes[killed] == -9 and all(code == 1 for rank, code in enumerate(codes) if rank != killed), texts
        seen += begun > 0
        steps = [int(n) for n in re.findall(r"^step (\d+)$", "".join(lines + texts), re.M)]
        done = max(done, max(steps) - 1)  # checkpoint n has waited for n - 1
        assert any("rank" in text and "varve.errors" in text for text in texts), texts
    assert seen > 0
    newest = varve.Store(ck)["job"].latest
    assert newest.version >= done and (newest["field"][...] == FIELD * newest.version).all()
    assert [f for f in varve.Store(ck).verify() if f.level < 2] == []


def test_an_exception_on_one_rank_does_not_leave_the_others_waiting(ck):
    pytest.importorskip("torch", reason="there is no torch (python3-torch)")
    _, texts = ranks.run(2, JOB, "fail_alone", ck, timeout=60)
    assert all("closed" in text for text in texts), texts
    assert sorted(varve.Store(ck)["alone"]) == [1, 2]


@pytest.mark.parametrize("where", ["block", "program"])
def test_a_checkpoint_in_flight_is_stored_when_the_program_exits(ck, where):
    ranks.run(2, JOB, "exit_early", ck, where)
    assert list(varve.Store(ck)["exit"]) == [1]
    assert varve.Store(ck).verify() == []


def test_errors_are_the_same_on_all_ranks(ck):
    _, texts = ranks.run(2, JOB, "disagree", ck)
    assert all("disagreed -20011" in text for text in texts), texts


def test_exception_on_one_rank(ck):
    codes, texts = ranks.run(2, JOB, "leave", ck, check=False, timeout=60)
    assert codes == [1, 1] and "ZeroDivisionError" in texts[1] and "varve.errors" in texts[0], texts
    assert varve.Store(ck)["leave"].latest.version == 1


def test_interrupted_while_ranks_are_missing(ck):
    begun = time.monotonic()
    codes, texts = ranks.run(2, JOB, "interrupt", ck, check=False, timeout=60)
    assert "interrupted" in texts[0] and codes == [0, 0], texts
    assert time.monotonic() - begun < 25  # and not the 30 s that open waits


def test_fork_beside_a_session(ck):
    _, texts = ranks.run(2, JOB, "fork", ck)
    assert all("closed" in text for text in texts)
    assert (varve.Store(ck)["fork"].latest.read("a", 1) == 55 + 9).all()


def test_what_comm_can_be(ck, monkeypatch):
    with pytest.raises(ValueError, match="env"):
        varve.open(ck, "a", comm="mpi")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(varve.Error, match="RANK|WORLD_SIZE"):
        varve.open(ck, "a", comm="env")
