"""Varve as a storage of torch.distributed.checkpoint (DCP).

    import torch.distributed.checkpoint as dcp
    from varve.dcp import VarveReader, VarveWriter

    writer = VarveWriter("/scratch/ck", "train", keep=3)               # one for the whole run, on all ranks
    saving = dcp.async_save(state, checkpoint_id=step, storage_writer=writer)
    ...                                                                # train on: the values are those of the call
    saving.result()                                                    # it survives now

    dcp.load(state, storage_reader=VarveReader("/scratch/ck", "train"))     # the newest, on any number of ranks
    writer.close()

Each rank has a session of Varve in the writer. The process group of torch is used once, to tell all ranks where to
meet. Then Varve talks over connections of its own, so a save never meets the collectives of the training.

Tensors are stored as arrays under their key, with the place of each shard. So `varve show`, `varve restore`, exports
and varve.Store see them whole, on whichever ranks they were. What is no tensor is stored as the bytes that the planner
makes of it, which is a pickle in torch's own. The description of the checkpoint is JSON.

 - Tensors on the CPU that are one piece are captured in place, without a copy; others are copied first. They stay
   referenced until the next save, or close.
 - All replicas are compared by content, and stored once. A tensor that differs between ranks under one key is an error
   with the key and the ranks: torch would keep that of one rank, and drop the others in silence. Such a checkpoint is
   never loaded as the newest, and the one before it is pinned (`varve unpin` lets it go). With replicas="lowest" that
   of the lowest rank counts: say so for the running means of batch normalisation under DistributedDataParallel.
 - A load reads the ranges that it needs, straight into the tensors where they are one piece on the CPU.
 - checkpoint_id: its last number is the version ("step-1200", 1200). Without a number, or without an id, the version is
   the next one, and a reader finds the newest of that id. A save never replaces a checkpoint; keep=N lets old ones go.
 - async_save: wait for one save before the next; this one waits otherwise. A planner of your own must be given to the
   writer, too: VarveWriter(..., planner=MyPlanner()). async_checkpointer_type=PROCESS is refused: Varve stores in
   threads of its own, without the interpreter's lock.
 - ZeroState(model, optimizer) is the part of a ZeroRedundancyOptimizer. That of FSDP comes from torch's get_state_dict.
 - All ranks call close, or none. What was saved is safe without it.

Tested with torch 2.6, and with torch.distributed._shard.checkpoint of torch 1.13, one process. Never run with tensors
of a device.
"""
from __future__ import annotations

import copy
import dataclasses
import functools
import io
import json
import logging
import os
import secrets
import socket
import threading
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.distributed as dist

from . import _tree, errors, session as _session
from .errors import EarlierFailed, Error, NotFound
from .store import Checkpoint, Store
from .torch import _numpy_of

from ._dcp_stored import DOCUMENT, FORMAT, Stored, is_one_piece, key_of, planner_data_of, region_name, version_of
from ._dcp_stored import (DefaultSavePlanner, LoadItemType, StorageReader, StorageWriter, WriteItemType,
                          WriteResult)

try:
    from torch.distributed.checkpoint.staging import AsyncStager as _Stager
except ImportError:  # before torch 2.4
    _Stager = object  # type: ignore[misc,assignment]

__all__ = ["VarveWriter", "VarveReader", "ZeroState"]

STAGING = 256 << 20  # bytes of tensors that cannot be read in place, at a time
PICKED_UP = 60.0  # seconds until a save that async_save has begun must have come to its storage writer


def _logged(function: Any) -> Any:
    """Log what is raised: torch sends exceptions from rank to rank, which 2.6 cannot with Python 3.13."""
    @functools.wraps(function)
    def call(*arguments: Any, **more: Any) -> Any:
        try:
            return function(*arguments, **more)
        except Exception as why:
            logging.getLogger(__name__).error("varve: %s: %s", function.__name__, why)
            raise

    return call


class VarveWriter(StorageWriter, _Stager):  # type: ignore[misc,valid-type]
    """Saves through Varve; help(varve.dcp) explains it. All ranks of the process group make one, with the same
    arguments, and use it for all saves.

    store, name    as in varve.open; keep and other settings, too
    process_group  whose ranks save; all, unless told. The one that you give to save and async_save
    planner        a SavePlanner for async_save, if that is given one
    replicas       "error": a tensor that differs between ranks is an error. "lowest": that of the lowest rank counts
    no_dist        this process saves alone, although there is a process group
    """

    _synchronize_after_execute = False  # when stage has returned, tensors may change

    def __init__(self, store: Any, name: str, *, process_group: Any = None, planner: Any = None,
                 replicas: str = "error", no_dist: bool = False, **settings: Any) -> None:
        if replicas not in ("error", "lowest"):
            raise ValueError(f"replicas is {replicas!r}; it can be \"error\" or \"lowest\"")
        if replicas == "error" and str(settings.get("keep")) == "1":
            raise ValueError("keep=1 keeps nothing if replicas turn out to differ: say keep=2, or replicas=\"lowest\"")
        self._store, self._name, self._settings = store, name, settings
        self._group, self._planner, self._no_dist, self._replicas = process_group, planner, no_dist, replicas
        self._was_staged = False
        self._set_up()

    def _set_up(self) -> None:
        self._session: Optional[_session.Session] = None
        self._last = -1
        self._places: Dict[str, Tuple[Any, ...]] = {}  # of regions: where each is
        self._copies: Dict[str, torch.Tensor] = {}  # of tensors that are not one piece on the CPU
        self._pending: Optional[_Capture] = None  # what async_save has captured, until it is stored
        self._here = threading.local()  # of the thread that saves: checkpoint_id, plan, capture

    def __getstate__(self) -> Dict[str, Any]:
        kept = ("_store", "_name", "_settings", "_planner", "_no_dist", "_replicas")
        return {**{key: self.__dict__[key] for key in kept}, "_was_staged": self._pending is not None}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, _group=None)  # a process group belongs to its process
        self._set_up()

    def __enter__(self) -> "VarveWriter":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Collective. End the session, and let go of the tensors."""
        self._take_turn()
        opened, self._session = self._session, None
        self._places.clear()
        self._copies.clear()
        if opened is not None:
            opened.close()

    # ---- what torch calls, in this order ----

    def reset(self, checkpoint_id: Any = None) -> None:
        self._here.checkpoint_id = checkpoint_id

    def stage(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        """What async_save calls first. Captures all tensors; they may change when this returns."""
        self._open()
        planner = self._planner if self._planner is not None else DefaultSavePlanner()
        copied = _containers(state_dict)

        def plan() -> Any:
            planner.set_up_planner(copied, is_coordinator=_rank(self._group) == 0)
            return planner.create_local_plan()

        self._take_turn()
        self._pending = self._capture(plan, planner.resolve_data)
        return copied

    def synchronize_staging(self) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        if self._was_staged:
            raise RuntimeError("VarveWriter has captured the tensors in another process: use async_checkpointer_type="
                               "AsyncCheckpointerType.THREAD. Varve stores in threads of its own in any case")
        self._open()
        self._here.plan = self._here.capture = None
        pending = self._pending
        if pending is not None and pending.thread is None and pending.staged_by != threading.get_ident():
            pending.thread = threading.current_thread()
            self._here.capture = pending

    init = set_up_storage_writer  # torch 1.13

    def prepare_local_plan(self, plan: Any) -> Any:
        self._here.plan = plan  # all of it: the global plan leaves only one of several replicas
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        return plans

    @_logged
    def write_data(self, plan: Any, planner: Any) -> Any:
        """Returns when all ranks' data is safe."""
        capture = self._here.capture
        if capture is None:
            self._take_turn()
            local = self._here.plan
            capture = self._capture(lambda: local, planner.resolve_data)
        try:
            assert self._session is not None
            self._session.wait()
        finally:
            capture.done.set()
        self._here.version = capture.version
        done: Any = torch.futures.Future()
        done.set_result([self._result(capture, item) for item in plan.items])
        return done

    def _result(self, capture: "_Capture", item: Any) -> Any:
        key = key_of(item.index)
        if key not in capture.sizes:
            raise RuntimeError(f"{key[0]} at {key[1]} is in the plan of this save, and was not in that of stage: give "
                               "the planner that async_save has to VarveWriter, too")
        return WriteResult(index=item.index, size_in_bytes=capture.sizes[key], storage_data=None)

    @_logged
    def finish(self, metadata: Any, results: Any) -> None:
        """On the coordinator: are replicas what they are called?"""
        with Store(self._store) as store:
            stored = Stored(store[self._name][self._here.version])
            try:
                stored.check()
            except Error:
                self._pin_before(store, stored)
                raise

    def _pin_before(self, store: Store, failed: Stored) -> None:
        """Saves that fail so would push out the last checkpoint that can be loaded, one by one: it is kept."""
        for checkpoint in store.checkpoints(self._name):  # the newest first
            if checkpoint.is_damaged or checkpoint.version == failed.checkpoint.version:
                continue
            try:
                Stored(checkpoint).check()
                if not checkpoint.is_pinned:
                    checkpoint.pin("replicas of a later checkpoint differ (varve.dcp)")
                return
            except Error:
                continue

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return isinstance(checkpoint_id, (int, str, os.PathLike))

    # ---- inside ----

    def _open(self) -> None:
        if self._session is not None:
            return
        self._session = _session.open(self._store, self._name, self._meet(), **self._settings)
        try:
            at = self._session.continue_from()  # what is stored already is not stored again
        except Error:
            at = self._session.stored()[0]
        self._last = -1 if at is None else at

    def _meet(self) -> Optional[_session.Env]:
        """How all ranks of the group find each other. Rank 0 tells it the others, by torch."""
        if self._no_dist or not (dist.is_available() and dist.is_initialized()):
            return None
        if dist.get_world_size(self._group) == 1:
            return None
        rank, told = dist.get_rank(self._group), [None]
        if rank == 0:
            told = [(_host(), _free_port(), secrets.token_hex(16))]  # type: ignore[list-item]
        first = 0 if self._group is None else dist.get_global_rank(self._group, 0)
        dist.broadcast_object_list(told, src=first, group=self._group)
        host, port, secret = told[0]  # type: ignore[misc]
        return _session.Env(rank, dist.get_world_size(self._group), host, port, secret)

    def _take_turn(self) -> None:
        """Until the save that async_save has begun is done; or has failed in torch before it came here."""
        pending, waited = self._pending, 0.0
        while pending is not None and not pending.done.wait(0.01):
            waited += 0.01
            if pending.thread.is_alive() if pending.thread is not None else waited < PICKED_UP:
                continue
            warnings.warn(f"varve: torch did not finish the save of version {pending.version}, which is stored",
                          RuntimeWarning, stacklevel=4)
            break
        self._pending = None

    def _next_version(self, checkpoint_id: Any) -> int:
        told = version_of(checkpoint_id)
        if told is not None and told <= self._last:  # a run that went back: a generation of its own
            opened, self._session = self._session, None
            assert opened is not None
            self._places.clear()
            try:
                opened.close()
            except Error as why:  # of the last save, which may be the one that is tried again
                warnings.warn(f"varve: the save of version {self._last} failed: {why}", RuntimeWarning, stacklevel=6)
            self._copies.clear()
            self._open()
        return self._last + 1 if told is None else told

    def _capture(self, plan: Callable[[], Any], resolve: Callable[[Any], Any]) -> "_Capture":
        """Collective. Protect what the plan has, and checkpoint it: its memory may change when this returns."""
        checkpoint_id = getattr(self._here, "checkpoint_id", None)
        self._here.checkpoint_id = None
        version = self._next_version(checkpoint_id)
        opened = self._session
        assert opened is not None
        with opened._giving_up(is_saving=True):  # the others are about to checkpoint, or fail as this rank does
            capture = self._protect(version, plan(), resolve)
            opened.attribute("checkpoint_id", checkpoint_id)
        try:
            opened.checkpoint(version)
        except EarlierFailed as why:
            warnings.warn(f"varve: the save before version {version} failed: {why}", RuntimeWarning, stacklevel=5)
        self._last = version
        return capture

    def _protect(self, version: int, plan: Any, resolve: Callable[[Any], Any]) -> "_Capture":
        capture = _Capture(version)
        document: Dict[str, Any] = {"format": FORMAT, "replicas": self._replicas, "tensors": [], "bytes": [],
                                    **planner_data_of(getattr(plan, "planner_data", None))}
        taken = {DOCUMENT}
        for item in plan.items:
            fqn, data = item.index.fqn, resolve(item)
            region = region_name(fqn, taken)
            taken.add(region)
            if item.type == WriteItemType.BYTE_IO:
                saved = bytes(data.getbuffer())
                document["bytes"].append([fqn, region, len(saved)])
                capture.sizes[key_of(item.index)] = len(saved)
                self._protect_bytes(region, saved)
                continue
            about = item.tensor_data
            chunk = about.chunk if hasattr(about, "chunk") else item.chunk
            document["tensors"].append([fqn, list(chunk.offsets), list(chunk.sizes), list(about.size),
                                        str(data.dtype).partition(".")[2], region])
            capture.sizes[key_of(item.index)] = data.numel() * data.element_size()
            if tuple(data.shape) != tuple(chunk.sizes):
                raise ValueError(f"{fqn}: the planner has resolved a tensor of {tuple(data.shape)} for a chunk of "
                                 f"{tuple(chunk.sizes)}")
            if data.numel() > 0:
                self._protect_tensor(region, data.detach(), chunk.offsets, about.size)
            else:
                taken.discard(region)
        self._protect_bytes(DOCUMENT, json.dumps(document, separators=(",", ":")).encode())
        for gone in [name for name in self._places if name not in taken]:
            self._session.unprotect(gone)  # type: ignore[union-attr]
            del self._places[gone]
            self._copies.pop(gone, None)
        return capture

    def _protect_bytes(self, region: str, data: bytes) -> None:
        self._session.protect(region, np.frombuffer(bytearray(data), np.uint8))  # type: ignore[union-attr]
        self._places[region] = ()

    def _protect_tensor(self, region: str, tensor: torch.Tensor, offsets: Sequence[int], size: Sequence[int]) -> None:
        if is_one_piece(tensor):
            self._copies.pop(region, None)
        else:
            copy = self._copies.get(region)
            if copy is None or copy.shape != tensor.shape or copy.dtype != tensor.dtype:
                copy = self._copies[region] = torch.empty(tensor.shape, dtype=tensor.dtype)
            tensor = copy.copy_(tensor)
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(offsets), tuple(size))
        if self._places.get(region) == place:
            return
        array, is_bfloat16 = _numpy_of(tensor)
        first, whole = list(offsets), list(size)
        if not whole:  # a scalar
            array, first, whole = array.reshape((1,) + array.shape), [0], [1]
        if array.ndim > len(whole):  # a type that NumPy does not have: its bytes are one more dimension
            first, whole = first + [0], whole + [array.shape[-1]]
        self._session.protect(region, array, global_shape=whole, first=first,  # type: ignore[union-attr]
                              is_bfloat16=is_bfloat16)
        self._places[region] = place


class _Capture:
    """A checkpoint that was begun."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.sizes: Dict[Tuple[str, Any], int] = {}
        self.staged_by = threading.get_ident()
        self.thread: Optional[threading.Thread] = None  # that finishes it
        self.done = threading.Event()


class VarveReader(StorageReader):
    """Loads what VarveWriter has saved; help(varve.dcp) explains it. Needs no session: a job may go on saving.

    version  which checkpoint; the newest, unless told here or by checkpoint_id
    """

    def __init__(self, store: Any, name: str, version: Optional[int] = None) -> None:
        self._path, self._name, self._version = store, name, version
        self._set_up()

    def _set_up(self) -> None:
        self._checkpoint_id: Any = None
        self._store: Optional[Store] = None
        self._stored: Optional[Stored] = None

    def __getstate__(self) -> Dict[str, Any]:
        return {key: self.__dict__[key] for key in ("_path", "_name", "_version")}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_up()

    @property
    def bytes_read(self) -> int:
        """Bytes that this reader has read from the storage, all included."""
        return self._store.bytes_read if self._store is not None else 0

    @property
    def version(self) -> Optional[int]:
        """Of the checkpoint that was loaded last, or None."""
        return None if self._stored is None else self._stored.checkpoint.version

    # ---- what torch calls, in this order ----

    def reset(self, checkpoint_id: Any = None) -> None:
        self._checkpoint_id = checkpoint_id

    @_logged
    def read_metadata(self, *_: Any, **__: Any) -> Any:
        if self._store is None:
            self._store = Store(self._path)
            self._store.bytes_read  # counts from now on
        self._stored = self._find(self._store)
        return self._stored.metadata()

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *_: Any, **__: Any) -> None:
        pass

    init = set_up_storage_reader  # torch 1.13

    def prepare_local_plan(self, plan: Any) -> Any:
        assert self._stored is not None
        at = self._stored.checkpoint
        return dataclasses.replace(plan, storage_data=(at.version, at.generation))

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        found = {plan.storage_data for plan in plans}
        if len(found) > 1:
            versions = sorted(version for version, _ in found)
            raise RuntimeError(f"the ranks have found different checkpoints of {self._name}, {versions}: one was saved "
                               "meanwhile. Load again, or say which version")
        return plans

    @_logged
    def read_data(self, plan: Any, planner: Any) -> Any:
        assert self._stored is not None
        parts: List[Tuple[str, List[int], np.ndarray]] = []
        waiting: List[Tuple[Any, torch.Tensor, torch.Tensor]] = []
        staged = 0

        def flush() -> None:
            nonlocal staged
            self._stored.read(parts)  # type: ignore[union-attr]
            for item, target, source in waiting:
                if target is not source:
                    target.detach().copy_(source)
                planner.commit_tensor(item, target)
            parts.clear()
            waiting.clear()
            staged = 0

        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._stored.read_bytes(item.storage_index.fqn)))
                continue
            target = planner.resolve_tensor(item)
            source = self._stored.want(item, target, parts)
            waiting.append((item, target, source))
            if source is not target:
                staged += source.numel() * source.element_size()
            if staged > STAGING:
                flush()
        flush()
        done: Any = torch.futures.Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return isinstance(checkpoint_id, (int, str, os.PathLike))

    def _find(self, store: Store) -> "Stored":
        """The checkpoint that was asked for; or the newest that is whole, and whose replicas are."""
        checkpoints = store[self._name]
        version = version_of(self._checkpoint_id) if self._checkpoint_id is not None else self._version
        if version is not None:
            found = Stored(checkpoints[version])
            found.check()
            return found
        why: Optional[Error] = None
        for checkpoint in store.checkpoints(self._name):
            if checkpoint.is_damaged or not self._is_meant(checkpoint):
                continue
            try:
                found = Stored(checkpoint)
                found.check()
                return found
            except Error as failed:
                warnings.warn(f"varve: version {checkpoint.version} is passed over: {failed}", RuntimeWarning)
                why = why or failed
        raise why or NotFound(errors._lib.VARVE_NO_CHECKPOINT, f"there is no checkpoint {self._checkpoint_id!r} of "
                              f"{self._name} in {self._path}")

    def _is_meant(self, checkpoint: Checkpoint) -> bool:
        return self._checkpoint_id is None or checkpoint.attributes.get("checkpoint_id") == str(self._checkpoint_id)


class ZeroState:
    """A torch.distributed.optim.ZeroRedundancyOptimizer as a part of what is saved, for any number of ranks:

        state = {"model": model, "optimizer": ZeroState(model, optimizer), "scheduler": scheduler}

    Each rank saves the state of those parameters that ZeRO gave to it, under their names in the model. A load gives
    each rank what belongs to it there. No rank ever has all of it: consolidate_state_dict is not needed.

    A parameter that never had a gradient has no state, and has none after a load. Its place is filled meanwhile.
    """

    def __init__(self, model: torch.nn.Module, optimizer: Any) -> None:
        self._model = model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
        self._optimizer = optimizer
        if not isinstance(getattr(optimizer, "optim", None), torch.optim.Optimizer):
            raise TypeError(f"a {type(optimizer).__name__} has no optimiser of this rank in `optim`, as a "
                            "ZeroRedundancyOptimizer without overlap_with_ddp has")

    def state_dict(self) -> Dict[str, Any]:
        groups = self._named_groups()
        names = {p: name for group, named in zip(self._optimizer.param_groups, groups)
                 for p, name in zip(group["params"], named["params"])}
        own = self._optimizer.optim
        parameters = [p for group in own.param_groups for p in group["params"] if p.requires_grad]
        made = {} if all(p in own.state for p in parameters) else _first_state(own)
        return {"param_groups": groups,
                "state": {names[p]: {**(own.state[p] if p in own.state else made[p]),
                                     "has_begun": torch.tensor(p in own.state)} for p in parameters}}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        groups = state_dict["param_groups"]
        here, stored = ([group["params"] for group in each] for each in (self._named_groups(), groups))
        if here != stored:
            other = sorted(set(sum(here, [])) ^ set(sum(stored, [])))
            raise _tree.mismatch("the optimiser has other parameters than in the checkpoint, or in another order" +
                                 (f": {other[0]}" if other else ""))
        numbers = {name: at for at, name in enumerate(name for names in here for name in names)}
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        state = {}
        for name, one in state_dict["state"].items():
            if one["has_begun"]:
                state[numbers[name]] = {key: value for key, value in one.items() if key != "has_begun"}
            else:
                self._optimizer.optim.state.pop(parameters[numbers[name]], None)
        self._optimizer.load_state_dict({"state": state, "param_groups": [
            {**group, "params": [numbers[name] for name in group["params"]]} for group in groups]})

    def _named_groups(self) -> List[Dict[str, Any]]:
        """The settings that the program sees: ZeRO gives them to the optimiser inside only with the next step."""
        names = {p: name for name, p in self._model.named_parameters()}
        if any(p not in names for group in self._optimizer.param_groups for p in group["params"]):
            raise ValueError("the optimiser has a parameter that the model does not have")
        return [{**group, "params": [names[p] for p in group["params"]]} for group in self._optimizer.param_groups]


# ---- small things ----


def _first_state(optimizer: torch.optim.Optimizer) -> Dict[Any, Any]:
    """For each parameter, tensors as its first step makes them, to be filled. The optimiser itself keeps none."""
    twin = copy.deepcopy(optimizer)
    twin.state.clear()
    pairs = [(p, q) for mine, other in zip(optimizer.param_groups, twin.param_groups)
             for p, q in zip(mine["params"], other["params"]) if p.requires_grad]
    for _, q in pairs:
        q.grad = torch.zeros_like(q)
    twin.step()
    return {p: twin.state[q] for p, q in pairs}


def _containers(value: Any) -> Any:
    """The same tensors in dicts and lists of their own, which the program does not change."""
    if isinstance(value, dict):
        return {key: _containers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_containers(one) for one in value]
    return value


def _rank(group: Any) -> int:
    return dist.get_rank(group) if dist.is_available() and dist.is_initialized() else 0


def _host() -> str:
    """Where rank 0 can be reached: as torchrun says, or by its name."""
    host = os.environ.get("MASTER_ADDR")
    if host and os.environ.get("RANK", "0") == "0":
        return host
    try:
        socket.getaddrinfo(socket.gethostname(), None)
        return socket.gethostname()
    except OSError:  # a host that does not know its own name
        return "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
