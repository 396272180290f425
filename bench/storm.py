#!/usr/bin/env python3
"""Draw what bench-storm has measured, as in figure 4 of Nicolae's paper: bytes stored per rank and checkpoint over the
number of ranks, on the average and by the busiest rank.

    storm.py storm.json docs/storm.svg
"""
import json
import math
import sys

MODES = [
    ("full", "full", "#7b8794"),
    ("incremental", "incremental", "#c77d1e"),
    ("local", "local deduplication", "#2f6f9f"),
    ("exact", "between all ranks", "#b03a2e"),
]
WIDTH, HEIGHT = 960, 470
TOP, BOTTOM = 84, 330
PANELS = ((80, 420), (540, 880))
LABEL_STEP = 14  # between two values at the ends of the lines
MB = 1e6

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
"""


def read(path):
    """{mode: {ranks: row}}, the last line of a mode and rank count."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["bench"] == "storm":
                rows.setdefault(row["mode"], {})[row["ranks"]] = row
    return rows


class Panel:
    """Both axes logarithmic: ranks in powers of two, megabytes in powers of ten."""

    def __init__(self, left, right, ranks, least, most):
        self.left, self.right = left, right
        self.ranks = ranks
        self.low, self.high = math.floor(math.log10(least)), math.log10(most) + 0.08

    def x(self, ranks):
        first, last = math.log2(self.ranks[0]), math.log2(self.ranks[-1])
        share = (math.log2(ranks) - first) / (last - first) if last > first else 0.5
        return self.left + 22 + share * (self.right - self.left - 44)

    def y(self, megabytes):
        share = (math.log10(megabytes) - self.low) / (self.high - self.low)
        return BOTTOM - share * (BOTTOM - TOP)

    def frame(self, title):
        out = [f'<text class="head" x="{self.left}" y="{TOP - 18}">{title}</text>']
        for power in range(self.low, math.floor(self.high) + 1):
            for step in (1, 2, 5):
                value = step * 10.0**power
                if math.log10(value) > self.high:
                    continue
                at = self.y(value)
                out.append(f'<line class="grid" x1="{self.left}" y1="{at:.1f}" x2="{self.right}" y2="{at:.1f}"/>')
                out.append(f'<text class="note end" x="{self.left - 8}" y="{at + 4:.1f}">{value:g}</text>')
        for count in self.ranks:
            out.append(f'<text class="note mid" x="{self.x(count):.1f}" y="{BOTTOM + 20}">{count}</text>')
        out.append(f'<line class="axis" x1="{self.left}" y1="{BOTTOM}" x2="{self.right}" y2="{BOTTOM}"/>')
        middle = (self.left + self.right) / 2
        out.append(f'<text class="note mid" x="{middle}" y="{BOTTOM + 40}">ranks</text>')
        return out

    def line(self, points, colour):
        path = " ".join(f"{self.x(ranks):.1f},{self.y(value):.1f}" for ranks, value in points)
        out = [f'<polyline class="line" stroke="{colour}" points="{path}"/>']
        for ranks, value in points:
            out.append(f'<circle cx="{self.x(ranks):.1f}" cy="{self.y(value):.1f}" r="3.5" fill="{colour}"/>')
        return out

    def labels(self, values):
        """Beside the ends of the lines, from the largest down, none on another."""
        out, free = [], 0
        for value in sorted(values, reverse=True):
            at = max(self.y(value) + 4, free)
            free = at + LABEL_STEP
            out.append(f'<text x="{self.right + 6}" y="{at:.1f}">{value:.3g}</text>')
        return out


def draw(rows):
    modes = [mode for mode in MODES if mode[0] in rows]
    ranks = sorted({count for mode in modes for count in rows[mode[0]]})
    values = [row[key] / MB for mode in modes for row in rows[mode[0]].values() for key in ("mean_bytes", "max_bytes")]
    some = next(iter(rows[modes[0][0]].values()))
    each = some["bytes"] / some["ranks"] / MB
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title text">',
        '  <title id="title">A storm in the air at rest: bytes stored per rank and checkpoint</title>',
        '  <desc id="text">Over the number of ranks, full and incremental checkpoints and deduplication in each rank '
        "store about the same per rank; deduplication between all ranks stores less per rank the more ranks there are."
        "</desc>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'  <text class="note" x="{PANELS[0][0]}" y="28">MB stored per rank and checkpoint with metadata: '
        f'{some["checkpoints"]} checkpoints, {each:.1f} MB of memory per rank, not compressed</text>',
    ]
    for (left, right), key, title in zip(
        PANELS, ("mean_bytes", "max_bytes"), ("(a) on the average", "(b) by the busiest rank")
    ):
        panel = Panel(left, right, ranks, min(values), max(values))
        out += ["  " + text for text in panel.frame(title)]
        for name, _, colour in modes:
            points = [(count, rows[name][count][key] / MB) for count in ranks if count in rows[name]]
            out += ["  " + text for text in panel.line(points, colour)]
        last = [rows[name][ranks[-1]][key] / MB for name, _, _ in modes if ranks[-1] in rows[name]]
        out += ["  " + text for text in panel.labels(last)]
    for i, (_, label, colour) in enumerate(modes):
        x, y = PANELS[0][0] + i * 190, HEIGHT - 38
        out.append(f'  <line x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="{colour}" stroke-width="2.2"/>')
        out.append(f'  <circle cx="{x + 13}" cy="{y}" r="3.5" fill="{colour}"/>')
        out.append(f'  <text x="{x + 34}" y="{y + 4}">{label}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(read(sys.argv[1])))


main()
