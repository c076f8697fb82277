"""Places: which values lie in one storage, and where in it.

    flat is a view of relu          relu, flat        storage of relu: bytes [0, 64) and [0, 64)
    a and b are parts of whole      whole, a, b       storage of whole: [0, 96), [0, 64), [64, 96)
    b and c are parts of other      ..., other, c     the same storage: [64, 128), [96, 128)

Every relation says how far one value begins behind another, so that values in one storage are the
members of one class of a union-find with distances (Tarjan, "Applications of Path Compression on
Balanced Trees", 1979): a relation between two classes joins them, one within a class has to agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import InputError


@dataclass(frozen=True)
class Containment:
    """`value` lies in the storage of `whole`, `offset_bytes` behind its beginning.

    With a pitch it has `run_bytes` of every `pitch_bytes` from there on: a band of rows of all
    planes.
    """

    value: str
    whole: str
    offset_bytes: int = 0
    run_bytes: int = 0
    pitch_bytes: int = 0


@dataclass(frozen=True)
class Place:
    """Bytes [start, end) of a storage, which is named by one of its values; with a pitch the first
    `run_bytes` of every `pitch_bytes` of them."""

    storage: str
    start: int
    end: int
    run_bytes: int = 0
    pitch_bytes: int = 0

    @property
    def runs(self) -> list[tuple[int, int]]:
        """[begin, end) of each run of its bytes, in order."""
        if not self.pitch_bytes:
            return [(self.start, self.end)]
        begins = range(self.start, self.end, self.pitch_bytes)
        return [(begin, begin + self.run_bytes) for begin in begins]

    def meets(self, other: Place) -> bool:
        """Whether they have bytes in common."""
        if self.storage != other.storage:
            return False
        if max(self.start, other.start) >= min(self.end, other.end):
            return False
        if not self.pitch_bytes and not other.pitch_bytes:
            return True
        if self.pitch_bytes == other.pitch_bytes:
            distance = (other.start - self.start) % self.pitch_bytes
            return distance < self.run_bytes or distance + other.run_bytes > self.pitch_bytes
        mine, theirs = self.runs, other.runs
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if max(mine[i][0], theirs[j][0]) < min(mine[i][1], theirs[j][1]):
                return True
            if mine[i][1] <= theirs[j][1]:
                i += 1
            else:
                j += 1
        return False

    def is_filled_by(self, others: Sequence[Place]) -> bool:
        """Whether each of its bytes is one of the others'."""
        given = sorted(run for other in others for run in other.runs)
        index, reached = 0, self.start
        for begin, end in self.runs:
            reached = max(reached, begin)
            while index < len(given) and reached < end:
                low, high = given[index]
                if low > reached:
                    return False
                reached = max(reached, high)
                index += reached < end
            if reached < end:
                return False
        return True


def places_of(relations: Sequence[Containment], sizes_bytes: Mapping[str, int]) -> dict[str, Place]:
    """The place of every value; those of a storage begin at its byte 0.

    The storage is named by the value that lies in no other; of several, by the largest, and of
    those by the first of `sizes_bytes`. InputError for relations that contradict each other, and
    where a value is larger than what it lies in.
    """
    classes = _Classes()
    inner = set()
    runs = {r.value: (r.run_bytes, r.pitch_bytes) for r in relations if r.pitch_bytes}
    for relation in relations:
        classes.relate(relation)
        _check_size(relation, sizes_bytes)
        inner.add(relation.value)
    members: dict[str, list[tuple[str, int]]] = {}
    for value in sizes_bytes:
        root, offset = classes.find(value)
        members.setdefault(root, []).append((value, offset))
    places: dict[str, Place] = {}
    for group in members.values():
        begin = min(offset for _, offset in group)
        owners = [value for value, _ in group if value not in inner]
        storage = max(owners, key=lambda value: sizes_bytes[value])
        for value, offset in group:
            start = offset - begin
            end = start + sizes_bytes[value]
            places[value] = Place(storage, start, end, *runs.get(value, (0, 0)))
    return places


class _Classes:
    """Union-find in which every value knows how far behind its parent it begins."""

    def __init__(self) -> None:
        self.parents: dict[str, tuple[str, int]] = {}
        self.wholes: dict[str, set[str]] = {}

    def find(self, value: str) -> tuple[str, int]:
        """The root of the value's class, and how far behind it the value begins."""
        path, total = [], 0
        while value in self.parents:
            path.append(value)
            value, _ = self.parents[value]
        for passed in reversed(path):
            total += self.parents[passed][1]
            self.parents[passed] = (value, total)
        return value, total

    def relate(self, relation: Containment) -> None:
        value, whole = relation.value, relation.whole
        if self._leads(whole, value):
            raise InputError(f"memory: {value!r} is an alias of itself through {whole!r}")
        self.wholes.setdefault(value, set()).add(whole)
        root, offset = self.find(value)
        other, behind = self.find(whole)
        distance = behind + relation.offset_bytes - offset
        if root != other:
            self.parents[root] = (other, distance)
        elif distance:
            raise InputError(
                f"memory: {value!r} cannot lie at byte {relation.offset_bytes} of {whole!r}: it "
                f"lies {abs(distance)} bytes away from there already",
                hint="a copy for one of them",
            )

    def _leads(self, value: str, target: str) -> bool:
        """Whether a value lies in another one, over any number of relations."""
        pending, seen = [value], {value}
        while pending:
            current = pending.pop()
            if current == target:
                return True
            found = self.wholes.get(current, set()) - seen
            seen |= found
            pending += found
        return False


def _check_size(relation: Containment, sizes_bytes: Mapping[str, int]) -> None:
    value, whole, offset = relation.value, relation.whole, relation.offset_bytes
    for name in (value, whole):
        if name not in sizes_bytes:
            raise InputError(f"memory: no size is given for {name!r}")
    if offset < 0 or offset + sizes_bytes[value] > sizes_bytes[whole]:
        where = f" from byte {offset} on" if offset else ""
        raise InputError(
            f"memory: {value!r} of {sizes_bytes[value]} bytes lies in the storage of {whole!r}"
            f"{where}, which has {sizes_bytes[whole]}",
            hint="a buffer of its own",
        )
