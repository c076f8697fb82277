"""Edits of a pipeline: passes inserted behind another one, and passes in another order.

    default pipeline                 ..., fuse-bias, fuse-residual, fuse-activation, ...
    Order(("fuse-activation", "fuse-bias"))
                                     ..., fuse-activation, fuse-residual, fuse-bias, ...
    Insertion(MergeRelus(), "fuse-bias")
                                     ..., fuse-bias, merge-relus, ...

Edits are applied in the order in which they were made, so that each refers to the pipeline that
the person saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.ir.rewriting.passes import LEVELS, Pass
from explorer.results.names import near_name

IMPORT = "import"
"""What stands before the first pass."""


@dataclass(frozen=True)
class Insertion:
    """A pass and the name of the one that it follows."""

    pass_: Pass
    after: str


@dataclass(frozen=True)
class Order:
    """Passes that change places: they take their own places, in this order; others stay."""

    names: tuple[str, ...]


Edit = Insertion | Order


def with_edits(pipeline: Sequence[Pass], edits: Iterable[Edit]) -> tuple[Pass, ...]:
    """The pipeline after all edits; InputError where one does not fit or cannot work."""
    passes = list(pipeline)
    for edit in edits:
        if isinstance(edit, Insertion):
            level_after(edit.after, passes)
            names = [IMPORT, *(p.name for p in passes)]
            passes.insert(names.index(edit.after), edit.pass_)
        else:
            passes = reordered(passes, edit.names)
    return tuple(passes)


def level_after(after: str, pipeline: Sequence[Pass]) -> str:
    """Level of the program after a pass; InputError where there is no such pass."""
    levels = {IMPORT: "top", **{p.name: p.level for p in pipeline}}
    if after not in levels:
        raise InputError(
            f"there is no pass {after!r} to insert after", hint=near_name(after, list(levels))
        )
    return levels[after]


def reordered(pipeline: Sequence[Pass], order: Sequence[str]) -> list[Pass]:
    """The named passes in the given order, in the places that they have together.

    InputError where a name is unknown or given twice, and where the order cannot work: the level
    of the program never rises again, and passes that are required keep their order.
    """
    by_name = {p.name: p for p in pipeline}
    for name in order:
        if name not in by_name:
            raise InputError(f"there is no pass {name!r}", hint=near_name(name, list(by_name)))
    if len(set(order)) != len(order):
        twice = next(name for name in order if list(order).count(name) > 1)
        raise InputError(f"pass {twice!r} stands twice in the order", hint="name each pass once")
    remaining = iter(order)
    result = [by_name[next(remaining)] if p.name in order else p for p in pipeline]
    _require_levels(result)
    _require_order(pipeline, result)
    return result


def _require_levels(pipeline: Sequence[Pass]) -> None:
    before = ("top", IMPORT)
    for pass_ in pipeline:
        if LEVELS.index(pass_.level) < LEVELS.index(before[0]):
            raise InputError(
                f"pass {pass_.name!r} works on programs of level {pass_.level}, but after "
                f"{before[1]} the program has level {before[0]}",
                hint=f"keep it before {before[1]}",
            )
        if pass_.level != before[0]:
            before = (pass_.level, pass_.name)


def _require_order(old: Sequence[Pass], new: Sequence[Pass]) -> None:
    """Required passes lead from one form of the program to the next: each needs those before."""
    required = [p.name for p in old if p.is_required]
    for first, found in zip(required, [p.name for p in new if p.is_required], strict=True):
        if first != found:
            raise InputError(
                f"pass {found!r} cannot run before {first!r}: it needs what that makes",
                hint="change the order of passes that can be disabled",
            )
