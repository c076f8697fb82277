"""Operations that run on one device: those that a person marks, and those that no cut pays between.

    %y = top.conv(%x, %w)            cluster = "price:y"
    %z = top.reshape(%y)             cluster = "price:y"      it costs nothing, its transfer does

An edge from an operation to its only reader is contracted where sending the value costs at least
what one of the two could save elsewhere: some cheapest assignment has both on one device then.
Every edge that stays has its reason: cycle, device, fuel, memory, price, readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import outermost, read_values
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import is_static, size_bytes
from explorer.placement.marks import (
    CLUSTER,
    DEVICES,
    SECONDS,
    cluster_of,
    devices_of,
    names_attribute,
    numbers_attribute,
    placed_operations,
    seconds_of,
)
from explorer.placement.price import Link, links_of
from explorer.results import Knob
from explorer.results.names import near_name

EDGES = "edges"
"""Artifact: maker, reader and reason of every edge that was not contracted."""
FUEL = "cluster/fuel"
BY_PRICE = "price:"
"""What names of clusters begin with that nobody marked: they hold as long as nothing is pinned."""


@dataclass(frozen=True)
class ClusterOperations(Pass):
    """Operations that belong on one device become clusters: by marks, and where no cut pays."""

    clusters: tuple[tuple[str, str], ...] = ()
    """Name and pattern of operations, or of nodes of the source model (`*` and `?`)."""
    memory_bytes: tuple[tuple[str, int], ...] = ()
    """What the values of a cluster have to fit into, by device."""

    name = "cluster"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        entry = entry_function(rewriter.module)
        ops = placed_operations(entry.body.block)
        merged = _Clusters(ops, dict(self.memory_bytes), links_of(entry))
        for op in ops:
            if cluster_of(op) and not cluster_of(op).startswith(BY_PRICE):
                merged.name(op, cluster_of(op))
        for name, pattern in self.clusters:
            merged.mark(name, pattern)
        for op, devices in merged.limited.items():
            _limit(op, devices, events)
        fuel = options.decision(FUEL)
        if fuel is not None and (isinstance(fuel, bool) or not isinstance(fuel, int) or fuel < 0):
            raise InputError(f"{FUEL} cannot be {fuel!r}", hint="a whole number, 0 or more")
        left, edges = fuel, []
        for maker, reader, value in _edges(ops, entry.body.block):
            reason = merged.refusal(maker, reader, value)
            if not reason and left == 0:
                reason = "fuel: no contraction is left"
            if reason:
                events.decline("contract", reader, reason)
                edges.append((identity_of(maker), identity_of(reader), reason))
                continue
            left = None if left is None else left - 1
            merged.join(maker, reader)
        for op in ops:
            name = merged.name_of(op)
            if name and name != cluster_of(op):
                with events.rewrite("cluster", op, merged.explain(op)):
                    rewriter.set_attribute(op, CLUSTER, StringAttr(name))
        rewriter.artifacts[EDGES] = tuple(edges)
        rewriter.artifacts[KNOBS] = (Knob(FUEL, fuel, (), "edges that are contracted at most"),)
        return events.rewrites


def _limit(op: TopOperation, devices: Collection[str], events: EventLog) -> None:
    """Takes devices away that have too little memory for the operation's cluster."""
    present, prices = devices_of(op), seconds_of(op)
    kept = [device for device in present if device in devices]
    if kept == present:
        return
    lost = " and ".join(device for device in present if device not in devices)
    with events.rewrite("memory", op, f"the values of its cluster do not fit into {lost}"):
        events.rewriter.set_attribute(op, DEVICES, names_attribute(kept))
        numbers = [prices.get(device, 0.0) for device in kept]
        events.rewriter.set_attribute(op, SECONDS, numbers_attribute(numbers))


def _edges(
    ops: Sequence[TopOperation], block: Block
) -> Iterator[tuple[TopOperation, TopOperation, SSAValue]]:
    """Every pair of an operation and one that reads it, makers in their order."""
    inside = set(ops)
    for op in ops:
        for value in dict.fromkeys(read_values(op)):
            if isinstance(value.owner, TopOperation) and value.owner in inside:
                yield value.owner, op, value


def readers_of(value: SSAValue, block: Block) -> list[object]:
    """The operations of the block that read a value, each once; the end of it, too."""
    return list(dict.fromkeys(outermost(use.operation, block) for use in value.uses))


@dataclass
class _Clusters:
    ops: Sequence[TopOperation]
    memory_bytes: Mapping[str, int]
    links: Mapping[tuple[str, str], Link]
    parent: dict[TopOperation, TopOperation] = field(default_factory=dict)
    limited: dict[TopOperation, set[str]] = field(default_factory=dict)
    """Devices with memory for the cluster that an operation is marked for."""
    names: dict[TopOperation, str] = field(default_factory=dict)
    """By the cluster's first operation."""

    def __post_init__(self) -> None:
        self.position = {op: number for number, op in enumerate(self.ops)}
        self.members = {op: [op] for op in self.ops}

    def root(self, op: TopOperation) -> TopOperation:
        while op in self.parent:
            op = self.parent[op]
        return op

    def join(self, one: TopOperation, other: TopOperation) -> None:
        first, second = sorted((self.root(one), self.root(other)), key=self.position.__getitem__)
        if first is second:
            return
        self.parent[second] = first
        self.members[first] = sorted(
            self.members[first] + self.members.pop(second), key=self.position.__getitem__
        )
        if second in self.names:
            self.names.setdefault(first, self.names.pop(second))

    def name(self, op: TopOperation, name: str) -> None:
        """Puts an operation into the cluster of that name."""
        for root, known in self.names.items():
            if known == name:
                self.join(root, op)
                return
        self.names[self.root(op)] = name

    def name_of(self, op: TopOperation) -> str:
        root = self.root(op)
        if len(self.members[root]) == 1 and root not in self.names:
            return ""
        return self.names.get(root, BY_PRICE + identity_of(root))

    def explain(self, op: TopOperation) -> str:
        members = self.members[self.root(op)]
        return f"one of {len(members)} operations that run on one device"

    # -- marks -------------------------------------------------------------------------------
    def mark(self, name: str, pattern: str) -> None:
        """A person's own cluster. InputError where it has no operation or no device."""
        if name.startswith(BY_PRICE) or not name:
            raise InputError(f"a cluster cannot be called {name!r}")
        names = {op: {identity_of(op), *sources_of(op)} for op in self.ops}
        found = [
            op for op, known in names.items() if any(fnmatchcase(one, pattern) for one in known)
        ]
        if not found:
            known = sorted({one for own in names.values() for one in own})
            raise InputError(
                f"cluster {name}: no operation is called {pattern!r}",
                hint=near_name(pattern, known),
            )
        placed = [op for op in found if devices_of(op)]
        common = set(devices_of(placed[0])) if placed else set()
        for op in placed:
            if not common & set(devices_of(op)):
                raise InputError(
                    f"cluster {name}: no device runs all of it: {identity_of(op)} runs on "
                    f"{' or '.join(devices_of(op))}, what is before it on "
                    f"{' or '.join(sorted(common))}"
                )
            common &= set(devices_of(op))
        size = self._bytes(found)
        large_enough = {d for d in common if size <= self.memory_bytes.get(d, size)}
        if common and not large_enough:
            raise InputError(
                f"cluster {name}: its values take {size:,} bytes, more than the memory of "
                f"{' or '.join(sorted(common))}"
            )
        for op in placed:
            self.name(op, name)
            kept = self.limited.get(op, set(devices_of(op)))
            self.limited[op] = kept & large_enough

    # -- contraction -------------------------------------------------------------------------
    def refusal(self, maker: TopOperation, reader: TopOperation, value: SSAValue) -> str:
        """Why an edge is not contracted; empty where it is."""
        first, second = self.root(maker), self.root(reader)
        if first is second:
            return ""
        named = [name for root in (first, second) if (name := self.names.get(root))]
        if named:
            return f"mark: a person's own cluster {named[0]} has the operations that are marked"
        if not devices_of(maker) or set(devices_of(maker)) != set(devices_of(reader)):
            return "device: not the same devices can run both"
        if len(devices_of(maker)) < 2:
            return ""
        assert reader.parent is not None
        others = [r for r in readers_of(value, reader.parent) if r is not reader]
        if others:
            return f"readers: {len(others) + 1} operations read it"
        if not is_static(value):
            return "size: only a run tells how large it is"
        joined = self.members[first] + self.members[second]
        size = self._bytes(joined)
        devices = devices_of(maker)
        limits = [self.memory_bytes[d] for d in devices if d in self.memory_bytes]
        if limits and size > min(limits):
            return f"memory: the values of both take {size:,} bytes"
        sent = min(self._sent(value, devices))
        saved = min(self._saving(self.members[root], value) for root in (first, second))
        if sent < saved:
            return f"price: a transfer takes {sent * 1e6:.3g} µs, and may save {saved * 1e6:.3g} µs"
        if self._closes_cycle(first, second):
            return "cycle: what lies between the two would wait for itself"
        return ""

    def _bytes(self, ops: Sequence[TopOperation]) -> int:
        values = dict.fromkeys(v for op in ops for v in (*op.operands, *op.results))
        return sum(size_bytes(value) for value in values if is_static(value))

    def _sent(self, value: SSAValue, devices: Sequence[str]) -> list[float]:
        """Seconds of a transfer in every direction between devices."""
        size = size_bytes(value) if is_static(value) else 0
        return [
            link.seconds(size)
            for (source, target), link in self.links.items()
            if source in devices and target in devices and source != target
        ] or [0.0]

    def _saving(self, ops: Sequence[TopOperation], value: SSAValue) -> float:
        """What the operations could save at most on another device than the other end's."""
        inside = set(ops)
        total = 0.0
        ends: dict[SSAValue, None] = {}
        for op in ops:
            prices = seconds_of(op).values()
            total += max(prices) - min(prices) if prices else 0.0
            for other in (*read_values(op), *op.results):
                ends.setdefault(other)
        for other in ends:
            if other is value or isinstance(other.owner, WeightOp):
                continue
            block = ops[0].parent
            assert block is not None
            maker = other.owner if isinstance(other.owner, TopOperation) else None
            is_inner = maker in inside and all(r in inside for r in readers_of(other, block))
            if not is_inner and readers_of(other, block):
                names = list(dict.fromkeys(d for pair in self.links for d in pair))
                total += max(self._sent(other, names))
        return total

    def _closes_cycle(self, first: TopOperation, second: TopOperation) -> bool:
        """Whether another way than edges between the two leads from one into the other."""
        ends = {*self.members[first], *self.members[second]}
        inside = set(self.ops)
        last = max(self.position[op] for op in ends)
        seen: set[TopOperation] = set()
        stack: list[TopOperation] = []

        def follow(op: TopOperation) -> None:
            block = op.parent
            assert block is not None
            for result in op.results:
                for reader in readers_of(result, block):
                    if isinstance(reader, ReturnOp) or reader not in inside:
                        continue
                    assert isinstance(reader, TopOperation)
                    root = self.root(reader)
                    if root not in seen and root not in (first, second):
                        if min(self.position[m] for m in self.members[root]) <= last:
                            seen.add(root)
                            stack.append(root)
                    elif root in (first, second) and op not in ends:
                        found.append(op)

        found: list[TopOperation] = []
        for op in ends:
            follow(op)
        while stack and not found:
            for op in self.members[stack.pop()]:
                follow(op)
        return bool(found)
