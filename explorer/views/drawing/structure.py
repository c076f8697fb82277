"""Structure of operations that stand side by side: which of them form a block.

    stem, x -> conv -> dw -> conv -> add -> relu, pool     ->  stem, inverted residual, pool
          |_______________________^

Regions of the data flow (`regions.py`) become groups, descriptions give them names (`motifs.py`),
what follows a group without work of its own belongs to it, and `rows.py` divides long rows of
groups. What takes no part in the main flow (masks, sizes, constants) is left to whoever it serves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from explorer.views.drawing.motifs import Region, name_of
from explorer.views.drawing.regions import Regions, find_regions
from explorer.views.drawing.rows import MIN_OPERATIONS, PLACES, arranged
from explorer.views.drawing.units import Item, Part, Row, Unit, units_in

_LARGE_SHARE = 0.5
"""A region that holds more of all than this is what is looked at, not a part of it."""
_SMALL_SHARE = 0.34
_NONE = -1


def find_structure(units: Sequence[Unit], edges: Collection[tuple[int, int]]) -> list[Item]:
    """The units in groups, those that only serve others left out.

    Units stand in the order of the program; edges against it are those of a loop, and not seen.
    """
    before: list[list[int]] = [[] for _ in units]
    for source, target in dict.fromkeys(edges):
        if source < target and not units[source].is_auxiliary:
            before[target].append(source)
    row = Row(units)
    main = _without_side_results(row, _main_flow(row, before), before)
    place = {unit: index for index, unit in enumerate(main)}
    predecessors = [[place[b] for b in before[unit] if b in place] for unit in main]
    return arranged(_Finder(row, main, predecessors).outermost(), row)


def _main_flow(row: Row, before: Sequence[Sequence[int]]) -> list[int]:
    """What follows from the one source, or from the first heavy operations where there is none."""
    units = row.units
    sources = [index for index, unit in enumerate(units) if unit.is_source]
    starts = set(sources) if len(sources) == 1 else set()
    if not starts:
        # An embedding looks values up where there were none before.
        starts = {
            index
            for index, unit in enumerate(units)
            if row.is_heavy(index) or ("gather" in unit.kinds and not before[index])
        }
    if not starts:
        starts = {i for i, b in enumerate(before) if not b and not units[i].is_auxiliary}
    reached: set[int] = set()
    for index, unit in enumerate(units):
        if unit.is_auxiliary or unit.is_outside or (unit.is_source and index not in starts):
            continue
        if index in starts or row.is_heavy(index) or any(b in reached for b in before[index]):
            reached.add(index)
    return sorted(reached)


def _without_side_results(
    row: Row, main: Sequence[int], before: Sequence[Sequence[int]]
) -> Sequence[int]:
    """Without the light operations that lead from the way to other work to a result.

    What a layer gives out beside its own result, such as the keys that a language model keeps,
    would be a way out of every region around it.
    """
    leads_to_work: set[int] = set()
    for unit in reversed(main):
        if unit in leads_to_work or row.is_heavy(unit):
            leads_to_work.update(before[unit])
    aside: set[int] = set()
    for unit in main:
        is_aside = any(other in leads_to_work or other in aside for other in before[unit])
        is_end = unit not in leads_to_work and not row.is_heavy(unit)
        if is_aside and is_end and "add" not in row.units[unit].kinds:
            aside.add(unit)
    return [unit for unit in main if unit not in aside]


@dataclass
class _Group:
    """A region with the operation that ends it, and the light ones behind that."""

    items: list[Item]
    joined_by: str
    is_skipped: bool
    branches: int
    is_heavy: bool

    def region(self, part: Part) -> Region:
        return Region(
            kinds=part.kinds,
            joined_by=self.joined_by,
            is_skipped=self.is_skipped,
            branches=self.branches,
        )


class _Finder:
    """From regions to groups; nodes are positions in `main`, the units of the main flow."""

    def __init__(
        self, row: Row, main: Sequence[int], predecessors: Sequence[Sequence[int]]
    ) -> None:
        self.row = row
        self.main = main
        self.predecessors = predecessors
        self.leads_to_work = [False] * len(main)
        for node in range(len(main) - 1, -1, -1):
            for other in predecessors[node]:
                if self.leads_to_work[node] or row.is_heavy(main[node]):
                    self.leads_to_work[other] = True
        self.regions: Regions = find_regions(predecessors)

    def outermost(self) -> list[Item]:
        chains = self.regions.outermost
        return self._chain(chains[0]) if len(chains) == 1 else self._beside(chains)

    def _chain(self, number: int) -> list[Item]:
        """What is passed one after the other; regions between two of it are groups."""
        chain = self.regions.chains[number]
        items: list[Item] = []
        group: _Group | None = None  # the one that what follows may belong to
        for entry, node in zip((_NONE, *chain), chain, strict=False):
            if inside := self.regions.inside.get(entry, ()):
                found = self._group(entry, node, inside)
                if group is not None and not found.is_heavy:
                    group.items.extend(found.items)
                    continue
                items.extend(self._closed(group))
                group = None
                if not found.is_heavy or self._is_large(found.items):
                    items.extend(found.items)
                else:
                    group = found
                continue
            unit = self.main[node]
            if self.row.units[unit].is_source:
                continue
            if group is not None and not self.row.stops(unit):
                group.items.append(unit)
                continue
            items.extend(self._closed(group))
            group = None
            items.append(unit)
        return [*items, *self._closed(group)]

    def _group(self, entry: int, end: int, inside: Sequence[int]) -> _Group:
        joined = self.main[end]
        chains = [self.regions.chains[number] for number in inside]
        nodes = [node for chain in chains for node in chain]
        branches = [self._chain(number) for number in inside]
        works = [any(self._does_work(item) for item in branch) for branch in branches]
        if len(branches) > 1 and self._is_large([self.main[node] for node in nodes]):
            items = self._beside(inside)
        else:
            order = sorted(range(len(inside)), key=lambda index: chains[index][0])
            items = [item for index in order for item in
                     self._branch(chains[index], branches[index], entry, sum(works))]  # fmt: skip
        return _Group(
            items=[*items, joined],
            joined_by=next(iter(self.row.units[joined].kinds)),
            is_skipped=entry in self.predecessors[end] or not all(works),
            branches=max(1, sum(works)),
            is_heavy=any(self.row.is_heavy(item) for item in (*items, joined)),
        )

    def _branch(
        self, chain: Sequence[int], items: list[Item], entry: int, branches: int
    ) -> list[Item]:
        """A branch of a region: a group of its own where it does more than one thing."""
        if branches < 2:
            return items
        part = self.row.part("branch", items)
        if self.predecessors[chain[0]] != [entry] and part.resolution:
            part.name = self._place(chain)
        heavy = sum(self.row.is_heavy(item) for item in items)
        return [part] if heavy > 1 and part.count > MIN_OPERATIONS else items

    def _place(self, chain: Sequence[int]) -> str:
        """What a piece of a network is called by where it stands."""
        if not self.leads_to_work[chain[-1]]:
            return "head"
        return "stage" if self.predecessors[chain[0]] else "stem"

    def _beside(self, chains: Sequence[int]) -> list[Item]:
        """Chains that go their own ways: long ones become groups."""
        items: list[Item] = []
        for number in sorted(chains, key=lambda c: self.regions.chains[c][0]):
            chain = self.regions.chains[number]
            inner = self._chain(number)
            heavy = sum(self.row.is_heavy(item) for item in inner)
            size = sum(1 for _ in units_in(inner))
            if heavy < 2 or not MIN_OPERATIONS < size <= _SMALL_SHARE * len(self.main):
                items.extend(inner)
                continue
            divided = arranged(inner, self.row)
            if PLACES.isdisjoint(self.row[item].name for item in divided):
                items.append(self.row.part(self._place(chain), divided))
            else:
                items.extend(divided)
        return items

    def _closed(self, group: _Group | None) -> list[Item]:
        """A group under its name; one by one what has none."""
        if group is None:
            return []
        part = self.row.part("", group.items)
        part.name = name_of(group.region(part))
        if not part.name or part.count < MIN_OPERATIONS:
            return group.items
        items: list[Item] = []
        for item in part.items:
            # Attention around attention is one.
            is_same = isinstance(item, Part) and item.name == part.name
            items.extend(item.items if isinstance(item, Part) and is_same else [item])
        return [self.row.part(part.name, items)]

    def _is_large(self, items: Sequence[Item]) -> bool:
        return sum(1 for _ in units_in(items)) > _LARGE_SHARE * len(self.main)

    def _does_work(self, item: Item) -> bool:
        return self.row.is_heavy(item) or self.row[item].kinds.get("pooling", 0) > 0
