#!/usr/bin/env python3
"""Draw what bench-scale-simulated has found, and what a model fitted to it says about more ranks.

    scale.py scale.json docs/scale.svg      also prints the tables of docs/scale.md

The model: messages of the grid are counted, not fitted (see messages_of_grid). Time on the network is a + b x messages in the grid, a + b x ranks flat
and a + b x log2(ranks) for top-k; time of computing is a + b x log2(ranks). All by least squares over the simulated sizes.
"""
import json
import math
import sys

# What an earlier prototype of the grid came to, in ms: counted messages with a price, the last one modelled (docs/scale.md).
PROTOTYPE = {1024: 0.64, 4096: 0.71, 16384: 0.83, 65536: 1.05, 1048576: 2.5}
SERIES = [
    ("flat", "exact, flat", "#7b8794"),
    ("top-k 4", "top-k, k = 4 ids", "#c77d1e"),
    ("top-k", "top-k, k = ids", "#2f6f9f"),
    ("grid", "exact, grid", "#b03a2e"),
]
RANKS = [64, 256, 1024, 4096, 16384, 65536, 262144, 1048576]
PER_NODE = 32
WIDTH, HEIGHT, TOP, BOTTOM = 960, 480, 84, 350
PANELS = ((80, 450), (560, 930))

STYLE = """
    text { font: 13px "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933 }
    .head { font-weight: bold; font-size: 15px }
    .note { fill: #52606d }
    .mid { text-anchor: middle }
    .end { text-anchor: end }
    .paper { fill: #ffffff }
    .axis { stroke: #52606d; stroke-width: 1.2 }
    .grid { stroke: #e4e7eb }
    .line { fill: none; stroke-width: 2.2 }
    .model { stroke-dasharray: 5 4 }
    .before { stroke-dasharray: 1 4; stroke-linecap: round }
"""


def read(path):
    """{series: {ranks: row}}, the last line of each."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            name = row["scheme"]
            if name == "top-k" and row["top"] != row["ids"]:
                name = f'top-k {row["top"] // row["ids"]}'
            if row["computing"] == "measured":
                name += " measured"
            rows.setdefault(name, {})[row["ranks"]] = row
    return rows


def messages_of_grid(ranks):
    """Of the busiest rank: partners on the node, in the row and in the column, there and back, and one reduction."""
    nodes = max(1, ranks // PER_NODE)
    columns = math.isqrt(nodes - 1) + 1
    partners = min(ranks, PER_NODE) - 1 + columns - 1 + -(-nodes // columns) - 1
    return 2 * partners + math.ceil(math.log2(ranks))


def variable(name, ranks):
    if name == "grid":
        return messages_of_grid(ranks)
    return ranks if name == "flat" else math.log2(ranks)


def fit(points):
    """a, b of y = a + b x by least squares."""
    count = len(points)
    x_mean, y_mean = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    b = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0
    return y_mean - b * x_mean, b


def model(rows, name):
    """{ranks: (seconds, network seconds)}, and the four numbers it is made of."""
    network = fit([(variable(name, ranks), row["network_seconds"]) for ranks, row in rows[name].items()])
    computing = fit([(math.log2(ranks), row["seconds"] - row["network_seconds"]) for ranks, row in rows[name].items()])
    values = {}
    for ranks in RANKS:
        wire = network[0] + network[1] * variable(name, ranks)
        values[ranks] = (wire + computing[0] + computing[1] * math.log2(ranks), wire)
    return values, network + computing


class Panel:
    """Both axes logarithmic."""

    def __init__(self, left, right, least, most):
        self.left, self.right = left, right
        self.low, self.high = math.log10(least), math.log10(most)

    def x(self, ranks):
        share = (math.log2(ranks) - math.log2(RANKS[0])) / (math.log2(RANKS[-1]) - math.log2(RANKS[0]))
        return self.left + 16 + share * (self.right - self.left - 32)

    def y(self, value):
        return BOTTOM - (math.log10(value) - self.low) / (self.high - self.low) * (BOTTOM - TOP)

    def frame(self, title):
        out = [f'<text class="head" x="{self.left}" y="{TOP - 18}">{title}</text>']
        for power in range(math.floor(self.low), math.ceil(self.high) + 1):
            if not self.low - 1e-9 <= power <= self.high + 1e-9:
                continue
            at = self.y(10.0**power)
            out.append(f'<line class="grid" x1="{self.left}" y1="{at:.1f}" x2="{self.right}" y2="{at:.1f}"/>')
            out.append(f'<text class="note end" x="{self.left - 8}" y="{at + 4:.1f}">{10.0**power:,g}</text>')
        for ranks in (64, 1024, 16384, 1048576):
            label = f"{ranks:,}"
            out.append(f'<text class="note mid" x="{self.x(ranks):.1f}" y="{BOTTOM + 20}">{label}</text>')
        out.append(f'<line class="axis" x1="{self.left}" y1="{BOTTOM}" x2="{self.right}" y2="{BOTTOM}"/>')
        middle = (self.left + self.right) / 2
        out.append(f'<text class="note mid" x="{middle}" y="{BOTTOM + 40}">ranks, 32 to a node</text>')
        return out

    def path(self, points, colour, kind):
        inside = [(ranks, min(value, 10**self.high)) for ranks, value in points if value > 0]
        text = " ".join(f"{self.x(ranks):.1f},{self.y(value):.1f}" for ranks, value in inside)
        return f'<polyline class="line {kind}" stroke="{colour}" points="{text}"/>'

    def dots(self, points, colour):
        return [f'<circle cx="{self.x(r):.1f}" cy="{self.y(v):.1f}" r="3.5" fill="{colour}"/>' for r, v in points]


def draw_milliseconds(rows):
    panel = Panel(*PANELS[0], 0.1, 100)
    out = panel.frame("(a) milliseconds, computing injected")
    out.append(panel.path(sorted(PROTOTYPE.items()), "#1f2933", "before"))
    for name, _, colour in SERIES:
        if name not in rows:
            continue
        simulated = [(ranks, row["seconds"] * 1e3) for ranks, row in sorted(rows[name].items())]
        modelled, _ = model(rows, name)
        more = [(ranks, value * 1e3) for ranks, (value, _) in modelled.items() if ranks > simulated[-1][0]]
        more = [point for point in more if point[1] <= 100]
        out.append(panel.path(simulated[-1:] + more, colour, "model"))
        out.append(panel.path(simulated, colour, ""))
        out += panel.dots(simulated, colour)
        for ranks, row in rows.get(name + " measured", {}).items():
            at = f'cx="{panel.x(ranks):.1f}" cy="{panel.y(row["seconds"] * 1e3):.1f}"'
            out.append(f'<circle {at} r="4" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return out


def draw_messages(rows):
    panel = Panel(*PANELS[1], 10, 10000)
    out = panel.frame("(b) messages sent by the busiest rank")
    for name, _, colour in SERIES:
        if name not in rows:
            continue
        simulated = [(ranks, row["messages"]) for ranks, row in sorted(rows[name].items())]
        more = [(ranks, messages_of_grid(ranks)) for ranks in RANKS if name == "grid" and ranks > simulated[-1][0]]
        if more:
            out.append(panel.path(simulated[-1:] + more, colour, "model"))
        out.append(panel.path(simulated, colour, ""))
        out += panel.dots(simulated, colour)
    return out


def legend():
    out = []
    for i, (_, label, colour) in enumerate(SERIES):
        x, y = PANELS[0][0] + i * 170, HEIGHT - 62
        out.append(f'<line x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="{colour}" stroke-width="2.2"/>')
        out.append(f'<circle cx="{x + 13}" cy="{y}" r="3.5" fill="{colour}"/>')
        out.append(f'<text x="{x + 34}" y="{y + 4}">{label}</text>')
    notes = (("", "simulated"), ("model", "model, fitted to the simulated points; messages are counted"),
             ("before", "grid, earlier prototype"))
    x = PANELS[0][0]
    for kind, label in notes:
        y = HEIGHT - 30
        out.append(f'<line class="line {kind}" x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="#1f2933"/>')
        out.append(f'<text x="{x + 34}" y="{y + 4}">{label}</text>')
        x += 60 + 7 * len(label)
    x, y = PANELS[0][0] + 4 * 170, HEIGHT - 62
    out.append(f'<circle cx="{x + 13}" cy="{y}" r="4" fill="none" stroke="#1f2933" stroke-width="1.6"/>')
    out.append(f'<text x="{x + 34}" y="{y + 4}">computing measured</text>')
    return out


def draw(rows):
    ids = next(iter(rows["grid"].values()))["ids"]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title text">',
        '  <title id="title">The exchange between ranks, simulated</title>',
        '  <desc id="text">Over the number of ranks, time and messages of the exchange: in the grid both grow like the root '
        "of the number of nodes, flat in proportion to the ranks.</desc>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'  <text class="note" x="{PANELS[0][0]}" y="28">One exchange of {ids:,} ids per rank, simulated: a message takes 1 us '
        "to send, 1 us on its way, 1 us to receive; 12.5 GB/s</text>",
    ]
    out += ["  " + text for text in draw_milliseconds(rows) + draw_messages(rows) + legend()]
    out.append("</svg>\n")
    return "\n".join(out)


def tell(rows):
    print("| scheme | ranks | ms | of it network | messages | bytes | found | owned |\n|---|---|---|---|---|---|---|---|")
    for name, by_ranks in rows.items():
        for ranks, row in sorted(by_ranks.items()):
            print(f'| {name} | {ranks:,} | {row["seconds"] * 1e3:.2f} | {row["network_seconds"] * 1e3:.2f} | '
                  f'{row["messages"]:,} | {row["bytes"]:,} | {row["found"]:.3f} | {row["owned"]:.2f} |')
    print("\nModel, ms (of it network):\n")
    print("| scheme | " + " | ".join(f"{ranks:,}" for ranks in RANKS) + " |\n|" + "---|" * (len(RANKS) + 1))
    for name, _, _ in SERIES:
        if name in rows and len(rows[name]) > 1:
            values, parts = model(rows, name)
            print(f"| {name} | " + " | ".join(f"{all_ * 1e3:.2f} ({wire * 1e3:.2f})" for all_, wire in values.values())
                  + " | " + ", ".join(f"{part * 1e6:.3f} us" for part in parts))
    print("messages of the grid:", {ranks: messages_of_grid(ranks) for ranks in RANKS})


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = read(sys.argv[1])
    tell(rows)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(rows))


if __name__ == "__main__":
    main()
