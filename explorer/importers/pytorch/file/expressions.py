"""Sizes of tensors as a file writes them, by a grammar: never by Python.

    Mul(Integer(2), Symbol('s77', positive=True, integer=True))      2*s77
    FloorDiv(Add(Symbol('h'), Integer(-1)), Integer(2))              (h-1)//2

    expression = Name "(" argument { "," argument } ")"
    argument   = expression | integer | 'text' | name "=" ("True" | "False")

The texts are those of sympy's `srepr`. What has no place among sizes is None: the size of a result
follows from the operation then, and an input's size gets a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

from explorer.errors import ModelError
from explorer.ir.sizes.dimensions import dimension_of
from explorer.ir.sizes.symbols import Expression, larger, name, number, smaller
from explorer.ir.types import Dim

LONGEST = 20_000
"""Characters of an expression."""
DEEPEST = 40
"""Brackets within brackets."""
MAX_TERMS = 200
"""Of a product that is multiplied out."""
MAX_DIGITS = 19

_TOKEN = re.compile(r"\s*(?:(-?\d+)|([A-Za-z_][\w.]*)|'([^'\\]*)'|([(),=]))")

Parsed = Expression | str | None
"""A size; a symbol's name; or what is no size."""


def size_of(text: str) -> Dim | None:
    """A number, a name or an expression of names; None for what cannot be said in sizes.

    ModelError for what is no expression at all.
    """
    found = _parse(text)
    return None if not isinstance(found, Expression) else dimension_of(found)


def _parse(text: str) -> Parsed:
    if len(text) > LONGEST:
        raise _damaged(text, f"it has {len(text):,} characters")
    tokens: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _damaged(text, f"at {text[at : at + 20]!r}")
        at = match.end()
        kind = ("integer", "name", "text", "mark")[(match.lastindex or 1) - 1]
        tokens.append((kind, match.group(match.lastindex or 1)))
    found, rest = _expression(tokens, 0, 0, text)
    if rest != len(tokens):
        raise _damaged(text, "something stands behind it")
    return found


def _expression(
    tokens: Sequence[tuple[str, str]], at: int, depth: int, text: str
) -> tuple[Parsed, int]:
    """What begins at a token, and where it ends."""
    kind, value = tokens[at] if at < len(tokens) else ("end", "")
    if kind == "integer":
        return _integer(value, text), at + 1
    if kind == "text":
        return value, at + 1
    if kind != "name" or depth > DEEPEST:
        raise _damaged(text, "a name was expected" if depth <= DEEPEST else "it is nested too deep")
    following = tokens[at + 1] if at + 1 < len(tokens) else ("end", "")
    if following == ("mark", "=") and at + 2 < len(tokens):
        return None, at + 3  # an assumption about a symbol, as positive=True
    if following != ("mark", "("):
        return None, at + 1  # a constant of sympy: true, oo
    arguments: list[Parsed] = []
    at += 2
    while at < len(tokens) and tokens[at] != ("mark", ")"):
        argument, at = _expression(tokens, at, depth + 1, text)
        arguments.append(argument)
        if at < len(tokens) and tokens[at] == ("mark", ","):
            at += 1
        elif at >= len(tokens) or tokens[at] != ("mark", ")"):
            raise _damaged(text, "a comma or a bracket was expected")
    if at >= len(tokens):
        raise _damaged(text, "a bracket is open")
    return _applied(value.rsplit(".", 1)[-1], arguments), at + 1


def _applied(function: str, arguments: Sequence[Parsed]) -> Parsed:
    if function == "Symbol":
        symbol = arguments[0] if arguments else None
        is_name = isinstance(symbol, str) and symbol.isidentifier()
        return name(symbol) if is_name and isinstance(symbol, str) else None
    sizes = [argument for argument in arguments if isinstance(argument, Expression)]
    if len(sizes) != len(arguments) or not sizes:
        return None
    if function == "Integer":
        return sizes[0]
    apply = _FUNCTIONS.get(function)
    return None if apply is None else apply(sizes)


def _product(sizes: Sequence[Expression]) -> Expression | None:
    total: Expression | None = number(1)
    for size in sizes:
        if total is None or len(total.terms) * len(size.terms) > MAX_TERMS:
            return None
        total = total * size
    return total


def _power(sizes: Sequence[Expression]) -> Expression | None:
    if len(sizes) != 2 or not sizes[1].is_number or not 0 <= sizes[1].constant <= 8:
        return None
    return _product([sizes[0]] * sizes[1].constant)


def _quotient(sizes: Sequence[Expression]) -> Expression | None:
    if len(sizes) != 2 or not sizes[1].is_number or sizes[1].constant < 1:
        return None
    return sizes[0].divided(sizes[1].constant)


def _sum(sizes: Sequence[Expression]) -> Expression:
    return reduce(lambda total, size: total + size, sizes)


_FUNCTIONS: dict[str, Callable[[Sequence[Expression]], Expression | None]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "Max": lambda sizes: reduce(larger, sizes),
    "Min": lambda sizes: reduce(smaller, sizes),
    "Identity": lambda sizes: sizes[0],
}


def _integer(digits: str, text: str) -> Expression:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise _damaged(text, f"a number of {len(digits)} digits")
    return number(int(digits))


def _damaged(text: str, why: str) -> ModelError:
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return ModelError(
        f"{shown!r} is no expression of sizes: {why}",
        hint="the file is damaged, or was made to run what stands there",
    )
