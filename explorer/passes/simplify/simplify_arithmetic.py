"""Elementwise arithmetic in its simplest form: fewer operations, constants on the right.

    %1 = top.binary(%two, %x) {kind = "mul"} : tensor<8xf32>
    %2 = top.binary(%1, %four) {kind = "div"} : tensor<8xf32>
    %3 = top.unary(%2) {kind = "relu"} : tensor<8xf32>
    %4 = top.binary(%3, %six) {kind = "min"} : tensor<8xf32>
 => %2 = top.binary(%x, %half) {kind = "mul"} : tensor<8xf32>
    %4 = top.unary(%2) {kind = "clip", alpha = 0.0, beta = 6.0} : tensor<8xf32>

Every rule lowers (number of operations, cost of their kinds, constants on the left), compared in
this order, so that the pass ends. Its result does not depend on the order of the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.arithmetic.casts import CAST_RULES
from explorer.passes.simplify.arithmetic.clamps import CLAMP_RULES
from explorer.passes.simplify.arithmetic.constants import CONSTANT_RULES
from explorer.passes.simplify.arithmetic.division import DIVISION_RULES
from explorer.passes.simplify.arithmetic.powers import POWER_RULES
from explorer.passes.simplify.arithmetic.rotations import ROTATION_RULES
from explorer.passes.simplify.arithmetic.selects import SELECT_RULES
from explorer.passes.simplify.arithmetic.signs import SIGN_RULES
from explorer.passes.simplify.eliminate_dead_code import EraseUnused
from explorer.passes.simplify.remove_no_ops import RemoveCast, RemoveClip, RemoveNeutralElement


@dataclass(frozen=True)
class SimplifyArithmetic(FixpointPass):
    """Chains of elementwise operations are shortened: constants merge, pairs cancel."""

    name = "simplify-arithmetic"
    rules = (
        RemoveCast,
        RemoveNeutralElement,
        RemoveClip,
        *SIGN_RULES,
        *CONSTANT_RULES,
        *DIVISION_RULES,
        *POWER_RULES,
        *CLAMP_RULES,
        *CAST_RULES,
        *SELECT_RULES,
        *ROTATION_RULES,
        EraseUnused,
    )
