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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import Origin, origin_of, set_origins
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.broadcasting import ElementwiseOperation
from explorer.ir.top.linear import MatMulOp
from explorer.ir.top.movement import ConcatOp, ReshapeOp, SliceOp
from explorer.ir.top.normalization import LayerNormOp, SoftmaxOp
from explorer.ir.top.quantized import QuantizationOperation
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.passes.axes import AxisGroup, axis_groups, moved_through, source_axis
from explorer.passes.matching import constant, is_constant, maker, weight_name
from explorer.passes.movement.slices import make_slice, static_ranges


@dataclass(frozen=True)
class Reshaped:
    """The shapes around the reshape that an operation reads, and the axes that correspond."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    groups: tuple[AxisGroup, ...]

    def axis(self, axis: int) -> int | None:
        """The axis before the reshape with the elements of one behind it."""
        return source_axis(self.groups, axis, self.source, self.target)


class SinkReshape(Rule):
    """relu(reshape(x))   =>   reshape(relu(x))

    Applies to elementwise operations, products with a constant matrix, softmax, layer norm, concat
    and slice, if the axes that they work on are axes of x as well, all other operands are
    constants or reshaped alike, and nothing else reads the reshape. Pays because what made x and
    the operation may then be fused, and reshapes meet and cancel. Exact.
    """

    matches = (ElementwiseOperation, MatMulOp, SoftmaxOp, LayerNormOp, ConcatOp, SliceOp)

    def rewrite(self, op: TopOperation, rewriter: RecordedRewriter) -> None:
        if isinstance(op, QuantizationOperation):
            return  # what is reshaped may have a scale for each slice of an axis
        reshapes = [m for m in (maker(o, ReshapeOp) for o in op.operands) if m is not None]
        if not reshapes or (isinstance(op, MatMulOp) and maker(op.left, ReshapeOp) is None):
            return
        if not all(is_static(v) for v in (*op.operands, op.results[0], reshapes[0].input)):
            raise Declined(f"the shapes at {identity_of(op)} are not known yet")
        for reshape in reshapes:
            reads = sum(o.owner is reshape for o in op.operands)
            if sum(1 for _ in reshape.output.uses) > reads:
                raise Declined(f"{identity_of(reshape)} is read by others than {identity_of(op)}")
        sink = next(sink for kind, sink in _SINK.items() if isinstance(op, kind))
        new = sink(op, reshapes, rewriter)
        origin = origin_of(op.results[0])
        set_origins(new, [_reshaped_origin(origin, static_shape(new.results[0]))])
        rewriter.insert_before(op, new, stem=identity_of(op), like=op)
        back = ReshapeOp.make([new.results[0], None], shape=list(static_shape(op.results[0])))
        rewriter.replace(op, back, absorbs=list(dict.fromkeys(reshapes)))


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
    shape = moved_through(own, around.source, around.target, around.groups)
    if shape is None:
        raise Declined(f"a constant of {identity_of(op)} varies along a part of an axis of x")
    while shape and shape[0] == 1:
        shape = shape[1:]
    return value if shape == own else array.reshape(shape)


def _as_values(
    operands: Sequence[SSAValue | np.ndarray], op: TopOperation, rewriter: RecordedRewriter
) -> list[SSAValue]:
    """Operands with new weights for arrays."""
    name = weight_name(op, "reshaped")
    return [rewriter.add_weight(op, name, o) if isinstance(o, np.ndarray) else o for o in operands]


def _named(op: TopOperation, values: Sequence[SSAValue]) -> dict[str, SSAValue]:
    """Operands by name, for an operation with one value for each (absent ones are left out)."""
    names = [name for name, _ in op.get_irdl_definition().operands if getattr(op, name) is not None]
    return dict(zip(names, values, strict=True))


# -- how a reshape passes an operation -----------------------------------------------------------


def _through_elementwise(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """The reshape whose result is as large as the operation's sets the shape."""
    whole = [r for r in reshapes if shape_of(r.output) == shape_of(op.results[0])]
    if not whole:
        raise Declined(f"what is reshaped is broadcast by {identity_of(op)}")
    around = _around(whole[0], op)
    operands = [_operand_before(o, around, op, rewriter) for o in op.operands]
    return op.altered(**_named(op, _as_values(operands, op, rewriter)))


def _through_matmul(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """Rows of any batch times one constant matrix are rows."""
    assert isinstance(op, MatMulOp)
    around = _around(reshapes[0], op)
    if not is_constant(op.right) or len(shape_of(op.right)) != 2:
        raise Declined(f"the right side of {identity_of(op)} is no constant matrix")
    if op.residual is not None:
        raise Declined(f"something is added in {identity_of(op)} already")
    last = len(around.source) - 1
    if len(around.source) < 2 or around.source[last] != around.target[-1]:
        raise Declined(f"the columns of {identity_of(op)} are no axis before the reshape")
    return op.altered(left=reshapes[0].input)


def _through_softmax(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    axis = _around(reshapes[0], op).axis(op.get("axis"))
    if axis is None:
        raise Declined(f"the axis of {identity_of(op)} is none before the reshape")
    return op.altered(input=reshapes[0].input, axis=axis)


def _through_layer_norm(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """The normalized axes are the last ones: groups from some axis on, and only they."""
    assert isinstance(op, LayerNormOp)
    if op.input.owner is not reshapes[0]:
        raise Declined(f"the scale or shift of {identity_of(op)} is computed")
    around, first = _around(reshapes[0], op), op.get("axis")
    inside = [
        g for g in around.groups if any(around.target[a] != 1 for a in g.target if a >= first)
    ]
    if not inside or any(a < first and around.target[a] != 1 for g in inside for a in g.target):
        raise Declined(f"the axes of {identity_of(op)} are none before the reshape")
    start = min(min(g.source) for g in inside)
    operands = [_operand_before(o, around, op, rewriter) for o in list(op.operands)[1:]]
    values = [reshapes[0].input, *_as_values(operands, op, rewriter)]
    return op.altered(**_named(op, values), axis=start)


def _through_concat(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    """All inputs are reshaped alike but for their sizes along the axis."""
    assert isinstance(op, ConcatOp)
    if len(reshapes) != len(op.inputs):
        raise Declined(f"not all inputs of {identity_of(op)} are reshaped")
    axes = {_around(r, op).axis(op.get("axis")) for r in reshapes}
    (axis,) = axes if len(axes) == 1 else (None,)
    if axis is None:
        raise Declined(f"the axis of {identity_of(op)} is none before the reshapes")
    others = {
        tuple(size for a, size in enumerate(static_shape(r.input)) if a != axis) for r in reshapes
    }
    if len(others) != 1:
        raise Declined(f"the inputs of {identity_of(op)} had different shapes before")
    return op.altered(inputs=[r.input for r in reshapes], axis=axis)


def _through_slice(
    op: TopOperation, reshapes: Sequence[ReshapeOp], rewriter: RecordedRewriter
) -> TopOperation:
    assert isinstance(op, SliceOp)
    around, ranges = _around(reshapes[0], op), static_ranges(op)
    if ranges is None:
        raise Declined(f"the bounds of {identity_of(op)} are computed")
    taken = [range(size) for size in around.source]
    for axis, (own, size) in enumerate(zip(ranges, around.target, strict=True)):
        if own == range(size):
            continue
        before = around.axis(axis)
        if before is None:
            raise Declined(f"axis {axis} of {identity_of(op)} is none before the reshape")
        taken[before] = own
    return make_slice(reshapes[0].input, taken)


_Sink = Callable[[TopOperation, Sequence[ReshapeOp], RecordedRewriter], TopOperation]

_SINK: dict[type[TopOperation], _Sink] = {
    ElementwiseOperation: _through_elementwise,
    MatMulOp: _through_matmul,
    SoftmaxOp: _through_softmax,
    LayerNormOp: _through_layer_norm,
    ConcatOp: _through_concat,
    SliceOp: _through_slice,
}
