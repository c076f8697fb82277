"""Histograms, near-ties, faults and refused places as payload, as text and as static HTML."""

import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from explorer.accuracy.details import tensor_detail
from explorer.memory import GreedyPlanner
from explorer.results import (
    AccuracyReport,
    BufferLifetime,
    Fault,
    MemoryPlan,
    NearTie,
    PlanAttempt,
    RefusedPlacement,
    TensorDetail,
    Trace,
)
from explorer.results.memory import FitStep, memories_of
from explorer.views.catalog.accuracy import compared
from explorer.views.catalog.memory import memory_map, planned
from explorer.views.payload import details as payload_details
from explorer.views.payload.details import TENSORS_PER_PAGE, DetailPages, detail_payload, shortest
from explorer.views.renderers.html import html_of, svg_of
from explorer.views.renderers.text import text_of
from explorer.views.trace_payload import encode, trace_payload
from explorer.views.widget import answers


def detail(error: float = 0.0) -> TensorDetail:
    expected = np.arange(24, dtype=np.float32).reshape(2, 12)
    actual = expected.copy()
    actual[1, 3] += np.float32(error)
    found = tensor_detail(actual, expected)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def report(trace: Trace) -> AccuracyReport:
    """The last pass has another detail than the ones before; what is isolated has none."""
    found = trace.accuracy
    assert found is not None
    *before, last = (
        replace(p, tensors=tuple(replace(t, detail=0) for t in p.tensors)) for p in found.passes
    )
    last = replace(last, tensors=tuple(replace(t, detail=1) for t in last.tensors))
    return replace(
        found, passes=(*before, last), isolated=found.isolated, details=(detail(), detail(2.0))
    )


def with_report(trace: Trace, report: AccuracyReport) -> Trace:
    return replace(trace, accuracy=report)


# -- payload ---------------------------------------------------------------------------------------


def test_every_distinct_detail_of_a_page_stands_there_once(trace: Trace, report: AccuracyReport):
    payload = trace_payload(with_report(trace, report))
    heat_map = payload.chunk("accuracy")
    assert heat_map["detailPages"] == -(-len(heat_map["tensors"]) // TENSORS_PER_PAGE)
    page = payload.chunk("details/0")
    assert page["first"] == 0
    assert len(page["details"]) == 2
    last = len(report.passes) - 1
    column = heat_map["tensors"].index("Conv_0_out")
    present = [{t.tensor for t in p.tensors} for p in report.passes]
    gone = next(row for row, names in enumerate(present) if "Conv_0_out" not in names)
    assert page["accumulated"][column] == [[0, 0], [gone, None]]
    kept = heat_map["tensors"].index("Relu_2_out")
    assert page["accumulated"][kept][-1] == [last, 1]
    assert page["isolated"][column] == [[0, None]]


def test_a_detail_is_written_in_few_characters():
    same, other = detail_payload(detail()), detail_payload(detail(2.0))
    shape, kind, low, high, expected, changed, first, errors, equal, special, worst = other
    assert (shape, kind, low, high, equal, special) == ([2, 12], "float32", 0, 23, 23, [])
    assert sum(expected) == 24
    moved = [place for place, count in zip(changed[::2], changed[1::2], strict=True) if count]
    assert len(changed) == 4
    assert len(moved) == 1
    assert errors == [1]
    assert first == math.floor((math.log10(2 / 23) + 10) * 4)
    assert worst == [[[1, 3], 17, 15, 2]]
    assert same[5:8] == [[], 0, []]
    assert len(encode(same)) < 250


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (float(np.float32(0.1)), "float32", 0.100000001),
        (float(np.float16(0.1)), "float16", 0.099976),
        (0.1, "float64", 0.1),
        (3.0, "float32", 3),
        (float(2**53 + 2), "int64", 2.0**53 + 2),
        (math.nan, "float32", "NaN"),
        (-math.inf, "float32", "-Infinity"),
    ],
)
def test_numbers_keep_the_digits_of_their_type(value: float, kind: str, expected: float | str):
    assert shortest(value, kind) == expected


def test_of_too_many_details_the_worst_are_kept(
    report: AccuracyReport, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(payload_details, "MAX_DETAILS", 1)
    names = tuple(t.tensor for t in report.passes[0].tensors)
    pages = DetailPages(replace(report, details_left_out=5), names)
    assert pages.left_out == 6
    worst = [max(t.max_relative for t in p.tensors) for p in report.passes]
    assert pages.kept == ({1} if worst[-1] > max(worst[:-1]) else {0})


def test_a_report_without_details_has_no_pages(trace: Trace):
    payload = trace_payload(trace)
    assert payload.chunk("accuracy")["detailPages"] == 0
    assert not [key for key in payload.chunk_keys() if key.startswith("details/")]


def test_a_tied_index_has_a_column_although_it_is_compared_with_nothing(
    trace: Trace, report: AccuracyReport
):
    tie = NearTie("softmax_1", "best", 2, (0, 3), 4, 7, 3e-7)
    last = replace(report.passes[-1], near_ties=(tie,), ties=("softmax_1",))
    tied = replace(report, passes=(*report.passes[:-1], last))
    heat_map = trace_payload(with_report(trace, tied)).chunk("accuracy")
    column = heat_map["tensors"].index("best")
    assert [row["values"][column] for row in heat_map["accumulated"]] == [None] * len(tied.passes)
    row = ["softmax_1", "best", 2, [0, 3], 4, 7, 3e-7, "index"]
    assert heat_map["accumulated"][-1]["ties"] == [row]
    assert heat_map["makers"][column] == [[len(tied.passes) - 1, "softmax_1"]]


def test_a_notebook_answers_with_the_details_that_a_page_asks_for(
    trace: Trace, report: AccuracyReport
):
    payload = trace_payload(with_report(trace, report))
    (message,) = answers(payload, {"kind": "need", "keys": ["details/0"], "revision": 0}, 0)
    assert json.loads(message["text"]) == payload.chunk("details/0")


def test_what_a_bisection_found_is_in_the_payload(trace: Trace, report: AccuracyReport):
    fault = Fault(
        pass_name="fuse-add",
        rule="add-into-conv",
        operation="fused_1",
        tensor="Relu_7_out",
        max_relative=0.5,
        address="fuse-add/a/b",
    )
    payload = trace_payload(with_report(trace, replace(report, fault=fault)))
    assert payload.chunk("accuracy")["guilty"] == {
        "pass": "fuse-add",
        "rule": "add-into-conv",
        "operation": "fused_1",
        "address": "fuse-add/a/b",
    }


# -- text and HTML ---------------------------------------------------------------------------------


def accuracy_text(report: AccuracyReport) -> str:
    return text_of(compared(report), 400)


def accuracy_html(report: AccuracyReport) -> str:
    return html_of(compared(report))


def test_the_text_shows_where_the_worst_tensor_is_off(report: AccuracyReport):
    text = accuracy_text(report)
    assert "after plan-memory, 2x12 float32, 23 of 24 elements equal" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["worst", "at", "reference", "value", "off", "by"],
        ["[1,", "3]", "15", "17", "2"],
    ]
    assert any(line.split()[:1] == ["reference"] for line in text.splitlines())


def test_the_card_has_both_histograms(report: AccuracyReport):
    html = accuracy_html(report)
    assert "histograms of the values and the errors of" in html
    assert "[1, 3]" in html


def test_special_values_are_counted_in_words(report: AccuracyReport):
    broken = replace(report.details[1], value_special=(3, 0, 1))
    text = accuracy_text(replace(report, details=(report.details[0], broken)))
    assert "value: 3 NaN, 1 minus infinity" in text


def test_a_found_fault_and_near_ties_are_said(report: AccuracyReport):
    fault = Fault(
        pass_name="fuse-add",
        rule="add-into-conv",
        operation="fused_1",
        tensor="Relu_7_out",
        max_relative=0.5,
        address="fuse-add/a/b",
    )
    tie = NearTie("top_1", "best", 2, (0, 3), 4, 7, 3e-7)
    last = replace(report.passes[-1], near_ties=(tie,), ties=("top_1", "old_1"))
    told = replace(report, passes=(*report.passes[:-1], last), fault=fault)
    for words in (accuracy_text(told), accuracy_html(told)):
        assert "pass fuse-add, rule add-into-conv, operation fused_1" in words
        assert "fuse-add/a/b" in words
        assert "top_1: a near-tie of an index; 2 elements of best, first 4 instead of 7" in words
        assert "old_1: a near-tie of an index; what follows" in words


def test_a_verdict_says_what_it_rests_on(trace: Trace, report: AccuracyReport):
    """Outputs that differ end to end behind ties, and a reference that is not the one asked for."""
    (output,) = report.outputs
    off = replace(output, max_relative=0.27, as_exact=False)
    tie = NearTie("conv_7", "q", 1, (0, 3), 6, 7, 0.008, kind="rounding")
    last = replace(report.passes[-1], near_ties=(tie,), ties=("conv_7",))
    told = replace(
        report,
        passes=(*report.passes[:-1], last),
        end_to_end=(off,),
        isolated_outputs=(output,),
        rests_on="isolated",
        oracle="the imported program",
        oracle_note="onnxruntime was ended by SIGFPE when it ran 'net'",
    )
    payload = trace_payload(with_report(trace, told)).chunk("accuracy")
    for words in (
        accuracy_text(told),
        html.unescape(accuracy_html(told)),
        " ".join(payload["grounds"]),
    ):
        assert f"end to end output {output.tensor} is off by 0.27" in words
        assert "onnxruntime was ended by SIGFPE when it ran 'net'" in words
        assert "not whether the import is right" in words
    assert "conv_7: a rounding tie; 1 element of q, first 6 instead of 7 at [0, 3]" in (
        accuracy_text(told)
    )
    assert trace_payload(with_report(trace, report)).chunk("accuracy")["grounds"] == []


def test_what_could_not_be_compared_is_no_pass(report: AccuracyReport):
    problem = "nothing could be compared after plan-memory"
    errors = tuple(replace(p, tensors=()) for p in report.passes)
    good = replace(report.outputs[0], max_relative=0.0)
    told = replace(report, passed=False, problem=problem, passes=errors, isolated=(),
                   outputs=(good,))  # fmt: skip
    for words in (accuracy_text(told), accuracy_html(told)):
        assert "not shown to be equal to the source model" in words
        assert problem in words


def plan_of(trace: Trace) -> MemoryPlan:
    assert trace.memory is not None
    return trace.memory


def test_the_chosen_strategy_and_refused_places_are_listed(trace: Trace):
    refusals = (
        RefusedPlacement("fused_1", 0, "conv_1", 4096),
        RefusedPlacement("fused_1", 4096, "conv_1", 64),
        RefusedPlacement("conv_2", 128, "fused_1", 64),
    )
    plan = replace(plan_of(trace), refusals=refusals)
    text = text_of(planned(plan), 100)
    assert "2 strategies tried; chosen: by size" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["fused_1", "0", "conv_1", "4", "KiB"] in rows
    assert ["conv_2", "128", "fused_1", "64", "B"] in rows
    assert "and 1 more refused places: plan.refusals" in text
    assert "Refused places" in html_of(planned(plan))


def test_memories_and_levers_have_their_price(trace: Trace):
    plan = plan_of(trace)
    step = FitStep(lever="bands", address="stream-rows/chain/a", value="b:2:roll", taken=True,
                   bytes_before=8192, bytes_after=4096, microseconds=2.5, reason="")  # fmt: skip
    declined = replace(step, address="recompute/again/c", value=True, taken=False,
                       reason="not needed")  # fmt: skip
    first, second = plan.placements[:2]
    base = max(64, first.offset_bytes + first.buffer.size_bytes + 1)
    placed = (replace(first, memory="fast"),
              replace(second, memory="slow", offset_bytes=base + -base % 64))  # fmt: skip
    text = text_of(planned(replace(plan, fit=(step, declined), placements=placed)), 120)
    assert "To fit the budget: 1 decision of 2 tried" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["✓", "stream-rows/chain/a", "8", "KiB", "4", "KiB", "2.5", "µs", "taken"] in rows
    assert any(row[:1] == ["recompute/again/c"] and row[-2:] == ["not", "needed"] for row in rows)
    memories = memories_of(replace(plan, placements=placed))
    assert [(m.name, m.buffers) for m in memories] == [("fast", 1), ("slow", 1)]
    assert memories[1].first_byte % 64 == 0
    payload = trace_payload(replace(trace, memory=replace(plan, placements=placed)))
    assert [m[0] for m in payload.chunk("memory")["memories"]] == ["fast", "slow"]
    assert memories_of(plan) == ()


def test_the_payload_names_obstacles_by_their_place(trace: Trace):
    plan = replace(plan_of(trace), refusals=(RefusedPlacement("fused_1", 0, "conv_1", 4096),))
    memory = trace_payload(replace(trace, memory=plan)).chunk("memory")
    ((buffer, offset, obstacle, overlap),) = memory["refusals"]
    assert memory["buffers"][buffer][0] == "fused_1"
    assert memory["buffers"][obstacle][0] == "conv_1"
    assert (offset, overlap) == (0, 4096)
    (tried,) = memory["tried"]
    assert [row[1] for row in tried["parts"][0]["rows"]] == ["✓", ""]
    assert {row[6] for row in memory["buffers"]} == {64}


def test_an_attempt_that_says_it_is_chosen_is(trace: Trace):
    plan = plan_of(trace)
    told = replace(plan, attempts=(*plan.attempts, PlanAttempt("pins", plan.peak_bytes, 0.1, True)))
    assert plan.chosen_attempt == 0
    assert told.chosen_attempt == 2
    assert replace(plan, attempts=()).chosen_attempt is None


def test_boxes_too_narrow_for_a_name_have_none():
    narrow = [
        BufferLifetime(
            id=f"narrow_{i}",
            values=(f"block_{i}/conv_expand",),
            size_bytes=4096,
            first=i,
            last=i + 1,
        )
        for i in range(60)
    ]
    wide = BufferLifetime(id="wide", values=("residual_stream",), size_bytes=4096, first=0, last=60)
    drawing = svg_of(memory_map(GreedyPlanner()([wide, *narrow]), {}))
    labels = [text for text in re.findall(">([^<]*)</text>", drawing) if not text[0].isdigit()]
    assert [text for text in labels if "residual" in text] == ["· residual_stream"]
    assert not [text for text in labels if "…" in text or "block" in text]
