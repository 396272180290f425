"""One process: what comes back is what was saved, and what is refused says why."""
import array
import errno
import gc
import json
import math
import multiprocessing
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import varve
from varve import _lib

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?", "g", ">f8", ">i4",
          "M8[ns]", "m8[s]", "S7", "U3", [("a", "i4"), ("b", "f8", (2, 3))]]
SHAPES = [(), (1,), (0,), (5,), (0, 3), (3, 4), (2, 3, 5), (1, 2, 1, 3, 1), (2,) * 12, (4099,), (300, 701)]


def random_array(rng, dtype, shape):
    made = np.empty(shape, dtype)
    if made.dtype.kind == "b":
        made[...] = rng.integers(0, 2, shape).astype(bool)
    elif made.dtype.kind == "U":
        made[...] = rng.choice(["a", "bc", "def"], shape)
    else:  # any bits, NaN with payloads and all
        bits = np.frombuffer(rng.bytes(made.nbytes), np.uint8)
        made = bits.copy().view(dtype).reshape(shape) if made.nbytes else made
    return made


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bit_exact(fast, dtype):
    rng = np.random.default_rng(7)
    arrays = {str(shape): random_array(rng, dtype, shape) for shape in SHAPES}
    kept = {name: one.copy() for name, one in arrays.items()}
    with varve.open(fast, "all") as s:
        for name, one in arrays.items():
            s.protect(name, one)
        assert s.restart() is None
        s.checkpoint(1)
    for one in arrays.values():
        one.reshape(-1).view(np.uint8)[...] = 0xAA
    with varve.open(fast, "all") as s:
        for name, one in arrays.items():
            s.protect(name, one)
        assert s.restart() == 1
    for name, one in arrays.items():
        assert same(one, kept[name]), name


def test_bfloat16(ck):
    """As that of ml_dtypes if it is there; stored as bf16 also without, from any dtype of this name."""
    bits = np.arange(100, dtype=np.uint16)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with varve.open(ck, "b") as s:
        s.protect("x", bits.view(ml_dtypes.bfloat16))
        s.checkpoint(1)
    stored = varve.Store(ck)["b"][1]["x"]
    assert stored.type == "bf16" and stored.dtype == ml_dtypes.bfloat16
    assert same(np.asarray(stored).view(np.uint16), bits)


def test_bfloat16_without_ml_dtypes(ck, monkeypatch):
    """What others have stored as bf16 is read as uint16."""
    from varve import _types

    bits = np.arange(600, dtype=np.uint16).reshape(20, 30)
    monkeypatch.setattr(_types, "BFLOAT16", None)
    with monkeypatch.context() as patched:
        patched.setattr(_types, "type_of", lambda dtype: _lib.VARVE_BF16)
        with varve.open(ck, "b") as s:
            s.protect("x", bits)
            s.checkpoint(1)
    stored = varve.Store(ck)["b"][1]["x"]
    assert stored.type == "bf16" and stored.dtype == np.uint16 and same(stored[3:5], bits[3:5])
    with varve.open(ck, "b") as s:
        assert same(s.restart(allocate=True)["x"], bits)


def test_other_buffers(ck):
    memory = {"bytearray": bytearray(b"hello"), "array": array.array("d", [1, 2, 3]),
              "memoryview": memoryview(bytearray(100))[10:20]}
    with varve.open(ck, "b") as s:
        for name, one in memory.items():
            s.protect(name, one)
        s.checkpoint(1, wait=True)
        memory["bytearray"][:] = b"xxxxx"
        memory["array"][1] = 9
        with pytest.raises(BufferError):
            memory["bytearray"].append(1)  # its memory is needed where it is
        assert s.restart() == 1
    assert memory["bytearray"] == b"hello" and list(memory["array"]) == [1, 2, 3]
    memory["bytearray"].append(1)  # not after close


def test_in_place_without_a_copy(ck):
    a = np.zeros(10)
    with varve.open(ck, "a") as s:
        s.protect("a", a)
        assert s._regions["a"].memory is a
        with pytest.raises(ValueError, match="resize"):
            a.resize(20)


@pytest.mark.parametrize("memory, kind, text", [
    (np.zeros((4, 4))[:, ::2], BufferError, "region x: .*one piece"),
    (np.zeros((4, 4), order="F"), BufferError, r"region x: .*\.T"),
    (np.frombuffer(b"1234", np.uint8), BufferError, "region x: .*read-only"),
    (b"1234", BufferError, "region x: .*read-only"),
    (np.ma.masked_equal(np.arange(3), 1), TypeError, "region x: a masked array"),
    (np.broadcast_to(np.zeros(3), (2, 3)), BufferError, "region x: "),
    (np.array([object()]), TypeError, "region x: .*pointers"),
    ([1, 2, 3], TypeError, "region x: a list has no memory.*protect_object"),
    (5, TypeError, "region x: a int has no memory"),
])
def test_refused_by_name(ck, memory, kind, text):
    with varve.open(ck, "a") as s:
        with pytest.raises(kind, match=text):
            s.protect("x", memory)
        s.checkpoint(1, wait=True)
        assert s.stored() == (1, [])


def test_places_that_do_not_fit(ck):
    with varve.open(ck, "a") as s:
        for how, text in [(dict(first=(0, 0)), "needs `global_shape`"), (dict(global_shape=(9,)), "2 dimensions"),
                          (dict(global_shape=(4, 4), first=(2, 0)), "do not lie in 4"),
                          (dict(global_shape=(4, 4), first=(-1, 0)), "do not lie")]:
            with pytest.raises(ValueError, match=text):
                s.protect("x", np.zeros((3, 4)), **how)
        with pytest.raises(ValueError, match="17 dimensions"):
            s.protect("x", np.zeros((1,) * 16, "S3"))


def test_keeps_memory_alive(ck):
    with varve.open(ck, "a") as s:
        s.protect("x", np.full(1000, 7.0))  # nobody else has it
        gc.collect()
        s.checkpoint(1, wait=True)
        s.protect("x", np.zeros(1000))
        s.restart()
        assert (s._regions["x"].memory == 7).all()
        s.unprotect("x")
        assert "x" not in s._regions


def test_function_that_tells_where(ck):
    state = {"x": np.arange(5.0)}
    with varve.open(ck, "a") as s:
        s.protect("x", lambda: state["x"])
        for step in range(1, 6):
            state["x"] = np.concatenate([state["x"], [step]])  # moved and grown
            s.checkpoint(step)
        last = state["x"]
        state["x"] = np.zeros_like(last)
        assert s.restart() == 5 and same(state["x"], last)
        with pytest.raises(varve.Mismatch):
            state["x"] = np.zeros(3)
            s.restart()


@pytest.mark.parametrize("capture", ["auto", "sync"])
def test_changed_while_it_is_stored(ck, capture):
    """What is stored is the memory at the call, although the program writes all of it at once afterwards."""
    a = np.random.default_rng(1).random(1 << 18)
    with varve.open(f"file://{ck}?limit=20MB", "a", codec="none", capture=capture, keep="all") as s:
        s.protect("a", a)
        kept = {}
        for step in (1, 2, 3):
            kept[step] = a.copy()
            s.checkpoint(step)
            a += 1
    for step, expected in kept.items():
        assert same(varve.Store(ck)["a"][step]["a"][...], expected), step


def test_objects(ck):
    rng = np.random.default_rng(3)
    got = []
    with varve.open(ck, "a") as s:
        s.protect_object("rng", lambda: json.dumps(rng.bit_generator.state).encode(),
                         lambda data: setattr(rng.bit_generator, "state", json.loads(data)))
        s.protect_object("empty", lambda: b"", got.append)
        s.protect_object("long", lambda: bytes(range(256)) * 40000, got.append)
        s.checkpoint(1)
        expected = rng.random(5)
        s.checkpoint(2)
        assert s.restart(1) == 1
        assert (rng.random(5) == expected).all()
        assert got == [b"", bytes(range(256)) * 40000] or got == [bytes(range(256)) * 40000, b""]
        s.checkpoint(3)  # it goes on after a restart
        assert s.restart() == 3
    with varve.open(ck, "a") as s:
        s.protect_object("rng", lambda: 1 / 0, got.append)
        with pytest.raises(ZeroDivisionError):
            s.checkpoint(9)
        assert s.stored()[0] == 3  # nothing was begun


@pytest.mark.parametrize("saved", [400, [1, 2], "text", None, np.array([object()])], ids=lambda one: type(one).__name__)
def test_objects_that_are_no_bytes(ck, saved):
    """400 would be 400 zero bytes, without an error."""
    with varve.open(ck, "a") as s:
        s.protect_object("counter", lambda: saved, len)
        with pytest.raises(TypeError, match="region counter: .*must return bytes"):
            s.checkpoint(1)
        assert s.stored() == (None, [])  # nothing was begun


def test_load_that_protects(ck):
    """As a program does that learns from one object which arrays it has."""
    got = []
    with varve.open(ck, "a") as s:
        s.protect_object("o", lambda: b"abc", lambda data: s.protect(data.decode(), np.zeros(3)))
        s.protect_object("p", lambda: b"def", got.append)
        s.checkpoint(1)
        assert s.restart() == 1 and got == [b"def"]
        s.checkpoint(2, wait=True)
        assert sorted(one.name for one in s.stored()[1]) == ["abc", "o", "p"]


def test_objects_from_other_buffers(ck):
    got = []
    for saved in (np.arange(6, dtype="i4")[::2], np.empty((0, 3)), bytearray(b"abc"), memoryview(b"abcd")[1:3]):
        with varve.open(ck, "a") as s:
            s.protect_object("o", lambda: saved, got.append)
            s.checkpoint(max(list(varve.Store(ck)["a"])) + 1 if got else 1, wait=True)
            s.restart()
    assert got == [np.array([0, 2, 4], "i4").tobytes(), b"", b"abc", b"bc"]


def test_allocate(ck):
    with varve.open(ck, "a") as s:
        s.protect("x", np.arange(6, dtype="f4").reshape(2, 3))
        s.protect("n", np.arange(4))
        s.protect("big", np.ones(100000))
        s.checkpoint(8)
    with varve.open(ck, "a") as s:
        own = np.zeros(4, int)
        s.protect("n", own)
        made = s.restart(allocate=["x"])
        assert made.version == 8 and list(made) == ["x"] and made["x"].shape == (2, 3) and made["x"].dtype == "f4"
        assert list(own) == [0, 1, 2, 3]  # filled in place
        made["x"] += 1
        s.checkpoint(9, wait=True)  # what was made is protected
        assert {one.name for one in s.stored()[1]} == {"x", "n"}
        expected = made["x"].copy()
        del made
        gc.collect()
        again = np.zeros((2, 3), "f4")
        s.protect("x", again)
        assert s.restart() == 9 and same(again, expected)
    with varve.open(ck, "new") as s:
        assert s.restart(allocate=True) is None
        with pytest.raises(ValueError):
            s.restart(allocate=True, resize=True)
    with varve.open(ck, "a") as s:
        assert s.restart(8, allocate=True)["big"].sum() == 100000


def test_allocate_and_functions(ck):
    """A protected function is asked again after a restart has made a new array for its name."""
    with varve.open(ck, "a") as s:
        s.protect("x", np.arange(6.0))
        s.checkpoint(1)
    state = {"x": np.zeros(2)}
    with varve.open(ck, "a") as s:
        s.protect("x", lambda: state["x"])
        state["x"] = s.restart(allocate=True)["x"]
        assert list(state["x"]) == list(range(6))
        for step in (2, 3):
            state["x"] = state["x"] + 1  # another array
            s.checkpoint(step, wait=True)
            assert same(varve.Store(ck)["a"].latest["x"][...], state["x"])


def test_failed_allocate_leaves_protection(ck):
    """Memory was asked for in vain: what was protected before is part of the next checkpoint."""
    with varve.open(ck, "a", codec="none") as s:
        s.protect("x", np.random.default_rng(1).random(10000))
        s.checkpoint(1)
    (pack,) = [os.path.join(folder, one) for folder, _, files in os.walk(ck) for one in files
               if f"{1:016x}" in folder and one == "00000000"]
    with open(pack, "r+b") as file:
        file.seek(os.path.getsize(pack) // 2)
        file.write(b"damage")
    plain, asked = np.full(5, 7.0), np.full(3, 8.0)
    for memory, version in ((plain, 5), (lambda: asked, 6)):
        with varve.open(ck, "a", log=lambda level, line: None) as s:
            s.protect("x", memory)
            with pytest.raises(varve.Corrupt):
                s.restart(1, allocate=True)
            s.checkpoint(version, wait=True)
        stored = varve.Store(ck)["a"].latest
        assert stored.version == version and same(stored["x"][...], memory() if callable(memory) else memory)


def test_parts(ck):
    a, b = np.arange(5), np.arange(3.0)
    with varve.open(ck, "a") as s:
        s.protect("a", a)
        s.checkpoint(1)
        s.protect("b", b)
        with pytest.raises(varve.Mismatch, match="b"):
            s.restart()
        a[:] = 0
        assert s.restart(missing=True) == 1 and list(a) == [0, 1, 2, 3, 4]
        a[:] = 0
        assert s.restart(regions=["a"]) == 1 and list(a) == [0, 1, 2, 3, 4]
        larger = np.full(8, 9)
        s.protect("a", larger)
        assert s.restart(resize=True, missing=True) == 1 and list(larger) == [0, 1, 2, 3, 4, 0, 0, 0]


def test_a_text_is_no_list_of_names(ck):
    """"ab" would be the regions a and b."""
    a, b, ab = np.arange(3), np.arange(4), np.arange(5)
    with varve.open(ck, "a") as s:
        for name, one in (("a", a), ("b", b), ("ab", ab)):
            s.protect(name, one)
        s.checkpoint(1)
        for how in (dict(regions="ab"), dict(allocate="ab"), dict(regions=b"ab")):
            with pytest.raises(TypeError, match="list of names"):
                s.restart(**how)
    with varve.open(ck, "a") as s:
        assert list(s.restart(allocate=(name for name in ["ab", "a"]))) in (["a", "ab"], ["ab", "a"])


def test_restart_in_steps(ck):
    a, b = np.arange(50000), np.arange(3.0)
    got = []
    with varve.open(ck, "a") as s:
        s.protect("a", a)
        s.protect("b", b)
        s.protect_object("o", lambda: b"abc", got.append)
        assert s.restart_begin() is None
        s.checkpoint(4)
        a[:] = 0
        b[:] = 0
        assert s.restart_begin() == 4
        with pytest.raises(varve.Error) as busy:
            s.protect("c", np.zeros(1))
        assert busy.value.errno == errno.EBUSY
        s.restart_wait("b")
        assert list(b) == [0, 1, 2]
        s.restart_end()
        assert (a == np.arange(50000)).all() and got == [b"abc"]


def test_more_calls(ck):
    a = np.arange(5)
    with varve.open(ck, "a", keep="all", interval_seconds=1000) as s:
        assert s.continue_from() is None
        s.protect("a", a)
        s.fine("a", 64)
        s.distribute("a", "replicated")
        s.distribute("a", varve.Distribution.BY_RANK)
        with pytest.raises(KeyError):
            s.distribute("a", "somehow")
        with pytest.raises(varve.NotFound):
            s.distribute("nobody", "joined")
        s.checkpoint(1)
        a += 1
        s.checkpoint(2)
        s.release()
        assert s.wait(timeout=30) and s.test()
        assert s.need() is False
        stats = s.stats()
        assert stats["version"] == 2 and stats["result"] == 0 and stats["bytes_protected"] == a.nbytes
        assert isinstance(stats["capture"], str)
        s.reject(2)
        assert s.restart() == 1 and list(a) == list(range(5))
    with varve.open(ck, "a", access="read") as s:
        assert s.continue_from(1) == 1
        s.protect("a", a)
        with pytest.raises(varve.Error) as refused:
            s.checkpoint(5)
        assert refused.value.errno == errno.EROFS


def test_bound(ck):
    a = np.linspace(0, 1, 100000).reshape(100, 1000)
    kept = a.copy()
    with varve.open(ck, "a") as s:
        s.protect("a", a, bound=1e-3)
        s.checkpoint(1)
        a[:] = 0
        try:
            assert s.restart() == 1
        except varve.Unsupported:
            pytest.skip("built without zfp")
        assert 0 < abs(a - kept).max() <= 1e-3


# ---- errors ----

def test_errors_have_code_rank_and_text(ck):
    a = np.zeros(3)
    with varve.open(ck, "a") as s:
        s.protect("a", a)
        s.checkpoint(5, wait=True)
        with pytest.raises(varve.NotFound) as missing:
            s.restart(4)
        assert missing.value.errno == errno.ENOENT and "4" in missing.value.text and missing.value.rank == 0
        with pytest.raises(varve.Error) as wrong:
            s.checkpoint(2)
        assert wrong.value.code == -errno.EINVAL and wrong.value.name == "EINVAL" and "2" in str(wrong.value)
        with pytest.raises(varve.Busy) as busy:
            varve.open(ck, "a", takeover_seconds=0)
        assert busy.value.code == -20004 and str(os.getpid()) in busy.value.text
        s.protect("a", np.zeros(4))
        with pytest.raises(varve.Mismatch, match="a"):
            s.restart()
    with pytest.raises(varve.BadSetting, match="no_such"):
        varve.open(ck, "a", no_such=1)
    with pytest.raises(ValueError, match="commas"):
        varve.open(ck, "a", keep="3,codec=none")
    with pytest.raises(ValueError, match="zero byte"):
        varve.open(ck, "a\0b")
    with pytest.raises(TypeError, match="communicator"):
        pytest.importorskip("mpi4py")
        varve.open(ck, "a", comm=5)


def test_numbers_that_do_not_fit(ck):
    """ctypes would cut them off: version 2**64 + 3 would be 3."""
    with varve.open(ck, "a") as s:
        s.protect("a", np.zeros(3))
        for call in (s.checkpoint, s.restart, s.reject, s.continue_from, s.stored):
            for version in (2**64 + 3, -2):
                with pytest.raises(ValueError, match="version"):
                    call(version)
            with pytest.raises(TypeError):
                call(1.5)
        with pytest.raises(ValueError, match="chunk"):
            s.fine("a", 2**32 + 64)
        s.checkpoint(np.int64(3), wait=True)
        assert s.restart(np.int16(3)) == 3


def test_damage(ck):
    a = np.random.default_rng(1).random(10000)
    with varve.open(ck, "a", codec="none") as s:
        s.protect("a", a)
        s.checkpoint(1)
        kept = a.copy()
        a += 1
        s.checkpoint(2)
    (pack,) = [os.path.join(folder, one) for folder, _, files in os.walk(ck) for one in files
               if f"{2:016x}" in folder and one == "00000000"]
    with open(pack, "r+b") as file:
        file.seek(os.path.getsize(pack) // 2)
        file.write(b"damage")
    lines = []
    with varve.open(ck, "a", log=lambda level, line: lines.append((level, line))) as s:
        s.protect("a", a)
        assert s.restart() == 1
        assert same(a, kept)
        assert any("a@2" in line for _, line in lines), lines
        with pytest.raises(varve.Corrupt):
            s.restart(2)
    store = varve.Store(ck)
    assert [finding.level for finding in store.verify()].count(0) > 0
    with pytest.raises(varve.Corrupt):
        np.asarray(store["a"][2]["a"])


def test_a_failure_told_later(ck):
    """The checkpoint fails after its call has returned, and the next call tells it, once."""
    a = np.random.default_rng(1).random(200000)
    with varve.open(ck, "a") as s:
        s.protect("a", a)
        s.checkpoint(1, wait=True)
        data = os.path.join(ck, "n", "a", "data")
        os.rename(data, data + ".away")
        open(data, "w").close()  # nothing can be written there
        a += 1
        s.checkpoint(2)
        s._let_finish()
        os.remove(data)
        os.rename(data + ".away", data)
        with pytest.raises(varve.EarlierFailed) as earlier:
            s.checkpoint(3)
        assert earlier.value.earlier_code < 0 and earlier.value.text
        assert s.wait()
        a[:] = 0
        assert s.restart() == 3


def test_exception_in_the_block(ck):
    a = np.arange(1000.0)
    with pytest.raises(ZeroDivisionError):
        with varve.open(ck, "a") as s:
            s.protect("a", a)
            s.checkpoint(1)
            a /= 2
            s.checkpoint(2)
            1 / 0
    assert s.closed
    with varve.open(ck, "a") as s:
        b = np.zeros(1000)
        s.protect("a", b)
        assert s.restart() == 2 and same(a, b)
    with pytest.raises(ValueError, match="closed"):
        s.test()
    s.close()  # once more is no mistake


def test_not_closed(ck, run):
    with pytest.warns(ResourceWarning, match="not closed"):
        s = varve.open(ck, "a")
        s.protect("a", np.arange(10))
        s.checkpoint(1)
        del s
        gc.collect()
    # what is open when the program ends is closed then
    run("""
import sys, numpy, varve
s = varve.open(sys.argv[1], "a")
s.protect("a", numpy.arange(10) * 2)
s.restart()
s.protect("a", numpy.arange(10) * 2)
s.checkpoint(2)
""", ck)
    assert list(varve.Store(ck)["a"].latest["a"][...]) == list(range(0, 20, 2))


# ---- threads and processes ----

def test_one_thread_at_a_time(ck):
    a = np.random.default_rng(1).random(1 << 20)
    caught = []
    with varve.open(f"file://{ck}?limit=20MB", "a") as s:
        s.protect("a", a)
        s.checkpoint(1)

        def other():
            try:
                s.test()
            except RuntimeError as why:
                caught.append(str(why))
            s.release()  # allowed

        timer = threading.Timer(0.05, other)
        timer.start()
        s.wait()
        timer.join()
    assert caught and "another thread" in caught[0]


def test_two_threads_that_take_turns(ck):
    """One thread leaves just when another takes the session: it is free after both."""
    class Leaving(dict):
        def setdefault(self, key, value):
            self.pop(key, None)
            return super().setdefault(key, value)

    with varve.open(ck, "a") as s:
        other = threading.Thread(target=lambda: users.update(user=s._busy()))
        users = s._users = Leaving()
        other.start()
        other.join()
        s.test()
        assert not users


def waiting(function, told, name):
    """A function of C that takes a while, with its begin and end told."""
    def called(*arguments):
        told.append(f"{name} begins")
        time.sleep(0.1)
        rc = function(*arguments)
        told.append(f"{name} ends")
        return rc

    return called


def begin_in_thread(function, told, first):
    thread = threading.Thread(target=function)
    thread.start()
    while first not in told:
        time.sleep(0.001)
    return thread


@pytest.mark.parametrize("call", ["close", "checkpoint", "protect"])
def test_calls_wait_for_release(ck, monkeypatch, call):
    """C forbids them during a release of another thread; close would free the session under it."""
    told = []
    lib = _lib.lib()
    monkeypatch.setattr(lib, "varve_release", waiting(lib.varve_release, told, "release"))
    for name in ("varve_close", "varve_checkpoint", "varve_protect_array"):
        monkeypatch.setattr(lib, name, waiting(getattr(lib, name), told, name))
    with varve.open(ck, "a") as s:
        thread = begin_in_thread(s.release, told, "release begins")
        {"close": s.close, "checkpoint": lambda: s.checkpoint(1), "protect": lambda: s.protect("a", np.zeros(3))}[call]()
        thread.join()
        assert told[:2] == ["release begins", "release ends"] and len(told) == 4, told
        assert not s._releasers and not s._users


def test_release_during_other_calls(ck, monkeypatch):
    told = []
    lib = _lib.lib()
    for name in ("varve_checkpoint", "varve_test", "varve_close"):
        monkeypatch.setattr(lib, name, waiting(getattr(lib, name), told, name))
    s = varve.open(ck, "a")
    s.protect("a", np.zeros(3))
    thread = begin_in_thread(lambda: s.checkpoint(1), told, "varve_checkpoint begins")
    with pytest.raises(RuntimeError, match="another thread"):
        s.release()
    thread.join()
    thread = begin_in_thread(s.wait, told, "varve_test begins")
    s.release()  # allowed
    thread.join()
    thread = begin_in_thread(s.close, told, "varve_close begins")
    with pytest.raises((RuntimeError, ValueError), match="another thread|closed"):
        s.release()
    thread.join()
    with pytest.raises(ValueError, match="closed"):
        s.release()


def child_of(session, a, queue):
    try:
        session.checkpoint(100)
        queue.put("no error")
    except RuntimeError as why:
        a[:] = -1  # its own
        session.close()  # does nothing here
        queue.put(str(why))


def test_fork(ck):
    """Children by fork beside a session, also while a checkpoint is in flight."""
    context = multiprocessing.get_context("fork")
    a = np.random.default_rng(1).random(1 << 19)
    with varve.open(f"file://{ck}?limit=40MB", "a") as s:
        s.protect("a", a)
        for step in range(1, 4):
            a += 1
            s.checkpoint(step)
            queue = context.Queue()
            child = context.Process(target=child_of, args=(s, a, queue))
            child.start()
            assert f"belongs to process {os.getpid()}" in queue.get(timeout=30)
            child.join()
            assert child.exitcode == 0
        pid = os.fork()
        if pid == 0:  # it leaves the block, and must not close the parent's session
            s.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        s.checkpoint(4)
        kept = a.copy()
        a[:] = 0
        assert s.restart() == 4 and same(a, kept)


def test_without_numpy_warnings(ck):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with varve.open(ck, "a", log=lambda level, line: None) as s:
            s.protect("a", np.zeros(5))
            s.checkpoint(1)


# ---- streams ----

def test_protect_stream(ck):
    """What is not in memory: asked for in ascending pieces, described as an array, and filled through memory."""
    data = np.arange(300000, dtype="f4").reshape(300, 1000)
    asked = []

    def read(offset, into):
        asked.append((offset, len(into)))
        into[:] = data.tobytes()[offset:offset + len(into)]

    with varve.open(ck, "a") as s:
        s.protect_stream("x", np.broadcast_to(np.zeros((), "f4"), data.shape), read)
        s.checkpoint(1, wait=True)
        assert [offset for offset, _ in asked] == list(np.cumsum([0] + [size for _, size in asked[:-1]]))
        assert sum(size for _, size in asked) == data.nbytes
        data[7] += 1
        s.checkpoint(2, wait=True)
        stored = varve.Store(ck)["a"]
        assert (stored[2]["x"][...] == data).all() and stored[1]["x"][7, 3] == data[7, 3] - 1
        with pytest.raises(varve.Error, match="x"):
            s.restart()
        there = np.zeros_like(data)
        s.protect("x", there)
        assert s.restart() == 2 and (there == data).all()


@pytest.mark.parametrize("wrong", [ZeroDivisionError, KeyboardInterrupt, ValueError])
def test_protect_stream_that_raises(ck, wrong):
    """The checkpoint fails; it must not be taken for one that has these bytes."""
    is_wrong = False

    def read(offset, into):
        if is_wrong and offset:
            raise wrong
        into[:] = b"\1" * len(into)

    with varve.open(ck, "a", log=lambda level, line: None) as s:
        s.protect_stream("x", np.broadcast_to(np.zeros((), "u1"), (8 << 20,)), read)
        s.checkpoint(1, wait=True)
        is_wrong = True
        with pytest.raises(varve.Error) as told:
            s.checkpoint(2)
        assert isinstance(told.value.__cause__, wrong)
        is_wrong = False
        s.checkpoint(3, wait=True)
    assert sorted(varve.Store(ck)["a"]) == [1, 3]


def test_asked_from_outside(ck):
    """A signal and the store ask; the job should end only when its checkpoint is durable."""
    a = np.zeros(1000)
    with varve.open(ck, "a", interval="asked", signal="USR1", end_time="off") as s:
        s.protect("a", a)
        assert s.time_left() == math.inf
        assert s.need() is False and s.should_exit() is False
        signal.raise_signal(signal.SIGUSR1)
        assert s.need() is True
        s.checkpoint(1)
        assert s.need() is False and s.should_exit() is False
        with varve.Store(ck) as store:
            store.trigger("a", exit=True)
            with pytest.raises(varve.Error):
                store.trigger("b")
        time.sleep(1.1)
        assert s.need() is True and s.should_exit() is False
        s.checkpoint(2)
        assert s.should_exit() is True
    with varve.open(ck, "a", end_time=time.time() + 1000) as s:
        assert 990 < s.time_left() <= 1000
