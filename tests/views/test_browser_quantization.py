"""Layers by what quantizing costs them, and thresholds over histograms, in a real browser."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer
from explorer.results import Trace
from explorer.results.runs.sensitivity import (
    MixedPoint,
    MixedPrecision,
    Quality,
    TensorSensitivity,
)
from explorer.views.quantized_rows import rows

pytestmark = pytest.mark.browser

SHOWN = ".dock aside h3"
LAYERS = ".dock table[aria-label='layers by what quantizing them costs']"


@pytest.fixture(scope="module")
def quantized() -> Trace:
    digits = np.load("sample_models/digits_test.npz")["images"]
    model = explorer.load("sample_models/digits_mlp.onnx")
    name = model.inputs[0].name
    c = explorer.compile(model, quantization=explorer.calibrate(model, {name: digits[:4]}))
    c.accuracy({name: digits[200:201]})
    return c.trace()


def plotted(trace: Trace) -> int:
    """The first row that has a threshold."""
    return next(place for place, row in enumerate(rows(trace)) if row.tensor is not None)


def test_layers_are_shown_by_what_quantizing_costs(opened: Any, quantized: Trace):
    watched = opened(quantized, link="pass=8&dock=quantization")
    page = watched.page
    found = rows(quantized)
    row = found[plotted(quantized)]
    assert row.tensor is not None
    assert quantized.accuracy is not None and quantized.accuracy.quantization is not None
    costliest = quantized.accuracy.quantization.costliest
    assert costliest is not None
    line = page.locator(".dock p", has_text="costs the outputs most")
    with watched.step("next to the verdict: how far the outputs are from the float model"):
        worst = min(quantized.accuracy.float_outputs, key=lambda output: output.sqnr_db)
        fact = page.locator(".facts-row .fact", has_text="against source")
        expect(fact).to_contain_text(f"{worst.sqnr_db:.0f} dB")
        assert worst.tensor in fact.get_attribute("title")
    with watched.step("the costliest layer is shown with its histogram"):
        watched.expect_names(f"{LAYERS} td:first-child", [row.name for row in found])
        expect(page.locator(SHOWN)).to_have_text(row.name)
        assert page.locator(".threshold .bars").get_attribute("d").count("z") > 20
        methods = page.locator("table[aria-label='thresholds of all methods'] tbody tr")
        expect(methods).to_have_count(7)
        expect(page.locator(".candidate-mark")).not_to_have_count(0)
        expect(page.locator(".dock .chart .hover")).not_to_have_count(0)
    with watched.step("a threshold that is moved says what it costs and how to fork"):
        grip = page.locator(".threshold-end .grip").first
        box = grip.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] - 120, box["y"] + 40, steps=3)
        words = page.locator(".threshold-words")
        expect(words).to_contain_text("times that of now")
        page.mouse.up()
        address = f"quantize-tensors/threshold/{row.tensor.name}"
        said = page.locator(".threshold-plot .action-said")
        expect(said).to_contain_text(f'c.fork(decisions={{"{address}": ')
        asked = float(said.inner_text().rsplit(": ", 1)[1].rstrip("})"))
        assert 0 < asked < row.tensor.threshold
        end = page.locator(".threshold-end").first
        end.focus()
        end.press("ArrowLeft")
        expect(words).to_contain_text("times that of now")
        page.locator(".threshold-end").first.press("Escape")
        expect(words).to_contain_text("drag the end")
    with watched.step("another layer is chosen"):
        page.locator(f"{LAYERS} tbody tr", has_text="image").click()
        expect(page.locator(SHOWN)).to_have_text("image")
    with watched.step("the layer that costs most is named with the fork that keeps it float"):
        keep_float(page, line, costliest)
        line.get_by_role("button", name="show").click()
        expect(page.locator(SHOWN)).to_have_text(costliest.tensor)
    with watched.step("in the pane of errors, too"):
        page.keyboard.press("a")
        keep_float(page, line, costliest)
    with watched.step("errors against the float model are a choice of the map"):
        page.get_by_role("tab", name="against float").click()
        expect(page.locator(".heat-scale")).to_contain_text("not judged")
        expect(page.locator(".heat-labels li").first).to_contain_text("round-weights")
        expect(page.get_by_role("tab", name="SQNR")).to_have_attribute("aria-selected", "true")
        page.locator(".heat-side .worst").first.click()
        side = page.locator(".heat-side")
        expect(side).to_contain_text("Histograms are kept of the other two")
    with watched.step("the graph is coloured by what quantizing costs"):
        place = [record.name for record in quantized.passes].index("fuse-quantization")
        page.get_by_role("slider", name="pass", exact=True).fill(str(place + 1))
        page.get_by_role("tab", name="after").click()
        for overlay, unit in (("sqnr", "dB"), ("layer", "dB"), ("saturation", "%")):
            page.get_by_label("colour of operations").select_option(overlay)
            expect(page).to_have_url(re.compile(f"overlay={overlay}"))
            expect(page.locator(".overlay .worst").first).to_contain_text(unit)
    with watched.step("an operation that is not here yet has its nodes and its stand-in's"):
        place = [step.name for step in quantized.passes].index("compute-in-integers")
        nodes = {node.id: set(node.sources) for node in quantized.snapshots[place].graph.nodes}
        last = quantized.snapshots[-1].graph.nodes
        own = next(n for n in last if n.id not in nodes and len(n.sources) > 1)
        shared = [sources for sources in nodes.values() if sources & set(own.sources)]
        assert set().union(*shared) > set(own.sources)  # others have come of more nodes
        page = opened(quantized, link=f"pass={place}&selection={own.id}").page
        expect(page.locator(".subject .hint")).to_contain_text(f"{own.id} stands here as")
        stand_in = page.locator(".subject h2").inner_text()
        chips = page.locator(".subject .chip.origin").all_inner_texts()
        assert set(chips) == nodes[stand_in] | set(own.sources)
    assert watched.is_clean(), watched


def keep_float(page: Any, line: Any, costliest: Any) -> None:
    """Presses the first button that keeps a layer float, and reads what it would do."""
    named = f"by bisection: {costliest.tensor}, {costliest.alone_db:.1f} dB"
    expect(line).to_contain_text(named)
    page.get_by_role("button", name="keep it float").first.click()
    said = page.locator(".dock .action").first
    expect(said).to_contain_text(f'c.fork(decisions={{"{costliest.address}": "F32"}})')


@pytest.fixture(scope="module")
def searched(quantized: Trace) -> Trace:
    """With a search for modes of which the first tensor is the noisiest."""
    record = quantized.quantization
    assert record is not None
    names = [tensor.name for tensor in record.tensors]

    def quality(sqnr_db: float) -> Quality:
        return Quality(sqnr_db=sqnr_db, differ=0, accuracy=97.5)

    points = tuple(
        MixedPoint(
            modes=dict.fromkeys(names[:k], "F32"), cost=1 + k, quality=quality(30 + k), is_best=True
        )
        for k in range(len(names) + 1)
    )
    found = MixedPrecision(
        model="digits_mlp",
        wanted="SQNR 31 dB",
        examples=20,
        exact=quality(float("inf")),
        tensors=tuple(
            TensorSensitivity(
                tensor=name,
                macs=1,
                alone=quality(40 + k),
                without=quality(34 - k),
                wide=quality(33 - k),
            )
            for k, name in enumerate(names)
        ),
        points=points,
        chosen=1,
        seconds=1,
    )
    return replace(quantized, quantization=replace(record, precision=found))


def test_sensitivity_and_the_front_are_drawn_and_a_point_can_be_compiled(
    opened: Any, searched: Trace
):
    record = searched.quantization
    assert record is not None and record.precision is not None
    watched = opened(searched, link="pass=8&dock=sensitivity")
    page = watched.page
    names = [tensor.tensor for tensor in record.precision.tensors]
    tensors = page.locator("table[aria-label='tensors by what their bytes cost the outputs']")
    expect(tensors.locator("tbody tr")).to_have_count(len(names))
    front = page.locator(".chart[aria-label^='choices of modes'] circle[role=button]")
    expect(front).to_have_count(len(record.precision.points))
    aside = page.locator(".with-details aside")
    expect(aside.locator("h3")).to_have_text("31.00 dB, 2.00 times INT8")
    expect(aside).to_contain_text("chosen")
    page.get_by_role("button", name="compile these modes").click()
    address = f"quantize-tensors/mode/{names[0]}"
    expect(aside.locator(".action-said")).to_contain_text(
        f'c.fork(decisions={{"{address}": "F32"}})'
    )
    front.nth(0).press("Enter")
    expect(aside.locator("h3")).to_have_text("30.00 dB, 1.00 times INT8")
    expect(aside).to_contain_text("this program")
    expect(page.get_by_role("button", name="compile these modes")).to_have_count(0)
    tensors.locator("tbody tr").nth(1).click()
    expect(tensors.locator("tr.marked")).to_contain_text(names[1])
    assert watched.is_clean(), watched


BOXES = """names => names.map((name) => {
  const {left, right, top, bottom} = name.getBoundingClientRect();
  return [left, right, top, bottom];
})"""


@pytest.mark.sweep  # tests/javascript/quantization.test.mjs has many more
@pytest.mark.parametrize("apart", [0.002, 0.02, 0.05])
def test_names_of_thresholds_near_one_another_do_not_touch(
    opened: Any, quantized: Trace, apart: float
):
    record = quantized.quantization
    assert record is not None
    row = next(row for row in rows(quantized) if row.tensor is not None)
    assert row.tensor is not None and row.tensor.observed is not None
    seen = row.tensor.observed
    near = [
        replace(c, low=0.0, high=row.tensor.high * (1 - apart * place))
        for place, c in enumerate(seen.candidates)
    ]
    crowded = replace(row.tensor, observed=replace(seen, candidates=tuple(near)))
    tensors = tuple(crowded if t.name == crowded.name else t for t in record.tensors)
    trace = replace(quantized, quantization=replace(record, tensors=tensors))
    page = opened(trace, link="pass=8&dock=quantization").page
    expect(page.locator(SHOWN)).to_have_text(row.name)
    expect(page.locator(".candidate-name")).not_to_have_count(0)
    boxes = page.locator(".candidate-name").evaluate_all(BOXES)
    for place, (left, right, top, bottom) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            is_beside = left >= other[1] + 2 or right + 2 <= other[0]
            assert is_beside or top >= other[3] or bottom <= other[2], (boxes, place)
