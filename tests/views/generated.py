"""A trace of any size, made by a rule: what the views are tested and measured with at scale.

    image -> [conv -> norm -> relu -> conv -> norm -> add -> relu] * blocks -> pool -> scores
                |______________________________________^

`make_large_trace(5000)` has about 5,000 operations after the import. Three passes fold the norms,
fuse the activations, and give every operation that is left a kernel.
"""

from __future__ import annotations

from dataclasses import replace

from inventing import (
    Operation,
    Operations,
    Step,
    compared,
    difference,
    line,
    one_after_another,
    passes,
    program,
)

from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    BufferLifetime,
    Delta,
    GraphNode,
    KernelRecord,
    MemoryPlan,
    ModelRecord,
    PassRecord,
    PhaseRecord,
    PlacedBuffer,
    PlanAttempt,
    Port,
    ProfileRecord,
    RewriteEvent,
    ScheduleStep,
    SourceText,
    TensorError,
    TimedEvent,
    Trace,
)
from explorer.results.trace import SnapshotRecord

SHAPE = "1x64x56x56 f32"
SIZE_BYTES = 64 * 56 * 56 * 4
PER_BLOCK = 7
BLOCKS_PER_STAGE = 24
DISTINCT_KERNELS = 40


def make_large_trace(operations: int, scoped: bool = True, label: str = "") -> Trace:
    """About so many operations; without scopes, blocks can only be found by their repetition."""
    imported = _imported(max(1, operations // PER_BLOCK), scoped)
    folded = _without(imported, "norm")
    fused = _without(folded, "relu")
    lowered = tuple(replace(o, operation="kernels.launch") if _is_launched(o) else o for o in fused)
    steps = [
        Step(
            name,
            f"What {name} does.",
            level,
            0.01 * len(after) / 1000,
            after,
            events=() if after is before else _events(name, before, after),
            macs=len(after) * 1000,
            peak_bytes=3 * SIZE_BYTES,
        )
        for name, level, before, after in (
            ("import", "top", imported, imported),
            ("infer-shapes", "top", imported, imported),
            ("fold-batch-norm", "top", imported, folded),
            ("fuse-activation", "top", folded, fused),
            ("lower-to-kernels", "kernels", fused, lowered),
            ("plan-memory", "memory", lowered, lowered),
        )
    ]
    records, snapshots, differences = passes(steps)
    kernels = _kernels(lowered)
    launched = [o for o in lowered if _is_launched(o)]
    sources = [o for o in imported if o.sources and _is_launched(o)]
    memory = _memory(launched)
    port = Port(
        name="image",
        element_type="float32",
        shape=(1, 64, 56, 56),
        offset_bytes=0,
        size_bytes=SIZE_BYTES,
    )
    return Trace(
        version=TRACE_VERSION,
        model=ModelRecord(
            name=f"generated_{operations}", format="onnx", producer="a rule", opset="21",
            nodes=len(sources), parameters=10 * operations, inputs=(("image", SHAPE),),
            outputs=(("scores", SHAPE),),
            source_nodes=tuple((o.sources[0], o.label, f"{o.label}(...)") for o in sources),
        ),
        target="cpu",
        device="Invented CPU",
        label=label,
        passes=records,
        snapshots=snapshots,
        diffs=differences,
        decisions=(("schedule-loops/conv_k1/pixels", "8"),),
        memory=memory,
        kernels=kernels,
        program=program(
            launched,
            kernels,
            _kernel_of,
            {o.id: o.shape for o in lowered},
            memory.offsets,
            3 * SIZE_BYTES,
            (port, replace(port, name="scores")),
        ),
        accuracy=_accuracy(records, snapshots),
        profile=_profile(launched),
    )  # fmt: skip


def _imported(blocks: int, scoped: bool) -> Operations:
    def operation(
        name: str, kind: str, family: str, scope: str, block: int, inputs: tuple[str, ...]
    ) -> Operation:
        source = f"/{scope}/{name}" if scoped and scope else name
        return Operation(
            name, f"top.{kind}", kind.replace("_", " "), family, SHAPE, inputs, (source,),
            (("block", str(block)),), scope if scoped else "",
        )  # fmt: skip

    operations = [operation("image", "input", "input", "", 0, ())]
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
            operations.append(operation(name, kind.split("_")[0], family, scope, b, inputs))
            last = name
    operations.append(operation("pool", "pool", "pooling", "", blocks, (last,)))
    operations.append(operation("scores", "output", "output", "", blocks, ("pool",)))
    return tuple(operations)


def _without(operations: Operations, kind: str) -> Operations:
    """Without the operations of that kind; their operands take over their sources."""
    forward: dict[str, str] = {}
    kept: dict[str, Operation] = {}
    for o in operations:
        inputs = tuple(forward.get(i, i) for i in o.inputs)
        if o.label == kind:
            keeper = kept[inputs[0]]
            forward[o.id] = keeper.id
            kept[keeper.id] = replace(
                keeper,
                sources=(*keeper.sources, *o.sources),
                attributes=(*keeper.attributes, (kind, "yes")),
            )
        else:
            kept[o.id] = replace(o, inputs=inputs)
    return tuple(kept.values())


def _is_launched(o: Operation) -> bool:
    return o.family not in ("input", "output")


def _events(name: str, before: Operations, after: Operations) -> tuple[RewriteEvent, ...]:
    new, old = ({o.id: line(o) for o in operations} for operations in (after, before))
    return tuple(
        RewriteEvent(
            address=f"{name}/absorb/{site}",
            rule="absorb",
            applied=True,
            site=site,
            matched=(site, *gone),
            produced=(site,),
            reason="",
            rule_source="explorer/passes/absorb.py:12",
            explanation="op(x) -> op(x) {absorbed}. Nothing is left.",
            microseconds=12.0,
            delta=Delta(tuple((g, old[g]) for g in gone), (), ((site, old[site], new[site]),)),
        )
        for site, gone in difference(before, after).fused
    )


def _kernels(operations: Operations) -> tuple[KernelRecord, ...]:
    users: dict[str, list[str]] = {}
    for o in operations:
        if _is_launched(o):
            users.setdefault(_kernel_of(o), []).append(o.id)
    records = []
    for name, launched in users.items():
        owner = (f"{name}/main",)
        lines = tuple(f"  out[{i}] += in[{i}] * w[{i}];" for i in range(60))
        text = SourceText("c", (f"void {name}(void) {{", *lines, "}"), ((), *((owner,) * 60), ()))
        nest = SourceText("mlir", text.lines, text.owners)
        steps = tuple(ScheduleStep(s, (), nest, 60) for s in ("lower", "split", "vectorize"))
        records.append(
            KernelRecord(
                name=name,
                kind=name.split("_")[0],
                operations=tuple(launched),
                flops=2_000_000,
                bytes_moved=400_000,
                steps=steps,
                phases=(PhaseRecord(name, 4),),
                source=text,
            )
        )
    return tuple(records)


def _kernel_of(o: Operation) -> str:
    block = int(dict(o.attributes)["block"])
    return f"{o.label}_k{block % DISTINCT_KERNELS}"


def _memory(launched: list[Operation]) -> MemoryPlan:
    """Three places in turn: a value lives for three steps."""
    count = len(launched)
    placed = tuple(
        PlacedBuffer(
            BufferLifetime(
                id=n.id,
                values=(n.id,),
                size_bytes=SIZE_BYTES,
                first=step,
                last=min(step + 3, count),
            ),
            (step % 3) * SIZE_BYTES,
        )
        for step, n in enumerate(launched)
    )
    live = tuple(min(step + 1, 3) * SIZE_BYTES for step in range(count))
    peak = max(live)
    return MemoryPlan(
        placements=placed,
        peak_bytes=peak,
        bound_bytes=peak,
        optimal=True,
        attempts=(PlanAttempt("by size", peak, 0.01),),
        live_bytes=live,
        steps=tuple(n.id for n in launched),
        total_bytes=count * SIZE_BYTES,
    )


def _accuracy(
    records: tuple[PassRecord, ...], snapshots: tuple[SnapshotRecord, ...]
) -> AccuracyReport:
    passes = tuple(
        compared(record.name, snapshot, _error)
        for record, snapshot in zip(records, snapshots, strict=True)
    )
    isolated = tuple(replace(p, mode="isolated") for p in passes)
    return AccuracyReport(
        target="cpu",
        oracle="onnxruntime",
        tolerance=1e-4,
        passes=passes,
        isolated=isolated,
        outputs=(),
        passed=True,
    )


def _error(position: int, node: GraphNode) -> TensorError:
    error = 1e-7 * (position % 50)
    return TensorError(
        tensor=f"{node.sources[-1]}_out",
        operation=node.id,
        max_absolute=error,
        max_relative=error,
        cosine=1.0,
        sqnr_db=130.0,
        worst_index=(0, position % 64, 3, 5),
        worst_value=1.5,
        expected_value=1.25,
    )


def _profile(launched: list[Operation]) -> ProfileRecord:
    bars = [
        TimedEvent(
            o.sources[0],
            o.id,
            _kernel_of(o),
            "main",
            0,
            20_000 + 1000 * (index % 17),
            2_000_000,
            400_000,
        )
        for index, o in enumerate(launched)
    ]
    events = one_after_another(bars, rest_ns=200)
    milliseconds = (events[-1].end_ns + 200) / 1e6
    return ProfileRecord(
        device="Invented CPU",
        threads=1,
        repeats=20,
        milliseconds=milliseconds,
        events=events,
        peak_gflops=92.0,
        peak_gbytes_per_second=21.0,
    )
