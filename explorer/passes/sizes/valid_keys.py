"""Attention over the first keys only: the others have no share.

    %y = top.attention(%q, %k, %v, mask = %m)
 => %both = top.binary(%m, %valid) {kind = "and"}
    %y = top.attention(%q, %k, %v, mask = %both)

Where false in the mask stands for a finite number, keys are left out by the bias, which is added
after it: minus infinity.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.top.attention import AttentionOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.types import element_type_of, numpy_dtype


class Adds(Protocol):
    """Adds operations and constants in front of another operation."""

    def added(self, anchor: TopOperation, op: TopOperation, /) -> SSAValue: ...

    def weight(self, anchor: TopOperation, role: str, array: np.ndarray, /) -> SSAValue: ...


def over_valid_keys(op: AttentionOp, valid: SSAValue, adds: Adds) -> AttentionOp:
    """The attention with a share for valid keys only. `valid` broadcasts to its scores; scores of
    other keys must be numbers where the mask's `fill` is one."""
    mask, bias, fill = op.mask, op.bias, op.masked_score
    if mask is None:
        mask, fill = valid, -np.inf
    elif fill == -np.inf:
        mask = adds.added(op, BinaryOp.make([mask, valid], kind="and"))
    else:
        kind = numpy_dtype(element_type_of(op.query))
        if bias is None:
            bias = adds.weight(op, "zero", np.array(0, kind))
        nothing = adds.weight(op, "nothing", np.array(-np.inf, kind))
        bias = adds.added(op, SelectOp.make([valid, bias, nothing]))
    return AttentionOp.make(
        [op.query, op.key, op.value, mask, bias],
        scale=op.get("scale"),
        fill=None if fill == -np.inf else fill,
        zero_masked=op.get("zero_masked"),
    )
