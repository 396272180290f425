"""States of PyTorch in a session: modules, optimisers, random numbers, samplers, and nested values.

    import torch, varve, varve.torch

    with varve.open("ck", "train", comm="env") as s:            # comm="env": under torchrun, all workers
        at = varve.torch.load(s, model=model, optimizer=optimizer, random=varve.torch.Random())
        for step in range(at.step if at else 0, steps):
            train(model, optimizer)
            varve.torch.save(s, step + 1, model=model, optimizer=optimizer, random=varve.torch.Random())

Tensors on the CPU are saved and filled in place, without a copy. Tensors that come, go or are replaced, as those of
optimisers are, are followed by each save. What is no tensor is kept as JSON. Nothing is pickled unless you ask for it.

What all workers have, the model of data-parallel training for example, is stored once. It comes back on any number of
workers. Say PerRank(x) of what each worker has for itself, and Sharded(x, ...) of what is a block of a whole.

Tensors on a device pass through a staging buffer of STAGING bytes. That was tested with tensors of the CPU which were
treated so, and was never run with a device.
"""
from __future__ import annotations

import random
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from . import _tree
from .errors import Corrupt, NotFound
from .session import LATEST, Session

__all__ = ["save", "load", "Loaded", "PerRank", "Sharded", "Random", "Sampler"]

STAGING = 16 << 20  # bytes of a device that are on the host at a time, while saving; while loading, sixteen times that
FORMAT = 1
PAGE = 4096


class Loaded(Dict[str, Any]):
    """What load has read: the parts by name, and `step`. True also without parts: there was a checkpoint."""

    step: int = -1

    def __bool__(self) -> bool:
        return True


class PerRank:
    """Each rank has a value of its own. On another number of ranks each gets that of its number, if there is one."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Sharded:
    """Tensors of which this rank has a block: a tensor; or a state, in which all tensors of this shape are blocks.

    first         where the block begins in the whole
    global_shape  of the whole
    shape         of the block; a tensor tells it by itself

    Blocks may be others after a restart, on as many ranks or on another number. To divide n elements that follow each
    other, an optimiser's of ZeRO for example, among the ranks:

        low, high = n * rank // ranks, n * (rank + 1) // ranks
        Sharded(optimizer, first=(low,), shape=(high - low,), global_shape=(n,))
    """

    def __init__(self, value: Any, first: Sequence[int], global_shape: Sequence[int],
                 shape: Optional[Sequence[int]] = None) -> None:
        if shape is None:
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"Sharded of a {type(value).__name__} needs `shape`, that of a block")
            shape = value.shape
        self.value = value
        self.block = _tree.Block(tuple(first), tuple(shape), tuple(global_shape))
        if not len(self.block.first) == len(self.block.shape) == len(self.block.whole):
            raise ValueError(f"a block of {len(self.block.shape)} dimensions, `first` of {len(self.block.first)}, "
                             f"`global_shape` of {len(self.block.whole)}")


class Random:
    """The random numbers of this process: those of torch, of Python, of NumPy's old functions, and of CUDA devices.

    Each rank has its own. A rank that has none in the checkpoint goes on with those it has."""

    is_per_rank = True

    def state_dict(self) -> Dict[str, Any]:
        state = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()}
        if torch.cuda.is_available():
            state["cuda"] = [one.cpu() for one in torch.cuda.get_rng_state_all()]
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])


class Sampler(torch.utils.data.Sampler):  # type: ignore[type-arg]
    """The indices of a data set in an order that does not depend on the number of ranks, and that can be saved.

    All ranks together take a permutation of `length` indices, for each epoch another; this rank takes every ranks-th.
    Tell with advance(n) how many samples all ranks have used, since a DataLoader asks for indices before they are used.
    An iterator begins at that place, and ends with the epoch.
    """

    is_per_rank = False

    def __init__(self, length: int, seed: int = 0, rank: int = 0, ranks: int = 1) -> None:
        self.length, self.seed, self.rank, self.ranks = length, seed, rank, ranks
        self.epoch = self.position = 0

    def __iter__(self) -> Iterator[int]:
        chance = torch.Generator()
        chance.manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=chance)
        end = self.length - (self.length - self.position) % self.ranks  # all ranks take as many
        return iter(order[self.position + self.rank:end:self.ranks].tolist())

    def __len__(self) -> int:
        return max(0, self.length - self.position) // self.ranks

    def advance(self, samples: int) -> None:
        """All ranks together have used so many samples more. At the end of the epoch the next one begins."""
        self.position += samples
        if self.length - self.position < self.ranks:
            self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self) -> Dict[str, int]:
        return {"length": self.length, "seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        if state["length"] != self.length:
            raise _tree.mismatch(f"the data set had {state['length']} samples, and has {self.length} now")
        self.seed, self.epoch, self.position = state["seed"], state["epoch"], state["position"]


def save(session: Session, step: int, /, *, wait: bool = False, pickle: bool = False, **state: Any) -> None:
    """Collective. Save the parts of a state, and all else that the session protects, as version `step`.

    state    parts by name: whatever has state_dict(), or nested dicts, lists, tensors, arrays, numbers and texts.
             PerRank and Sharded say what is not the same on all ranks
    wait     return when the checkpoint is safe, and not already when the tensors may change again
    pickle   values of other types may be pickled. To load them you must trust all that can write to the store
    """
    with session._giving_up(is_saving=True):
        written, documents = _take_apart(state, pickle)
        followed = _followed_by(session)
        followed.follow(written.leaves)
        followed.describe(documents)
    session.checkpoint(step, wait=wait)


def load(session: Session, version: int = LATEST, /, *, pickle: bool = False, **state: Any) -> Optional[Loaded]:
    """Collective. Fill the parts of a state from a version, or from the newest checkpoint that is whole.

    Returns all parts by name, with the attribute `step`; or None, if there is no checkpoint: a first run. Parts are
    filled in place where that is possible, dicts and lists included. What has load_state_dict() is given its state.
    A part of numbers or texts is in what is returned: give None for it. Parts that are not asked for are not read.

    Raises varve.Mismatch if the state has other tensors than the checkpoint. Then nothing was written.
    """
    followed = _followed_by(session)
    while True:
        followed.forget()
        sizes = followed._sizes()
        try:
            at = session.restart(version, regions=list(followed.documents))  # no others: it may not fit yet
        except NotFound:
            followed.forget()
            if version == LATEST and followed.damaged is not None:  # all that are left were rejected here
                raise followed.damaged from None
            raise
        if at is None:
            followed.forget()
            return None
        try:
            return _fill(session, followed, at, _read_documents(session, followed, at, sizes, pickle), state)
        except Corrupt as why:
            if version != LATEST:
                raise
            followed.damaged = why
            session.reject(at)  # not all that was asked for is whole: an older one


# ---- what is in a session ----

class _Followed:
    """The regions that this module has protected in a session."""

    def __init__(self, session: Session) -> None:
        self.session = weakref.proxy(session)
        self.places: Dict[str, Tuple[Any, ...]] = {}  # where each tensor is that is protected
        self.copies: Dict[str, Any] = {}  # of tensors whose elements lie apart
        self.documents: Dict[str, np.ndarray] = {}
        self.damaged: Optional[Corrupt] = None  # why a checkpoint was rejected

    def follow(self, leaves: Dict[str, _tree.Leaf]) -> None:
        """Protect these tensors, and no others. What is where it was costs a look."""
        for name in [name for name in self.places if name not in leaves]:
            self.session.unprotect(name)
            del self.places[name]
            self.copies.pop(name, None)
        for name, leaf in leaves.items():
            tensor = leaf.tensor
            if isinstance(tensor, np.ndarray):
                place: Tuple[Any, ...] = (tensor.__array_interface__["data"][0], tensor.dtype, tensor.shape,
                                          tensor.strides)
            else:
                place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(),
                         tensor.is_neg(), leaf.block)
            if self.places.get(name) != place + (leaf.is_own,):
                self.places.pop(name, None)
                self._protect(leaf)
                self.places[name] = place + (leaf.is_own,)
            elif name in self.copies:
                if isinstance(tensor, np.ndarray):
                    self.copies[name][...] = tensor
                else:
                    self.copies[name].copy_(tensor.detach())

    def _protect(self, leaf: _tree.Leaf) -> None:
        tensor = leaf.tensor
        self.copies.pop(leaf.name, None)
        if isinstance(tensor, np.ndarray):
            if not tensor.flags.c_contiguous:
                self.copies[leaf.name] = tensor = np.array(tensor, order="C")
            self._protect_array(leaf, tensor)
            return
        if not _tree.is_host(tensor):
            self._protect_stream(leaf)
            return
        tensor = tensor.detach()
        if leaf.order is None:
            self.copies[leaf.name] = tensor = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
        elif leaf.order:
            tensor = tensor.permute(leaf.order)
        self._protect_array(leaf, *_numpy_of(tensor))

    def _protect_array(self, leaf: _tree.Leaf, array: np.ndarray, is_bfloat16: bool = False) -> None:
        block = leaf.block
        self.session.protect(leaf.name, array, global_shape=block and block.whole, first=block and block.first,
                             is_bfloat16=is_bfloat16)
        self._distribute(leaf)

    def _distribute(self, leaf: _tree.Leaf) -> None:
        how = "by_rank" if leaf.is_own else "by_dims" if leaf.block else "replicated"
        self.session.distribute(leaf.name, how)

    def _protect_stream(self, leaf: _tree.Leaf) -> None:
        tensor, block = leaf.tensor.detach(), leaf.block
        like, is_bfloat16 = _numpy_of(torch.empty(0, dtype=tensor.dtype))
        shape = tuple(tensor.shape[d] for d in leaf.order or range(tensor.dim())) + like.shape[1:]

        def read(offset: int, into: memoryview) -> None:
            flat = tensor.permute(leaf.order).view(-1) if leaf.order else _plain(tensor).view(-1)
            flat = flat.view(torch.uint8)
            staging = _staging(min(len(into), STAGING))
            for at in range(0, len(into), STAGING):
                count = min(STAGING, len(into) - at)
                staging[:count].copy_(flat[offset + at:offset + at + count])
                into[at:at + count] = memoryview(staging[:count].numpy())

        self.session.protect_stream(leaf.name, np.broadcast_to(np.zeros((), like.dtype), shape), read,
                                    global_shape=block and block.whole, first=block and block.first,
                                    is_bfloat16=is_bfloat16)
        self._distribute(leaf)

    def describe(self, documents: Dict[str, bytes]) -> None:
        """Protect the documents, filled up with blanks, so that most changes leave their size as it is."""
        sizes = {name: -(-len(text) // PAGE) * PAGE for name, text in documents.items()}
        for name, text in documents.items():
            self._document(name, sizes[name])[:] = np.frombuffer(text.ljust(sizes[name]), np.uint8)
        shared, own = self._sizes()
        shared[:] = (FORMAT, sizes["torch.structure"], sizes["torch.values"], 0)
        own[:] = (FORMAT, sizes["torch.own"], 0, 0)

    def _document(self, name: str, size: int) -> np.ndarray:
        if name not in self.documents or self.documents[name].size != size:
            made = np.zeros(size, np.uint8)
            self.session.protect(name, made)
            self.session.distribute(name, "by_rank" if name == "torch.own" else "replicated")
            self.documents[name] = made
        return self.documents[name]

    def _sizes(self) -> List[np.ndarray]:
        for name, how in (("torch.sizes", "replicated"), ("torch.own_sizes", "by_rank")):
            if name not in self.documents:
                self.documents[name] = np.zeros(4, np.uint64)
                self.session.protect(name, self.documents[name])
                self.session.distribute(name, how)
        return [self.documents["torch.sizes"], self.documents["torch.own_sizes"]]

    def forget(self) -> None:
        """Protect nothing more."""
        for name in list(self.places) + list(self.documents):
            self.session.unprotect(name)
        self.places.clear()
        self.copies.clear()
        self.documents.clear()


_sessions: "weakref.WeakKeyDictionary[Session, _Followed]" = weakref.WeakKeyDictionary()


def _followed_by(session: Session) -> _Followed:
    if session not in _sessions:
        _sessions[session] = _Followed(session)
    return _sessions[session]


def _staging(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=torch.cuda.is_available())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in the order of C, with the values that memory has. The same tensor if it is so already."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def _numpy_of(tensor: torch.Tensor) -> Tuple[np.ndarray, bool]:
    """The memory of a tensor in the order of C as an array, and whether that is bfloat16."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16), True
    try:
        return tensor.numpy(), False
    except TypeError:  # NumPy does not have this type: its bytes, with one more dimension
        return tensor.unsqueeze(-1).view(torch.uint8).numpy(), False


# ---- states ----

def _unwrap(value: Any) -> Tuple[Any, Optional[_tree.Block], bool]:
    """What a part is, its block, and whether it belongs to this rank."""
    is_own = isinstance(value, PerRank)
    if is_own:
        value = value.value
    block = None
    if isinstance(value, Sharded):
        if is_own:
            raise TypeError("a part is PerRank or Sharded, not both")
        value, block = value.value, value.block
    return value, block, is_own or bool(getattr(value, "is_per_rank", False))


def _state_of(value: Any) -> Any:
    return value.state_dict() if hasattr(value, "state_dict") else value


def _take_apart(state: Dict[str, Any], may_pickle: bool) -> Tuple[_tree.Writer, Dict[str, bytes]]:
    written = _tree.Writer(may_pickle)
    structures: List[Dict[str, Any]] = [{}, {}]
    values: List[List[Any]] = [[], []]
    for part, given in state.items():
        value, block, is_own = _unwrap(given)
        written.values = values[is_own]
        structures[is_own][part] = written.node((part,), _state_of(value), block, is_own)
    documents = {"torch.structure": _tree.document_of(structures[0]), "torch.values": _tree.document_of(values[0]),
                 "torch.own": _tree.document_of([structures[1], values[1]])}
    return written, documents


def _read_documents(session: Session, followed: _Followed, at: int, sizes: List[np.ndarray],
                    may_pickle: bool) -> List[_tree.Reader]:
    """The descriptions of a checkpoint, of which the sizes have been read."""
    with session._giving_up():
        texts = _documents_of(followed, at, sizes)
    session.restart(at, regions=list(followed.documents))
    with session._giving_up():
        found = [_tree.content_of(text.tobytes()) for text in texts]
        readers = [_tree.Reader(found[0], found[1], may_pickle, False)]
        if len(found) > 2:
            if not isinstance(found[2], list) or len(found[2]) != 2:
                raise _tree.mismatch(f"version {at} has another description of this rank than varve.torch writes")
            readers.append(_tree.Reader(*found[2], may_pickle, True))
        followed.forget()
    return readers


def _documents_of(followed: _Followed, at: int, sizes: List[np.ndarray]) -> List[np.ndarray]:
    shared, own = sizes
    for one in sizes:
        if one[0] not in (FORMAT, 0) or max(one[1:]) > 1 << 40:
            raise _tree.mismatch(f"version {at} was written by a newer varve.torch, or not by it")
    texts = [followed._document("torch.structure", int(shared[1])), followed._document("torch.values", int(shared[2]))]
    if own[1]:
        texts.append(followed._document("torch.own", int(own[1])))
    return texts


def _fill(session: Session, followed: _Followed, at: int, readers: List[_tree.Reader],
          state: Dict[str, Any]) -> Loaded:
    with session._giving_up():
        targets = {part: _unwrap(given) for part, given in state.items()}
        made, leaves = _fit(at, readers, targets)
    staged = [leaves.pop(name) for reader in readers for name in reader.staged]
    for batch in _batches(staged):
        on_host = {leaf.name: leaf._replace(tensor=_tree.empty(leaf.tensor.dtype, leaf.tensor.shape, leaf.order or ()))
                   for leaf in batch}
        followed.follow(on_host)
        session.restart(at)
        _copy([(leaf.tensor, on_host[leaf.name].tensor) for leaf in batch])
    with session._giving_up():
        followed.follow(leaves)
    session.restart(at)
    _copy([pair for reader in readers for pair in reader.copies])
    for part, (value, _, _) in targets.items():
        if part in made:
            _give(value, made[part])
        else:
            warnings.warn(f"varve: version {at} has no {part} of this rank, which goes on with its own", RuntimeWarning,
                          stacklevel=3)
    return made


def _fit(at: int, readers: List[_tree.Reader],
         targets: Dict[str, Tuple[Any, Optional[_tree.Block], bool]]) -> Tuple[Loaded, Dict[str, _tree.Leaf]]:
    """What load returns, not filled yet, and its tensors. Raises what does not fit."""
    def present(part: str) -> Optional[Tuple[Any, Optional[_tree.Block], bool]]:
        if part not in targets:
            return None
        value, block, _ = targets[part]
        return _state_of(value), block, isinstance(value, torch.nn.Module) or not hasattr(value, "state_dict")

    made = Loaded()
    made.step = at
    leaves: Dict[str, _tree.Leaf] = {}
    for reader in readers:
        made.update(reader.parts(present))
        leaves.update(reader.leaves)
    for part, (value, _, is_own) in targets.items():
        if part not in made and not is_own:
            raise _tree.mismatch(f"{part} is not in the checkpoint {at}")
        if part in made and isinstance(value, torch.nn.Module):
            _refuse_more(part, value.state_dict(), made[part])
    return made, leaves


def _refuse_more(part: str, here: Dict[str, Any], stored: Any) -> None:
    """load_state_dict of a module refuses what the module does not have, but only when tensors are filled already."""
    more = [key for key in stored if key not in here]
    if more:
        raise _tree.mismatch(f"{_tree.name_of((part, more[0]))} is in the checkpoint, and the module does not have it")


def _batches(leaves: List[_tree.Leaf]) -> Iterator[List[_tree.Leaf]]:
    """Tensors of a device, as many at a time as may be on the host."""
    batch: List[_tree.Leaf] = []
    size = 0
    for leaf in leaves:
        nbytes = leaf.tensor.numel() * leaf.tensor.element_size()
        if batch and size + nbytes > 16 * STAGING:
            yield batch
            batch, size = [], 0
        batch.append(leaf)
        size += nbytes
    if batch:
        yield batch


def _copy(pairs: List[Tuple[Any, Any]]) -> None:
    with torch.no_grad():
        for to, source in pairs:
            if isinstance(to, np.ndarray):
                to[...] = source
            else:
                to.copy_(source)


def _give(value: Any, state: Any) -> None:
    """The state to its owner."""
    if hasattr(value, "load_state_dict"):
        value.load_state_dict(state)
    elif isinstance(value, dict):
        for key in [key for key in value if key not in state]:
            del value[key]
        for key, one in state.items():
            if isinstance(value.get(key), (dict, list)) and isinstance(one, type(value[key])):
                _give(value[key], one)
            else:
                value[key] = one
    elif isinstance(value, list):
        value[:] = state
