"""Normalizations and softmax, and what does nothing when a model is only executed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explorer.importers.building.build import Undecided
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.formulas import inverse_root, normalized_groups, statistics
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    SoftmaxOp,
)


@converts("Identity")
def identity(node: Node, build: Build) -> Sequence[Imported | None]:
    """A sequence or an optional stays what it is, too."""
    return [node.structure(0)]


@converts("Dropout", until=11)
def dropout(node: Node, build: Build) -> Expr:
    """Nothing is dropped in execution. What the mask then holds is not defined: there is none."""
    if node.opset < 7 and not node.integer("is_test", 0):
        raise Unsupported("is_test is not set: this is a model for training")
    return node.operand(0)


@converts("Dropout", since=12)
def dropout_by_operand(node: Node, build: Build) -> Sequence[Expr]:
    """With `training_mode` the mask comes from the attribute `seed`, as in ONNX's reference."""
    x = node.operand(0)
    ratio = 0.5
    training = node.optional(2)
    trains = None if training is None else build.knowledge.needed(training)
    is_training = training is not None and (trains is None or bool(trains.item()))
    if is_training and node.optional(1) is not None:
        found = build.knowledge.needed(node.operand(1))
        if trains is None or found is None:
            return _dropout_by_data(node, build)
        ratio = float(found.item())
    elif training is not None and trains is None:
        return _dropout_by_data(node, build)
    if not is_training or ratio == 0:
        if len(node.results) < 2:
            return [x]
        return [x, build.weight(np.ones((), bool)).broadcast_to(x.all_sizes())]
    if "seed" not in node.attributes:
        raise Unsupported("training_mode without a seed: every run would be another")
    shape = x.sizes(range(x.rank), "a dropout in training")
    generator = np.random.RandomState(node.integer("seed"))
    mask = build.weight(generator.uniform(0, 1, shape) >= ratio)
    factor = 1 / (1 - ratio) if ratio != 1 else np.inf
    return [build.value(SelectOp, [mask, x, x.constant(0)]).scaled(factor), mask]


def _dropout_by_data(node: Node, build: Build) -> Sequence[Expr]:
    """Whether anything is dropped, or how much, is an input: the mask is computed."""
    if "seed" not in node.attributes:
        raise Undecided("training_mode depends on the inputs, without a seed")
    x, training = node.operand(0), node.operand(2)
    shape = x.sizes(range(x.rank), "a dropout in training")
    generator = np.random.RandomState(node.integer("seed"))
    drawn = build.weight(generator.uniform(0, 1, shape))
    given = node.optional(1)
    ratio = build.weight(np.array(0.5)) if given is None else given.astype(np.float64)
    kept = drawn >= ratio
    mask = kept | ~training
    one = build.weight(np.array(1.0))
    factor = one / (one - ratio)
    scale = where(training, factor, one)
    return [where(mask, x, 0) * scale.astype(x.dtype), mask]


@converts("BatchNormalization")
def batch_normalization(node: Node, build: Build) -> Sequence[Expr]:
    if node.opset < 7 and not node.integer("is_test", 0):
        raise Unsupported("is_test is not set: this is a model for training")
    if not node.integer("spatial", 1):
        raise Unsupported("spatial = 0: statistics per element")
    operands = [node.operand(index) for index in range(5)]
    epsilon = node.number("epsilon", 1e-5)
    if not node.integer("training_mode", 0):
        y = build.value(BatchNormOp, build.of_one_float(operands), epsilon=epsilon)
        return [y.astype(operands[0].dtype)]
    return _train_batch_norm(operands, epsilon, node.number("momentum", 0.9), build)


def _train_batch_norm(
    operands: Sequence[Expr], epsilon: float, momentum: float, build: Build
) -> Sequence[Expr]:
    """The batch's own statistics; results 1 and 2 are the running ones, moved towards them."""
    x, scale, shift, running_mean, running_variance = operands
    axes = [axis for axis in range(x.rank) if axis != 1]
    mean, centered, variance = statistics(x.wide(), axes)
    own = [value.reshape([-1]) for value in (mean, variance)]
    nothing = own[0] * 0
    parts = build.of_one_float([centered, scale, shift, nothing, own[1]])
    y = build.value(BatchNormOp, parts, epsilon=epsilon).astype(x.dtype)
    moved = []
    for running, present in zip((running_mean, running_variance), own, strict=True):
        kept = running.scaled(momentum)
        added = present.astype(running.dtype).scaled(1 - momentum)
        moved.append(kept + added)
    return [y, *moved]


@converts("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node, build: Build) -> Sequence[Expr]:
    """onnxruntime's own, under ONNX's domain: x / sqrt(mean of squares + epsilon) * scale.

    Result 1, where it is wanted: 1 / the root, in f32.
    """
    x, scale = node.operand(0), node.operand(1)
    axis = build.axis(node.integer("axis", -1), x.rank)
    epsilon = node.number("epsilon", 1e-5)
    y = build.value(LayerNormOp, [x, scale, None], axis=axis, epsilon=epsilon, centered=False)
    if not any(node.results[1:]):
        return [y]
    wide = x.astype(np.float32)
    axes = list(range(axis, x.rank))
    return [y, inverse_root(wide.square().mean(axes, True), epsilon)]


@converts("LayerNormalization")
def layer_normalization(node: Node, build: Build) -> Sequence[Expr]:
    """Results 1 and 2, where they are wanted: the mean and 1 / the standard deviation, in f32;
    of f64 they are computed in f64 and rounded."""
    x, scale, shift = node.operand(0), node.optional(1), node.optional(2)
    axis = build.axis(node.integer("axis", -1), x.rank)
    epsilon = node.number("epsilon", 1e-5)
    y = build.value(LayerNormOp, [x, scale, shift], axis=axis, epsilon=epsilon)
    if not any(node.results[1:]):
        return [y]
    axes = range(axis, x.rank)
    mean, _, variance = statistics(x.wide(), axes)
    found = mean, inverse_root(variance, epsilon)
    return [y, *(value.astype(np.float32) for value in found)]


@converts("InstanceNormalization")
def instance_normalization(node: Node, build: Build) -> Expr:
    operands = [node.operand(index) for index in range(3)]
    return build.value(InstanceNormOp, operands, epsilon=node.number("epsilon", 1e-5))


@converts("GroupNormalization", since=18)
def group_normalization(node: Node, build: Build) -> Expr:
    """Each group of channels by its own mean and variance, the latter in two passes.

    Scale and shift belong to groups before opset 21, to channels from it on.
    """
    x, scale, shift = (node.operand(index) for index in range(3))
    groups, epsilon = node.integer("num_groups"), node.number("epsilon", 1e-5)
    _, y = normalized_groups(x, groups, epsilon)
    is_of_groups = node.opset < 21
    if not is_of_groups:
        y = y.reshape(x.all_sizes())
    trailing = [1] * (y.rank - 2)
    scale, shift = (value.reshape([-1, *trailing]) for value in (scale, shift))
    y = y * scale + shift
    return y.reshape(x.all_sizes()) if is_of_groups else y


@converts("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node, build: Build) -> Expr:
    """(x - mean) / (deviation + 1e-9), the variance in two passes, in f32 at least."""
    x = node.operand(0)
    axes = build.axes(node.integers("axes") or (0, 2, 3), x.rank)
    _, centered, variance = statistics(x.wide(), axes)
    return (centered / (variance.sqrt() + 1e-9)).astype(x.dtype)


@converts("LRN")
def local_response_normalization(node: Node, build: Build) -> Expr:
    return build.value(
        LocalResponseNormOp,
        [node.operand(0)],
        size=node.integer("size"),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )


@converts("Softmax", "LogSoftmax", since=13)
def softmax(node: Node, build: Build) -> Expr:
    x = node.operand(0)
    axis = build.axis(node.integer("axis", -1), x.rank)
    return build.value(SoftmaxOp, [x], axis=axis, logarithm=node.operator == "LogSoftmax")


@converts("Softmax", "LogSoftmax", until=12)
def flattening_softmax(node: Node, build: Build) -> Expr:
    """Before opset 13 the axes from `axis` on are normalized as one."""
    x = node.operand(0)
    shape = x.shape
    axis = build.axis(node.integer("axis", 1), len(shape))
    logarithm = node.operator == "LogSoftmax"
    behind = shape[axis + 1 :]
    if all(size == 1 for size in behind):
        return build.value(SoftmaxOp, [x], axis=axis, logarithm=logarithm)
    normalized = math.prod(x.sizes(range(axis, len(shape)), "softmax over several axes"))
    flat = x.reshape([-1, normalized])
    result = build.value(SoftmaxOp, [flat], axis=1, logarithm=logarithm)
    return result.reshape(x.all_sizes())
