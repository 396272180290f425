"""NumPy's element types and those of C."""
from __future__ import annotations

import functools
import operator
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from . import _lib

try:
    from ml_dtypes import bfloat16 as _bfloat16  # type: ignore[import-not-found]

    BFLOAT16: Optional[np.dtype] = np.dtype(_bfloat16)
except ImportError:
    BFLOAT16 = None

_OF_NUMPY: Dict[str, int] = {
    "i1": _lib.VARVE_I8, "u1": _lib.VARVE_U8, "b1": _lib.VARVE_U8, "i2": _lib.VARVE_I16, "u2": _lib.VARVE_U16,
    "i4": _lib.VARVE_I32, "u4": _lib.VARVE_U32, "i8": _lib.VARVE_I64, "u8": _lib.VARVE_U64, "m8": _lib.VARVE_I64,
    "M8": _lib.VARVE_I64, "f2": _lib.VARVE_F16, "f4": _lib.VARVE_F32, "f8": _lib.VARVE_F64, "c8": _lib.VARVE_C64,
    "c16": _lib.VARVE_C128,
}
_NAMES: Dict[int, str] = {
    _lib.VARVE_BYTES: "u1", _lib.VARVE_I8: "i1", _lib.VARVE_U8: "u1", _lib.VARVE_I16: "i2", _lib.VARVE_U16: "u2",
    _lib.VARVE_I32: "i4", _lib.VARVE_U32: "u4", _lib.VARVE_I64: "i8", _lib.VARVE_U64: "u8", _lib.VARVE_F16: "f2",
    _lib.VARVE_F32: "f4", _lib.VARVE_F64: "f8", _lib.VARVE_C64: "c8", _lib.VARVE_C128: "c16",
}


def dtype_of(type_: int) -> np.dtype:
    """The type in NumPy. bf16 is that of ml_dtypes, or uint16 where that is not installed."""
    if type_ == _lib.VARVE_BF16:
        return BFLOAT16 if BFLOAT16 is not None else np.dtype(np.uint16)
    return np.dtype(_NAMES[type_])


@functools.lru_cache(maxsize=256)
def type_of(dtype: np.dtype) -> Optional[int]:
    """The type in C; None: there is none (structs, strings, other byte orders, long double), so bytes are stored."""
    if dtype.name == "bfloat16":
        return _lib.VARVE_BF16
    if not dtype.isnative:
        return None
    return _OF_NUMPY.get(dtype.str[1:].partition("[")[0])


def numpy_of(name: str, memory: Any) -> np.ndarray:
    """What is to be protected, as an array in the same memory. Refused is what cannot be filled in place."""
    if isinstance(memory, np.ma.MaskedArray):
        raise TypeError(f"region {name}: a masked array has two pieces of memory; protect its .data and its .mask")
    if isinstance(memory, np.ndarray):
        array = memory
    else:
        try:
            view = memoryview(memory)
        except TypeError:
            raise TypeError(f"region {name}: a {type(memory).__name__} has no memory to protect; give a NumPy array, "
                            "or save it as bytes with protect_object") from None
        array = np.asarray(view)
    if array.dtype.hasobject:
        raise TypeError(f"region {name}: its elements are Python objects, so its memory holds only pointers")
    if not array.flags.c_contiguous:
        raise BufferError(f"region {name}: its memory is not one piece in the order of C; protect the array it is a "
                          "view of, or a copy" + (", or its transpose .T" if array.flags.f_contiguous else ""))
    if not array.flags.writeable:
        raise BufferError(f"region {name}: its memory is read-only, so it could not be restored")
    return array


def describe(name: str, array: np.ndarray, global_shape: Optional[Sequence[int]], first: Optional[Sequence[int]],
             flags: int, bound: Optional[float], is_bfloat16: bool = False) -> _lib.varve_array:
    """struct varve_array for an array, or for this rank's block of a larger one."""
    shape = array.shape
    if first is not None and global_shape is None:
        raise ValueError(f"region {name}: `first` needs `global_shape`")
    whole = tuple(operator.index(n) for n in global_shape) if global_shape is not None else shape
    start = tuple(operator.index(n) for n in first) if first is not None else (0,) * len(shape)
    if not len(shape) == len(whole) == len(start):
        raise ValueError(f"region {name}: the array has {len(shape)} dimensions, global_shape {len(whole)}, "
                         f"first {len(start)}")
    for here, at, all_ in zip(shape, start, whole):
        if at < 0 or at + here > all_:
            raise ValueError(f"region {name}: {here} elements from {at} on do not lie in {all_}")
    type_ = _lib.VARVE_BF16 if is_bfloat16 else type_of(array.dtype)
    dims = list(zip(shape, start, whole))
    if type_ is None:  # one dimension more: the bytes of an element
        type_ = _lib.VARVE_BYTES
        dims.append((array.dtype.itemsize, 0, array.dtype.itemsize))
    elif not dims:
        dims.append((1, 0, 1))
    if len(dims) > _lib.VARVE_DIMS_MAX:
        raise ValueError(f"region {name}: {len(dims)} dimensions; there can be {_lib.VARVE_DIMS_MAX}")
    made = _lib.varve_array(size=_lib.ctypes.sizeof(_lib.varve_array), type=type_, dims=len(dims), flags=flags)
    for i, numbers in enumerate(dims):
        made.dim[i] = numbers
    if bound is not None:
        made.lossy = b"zfp"
        made.bound = bound
    return made


def shape_of(array: _lib.varve_array) -> Tuple[int, ...]:
    """The part that is here."""
    return tuple(array.dim[i].local for i in range(array.dims))


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
