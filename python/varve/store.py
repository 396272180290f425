"""Look into a store without a session: varve_inspect.h for Python."""
from __future__ import annotations

import ctypes
import datetime
import operator
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _lib, _types
from .errors import NoCheckpoint, NotFound, from_c


class Region(NamedTuple):
    """A region of one rank, as it is stored; see Checkpoint.regions."""

    rank: int
    name: str
    nbytes: int
    type: str
    dtype: np.dtype
    shape: Tuple[int, ...]
    first: Tuple[int, ...]
    global_shape: Tuple[int, ...]
    codec: str
    digest: str


class Finding(NamedTuple):
    """Something that Store.verify found. level 0: damage; 1: a checkpoint without its record; 2: a note."""

    level: int
    key: str
    text: str


class Store(Mapping[str, "Checkpoints"]):
    """An existing store, for reading. A mapping all the way down, and data is read only when it is asked for:

        store = varve.Store("ck")
        list(store)                                      # names
        list(store["heat"])                              # versions, newest first
        t = store["heat"][12]["temperature"]             # an array of the whole job, from all ranks
        t.shape, t.dtype
        t[10:20, :, 5]                                   # reads only what it needs
        numpy.asarray(store["heat"].latest["temperature"])

    Needs no session, disturbs none, and works without MPI. Several threads may use it; they take turns. Nothing is
    cached: each look shows the store as it is then. Settings as in varve.open.
    """

    def __init__(self, path: Any, **settings: Any) -> None:
        from .session import _settings_text

        self._store = ctypes.c_void_p()
        self._lock = threading.RLock()
        self._path = path
        error = _lib.varve_error()
        rc = _lib.lib().varve_store_open(_lib.bytes_of(path, "the address of the store"), _settings_text(settings),
                                         ctypes.byref(self._store), ctypes.byref(error))
        if rc < 0:
            raise from_c(rc, error)

    def close(self) -> None:
        with self._lock:
            store, self._store = self._store, ctypes.c_void_p()
            _lib.lib().varve_store_close(store)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_store", None):
            _lib.lib().varve_store_close(self._store)

    def __repr__(self) -> str:
        return f"<varve.Store {str(self._path)!r}>"

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(checkpoint.name for checkpoint in self.checkpoints()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> "Checkpoints":
        if not self.checkpoints(name):
            raise NoCheckpoint(_lib.VARVE_NO_CHECKPOINT, f"there is no checkpoint of {name} in {self._path}")
        return Checkpoints(self, name)

    def checkpoints(self, name: Optional[str] = None) -> List["Checkpoint"]:
        """All checkpoints, or those of a name: names in order, newest first within each, damaged ones too."""
        found: List[Checkpoint] = []

        def take(arg: Any, info: Any) -> int:
            found.append(Checkpoint(self, info.contents))
            return 0

        self._call(_lib.lib().varve_store_list, None if name is None else _lib.bytes_of(name, "the name"),
                   _lib.varve_checkpoint_fn(take), None)
        return found

    def verify(self, name: Optional[str] = None, quick: bool = False) -> List[Finding]:
        """Read everything, or with `quick` the tables only, and tell what is wrong. Empty: no damage, no note. Not
        interruptible."""
        found: List[Finding] = []
        finding = _lib.varve_finding_fn(
            lambda arg, level, key, text: found.append(Finding(level, _lib.text_of(key), _lib.text_of(text))))
        options = _lib.varve_verify_options(
            size=ctypes.sizeof(_lib.varve_verify_options), is_quick=1 if quick else 0, finding=finding,
            name=None if name is None else _lib.bytes_of(name, "the name"))
        result = _lib.varve_verify_result()
        self._call(_lib.lib().varve_store_verify, ctypes.byref(options), ctypes.byref(result))
        return found

    def trigger(self, name: str, exit: bool = False) -> None:
        """Ask the program that has this name open for a checkpoint, and to end after it."""
        self._call(_lib.lib().varve_store_trigger, _lib.bytes_of(name, "the name"), 1 if exit else 0)

    def prune(self, name: Optional[str] = None, dry_run: bool = False) -> int:
        """Free what no checkpoint needs; the bytes that were (or would be) freed."""
        result = _lib.varve_prune_result()
        self._call(_lib.lib().varve_store_prune, None if name is None else _lib.bytes_of(name, "the name"),
                   1 if dry_run else 0, _lib.varve_action_fn(), None, ctypes.byref(result))
        return result.bytes

    @property
    def bytes_read(self) -> int:
        """Bytes that were read from the storage since this was asked first, tables and lists included."""
        out = ctypes.c_uint64()
        self._call(_lib.lib().varve_store_bytes_read, ctypes.byref(out))
        return out.value

    def _call(self, function: Any, *arguments: Any) -> int:
        error = _lib.varve_error()
        with self._lock:
            if not self._store:
                raise ValueError(f"{self!r} is closed")
            with _lib.quiet():
                rc: int = function(self._store, *arguments, ctypes.byref(error))
        if rc < 0:
            raise from_c(rc, error)
        return rc


class Checkpoints(Mapping[int, "Checkpoint"]):
    """The checkpoints of a name, by version. Where several runs stored a version, the newest run's."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self.name = name

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(checkpoint.version for checkpoint in self._store.checkpoints(self.name)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, version: int) -> "Checkpoint":
        if operator.index(version) < 0:
            raise NotFound(_lib.VARVE_NO_CHECKPOINT, f"{version} is no version; .latest is the newest checkpoint")
        return self._resolve(operator.index(version))

    @property
    def latest(self) -> "Checkpoint":
        """The newest one whose record and tables are whole."""
        return self._resolve(_lib.VARVE_LATEST)

    def _resolve(self, version: int) -> "Checkpoint":
        which = _lib.varve_which(_lib.bytes_of(self.name, "the name"), 0, version)
        self._store._call(_lib.lib().varve_store_resolve, ctypes.byref(which))
        for checkpoint in self._store.checkpoints(self.name):
            if (checkpoint.version, checkpoint.generation) == (which.version, which.generation):
                return checkpoint
        raise NoCheckpoint(_lib.VARVE_NO_CHECKPOINT, f"{self.name}@{which.version} was forgotten meanwhile")

    def __repr__(self) -> str:
        return f"<varve checkpoints of {self.name!r}: {list(self)}>"


class Checkpoint(Mapping[str, "Array"]):
    """One checkpoint: its arrays by name, put together from all ranks.

    name, version, generation (which run), time (of the commit, or None), ranks, nbytes, is_damaged, reason,
    is_unreadable (beside is_damaged: reading failed, and it may be whole), is_pinned (`varve pin` keeps it from being
    forgotten)
    """

    def __init__(self, store: Store, info: _lib.varve_checkpoint_info) -> None:
        self._store = store
        self.name = _lib.text_of(info.name)
        self.version: int = info.version
        self.generation: int = info.generation
        self.ranks: int = info.ranks
        self.nbytes: int = info.bytes_protected
        self.is_damaged = bool(info.is_damaged)
        self.is_unreadable = bool(info.is_unreadable)
        self.is_pinned = bool(info.is_pinned)
        self.reason = _lib.text_of(info.reason)
        self.time: Optional[datetime.datetime] = None
        if info.time_ns:
            self.time = datetime.datetime.fromtimestamp(info.time_ns * 1e-9, datetime.timezone.utc)

    def __iter__(self) -> Iterator[str]:
        return iter([array.name for array in self.arrays()])

    def __len__(self) -> int:
        return len(self.arrays())

    def __getitem__(self, name: str) -> "Array":
        for array in self.arrays(name):
            return array
        raise NotFound(_lib.VARVE_MISMATCH, f"{self.name}@{self.version} has no array {name}; regions() lists what "
                       "else there is, and read(name, rank) reads it")

    def arrays(self, name: Optional[str] = None) -> List["Array"]:
        """All arrays, or the one of this name."""
        found: List[Array] = []

        def take(arg: Any, array: Any) -> int:
            found.append(Array(self, array.contents))
            return 0

        self._store._call(_lib.lib().varve_store_arrays, self._which(),
                          None if name is None else _lib.bytes_of(name, "the name of an array"),
                          _lib.varve_global_array_fn(take), None)
        return found

    @property
    def attributes(self) -> Dict[str, str]:
        """What the program has attached to it with Session.attribute."""
        found: Dict[str, str] = {}

        def take(arg: Any, name: bytes, value: bytes) -> int:
            found[_lib.text_of(name)] = _lib.text_of(value)
            return 0

        self._store._call(_lib.lib().varve_store_attributes, self._which(), _lib.varve_attribute_fn(take), None)
        return found

    def regions(self) -> List[Region]:
        """What each rank has stored."""
        found: List[Region] = []

        def take(arg: Any, region: Any) -> int:
            found.append(_region_of(region.contents))
            return 0

        detail = _lib.varve_checkpoint_detail()
        self._store._call(_lib.lib().varve_store_show, self._which(), ctypes.byref(detail),
                          _lib.varve_stored_region_fn(take), None)
        return found

    def read(self, name: str, rank: int = 0) -> np.ndarray:
        """The region of one rank, as a new array: what is private to a rank, or no array at all (then uint8)."""
        for region in self.regions():
            if (region.rank, region.name) == (rank, name):
                break
        else:
            raise NotFound(_lib.VARVE_MISMATCH, f"{self.name}@{self.version} has no region {name} of rank {rank}")
        return self.read_region(region)

    def read_region(self, region: Region) -> np.ndarray:
        """The same for a region that regions() has told, without looking for it once more."""
        made = np.empty(region.shape, region.dtype)
        self._fill(made, lambda fn: self._store._call(
            _lib.lib().varve_store_read, self._which(), region.rank,
            _lib.bytes_of(region.name, "the name of a region"), 0, fn, None))
        return made

    def read_into(self, parts: Sequence[Tuple[str, Sequence[int], np.ndarray]]) -> None:
        """Read parts of arrays straight into memory, many at once: (name, index of the first element, array to fill).

        The arrays must be one piece in the order of C, and have the type that is stored. If a part is not stored, the
        error is Mismatch, and nothing was written. After other errors the contents of the arrays are undefined."""
        made = (_lib.varve_part * len(parts))()
        for part, (name, first, array) in zip(made, parts):
            into = _types.numpy_of(name, array)
            if len(first) != into.ndim:
                raise ValueError(f"array {name}: {len(first)} indices for {into.ndim} dimensions")
            part.array = _lib.bytes_of(name, "the name of an array")
            part.slice.first[:into.ndim] = list(first)
            part.slice.count[:into.ndim] = list(into.shape)
            part.to = _types.address_of(into)
            part.bytes = into.nbytes
        self._store._call(_lib.lib().varve_store_read_parts, self._which(), made, len(parts))

    def pin(self, reason: str = "") -> None:
        """Nothing forgets this checkpoint any more, until `varve unpin`."""
        self._store._call(_lib.lib().varve_store_pin, self._which(), _lib.bytes_of(reason, "the reason"))

    def forget(self) -> None:
        """Remove this checkpoint. Store.prune then frees its space."""
        self._store._call(_lib.lib().varve_store_forget, self._which())

    def _which(self) -> Any:
        return ctypes.byref(_lib.varve_which(_lib.bytes_of(self.name, "the name"), self.generation, self.version))

    def _fill(self, made: np.ndarray, read: Callable[[Any], int]) -> None:
        """Into an array, as the bytes come. Counted, so that nothing that was not read is taken for data."""
        start, room = _types.address_of(made), made.nbytes
        came = 0

        def take(arg: Any, offset: int, data: int, size: int, total: int) -> int:
            nonlocal came
            if offset != came or size > room - offset:
                return -5  # EIO
            ctypes.memmove(start + offset, data, size)
            came += size
            return 0

        read(_lib.varve_bytes_fn(take))
        if came != room:
            raise from_c(_lib.VARVE_MISMATCH, None)

    def __repr__(self) -> str:
        damaged = ", unreadable" if self.is_unreadable else ", damaged" if self.is_damaged else ""
        return f"<varve.Checkpoint {self.name}@{self.version}, {self.ranks} ranks, {self.nbytes} bytes{damaged}>"


class Array:
    """A stored array of the whole job. Index it as in NumPy (numbers, slices, ..., None); that reads what is needed.

    name, shape, dtype, ndim, size, nbytes
    type        as Varve names it: "f64", "bf16" (uint16 here, unless ml_dtypes is installed), "bytes"
    is_whole    every element is stored
    is_private  each rank has an array of its own under this name: use Checkpoint.read(name, rank)
    problem     what is wrong if it is neither

    A step other than 1 reads all between the first element and the last.
    """

    def __init__(self, checkpoint: Checkpoint, told: _lib.varve_global_array) -> None:
        self.checkpoint = checkpoint
        self.name = _lib.text_of(told.name)
        self.type = _lib.text_of(told.type)
        self.shape = _types.shape_of(told.array.contents)
        self.dtype = _types.dtype_of(told.array.contents.type)
        self.ndim = len(self.shape)
        self.is_whole = bool(told.is_whole)
        self.is_private = bool(told.is_private)
        self.problem = _lib.text_of(told.problem)

    @property
    def size(self) -> int:
        product = 1
        for n in self.shape:
            product *= n
        return product

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        first, count, rest = plan(self.shape, index)
        block = self._read(first, count)
        taken = block[rest]
        if any(isinstance(i, slice) and i.step not in (None, 1, -1) for i in rest):
            taken = taken.copy()  # so that what is left out is not kept in memory
        return taken

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"array {self.name} is in a store: it cannot be had without a copy")
        whole = self[...]
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def _read(self, first: Sequence[int], count: Sequence[int]) -> np.ndarray:
        if self.is_private:
            raise from_c(_lib.VARVE_MISMATCH, _lib.varve_error(
                _lib.VARVE_MISMATCH, -1, f"each rank has an array {self.name} of its own: use "
                f"read({self.name!r}, rank) of the checkpoint".encode()[:491]))
        made = np.empty(tuple(count), self.dtype)
        if made.size:
            part = _lib.varve_slice()
            part.first[:self.ndim] = first
            part.count[:self.ndim] = count
            at = self.checkpoint
            at._fill(made, lambda fn: at._store._call(
                _lib.lib().varve_store_read_array, at._which(), _lib.bytes_of(self.name, "the name of an array"),
                ctypes.byref(part), 0, fn, None))
        return made

    def __repr__(self) -> str:
        at = self.checkpoint
        return f"<varve.Array {self.name} of {at.name}@{at.version}, shape {self.shape}, {self.dtype}>"


def plan(shape: Sequence[int], index: Any) -> Tuple[List[int], List[int], Tuple[Any, ...]]:
    """What an index of NumPy needs: the first element and the number of elements of each dimension, and the index that
    is left to do in the block."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if sum(1 for part in parts if part is Ellipsis) > 1:
        raise IndexError("an index has one ... at most")
    if used > len(shape):
        raise IndexError(f"{used} indices for {len(shape)} dimensions")
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    where = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[where:where + 1] = [slice(None)] * (len(shape) - used)
    first: List[int] = []
    count: List[int] = []
    rest: List[Any] = []
    for part in parts:
        if part is None:
            rest.append(None)
            continue
        length = shape[len(first)]
        if isinstance(part, slice):
            chosen = range(*part.indices(length))
            first.append(min(chosen[0], chosen[-1]) if chosen else 0)
            count.append(abs(chosen[-1] - chosen[0]) + 1 if chosen else 0)
            rest.append(slice(None, None, chosen.step))
        else:
            first.append(_number(part, length))
            count.append(1)
            rest.append(0)
    return first, count, tuple(rest)


def _number(part: Any, length: int) -> int:
    if isinstance(part, (bool, np.bool_)):
        raise TypeError("a stored array takes numbers, slices, ... and None; index what they read for more")
    try:
        at = operator.index(part)
    except TypeError:
        raise TypeError("a stored array takes numbers, slices, ... and None; index what they read for more") from None
    if not -length <= at < length:
        raise IndexError(f"index {at} is out of bounds for {length} elements")
    return at % length


def _region_of(region: _lib.varve_stored_region) -> Region:
    array = region.array.contents
    dims = [array.dim[i] for i in range(array.dims)]
    shape = tuple(d.local for d in dims) if dims else (region.bytes,)
    type_ = array.type if dims else _lib.VARVE_BYTES
    return Region(region.rank, _lib.text_of(region.name), region.bytes, _lib.text_of(region.type),
                  _types.dtype_of(type_), shape, tuple(d.first for d in dims) or (0,),
                  tuple(getattr(d, "global") for d in dims) or shape, _lib.text_of(region.codec),
                  _lib.text_of(region.digest))
