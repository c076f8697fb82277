"""Strings, resolved while importing into rows of code points, which are whole numbers.

    y = StringConcat(a, b)      codes of b gathered from where those of a end
    y = Equal(a, b)             all code points are equal
    y = Transpose(a)            rows of a, gathered by the transposed numbers of its rows

Operators that only move elements are converted as for numbers, with the number of each string in
its place; a gather then fetches the strings. So everything about strings is generated code, too.
Reference: ONNX operators, StringConcat, StringNormalizer and those that take tensor(string).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from explorer.importers.building.code_points import DOMAIN, LARGEST, encoded
from explorer.importers.building.expr import Expr, minimum, where
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, Unsupported, converts
from explorer.importers.onnx.program.structures import Imported, StringTensor
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.indexing import GatherElementsOp, GatherOp
from explorer.ir.top.selection import NonZeroOp

MOVING = (
    *("Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements"),
    *("GatherND", "Identity", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND"),
    *("Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
)
"""Operators whose results hold strings of their operands, each as it is."""
TURKIC = ("tr", "az", "lt")
"""Languages with letter cases of their own."""


@converts("FromCodes", domain=DOMAIN)
def from_codes(node: Node, build: Build) -> StringTensor:
    """The code points of an input, which are strings from here on."""
    return StringTensor(node.operand(0))


@converts("ToCodes", domain=DOMAIN)
def to_codes(node: Node, build: Build) -> Expr:
    """The code points of strings that are returned; zeros elsewhere."""
    return node.strings(0)


@converts(*MOVING, on_strings=True)
def move(node: Node, build: Build) -> Sequence[Imported | None]:
    """Moves the numbers of the strings, then fetches them."""
    if node.text("reduction", "none") != "none":
        raise Unsupported(f"reduction {node.text('reduction', 'none')!r} of strings")
    own = [o for o in node.operands if isinstance(o, StringTensor)]
    rows = _all_rows([o.codes for o in own], build)
    numbers = iter(_numbers(own, build))
    operands = [next(numbers) if isinstance(o, StringTensor) else o for o in node.operands]
    results = build.graphs.convert(replace(node, operands=tuple(operands)))
    return [_fetched(rows, result, build) for result in results]


@converts("Shape", "Size", on_strings=True)
def measure(node: Node, build: Build) -> Sequence[Imported | None]:
    """As of numbers: the first code points."""
    codes = node.strings(0)
    first = codes.slice(codes.rank - 1, 0, 1).squeeze([-1])
    return build.graphs.convert(replace(node, operands=(first,)))


@converts("Equal", on_strings=True)
def equal(node: Node, build: Build) -> Expr:
    a, b = of_one_width([node.strings(0), node.strings(1)])
    return is_equal(a, b)


@converts("StringConcat", since=20, on_strings=True)
def concat(node: Node, build: Build) -> StringTensor:
    """Place p holds a[p] as long as a lasts, then b[p - length of a]; zeros follow both."""
    a, b = node.strings(0), node.strings(1)
    shapes = [_sizes(x) for x in (a, b)]
    shape = [int(n) for n in broadcast_shapes(*(tuple(s[:-1]) for s in shapes))]
    widths = [s[-1] for s in shapes]
    a, b = (x.broadcast_to([*shape, w]) for x, w in zip((a, b), widths, strict=True))
    both = build.concat([a, b, a.constant(0).broadcast_to([*shape, 1])], len(shape))
    length = lengths(a)
    places = build.weight(np.arange(sum(widths)))
    behind = places - (length - _number(widths[0], build))
    behind = minimum(behind, _number(sum(widths), build))
    source = where(places < length, places, behind).broadcast_to([*shape, sum(widths)])
    return StringTensor(build.value(GatherElementsOp, [both, source], axis=len(shape)))


@converts("StringNormalizer", since=10, on_strings=True)
def normalize(node: Node, build: Build) -> StringTensor:
    """Without stop words, in one case; one empty string where nothing is left.

    An empty string is put behind all others and kept if all of them go, so that how many strings
    there are is the only thing that depends on the contents while importing.
    """
    codes = node.strings(0)
    action = node.text("case_change_action", "NONE")
    _check_locale(node.text("locale", "en_US"))
    if action not in ("NONE", "LOWER", "UPPER"):
        raise Unsupported(f"case_change_action {action!r}")
    *shape, width = _sizes(codes)
    if len(shape) not in (1, 2) or shape[:-1] not in ([], [1]):
        raise ValueError(f"strings of shape {shape}: (C) or (1, C) expected")
    rows = codes.reshape([shape[-1], width])
    rows = build.concat([rows, build.weight(np.zeros((1, width), np.int32))], 0)
    kept = _kept(rows, node, build)
    positions = build.value(NonZeroOp, [kept]).squeeze([0])
    rows = build.value(GatherOp, [rows, positions], axis=0)
    rows = rows if action == "NONE" else in_case(rows, action, build)
    return StringTensor(rows if len(shape) == 1 else rows.unsqueeze([0]))


def _kept(rows: Expr, node: Node, build: Build) -> Expr:
    """Which rows stay, as (rows) booleans; the last one is there in case that no other is."""
    count = _sizes(rows)[0]
    words = sorted(set(node.texts("stopwords") or ()))
    is_sensitive = bool(node.integer("is_case_sensitive", 0))
    compared = rows if is_sensitive else in_case(rows, "LOWER", build)
    stays = build.weight(np.ones(count - 1, np.int32))
    if words:
        table = encoded(np.array(words), "stopwords")
        if not is_sensitive:
            table = mapped(table, "LOWER")
        compared, known = of_one_width([compared, build.weight(table)])
        hits = is_equal(compared.unsqueeze([1]), known)
        found = hits.astype(np.int32).max([1])
        stays = (1 - found).slice(0, 0, count - 1)
    if count == 1:
        return build.weight(np.ones(1, np.int32))
    return build.concat([stays, 1 - stays.max([0], keepdims=True)], 0)


# -- what other operators on strings are made of ---------------------------------------------------


def is_equal(a: Expr, b: Expr) -> Expr:
    """Booleans: whether strings of one width are equal; their shapes broadcast."""
    same = (a == b).astype(np.int32)
    return same.min([same.rank - 1]).astype(np.bool_)


def lengths(codes: Expr) -> Expr:
    """(shape..., 1) of i64."""
    return (codes > 0).astype(np.int64).sum([codes.rank - 1], keepdims=True)


def in_case(codes: Expr, action: str, build: Build) -> Expr:
    """Code points in LOWER or UPPER case, one for one: a letter without such a form stays."""
    table = _cases(action)
    last = codes.constant(len(table) - 1)
    found = build.value(GatherOp, [build.weight(table), minimum(codes, last)], axis=0)
    return where(codes <= last, found, codes)


def mapped(codes: np.ndarray, action: str) -> np.ndarray:
    """As `in_case`, of constants."""
    table = _cases(action)
    inside = codes < len(table)
    return np.where(inside, table[np.where(inside, codes, 0)], codes)


@cache
def _cases(action: str) -> np.ndarray:
    """The other case of every code point, up to the last one that has some."""
    change = str.lower if action == "LOWER" else str.upper
    table = np.arange(LARGEST + 1, dtype=np.int32)
    for code in range(LARGEST + 1):
        other = change(chr(code))
        if len(other) == 1:
            table[code] = ord(other)
    return table[: np.flatnonzero(table != np.arange(LARGEST + 1))[-1] + 1]


def _check_locale(name: str) -> None:
    if name.split("_")[0].lower() in TURKIC:
        raise Unsupported(f"the letter cases of {name!r}")


def of_one_width(values: Sequence[Expr]) -> list[Expr]:
    """Strings with as many places each."""
    widths = [_sizes(v)[-1] for v in values]
    return [
        v.pad([0] * v.rank, [*[0] * (v.rank - 1), max(widths) - width])
        for v, width in zip(values, widths, strict=True)
    ]


def _fetched(rows: Expr, result: Imported | None, build: Build) -> Imported | None:
    """The strings with some numbers."""
    if not isinstance(result, Expr):
        raise Unsupported("a sequence or an optional of strings")
    return StringTensor(build.value(GatherOp, [rows, result], axis=0))


def _all_rows(values: Sequence[Expr], build: Build) -> Expr:
    """(strings, places): all strings of some tensors, one behind the other."""
    wide = of_one_width(values)
    flat = [v.reshape([math.prod(_sizes(v)[:-1]), _sizes(v)[-1]]) for v in wide]
    return build.concat(flat, 0)


def _numbers(values: Sequence[StringTensor], build: Build) -> list[Expr]:
    """For each tensor the rows of its strings in `_all_rows`, in its shape."""
    found, begin = [], 0
    for value in values:
        shape = _sizes(value.codes)[:-1]
        count = math.prod(shape)
        found.append(build.weight(np.arange(begin, begin + count).reshape(shape)))
        begin += count
    return found


def _sizes(x: Expr) -> list[int]:
    return x.sizes(range(x.rank), "an operator on strings")


def _number(number: int, build: Build) -> Expr:
    return build.weight(np.array(number, np.int64))
