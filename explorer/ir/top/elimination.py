"""Steps of Gauss' elimination as nests, for stacks of matrices in the last two axes of a buffer.

    choose_pivot     the largest element of a column, from its diagonal down
    exchange_rows    its row changes places with the diagonal's
    divide_below     how often the diagonal's row is in those below it
    subtract_row     it goes from others as often as it is in them

`outer` are the loops over the stack; a single matrix has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import IndexType, i64

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, clamp_index
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.definitions import load_element, store_element
from explorer.ir.top.support.operands import may_be_equal, require_floats
from explorer.ir.top.support.unary_kinds import UNARY
from explorer.ir.types import Dim, Shape, format_shape, shape_of

LARGEST = 32
"""Rows of a matrix in compiled code, where each column takes statements of its own."""

Loops = Mapping[str, int]


class OfMatrices(TopOperation):
    """The first operand holds matrices in its last two axes."""

    def require_square(self, role: str) -> Shape:
        """Their shape. ValueError where they are not square, or hold no floats."""
        shape = shape_of(self.operands[0])
        if len(shape) < 2 or not may_be_equal(shape[-2], shape[-1]):
            raise ValueError(f"{role} needs square matrices, not {format_shape(shape)}")
        require_floats(role, self.operands)
        return shape

    def require_shorter_side(self, role: str) -> tuple[Shape, Dim]:
        """Their shape, and how long its shorter side is. ValueError where that is not known, or
        they hold no floats."""
        shape = shape_of(self.operands[0])
        if len(shape) < 2:
            raise ValueError(f"{role} are those of matrices, not of {format_shape(shape)}")
        require_floats(role, self.operands)
        rows, columns = shape[-2:]
        if rows == columns:
            return shape, rows
        if isinstance(rows, int) and isinstance(columns, int):
            return shape, min(rows, columns)
        raise ValueError(f"which side of {format_shape(shape)} is shorter is not known")

    def missing_form(self) -> str:
        sizes = [size for size in shape_of(self.operands[0])[-2:] if isinstance(size, int)]
        if min(sizes, default=0) > LARGEST:
            return f"{self.name} of more than {LARGEST} rows is not compiled"
        return ""


def exchanged(matrices: np.ndarray, column: int, best: np.ndarray) -> np.ndarray:
    """Each matrix with row `column` and its own row `best` in each other's place."""
    order = np.broadcast_to(np.arange(matrices.shape[-2]), (*best.shape, matrices.shape[-2])).copy()
    np.put_along_axis(order, best[..., np.newaxis], column, -1)
    order[..., column] = best
    return np.take_along_axis(matrices, order[..., np.newaxis], -2)


def pivots_of(matrices: np.ndarray, column: int) -> np.ndarray:
    """The row, from `column` on, of the largest element of a column."""
    return column + np.abs(matrices[..., column:, column]).argmax(-1)


def loops_over(batch: Sequence[int]) -> dict[str, int]:
    """Loops over a stack of matrices by name."""
    return {f"b{axis}": extent for axis, extent in enumerate(batch)}


def stack_place(indices: Sequence[Scalar], outer: Loops) -> list[Scalar]:
    """Where a matrix is in the stack, of the indices of a nest that `at_each` made."""
    return list(indices[: len(outer)])


def at_each(outer: Loops) -> Loops:
    """Loops for what happens once for each matrix: one round for a single one."""
    return outer or {"once": 1}


def choose_pivot(
    k: KernelBuilder, outer: Loops, column: int, matrix: Access, pivot: Access
) -> None:
    """The row, from `column` on, whose element in this column is the largest."""
    size, parallel = matrix.shape[-2], " ".join(outer)

    def begin(s: ScalarBuilder, *indices: Scalar) -> None:
        store_element(s, s.index(column).convert(i64), pivot, stack_place(indices, outer))

    def choose(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number = indices
        row, best = number + column + 1, _row_of(s, pivot, at, size)
        own, other = (
            UNARY["abs"].body(s, load_element(s, matrix, [*at, line, s.index(column)]), 0, 0)
            for line in (row, best)
        )
        chosen = own.compare("gt", other).select(row, best)
        store_element(s, chosen.convert(i64), pivot, at)

    k.nest(at_each(outer), begin, parallel=parallel)
    k.nest({**outer, "row": size - column - 1}, choose, parallel=parallel)


def exchange_rows(
    k: KernelBuilder, outer: Loops, column: int, matrix: Access, pivot: Access
) -> None:
    """The pivot's row comes to row `column`, and that one to where it was."""
    size, width = matrix.shape[-2:]

    def exchange(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, place = indices
        best = _row_of(s, pivot, at, size)
        upper = load_element(s, matrix, [*at, s.index(column), place])
        lower = load_element(s, matrix, [*at, best, place])
        store_element(s, upper, matrix, [*at, best, place])
        store_element(s, lower, matrix, [*at, s.index(column), place])

    k.nest({**outer, "place": width}, exchange, parallel=" ".join(outer))


def subtract_row(
    k: KernelBuilder,
    outer: Loops,
    column: int,
    matrix: Access,
    factor: Access,
    rows_from: int = 0,
    columns_from: int = 0,
) -> None:
    """Row `column`, times the factor of each other row, is taken from that row."""
    rows, columns = matrix.shape[-2] - rows_from, matrix.shape[-1] - columns_from

    def subtract(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number, offset = indices
        row, place = number + rows_from, offset + columns_from
        upper = load_element(s, matrix, [*at, s.index(column), place])
        own = load_element(s, matrix, [*at, row, place])
        share = load_element(s, factor, [*at, row]) * upper
        store_element(s, own - share, matrix, [*at, row, place])

    k.nest({**outer, "row": rows, "place": columns}, subtract, parallel=" ".join(outer))


def divide_below(
    k: KernelBuilder, outer: Loops, column: int, matrix: Access, factor: Access
) -> None:
    """How often row `column` is in each row below it; 0 where its pivot is 0, for then all of the
    column is."""
    below = matrix.shape[-2] - column - 1

    def divide(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number = indices
        row = number + column + 1
        head = load_element(s, matrix, [*at, s.index(column), s.index(column)])
        quotient = load_element(s, matrix, [*at, row, s.index(column)]) / head
        safe = head.compare("eq", 0).select(0, quotient)
        store_element(s, safe, factor, [*at, row])

    k.nest({**outer, "row": below}, divide, parallel=" ".join(outer))


def _row_of(s: ScalarBuilder, pivot: Access, at: Sequence[Scalar], size: int) -> Scalar:
    return clamp_index(s, load_element(s, pivot, at).convert(IndexType()), size)
