"""Operations of a quantized program as layers.

    read_operation(op, weights, machine) the layers that compute it: ReadLayer(layer, reads)
    read_layers(snapshot)                all of a program: layers, and what is refused, with reasons

Products, sums over positions, requantizations, sums of two scales, maxima, functions by table, the
softmax and normalizations, and what only moves numbers. Unsigned bytes are stored as
signed ones, 128 less: that is a flipped bit, and moves zero points and limits along. How values lie
says `value_layout.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.program import Snapshot
from explorer.ir.requantization import ratio_of
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.integer_normalizations import IntegerLayerNormOp, IntegerSoftmaxOp
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import static_shape
from explorer.npu.layers.averages import average
from explorer.npu.layers.computed_matrices import Step, copy, is_swap, matrix_product, swap
from explorer.npu.layers.data_movement import (
    MOVES,
    is_unmoved,
    move_layers,
    origin,
)
from explorer.npu.layers.elementwise import ElementwiseOperand
from explorer.npu.layers.fixed_points import factor, fixed_point_layers, scaled_layer
from explorer.npu.layers.fusion import is_read_through, stays
from explorer.npu.layers.layer import Layer, LayerError
from explorer.npu.layers.normalization import normalization
from explorer.npu.layers.partition import merged, over_pictures
from explorer.npu.layers.products import Values, offset_of, product, quantized, rescaled, summed
from explorer.npu.layers.softmax import softmax
from explorer.npu.layers.sums import (
    arithmetic_behind,
    numbers_behind,
    sums_behind,
)
from explorer.npu.layers.value_layout import stored_form, width_problem
from explorer.npu.layers.windows import WindowLayer
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True, kw_only=True)
class ReadLayer:
    """One of the layers that compute an operation."""

    layer: Layer
    reads: tuple[SSAValue | int, ...]
    """A value of the program, or the number of an earlier layer of the same operation."""
    result: Attribute | None = None
    """Type of what it makes; None: it makes the operation's result."""


@dataclass(frozen=True, kw_only=True)
class FoundLayer:
    """A layer of a program, and the values that it reads and makes."""

    layer: Layer
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, kw_only=True)
class FoundLayers:
    layers: tuple[FoundLayer, ...]
    refused: tuple[tuple[str, str], ...]
    """Name of the result and reason, of every other operation of quantized numbers."""


def read_layers(snapshot: Snapshot) -> FoundLayers:
    """All layers of a snapshot of level top, in program order."""
    layers: list[FoundLayer] = []
    refused: list[tuple[str, str]] = []
    for op in operations(snapshot.program):
        if not isinstance(op, TopOperation) or not op.results or _is_at_the_ends(op):
            continue
        try:
            if stays(op) or is_read_through(op):
                continue
            for read in read_operation(op, snapshot.weights):
                names = tuple(value_name(v) for v in read.reads if isinstance(v, SSAValue))
                output = value_name(op.results[0])
                layers.append(FoundLayer(layer=read.layer, inputs=names, output=output))
        except LayerError as error:
            refused.append((value_name(op.results[0]), error.message))
    return FoundLayers(layers=tuple(layers), refused=tuple(refused))


def _is_at_the_ends(op: TopOperation) -> bool:
    """Between floats and integers, which the host converts."""
    return op.name in ("top.quantize", "top.dequantize", "top.weight", "top.return")


# ------------------------------------------------------------------------------------ by operation


def read_operation(
    op: TopOperation, weights: Mapping[str, np.ndarray], machine: Machine | None = None
) -> tuple[ReadLayer, ...]:
    """LayerError, with the reason, where no layers compute it.

    machine: the one that they are for, where they depend on what it loads at once; None: on none.
    """
    name = value_name(op.results[0])
    if is_swap(op) and is_unmoved(op.results[0]):
        (root,) = origin(op.results[0], weights).roots
        found = (ReadLayer(layer=copy(op.results[0], name), reads=(root,)),)
    elif isinstance(op, TransposeOp) and is_swap(op):
        found = _one_by_one(swap(op, name, machine))
    elif isinstance(op, MOVES):
        found = (_read_moves(op, name, weights),)
    elif isinstance(op, MatMulOp) and not isinstance(op.right.owner, WeightOp):
        found = _one_by_one(matrix_product(op, Values(name, weights), machine))
    elif isinstance(op, FixedPointOp):
        found = _one_by_one(fixed_point_layers(op, Values(name, weights)))
    elif isinstance(op, IntegerSoftmaxOp):
        found = _one_by_one(softmax(op, name))
    elif isinstance(op, IntegerLayerNormOp):
        found = _one_by_one(normalization(op, Values(name, weights)))
    else:
        reader = READERS.get(type(op))
        if reader is None:
            raise LayerError(f"{op.label()} is no layer")
        found = (reader(op, Values(name, weights)),)
    _check(op, found, machine)
    return found


def view_problem(op: TopOperation, machine: Machine) -> str:
    """Why bytes that stay where they are (`stays`) cannot be numbers of the machine's memory."""
    if not op.is_view:
        return ""
    return width_problem(op.operands[0], machine) or width_problem(op.results[0], machine)


def _one_by_one(steps: Iterable[Step]) -> tuple[ReadLayer, ...]:
    return tuple(
        ReadLayer(layer=layer, reads=reads, result=result) for layer, reads, result in steps
    )


def _read_moves(op: TopOperation, name: str, weights: Mapping[str, np.ndarray]) -> ReadLayer:
    layers = list(move_layers(op, name, weights))
    if len(layers) == 1:
        ((layer, reads),) = layers
        return ReadLayer(layer=layer, reads=reads)
    roots = list(dict.fromkeys(root for _, reads in layers for root in reads))
    numbered = [(layer, tuple(map(roots.index, reads))) for layer, reads in layers]
    return ReadLayer(layer=merged(name, numbered), reads=tuple(roots))


def _check(op: TopOperation, found: tuple[ReadLayer, ...], machine: Machine | None) -> None:
    """Every layer reads and writes tensors as they lie, of numbers that the machine stores."""
    made = [op.results[0].type if read.result is None else read.result for read in found]
    for read, kind in zip(found, made, strict=True):
        kinds = [made[v] if isinstance(v, int) else v.type for v in read.reads]
        for one, tensor in zip(
            (*kinds, kind), (*read.layer.inputs, read.layer.output), strict=True
        ):
            stored = stored_form(one)
            if stored.is_wide and not tensor.is_wide:
                raise LayerError("its sums have 32 bits, and what moves numbers takes bytes")
            if not stored.agrees(tensor):
                lies = list(stored.shape)
                raise LayerError(f"it takes {list(tensor.shape)} of what lies as {lies}")
            if machine is not None and (problem := width_problem(one, machine)):
                raise LayerError(problem)


def _of_pictures(layer: Layer, value: SSAValue) -> ReadLayer:
    """A layer that reads a value, or a picture of it: then one of all its pictures."""
    stored, (tensor,) = stored_form(value), layer.inputs
    count = prod(stored.shape) // prod(tensor.shape)
    return ReadLayer(layer=over_pictures(layer, count), reads=(value,))


def _read_product(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, ConvOp | MatMulOp)
    layer, value = product(op, values, op.requantization)
    return _of_pictures(layer, value)


def _read_reduce(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, ReduceOp)
    value = numbers_behind(op.input)
    if value is None:
        raise LayerError(f"{op.label()} of other numbers than quantized ones is no layer")
    return _of_pictures(summed(op, value, values.name), value)


def _read_requantize(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, RequantizeOp)
    behind = sums_behind(op.input)
    kind = quantized(op.input, "its input")
    if behind is not None:
        if isinstance(behind, ReduceOp):
            value = numbers_behind(behind.input)
            assert value is not None
            layer = summed(behind, value, values.name)
        else:
            layer, value = product(behind, values, None)
        layer = replace(layer, moved=arithmetic_behind(op.input, values))
        return _of_pictures(rescaled(layer, kind, op.by), value)
    if not kind.is_per_tensor:
        raise LayerError("it has a scale for each slice of what is not multiplied before")
    stored, by = stored_form(op.input), op.by
    zero = int(kind.zero_point_array[0]) - stored.offset
    operand = ElementwiseOperand(shape=stored.shape, zero_point=zero, is_wide=stored.is_wide)
    layer = scaled_layer(values.name, by, operand, factor(ratio_of(kind, by), by))
    return ReadLayer(layer=layer, reads=(op.input,))


def _read_pool(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, PoolOp)
    kind, shape = quantized(op.input, "its input"), static_shape(op.input)
    if op.get("kind") != "max":
        raise LayerError(f"a pool of kind {op.get('kind')} has no form in integers")
    if len(shape) != 4:
        raise LayerError(f"its window has {len(shape) - 2} axes, and layers have two")
    rows, stride = static_shape(op.output)[2], op.get("strides")[0]
    if shape[0] > 1 and (op.get("pads")[0] or shape[2] != rows * stride):
        raise LayerError("its windows do not end where a picture of the batch does")
    layer = WindowLayer(
        name=values.name,
        input_shape=stored_form(op.input).shape,
        bits=kind.storage.width.data,
        kernel=tuple(op.get("window")),
        strides=tuple(op.get("strides")),
        dilations=tuple(op.get("dilations")),
        pads=tuple(op.get("pads")),
    )
    return ReadLayer(layer=layer, reads=(op.input,))


def _read_average(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, IntegerAverageOp)
    return _of_pictures(average(op, values.name), op.input)


def _read_lookup(op: TopOperation, values: Values) -> ReadLayer:
    assert isinstance(op, LookupOp)
    kind, entries = quantized(op.input, "its input"), op.entries
    bits = kind.storage.width.data
    if entries.step_bits:
        raise LayerError("it draws lines between the entries of its table, which layers do not")
    if op.to.storage.width.data != bits:
        raise LayerError(f"it makes {op.to.storage} of {kind.storage}, of another width")
    channels, height, width = stored_form(op.input).shape
    # Only how full blocks of channels become depends on the shape.
    layer = WindowLayer(
        name=values.name,
        input_shape=(channels, 1, height * width),
        bits=bits,
        table=entries.entries.astype(np.int64) - offset_of(op.to),
    )
    return ReadLayer(layer=layer, reads=(op.input,))


READERS: Mapping[type, Callable[[TopOperation, Values], ReadLayer]] = {
    ConvOp: _read_product,
    IntegerAverageOp: _read_average,
    LookupOp: _read_lookup,
    MatMulOp: _read_product,
    PoolOp: _read_pool,
    ReduceOp: _read_reduce,
    RequantizeOp: _read_requantize,
}
