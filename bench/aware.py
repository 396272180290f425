#!/usr/bin/env python3
"""What bench-aware has measured: tables, and pictures like figures 7, 8 and 9 of mcrEngine's paper.

    aware.py aware.json                  the tables of docs/measurements/grouping.md
    aware.py aware.json docs/aware.svg   and the pictures: ratio over the size of the groups, over the bytes of a turn,
                                         and over the time of the program, for each state
"""
import json
import math
import sys

SCHEMES = [
    ("agnostic", "agnostic", "#7b8794"),
    ("agnostic-block", "agnostic-block", "#c77d1e"),
    ("aware", "aware", "#2f6f9f"),
    ("aware-block", "aware-block", "#2e8b57"),
    ("auto", "auto", "#b03a2e"),
]
GZIP = "#1f2933"
TURN = 4096  # bytes, unless the figure is about it
LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT, GAP_X, GAP_Y = 74, 96, 128, 128, 44, 84

STYLE = """
    text { font: 12px "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; fill: #1f2933 }
    .head { font-weight: bold; font-size: 14px }
    .note { fill: #52606d }
    .small { font-size: 10px }
    .mid { text-anchor: middle }
    .end { text-anchor: end }
    .paper { fill: #ffffff }
    .axis { stroke: #52606d }
    .grid { stroke: #e4e7eb }
    .line { fill: none; stroke-width: 1.8 }
    .gzip { stroke-dasharray: 4 3; stroke-width: 1.4 }
"""


class Results:
    """All lines: of runs, and of states, of which that about most times counts."""

    def __init__(self, path):
        self.states, self.runs = {}, []
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row["bench"] != "aware":
                    continue
                if "scheme" in row:
                    self.runs.append(row)
                elif row["data"] not in self.states or row["times"] > self.states[row["data"]]["times"]:
                    self.states[row["data"]] = row

    def find(self, data, scheme, group, block=None, codec="size", dedup="none", all_times=False):
        """The run that fits, one over all times before one of the last time alone."""
        found = [
            row
            for row in self.runs
            if (row["data"], row["scheme"], row["group"], row["codec"], row["dedup"])
            == (data, scheme, group, codec, dedup)
            and (not row["block"] or row["block"] == (block or TURN))
            and (not all_times or row["times"] > 1)
        ]
        return max(found, key=lambda row: row["times"]) if found else None

    def groups(self):
        return sorted({row["group"] for row in self.runs})

    def turns(self):
        return sorted({row["block"] for row in self.runs if row["block"]})

    def most(self):
        return max(self.groups())


def last(row):
    return row["ratios"][-1] if row else None


def number(value):
    if value is None:
        return "-"
    return f"{value:.1f}" if value >= 20 else f"{value:.2f}" if value >= 2 else f"{value:.3f}"


def markdown(title, head, rows):
    """Without rows, and without all of it, where nothing was measured."""
    rows = [row for row in rows if any(cell[0].isdigit() for cell in row[1:])]
    if not rows:
        return
    print(title)
    print()
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


# ---- tables ----


def over(a, b):
    return a / b if a and b else None


def best_fixed(results, data, group):
    """Of the schemes, with turns of any size that was tried, at the last time."""
    rows = [
        row
        for row in results.runs
        if (row["data"], row["group"], row["codec"], row["dedup"]) == (data, group, "size", "none")
        and row["scheme"] != "auto"
    ]
    return max((last(row) for row in rows), default=None)


def table_schemes(results):
    rows, most = [], results.most()
    for data, state in results.states.items():
        alone = last(results.find(data, "alone", 1))
        ratios = [last(results.find(data, name, most)) for name, _, _ in SCHEMES]
        gzip = state.get("gzip6_ratios", [None])[-1]
        rows.append(
            [data, f"{state.get('bytes', 0) / state['times'] / 2**20:.0f}", number(gzip), number(alone)]
            + [number(ratio) for ratio in ratios]
            + [number(over(ratios[2], alone)), f"{number(state.get('aware_over_agnostic'))} ({state['times']})"]
            + [number(over(ratios[4], best_fixed(results, data, most)))]
            + [number(last(results.find(data, "auto", most, dedup="exact")))]
        )
    head = ["state", "MiB", "gzip -6", "alone"] + [label for _, label, _ in SCHEMES]
    title = f"Ratios of groups of {most}, last time; in brackets of how many times"
    more = ["grouping_gain of aware", "aware_over_agnostic", "auto_over_best", "auto, deduplicated"]
    markdown(title, head + more, rows)


def is_sweep(values):
    """Are there more than the two ends?"""
    return sum(value is not None for value in values) > 2


def table_groups(results):
    groups, rows = results.groups(), []
    for data in results.states:
        for scheme in ("agnostic", "aware", "auto"):
            values = [last(results.find(data, "alone" if group == 1 else scheme, group)) for group in groups]
            if is_sweep(values):
                rows.append([data, scheme] + [number(value) for value in values])
    head = ["state", "scheme"] + [str(group) for group in groups]
    markdown("Ratio over the size of the groups, last time (figure 7)", head, rows)


def table_turns(results):
    turns, rows, most = results.turns(), [], results.most()
    for data in results.states:
        for scheme in ("agnostic-block", "aware-block"):
            values = [last(results.find(data, scheme, most, turn)) for turn in turns]
            if is_sweep(values):
                rows.append([data, scheme] + [number(value) for value in values])
    title = f"Ratio over the bytes of a turn, groups of {most}, last time (figure 8)"
    markdown(title, ["state", "scheme"] + [f"{turn // 1024} KiB" for turn in turns], rows)


def table_times(results):
    rows, most = [], results.most()
    for data, state in results.states.items():
        series = [("gzip -6", state.get("gzip6_ratios"))]
        for scheme in ("aware", "auto"):
            row = results.find(data, scheme, most)
            series.append((scheme, row and row["ratios"]))
        for label, ratios in series:
            if ratios and len(ratios) > 1:
                rows.append([data, label] + [number(ratio) for ratio in ratios])
    if rows:
        title = f"Ratio over the time of the program, groups of {most} (figure 9)"
        markdown(title, ["state", "scheme"] + [str(time + 1) for time in range(len(rows[0]) - 2)], rows)


def table_codecs(results):
    rows, most = [], results.most()
    codecs = [codec for codec in dict.fromkeys(row["codec"] for row in results.runs) if codec != "size"]
    for data in results.states:
        cells = []
        for codec in codecs:
            names = ("alone", "auto") if codec == "auto" else ("alone", "agnostic", "aware")
            values = [last(results.find(data, name, 1 if name == "alone" else most, codec=codec)) for name in names]
            cells.append(", ".join(number(value) for value in values))
        rows.append([data] + cells)
    title = "Ratios with other codecs, last time: alone, agnostic, aware; with codec=auto alone, auto"
    markdown(title, ["state"] + codecs, rows)


# ---- pictures ----


def nice_ticks(low, high):
    """Two to five round values between the two."""
    step = 10 ** math.floor(math.log10(high - low))
    for divide in (1, 2, 5, 10, 20):
        first = math.ceil(low / (step / divide))
        ticks = [first * step / divide]
        while ticks[-1] + step / divide <= high:
            ticks.append(ticks[-1] + step / divide)
        if len(ticks) >= 2:
            return [tick for tick in ticks if low <= tick <= high]
    return [low, high]


class Panel:
    """One state: lines over equally spaced values, y from a little below the least to a little above the most."""

    def __init__(self, left, top, labels, values):
        self.left, self.top, self.labels = left, top, labels
        low, high = min(values), max(values)
        pad = max((high - low) * 0.1, high * 0.01)
        self.low, self.high = low - pad, high + pad

    def x(self, at):
        return self.left + 6 + at * (PANEL_WIDTH - 12) / max(1, len(self.labels) - 1)

    def y(self, value):
        return self.top + PANEL_HEIGHT - (value - self.low) / (self.high - self.low) * PANEL_HEIGHT

    def frame(self, title):
        out = [f'<text class="note mid" x="{self.left + PANEL_WIDTH / 2:.0f}" y="{self.top - 8}">{title}</text>']
        for tick in nice_ticks(self.low, self.high):
            y = self.y(tick)
            right = self.left + PANEL_WIDTH
            out.append(f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
            out.append(f'<text class="note small end" x="{self.left - 4}" y="{y + 3:.1f}">{tick:.4g}</text>')
        bottom = self.top + PANEL_HEIGHT
        out.append(f'<line class="axis" x1="{self.left}" y1="{bottom}" x2="{self.left + PANEL_WIDTH}" y2="{bottom}"/>')
        for at, label in enumerate(self.labels):
            out.append(f'<text class="note small mid" x="{self.x(at):.1f}" y="{bottom + 13}">{label}</text>')
        return out

    def line(self, values, colour, kind="line"):
        points = [(self.x(at), self.y(value)) for at, value in enumerate(values) if value is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out = [f'<polyline class="{kind}" fill="none" stroke="{colour}" points="{path}"/>']
        if kind == "line":
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in points]
        return out


def series_groups(results, data, state):
    groups = results.groups()
    lines = [
        ([last(results.find(data, "alone" if group == 1 else name, group)) for group in groups], colour)
        for name, _, colour in SCHEMES
    ]
    return [str(group) for group in groups], lines, [state["gzip6_ratios"][-1]] * len(groups)


def series_turns(results, data, state):
    turns, most = results.turns(), results.most()
    lines = [
        ([last(results.find(data, name, most, turn)) for turn in turns], colour)
        for name, _, colour in SCHEMES
        if name != "auto"
    ]
    return [str(turn // 1024) for turn in turns], lines, [state["gzip6_ratios"][-1]] * len(turns)


def series_times(results, data, state):
    lines, most = [], results.most()
    for name, _, colour in SCHEMES:
        row = results.find(data, name, most, all_times=True)
        lines.append((row["ratios"] if row else [], colour))
    return [str(time + 1) for time in range(len(state["gzip6_ratios"]))], lines, state["gzip6_ratios"]


FIGURES = [
    ("(a) over the size of the groups, in ranks", series_groups),
    ("(b) over the bytes of a turn, in KiB, in groups of all ranks", series_turns),
    ("(c) over the time of the program, in dumps, in groups of all ranks", series_times),
]


def figure(results, names, number_of, title, series):
    top = TOP + number_of * (PANEL_HEIGHT + GAP_Y)
    out = [f'<text class="head" x="{LEFT - 40}" y="{top - 32}">{title}</text>']
    for i, name in enumerate(names):
        labels, lines, gzip = series(results, name, results.states[name])
        values = [value for line, _ in lines for value in line if value is not None] + gzip
        panel = Panel(LEFT + i * (PANEL_WIDTH + GAP_X), top, labels, values)
        out += panel.frame(name)
        out += panel.line(gzip, GZIP, "gzip")
        for line, colour in lines:
            out += panel.line(line, colour)
    return out


def legend(y):
    out, x = [], LEFT - 40
    for _, label, colour in SCHEMES:
        out.append(f'<line class="line" x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{colour}"/>')
        out.append(f'<text x="{x + 30}" y="{y + 4}">{label}</text>')
        x += 134
    out.append(f'<line class="gzip" x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{GZIP}"/>')
    out.append(f'<text x="{x + 30}" y="{y + 4}">gzip -6 over the dumps of all ranks</text>')
    return out


def is_drawn(data, state):
    """Noise and what is nearly the same twice are left to the tables."""
    return state["float"] and data != "random" and not data.endswith("-restart") and "gzip6_ratios" in state


def draw(results):
    names = [data for data, state in results.states.items() if is_drawn(data, state)]
    width = LEFT + len(names) * (PANEL_WIDTH + GAP_X)
    height = TOP + len(FIGURES) * (PANEL_HEIGHT + GAP_Y) + 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-labelledby="title text">',
        '  <title id="title">What grouping is worth: compression ratios by scheme</title>',
        '  <desc id="text">For each state in floating point, the ratio of checkpoints of all ranks with five schemes '
        "of grouping: over the size of the groups, over the bytes that a rank gives in a turn, and over the time of "
        "the program; gzip over all dumps is dashed.</desc>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="paper" width="{width}" height="{height}"/>',
        f'  <text class="note" x="{LEFT - 40}" y="28">Bytes of a checkpoint over what is stored of it, with metadata; '
        "codec=size, no deduplication; dots were measured</text>",
    ]
    for i, (title, series) in enumerate(FIGURES):
        out += ["  " + text for text in figure(results, names, i, title, series)]
    out += ["  " + text for text in legend(height - 22)]
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    results = Results(sys.argv[1])
    for table in (table_schemes, table_groups, table_turns, table_times, table_codecs):
        table(results)
    if len(sys.argv) == 3:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(draw(results))


main()
