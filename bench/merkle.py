#!/usr/bin/env python3
"""What bench-merkle says, as tables and a picture: merkle.py LINES.jsonl [PICTURE.svg]

The tables are those of docs/measurements/fine-chunks.md, the picture is docs/merkle.svg: how many times less is stored
than full checkpoints would take, by size of the chunks, with 20 checkpoints."""
import json
import math
import sys

GRAPHS = ["message-race", "unstructured-mesh", "road", "bubbles"]
COLOURS = {"basic": "#8a8a8a", "list": "#b3742c", "tree": "#1f6fb2", "tree-auto": "#0a8f6a", "zstd": "#b03060"}
WIDTH, HEIGHT, LEFT, TOP, PANEL_W, PANEL_H, GAP = 980, 640, 70, 50, 380, 220, 90


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip().startswith("{")]


def find(lines, graph, method, checkpoints, chunk=None):
    for line in lines:
        if (line["graph"], line["method"], line["checkpoints"]) == (graph, method, checkpoints):
            if method in ("zstd", "full") or line["chunk"] == chunk:
                return line
    return None


def number(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table(lines, checkpoints):
    chunks = sorted({line["chunk"] for line in lines if line["method"] == "tree"})
    print(f"\n{checkpoints} checkpoints:\n")
    print("| graph | chunk | basic | list | tree | tree, codec=auto | zstd -3 | metadata of tree | runs over greedy | runs | the paper's roots |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for graph in GRAPHS:
        zstd = find(lines, graph, "zstd", checkpoints)
        for chunk in chunks:
            of = {m: find(lines, graph, m, checkpoints, chunk) for m in ("basic", "list", "tree", "tree-auto")}
            if not of["tree"]:
                continue
            ratios = " | ".join(number(of[m]["ratio"] if of[m] else None) for m in ("basic", "list", "tree", "tree-auto"))
            tree = of["tree"]
            print(f"| {graph} | {chunk} | {ratios} | {number(zstd['ratio'] if zstd else None)} | {tree['metadata_over_stored']:.3f}"
                  f" | {tree.get('metadata_over_greedy', 0):.3f} | {tree.get('runs', 0):.0f} | {tree.get('paper_roots', 0):.0f} |")


def panel(lines, graph, x0, y0):
    chunks = sorted({line["chunk"] for line in lines if line["method"] == "tree"})
    points = {m: [(c, find(lines, graph, m, 20, c)) for c in chunks] for m in ("basic", "list", "tree", "tree-auto")}
    zstd = find(lines, graph, "zstd", 20)
    values = [p["ratio"] for list_ in points.values() for _, p in list_ if p] + ([zstd["ratio"]] if zstd else [])
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def px(chunk):
        return x0 + (math.log2(chunk) - 5) / 7 * PANEL_W

    def py(ratio):
        return y0 + PANEL_H - (math.log10(ratio) - low) / (high - low) * PANEL_H

    out = [f'<rect x="{x0}" y="{y0}" width="{PANEL_W}" height="{PANEL_H}" fill="#fafafa" stroke="#999"/>',
           f'<text x="{x0}" y="{y0 - 8}" font-size="15">{graph}</text>']
    for power in range(low, high + 1):
        y = py(10 ** power)
        out.append(f'<path d="M{x0} {y:.1f} h{PANEL_W}" stroke="#ddd"/><text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{10 ** power}</text>')
    for chunk in chunks:
        out.append(f'<text x="{px(chunk):.1f}" y="{y0 + PANEL_H + 16}" text-anchor="middle">{chunk}</text>')
    for method, list_ in points.items():
        dots = [(px(c), py(p["ratio"])) for c, p in list_ if p]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in dots)
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[method]}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[method]}"/>' for x, y in dots]
    if zstd:
        out.append(f'<path d="M{x0} {py(zstd["ratio"]):.1f} h{PANEL_W}" stroke="{COLOURS["zstd"]}" stroke-width="2" stroke-dasharray="5 4"/>')
    return "\n".join(out)


def picture(lines, path):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for i, graph in enumerate(GRAPHS):
        out.append(panel(lines, graph, LEFT + i % 2 * (PANEL_W + GAP), TOP + i // 2 * (PANEL_H + 60)))
    x = LEFT
    for method, colour in COLOURS.items():
        name = "zstd -3 of full checkpoints" if method == "zstd" else method
        out.append(f'<rect x="{x}" y="{HEIGHT - 40}" width="14" height="14" fill="{colour}"/><text x="{x + 20}" y="{HEIGHT - 28}" font-size="14">{name}</text>')
        x += 130
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="#555">times less than full checkpoints, by bytes of a chunk; 20 checkpoints</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def main():
    lines = read(sys.argv[1])
    for checkpoints in sorted({line["checkpoints"] for line in lines}, reverse=True):
        table(lines, checkpoints)
    if len(sys.argv) > 2:
        picture(lines, sys.argv[2])


main()
