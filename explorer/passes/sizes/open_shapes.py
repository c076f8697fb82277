"""What is known of open sizes by name, before they are bound to their largest values.

ranges: seq = 1..8        %x: (batch, seq, 32)           ->  axis 1 of x: seq
                          %n = top.shape(%x)[1]          ->  contents of n: seq
                          constraint past+seq == total   ->  total is past+seq
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import RangeError
from explorer.ir.operation import TopOperation
from explorer.ir.sizes.constraints import Constraint, constraints_of
from explorer.ir.sizes.dimensions import UNKNOWN, expression_of
from explorer.ir.sizes.ranges import SizeRange
from explorer.ir.sizes.symbols import (
    Atom,
    Expression,
    Name,
    Quotient,
    larger,
    number,
    parse,
    smaller,
)
from explorer.ir.structure import value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.top.sizes import FoundContents, expressions
from explorer.ir.types import Dim, shape_of
from explorer.ir.weights import Weights
from explorer.passes.sizes.bind_dimensions import named_shapes


@dataclass(frozen=True)
class OpenNames:
    """The dimensions that are open, and how sizes follow from them."""

    known: Mapping[str, int | Expression]
    """Sizes of all other dimensions."""
    lowest: Mapping[str, int]
    largest: Mapping[str, int]

    @classmethod
    def of(
        cls, function: func.FuncOp, ranges: Sequence[SizeRange], sizes: Mapping[str, int]
    ) -> OpenNames:
        """sizes: of all dimensions, the largest of a range."""
        largest = {found.name: sizes[found.name] for found in ranges}
        implied = implied_sizes(constraints_of(function), tuple(largest), sizes)
        fixed = {n: size for n, size in sizes.items() if n not in largest and n not in implied}
        return cls({**implied, **fixed}, {one.name: one.lowest for one in ranges}, largest)

    def over_open(self, expression: Expression) -> Expression:
        """An expression of open dimensions only."""
        return within(expression.substituted(self.known), self.lowest, self.largest)

    def of_size(self, size: Dim) -> Expression | None:
        """As `over_open` of a size in a shape; None for one of which nothing is known."""
        found = None if size == UNKNOWN else expression_of(size)
        return None if found is None else self.over_open(found)


@dataclass(frozen=True)
class OpenShapes:
    """Sizes and contents as expressions over the dimensions that are open, by the value's name."""

    names: tuple[str, ...]
    axes: Mapping[str, Mapping[int, Expression | None]]
    """None: a size of which nothing is known."""
    contents: Mapping[str, np.ndarray]
    """Arrays of expressions: integers that are computed from open sizes, numbers among them."""
    relations: tuple[tuple[str, str, str, str], ...]
    largest: Mapping[str, int]

    @classmethod
    def of(
        cls,
        function: func.FuncOp,
        weights: Weights,
        ranges: Sequence[SizeRange],
        sizes: Mapping[str, int],
    ) -> OpenShapes:
        """sizes: of all dimensions, the largest of a range.

        RangeError for an expression that is larger for a smaller size.
        """
        names = OpenNames.of(function, ranges, sizes)
        over_open, lowest, largest = names.over_open, names.lowest, names.largest
        axes: dict[str, dict[int, Expression | None]] = {}
        contents: dict[str, np.ndarray] = {}
        found = FoundContents(weights)
        for value, shape in _values(function):
            own: dict[int, Expression | None] = {}
            for axis, size in enumerate(shape):
                expression = names.of_size(size)
                if expression is None or not expression.is_number:
                    own[axis] = expression
                if expression is not None:
                    _check_grows(expression, value, lowest, largest)
            if own:
                axes[value_name(value)] = own
            array = None if isinstance(value.owner, WeightOp) else found.array(value)
            if array is None:
                continue
            array = expressions(over_open(e) for e in array.reshape(-1)).reshape(array.shape)
            made_of = value.owner.operands if isinstance(value.owner, TopOperation) else ()
            is_open = any(not e.is_number for e in array.reshape(-1))
            if is_open or any(value_name(operand) in contents for operand in made_of):
                contents[value_name(value)] = array
        relations = tuple(
            (c.kind, str(over_open(parse(c.left))), str(over_open(parse(c.right))), c.operation)
            for c in constraints_of(function)
            if c.kind != "named"
        )
        return cls(tuple(largest), axes, contents, relations, largest)

    def of_value(self, value: SSAValue) -> Mapping[int, Expression | None]:
        return self.axes.get(value_name(value), {})


def _values(function: func.FuncOp) -> Iterable[tuple[SSAValue, Sequence[Dim]]]:
    yield from zip(function.body.block.args, named_shapes(function).values(), strict=True)
    for op in function.body.block.ops:
        if isinstance(op, TopOperation):
            yield from ((result, shape_of(result)) for result in op.results)


def implied_sizes(
    constraints: Sequence[Constraint], open_names: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, Expression]:
    """Dimensions that follow from open ones, as the model's constraints say."""
    found: dict[str, Expression] = {}
    for constraint in constraints:
        if constraint.kind != "equal":
            continue
        left, right = parse(constraint.left), parse(constraint.right)
        for side, other in ((left, right), (right, left)):
            (name,) = side.names if side.is_name else ("",)
            is_known = set(other.names) <= {*open_names}
            if name in sizes and name not in open_names and other.names and is_known:
                found.setdefault(name, other)
    return found


def within(
    expression: Expression, lowest: Mapping[str, int], largest: Mapping[str, int]
) -> Expression:
    """The expression with each `min` and `max` decided where bounds of the names decide it."""
    total = number(0)
    for product, coefficient in expression.terms:
        factor = number(coefficient)
        for atom in product:
            factor = factor * _atom_within(atom, lowest, largest)
        total = total + factor
    return total


def _atom_within(atom: Atom, lowest: Mapping[str, int], largest: Mapping[str, int]) -> Expression:
    if isinstance(atom, Name):
        return Expression((((atom,), 1),))
    if isinstance(atom, Quotient):
        return within(atom.dividend, lowest, largest).divided(atom.divisor)
    first, second = (within(e, lowest, largest) for e in (atom.first, atom.second))
    low, high = _bounds(first - second, lowest, largest)
    is_min = atom.kind == "min"
    if low >= 0:
        return second if is_min else first
    if high <= 0:
        return first if is_min else second
    return (smaller if is_min else larger)(first, second)


def _bounds(
    expression: Expression, lowest: Mapping[str, int], largest: Mapping[str, int]
) -> tuple[int, int]:
    """A number that the expression is never below, and one that it is never above."""
    low = high = 0
    for product, coefficient in expression.terms:
        ends = [coefficient]
        for atom in product:
            own = atom.value(lowest), atom.value(largest)
            ends = [end * number for end in ends for number in (min(own), max(own))]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _check_grows(
    expression: Expression,
    value: SSAValue,
    lowest: Mapping[str, int],
    largest: Mapping[str, int],
) -> None:
    """A size that grows with each dimension is largest where all are."""
    whole = expression.value(largest)
    for name in expression.names:
        for at in (lowest, largest):
            if expression.value({**at, name: lowest[name]}) > whole:
                raise RangeError(
                    f"one program for all sizes is not possible: {value_name(value)} has a size "
                    f"of {expression}, which grows as {name} becomes smaller",
                    hint=f"give {name} one size",
                )
