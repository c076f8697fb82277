"""Reshapes at the ends of quantized parts work on the floats, where they move nothing.

    %q = top.quantize(%x) : tensor<1x49x10x1x!top.quantized<...>>
    %1 = top.reshape(%q) {shape = [1, 1, 49, 10]}
 => %2 = top.reshape(%x) {shape = [1, 1, 49, 10]}
    %1 = top.quantize(%2)

A device that lays tensors out in blocks of channels has other bytes behind a reshape that changes
which numbers are channels; floats are those of a processor, whose tensors lie in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import QuantizedType, element_type_of, is_static, static_shape
from explorer.passes.analysis.matching import maker
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.simplify.eliminate_dead_code import EraseUnused
from explorer.passes.simplify.remove_no_ops import VIEW_RULES


class QuantizeReshaped(Rule):
    """reshape(quantize(x))   =>   quantize(reshape(x))

    Applies to what has one scale and is read by the reshape alone. Pays because a reshape of floats
    in order moves nothing. Exact.
    """

    matches = (ReshapeOp,)

    def rewrite(self, op: ReshapeOp, rewriter: RecordedRewriter) -> None:
        before = maker(op.input, QuantizeOp)
        if before is None or not all(is_static(v) for v in (op.input, op.output)):
            return
        if not before.parameters.is_per_tensor:
            raise Declined(f"{identity_of(before)} has a scale for each slice")
        if sum(1 for _ in before.output.uses) > 1:
            raise Declined(f"{identity_of(before)} is read by others than {identity_of(op)}")
        shape = list(static_shape(op.output))
        reshape = ReshapeOp.make([before.input, None], shape=shape)
        origin = origin_of(before.input)
        set_origins(reshape, [None if origin is None else origin.then("reshape", shape)])
        rewriter.insert_before(op, reshape)
        rewriter.replace(op, before.with_operands([reshape.output]))


class DequantizeReshaped(Rule):
    """dequantize(reshape(q))   =>   reshape(dequantize(q))

    Applies to what has one scale, or one for each slice where slices stay what they are, if nothing
    else reads the reshape. Pays for the same reason. Exact.
    """

    matches = (DequantizeOp,)

    def rewrite(self, op: DequantizeOp, rewriter: RecordedRewriter) -> None:
        reshape = maker(op.input, ReshapeOp)
        if reshape is None or not all(is_static(v) for v in (reshape.input, op.output)):
            return
        if not op.parameters.is_per_tensor and not _keeps_slices(reshape):
            raise Declined(f"{identity_of(op)} has a scale for each slice")
        if sum(1 for _ in reshape.output.uses) > 1:
            raise Declined(f"{identity_of(reshape)} is read by others than {identity_of(op)}")
        plain = op.with_operands([reshape.input])
        rewriter.insert_before(op, plain, like=op)
        back = ReshapeOp.make([plain.results[0], None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


def _keeps_slices(op: ReshapeOp) -> bool:
    """Whether each number keeps its scale: as many slices, behind as many numbers."""
    found = []
    for value in (op.input, op.output):
        kind, shape = element_type_of(value), static_shape(value)
        if not isinstance(kind, QuantizedType) or kind.is_per_tensor:
            return False
        axis = kind.axis_number
        found.append((prod(shape[:axis]), shape[axis], kind.scale_array.tolist()))
    return found[0] == found[1]


@dataclass(frozen=True)
class ReshapedFloats(FixpointPass):
    """What is reshaped beside a conversion between floats and integers are the floats."""

    name = "reshape-floats"
    rules = (QuantizeReshaped, DequantizeReshaped, *VIEW_RULES, EraseUnused)
