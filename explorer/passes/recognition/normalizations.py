"""Layer and RMS normalization from their pieces.

    %m = top.reduce(%x) {kind = "mean", axes = [2], keepdims = true} : tensor<1x128x1xf32>
    %d = top.binary(%x, %m) {kind = "sub"} : tensor<1x128x64xf32>
    %q = top.binary(%d, %d) {kind = "mul"} : tensor<1x128x64xf32>
    %v = top.reduce(%q) {kind = "mean", axes = [2], keepdims = true} : tensor<1x128x1xf32>
    %s = top.binary(%v, %epsilon) {kind = "add"} : tensor<1x128x1xf32>
    %r = top.unary(%s) {kind = "sqrt"} : tensor<1x128x1xf32>
    %y = top.binary(%d, %r) {kind = "div"} : tensor<1x128x64xf32>
 => %y = top.layer_norm(%x) {axis = 2, epsilon = 1e-05} : tensor<1x128x64xf32>

Statistics over the spatial axes (instance normalization) and over groups of channels that a
reshape made (group normalization) are layer normalizations over trailing axes as well.
References: Ba, Kiros and Hinton, "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean
Square Layer Normalization", 2019; Wu and He, "Group Normalization", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp, broadcast_shapes
from explorer.ir.top.normalization import LayerNormOp
from explorer.ir.top.reduction import ReduceOp
from explorer.ir.types import format_shape, is_static, shape_of
from explorer.ir.weights import Weights
from explorer.passes.matching import (
    both_orders,
    constant,
    is_about,
    is_float,
    is_kind,
    is_used_once,
    maker,
    scalar,
    weight_name,
)
from explorer.passes.movement.reductions import reduced_count


@dataclass(frozen=True)
class Statistics:
    """sqrt(mean(d * d) + epsilon) over trailing axes, with d = x - mean(x), or x itself."""

    x: SSAValue
    deviation: SSAValue
    mean: SSAValue | None
    axes: tuple[int, ...]
    epsilon: float
    steps: tuple[Operation, ...]
    """What computes it, users first; the mean and the deviations are not among them."""

    @property
    def is_centered(self) -> bool:
        return self.mean is not None

    @staticmethod
    def of_root(value: SSAValue, weights: Weights) -> Statistics | None:
        """What a standard deviation (or root mean square) is made of; None for all else."""
        root = maker(value, UnaryOp)
        if root is None or not is_kind(root, "sqrt"):
            return None
        total = maker(root.input, BinaryOp)
        if total is None or not is_kind(total, "add"):
            return None
        epsilon = scalar(total.right, weights)
        if epsilon is None or epsilon < 0 or not is_static(total.left):
            return None
        found = _variance(total.left, weights)
        if found is None:
            return None
        deviation, axes, steps = found
        x, mean = _centered(deviation, axes)
        return Statistics(x, deviation, mean, axes, epsilon, (root, total, *steps))


def _variance(
    value: SSAValue, weights: Weights
) -> tuple[SSAValue, tuple[int, ...], list[Operation]] | None:
    """d, the axes and the steps of mean(d * d) or sum_square(d) / count; None for all else."""
    mean = maker(value, ReduceOp)
    if mean is not None and mean.kind.data == "mean" and mean.get("keepdims"):
        square = maker(mean.input, BinaryOp)
        if square is None or not is_kind(square, "mul") or square.left is not square.right:
            return None
        return square.left, mean.get("axes"), [mean, square]
    product = maker(value, BinaryOp)
    total = None if product is None else maker(product.left, ReduceOp)
    if product is None or total is None or not is_kind(product, "mul"):
        return None
    if total.kind.data != "sum_square" or not total.get("keepdims"):
        return None
    if not is_about(scalar(product.right, weights), 1 / reduced_count(total)):
        return None
    return total.input, total.get("axes"), [product, total]


def _centered(deviation: SSAValue, axes: Sequence[int]) -> tuple[SSAValue, SSAValue | None]:
    """x and its mean where the value is x - mean(x), else the value and None."""
    difference = maker(deviation, BinaryOp)
    if difference is None or not is_kind(difference, "sub"):
        return deviation, None
    if not _is_mean_of(difference.right, difference.left, axes):
        return deviation, None
    return difference.left, difference.right


def _is_mean_of(value: SSAValue, x: SSAValue, axes: Sequence[int]) -> bool:
    mean = maker(value, ReduceOp)
    return (
        mean is not None
        and mean.kind.data == "mean"
        and mean.input is x
        and bool(mean.get("keepdims"))
        and tuple(mean.get("axes")) == tuple(axes)
    )


class RecognizeLayerNorm(Rule):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)   =>   layer_norm(x) {epsilon = e}

    Applies to statistics over trailing axes, to a product with the reciprocal of the root as
    well, and without the mean, which is an RMS norm. Pays because x is read three times by one
    kernel, instead of a tensor per step written and read again.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        for deviation, divisor in _quotients(op):
            statistics = Statistics.of_root(divisor.input, rewriter.weights)
            if statistics is None or statistics.deviation is not deviation:
                continue
            if op.output.type != deviation.type or not is_float(deviation):
                continue
            _replace(op, statistics, divisor.steps, rewriter)
            return


@dataclass(frozen=True)
class _Divisor:
    """The root that a quotient divides by, and the steps that invert it, if any."""

    input: SSAValue
    steps: tuple[Operation, ...] = ()


def _quotients(op: BinaryOp) -> list[tuple[SSAValue, _Divisor]]:
    """a / b, and a * reciprocal(b) in both orders."""
    if op.kind.data == "div":
        return [(op.left, _Divisor(op.right))]
    if op.kind.data != "mul":
        return []
    found = []
    for value, other in both_orders(op):
        inverse = maker(other, UnaryOp)
        if inverse is not None and is_kind(inverse, "reciprocal"):
            found.append((value, _Divisor(inverse.input, (inverse,))))
    return found


def _replace(
    op: BinaryOp,
    statistics: Statistics,
    more_steps: Sequence[Operation],
    rewriter: RecordedRewriter,
) -> None:
    _require_trailing(op, statistics)
    new = _layer_norm(statistics)
    rewriter.replace(op, new, absorbs=_absorbed(statistics, more_steps))


def _layer_norm(statistics: Statistics, **operands: SSAValue) -> LayerNormOp:
    return LayerNormOp.make(
        [statistics.x, operands.get("scale"), operands.get("shift")],
        axis=min(statistics.axes),
        epsilon=statistics.epsilon,
        centered=None if statistics.is_centered else False,
    )


def _absorbed(statistics: Statistics, more_steps: Sequence[Operation]) -> list[Operation]:
    steps = [*more_steps, *statistics.steps]
    if statistics.mean is not None:
        owners = (statistics.deviation.owner, statistics.mean.owner)
        steps += [owner for owner in owners if isinstance(owner, Operation)]
    return steps


def _require_trailing(op: BinaryOp, statistics: Statistics) -> None:
    rank = len(shape_of(statistics.x))
    axes = sorted(statistics.axes)
    if axes != list(range(rank - len(axes), rank)):
        raise Declined(
            f"{identity_of(op)} normalizes over axes {axes} of {rank}: only trailing axes have "
            "one kernel"
        )


class RecognizeFactoredNormalization(Rule):
    """x * r + (shift - mean(x) * r)   =>   layer_norm(x, scale, shift)

    Applies to r = scale / sqrt(variance + e), the form that TensorFlow writes, over trailing
    axes. Pays because one kernel reads x three times, instead of a tensor per step.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "add":
            return
        for scaled, rest in both_orders(op):
            product, difference = maker(scaled, BinaryOp), maker(rest, BinaryOp)
            if product is None or difference is None or not is_kind(product, "mul"):
                continue
            if is_kind(difference, "sub") and self._matches(op, product, difference, rewriter):
                return

    def _matches(
        self, op: BinaryOp, product: BinaryOp, difference: BinaryOp, rewriter: RecordedRewriter
    ) -> bool:
        centre = maker(difference.right, BinaryOp)
        shift = constant(difference.left, rewriter.weights)
        if centre is None or not is_kind(centre, "mul") or shift is None:
            return False
        for x, factor in both_orders(product):
            for mean, other in both_orders(centre):
                if other is not factor:
                    continue
                found = _factor(factor, rewriter.weights)
                if found is None:
                    continue
                statistics, scale, steps = found
                if statistics.x is not x or statistics.mean is not mean:
                    continue
                if not self._fits(op, x, [scale, difference.left]):
                    raise Declined(f"scale or shift of {identity_of(op)} is larger than its input")
                _require_trailing(op, statistics)
                operands = {"shift": difference.left}
                if scale is not None:
                    operands["scale"] = scale
                new = _layer_norm(statistics, **operands)
                absorbed = _absorbed(statistics, [product, difference, centre, *steps])
                rewriter.replace(op, new, absorbs=absorbed)
                return True
        return False

    @staticmethod
    def _fits(op: BinaryOp, x: SSAValue, parameters: Sequence[SSAValue | None]) -> bool:
        shapes = [shape_of(value) for value in parameters if value is not None]
        return op.output.type == x.type and broadcast_shapes(shape_of(x), *shapes) == shape_of(x)


def _factor(
    value: SSAValue, weights: Weights
) -> tuple[Statistics, SSAValue | None, list[Operation]] | None:
    """Statistics, scale and steps of reciprocal(sqrt(...)) * scale; the scale may be missing."""
    op = value.owner
    if isinstance(op, UnaryOp) and is_kind(op, "reciprocal"):
        statistics = Statistics.of_root(op.input, weights)
        return None if statistics is None else (statistics, None, [op])
    if not isinstance(op, BinaryOp):
        return None
    if is_kind(op, "div") and constant(op.left, weights) is not None:
        statistics = Statistics.of_root(op.right, weights)
        return None if statistics is None else (statistics, op.left, [op])
    if not is_kind(op, "mul"):
        return None
    inverse = maker(op.left, UnaryOp)
    if inverse is None or constant(op.right, weights) is None:
        return None
    found = _factor(inverse.output, weights)
    if found is None or found[1] is not None:
        return None
    return found[0], op.right, [op, *found[2]]


class ScaleNormalized(Rule):
    """layer_norm(x) * c   =>   layer_norm(x, scale = c)

    Applies to a constant that broadcasts to x, when nothing else reads the normalization; a scale
    and a shift that are there already are multiplied. Pays because a pass over the tensor is
    saved.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        norm, array = maker(op.left, LayerNormOp), constant(op.right, rewriter.weights)
        if norm is None or array is None or op.kind.data != "mul":
            return
        _require_absorbable(norm, op, array)
        changes = {}
        for role, present in (("scale", norm.scale), ("shift", norm.shift)):
            if present is None:
                continue
            old = constant(present, rewriter.weights)
            if old is None:
                raise Declined(f"the {role} of {identity_of(norm)} is computed")
            product = (old.astype(np.float64) * array).astype(array.dtype)
            name = weight_name(norm, role)
            changes[role] = rewriter.add_weight(op, name, product, like=norm)
        changes.setdefault("scale", op.right)
        rewriter.replace(op, norm.altered(**changes), absorbs=[norm])


class ShiftNormalized(Rule):
    """layer_norm(x) + c   =>   layer_norm(x, shift = c)

    Applies to a constant that broadcasts to x, when nothing else reads the normalization; a shift
    that is there already is added up. Pays because a pass over the tensor is saved.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        norm, array = maker(op.left, LayerNormOp), constant(op.right, rewriter.weights)
        if norm is None or array is None or op.kind.data != "add":
            return
        _require_absorbable(norm, op, array)
        shift = op.right
        if norm.shift is not None:
            old = constant(norm.shift, rewriter.weights)
            if old is None:
                raise Declined(f"the shift of {identity_of(norm)} is computed")
            total = (old.astype(np.float64) + array).astype(array.dtype)
            shift = rewriter.add_weight(op, weight_name(norm, "shift"), total, like=norm)
        rewriter.replace(op, norm.altered(shift=shift), absorbs=[norm])


def _require_absorbable(norm: LayerNormOp, op: BinaryOp, array: np.ndarray) -> None:
    if not is_used_once(norm):
        raise Declined(f"{identity_of(norm)} is needed elsewhere too")
    if op.output.type != norm.output.type:
        raise Declined(
            f"a constant of shape {format_shape(array.shape)} makes the result larger than "
            f"{identity_of(norm)}"
        )


NORMALIZATION_RULES: tuple[type[Rule], ...] = (
    RecognizeLayerNorm,
    RecognizeFactoredNormalization,
    ScaleNormalized,
    ShiftNormalized,
)
