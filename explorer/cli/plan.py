"""`explorer plan FILE.csv`: offsets for a table of buffers, with the bound and what is proven.

    explorer plan buffers.csv                            the lowest peak that is found
    explorer plan buffers.csv --capacity 1048576 -o out.csv
    explorer plan buffers.csv --planner greedy --json

The table has the columns id, lower, upper, size (MiniMalloc's), and if wanted alignment and offset
(fixed). Status 1 where the plan is larger than the capacity.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines
from explorer.files import check_output, reading_file, write_file

if TYPE_CHECKING:
    from explorer.memory.exact import ExactResult
    from explorer.memory.instances import Instance

SUMMARY = "place the buffers of a table in the least memory"
PLANNERS = ("exact", "greedy", "no-sharing", "portions", "tflite-micro", "onnxruntime")
MAX_NODES = 1_000_000_000
"""Of a search; the time limit is usually met before."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", type=Path, metavar="FILE.csv", help="id,lower,upper,size")
    parser.add_argument(
        "--capacity", type=options.count, metavar="BYTES", help="enough; larger is status 1"
    )
    parser.add_argument(
        "--planner", choices=PLANNERS, default="exact", help="how to place them (default: exact)"
    )
    parser.add_argument(
        "--time-limit",
        type=options.duration,
        default=10.0,
        metavar="S",
        help="seconds of search (default: 10)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT.csv", help="the table with offsets"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.errors import InputError
    from explorer.memory.instances import read_problem

    if arguments.output is not None:
        check_output(arguments.output)
    problem = read_problem(arguments.table)
    largest = max(problem.buffers, key=lambda buffer: buffer.size_bytes, default=None)
    if largest is not None and (arguments.capacity or largest.size_bytes) < largest.size_bytes:
        raise InputError(
            f"buffer {largest.id!r} of {largest.size_bytes} bytes is larger than the capacity of "
            f"{arguments.capacity}",
            file=str(arguments.table),
        )
    with reading_file(arguments.table, "table of buffers", kind=InputError):
        found = solve(problem, arguments)
    if arguments.output is not None:
        write_file(arguments.output, table_of(problem, found).encode())
    if arguments.json:
        print_json(described(found, arguments.planner))
    else:
        print_lines(explained(found, arguments))
    is_met = arguments.capacity is None or found.plan.peak_bytes <= arguments.capacity
    return 0 if is_met else 1


def solve(problem: Instance, arguments: argparse.Namespace) -> ExactResult:
    from explorer.errors import InputError
    from explorer.memory.choosing import choose_planner, default_planners
    from explorer.memory.exact import ExactPlanner, ExactResult

    if arguments.planner == "exact":
        planner = ExactPlanner(max_nodes=MAX_NODES, time_limit=arguments.time_limit)
        return planner.solve(
            problem.buffers,
            fixed=problem.fixed,
            capacity=arguments.capacity,
            durations=[upper - lower for lower, upper in problem.times],
        )
    if problem.fixed:
        raise InputError(
            f"the planner {arguments.planner} keeps no fixed offsets", hint="--planner exact"
        )
    started = time.perf_counter()
    plan = choose_planner(arguments.planner, default_planners())(problem.buffers)
    return ExactResult(plan, plan.bound_bytes, 0, time.perf_counter() - started)


def described(found: ExactResult, planner: str) -> dict[str, Any]:
    return {
        "peak": found.plan.peak_bytes,
        "lower_bound": found.lower_bound,
        "optimal": found.optimal,
        "seconds": round(found.seconds, 4),
        "nodes": found.nodes,
        "planner": planner,
        "offsets": [placed.offset_bytes for placed in found.plan.placements],
    }


def explained(found: ExactResult, arguments: argparse.Namespace) -> list[str]:
    plan = found.plan
    gap = plan.peak_bytes - found.lower_bound
    proof = "optimal" if found.optimal else f"{gap:,} above the lower bound {found.lower_bound:,}"
    lines = [
        f"peak {plan.peak_bytes:,} bytes of {len(plan.placements):,} buffers, {proof}",
        f"{plan.total_bytes:,} bytes without sharing; {plan.bound_bytes:,} live at once; "
        f"{found.nodes:,} nodes in {found.seconds:.2f} s",
    ]
    if arguments.capacity is not None and plan.peak_bytes > arguments.capacity:
        missing = plan.peak_bytes - arguments.capacity
        lines.append(f"{missing:,} bytes more than the capacity of {arguments.capacity:,}")
    if arguments.output is not None:
        lines.append(f"wrote {arguments.output}")
    return lines


def table_of(problem: Instance, found: ExactResult) -> str:
    """The buffers in the file's order, at their offsets."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(("id", "lower", "upper", "size", "alignment", "offset"))
    for placed, times in zip(found.plan.placements, problem.times, strict=True):
        buffer = placed.buffer
        sizes = (buffer.size_bytes, buffer.alignment_bytes, placed.offset_bytes)
        writer.writerow((buffer.id, *times, *sizes))
    return content.getvalue()
