"""Schedules for GPUs: which of them fit a kernel, and the one for everything else.

tensor_cores  products by matrix instructions, where a target allows halves (gpu_tensor_cores.py)
vectors       products of few rows: groups share the depth of a column (gpu_vectors.py)
groups        tiles of products in local memory (gpu_products.py)
row_groups    reductions of rows by work-groups (gpu_rows.py)
items         every independent iteration is a work-item, neighbours side by side in memory

A work-item of `items` computes one vector of four floats where a dimension is contiguous, so that
neighbouring items read and write neighbouring 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from explorer.kernels.loops.nest import LoopNest, extent_of
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.convolution import is_blocked_convolution
from explorer.kernels.schedules.gpu.products import (
    group_operands,
    schedule_convolution_groups,
    schedule_matmul_groups,
)
from explorer.kernels.schedules.gpu.rows import find_rows, schedule_row_groups
from explorer.kernels.schedules.gpu.tensor_cores import is_matrix_product, schedule_tensor_cores
from explorer.kernels.schedules.gpu.tiles import LANES
from explorer.kernels.schedules.gpu.vectors import is_vector_product, schedule_vector_product
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import schedule_plain
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.groups import group
from explorer.kernels.steps.pack import Pack, block_of

ITEMS_PER_GROUP = 128
"""Of kernels without local memory: a multiple of every GPU's lanes (32 or 64)."""

WHY_GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "tensor_cores": "matrix instructions multiply halves and add in float32",
        "vectors": "few rows: a work-group shares the depth of its columns",
        "groups": "a work-group shares tiles in local memory",
        "row_groups": "a work-group reduces a row by a tree",
        "items": "every independent iteration is a work-item",
    }
)

Scheduler = Callable[[Schedule, Machine, Mapping[str, Pack], Choices], None]


def gpu_schedulers(
    nest: LoopNest, packs: Mapping[str, Pack], family: str, machine: Machine
) -> dict[str, Scheduler]:
    """The schedules for a GPU that fit a kernel, the best first; none for other machines."""
    if machine.processor != "gpu":
        return {}
    offered: dict[str, Scheduler] = {}
    if (
        family == "convolution"
        and is_blocked_convolution(nest, packs, "n o i j c p q")
        and extent_of(nest.loop("o")) % LANES == 0
        and machine.vector_floats == LANES
    ):
        offered["groups"] = schedule_convolution_groups
    if family == "matmul" and is_vector_product(nest, packs):
        offered["vectors"] = schedule_vector_product
    if family == "matmul" and group_operands(nest, packs) is not None:
        offered["groups"] = schedule_matmul_groups
    if family == "matmul" and machine.tensor_cores and is_matrix_product(nest, packs):
        others = dict(offered)
        offered["tensor_cores"] = schedule_tensor_cores
        if machine.precision == "mixed":
            offered = {"tensor_cores": schedule_tensor_cores, **others}
    if not any(block_of(pack) for pack in packs.values()) and find_rows(nest) is not None:
        offered["row_groups"] = schedule_row_groups
    offered["items"] = schedule_items
    return offered


def schedule_items(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Any kernel: as `plain`, and every leading independent loop becomes work-items."""
    schedule_plain(schedule, machine, packs, choices)
    legal = (32, 64, 128, 256)
    why = "whole groups of the lanes that a GPU runs together"
    schedule.apply(group, items=choices.number("group", ITEMS_PER_GROUP, legal, why))
