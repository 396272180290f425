"""Save and restart: varve.h for Python."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import enum
import errno
import os
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Collection, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np

from . import _lib, _types
from .errors import Disagreed, Error, NoCheckpoint, from_c

LATEST = _lib.VARVE_LATEST
POLL_FIRST, POLL_LAST = 50e-6, 10e-3  # seconds between two looks at what is in flight
GIVEN_UP = -(1 << 62)  # no version: a rank that cannot go on gives it to C, which then fails on all ranks
LEAVING = 60.0  # seconds that a checkpoint in flight has to be stored, when a rank leaves without close


class Flags(enum.IntFlag):
    """What has to be known about memory; varve_protect_flags in varve.h explains it. NumPy arrays need none."""

    DEVICE_WRITES = _lib.VARVE_DEVICE_WRITES
    NO_KERNEL_WRITES = _lib.VARVE_NO_KERNEL_WRITES
    NO_DEVICE_WRITES = _lib.VARVE_NO_DEVICE_WRITES


class Distribution(enum.IntEnum):
    """What becomes of a region on another number of ranks; see Session.distribute."""

    BY_DIMS = _lib.VARVE_BY_DIMS
    JOINED = _lib.VARVE_JOINED
    REPLICATED = _lib.VARVE_REPLICATED
    BY_RANK = _lib.VARVE_BY_RANK
    DROPPED = _lib.VARVE_DROPPED


class Env(NamedTuple):
    """Who this process is in a job without MPI that can tell all ranks where to meet; see varve_open_env_as in
    varve_env.h."""

    rank: int
    ranks: int
    host: str  # of rank 0
    port: int  # at which rank 0 listens
    secret: str  # 16 characters at least


class Stored(NamedTuple):
    """A region of this rank as a checkpoint has it; see Session.stored."""

    name: str
    nbytes: int
    dtype: np.dtype
    shape: Tuple[int, ...]


class Arrays(Dict[str, np.ndarray]):
    """New arrays by name, and the version of the checkpoint they come from; see Session.restart."""

    version: int = -1


class _Region:
    """What the session must keep alive for a region, and how to ask for it again."""

    def __init__(self, memory: Any, how: Dict[str, Any]) -> None:
        self.memory = memory  # a NumPy array
        self.how = how
        self.ask: Optional[Callable[[], Any]] = None
        self.save: Optional[Callable[[], Any]] = None
        self.load: Optional[Callable[[bytes], Any]] = None
        self.read: Optional[Callable[[int, memoryview], None]] = None
        self.failed: Optional[BaseException] = None  # what read has raised
        self.callbacks: Any = None
        self.loaded: Optional[bytearray] = None
        self.total = -1
        self.must_place = False  # C has it otherwise than `how` says, or not at all


class Session:
    """A session writes and restarts the checkpoints of one name in a store. Make it with varve.open.

    One thread at a time uses a session; a second one gets RuntimeError. Only release may run during wait, test and stats
    of another thread; the other calls wait until it is done. Calls marked "collective" are made by all ranks of `comm`, in the same order. A session belongs to the process that opened it: in
    a forked child its calls raise RuntimeError, and close does nothing.
    """

    def __init__(self, store: Any, name: str, comm: Any = None, *, keep: Union[int, str, None] = None,
                 log: Optional[Callable[[int, str], None]] = None, **settings: Any) -> None:
        self._session = ctypes.c_void_p()
        self._name = name
        self._comm = comm
        self._pid = os.getpid()
        self._users: Dict[str, _Busy] = {}  # "user": the outermost call
        self._releasers: Dict[object, int] = {}  # calls of release: their threads
        self._regions: Dict[str, _Region] = {}
        self._abandoned = False
        self._log = _lib.varve_log_fn()
        if log is not None:
            self._log = _lib.varve_log_fn(lambda arg, level, line: log(level, _lib.text_of(line)))
        if keep is not None:
            settings["keep"] = keep
        options = _lib.varve_options(ctypes.sizeof(_lib.varve_options), _settings_text(settings), self._log, None)
        error = _lib.varve_error()
        opened = ctypes.c_void_p()  # this one's only when nobody else will close it
        rest = (_lib.bytes_of(store, "the address of the store"), _lib.bytes_of(name, "the name"),
                ctypes.byref(options), ctypes.byref(opened), ctypes.byref(error))
        if comm is None:
            self._take(_open_interruptibly(_lib.lib().varve_open, opened, rest), opened, error)
        elif isinstance(comm, str):
            if comm != "env":
                raise ValueError(f"comm is {comm!r}; the only text it can be is \"env\"")
            self._take(_open_interruptibly(_lib.env_lib().varve_open_env, opened, rest, is_job=True), opened, error)
        elif isinstance(comm, Env):
            this = _lib.varve_env(ctypes.sizeof(_lib.varve_env), comm.rank, comm.ranks, comm.host.encode(), comm.port,
                                  comm.secret.encode())
            self._take(_open_interruptibly(_lib.env_lib().varve_open_env_as, opened, (ctypes.byref(this), *rest),
                                           is_job=True), opened, error)
        else:
            with _lib.quiet():  # one that comes meanwhile finds the session here, whose threads go on
                self._take(_open_mpi(comm, rest), opened, error)

    def _take(self, rc: int, opened: ctypes.c_void_p, error: _lib.varve_error) -> None:
        if rc < 0:
            raise from_c(rc, error)
        self._session = opened
        _sessions.add(self)

    # ---- life ----

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Any, trace: Any) -> None:
        """Close. After an exception on one rank of several, sys.exit included, the others may not come to close: the
        session is left as it is. A checkpoint in flight has LEAVING seconds to be stored, on all ranks."""
        if kind is not None and self._comm is not None:
            self._leave("an exception ended its block on this rank")
            return
        try:
            self.close()
        except Error as why:
            if kind is None:
                raise
            # what ended the block is what the program has to hear
            warnings.warn(f"varve: the last checkpoint of {self._name}: {why}", RuntimeWarning, stacklevel=2)
        except BaseException:
            self._abandon("closing it was interrupted")
            raise

    def __del__(self) -> None:
        if getattr(self, "_session", None) and self._is_mine():
            warnings.warn(f"varve: the session of {self._name} was not closed", ResourceWarning, stacklevel=2)
            if self._comm is None:
                _lib.lib().varve_close(self._session)
            else:
                self._leave("it was not closed")

    def __repr__(self) -> str:
        state = "open" if self._session else "closed"
        return f"<varve.Session {self._name!r}, {state}, {len(self._regions)} regions>"

    def close(self) -> None:
        """Collective. Wait until the last checkpoint is safe, and end the session. Raises what wait would."""
        if not self._session or not self._is_mine():
            return
        with self._busy(is_shared=True):
            rc = self._poll()
            failed = self._error(rc) if rc < 0 else None
            with self._busy(), _lib.quiet():  # the memory of the session goes: no release may be in it
                session, self._session = self._session, ctypes.c_void_p()
                rc = _lib.lib().varve_close(session)
                self._regions.clear()
        _sessions.discard(self)
        if failed is not None and failed.code == rc:
            raise failed
        if rc < 0:
            raise from_c(rc)

    @property
    def closed(self) -> bool:
        return not self._session

    @property
    def name(self) -> str:
        return self._name

    def _is_mine(self) -> bool:
        return self._pid == os.getpid() and not self._abandoned

    def _leave(self, why: str) -> None:
        """Abandon a job's session, and first let the checkpoint in flight be stored: it would end with the process.
        Not collective."""
        if not self._session or not self._is_mine():
            return
        try:
            with self._busy(is_shared=True):
                last = self._let_finish(LEAVING)
            if last.version >= 0 and last.result != 0:
                state = "is still in flight, and may be lost" if last.result == -errno.EINPROGRESS else "has failed"
                warnings.warn(f"varve: version {last.version} of {self._name} {state}: {why}", RuntimeWarning,
                              stacklevel=3)
        except (Error, RuntimeError) as failed:  # another thread uses it
            warnings.warn(f"varve: the last checkpoint of {self._name} may be lost: {failed}", RuntimeWarning,
                          stacklevel=3)
        finally:
            self._abandon(why)

    def _abandon(self, why: str) -> None:
        """Nobody will close it. Its threads still read protected memory, which is therefore never freed."""
        if self._session and self._is_mine():
            self._abandoned = True
            _sessions.discard(self)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._regions))
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._log))
            warnings.warn(f"varve: the session of {self._name} is left open: {why}", ResourceWarning, stacklevel=3)

    # ---- what is protected ----

    def protect(self, name: str, memory: Any, *, global_shape: Optional[Sequence[int]] = None,
                first: Optional[Sequence[int]] = None, bound: Optional[float] = None, flags: int = 0,
                is_bfloat16: bool = False) -> None:
        """Save this memory with every checkpoint, and fill it in every restart, in place and without a copy.

        memory   a NumPy array, or anything with the buffer protocol (bytearray, array.array, mmap, ctypes). It must be
                 writable and one piece in the order of C. Or a function without arguments that returns one: it is
                 called by each checkpoint and restart, for programs that make new arrays (`x = step(x)`)
        global_shape, first
                 this rank's array is a block of a larger one of this shape, and begins at these indices. Then a
                 restart may have other blocks and another number of ranks
        bound    for float32 and float64: values may come back changed by as much as this (zfp). Without it every bit
                 comes back
        flags    Flags
        is_bfloat16
                 these uint16 are bfloat16, which NumPy does not have without ml_dtypes

        The session keeps the memory alive until the name is protected again, unprotect, or close. Do not resize it
        meanwhile. Element type and shape are stored. Types that C does not have (structs, strings, other byte orders)
        are stored as bytes, with one more dimension; bool as u8, times as i64. A scalar array has the shape (1,).

        Protecting a name again gives it a new place and size, and may wait for a checkpoint in flight.
        """
        how = dict(global_shape=global_shape, first=first, bound=bound, flags=flags, is_bfloat16=is_bfloat16)
        region = _Region(None, how)
        if callable(memory) and not isinstance(memory, np.ndarray):
            region.ask = memory
            memory = memory()
        with self._busy():
            self._place(name, region, memory)

    def protect_object(self, name: str, save: Callable[[], Any], load: Callable[[bytes], Any]) -> None:
        """Save what is no array: save() returns bytes at each checkpoint, and load(bytes) gets them back after a
        restart. For small things: counters, settings, the state of a random number generator. Anything with the
        buffer protocol counts as bytes; the checkpoint raises TypeError for other things, and is not begun.

        Use json, not pickle, if others may write to the store: pickle runs what it reads. Such regions belong to one
        rank; use an array for what must come back on another number of ranks.
        """
        region = _Region(None, {})
        region.save, region.load = save, load
        self._make_loader(name, region)
        with self._busy():
            self._place_loader(name, region)

    def protect_stream(self, name: str, like: np.ndarray, read: Callable[[int, memoryview], None], *,
                       global_shape: Optional[Sequence[int]] = None, first: Optional[Sequence[int]] = None,
                       is_bfloat16: bool = False) -> None:
        """Save what is not in the memory of this process, of a device for example, piece by piece: each checkpoint
        calls read(offset, into) with a part of its bytes to fill, in ascending order. It must not call the session. If
        it raises, the checkpoint fails.

        like     an array of the same type and shape, of which only that counts: numpy.broadcast_to makes one without
                 memory. The rest is as in protect

        A restart cannot fill it: protect memory under this name for that."""
        region = _Region(None, {})
        described = _types.describe(name, like, global_shape, first, 0, None, is_bfloat16)
        self._make_stream(name, region, like.nbytes, read)
        with self._busy(), _lib.quiet():
            self._call(_lib.lib().varve_protect_callback, _region_name(name), ctypes.byref(region.callbacks), None)
            self._regions[name] = region
            self._call(_lib.lib().varve_describe, _region_name(name), ctypes.byref(described))

    def unprotect(self, name: str) -> None:
        """This region is not part of later checkpoints. Waits as long as one in flight needs its memory."""
        with self._busy():
            self._call(_lib.lib().varve_unprotect, _region_name(name))
            self._regions.pop(name, None)

    def distribute(self, name: str, how: Union[Distribution, str]) -> None:
        """What becomes of a region when a checkpoint comes back on another number of ranks:

        "joined"      the parts of all ranks, one after the other, are one list
        "replicated"  the same on all ranks
        "by_rank"     each rank gets that of the same number
        "dropped"     nobody needs it
        "by_dims"     as without a word: by its place in the global array
        """
        way = Distribution[how.upper()] if isinstance(how, str) else Distribution(how)
        with self._busy():
            self._call(_lib.lib().varve_distribute, _region_name(name), int(way))

    def attribute(self, name: str, value: Any) -> None:
        """Attach a small text, str(value), to all later checkpoints: simulated time, a commit, a loss. None takes it
        away. Of a job, what rank 0 says counts. A restart does not bring it back; Checkpoint.attributes reads it."""
        text = None if value is None else _lib.bytes_of(str(value), "the value of an attribute")
        with self._busy():
            self._call(_lib.lib().varve_attribute, _lib.bytes_of(name, "the name of an attribute"), text)

    def fine(self, name: str, chunk: int) -> None:
        """Look for changes of this region in chunks of so many bytes, 32 to 4096; see varve_fine in varve.h."""
        with self._busy():
            self._call(_lib.lib().varve_fine, _region_name(name), _lib.whole(chunk, 0, 4096, "chunk"))

    # ---- saving ----

    def checkpoint(self, version: int, wait: bool = False) -> None:
        """Collective. Save all protected memory as this version: 0 or more, and more than the last one.

        Returns when the memory may be changed again; the rest is done while the program goes on. With `wait` it
        returns when the checkpoint is safe. It waits for the checkpoint before, if that is still in flight. Raises
        EarlierFailed if that one failed: this one was begun all the same.
        """
        version = _lib.version_of(version)
        with self._busy():
            with self._giving_up(is_saving=True):
                self._ask_all(is_saving=True)
            if self._comm is None:
                self._let_finish()
            self._checkpoint(version)
        if wait:
            self.wait()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Collective. Wait until the last checkpoint is safe: it survives the process and the machine's power. Raises
        why it does not exist. False: it is not safe yet after `timeout` seconds (the same on all ranks). Ctrl-C ends
        the wait, and not the checkpoint."""
        with self._busy(is_shared=True):
            rc = self._poll(timeout)
            if rc < 0:
                raise self._error(rc)
            return rc > 0

    def test(self) -> bool:
        """Collective. Is the last checkpoint safe? Never waits for the storage. Raises why it does not exist."""
        with self._busy(is_shared=True):
            return self._call(_lib.lib().varve_test) > 0

    def release(self) -> None:
        """Wait until the checkpoint in flight needs the program's memory no more; see varve_release in varve.h. Not
        collective. Another thread may call it during wait, test and stats; during other calls it raises
        RuntimeError."""
        me = object()
        try:
            self._releasers[me] = threading.get_ident()  # first: either we see an exclusive call below, or it sees us and waits
            user = self._users.get("user")
            if user is not None and not user.is_shared and user.thread != threading.get_ident():
                raise RuntimeError(f"the session of {self._name} is used by another thread")
            self._check()
            self._plain(_lib.lib().varve_release)
        finally:
            self._releasers.pop(me, None)

    def need(self) -> bool:
        """Collective. Is a checkpoint wanted: by time, by a signal, a file or `varve trigger`, or by the end of the job?"""
        with self._busy():
            return self._call(_lib.lib().varve_need) > 0

    def should_exit(self) -> bool:
        """Collective. Should the job end now? Only after a checkpoint that need has asked for is durable."""
        with self._busy():
            return self._call(_lib.lib().varve_should_exit) > 0

    def time_left(self) -> float:
        """Seconds until the end of the job; math.inf if nobody has said when that is."""
        with self._busy():
            return float(self._plain(_lib.lib().varve_time_left))

    # ---- coming back ----

    def restart(self, version: int = LATEST, *, regions: Optional[Collection[str]] = None, resize: bool = False,
                missing: bool = False, allocate: Union[bool, Collection[str]] = False,
                choose: Optional[Callable[[str, Tuple[int, ...], Distribution], Any]] = None) -> Any:
        """Collective. Fill all protected memory from a version, or from the newest checkpoint that is whole.

        Returns the version, or None if there is no checkpoint at all: a first run. Raises NotFound if the version asked
        for is not there, Mismatch if what is stored has another size or type (nothing was written), Corrupt if no
        checkpoint is whole. After any other error the contents of the protected memory are undefined.

        regions   fill only these
        resize    a region of another size: fill what both have, zero the rest
        missing   leave regions alone that are not stored
        allocate  True: make new arrays for what is stored and not protected, or protected with another size; they are
                  protected from then on. Returns them as a dict with an attribute `version`, or None in a first run.
                  A function that was protected is asked again by the next checkpoint: let it return the new array.
                  A list of names: only for these. On another number of ranks each gets an even share of lists, and
                  what "replicated" and "by_rank" give it
        choose    with allocate, on another number of ranks: a function of the name, the whole shape and the
                  Distribution that tells which part this rank wants. It returns the number of rows of a list; a pair
                  (first, shape) for a block of an array, without which arrays are refused; "replicated", "by_rank" or
                  "dropped"; or None: as it is
        """
        wanted = allocate if isinstance(allocate, bool) else _names("allocate", allocate)
        names = None if regions is None else _names("regions", regions)
        if wanted and (names is not None or resize or missing):
            raise ValueError("allocate goes with none of regions, resize and missing")
        if choose is not None and not wanted:
            raise ValueError("choose goes with allocate")
        with self._busy():
            with self._giving_up():
                self._ask_all()
            if wanted:
                return self._restart_alloc(version, wanted, choose)
            return self._restart(version, names, resize, missing)

    def restart_begin(self, version: int = LATEST) -> Optional[int]:
        """Collective. Begin a restart, and return while memory is still being filled: restart_wait(name) tells when
        a region is; restart_end ends it. See varve_restart_begin in varve.h."""
        with self._busy():
            with self._giving_up():
                self._ask_all()
            return self._versioned(_lib.lib().varve_restart_begin, version)

    def restart_wait(self, name: str) -> None:
        """Wait until this region is filled and checked. Not collective."""
        with self._busy():
            self._call(_lib.lib().varve_restart_wait, _region_name(name))

    def restart_end(self) -> None:
        """Collective. Wait for all regions."""
        with self._busy(), _lib.quiet():
            self._call(_lib.lib().varve_restart_end)
        self._give_objects()

    def continue_from(self, version: int = LATEST) -> Optional[int]:
        """Collective. Go on from a version without reading it: what memory has in common with it is not stored again.
        Before the first checkpoint. None: there is none."""
        with self._busy():
            return self._versioned(_lib.lib().varve_continue, version)

    def reject(self, version: int) -> None:
        """Collective. This checkpoint is bad for the program: the next restart takes an older one."""
        with self._busy():
            self._call(_lib.lib().varve_reject, _lib.version_of(version))

    def stored(self, version: int = LATEST) -> Tuple[Optional[int], List[Stored]]:
        """Collective. The version, and what it holds of this rank. (None, []) if there is no checkpoint."""
        found: List[Stored] = []

        def take(arg: Any, info: Any) -> int:
            array = info.contents.array.contents
            name = _lib.text_of(info.contents.name)
            size = info.contents.bytes
            shape = _types.shape_of(array) if array.dims else (size,)
            found.append(Stored(name, size, _types.dtype_of(array.type), shape))
            return 0

        function = _lib.varve_region_fn(take)
        with self._busy(), _lib.quiet():
            at = ctypes.c_int64(-1)
            rc = _lib.lib().varve_stored(self._session, _lib.version_of(version), function, None, ctypes.byref(at))
            if rc == _lib.VARVE_NO_CHECKPOINT and version == LATEST:
                return None, []
            if rc < 0:
                raise self._error(rc)
            return at.value, found

    # ---- what it cost ----

    def stats(self) -> Dict[str, Union[float, str]]:
        """Statistics of this rank's part of the last checkpoint, by the names of varve_stats(3): "seconds_blocked",
        "bytes_changed", "bytes_stored", ... and "version" and "result". Wait for the checkpoint first."""
        found: Dict[str, Union[float, str]] = {}

        def take(arg: Any, stat: Any) -> None:
            one = stat.contents
            found[_lib.text_of(one.name)] = one.value if one.text is None else _lib.text_of(one.text)

        function = _lib.varve_stat_fn(take)
        with self._busy(is_shared=True), _lib.quiet():
            few = self._stats()
            self._call(_lib.lib().varve_stats_each, function, None)
        return {"version": few.version, "result": few.result, **found}

    # ---- inside ----

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(f"the session of {self._name} belongs to process {self._pid}, which forked this one")
        if not self._session or self._abandoned:
            raise ValueError(f"the session of {self._name} is closed")

    def _busy(self, is_shared: bool = False) -> "_Busy":
        return _Busy(self, is_shared)

    def _error(self, rc: int) -> Error:
        made = from_c(rc, _lib.lib().varve_session_error(self._session).contents)
        if str(GIVEN_UP) not in made.text:
            return made
        return Disagreed(_lib.VARVE_DISAGREED, "an exception there came before this call of all ranks, which was not "
                         "begun: see what that rank says", made.rank)

    @contextlib.contextmanager
    def _giving_up(self, is_saving: bool = False) -> Iterator[None]:
        """What this rank does before a call of all ranks. If it fails the others must not wait, and nothing is begun:
        C refuses this version, on one rank or on all."""
        try:
            yield
        except Exception:
            if self._comm is not None and self._session and self._is_mine():
                with self._busy(), _lib.quiet():
                    if is_saving:
                        self._plain(_lib.lib().varve_checkpoint, GIVEN_UP)
                    else:
                        self._plain(_lib.lib().varve_restart, GIVEN_UP, ctypes.byref(ctypes.c_int64()))
            raise

    def _plain(self, function: Any, *arguments: Any) -> int:
        """What C returns. It may call the log function in this thread, where an exception of a handler is lost."""
        rc: int
        if self._log:
            with _lib.quiet():
                rc = function(self._session, *arguments)
        else:
            rc = function(self._session, *arguments)
        return rc

    def _call(self, function: Any, *arguments: Any) -> int:
        rc = self._plain(function, *arguments)
        if rc < 0:
            raise self._error(rc)
        return rc

    def _stats(self) -> _lib.varve_stats:
        few = _lib.varve_stats(size=ctypes.sizeof(_lib.varve_stats))
        self._call(_lib.lib().varve_stats_get, ctypes.byref(few))
        return few

    def _poll(self, timeout: Optional[float] = None) -> int:
        """varve_wait, but Ctrl-C comes through: what varve_test says in the end. All ranks get the same answers, and
        so ask as often, which is why ranks count looks where there is a time limit, and not each its own clock."""
        pause, waited = POLL_FIRST, 0.0
        while True:
            rc = self._plain(_lib.lib().varve_test)
            if rc != 0 or (timeout is not None and waited >= timeout):
                return rc
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, POLL_LAST)

    def _let_finish(self, timeout: float = float("inf")) -> _lib.varve_stats:
        """Until nothing is in flight, so that Ctrl-C comes through here and not into varve_checkpoint. Asks without
        hearing the result: the next call is to tell it. Not collective."""
        pause, end = POLL_FIRST, time.monotonic() + timeout
        while True:
            few = self._stats()
            if few.version < 0 or few.result != -errno.EINPROGRESS or time.monotonic() >= end:
                return few
            time.sleep(pause)
            pause = min(2 * pause, POLL_LAST)

    def _place(self, name: str, region: _Region, memory: Any) -> None:
        array = _types.numpy_of(name, memory)
        described = _types.describe(name, array, **region.how)
        with _lib.quiet():
            self._call(_lib.lib().varve_protect_array, _region_name(name), _types.address_of(array),
                       ctypes.byref(described))
            region.memory = array  # the old one may go now: C has waited as long as it was needed
            region.must_place = False
            self._regions[name] = region

    def _ask_all(self, is_saving: bool = False) -> None:
        """Where regions are now that are told by functions. Here and not in callbacks of C: no code of Python runs
        inside a call that saves."""
        for name, region in list(self._regions.items()):
            if region.ask is not None:
                array = _types.numpy_of(name, region.ask())
                if array is not region.memory or region.must_place:
                    self._place(name, region, array)
            elif region.save is not None and is_saving:
                memory = np.frombuffer(_bytes_to_save(name, region.save()), np.uint8)
                with _lib.quiet():
                    self._call(_lib.lib().varve_protect, _region_name(name), _types.address_of(memory), memory.size)
                    region.memory = memory
            elif region.load is not None and not is_saving:
                self._place_loader(name, region)

    def _checkpoint(self, version: int) -> None:
        streams = [region for region in self._regions.values() if region.read is not None]
        if not streams:
            self._call(_lib.lib().varve_checkpoint, version)
            return
        for region in streams:
            region.failed = None
        try:
            with _lib.quiet():
                self._call(_lib.lib().varve_checkpoint, version)
        except Error as why:
            for region in streams:
                if region.failed is not None:
                    raise why from region.failed
            raise

    def _make_stream(self, name: str, region: _Region, size: int, read: Callable[[int, memoryview], None]) -> None:
        def length(arg: Any, out: Any) -> int:
            out[0] = size
            return 0

        def save(arg: Any, offset: int, buffer: int, count: int) -> int:
            try:  # whatever is raised here: ctypes would make 0 of it, which is success
                read(offset, memoryview((ctypes.c_char * count).from_address(buffer)).cast("B"))
                return 0
            except BaseException as why:
                region.failed = why
                return -errno.EIO

        kinds = dict(_lib.varve_callbacks._fields_)
        region.read = read
        region.callbacks = _lib.varve_callbacks(
            size=ctypes.sizeof(_lib.varve_callbacks), length=kinds["length"](length), save=kinds["save"](save),
            load=kinds["load"](lambda *_: -errno.EINVAL), flags=0)

    def _make_loader(self, name: str, region: _Region) -> None:
        def load(arg: Any, offset: int, data: int, size: int, total: int) -> int:
            if offset == 0:
                region.loaded = bytearray()
                region.total = total
            if region.loaded is None or offset != len(region.loaded):
                return -errno.EIO
            region.loaded += ctypes.string_at(data, size) if size else b""
            return 0

        kinds = dict(_lib.varve_callbacks._fields_)
        region.callbacks = _lib.varve_callbacks(
            size=ctypes.sizeof(_lib.varve_callbacks), length=kinds["length"](lambda *_: -errno.EINVAL),
            save=kinds["save"](lambda *_: -errno.EINVAL), load=kinds["load"](load), flags=0)

    def _place_loader(self, name: str, region: _Region) -> None:
        """What load gets; what is saved is put into memory first."""
        region.loaded, region.total = None, -1
        with _lib.quiet():
            self._call(_lib.lib().varve_protect_callback, _region_name(name), ctypes.byref(region.callbacks), None)
            region.memory = None
            self._regions[name] = region

    def _give_objects(self) -> None:
        for name, region in list(self._regions.items()):  # a load may protect more
            if region.load is None or region.loaded is None:
                continue
            loaded, region.loaded = region.loaded, None
            if len(loaded) != region.total:
                raise Error(-errno.EIO, f"region {name}: {len(loaded)} bytes of {region.total} came back")
            region.load(bytes(loaded))

    def _versioned(self, function: Any, version: int, *arguments: Any) -> Optional[int]:
        """A call that restarts: the version, or None for a first run."""
        version = _lib.version_of(version)
        at = ctypes.c_int64(-1)
        try:
            with _lib.quiet():
                self._call(function, version, *arguments, ctypes.byref(at))
        except NoCheckpoint:
            if version == LATEST:
                return None
            raise
        return at.value

    def _restart(self, version: int, regions: Optional[Collection[str]], resize: bool,
                 missing: bool) -> Optional[int]:
        if regions is None and not resize and not missing:
            at = self._versioned(_lib.lib().varve_restart, version)
        else:
            names = None if regions is None else [_region_name(name) for name in regions]
            listed = (ctypes.c_char_p * len(names))(*names) if names is not None else None
            flags = (_lib.VARVE_RESTART_RESIZE if resize else 0) | (_lib.VARVE_RESTART_MISSING if missing else 0)
            at = self._versioned(_lib.lib().varve_restart_regions, version, listed, len(names or ()), flags)
        if at is not None:
            self._give_objects()
        return at

    def _restart_alloc(self, version: int, wanted: Union[bool, Collection[str]],
                       choose: Optional[Callable[[str, Tuple[int, ...], Distribution], Any]]) -> Optional[Arrays]:
        given: Dict[str, np.ndarray] = {}
        places: Dict[str, Dict[str, Any]] = {}  # every name that memory was asked for, and where it lies in the whole
        failed: List[BaseException] = []

        def release(arg: Any, name: bytes, ptr: Any) -> None:
            given.pop(_lib.text_of(name), None)

        def ask(arg: Any, info: Any, how: Any, part: Any) -> int:
            try:
                _choose_part(choose, wanted, info.contents, how, part.contents)
                return 0
            except BaseException as why:  # C must not see it: it is raised when all ranks have heard
                failed.append(why)
                return -errno.ECANCELED

        kinds = dict(_lib.varve_allocator._fields_)
        allocator = _lib.varve_allocator(
            size=ctypes.sizeof(_lib.varve_allocator),
            alloc=kinds["alloc"](lambda arg, info: _allocate(given, places, wanted, info.contents)),
            release=kinds["release"](release), choose=kinds["choose"](ask))
        with _lib.quiet():
            try:
                at = self._versioned(_lib.lib().varve_restart_alloc, version, ctypes.byref(allocator), None)
            except Error as why:
                if failed:
                    raise failed[0] from why
                raise
            finally:  # what C asked memory for and gave back, it protects no more
                for name in set(places).intersection(self._regions).difference(given):
                    self._place(name, self._regions[name], self._regions[name].memory)
            if at is None:
                return None
            for name, array in given.items():
                region = self._regions.setdefault(name, _Region(None, places[name]))
                region.memory = array  # a function is asked again, and C has not heard all of `how`
                region.must_place = True
        self._give_objects()
        made = Arrays(given)
        made.version = at
        return made


class _Busy:
    """One thread at a time uses a session. No lock, which a signal between taking it and the `with` would leave taken:
    then the session stays with this thread, which can go on. `is_shared`: C allows release meanwhile."""

    def __init__(self, session: Session, is_shared: bool) -> None:
        self.session = session
        self.thread = threading.get_ident()
        self.is_shared = is_shared
        self.narrowed: Optional[_Busy] = None  # the shared call that this exclusive one is inside of

    def __enter__(self) -> None:
        self.session._check()
        outer = self.session._users.setdefault("user", self)  # one step of the interpreter
        if outer.thread != self.thread:
            raise RuntimeError(f"the session of {self.session._name} is used by another thread")
        if self.is_shared:
            return
        try:
            if outer.is_shared:
                self.narrowed, outer.is_shared = outer, False
            while any(thread != self.thread for thread in list(self.session._releasers.values())):
                time.sleep(POLL_FIRST)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: Any) -> None:
        if self.narrowed is not None:
            self.narrowed.is_shared = True
        if self.session._users.get("user") is self:
            self.session._users.pop("user", None)


def _choose_part(choose: Optional[Callable[[str, Tuple[int, ...], Distribution], Any]],
                 wanted: Union[bool, Collection[str]], whole: _lib.varve_region_info, how: Any,
                 part: _lib.varve_array) -> None:
    """What the program wants of a region that other ranks have stored, in the words of C."""
    name, array = _lib.text_of(whole.name), whole.array.contents
    if wanted is not True and name not in wanted:  # type: ignore[operator]
        how[0] = _lib.VARVE_DROPPED
        return
    said = choose and choose(name, _types.shape_of(array) if array.dims else (whole.bytes,), Distribution(how[0]))
    if said is None:
        return
    if isinstance(said, (str, Distribution)):
        how[0] = int(Distribution[said.upper()] if isinstance(said, str) else said)
    elif isinstance(said, (int, np.integer)):
        part.dim[0] = _lib.varve_dim(said, 0, said)
    else:
        first, shape = said
        if len(first) != array.dims or len(shape) != array.dims:
            raise ValueError(f"region {name} has {array.dims} dimensions, not those of {said!r}")
        ctypes.pointer(part)[0] = array
        for i in range(array.dims):
            part.dim[i] = _lib.varve_dim(shape[i], first[i], array.dim[i].local)


def _allocate(given: Dict[str, np.ndarray], places: Dict[str, Dict[str, Any]], wanted: Union[bool, Collection[str]],
              info: _lib.varve_region_info) -> Optional[int]:
    """Memory for a stored region. An exception makes it NULL for C, which then has no memory: nothing is lost."""
    name = _lib.text_of(info.name)
    if wanted is not True and name not in wanted:  # type: ignore[operator]
        return _lib.VARVE_NOT_WANTED
    array = info.array.contents
    places[name] = {}
    if any(array.dim[i].local != getattr(array.dim[i], "global") for i in range(array.dims)):
        places[name] = dict(global_shape=tuple(getattr(array.dim[i], "global") for i in range(array.dims)),
                            first=tuple(array.dim[i].first for i in range(array.dims)))
    if array.dims:
        made = np.empty(_types.shape_of(array), _types.dtype_of(array.type))
    else:
        made = np.empty(info.bytes, np.uint8)
    given[name] = made
    return _types.address_of(made)


def _names(what: str, names: Collection[str]) -> List[str]:
    """A text would be a list of its letters, of which a region may have the name."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"{what} is the text {names!r}, and must be a list of names")
    return list(names)


def _region_name(name: str) -> bytes:
    return _lib.bytes_of(name, "the name of a region")


def _bytes_to_save(name: str, saved: Any) -> bytearray:
    """A copy of the bytes of an object. bytearray alone would make zeros of a number, and bytes of a list."""
    try:
        view = memoryview(saved)
    except TypeError:
        raise TypeError(f"region {name}: its save returned a {type(saved).__name__}, and must return bytes") from None
    if "O" in view.format:
        raise TypeError(f"region {name}: its save returned pointers to objects, and must return bytes")
    return bytearray(view.tobytes())


def _settings_text(settings: Dict[str, Any]) -> Optional[bytes]:
    for name, value in settings.items():
        if any(c in str(value) for c in ",\n#"):
            raise ValueError(f"setting {name}: a value cannot have commas, line ends or #: {value!r}")
    return ",".join(f"{name}={value}" for name, value in settings.items()).encode() if settings else None


def _open_interruptibly(function: Any, opened: ctypes.c_void_p, arguments: Tuple[Any, ...],
                        is_job: bool = False) -> int:
    """varve_open in a thread, since it may watch a dead holder's heartbeat for a minute and a half, or wait as long for
    other ranks, and Ctrl-C has to come through. Then another thread closes what that one opens. A job's session is left
    open: the other ranks may not come to close it."""
    done = threading.Event()
    results: List[int] = []

    def run() -> None:
        try:
            results.append(function(*arguments))
        finally:
            done.set()

    def give_up(kept: Any) -> None:  # C logs until it has closed
        done.wait()
        if is_job:
            threading.Event().wait()  # keeps what C uses
        _lib.lib().varve_close(opened)

    threading.Thread(target=run, daemon=True, name="varve-open").start()
    try:
        done.wait()
        return results[0]
    except BaseException:
        threading.Thread(target=give_up, args=(arguments,), daemon=True, name="varve-open").start()
        raise


def _open_mpi(comm: Any, arguments: Tuple[Any, ...]) -> int:
    """varve_open_mpi for a communicator of mpi4py."""
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm is a {type(comm).__name__}, and not a communicator of mpi4py")
    vendor, numbers = MPI.get_vendor()
    family = "Open MPI" if vendor == "Open MPI" else "MPICH" if vendor in ("MPICH", "Intel MPI", "MVAPICH") else vendor
    kind = _lib.varve_mpi_kind(MPI._sizeof(comm), family.encode(), ".".join(str(n) for n in numbers).encode())
    result: int = _lib.mpi_lib().varve_open_mpi_of(ctypes.byref(kind), MPI._addressof(comm), *arguments)
    return result


_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Sessions that are still open when the interpreter ends. Those of a job are left: other ranks may not come."""
    for session in list(_sessions):
        if session._session and session._is_mine():
            if session._comm is not None:
                session._leave("the program ended without closing it")
                continue
            try:
                session.close()
            except Error as why:
                warnings.warn(f"varve: the last checkpoint of {session._name}: {why}", RuntimeWarning)


def open(store: Any, name: str, comm: Any = None, *, keep: Union[int, str, None] = None,
         log: Optional[Callable[[int, str], None]] = None, **settings: Any) -> Session:
    """Open a session that writes and restarts the checkpoints called `name` in a store.

    store     a folder (made if there is none), file:///folder, or mem://name for tests
    comm      a communicator of mpi4py, or "env": the ranks find each other by the variables RANK, WORLD_SIZE,
              MASTER_ADDR and MASTER_PORT, as torchrun sets them, over TCP; varve_env(3) has ports and secrets. Or Env,
              which tells the same. All ranks call this, and the session belongs to all of them
    keep      how many checkpoints to keep; 3 unless told; "all"
    log       a function (level, line) instead of standard error: level 0 error, 1 warn, 2 info, 3 debug. It is called
              from other threads
    settings  any other setting of varve(5), for example codec="zstd", access="read", capture="sync",
              interval_seconds=600. The environment wins

    Raises Busy while another session writes the name. Use it in a with statement, which closes it.
    """
    return Session(store, name, comm, keep=keep, log=log, **settings)
