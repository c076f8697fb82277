"""The parts of a pattern: values, numbers, constants, operations, and how they are combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import OptionalDef, VariadicDef

from explorer.ir.constants import constant, is_about, is_constant, scalar
from explorer.ir.operation import TopOperation
from explorer.ir.patterns.search import Binding, Found, Search, Searched, Then
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.support.binary_kinds import COMMUTATIVE
from explorer.ir.weights import Weights

Thing = TypeVar("Thing")
AnyTop = TypeVar("AnyTop", bound=TopOperation)

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
DEEPEST = 2
"""Operations within operations that a message spells out."""

Roots = dict[type[Operation], frozenset[str] | None]
"""Classes of operations that a pattern may begin at, with their kinds (None: any)."""


class Pattern(Searched[Thing]):
    """A part of what a rule looks for. A part that occurs twice stands for the same value twice."""

    tells: bool = False
    """Is an operation in it `telling()`?"""

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        """Does the value match, and then all that comes behind it?"""
        raise NotImplementedError

    def text(self, depth: int = DEEPEST) -> str:
        """As an expression, with operations spelled out to that depth."""
        raise NotImplementedError

    def roots(self) -> Roots:
        """What a match may begin at; TypeError for what is no operation."""
        raise TypeError(f"a pattern begins with an operation, not with {self}")

    def may_be(self, value: SSAValue) -> bool:
        """A first look, which costs little: False where `find` surely fails."""
        return True

    def at(self, value: SSAValue, search: Search, then: Then) -> bool:
        """As `find`, of a part that may be bound already."""
        search.visit()
        known = search.bound.get(self)
        if known is None:
            return self.find(value, search, then)
        if known.value is value:
            return then()
        return search.miss(value, lambda: f"the same {self.text(1)} again")

    def where(self, holds: Callable[[Found], bool], reason: str = "") -> Where[Thing]:
        """With a condition on what is bound so far; a reason is told where it does not hold."""
        return Where(self, holds, reason)

    def like(self, other: Pattern) -> Where[Thing]:
        """Of the same type as another part: nothing was broadcast on the way."""
        part = self.where(lambda found: found.value(part).type == found.value(other).type)
        return part

    def __str__(self) -> str:
        return self.text()

    def __add__(self, other: Part) -> OperationPattern[BinaryOp]:
        return binary("add", self, other)

    def __sub__(self, other: Part) -> OperationPattern[BinaryOp]:
        return binary("sub", self, other)

    def __mul__(self, other: Part) -> OperationPattern[BinaryOp]:
        return binary("mul", self, other)

    def __truediv__(self, other: Part) -> OperationPattern[BinaryOp]:
        return binary("div", self, other)

    def __pow__(self, other: Part) -> OperationPattern[BinaryOp]:
        return binary("pow", self, other)

    def __radd__(self, other: float) -> OperationPattern[BinaryOp]:
        return binary("add", other, self)

    def __rsub__(self, other: float) -> OperationPattern[BinaryOp]:
        return binary("sub", other, self)

    def __rmul__(self, other: float) -> OperationPattern[BinaryOp]:
        return binary("mul", other, self)

    def __rtruediv__(self, other: float) -> OperationPattern[BinaryOp]:
        return binary("div", other, self)

    def __matmul__(self, other: Pattern) -> OperationPattern[MatMulOp]:
        return OperationPattern(MatMulOp, (self, other))

    def __or__(self, other: Pattern) -> Either:
        return Either((self, other))


Part = Pattern | float
"""A number stands for a constant that is that number."""


def part(given: Part) -> Pattern:
    return given if isinstance(given, Pattern) else Literal(float(given))


def binary(kind: str, left: Part, right: Part) -> OperationPattern[BinaryOp]:
    """The `top.binary` of that kind, in both orders where it is commutative."""
    return OperationPattern(BinaryOp, (part(left), part(right)), {"kind": kind})


# -- leaves ----------------------------------------------------------------------------------------


class Value(Pattern[SSAValue]):
    """Any value, or one that fits."""

    def __init__(self, name: str, fits: Callable[[SSAValue], bool] | None = None) -> None:
        self.name, self._fits = name, fits

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        if self._fits is not None and not self._fits(value):
            return search.miss(value, self.text)
        return search.bind(self, value, value, then)

    def text(self, depth: int = DEEPEST) -> str:
        return self.name


class Constant(Pattern[np.ndarray]):
    """A weight; `found[part]` is its array."""

    def __init__(self, name: str) -> None:
        self.name = name

    def may_be(self, value: SSAValue) -> bool:
        return is_constant(value)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        if not is_constant(value):
            return search.miss(value, lambda: f"a constant {self.name}")
        return search.bind(self, value, None, then)

    def read(self, value: SSAValue | None, thing: None, weights: Weights) -> np.ndarray:
        array = None if value is None else constant(value, weights)
        assert array is not None
        return array

    def text(self, depth: int = DEEPEST) -> str:
        return self.name


class Number(Pattern[float]):
    """A constant of one element. Where it occurs again, it is one that is the same number."""

    def __init__(self, name: str, fits: Callable[[float], bool] | None = None) -> None:
        self.name, self._fits = name, fits

    def may_be(self, value: SSAValue) -> bool:
        return is_constant(value)

    def at(self, value: SSAValue, search: Search, then: Then) -> bool:
        search.visit()
        return self.find(value, search, then)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        number = scalar(value, search.weights)
        if number is None:
            return search.miss(value, lambda: f"a number {self.name}".rstrip())
        return self.take(number, value, search, then)

    def take(self, number: float, value: SSAValue, search: Search, then: Then) -> bool:
        """As `find`, of a number that several constants make."""
        known = search.bound.get(self)
        if known is not None:
            fits = known.thing == number
        else:
            fits = self._fits is None or self._fits(number)
        if not fits:
            return search.miss(value, lambda: f"another number than {number:g} as {self.name}")
        return search.bind(self, value, number, then)

    def text(self, depth: int = DEEPEST) -> str:
        return self.name


class Literal(Number):
    """A constant of one element that is this number, or about this number."""

    def __init__(self, number: float, is_rounded: bool = False) -> None:
        super().__init__(f"{number:g}")
        self.number, self._is_rounded = number, is_rounded

    def take(self, number: float, value: SSAValue, search: Search, then: Then) -> bool:
        near = self._is_rounded and is_about(number, self.number)
        if number != self.number and not near:
            return search.miss(value, lambda: f"{self.name} instead of {number:g}")
        return then()


class Property(Pattern[Thing]):
    """A property of an operation, the same wherever it occurs."""

    def __init__(self, name: str, fits: Callable[[Any], bool] | None = None) -> None:
        # Any: the type of a property depends on its name.
        self.name, self._fits = name, fits

    def agrees(self, given: object, search: Search) -> bool:
        known = search.bound.get(self)
        if known is not None:
            return known.thing == given
        return self._fits is None or self._fits(given)

    def text(self, depth: int = DEEPEST) -> str:
        return self.name


# -- operations ------------------------------------------------------------------------------------


class OperationPattern(Pattern[AnyTop]):
    """An operation of a class, with parts as its operands and conditions on its properties."""

    def __init__(
        self,
        kind: type[AnyTop],
        operands: Sequence[Part] = (),
        properties: dict[str, object] | None = None,
        is_telling: bool = False,
        holds: Callable[[AnyTop], bool] | None = None,
        reason: str = "",
        name: str = "",
    ) -> None:
        self.type, self.name = kind, name
        self.operands = tuple(part(operand) for operand in operands)
        self.properties = dict(properties or {})
        self.is_telling, self._holds, self._reason = is_telling, holds, reason
        named = self.properties.pop("kind", None)
        self.kind = named if isinstance(named, str) else None
        self.tells = is_telling or any(operand.tells for operand in self.operands)
        self._commutes = self.kind in COMMUTATIVE and len(self.operands) == 2
        definitions = [definition for _, definition in kind.get_irdl_definition().operands]
        self._takes_any_number = any(
            isinstance(d, VariadicDef) and not isinstance(d, OptionalDef) for d in definitions
        )

    def telling(self) -> OperationPattern[AnyTop]:
        """Once this operation is matched, there is a candidate: what fails then, is told."""
        return self._changed(is_telling=True)

    def having(self, holds: Callable[[AnyTop], bool], reason: str = "") -> OperationPattern[AnyTop]:
        """With a condition on the operation itself; a reason is told where it does not hold."""
        return self._changed(holds=holds, reason=reason)

    def called(self, name: str) -> OperationPattern[AnyTop]:
        """With a name for people, in the place of the expression."""
        return self._changed(name=name)

    def _changed(self, **changes: Any) -> OperationPattern[AnyTop]:
        # Any: what the constructor takes.
        properties = {**self.properties, **({"kind": self.kind} if self.kind else {})}
        own = {"is_telling": self.is_telling, "holds": self._holds, "reason": self._reason}
        given = {**own, "name": self.name, **changes}
        return OperationPattern(self.type, self.operands, properties, **given)

    def roots(self) -> Roots:
        return {self.type: None if self.kind is None else frozenset((self.kind,))}

    def may_be(self, value: SSAValue) -> bool:
        op = value.owner
        # Not isinstance: classes of operations are abstract, for which that is slow where it fails.
        return type(op) is self.type and (
            self.kind is None or op.properties["kind"].data == self.kind  # pyright: ignore
        )

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        op = value.owner
        if not self.may_be(value) or not isinstance(op, self.type):
            return search.miss(value, self.text)
        search.entered.append((op, search.use))
        search.telling += self.is_telling
        if self._with_properties(op, value, search, then):
            return True
        search.telling -= self.is_telling
        search.entered.pop()
        return False

    def _with_properties(self, op: AnyTop, value: SSAValue, search: Search, then: Then) -> bool:
        new: list[Property] = []
        for name, wanted in self.properties.items():
            given = op.get(name)
            if not _agrees(wanted, given, search):
                search.miss(value, partial(_expected, name, wanted, given, search))
                break
            if isinstance(wanted, Property) and wanted not in search.bound:
                search.bound[wanted] = Binding(None, given)
                new.append(wanted)
        else:
            if self._with_operands(op, value, search, then):
                return True
        for wanted in new:
            del search.bound[wanted]
        return False

    def _with_operands(self, op: AnyTop, value: SSAValue, search: Search, then: Then) -> bool:
        if self._holds is not None and not self._holds(op):
            return search.miss(value, lambda: self._reason or self.text())
        count = len(self.operands)
        if self._takes_any_number and count and len(op.operands) != count:
            return search.miss(value, self.text)

        def bound() -> bool:
            return search.bind(self, value, op, then)

        return any(self._operand(0, order, search, bound) for order in self._orders(op, search))

    def _orders(self, op: AnyTop, search: Search) -> list[tuple[SSAValue, ...]]:
        """Those that are worth a search: that may match, or of which would be told why not."""
        values = tuple(op.operands)[: len(self.operands)]
        orders = [values]
        if self._commutes and values[0] is not values[1]:
            orders.append(values[::-1])
        if search.telling:
            return orders
        return [order for order in orders if self._is_worth_it(order)]

    def _is_worth_it(self, values: tuple[SSAValue, ...]) -> bool:
        fits = [part.may_be(value) for part, value in zip(self.operands, values, strict=True)]
        if all(fits):
            return True
        told = zip(fits, self.operands, strict=True)
        return self.tells and any(fit and part.tells for fit, part in told)

    def _operand(
        self, index: int, values: tuple[SSAValue, ...], search: Search, then: Then
    ) -> bool:
        if index == len(values):
            return then()
        return self.operands[index].at(
            values[index], search, lambda: self._operand(index + 1, values, search, then)
        )

    def text(self, depth: int = DEEPEST) -> str:
        if self.name:
            return self.name
        label = self.kind or self.type.name.split(".")[-1]
        if depth == 0:
            return f"{label}(...)" if self.operands else label
        shown = [operand.text(depth - 1) for operand in self.operands]
        sign = SIGNS.get(label) or ("@" if self.type is MatMulOp else None)
        if sign and len(shown) == 2:
            return f" {sign} ".join(bracketed(operand) for operand in shown)
        return f"{label}({', '.join(shown)})"


def bracketed(expression: str) -> str:
    """In brackets where a sign or a word stands outside of any."""
    depth = 0
    for letter in expression:
        depth += (letter == "(") - (letter == ")")
        if letter == " " and not depth:
            return f"({expression})"
    return expression


def _agrees(wanted: object, given: object, search: Search) -> bool:
    if isinstance(wanted, Property):
        return wanted.agrees(given, search)
    return bool(wanted(given)) if callable(wanted) else given == wanted


def _expected(name: str, wanted: object, given: object, search: Search) -> str:
    known = search.bound.get(wanted) if isinstance(wanted, Property) else None
    if known is None and (callable(wanted) or isinstance(wanted, Property)):
        return f"another {name} than {given}"
    return f"{name} = {wanted if known is None else known.thing} instead of {given}"


# -- ways and conditions ---------------------------------------------------------------------------


class Either(Pattern[SSAValue]):
    """The first of several patterns that leads to a match."""

    def __init__(self, options: Sequence[Pattern], name: str = "") -> None:
        self.name = name
        self.options = tuple(
            inner
            for option in options
            for inner in (option.options if isinstance(option, Either) else (option,))
        )
        self.tells = any(option.tells for option in self.options)

    def called(self, name: str) -> Either:
        """With a name for people, in the place of the alternatives."""
        return Either(self.options, name)

    def roots(self) -> Roots:
        joined: Roots = {}
        for option in self.options:
            for kind, names in option.roots().items():
                known = joined.get(kind, frozenset())
                joined[kind] = None if names is None or known is None else names | known
        return joined

    def may_be(self, value: SSAValue) -> bool:
        return any(option.may_be(value) for option in self.options)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        def bound() -> bool:
            return search.bind(self, value, value, then)

        if self.name and not self.may_be(value):
            return search.miss(value, self.text)
        return any(option.at(value, search, bound) for option in self.options)

    def text(self, depth: int = DEEPEST) -> str:
        return self.name or " or ".join(option.text(depth) for option in self.options)


class Where(Pattern[Thing]):
    """A pattern with a condition on what is bound when it has matched."""

    def __init__(
        self, inner: Pattern[Thing], holds: Callable[[Found], bool], reason: str = ""
    ) -> None:
        self.inner, self._holds, self._reason = inner, holds, reason
        self.name, self.tells = inner.name, inner.tells

    def roots(self) -> Roots:
        return self.inner.roots()

    def read(self, value: SSAValue | None, thing: Any, weights: Weights) -> Thing:
        # Any: it was bound by the inner pattern.
        return self.inner.read(value, thing, weights)

    def may_be(self, value: SSAValue) -> bool:
        return self.inner.may_be(value)

    def find(self, value: SSAValue, search: Search, then: Then) -> bool:
        def checked() -> bool:
            if self._holds(search.found):
                return then()
            if self._reason:
                return search.refuse(self._reason)
            return search.miss(value, lambda: f"another {self.text(1)}")

        def bound() -> bool:
            known = search.bound.get(self.inner)
            return search.bind(self, value, value if known is None else known.thing, checked)

        return self.inner.at(value, search, bound)

    def text(self, depth: int = DEEPEST) -> str:
        return self.inner.text(depth)
