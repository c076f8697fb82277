"""Regular expressions as tables: in linear time, whatever the pattern.

    "a+b"    state   a  b  other      accepted: {2}
             0       1  -  -
             1       1  2  -
             2       -  -  -

The syntax is RE2's, but for Unicode classes (`\\p{L}`); what is matched is the whole text, so that
greedy and lazy, and what groups capture, make no difference. A pattern becomes a nondeterministic
automaton (Thompson, "Regular expression search algorithm", 1968), then a table by the subset
construction, then the smallest such table (Moore, 1956). Assertions (`^`, `$`, `\\b`) look at the
kind of the character before, which is part of the state, and at that behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from explorer.importers.onnx.program.nodes import Unsupported
from explorer_extras.onnx.patterns import (
    ANY,
    Assertion,
    Choice,
    Piece,
    Repeat,
    Run,
    Symbols,
)
from explorer_extras.onnx.patterns import parsed as parsed_pattern

MAX_STATES = 1024
"""Of the table. Patterns that count (`.{0,500}x.{0,500}`) may need exponentially many."""
MAX_PARTS = 20_000
"""Of the nondeterministic automaton, in which repetitions are written out."""

EDGE, WORD, LINE, OTHER = range(4)
"""What may stand beside an assertion: the text's end, a word character, a line's end, others."""


@dataclass(frozen=True)
class Automaton:
    """`table[state, symbol]` is the next state. State 0 is the first."""

    bounds: np.ndarray
    """A code point's symbol is how many of these are not above it."""
    table: np.ndarray
    accepted: np.ndarray
    """Of each state, whether a text may end there."""

    def matches(self, text: str) -> bool:
        state = 0
        for character in text:
            symbol = np.searchsorted(self.bounds, ord(character), "right")
            state = self.table[state, symbol]
        return bool(self.accepted[state])


@dataclass
class _Parts:
    """A nondeterministic automaton: edges without a character, and edges for sets of characters."""

    empty: list[list[tuple[str, int]]] = field(default_factory=list)
    """(assertion or "", where to)"""
    reads: list[list[tuple[Symbols, int]]] = field(default_factory=list)

    def new(self) -> int:
        if len(self.empty) >= MAX_PARTS:
            raise Unsupported(f"a pattern of more than {MAX_PARTS:,} parts")
        self.empty.append([])
        self.reads.append([])
        return len(self.empty) - 1

    def add(self, piece: Piece, begin: int) -> int:
        """Appends a piece behind a state; the state behind it."""
        if isinstance(piece, Symbols):
            end = self.new()
            self.reads[begin].append((piece, end))
            return end
        if isinstance(piece, Assertion):
            end = self.new()
            self.empty[begin].append((piece.kind, end))
            return end
        if isinstance(piece, Run):
            for inner in piece.pieces:
                begin = self.add(inner, begin)
            return begin
        if isinstance(piece, Choice):
            end = self.new()
            for inner in piece.pieces:
                self.empty[self.add(inner, begin)].append(("", end))
            return end
        return self._repeated(piece, begin)

    def _repeated(self, piece: Repeat, begin: int) -> int:
        for _ in range(piece.least):
            begin = self.add(piece.piece, begin)
        if piece.most is None:
            first = self.new()
            self.empty[begin].append(("", first))
            self.empty[self.add(piece.piece, first)].append(("", first))
            return first
        end = self.new()
        for _ in range(piece.most - piece.least):
            self.empty[begin].append(("", end))
            begin = self.add(piece.piece, begin)
        self.empty[begin].append(("", end))
        return end


def automaton(pattern: str) -> Automaton:
    """The smallest table for a pattern; Unsupported where there is none, or too large a one."""
    parts = _Parts()
    first = parts.new()
    last = parts.add(parsed_pattern(pattern), first)
    bounds = _bounds(symbols for edges in parts.reads for symbols, _ in edges)
    kinds = [_kind(code) for code in (0, *bounds)]
    taken = [
        [(np.array(symbols.contain([0, *bounds])), end) for symbols, end in edges]
        for edges in parts.reads
    ]
    start = (frozenset([first]), EDGE)
    numbers = {start: 0}
    waiting, rows, accepted = [start], [], []
    while waiting:
        states, before = waiting.pop(0)
        closures = [_closure(states, before, behind, parts) for behind in range(4)]
        accepted.append(last in closures[EDGE])
        row = []
        for symbol, kind in enumerate(kinds):
            reached = {e for s in closures[kind] for inside, e in taken[s] if inside[symbol]}
            # Where nothing is left, what stood before makes no difference.
            key = (frozenset(reached), kind if reached else EDGE)
            if key not in numbers:
                if len(numbers) == MAX_STATES:
                    raise Unsupported(f"a pattern that needs more than {MAX_STATES:,} states")
                numbers[key] = len(numbers)
                waiting.append(key)
            row.append(numbers[key])
        rows.append(row)
    return _smallest(np.array(bounds), np.array(rows), np.array(accepted))


def _bounds(sets: Iterable[Symbols]) -> list[int]:
    """Where sets of characters, or the kinds of characters, begin and end."""
    found = {b for symbols in sets for low, high in symbols.ranges for b in (low, high + 1)}
    for low, high in (*WORD_RANGES, (10, 10)):
        found |= {low, high + 1}
    return sorted(b for b in found if 0 < b <= ANY[1])


WORD_RANGES = ((48, 57), (65, 90), (95, 95), (97, 122))


def _kind(code: int) -> int:
    if any(low <= code <= high for low, high in WORD_RANGES):
        return WORD
    return LINE if code == 10 else OTHER


def _closure(states: Iterable[int], before: int, behind: int, parts: _Parts) -> set[int]:
    """Everything that is reached without a character, between two kinds of neighbours."""
    found, waiting = set(states), list(states)
    while waiting:
        for assertion, end in parts.empty[waiting.pop()]:
            if end not in found and _holds(assertion, before, behind):
                found.add(end)
                waiting.append(end)
    return found


def _holds(assertion: str, before: int, behind: int) -> bool:
    is_boundary = (before == WORD) != (behind == WORD)
    return {
        "": True,
        "begin": before == EDGE,
        "end": behind == EDGE,
        "line begin": before in (EDGE, LINE),
        "line end": behind in (EDGE, LINE),
        "boundary": is_boundary,
        "no boundary": not is_boundary,
    }[assertion]


def _smallest(bounds: np.ndarray, table: np.ndarray, accepted: np.ndarray) -> Automaton:
    """States from which the same texts are accepted become one; so do symbols that never differ."""
    groups = accepted.astype(np.int64)
    while True:
        signatures = np.concatenate([groups[:, np.newaxis], groups[table]], axis=1)
        _, refined = np.unique(signatures, axis=0, return_inverse=True)
        refined = refined.reshape(-1)
        if refined.max() == groups.max():
            break
        groups = refined
    order = {group: number for number, group in enumerate(dict.fromkeys(groups.tolist()))}
    renamed = np.array([order[group] for group in groups.tolist()])
    kept = np.array([np.flatnonzero(renamed == number)[0] for number in range(len(order))])
    small = renamed[table[kept]]
    differs = np.flatnonzero((small[:, 1:] != small[:, :-1]).any(axis=0))
    return Automaton(bounds[differs], small[:, [0, *(differs + 1)]], accepted[kept])
