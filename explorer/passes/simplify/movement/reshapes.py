"""Reshapes move towards the outputs: what they pass works on the shape that came before.

    %1 = top.reshape(%a) {shape = [1, 128, 64]} : tensor<1x128x64xf32>       %a : tensor<128x64xf32>
    %2 = top.binary(%1, %bias) {kind = "add"} : tensor<1x128x64xf32>
 => %2 = top.binary(%a, %bias) {kind = "add"} : tensor<128x64xf32>
    %3 = top.reshape(%2) {shape = [1, 128, 64]} : tensor<1x128x64xf32>

A reshape costs nothing by itself, but it stands between operations that could be fused, and
between reshapes that would cancel. Every step takes an operation out from under a reshape and
adds none, so that it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.interfaces import Reshapable, Reshaped
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.quantization.quantized import QuantizationOperation
from explorer.ir.types import QuantizedType, element_type_of, is_static, shape_of, static_shape
from explorer.passes.analysis.axes import axis_groups, moved_through
from explorer.passes.analysis.matching import constant, maker, weight_name


class SinkReshape(Rule):
    """relu(reshape(x))   =>   reshape(relu(x))

    Applies to elementwise operations, products with a constant matrix, softmax, layer norm, concat
    and slice, if the axes that they work on are axes of x as well, all other operands are
    constants or reshaped alike, and nothing else reads the reshape. Pays because what made x and
    the operation may then be fused, and reshapes meet and cancel. Exact.
    """

    matches = (Reshapable,)

    def rewrite(self, op: Reshapable, rewriter: RecordedRewriter) -> None:
        if isinstance(op, QuantizationOperation) or _has_slices(op):
            return  # what is reshaped may have a scale for each slice of an axis
        asked = op.reshaped_operands()
        numbers = range(len(op.operands)) if asked is None else asked
        made = [maker(op.operands[number], ReshapeOp) for number in numbers]
        reshapes = [m for m in made if m is not None]
        if not reshapes:
            return
        if asked is not None and len(reshapes) < len(made):
            raise Declined(f"not all inputs of {identity_of(op)} are reshaped")
        if not all(is_static(v) for v in (*op.operands, op.results[0], reshapes[0].input)):
            raise Declined(f"the shapes at {identity_of(op)} are not known yet")
        for reshape in reshapes:
            reads = sum(o.owner is reshape for o in op.operands)
            if sum(1 for _ in reshape.output.uses) > reads:
                raise Declined(f"{identity_of(reshape)} is read by others than {identity_of(op)}")
        sink = _following if asked is None else _one_by_one
        new = sink(op, reshapes, rewriter)
        origin = origin_of(op.results[0])
        set_origins(new, [_reshaped_origin(origin, static_shape(new.results[0]))])
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        back = ReshapeOp.make([new.results[0], None], shape=list(static_shape(op.results[0])))
        rewriter.replace(op, back, absorbs=list(dict.fromkeys(reshapes)))


def _has_slices(op: TopOperation) -> bool:
    """Whether integers are taken for numbers with scales along an axis."""
    kind = op.to if isinstance(op, BitcastOp) else None
    return isinstance(kind, QuantizedType) and not kind.is_per_tensor


def _reshaped_origin(origin: Origin | None, shape: Sequence[int]) -> Origin | None:
    return None if origin is None else origin.then("reshape", shape)


def _around(reshape: ReshapeOp, op: TopOperation) -> Reshaped:
    source, target = static_shape(reshape.input), static_shape(reshape.output)
    groups = axis_groups(source, target)
    if groups is None:
        raise Declined(f"{identity_of(op)} works on no elements")
    return Reshaped(source, target, tuple(groups))


def _operand_before(
    value: SSAValue, around: Reshaped, op: TopOperation, rewriter: RecordedRewriter
) -> SSAValue | np.ndarray:
    """What stands for an operand that broadcasts to the target; an array for a reshaped constant.

    Declined where the operand does not follow. Changes nothing.
    """
    reshape = maker(value, ReshapeOp)
    own = static_shape(value)
    if reshape is not None and own == around.target:
        if static_shape(reshape.input) == around.source:
            return reshape.input
        raise Declined(f"the operands of {identity_of(op)} had different shapes before")
    if all(size == 1 for size in own) and len(own) <= len(around.source):
        return value
    array = constant(value, rewriter.weights)
    if array is None:
        raise Declined(f"another operand of {identity_of(op)} is not reshaped")
    kind = element_type_of(value)
    if isinstance(kind, QuantizedType) and not kind.is_per_tensor:
        raise Declined(f"a constant of {identity_of(op)} has a scale for each slice")
    shape = moved_through(own, around.source, around.target, around.groups)
    if shape is None:
        raise Declined(f"a constant of {identity_of(op)} varies along a part of an axis of x")
    while shape and shape[0] == 1:
        shape = shape[1:]
    return value if shape == own else array.reshape(shape)


def _as_values(
    operands: Sequence[SSAValue | np.ndarray], op: TopOperation, rewriter: RecordedRewriter
) -> list[SSAValue]:
    """Operands with new weights for arrays, which are numbers of the type that they were of."""
    name = weight_name(op, "reshaped")

    def of(new: SSAValue | np.ndarray, old: SSAValue) -> SSAValue:
        if not isinstance(new, np.ndarray):
            return new
        kind = element_type_of(old)
        own = kind if isinstance(kind, QuantizedType) else None
        return rewriter.add_weight(op, name, new, element_type=own)

    return [of(new, old) for new, old in zip(operands, op.operands, strict=True)]


# -- how a reshape passes an operation -----------------------------------------------------------


def _following(
    op: Reshapable, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """The reshape whose result is as large as the operation's sets the shape for all operands."""
    whole = [r for r in reshapes if shape_of(r.output) == shape_of(op.results[0])]
    if not whole:
        raise Declined(f"what is reshaped is broadcast by {identity_of(op)}")
    around = _around(whole[0], op)
    properties = _properties(op, [around])
    operands = [_operand_before(o, around, op, rewriter) for o in op.operands]
    return op.with_operands(_as_values(operands, op, rewriter), **properties)


def _one_by_one(
    op: Reshapable, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """Some operands are taken as they were before their reshapes; all others stay."""
    properties = _properties(op, [_around(reshape, op) for reshape in reshapes])
    before = {id(reshape.output): reshape.input for reshape in reshapes}
    return op.with_operands([before.get(id(o), o) for o in op.operands], **properties)


def _properties(op: Reshapable, around: Sequence[Reshaped]) -> dict[str, Any]:
    try:
        return dict(op.before_reshape(around))
    except ValueError as error:
        raise Declined(f"{identity_of(op)}: {error}") from None
