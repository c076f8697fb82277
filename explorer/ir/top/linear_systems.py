"""Systems of linear equations, by elimination.

top.solve       A (..., n, n), B (..., n, k)  ->  X (..., n, k) of A X = B

A matrix that has no inverse gives NaN or infinities: nothing is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.elimination import (
    Loops,
    OfMatrices,
    choose_pivot,
    exchange_rows,
    exchanged,
    loops_over,
    pivots_of,
    subtract_row,
)
from explorer.ir.top.support.operands import may_be_same_shape, require_same_type
from explorer.ir.types import element_type_of, format_shape, shape_of, tensor_type


@irdl_op_definition
class SolveOp(OfMatrices):
    """The solution of a system of equations for every matrix and the columns beside it."""

    name = "top.solve"
    FAMILY: ClassVar[str] = "reduction"

    matrix = operand_def(TensorType)
    right = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, right = self.require_square("a system of equations"), shape_of(self.right)
        require_same_type("both sides of a system of equations", self.operands)
        if not may_be_same_shape(shape[:-1], right[:-1]):
            raise ValueError(
                f"matrices {format_shape(shape)} have no right side {format_shape(right)}"
            )
        return [tensor_type(element_type_of(self.right), right)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        """Gauss and Jordan's elimination: in each column the largest element left is the pivot."""
        matrix, right = operands
        size = matrix.shape[-1]
        both = np.concatenate([matrix, right], -1)
        with np.errstate(all="ignore"):
            for column in range(size):
                both = exchanged(both, column, pivots_of(both, column))
                factor = both[..., column] / both[..., column, column, np.newaxis]
                factor[..., column] = 0
                both = both - factor[..., np.newaxis] * both[..., column, np.newaxis, :]
            pivots = np.diagonal(both, axis1=-2, axis2=-1)
            return (both[..., size:] / pivots[..., np.newaxis],)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """The result begins as the right side, and goes through what the matrix goes through."""
        self.check_form()
        matrix, right = inputs
        *batch, size, columns = output.shape
        outer = loops_over(batch)
        kind = element_type_of(self.output)
        own = scratch(k, "matrix", matrix.shape, kind)
        factor = scratch(k, "factor", (*batch, size), kind)
        pivot = scratch(k, "pivot", batch, i64)
        d = k.dimensions(**outer, row=size, column=size)
        k.generic("plain", [matrix.at(*d)], own.at(*d), lambda s, a: a)
        d = k.dimensions(**outer, row=size, column=columns)
        k.generic("plain", [right.at(*d)], output.at(*d), lambda s, a: a)
        for column in range(size):
            choose_pivot(k, outer, column, own, pivot)
            for held in (own, output):
                exchange_rows(k, outer, column, held, pivot)
            self._divide_column(k, outer, column, own, factor)
            for held in (own, output):
                subtract_row(k, outer, column, held, factor)

        def divide(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, row, _ = indices
            divisor = load_element(s, own, [*at, row, row])
            store_element(s, load_element(s, output, indices) / divisor, output, indices)

        k.nest({**outer, "row": size, "place": columns}, divide, parallel=" ".join(outer))
        return "explicit"

    @staticmethod
    def _divide_column(
        k: KernelBuilder, outer: Loops, column: int, matrix: Access, factor: Access
    ) -> None:
        """How often row `column` is in each of the others."""

        def divide(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, row = indices
            head = load_element(s, matrix, [*at, s.index(column), s.index(column)])
            quotient = load_element(s, matrix, [*at, row, s.index(column)]) / head
            is_own = row.compare("eq", s.index(column))
            store_element(s, is_own.select(0, quotient), factor, [*at, row])

        k.nest({**outer, "row": matrix.shape[-2]}, divide, parallel=" ".join(outer))
