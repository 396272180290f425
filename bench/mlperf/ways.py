"""How a checkpoint is written and read: bare files, torch.save, torch's distributed checkpoint, Varve.

save(version) returns the seconds until the program may go on; finish() waits until it is durable. load(version) returns
the tensors, in the order of State.tensors(): those of the state, or new ones. All are called by all workers."""
import os
import time

import torch

import varve
from state import bytes_of


class Way:
    in_place = True  # loads into the tensors of the state

    def __init__(self, state, folder, rank):
        self.state, self.folder, self.rank = state, folder, rank

    def open(self):
        """Before the first save; not measured."""

    def finish(self):
        pass

    def memory_beside(self):
        """Bytes that the last save took in other processes."""
        return 0

    def details(self):
        """Of the last save or load, for --json."""
        return {}

    def close(self):
        """After the last save, and after each load; not measured."""

    def _path(self, version, name, rank=None):
        return os.path.join(self.folder, f"{version}", f"{self.rank if rank is None else rank}.{name}")

    def _files(self):
        """(file, tensors by name, who writes it) for each file this worker reads: what is the same on all workers is
        written by the first, as programs do."""
        for part, tensors in self.state.parts():
            yield part, tensors, 0 if part == "model" and self.state.is_replicated else self.rank


class Files(Way):
    """write() and fsync of the file and of its folder: less cannot be durable."""

    def save(self, version):
        os.makedirs(os.path.join(self.folder, str(version)), exist_ok=True)
        for part, tensors, writer in self._files():
            if writer != self.rank:
                continue
            with open(self._path(version, part), "wb", buffering=0) as file:
                for tensor in tensors.values():
                    _write_all(file, bytes_of(tensor))
                os.fsync(file.fileno())
        folder = os.open(os.path.join(self.folder, str(version)), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def load(self, version):
        for part, tensors, writer in self._files():
            with open(self._path(version, part, writer), "rb", buffering=0) as file:
                for tensor in tensors.values():
                    _read_all(file, bytes_of(tensor))
        return [tensor for _, tensor, _ in self.state.tensors()]


class TorchSave(Way):
    """As MLPerf's benchmark does it: torch.save into a file for the model and one for the optimiser, fsync; torch.load
    of both."""

    in_place = False

    def save(self, version):
        os.makedirs(os.path.join(self.folder, str(version)), exist_ok=True)
        for part, tensors, writer in self._files():
            if writer == self.rank:
                with open(self._path(version, part), "wb") as file:
                    torch.save(tensors, file)
                    file.flush()
                    os.fsync(file.fileno())

    def load(self, version):
        return [tensor for part, tensors, writer in self._files()
                for tensor in torch.load(self._path(version, part, writer), weights_only=True).values()]


class Distributed(Way):
    """torch.distributed.checkpoint with FileSystemWriter, which makes its files durable itself."""

    threads = 1

    def open(self):
        import torch.distributed.checkpoint as dcp  # torch 1.13 has another one
        self.dcp = dcp

    def _dict(self):
        return {name if is_replicated else f"{self.rank}.{name}": tensor
                for name, tensor, is_replicated in self.state.tensors()}

    def save(self, version):
        writer = self.dcp.FileSystemWriter(os.path.join(self.folder, str(version)), thread_count=self.threads)
        self.dcp.save(self._dict(), storage_writer=writer)

    def load(self, version):
        reader = self.dcp.FileSystemReader(os.path.join(self.folder, str(version)))
        self.dcp.load(self._dict(), storage_reader=reader)
        return [tensor for _, tensor, _ in self.state.tensors()]


class Distributed2(Distributed):
    threads = 2


class Varve(Way):
    """A session of all workers, over TCP. Loading counts from opening a session of its own."""

    settings = {}
    opening = 0.0

    def _open(self, **settings):
        self.session = varve.open(os.path.join(self.folder, "store"), "mlperf", comm="env", keep="all",
                                  log=lambda level, line: None, **{**self.settings, **settings})
        for name, tensor, is_replicated in self.state.tensors():
            self.session.protect(name, tensor.detach().numpy())

    def open(self):
        self._open()

    def save(self, version):
        begin = time.monotonic()
        self.session.checkpoint(version)
        return time.monotonic() - begin

    def finish(self):
        self.session.wait()

    def memory_beside(self):
        return int(self.session.stats()["bytes_frozen_most"])

    def details(self):
        found = {name: value for name, value in self.session.stats().items() if value}
        return {"seconds_opening": self.opening, **found}

    def load(self, version):
        begin = time.monotonic()
        self._open(access="read")
        self.opening = time.monotonic() - begin
        assert self.session.restart(version) == version
        return [tensor for _, tensor, _ in self.state.tensors()]

    def close(self):
        if getattr(self, "session", None):
            self.session.close()
            self.session = None


WAYS = {"files": Files, "torch.save": TorchSave, "dcp-1": Distributed, "dcp-2": Distributed2, "varve": Varve}


def _write_all(file, memory):
    left = memoryview(memory)
    while left:
        left = left[file.write(left):]


def _read_all(file, memory):
    left = memoryview(memory)
    while left:
        got = file.readinto(left)
        assert got, "the file is too short"
        left = left[got:]
