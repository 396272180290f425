"""examples/train.py: workers killed at random, and other numbers of workers. TRAINING_KILLS: how many are killed."""
import os
import pathlib
import random
import re
import shutil
import time

import pytest
from conftest import ROOT

pytest.importorskip("torch", reason="there is no torch (python3-torch)")
import torch.distributed  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)
library = os.environ.get("LIBVARVE")
if library and not (pathlib.Path(library) / "libvarve_env.so.0").exists():
    pytest.skip("this build has no libvarve_env (libssl-dev)", allow_module_level=True)

import varve  # noqa: E402
import workers  # noqa: E402

KILLS = int(os.environ.get("TRAINING_KILLS", "2"))
SEED = int(os.environ.get("TRAINING_SEED", "1"))


@pytest.fixture(scope="module")
def server():
    made = workers.Server()
    yield made
    made.close()


def losses_of(path):
    """Of each step all losses that were written: one for each time it was done."""
    found = {}
    for line in path.read_text().splitlines():
        step, loss, _ = line.split()
        found.setdefault(int(step), set()).add(loss)
    return found


def run(server, ranks, folder, *arguments):
    job = server.job(ranks, folder, *arguments)
    assert job.wait() == [0] * ranks, job.text()
    return job.text()


def kill_somewhere(job, chance):
    """One worker, or all of them, while they start, or at some moment after that."""
    if chance.random() < 0.8:
        end = time.monotonic() + 60
        while "begins at" not in job.text() and time.monotonic() < end:
            time.sleep(0.01)
    time.sleep(chance.random() * 2)
    killed = [chance.randrange(len(job.pids))] if chance.random() < 0.6 else range(len(job.pids))
    for rank in killed:
        os.kill(job.pids[rank], 9)  # has not been waited for: the number is still this worker's
    codes = job.wait(90)
    assert None not in codes, f"a worker did not end when another was killed\n{job.text()}"
    assert all(codes[rank] in (-9, 0) for rank in killed), job.text()
    return codes


@pytest.mark.parametrize("way", ["plain", "zero"])
def test_killed(server, tmp_path, way):
    """The losses are those of an undisturbed run, to the last bit, also those of steps that are done again."""
    kills = KILLS if way == "plain" else -(-KILLS // 4)
    options = ["--zero"] if way == "zero" else []
    steps = 24 + 4 * kills
    quiet, story = tmp_path / "quiet", tmp_path / "story"
    for folder in (quiet, story):
        folder.mkdir()
    undisturbed = run(server, 4, quiet, *options, "--steps", steps, "--losses", quiet / "losses", quiet / "ck")
    wanted = losses_of(quiet / "losses")
    assert sorted(wanted) == list(range(1, steps + 1)) and all(len(one) == 1 for one in wanted.values())
    chance = random.Random(SEED)
    arguments = [*options, "--steps", steps, "--losses", story / "losses", story / "ck"]
    done = restarts = 0
    while done < kills:
        job = server.job(4, story, *arguments)
        if kill_somewhere(job, chance) == [0] * 4:  # came too late: the story begins again
            check(story, wanted, undisturbed, job.text())
            shutil.rmtree(story)
            story.mkdir()
            continue
        done += 1
        restarts += bool(re.search(r"begins at [1-9]", job.text()))
    last = run(server, 4, story, *arguments)
    check(story, wanted, undisturbed, last)
    assert restarts or re.search(r"begins at [1-9]", last), last
    print(f"{done} kills, {restarts} restarts that were killed again")


def check(story, wanted, undisturbed, text):
    assert losses_of(story / "losses") == wanted
    ends = r"ends at \d+, state \w+"
    assert re.findall(ends, undisturbed) == re.findall(ends, text) != []
    assert [f for f in varve.Store(story / "ck").verify() if f.level < 2] == []


def test_other_numbers_of_workers(server, tmp_path):
    """A sharded optimiser goes from 4 workers to 2, 3, 1 and 4; the whole state has the same bits each time."""
    state, first = None, 0
    for ranks in (4, 2, 3, 1, 4):
        last = first + 3
        text = run(server, ranks, tmp_path, "--zero", "--steps", last, tmp_path / "ck")
        begun = set(re.findall(r"begins at (\d+) on \d workers, state (\w+)", text))
        assert state is None or begun == {(str(first), state)}, text
        (state,), first = set(re.findall(r"ends at \d+, state (\w+)", text)), last
    moments = varve.Store(tmp_path / "ck")["train"].latest["optimizer/state/0/exp_avg"]
    assert moments.is_whole and len(moments.shape) == 1


def test_an_epoch_ends_within_a_batch(server, tmp_path):
    """4096 samples are four batches of 1000 and a rest, which is left out."""
    text = run(server, 2, tmp_path, "--batch", "1000", "--width", "8", "--layers", "1", "--steps", "6",
               tmp_path / "ck")
    assert "ends at 6" in text


def size_of(folder):
    return sum(os.path.getsize(os.path.join(path, file)) for path, _, files in os.walk(folder) for file in files)


def test_bytes_of_a_step(server, tmp_path):
    """Four workers store one replica: at most 1.03 of the bytes that change in it."""
    options = ["--width", 128, "--layers", 2, "--keep", 1000000]
    sizes = []
    for steps in (2, 8):
        run(server, 4, tmp_path, *options, "--steps", steps, tmp_path / "ck")
        sizes.append(size_of(tmp_path / "ck"))
    newest = varve.Store(tmp_path / "ck")["train"].latest
    parameters = sum(array.size for array in newest.arrays() if array.name.startswith("model/"))
    share = (sizes[1] - sizes[0]) / 6 / (12 * parameters)  # a value and two moments
    print(f"{share:.4f} of the {12 * parameters} bytes that change in a replica")
    assert 0.3 < share <= 1.03
