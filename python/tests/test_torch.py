"""varve.torch: states of PyTorch in a session of one process. test_training.py has jobs of several."""
import gc
import os
import random
import warnings

import numpy as np
import pytest
from conftest import scale

torch = pytest.importorskip("torch", reason="there is no torch (python3-torch)")

import varve  # noqa: E402
import varve.torch  # noqa: E402
from varve import _tree  # noqa: E402


def quiet(level, line):
    pass


def model_and_optimizer(kind=torch.optim.Adam):
    model = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 3))
    return model, kind(model.parameters(), lr=0.01)


def train(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.randn(16, 30)).pow(2).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad"])
def test_goes_on_with_the_same_losses(ck, kind):
    torch.manual_seed(1)
    model, optimizer = model_and_optimizer(getattr(torch.optim, kind))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    parts = dict(model=model, optimizer=optimizer, schedule=schedule, random=varve.torch.Random())
    with varve.open(ck, "t", log=quiet) as s:
        assert varve.torch.load(s, **parts) is None
        for step in range(5):
            train(model, optimizer)
            schedule.step()
            varve.torch.save(s, step + 1, **parts)
    wanted = [train(model, optimizer) for _ in range(4)] + [random.random(), np.random.rand()]
    model, optimizer = model_and_optimizer(getattr(torch.optim, kind))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    with varve.open(ck, "t", log=quiet) as s:
        at = varve.torch.load(s, model=model, optimizer=optimizer, schedule=schedule, random=varve.torch.Random())
        assert at.step == 5 and schedule.last_epoch == 5
        assert [train(model, optimizer) for _ in range(4)] + [random.random(), np.random.rand()] == wanted


def test_saved_and_filled_in_place(ck):
    """No copy: the session has the memory of the tensors, and a load writes into it."""
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, model=model, optimizer=optimizer, wait=True)
        for name, tensor in model.state_dict().items():
            if tensor.dim():
                assert s._regions[f"model/{name}"].memory.__array_interface__["data"][0] == tensor.data_ptr()
        moment = optimizer.state[model[0].weight]["exp_avg"]
        assert s._regions["optimizer/state/0/exp_avg"].memory.__array_interface__["data"][0] == moment.data_ptr()
        kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        places = [p.data_ptr() for p in model.parameters()]
        for p in model.parameters():
            p.data.zero_()
        varve.torch.load(s, model=model)
        assert [p.data_ptr() for p in model.parameters()] == places
        assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())


def test_replaced_tensors_are_followed(ck):
    """Tensors that are replaced, come, go, and change their size between checkpoints."""
    state = {"a": torch.ones(1000)}
    with varve.open(ck, "t", keep="all", log=quiet) as s:
        varve.torch.save(s, 1, state=state)
        state["a"] = torch.full((1000,), 2.0)
        varve.torch.save(s, 2, state=state)
        state["a"].add_(1)
        state["b"] = torch.arange(10)
        varve.torch.save(s, 3, state=state)
        state = {"a": torch.zeros(7, dtype=torch.float64)}
        gc.collect()
        varve.torch.save(s, 4, state=state)
    store = varve.Store(ck)["t"]
    assert [store[n]["state/a"][0] for n in (1, 2, 3, 4)] == [1, 2, 3, 0]
    assert "state/b" in store[3] and "state/b" not in store[2] and "state/b" not in store[4]
    assert store[4]["state/a"].shape == (7,) and store[4]["state/a"].dtype == np.float64


NESTED = {"text": "é\n", "none": None, "yes": True, "int": 1 << 90, "float": 0.1, "inf": float("inf"), 3: "three",
          "3": "text", "tuple": (1, [2, (3, {})]), "bytes": b"\0\xff", "empty": {}, "scalar": torch.tensor(1.5),
          "count": torch.tensor(7), "np": np.arange(6.0).reshape(2, 3), "np32": np.float32(0.1), "a/b": torch.ones(2),
          "a": {"b": torch.zeros(2)}, "flags": torch.tensor([True, False]), "none_left": torch.zeros(0, 4)}


def same(a, b):
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def test_nested_values(ck):
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, state=NESTED, step=5, session="a", wait=True)
        at = varve.torch.load(s, state=None, step=None, session=None)
        assert same(NESTED, at["state"]) and (at["step"], at["session"], at.step) == (5, "a", 1)
        here = {"a": {"b": torch.ones(2)}, "gone": 1}
        inner = here["a"]["b"]
        varve.torch.load(s, state=here)
        assert same({k: here[k] for k in NESTED}, NESTED) and "gone" not in here
        assert here["a"]["b"] is inner
    assert not same(NESTED, dict(NESTED, float=0.2)) and not same(NESTED, dict(NESTED, scalar=torch.tensor(2.5)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "uint8", "int16", "int32",
                                   "int64", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"])
def test_types(ck, dtype):
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    tensor = torch.randint(0, 2, (5, 7)).to(getattr(torch, dtype))
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, x=tensor, wait=True)
        made = varve.torch.load(s, x=None)["x"]
        assert made.dtype == tensor.dtype and made.shape == tensor.shape
        assert torch.equal(made.to(torch.complex128), tensor.to(torch.complex128))
        there = torch.zeros_like(tensor)
        varve.torch.load(s, x=there)
        assert torch.equal(there.to(torch.complex128), tensor.to(torch.complex128))


def test_ways_to_lie_in_memory(ck):
    """Permuted ones in place; those that lie apart by a copy, which each save makes anew."""
    whole = torch.arange(240.0)
    parts = {"turned": whole.view(12, 20).t(), "last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
             "apart": torch.arange(100.0)[::3], "wide": torch.ones(1, 4).expand(3, 4), "turned_np": np.ones((3, 4)).T}
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, parts=parts)
        assert s._regions["parts/turned"].memory.__array_interface__["data"][0] == whole.data_ptr()
        parts["apart"].mul_(2)
        whole.add_(1)
        varve.torch.save(s, 2, parts=parts, wait=True)
        kept = {name: one.copy() if isinstance(one, np.ndarray) else one.clone() for name, one in parts.items()}
        made = varve.torch.load(s, parts=None)["parts"]
        assert same(made, kept) and made["last"].stride() == parts["last"].stride()
        here = {"turned": torch.zeros(12, 20).t(), "last": torch.zeros(2, 3, 4, 5), "apart": torch.zeros(68)[::2],
                "wide": torch.zeros(3, 4), "turned_np": np.zeros((4, 3))}
        inner = dict(here)
        varve.torch.load(s, parts=here)
        assert same(here, kept) and all(here[name] is inner[name] for name in here)


def test_conjugate_and_negative_views(ck):
    """Memory has other values than such a tensor: each save copies it anew, and a load fills it."""
    x = torch.complex(torch.arange(50.0), torch.arange(50.0) + 1)
    parts = {"plain": x, "conj": x.conj(), "neg": x.conj().imag}
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, parts=parts)
        x.mul_(2)
        varve.torch.save(s, 2, parts=parts, wait=True)
        kept = {name: one.resolve_conj().resolve_neg().clone() for name, one in parts.items()}
        assert same(varve.torch.load(s, parts=None)["parts"], kept)
        for name in ("conj", "neg"):
            x.zero_()
            varve.torch.load(s, parts={name: parts[name]})
            assert torch.equal(parts[name], kept[name])


def test_an_array_and_its_transpose_in_one_place(ck):
    a = np.arange(16.0).reshape(4, 4)
    with varve.open(ck, "t", keep="all", log=quiet) as s:
        varve.torch.save(s, 1, a=a)
        varve.torch.save(s, 2, a=a.T, wait=True)
        assert same(varve.torch.load(s, 1, a=None)["a"], a)
        assert same(varve.torch.load(s, 2, a=None)["a"], np.ascontiguousarray(a.T))


def test_arrays_that_lie_apart_are_filled(ck):
    a, b = np.arange(10.0), np.zeros(20)
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, a=a, wait=True)
        varve.torch.load(s, a=b[::2])
        assert (b[::2] == a).all() and (b[1::2] == 0).all()


def test_numbers_and_lists_must_fit(ck):
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, x=torch.tensor(2.5), y=[torch.ones(3)], wait=True)
        for other in (torch.zeros(4), torch.tensor(0.0, dtype=torch.float16), np.zeros(3)):
            with pytest.raises(varve.Mismatch, match="x is torch.float32"):
                varve.torch.load(s, x=other)
            assert not other.any()
        two = [torch.zeros(3), torch.zeros(3)]
        with pytest.raises(varve.Mismatch, match="y has 1 elements in the checkpoint, and 2 here"):
            varve.torch.load(s, y=two)
        assert len(two) == 2 and not two[0].any()
        there = torch.tensor(0.0)
        varve.torch.load(s, x=there)
        assert there == 2.5


def test_two_names_of_one_tensor(ck):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(40, 40, bias=False)
            self.b = torch.nn.Linear(40, 40, bias=False)
            self.b.weight = self.a.weight

    model = Tied()
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, model=model, wait=True)
        assert [r.name for r in varve.Store(ck)["t"].latest.regions() if r.name.startswith("model")] == \
            ["model/a.weight"]
        other = Tied()
        varve.torch.load(s, model=other)
        assert torch.equal(other.b.weight, model.a.weight)
        other = Tied()
        other.b.weight = torch.nn.Parameter(torch.zeros(40, 40))  # no longer tied
        varve.torch.load(s, model=other)
        assert torch.equal(other.b.weight, model.a.weight) and torch.equal(other.a.weight, model.a.weight)


def test_pickle_only_when_asked_for(ck):
    with varve.open(ck, "t", log=quiet) as s:
        with pytest.raises(TypeError, match="info/when.*pickle"):
            varve.torch.save(s, 1, info={"when": np.timedelta64(1, "s")})
        with pytest.raises(TypeError, match="info"):
            varve.torch.save(s, 1, info={(1, 2): 3})
        varve.torch.save(s, 2, pickle=True, info={"when": {1, 2}}, wait=True)
        with pytest.raises(varve.Mismatch, match="info/when"):
            varve.torch.load(s, info=None)
        assert varve.torch.load(s, pickle=True, info=None)["info"] == {"when": {1, 2}}
    assert [c.version for c in varve.Store(ck).checkpoints()] == [2]


def test_another_model(ck):
    """Refused with the name, and nothing is written."""
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, model=torch.nn.Linear(4, 5), wait=True)
        for other, name in ((torch.nn.Linear(4, 6), "model/weight"), (torch.nn.Linear(4, 5).double(), "model/weight"),
                            (torch.nn.Linear(4, 5, bias=False), "model/bias"),
                            (torch.nn.Sequential(torch.nn.Linear(4, 5)), "model/0.weight")):
            kept = {key: tensor.clone() for key, tensor in other.state_dict().items()}
            with pytest.raises(varve.Mismatch, match=name):
                varve.torch.load(s, model=other)
            assert same(dict(other.state_dict()), kept)
        with pytest.raises(varve.Mismatch, match="optimizer"):
            varve.torch.load(s, optimizer=None)
        with pytest.raises(varve.NotFound):
            varve.torch.load(s, 7, model=torch.nn.Linear(4, 5))


def test_another_model_and_what_the_session_protects(ck):
    """Nothing is written there either, and objects are not given back."""
    x, given = np.ones(1000), []
    with varve.open(ck, "t", log=quiet) as s:
        s.protect("x", x)
        s.protect_object("o", lambda: b"kept", given.append)
        varve.torch.save(s, 1, model=torch.nn.Linear(4, 5), wait=True)
        x[:] = 2
        with pytest.raises(varve.Mismatch, match="model/weight"):
            varve.torch.load(s, model=torch.nn.Linear(4, 6))
        assert (x == 2).all() and given == []
        varve.torch.load(s, model=torch.nn.Linear(4, 5))
        assert (x == 1).all() and given == [b"kept"]


def test_no_state_of_torch(ck):
    with varve.open(ck, "t", log=quiet) as s:
        s.protect("x", np.zeros(3))
        s.checkpoint(1, wait=True)
        with pytest.raises(varve.Mismatch, match="torch.sizes"):
            varve.torch.load(s, model=None)


@pytest.mark.parametrize("text", ["{", "[]", "[[],[]]", '{"x":{"tensor":"x"}}',
                                  '{"x":{"tensor":1,"type":"f","shape":[]}}',
                                  '{"x":{"tensor":"x","type":"load","shape":[1]}}', '{"x":0}', '{"x":{"list":0}}',
                                  '{"x":{"tensor":"x","type":"float32","shape":[2],"order":[5]}}', '{"x":1}',
                                  '{"x":{"tensor":"x","type":"float32","shape":[-2]}}', '{"x":{"number":"__class__"}}'])
def test_invented_descriptions(ck, text):
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, x=torch.zeros(2))
        s._regions["torch.structure"].memory[:] = np.frombuffer(text.encode().ljust(4096), np.uint8)
        s.checkpoint(2, wait=True)
        with pytest.raises(varve.Mismatch):
            varve.torch.load(s, x=None)


def damage(folder, is_wanted):
    """Write over the middle of files of the store."""
    paths = [os.path.join(path, file) for path, _, files in os.walk(folder) for file in files]
    paths = sorted((path for path in paths if os.path.getsize(path) > 300000), key=os.path.getmtime)
    for path in [path for i, path in enumerate(paths) if is_wanted(i, len(paths))]:
        with open(path, "r+b") as file:
            file.seek(200000)
            file.write(b"damage" * 1000)


def test_damaged_tensors(ck):
    """A checkpoint whose tensors are damaged, and whose description is not: the one before is taken. If all are
    damaged, that is no first run: a program that began anew would replace them."""
    x = torch.randn(100000)
    kept = x.clone()
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, x=x, y=1, wait=True)
        x.add_(1)
        varve.torch.save(s, 2, x=x, y=2)
    damage(ck, lambda i, count: i == count - 1)
    with varve.open(ck, "t", log=quiet) as s:
        x.zero_()
        at = varve.torch.load(s, x=x, y=None)
        assert (at.step, at["y"]) == (1, 1) and torch.equal(x, kept)
        with pytest.raises(varve.Corrupt):
            varve.torch.load(s, 2, x=x)
    damage(ck, lambda i, count: True)
    with varve.open(ck, "t", log=quiet) as s:
        for _ in range(2):
            with pytest.raises(varve.Corrupt):
                varve.torch.load(s, x=x, y=None)


def test_damaged_description(ck):
    """A checkpoint of which only the description is damaged: the one before is taken."""
    chance = random.Random(3)
    first, second = ["".join(chance.choices("abcdefgh", k=400000)) for _ in range(2)]
    with varve.open(ck, "t", codec="none", log=quiet) as s:
        varve.torch.save(s, 1, text=first, wait=True)
        varve.torch.save(s, 2, text=second)
    damage(ck, lambda i, count: i == count - 1)
    with varve.open(ck, "t", log=quiet) as s:
        at = varve.torch.load(s, text=None)
        assert at.step == 1 and at["text"] == first
        nothing = varve.torch.load(s, 1)
        assert nothing == {} and nothing and nothing.step == 1


def test_as_if_on_a_device(ck, monkeypatch):
    """Tensors that are treated as those of a device, through a small staging buffer. There is no device here."""
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    real, hosts = _tree.empty, []

    def on_host(*arguments):
        hosts.append(real(*arguments))
        return hosts[-1]

    monkeypatch.setattr(_tree, "empty", on_host)
    monkeypatch.setattr(_tree, "is_host", lambda tensor: any(tensor is one for one in hosts))
    monkeypatch.setattr(varve.torch, "STAGING", 1000)
    half = torch.randn(300).bfloat16()
    apart = torch.arange(100.0)[::3]
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.save(s, 1, model=model, optimizer=optimizer, more=[half, apart])
        train(model, optimizer)
        varve.torch.save(s, 2, model=model, optimizer=optimizer, more=[half, apart], wait=True)
        assert varve.Store(ck)["t"].latest["model/0.weight"].dtype == np.float32
        other, its = model_and_optimizer()
        train(other, its)
        more = [torch.zeros(300).bfloat16(), torch.zeros(34)]
        assert varve.torch.load(s, model=other, optimizer=its, more=more).step == 2
        assert same(dict(model.state_dict()), dict(other.state_dict())) and same(more, [half, apart])
        assert same(optimizer.state_dict(), its.state_dict()) and len(hosts) > 10

        class Lost(Exception):
            pass

        def lose(size):
            raise Lost

        with monkeypatch.context() as worse:
            worse.setattr(varve.torch, "_staging", lose)
            with pytest.raises(varve.Error) as told:
                varve.torch.save(s, 3, model=model)
        assert isinstance(told.value.__cause__, Lost) and varve.Store(ck)["t"].latest.version == 2
        varve.torch.save(s, 4, model=model, wait=True)
        assert varve.Store(ck)["t"].latest.version == 4


def test_sampler(ck):
    """The same order on any number of ranks, and from the middle of an epoch."""
    def taken(ranks, position=0, epoch=1):
        each = []
        for rank in range(ranks):
            sampler = varve.torch.Sampler(1000, seed=4, rank=rank, ranks=ranks)
            sampler.load_state_dict({"length": 1000, "seed": 4, "epoch": epoch, "position": position})
            each.append(list(sampler))
            assert len(sampler) == len(each[-1]) == len(each[0])
        return [index for step in zip(*each) for index in step]

    whole = taken(1)
    assert sorted(whole) == list(range(1000)) and whole != taken(1, epoch=2)
    assert taken(4) == whole and taken(3) == whole[:999] and taken(4, 40) == whole[40:]
    assert taken(3, 2) == whole[2:-2] and taken(3, 997) == whole[997:] and taken(3, 999) == []
    sampler = varve.torch.Sampler(1000, ranks=3)
    sampler.advance(998)
    assert (sampler.epoch, sampler.position) == (1, 0)
    with varve.open(ck, "t", log=quiet) as s:
        sampler.advance(30)
        varve.torch.save(s, 1, sampler=sampler, wait=True)
        other = varve.torch.Sampler(1000)
        varve.torch.load(s, sampler=other)
        assert (other.epoch, other.position) == (1, 30)
        with pytest.raises(varve.Mismatch, match="1000 samples"):
            varve.torch.load(s, sampler=varve.torch.Sampler(999))


def test_exception_in_the_loop(ck):
    """It leaves a store that restarts."""
    torch.manual_seed(3)
    model, optimizer = model_and_optimizer()
    with pytest.raises(ZeroDivisionError):
        with varve.open(ck, "t", log=quiet) as s:
            for step in range(10):
                kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
                train(model, optimizer)
                if step == 7:
                    raise ZeroDivisionError
                varve.torch.save(s, step, model=model, optimizer=optimizer)
    other, its = model_and_optimizer()
    with varve.open(ck, "t", log=quiet) as s:
        assert varve.torch.load(s, model=other, optimizer=its).step == 6
        assert same(dict(other.state_dict()), kept)


def test_data_loader_forks(ck):
    """Workers of a DataLoader, forked while a checkpoint is in flight, and ended."""
    model = torch.nn.Linear(200, 500)
    data = torch.utils.data.TensorDataset(torch.arange(400.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with varve.open(ck, "t", log=quiet) as s:
            for epoch in range(3):
                with torch.no_grad():
                    model.weight.add_(1)
                varve.torch.save(s, epoch, model=model)
                loader = torch.utils.data.DataLoader(data, batch_size=20, num_workers=2, multiprocessing_context="fork")
                total = 0.0
                for (batch,) in loader:
                    with torch.no_grad():
                        model.bias.add_(1)
                    total += batch.sum().item()
                assert total == 400 * 399 / 2
            kept = model.weight.clone()
            s.wait()
    other = torch.nn.Linear(200, 500)
    with varve.open(ck, "t", log=quiet) as s:
        varve.torch.load(s, model=other)
    assert torch.equal(other.weight, kept)


MANY = """
import gc, sys, torch, varve, varve.torch
def rss():
    gc.collect()
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
count = int(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.Linear(20, 20))
optimizer = torch.optim.Adam(model.parameters())
torch.set_num_threads(1)
with varve.open(sys.argv[1], "a") as s:
    for step in range(count):
        optimizer.zero_grad()
        model(torch.randn(4, 20)).sum().backward()
        optimizer.step()
        varve.torch.save(s, step, model=model, optimizer=optimizer, random=varve.torch.Random(), new=torch.randn(500),
                         info={"step": step, "list": [step] * (step % 7)})
        if step == count // 4:
            before = rss()
    print(rss() - before)
"""


def test_many_checkpoints(fast, run):
    """The same memory after many checkpoints as after a quarter of them; 10,000 of them in .ci/long python."""
    count = int(os.environ.get("TORCH_CHECKPOINTS", scale(600, 200)))
    grown = int(run(MANY, fast, count, timeout=3600).stdout)
    print(f"{grown} KiB more after {count} checkpoints")
    assert grown < 1024 + 0.1 * count, f"{grown} KiB more"
