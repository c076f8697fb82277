"""Arithmetic of dimensions that may be names: sums and products for shape inference.

plus("batch", 2)          ->  "batch+2"          plus("batch+2", -2)  ->  "batch"
product([2, "batch", 3])  ->  (6, ("batch",))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import gcd, prod

from explorer.ir.types import Dim, Shape, format_shape

UNKNOWN = "?"


def plus(size: Dim, number: int) -> Dim:
    """size + number; a number that a name already ends in is merged with it."""
    if isinstance(size, int):
        return size + number
    if size == UNKNOWN:
        return UNKNOWN
    base, present = _split_sum(size)
    total = present + number
    return f"{base}{total:+d}" if total else base


def sum_of(sizes: Iterable[Dim]) -> Dim:
    """The sum of all; names in order, the numbers behind them."""
    number, names = 0, []
    for size in sizes:
        if isinstance(size, int):
            number += size
        elif size == UNKNOWN:
            return UNKNOWN
        else:
            names.append(size)
    return plus("+".join(names), number) if names else number


def product(sizes: Sequence[Dim]) -> tuple[int, tuple[str, ...]]:
    """The product as a number times names."""
    names = tuple(s for s in sizes if isinstance(s, str))
    return prod(s for s in sizes if isinstance(s, int)), names


def reshaped(shape: Shape, target: Sequence[int]) -> Shape:
    """The shape after a reshape to `target`, whose one -1 (if any) is what remains.

    (batch, 3, 4) to (-1, 6)  ->  (2*batch, 6). ValueError where the sizes do not fit.
    """
    if sum(t == -1 for t in target) > 1 or any(t < -1 for t in target):
        raise ValueError(f"reshape to {list(target)}: sizes are 0 or more, at most one is -1")
    number, names = product(shape)
    known = prod(t for t in target if t != -1)
    misfit = f"{format_shape(shape)} has not the elements of {format_shape(target)}"
    if -1 not in target:
        if not names and number != known:
            raise ValueError(misfit)
        return tuple(target)
    if not names and (known == 0 or number % known):
        raise ValueError(misfit)
    remaining = _quotient(number, names, known) if names else number // known
    return tuple(remaining if t == -1 else t for t in target)


def _quotient(number: int, names: tuple[str, ...], divisor: int) -> Dim:
    if UNKNOWN in names or not number or not divisor:
        return UNKNOWN
    common = gcd(number, divisor)
    factors = [str(number // common)] if number != common else []
    plain = re.compile(r"\w+")
    factors += [n if plain.fullmatch(n) else f"({n})" for n in names]
    rest = divisor // common
    if len(factors) == 1 and rest == 1:
        return names[0]
    text = "*".join(factors)
    if rest == 1:
        return text
    return f"({text})//{rest}" if len(factors) > 1 else f"{text}//{rest}"


def _split_sum(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+?)([+-]\d+)", name)
    if match is None or match[1].count("(") != match[1].count(")"):
        return name, 0
    return match[1], int(match[2])
