"""A trace of any size, made by a rule: what the views are tested and measured with at scale.

    image -> [conv -> norm -> relu -> conv -> norm -> add -> relu] * blocks -> pool -> scores
                |______________________________________^

`make_large_trace(5000)` has about 5,000 operations after the import. Three passes fold the norms,
fuse the activations, and give every operation that is left a kernel.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    Argument,
    BufferLifetime,
    Delta,
    Graph,
    GraphDiff,
    GraphEdge,
    GraphNode,
    KernelRecord,
    Launch,
    MemoryPlan,
    ModelRecord,
    NodeChange,
    PassAccuracy,
    PassRecord,
    PhaseRecord,
    PlacedBuffer,
    PlanAttempt,
    Port,
    ProfileRecord,
    Program,
    RewriteEvent,
    ScheduleStep,
    SourceText,
    TensorError,
    TimedEvent,
    Trace,
)
from explorer.results.trace import Snapshot

SHAPE = "1x64x56x56 f32"
SIZE_BYTES = 64 * 56 * 56 * 4
PER_BLOCK = 7
BLOCKS_PER_STAGE = 24
DISTINCT_KERNELS = 40

Node = tuple[GraphNode, tuple[str, ...]]
"""An operation and the identities of its operands."""


def make_large_trace(operations: int, scoped: bool = True, label: str = "") -> Trace:
    """About so many operations; without scopes, blocks can only be found by their repetition."""
    imported = _imported(max(1, operations // PER_BLOCK), scoped)
    folded = _without(imported, "norm")
    fused = _without(folded, "relu")
    lowered = [
        (replace(n, operation="kernel.launch") if _is_launched(n) else n, i) for n, i in fused
    ]
    steps = (
        ("import", "top", imported),
        ("infer-shapes", "top", imported),
        ("fold-batch-norm", "top", folded),
        ("fuse-activation", "top", fused),
        ("lower-to-kernels", "kernels", lowered),
        ("plan-memory", "memory", lowered),
    )
    snapshots: list[Snapshot] = []
    records: list[PassRecord] = []
    diffs: list[GraphDiff] = []
    before = imported
    for name, level, after in steps:
        is_same = bool(snapshots) and after is before
        snapshots.append(snapshots[-1] if is_same else Snapshot(_text(after), _graph(after)))
        diffs.append(GraphDiff() if after is before else _diff(before, after))
        records.append(
            PassRecord(
                name=name,
                description=f"What {name} does.",
                level=level,
                seconds=0.01 * len(after) / 1000,
                changed=not is_same,
                operations_before=len(before),
                operations_after=len(after),
                macs=len(after) * 1000,
                peak_bytes=3 * SIZE_BYTES,
                events=() if after is before else _events(name, before, after),
            )
        )
        before = after
    kernels = _kernels(lowered)
    launched = [n for n, _ in lowered if _is_launched(n)]
    sources = [n for n, _ in imported if n.sources and n.family not in ("input", "output")]
    return Trace(
        version=TRACE_VERSION,
        model=ModelRecord(
            name=f"generated_{operations}", format="onnx", producer="a rule", opset="21",
            nodes=len(sources), parameters=10 * operations, inputs=(("image", SHAPE),),
            outputs=(("scores", SHAPE),),
            source_nodes=tuple((n.sources[0], n.label, f"{n.label}(...)") for n in sources),
        ),
        target="cpu",
        device="Invented CPU",
        label=label,
        passes=tuple(records),
        snapshots=tuple(snapshots),
        diffs=tuple(diffs),
        decisions=(("schedule-loops/conv_k1/pixels", "8"),),
        memory=_memory(launched),
        kernels=kernels,
        program=_program(launched, kernels),
        accuracy=_accuracy(records, snapshots),
        profile=_profile(launched),
    )  # fmt: skip


def _imported(blocks: int, scoped: bool) -> list[Node]:
    def node(name: str, kind: str, family: str, scope: str, block: int) -> GraphNode:
        source = f"/{scope}/{name}" if scoped and scope else name
        return GraphNode(
            name, f"top.{kind}", kind.replace("_", " "), family, SHAPE, (source,), "cpu",
            (("block", str(block)),), scope if scoped else "",
        )  # fmt: skip

    nodes: list[Node] = [(node("image", "input", "input", "", 0), ())]
    last = "image"
    for b in range(blocks):
        scope = f"stage{b // BLOCKS_PER_STAGE}/block{b % BLOCKS_PER_STAGE}"
        entry = last
        for kind, family in (
            ("conv_a", "convolution"), ("norm_a", "normalization"), ("relu_a", "elementwise"),
            ("conv_b", "convolution"), ("norm_b", "normalization"), ("add", "elementwise"),
            ("relu_b", "elementwise"),
        ):  # fmt: skip
            name = f"{kind}_{b}"
            inputs = (last, entry) if kind == "add" else (last,)
            nodes.append((node(name, kind.split("_")[0], family, scope, b), inputs))
            last = name
    nodes.append((node("pool", "pool", "pooling", "", blocks), (last,)))
    nodes.append((node("scores", "output", "output", "", blocks), ("pool",)))
    return nodes


def _without(nodes: list[Node], kind: str) -> list[Node]:
    """Without the operations of that kind; their operands take over their sources."""
    forward: dict[str, str] = {}
    kept: dict[str, Node] = {}
    for node, inputs in nodes:
        operands = tuple(forward.get(i, i) for i in inputs)
        if node.label == kind:
            keeper, its_inputs = kept[operands[0]]
            forward[node.id] = keeper.id
            merged = replace(
                keeper,
                sources=(*keeper.sources, *node.sources),
                attributes=(*keeper.attributes, (kind, "yes")),
            )
            kept[keeper.id] = (merged, its_inputs)
        else:
            kept[node.id] = (node, operands)
    return list(kept.values())


def _is_launched(node: GraphNode) -> bool:
    return node.family not in ("input", "output")


def _graph(nodes: list[Node]) -> Graph:
    return Graph(
        tuple(n for n, _ in nodes),
        tuple(GraphEdge(i, n.id, i, SHAPE) for n, inputs in nodes for i in inputs),
    )


def _line(node: GraphNode, inputs: tuple[str, ...]) -> str:
    attributes = ", ".join(f"{k} = {v}" for k, v in node.attributes)
    operands = ", ".join(f"%{i}" for i in inputs)
    return f"%{node.id} = {node.operation}({operands}) {{{attributes}}} : {SHAPE}"


def _text(nodes: list[Node]) -> SourceText:
    return SourceText(
        "mlir", tuple(_line(n, i) for n, i in nodes), tuple((n.id,) for n, _ in nodes)
    )


def _diff(before: list[Node], after: list[Node]) -> GraphDiff:
    old, new = {n.id: n for n, _ in before}, {n.id: n for n, _ in after}
    removed = tuple(name for name in old if name not in new)
    keeper = {source: n.id for n in new.values() for source in n.sources}
    fused: dict[str, list[str]] = {}
    for name in removed:
        fused.setdefault(keeper[old[name].sources[0]], []).append(name)
    changed = tuple(
        NodeChange(name, "operation", old[name].operation, node.operation)
        for name, node in new.items()
        if old[name] != node and name not in fused
    )
    return GraphDiff((), removed, changed, tuple((k, tuple(v)) for k, v in fused.items()))


def _events(name: str, before: list[Node], after: list[Node]) -> tuple[RewriteEvent, ...]:
    lines = {n.id: _line(n, i) for n, i in after}
    old = {n.id: _line(n, i) for n, i in before}
    diff = _diff(before, after)
    return tuple(
        RewriteEvent(
            f"{name}/absorb/{site}", "absorb", True, site, (site, *gone), (site,), "",
            "explorer/passes/absorb.py:12", "op(x) -> op(x) {absorbed}. Nothing is left.", 12.0,
            Delta(tuple((g, old[g]) for g in gone), (), ((site, old[site], lines[site]),)),
        )
        for site, gone in diff.fused
    )  # fmt: skip


def _kernels(nodes: list[Node]) -> tuple[KernelRecord, ...]:
    users: dict[str, list[str]] = {}
    for node, _ in nodes:
        if _is_launched(node):
            users.setdefault(_kernel_of(node), []).append(node.id)
    records = []
    for name, operations in users.items():
        owner = (f"{name}/main",)
        lines = tuple(f"  out[{i}] += in[{i}] * w[{i}];" for i in range(60))
        text = SourceText("c", (f"void {name}(void) {{", *lines, "}"), ((), *((owner,) * 60), ()))
        nest = SourceText("mlir", text.lines, text.owners)
        steps = tuple(ScheduleStep(s, (), nest, 60) for s in ("lower", "split", "vectorize"))
        records.append(
            KernelRecord(name, name.split("_")[0], tuple(operations), 2_000_000, 400_000, steps,
                         (PhaseRecord(name, 4),), text)
        )  # fmt: skip
    return tuple(records)


def _kernel_of(node: GraphNode) -> str:
    block = int(dict(node.attributes)["block"])
    return f"{node.label}_k{block % DISTINCT_KERNELS}"


def _memory(launched: list[GraphNode]) -> MemoryPlan:
    """Three places in turn: a value lives for three steps."""
    count = len(launched)
    placed = tuple(
        PlacedBuffer(
            BufferLifetime(n.id, (n.id,), SIZE_BYTES, step, min(step + 3, count)),
            (step % 3) * SIZE_BYTES,
        )
        for step, n in enumerate(launched)
    )
    live = tuple(min(step + 1, 3) * SIZE_BYTES for step in range(count))
    peak = max(live)
    return MemoryPlan(
        placed, peak, peak, True, (PlanAttempt("by size", peak, 0.01),), live,
        tuple(n.id for n in launched), count * SIZE_BYTES,
    )  # fmt: skip


def _program(launched: list[GraphNode], kernels: tuple[KernelRecord, ...]) -> Program:
    launches = tuple(
        Launch(
            n.id, _kernel_of(n),
            (Argument(n.id, "arena", (step % 3) * SIZE_BYTES, SIZE_BYTES, "output"),), n.sources,
        )
        for step, n in enumerate(launched)
    )  # fmt: skip
    source = SourceText(
        "c",
        tuple(line for k in kernels for line in k.source.lines),
        tuple(owners for k in kernels for owners in k.source.owners),
    )
    port = Port("image", "float32", (1, 64, 56, 56), 0, SIZE_BYTES)
    return Program("cpu", source, kernels, launches, (port,), (replace(port, name="scores"),), (),
                   (), 3 * SIZE_BYTES, 0)  # fmt: skip


def _accuracy(records: list[PassRecord], snapshots: list[Snapshot]) -> AccuracyReport:
    passes = tuple(
        PassAccuracy(
            record.name,
            "accumulated",
            tuple(
                TensorError(f"{n.sources[-1]}_out", n.id, 1e-7 * (i % 50), 1e-7 * (i % 50), 1.0,
                            130.0, (0, i % 64, 3, 5), 1.5, 1.25)
                for i, n in enumerate(snapshot.graph.nodes)
                if n.family not in ("input", "output")
            ),
        )
        for record, snapshot in zip(records, snapshots, strict=True)
    )  # fmt: skip
    isolated = tuple(replace(p, mode="isolated") for p in passes)
    return AccuracyReport("cpu", "onnxruntime", 1e-4, passes, isolated, (), True)


def _profile(launched: list[GraphNode]) -> ProfileRecord:
    events = []
    now = 0
    for index, node in enumerate(launched):
        duration = 20_000 + 1000 * (index % 17)
        events.append(
            TimedEvent(node.sources[0], node.id, _kernel_of(node), "main", now, now + duration,
                       2_000_000, 400_000)
        )  # fmt: skip
        now += duration + 200
    return ProfileRecord("Invented CPU", 1, 20, now / 1e6, tuple(events), 92.0, 21.0)
