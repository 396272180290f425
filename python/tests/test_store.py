"""Reading a store without a session: slices are those of NumPy, and little is read."""
import os
import threading

import numpy as np
import pytest
from conftest import scale

import varve
from varve import store as store_module

SHAPES = [(1000,), (37, 53), (7, 11, 13), (3, 4, 5, 6), (1, 1, 9), (200, 1)]


@pytest.fixture
def stored(ck):
    """A store with an array of each shape, and the arrays."""
    rng = np.random.default_rng(2)
    arrays = {str(shape): rng.random(shape).astype(kind) for shape, kind in zip(SHAPES, ["f8", "f4", "f8", "c8", "f2",
                                                                                       "f8"])}
    with varve.open(ck, "a") as s:
        for name, one in arrays.items():
            s.protect(name, one)
        s.checkpoint(1)
    return varve.Store(ck), arrays


def random_index(rng, shape):
    parts = []
    for length in shape[:rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(0, 5)
        ends = [None if rng.random() < 0.2 else int(n) for n in rng.integers(-length - 3, length + 4, 2)]
        if kind == 0:
            parts.append(int(rng.integers(-length, length)))
        elif kind == 1:
            parts.append(slice(*ends))
        elif kind == 2:
            parts.append(slice(*ends, int(rng.integers(1, 5))))
        elif kind == 3:
            parts.append(slice(*ends, int(rng.integers(-4, 0))))
        else:
            parts.append(np.int32(rng.integers(0, length)))
    if rng.random() < 0.3:
        parts.insert(rng.integers(0, len(parts) + 1), None)
    if rng.random() < 0.3:
        parts.insert(rng.integers(0, len(parts) + 1), Ellipsis)
    return tuple(parts) if len(parts) != 1 or rng.random() < 0.5 else parts[0]


def test_random_slices(stored):
    store, arrays = stored
    checkpoint = store["a"][1]
    rng = np.random.default_rng(11)
    empty = 0
    for _ in range(scale(1500, 300)):
        name = str(SHAPES[rng.integers(len(SHAPES))])
        index = random_index(rng, arrays[name].shape)
        try:
            expected = arrays[name][index]
        except IndexError:  # the ... has moved numbers to other dimensions
            with pytest.raises(IndexError):
                checkpoint[name][index]
            continue
        got = checkpoint[name][index]
        assert np.shape(got) == np.shape(expected) and got.dtype == expected.dtype, (name, index)
        assert np.asarray(got).tobytes() == np.asarray(expected).tobytes(), (name, index)
        empty += np.size(expected) == 0
    assert empty > 0


def test_indices_that_are_refused(stored):
    array = stored[0]["a"][1]["(37, 53)"]
    for index, kind in [(37, IndexError), ((0, -54), IndexError), ((0, 0, 0), IndexError), ((..., 0, ...), IndexError),
                        ([1, 2], TypeError), (np.ones(37, bool), TypeError), (True, TypeError), (1.5, TypeError),
                        ("a", TypeError)]:
        with pytest.raises(kind):
            array[index]
    with pytest.raises(ValueError):
        array[::0]


def test_like_numpy(stored):
    store, arrays = stored
    for name, one in arrays.items():
        array = store["a"].latest[name]
        assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes, len(array)) == \
            (one.shape, one.dtype, one.ndim, one.size, one.nbytes, len(one))
        assert (np.asarray(array) == one).all() and np.asarray(array, "c16").dtype == "c16"
        assert array.is_whole and not array.is_private and array.problem == "" and name in repr(array)


def test_mappings(ck):
    a = np.arange(10)
    for name in ("b", "a"):
        with varve.open(ck, name, keep="all") as s:
            s.protect("x", a)
            for step in (3, 5):
                s.checkpoint(step)
    with varve.Store(ck) as store:
        assert list(store) == ["a", "b"] and len(store) == 2 and "a" in store and "c" not in store
        assert list(store["a"]) == [5, 3] and 3 in store["a"] and 4 not in store["a"]
        newest = store["a"].latest
        assert newest.version == 5 and newest.ranks == 1 and newest.time.year >= 2020 and not newest.is_damaged
        assert list(newest) == ["x"] and "x" in newest and "y" not in newest and len(newest) == 1
        assert store.get("c") is None and store["a"].get(4) is None and newest.get("y") is None
        assert [(r.rank, r.name, r.type, r.shape) for r in newest.regions()] == [(0, "x", "i64", (10,))]
        assert (newest.read("x") == a).all()
        for wrong in (lambda: store["c"], lambda: store["a"][4], lambda: store["a"][-1], lambda: newest["y"],
                      lambda: newest.read("x", rank=1)):
            with pytest.raises(varve.NotFound) as missing:
                wrong()
            assert missing.value.text
        store["a"][3].forget()
        assert list(store["a"]) == [5]
        assert store.prune(dry_run=True) >= 0
        store.prune()
        assert store.verify() == []
    with pytest.raises(ValueError, match="closed"):
        list(store)
    with pytest.raises(varve.NoStore):
        varve.Store(ck + "-nowhere")


def test_reads_only_what_is_needed(ck):
    """Of 64 MiB a slice of 1 MiB is read with a few MiB of input."""
    a = np.random.default_rng(1).random((1024, 8192))
    with varve.open(ck, "a", codec="none") as s:
        s.protect("a", a)
        s.checkpoint(1)
    array = varve.Store(ck)["a"][1]["a"]

    def read_so_far():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    before = read_so_far()
    assert (array[100:116] == a[100:116]).all()
    assert read_so_far() - before < 8 << 20


def test_many_threads(stored):
    store, arrays = stored
    wrong = []

    def read(name):
        for _ in range(5):
            if not (store["a"].latest[name][...] == arrays[name]).all():
                wrong.append(name)

    threads = [threading.Thread(target=read, args=(name,)) for name in arrays]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_beside_a_session(ck):
    """A store is read while a session writes it, and sees only whole checkpoints."""
    a = np.zeros(50000)
    with varve.open(ck, "a", keep=2) as s:
        s.protect("a", a)
        for step in range(1, 30):
            a += 1
            s.checkpoint(step, wait=step == 1)
            try:
                with varve.Store(ck) as store:
                    newest = store["a"].latest
                    assert (newest["a"][...] == newest.version).all()
            except (varve.Forgotten, varve.NotFound):
                pass  # forgotten between two looks


def test_plan_is_small():
    assert store_module.plan((10, 10), (slice(2, 9, 3), 4)) == ([2, 4], [7, 1], (slice(None, None, 3), 0))
    assert store_module.plan((10,), slice(8, 2, -2)) == ([4], [5], (slice(None, None, -2),))


def test_no_file_is_written(stored):
    store, _ = stored
    path = store._path

    def files():
        return sorted((os.path.join(f, n), os.stat(os.path.join(f, n)).st_mtime_ns)
                      for f, _, names in os.walk(path) for n in names)

    before = files()
    store["a"].latest["(37, 53)"][3:5]
    store.verify()
    assert files() == before


def test_attributes(ck):
    data = np.arange(5.0)
    with varve.open(ck, "a", keep="all") as s:
        s.protect("data", data)
        s.attribute("time", 0.25)
        s.attribute("Ä", "ö")
        s.checkpoint(1)
        s.attribute("time", None)
        s.checkpoint(2)
        with pytest.raises(varve.Error):
            s.attribute("", "no name")
    store = varve.Store(ck)
    assert store["a"][1].attributes == {"time": "0.25", "Ä": "ö"}
    assert store["a"][2].attributes == {"Ä": "ö"}
    assert [r.name for r in store["a"][1].regions()] == ["data"] and not store["a"][1].is_pinned


def test_parts_are_read_into_memory(ck):
    whole, other = np.arange(60000.0).reshape(300, 200), np.arange(7)
    with varve.open(ck, "parts") as s:
        s.protect("whole", whole)
        s.protect("other", other)
        s.checkpoint(1)
    with varve.Store(ck) as store:
        checkpoint = store["parts"].latest
        assert store.bytes_read == 0
        some, few, none = np.zeros((20, 30)), np.zeros(3, other.dtype), np.zeros((0, 5))
        checkpoint.read_into([("whole", (100, 50), some), ("other", (4,), few), ("whole", (0, 0), none)])
        assert (some == whole[100:120, 50:80]).all() and (few == other[4:]).all()
        assert 0 < store.bytes_read < whole.nbytes + 100_000
        some[...] = 0
        with pytest.raises(varve.Mismatch, match="dimension 0 has 300"):
            checkpoint.read_into([("whole", (100, 50), some), ("whole", (299, 0), np.zeros((2, 3)))])
        assert not some.any()
        with pytest.raises(ValueError, match="1 indices for 2"):
            checkpoint.read_into([("whole", (3,), some)])
        with pytest.raises(BufferError):
            checkpoint.read_into([("whole", (0, 0), some.T)])
        region = next(one for one in checkpoint.regions() if one.name == "other")
        assert (checkpoint.read_region(region) == other).all()
