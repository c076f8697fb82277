"""What quantizing costs is shown in text, HTML and as data for pages, the costliest layer first."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.results import AccuracyReport, QuantizationRecord, Trace
from explorer.views import register
from explorer.views.catalog.accuracy import compared
from explorer.views.catalog.quantization import quantization
from explorer.views.quantized_rows import rows
from explorer.views.renderers.html import html_of
from explorer.views.renderers.page import page_of
from explorer.views.renderers.text import text_of
from explorer.views.trace_payload import encode, trace_payload


@pytest.fixture(scope="module")
def quantized() -> Trace:
    digits = np.load("sample_models/digits_test.npz")["images"]
    model = explorer.load("sample_models/digits_mlp.onnx")
    name = model.inputs[0].name
    c = explorer.compile(model, quantization=explorer.calibrate(model, {name: digits[:4]}))
    c.accuracy({name: digits[200:201]})
    return c.trace()


def quantization_text(trace: Trace) -> str:
    return text_of(quantization(trace), 200)


def quantization_html(trace: Trace) -> str:
    return html_of(quantization(trace))


def plots(trace: Trace) -> list[dict[str, Any]]:
    """Data of the histograms in the page."""
    (table,) = [part for part in page_of(quantization(trace))["parts"] if part["kind"] == "table"]
    parts = [part for _, details in table["details"] for part in details]
    return [part["data"] for part in parts if part["kind"] == "own"]


def record_of(trace: Trace) -> QuantizationRecord:
    assert trace.quantization is not None
    return trace.quantization


def report_of(trace: Trace) -> AccuracyReport:
    assert trace.accuracy is not None
    return trace.accuracy


def test_the_costliest_layer_stands_first(quantized: Trace):
    found = rows(quantized)
    costs = [row.cost_db for row in found]
    assert costs == sorted(costs) and np.isfinite(costs[0])
    assert {row.name for row in found} >= {t.name for t in record_of(quantized).tensors}
    names = [line.split()[0] for line in quantization_text(quantized).splitlines()[5:] if line]
    assert names[: len(found)] == [row.name for row in found]


def test_what_bisection_named_is_said_wherever_errors_are(quantized: Trace):
    errors = report_of(quantized).quantization
    assert errors is not None and errors.costliest is not None
    name = errors.costliest.tensor
    said = f"costs the outputs most, by bisection: {name}, "
    assert said in quantization_text(quantized) and said in quantization_html(quantized)
    report = report_of(quantized)
    assert said in text_of(compared(report), 200) and said in html_of(compared(report))
    payload = trace_payload(quantized)
    for chunk in ("quantization", "accuracy"):
        assert said in encode(payload.chunk(chunk))
    before = replace(errors.costliest, is_before_softmax=not errors.costliest.is_before_softmax)
    assert "what the last softmax reads most" in text_of(
        compared(replace(report, quantization=replace(errors, costliest=before))), 200
    )
    bare = replace(report, quantization=replace(errors, costliest=None))
    assert "bisection" not in text_of(compared(bare), 200)


def test_a_result_that_stays_float_has_no_threshold(quantized: Trace):
    (logits,) = [row for row in rows(quantized) if row.tensor is None]
    assert logits.name == "logits" and logits.layer is not None
    assert "stays float" in quantization_text(quantized)


def test_without_histograms_and_errors_the_view_says_how_to_get_them(quantized: Trace):
    record = record_of(quantized)
    bare = replace(record, tensors=tuple(replace(t, observed=None) for t in record.tensors))
    trace = replace(quantized, quantization=bare, accuracy=None)
    text = quantization_text(trace)
    assert "explorer calibrate MODEL --data FILE.npz -o TABLE" in text
    assert "c.accuracy(inputs)" in text
    assert "c.accuracy(inputs)" in quantization_html(trace)
    assert plots(quantized) and plots(trace) == []


def test_a_card_draws_the_histograms_of_the_costliest(quantized: Trace):
    html = quantization_html(quantized)
    assert html.count('alt="histogram of ') == min(4, len(record_of(quantized).tensors))
    assert "min-max" in html and "aciq-laplace" in html


def test_a_page_gets_what_a_fork_needs(quantized: Trace):
    payload = trace_payload(quantized)
    assert payload.head["has"]["quantization"] and payload.head["has"]["float"]
    data = payload.chunk("quantization")
    encode(data)
    knobs = {knob.address: knob.value for knob in quantized.knobs}
    assert len(plots(quantized)) == len(record_of(quantized).tensors)
    for plot in plots(quantized):
        assert plot["tensor"]["knob"] == knobs[plot["tensor"]["address"]]
        assert sum(plot["observed"]["counts"]) > 0
    for tensor in record_of(quantized).tensors:
        mode = f"quantize-tensors/mode/{tensor.name}"
        assert mode in knobs and encode({mode: "F32"}) in encode(data)


def test_the_map_of_errors_has_rows_against_the_float_model(quantized: Trace):
    payload = trace_payload(quantized)
    heat = payload.chunk("accuracy")
    names = [row["name"] for row in heat["float"]]
    assert names[:2] == ["round-weights", "quantize-tensors"] and names[-1] == "binary on cpu"
    assert len(payload.chunk("accuracy/sqnr")["float"]) == len(names)
    column = heat["tensors"].index("logits")
    errors = payload.chunk(f"tensors/{column // 50}")["float"][column % 50]
    report = report_of(quantized)
    assert errors[-1][5] == pytest.approx(report.against_float[-1].tensors[-1].sqnr_db)


def test_the_accuracy_card_says_how_far_from_the_float_model(quantized: Trace):
    text = text_of(compared(report_of(quantized)), 200)
    assert "Against the float model" in text and "bit by bit" in text
    worst = min(report_of(quantized).against_float[-1].tensors, key=lambda t: t.sqnr_db)
    after = text[text.index("Furthest after binary on cpu") :].splitlines()
    assert after[2].split()[:3] == [worst.tensor, f"{worst.sqnr_db:.0f}", "dB"]
    assert "Against the float model" in html_of(compared(report_of(quantized)))


def test_a_program_that_is_not_quantized_has_no_such_view(trace: Trace):
    view = register.view_named("quantization", register.VIEWS)
    part = view.missing(trace)
    assert part is not None and "explorer calibrate" in part.advice
    payload = trace_payload(trace)
    assert "quantization" not in payload.makers
    assert payload.chunk("accuracy")["float"] == []
