"""Losses, as torch's own decompositions have them: arithmetic, and a sum or an average.

aten.mse_loss(x, y)                 mean((x - y)^2)
aten.cross_entropy_loss(x, y)       what log_softmax(x) has at y, averaged

Source: torch/_refs/nn/functional and aten/src/ATen/native/Loss*.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import promoted
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.importers.pytorch.operators.unary import log_plus_one, square
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp

_NONE, _MEAN, _SUM = range(3)
_LEAST_LOGARITHM = -100.0
"""Of a probability in `binary_cross_entropy`."""


def _reduced(x: Expr, node: AtenNode, build: Build) -> Expr:
    """All losses, their average or their sum, as `reduction` says."""
    reduction = node.integer("reduction", build, _MEAN)
    if reduction == _NONE:
        return x
    return build.reduce("mean" if reduction == _MEAN else "sum", x, range(build.rank(x)))


def _plus(x: Expr, number: float, build: Build) -> Expr:
    return build.binary("add", x, build.scalar_like(number, x))


def _one_minus(x: Expr, build: Build) -> Expr:
    return build.binary("sub", build.scalar_like(1, x), x)


def _is(x: Expr, number: float, build: Build) -> Expr:
    return build.binary("equal", x, build.scalar_like(number, x))


def _where(condition: Expr, x: Expr, build: Build) -> Expr:
    """x, and 0 where the condition does not hold."""
    return build.select(condition, x, build.scalar_like(0, x))


# -- two tensors, element by element ---------------------------------------------------------------


def _squares(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    return square(build.binary("sub", x, y), build)


def _distances(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    return build.unary("abs", build.binary("sub", x, y))


def _smooth_distances(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """d^2 / (2 beta) below beta, d - beta / 2 above."""
    beta, apart = node.number("beta", 1.0), _distances(x, y, node, build)
    if beta == 0:
        return apart
    near = build.scaled(square(apart, build), 0.5 / beta)
    is_near = build.binary("less", apart, build.scalar_like(beta, apart))
    return build.select(is_near, near, _plus(apart, -beta / 2, build))


def _huber(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """d^2 / 2 below delta, delta (d - delta / 2) above."""
    delta, apart = node.number("delta", 1.0), _distances(x, y, node, build)
    near = build.scaled(square(apart, build), 0.5)
    is_near = build.binary("less", apart, build.scalar_like(delta, apart))
    return build.select(is_near, near, build.scaled(_plus(apart, -delta / 2, build), delta))


def _divergence(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """y (log y - x), 0 where y is; or e^y (y - x) where y is a logarithm already."""
    if node.flag("log_target"):
        return build.binary("mul", build.unary("exp", y), build.binary("sub", y, x))
    entropy = build.binary("mul", y, build.unary("log", y))
    entropy = build.select(_is(y, 0, build), build.scalar_like(0, y), entropy)
    return build.binary("sub", entropy, build.binary("mul", y, x))


def _soft_margins(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """log(1 + e^(-x y))"""
    return build.unary("softplus", build.unary("neg", build.binary("mul", x, y)))


def _hinges(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """x where y is 1, max(0, margin - x) where it is -1, both elsewhere."""
    margin = build.scalar_like(node.number("margin", 1.0), x)
    zero = build.scalar_like(0, x)
    far = build.select(_is(y, 1, build), zero, build.unary("relu", build.binary("sub", margin, x)))
    return build.binary("add", far, build.select(_is(y, -1, build), zero, x))


def _poisson(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """e^x - y x, or x - y log(x + eps); in full with Stirling's formula for log y!"""
    if node.flag("log_input", True):
        loss = build.binary("sub", build.unary("exp", x), build.binary("mul", y, x))
    else:
        logarithm = build.unary("log", _plus(x, node.number("eps", 1e-8), build))
        loss = build.binary("sub", x, build.binary("mul", y, logarithm))
    if not node.flag("full"):
        return loss
    stirling = build.binary("sub", build.binary("mul", y, build.unary("log", y)), y)
    root = build.scaled(build.unary("log", build.scaled(y, 2 * math.pi)), 0.5)
    is_large = build.binary("greater", y, build.scalar_like(1, y))
    term = _where(is_large, build.binary("add", stirling, root), build)
    return build.binary("add", loss, term)


_ELEMENTWISE: dict[str, Callable[[Expr, Expr, AtenNode, Build], Expr]] = {
    "mse_loss": _squares,
    "l1_loss": _distances,
    "smooth_l1_loss": _smooth_distances,
    "huber_loss": _huber,
    "kl_div": _divergence,
    "soft_margin_loss": _soft_margins,
    "hinge_embedding_loss": _hinges,
    "poisson_nll_loss": _poisson,
}


def elementwise_loss(node: AtenNode, build: Build) -> Expr:
    """A function of each pair of elements."""
    x, y = promoted(node, ("input" if node.has("input") else "self", "target"), build)
    losses = _ELEMENTWISE[node.call.target.removeprefix("aten.")](x, y, node, build)
    return _reduced(losses, node, build)


def binary_cross_entropy(node: AtenNode, build: Build) -> Expr:
    """-w (y log x + (1 - y) log(1 - x))"""
    x, y, weight = node.operand("self"), node.operand("target"), node.optional("weight")
    least = build.scalar_like(_LEAST_LOGARITHM, x)
    rest = log_plus_one(build.unary("neg", x), build)
    logarithms = [build.binary("max", v, least) for v in (build.unary("log", x), rest)]
    first = build.binary("mul", y, logarithms[0])
    second = build.binary("mul", _one_minus(y, build), logarithms[1])
    loss = build.unary("neg", build.binary("add", first, second))
    return _reduced(loss if weight is None else build.binary("mul", loss, weight), node, build)


def binary_cross_entropy_of_logits(node: AtenNode, build: Build) -> Expr:
    """(1 - y) x + (1 + (p - 1) y) log(1 + e^-x), times a weight."""
    x, y, weight = node.operand("self"), node.operand("target"), node.optional("weight")
    positive = node.optional("pos_weight")
    rest = build.unary("softplus", build.unary("neg", x))
    if positive is not None:
        share = build.binary("mul", _plus(positive, -1.0, build), y)
        rest = build.binary("mul", _plus(share, 1.0, build), rest)
    loss = build.binary("add", build.binary("mul", _one_minus(y, build), x), rest)
    return _reduced(loss if weight is None else build.binary("mul", loss, weight), node, build)


# -- classes ---------------------------------------------------------------------------------------


def cross_entropy(node: AtenNode, build: Build) -> Expr:
    """x: (N, classes, ...) or (classes). Targets are classes, or a probability of each."""
    x, target = node.operand("self"), node.operand("target")
    axis = 0 if build.rank(x) == 1 else 1
    logarithms = build.value(SoftmaxOp, [x], axis=axis, logarithm=True)
    smoothing = node.number("label_smoothing", 0.0)
    if not build.is_float(target):
        return _of_classes(logarithms, target, axis, smoothing, node, build)
    (classes,) = build.sizes(x, [axis], "classes")
    if smoothing:
        target = _plus(build.scaled(target, 1 - smoothing), smoothing / classes, build)
    product = build.binary("mul", logarithms, target)
    weight = node.optional("weight")
    if weight is not None:
        trailing = [1] * (build.rank(x) - axis - 1)
        product = build.binary("mul", product, build.reshape(weight, [-1, *trailing]))
    return _reduced(build.unary("neg", build.reduce("sum", product, [axis])), node, build)


def negative_likelihood(node: AtenNode, build: Build) -> Expr:
    """What logarithms (N, classes, ...) are at their classes, negated."""
    x, target = node.operand("self"), node.operand("target")
    return _of_classes(x, target, 0 if build.rank(x) == 1 else 1, 0.0, node, build)


def _of_classes(
    x: Expr, target: Expr, axis: int, smoothing: float, node: AtenNode, build: Build
) -> Expr:
    """-w x at each target, 0 where it is `ignore_index`; an average is one by weights."""
    is_ignored = _is(target, node.integer("ignore_index", build, -100), build)
    places = build.select(is_ignored, build.scalar_like(0, target), target)
    index = build.unsqueeze(places, [axis])
    found = build.squeeze(build.value(GatherElementsOp, [x, index], axis=axis), [axis])
    one, zero = build.scalar_like(1, x), build.scalar_like(0, x)
    weight = node.optional("weight")
    own = one if weight is None else build.value(GatherOp, [weight, places], axis=0)
    weights = build.select(is_ignored, zero, own)
    losses = build.unary("neg", build.binary("mul", found, own))
    if smoothing:
        (classes,) = build.sizes(x, [axis], "classes")
        trailing = [1] * (build.rank(x) - axis - 1)
        shaped = one if weight is None else build.reshape(weight, [-1, *trailing])
        others = build.reduce("sum", build.binary("mul", x, shaped), [axis])
        others = build.scaled(others, -smoothing / classes)
        losses = build.binary("add", build.scaled(losses, 1 - smoothing), others)
    losses = build.select(is_ignored, zero, losses)
    reduction = node.integer("reduction", build, _MEAN)
    if reduction == _NONE:
        return losses
    axes = range(build.rank(losses))
    total = build.reduce("sum", losses, axes)
    return (
        total
        if reduction == _SUM
        else build.binary("div", total, build.reduce("sum", weights, axes))
    )


def multi_margin(node: AtenNode, build: Build) -> Expr:
    """sum over other classes of max(0, margin - x at the target + x)^p, by their number."""
    x, target, weight = node.operand("self"), node.operand("target"), node.optional("weight")
    is_single = build.rank(x) < 2
    x = build.reshape(x, [1, -1]) if is_single else x
    column = build.reshape(target, [-1, 1])
    own = build.value(GatherElementsOp, [x, column], axis=1)
    apart = _plus(build.binary("sub", x, own), node.number("margin", 1.0), build)
    terms = build.unary("relu", apart)
    p = node.number("p", 1.0)
    if p not in (1, 2):
        raise Unsupported(f"p = {p}")
    terms = terms if p == 1 else square(terms, build)
    if weight is not None:
        terms = build.binary("mul", terms, build.value(GatherOp, [weight, column], axis=0))
    (classes,) = build.sizes(x, [1], "classes")
    is_own = build.binary("equal", build.weight(np.arange(classes)), column)
    terms = build.select(is_own, build.scalar_like(0, x), terms)
    losses = build.scaled(build.reduce("sum", terms, [1]), 1 / classes)
    return _reduced(build.squeeze(losses, [0]) if is_single else losses, node, build)


def multi_label_margin(node: AtenNode, build: Build) -> Expr:
    """max(0, 1 - x at a target + x elsewhere), summed over all pairs, by the number of classes.

    Targets of a row end where the first negative one stands.
    """
    x, target = node.operand("self"), node.operand("target")
    is_single = build.rank(x) < 2
    x, target = (build.reshape(v, [1, -1]) if is_single else v for v in (x, target))
    (classes,) = build.sizes(x, [1], "classes")
    is_end = build.binary("less", target, build.scalar_like(0, target))
    ends = build.value(
        CumulativeOp,
        [build.cast(is_end, np.int64)],
        kind="sum",
        axis=1,
        exclusive=False,
        reverse=False,
    )
    is_target = _is(ends, 0, build)
    places = build.select(is_target, target, build.scalar_like(0, target))
    own = build.unsqueeze(build.value(GatherElementsOp, [x, places], axis=1), [2])
    is_given = build.unsqueeze(is_target, [2])
    named = build.binary("equal", build.unsqueeze(places, [2]), build.weight(np.arange(classes)))
    named = build.cast(build.binary("and", named, is_given), np.uint8)
    is_label = build.cast(build.reduce("max", named, [1], True), np.bool_)
    apart = _plus(build.binary("sub", build.unsqueeze(x, [1]), own), 1.0, build)
    is_pair = build.binary("and", is_given, build.unary("not", is_label))
    terms = _where(is_pair, build.unary("relu", apart), build)
    losses = build.scaled(build.reduce("sum", terms, [1, 2]), 1 / classes)
    return _reduced(build.squeeze(losses, [0]) if is_single else losses, node, build)


# -- distances of examples -------------------------------------------------------------------------


def cosine_embedding(node: AtenNode, build: Build) -> Expr:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    x, y, target = (node.operand(name) for name in ("input1", "input2", "target"))
    axis = [1 if build.rank(target) else 0]
    product = build.reduce("sum", build.binary("mul", x, y), axis)
    squares = [_plus(build.reduce("sum", square(v, build), axis), 1e-12, build) for v in (x, y)]
    cosine = build.binary("div", product, build.unary("sqrt", build.binary("mul", *squares)))
    near = _where(_is(target, 1, build), _one_minus(cosine, build), build)
    apart = build.unary("relu", _plus(cosine, -node.number("margin", 0.0), build))
    return _reduced(
        build.binary("add", near, _where(_is(target, -1, build), apart, build)), node, build
    )


def margin_ranking(node: AtenNode, build: Build) -> Expr:
    """max(0, margin - y (x1 - x2))"""
    first, second, target = promoted(node, ("input1", "input2", "target"), build)
    apart = build.binary("mul", target, build.binary("sub", second, first))
    return _reduced(
        build.unary("relu", _plus(apart, node.number("margin", 0.0), build)), node, build
    )


def triplet_margin(node: AtenNode, build: Build) -> Expr:
    """max(0, margin + the distance of what belongs together - that of what does not)"""
    anchor, positive, negative = promoted(node, ("anchor", "positive", "negative"), build)

    def distance(x: Expr, y: Expr) -> Expr:
        apart = _plus(build.binary("sub", x, y), node.number("eps", 1e-6), build)
        return p_norm(apart, node.number("p", 2.0), [build.rank(apart) - 1], False, build)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if node.flag("swap"):
        far = build.binary("min", far, distance(positive, negative))
    apart = _plus(build.binary("sub", near, far), node.number("margin", 1.0), build)
    return _reduced(build.unary("relu", apart), node, build)


CONVERTERS = {
    **dict.fromkeys(_ELEMENTWISE, elementwise_loss),
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": binary_cross_entropy_of_logits,
    "cross_entropy_loss": cross_entropy,
    "nll_loss_nd": negative_likelihood,
    "nll_loss": negative_likelihood,
    "nll_loss2d": negative_likelihood,
    "multi_margin_loss": multi_margin,
    "multilabel_margin_loss": multi_label_margin,
    "cosine_embedding_loss": cosine_embedding,
    "margin_ranking_loss": margin_ranking,
    "triplet_margin_loss": triplet_margin,
}
