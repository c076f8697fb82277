"""Measures memory planners on the problems of other planners.

    python benchmarks/memory_planning.py [table.csv ...]
    python benchmarks/memory_planning.py --planner exact --time-limit 10 [table.csv ...]

The exact planner is given the capacity that a table has in its name (`A.1048576.csv`).

Without arguments it takes all tables below the folder that `EXPLORER_MEMORY_INSTANCES` names
(from the repository's root; `../shared/memory` if it is not set). `peak / bound` is 1 where the
plan is proven optimal: no plan can be smaller than the live bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from explorer.memory import ExactPlanner, GreedyPlanner, read_instance, verify_plan
from explorer.results import BufferLifetime

REPOSITORY = Path(__file__).resolve().parent.parent


def find_instances() -> list[Path]:
    folder = REPOSITORY / os.environ.get("EXPLORER_MEMORY_INSTANCES", "../shared/memory")
    paths = sorted(folder.rglob("*.csv"))
    if not paths:
        sys.exit(
            f"no tables of buffers below {folder}: name a folder with "
            "EXPLORER_MEMORY_INSTANCES, or tables as arguments"
        )
    return paths


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--planner", choices=("greedy", "exact"), default="greedy")
    parser.add_argument("--time-limit", type=float, default=10.0)
    chosen = parser.parse_args(arguments)
    planner = ExactPlanner(max_nodes=2_000_000, time_limit=chosen.time_limit)
    if chosen.planner == "exact":  # what is compiled for the machine is not counted
        planner.solve(
            [BufferLifetime(id=n, values=(n,), size_bytes=1, first=0, last=1) for n in "ab"]
        )
    header = ("table", "buffers", "bound, bytes", "peak, bytes", "peak / bound", "nodes", "seconds")
    print("{:<16}{:>9}{:>18}{:>18}{:>14}{:>11}{:>9}  best attempt".format(*header))
    for path in chosen.tables or find_instances():
        buffers = read_instance(path)
        capacity = path.stem.rpartition(".")[2]
        start, nodes = time.perf_counter(), 0
        if chosen.planner == "greedy":
            plan = GreedyPlanner()(buffers)
        else:
            found = planner.solve(buffers, capacity=int(capacity) if capacity.isdigit() else None)
            plan, nodes = found.plan, found.nodes
        seconds = time.perf_counter() - start
        verify_plan(plan)
        best = min(plan.attempts, key=lambda attempt: attempt.peak_bytes)
        print(
            f"{path.stem:<16}{len(buffers):>9,}{plan.bound_bytes:>18,}{plan.peak_bytes:>18,}"
            f"{plan.peak_bytes / plan.bound_bytes:>14.4f}{nodes:>11,}{seconds:>9.3f}"
            f"  {best.strategy}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
