"""Movement of elements in its simplest form: what is copied twice is copied once, or not at all.

    %1 = top.concat(%a, %b) {axis = 1} : tensor<1x8x4x4xf32>        %a, %b : tensor<1x4x4x4xf32>
    %2 = top.slice(%1) {starts = [0, 4, 0, 0], stops = [1, 8, 4, 4], ...} : tensor<1x4x4x4xf32>
    %3 = top.pad(%2) {low = [0, 0, 1, 1], high = [0, 0, 1, 1], ...} : tensor<1x4x6x6xf32>
    %4 = top.conv(%3, %w) {pads = [0, 0, 0, 0], ...} : tensor<1x8x4x4xf32>
 => %4 = top.conv(%b, %w) {pads = [1, 1, 1, 1], ...} : tensor<1x8x4x4xf32>

Every rule lowers (elements that are copied, number of operations, how far reshapes are from the
outputs), compared in this order, so that the pass ends. Its result does not depend on the order
of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.rewriting import Rule
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.eliminate_dead_code import EraseUnused
from explorer.passes.simplify.movement.concats import CONCAT_RULES
from explorer.passes.simplify.movement.expands import EXPAND_RULES
from explorer.passes.simplify.movement.gathers import GATHER_RULES
from explorer.passes.simplify.movement.pads import PAD_RULES
from explorer.passes.simplify.movement.reductions import REDUCTION_RULES
from explorer.passes.simplify.movement.shuffles import SHUFFLE_RULES
from explorer.passes.simplify.movement.slices import SLICE_RULES
from explorer.passes.simplify.remove_no_ops import MOVEMENT_NO_OPS

MOVEMENT_RULES: tuple[type[Rule], ...] = (
    *MOVEMENT_NO_OPS,
    *SLICE_RULES,
    *CONCAT_RULES,
    *SHUFFLE_RULES,
    *PAD_RULES,
    *GATHER_RULES,
    *EXPAND_RULES,
    *REDUCTION_RULES,
)


@dataclass(frozen=True)
class SimplifyMovement(FixpointPass):
    """Slices, concats, pads, gathers, expands and reductions in a row become one, or nothing."""

    name = "simplify-movement"
    rules = (*MOVEMENT_RULES, EraseUnused)
