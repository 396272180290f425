#!/usr/bin/env python3
"""What bench-codec has measured: a table, and a picture.

    codec.py codec.json                 the table: how auto does, and what fixed choices take
    codec.py codec.json docs/codec.svg  and the picture: for each state and speed of storage, the time until a
                                        checkpoint is durable with each coding, over the time it takes uncompressed;
                                        auto is marked
"""
import json
import math
import sys

LEFT, TOP, ROW, GAP = 120, 112, 26, 14
PANEL = 236
WIDTH = LEFT + 3 * (PANEL + 34)
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
FAMILIES = [
    ("none", "#7b8794"),
    ("lz4", "#2f6f9f"),
    ("zstd", "#2e8b57"),
    ("fpzip", "#c77d1e"),
    ("zfp", "#8e44ad"),
]

STYLE = """
    text { font: 13px "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933 }
    .head { font-weight: bold; font-size: 15px }
    .note { fill: #52606d }
    .small { font-size: 11px }
    .mid { text-anchor: middle }
    .end { text-anchor: end }
    .paper { fill: #ffffff }
    .grid { stroke: #e4e7eb }
    .one { stroke: #7b8794; stroke-width: 1.2 }
    .auto { fill: none; stroke: #b03a2e; stroke-width: 2.4 }
"""


def read(path):
    """The states in their order, and {(state, speed): {codec: row}}."""
    states, rows = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["bench"] != "codec":
                continue
            if "codec" in row:
                rows.setdefault((row["data"], row["speed"]), {})[row["codec"]] = row
            else:
                states[row["data"]] = row
    return states, rows


def speed_text(speed):
    return f"{speed:g} MB/s" if speed else "not held"


# ---- the table ----


def table(states, rows):
    print(f"{'state':13} {'MiB':>5} {'gzip':>5}  {'storage':9} {'best':15} {'ratio':>6} {'seconds':>8}   {'auto':>6} "
          f"{'seconds':>8} {'sampled':>8} {'none':>8} {'best/auto':>9} {'(least)':>7} {'auto/none':>9}  auto took")
    for (data, speed), codecs in rows.items():
        state, auto = states[data], codecs.get("auto")
        if not auto or "best" not in auto:
            continue
        best, none = codecs[auto["best"]], codecs.get("none")
        over_none = f"{auto['durable'] / none['durable']:9.3f}" if none else " " * 9
        print(f"{data:13} {auto['bytes'] / 2**20:5.0f} {state['gzip6_ratio'] or 0:5.2f}  {speed_text(speed):9} "
              f"{best['codec']:15} {best['ratio'] or 0:6.2f} {best['durable']:8.4f}   {auto['ratio'] or 0:6.2f} "
              f"{auto['durable']:8.4f} {auto['seconds_sampled']:8.4f} {none['durable'] if none else 0:8.4f} "
              f"{auto['auto_over_best']:9.3f} {auto['auto_over_best_least']:7.3f} {over_none}  "
              f"{auto['codec_reason'] or auto['codec_used']}")


# ---- the picture ----


class Scale:
    """Logarithmic, in one panel."""

    def __init__(self, left, low, high):
        self.left, self.low, self.high = left, math.log10(low), math.log10(high)

    def x(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.left + share * PANEL


def family(codec):
    for name, colour in reversed(FAMILIES):
        if name in codec:
            return colour
    return FAMILIES[0][1]


def mark(x, y):
    return f'<path class="auto" d="M{x:.1f} {y - 9}V{y + 9}M{x - 5:.1f} {y - 9}h10M{x - 5:.1f} {y + 9}h10"/>'


def row_of(scale, y, codecs):
    none = codecs["none"]["durable"]
    out = []
    for name, row in codecs.items():
        x = scale.x(row["durable"] / none)
        if name == "auto":
            out.append(mark(x, y))
        elif name not in ("size", "none"):
            title = f"<title>{name}: {row['durable']:.4f} s, ratio {row['ratio'] or 0:.2f}</title>"
            strong = 0.45 if name in ("lz4", "zstd", "lz4-zstd") else 1
            shape = f'cx="{x:.1f}" cy="{y}" r="4" fill="{family(name)}" fill-opacity="{strong}"'
            out.append(f"<circle {shape}>{title}</circle>")
    return out


def panel(number, speed, names, rows, span):
    scale = Scale(LEFT + number * (PANEL + 34), *span)
    bottom = TOP + len(names) * ROW
    out = [f'<text class="head" x="{scale.left}" y="{TOP - 34}">storage of {speed_text(speed)}</text>']
    for tick in TICKS:
        if span[0] <= tick <= span[1]:
            x, kind = scale.x(tick), "one" if tick == 1 else "grid"
            out.append(f'<line class="{kind}" x1="{x:.1f}" y1="{TOP - 14}" x2="{x:.1f}" y2="{bottom}"/>')
            out.append(f'<text class="note small mid" x="{x:.1f}" y="{TOP - 18}">{tick:g}</text>')
    for i, name in enumerate(names):
        if "none" in rows.get((name, speed), {}):
            out += row_of(scale, TOP + i * ROW + ROW // 2, rows[name, speed])
    return out


def legend(y):
    out, x = [], LEFT
    for name, colour in FAMILIES[1:]:
        out.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/><text x="{x + 10}" y="{y + 4}">{name}</text>')
        x += 80
    out.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{FAMILIES[1][1]}" fill-opacity="0.45"/>'
               f'<text x="{x + 10}" y="{y + 4}">paler: without shuffle, delta or xor before it</text>')
    x += 300
    out.append(mark(x, y) + f'<text x="{x + 12}" y="{y + 4}">auto</text>')
    return out


def draw(states, rows):
    speeds = sorted({speed for _, speed in rows if speed})[:3]
    names = list(states)
    shares = [
        row["durable"] / codecs["none"]["durable"]
        for (_, speed), codecs in rows.items()
        if speed in speeds and "none" in codecs
        for name, row in codecs.items()
        if name != "size"
    ]
    span = (min(shares) * 0.85, max(shares) * 1.15)
    height = TOP + len(names) * ROW + GAP + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title text">',
        '  <title id="title">What compression is worth, by state, coding and speed of the storage</title>',
        '  <desc id="text">On slow storage the codings that compress best make a checkpoint durable soonest, on fast '
        "storage those that are fastest, or none; what auto has taken is marked.</desc>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{height}"/>',
        '  <text class="note" x="20" y="28">Time until a first checkpoint is durable, over the time without '
        "compression (1): further left is better</text>",
    ]
    for i, name in enumerate(names):
        out.append(f'  <text class="end" x="{LEFT - 16}" y="{TOP + i * ROW + ROW // 2 + 4}">{name}</text>')
    for i, speed in enumerate(speeds):
        out += ["  " + text for text in panel(i, speed, names, rows, span)]
    out += ["  " + text for text in legend(height - 28)]
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    states, rows = read(sys.argv[1])
    table(states, rows)
    if len(sys.argv) == 3:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(draw(states, rows))


main()
