"""A whole trace of a small residual network, made by hand: what the views' tests look at.

    images -> conv bn relu -> conv bn -> add -> relu -> conv bn relu -> pool -> flatten -> gemm
                  |__________________________|

Twelve passes fold, fuse, choose layouts, lower and plan it. All numbers are invented but
consistent: sizes follow from shapes, offsets never overlap, times add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from inventing import (
    Operation,
    Operations,
    Step,
    compared,
    line,
    passes,
)
from synthetic_counts import with_counts
from synthetic_records import kernels_of, memory_of, profile_of, program_of, two_models

from explorer.results import (
    TRACE_VERSION,
    AccuracyReport,
    Delta,
    GraphNode,
    ModelRecord,
    PassAccuracy,
    RewriteEvent,
    TensorError,
    Trace,
)
from explorer.results.trace import SnapshotRecord

__all__ = ["HOSTILE", "make_trace", "two_models", "with_counts", "with_fault"]

HOSTILE = "<script>alert('x')</script>\"&"
"""What a model file may hold as a name."""


Change = Callable[[Operations], Operations]

BIG, SMALL = "1x16x16x16 f32", "1x32x8x8 f32"


def _imported(mark: str) -> Operations:
    def op(
        id: str,
        name: str,
        label: str,
        family: str,
        shape: str,
        inputs: str,
        source: str = "",
        attributes: tuple[tuple[str, str], ...] = (),
        scope: str = "",
    ) -> Operation:
        sources = (source + mark,) if source else ()
        return Operation(
            id, name, label, family, shape, tuple(inputs.split()), sources, attributes, scope
        )

    conv = (("kernel", "3x3"), ("padding", "1"))
    return (
        op("images", "top.input", "images" + mark, "input", "1x3x16x16 f32", "", "images"),
        op("weight_1", "top.weight", "w1", "weight", "16x3x3x3 f32", "", "stem.weight"),
        op("conv_1", "top.conv", "conv 3x3", "convolution", BIG, "images weight_1", "Conv_0", conv,
           "stem"),
        op("norm_1", "top.batch_norm", "batch norm", "normalization", BIG, "conv_1",
           "BatchNormalization_1", scope="stem"),
        op("relu_1", "top.relu", "relu", "elementwise", BIG, "norm_1", "Relu_2", scope="stem"),
        op("identity_1", "top.identity", "identity", "movement", BIG, "relu_1", "Dropout_3",
           scope="stem"),
        op("weight_2", "top.weight", "w2", "weight", "16x16x3x3 f32", "", "block.weight"),
        op("conv_2", "top.conv", "conv 3x3", "convolution", BIG, "identity_1 weight_2", "Conv_4",
           conv, "block"),
        op("norm_2", "top.batch_norm", "batch norm", "normalization", BIG, "conv_2",
           "BatchNormalization_5", scope="block"),
        op("add_1", "top.add", "add", "elementwise", BIG, "norm_2 identity_1", "Add_6",
           scope="block"),
        op("relu_2", "top.relu", "relu", "elementwise", BIG, "add_1", "Relu_7", scope="block"),
        op("weight_3", "top.weight", "w3", "weight", "32x16x3x3 f32", "", "down.weight"),
        op("conv_3", "top.conv", "conv 3x3 /2", "convolution", SMALL, "relu_2 weight_3", "Conv_8",
           (*conv, ("stride", "2")), "down"),
        op("norm_3", "top.batch_norm", "batch norm", "normalization", SMALL, "conv_3",
           "BatchNormalization_9", scope="down"),
        op("relu_3", "top.relu", "relu", "elementwise", SMALL, "norm_3", "Relu_10", scope="down"),
        op("pool_1", "top.average_pool", "average pool", "pooling", "1x32x1x1 f32", "relu_3",
           "GlobalAveragePool_11", scope="head"),
        op("reshape_1", "top.reshape", "reshape", "movement", "1x32 f32", "pool_1", "Flatten_12",
           scope="head"),
        op("weight_4", "top.weight", "w4", "weight", "10x32 f32", "", "head.weight"),
        op("matmul_1", "top.matmul", "matmul", "convolution", "1x10 f32", "reshape_1 weight_4",
           "Gemm_13", scope="head"),
        op("softmax_1", "top.softmax", "softmax", "reduction", "1x10 f32", "matmul_1",
           "Softmax_14", scope="head"),
        op("scores", "top.output", "scores" + mark, "output", "1x10 f32", "softmax_1", "scores"),
    )  # fmt: skip


def _absorb(operations: Operations, removed: str, by: str, **attributes: str) -> Operations:
    """`removed` goes; `by` takes its users' place, its sources and the attributes."""
    gone = next(o for o in operations if o.id == removed)
    keeper = next(o for o in operations if o.id == by)
    forward = by if by in gone.inputs else gone.inputs[0]
    merged = replace(
        keeper,
        sources=tuple(dict.fromkeys((*keeper.sources, *gone.sources))),
        attributes=(*keeper.attributes, *attributes.items()),
        inputs=tuple(dict.fromkeys((*keeper.inputs, *(i for i in gone.inputs if i != by))))
        if by in gone.inputs
        else keeper.inputs,
    )
    rest = [merged if o.id == by else o for o in operations if o.id != removed]
    return tuple(
        replace(o, inputs=tuple(forward if i == removed else i for i in o.inputs)) for o in rest
    )


def _in_program_order(operations: Operations) -> Operations:
    """Every operation behind its operands, as before where that leaves a choice."""
    placed: list[Operation] = []
    waiting = list(operations)
    while waiting:
        names = {o.id for o in placed}
        following = next(o for o in waiting if names.issuperset(o.inputs))
        placed.append(following)
        waiting.remove(following)
    return tuple(placed)


def _fold_norms(operations: Operations) -> Operations:
    for number in "123":
        operations = _absorb(operations, f"norm_{number}", f"conv_{number}", bias="folded")
    return operations


def _drop_identity(operations: Operations) -> Operations:
    return tuple(
        replace(o, inputs=tuple("relu_1" if i == "identity_1" else i for i in o.inputs))
        for o in operations
        if o.id != "identity_1"
    )


def _fuse_activations(operations: Operations) -> Operations:
    for number, conv in (("1", "conv_1"), ("3", "conv_3")):
        operations = _absorb(operations, f"relu_{number}", conv, activation="relu")
    return _absorb(operations, "relu_2", "add_1", activation="relu")


def _fuse_add(operations: Operations) -> Operations:
    """A new operation takes the place of both, with an identity of its own."""
    operations = _absorb(operations, "add_1", "conv_2", addend="conv_1", activation="relu")
    return tuple(
        replace(
            o,
            id="fused_1" if o.id == "conv_2" else o.id,
            operation="top.conv_add" if o.id == "conv_2" else o.operation,
            label="conv 3x3 + add" if o.id == "conv_2" else o.label,
            inputs=tuple("fused_1" if i == "conv_2" else i for i in o.inputs),
        )
        for o in operations
    )


def _choose_layouts(operations: Operations) -> Operations:
    pack = Operation("pack_1", "top.pack", "to blocks of 8", "movement", "1x1x16x16x8 f32",
                     ("images",), operations[0].sources, (("block", "8"),), "stem")  # fmt: skip
    placed: list[Operation] = []
    for o in operations:
        if o.id == "conv_1":
            placed.append(pack)
            o = replace(o, inputs=("pack_1", *o.inputs[1:]))
        if o.family in ("convolution", "pooling") and o.id != "matmul_1":
            o = replace(o, attributes=(*o.attributes, ("layout", "nchw8c")))
        placed.append(o)
    return tuple(placed)


def _lower(operations: Operations) -> Operations:
    return tuple(
        o
        if o.family in ("input", "output", "weight")
        else replace(o, operation="kernels.launch", attributes=(*o.attributes, ("symbol", o.id)))
        for o in operations
    )


def _same(operations: Operations) -> Operations:
    return operations


_PASSES: tuple[tuple[str, str, str, Change, float], ...] = (
    ("import", "Reads the model file.", "top", _same, 0.0121),
    ("infer-shapes", "Gives every value its shape.", "top", _same, 0.0009),
    ("remove-identities", "Drops operations that hand on their input.", "top", _drop_identity,
     0.0006),
    ("fold-constants", "Computes what depends on constants only.", "top", _same, 0.0011),
    ("fold-batch-norm", "Multiplies batch normalization into the weights before it.", "top",
     _fold_norms, 0.0042),
    ("fuse-activation", "Lets an operation apply the activation that follows it.", "top",
     _fuse_activations, 0.0018),
    ("fuse-add", "Adds the shortcut while the convolution's sums are in registers.", "top",
     _fuse_add, 0.0014),
    ("remove-dead", "Drops operations whose results nobody uses.", "top", _same, 0.0003),
    ("choose-layouts", "Blocks channels by the vector width where it pays.", "top",
     _choose_layouts, 0.0057),
    ("lower-to-kernels", "Gives every operation a kernel.", "kernels", _lower, 0.0094),
    ("schedule-loops", "Tiles, vectorizes and parallelizes the loop nests.", "loops", _same,
     0.0873),
    ("plan-memory", "Gives every buffer its place in the arena.", "memory", _same, 0.0031),
)  # fmt: skip

_RULES: dict[str, tuple[str, str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    # pass -> (rule, explanation, (site, absorbed) applied, (site, reason) declined)
    "remove-identities": (
        "remove-identity",
        "identity(x) -> x. Dropout and identity do nothing at inference.",
        (("relu_1", "identity_1"),),
        (),
    ),
    "fold-batch-norm": (
        "fold-into-conv",
        "batch_norm(conv(x, w)) -> conv(x, w'). Per output channel, w' = w * scale; one pass "
        "over the activations is saved.",
        (("conv_1", "norm_1"), ("conv_2", "norm_2"), ("conv_3", "norm_3")),
        (),
    ),
    "fuse-activation": (
        "activation-into-producer",
        "relu(conv(x, w)) -> conv(x, w) {activation = relu}. Applies when the producer has no "
        "other user; the intermediate tensor is never written.",
        (("conv_1", "relu_1"), ("conv_3", "relu_3"), ("add_1", "relu_2")),
        (
            ("softmax_1", "softmax_1 is no elementwise operation: it needs a whole row at once"),
            ("pool_1", "the producer of pool_1's input, relu_3, already holds an activation"),
        ),
    ),
    "fuse-add": (
        "add-into-conv",
        "add(conv(x, w), y) -> conv_add(x, w, y). Applies when y is there before the "
        "convolution starts.",
        (("fused_1", "add_1"),),
        (),
    ),
    "choose-layouts": (
        "block-channels",
        "conv(x) -> conv(pack(x)). Vectors run over a block of channels.",
        (("pack_1", ""),),
        (("matmul_1", "matmul_1 has 10 output channels, which blocks of 8 would pad by 60 %"),),
    ),
}


def make_trace(label: str = "", mark: str = "", fused: bool = True) -> Trace:
    """The trace; `mark` stands in every name that a model file decides.

    `fused=False` is a fork in which `fuse-activation` and `fuse-add` are disabled.
    """
    operations = _imported(mark)
    steps: list[Step] = []
    for name, description, level, change, seconds in _PASSES:
        is_disabled = not fused and name in ("fuse-activation", "fuse-add")
        after = operations if is_disabled else _in_program_order(change(operations))
        steps.append(
            Step(
                name,
                description,
                level,
                seconds,
                after,
                events=() if is_disabled else _events(name, operations, after),
                macs=1_003_840,
                peak_bytes=65536 if len(after) > 15 else 49152,
            )
        )
        operations = after
    records, snapshots, differences = passes(steps)
    kernels = kernels_of(operations)
    memory = memory_of(operations)
    return Trace(
        version=TRACE_VERSION,
        model=ModelRecord(
            name="tiny_resnet" + mark,
            format="onnx",
            producer="pytorch 2.13" + mark,
            opset="17",
            nodes=15,
            parameters=8_106,
            inputs=(("images" + mark, "1x3x16x16 f32"),),
            outputs=(("scores" + mark, "1x10 f32"),),
            source_nodes=tuple(
                (s, s.split("_")[0], f"{s.split('_')[0]}({', '.join(o.inputs)}) -> {o.id}")
                for o in _imported(mark)
                if o.family not in ("input", "output", "weight")
                for s in o.sources
            ),
        ),
        target="cpu",
        device="Invented CPU with AVX2",
        label=label,
        passes=records,
        snapshots=snapshots,
        diffs=differences,
        decisions=() if fused else (("fuse-activation/*/*", "false"), ("fuse-add/*/*", "false")),
        memory=memory,
        kernels=kernels,
        program=program_of(operations, kernels, memory),
        accuracy=_accuracy(snapshots, mark),
        profile=profile_of(operations),
    )


def _events(name: str, before: Operations, after: Operations) -> tuple[RewriteEvent, ...]:
    if name not in _RULES:
        return ()
    rule, explanation, applied, declined = _RULES[name]
    old = {o.id: line(o) for o in before}
    new = {o.id: line(o) for o in after}
    events = []
    for index, (site, absorbed) in enumerate(applied):
        delta = Delta(
            removed=((absorbed, old[absorbed]),) if absorbed else (),
            added=((site, new[site]),) if site not in old and site in new else (),
            changed=((site, old[site], new[site]),) if site in old and site in new else (),
        )
        matched = tuple(n for n in (site, absorbed) if n in old)
        events.append(
            RewriteEvent(
                address=f"{name}/{rule}/{site}",
                rule=rule,
                applied=True,
                site=site,
                matched=matched,
                produced=(site,),
                reason="",
                rule_source=f"explorer/passes/{name.replace('-', '_')}.py:{31 + index}",
                explanation=explanation,
                microseconds=41.0 + 7 * index,
                delta=delta,
            )
        )
    for site, reason in declined:
        events.append(
            RewriteEvent(
                address=f"{name}/{rule}/{site}",
                rule=rule,
                applied=False,
                site=site,
                matched=(site,),
                produced=(),
                reason=reason,
                rule_source=f"explorer/passes/{name.replace('-', '_')}.py:31",
                explanation=explanation,
                microseconds=6.0,
                delta=Delta((), (), ()),
            )
        )
    return tuple(events)


def _accuracy(snapshots: Sequence[SnapshotRecord], mark: str) -> AccuracyReport:
    """Equal up to folding, within tolerance after blocking layouts."""
    passes = []
    for index, ((name, *_), snapshot) in enumerate(zip(_PASSES, snapshots, strict=True)):
        scale = 0.0 if index < 4 else 3e-7 if index < 8 else 6e-6
        passes.append(compared(name, snapshot, partial(_error, scale)))
    isolated = tuple(
        PassAccuracy(
            p.name,
            "isolated",
            tuple(
                replace(t, max_relative=t.max_relative / (1 + i)) for i, t in enumerate(p.tensors)
            ),
        )
        for p in passes
    )
    last = replace(passes[-1].tensors[-1], tensor="scores" + mark)
    return AccuracyReport(
        target="cpu",
        oracle="onnxruntime",
        tolerance=1e-4,
        passes=tuple(passes),
        isolated=isolated,
        outputs=(last,),
        passed=True,
    )


def _error(scale: float, depth: int, node: GraphNode) -> TensorError:
    return TensorError(
        tensor=node.sources[-1] + "_out",
        operation=node.id,
        max_absolute=2 * scale * (1 + depth),
        max_relative=scale * (1 + depth),
        cosine=1.0,
        sqnr_db=float("inf") if scale == 0 else 132.0 - depth,
        worst_index=(0, depth % 16, 3, 5),
        worst_value=1.0 + 2 * scale * (1 + depth),
        expected_value=1.0,
    )


def with_fault(trace: Trace, pass_name: str, tensor: str) -> Trace:
    """The same with one tensor wrong from a pass on, in both modes."""
    report = trace.accuracy
    assert report is not None
    names = [p.name for p in report.passes]
    first = names.index(pass_name)

    def wrong(passes: tuple[PassAccuracy, ...]) -> tuple[PassAccuracy, ...]:
        return tuple(
            p
            if index < first
            else replace(
                p,
                tensors=tuple(
                    replace(t, max_relative=0.5, max_absolute=0.75, sqnr_db=6.0, cosine=0.9,
                            worst_index=(0, 2, 3, 5), worst_value=2.25, expected_value=1.5)
                    if t.tensor == tensor
                    else t
                    for t in p.tensors
                ),
            )
            for index, p in enumerate(passes)
        )  # fmt: skip

    faulty = replace(
        report, passes=wrong(report.passes), isolated=wrong(report.isolated), passed=False
    )
    return replace(trace, accuracy=faulty)
