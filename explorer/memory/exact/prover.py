"""A second prover: constraints for CP-SAT of OR-Tools, which decides what the search leaves open.

    a: sections 0-1, 2 units    ->    rectangles [0, 2) x [y_a, y_a + 2), 0 <= y_a <= capacity - 2
    b: sections 1-2, 3 units          [1, 3) x [y_b, y_b + 3), no two of which overlap

It takes other branches than the search: on small, tight problems each settles some that the other
does not. How far it comes depends on time, so that only `explorer plan` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.memory.exact.problem import Buffers
from explorer.memory.exact.search import ANYWHERE, FOUND, IMPOSSIBLE, LIMIT


def has_prover() -> bool:
    """Whether OR-Tools is installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return True


def prove(
    buffers: Buffers, part: Sequence[int], capacity: int, seconds: float
) -> tuple[int, dict[int, int]]:
    """FOUND with the offsets of a part, IMPOSSIBLE, or LIMIT; all in units."""
    from ortools.sat.python import cp_model  # pyright: ignore[reportMissingImports]  (an extra)

    model = cp_model.CpModel()
    offsets, lives, places = {}, [], []
    for i in part:
        size, alignment, fixed = buffers.sizes[i], buffers.alignments[i], buffers.fixed[i]
        first, last = buffers.firsts[i], buffers.lasts[i]
        highest = capacity - size
        if highest < max(0, fixed):
            return IMPOSSIBLE, {}
        if fixed != ANYWHERE:
            offset = model.new_constant(fixed)
        elif alignment == 1:
            offset = model.new_int_var(0, highest, f"offset_{i}")
        else:
            offset = alignment * model.new_int_var(0, highest // alignment, f"offset_{i}")
        offsets[i] = offset
        lives.append(model.new_fixed_size_interval_var(first, last - first, f"life_{i}"))
        places.append(model.new_fixed_size_interval_var(offset, size, f"place_{i}"))
    model.add_no_overlap_2d(lives, places)
    model.add_cumulative(lives, [buffers.sizes[i] for i in part], capacity)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 8
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return FOUND, {i: solver.value(offset) for i, offset in offsets.items()}
    return (IMPOSSIBLE if status == cp_model.INFEASIBLE else LIMIT), {}
