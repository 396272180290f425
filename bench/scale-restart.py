#!/usr/bin/env python3
"""Draw what bench-scale-restart-simulated has found, and what a model fitted to it says about more ranks.

    scale-restart.py restart.json docs/scale-restart.svg      also prints the tables of docs/scale.md

The model, with least squares over the simulated sizes (fit):

    packs     nodes x (1 - (1 - 1 / nodes)^chunks)   packs that the shared chunks of a rank lie in, when each lies in any pack
    rounds    a + b x packs                          fit
    messages  rounds x 2 x partners in the grid + the partners on the node, twice + log2(ranks) x reductions
    reductions  a + b x rounds                       fit
    requests  of all ranks: a + b x ranks            fit
    read      bytes, by a rank: of the list of writers + a + b / ranks   fit; the list has 64 bytes for each node, and pages
    seconds   a + b x messages                       fit; and what all ranks read, at the speed of the file system
"""
import json
import math
import sys

from scale import HEIGHT, PANELS, PER_NODE, RANKS, STYLE, WIDTH, Panel, fit, messages_of_grid

CHUNK = 4096
SPEED = 1e12  # of the file system, bytes per second
BLUE, GREY, COLOURS = "#2f6f9f", "#7b8794", ("#b03a2e", "#c77d1e")


def listed(ranks):
    """Bytes that a rank reads of the list of writers; each node is one. Long lists have pages (docs/format.md 5)."""
    writers = nodes_of(ranks)
    if writers <= 512:
        return 128 + 64 * writers
    return max(16384, 104 + 16 * math.ceil(writers / 512)) + 64 * 512


def read(path):
    """{size: {ranks: row}}, the last line of each."""
    series = {}
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.startswith("{")]
    for row in sorted(rows, key=lambda row: (row["size"], row["ranks"])):
        series.setdefault(row["size"], {})[row["ranks"]] = row
    return series


def nodes_of(ranks):
    return max(1, ranks // PER_NODE)


def packs(ranks, size):
    nodes, chunks = nodes_of(ranks), size / 2 / CHUNK
    return nodes * (1 - (1 - 1 / nodes) ** chunks)


class Model:
    def __init__(self, rows):
        self.size = next(iter(rows.values()))["size"]
        items = rows.items()
        self.rounds_fit = fit([(packs(ranks, self.size), row["rounds"]) for ranks, row in items])
        self.reductions_fit = fit([(row["rounds"], row["reductions"] / math.log2(ranks)) for ranks, row in items])
        self.seconds_fit = fit([(row["messages"], row["seconds"] - row["read_all"] / SPEED) for row in rows.values()])
        self.opening_fit = fit([(math.log2(ranks), row["opening_seconds"]) for ranks, row in items])
        self.requests_fit = fit([(ranks, row["requests_all"]) for ranks, row in items])
        self.read_fit = fit([(1 / ranks, row["read_mean"] - listed(ranks)) for ranks, row in items])

    def rounds(self, ranks):
        return self.rounds_fit[0] + self.rounds_fit[1] * packs(ranks, self.size)

    def messages(self, ranks):
        rounds, doublings = self.rounds(ranks), math.log2(ranks)
        exchanges = messages_of_grid(ranks) - math.ceil(doublings)
        reductions = self.reductions_fit[0] + self.reductions_fit[1] * rounds
        return rounds * exchanges + 2 * (PER_NODE - 1) + reductions * doublings

    def seconds(self, ranks):
        return self.seconds_fit[0] + self.seconds_fit[1] * self.messages(ranks) + self.read(ranks) / SPEED

    def opening(self, ranks):
        return self.opening_fit[0] + self.opening_fit[1] * math.log2(ranks)

    def requests(self, ranks):
        return self.requests_fit[0] + self.requests_fit[1] * ranks

    def read(self, ranks):
        return ranks * (listed(ranks) + self.read_fit[0]) + self.read_fit[1]


# ---- the figure ----


def draw_line(panel, rows, name, factor, modelled, colour):
    simulated = [(ranks, row[name] * factor) for ranks, row in rows.items()]
    more = [(ranks, modelled(ranks) * factor) for ranks in RANKS if ranks > simulated[-1][0]]
    return [panel.path(simulated[-1:] + more, colour, "model"), panel.path(simulated, colour, ""),
            *panel.dots(simulated, colour)]


def key(x, y, colour, kind, label):
    return [f'<line class="line {kind}" x1="{x}" y1="{y}" x2="{x + 26}" y2="{y}" stroke="{colour}"/>',
            f'<text x="{x + 34}" y="{y + 4}">{label}</text>']


def draw_panels(series, models):
    time, work = Panel(*PANELS[0], 10, 10000), Panel(*PANELS[1], 1, 100000)
    left, right, low = PANELS[0][0], PANELS[1][0], HEIGHT - 62
    first = min(series)
    most = max(row["requests"] for row in series[first].values())
    out = time.frame("(a) milliseconds") + work.frame("(b) of the busiest rank")
    for i, (size, colour) in enumerate(zip(series, COLOURS)):
        out += draw_line(time, series[size], "seconds", 1e3, models[size].seconds, colour)
        out += draw_line(work, series[size], "messages", 1, models[size].messages, colour)
        out += key(left, low + i * 20, colour, "", f"varve_restart, {size >> 10} KiB per rank")
        out += key(right, low + i * 20, colour, "", f"messages, {size >> 10} KiB")
    out += draw_line(time, series[first], "opening_seconds", 1e3, models[first].opening, BLUE)
    out += draw_line(work, series[first], "requests", 1, lambda ranks: most, GREY)
    out += key(left + 260, low, BLUE, "", "varve_open_mpi") + key(right + 170, low, GREY, "", "requests to the storage")
    out += key(left + 260, low + 20, "#1f2933", "", "simulated")
    return out + key(right + 170, low + 20, "#1f2933", "model", "model, fitted to the points")


def draw(series, models):
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title text">',
        '  <title id="title">A restart, simulated</title>',
        '  <desc id="text">Over the number of ranks, time of a restart and messages and requests of its busiest rank: messages '
        "grow with the packs that a rank reads from and with the root of the number of nodes, requests do not.</desc>",
        f"  <style>{STYLE}  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'  <text class="note" x="{PANELS[0][0]}" y="28">A restart, simulated: a request to the storage takes 1 ms; '
        "12.5 GB/s for a node, 1 TB/s for all</text>",
    ]
    out += ["  " + text for text in draw_panels(series, models)]
    out.append("</svg>\n")
    return "\n".join(out)


# ---- the tables ----


def tell_simulated(rows):
    print("| ranks | ms | opening, ms | rounds | messages | of it reductions | mean | bytes sent | mean |")
    print("|" + "---|" * 9)
    for ranks, row in rows.items():
        print(f'| {ranks:,} | {row["seconds"] * 1e3:.1f} | {row["opening_seconds"] * 1e3:.1f} | {row["rounds"]} | '
              f'{row["messages"]:,} | {row["reductions"]:,} | {row["messages_mean"]:,.0f} | {row["bytes"]:,} | '
              f'{row["bytes_mean"]:,.0f} |')
    print("\n| ranks | requests | mean | of it reads | all ranks | bytes read | mean | all ranks | hottest object |")
    print("|" + "---|" * 9)
    for ranks, row in rows.items():
        print(f'| {ranks:,} | {row["requests"]} | {row["requests_mean"]:.2f} | {row["reads_mean"]:.2f} | '
              f'{row["requests_all"]:,} | {row["read"]:,} | {row["read_mean"]:,.0f} | {row["read_all"]:,} | '
              f'{row["hottest"]:,} ({row["hottest_key"].split("/")[2]}) |')


def tell_model(rows, model):
    print("\nModel:", {name: [float(f"{part:.4g}") for part in value] for name, value in vars(model).items()
                       if name != "size"})
    print("\n| ranks | rounds | messages | ms | opening, ms |\n|" + "---|" * 5)
    for ranks in RANKS:
        print(f"| {ranks:,} | {model.rounds(ranks):.0f} | {model.messages(ranks):,.0f} | "
              f"{model.seconds(ranks) * 1e3:,.0f} | {model.opening(ranks) * 1e3:.1f} |")
    print("\n| ranks | requests | a second | bytes | their seconds at 1 TB/s |\n|" + "---|" * 5)
    for ranks in RANKS:
        row = rows.get(ranks)
        requests = row["requests_all"] if row else model.requests(ranks)
        seconds = row["seconds"] if row else model.seconds(ranks)
        data = row["read_all"] if row else model.read(ranks)
        print(f"| {ranks:,} | {requests:,.0f} | {requests / seconds:,.0f} | {data:,.0f} | {data / SPEED:.4f} |")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    series = read(sys.argv[1])
    models = {size: Model(rows) for size, rows in series.items()}
    for size, rows in series.items():
        print(f"\n{size >> 10} KiB per rank\n")
        tell_simulated(rows)
        tell_model(rows, models[size])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(series, models))


if __name__ == "__main__":
    main()
