#!/usr/bin/env python3
"""A small transformer trained by several workers, saved after every step, and it survives being killed.

    torchrun --nproc_per_node 4 train.py [--zero] [--steps N] [--losses FILE] STORE

Kill one worker or all, at any time, and start it again: it goes on from the last checkpoint, and the losses have the
same bits as those of a run that nobody disturbed. With --zero each worker has a part of Adam's moments (ZeRO, stage 1),
and another number of workers, one that divides --batch, may go on.

The model predicts the next letter of an invented language. Gradients are summed in one buffer, so that the order of
the sums is the same after a restart; DistributedDataParallel arranges its buckets anew after its first step."""
import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist

import varve
import varve.torch

LETTERS, LENGTH, SAMPLES = 32, 24, 4096


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("--steps", 50), ("--width", 32), ("--layers", 2), ("--batch", 12), ("--keep", 3)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--zero", action="store_true", help="each worker has a part of Adam's moments")
    parser.add_argument("--losses", help="write the losses here, one line for each step")
    parser.add_argument("--delay", type=float, default=0, help="seconds to sleep in each step")
    parser.add_argument("store")
    return parser.parse_args()


class Language(torch.nn.Module):
    """The transformer."""

    def __init__(self, width, layers):
        super().__init__()
        self.letters = torch.nn.Embedding(LETTERS, width)
        self.places = torch.nn.Embedding(LENGTH, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, layers)
        self.out = torch.nn.Linear(width, LETTERS)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, text):
        x = self.letters(text) + self.places(torch.arange(LENGTH))
        return self.out(self.encoder(x, mask=self.mask))


def make_texts():
    """Each letter follows from the two before it, mostly."""
    chance = torch.Generator().manual_seed(5)
    text = torch.randint(0, LETTERS, (SAMPLES, LENGTH + 1), generator=chance)
    for i in range(2, LENGTH + 1):
        known = (3 * text[:, i - 1] + text[:, i - 2]) % LETTERS
        text[:, i] = torch.where(torch.rand(SAMPLES, generator=chance) < 0.9, known, text[:, i])
    return text


class Trainer:
    """The model, its optimiser, and this worker's share of the work."""

    def __init__(self, told):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if told.batch % self.ranks:
            raise SystemExit(f"{self.ranks} workers cannot share a batch of {told.batch}")
        self.told = told
        torch.manual_seed(1)  # the same model on all workers
        self.model = Language(told.width, told.layers)
        parameters = list(self.model.parameters())
        self.size = sum(p.numel() for p in parameters)
        self.values, self.slopes = torch.zeros(self.size), torch.zeros(self.size)
        at = 0
        for p in parameters:  # all parameters in one piece of memory, and all gradients
            values, slopes = self.values[at:at + p.numel()], self.slopes[at:at + p.numel()]
            values.copy_(p.data.view(-1))
            p.data, p.grad = values.view_as(p), slopes.view_as(p)
            at += p.numel()
        self.optimizer = self.make_optimizer(parameters)
        self.sampler = varve.torch.Sampler(SAMPLES, seed=9, rank=self.rank, ranks=self.ranks)
        self.texts = make_texts()
        self.state = dict(model=self.model, optimizer=self.optimizer, sampler=self.sampler,
                          random=varve.torch.Random())
        if told.zero:
            low, high = self.part(self.rank)
            self.state["optimizer"] = varve.torch.Sharded(self.optimizer, first=(low,), shape=(high - low,),
                                                          global_shape=(self.size,))
        torch.manual_seed(100 + self.rank)  # what is dropped out differs

    def part(self, rank):
        return self.size * rank // self.ranks, self.size * (rank + 1) // self.ranks

    def make_optimizer(self, parameters):
        if self.told.zero:
            low, high = self.part(self.rank)
            mine = torch.nn.Parameter(self.values[low:high])  # the same memory
            mine.grad = self.slopes[low:high]
            parameters = [mine]
        return torch.optim.Adam(parameters, lr=1e-3)

    def step(self):
        """One batch, shared by all workers. Returns its loss."""
        count = self.told.batch // self.ranks
        if len(self.sampler) < count:  # what is left of this epoch is no batch
            self.sampler.advance(SAMPLES)
        indices = iter(self.sampler)
        text = self.texts[[next(indices) for _ in range(count)]]
        self.slopes.zero_()
        guess = self.model(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(guess.reshape(-1, LETTERS), text[:, 1:].reshape(-1)) / self.ranks
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(self.slopes)
        dist.all_reduce(total)
        self.optimizer.step()
        if self.told.zero:
            for rank in range(self.ranks):
                low, high = self.part(rank)
                dist.broadcast(self.values[low:high], rank)
        self.sampler.advance(self.told.batch)
        return total.item()

    def digest(self):
        """Of all values and moments of all workers, to be compared."""
        found = hashlib.sha256(self.values.numpy().tobytes())
        for name in ("exp_avg", "exp_avg_sq"):
            whole = torch.zeros(self.size)
            states = [state.get(name) for state in self.optimizer.state.values()]
            if states and self.told.zero:
                low, high = self.part(self.rank)
                whole[low:high] = states[0]
                dist.all_reduce(whole)  # all others have zeros there
            elif states:
                whole = torch.cat([state.reshape(-1) for state in states])
            found.update(whole.numpy().tobytes())
        return found.hexdigest()[:16]


def main():
    told = read_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainer = Trainer(told)
    with varve.open(told.store, "train", comm="env", keep=told.keep) as s:
        at = varve.torch.load(s, **trainer.state)
        first = at.step if at else 0
        print(f"begins at {first} on {trainer.ranks} workers, state {trainer.digest()}", flush=True)
        losses = open(told.losses, "a") if told.losses and trainer.rank == 0 else None
        for step in range(first, told.steps):
            loss = trainer.step()
            if losses:
                print(step + 1, loss.hex(), f"{loss:.4f}", file=losses, flush=True)
            varve.torch.save(s, step + 1, **trainer.state)  # stored while the next step runs
            time.sleep(told.delay)
        print(f"ends at {told.steps}, state {trainer.digest()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
