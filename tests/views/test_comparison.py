"""Two compilations side by side, and errors by metric: what the views are given."""

import math
from dataclasses import replace
from types import ModuleType

import pytest

from explorer.accuracy.bisection import first_bad_pass, worst_tensor
from explorer.compilation import Comparison
from explorer.results import Trace
from explorer.views.payload import trace_payload
from explorer.views.payload_measures import AccuracyTables


def test_totals_passes_and_kernels_stand_side_by_side(trace: Trace, fork: Trace):
    comparison = trace_payload(trace, against=fork).chunk("comparison")
    assert comparison["labels"] == ["first", "no fusion"]
    assert comparison["operations"] == [14, 18]
    assert comparison["kernelCounts"] == [7, 11]
    rows = {name: (left, right) for name, left, right in comparison["passes"]}
    left, right = rows["fuse-activation"]
    assert (left["after"], left["rewrites"]) == (14, 3)
    assert (right["after"], right["rewrites"]) == (17, 0)
    kernels = {name: (left, right) for name, _, left, right in comparison["kernels"]}
    assert kernels["fused_1"][0]["nanoseconds"] == 35096
    assert kernels["fused_1"][1] is None


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
    first = trace_payload(ours, against=theirs).chunk("comparison")["first"]
    assert first == expected
    assert Comparison(ours, theirs).first_difference == (first and tuple(first))


def test_choices_of_a_kernel_are_compared(trace: Trace):
    ours, theirs = with_decisions(trace, pixels="8"), with_decisions(trace, pixels="4")
    comparison = trace_payload(ours, against=theirs).chunk("comparison")
    rows = {
        name: (left["choices"], right["choices"]) for name, _, left, right in comparison["kernels"]
    }
    assert rows["conv_1"] == (["pixels 8"], ["pixels 4"])
    assert rows["conv_3"] == ([], [])


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


def test_makers_name_the_first_rewrite_of_every_pass(trace: Trace):
    makers = trace_payload(trace).chunk("makers")
    names = [record.name for record in trace.passes]
    assert [names[index] for index, _ in makers["conv_1"]] == ["fold-batch-norm", "fuse-activation"]
