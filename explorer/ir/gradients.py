"""Gradients: what an operation's rule is built with, and formulas written as algebra.

    y = matmul(a, b)      a: g b^T,   b: a^T g
    y = reduce_sum(x)     x: g, repeated along the reduced axes
    y = concat(a, b)      a: the first part of g,   b: the second

A rule (`Differentiable.operand_gradient`) takes an operand's index and the result's gradient g, and
appends operations that make the operand's: a vector-Jacobian product. `y * (1 - y)` of a `Term`
appends two. Reference: Baydin et al., "Automatic differentiation in machine learning: a survey",
JMLR 18, 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.types import shape_of


class NotDifferentiable(Exception):
    """Why a gradient is not known; without a text where nothing more is to be said."""


class GradientBuild(Protocol):
    """What appends operations for a rule. A size is a number, or an axis of a value."""

    def value(
        self, kind: type[TopOperation], operands: Sequence[Any], /, **properties: Any
    ) -> SSAValue: ...
    def weight(self, array: np.ndarray) -> SSAValue: ...
    def scalar_like(self, number: float, value: SSAValue) -> SSAValue: ...
    def stored(self, value: SSAValue | None) -> np.ndarray | None: ...

    def rank(self, value: SSAValue) -> int: ...
    def dtype(self, value: SSAValue) -> np.dtype: ...
    def sizes(self, value: SSAValue, axes: Sequence[int], purpose: str) -> list[int]: ...
    def all_sizes(self, value: SSAValue) -> list[Any]: ...

    def unary(self, kind: str, x: SSAValue) -> SSAValue: ...
    def binary(self, kind: str, left: SSAValue, right: SSAValue) -> SSAValue: ...
    def scaled(self, x: SSAValue, factor: float) -> SSAValue: ...
    def cast(self, x: SSAValue, dtype: np.dtype | type) -> SSAValue: ...
    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue: ...
    def matmul(self, left: SSAValue, right: SSAValue) -> SSAValue: ...
    def reduce(
        self, kind: str, x: SSAValue, axes: Sequence[int], keepdims: bool = False
    ) -> SSAValue: ...

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue: ...
    def reshape(self, x: SSAValue, sizes: Sequence[Any]) -> SSAValue: ...
    def unsqueeze(self, x: SSAValue, axes: Sequence[int]) -> SSAValue: ...
    def expand(self, x: SSAValue, sizes: Sequence[Any]) -> SSAValue: ...
    def slice(self, x: SSAValue, axis: int, start: int, stop: int) -> SSAValue: ...
    def slices(self, x: SSAValue, bounds: Mapping[int, tuple[int, int, int]]) -> SSAValue: ...


@dataclass(frozen=True)
class Term:
    """A value and where operations on it are appended. Numbers become constants of its type."""

    build: GradientBuild
    value: SSAValue

    def __add__(self, other: Term | float) -> Term:
        return self._binary("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self._binary("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.of(other)._binary("sub", self)

    def __mul__(self, other: Term | float) -> Term:
        return self._binary("mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._binary("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.of(other)._binary("div", self)

    def __neg__(self) -> Term:
        return self.unary("neg")

    def power(self, other: Term | float) -> Term:
        return self._binary("pow", other)

    def unary(self, kind: str) -> Term:
        return Term(self.build, self.build.unary(kind, self.value))

    def compare(self, kind: str, other: Term | float) -> Term:
        """A boolean: equal, less, less_equal, greater, greater_equal."""
        return self._binary(kind, other)

    def select(self, if_true: Term, if_false: Term) -> Term:
        """One of two terms, element by element; this one is boolean."""
        return Term(self.build, self.build.select(self.value, if_true.value, if_false.value))

    def sum(self, axes: list[int]) -> Term:
        """Over axes that stay, with one element."""
        return Term(self.build, self.build.reduce("sum", self.value, axes, keepdims=True))

    def of(self, number: float) -> Term:
        """A constant of this term's element type."""
        return Term(self.build, self.build.scalar_like(number, self.value))

    def _binary(self, kind: str, other: Term | float) -> Term:
        right = other if isinstance(other, Term) else self.of(other)
        return Term(self.build, self.build.binary(kind, self.value, right.value))


def unbroadcast(gradient: SSAValue, operand: SSAValue, build: GradientBuild) -> SSAValue:
    """The gradient summed along the axes in which the operand was repeated."""
    shape, own = shape_of(gradient), shape_of(operand)
    extra = len(shape) - len(own)
    if extra:
        gradient = build.reduce("sum", gradient, list(range(extra)))
    axes = [a for a, (n, m) in enumerate(zip(shape[extra:], own, strict=True)) if n != m]
    if any(own[axis] != 1 for axis in axes):
        raise NotDifferentiable(f"a gradient of shape {shape} for an operand of shape {own}")
    return build.reduce("sum", gradient, axes, keepdims=True)
