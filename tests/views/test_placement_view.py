"""The view of placement: prices, refusals, parts and what another bandwidth would move."""

from dataclasses import replace
from itertools import pairwise

import pytest

import explorer as ex
from explorer.errors import ExplorerError
from explorer.results.placement import PART, PlacedPart, PlacedTransfer
from explorer.results.program import Transfer
from explorer.targets import load_target
from explorer.traces.saving import open_trace
from explorer.views.catalog.placement import matrix, placement
from explorer.views.catalog.timeline import lanes
from explorer.views.parts_by_device import MAX_PARTS, device_chart
from explorer.views.payload.tracks import groups_of
from explorer.views.predicted_parts import predicted_spans
from explorer.views.renderers.text import text_of
from explorer.views.specification import ChartSpec, Label, Line, Own, Rect


@pytest.fixture(scope="module")
def compiled(sample_models):
    second = replace(load_target("cpu"), name="second")
    model = ex.load(sample_models / "digits_cnn.onnx")
    return ex.compile(model, target=["cpu", second], decisions={"assign/device/conv9": "second"})


def test_the_text_has_devices_prices_and_the_sum(compiled):
    text = text_of(placement(compiled.trace()), 120)
    assert "proven the least" in text
    assert "second alone" in text
    (row,) = [line for line in text.split("\n") if line.strip().startswith("conv9 ")]
    assert row.split()[1] == "second"
    assert "main_second" in text
    assert "where the cut" not in text  # titles are for those who hear them
    assert "×64" in text


def test_a_price_shows_its_source_and_a_refusal_its_reason(compiled):
    record = compiled.placement
    table = matrix(record)
    cell = table.rows[0].cells["on cpu"]
    assert cell.exact == "cost model"
    refused = replace(record.operations[0], prices=(), refusals=(("second", "it is too large"),))
    cell = matrix(replace(record, operations=(refused,))).rows[0].cells["on second"]
    assert (cell.text, cell.exact) == ("refused", "it is too large")


def test_a_saved_trace_shows_it_without_the_devices(compiled, tmp_path):
    compiled.save(tmp_path / "two.nnx")
    trace = open_trace(tmp_path / "two.nnx").trace()
    assert text_of(placement(trace), 120) == text_of(placement(compiled.trace()), 120)


def test_one_target_has_nothing_to_show(sample_models):
    alone = ex.compile(ex.load(sample_models / "digits_mlp.onnx"))
    with pytest.raises(ExplorerError, match="several targets"):
        alone.view("placement")


def test_a_device_has_a_lane_with_what_was_predicted_above_what_was_measured(compiled):
    compiled.profile(repeats=1)
    trace = compiled.trace()
    tracks = {track.name: track for track in groups_of(trace)[0].tracks}
    assert list(tracks) == ["cpu predicted", "cpu", "second predicted", "second"]
    parts = {part.function: part for part in compiled.placement.parts}
    spans = [s for name in ("cpu predicted", "second predicted") for s in tracks[name].spans]
    assert {span.name for span in spans} == parts.keys()
    for span in spans:
        assert span.length_ns == pytest.approx(1e3 * parts[span.name].predicted_us, abs=1)
    ordered = sorted(spans, key=lambda span: span.start_ns)
    assert [span.name for span in ordered] == list(parts)
    assert all(a.end_ns == b.start_ns for a, b in pairwise(ordered))
    drawn = lanes(trace).parts[0]
    words = [mark.text for mark in drawn.marks if isinstance(mark, Label)]
    assert [word for word in words if word in tracks] == list(tracks)


def test_a_value_is_sent_before_the_part_that_reads_it(compiled):
    trace = compiled.trace()
    record = compiled.placement
    sent = (
        transfer("image", "second", 4.0),
        transfer("pool1", "second", 5.0),
        transfer("dense2", "cpu", 6.0),
    )
    last = replace(record.parts[-1], device="second", operations=("dense2",))
    record = replace(record, transfers=sent, parts=(*record.parts[:-1], last))
    found = predicted_spans(with_placement(trace, record))
    names = [span.name for span in found]
    assert names[1:3] == ["image to second", "pool1 to second"]
    assert names[-1] == "dense2 to cpu" and found[-1].device == "cpu"
    assert [s.is_transfer for s in found] == [" to " in s.name for s in found]
    unknown = replace(record, parts=(replace(record.parts[0], predicted_us=None), last))
    assert predicted_spans(with_placement(trace, unknown)) == ()


def transfer(value, target, microseconds):
    return PlacedTransfer(
        value=value,
        source="",
        target=target,
        size_bytes=4,
        predicted_us=microseconds,
        price="given",
    )


def with_placement(trace, record):
    return replace(trace, parts={**trace.parts, PART: record})


def test_the_slider_has_a_place_for_every_bandwidth_and_begins_at_the_prices(compiled):
    record = compiled.placement
    (own,) = [p for p in placement(compiled.trace()).parts if isinstance(p, Own)]
    points = own.data["points"]
    assert len(points) == len(record.bandwidths)
    assert max(point["share"] for point in points) == 1.0
    assert record.bandwidths[own.data["start"]].factor == 1
    assert "transferred" in points[0]["words"] and "on second" in points[0]["words"]


def placed_part(function, device):
    return PlacedPart(
        function=function,
        device=device,
        operations=("conv1", "conv2"),
        predicted_us=3.0,
        arena_bytes=0,
        reason="",
    )


def test_functions_stand_in_columns_and_a_line_is_as_wide_as_its_value_is_large():
    parts = [placed_part("a", "cpu"), placed_part("b", "gpu"), placed_part("c", "cpu")]
    transfers = [
        Transfer("x", "", "a", 50),
        Transfer("v", "a", "b", 100),
        Transfer("w", "a", "c", 0),
        Transfer("y", "c", "", 25),
        Transfer("z", "unknown", "c", 7),
    ]
    chart = device_chart(parts, transfers)
    boxes = {mark.title[0]: mark for mark in chart.marks if isinstance(mark, Rect)}
    assert boxes["a"].x == boxes["c"].x < boxes["b"].x
    assert boxes["a"].y < boxes["b"].y < boxes["c"].y
    drawn = [mark for mark in chart.marks if isinstance(mark, Line)]
    assert [line.width for line in drawn] == [4.5, 8.0, 1.0, 2.75]
    beside = boxes["a"].x + boxes["a"].width
    assert max(x for x, _ in drawn[2].points) > beside  # past the boxes between them
    assert drawn[3].points[-1][1] > boxes["c"].y + boxes["c"].height
    assert chart.lines[2] == "a -> c: w, known at run time"


def test_of_many_functions_the_first_are_drawn():
    parts = [placed_part(f"f{number}", "cpu") for number in range(MAX_PARTS + 2)]
    chart = device_chart(parts, [Transfer("v", "f0", f"f{MAX_PARTS + 1}", 4)])
    assert sum(isinstance(mark, Rect) for mark in chart.marks) == MAX_PARTS
    assert "2 more functions" in chart.title and not chart.lines


def test_the_view_has_the_chart(compiled):
    charts = [p for p in placement(compiled.trace()).parts if isinstance(p, ChartSpec)]
    assert [len([m for m in c.marks if isinstance(m, Rect)]) for c in charts] == [3]
    assert "main_cpu -> main_second: " in "\n".join(charts[0].lines)
