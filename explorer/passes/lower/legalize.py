"""Legalization: what has no kernel of its own is written in operations that have one.

    %1 = top.conv(%x, %w) {pads = [1, 1], strides = [1], ...} : tensor<1x8x32xf32>
 => %2 = top.reshape(%x) {shape = [1, 3, 1, 32]} : tensor<1x3x1x32xf32>
    %3 = top.conv(%2, %w2) {pads = [0, 1, 0, 1], strides = [1, 1], ...} : tensor<1x8x1x32xf32>
    %1 = top.reshape(%3) {shape = [1, 8, 32]} : tensor<1x8x32xf32>

Kernels know windows over two dimensions with a halo around their input, and averages of whole
windows. What has no rule here and no kernel is reported when it is lowered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, Float32Type
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of, set_origins
from explorer.ir.rewriting import (
    Declined,
    RecordedRewriter,
    Rewrite,
    RewriteOptions,
    Rule,
    apply_rules,
)
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.normalization import BatchNormOp
from explorer.ir.top.shapes import RangeOp
from explorer.ir.types import (
    QuantizedType,
    element_type_of,
    is_static,
    numpy_dtype,
    shape_of,
    static_shape,
)
from explorer.passes.analysis.matching import constant, dtype_of, weight_name
from explorer.passes.lower.phases import ConvolveByPhases
from explorer.passes.lower.widen import MoveWide, RoundInProduct, WidenProducts
from explorer.passes.simplify.fold_batch_norm import split_batch_norm
from explorer.passes.simplify.remove_no_ops import MergeReshapes, RemoveReshape
from explorer.passes.simplify.unroll_control import ComputeBothBranches, MaskIterations
from explorer.targets.capabilities import ORDINARY, Capabilities

MAX_JOINED_OPERANDS = 32
"""Operands that a kernel joins: each has loops of its own, and every two are compared."""


class JoinInGroups(Rule):
    """concat(x1, ..., x1000)   =>   concat(concat(x1, ..., x32), ..., concat(x993, ..., x1000))

    Applies to more than 32 operands. Pays because scheduling takes time with the square of what a
    kernel has, and because groups of the same shapes share one kernel. Where a group can be
    written in place, nothing is copied twice.
    """

    matches = (ConcatOp,)

    def rewrite(self, op: ConcatOp, rewriter: RecordedRewriter) -> None:
        operands = list(op.inputs)
        if len(operands) <= MAX_JOINED_OPERANDS:
            return
        axis, groups = op.get("axis"), []
        for first in range(0, len(operands), MAX_JOINED_OPERANDS):
            group = operands[first : first + MAX_JOINED_OPERANDS]
            if len(group) > 1:
                joined = ConcatOp.make([group], axis=axis)
                rewriter.insert_before(op, joined)
                group = [joined.output]
            groups += group
        rewriter.replace(op, ConcatOp.make([groups], axis=axis))


class CountPadding(Rule):
    """average(x) without padding   =>   average(x) with padding * (window size / elements inside)

    Applies when the windows of an average pool reach into the padding but divide by what lies
    inside. The second factor depends on the position only: it is a constant table. Pays because a
    kernel then divides by one number; without pads nothing but a property changes.
    """

    matches = (PoolOp,)

    def rewrite(self, op: PoolOp, rewriter: RecordedRewriter) -> None:
        if op.get("kind") != "average" or op.counts_padding:
            return
        whole = op.altered(includes_padding=True)
        if not any(op.get("pads")):
            rewriter.replace(op, whole)
            return
        if not is_static(op.input):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        ones = np.ones((1, 1, *static_shape(op.input)[2:]), np.float64)
        (inside,) = whole.evaluate(ones)
        if not inside.all():
            raise Declined(f"a window of {identity_of(op)} lies in the padding altogether")
        table = (1 / inside).astype(dtype_of(op.input))
        factors = rewriter.add_weight(op, weight_name(op, "counts"), table)
        rewriter.insert_before(op, whole)
        rewriter.replace(op, BinaryOp.make([whole.output, factors], kind="mul"))


class LiftToTwoDimensions(Rule):
    """conv(x : 1x3x32, w : 8x3x5)   =>   reshape(conv(reshape(x) : 1x3x1x32, w : 8x3x1x5))

    Applies to convolutions and pools over one dimension. Pays because the kernels for two
    dimensions serve for one as well; the reshapes are views.
    """

    matches = (ConvOp, PoolOp)

    def rewrite(self, op: ConvOp | PoolOp, rewriter: RecordedRewriter) -> None:
        if len(shape_of(op.input)) != 3:
            return
        if not all(is_static(v) for v in (*op.operands, op.output)):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        before, after = op.get("pads")
        lifted: dict[str, list[int]] = {
            "strides": [1, *op.get("strides")],
            "dilations": [1, *op.get("dilations")],
            "pads": [0, before, 0, after],
        }
        operands = {"input": _with_height(op.input, op, rewriter)}
        if isinstance(op, PoolOp):
            lifted["window"] = [1, *op.get("window")]
        else:
            operands["weight"] = _with_height(op.weight, op, rewriter)
            if op.residual is not None:
                operands["residual"] = _with_height(op.residual, op, rewriter)
        new = op.altered(**operands, **lifted)
        origin = origin_of(op.output)
        shape = static_shape(new.output)
        set_origins(new, [None if origin is None else origin.then("reshape", shape)])
        rewriter.insert_before(op, new)
        back = ReshapeOp.make([new.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)


class DropPlainAxis(Rule):
    """conv(x : 1x3x1x8x8, w : 8x3x1x3x3)   =>   reshape(conv(reshape(x) : 1x3x8x8, w : 8x3x3x3))

    Applies to convolutions and pools over three dimensions, of which one has extent 1 in input and
    window, or two neighbours have windows of one element that move in steps of one: then both are
    one axis. Pays because the kernels for two dimensions are tiled; the reshapes are views.
    """

    matches = (ConvOp, PoolOp)

    def rewrite(self, op: ConvOp | PoolOp, rewriter: RecordedRewriter) -> None:
        if len(shape_of(op.input)) != 5:
            return
        if not all(is_static(v) for v in (*op.operands, op.output)):
            raise Declined(f"the shape of {identity_of(op)} is not known yet")
        axis = self._droppable(op)
        if axis is None:
            raise Declined(f"{identity_of(op)} has windows over three dimensions")
        changes: dict[str, list[int]] = {
            name: [n for a, n in enumerate(op.get(name)) if a != axis]
            for name in ("strides", "dilations")
        }
        changes["pads"] = [n for a, n in enumerate(op.get("pads")) if a % 3 != axis]
        values = {"input": op.input}
        if isinstance(op, PoolOp):
            changes["window"] = [n for a, n in enumerate(op.get("window")) if a != axis]
        elif op.residual is not None:
            values["residual"] = op.residual
        operands = {
            name: _reshaped(value, _without_axis(static_shape(value), 2 + axis), op, rewriter)
            for name, value in values.items()
        }
        if isinstance(op, ConvOp):
            window = static_shape(op.weight)
            shape = (*window[: 2 + axis], *window[3 + axis :])
            operands["weight"] = _reshaped(op.weight, shape, op, rewriter)
        new = op.altered(**operands, **changes)
        origin = origin_of(op.output)
        shape = static_shape(new.output)
        set_origins(new, [None if origin is None else origin.then("reshape", shape)])
        rewriter.insert_before(op, new)
        back = ReshapeOp.make([new.output, None], shape=list(static_shape(op.output)))
        rewriter.replace(op, back)

    @staticmethod
    def _droppable(op: ConvOp | PoolOp) -> int | None:
        """A spatial axis whose positions the one behind it (before it, for the last) can take."""
        sizes, pads = static_shape(op.input)[2:], op.get("pads")
        window = op.get("window") if isinstance(op, PoolOp) else static_shape(op.weight)[2:]
        still = [window[a] == 1 and pads[a] == pads[3 + a] == 0 for a in range(3)]
        for axis in range(3):
            if still[axis] and sizes[axis] == 1:
                return axis
        steps = op.get("strides")
        plain = [still[a] and steps[a] == 1 for a in range(3)]
        return next((a for a in range(2) if plain[a] and plain[a + 1]), None)


def _without_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The axis joined with the next one, or dropped where it has extent 1."""
    if shape[axis] == 1:
        return (*shape[:axis], *shape[axis + 1 :])
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _with_height(value: SSAValue, op: TopOperation, rewriter: RecordedRewriter) -> SSAValue:
    """(a, b, c) as (a, b, 1, c): a constant at once, all else by a reshape."""
    first, second, last = static_shape(value)
    return _reshaped(value, (first, second, 1, last), op, rewriter)


def _reshaped(
    value: SSAValue, shape: tuple[int, ...], op: TopOperation, rewriter: RecordedRewriter
) -> SSAValue:
    """The value in another shape: a constant at once, all else by a reshape."""
    array = constant(value, rewriter.weights)
    if array is not None:
        kind = element_type_of(value)
        stored = kind if isinstance(kind, QuantizedType) else None
        name, array = weight_name(op, "weight"), array.reshape(shape)
        return rewriter.add_weight(op, name, array, like=op, element_type=stored)
    reshape = ReshapeOp.make([value, None], shape=list(shape))
    origin = origin_of(value)
    set_origins(reshape, [None if origin is None else origin.then("reshape", shape)])
    rewriter.insert_before(op, reshape)
    return reshape.output


class PadBeforeWindow(Rule):
    """conv(x) {pads = [1, 1, 1, 1, 1, 1]}   =>   conv(pad(x) {low = [0, 0, 1, 1, 1], ...})

    Applies to convolutions and pools over three dimensions, whose inputs get no halo: a maximum
    is padded with the lowest number, all else with what stands for zero. Pays because their
    kernels then read inside their input only.
    """

    matches = (ConvOp, PoolOp)

    def rewrite(self, op: ConvOp | PoolOp, rewriter: RecordedRewriter) -> None:
        pads = op.get("pads")
        if len(shape_of(op.input)) != 5 or not any(pads):
            return
        if isinstance(op, PoolOp) and op.get("kind") == "average" and not op.counts_padding:
            return
        if isinstance(op, PoolOp) and not op.reads_padding:
            return
        fill = op.padding_fill
        low, high = [0, 0, *pads[:3]], [0, 0, *pads[3:]]
        pad = PadOp.make([op.input, None], low=low, high=high, interior=[0] * 5, value=fill)
        origin = origin_of(op.input)
        if origin is not None and fill == 0.0:
            for axis in range(2, 5):
                origin = origin.then("pad", (axis, low[axis], high[axis]))
            set_origins(pad, [origin])
        rewriter.insert_before(op, pad)
        rewriter.replace(op, op.altered(input=pad.output, pads=[0] * 6))


class ScaleAndShift(Rule):
    """batch_norm(x)   =>   x * f + (shift - f * mean)

    Applies to what `fold-batch-norm` left over, if its statistics are constant and x has 32 bits
    or more. Pays because two elementwise kernels serve for it.
    f = scale / sqrt(variance + epsilon).
    """

    matches = (BatchNormOp,)

    def rewrite(self, op: BatchNormOp, rewriter: RecordedRewriter) -> None:
        split_batch_norm(op, rewriter)


class CountInSteps(Rule):
    """range(start, limit, delta) : 5   =>   start + [0, 1, 2, 3, 4] * delta

    Applies to ranges whose length is known although their numbers are not. Pays because two
    elementwise kernels serve for it. Narrow floats are computed in float32 and rounded once.
    """

    matches = (RangeOp,)

    def rewrite(self, op: RangeOp, rewriter: RecordedRewriter) -> None:
        if not is_static(op.output):
            raise Declined(f"the length of {identity_of(op)} is not known yet")
        own = element_type_of(op.output)
        is_narrow = isinstance(own, AnyFloat) and own.bitwidth < 32
        kind = Float32Type() if is_narrow else own

        def added(new: TopOperation) -> SSAValue:
            rewriter.insert_before(op, new)
            return new.results[0]

        start, delta = (
            added(CastOp.make([v], to=kind)) if is_narrow else v for v in (op.start, op.delta)
        )
        (length,) = static_shape(op.output)
        numbers = np.arange(length).astype(numpy_dtype(kind))
        counted = rewriter.add_weight(op, weight_name(op, "numbers"), numbers)
        steps = added(BinaryOp.make([counted, delta], kind="mul"))
        total = BinaryOp.make([steps, start], kind="add")
        if is_narrow:
            total = CastOp.make([added(total)], to=own)
        rewriter.replace(op, total)


@dataclass(frozen=True)
class Legalize(RulePass):
    """Operations without a kernel of their own are written in those that have one."""

    capabilities: Capabilities = ORDINARY

    name = "legalize"
    is_required = True
    rules = (
        ComputeBothBranches,
        MaskIterations,
        CountPadding,
        ConvolveByPhases,
        LiftToTwoDimensions,
        DropPlainAxis,
        PadBeforeWindow,
        ScaleAndShift,
        CountInSteps,
        JoinInGroups,
        WidenProducts,
        RoundInProduct,
        MoveWide,
        RemoveReshape,
        MergeReshapes,
    )

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        widen = WidenProducts(self.capabilities)
        rules = [widen if rule is WidenProducts else rule() for rule in self.rules]
        return apply_rules(self.name, rules, rewriter, options)
