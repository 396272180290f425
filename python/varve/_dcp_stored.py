"""What VarveWriter has stored: the tensors and bytes of a checkpoint, and torch's description of them."""
from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch

from . import errors
from .errors import NotFound
from .store import Checkpoint, Region
from .torch import _numpy_of

try:
    from torch.distributed.checkpoint import metadata as _meta
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
except ImportError:  # torch 1.13
    from torch.distributed._shard.checkpoint import metadata as _meta  # type: ignore[no-redef]
    from torch.distributed._shard.checkpoint.default_planner import DefaultSavePlanner  # type: ignore[no-redef]
    from torch.distributed._shard.checkpoint.planner import LoadItemType, WriteItemType  # type: ignore[no-redef]
    from torch.distributed._shard.checkpoint.storage import (  # type: ignore[no-redef]
        StorageReader, StorageWriter, WriteResult)
DOCUMENT = "torch.distributed.checkpoint"  # the region that describes what a rank has saved
FORMAT = 1
NAME_MAX = 255  # bytes of the name of a region


class Chunk(NamedTuple):
    """A tensor, or a shard of one."""

    region: str
    offsets: Tuple[int, ...]
    sizes: Tuple[int, ...]
    size: Tuple[int, ...]
    dtype: Any


class Stored:
    """What a checkpoint has, as the documents of its ranks describe it."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.regions: Dict[str, List[Region]] = {}  # of each name, by rank
        for region in checkpoint.regions():
            self.regions.setdefault(region.name, []).append(region)
        self.chunks: Dict[Tuple[str, Any], Chunk] = {}
        self.bytes: Dict[str, Tuple[str, int]] = {}  # the region, and the first rank that has it
        self.planner_data: Optional[Dict[str, Any]] = None
        self.replicas = "error"
        self.differing: Dict[str, int] = {}  # tensors of which the lowest rank's counts: that rank
        documents: Dict[str, Any] = {}
        for region in self.regions.get(DOCUMENT, []):
            if region.digest not in documents:  # replicas have the same
                documents[region.digest] = self._document(region.rank)
                self._add(region.rank, documents[region.digest])
        if not documents:
            raise NotFound(errors._lib.VARVE_MISMATCH, f"{checkpoint.name}@{checkpoint.version} was not saved by "
                           "varve.dcp.VarveWriter")

    def _document(self, rank: int) -> Dict[str, Any]:
        made: Dict[str, Any] = json.loads(self._region(DOCUMENT, rank).tobytes())
        if made.get("format") != FORMAT:
            raise errors.UnknownFormat(errors._lib.VARVE_UNKNOWN_FORMAT, f"{self.checkpoint.name}@"
                                       f"{self.checkpoint.version} was saved by a newer varve.dcp")
        return made

    def _add(self, rank: int, document: Dict[str, Any]) -> None:
        self.replicas = document["replicas"]
        for fqn, offsets, sizes, size, dtype, region in document["tensors"]:
            chunk = Chunk(region, tuple(offsets), tuple(sizes), tuple(size), getattr(torch, dtype))
            known = self.chunks.get((fqn, tuple(offsets)))
            if known is None or 0 in known.sizes:  # a shard without elements may be said to begin where another does
                self.chunks[fqn, tuple(offsets)] = chunk
        for fqn, region, _ in document["bytes"]:
            self.bytes.setdefault(fqn, (region, rank))
        if "planner_pickle" in document:
            found = pickle.loads(base64.b64decode(document["planner_pickle"]))
            self.planner_data = {**found, **(self.planner_data or {})} if isinstance(found, dict) else found
        elif document["planner"] is not None:
            found = {fqn: tuple(path) for fqn, path in document["planner"].items()}
            self.planner_data = {**found, **(self.planner_data or {})}

    def check(self) -> None:
        """Do all ranks that have a tensor have the same? Digests tell it; nothing is read."""
        self._check_elements()
        names = {chunk.region: fqn for (fqn, _), chunk in self.chunks.items()}
        for region, fqn in names.items():
            low, other = different(self.regions.get(region, []))
            if other is None:
                continue
            if self.replicas == "lowest" and all(one.first == low.first for one in self.regions[region]):
                self.differing[region] = low.rank
                continue
            at = self.checkpoint
            raise errors.Mismatch(
                errors._lib.VARVE_MISMATCH, f"{fqn} is not the same tensor on ranks {low.rank} and {other.rank}, which "
                f"have both saved it in {at.name}@{at.version}: {low.shape} {low.type} at {low.first} and "
                f"{other.shape} {other.type} at {other.first}. Give what belongs to a rank a key of its own, or say "
                "VarveWriter(replicas=\"lowest\")")
        for fqn, (region, _) in self.bytes.items():
            low, other = different(self.regions.get(region, []))
            if other is not None:
                warnings.warn(f"varve: {fqn}, which is no tensor, differs between ranks {low.rank} and {other.rank}; "
                              f"that of rank {low.rank} is loaded", RuntimeWarning)

    def _check_elements(self) -> None:
        """torch leaves those elements of a tensor as they are that no shard has."""
        missing: Dict[str, int] = {}
        for (fqn, _), chunk in self.chunks.items():
            missing.setdefault(fqn, torch.Size(chunk.size).numel())
            missing[fqn] -= torch.Size(chunk.sizes).numel()
        for fqn, count in missing.items():
            if count > 0:
                raise errors.Mismatch(errors._lib.VARVE_MISMATCH, f"{count} elements of {fqn} were saved by no rank in "
                                      f"{self.checkpoint.name}@{self.checkpoint.version}")

    def metadata(self) -> Any:
        made: Dict[str, Any] = {fqn: _meta.BytesStorageMetadata() for fqn in self.bytes}
        for (fqn, _), chunk in self.chunks.items():
            if fqn not in made:
                properties = _meta.TensorProperties(dtype=chunk.dtype)
                made[fqn] = _meta.TensorStorageMetadata(properties, torch.Size(chunk.size), [])
            made[fqn].chunks.append(_meta.ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes)))
        return _meta.Metadata(made, planner_data=self.planner_data)

    def want(self, item: Any, target: torch.Tensor, parts: List[Tuple[str, List[int], np.ndarray]]) -> torch.Tensor:
        """Add what is to be read for an item; the tensor into which it is read: the target, where that is possible."""
        chunk = self.chunks[key_of(item.storage_index)]
        if tuple(target.shape) != tuple(item.lengths):
            raise ValueError(f"{item.storage_index.fqn}: the planner has resolved a tensor of {tuple(target.shape)} "
                             f"for {tuple(item.lengths)}")
        is_in_place = is_one_piece(target) and target.dtype == chunk.dtype and chunk.region not in self.differing
        source = target if is_in_place else torch.empty(tuple(item.lengths), dtype=chunk.dtype)
        if source.numel() == 0:
            return source
        array, _ = _numpy_of(source.detach())
        first = [offset + more for offset, more in zip(chunk.offsets, item.storage_offsets)]
        if not chunk.size:
            array, first = array.reshape((1,) + array.shape), [0]
        if array.ndim > len(first):
            first.append(0)
        parts.append((chunk.region, first, array))
        return source

    def read(self, parts: List[Tuple[str, List[int], np.ndarray]]) -> None:
        self.checkpoint.read_into([part for part in parts if part[0] not in self.differing])
        for name, first, array in parts:
            if name in self.differing:
                whole = self._region(name, self.differing[name]).view(array.dtype)
                array[...] = whole[tuple(slice(at, at + n) for at, n in zip(first, array.shape))]

    def read_bytes(self, fqn: str) -> bytes:
        return self._region(*self.bytes[fqn]).tobytes()

    def _region(self, name: str, rank: int) -> np.ndarray:
        region = next(one for one in self.regions[name] if one.rank == rank)
        return self.checkpoint.read_region(region)


def different(regions: List[Region]) -> Tuple[Any, Any]:
    """The first region, or block of it, that another rank has otherwise, and that one; or None."""
    seen: Dict[Any, Region] = {}
    for region in regions:
        low = seen.setdefault(region.first, region)
        if (region.digest, region.shape, region.type) != (low.digest, low.shape, low.type):
            return low, region
        if (regions[0].global_shape, regions[0].type) != (region.global_shape, region.type):
            return regions[0], region
    return None, None


def is_one_piece(tensor: torch.Tensor) -> bool:
    """On the CPU, in the order of C, and as its memory says: it can be saved and filled in place."""
    return (tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous() and
            not tensor.is_conj() and not tensor.is_neg())


def key_of(index: Any) -> Tuple[str, Any]:
    return index.fqn, None if index.offset is None else tuple(index.offset)


def version_of(checkpoint_id: Any) -> Optional[int]:
    """1200 of 1200, "step-1200" and "/scratch/run-3/step-1200"; None of "best"."""
    if checkpoint_id is None or isinstance(checkpoint_id, int):
        return checkpoint_id
    found = re.findall(r"\d+", os.path.basename(os.fspath(checkpoint_id).rstrip("/")))
    return int(found[-1]) if found else None


def region_name(fqn: str, taken: Any) -> str:
    """The key, unless it is too long or taken, by another shard of the same tensor on this rank."""
    if len(fqn.encode()) > NAME_MAX - 8:
        fqn = fqn.encode()[:NAME_MAX - 30].decode(errors="ignore") + "#" + _short_hash(fqn)
    name, number = fqn, 1
    while name in taken:
        name, number = f"{fqn}#{number}", number + 1
    return name


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def planner_data_of(given: Any) -> Dict[str, Any]:
    """The paths of torch's own planner as JSON; what another planner has, as a pickle."""
    if given is None:
        return {"planner": None}
    if isinstance(given, dict) and all(isinstance(key, str) and isinstance(path, tuple) and
                                       all(type(part) in (str, int) for part in path) for key, path in given.items()):
        return {"planner": given}
    return {"planner_pickle": base64.b64encode(pickle.dumps(given)).decode()}
