"""Determinants of square matrices, by elimination with pivots.

top.determinant    (..., n, n)  ->  (...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IndexType, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder, clamp_index
from explorer.ir.interfaces import MixesAxes
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.support.operands import require_floats
from explorer.ir.top.support.unary_kinds import UNARY
from explorer.ir.types import element_type_of, shape_of, tensor_type

LARGEST = 32
"""Rows of a matrix in compiled code, where each column takes statements of its own."""


@irdl_op_definition
class DeterminantOp(MixesAxes):
    """The determinant of every matrix in the last two axes (ONNX's Det)."""

    name = "top.determinant"
    FAMILY: ClassVar[str] = "reduction"
    KEEPS_MIXED_AXES: ClassVar[bool] = False

    input = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = shape_of(self.input)
        sizes = {d for d in shape[-2:] if isinstance(d, int)}
        if len(shape) < 2 or len(sizes) > 1:
            raise ValueError(f"a determinant needs square matrices, not {shape}")
        require_floats("a determinant", [self.input])
        return [tensor_type(element_type_of(self.input), shape[:-2])]

    def mixed_axes(self) -> Sequence[int]:
        rank = len(shape_of(self.input))
        return (rank - 2, rank - 1)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        return (np.asarray(np.linalg.det(x)),)

    def missing_form(self) -> str:
        size = shape_of(self.input)[-1]
        if isinstance(size, int) and size > LARGEST:
            return f"determinants of more than {LARGEST} rows are not compiled"
        return ""

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Column after column: the row with the largest element comes up, the others are reduced.

        The result is the product of the pivots, negated once for each exchange of rows.
        """
        self.check_form()
        (x,) = inputs
        *batch, size, _ = x.shape
        outer = {f"b{axis}": extent for axis, extent in enumerate(batch)} or {"b0": 1}
        depth = len(outer)
        kind = element_type_of(self.output)
        matrix = scratch(k, "matrix", (*outer.values(), size, size), kind)
        factor = scratch(k, "factor", (*outer.values(), size), kind)
        pivot = scratch(k, "pivot", tuple(outer.values()), i64)

        def result(indices: Sequence) -> list:
            return list(indices[:depth]) if batch else []

        d = k.dimensions(**outer)
        k.generic("plain", [], output.at(*result(d)), lambda s: s.constant(1))
        d = k.dimensions(**outer, row=size, column=size)
        read = x.at(*(d if batch else d[1:]))
        k.generic("plain", [read], matrix.at(*d), lambda s, a: a)
        for column in range(size):
            self._eliminate(k, column, size, outer, (matrix, factor, pivot), output, result)
        return "explicit"

    @staticmethod
    def _eliminate(
        k: KernelBuilder,
        column: int,
        size: int,
        outer: dict[str, int],
        buffers: tuple[Access, Access, Access],
        output: Access,
        result: Callable[[Sequence], list],
    ) -> None:
        """One column of the elimination, in four nests."""
        matrix, factor, pivot = buffers
        depth, below = len(outer), size - column - 1

        def magnitude(s: ScalarBuilder, value: Scalar) -> Scalar:
            return UNARY["abs"].body(s, value, 0, 0)

        def choose(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            row = number + column + 1
            best = clamp_index(s, load_element(s, pivot, at).convert(IndexType()), size)
            is_larger = magnitude(s, load_element(s, matrix, [*at, row, s.index(column)])).compare(
                "gt", magnitude(s, load_element(s, matrix, [*at, best, s.index(column)]))
            )
            store_element(s, is_larger.select(row, best).convert(i64), pivot, at)

        def exchange(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, place = indices
            best = clamp_index(s, load_element(s, pivot, at).convert(IndexType()), size)
            upper = load_element(s, matrix, [*at, s.index(column), place])
            lower = load_element(s, matrix, [*at, best, place])
            store_element(s, upper, matrix, [*at, best, place])
            store_element(s, lower, matrix, [*at, s.index(column), place])

        def divide(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            row = number + column + 1
            head = load_element(s, matrix, [*at, s.index(column), s.index(column)])
            quotient = load_element(s, matrix, [*at, row, s.index(column)]) / head
            # A column of zeros: the pivot is zero, and so is the product.
            safe = head.compare("eq", 0).select(0, quotient)
            store_element(s, safe, factor, [*at, row])

        def reduce(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number, place = indices
            row = number + column + 1
            upper = load_element(s, matrix, [*at, s.index(column), place])
            own = load_element(s, matrix, [*at, row, place])
            reduced = own - load_element(s, factor, [*at, row]) * upper
            store_element(s, reduced, matrix, [*at, row, place])

        def multiply(s: ScalarBuilder, *indices: Scalar) -> None:
            at = list(indices)
            head = load_element(s, matrix, [*at, s.index(column), s.index(column)])
            is_same = load_element(s, pivot, at).compare("eq", column)
            signed = is_same.select(head, head.negate())
            target = result(at)
            store_element(s, load_element(s, output, target) * signed, output, target)

        parallel = " ".join(outer)
        d = k.dimensions(**outer)
        k.generic("plain", [], pivot.at(*d[:depth]), lambda s: s.constant(column))
        k.nest({**outer, "row": below}, choose, parallel=parallel)
        k.nest({**outer, "place": size}, exchange, parallel=parallel)
        k.nest({**outer, "row": below}, divide, parallel=parallel)
        k.nest({**outer, "row": below, "place": size}, reduce, parallel=parallel)
        k.nest(outer, multiply, parallel=parallel)
