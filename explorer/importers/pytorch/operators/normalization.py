"""Normalizations.

batch_norm     (x - mean) / sqrt(variance + eps) w + b     by the statistics that the module holds
layer_norm     the same by each slice's own, over the last axes
group_norm     ... over groups of channels
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr, maximum
from explorer.importers.building.formulas import (
    by_channels,
    inverse_root,
    normalized_groups,
    statistics,
)
from explorer.importers.pytorch.file.versions import statistics_of
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_float
from explorer.importers.pytorch.operators.reductions import p_norm
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
)


def batch_norm(node: AtenNode, build: Build) -> Expr | list[Expr]:
    """By the statistics of channels that the module holds, or that the batch has.

    A module that trains gives what its own become, too: see `file.versions.statistics_of`.
    """
    if statistics_of(node.call):
        y, _, _, *changed = _updated(node, [], build)
        return [y, *changed]
    return _normalized(node, build)


def _normalized(node: AtenNode, build: Build) -> Expr:
    x = node.operand("input")
    if x.rank < 2 and 0 in x.shape:  # it has no channels, and nothing to normalize
        return x
    is_training = node.flag("training") or not node.has("running_mean")
    epsilon = node.number("eps", 1e-5)
    channels = _channels(x)
    scale = _or_constant(node.optional("weight"), 1.0, channels, x, build)
    shift = _or_constant(node.optional("bias"), 0.0, channels, x, build)
    if not is_training:
        mean, variance = node.operand("running_mean"), node.operand("running_var")
        parameters = [v.astype(x.dtype) for v in (scale, shift, mean, variance)]
        return build.value(BatchNormOp, [x, *parameters], epsilon=epsilon)
    axes = [axis for axis in range(x.rank) if axis != 1]
    wide = x.wide()
    _, apart, variance = statistics(wide, axes)
    normalized = apart * inverse_root(variance, epsilon)
    return by_channels(normalized.astype(x.dtype), scale, shift)


def native_batch_norm(node: AtenNode, build: Build) -> list[Expr]:
    """The result, and what a backward pass would need: nothing where the module is evaluated."""
    if statistics_of(node.call):
        return _updated(node, [], build)
    if node.flag("training") and "no_training" not in node.call.target:
        y, mean, variance = _trained(node, build)
        return [y, *_like(y, [mean, inverse_root(variance, node.number("eps", 1e-5))])]
    nothing = build.weight(np.zeros(0, np.float32))
    return [_normalized(node, build), nothing, nothing]


def functional_batch_norm(node: AtenNode, build: Build) -> list[Expr]:
    """The same, and the module's statistics as they are afterwards."""
    if node.flag("training"):
        return _updated(node, [], build)
    return [*native_batch_norm(node, build), *_held(node)]


def updating_batch_norm(node: AtenNode, build: Build) -> list[Expr]:
    """The same of a module that trains; behind what a backward pass needs PyTorch has a reserve."""
    return _updated(node, [build.weight(np.zeros(0, np.uint8))], build)


def _updated(node: AtenNode, reserve: list[Expr], build: Build) -> list[Expr]:
    """By the batch's own statistics, of which the module's become a share: momentum.

    Its variance is that of n elements, n / (n - 1) times that of a batch which is all there is.
    """
    y, mean, variance = _trained(node, build)
    x = node.operand("input")
    sizes = x.sizes(range(x.rank), "statistics that change")
    count = int(np.prod([size for axis, size in enumerate(sizes) if axis != 1]))
    saved = _like(y, [mean, inverse_root(variance, node.number("eps", 1e-5))])
    return [y, *saved, *reserve, *_moved(mean, variance, count, node)]


def _moved(mean: Expr, variance: Expr, count: int, node: AtenNode) -> list[Expr]:
    """What the module's statistics become after a batch of `count` elements for each channel."""
    momentum = node.number("momentum", 0.1)
    found = [mean, variance.scaled(count / (count - 1) if count > 1 else np.inf)]
    return [
        own.scaled(1 - momentum) + new.scaled(momentum).astype(own.dtype)
        for own, new in zip(_held(node), found, strict=True)
    ]


def _like(x: Expr, values: list[Expr]) -> list[Expr]:
    """Values in the element type of x."""
    return [value.astype(x.dtype) for value in values]


def _held(node: AtenNode) -> list[Expr]:
    return [node.operand("running_mean"), node.operand("running_var")]


def _trained(node: AtenNode, build: Build) -> tuple[Expr, Expr, Expr]:
    """By the batch's own mean and variance, which are given, too: one number for each channel.

    Both are f32 where x is narrower.
    """
    x = node.operand("input")
    axes = [axis for axis in range(x.rank) if axis != 1]
    wide = x.wide()
    mean, apart, variance = statistics(wide, axes)
    channels = _channels(x)
    scale = _or_constant(node.optional("weight"), 1.0, channels, x, build)
    shift = _or_constant(node.optional("bias"), 0.0, channels, x, build)
    normalized = (apart * inverse_root(variance, node.number("eps", 1e-5))).astype(x.dtype)
    y = by_channels(normalized, scale, shift)
    return y, mean.reshape([channels]), variance.reshape([channels])


def _channels(x: Expr) -> int:
    return x.sizes([1], "statistics of channels")[0]


def _or_constant(value: Expr | None, number: float, count: int, x: Expr, build: Build) -> Expr:
    if value is not None:
        return value.astype(x.dtype)
    return build.weight(np.full(count, number, x.dtype))


def layer_norm(node: AtenNode, build: Build) -> Expr:
    """Over the last axes, as many as `normalized_shape` has."""
    x = node.operand("input")
    axis = x.rank - len(node.sizes("normalized_shape"))
    operands = [x, node.optional("weight"), node.optional("bias")]
    return build.value(LayerNormOp, operands, axis=axis, epsilon=node.number("eps", 1e-5))


def native_layer_norm(node: AtenNode, build: Build) -> list[Expr]:
    """The result, and the statistics of each slice."""
    x = node.operand("input")
    axis = x.rank - len(node.sizes("normalized_shape"))
    axes = list(range(axis, x.rank))
    mean, _, variance = statistics(x.wide(), axes)
    spread = inverse_root(variance, node.number("eps", 1e-5))
    return [layer_norm(node, build), *_like(x, [mean, spread])]


def rms_norm(node: AtenNode, build: Build) -> Expr:
    """x by the root of the average of its squares, over the last axes; nothing is subtracted.

    Without `eps` it is the rounding of the type that PyTorch computes in, float32 at least."""
    x = node.operand("input")
    axis = x.rank - len(node.sizes("normalized_shape"))
    epsilon = node.number("eps", float(np.finfo(x.wide().dtype).eps))
    return build.value(
        LayerNormOp, [x, node.optional("weight"), None], axis=axis, epsilon=epsilon, centered=False
    )


def group_norm(node: AtenNode, build: Build) -> Expr:
    """Each group of channels of each image by its own statistics."""
    x = node.operand("input")
    return _grouped(x, node.integer("num_groups", build), node, build)[0]


def native_group_norm(node: AtenNode, build: Build) -> list[Expr]:
    """The result, and the statistics of each group."""
    return _grouped(node.operand("input"), node.integer("group", build), node, build)


def _grouped(x: Expr, groups: int, node: AtenNode, build: Build) -> list[Expr]:
    channels, epsilon = _channels(x), node.number("eps", 1e-5)
    weight, bias = node.optional("weight"), node.optional("bias")
    if groups == channels and x.rank > 2 and "native" not in node.call.target:
        parameters = [
            _or_constant(value, number, channels, x, build)
            for value, number in ((weight, 1.0), (bias, 0.0))
        ]
        return [build.value(InstanceNormOp, [x, *parameters], epsilon=epsilon)]
    rows, normalized = normalized_groups(x, groups, epsilon)
    y = normalized.reshape(x.all_sizes())
    result = by_channels(y, weight, bias)
    if "native" not in node.call.target:
        return [result]
    mean, _, variance = statistics(rows.wide(), [2])
    spread = inverse_root(variance, epsilon)
    return [result, *(v.squeeze([2]) for v in _like(x, [mean, spread]))]


def instance_norm(node: AtenNode, build: Build) -> Expr | list[Expr]:
    """Each channel of each image by its own statistics, or by those that the module holds.

    A module that tracks statistics gives what they become, too: a share of the images' average.
    """
    if not node.flag("use_input_stats", True):
        return _normalized(node, build)
    x = node.operand("input")
    channels = _channels(x)
    parameters = [
        _or_constant(node.optional(name), number, channels, x, build)
        for name, number in (("weight", 1.0), ("bias", 0.0))
    ]
    y = build.value(InstanceNormOp, [x, *parameters], epsilon=node.number("eps", 1e-5))
    if not statistics_of(node.call):
        return y
    axes = list(range(2, x.rank))
    mean, _, variance = statistics(x.wide(), axes)
    mean, variance = (v.mean([0], True).reshape([channels]) for v in (mean, variance))
    count = int(np.prod(x.sizes(axes, "statistics that change")))
    return [y, *_moved(mean, variance, count, node)]


def local_response_norm(node: AtenNode, build: Build) -> Expr:
    """x by a power of the sum of squares of neighbouring channels."""
    return build.value(
        LocalResponseNormOp,
        [node.operand("input")],
        size=node.integer("size", build),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("k", 1.0),
    )


def cosine_similarity(node: AtenNode, build: Build) -> Expr:
    """x y / (|x| |y|) along an axis; no length is less than eps."""
    x, y = node.operand("x1"), node.operand("x2")
    if not x.rank and not y.rank:  # numbers are vectors of one element
        x, y = x.reshape([1]), y.reshape([1])
    axis = build.axis(node.integer("dim", build, 1), max(x.rank, y.rank))
    epsilon = x.constant(node.number("eps", 1e-8))
    if x.shape != y.shape:
        shape = np.broadcast_shapes(*(tuple(v.sizes(range(v.rank), "a cosine")) for v in (x, y)))
        x, y = (v.broadcast_to(list(shape)) for v in (x, y))
    x, y = (v / maximum(p_norm(v, 2.0, [axis], True), epsilon) for v in (x, y))
    return (x * y).sum([axis])


def pairwise_distance(node: AtenNode, build: Build) -> Expr:
    """The norm of x1 - x2 + eps along the last axis."""
    apart = as_float(node.operand("x1") - node.operand("x2")) + node.number("eps", 1e-6)
    axis = [apart.rank - 1]
    return p_norm(apart, node.number("p", 2.0), axis, node.flag("keepdim"))


def weight_norm(node: AtenNode, build: Build) -> Expr:
    """g v / |v|, the length of v along all axes but one."""
    direction, size = node.operand("v"), node.operand("g")
    axis = node.integer("dim", build, 0)
    axes = [a for a in range(direction.rank) if a != axis]
    return direction * (size / p_norm(direction, 2.0, axes, True))


CONVERTERS = {
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": native_batch_norm,
    "_native_batch_norm_legit.no_stats": native_batch_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit_functional": functional_batch_norm,
    "_batch_norm_with_update_functional": updating_batch_norm,
    "native_batch_norm": native_batch_norm,
    "layer_norm": layer_norm,
    "native_layer_norm": native_layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "native_group_norm": native_group_norm,
    "instance_norm": instance_norm,
    "local_response_norm": local_response_norm,
    "cosine_similarity": cosine_similarity,
    "pairwise_distance": pairwise_distance,
    "_weight_norm": weight_norm,
}
