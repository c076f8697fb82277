"""Exact arithmetic of sizes that are not known yet: polynomials over names, with floor division.

    h = parse("h")
    (h - 1).divided(2) + 1        ->  (h+1)//2
    (h * 2 + h).value({"h": 5})   ->  15

Equal expressions have equal texts: terms are collected and sorted, what a divisor divides is taken
out of the quotient, and a quotient of a quotient is one. A name is any text; one that is no
identifier is written between backquotes, so that `parse` reads every text back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod

MAX_QUOTIENT_TERMS = 64
"""Terms of a quotient."""
DEEPEST = 40
"""Brackets within brackets that are read; names from a file may be anything."""


@dataclass(frozen=True)
class Name:
    """A size that is not known yet; at least 1 where nothing else is said."""

    text: str

    def value(self, sizes: Mapping[str, int]) -> int:
        return sizes[self.text]

    def names(self) -> Iterator[str]:
        yield self.text

    def __str__(self) -> str:
        return self.text if _IDENTIFIER.fullmatch(self.text) else f"`{self.text}`"


@dataclass(frozen=True)
class Quotient:
    """`dividend // divisor`, rounded downwards; the divisor is 2 or more."""

    dividend: Expression
    divisor: int

    def value(self, sizes: Mapping[str, int]) -> int:
        return self.dividend.value(sizes) // self.divisor

    def names(self) -> Iterator[str]:
        yield from self.dividend.names

    def __str__(self) -> str:
        text = str(self.dividend)
        plain = self.dividend.is_name
        return f"{text}//{self.divisor}" if plain else f"({text})//{self.divisor}"


@dataclass(frozen=True)
class Extreme:
    """The smaller (`min`) or the larger (`max`) of two expressions."""

    kind: str
    first: Expression
    second: Expression

    def value(self, sizes: Mapping[str, int]) -> int:
        chosen = min if self.kind == "min" else max
        return chosen(self.first.value(sizes), self.second.value(sizes))

    def names(self) -> Iterator[str]:
        yield from self.first.names
        yield from self.second.names

    def __str__(self) -> str:
        return f"{self.kind}({self.first},{self.second})"


Atom = Name | Quotient | Extreme
Product = tuple[Atom, ...]


@dataclass(frozen=True)
class Expression:
    """`sum(coefficient * product of atoms)`; the empty product is the constant.

    Made by `number`, `name`, `parse` and arithmetic; terms are sorted, no coefficient is 0.
    """

    terms: tuple[tuple[Product, int], ...] = ()

    # -- questions -------------------------------------------------------------------------------
    @property
    def constant(self) -> int:
        return next((c for product, c in self.terms if not product), 0)

    @property
    def is_number(self) -> bool:
        return all(not product for product, _ in self.terms)

    @property
    def is_name(self) -> bool:
        """A name alone."""
        return isinstance(_only_atom(self), Name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name in it, once."""
        atoms = (atom for product, _ in self.terms for atom in product)
        return tuple(dict.fromkeys(name for atom in atoms for name in atom.names()))

    def value(self, sizes: Mapping[str, int]) -> int:
        """Its number for these sizes; KeyError for a name without one."""
        total = 0
        for product, factor in self.terms:
            for atom in product:
                factor *= atom.value(sizes)
            total += factor
        return total

    def lowest(self) -> int | None:
        """A number that it is never below while all names are 1 or more; None where none is known.

        Products grow with their names, and so do quotients, so that a sum without subtraction is
        smallest where all names are 1.
        """
        total = 0
        for product, coefficient in self.terms:
            if product and coefficient < 0:
                return None
            lows = [_lowest(atom) for atom in product]
            known = [low for low in lows if low is not None and low >= 0]
            if len(known) != len(lows):
                return None
            total += coefficient * prod(known)
        return total

    def multiple_of(self, name: str) -> int | None:
        """f where the expression is just f * name; None otherwise."""
        if len(self.terms) != 1:
            return None
        ((product, coefficient),) = self.terms
        return coefficient if product == (Name(name),) else None

    def solved(self, value: int) -> tuple[str, int] | None:
        """The only name of factor * name + constant and its size where the expression is `value`.

        None for other expressions, and where no whole number is the size.
        """
        varying = self - self.constant
        if len(varying.names) != 1 or (factor := varying.multiple_of(varying.names[0])) is None:
            return None
        size, rest = divmod(value - self.constant, factor)
        return None if rest else (varying.names[0], size)

    # -- arithmetic ------------------------------------------------------------------------------
    def __add__(self, other: Expression | int) -> Expression:
        terms = dict(self.terms)
        for product, coefficient in _expression(other).terms:
            terms[product] = terms.get(product, 0) + coefficient
        return _collected(terms)

    def __sub__(self, other: Expression | int) -> Expression:
        return self + _expression(other) * -1

    def __mul__(self, other: Expression | int) -> Expression:
        terms: dict[Product, int] = {}
        for left, a in self.terms:
            for right, b in _expression(other).terms:
                product = tuple(sorted((*left, *right), key=str))
                terms[product] = terms.get(product, 0) + a * b
        return _collected(terms)

    def divided(self, divisor: int) -> Expression:
        """The quotient, rounded downwards; the divisor is 1 or more."""
        if divisor < 1:
            raise ValueError(f"a size divided by {divisor}")
        whole = {p: c // divisor for p, c in self.terms if c % divisor == 0 or not p}
        rest = _collected({p: c % divisor if not p else c for p, c in self.terms} | {
            p: 0 for p, c in self.terms if p and c % divisor == 0
        })  # fmt: skip
        taken_out = _collected(whole)
        if rest.is_number:
            return taken_out  # the remainder of the constant is below the divisor
        common = gcd(divisor, *(c for p, c in rest.terms if p))
        rest = _collected({p: c // common for p, c in rest.terms})
        return taken_out + _quotient(rest, divisor // common)

    def quotient(self, divisor: Expression) -> Expression | None:
        """The exact quotient, such as that of 4*h-8 by h-2; None where it does not divide.

        The first term of what is left is divided by the divisor's first one, again and again.
        """
        if not divisor.terms:
            return None
        (product, coefficient), *_ = divisor.terms
        found, rest = Expression(), self
        for _ in range(MAX_QUOTIENT_TERMS):
            if not rest.terms:
                break
            own, c = rest.terms[0]
            left = list(own)
            for atom in product:
                if atom not in left:
                    return None
                left.remove(atom)
            if c % coefficient:
                return None
            part = Expression(((tuple(left), c // coefficient),))
            found, rest = found + part, rest - part * divisor
        return None if rest.terms else found

    def substituted(self, sizes: Mapping[str, int | Expression]) -> Expression:
        """The names that have a size, or an expression for it, replaced by it."""
        if not any(name in sizes for name in self.names):
            return self
        total = Expression()
        for product, coefficient in self.terms:
            factor = number(coefficient)
            for atom in product:
                factor = factor * _substituted(atom, sizes)
            total = total + factor
        return total

    def __str__(self) -> str:
        text = ""
        for product, coefficient in self.terms:
            parts = [_factor_text(atom, len(product) > 1 or coefficient != 1) for atom in product]
            if abs(coefficient) != 1 or not parts:
                parts.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+" if text else ""
            text += sign + "*".join(parts)
        return text or "0"


def number(value: int) -> Expression:
    return Expression((((), value),) if value else ())


@lru_cache(maxsize=4096)
def name(text: str) -> Expression:
    return Expression((((Name(text),), 1),))


def relation_holds(kind: str, left: int, right: int) -> bool:
    """Whether two sizes are as a constraint of that kind says (`constraints.KINDS`)."""
    if kind == "at least":
        return left >= right
    if kind == "at most":
        return left <= right
    if kind == "multiple":
        return right > 0 and left % right == 0
    return left == right or (kind == "broadcast" and 1 in (left, right))


def smaller(first: Expression, second: Expression) -> Expression:
    return _extreme("min", first, second)


def larger(first: Expression, second: Expression) -> Expression:
    return _extreme("max", first, second)


def is_one_of(part: Expression, whole: Expression) -> bool:
    """Whether the sizes decide if an expression is a part: it is the smaller or larger of two."""
    atom = _only_atom(whole)
    return isinstance(atom, Extreme) and part in (atom.first, atom.second)


@lru_cache(maxsize=65536)
def parse(text: str) -> Expression:
    """The expression that a text says; a text that is none is a name."""
    if _IDENTIFIER.fullmatch(text):
        return name(text)
    try:
        tokens = _tokens(text)
        found, end = _parse_sum(tokens, 0, 0)
    except ValueError:
        return name(text)
    return found if end == len(tokens) else name(text)


# -- canonical form ------------------------------------------------------------------------------


def _collected(terms: Mapping[Product, int]) -> Expression:
    kept = [(product, c) for product, c in terms.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), term[1] < 0, [str(a) for a in term[0]]))
    return Expression(tuple(kept))


def _quotient(dividend: Expression, divisor: int) -> Expression:
    """One quotient of a quotient: (a // b + k) // c = (a + k b) // (b c)."""
    if divisor == 1:
        return dividend
    atom = _only_atom(dividend - dividend.constant)
    if isinstance(atom, Quotient):
        whole = atom.dividend + dividend.constant * atom.divisor
        return whole.divided(atom.divisor * divisor)
    return Expression((((Quotient(dividend, divisor),), 1),))


def _extreme(kind: str, first: Expression, second: Expression) -> Expression:
    """One of the two where it is known which, else both in the order of their texts."""
    difference = first - second
    low, high = difference.lowest(), (second - first).lowest()
    if low is not None and low >= 0:
        return second if kind == "min" else first
    if high is not None and high >= 0:
        return first if kind == "min" else second
    for one, other in ((first, second), (second, first)):
        atom = _only_atom(other)
        if isinstance(atom, Extreme) and atom.kind == kind:
            parts = (atom.first, atom.second)
            if one in parts:
                return other
            if one.is_number and any(part.is_number for part in parts):
                known, rest = parts if parts[0].is_number else parts[::-1]
                return _extreme(kind, _extreme(kind, one, known), rest)
    ordered = sorted((first, second), key=str)
    return Expression((((Extreme(kind, *ordered),), 1),))


def _only_atom(expression: Expression) -> Atom | None:
    """The atom that an expression is nothing but."""
    if len(expression.terms) != 1:
        return None
    ((product, coefficient),) = expression.terms
    return product[0] if coefficient == 1 and len(product) == 1 else None


def _lowest(atom: Atom) -> int | None:
    if isinstance(atom, Name):
        return 1
    if isinstance(atom, Quotient):
        low = atom.dividend.lowest()
        return None if low is None else low // atom.divisor
    lows = (atom.first.lowest(), atom.second.lowest())
    known = [low for low in lows if low is not None]
    if atom.kind == "max":
        return max(known, default=None)
    return min(known) if len(known) == 2 else None


def _substituted(atom: Atom, sizes: Mapping[str, int | Expression]) -> Expression:
    if isinstance(atom, Name):
        return _expression(sizes[atom.text]) if atom.text in sizes else name(atom.text)
    if isinstance(atom, Quotient):
        return atom.dividend.substituted(sizes).divided(atom.divisor)
    return _extreme(atom.kind, atom.first.substituted(sizes), atom.second.substituted(sizes))


def _expression(value: Expression | int) -> Expression:
    return number(value) if isinstance(value, int) else value


# -- text ----------------------------------------------------------------------------------------

_IDENTIFIER = re.compile(r"[^\W\d][\w.:]*")
_TOKEN = re.compile(r"\s*(?:(\d{1,18})|([^\W\d][\w.:]*)|`([^`]+)`|(//|[-+*(),]))")


def _factor_text(atom: Atom, is_one_of_several: bool) -> str:
    """A quotient among factors stands in brackets: 2*(h//2)."""
    text = str(atom)
    return f"({text})" if is_one_of_several and isinstance(atom, Quotient) else text


def _tokens(text: str) -> list[Expression | str]:
    found: list[Expression | str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"no size: {text!r}")
        digits, word, quoted, sign = match.groups()
        position = match.end()
        if digits is not None:
            found.append(number(int(digits)))
        elif sign is not None:
            found.append(sign)
        elif word in ("min", "max") and text[position:].lstrip().startswith("("):
            found.append(word)
        else:
            found.append(name(word or quoted))
    return found


def _parse_sum(tokens: list[Expression | str], at: int, depth: int) -> tuple[Expression, int]:
    total, at = _parse_product(tokens, at, depth)
    while at < len(tokens) and tokens[at] in ("+", "-"):
        sign = 1 if tokens[at] == "+" else -1
        term, at = _parse_product(tokens, at + 1, depth)
        total = total + term * sign
    return total, at


def _parse_product(tokens: list[Expression | str], at: int, depth: int) -> tuple[Expression, int]:
    if at < len(tokens) and tokens[at] == "-":
        found, at = _parse_product(tokens, at + 1, depth + 1)
        return found * -1, at
    found, at = _parse_factor(tokens, at, depth)
    while at < len(tokens) and tokens[at] in ("*", "//"):
        operator = tokens[at]
        factor, at = _parse_factor(tokens, at + 1, depth)
        if operator == "*":
            found = found * factor
        elif factor.is_number:
            found = found.divided(factor.constant)
        else:
            raise ValueError("division by a name")
    return found, at


def _parse_factor(tokens: list[Expression | str], at: int, depth: int) -> tuple[Expression, int]:
    if at >= len(tokens) or depth > DEEPEST:
        raise ValueError("a number, a name or a bracket expected")
    token = tokens[at]
    if isinstance(token, Expression):
        return token, at + 1
    if token in ("min", "max"):
        first, at = _parse_sum(tokens, at + 2, depth + 1)
        _expect(tokens, at, ",")
        second, at = _parse_sum(tokens, at + 1, depth + 1)
        _expect(tokens, at, ")")
        return _extreme(token, first, second), at + 1
    _expect(tokens, at, "(")
    found, at = _parse_sum(tokens, at + 1, depth + 1)
    _expect(tokens, at, ")")
    return found, at + 1


def _expect(tokens: list[Expression | str], at: int, sign: str) -> None:
    if at >= len(tokens) or tokens[at] != sign:
        raise ValueError(f"{sign} expected")
