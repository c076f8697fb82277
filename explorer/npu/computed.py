"""Products of two computed matrices of a quantized program, as layers.

    matrix_product(op, values)     (layer, what it reads, type of its result) one after the other
    copy(value, name)              the layer that makes a value again
    is_read_as_matrix(op)          whether a transposition is read by products alone, as it was
    is_swap(op), swap(op, name)    a transposition of matrices, and the layer that it is

The second operand is taken row by row, so that a transposed one is what it was made of, and any
other is transposed before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import Attribute, SSAValue

from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import element_type_of, static_shape, tensor_type
from explorer.npu.layer import Convolution, Layer, LayerError, Rescaling
from explorer.npu.matrices import IN_COLUMNS, IN_ROWS, MatrixProduct, Transposition
from explorer.npu.moves import MOVES, PADDING, origin
from explorer.npu.network_values import are_same_bytes, stored_form
from explorer.npu.products import AT_RUN_TIME, Values, offset_of, quantized, requantized

Step = tuple[Layer, tuple[SSAValue | int, ...], Attribute | None]


def is_swap(op: object) -> bool:
    """Whether it swaps rows and columns of matrices, one behind the other."""
    if not isinstance(op, TransposeOp):
        return False
    order = list(op.get("permutation"))
    rank = len(order)
    return rank in (2, 3) and order == [*range(rank - 2), rank - 1, rank - 2]


def swap(op: TransposeOp, name: str) -> Transposition:
    """The layer that does."""
    shape = static_shape(op.input)
    return Transposition(
        name=name, input_shape=stored_form(op.input).shape, batch=shape[0] if len(shape) == 3 else 1
    )


def is_read_as_matrix(op: object) -> bool:
    """Whether it swaps rows and columns for products only, which take the matrix as it was."""
    if not isinstance(op, TransposeOp) or not is_swap(op):
        return False
    uses = list(op.output.uses)
    return bool(uses) and all(
        isinstance(use.operation, MatMulOp) and use.index == 1 for use in uses
    )


def matrix_product(op: MatMulOp, values: Values) -> Iterator[Step]:
    """LayerError where no layers compute it."""
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
    before: list[Step] = []
    matrix: SSAValue | int = right
    owner, zeros = right.owner, IN_ROWS
    if is_read_as_matrix(owner):
        assert isinstance(owner, TransposeOp)
        matrix, zeros = owner.input, IN_COLUMNS
        if not _has_zeros_behind(matrix, values):
            before.append((copy(matrix, values.name), (matrix,), matrix.type))
            matrix = 0
    else:
        turned = Transposition(name=values.name, input_shape=stored_form(right).shape, batch=batch)
        swapped = (*other[:-2], other[-1], other[-2])
        before.append((turned, (right,), tensor_type(element_type_of(right), swapped)))
        matrix = 0
    yield from before
    by, sums = op.requantization, op.sums
    assert sums is not None
    count = other[-1]
    bias = None
    if op.bias is not None:
        bias = values.constant(op.bias, "its bias").astype(np.int64).reshape(-1)
    yield (
        MatrixProduct(
            name=values.name,
            left_shape=stored_form(left).shape,
            right_shape=(other[-2], 1, batch * count),
            batch=batch,
            left_zero_point=op.input_offset - offset_of(kinds[0]),
            right_zero_point=int(kinds[1].zero_point_array[0]) - offset_of(kinds[1]),
            zeros=zeros,
            bias=bias,
            rescaling=None if by is None else requantized(sums, by, 1),
        ),
        (left, matrix),
        None,
    )


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


__all__ = ["Step", "copy", "is_read_as_matrix", "is_swap", "matrix_product", "swap"]
