"""Products of two computed matrices of a quantized program, as layers.

    matrix_product(op, values, machine)   (layer, what it reads, type of its result), one by one
    copy(value, name)                     the layer that makes a value again
    padded_copy(value, name, shape, ...)  the step that fills matrices up with zeros
    is_read_as_matrix(op)                 whether products alone read a transposition, as it was
    is_swap(op), swap(op, name, machine)  a transposition of matrices, and the layers that it is

The second operand is taken row by row, so that a transposed one is what it was made of, and any
other is transposed before. Where a machine's loads of weights take several rows at once, matrices
of other sizes are copied with rows of zeros behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Attribute, SSAValue

from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, static_shape, tensor_type
from explorer.npu.layers.convolution import Convolution, Placement
from explorer.npu.layers.data_movement import MOVES, PADDING, origin
from explorer.npu.layers.layer import Layer, LayerError, Rescaling
from explorer.npu.layers.matrices import (
    IN_COLUMNS,
    IN_ROWS,
    MatrixProduct,
    Transposition,
    channels_with_zeros,
    rows_at_once,
)
from explorer.npu.layers.partition import merged
from explorer.npu.layers.products import AT_RUN_TIME, Values, offset_of, quantized, requantized
from explorer.npu.layers.tensors import most_padding
from explorer.npu.layers.value_layout import are_same_bytes, stored_form
from explorer.targets.npu.machine import Machine

Step = tuple[Layer, tuple[SSAValue | int, ...], Attribute | None]


def is_swap(op: object) -> bool:
    """Whether it swaps rows and columns of matrices, one behind the other."""
    if not isinstance(op, TransposeOp):
        return False
    order = list(op.get("permutation"))
    rank = len(order)
    return rank in (2, 3) and order == [*range(rank - 2), rank - 1, rank - 2]


def swap(op: TransposeOp, name: str, machine: Machine | None) -> Iterator[Step]:
    """The layers that do; `machine`: see `matrix_product`."""
    shape, value = static_shape(op.input), op.input
    batch = shape[0] if len(shape) == 3 else 1
    rows, channels = shape[-2:]
    room = 0 if machine is None else -rows % rows_at_once(machine)
    read: SSAValue | int = value
    if room:
        yield padded_copy(value, name, (batch, rows + room, channels), machine)
        read = 0
    turned = Transposition(
        name=name, input_shape=(channels, 1, batch * (rows + room)), batch=batch, padding=room
    )
    yield turned, (read,), None


def is_read_as_matrix(op: object) -> bool:
    """Whether it swaps rows and columns for products only, which take the matrix as it was."""
    if not isinstance(op, TransposeOp) or not is_swap(op):
        return False
    uses = list(op.output.uses)
    return bool(uses) and all(
        isinstance(use.operation, MatMulOp) and use.index == 1 for use in uses
    )


def matrix_product(op: MatMulOp, values: Values, machine: Machine | None) -> Iterator[Step]:
    """LayerError where no layers compute it.

    machine: whose loads of weights say how many rows of the second operand, and how many zeros
    behind its channels, there have to be; None: one that takes each row by itself.
    """
    left, right = op.left, op.right
    kinds = quantized(left, "its input"), quantized(right, "its second operand")
    for name in (*AT_RUN_TIME, "sign_sums"):
        if getattr(op, name, None) is not None:
            raise LayerError(f"it has an operand {name} beside a computed matrix")
    if op.activation is not None:
        raise LayerError("it has an activation of floats")
    if any(not kind.is_per_tensor for kind in kinds):
        raise LayerError("a computed matrix has a scale for each slice")
    shape, other = static_shape(left), static_shape(right)
    if max(len(shape), len(other)) > 3:
        raise LayerError("its matrices lie as pictures")
    batch = other[0] if len(other) == 3 else 1
    if batch > 1 and (len(shape) < 3 or shape[0] != batch):
        raise LayerError("its matrices are broadcast")
    matrix = _second_operand(right, (batch, other[-2], other[-1]), values, machine)
    yield from matrix.before
    by, sums = op.requantization, op.sums
    assert sums is not None
    bias = None
    if op.bias is not None:
        bias = values.constant(op.bias, "its bias").astype(np.int64).reshape(-1)
    yield (
        MatrixProduct(
            name=values.name,
            left_shape=stored_form(left).shape,
            right_shape=(matrix.channels, 1, batch * (other[-1] + matrix.room)),
            batch=batch,
            padding=matrix.room,
            left_zero_point=op.input_offset - offset_of(kinds[0]),
            right_zero_point=int(kinds[1].zero_point_array[0]) - offset_of(kinds[1]),
            zeros=matrix.zeros,
            bias=bias,
            rescaling=None if by is None else requantized(sums, by, 1),
        ),
        (left, matrix.read),
        None,
    )


@dataclass(frozen=True, kw_only=True)
class _Second:
    """A second operand row by row, and what makes it."""

    before: tuple[Step, ...]
    read: SSAValue | int
    channels: int
    """Zeros that are made behind them included."""
    room: int
    """Rows of zeros behind each matrix."""
    zeros: int


def _second_operand(
    right: SSAValue, shape: tuple[int, int, int], values: Values, machine: Machine | None
) -> _Second:
    """Of matrices of `shape`: how many, what is added up, columns of the result."""
    batch, inner, count = shape
    each = 1 if machine is None else rows_at_once(machine)
    room, owner = -count % each, right.owner
    if is_read_as_matrix(owner):
        assert isinstance(owner, TransposeOp)
        matrix = owner.input
        channels = inner if machine is None else channels_with_zeros(inner, machine)
        zeros = IN_COLUMNS if channels == inner else IN_ROWS
        if room or channels > inner:
            before = padded_copy(matrix, values.name, (batch, count + room, channels), machine)
        elif _has_zeros_behind(matrix, values):
            return _Second(before=(), read=matrix, channels=inner, room=0, zeros=zeros)
        else:
            before = copy(matrix, values.name), (matrix,), matrix.type
        return _Second(before=(before,), read=0, channels=channels, room=room, zeros=zeros)
    swapped = batch, inner + -inner % each, count + room
    steps: list[Step] = []
    if swapped != shape:
        steps.append(padded_copy(right, values.name, swapped, machine))
    read = 0 if steps else right
    _, channels, columns = swapped
    turned = Transposition(
        name=values.name, input_shape=(columns, 1, batch * channels), batch=batch
    )
    kind = tensor_type(element_type_of(right), (batch, columns, channels))
    steps.append((turned, (read,), kind))
    return _Second(before=tuple(steps), read=len(steps) - 1, channels=channels, room=room,
                   zeros=IN_ROWS)  # fmt: skip


def _has_zeros_behind(value: SSAValue, values: Values) -> bool:
    """Whether what made it is a move, whose channels that a block has too many are zeros."""
    if not isinstance(value.owner, MOVES) or are_same_bytes(value.owner.operands[0], value):
        return False
    try:
        return not np.any(origin(value, values.weights).places == PADDING)
    except LayerError:
        return True  # the host moves it, and what comes from there has zeros


def copy(value: SSAValue, name: str) -> Convolution:
    """The same, with zeros behind its channels."""
    channels, height, width = stored_form(value).shape
    ones = np.ones(channels, np.int64)
    return Convolution(
        name=name, input_shape=(channels, 1, height * width),
        weights=np.eye(channels, dtype=np.int64)[:, :, None, None],
        bias=0 * ones, rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones),
    )  # fmt: skip


def padded_copy(
    value: SSAValue, name: str, shape: tuple[int, int, int], machine: Machine | None
) -> Step:
    """The same matrices in a type of `shape` (matrices, rows, channels), filled up with zeros."""
    batch, rows, channels = shape
    before, _, positions = stored_form(value).shape
    held, ones = positions // batch, np.ones(channels, np.int64)
    made: Layer = Convolution(
        name=name, input_shape=(before, batch, held),
        weights=np.eye(channels, before, dtype=np.int64)[:, :, None, None], bias=0 * ones,
        pads=(0, 0, 0, rows - held),
        rescaling=Rescaling(how=None, multipliers=ones, shifts=0 * ones),
    )  # fmt: skip
    if machine is not None and rows - held > most_padding(machine):
        made = _in_pieces(made, held)
    return made, (value,), tensor_type(element_type_of(value), shape)


def _in_pieces(copied: Convolution, held: int) -> Layer:
    """Without padding, of which loads do not write that much: behind what is copied stand rows of
    weights that are zero, as many at once as are read."""
    _, batch, rows = copied.output_shape
    pieces = []
    for start in range(0, rows, held):
        piece = replace(
            copied, weights=copied.weights if start == 0 else 0 * copied.weights,
            pads=(0, 0, 0, min(rows - start, held) - held),
            placement=Placement(size=(batch, rows), offset=(0, start)),
        )  # fmt: skip
        pieces.append((piece, (0,)))
    return merged(copied.name, pieces)


__all__ = ["Step", "copy", "is_read_as_matrix", "is_swap", "matrix_product", "padded_copy", "swap"]
