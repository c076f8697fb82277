"""Triangular factors of matrices, by elimination.

top.lu          A (..., m, n)  ->  L and U of A with exchanged rows in one matrix, and which rows
top.cholesky    A (..., n, n)  ->  L (..., n, n) of L Lᵀ = A, zeros above its diagonal
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.elimination import (
    Loops,
    OfMatrices,
    at_each,
    choose_pivot,
    divide_below,
    exchange_rows,
    exchanged,
    loops_over,
    pivots_of,
    stack_place,
    subtract_row,
)
from explorer.ir.types import element_type_of, tensor_type


@irdl_op_definition
class LuOp(OfMatrices):
    """L (below the diagonal, ones on it) and U of a matrix whose rows were exchanged.

    pivots: the row, counted from 1, that changed places with each of the first ones (LAPACK's
    getrf). A column without a pivot keeps its zeros.
    """

    name = "top.lu"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    factors = result_def(TensorType)
    pivots = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, count = self.require_shorter_side("factors")
        pivots = tensor_type(i32, (*shape[:-2], count))
        return [tensor_type(element_type_of(self.input), shape), pivots]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        factors = operands[0].copy()
        count = min(factors.shape[-2:])
        pivots = np.zeros((*factors.shape[:-2], count), np.int32)
        with np.errstate(all="ignore"):
            for column in range(count):
                best, below = pivots_of(factors, column), column + 1
                pivots[..., column] = best + 1
                factors = exchanged(factors, column, best)
                head = factors[..., column, column, np.newaxis]
                share = np.where(head == 0, 0, factors[..., below:, column] / head)
                factors[..., below:, column] = share
                row = factors[..., column, np.newaxis, below:]
                factors[..., below:, below:] -= share[..., np.newaxis] * row
        return factors, pivots

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        """In place of the result; what a column is divided by stands below its diagonal."""
        self.check_form()
        (x,), (pivots,) = inputs, others
        *batch, rows, columns = output.shape
        outer = loops_over(batch)
        factor = scratch(k, "factor", (*batch, rows), element_type_of(self.factors))
        pivot = scratch(k, "pivot", batch, i64)
        d = k.dimensions(**outer, row=rows, column=columns)
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, a: a)
        for column in range(min(rows, columns)):
            choose_pivot(k, outer, column, output, pivot)
            exchange_rows(k, outer, column, output, pivot)
            divide_below(k, outer, column, output, factor)
            subtract_row(k, outer, column, output, factor, column + 1, column + 1)
            self._keep(k, column, outer, (factor, pivot), (output, pivots))
        return "explicit"

    @staticmethod
    def _keep(
        k: KernelBuilder,
        column: int,
        outer: Loops,
        found: tuple[Access, Access],
        results: tuple[Access, Access],
    ) -> None:
        """A column of L and its pivot become results."""
        (factor, pivot), (output, pivots) = found, results
        parallel = " ".join(outer)

        def keep_factor(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            row = number + column + 1
            value = load_element(s, factor, [*at, row])
            store_element(s, value, output, [*at, row, s.index(column)])

        def keep_pivot(s: ScalarBuilder, *indices: Scalar) -> None:
            at = stack_place(indices, outer)
            number = load_element(s, pivot, at).convert(i32) + 1
            store_element(s, number, pivots, [*at, s.index(column)])

        k.nest({**outer, "row": output.shape[-2] - column - 1}, keep_factor, parallel=parallel)
        k.nest(at_each(outer), keep_pivot, parallel=parallel)


@irdl_op_definition
class CholeskyOp(OfMatrices):
    """The lower triangular factor of every matrix, of which only the lower triangle is read.

    NaN on the diagonal from the row on where the matrix is not positive definite.
    """

    name = "top.cholesky"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(element_type_of(self.input), self.require_square("Cholesky's factor"))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        """Column after column: what the columns before it give is taken away, the rest is divided
        by the root of its first element."""
        factor = np.tril(operands[0])
        with np.errstate(all="ignore"):
            for column in range(factor.shape[-1]):
                before = factor[..., column, :column, np.newaxis]
                below = factor[..., column:, column]
                below -= (factor[..., column:, :column] @ before)[..., 0]
                head = below[..., :1]
                root = np.sqrt(np.where(head > 0, head, np.nan))
                below[..., :1], below[..., 1:] = root, below[..., 1:] / root
        return (factor,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """As `evaluate`, in three nests for a column."""
        self.check_form()
        (x,) = inputs
        *batch, size, _ = output.shape
        outer = loops_over(batch)
        parallel = " ".join(outer)

        def lower(s: ScalarBuilder, *indices: Scalar) -> None:
            *_, row, column = indices
            value = load_element(s, x, indices)
            store_element(s, row.compare("ge", column).select(value, 0), output, indices)

        k.nest({**outer, "row": size, "column": size}, lower, parallel=parallel)
        for column in range(size):
            self._factorize(k, column, outer, output)
        return "explicit"

    @staticmethod
    def _factorize(k: KernelBuilder, column: int, outer: Loops, output: Access) -> None:
        """One column of the factor."""
        size, parallel = output.shape[-1], " ".join(outer)

        def subtract(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number, before = indices
            target = [*at, number + column, s.index(column)]
            left = load_element(s, output, [*at, number + column, before])
            upper = load_element(s, output, [*at, s.index(column), before])
            store_element(s, load_element(s, output, target) - left * upper, output, target)

        def take_root(s: ScalarBuilder, *indices: Scalar) -> None:
            target = [*stack_place(indices, outer), s.index(column), s.index(column)]
            head = load_element(s, output, target)
            is_positive = head.compare("gt", 0)
            store_element(s, is_positive.select(head, np.nan).unary(SqrtOp), output, target)

        def divide(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            target = [*at, number + column + 1, s.index(column)]
            root = load_element(s, output, [*at, s.index(column), s.index(column)])
            store_element(s, load_element(s, output, target) / root, output, target)

        k.nest({**outer, "row": size - column, "before": column}, subtract, parallel=parallel)
        k.nest(at_each(outer), take_root, parallel=parallel)
        k.nest({**outer, "row": size - column - 1}, divide, parallel=parallel)
