"""What a compilation makes of the operations of an invented trace: memory, kernels, program, times.

Numbers are invented but consistent: sizes follow from shapes, offsets never overlap, times add up.
"""

from __future__ import annotations

from inventing import Operation, Operations, one_after_another, program, size_bytes

from explorer.results import (
    BufferLifetime,
    KernelRecord,
    MemoryPlan,
    PhaseRecord,
    PlacedBuffer,
    PlanAttempt,
    Port,
    ProfileRecord,
    Program,
    ScheduleStep,
    SourceText,
    TimedEvent,
)
from explorer.results.model_comparison import (
    ComparedModel,
    ModelComparison,
    TensorMatch,
    UnmatchedNode,
)


def _launched(operations: Operations) -> list[Operation]:
    return [
        o
        for o in operations
        if o.family not in ("input", "output", "weight")
        and o.operation == "kernels.launch"
        and not o.id.startswith("reshape")
    ]


def memory_of(operations: Operations) -> MemoryPlan:
    launched = _launched(operations)
    step_of = {o.id: index for index, o in enumerate(launched)}
    lifetimes = []
    for o in operations:
        if o.family in ("weight", "output") or o.id.startswith("reshape"):
            continue
        aliases = [r.id for r in operations if r.id.startswith("reshape") and o.id in r.inputs]
        users = [u for u in operations if {o.id, *aliases} & set(u.inputs)]
        steps = [step_of.get(u.id, len(launched) - 1) for u in users if u.id not in aliases]
        first = step_of.get(o.id, 0)
        last = max([*steps, first]) + 1
        lifetimes.append(
            BufferLifetime(
                id=o.id,
                values=(o.id, *aliases),
                size_bytes=size_bytes(o.shape),
                first=first,
                last=last,
            )
        )
    placed: list[PlacedBuffer] = []
    for buffer in sorted(lifetimes, key=lambda b: (-b.size_bytes, b.first)):
        offset = 0
        near = [p for p in placed if p.buffer.first < buffer.last and buffer.first < p.buffer.last]
        for other in sorted(near, key=lambda p: p.offset_bytes):
            if other.offset_bytes - offset >= buffer.size_bytes:
                break
            end = other.offset_bytes + other.buffer.size_bytes
            offset = max(offset, -(-end // 64) * 64)
        placed.append(PlacedBuffer(buffer, offset))
    live = tuple(
        sum(b.size_bytes for b in lifetimes if b.first <= step < b.last)
        for step in range(len(launched))
    )
    peak = max(p.offset_bytes + p.buffer.size_bytes for p in placed)
    return MemoryPlan(
        placements=tuple(placed),
        peak_bytes=peak,
        bound_bytes=max(live),
        optimal=peak == max(live),
        attempts=(
            PlanAttempt("by size", peak, 0.0004),
            PlanAttempt("by time", peak + 4096, 0.0003),
        ),
        live_bytes=live,
        steps=tuple(o.id for o in launched),
        total_bytes=sum(b.size_bytes for b in lifetimes),
    )


_NEST = (
    "affine.for %o = 0 to 16 {",
    "  affine.for %y = 0 to 16 {",
    "    affine.for %x = 0 to 16 {",
    "      %sum = affine.load %bias[%o]",
    "      affine.for %c = 0 to 3 {",
    "        %a = affine.load %in[%c, %y, %x]",
    "        %p = arith.mulf %a, %w",
    "        %s = arith.addf %sum, %p",
    "      }",
    "      %r = arith.maximumf %s, %zero",
    "      affine.store %r, %out[%o, %y, %x]",
    "    }",
    "  }",
    "}",
)
_SOURCE = (
    "static void {name}(const float *in, const float *w, float *out, long lo, long hi) {{",
    "  for (long o = lo; o < hi; o++) {{",
    "    for (long y = 0; y < 16; y++) {{",
    "      vec8 sum = {{0}};",
    "      for (long c = 0; c < 3; c++)",
    "        for (long k = 0; k < 9; k++)",
    "          sum += in[c * 324 + y * 18 + k] * load8(w + (o * 27 + c * 9 + k) * 8);",
    "      sum = max8(sum, zero8);",
    "      store8(out + (o * 16 + y) * 8, sum);",
    "    }}",
    "  }}",
    "}}",
)


def _nest(number: int, owners: tuple[tuple[str, ...], ...]) -> SourceText:
    """The nest after so many schedule steps behind `lower`."""
    lines: list[str] = list(_NEST)
    if number >= 1:
        lines[0] = "affine.for %o = 0 to 2 {"
        lines[3:3] = ["      affine.for %o8 = 0 to 8 {"]
        lines[-3:-3] = ["      }"]
        owners = (*owners[:3], (), *owners[3:-3], (), *owners[-3:])
    if number >= 4:
        lines = [line.replace("affine.load", "vector.load") for line in lines]
    if number >= 5:
        lines[0] = lines[0].replace("affine.for", "affine.parallel")
    return SourceText("mlir", tuple(lines), owners)


def kernels_of(operations: Operations) -> tuple[KernelRecord, ...]:
    kernels = []
    for o in _launched(operations):
        main, relu = (f"{o.id}/main",), (f"{o.id}/activation",)
        owners = ((), (), (), main, main, main, main, main, (), relu, main, (), (), ())
        steps = [
            ScheduleStep(name, arguments, _nest(number, owners), operations_count)
            for number, (name, arguments, operations_count) in enumerate(
                (
                    ("lower", (), 14),
                    ("split", (("loop", "o"), ("by", "8")), 15),
                    ("reorder", (("loops", "o, y, c, x, o8"),), 15),
                    ("accumulate", (("value", "sum"),), 17),
                    ("vectorize", (("loop", "o8"), ("width", "8")), 17),
                    ("parallel", (("loop", "o"),), 17),
                )
            )
        ]
        lines = tuple(line.format(name=o.id) for line in _SOURCE)
        source_owners = ((), (), (), main, main, main, main, relu, main, (), (), ())
        macs = {"conv_1": 110592, "conv_2": 589824, "fused_1": 589824, "conv_3": 294912}
        size = size_bytes(o.shape)
        kernels.append(
            KernelRecord(
                name=o.id,
                kind=o.label.split(" ")[0],
                operations=(o.id,),
                flops=2 * macs.get(o.id, size // 8),
                bytes_moved=2 * size,
                steps=tuple(steps),
                phases=(PhaseRecord(o.id, 2 if "conv" in o.label else 1),),
                source=SourceText("c", lines, source_owners),
            )
        )
    return tuple(kernels)


def program_of(
    operations: Operations, kernels: tuple[KernelRecord, ...], memory: MemoryPlan
) -> Program:
    offsets = memory.offsets
    launched = _launched(operations)
    return program(
        launched,
        kernels,
        kernel_of=lambda o: o.id,
        shapes={o.id: o.shape for o in operations},
        offsets=offsets,
        arena_bytes=memory.peak_bytes,
        ports=(
            Port(
                name="images",
                element_type="float32",
                shape=(1, 3, 16, 16),
                offset_bytes=offsets["images"],
                size_bytes=3072,
            ),
            Port(
                name="scores",
                element_type="float32",
                shape=(1, 10),
                offset_bytes=offsets[launched[-1].id],
                size_bytes=40,
            ),
        ),
        weights=[o for o in operations if o.family == "weight"],
    )


def profile_of(operations: Operations) -> ProfileRecord:
    bars = []
    for o in _launched(operations):
        size = size_bytes(o.shape)
        duration = (31_000 if "conv" in o.label else 2_600) + size // 4
        flops = 1_179_648 if "conv" in o.label else size // 4
        bars.append(TimedEvent(o.id, o.id, o.id, "queue", 0, duration, flops, 2 * size))
    events = one_after_another(bars, rest_ns=900)
    milliseconds = round((events[-1].end_ns + 900) / 1e6, 4)
    return ProfileRecord(
        device="Invented CPU with AVX2",
        threads=2,
        repeats=20,
        milliseconds=milliseconds,
        events=events,
        peak_gflops=92.0,
        peak_gbytes_per_second=21.0,
    )


def two_models(mark: str) -> ModelComparison:
    """Two models with one tensor in common, which differs, and a node each alone."""
    model = ComparedModel(name=mark, format=mark, nodes=2, judge=mark, inputs=mark)
    match = TensorMatch(
        tensor_a=mark,
        tensor_b=mark,
        node_a=mark,
        node_b=mark,
        operator_a=mark,
        operator_b=mark,
        how="values",
        shape_a=(1, 2),
        shape_b=(2, 1),
        axes=(0,),
        max_relative=1.0,
        sqnr_db=3.0,
        error=0.7,
        expected=1e-4,
        clipped=0.1,
    )
    alone = UnmatchedNode(node=mark, operator=mark, tensors=(mark,), reason=mark)
    return ModelComparison(
        a=model,
        b=model,
        matched=(match,),
        unmatched_a=(alone,),
        unmatched_b=(alone,),
        first_difference=match,
        outputs=((mark, mark),),
    )
