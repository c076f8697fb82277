"""Measures the default memory planner on the problems of other planners.

    python benchmarks/memory_planning.py [table.csv ...]

Without arguments it takes all tables below the folder that `EXPLORER_MEMORY_INSTANCES` names
(from the repository's root; `../shared/memory` if it is not set). `peak / bound` is 1 where the
plan is proven optimal: no plan can be smaller than the live bound.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from explorer.memory import GreedyPlanner, read_instance, verify_plan

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
    paths = [Path(argument) for argument in arguments] or find_instances()
    header = ("table", "buffers", "bound, bytes", "peak, bytes", "peak / bound", "tried", "seconds")
    print("{:<16}{:>9}{:>18}{:>18}{:>14}{:>7}{:>9}  best strategy".format(*header))
    for path in paths:
        buffers = read_instance(path)
        start = time.perf_counter()
        plan = GreedyPlanner()(buffers)
        seconds = time.perf_counter() - start
        verify_plan(plan)
        best = min(plan.attempts, key=lambda attempt: attempt.peak_bytes)
        print(
            f"{path.stem:<16}{len(buffers):>9,}{plan.bound_bytes:>18,}{plan.peak_bytes:>18,}"
            f"{plan.peak_bytes / plan.bound_bytes:>14.4f}{len(plan.attempts):>7}{seconds:>9.3f}"
            f"  {best.strategy}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
