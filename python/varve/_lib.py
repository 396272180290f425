"""The C side: libvarve, libvarve_mpi and libvarve_env, and what of their headers is used here.

Structs, functions and constants have their names of C. tests/test_declarations.py compares all of them with the
headers, so that they cannot drift apart.

Every function is called without the interpreter lock. Python code that C calls back runs with signals put off (see
`quiet`): ctypes turns an exception into the result 0, which means success.
"""
from __future__ import annotations

import _signal  # without the enums of `signal`, which take longer than a call of C
import ctypes
import functools
import operator
import os
import signal
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint,
                    c_uint16, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Tuple

SONAME = "0"

VARVE_LATEST = -1
VARVE_DIMS_MAX = 16
VARVE_DEVICE_WRITES = 1
VARVE_NO_KERNEL_WRITES = 2
VARVE_NO_DEVICE_WRITES = 4
VARVE_RESTART_RESIZE = 1
VARVE_RESTART_MISSING = 2
VARVE_NOT_WANTED = ctypes.c_void_p(-2).value

(VARVE_BYTES, VARVE_I8, VARVE_U8, VARVE_I16, VARVE_U16, VARVE_I32, VARVE_U32, VARVE_I64, VARVE_U64, VARVE_F32,
 VARVE_F64, VARVE_F16, VARVE_BF16, VARVE_C64, VARVE_C128) = range(15)
VARVE_BY_DIMS, VARVE_JOINED, VARVE_REPLICATED, VARVE_BY_RANK, VARVE_DROPPED = range(5)

VARVE_NO_CHECKPOINT = -20001
VARVE_CORRUPT = -20002
VARVE_UNKNOWN_FORMAT = -20003
VARVE_BUSY = -20004
VARVE_FENCED = -20005
VARVE_MISMATCH = -20006
VARVE_NO_STORE = -20007
VARVE_FORGOTTEN = -20008
VARVE_SETTING = -20009
VARVE_UNSUPPORTED = -20010
VARVE_DISAGREED = -20011
VARVE_EARLIER_FAILED = -20012
VARVE_KEY = -20013

session_p = c_void_p  # struct varve_session *
store_p = c_void_p  # struct varve_store *


class varve_error(Structure):
    _fields_ = [("code", c_int), ("rank", c_int), ("text", c_char * 492)]


varve_log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class varve_options(Structure):
    _fields_ = [("size", c_size_t), ("settings", c_char_p), ("log", varve_log_fn), ("log_arg", c_void_p)]


class varve_dim(Structure):
    _fields_ = [("local", c_uint64), ("first", c_uint64), ("global", c_uint64)]


class varve_stride(Structure):
    _fields_ = [("block", c_uint64), ("every", c_uint64)]


class varve_array(Structure):
    _fields_ = [("size", c_size_t), ("type", c_int), ("dims", c_uint), ("dim", varve_dim * VARVE_DIMS_MAX),
                ("flags", c_uint), ("lossy", c_char_p), ("bound", c_double), ("stride", varve_stride * VARVE_DIMS_MAX)]


class varve_callbacks(Structure):
    _fields_ = [("size", c_size_t),
                ("length", CFUNCTYPE(c_int, c_void_p, POINTER(c_uint64))),
                ("save", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t)),
                ("load", CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t, c_uint64)),
                ("flags", c_uint)]


class varve_region_info(Structure):
    _fields_ = [("name", c_char_p), ("bytes", c_uint64), ("array", POINTER(varve_array)), ("how", c_int)]


varve_region_fn = CFUNCTYPE(c_int, c_void_p, POINTER(varve_region_info))


class varve_allocator(Structure):
    _fields_ = [("size", c_size_t),
                ("alloc", CFUNCTYPE(c_void_p, c_void_p, POINTER(varve_region_info))),
                ("release", CFUNCTYPE(None, c_void_p, c_char_p, c_void_p)),
                ("choose", CFUNCTYPE(c_int, c_void_p, POINTER(varve_region_info), POINTER(c_int),
                                     POINTER(varve_array)))]


class varve_stats(Structure):
    _fields_ = [("size", c_size_t), ("version", c_int64), ("result", c_int), ("seconds_blocked", c_double),
                ("seconds_durable", c_double), ("bytes_protected", c_uint64), ("bytes_changed", c_uint64),
                ("bytes_stored", c_uint64)]


class varve_stat(Structure):
    _fields_ = [("name", c_char_p), ("unit", c_char_p), ("value", c_double), ("text", c_char_p)]


varve_stat_fn = CFUNCTYPE(None, c_void_p, POINTER(varve_stat))


class varve_checkpoint_info(Structure):
    _fields_ = [("name", c_char_p), ("generation", c_uint32), ("version", c_int64), ("time_ns", c_uint64),
                ("ranks", c_uint32), ("regions", c_uint64), ("bytes_protected", c_uint64), ("bytes_stored", c_uint64),
                ("bytes_metadata", c_uint64), ("is_damaged", c_int), ("is_pinned", c_int), ("reason", c_char_p),
                ("is_unreadable", c_int)]


varve_checkpoint_fn = CFUNCTYPE(c_int, c_void_p, POINTER(varve_checkpoint_info))


class varve_which(Structure):
    _fields_ = [("name", c_char_p), ("generation", c_uint32), ("version", c_int64)]


class varve_stored_region(Structure):
    _fields_ = [("rank", c_uint32), ("name", c_char_p), ("bytes", c_uint64), ("type", c_char_p),
                ("bytes_zero", c_uint64), ("runs", c_uint64), ("digest", c_char * 33), ("array", POINTER(varve_array)),
                ("codec", c_char_p), ("bytes_blocks", c_uint64), ("distribution", c_int)]


varve_attribute_fn = CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p)
varve_stored_region_fn = CFUNCTYPE(c_int, c_void_p, POINTER(varve_stored_region))


class varve_checkpoint_detail(Structure):
    _fields_ = [("info", varve_checkpoint_info), ("parent_generation", c_uint32), ("parent_version", c_int64),
                ("writers", c_uint32), ("attempt", c_uint32), ("dependencies", c_uint32), ("program", c_char_p)]


varve_bytes_fn = CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p, c_size_t, c_uint64)


class varve_global_array(Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("array", POINTER(varve_array)), ("bytes", c_uint64),
                ("blocks", c_uint64), ("is_private", c_int), ("is_whole", c_int), ("problem", c_char_p)]


varve_global_array_fn = CFUNCTYPE(c_int, c_void_p, POINTER(varve_global_array))


class varve_slice(Structure):
    _fields_ = [("first", c_uint64 * VARVE_DIMS_MAX), ("count", c_uint64 * VARVE_DIMS_MAX)]


class varve_part(Structure):
    _fields_ = [("array", c_char_p), ("slice", varve_slice), ("to", c_void_p), ("bytes", c_uint64)]


varve_progress_fn = CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)
varve_finding_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
varve_action_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_char_p)


class varve_verify_options(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("is_quick", c_int), ("finding", varve_finding_fn),
                ("progress", varve_progress_fn), ("arg", c_void_p)]


class varve_verify_result(Structure):
    _fields_ = [("objects", c_uint64), ("bytes", c_uint64), ("checkpoints", c_uint64), ("damaged_objects", c_uint64),
                ("lost_checkpoints", c_uint64)]


class varve_prune_result(Structure):
    _fields_ = [("objects", c_uint64), ("bytes", c_uint64), ("kept_attempts", c_uint64)]


class varve_env(Structure):
    _fields_ = [("size", c_size_t), ("rank", c_uint32), ("ranks", c_uint32), ("host", c_char_p), ("port", c_uint16),
                ("secret", c_char_p)]


class varve_mpi_kind(Structure):
    _fields_ = [("comm_size", c_size_t), ("family", c_char_p), ("version", c_char_p)]


_error_p = POINTER(varve_error)
_array_p = POINTER(varve_array)
_which_p = POINTER(varve_which)
_version_p = POINTER(c_int64)

FUNCTIONS: Dict[str, Tuple[Any, ...]] = {  # result first
    "varve_error_name": (c_char_p, c_int),
    "varve_error_text": (c_char_p, c_int),
    "varve_version": (c_char_p,),
    "varve_build": (c_char_p,),
    "varve_open": (c_int, c_char_p, c_char_p, POINTER(varve_options), POINTER(session_p), _error_p),
    "varve_close": (c_int, session_p),
    "varve_session_error": (_error_p, session_p),
    "varve_protect": (c_int, session_p, c_char_p, c_void_p, c_size_t),
    "varve_protect_array": (c_int, session_p, c_char_p, c_void_p, _array_p),
    "varve_fine": (c_int, session_p, c_char_p, c_uint32),
    "varve_distribute": (c_int, session_p, c_char_p, c_int),
    "varve_attribute": (c_int, session_p, c_char_p, c_char_p),
    "varve_protect_callback": (c_int, session_p, c_char_p, POINTER(varve_callbacks), c_void_p),
    "varve_describe": (c_int, session_p, c_char_p, _array_p),
    "varve_unprotect": (c_int, session_p, c_char_p),
    "varve_checkpoint": (c_int, session_p, c_int64),
    "varve_wait": (c_int, session_p),
    "varve_release": (c_int, session_p),
    "varve_test": (c_int, session_p),
    "varve_need": (c_int, session_p),
    "varve_should_exit": (c_int, session_p),
    "varve_time_left": (c_double, session_p),
    "varve_best_interval": (c_double, c_double, c_double),
    "varve_restart": (c_int, session_p, c_int64, _version_p),
    "varve_restart_regions": (c_int, session_p, c_int64, POINTER(c_char_p), c_size_t, c_uint, _version_p),
    "varve_restart_begin": (c_int, session_p, c_int64, _version_p),
    "varve_restart_wait": (c_int, session_p, c_char_p),
    "varve_restart_end": (c_int, session_p),
    "varve_restart_alloc": (c_int, session_p, c_int64, POINTER(varve_allocator), c_void_p, _version_p),
    "varve_continue": (c_int, session_p, c_int64, _version_p),
    "varve_reject": (c_int, session_p, c_int64),
    "varve_stored": (c_int, session_p, c_int64, varve_region_fn, c_void_p, _version_p),
    "varve_stats_get": (c_int, session_p, POINTER(varve_stats)),
    "varve_stats_each": (c_int, session_p, varve_stat_fn, c_void_p),
    "varve_store_open": (c_int, c_char_p, c_char_p, POINTER(store_p), _error_p),
    "varve_store_close": (None, store_p),
    "varve_store_list": (c_int, store_p, c_char_p, varve_checkpoint_fn, c_void_p, _error_p),
    "varve_store_resolve": (c_int, store_p, _which_p, _error_p),
    "varve_store_show": (c_int, store_p, _which_p, POINTER(varve_checkpoint_detail), varve_stored_region_fn, c_void_p,
                         _error_p),
    "varve_store_read": (c_int, store_p, _which_p, c_uint32, c_char_p, c_int, varve_bytes_fn, c_void_p, _error_p),
    "varve_store_attributes": (c_int, store_p, _which_p, varve_attribute_fn, c_void_p, _error_p),
    "varve_store_arrays": (c_int, store_p, _which_p, c_char_p, varve_global_array_fn, c_void_p, _error_p),
    "varve_store_read_array": (c_int, store_p, _which_p, c_char_p, POINTER(varve_slice), c_int, varve_bytes_fn,
                               c_void_p, _error_p),
    "varve_store_read_parts": (c_int, store_p, _which_p, POINTER(varve_part), c_size_t, _error_p),
    "varve_store_bytes_read": (c_int, store_p, POINTER(c_uint64), _error_p),
    "varve_store_verify": (c_int, store_p, POINTER(varve_verify_options), POINTER(varve_verify_result), _error_p),
    "varve_store_forget": (c_int, store_p, _which_p, _error_p),
    "varve_store_pin": (c_int, store_p, _which_p, c_char_p, _error_p),
    "varve_store_trigger": (c_int, store_p, c_char_p, c_uint, _error_p),
    "varve_store_prune": (c_int, store_p, c_char_p, c_int, varve_action_fn, c_void_p, POINTER(varve_prune_result),
                          _error_p),
}
MPI_FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "varve_open_mpi_of": (c_int, POINTER(varve_mpi_kind), c_void_p, c_char_p, c_char_p, POINTER(varve_options),
                          POINTER(session_p), _error_p),
}
ENV_FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "varve_open_env": (c_int, c_char_p, c_char_p, POINTER(varve_options), POINTER(session_p), _error_p),
    "varve_open_env_as": (c_int, POINTER(varve_env), c_char_p, c_char_p, POINTER(varve_options), POINTER(session_p),
                          _error_p),
}


def _places(stem: str) -> List[str]:
    """Where the library may be, best first. LIBVARVE names a folder; an installation by CMake has lib/ above us. Other
    folders above us are not looked at: they may be anybody's."""
    file = f"{stem}.so.{SONAME}"
    if os.environ.get("LIBVARVE"):
        return [os.path.join(os.environ["LIBVARVE"], file)]
    folder = os.path.dirname(os.path.abspath(__file__))
    above = [os.path.abspath(os.path.join(folder, *[".."] * n)) for n in range(2, 5)]
    places = [os.path.join(lib, part) for lib in above if os.path.basename(lib) in ("lib", "lib64")
              for part in ("", "../lib64")]
    found = [os.path.join(place, file) for place in places]
    return [one for one in found if os.path.exists(one)] + [file]


def _load(stem: str, functions: Dict[str, Tuple[Any, ...]]) -> ctypes.CDLL:
    places = _places(stem)
    try:
        library = ctypes.CDLL(places[0])
    except OSError as why:
        raise ImportError(f"{stem} cannot be loaded ({why}): install Varve, or let the environment variable LIBVARVE "
                          f"name the folder of {stem}.so.{SONAME}") from why
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


@functools.lru_cache(maxsize=None)
def lib() -> ctypes.CDLL:
    return _load("libvarve", FUNCTIONS)


@functools.lru_cache(maxsize=None)
def mpi_lib() -> ctypes.CDLL:
    lib()  # so that it is this libvarve that it uses
    return _load("libvarve_mpi", MPI_FUNCTIONS)


@functools.lru_cache(maxsize=None)
def env_lib() -> ctypes.CDLL:
    lib()
    return _load("libvarve_env", ENV_FUNCTIONS)


_SIGNALS = tuple(int(n) for n in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


class quiet:
    """Put signals off that Python handles. Around every call of C that calls Python back: an exception that a handler
    raises there, KeyboardInterrupt first of all, would be lost, and the call would take it for success. And around what
    gives memory to C: it must be written down that C has it before an exception can come."""

    def __enter__(self) -> None:
        self.handlers: Dict[int, Any] = {}
        self.came: List[Tuple[int, Any]] = []
        if threading.get_ident() != threading.main_thread().ident:
            return  # handlers run in the main thread
        try:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self.handlers[number] = handler
                    _signal.signal(number, self.note)
        except BaseException:
            self.restore()
            raise

    def __exit__(self, *_: Any) -> None:
        try:
            self.restore()
        except BaseException:  # one that is restored already has come
            self.restore()
            raise
        finally:
            self.deliver()

    def deliver(self) -> None:
        try:
            while self.came:
                number, frame = self.came.pop(0)
                self.handlers[number](number, frame)
        finally:  # those behind a handler that raises
            if self.came:
                self.deliver()

    def note(self, number: int, frame: Any) -> None:
        self.came.append((number, frame))

    def restore(self) -> None:
        for number, handler in self.handlers.items():
            _signal.signal(number, handler)


def whole(number: Any, least: int, most: int, what: str) -> int:
    """A number for C. ctypes would cut off what does not fit."""
    made = operator.index(number)
    if not least <= made <= most:
        raise ValueError(f"{what} is {made}, and must be {least} to {most}")
    return made


def version_of(number: Any) -> int:
    return whole(number, VARVE_LATEST, (1 << 63) - 1, "the version")


def text_of(value: Any) -> str:
    """A string of C as one of Python, whatever its bytes are."""
    return os.fsdecode(value) if value else ""


def bytes_of(text: Any, what: str) -> bytes:
    """A string or path for C."""
    made = os.fsencode(text)
    if b"\0" in made:
        raise ValueError(f"{what} has a zero byte: {text!r}")
    return made

