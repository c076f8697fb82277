"""Orthogonal matrices as products of reflections, each told by one vector and one number.

top.householder   A (..., m, n)               ->  R above vectors in one matrix, t (..., min(m, n))
top.reflect       vectors, t, C (..., m, p)   ->  Q C, or Qᵀ C, of Q = H1 H2 ... Hk

Reflection j is Hj = 1 - tj vj vjᵀ, where vj is 0 above its place j, 1 there, and below it what
column j of the vectors holds (LAPACK's geqrf and ormqr).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, TensorType
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.elimination import Loops, OfMatrices, at_each, loops_over, stack_place
from explorer.ir.top.support.operands import may_be_same_shape, require_floats, require_same_type
from explorer.ir.types import element_type_of, format_shape, shape_of, tensor_type


@irdl_op_definition
class HouseholderOp(OfMatrices):
    """R of A = Q R on and above the diagonal, the vectors of Q's reflections below it, and their
    numbers t.

    Each reflection makes its column 0 below the diagonal; t is 0 where it is already.
    Source: Golub and Van Loan, "Matrix Computations", 5.2.1; signs as LAPACK's larfg has them.
    """

    name = "top.householder"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    factors = result_def(TensorType)
    scales = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, count = self.require_shorter_side("reflections")
        kind = element_type_of(self.input)
        return [tensor_type(kind, shape), tensor_type(kind, (*shape[:-2], count))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        factors = operands[0].copy()
        count = min(factors.shape[-2:])
        scales = np.zeros((*factors.shape[:-2], count), factors.dtype)
        with np.errstate(all="ignore"):
            for column in range(count):
                vectors = factors[..., column:, column]
                head, below = vectors[..., 0].copy(), vectors[..., 1:]
                rest = (below * below).sum(-1)
                is_done = rest == 0
                end = np.where(is_done, head, -np.copysign(np.sqrt(head**2 + rest), head))
                scale = np.where(is_done, 0, (end - head) / end)
                below /= np.where(is_done, 1, head - end)[..., np.newaxis]
                vectors[..., 0] = 1
                _reflect(factors[..., column:, column + 1 :], vectors, scale)
                vectors[..., 0], scales[..., column] = end, scale
        return factors, scales

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        """In place of the result, column after column."""
        self.check_form()
        (x,), (scales,) = inputs, others
        *batch, rows, columns = output.shape
        outer, kind = loops_over(batch), element_type_of(self.factors)
        divisor = scratch(k, "divisor", batch, kind)
        sums = scratch(k, "sums", (*batch, columns), kind)
        d = k.dimensions(**outer, row=rows, column=columns)
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, a: a)
        for column in range(min(rows, columns)):
            self._find(k, column, outer, output, scales, divisor)
            reflect_columns(k, column, outer, output, scales, output, sums, column + 1)
        return "explicit"

    @staticmethod
    def _find(
        k: KernelBuilder,
        column: int,
        outer: Loops,
        output: Access,
        scales: Access,
        divisor: Access,
    ) -> None:
        """The vector of one reflection, its number, and R's element on the diagonal."""
        below, parallel = output.shape[-2] - column - 1, " ".join(outer)

        def begin(s: ScalarBuilder, *indices: Scalar) -> None:
            zero = s.constant(0.0, divisor.buffer.type.element_type)
            store_element(s, zero, divisor, stack_place(indices, outer))

        def add_square(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            value = load_element(s, output, [*at, number + column + 1, s.index(column)])
            store_element(s, load_element(s, divisor, at) + value * value, divisor, at)

        def find(s: ScalarBuilder, *indices: Scalar) -> None:
            at = stack_place(indices, outer)
            place = [*at, s.index(column), s.index(column)]
            head, rest = load_element(s, output, place), load_element(s, divisor, at)
            is_done = rest.compare("eq", 0)
            length = (head * head + rest).unary(SqrtOp)
            end = is_done.select(head, length.copy_sign(head).negate())
            store_element(
                s, is_done.select(0.0, (end - head) / end), scales, [*at, s.index(column)]
            )
            store_element(s, is_done.select(1.0, head - end), divisor, at)
            store_element(s, end, output, place)

        def divide(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            target = [*at, number + column + 1, s.index(column)]
            quotient = load_element(s, output, target) / load_element(s, divisor, at)
            store_element(s, quotient, output, target)

        k.nest(at_each(outer), begin, parallel=parallel)
        k.nest({**outer, "row": below}, add_square, parallel=parallel)
        k.nest(at_each(outer), find, parallel=parallel)
        k.nest({**outer, "row": below}, divide, parallel=parallel)


@irdl_op_definition
class ReflectOp(OfMatrices):
    """A matrix behind an orthogonal one that is told by its reflections, or behind its transpose.

    Of the vectors only what stands below their diagonal is read.
    """

    name = "top.reflect"
    FAMILY: ClassVar[str] = "reduction"

    vectors = operand_def(TensorType)
    scales = operand_def(TensorType)
    input = operand_def(TensorType)
    transposed = prop_def(BoolAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        require_same_type("reflections", self.operands)
        require_floats("reflections", self.operands)
        shape, scales, input = (shape_of(x) for x in self.operands)
        fits = (
            len(input) == len(shape) >= 2
            and may_be_same_shape((*shape[:-2], shape[-1]), scales)
            and may_be_same_shape(shape[:-1], input[:-1])
        )
        if not fits:
            shapes = ", ".join(map(format_shape, (shape, scales, input)))
            raise ValueError(f"vectors, their numbers and a matrix do not fit: {shapes}")
        rows, count = shape[-2:]
        if isinstance(rows, int) and isinstance(count, int) and count > rows:
            raise ValueError(f"{count} reflections of {rows} rows; at most one for each expected")
        return [tensor_type(element_type_of(self.input), input)]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        vectors, scales, result = operands[0].copy(), operands[1], operands[2].copy()
        with np.errstate(all="ignore"):
            for place in self._order(vectors.shape[-1]):
                vectors[..., place, place] = 1
                _reflect(result[..., place:, :], vectors[..., place:, place], scales[..., place])
        return (result,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """In place of the result, reflection after reflection."""
        self.check_form()
        vectors, scales, x = inputs
        *batch, rows, columns = output.shape
        outer = loops_over(batch)
        sums = scratch(k, "sums", (*batch, columns), element_type_of(self.output))
        d = k.dimensions(**outer, row=rows, column=columns)
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, a: a)
        for place in self._order(vectors.shape[-1]):
            reflect_columns(k, place, outer, vectors, scales, output, sums, 0)
        return "explicit"

    def _order(self, count: int) -> Sequence[int]:
        """Q C = H1 (H2 (... C)): the last reflection is the first that C meets."""
        return range(count) if self.get("transposed") else range(count - 1, -1, -1)


def _reflect(columns: np.ndarray, vector: np.ndarray, scale: np.ndarray) -> None:
    """columns -= t v (vᵀ columns), in place, for every matrix of the stack."""
    sums = (vector[..., np.newaxis, :] @ columns)[..., 0, :]
    columns -= (scale[..., np.newaxis] * vector)[..., np.newaxis] * sums[..., np.newaxis, :]


def reflect_columns(
    k: KernelBuilder,
    place: int,
    outer: Loops,
    vectors: Access,
    scales: Access,
    matrix: Access,
    sums: Access,
    first: int,
) -> None:
    """One reflection of the columns of a matrix from `first` on; sums: one for each column."""
    below, count, parallel = matrix.shape[-2] - place - 1, matrix.shape[-1] - first, " ".join(outer)

    def begin(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number = indices
        head = load_element(s, matrix, [*at, s.index(place), number + first])
        store_element(s, head, sums, [*at, number + first])

    def add_product(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number, offset = indices
        row, column = number + place + 1, offset + first
        share = load_element(s, vectors, [*at, row, s.index(place)])
        share = share * load_element(s, matrix, [*at, row, column])
        store_element(s, load_element(s, sums, [*at, column]) + share, sums, [*at, column])

    def subtract_head(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, offset = indices
        target = [*at, s.index(place), offset + first]
        share = _share(s, at, offset + first)
        store_element(s, load_element(s, matrix, target) - share, matrix, target)

    def subtract_below(s: ScalarBuilder, *indices: Scalar) -> None:
        *at, number, offset = indices
        row, column = number + place + 1, offset + first
        share = _share(s, at, column) * load_element(s, vectors, [*at, row, s.index(place)])
        value = load_element(s, matrix, [*at, row, column]) - share
        store_element(s, value, matrix, [*at, row, column])

    def _share(s: ScalarBuilder, at: Sequence[Scalar], column: Scalar) -> Scalar:
        return load_element(s, scales, [*at, s.index(place)]) * load_element(s, sums, [*at, column])

    k.nest({**outer, "column": count}, begin, parallel=parallel)
    k.nest({**outer, "row": below, "column": count}, add_product, parallel=parallel)
    k.nest({**outer, "column": count}, subtract_head, parallel=parallel)
    k.nest({**outer, "row": below, "column": count}, subtract_below, parallel=parallel)
