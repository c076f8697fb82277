"""Where a factor per channel can go from an operation's weights into those of what reads it.

    conv1 -> relu -> pool -> conv2        conv2(pool(relu(conv1(x))))
                                        = conv2'(pool(relu(conv1'(x))))
    conv1' has filters and biases times f, conv2' the weights of these channels divided by it

Between them stands what a positive factor passes: relu, pools and means over other axes, moves.
Where a channel's elements go is found by sending the channels' numbers the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant
from explorer.ir.interfaces import Moving
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import SCALE, origin_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reductions.normalization import LayerNormOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import is_static, shape_of, static_shape
from explorer.ir.weights import Weights
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.corrections.weights import set_weight

CLOSE = 1e-3
"""Means of equal numbers are these, but for rounding."""
MAX_EIGHTHS = 64
"""Of a factor's logarithm: no factor is beyond 2^8."""


class NoSeam(Exception):
    """Why no factor can go out of an operation's weights."""


@dataclass(frozen=True)
class Between:
    """A value on the way: the axis of its channels, and the channel of each of the slices."""

    value: SSAValue
    axis: int
    channels: np.ndarray


@dataclass(frozen=True)
class Reader:
    """A product at the end: the channel of each weight, (rows, inputs) as `magnitudes` has them."""

    op: Linear
    channels: np.ndarray


@dataclass(frozen=True)
class Seam:
    producer: Linear | LayerNormOp
    readers: tuple[Reader, ...]
    between: tuple[Between, ...]
    count: int
    """Of channels."""


def seams(function: func.FuncOp, weights: Weights) -> Iterator[tuple[TopOperation, Seam | str]]:
    """In program order, what makes factors possible, and its seam or the reason why it has none."""
    for op in function.body.block.ops:
        if not isinstance(op, ConvOp | MatMulOp | LayerNormOp):
            continue
        try:
            yield op, seam_of(op, weights)
        except NoSeam as reason:
            yield op, str(reason)


def seam_of(op: Linear | LayerNormOp, weights: Weights) -> Seam:
    """NoSeam says why there is none."""
    _require_parameters(op, weights)
    result = op.results[0]
    axis = 1 if isinstance(op, ConvOp) else len(shape_of(result)) - 1
    count = static_shape(result)[axis]
    if count == 1:
        raise NoSeam("it has one channel")
    # Numbers of which no mean is another one, exact in single precision.
    labels = np.arange(1, count + 1) + np.random.default_rng(0).integers(0, 128, count) / 256
    labels = labels.astype(np.float32)
    shape = [-1 if a == axis else 1 for a in range(len(shape_of(result)))]
    between: list[Between] = []
    readers: list[Reader] = []
    waiting = [(result, np.broadcast_to(labels.reshape(shape), static_shape(result)))]
    while waiting:
        value, spread = waiting.pop()
        between.append(_between(value, spread, labels))
        for use in value.uses:
            user = use.operation
            if _passes(user):
                assert isinstance(user, TopOperation)
                waiting.append((user.results[0], np.asarray(user.evaluate(spread)[0])))
                continue
            if use.index != 0 or not isinstance(user, Linear):
                raise NoSeam(f"{_name(user)} reads it, which takes no factors")
            readers.append(_reader(user, between[-1], weights))
    if not readers:
        raise NoSeam("nothing reads it")
    return Seam(op, tuple(readers), tuple(between), count)


def rescale(seam: Seam, eighths: np.ndarray, rewriter: RecordedRewriter) -> None:
    """Channel c becomes 2^(eighths[c] / 8) times as large between the operations.

    eighths: (channels,) whole numbers. New weights are rounded once, from double precision.
    """
    factors = np.exp2(eighths / 8)
    op = seam.producer
    for index, operand in enumerate(list(op.operands)):
        array = constant(operand, rewriter.weights)
        if index and array is not None:
            is_filter = isinstance(op, ConvOp) and index == 1
            shaped = factors.reshape(-1, *[1] * (array.ndim - 1)) if is_filter else factors
            set_weight(op, index, (array * shaped).astype(array.dtype), rewriter)
    for reader in seam.readers:
        array = constant(reader.op.operands[1], rewriter.weights)
        assert array is not None
        divisors = factors[reader.channels]
        if isinstance(reader.op, MatMulOp):
            divisors = divisors.T
        divisors = divisors.reshape(*divisors.shape, *[1] * (array.ndim - 2))
        set_weight(reader.op, 1, (array / divisors).astype(array.dtype), rewriter)
    for place in seam.between:
        owner, origin = place.value.owner, origin_of(place.value)
        if isinstance(owner, Operation) and origin is not None:
            moved = origin.scaled(place.axis, eighths[place.channels].tolist())
            rewriter.set_origins(owner, [moved])


def eighths_of(value: SSAValue) -> tuple[int, ...]:
    """The factors' logarithms that a value has by now, along its axis; none where it has none."""
    origin = origin_of(value)
    if origin is None or not origin.steps or origin.steps[-1][0] != SCALE:
        return ()
    return tuple(origin.steps[-1][1][1:])


def whole_eighths(factors: np.ndarray) -> np.ndarray:
    """The nearest numbers of eighths of octaves, within bounds; 0 for what is no factor."""
    with np.errstate(all="ignore"):
        eighths = 8 * np.log2(factors)
    eighths = np.where(np.isfinite(eighths), eighths, 0.0)
    return np.clip(np.rint(eighths), -MAX_EIGHTHS, MAX_EIGHTHS).astype(np.int64)


def magnitudes(op: Linear, weights: Weights) -> np.ndarray:
    """(rows, inputs of a row): of each filter or column the largest magnitude per input channel."""
    array = constant(op.operands[1], weights)
    assert array is not None
    largest = np.abs(array.astype(np.float64))
    if isinstance(op, MatMulOp):
        return largest.T
    return largest.max(axis=tuple(range(2, array.ndim)), initial=0.0)


def read_ranges(seam: Seam, known: Sequence[np.ndarray]) -> np.ndarray:
    """(channels,) the largest magnitude of the weights that each channel is multiplied with.

    known: `magnitudes` of each reader.
    """
    ranges = np.zeros(seam.count)
    for reader, own in zip(seam.readers, known, strict=True):
        np.maximum.at(ranges, reader.channels, own)
    return ranges


def _require_parameters(op: Linear | LayerNormOp, weights: Weights) -> None:
    if not is_static(op.results[0]):
        raise NoSeam("its sizes are not known")
    parameters = [constant(o, weights) for o in op.operands[1:]]
    if any(p is None for p in parameters):
        raise NoSeam("its parameters are computed")
    if isinstance(op, LayerNormOp):
        shape = static_shape(op.output)
        fits = op.scale is not None and op.get("axis") == len(shape) - 1
        if not fits or any(p is None or p.shape != shape[-1:] for p in parameters):
            raise NoSeam("it has no scale for each element of the last axis")
        return
    _require_plain(op)
    if isinstance(op, MatMulOp) and len(shape_of(op.right)) != 2:
        raise NoSeam("its weights are several matrices")


def _require_plain(op: Linear) -> None:
    if op.residual is not None or op.get("activation") or op.sums is not None:
        raise NoSeam(f"{identity_of(op)} is more than a product")


def _passes(op: Operation) -> bool:
    """Whether a positive factor of its operand is one of its result."""
    if isinstance(op, UnaryOp):
        return op.kind.data in ("relu", "leaky_relu")
    if isinstance(op, PoolOp):
        return op.get("kind") in ("max", "average")
    if isinstance(op, ReduceOp):
        return op.kind.data == "mean"
    return isinstance(op, Moving) and len(op.operands) == 1 and len(op.results) == 1


def _between(value: SSAValue, spread: np.ndarray, labels: np.ndarray) -> Between:
    """The channels along the only axis on which they differ."""
    for axis in range(spread.ndim):
        row = np.moveaxis(spread, axis, 0).reshape(spread.shape[axis], -1)
        if not np.allclose(row, row[:, :1], rtol=0, atol=CLOSE):
            continue
        found = np.clip(np.searchsorted(labels, row[:, 0] - CLOSE), 0, len(labels) - 1)
        if np.abs(labels[found] - row[:, 0]).max() < CLOSE and len(found) > 1:
            return Between(value, axis, found)
    raise NoSeam(f"{_name(value.owner)} mixes channels")


def _reader(op: Linear, place: Between, weights: Weights) -> Reader:
    _require_plain(op)
    array = constant(op.operands[1], weights)
    axis = 1 if isinstance(op, ConvOp) else len(shape_of(op.operands[0])) - 1
    if array is None or (isinstance(op, MatMulOp) and array.ndim != 2):
        raise NoSeam(f"{identity_of(op)} multiplies with what is computed")
    if place.axis != axis:
        raise NoSeam(f"{identity_of(op)} does not sum over channels")
    if isinstance(op, MatMulOp):
        return Reader(op, np.broadcast_to(place.channels, array.T.shape))
    rows, inputs = array.shape[:2]
    group = op.get("group")
    own = np.repeat(place.channels.reshape(group, inputs), rows // group, axis=0)
    return Reader(op, own)


def _name(op: object) -> str:
    return identity_of(op) if isinstance(op, TopOperation) else "the model's result"
