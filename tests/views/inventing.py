"""What invented traces are made of: operations, and from them snapshots, passes and a program.

    graph(ops), text(ops), difference(before, after)     as the compiler would record them
    passes([Step("import", ...), Step("fold", ...)])     -> records, snapshots, differences

`synthetic.py` makes a small trace by hand with these, `generated.py` one of any size by a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.results import (
    Argument,
    Graph,
    GraphDiff,
    GraphEdge,
    GraphNode,
    KernelRecord,
    Launch,
    NodeChange,
    PassAccuracy,
    PassRecord,
    Port,
    Program,
    RewriteEvent,
    SourceText,
    TensorError,
    TimedEvent,
    WeightSlot,
)
from explorer.results.trace import SnapshotRecord


@dataclass(frozen=True)
class Operation:
    """One line of a snapshot."""

    id: str
    operation: str
    label: str
    family: str
    shape: str
    inputs: tuple[str, ...]
    sources: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    scope: str = ""


Operations = tuple[Operation, ...]
PLACES = ("input", "output", "weight")
"""Families of what is no computation."""


@dataclass(frozen=True)
class Step:
    """A pass: what it leaves, and what is recorded of it."""

    name: str
    description: str
    level: str
    seconds: float
    after: Operations
    events: tuple[RewriteEvent, ...] = ()
    macs: int = 0
    peak_bytes: int = 0


Passes = tuple[tuple[PassRecord, ...], tuple[SnapshotRecord, ...], tuple[GraphDiff, ...]]


def passes(steps: Sequence[Step]) -> Passes:
    """Records, snapshots and differences; the first step is the import."""
    records: list[PassRecord] = []
    snapshots: list[SnapshotRecord] = []
    differences: list[GraphDiff] = []
    before, level = steps[0].after, ""
    for step in steps:
        is_same = bool(snapshots) and step.after == before
        differences.append(GraphDiff() if step.after == before else difference(before, step.after))
        snapshots.append(
            snapshots[-1] if is_same else SnapshotRecord(text(step.after), graph(step.after))
        )
        records.append(
            PassRecord(
                name=step.name,
                description=step.description,
                level=step.level,
                seconds=step.seconds,
                changed=step.after != before or step.level != level,
                operations_before=len(before) if records else 0,
                operations_after=len(step.after),
                macs=step.macs,
                peak_bytes=step.peak_bytes,
                events=step.events,
            )
        )
        before, level = step.after, step.level
    return tuple(records), tuple(snapshots), tuple(differences)


def line(o: Operation) -> str:
    attributes = ", ".join(f"{name} = {value}" for name, value in o.attributes)
    operands = ", ".join(f"%{i}" for i in o.inputs)
    braces = f" {{{attributes}}}" if attributes else ""
    return f"%{o.id} = {o.operation}({operands}){braces} : {o.shape}"


def text(operations: Operations) -> SourceText:
    return SourceText(
        "mlir", tuple(line(o) for o in operations), tuple((o.id,) for o in operations)
    )


def graph(operations: Operations) -> Graph:
    shapes = {o.id: o.shape for o in operations}
    return Graph(
        tuple(
            GraphNode(
                id=o.id,
                operation=o.operation,
                label=o.label,
                family=o.family,
                shape=o.shape,
                sources=o.sources,
                device="cpu",
                attributes=o.attributes,
                scope=o.scope,
            )
            for o in operations
        ),
        tuple(GraphEdge(i, o.id, i, shapes[i]) for o in operations for i in o.inputs),
    )


def difference(before: Operations, after: Operations) -> GraphDiff:
    """An operation took others over when it has their sources and had not before."""
    old, new = {o.id: o for o in before}, {o.id: o for o in after}
    removed = tuple(name for name in old if name not in new)
    place = {name: index for index, name in enumerate(removed)}
    from_source: dict[str, list[str]] = {}
    for name in removed:
        for source in old[name].sources:
            from_source.setdefault(source, []).append(name)
    fused = []
    for name, now in new.items():
        had = set(old[name].sources) if name in old else set()
        parents = {p for s in now.sources if s not in had for p in from_source.get(s, ())}
        if parents and now.family not in PLACES:
            fused.append((name, tuple(sorted(parents, key=place.__getitem__))))
    changes = tuple(
        change for name, now in new.items() if name in old for change in _changes(old[name], now)
    )
    return GraphDiff(tuple(n for n in new if n not in old), removed, changes, tuple(fused))


def _changes(old: Operation, now: Operation) -> list[NodeChange]:
    fields = (
        ("operation", old.operation, now.operation),
        ("operands", ", ".join(old.inputs), ", ".join(now.inputs)),
        *((key, dict(old.attributes).get(key, "none"), value) for key, value in now.attributes),
    )
    return [NodeChange(now.id, name, first, last) for name, first, last in fields if first != last]


def size_bytes(shape: str) -> int:
    """Of `1x64x56x56 f32`."""
    size = 4
    for extent in shape.split()[0].split("x"):
        size *= int(extent)
    return size


def program(
    launched: Sequence[Operation],
    kernels: tuple[KernelRecord, ...],
    kernel_of: Callable[[Operation], str],
    shapes: Mapping[str, str],
    offsets: Mapping[str, int],
    arena_bytes: int,
    ports: tuple[Port, Port],
    weights: Sequence[Operation] = (),
) -> Program:
    """One launch per operation; its operands in the arena are those with an offset."""

    def argument(name: str, access: str) -> Argument:
        return Argument(name, "arena", offsets[name], size_bytes(shapes[name]), access)

    launches = tuple(
        Launch(
            operation=o.id,
            kernel=kernel_of(o),
            arguments=(
                *(argument(i, "input") for i in o.inputs if i in offsets),
                argument(o.id, "output"),
            ),
            sources=o.sources,
        )
        for o in launched
    )
    slots: list[WeightSlot] = []
    end = 0
    for o in weights:
        slots.append(WeightSlot(o.id, end, size_bytes(o.shape)))
        end += size_bytes(o.shape)
    source = SourceText(
        "c",
        tuple(one for kernel in kernels for one in kernel.source.lines),
        tuple(owners for kernel in kernels for owners in kernel.source.owners),
    )
    first, last = ports
    return Program(
        target="cpu",
        source=source,
        kernels=kernels,
        launches=launches,
        inputs=(first,),
        outputs=(last,),
        taps=(),
        weights=tuple(slots),
        arena_bytes=arena_bytes,
        weights_bytes=end,
    )


def compared(
    name: str, snapshot: SnapshotRecord, error: Callable[[int, GraphNode], TensorError]
) -> PassAccuracy:
    """The errors of all that is computed in a snapshot, in program order."""
    computed = [node for node in snapshot.graph.nodes if node.family not in PLACES]
    errors = tuple(error(position, node) for position, node in enumerate(computed))
    return PassAccuracy(name, "accumulated", errors)


def one_after_another(bars: Sequence[TimedEvent], rest_ns: int) -> tuple[TimedEvent, ...]:
    """Events that begin at 0, each moved behind the one before and a rest."""
    events: list[TimedEvent] = []
    now = 0
    for bar in bars:
        events.append(replace(bar, start_ns=now, end_ns=now + bar.end_ns))
        now += bar.end_ns + rest_ns
    return tuple(events)
