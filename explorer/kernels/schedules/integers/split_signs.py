"""Register tiles of dot products that split signs.

    sums += |w| * ((x - o) ^ s)                    w: one vector of filters, its sizes and flips

Each vector of filters takes two registers, of sizes and of flips, and one more register holds what
adds up pairs. So a tile has one vector of filters, and as many pixels or rows as are left.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.tiles import Work

SPLITTING_REGISTERS = 13
"""What a dot product that splits signs leaves of 16: eleven sums of one vector, and operands."""


def for_split_signs(work: Work, costs: CostMachine) -> tuple[Work, CostMachine]:
    """The same work and costs, for tiles of one vector and the registers that are left."""
    core = replace(costs.core, vector_registers=SPLITTING_REGISTERS)
    return replace(work, blocks=1), replace(costs, core=core)
