"""Parts that stand for several operations: products, optional and repeated steps, other uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import scalar
from explorer.ir.patterns.parts import (
    DEEPEST,
    Number,
    Part,
    Pattern,
    Roots,
    Thing,
    bracketed,
    part,
)
from explorer.ir.patterns.search import Search, Then, Use
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.weights import Weights

MAX_STEPS = 16
"""Operations of one product, and steps of what is repeated."""
MAX_FACTORS = 4
ROOTS = frozenset(("mul", "div"))
Flat = tuple[float, tuple[SSAValue, ...], tuple[Operation, ...]]
"""A value as a product: a number, factors, and the operations that multiply, users first."""


class Product(Pattern[float]):
    """A number times factors, in whatever order and however bracketed.

    The numbers that multiply or divide are collected; `found[part]` is their product. A
    multiplication that others read too is a factor: it is computed anyway.
    """

    def __init__(self, number: Part, factors: Sequence[Part]) -> None:
        given = part(number)
        if not isinstance(given, Number) or not 1 <= len(factors) <= MAX_FACTORS:
            raise TypeError(f"a product has a number and one to {MAX_FACTORS} factors")
        self.number, self.factors = given, tuple(part(factor) for factor in factors)
        self.tells = any(factor.tells for factor in self.factors)

    def roots(self) -> Roots:
        return {BinaryOp: ROOTS}

    def may_be(self, value: SSAValue) -> bool:
        op = value.owner
        return len(self.factors) == 1 or (type(op) is BinaryOp and op.kind.data in ROOTS)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        if len(self.factors) == 1:
            readings = _scalings(value, search.weights)
            if not search.entered:
                readings = readings[:-1]  # the root is an operation
        else:
            flat = _flat(value, search.weights, len(self.factors))
            readings = [flat] if flat and len(flat[1]) == len(self.factors) else []
        if not readings:
            return search.miss(value, self.text)
        return any(self._reads(reading, value, search, then) for reading in readings)

    def _reads(self, reading: Flat, value: SSAValue, search: Search, then: Then) -> bool:
        number, values, steps = reading

        def bound() -> bool:
            return search.bind(self, value, number, then)

        def factors() -> bool:
            return any(self._factor(0, order, search, bound) for order in permutations(values))

        search.entered.extend((step, search.use) for step in steps)
        if self.number.take(number, value, search, factors):
            return True
        del search.entered[len(search.entered) - len(steps) :]
        return False

    def _factor(self, index: int, values: Sequence[SSAValue], search: Search, then: Then) -> bool:
        if index == len(values):
            return then()
        return self.factors[index].at(
            values[index], search, lambda: self._factor(index + 1, values, search, then)
        )

    def text(self, depth: int = DEEPEST) -> str:
        parts = (self.number, *self.factors)
        return " * ".join(bracketed(p.text(max(depth - 1, 0))) for p in parts)


def _scalings(value: SSAValue, weights: Weights) -> list[Flat]:
    """The value as a number times another one: with the most numbers taken off first."""
    found: list[Flat] = [(1.0, (value,), ())]
    while len(found) <= MAX_STEPS:
        number, (rest,), steps = found[-1]
        op = rest.owner
        if not isinstance(op, BinaryOp) or op.kind.data not in ROOTS:
            break
        factor, inner = scalar(op.right, weights), op.left
        if factor is None and op.kind.data == "mul":
            factor, inner = scalar(op.left, weights), op.right
        if factor is None or inner.type != rest.type or (op.kind.data == "div" and not factor):
            break
        number *= factor if op.kind.data == "mul" else 1 / factor
        found.append((number, (inner,), (*steps, op)))
    return found[::-1]


def _flat(value: SSAValue, weights: Weights, most: int, depth: int = 0) -> Flat | None:
    """Number, factors and operations of a product; None for more than `most` factors."""
    op = value.owner
    whole: Flat = (1.0, (value,), ())
    if not isinstance(op, BinaryOp) or op.kind.data not in ROOTS or depth > MAX_STEPS:
        return whole
    left = _side(op.left, weights, most, depth)
    right = None if left is None else _side(op.right, weights, most, depth)
    if left is None or right is None or len(left[1]) + len(right[1]) > most:
        return None
    steps = (op, *left[2], *right[2])
    if op.kind.data == "mul":
        return left[0] * right[0], left[1] + right[1], steps
    if right[1] or not right[0]:
        return whole
    return left[0] / right[0], left[1], steps


def _side(value: SSAValue, weights: Weights, most: int, depth: int) -> Flat | None:
    number = scalar(value, weights)
    if number is not None:
        return number, (), ()
    if not value.has_one_use():
        return 1.0, (value,), ()
    return _flat(value, weights, most, depth + 1)


class Repeated(Pattern[SSAValue]):
    """A step done any number of times, the most first: `step(step(inner))`.

    Parts that the step makes anew are bound once for each time; those from outside of it are the
    same each time.
    """

    def __init__(self, step: Callable[[Pattern], Pattern], inner: Pattern, most: int) -> None:
        self._step, self.inner, self._most = step, inner, most
        self._once: Pattern | None = None
        self.tells = inner.tells or (most > 0 and step(inner).tells)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        def bound() -> bool:
            return search.bind(self, value, value, then)

        if self._most:
            if self._once is None:
                self._once = self._step(Repeated(self._step, self.inner, self._most - 1))
            if self._once.at(value, search, bound):
                return True
        return self.inner.at(value, search, bound)

    def text(self, depth: int = DEEPEST) -> str:
        return self.inner.text(depth)


class Using(Pattern[Thing]):
    """A pattern whose operations may be read from outside of the match, too."""

    def __init__(self, inner: Pattern[Thing], use: Use) -> None:
        self.inner, self._use = inner, use
        self.name, self.tells = inner.name, inner.tells

    def roots(self) -> Roots:
        return self.inner.roots()

    def may_be(self, value: SSAValue) -> bool:
        return self.inner.may_be(value)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        outside, search.use = search.use, self._use

        def left() -> bool:
            search.use = outside
            known = search.bound.get(self.inner)
            if search.bind(self, value, value if known is None else known.thing, then):
                return True
            search.use = self._use
            return False

        if self.inner.at(value, search, left):
            return True
        search.use = outside
        return False

    def read(self, value: SSAValue | None, thing: object, weights: Weights) -> Thing:
        return self.inner.read(value, thing, weights)

    def text(self, depth: int = DEEPEST) -> str:
        return self.inner.text(depth)
