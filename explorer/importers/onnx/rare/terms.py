"""Formulas over values, written as algebra: `y * (1 - y)` appends two operations.

x = Term(build, value)
(x * x + 1.0).unary("sqrt").value        three operations, with constants of x's type
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from explorer.importers.onnx.program.build import Build


@dataclass(frozen=True)
class Term:
    """A value and where operations on it are appended. Numbers become constants of its type."""

    build: Build
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
