"""What convolutions and matmuls have in common for rules that change their weights.

A convolution's weights are (outputs, inputs / group, window...), a matmul's (inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.types import shape_of
from explorer.passes.analysis.matching import constant, is_constant, is_used_once, uses, weight_name

Linear = ConvOp | MatMulOp


def weight_of(linear: Linear) -> SSAValue:
    return linear.weight if isinstance(linear, ConvOp) else linear.right


def input_of(linear: Linear) -> SSAValue:
    return linear.input if isinstance(linear, ConvOp) else linear.left


def require_constant_parameters(linear: Linear, rewriter: RecordedRewriter) -> np.ndarray:
    """The weights; Declined where they, or the bias, are computed, or are whole numbers.

    Sums of whole numbers (a quantized model) are exact and must stay so.
    """
    name = identity_of(linear)
    weight = constant(weight_of(linear), rewriter.weights)
    if weight is None:
        raise Declined(f"the weights of {name} are computed")
    if linear.bias is not None and not is_constant(linear.bias):
        raise Declined(f"the bias of {name} is computed")
    if isinstance(linear, MatMulOp) and weight.ndim != 2:
        raise Declined(f"{name} has {weight.ndim - 2} batch dimensions of weights")
    if np.array_equal(weight, np.rint(weight)):
        raise Declined(f"the weights of {name} are whole numbers: sums stay exact")
    return weight


def takes_factor(op: object) -> bool:
    """Can a factor go into the weights of what makes the value? Then it goes there."""
    if not isinstance(op, ConvOp | MatMulOp):
        return False
    is_open = op.residual is None and not op.get("activation") and op.sums is None
    parameters = (weight_of(op), *([] if op.bias is None else [op.bias]))
    return is_open and all(is_constant(p) for p in parameters) and is_used_once(op)


def channel_axis_of(linear: Linear) -> int:
    """The axis of the input that weights are summed over."""
    return 1 if isinstance(linear, ConvOp) else len(shape_of(linear.left)) - 1


def per_input(weight: np.ndarray, numbers: np.ndarray, linear: Linear) -> np.ndarray:
    """One number per input channel in a shape that broadcasts to the weights.

    A grouped convolution's outputs see the channels of their own group.
    """
    if isinstance(linear, MatMulOp):
        return numbers[:, np.newaxis]
    outputs, inputs = weight.shape[:2]
    group = linear.get("group")
    own = numbers.reshape(group, 1, inputs)
    spread = np.broadcast_to(own, (group, outputs // group, inputs))
    return spread.reshape(outputs, inputs, *[1] * (weight.ndim - 2))


def replace_with_parameters(
    op: TopOperation,
    new: TopOperation,
    absorbs: Sequence[TopOperation],
    rewriter: RecordedRewriter,
) -> None:
    """Replaces `op`; parameters that it or what it absorbs read alone go with them."""
    read = [o.owner for step in (op, *absorbs) for o in step.operands]
    weights = [w for w in dict.fromkeys(read) if isinstance(w, WeightOp)]
    rewriter.replace(op, new, absorbs=absorbs)
    for weight in weights:
        if uses(weight) == 0:
            rewriter.erase(weight)


def with_weights(
    linear: Linear,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    anchor: TopOperation,
    rewriter: RecordedRewriter,
    **changes: SSAValue,
) -> TopOperation:
    """The operation with new weights and bias (None: as they are), stored before `anchor`."""
    is_conv = isinstance(linear, ConvOp)
    dtype = rewriter.weights[weight_of(linear).owner.weight.data].dtype  # pyright: ignore
    if weight is not None:
        name = weight_name(linear, "weight")
        changes["weight" if is_conv else "right"] = rewriter.add_weight(
            anchor, name, weight.astype(dtype), like=linear
        )
    if bias is not None:
        name = weight_name(linear, "bias")
        changes["bias"] = rewriter.add_weight(anchor, name, bias.astype(dtype), like=linear)
    return linear.altered(**changes)
