"""Numbers of a call in the program, and which elements of an axis a call has.

%seq = input "size.seq"                     an i64 scalar for each expression that is needed
%valid = input "valid.-1: seq"               booleans: true for the first seq elements
%masked = top.select(%valid, %scores, -inf)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.sizes.symbols import Expression
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype, shape_of, tensor_type
from explorer.results.program import CallMask, OpenAxis

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
        self.masks: list[CallMask] = []
        self.added_names: list[str] = []
        """Of all inputs that were added, in their order."""
        self._valid: dict[object, SSAValue] = {}
        self._masked: dict[object, SSAValue] = {}

    def scalar(self, expression: Expression) -> SSAValue:
        """The i64 scalar of an expression, an input of its own."""
        text = str(expression)
        if text not in self.inputs:
            name = self._name(f"size.{text}")
            self.inputs[text] = (name, self._input(name, tensor_type(i64, ()), "size"))
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

    def valid(self, axes: Mapping[int, Factors], rank: int) -> SSAValue:
        """Which elements of a tensor with `rank` axes a call has, along some of them: an input of
        booleans that broadcasts to the tensor."""
        first = min(axes)
        own = {axis - first: factors for axis, factors in axes.items()}
        shape = tuple(
            prod(largest for largest, _ in own[axis]) if axis in own else 1
            for axis in range(rank - first)
        )
        key = (shape, tuple(sorted(own.items())))
        if key not in self._valid:
            text = " and ".join(f"{axis - rank + first}: {_text(f)}" for axis, f in own.items())
            name = self._name(f"valid.{text}")
            found = [
                OpenAxis(name, axis, tuple((n, str(e)) for n, e in factors))
                for axis, factors in sorted(own.items())
            ]
            self.masks.append(CallMask(name, shape, tuple(found)))
            self._valid[key] = self._input(name, tensor_type(i1, shape), "valid")
        return self._valid[key]

    def _name(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def _input(self, name: str, kind: Attribute, stem: str) -> SSAValue:
        value = self.block.insert_arg(kind, len(self.block.args))
        value.name_hint = self.rewriter.names.fresh(stem)
        self.added_names.append(name)
        return value

    def masked(
        self,
        anchor: TopOperation,
        value: SSAValue,
        axes: Mapping[int, Factors],
        neutral: float,
    ) -> SSAValue:
        """The value with a neutral number where a call has no element."""
        key = (value, tuple(sorted(axes.items())), str(neutral))
        if key not in self._masked:
            valid = self.valid(axes, len(shape_of(value)))
            kind = element_type_of(value)
            nothing = self.rewriter.add_weight(
                anchor,
                f"{identity_of(anchor)}.nothing",
                np.array(neutral, numpy_dtype(kind)),
                like=anchor,
                element_type=kind if isinstance(kind, QuantizedType) else None,
            )
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


def _text(factors: Factors) -> str:
    return "*".join(str(size) for _, size in factors)
