"""One worker of the jobs of test_sharded.py: torch's own sharded optimisers, saved after every step through varve.dcp.

    sharded_job.py zero|fsdp STEPS LOSSES [--store STORE] [--torch FOLDER] [--begin FILE]

LOSSES gets a line for each step: its number, the loss, a digest of the whole state. --torch writes the whole state of
each step as torch itself puts it together, without Varve; --begin goes on from such a file."""
import argparse
import hashlib
import os
import pathlib
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map, tree_map_only

import varve
from varve.dcp import VarveReader, VarveWriter, ZeroState

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from train import LETTERS, Language, make_texts  # noqa: E402

BATCH = 12


class Zero:
    """DistributedDataParallel, and Adam whose moments are divided among the workers by parameters."""

    def __init__(self, model):
        # Otherwise the buckets are arranged anew after the first step, and sums are made in another order.
        self.model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        self.optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=2e-3)
        self.state = {"model": model, "optimizer": ZeroState(model, self.optimizer)}

    def whole(self):
        self.optimizer.consolidate_state_dict(to=0)
        return [self.model.module.state_dict(), self.optimizer.state_dict()] if dist.get_rank() == 0 else None

    def begin(self, whole):
        self.model.module.load_state_dict(whole[0])
        self.optimizer.load_state_dict(whole[1])


class Fsdp:
    """FSDP: parameters, gradients and moments are divided among the workers by elements."""

    def __init__(self, model):
        self.model = FullyShardedDataParallel(model, device_mesh=init_device_mesh("cpu", (dist.get_world_size(),)),
                                              device_id=torch.device("cpu"), use_orig_params=True,
                                              auto_wrap_policy=ModuleWrapPolicy({torch.nn.TransformerEncoderLayer}))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.state = {"both": self}

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])

    def whole(self):
        """From the shards: with full_state_dict=True, torch 2.6 reads memory here that FSDP has freed."""
        found = get_state_dict(self.model, self.optimizer)
        found = [tree_map_only(DTensor, DTensor.full_tensor, one) for one in found]
        return found if dist.get_rank() == 0 else None

    def begin(self, whole):
        parts = [tree_map(lambda mine, all_of_it: distribute_tensor(all_of_it, mine.device_mesh, mine.placements)
                          if isinstance(mine, DTensor) else all_of_it, one, given)
                 for one, given in zip(get_state_dict(self.model, self.optimizer), whole)]
        set_state_dict(self.model, self.optimizer, model_state_dict=parts[0], optim_state_dict=parts[1])


def digest(value, found=None):
    """Of all tensors, numbers and texts with their keys."""
    found = found or hashlib.sha256()
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            found.update(str(key).encode())
            digest(value[key], found)
    elif isinstance(value, (list, tuple)):
        for one in value:
            digest(one, found)
    elif isinstance(value, torch.Tensor):
        found.update(value.contiguous().numpy().tobytes())
    else:
        found.update(repr(value).encode())
    return found.hexdigest()[:16]


def train(trained, scheduler, texts, step):
    """One batch. Its random numbers depend on the step and the worker only."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1000 * step)
    text = texts[torch.randint(0, len(texts), (BATCH,))[rank::ranks]]
    torch.manual_seed(1000 * step + rank + 1)
    trained.optimizer.zero_grad()
    guess = trained.model(text[:, :-1])
    loss = torch.nn.functional.cross_entropy(guess.reshape(-1, LETTERS), text[:, 1:].reshape(-1))
    loss.backward()
    trained.optimizer.step()
    scheduler.step()
    total = loss.detach() / ranks
    dist.all_reduce(total)
    return total.item()


def keep(whole, path):
    torch.save(whole, f"{path}.new")
    os.rename(f"{path}.new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["zero", "fsdp"])
    parser.add_argument("steps", type=int)
    parser.add_argument("losses")
    for name in ("--store", "--torch", "--begin"):
        parser.add_argument(name)
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.new_group()  # saves go on beside the training, so they talk in a group of their own
    torch.manual_seed(1)
    trained = {"zero": Zero, "fsdp": Fsdp}[told.kind](Language(32, 2))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(trained.optimizer, 0.97)
    state = {**trained.state, "scheduler": scheduler, "step": 0}
    if told.begin:
        *whole, schedule, state["step"] = torch.load(told.begin, weights_only=False)
        trained.begin(whole)
        scheduler.load_state_dict(schedule)
    elif told.store and os.path.exists(told.store) and "train" in varve.Store(told.store):
        dcp.load(state, storage_reader=VarveReader(told.store, "train"))
    whole = trained.whole()
    if whole is not None:
        print("begins", state["step"], digest(whole), flush=True)
    writer = VarveWriter(told.store, "train", process_group=group) if told.store else None
    texts, saving = make_texts(), None
    for step in range(state["step"], told.steps):
        loss = train(trained, scheduler, texts, step)
        whole = trained.whole()
        if whole is not None:
            with open(told.losses, "a") as file:
                print(step + 1, loss.hex(), digest(whole), file=file, flush=True)
            if told.torch:
                keep([*whole, scheduler.state_dict(), step + 1], f"{told.torch}/{step + 1}.pt")
        if saving is not None:
            saving.result()
        state["step"] = step + 1
        if writer is not None:
            saving = dcp.async_save(state, checkpoint_id=step + 1, storage_writer=writer, process_group=group)
    if saving is not None:
        saving.result()
        writer.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
