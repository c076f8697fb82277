"""Measures memory planners on the problems of other planners, and on the plans of real models.

    python benchmarks/memory_planning.py [table.csv ...]
    python benchmarks/memory_planning.py --variant reversed --time-limit 10 [table.csv ...]
    python benchmarks/memory_planning.py --models net.onnx other.tflite
    python benchmarks/memory_planning.py --cut 10000
    python benchmarks/memory_planning.py --networks 100 500 2000

Every table is a row: the live bound, the peaks of greedy orders and of published rules in parts of
it, that of the search, with its nodes and seconds of the processor. The search is given the
capacity that a table has in its name (`A.1048576.csv`), unless `--no-capacity` says otherwise;
numba has compiled it before. `--variant` reverses time, shuffles the rows, or multiplies the sizes
by 3, and has to change little.

`--models` compiles each model for `--target` and plans its buffers again by every planner: bytes of
activations, and milliseconds of the planner that the compiler uses. `--cut` makes a problem whose
best peak is known: a rectangle of steps and bytes, cut into so many buffers. `--networks` plans the
buffers of generated networks of so many operations as the compiler does, the best of three times.

Without arguments it takes all tables below the folder that `EXPLORER_MEMORY_INSTANCES` names
(from the repository's root; `../shared/memory` if it is not set).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from explorer.memory import ExactPlanner, GreedyPlanner, default_planners, verify_plan
from explorer.memory.exact.ejecting import Ejector
from explorer.memory.exact.problem import Buffers
from explorer.memory.instances import read_problem
from explorer.results import BufferLifetime

REPOSITORY = Path(__file__).resolve().parent.parent
MAX_NODES = 1_000_000_000
SCALE = 3
RULES = ("tflite-micro", "onnxruntime", "portions")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--no-capacity", action="store_true")
    parser.add_argument("--variant", choices=("reversed", "shuffled", "scaled"))
    parser.add_argument("--models", nargs="+", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--cut", type=int)
    parser.add_argument("--seed", type=int, default=1, help="of the packing of --cut")
    parser.add_argument("--networks", nargs="+", type=int)
    chosen = parser.parse_args(arguments)
    if chosen.models:
        measure_models(chosen.models, chosen.target)
        return
    if chosen.networks:
        measure_networks(chosen.networks)
        return
    planner = ExactPlanner(max_nodes=MAX_NODES, time_limit=chosen.time_limit)
    warm_up(planner)
    if chosen.cut:
        buffers = perfect_packing(chosen.cut, seed=chosen.seed)
        print_header()
        measure_table(f"cut-{chosen.cut}", buffers, None, None, planner)
        return
    print_header()
    for path in chosen.tables or find_instances():
        problem = read_problem(path)
        text = path.stem.rpartition(".")[2]
        capacity = int(text) if text.isdigit() and not chosen.no_capacity else None
        durations = [upper - lower for lower, upper in problem.times]
        buffers = list(problem.buffers)
        buffers, durations, capacity = varied(buffers, durations, capacity, chosen.variant)
        measure_table(path.stem, buffers, durations, capacity, planner)


def find_instances() -> list[Path]:
    folder = REPOSITORY / os.environ.get("EXPLORER_MEMORY_INSTANCES", "../shared/memory")
    paths = sorted(folder.rglob("*.csv"))
    if not paths:
        sys.exit(
            f"no tables of buffers below {folder}: name a folder with "
            "EXPLORER_MEMORY_INSTANCES, or tables as arguments"
        )
    return paths


def warm_up(planner: ExactPlanner) -> None:
    """Compiles search and ejection, which takes seconds where numba has kept nothing."""
    buffers = perfect_packing(300, steps=60, seed=2)
    planner.solve(buffers)
    offsets = list(accumulate((b.size_bytes for b in buffers[:-1]), initial=0))
    Ejector(Buffers(buffers, {}), offsets, is_compiled=True).lower(0, 100)


def varied(
    buffers: list[BufferLifetime],
    durations: list[int],
    capacity: int | None,
    variant: str | None,
) -> tuple[list[BufferLifetime], list[int], int | None]:
    """The same problem in another form: its best peak is the same, or `SCALE` times as large."""
    if variant == "reversed":
        end = max(b.last for b in buffers)
        return (
            [replace(b, first=end - b.last, last=end - b.first) for b in buffers],
            durations,
            capacity,
        )
    if variant == "shuffled":
        order = list(range(len(buffers)))
        random.Random(0).shuffle(order)
        return [buffers[i] for i in order], [durations[i] for i in order], capacity
    if variant == "scaled":
        scaled = [replace(b, size_bytes=SCALE * b.size_bytes) for b in buffers]
        return scaled, durations, None if capacity is None else SCALE * capacity
    return buffers, durations, capacity


def perfect_packing(count: int, steps: int = 0, seed: int = 1) -> list[BufferLifetime]:
    """A rectangle of 2^30 bytes that is cut into `count` buffers, which fill it without a gap."""
    rng = random.Random(seed)
    rectangles = [(0, steps or max(2, count // 5), 0, 1 << 30)]
    while len(rectangles) < count:
        place = rng.randrange(len(rectangles))
        first, last, low, high = rectangles[place]
        rectangles[place] = rectangles[-1]
        rectangles.pop()
        if rng.random() < 0.5 and last - first > 1:
            step = rng.randrange(first + 1, last)
            rectangles += [(first, step, low, high), (step, last, low, high)]
        elif high - low > 1:
            byte = rng.randrange(low + 1, high)
            rectangles += [(first, last, low, byte), (first, last, byte, high)]
        else:
            rectangles.append((first, last, low, high))
    rng.shuffle(rectangles)
    return [
        BufferLifetime(
            id=f"b{i}", values=(f"b{i}",), size_bytes=high - low, first=first, last=last,
            alignment_bytes=1,
        )
        for i, (first, last, low, high) in enumerate(rectangles)
    ]  # fmt: skip


def network(kind: str, count: int, seed: int = 0) -> list[BufferLifetime]:
    """The buffers of about so many operations, each of which reads results of earlier ones."""
    rng = random.Random(f"{kind} {seed}")
    sizes, reads = [rng.randrange(1, 64) << 12], [list[int]()]

    def add(size: int, *operands: int) -> int:
        sizes.append(size)
        reads.append(list(operands))
        return len(sizes) - 1

    last = 0
    while len(sizes) < count:
        size = rng.randrange(1, 64) << rng.choice((10, 12))
        if kind == "chain":
            last = add(size, last)
        elif kind == "residual":
            wide = add(4 * sizes[last], last)
            narrow = add(sizes[last], add(sizes[wide], wide))
            last = add(sizes[last], narrow, last)
        elif kind == "branches":
            last = add(size, *(add(size >> 1, add(size, last)) for _ in range(rng.randint(2, 6))))
        elif kind == "encoders":
            skips = [last := add(size << 2 >> level, last) for level in range(rng.randint(3, 8))]
            for skip in reversed(skips):
                last = add(sizes[skip], last, skip)
        else:
            recent = range(max(0, len(sizes) - 8), len(sizes))
            last = add(size, *rng.sample(recent, min(len(recent), rng.randint(1, 3))))
    deaths = list(range(1, len(sizes) + 1))
    for step, operands in enumerate(reads):
        for operand in operands:
            deaths[operand] = max(deaths[operand], step + 1)
    return [
        BufferLifetime(id=f"b{i}", values=(f"b{i}",), size_bytes=size, first=i, last=deaths[i])
        for i, size in enumerate(sizes)
    ]


def measure_networks(counts: Sequence[int]) -> None:
    print("| network | buffers | bound | peak / bound | ms |\n|" + " --- |" * 5)
    planner = ExactPlanner()
    for count in counts:
        for kind in ("chain", "residual", "branches", "encoders", "random"):
            buffers, milliseconds = network(kind, count), []
            for _ in range(3):
                start = time.process_time()
                plan = planner(buffers)
                milliseconds.append(1e3 * (time.process_time() - start))
            ratio = plan.peak_bytes / plan.bound_bytes
            cells = [kind, f"{len(buffers):,}", f"{plan.bound_bytes:,}", f"{ratio:.3f}"]
            print("| " + " | ".join([*cells, f"{min(milliseconds):.1f}"]) + " |", flush=True)


def print_header() -> None:
    names = ("table", "buffers", "bound", "greedy", *RULES, "search", "lower bound", "nodes", "s")
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names))


def measure_table(
    name: str,
    buffers: Sequence[BufferLifetime],
    durations: Sequence[int] | None,
    capacity: int | None,
    planner: ExactPlanner,
) -> None:
    planners = default_planners()
    peaks = [GreedyPlanner()(buffers).peak_bytes]
    peaks += [planners[rule](buffers).peak_bytes for rule in RULES]
    start = time.process_time()
    found = planner.solve(buffers, capacity=capacity, durations=durations)
    seconds = time.process_time() - start
    verify_plan(found.plan)
    bound = found.plan.bound_bytes
    cells = [
        name, f"{len(buffers):,}", f"{bound:,}", *(f"{peak / bound:.3f}" for peak in peaks),
        f"{found.plan.peak_bytes:,}", f"{found.lower_bound:,}", f"{found.nodes:,}",
        f"{seconds:.3f}",
    ]  # fmt: skip
    print("| " + " | ".join(cells) + " |", flush=True)


def measure_models(paths: Sequence[Path], target: str) -> None:
    import explorer

    names = ("model", "buffers", "bound", "compiled", "greedy", "exact", *RULES, "no sharing", "ms")
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    planners = default_planners()
    for path in paths:
        try:
            plans = explorer.compile(path, target).plans
        except explorer.ExplorerError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        buffers = [[p.buffer for p in plan.placements] for plan in plans.values()]
        columns = []
        for name in ("greedy", "exact", *RULES, "no-sharing"):
            columns.append(sum(planners[name](part).peak_bytes for part in buffers))
        start = time.process_time()
        for part in buffers:
            planners["exact"](part)
        milliseconds = 1e3 * (time.process_time() - start)
        cells = [
            path.stem,
            f"{sum(map(len, buffers)):,}",
            f"{sum(plan.bound_bytes for plan in plans.values()):,}",
            f"{sum(plan.peak_bytes for plan in plans.values()):,}",
            *(f"{peak:,}" for peak in columns),
            f"{milliseconds:.1f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
