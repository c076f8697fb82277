"""Arithmetic of dimensions, which are numbers or texts of expressions, for shape inference.

plus("batch", 2)             ->  "batch+2"       window("h", 3, 2, 1, 1, 1)  ->  "(h+1)//2"
product([2, "batch", 3])     ->  6*batch         steps("s", 2)               ->  "(s+1)//2"

What is not known at all is "?", and so is all that is computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.ir.sizes.symbols import Expression, number, parse
from explorer.ir.types import Dim, Shape, format_shape

UNKNOWN = "?"


def expression_of(size: Dim) -> Expression | None:
    """None for a size of which nothing is known."""
    if isinstance(size, int):
        return number(size)
    return None if size == UNKNOWN else parse(size)


def dimension_of(expression: Expression | None) -> Dim:
    """The number, the name, or the text of an expression; "?" for None."""
    if expression is None:
        return UNKNOWN
    if expression.is_number:
        return expression.constant
    return expression.names[0] if expression.is_name else str(expression)


def are_equal(first: Dim, second: Dim) -> bool:
    """Known to be the same size, however it is written."""
    if first == second:
        return first != UNKNOWN
    if isinstance(first, int) and isinstance(second, int):
        return False
    a, b = expression_of(first), expression_of(second)
    return a is not None and a == b


def plus(size: Dim, amount: int) -> Dim:
    """size + amount."""
    if isinstance(size, int):
        return size + amount
    found = expression_of(size)
    return UNKNOWN if found is None else dimension_of(found + amount)


def times(size: Dim, factor: int) -> Dim:
    """size * factor."""
    if isinstance(size, int):
        return size * factor
    found = expression_of(size)
    return UNKNOWN if found is None else dimension_of(found * factor)


def sum_of(sizes: Iterable[Dim]) -> Dim:
    """The sum of all."""
    total = number(0)
    for size in sizes:
        found = expression_of(size)
        if found is None:
            return UNKNOWN
        total = total + found
    return dimension_of(total)


def product(sizes: Iterable[Dim]) -> Expression | None:
    """The number of elements; None where a size is not known."""
    total = number(1)
    for size in sizes:
        found = expression_of(size)
        if found is None:
            return None
        total = total * found
    return total


def window(size: Dim, reach: int, stride: int, padding: int) -> Dim:
    """Positions of a window of `reach` elements along an axis with `padding` at both ends."""
    if isinstance(size, int):
        return (size + padding - reach) // stride + 1
    found = expression_of(size)
    if found is None:
        return UNKNOWN
    return dimension_of((found + (padding - reach)).divided(stride) + 1)


def steps(size: Dim, step: int) -> Dim:
    """How many elements every step-th of `size` are; rounds upwards."""
    found = expression_of(size)
    return UNKNOWN if found is None else dimension_of((found + (step - 1)).divided(step))


def reshaped(shape: Shape, target: Sequence[Dim]) -> Shape:
    """The shape after a reshape to `target`, whose one -1 (if any) is what remains.

    (batch, 3, 4) to (-1, 6)  ->  (2*batch, 6). ValueError where the sizes do not fit.
    """
    known = [t for t in target if t != -1]
    if len(target) - len(known) > 1 or any(isinstance(t, int) and t < 0 for t in known):
        raise ValueError(f"reshape to {list(target)}: sizes are 0 or more, at most one is -1")
    whole, rest = product(shape), product(known)
    misfit = f"{format_shape(shape)} has not the elements of {format_shape(target)}"
    numbers = [whole.constant for whole in (whole, rest) if whole is not None and whole.is_number]
    if len(known) == len(target):
        if len(numbers) == 2 and numbers[0] != numbers[1]:
            raise ValueError(misfit)
        return tuple(target)
    if len(numbers) == 2:
        if not numbers[1] or numbers[0] % numbers[1]:
            raise ValueError(misfit)
        remaining: Dim = numbers[0] // numbers[1]
    else:
        remaining = dimension_of(divided_exactly(whole, rest))
    return tuple(remaining if t == -1 else t for t in target)


def divided_exactly(whole: Expression | None, rest: Expression | None) -> Expression | None:
    """whole / rest, where it is known that nothing remains; None where it cannot be said."""
    if whole is None or rest is None or not whole.terms or not rest.terms:
        return None
    if rest.is_number:
        return whole.divided(rest.constant) if rest.constant > 0 else None
    found = whole.quotient(rest)
    if found is None and len(rest.terms) == 1:
        # (4*batch) / (3*batch): the names first, then the number that is left.
        ((names, factor),) = rest.terms
        names_alone = whole.quotient(Expression(((names, 1),)))
        return None if names_alone is None or factor < 1 else names_alone.divided(factor)
    return found
