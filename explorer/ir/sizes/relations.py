"""Relations between sizes, brought into the form in which a person would say them.

    ("equal", "min(8,s+1)", "s+1")     ->  ("at most", "s", 7)
    ("at least", "(h+31)//32", 2)      ->  ("at least", "h", 33)
    ("equal", "3*batch", 3)            ->  ("fixed", "batch", 1)
    ("at least", "max(0,h-2)", 3)      ->  ("at least", "h", 5)

What is true whatever the sizes are is left out. A size counts as 1 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from explorer.ir.sizes.dimensions import dimension_of, expression_of
from explorer.ir.sizes.symbols import Expression, Extreme, Quotient, number, smaller
from explorer.ir.types import Dim, Shape

Relation = tuple[str, Dim, Dim]
"""Kind (`constraints.KINDS`), left and right of a constraint."""


def simplified(relations: Iterable[Relation]) -> Iterator[Relation]:
    """Each relation in its plainest form; of bounds of one size the tightest remains."""
    found: dict[tuple[str, str], Relation] = {}
    for relation in relations:
        for kind, left, right in _plain(relation):
            is_bound = kind in ("at least", "at most") and isinstance(right, int)
            key = (kind, str(left) if is_bound else f"{left} {right}")
            known = found.get(key)
            if known is None or not is_bound or _is_tighter(kind, right, known[2]):
                found[key] = (kind, left, right)
    yield from found.values()


def _is_tighter(kind: str, right: Dim, other: Dim) -> bool:
    if not isinstance(right, int) or not isinstance(other, int):
        return False
    return right > other if kind == "at least" else right < other


def _plain(relation: Relation) -> Iterator[Relation]:
    kind, left, right = relation
    a, b = expression_of(left), expression_of(right)
    if a is None or b is None or (a.is_number and b.is_number):
        return
    if kind == "broadcast" and _is_above_one(a) and _is_above_one(b):
        kind = "equal"
    if kind == "equal":
        yield from _equal(a, b)
    elif kind == "at least":
        yield from _at_least(a - b)
    elif kind == "at most":
        yield from _at_least(b - a)
    elif a != b:
        yield (kind, dimension_of(b), dimension_of(a)) if a.is_number else relation


def _is_above_one(size: Expression) -> bool:
    low = size.lowest()
    return low is not None and low > 1


def _equal(a: Expression, b: Expression) -> Iterator[Relation]:
    difference = a - b
    if not difference.terms:
        return
    split = _with_minimum(difference)
    if split is not None:
        minimum, rest = split
        for part, other in ((minimum.first, minimum.second), (minimum.second, minimum.first)):
            if part + rest == number(0):
                yield from _at_least(other - part)
                return
    if a.is_number:
        a, b = b, a
    if b.is_number:
        whole = a - a.constant
        target = b.constant - a.constant
        if len(whole.terms) == 1 and target % whole.terms[0][1] == 0:
            ((names, factor),) = whole.terms
            a, b = Expression(((names, 1),)), number(target // factor)
            above = _above(a, b.constant)
            if above is not None:
                yield from _equal(above, b)
                return
    yield "fixed" if b.is_number else "equal", dimension_of(a), dimension_of(b)


def _at_least(difference: Expression) -> Iterator[Relation]:
    """difference >= 0, solved for its name where it has but one term."""
    low = difference.lowest()
    if low is not None and low >= 0:
        return
    split = _with_minimum(difference)
    if split is not None:
        minimum, rest = split
        yield from _at_least(minimum.first + rest)
        yield from _at_least(minimum.second + rest)
        return
    if any(low_part >= 0 for low_part in _lows_below_minimum(difference)):
        return
    constant = difference.constant
    whole = difference - constant
    if len(whole.terms) != 1:
        positive = Expression(tuple(t for t in difference.terms if t[1] > 0))
        yield "at least", dimension_of(positive), dimension_of(positive - difference)
        return
    ((product, factor),) = whole.terms
    kind = "at least" if factor > 0 else "at most"
    # factor * x >= -constant; divided by a negative factor the relation turns round.
    bound = -(constant // factor) if factor > 0 else constant // -factor
    alone = Expression(((product, 1),))
    above = _above(alone, bound)
    if above is not None and factor > 0:
        yield from _at_least(above - bound)
        return
    if len(product) == 1 and isinstance(product[0], Quotient):
        inner, divisor = product[0].dividend, product[0].divisor
        if factor > 0:
            yield from _at_least(inner - bound * divisor)
        else:
            yield from _at_least(number(bound * divisor + divisor - 1) - inner)
        return
    yield kind, dimension_of(alone), bound


def _above(expression: Expression, bound: int) -> Expression | None:
    """The part of `max(a, b)` that decides whether it reaches a bound, if the other is below it."""
    if len(expression.terms) != 1 or len(expression.terms[0][0]) != 1:
        return None
    ((atom,), factor) = expression.terms[0]
    if not isinstance(atom, Extreme) or atom.kind != "max" or factor != 1:
        return None
    for part, other in ((atom.first, atom.second), (atom.second, atom.first)):
        if part.is_number and part.constant < bound:
            return other
    return None


def _lows_below_minimum(difference: Expression) -> Iterator[int]:
    """Bounds of `a - min(b, c)` from below: it is never less than a - b, nor than a - c."""
    for product, factor in difference.terms:
        if factor == -1 and len(product) == 1:
            atom = product[0]
            if isinstance(atom, Extreme) and atom.kind == "min":
                rest = difference + smaller(atom.first, atom.second)
                lows = (rest - atom.first).lowest(), (rest - atom.second).lowest()
                yield from (low for low in lows if low is not None)


def _with_minimum(expression: Expression) -> tuple[Extreme, Expression] | None:
    """The one minimum that is added with factor 1, and the rest."""
    for product, factor in expression.terms:
        if factor == 1 and len(product) == 1:
            atom = product[0]
            if isinstance(atom, Extreme) and atom.kind == "min":
                return atom, expression - smaller(atom.first, atom.second)
    return None


# -- what families of operations ask for -----------------------------------------------------------


def broadcast_relations(shapes: Sequence[Shape]) -> Iterator[Relation]:
    """Sizes at one axis, counted from the right, are equal or 1."""
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        numbers = [s for s in sizes if isinstance(s, int)]
        for size in sizes[1:]:
            yield "broadcast", sizes[0], size
        if numbers and sizes[0] != numbers[0]:
            yield "broadcast", sizes[0], numbers[0]


def window_relations(
    x: Shape, widths: Shape, pads: Sequence[int], dilations: Sequence[int]
) -> Iterator[Relation]:
    """Every spatial axis of (N, C, spatial...) has room for one window."""
    rank = len(x) - 2
    for axis in range(rank):
        width = widths[axis]
        if isinstance(width, int):
            reach = (width - 1) * dilations[axis] + 1
            yield "at least", x[2 + axis], reach - pads[axis] - pads[rank + axis]


def same_count(before: Expression, after: Expression) -> Relation:
    """Factors that stand on both sides are left out: 3*batch == 3 says batch == 1."""
    for whole, part in ((before, after), (after, before)):
        if part.is_number and len(whole.terms) == 1:
            ((names, factor),) = whole.terms
            if part.constant % factor == 0:
                return "equal", dimension_of(Expression(((names, 1),))), part.constant // factor
        found = whole.quotient(part)
        if found is not None:
            return "equal", dimension_of(found), 1
    return "equal", dimension_of(before), dimension_of(after)


def divisible(whole: Expression, divisor: int) -> Iterator[Relation]:
    """The divisor divides the whole, which is said of what is not known to be divisible."""
    rest = whole - whole.divided(divisor) * divisor
    if rest.is_number and rest.constant == 0:
        return
    if len(whole.terms) == 1:
        ((names, factor),) = whole.terms
        divisor //= gcd(factor, divisor)
        whole = Expression(((names, 1),))
    yield "multiple", dimension_of(whole), divisor
