"""StringSplit: every character knows its part and its place there, and is put in place.

    "a--b"  delimiter "-"       part      0  .  .  2        delimiters belong to none
                                place     0  .  .  0
                                parts     "a", "", "b"

How many parts there are decides a shape; the rest depends on the strings only when they are there.
Reference: ONNX operators, StringSplit, which splits as Python's `str.split`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts
from explorer.importers.onnx.program.structures import Imported, StringTensor
from explorer.ir.top.indexing import GatherElementsOp, GatherOp, ScatterElementsOp
from explorer.ir.top.reductions.cumulative import CumulativeOp


@cache
def space_codes() -> tuple[int, ...]:
    """All characters that count as space; to ask for each takes a tenth of a second."""
    return tuple(code for code in range(sys.maxunicode + 1) if chr(code).isspace())


@dataclass(frozen=True)
class _Parts:
    """(strings, places) i64 each: the part of every character, and 1 for those that are kept.

    counts: (strings) i64, the parts of each string.
    """

    numbers: Expr
    kept: Expr
    counts: Expr


@converts("StringSplit", since=20, on_strings=True)
def split(node: Node, build: Build) -> Sequence[Imported]:
    """(shape..., most parts) of strings, empty ones behind the last; how many parts each has."""
    codes = node.strings(0)
    *shape, width = codes.sizes(range(codes.rank), "StringSplit")
    strings = int(np.prod(shape, dtype=np.int64))
    if not strings:
        nothing = build.weight(np.zeros((*shape, 0, 1), np.int32))
        return [StringTensor(nothing), build.weight(np.zeros(shape, np.int64))]
    rows = codes.reshape([strings, width])
    limit = node.integer("maxsplit", width)
    delimiter = node.text("delimiter", "")
    if limit < 0:
        limit = width
    if delimiter:
        parts = _between(delimiter, rows, limit, build)
    else:
        parts = _words(rows, limit, build)
    most = parts.counts.max([0])
    (count,) = build.integers(most, "the number of parts of a string")
    found = _placed(rows, parts, strings, count, width, build)
    sizes = [*shape, count, width]
    return [StringTensor(found.reshape(sizes)), parts.counts.reshape(shape)]


def _words(rows: Expr, limit: int, build: Build) -> _Parts:
    """Parts are what stands between spaces; the last one that the limit allows goes to the end."""
    spaces = build.weight(np.array(space_codes(), np.int32))
    hits = rows.unsqueeze([2]) == spaces
    is_space = hits.astype(np.int64).max([2])
    is_character = (rows > 0).astype(np.int64)
    is_word = (is_character > is_space).astype(np.int64)
    begins = (is_word > _previous(is_word)).astype(np.int64)
    numbers = _minus(_running(begins, build), 1, build)
    kept = is_word
    last = build.weight(np.array(limit, np.int64))
    is_rest = (numbers >= last).astype(np.int64)
    kept = maximum(kept, minimum(is_rest, is_character))
    counts = minimum(begins.sum([1]), _plus_one(limit, build))
    return _Parts(minimum(numbers, last), kept, counts)


def _between(delimiter: str, rows: Expr, limit: int, build: Build) -> _Parts:
    """Parts are what stands between delimiters, which are found from the left."""
    ends = _delimiters(delimiter, rows, build)
    counted = _running(ends, build)
    last = build.weight(np.array(limit, np.int64))
    ends = minimum(ends, (counted <= last).astype(np.int64))
    covered = ends
    for _ in range(len(delimiter) - 1):
        covered = maximum(ends, _following(covered))
    is_character = (rows > 0).astype(np.int64)
    numbers = minimum(counted, last)
    return _Parts(
        numbers,
        (is_character > covered).astype(np.int64),
        ends.sum([1]) + _plus_one(0, build),
    )


def _delimiters(delimiter: str, rows: Expr, build: Build) -> Expr:
    """1 at the last character of each delimiter, of which no two overlap.

    From left to right: how many characters of the delimiter have been read is the state of an
    automaton (Knuth, Morris and Pratt, 1977), whose functions are composed over all places.
    """
    codes = [ord(character) for character in delimiter]
    alphabet = sorted(set(codes))
    table = _transitions(codes, alphabet)
    states = len(codes) + 1
    position = build.weight(np.array(alphabet, np.int32))
    hits = rows.unsqueeze([2]) == position
    numbered = build.weight(np.arange(1, len(alphabet) + 1))
    symbols = (hits.astype(np.int64) * numbered).sum([2])
    functions = build.value(GatherOp, [build.weight(table), symbols], axis=0)
    width = rows.sizes([1], "StringSplit")[0]
    distance = 1
    while distance < width:
        earlier = functions.slices({1: (0, width - distance, 1)})
        later = functions.slices({1: (distance, width, 1)})
        composed = build.value(GatherElementsOp, [later, earlier], axis=2)
        functions = build.concat([functions.slices({1: (0, distance, 1)}), composed], 1)
        distance *= 2
    first = functions.slices({2: (0, 1, 1)}).squeeze([2])
    return (first == build.weight(np.array(states - 1))).astype(np.int64)


def _transitions(codes: Sequence[int], alphabet: Sequence[int]) -> np.ndarray:
    """(symbols, states): the longest beginning of the delimiter that has then been read.

    Symbol 0 is any other character. After a whole delimiter the next one begins anew.
    """
    table = np.zeros((len(alphabet) + 1, len(codes) + 1), np.int64)
    for symbol, code in enumerate(alphabet, 1):
        for state in range(len(codes) + 1):
            read = [*codes[: state % len(codes)], code]
            fits = (n for n in range(len(read), -1, -1) if read[len(read) - n :] == codes[:n])
            table[symbol, state] = next(fits)
    return table


def _placed(rows: Expr, parts: _Parts, strings: int, count: int, width: int, build: Build) -> Expr:
    """(strings, count, width): the kept characters of each part, from its first place on."""
    place = build.weight(np.arange(width)).broadcast_to([strings, width])
    is_first = (parts.kept > _previous(parts.kept)).astype(np.int64)
    # Where each part begins; what is not kept goes to a place behind all parts.
    begins = build.weight(np.zeros((strings, count + 1), np.int64))
    outside = build.weight(np.array(count, np.int64))
    target = where(is_first.astype(np.bool_), parts.numbers, outside)
    begins = build.value(ScatterElementsOp, [begins, target, place], axis=1, reduction="none")
    inside = maximum(parts.numbers, build.weight(np.array(0, np.int64)))
    begin = build.value(GatherElementsOp, [begins, inside], axis=1)
    offset = place - begin
    flat = inside * build.weight(np.array(width, np.int64)) + offset
    outside = build.weight(np.array(count * width, np.int64))
    flat = where(parts.kept.astype(np.bool_), flat, outside)
    found = build.weight(np.zeros((strings, count * width + 1), np.int32))
    found = build.value(ScatterElementsOp, [found, flat, rows], axis=1, reduction="none")
    return found.slice(1, 0, count * width).reshape([strings, count, width])


# -- rows of flags ---------------------------------------------------------------------------------


def _previous(x: Expr) -> Expr:
    """Each row one place to the right, with 0 in front."""
    width = x.sizes([1], "StringSplit")[0]
    return x.pad([0, 1], [0, 0]).slice(1, 0, width)


def _following(x: Expr) -> Expr:
    """Each row one place to the left."""
    width = x.sizes([1], "StringSplit")[0]
    return x.pad([0, 0], [0, 1]).slice(1, 1, width + 1)


def _running(x: Expr, build: Build) -> Expr:
    return build.value(CumulativeOp, [x], kind="sum", axis=1, exclusive=False, reverse=False)


def _minus(x: Expr, number: int, build: Build) -> Expr:
    return x - build.weight(np.array(number, np.int64))


def _plus_one(number: int, build: Build) -> Expr:
    return build.weight(np.array(number + 1, np.int64))
