#!/usr/bin/env python3
"""Weights and Adam's moments of a small transformer that is trained here, as raw arrays for bench-codec.

    codec-weights.py TEXT FOLDER [STEPS]

Learns the bytes of the files in the folder TEXT (docs/ of this tree) for some minutes, writes FOLDER/weights.f32,
.bf16, .f16, and moments.m.f32, .v.f32, .m.bf16, .v.bf16, and prints the options --file that bench-codec takes. Needs
torch.
"""
import pathlib
import sys

import torch
from torch import nn

WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 192, 4, 4, 32, 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 256)
        self.mask = torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), diagonal=1)

    def forward(self, x):
        h = self.bytes(x) + self.places(torch.arange(CONTEXT))
        return self.out(self.norm(self.layers(h, mask=self.mask)))


def train(text, steps):
    torch.manual_seed(1)
    model = Model()
    for parameter in model.parameters():  # copies of one layer begin alike, which no training would undo
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        at = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
        rows = torch.stack([text[i : i + CONTEXT + 1] for i in at.tolist()]).long()
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step + 1 == steps:
            print(f"step {step}: loss {loss.item():.3f}", file=sys.stderr)
    return model, optimizer


def write(folder, name, tensors, dtype):
    flat = torch.cat([t.detach().flatten() for t in tensors]).to(dtype)
    kind = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    path = pathlib.Path(folder, f"{name}.{kind}")
    path.write_bytes(flat.view(torch.int16 if flat.element_size() == 2 else torch.int32).numpy().tobytes())
    print(f"--file {name.split('.')[0]}-{kind}={path}:{kind}")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    text = b"".join(path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.md")))
    steps = int(sys.argv[3]) if len(sys.argv) == 4 else 300
    pathlib.Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    model, optimizer = train(torch.frombuffer(bytearray(text), dtype=torch.uint8), steps)
    states = [optimizer.state[p] for p in model.parameters()]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        write(sys.argv[2], "weights", model.parameters(), dtype)
    for dtype in (torch.float32, torch.bfloat16):
        write(sys.argv[2], "moments.m", [s["exp_avg"] for s in states], dtype)
        write(sys.argv[2], "moments.v", [s["exp_avg_sq"] for s in states], dtype)


if __name__ == "__main__":
    main()
