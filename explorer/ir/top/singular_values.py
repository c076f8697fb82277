"""Columns of a matrix turned until they are orthogonal: its singular values and vectors.

top.orthogonalize    A (..., m, n)  ->  A V with orthogonal columns (..., m, n), V (..., n, n)

The norms of the columns are the singular values, in no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access, TopOperation
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element, scratch, store_element
from explorer.ir.top.elimination import loops_over
from explorer.ir.top.support.operands import require_floats
from explorer.ir.top.support.unary_kinds import UNARY
from explorer.ir.types import (
    element_type_of,
    format_shape,
    numpy_dtype,
    shape_of,
    static_shape,
    tensor_type,
    widened,
)

SWEEPS = 12
"""Over all pairs of columns: each squares what is left of their products, so that matrices of a
hundred columns need about ten."""


@irdl_op_definition
class OrthogonalizeOp(TopOperation):
    """A matrix times a rotation that makes its columns orthogonal, and the rotation.

    Source: Hestenes, "Inversion of matrices by biorthogonalization", 1958 (one-sided Jacobi).
    """

    name = "top.orthogonalize"
    FAMILY: ClassVar[str] = "reduction"

    input = operand_def(TensorType)
    columns = result_def(TensorType)
    rotation = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = shape_of(self.input)
        if len(shape) < 2:
            raise ValueError(f"columns are those of matrices, not of {format_shape(shape)}")
        require_floats("orthogonal columns", self.operands)
        kind = element_type_of(self.input)
        return [tensor_type(kind, shape), tensor_type(kind, (*shape[:-2], shape[-1], shape[-1]))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        *batch, rows, columns = x.shape
        unit = np.broadcast_to(np.eye(columns, dtype=x.dtype), (*batch, columns, columns))
        both = np.concatenate([x, unit], -2)
        least = np.finfo(x.dtype).eps
        with np.errstate(all="ignore"):
            for _ in range(SWEEPS):
                for p, q in np.argwhere(np.triu(np.ones((columns, columns)), 1)):
                    left, right = both[..., p], both[..., q]
                    a, b = left[..., :rows], right[..., :rows]
                    first, second = (a * a).sum(-1), (b * b).sum(-1)
                    product = (a * b).sum(-1)
                    ratio = (second - first) / (2 * product)
                    tangent = np.copysign(1 / (np.abs(ratio) + np.sqrt(ratio**2 + 1)), ratio)
                    turns = np.abs(product) > least * np.sqrt(first * second)
                    cosine = np.where(turns, 1 / np.sqrt(tangent**2 + 1), 1)[..., np.newaxis]
                    sine = np.where(turns, tangent, 0)[..., np.newaxis] * cosine
                    both[..., p], both[..., q] = (
                        cosine * left - sine * right,
                        sine * left + cosine * right,
                    )
        return both[..., :rows, :], both[..., rows:, :]

    def define(
        self, k: KernelBuilder, inputs: Sequence[Access], output: Access, *others: Access
    ) -> str:
        """One nest: for each pair of columns their products are summed row by row, then the angle
        is found, then the rows of both and of the rotation are turned."""
        (x,), (rotation,) = inputs, others
        *batch, rows, columns = static_shape(self.input)
        outer, kind = loops_over(batch), element_type_of(self.columns)
        parallel = " ".join(outer)
        both = scratch(k, "both", (*batch, rows + columns, columns), kind)
        sums = scratch(k, "sums", (*batch, 3), kind)
        angle = scratch(k, "angle", (*batch, 2), kind)
        least = float(np.finfo(widened(np.zeros(0, numpy_dtype(kind))).dtype).eps)

        def begin(s: ScalarBuilder, *indices: Scalar) -> None:
            *_, row, column = indices
            is_one = row.compare("eq", column)
            one = s.constant(1.0, both.buffer.type.element_type)
            target = [*indices[:-2], row + rows, column]
            store_element(s, is_one.select(one, 0.0), both, target)

        def turn(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, _, p, q, step = indices
            sums_rows, is_last = step.compare("lt", rows), step.compare("eq", rows)
            turns_rows = step.compare("gt", rows).logical_and(p.compare("lt", q))
            row = sums_rows.select(step, (step - (rows + 1)).maximum(0))
            left, right = (load_element(s, both, [*at, row, column]) for column in (p, q))
            first, second, product = (
                _added(s, sums, [*at, s.index(n)], value, step, sums_rows)
                for n, value in enumerate((left * left, right * right, left * right))
            )
            found = _angle(s, first, second, product, least)
            cosine, sine = (load_element(s, angle, [*at, s.index(n)]) for n in range(2))
            for n, (old, new) in enumerate(zip((cosine, sine), found, strict=True)):
                store_element(s, is_last.select(new, old), angle, [*at, s.index(n)])
            turned = left * cosine - right * sine, left * sine + right * cosine
            for column, old, new in zip((p, q), (left, right), turned, strict=True):
                store_element(s, turns_rows.select(new, old), both, [*at, row, column])

        d = k.dimensions(**outer, row=rows, column=columns)
        k.generic("plain", [x.at(*d)], both.at(*d), lambda s, a: a)
        k.nest({**outer, "row": columns, "column": columns}, begin, parallel=parallel)
        pairs = {"sweep": SWEEPS, "p": columns, "q": columns, "step": 2 * rows + columns + 1}
        k.nest({**outer, **pairs}, turn, parallel=parallel)
        for target, first_row in ((output, 0), (rotation, rows)):
            *_, count, width = target.shape
            d = k.dimensions(**outer, row=count, column=width)
            source = both.at(*d[:-2], d[-2] + first_row, d[-1])
            k.generic("plain", [source], target.at(*d), lambda s, a: a)
        return "explicit"


def _added(
    s: ScalarBuilder,
    sums: Access,
    place: Sequence[Scalar],
    value: Scalar,
    step: Scalar,
    is_added: Scalar,
) -> Scalar:
    """A sum of a pair of columns with the value of a row, where a row is summed; it begins at 0."""
    before = load_element(s, sums, place)
    begun = step.compare("eq", 0).select(0.0, before)
    after = is_added.select(begun + value, begun)
    store_element(s, after, sums, place)
    return after


def _angle(
    s: ScalarBuilder, first: Scalar, second: Scalar, product: Scalar, least: float
) -> tuple[Scalar, Scalar]:
    """Cosine and sine of the smaller rotation that makes two columns orthogonal; none where they
    are, but for rounding."""
    ratio = (second - first) / (product * 2.0)
    root = (ratio * ratio + 1.0).unary(SqrtOp)
    size = UNARY["abs"].body(s, ratio, 0, 0) + root
    tangent = (size.constant(1.0) / size).copy_sign(ratio)
    cosine = tangent.constant(1.0) / (tangent * tangent + 1.0).unary(SqrtOp)
    bound = (first * second).unary(SqrtOp) * least
    turns = UNARY["abs"].body(s, product, 0, 0).compare("gt", bound)
    return turns.select(cosine, 1.0), turns.select(tangent * cosine, 0.0)
