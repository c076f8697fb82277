"""Numbers of a call in the program, and which elements of an axis a call has.

%seq = input "size.seq"                     an i64 scalar for each expression that is needed
%valid = top.binary(iota, %seq) {kind = "less"}
%masked = top.select(%valid, %scores, -inf)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.sizes.symbols import Expression
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, tensor_type

Factors = tuple[tuple[int, Expression], ...]
"""An axis whose elements in row-major order are those of factors: the largest size of each, and
its size in a call."""


class CallNumbers:
    """Adds to a function what a call's sizes say; each expression and each mask once."""

    def __init__(
        self, function: func.FuncOp, rewriter: RecordedRewriter, names: Sequence[str]
    ) -> None:
        self.rewriter = rewriter
        self.block = function.body.block
        self.taken = set(names)
        self.inputs: dict[str, tuple[str, SSAValue]] = {}
        """The input and its value, by the text of the expression."""
        self._valid: dict[tuple[Factors, int], SSAValue] = {}
        self._masked: dict[tuple[SSAValue, int, str], SSAValue] = {}

    def scalar(self, expression: Expression) -> SSAValue:
        """The i64 scalar of an expression, an input of its own."""
        text = str(expression)
        if text not in self.inputs:
            name = f"size.{text}"
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            value = self.block.insert_arg(tensor_type(i64, ()), len(self.block.args))
            value.name_hint = self.rewriter.names.fresh("size")
            self.inputs[text] = (name, value)
        return self.inputs[text][1]

    def array(self, anchor: TopOperation, contents: np.ndarray, kind: Any) -> SSAValue:
        """A tensor of expressions with an element type."""
        elements = contents.reshape(-1)
        fixed = [e.constant if e.is_number else 0 for e in elements]
        total: SSAValue | None = None
        if any(fixed) or all(e.is_number for e in elements):
            total = self.weight(anchor, "fixed", np.array(fixed, np.int64).reshape(contents.shape))
        for expression in dict.fromkeys(e for e in elements if not e.is_number):
            own = self.scalar(expression)
            if contents.ndim:
                chosen = np.array([int(e == expression) for e in elements], np.int64)
                where = self.weight(anchor, "chosen", chosen.reshape(contents.shape))
                own = self.added(anchor, BinaryOp.make([where, own], kind="mul"))
            total = own if total is None else self.sum(anchor, total, own)
        assert total is not None
        return self.as_type(anchor, total, kind)

    def as_type(self, anchor: Operation, value: SSAValue, kind: Any) -> SSAValue:
        if element_type_of(value) == kind:
            return value
        return self.added(anchor, CastOp.make([value], to=kind))

    def valid(self, anchor: TopOperation, factors: Factors, behind: int) -> SSAValue:
        """Which elements of an axis a call has, as a bool vector with `behind` axes of 1 after it.

        The mask is made in front of its first user.
        """
        key = (factors, behind)
        if key not in self._valid:
            size = prod(largest for largest, _ in factors)
            inner, found = size, None
            for largest, expression in factors:
                inner //= largest
                if expression.is_number:
                    continue
                places = (np.arange(size, dtype=np.int64) // inner) % largest
                numbers = self.weight(anchor, "places", places.reshape(-1, *[1] * behind))
                end = self.scalar(expression)
                own = self.added(anchor, BinaryOp.make([numbers, end], kind="less"))
                if found is not None:
                    own = self.added(anchor, BinaryOp.make([found, own], kind="and"))
                found = own
            assert found is not None
            self._valid[key] = found
        return self._valid[key]

    def masked(
        self, anchor: TopOperation, value: SSAValue, axis: int, factors: Factors, neutral: float
    ) -> SSAValue:
        """The value with a neutral number where a call has no element."""
        key = (value, axis, str(neutral))
        if key not in self._masked:
            valid = self.valid(anchor, factors, len(shape_of(value)) - 1 - axis)
            kind = numpy_dtype(element_type_of(value))
            nothing = self.weight(anchor, "nothing", np.array(neutral, kind))
            select = SelectOp.make([valid, value, nothing])
            self._masked[key] = self.added(anchor, select)
        return self._masked[key]

    # -- operations ------------------------------------------------------------------------------
    def sum(self, anchor: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.added(anchor, BinaryOp.make([left, right], kind="add"))

    def weight(self, anchor: TopOperation, role: str, array: np.ndarray) -> SSAValue:
        return self.rewriter.add_weight(
            anchor, f"{identity_of(anchor)}.{role}", np.asarray(array), like=anchor
        )

    def added(self, anchor: Operation, op: Operation) -> SSAValue:
        self.rewriter.insert_before(anchor, op)
        return op.results[0]
