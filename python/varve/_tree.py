"""Nested states and their description as JSON: what varve.torch stores beside the tensors.

A state is taken apart into three things: tensors and arrays by name, which become regions; a *structure*, which seldom
changes; and the *values* that are neither, in the order of the structure. A node of the structure is

    0                                            the next value
    {"dict": [[key, node], ...]}                 keys are texts, numbers, booleans or null
    {"list": [node, ...]}, {"tuple": [node, ...]}
    {"tensor": name, "type": "float32", "shape": [2, 3]}    a region; "array" for one of NumPy. With "order": its
                                                 dimensions as they lie in memory. With "sharded": the shape is that of
                                                 the whole, of which each rank has a block
    {"number": "float32"}                        a tensor or NumPy scalar without dimensions, whose number is the next
                                                 value

and a value is one of JSON, {"bytes": base64} or {"pickle": base64}. Nothing is unpickled unless that is asked for.
"""
from __future__ import annotations

import base64
import functools
import json
import pickle as _pickle
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from . import _lib
from .errors import Error, from_c

_KEYS = (str, int, float, bool, type(None))
_NUMBERS = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}


class Block(NamedTuple):
    """A rank's block of a larger array."""

    first: Tuple[int, ...]
    shape: Tuple[int, ...]
    whole: Tuple[int, ...]


class Leaf(NamedTuple):
    """A tensor of a state, and where it belongs. `order`: None unless its memory is that of a permutation."""

    name: str
    tensor: Any
    block: Optional[Block]
    order: Optional[Tuple[int, ...]]
    is_own: bool  # it belongs to this rank


def mismatch(text: str) -> Error:
    return from_c(_lib.VARVE_MISMATCH, _lib.varve_error(_lib.VARVE_MISMATCH, -1, text.encode()[:491]))


def name_of(path: Sequence[Any]) -> str:
    """The name of a region: keys with / between them. A text that could be taken for a number has quotes."""
    return "/".join([_part(type(key), key) for key in path])


@functools.lru_cache(maxsize=1 << 16)
def _part(kind: type, key: Any) -> str:
    """A key in a name. By its type, too: True and 1 are equal."""
    text = str(key).replace("~", "~0").replace("/", "~1")
    return f'"{text}"' if kind is str and _is_doubtful(text) else text


def _is_doubtful(text: str) -> bool:
    if text in ("", "None", "True", "False") or text[0] == '"':
        return True
    try:
        float(text)
        return True
    except ValueError:
        return False


def order_of(tensor: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """() if its elements lie in the order of C, the permutation of its dimensions in which they do, or None. None, too,
    if memory has other values than the tensor: conjugate or negative views."""
    if tensor.is_conj() or tensor.is_neg():
        return None
    if tensor.is_contiguous():
        return ()
    order = tuple(sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d)))
    return order if tensor.permute(order).is_contiguous() else None


def is_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


def empty(dtype: torch.dtype, shape: Sequence[int], order: Sequence[int]) -> torch.Tensor:
    """A tensor whose memory has this order. A new one, so that what was not read is no data of others."""
    if not order:
        return torch.zeros(tuple(shape), dtype=dtype)
    back = [order.index(d) for d in range(len(order))]
    return torch.zeros([shape[d] for d in order], dtype=dtype).permute(back)


class Writer:
    """Takes states apart."""

    def __init__(self, may_pickle: bool) -> None:
        self.may_pickle = may_pickle
        self.leaves: Dict[str, Leaf] = {}
        self.values: List[Any] = []
        self._names: Dict[Tuple[Any, ...], str] = {}  # of tensors by their memory: some have two names

    def node(self, path: Tuple[Any, ...], value: Any, block: Optional[Block], is_own: bool) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(path, value, block, is_own)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None:
            return self._leaf(path, "array", value, value.dtype.str, value.shape, None, is_own, ())
        if isinstance(value, np.generic) and value.dtype.name in _NUMBERS:
            self.values.append(value.item())
            return {"number": "numpy." + value.dtype.name}
        if isinstance(value, dict):
            return {"dict": [[self._key(path, key), self.node(path + (key,), one, block, is_own)]
                             for key, one in value.items()]}
        if type(value) in (list, tuple, torch.Size):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.node(path + (i,), one, block, is_own) for i, one in enumerate(value)]}
        self.values.append(self._value(path, value))
        return 0

    def _key(self, path: Tuple[Any, ...], key: Any) -> Any:
        if type(key) not in _KEYS:
            raise TypeError(f"{name_of(path)} has a key of type {type(key).__name__}: {key!r}; it can be a text or a "
                            "number")
        return key

    def _tensor(self, path: Tuple[Any, ...], tensor: torch.Tensor, block: Optional[Block], is_own: bool) -> Any:
        dtype = str(tensor.dtype).rpartition(".")[2]
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise TypeError(f"{name_of(path)} is a tensor of a kind that cannot be saved: {tensor.layout}, {dtype}")
        if tensor.dim() == 0 and dtype in _NUMBERS:
            self.values.append(tensor.item())
            return {"number": dtype}
        if block is not None and tuple(tensor.shape) == block.shape:
            order = order_of(tensor)
            return self._leaf(path, "tensor", tensor, dtype, block.whole, block, is_own, () if order == () else None)
        return self._leaf(path, "tensor", tensor, dtype, tensor.shape, None, is_own, order_of(tensor))

    def _leaf(self, path: Tuple[Any, ...], kind: str, value: Any, type_: str, shape: Sequence[int],
              block: Optional[Block], is_own: bool, order: Optional[Tuple[int, ...]]) -> Any:
        name = name_of(path)
        if kind == "tensor" and value.device.type == "cpu" and value.numel():
            place = (value.data_ptr(), value.dtype, tuple(value.shape), value.stride(), value.is_conj(),
                     value.is_neg(), block, is_own)
            name = self._names.setdefault(place, name)
        if name not in self.leaves:
            self.leaves[name] = Leaf(name, value, block, order, is_own)
        node = {kind: name, "type": type_, "shape": list(shape)}
        if order:
            node["order"] = list(order)
        if block is not None:
            node["sharded"] = True
        return node

    def _value(self, path: Tuple[Any, ...], value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(value).decode()}
        if not self.may_pickle:
            raise TypeError(f"{name_of(path)} is a {type(value).__name__}, which JSON does not have; leave it out, or "
                            "give pickle=True if only trusted programs write to the store")
        return {"pickle": base64.b64encode(_pickle.dumps(value)).decode()}


class Reader:
    """Puts states together again. Tensors that are there already and fit are filled in place; others are made."""

    def __init__(self, structure: Any, values: Any, may_pickle: bool, is_own: bool) -> None:
        if not isinstance(structure, dict) or not isinstance(values, list):
            raise mismatch("the description of the state is none of varve.torch")
        self.structure: Dict[str, Any] = structure
        self.may_pickle = may_pickle
        self.is_own = is_own
        self.leaves: Dict[str, Leaf] = {}
        self.copies: List[Tuple[Any, Any]] = []  # (to, from), to be made when the leaves are filled
        self.staged: List[str] = []  # leaves that are on a device
        self._values: Iterator[Any] = iter(values)

    def parts(self, present: Callable[[str], Optional[Tuple[Any, Optional[Block], bool]]]) -> Dict[str, Any]:
        """present(part) -> its state now, its block, and whether it must have the same tensors; None: not wanted."""
        made = {}
        for part, node in self.structure.items():
            here = present(part)
            try:
                if here is None:
                    self._skip(node)
                    continue
                state, block, is_strict = here
                made[part] = self._node((part,), node, state, block, is_strict)
            except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as why:
                raise mismatch(f"the description of {part} is damaged, or of a newer Varve ({why!r})") from why
        return made

    def _node(self, path: Tuple[Any, ...], node: Any, here: Any, block: Optional[Block], is_strict: bool) -> Any:
        if node == 0:
            return self._value(path, next(self._values))
        if "number" in node:
            return self._number(path, _number(node["number"], next(self._values)), here)
        if "dict" in node:
            inside = here if isinstance(here, dict) else {}
            keys = [key for key, _ in node["dict"]]
            missing = [key for key, one in inside.items() if key not in keys and _has_tensors(one)]
            if is_strict and missing:
                raise mismatch(f"{name_of(path + (missing[0],))} is not in the checkpoint")
            return {key: self._node(path + (key,), one, inside.get(key), block, is_strict)
                    for key, one in node["dict"]}
        for kind in ("list", "tuple"):
            if kind in node:
                inside = here if isinstance(here, (list, tuple)) else ()
                if is_strict and len(inside) > len(node[kind]) and _has_tensors(inside[len(node[kind]):]):
                    raise mismatch(f"{name_of(path)} has {len(node[kind])} elements in the checkpoint, and "
                                   f"{len(inside)} here")
                made = [self._node(path + (i,), one, inside[i] if i < len(inside) else None, block, is_strict)
                        for i, one in enumerate(node[kind])]
                return made if kind == "list" else tuple(made)
        return self._region(path, node, here, block)

    def _skip(self, node: Any) -> None:
        if node == 0 or "number" in node:
            next(self._values)
        for _, one in node["dict"] if node != 0 and "dict" in node else ():
            self._skip(one)
        for kind in ("list", "tuple"):
            for one in node[kind] if node != 0 and kind in node else ():
                self._skip(one)

    def _region(self, path: Tuple[Any, ...], node: Any, here: Any, block: Optional[Block]) -> Any:
        is_tensor = "tensor" in node
        name = node["tensor" if is_tensor else "array"]
        shape, order = tuple(node["shape"]), tuple(node.get("order", ()))
        if not isinstance(name, str) or any(type(n) is not int or n < 0 for n in shape) or \
                sorted(order) != list(range(len(order))) or (order and len(order) != len(shape)):
            raise ValueError(name)
        if node.get("sharded"):
            block = block or Block((0,) * len(shape), shape, shape)
            if block.whole != shape:
                raise mismatch(f"{name_of(path)} has the shape {shape} in the checkpoint, and is said to be a block of "
                               f"{block.whole}")
        else:
            block = None
        dtype = _dtype(node["type"]) if is_tensor else np.dtype(node["type"])
        wanted = block.shape if block else shape
        self._check(path, here, dtype, wanted)
        if name in self.leaves:  # another name of the same memory
            return self._other(self.leaves[name].tensor, here)
        if not is_tensor:
            is_target = isinstance(here, np.ndarray) and here.flags.writeable
            filled: Any = here if is_target and here.flags.c_contiguous else np.zeros(wanted, dtype)
            made = here if is_target else filled
        elif isinstance(here, torch.Tensor) and not is_host(here):
            filled = made = here
            self.staged.append(name)
        else:
            fits = isinstance(here, torch.Tensor) and order_of(here) == order
            filled = here if fits else empty(dtype, wanted, order)
            made = here if isinstance(here, torch.Tensor) else filled
        self.leaves[name] = Leaf(name, filled, block, order, self.is_own)
        if made is not filled:
            self.copies.append((made, filled))
        return made

    def _number(self, path: Tuple[Any, ...], number: Any, here: Any) -> Any:
        if isinstance(number, torch.Tensor) or isinstance(here, np.ndarray):
            self._check(path, here, number.dtype, ())
        return self._other(number, here)

    def _other(self, filled: Any, here: Any) -> Any:
        if isinstance(here, torch.Tensor) and isinstance(filled, torch.Tensor) and here.data_ptr() != filled.data_ptr():
            self.copies.append((here, filled))
            return here
        return filled

    def _check(self, path: Tuple[Any, ...], here: Any, dtype: Any, shape: Tuple[int, ...]) -> None:
        if isinstance(here, (torch.Tensor, np.ndarray)) and (here.dtype != dtype or tuple(here.shape) != shape):
            raise mismatch(f"{name_of(path)} is {dtype} {shape} in the checkpoint, and {here.dtype} "
                           f"{tuple(here.shape)} here")

    def _value(self, path: Tuple[Any, ...], value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "bytes" in value:
            return base64.b64decode(value["bytes"])
        if not self.may_pickle:
            raise mismatch(f"{name_of(path)} was pickled: give pickle=True if only trusted programs write to the store")
        return _pickle.loads(base64.b64decode(value["pickle"]))


def _has_tensors(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_tensors(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_tensors(one) for one in value)
    return isinstance(value, (torch.Tensor, np.ndarray))


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"this torch has no type {name}")
    return dtype


def _number(kind: str, value: Any) -> Any:
    if kind.startswith("numpy."):
        return np.dtype(kind[6:]).type(value)
    return torch.tensor(value, dtype=_dtype(kind))


def document_of(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), check_circular=False).encode()


def content_of(document: bytes) -> Any:
    try:
        return json.loads(document)
    except ValueError as why:
        raise mismatch(f"the description of the state is no JSON ({why})") from why
