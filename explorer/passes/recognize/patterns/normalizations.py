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

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.constants import constant, is_about, is_constant
from explorer.ir.operation import identity_of
from explorer.ir.patterns import (
    Found,
    Pattern,
    PatternRule,
    number,
    operation,
    property_of,
    reciprocal,
    reduced,
    shared,
    sqrt,
    value,
    weight,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.reductions.normalization import LayerNormOp
from explorer.ir.types import format_shape, is_static, shape_of
from explorer.passes.analysis.matching import is_float, weight_name
from explorer.passes.simplify.movement.reductions import reduced_count

x = value("x", lambda given: is_float(given) and not is_constant(given))
axes = property_of("axes")
mean = reduced("mean", x, axes)
epsilon, inverse_count = number("epsilon", lambda given: given >= 0), number("1 / count")
scale, shift, c = weight("scale"), weight("shift"), weight("c")


def _root(deviation: Pattern) -> Pattern:
    """sqrt(mean(d * d) + epsilon)"""
    squares = reduced("sum_square", deviation, axes)
    averaged = (squares * inverse_count).where(
        lambda found: is_about(found[inverse_count], 1 / reduced_count(found[squares]))
    )
    variance = (reduced("mean", deviation * deviation, axes) | averaged).called("a variance")
    known = variance.where(lambda found: is_static(found.value(variance)))
    return sqrt((known + epsilon).telling())


def _layer_norm(found: Found, operands: list[SSAValue | None]) -> LayerNormOp:
    """Declined for statistics over other axes than trailing ones."""
    rank, over = len(shape_of(found[x])), sorted(found[axes])
    if over != list(range(rank - len(over), rank)):
        raise Declined(
            f"{identity_of(found.root)} normalizes over axes {over} of {rank}: only trailing axes "
            "have one kernel"
        )
    return LayerNormOp.make(
        [found[x], *operands],
        axis=min(over),
        epsilon=found[epsilon],
        centered=None if mean in found else False,
    )


class RecognizeLayerNorm(PatternRule):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)   =>   layer_norm(x) {epsilon = e}

    Applies to statistics over trailing axes, to a product with the reciprocal of the root as
    well, and without the mean, which is an RMS norm. Pays because x is read three times by one
    kernel, instead of a tensor per step written and read again.
    """

    deviation = (x - mean | x).called("x - mean(x)")
    root = _root(deviation)
    pattern = shared(deviation / root | deviation * reciprocal(root)).like(deviation)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> LayerNormOp:
        return _layer_norm(found, [])


class RecognizeFactoredNormalization(PatternRule):
    """x * r + (shift - mean(x) * r)   =>   layer_norm(x, scale, shift)

    Applies to r = scale / sqrt(variance + e), the form that TensorFlow writes, over trailing
    axes. Pays because one kernel reads x three times, instead of a tensor per step.
    """

    root = _root(x - mean)
    factor = scale / root | reciprocal(root) * scale | reciprocal(root)
    pattern = shared(x * factor + (shift - mean * factor))

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> LayerNormOp:
        operands = [found.value(part) if part in found else None for part in (scale, shift)]
        shape = shape_of(found[x])
        shapes = [shape_of(value) for value in operands if value is not None]
        if found.root.results[0].type != found[x].type or broadcast_shapes(shape, *shapes) != shape:
            name = identity_of(found.root)
            raise Declined(f"scale or shift of {name} is larger than its input")
        return _layer_norm(found, operands)


norm = operation(LayerNormOp)


def _with_constant(
    found: Found, function: np.ufunc, roles: tuple[str, ...], rewriter: RecordedRewriter
) -> LayerNormOp:
    """The normalization with the constant as the first of its operands, or combined with all."""
    old, array = found[norm], found[c]
    if found.root.results[0].type != old.output.type:
        raise Declined(
            f"a constant of shape {format_shape(array.shape)} makes the result larger than "
            f"{identity_of(old)}"
        )
    changes = {roles[0]: found.value(c)}
    arrays: dict[str, np.ndarray] = {}
    for role in roles:
        present: SSAValue | None = getattr(old, role)
        if present is None:
            continue
        known = constant(present, rewriter.weights)
        if known is None:
            raise Declined(f"the {role} of {identity_of(old)} is computed")
        arrays[role] = function(known.astype(np.float64), array).astype(array.dtype)
    for role, combined in arrays.items():
        name = weight_name(old, role)
        changes[role] = rewriter.add_weight(found.root, name, combined, like=old)
    return old.altered(**changes)


class ScaleNormalized(PatternRule):
    """layer_norm(x) * c   =>   layer_norm(x, scale = c)

    Applies to a constant that broadcasts to x, when nothing else reads the normalization; a scale
    and a shift that are there already are multiplied. Pays because a pass over the tensor is
    saved.
    """

    pattern = norm * c

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> LayerNormOp:
        return _with_constant(found, np.multiply, ("scale", "shift"), rewriter)


class ShiftNormalized(PatternRule):
    """layer_norm(x) + c   =>   layer_norm(x, shift = c)

    Applies to a constant that broadcasts to x, when nothing else reads the normalization; a shift
    that is there already is added up. Pays because a pass over the tensor is saved.
    """

    pattern = norm + c

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> LayerNormOp:
        return _with_constant(found, np.add, ("shift",), rewriter)


NORMALIZATION_RULES: tuple[type[Rule], ...] = (
    RecognizeLayerNorm,
    RecognizeFactoredNormalization,
    ScaleNormalized,
    ShiftNormalized,
)
