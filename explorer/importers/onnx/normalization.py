"""Normalizations and softmax, and what does nothing when a model is only executed."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node, Unsupported, converts
from explorer.ir.top.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    LocalResponseNormOp,
    SoftmaxOp,
)


@converts("Identity")
def identity(node: Node, build: Build) -> SSAValue:
    return node.operand(0)


@converts("Dropout")
def dropout(node: Node, build: Build) -> SSAValue:
    """Nothing is dropped in execution; `training_mode` (opset 12) must not be set."""
    training = node.optional(2)
    if training is not None and build.known(training, "training_mode").item():
        raise Unsupported("training_mode is set: this is a model for training")
    return node.operand(0)


@converts("BatchNormalization")
def batch_normalization(node: Node, build: Build) -> SSAValue:
    if node.integer("training_mode", 0) or (node.opset < 7 and not node.integer("is_test", 0)):
        raise Unsupported("training_mode is set: this is a model for training")
    if not node.integer("spatial", 1):
        raise Unsupported("spatial = 0: statistics per element")
    operands = [node.operand(index) for index in range(5)]
    return build.value(BatchNormOp, operands, epsilon=node.number("epsilon", 1e-5))


@converts("LayerNormalization")
def layer_normalization(node: Node, build: Build) -> SSAValue:
    x, scale, shift = node.operand(0), node.optional(1), node.optional(2)
    axis = build.axis(node.integer("axis", -1), build.rank(x))
    return build.value(
        LayerNormOp, [x, scale, shift], axis=axis, epsilon=node.number("epsilon", 1e-5)
    )


@converts("InstanceNormalization")
def instance_normalization(node: Node, build: Build) -> SSAValue:
    operands = [node.operand(index) for index in range(3)]
    return build.value(InstanceNormOp, operands, epsilon=node.number("epsilon", 1e-5))


@converts("LRN")
def local_response_normalization(node: Node, build: Build) -> SSAValue:
    return build.value(
        LocalResponseNormOp,
        [node.operand(0)],
        size=node.integer("size"),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )


@converts("Softmax", "LogSoftmax", since=13)
def softmax(node: Node, build: Build) -> SSAValue:
    x = node.operand(0)
    axis = build.axis(node.integer("axis", -1), build.rank(x))
    return build.value(SoftmaxOp, [x], axis=axis, logarithm=node.operator == "LogSoftmax")


@converts("Softmax", "LogSoftmax", until=12)
def flattening_softmax(node: Node, build: Build) -> SSAValue:
    """Before opset 13 the axes from `axis` on are normalized as one."""
    x = node.operand(0)
    shape = build.shape(x)
    axis = build.axis(node.integer("axis", 1), len(shape))
    logarithm = node.operator == "LogSoftmax"
    behind = shape[axis + 1 :]
    if all(size == 1 for size in behind):
        return build.value(SoftmaxOp, [x], axis=axis, logarithm=logarithm)
    normalized = math.prod(build.sizes(x, range(axis, len(shape)), "softmax over several axes"))
    flat = build.reshape(x, [-1, normalized])
    result = build.value(SoftmaxOp, [flat], axis=1, logarithm=logarithm)
    return build.reshape(result, build.all_sizes(x))
