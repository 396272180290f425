"""One rank of the jobs of test_dcp.py: dcp_job.py WHAT STORE [argument...]"""
import copyreg
import os
import pickle
import sys
import time
import types
import warnings

os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch is without

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import varve
from varve.dcp import VarveReader, VarveWriter, ZeroState

# Exceptions go from rank to rank with the frames of their traceback, which Python 3.13 cannot pickle any more.
copyreg.pickle(types.CodeType, lambda code: (str, (code.co_name,)))
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SHAPES = {"even": (8, 6), "uneven": (7, 9), "few": (2, 5), "flat": (1001,), "deep": (3, 4, 5), "big": (600, 400)}
TYPES = {"even": torch.float32, "uneven": torch.bfloat16, "few": torch.float64, "flat": torch.float16,
         "deep": torch.int64, "big": torch.float32}


def value_of(name, step=0):
    """All of a tensor, the same in every job."""
    count = torch.Size(SHAPES[name]).numel()
    return ((torch.arange(count) * 7 + len(name) + 13 * step) % 251).to(TYPES[name]).reshape(SHAPES[name])


def kinds(mesh, grid):
    """Every way in which a tensor can be on these ranks."""
    made = {"replicate": (mesh, [Replicate()])}
    for dim in range(3):
        made[f"shard{dim}"] = (mesh, [Shard(dim)])
    if grid is not None:
        made["both"] = (grid, [Shard(0), Shard(1)])
        made["half"] = (grid, [Replicate(), Shard(0)])
        made["other"] = (grid, [Shard(0), Replicate()])
        made["twice"] = (grid, [Shard(0), Shard(0)])
    return made


def tensors(make, every):
    """{"shard0.even": DTensor, ...}"""
    made = {}
    for kind, (mesh, placements) in every.items():
        for name in SHAPES:
            if all(p.dim < len(SHAPES[name]) for p in placements if isinstance(p, Shard)):
                made[f"{kind}.{name}"] = distribute_tensor(make(name), mesh, placements)
    return made


def meshes():
    return init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (2, 2)) if RANKS == 4 else None


def others(step=0):
    """What is no DTensor."""
    return {"plain": torch.arange(12.0).reshape(3, 4) + step, "turned": torch.arange(12.0).reshape(3, 4).t() * 2 + step,
            "scalar": torch.tensor(3.5 + step), "flags": torch.tensor([True, False, True]), "none": torch.empty(0, 3),
            "complex": torch.complex(torch.ones(3), torch.arange(3.0)), "lr": 0.25 + step, "name": "adam",
            "list": [torch.ones(2) + step, {"deep": torch.zeros(3) + step}]}


def state_of(step=0):
    return {"model": tensors(lambda name: value_of(name, step), kinds(*meshes())), "other": others(step),
            "tied": {"a": SHARED, "b": SHARED}}


SHARED = torch.arange(5000.0)


def same(a, b):
    a, b = (x.full_tensor() if isinstance(x, DTensor) else x for x in (a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def must_be(name, found, wanted):
    if isinstance(wanted, dict):
        for key in wanted:
            must_be(f"{name}.{key}", found[key], wanted[key])
    elif isinstance(wanted, list):
        for i, one in enumerate(wanted):
            must_be(f"{name}.{i}", found[i], one)
    else:
        assert same(found, wanted), f"{name} of rank {RANK}: {found} instead of {wanted}"


def wipe(state):
    if isinstance(state, dict):
        return {key: wipe(value) for key, value in state.items()}
    if isinstance(state, list):
        return [wipe(value) for value in state]
    if isinstance(state, torch.Tensor):
        with torch.no_grad():
            (state.to_local() if isinstance(state, DTensor) else state).zero_()
        return state
    return None


def save(store):
    """Two saves, the second with an id of its own; a writer that was pickled."""
    with pickle.loads(pickle.dumps(VarveWriter(store, "job"))) as writer:
        dcp.save(state_of(1), storage_writer=writer, checkpoint_id=f"step-{RANKS * 10}")
        dcp.save(state_of(), storage_writer=writer)


def load(*stores):
    """Of 2, 3 and 4 ranks."""
    for saved, store in zip("234", stores):
        load_one(store, saved)


def load_one(store, saved):
    """Each tensor in each way that there is here, from each way in which it was saved."""
    mesh, grid = meshes()
    made = 0
    grids = ("both", "half", "other", "twice") if saved == "4" else ()
    for kind in ("replicate", "shard0", "shard1", "shard2") + grids:
        for mine, place in kinds(mesh, grid).items():
            found = tensors(lambda name: torch.zeros(SHAPES[name], dtype=TYPES[name]), {mine: place})
            state = {}
            for key, tensor in found.items():
                name = key.partition(".")[2]
                if not (kind.startswith("shard") and int(kind[5:]) >= len(SHAPES[name])) and \
                        not (kind == "both" and len(SHAPES[name]) < 2):
                    state[f"{kind}.{name}"] = tensor
            dcp.load({"model": state}, storage_reader=VarveReader(store, "job"))
            for key, tensor in state.items():
                must_be(f"{key} as {mine}", tensor, value_of(key.partition(".")[2]))
                made += 1
    state = {"other": wipe(others()), "tied": {"a": torch.zeros(5000), "b": torch.zeros(5000)}}
    dcp.load(state, storage_reader=pickle.loads(pickle.dumps(VarveReader(store, "job"))))
    must_be("other", state["other"], others())
    must_be("tied", state["tied"], {"a": SHARED, "b": SHARED})
    state = {"other": wipe(others())}
    dcp.load(state, storage_reader=VarveReader(store, "job"), checkpoint_id=f"/x/step-{int(saved) * 10}")
    must_be("the older one", state["other"], others(1))
    print("loaded", made)


def asynchronous(store):
    """Values that change right after the call are stored as they were at the call."""
    grown = torch.nn.Parameter(torch.zeros(3_000_000))
    spread = distribute_tensor(torch.zeros(1000, 500), init_device_mesh("cpu", (RANKS,)), [Shard(0)])
    turned = torch.zeros(400, 300)
    state = {"grown": grown, "spread": spread, "turned": turned.t(), "count": [0]}
    writer = VarveWriter(store, "job", keep="all")
    saving = None
    for step in range(1, 6):
        with torch.no_grad():
            grown.add_(1)
            spread.to_local().add_(1)
            turned.add_(1)
        state["count"][0] += 1
        if saving is not None and step != 3:  # once, one is begun before the other is done
            saving.result()
        saving = dcp.async_save(state, storage_writer=writer, checkpoint_id=step)
        with torch.no_grad():
            grown.mul_(1000)
            spread.to_local().fill_(-1)
            turned.fill_(-2)
            state["count"][0] += 1000
            time.sleep(0.02)
            grown.div_(1000)
            spread.to_local().fill_(step)
            turned.fill_(step)
            state["count"][0] -= 1000
    saving.result()
    for step in range(1, 6):
        found = {"grown": torch.zeros(3_000_000), "spread": torch.zeros(1000, 500), "turned": torch.zeros(300, 400),
                 "count": [0]}
        dcp.load(found, storage_reader=VarveReader(store, "job"), checkpoint_id=step)
        for name in ("grown", "spread", "turned"):
            assert torch.equal(found[name], torch.full_like(found[name], step)), (name, step, found[name])
        assert found["count"] == [step]
    writer.close()


def differ(store):
    """What differs between ranks is an error with its key and the ranks, and the checkpoint before is loaded."""
    writer = VarveWriter(store, "job")
    good, bad = {"x": torch.ones(5000)}, {"x": torch.ones(5000), "mine": torch.full((3000,), float(RANK // 2))}
    dcp.save(good, storage_writer=writer)
    try:
        dcp.save(bad, storage_writer=writer)
        raise AssertionError("a tensor that differs was saved")
    except dcp.CheckpointException as why:
        assert "mine is not the same tensor on ranks 0 and 2" in str(why), why
    assert varve.Store(store)["job"][0].is_pinned  # three such saves would push it out otherwise
    found = {"x": torch.zeros(5000)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        reader = VarveReader(store, "job")
        dcp.load(found, storage_reader=reader)
    assert reader.version == 0 and torch.equal(found["x"], good["x"])
    assert any("version 1 is passed over: mine is not the same" in str(one.message) for one in told)
    try:
        dcp.load({"mine": torch.zeros(3000)}, storage_reader=VarveReader(store, "job", version=1))
        raise AssertionError("a tensor that differs was loaded")
    except dcp.CheckpointException as why:
        assert "ranks 0 and 2" in str(why), why
    writer.close()
    lenient = VarveWriter(store, "lenient", replicas="lowest")
    dcp.save(bad, storage_writer=lenient)
    found = {"x": torch.zeros(5000), "mine": torch.full((3000,), 7.0)}
    dcp.load(found, storage_reader=VarveReader(store, "lenient"))
    assert torch.equal(found["mine"], torch.zeros(3000)) and torch.equal(found["x"], good["x"])
    lenient.close()


def broken(store):
    """A planner that fails on one rank makes the save fail on all, and the next save works."""
    class Planner(dcp.DefaultSavePlanner):
        def resolve_data(self, item):
            if RANK == 1 and item.index.fqn == "y":
                raise OSError("this rank has lost it")
            return super().resolve_data(item)

    with VarveWriter(store, "job") as writer:
        state = {"x": torch.ones(100), "y": torch.ones(100)}
        dcp.save(state, storage_writer=writer)
        try:
            dcp.save(state, storage_writer=writer, planner=Planner())
            raise AssertionError("it was saved")
        except dcp.CheckpointException as why:
            assert "this rank has lost it" in str(why), why
        dcp.async_save(state, storage_writer=writer).result()
    assert VarveReader(store, "job")._path == store


def broken_alike(store):
    """What no rank can save leaves no checkpoint, and pushes none out."""
    def tries(at):
        yield lambda: dcp.save(bad, storage_writer=writer, checkpoint_id=at)
        yield lambda: dcp.async_save(bad, storage_writer=writer, checkpoint_id=at + 1).result()

    good, bad = {"x": torch.ones(100)}, {"x": torch.zeros(100), "y": lambda: 0}
    with VarveWriter(store, "job", keep=2) as writer:
        dcp.save(good, storage_writer=writer, checkpoint_id=10)
        for at in (20, 30, 40):
            for try_it in tries(at):
                try:
                    try_it()
                    raise AssertionError("it was saved")
                except (dcp.CheckpointException, AttributeError, pickle.PicklingError) as why:
                    assert "lambda" in str(why), why
        assert list(varve.Store(store)["job"]) == [10]
        dcp.save(good, storage_writer=writer, checkpoint_id=50)
    assert sorted(varve.Store(store)["job"]) == [10, 50]


def bytes_read(store, saved):
    """What a rank reads is what it needs, and little more."""
    whole = (4096, 1024)  # 16 MiB
    mesh = init_device_mesh("cpu", (RANKS,))
    if saved == "save":
        torch.manual_seed(1)
        with VarveWriter(store, "job", codec="none") as writer:  # otherwise less is read than is needed
            state = {f"w{i}": distribute_tensor(torch.randn(whole), mesh, [Shard(0)]) for i in range(4)}
            dcp.save(state, storage_writer=writer)
        return
    torch.manual_seed(1)
    wanted = {f"w{i}": torch.randn(whole) for i in range(4)}
    found = {name: distribute_tensor(torch.zeros(whole), mesh, [Shard(0)]) for name in wanted}
    reader = VarveReader(store, "job")
    dcp.load(found, storage_reader=reader)
    need = sum(one.to_local().numel() * 4 for one in found.values())
    for name in wanted:
        must_be(name, found[name], wanted[name])
    print("needs", need, "reads", reader.bytes_read)


def until_killed(store):
    """Save until somebody kills it; each value is that of its step."""
    writer = VarveWriter(store, "job", keep=2)
    mesh = init_device_mesh("cpu", (RANKS,))
    for step in range(1, 100000):
        state = {"spread": distribute_tensor(torch.full((4000, 500), float(step)), mesh, [Shard(0)]),
                 "same": torch.full((500_000,), float(step)), "step": step}
        dcp.async_save(state, storage_writer=writer, checkpoint_id=step).result()
        print("saved", step, flush=True)


def after_kill(store):
    state = {"spread": distribute_tensor(torch.zeros(4000, 500), init_device_mesh("cpu", (RANKS,)), [Shard(0)]),
             "same": torch.zeros(500_000), "step": 0}
    reader = VarveReader(store, "job")
    dcp.load(state, storage_reader=reader)
    step = state["step"]
    assert reader.version == step
    must_be("spread", state["spread"], torch.full((4000, 500), float(step)))
    must_be("same", state["same"], torch.full((500_000,), float(step)))
    with VarveWriter(store, "job", keep=2) as writer:  # and it goes on
        dcp.save(state, storage_writer=writer, checkpoint_id=step + 1)
    print("at", step)


def zero_edges(store):
    """A rank without parameters, a parameter without gradients, a save before the first step, a load over a state."""
    def make(names):
        model = torch.nn.ParameterDict([(name, torch.nn.Parameter(torch.ones(3))) for name in names])
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.5)
        return model, optimizer, {"optimizer": ZeroState(model, optimizer)}

    def check(rate, first):
        owned = [p for group in optimizer.optim.param_groups for p in group["params"]]
        assert [p is model["a"] for p in owned] == [[True], [False], []][RANK]
        assert [p is model["a"] for p in optimizer.optim.state] == ([True] if RANK == 0 and first is not None else [])
        if RANK == 0 and first is not None:
            state = optimizer.optim.state[model["a"]]
            assert state["step"] == 1 and torch.equal(state["exp_avg"], torch.tensor([first] * 3)), state
            assert set(state) == {"step", "exp_avg", "exp_avg_sq"}
        assert [group["lr"] for group in optimizer.param_groups + optimizer.optim.param_groups] == [rate, rate]

    model, optimizer, state = make("ab")
    with VarveWriter(store, "job", keep="all") as writer:
        dcp.save(state, storage_writer=writer, checkpoint_id=0)
        check(0.5, None)
        model["a"].grad = torch.full((3,), 2.0)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.25  # as a scheduler does
        dcp.save(state, storage_writer=writer, checkpoint_id=1)
    first = float(torch.tensor(2.0).mul(1 - 0.9))
    model["a"].grad = torch.full((3,), 5.0)
    optimizer.step()
    dcp.load(state, storage_reader=VarveReader(store, "job", version=1))
    check(0.25, first)
    dcp.load(state, storage_reader=VarveReader(store, "job", version=0))
    check(0.5, None)
    model, optimizer, state = make("ab")
    dcp.load(state, storage_reader=VarveReader(store, "job"))
    check(0.25, first)
    for names, why in (("ba", "in another order"), ("ac", "optimizer.state.c"), ("a", "in another order: b")):
        model, optimizer, state = make(names)
        try:
            dcp.load(state, storage_reader=VarveReader(store, "job"))
            raise AssertionError(f"{names} was loaded")
        except (dcp.CheckpointException, varve.Mismatch) as told:
            assert why in str(told), told
    print("edges done")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for what in sys.argv[1].split(","):
        {one.__name__: one for one in (save, load, asynchronous, differ, broken, broken_alike, bytes_read,
                                       until_killed, after_kill, zero_edges)}[what](*sys.argv[2:])
    dist.barrier()
    dist.destroy_process_group()
