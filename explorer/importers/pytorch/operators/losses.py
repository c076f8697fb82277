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
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float, promoted
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.importers.pytorch.operators.unary import log_plus_one
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp

_NONE, _MEAN, _SUM = range(3)
_MIN_LOGARITHM = -100.0
"""Of a probability in `binary_cross_entropy`."""


def _reduced(x: Expr, node: AtenNode, build: Build) -> Expr:
    """All losses, their average or their sum, as `reduction` says."""
    reduction = node.integer("reduction", build, _MEAN)
    if reduction == _NONE:
        return x
    return x.reduce("mean" if reduction == _MEAN else "sum", range(x.rank))


# -- two tensors, element by element ---------------------------------------------------------------


def _squares(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    return (x - y).square()


def _distances(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    return abs(x - y)


def _smooth_distances(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """d^2 / (2 beta) below beta, d - beta / 2 above."""
    beta, apart = node.number("beta", 1.0), _distances(x, y, node, build)
    if beta == 0:
        return apart
    near = apart.square().scaled(0.5 / beta)
    return where(apart < beta, near, apart + -beta / 2)


def _huber(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """d^2 / 2 below delta, delta (d - delta / 2) above."""
    delta, apart = node.number("delta", 1.0), _distances(x, y, node, build)
    near = apart.square() * 0.5
    return where(apart < delta, near, (apart + -delta / 2).scaled(delta))


def _divergence(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """y (log y - x), 0 where y is; or e^y (y - x) where y is a logarithm already."""
    if node.flag("log_target"):
        return y.exp() * (y - x)
    entropy = y * y.log()
    return where(y == 0, 0, entropy) - y * x


def _soft_margins(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """log(1 + e^(-x y))"""
    return (-(x * y)).softplus()


def _hinges(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """x where y is 1, max(0, margin - x) where it is -1, both elsewhere."""
    margin = x.constant(node.number("margin", 1.0))
    zero = x.constant(0)
    return where(y == 1, zero, (margin - x).relu()) + where(y == -1, zero, x)


def _poisson(x: Expr, y: Expr, node: AtenNode, build: Build) -> Expr:
    """e^x - y x, or x - y log(x + eps); in full with Stirling's formula for log y!"""
    if node.flag("log_input", True):
        loss = x.exp() - y * x
    else:
        logarithm = (x + node.number("eps", 1e-8)).log()
        loss = x - y * logarithm
    if not node.flag("full"):
        return loss
    stirling = y * y.log() - y
    root = y.scaled(2 * math.pi).log() * 0.5
    return loss + where(y > 1, stirling + root, 0)


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
    least = x.constant(_MIN_LOGARITHM)
    rest = log_plus_one(-x, build)
    logarithms = [maximum(v, least) for v in (x.log(), rest)]
    first = y * logarithms[0]
    second = (1 - y) * logarithms[1]
    loss = -(first + second)
    return _reduced(loss if weight is None else loss * weight, node, build)


def binary_cross_entropy_of_logits(node: AtenNode, build: Build) -> Expr:
    """(1 - y) x + (1 + (p - 1) y) log(1 + e^-x), times a weight."""
    x, y, weight = node.operand("self"), node.operand("target"), node.optional("weight")
    positive = node.optional("pos_weight")
    rest = (-x).softplus()
    if positive is not None:
        share = (positive + -1.0) * y
        rest = (share + 1.0) * rest
    loss = (1 - y) * x + rest
    return _reduced(loss if weight is None else loss * weight, node, build)


# -- classes ---------------------------------------------------------------------------------------


def cross_entropy(node: AtenNode, build: Build) -> Expr:
    """x: (N, classes, ...) or (classes). Targets are classes, or a probability of each."""
    x, target = node.operand("self"), node.operand("target")
    axis = 0 if x.rank == 1 else 1
    logarithms = build.value(SoftmaxOp, [x], axis=axis, logarithm=True)
    smoothing = node.number("label_smoothing", 0.0)
    if not target.is_float:
        return _of_classes(logarithms, target, axis, smoothing, node, build)
    (classes,) = x.sizes([axis], "classes")
    if smoothing:
        target = target.scaled(1 - smoothing) + smoothing / classes
    product = logarithms * target
    weight = node.optional("weight")
    if weight is not None:
        trailing = [1] * (x.rank - axis - 1)
        product = product * weight.reshape([-1, *trailing])
    return _reduced(-product.sum([axis]), node, build)


def negative_likelihood(node: AtenNode, build: Build) -> Expr:
    """What logarithms (N, classes, ...) are at their classes, negated."""
    x, target = node.operand("self"), node.operand("target")
    return _of_classes(x, target, 0 if x.rank == 1 else 1, 0.0, node, build)


def _of_classes(
    x: Expr, target: Expr, axis: int, smoothing: float, node: AtenNode, build: Build
) -> Expr:
    """-w x at each target, 0 where it is `ignore_index`; an average is one by weights."""
    is_ignored = target == node.integer("ignore_index", build, -100)
    places = where(is_ignored, 0, target)
    index = places.unsqueeze([axis])
    found = build.value(GatherElementsOp, [x, index], axis=axis).squeeze([axis])
    one, zero = x.constant(1), x.constant(0)
    weight = node.optional("weight")
    own = one if weight is None else build.value(GatherOp, [weight, places], axis=0)
    weights = where(is_ignored, zero, own)
    losses = -(found * own)
    if smoothing:
        (classes,) = x.sizes([axis], "classes")
        trailing = [1] * (x.rank - axis - 1)
        shaped = one if weight is None else weight.reshape([-1, *trailing])
        others = (x * shaped).sum([axis]).scaled(-smoothing / classes)
        losses = losses.scaled(1 - smoothing) + others
    losses = where(is_ignored, zero, losses)
    reduction = node.integer("reduction", build, _MEAN)
    if reduction == _NONE:
        return losses
    axes = range(losses.rank)
    total = losses.sum(axes)
    return total if reduction == _SUM else total / weights.sum(axes)


def multi_margin(node: AtenNode, build: Build) -> Expr:
    """sum over other classes of max(0, margin - x at the target + x)^p, by their number."""
    x, target, weight = node.operand("self"), node.operand("target"), node.optional("weight")
    is_single = x.rank < 2
    x = x.reshape([1, -1]) if is_single else x
    column = target.reshape([-1, 1])
    own = build.value(GatherElementsOp, [x, column], axis=1)
    apart = x - own + node.number("margin", 1.0)
    terms = apart.relu()
    p = node.number("p", 1.0)
    if p not in (1, 2):
        raise Unsupported(f"p = {p}")
    terms = terms if p == 1 else terms.square()
    if weight is not None:
        terms = terms * build.value(GatherOp, [weight, column], axis=0)
    (classes,) = x.sizes([1], "classes")
    is_own = build.weight(np.arange(classes)) == column
    terms = where(is_own, 0, terms)
    losses = terms.sum([1]).scaled(1 / classes)
    return _reduced(losses.squeeze([0]) if is_single else losses, node, build)


def multi_label_margin(node: AtenNode, build: Build) -> Expr:
    """max(0, 1 - x at a target + x elsewhere), summed over all pairs, by the number of classes.

    Targets of a row end where the first negative one stands.
    """
    x, target = node.operand("self"), node.operand("target")
    is_single = x.rank < 2
    x, target = (v.reshape([1, -1]) if is_single else v for v in (x, target))
    (classes,) = x.sizes([1], "classes")
    is_end = target < 0
    ends = build.value(
        CumulativeOp,
        [is_end.astype(np.int64)],
        kind="sum",
        axis=1,
        exclusive=False,
        reverse=False,
    )
    is_target = ends == 0
    places = where(is_target, target, 0)
    own = build.value(GatherElementsOp, [x, places], axis=1).unsqueeze([2])
    is_given = is_target.unsqueeze([2])
    named = places.unsqueeze([2]) == build.weight(np.arange(classes))
    named = (named & is_given).astype(np.uint8)
    is_label = named.max([1], True).astype(np.bool_)
    apart = x.unsqueeze([1]) - own + 1.0
    is_pair = is_given & ~is_label
    terms = where(is_pair, apart.relu(), 0)
    losses = terms.sum([1, 2]).scaled(1 / classes)
    return _reduced(losses.squeeze([0]) if is_single else losses, node, build)


# -- distances of examples -------------------------------------------------------------------------


def cosine_embedding(node: AtenNode, build: Build) -> Expr:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    x, y, target = (node.operand(name) for name in ("input1", "input2", "target"))
    axis = [1 if target.rank else 0]

    def total(products: Expr) -> Expr:
        """Whole numbers are added as such."""
        wide = products if products.is_float else products.astype(np.int64)
        return as_float(wide.sum(axis))

    product = total(x * y)
    x_square, y_square = (total(v * v) + 1e-12 for v in (x, y))
    cosine = product / (x_square * y_square).sqrt()
    near = where(target == 1, 1 - cosine, 0)
    apart = (cosine + -node.number("margin", 0.0)).relu()
    is_apart = target.astype(np.int64) == (255 if target.dtype == np.uint8 else -1)
    return _reduced(near + where(is_apart, apart, 0), node, build)


def margin_ranking(node: AtenNode, build: Build) -> Expr:
    """max(0, margin - y (x1 - x2))"""
    first, second, target = promoted(node, ("input1", "input2", "target"), build)
    apart = target * (second - first)
    return _reduced((apart + node.number("margin", 0.0)).relu(), node, build)


def triplet_margin(node: AtenNode, build: Build) -> Expr:
    """max(0, margin + the distance of what belongs together - that of what does not)"""
    anchor, positive, negative = promoted(node, ("anchor", "positive", "negative"), build)

    def distance(x: Expr, y: Expr) -> Expr:
        apart = as_float(x - y) + node.number("eps", 1e-6)
        return p_norm(apart, node.number("p", 2.0), [apart.rank - 1], False)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if node.flag("swap"):
        far = minimum(far, distance(positive, negative))
    return _reduced((near - far + node.number("margin", 1.0)).relu(), node, build)


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
