"""Schedule of products of few rows for GPUs (batch 1): a work-group per few columns.

    parallel b.., ng:                                    16 or fewer columns
        {item ni}: sums = bias
        {item kp ni}: for ks: part[kp, ni] += x[64 ks + kp] * w[ng, 64 ks + kp, ni]
        {item ni}: part[i] += part[i + 32] ..            a tree over the items of a column
        {item ni}: y = activation(sums + part[0])

A product with one row uses every weight once: what counts is how fast weights come from memory.
The depth is divided among the items, since there are too few columns for all of them, and the
weights are packed such that neighbouring items read neighbouring 16 bytes: a group reads one
stream. Several rows share it.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.kernels.loops.nest import LoopNest, element_name, extent_of
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.gpu.tiles import LANES, cut_pieces, narrow_weight, suffixed
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import matrix_operands, weight_pack
from explorer.kernels.schedules.plain import contract_scratch, finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import fuse_around
from explorer.kernels.steps.groups import group, items, tree
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate, rfactor
from explorer.kernels.steps.restructure import reorder, split
from explorer.kernels.steps.vectorize import vectorize

MAX_ROWS = 4
"""More rows use a weight so often that tiles in local memory are worth it."""

MIN_PARTS = 8
"""Items among which the depth of a column is divided; fewer would read in strides."""

PARTS = (8, 16, 32, 64, 128)
WHY_PARTS = "items that share the depth of a column: a tree adds their sums"
WHY_COLUMNS = "vectors of four columns side by side"


def is_vector_product(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """Whether a product has few rows, columns in vectors and a depth that items can share."""
    operands = matrix_operands(nest, packs)
    if operands is None:
        return False
    buffers = (operands.left, operands.right, operands.result)
    if any(element_name(nest.buffers[name]) != "f32" for name in buffers):
        return False
    rows, columns, depth = (extent_of(nest.loop(name)) for name in "mnk")
    return rows <= MAX_ROWS and columns >= LANES and depth % MIN_PARTS == 0


def schedule_vector_product(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n k; see `is_vector_product` for what is required."""
    nest = schedule.nest
    operands = matrix_operands(nest, packs)
    assert operands is not None
    columns, depth = (extent_of(nest.loop(name)) for name in "nk")
    quads = columns // LANES
    legal = [parts for parts in PARTS if depth % parts == 0]
    parts = choices.number("parts", max(p for p in legal if p <= 64), legal, WHY_PARTS)
    most = max(1, min(4, quads))
    vectors = choices.number("column_items", min(2, most), range(1, most + 1), WHY_COLUMNS)
    batch = " ".join(operands.batch)
    pieces: list[tuple[str, int, int]] = []
    sizes = (vectors * LANES, LANES, 1)
    for s in cut_pieces(schedule, "n", f"{batch} m k", "", sizes, "_tail"):
        width = extent_of(nest.loop("n" + s))
        lanes = LANES if width % LANES == 0 else 1
        fitting = [d for d in range(1, vectors + 1) if width // lanes % d == 0]
        pieces.append((s, fitting[-1], lanes))
    over_items: list[str] = []
    leading: list[str] = []
    for s, column_items, lanes in pieces:
        schedule.apply(split, loop=f"k{s}", into=f"ks{s} kp{s}", factors=(parts,))
        into = suffixed("ng ni nl", s)
        schedule.apply(split, loop=f"n{s}", into=into, factors=(column_items, lanes))
        order = suffixed(f"{batch} ng ks kp ni m nl", s)
        schedule.apply(reorder, order=order)
        schedule.apply(accumulate, at=f"ks{s}", buffer=operands.result, name=f"sums{s}")
        leading += suffixed(f"{batch} ng", s).split()
    fuse_around(schedule, operands.result, choices)
    narrow_weight(schedule, machine, operands.right, choices, ("float32", "mixed"))
    if nest.roles[operands.right] == "weight":
        schedule.pack(operands.right, weight_pack(nest, operands.right, vectors, LANES))
    for s, _, _ in pieces:
        name = f"part{s}"
        schedule.apply(rfactor, outer=f"ks{s}", inner=f"kp{s}", buffer=f"sums{s}", name=name)
        schedule.apply(reorder, order=suffixed("kp ni ks m nl", s))
        schedule.apply(accumulate, at=f"ks{s}", buffer=name)
        schedule.apply(tree, loop=f"kp{s}_sum")
        levels = [f"kp{s}_sum_{1 << power}" for power in range(parts.bit_length() - 1)]
        over_items += [f"kp{s}", *reversed(levels), f"kp{s}_sum_last", f"ni{s}"]
    for s, _, lanes in pieces:
        if lanes > 1:
            schedule.apply(vectorize, loop=f"nl{s}")
    schedule.apply(unroll, loops=" ".join(f"m{s}" for s, _, _ in pieces))
    schedule.apply(items, loops=" ".join(over_items))
    schedule.apply(parallel, loops=" ".join(leading))
    schedule.apply(group, items=parts * vectors)
    finish_statements(schedule, machine)
    contract_scratch(schedule)
