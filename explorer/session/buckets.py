"""Sizes that one program is compiled for: buckets that a caller names, or that follow from calls.

    call with n = 5                   a program for 5
    call with n = 9                   a program for n = 2..16
    call with n = 12                  hit
    call with n = 40                  a program for n = 2..64

A dimension of which no bucket was named is opened when a second size of it comes, up to the power
of two that holds all sizes so far. Sizes of 0 and 1 are cases of their own: the prompt and the step
of a decoder, where the past or the new tokens have such a size, are compared each with its like. A
past that grows and has no capacity (`pasts.py`) is opened at once. Where the compiler refuses,
each size has its own program, and the session says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explorer.ir.sizes.symbols import Expression, parse
from explorer.results.runs.saved_program import ModelInput
from explorer.session.inputs import Range, checked_ranges

if TYPE_CHECKING:
    from explorer.importers import SourceModel

Sizes = Mapping[str, int]
Derived = tuple[str, int, Expression]
"""Input, axis, and the size as an expression."""
Kind = frozenset[tuple[str, int]]
"""The dimensions of a call that have a size of 0 or 1."""
LOWEST = 2
"""Of a bucket that nobody named."""
MIN_OPENED = 8
"""The largest size of a bucket that nobody named, at least."""


class Buckets:
    """Of one session. ranges: what the caller named; None: buckets follow from calls."""

    def __init__(
        self,
        model: Callable[[], SourceModel],
        inputs: Sequence[ModelInput],
        ranges: Mapping[str, Sequence[Range]] | None,
    ) -> None:
        self._model, self._inputs = model, inputs
        self.follows_calls = ranges is None
        self._named = {name: checked_ranges(name, r) for name, r in (ranges or {}).items()}
        self._seen: dict[Kind, dict[str, int]] = {}
        self._opened: dict[tuple[Kind, str], Range] = {}
        self._refused: dict[tuple[str, Range], str] = {}
        """Buckets that cannot be one program, each with the reason: their sizes have their own."""

    def dimensions(
        self, given: Mapping[str, np.ndarray], has_ranges: bool = True
    ) -> tuple[dict[str, int | Range], dict[tuple[str, int], Range]]:
        """Sizes or buckets of the symbolic dimensions; and the buckets by input and axis."""
        sizes = self._sizes(given)
        found: dict[str, int | Range] = {}
        ranges: dict[tuple[str, int], Range] = {}
        for (value, axis, dimension), (name, size) in sizes.items():
            bucket = self._bucket(kind_of(sizes.values()), name, size) if has_ranges else None
            found[name] = size if bucket is None else bucket
            if bucket is not None:
                ranges[value, axis] = bucket
                if name != dimension:
                    low, high = (parse(dimension).value({name: end}) for end in bucket)
                    ranges[value, axis] = low, high
        for value, axis, expression in self._derived(sizes):
            names = expression.names
            if any(isinstance(found[name], tuple) for name in names):
                low, high = (
                    expression.value({name: _end(found[name], place) for name in names})
                    for place in (0, 1)
                )
                ranges[value, axis] = low, high
        return found, ranges

    def _derived(self, sizes: Mapping[tuple[str, int, str], tuple[str, int]]) -> list[Derived]:
        """Axes such as h//2, which other dimensions say."""
        known = {name for name, _ in sizes.values()}
        return [
            (value.name, axis, parse(dimension))
            for value in self._inputs
            for axis, dimension in enumerate(value.shape or ())
            if isinstance(dimension, str) and (value.name, axis, dimension) not in sizes
            if {*parse(dimension).names} <= known
        ]

    def note(self, given: Mapping[str, np.ndarray]) -> dict[str, int]:
        """Notes the sizes of a call that met no program. Returns those of which another one is
        known, with the largest."""
        if not self.follows_calls:
            return {}
        pairs = dict(self._sizes(given).values())
        before = self._seen.setdefault(kind_of(pairs.items()), {})
        changed: dict[str, int] = {}
        for name, size in pairs.items():
            known = before.get(name, size)
            before[name] = max(size, known)
            if size > 1 and size != known:
                changed[name] = before[name]
        return changed

    def open_changed(
        self, given: Mapping[str, np.ndarray], growing: Callable[[], frozenset[str]]
    ) -> str:
        """Opens what differs from calls before. Returns that in words.

        growing: dimensions that have a capacity.
        """
        changed = self.note(given)
        kind = kind_of(self._sizes(given).values()) if changed else frozenset()
        opened: list[str] = []
        for name, needed in changed.items():
            if name not in growing():
                opened += self._open(kind, name, needed)
        return _in_words(opened, "another size came")

    def open_growing(
        self, given: Mapping[str, np.ndarray], names: frozenset[str], highest: int
    ) -> str:
        """Opens the sizes that grow with a past: the past up to `highest` rows, others by as many
        rows more as they have more now."""
        pairs = dict(self._sizes(given).values())
        growing = {name: size for name, size in pairs.items() if name in names}
        least = min(growing.values(), default=0)
        if not self.follows_calls or not 0 < least <= highest:
            return ""
        opened: list[str] = []
        for name, size in sorted(growing.items()):
            bucket = (1 + size - least, highest + size - least)
            opened += self._open_to(kind_of(pairs.items()), name, bucket)
        return _in_words(opened, "it grows from call to call")

    def refuse(self, dimensions: Mapping[str, int | Range], reason: str) -> None:
        """One program is not possible for these buckets."""
        found = ((name, size) for name, size in dimensions.items() if isinstance(size, tuple))
        self._refused.update(dict.fromkeys(found, reason))

    def narrow(self, given: Mapping[str, np.ndarray]) -> bool:
        """Takes half of what buckets that nobody named have beyond a call's sizes, at both ends;
        False where that is nothing."""
        pairs = dict(self._sizes(given).values())
        kind = kind_of(pairs.items())
        own = {n: self._opened[kind, n] for n in pairs if (kind, n) in self._opened}
        less = min(((high - pairs[n] + 1) // 2 for n, (_, high) in own.items()), default=0)
        more = min(((pairs[n] - low + 1) // 2 for n, (low, _) in own.items()), default=0)
        for name, (low, high) in own.items():
            self._opened[kind, name] = (low + more, high - less)
        return less + more > 0

    def why_refused(self, given: Mapping[str, np.ndarray]) -> list[str]:
        """Why sizes that lie in a bucket have a program each."""
        sizes = dict(self._sizes(given).values())
        found = (
            why
            for (name, (low, high)), why in self._refused.items()
            if low <= sizes.get(name, low) <= high
        )
        return list(dict.fromkeys(found))

    def _open(self, kind: Kind, name: str, needed: int) -> list[str]:
        return self._open_to(kind, name, (LOWEST, max(MIN_OPENED, 1 << (needed - 1).bit_length())))

    def _open_to(self, kind: Kind, name: str, bucket: Range) -> list[str]:
        if (name, bucket) in self._refused or self._opened.get((kind, name)) == bucket:
            return []
        self._opened[kind, name] = bucket
        return [f"{name} = {bucket[0]}..{bucket[1]}"]

    def _bucket(self, kind: Kind, name: str, size: int) -> Range | None:
        ranges = (*self._named.get(name, ()), *self._own(kind, name))
        found = next((r for r in ranges if r[0] <= size <= r[1]), None)
        return None if found is None or (name, found) in self._refused else found

    def _own(self, kind: Kind, name: str) -> tuple[Range, ...]:
        found = self._opened.get((kind, name))
        return () if found is None else (found,)

    def _sizes(
        self, given: Mapping[str, np.ndarray]
    ) -> dict[tuple[str, int, str], tuple[str, int]]:
        """By input, axis and dimension the name that has a size: h = 4 where 2*h is 8."""
        found: dict[tuple[str, int, str], tuple[str, int]] = {}
        for value in self._inputs:
            for axis, dimension in enumerate(value.shape or ()):
                if not isinstance(dimension, str):
                    continue
                named = self._name(dimension, given[value.name].shape[axis])
                if named is not None:  # other dimensions say it
                    found[value.name, axis, dimension] = named
        return found

    def _name(self, dimension: str, size: int) -> tuple[str, int] | None:
        expression = parse(dimension)
        if expression.is_name:
            return dimension, size
        from explorer.importers.model import names_of

        is_own = names_of(self._model(), dimension) == (dimension,)
        return (dimension, size) if is_own else expression.solved(size)


def kind_of(sizes: Iterable[tuple[str, int]]) -> Kind:
    """What calls of one kind have in common."""
    return frozenset((name, size) for name, size in sizes if size <= 1)


def _end(size: int | Range, place: int) -> int:
    return size[place] if isinstance(size, tuple) else size


def _in_words(opened: Sequence[str], reason: str) -> str:
    if not opened:
        return ""
    return f"{reason}: one program for {', '.join(opened)}"
