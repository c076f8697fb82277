"""Two compilations side by side, and errors by metric: what the views are given."""

import math
from dataclasses import replace
from types import ModuleType

import pytest

from explorer.accuracy.bisection import first_bad_pass, worst_tensor
from explorer.compilation import Comparison
from explorer.results import Knob, Trace
from explorer.results.data import DataRecord, OutputError
from explorer.views.catalog.comparison import comparison
from explorer.views.payload.comparison import Side, comparison_payload, side_of
from explorer.views.payload.difference import difference_payload
from explorer.views.payload.measures import AccuracyTables
from explorer.views.renderers.text import text_of
from explorer.views.trace_payload import trace_payload


def test_totals_passes_and_kernels_stand_side_by_side(trace: Trace, fork: Trace):
    comparison = trace_payload(trace, against=fork).chunk("comparison")
    assert comparison["labels"] == ["first", "no fusion"]
    assert comparison["operations"] == [14, 18]
    assert comparison["kernelCounts"] == [7, 11]
    rows = dict(comparison["passes"])
    left, right = rows["fuse-activation"]
    assert (left["after"], left["rewrites"]) == (14, 3)
    assert (right["after"], right["rewrites"]) == (17, 0)
    kernels = {name: sides for name, _, sides in comparison["kernels"]}
    assert kernels["fused_1"][0]["nanoseconds"] == 35096
    assert kernels["fused_1"][1] is None


def test_timelines_have_the_launches_with_their_nodes(trace: Trace, fork: Trace):
    left, _ = trace_payload(trace, against=fork).chunk("comparison")["timelines"]
    assert trace.profile is not None
    assert len(left["slices"]) == sum(e.end_ns > e.start_ns for e in trace.profile.events)
    assert left["leftOut"] == 0
    starts = [start for _, _, start, _, _ in left["slices"]]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert next(sources for name, _, _, _, sources in left["slices"] if name == "conv_1")
    without = trace_payload(trace, against=replace(fork, profile=None)).chunk("comparison")
    assert without["timelines"][1] is None


def test_a_pass_that_only_one_side_has_and_that_did_nothing_is_not_where_they_part(trace: Trace):
    names = [record.name for record in trace.passes if record.changed]
    idle = replace(trace.passes[0], name="widen", changed=False, events=())
    knobs = [Knob(name, True, (False,), "") for name in ("widen", names[-1])]
    passes = (trace.passes[0], idle, *trace.passes[1:])
    snapshots = (trace.snapshots[0], *trace.snapshots)
    diffs = (trace.diffs[0], replace(trace.diffs[0], added=()), *trace.diffs[1:])
    more = replace(trace, passes=passes, snapshots=snapshots, diffs=diffs, accuracy=None)
    plain = replace(trace, knobs=(), decisions=())
    both = replace(more, knobs=tuple(knobs), decisions=())
    (found,) = trace_payload(plain, against=both).chunk("comparison")["differences"]
    assert found["first"][0] == names[-1]
    assert [row[0] for row in found["decisions"]] == ["widen", names[-1]]
    only = replace(more, knobs=tuple(knobs[:1]), decisions=())
    (found,) = trace_payload(plain, against=only).chunk("comparison")["differences"]
    assert found["first"][0] == "widen"


def with_decisions(trace: Trace, **values: str) -> Trace:
    addresses = {"pixels": "schedule-loops/conv_1/pixels", "relu": "fuse-activation/relu/relu_1"}
    made = tuple((addresses[name], value) for name, value in values.items())
    return replace(trace, decisions=made)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"pixels": "8"}, {"pixels": "8"}, None),
        ({"pixels": "8"}, {"pixels": "4"}, ["schedule-loops/conv_1/pixels", "8", "4"]),
        (
            {"pixels": "8", "relu": "true"},
            {"pixels": "4"},
            ["fuse-activation/relu/relu_1", "true", ""],
        ),
    ],
)
def test_the_first_differing_decision_is_that_of_the_earliest_pass(
    trace: Trace, left: dict[str, str], right: dict[str, str], expected: list[str] | None
):
    ours, theirs = with_decisions(trace, **left), with_decisions(trace, **right)
    first = trace_payload(ours, against=theirs).chunk("comparison")["differences"][0]["first"]
    assert first == expected
    assert Comparison(ours, theirs).first_difference == (first and tuple(first))


def test_choices_of_a_kernel_are_compared(trace: Trace):
    ours, theirs = with_decisions(trace, pixels="8"), with_decisions(trace, pixels="4")
    comparison = trace_payload(ours, against=theirs).chunk("comparison")
    rows = {name: [side["choices"] for side in sides] for name, _, sides in comparison["kernels"]}
    assert rows["conv_1"] == [["pixels 8"], ["pixels 4"]]
    assert rows["conv_3"] == [[], []]


def sides_of(*traces: Trace) -> list[Side]:
    payloads = [trace_payload(trace) for trace in traces]
    return [side_of(payload.head, payload.chunk) for payload in payloads]


def test_more_than_two_stand_side_by_side(trace: Trace, fork: Trace):
    other = with_decisions(trace, pixels="4")
    comparison = comparison_payload(sides_of(trace, fork, other))
    assert comparison["operations"] == [14, 18, 14]
    assert [len(sides) for _, sides in comparison["passes"]] == [3] * len(comparison["passes"])
    assert comparison["differences"][0]["first"] == ["fuse-activation/*/*", "", "false"]
    assert comparison["differences"][1]["first"] == ["schedule-loops/conv_1/pixels", "", "4"]
    sources = {
        name: [side and side["source"] for side in sides]
        for name, _, sides in comparison["kernels"]
    }
    assert sources["fused_1"] == [0, None, 0]


def test_a_pass_that_is_off_is_the_first_decision_that_differs(trace: Trace):
    shorter = replace(
        trace,
        passes=tuple(p for p in trace.passes if p.name != "fuse-activation"),
        snapshots=trace.snapshots[1:],
        diffs=trace.diffs[1:],
        decisions=(("plan-memory/place/conv_1", "true"),),
        knobs=(Knob("fuse-activation", False, (True, False), "disabled"),),
    )
    full = replace(
        trace,
        decisions=(("fuse-activation/relu/relu_1", "true"),),
        knobs=(Knob("fuse-activation", True, (True, False), "3 rewrites"),),
    )
    (difference,) = comparison_payload(sides_of(shorter, full))["differences"]
    assert difference["first"] == ["fuse-activation", "false", "true"]
    assert difference["reasons"] == ["disabled", "3 rewrites"]


def test_programs_are_compared_after_the_pass_that_is_asked_for(trace: Trace, fork: Trace):
    sides = sides_of(trace, fork)
    before = difference_payload(sides, "fold-batch-norm")
    assert before["passes"] == ["fold-batch-norm", "fold-batch-norm"]
    assert before["graphs"][0]["counts"] == {"added": 0, "removed": 0, "changed": 0}
    assert [row[0] for row in before["rows"]] == ["fold"]
    after = difference_payload(sides, "fuse-activation")
    (graph,) = after["graphs"]
    status = dict(zip(graph["ids"], (node[3] for node in graph["nodes"]), strict=True))
    ours, theirs = (
        {node.id for node in t.snapshots[index].graph.nodes}
        for t in (trace, fork)
        for index in [[p.name for p in t.passes].index("fuse-activation")]
    )
    assert {name for name, mark in status.items() if mark == "removed"} == ours - theirs
    assert {name for name, mark in status.items() if mark == "added"} == theirs - ours
    assert graph["hidden"] == 0
    lines = [
        [line for row in after["rows"] if row[0] == "≠" for line in [row[1 + side]] if line]
        for side in (0, 1)
    ]
    texts = [
        t.snapshots[[p.name for p in t.passes].index("fuse-activation")].text.lines
        for t in (trace, fork)
    ]
    assert set(lines[0]) >= set(texts[0]) - set(texts[1])
    assert set(lines[1]) >= set(texts[1]) - set(texts[0])


def test_of_large_programs_the_surroundings_of_what_differs_are_drawn(generated: ModuleType):
    left, right = generated.make_large_trace(2000), generated.make_large_trace(2000)
    snapshot = right.snapshots[-1]
    nodes = list(snapshot.graph.nodes)
    nodes[700] = replace(nodes[700], attributes=(("stride", "9"),))
    graph = replace(snapshot.graph, nodes=tuple(nodes))
    right = replace(right, snapshots=(*right.snapshots[:-1], replace(snapshot, graph=graph)))
    payload = difference_payload(sides_of(left, right), "")
    (drawn,) = payload["graphs"]
    assert drawn["counts"]["changed"] == 1
    assert nodes[700].id in drawn["ids"]
    assert 2 <= len(drawn["ids"]) <= 12
    assert drawn["hidden"] == len(nodes) - len(drawn["ids"])
    assert payload["hiddenRows"] == 0


def test_every_metric_has_the_rows_and_columns_of_the_heat_map(trace: Trace):
    payload = trace_payload(trace)
    relative = payload.chunk("accuracy")
    for metric in ("sqnr", "cosine"):
        values = payload.chunk(f"accuracy/{metric}")["isolated"]
        for row, own in zip(relative["isolated"], values, strict=True):
            assert [v is None for v in row["values"]] == [v is None for v in own]
    assert payload.chunk("accuracy/sqnr")["accumulated"][0][0] == "Infinity"
    assert payload.chunk("accuracy/cosine")["accumulated"][-1][2] == 0


@pytest.mark.parametrize("pass_name", ["fold-batch-norm", "fuse-add", "plan-memory"])
def test_the_first_fault_is_where_a_bisection_begins(
    trace: Trace, synthetic: ModuleType, pass_name: str
):
    faulty = synthetic.with_fault(trace, pass_name, "Gemm_13_out")
    report = faulty.accuracy
    assert report is not None
    fault = AccuracyTables.of(report, [p.name for p in faulty.passes]).first_fault()
    index = first_bad_pass(report)
    assert index is not None
    assert fault["pass"] == index
    assert fault["name"] == pass_name
    tensor = worst_tensor(report.isolated[index], report.tolerance)
    assert tensor is not None
    assert (fault["tensor"], fault["operation"]) == (tensor.tensor, tensor.operation)


def test_an_error_that_is_not_a_number_is_a_fault(trace: Trace):
    report = trace.accuracy
    assert report is not None
    last = report.isolated[-1]
    broken = replace(last.tensors[3], max_relative=math.nan)
    tensors = (*last.tensors[:3], broken, *last.tensors[4:])
    isolated = (*report.isolated[:-1], replace(last, tensors=tensors))
    tables = AccuracyTables.of(replace(report, isolated=isolated), [p.name for p in trace.passes])
    fault = tables.first_fault()
    assert (fault["name"], fault["tensor"], fault["relative"]) == (
        "plan-memory", broken.tensor, "NaN",
    )  # fmt: skip


def test_a_right_program_has_no_fault(trace: Trace):
    assert trace_payload(trace).chunk("accuracy")["fault"] is None


def test_the_outputs_are_judged_by_one_measure_and_the_data_are_named(trace: Trace):
    """An int8 branch has an error against the source, and whether its integers are right apart."""
    report = trace.accuracy
    assert report is not None
    floats = replace(
        report,
        data=DataRecord(name="eval.npz", examples=64),
        against_source=(OutputError(tensor="y", sqnr_db=130.0, max_relative=5.6e-7),),
    )
    integers = replace(
        report,
        data=DataRecord(drawn=(("x", "normal"),)),
        against_source=(OutputError(tensor="y", sqnr_db=44.0, max_relative=0.02),),
        bit_exact=True,
    )
    sides = [replace(trace, accuracy=floats), replace(trace, accuracy=integers, label="int8")]
    text = text_of(comparison(*sides), 100)
    for line in (
        "SQNR of outputs 130 dB 44 dB 86 dB less",
        "largest relative error 5.6e-7 0.02",
        "integers bit-exact – yes",
        "judged on eval.npz, 64 examples seeded noise",
    ):
        assert line in " ".join(text.split()), text


def test_files_of_models_say_what_they_are(trace: Trace):
    other = replace(trace, model=replace(trace.model, opset=9, nodes=1_234))
    both = [dict(facts) for facts in comparison_payload(sides_of(trace, other))["modelFacts"]]
    differing = {name: both[1][name] for name in both[0] if both[0][name] != both[1][name]}
    assert differing == {"operator set": "9", "nodes": "1,234"}
