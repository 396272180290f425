"""What the workers save: the shape of ZeRO-3, and three ways in which it changes between two checkpoints.

A parameter takes 14 bytes: 2 in the model (float16), 12 in the optimiser (its own float32 copy, two moments).

identical  random numbers that never change, as in the benchmark of MLPerf itself
new        every bit is new each time, and random
adam       steps of a real training. The optimiser is sharded; the model is the same on all workers, and each has all
           of it
"""
import hashlib

import numpy as np
import torch
import torch.distributed as dist

LAYERS = 12
TINY = 3840  # elements of the three small tensors of an optimiser
CHUNK = 4096


class State:
    """model and optimizer: tensors by name. is_replicated: the model is the same on all workers."""

    is_replicated = False

    def step(self, number):
        """What a worker computes between two checkpoints."""

    def parts(self):
        return (("model", self.model), ("optimizer", self.optimizer))

    def tensors(self):
        """(name, tensor, is_replicated), in the same order each time."""
        return [(f"{part}.{name}", tensor, part == "model" and self.is_replicated)
                for part, tensors in self.parts() for name, tensor in tensors.items()]

    def bytes(self):
        return sum(tensor.numel() * tensor.element_size() for _, tensor, _ in self.tensors())


def _optimizer(count):
    tensors = {name: torch.zeros(count) for name in ("master", "exp_avg", "exp_avg_sq")}
    tensors.update({f"small{i}": torch.zeros(TINY) for i in range(3)})
    return tensors


class Sharded(State):
    """ZeRO-3: each worker has its share of everything."""

    def __init__(self, rank, workers, parameters, is_new):
        count = parameters // workers
        ends = [count * (i + 1) // LAYERS for i in range(LAYERS)]
        self.model = {f"layer{i}": torch.zeros(end - begin, dtype=torch.float16)
                      for i, (begin, end) in enumerate(zip([0] + ends, ends))}
        self.optimizer = _optimizer(count)
        self._is_new = is_new
        self._random = np.random.Generator(np.random.SFC64([rank, 8]))
        if not is_new:
            torch.manual_seed(rank)
            for _, tensor, _ in self.tensors():
                tensor.copy_(torch.rand(tensor.shape))

    def step(self, number):
        for _, tensor, _ in self.tensors() if self._is_new else ():
            memory = bytes_of(tensor)
            memory[:] = np.frombuffer(self._random.bytes(memory.size), dtype=np.uint8)


class Trained(State):
    """A network learns a function of random numbers, data-parallel. Each worker updates its share of the parameters
    in float32, and all get the result in float16."""

    is_replicated = True

    def __init__(self, rank, workers, parameters):
        wide = max(16, int((parameters / 4) ** 0.5) // 8 * 8)
        self._rank, self._workers = rank, workers
        self._shapes = [(wide, wide)] * 4
        count = sum(a * b for a, b in self._shapes)
        count -= count % workers
        self._flat = torch.zeros(sum(a * b for a, b in self._shapes), dtype=torch.float16)
        self._share = slice(count // workers * rank, count // workers * (rank + 1))
        self._count = count
        torch.manual_seed(1)
        self._flat.copy_(torch.randn(self._flat.shape) / wide ** 0.5)
        self.model, at = {}, 0
        for i, (a, b) in enumerate(self._shapes):
            self.model[f"layer{i}"] = self._flat[at:at + a * b].view(a, b)
            at += a * b
        self.optimizer = _optimizer(count // workers)
        self.optimizer["master"].copy_(self._flat[self._share].float())
        self._adam = torch.optim.Adam([self.optimizer["master"]], lr=1e-3)
        self._data = torch.Generator().manual_seed(100 + rank)

    def _gradient(self):
        weights = [tensor.float().requires_grad_() for tensor in self.model.values()]
        x = torch.randn(4, self._shapes[0][0], generator=self._data)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        ((y - x.roll(1, dims=1)) ** 2).mean().backward()
        gradient = torch.cat([weight.grad.reshape(-1) for weight in weights])
        dist.all_reduce(gradient)
        return gradient[self._share] / self._workers

    def step(self, number):
        """The moments of Adam are copied to where they are saved from: torch makes them anew in its first step."""
        master = self.optimizer["master"]
        master.grad = self._gradient()
        self._adam.step()
        master.grad = None
        for name in ("exp_avg", "exp_avg_sq"):
            self.optimizer[name].copy_(self._adam.state[master][name])
        shares = [torch.empty_like(master) for _ in range(self._workers)]
        dist.all_gather(shares, master)
        self._flat[:self._count].copy_(torch.cat(shares))


def make(case, rank, workers, parameters):
    if case == "adam":
        return Trained(rank, workers, parameters)
    return Sharded(rank, workers, parameters, is_new=case == "new")


def bytes_of(tensor):
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def digests(tensors):
    """A digest of each 4 KiB, in order: two contents are the same if these are."""
    found = []
    for tensor in tensors:
        memory = memoryview(bytes_of(tensor))
        found += [hashlib.blake2b(memory[at:at + CHUNK], digest_size=12).digest()
                  for at in range(0, len(memory), CHUNK)]
    return found
