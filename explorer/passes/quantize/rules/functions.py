"""Functions of one quantized number become tables.

   %x = top.dequantize(%q) {to = f32}
   %y = top.unary(%x) {kind = "gelu"}
   %r = top.quantize(%y) {to = !top.quantized<ui8, 0.01:17>}
=> %r = top.lookup(%q) {function = "gelu", table = array<i64: 17, 17, ...>, to = ...}
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.constants import scalar
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.requantization import RequantizationAttr, integer_limits
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.quantization.lookup import LookupOp, table_of
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.support.quantized_scalars import stored_array
from explorer.ir.types import QuantizedType, shape_of
from explorer.ir.weights import Weights
from explorer.passes.analysis.matching import maker

Chain = list[UnaryOp | BinaryOp]


class TabulateFunction(Rule):
    """quantize(gelu(dequantize(x)))   =>   lookup(x)

    Applies to elementwise functions of one number with one scale, also to several of them, and to
    sums, products and the like with a constant. Pays because the device may have no floats, and a
    table costs the same for every function. Exact for bytes, within one step for wider numbers.
    """

    matches = (QuantizeOp,)

    def rewrite(self, op: QuantizeOp, rewriter: RecordedRewriter) -> None:
        chain, start = functions_behind(op.input, rewriter.weights)
        inner = maker(start, DequantizeOp)
        if not chain or inner is None:
            return
        name = identity_of(op)
        if not op.to.is_per_tensor or not inner.parameters.is_per_tensor:
            raise Declined(f"{name} or what it is made of has a scale for each slice")
        if inner.parameters.storage.width.data > 16:
            raise Declined(f"{identity_of(chain[-1])} is of sums: they are no narrow numbers")
        try:
            table = table_of(
                lambda x: _applied(chain, x, rewriter.weights),
                inner.parameters,
                op.to,
                stored_limits(inner.input, inner.parameters),
            )
        except ValueError as error:
            raise Declined(f"{name}: {error}") from error
        new = LookupOp.make(
            [inner.input],
            function="_".join(step.kind.data for step in reversed(chain)),
            table=table.entries.tolist(),
            to=op.to,
            step_bits=table.step_bits or None,
            fraction_bits=table.fraction_bits or None,
            exact=table.exact.tolist() or None,
            exact_from=table.exact_from or None,
        )
        rewriter.replace(op, new, absorbs=[*chain, inner])


def stored_limits(stored: SSAValue, kind: QuantizedType) -> tuple[int, int]:
    """Between which numbers an operation keeps those that it stores: a relu or clip before it."""
    op = stored.owner
    if isinstance(op, QuantizeOp):
        clamp = maker(op.input, UnaryOp)
        if clamp is not None and clamp.clamps and clamp.result_type is None:
            return clamp_limits(clamp, kind)
    by = op.properties.get("by") if isinstance(op, TopOperation) else None
    return by.limits if isinstance(by, RequantizationAttr) else integer_limits(kind.storage)


def clamp_limits(clamp: UnaryOp, to: QuantizedType) -> tuple[int, int]:
    """The stored numbers between which a relu or clip keeps its result."""
    bounds = (0.0, np.inf) if clamp.kind.data == "relu" else clamp.parameters
    low, high = stored_array(np.array(bounds, np.float32), to).tolist()
    return int(low), int(high)


def functions_behind(value: SSAValue, weights: Weights) -> tuple[Chain, SSAValue]:
    """Elementwise functions of one number each, the last one first, and what the first is of."""
    chain: Chain = []
    while True:
        op = value.owner
        operand = _single_operand(op, weights) if isinstance(op, UnaryOp | BinaryOp) else None
        if operand is None:
            return chain, value
        assert isinstance(op, UnaryOp | BinaryOp)
        chain.append(op)
        value = operand


def _single_operand(op: UnaryOp | BinaryOp, weights: Weights) -> SSAValue | None:
    """The operand that the result is a function of; None where there are two."""
    if op.result_type is not None:
        return None
    if isinstance(op, UnaryOp):
        return None if op.table.tests else op.input
    if op.table.compares:
        return None
    for operand, other in ((op.left, op.right), (op.right, op.left)):
        if scalar(other, weights) is not None and shape_of(operand) == shape_of(op.output):
            return operand
    return None


def _applied(chain: Sequence[UnaryOp | BinaryOp], x: np.ndarray, weights: Weights) -> np.ndarray:
    """The functions one after the other, in double precision."""
    for op in reversed(chain):
        if isinstance(op, UnaryOp):
            x = op.table.meaning(x, *op.parameters)
            continue
        left, right = scalar(op.left, weights), scalar(op.right, weights)
        x = op.table.meaning(
            x if left is None else np.asarray(left), x if right is None else np.asarray(right)
        )
    return x
