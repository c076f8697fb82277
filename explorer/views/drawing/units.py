"""What is grouped into blocks: units, the smallest things in a row, and parts, groups of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from explorer.results.graph import GraphNode
from explorer.views.drawing.motifs import HEAVY, kind_of

STOPS = HEAVY | {"pooling", "reduction", "resize", "concat"}
"""Kinds with which something new begins; what else follows belongs to what stands before it."""
_IMAGES = frozenset({"conv", "depthwise", "pooling", "resize"})
"""Kinds whose results are images with four sizes; elsewhere the last two are something else."""
_INTEGERS = frozenset({"i64", "i32", "i16", "i8", "i1", "ui64", "ui32", "bool", "string", "int64",
                       "int32"})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Unit:
    """An operation, or a block that is known already, among those to be grouped."""

    label: str
    kinds: Mapping[str, int]
    resolution: str = ""
    """Last two sizes of a result with four or more; stages are told apart by it."""
    is_auxiliary: bool = False
    """Computes sizes, indices or conditions."""
    is_source: bool = False
    """Stands for what comes from outside; a member of no group."""
    is_outside: bool = False
    """Stands for all else that comes from outside: nothing starts there."""
    name: str = ""
    """Of a block: what it and others like it are, for counting them."""

    @property
    def count(self) -> int:
        return sum(self.kinds.values())


@dataclass
class Part:
    """A group on its way to be a block; `items` in the order of the program."""

    name: str
    items: list[Item]
    kinds: Counter[str] = field(default_factory=Counter)
    resolution: str = ""
    count: int = 0
    """Operations in it."""


Item = Part | int
"""A group, or a unit by its number."""


@dataclass(frozen=True)
class Row:
    """The units that items speak of."""

    units: Sequence[Unit]

    def part(self, name: str, items: Sequence[Item]) -> Part:
        part = Part(name, list(items))
        for item in items:
            known = self[item]
            part.kinds.update(known.kinds)
            if known.name:
                part.kinds[f"{known.name} block"] += 1
            part.count += known.count
            part.resolution = known.resolution or part.resolution
        return part

    def __getitem__(self, item: Item) -> Part | Unit:
        return item if isinstance(item, Part) else self.units[item]

    def is_heavy(self, item: Item) -> bool:
        return not HEAVY.isdisjoint(self[item].kinds)

    def stops(self, item: Item) -> bool:
        """Whether it begins something, and is not only done to what stands before it."""
        return bool(self[item].name) or not STOPS.isdisjoint(self[item].kinds)


def units_in(items: Iterable[Item]) -> Iterable[int]:
    for item in items:
        if isinstance(item, Part):
            yield from units_in(item.items)
        else:
            yield item


def unit_of(node: GraphNode) -> Unit:
    return _unit(node.label, kind_of(node), node.shape)


@lru_cache(maxsize=4096)
def _unit(label: str, kind: str, shape: str) -> Unit:
    """Many operations of a program share one."""
    return Unit(
        label=label,
        kinds={kind: 1},
        resolution=_resolution(shape) if kind in _IMAGES else "",
        is_auxiliary=kind not in HEAVY and _is_integer(shape),
    )


def _resolution(shape: str) -> str:
    """`1x16x64x48 f32` -> `64x48`; names of sizes may stand there as well."""
    sizes = shape.split(" ")[0]
    return "x".join(sizes.rsplit("x", 2)[1:]) if sizes.count("x") == 3 else ""


def _is_integer(shape: str) -> bool:
    """`2 i64`, but not `1x8 i32 x 0.01`, which stands for real numbers."""
    words = shape.split(" ")
    return words[-1] in _INTEGERS
