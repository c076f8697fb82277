"""Errors and memory in a real browser: where a tensor is off, ties, and moving a buffer."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from explorer.accuracy.details import tensor_detail
from explorer.results import (
    AccuracyReport,
    Fault,
    NearTie,
    PassAccuracy,
    ProgramLookup,
    RefusedPlacement,
    TensorDetail,
    Trace,
)

pytestmark = pytest.mark.browser


def detail(broken: bool) -> TensorDetail:
    """Of a 1x4x4x4 tensor; when broken, with ten wrong elements and a NaN."""
    expected = np.linspace(-1, 2, 64, dtype=np.float32).reshape(1, 4, 4, 4)
    actual = expected.copy()
    if broken:
        actual[0, 1, 2] *= 1.5
        actual[0, 3, :, 0] += np.float32(1e-3)
        actual[0, 0, 0, 1] = np.nan
    found = tensor_detail(actual, expected)
    assert found is not None
    return found


def with_details(trace: Trace) -> Trace:
    """The same with a detail for every tensor: the broken one where the error is 0.5."""
    report = trace.accuracy
    assert report is not None

    def detailed(passes: tuple[PassAccuracy, ...]) -> tuple[PassAccuracy, ...]:
        return tuple(
            replace(
                p,
                tensors=tuple(replace(t, detail=int(t.max_relative == 0.5)) for t in p.tensors),
            )
            for p in passes
        )

    changed = replace(
        report,
        passes=detailed(report.passes),
        isolated=detailed(report.isolated),
        details=(detail(False), detail(True)),
    )
    return replace(trace, accuracy=changed)


@pytest.fixture(scope="module")
def faulty(trace: Trace, synthetic: ModuleType) -> Trace:
    return with_details(synthetic.with_fault(trace, "fuse-add", "Relu_7_out"))


def accuracy_of(trace: Trace) -> AccuracyReport:
    assert trace.accuracy is not None
    return trace.accuracy


def test_a_cell_shows_its_errors_and_is_followed(opened: Any, faulty: Trace):
    watched = opened(faulty, link="pass=2&dock=accuracy")
    page = watched.page
    side = page.locator(".heat-side")
    with watched.step("histograms and the worst elements"):
        page.get_by_role("button", name="Relu_7_out").click()
        page.wait_for_selector(".heat-side .histogram")
        expect(side).to_contain_text("1×4×4×4 float32")
        expect(side).to_contain_text("55 of 64 equal")
        expect(side.locator(".specials")).to_contain_text("1 NaN, reference none")
        rows = side.locator(".worst-elements tbody tr")
        expect(rows).to_have_count(8)
        assert rows.nth(0).inner_text().split("\t") == [
            "[0, 0, 0, 1]",
            "-0.952380955",
            "not a number",
            "∞",
        ]
        assert rows.nth(1).inner_text().startswith("[0, 1, 2, 3]")
        labels = [figure.get_attribute("aria-label") for figure in side.locator("svg").all()]
        assert labels[0].endswith("the histograms differ")
        assert labels[1].endswith("55 of 64 equal")
    with watched.step("a picked cell follows the passes and the mode"):
        page.locator(".detail-pass", has_text="after plan-memory, accumulated").wait_for()
        page.keyboard.press("k")
        page.locator(".detail-pass", has_text="after schedule-loops").wait_for()
        page.get_by_role("tab", name="isolated").first.click()
        page.locator(".detail-pass", has_text="isolated").wait_for()
        expect(page.locator(".detail-name")).to_have_text("Relu_7_out")
        page.get_by_role("tab", name="accumulated").first.click()
    with watched.step("the tab of tensors shows them too"):
        page.locator('.pass-row[data-pass="8"]').click()
        page.keyboard.press("6")
        page.wait_for_selector(".inspector .histogram")
        expect(page.locator(".inspector .histogram")).to_have_count(2)
        expect(page.locator(".inspector .worst-elements tbody tr")).to_have_count(8)
    assert watched.is_clean(), watched


def test_the_map_is_walked_with_the_keys_and_sorted(opened: Any, faulty: Trace):
    page = (watched := opened(faulty, link="pass=2&dock=accuracy")).page
    with watched.step("the arrow keys lead from cell to cell"):
        page.wait_for_selector(".heat-plot canvas")
        page.locator(".heat-frame").focus()
        page.keyboard.press("ArrowDown")
        page.locator(".detail-pass", has_text="after import").wait_for()
        first = page.locator(".detail-name").inner_text()
        page.keyboard.press("ArrowRight")
        page.locator(".detail-name", has_not_text=first).wait_for()
        page.keyboard.press("ArrowDown")
        # After passes[1] all errors are those of the import: both are one row.
        page.locator(".detail-pass", has_text=f"after {faulty.passes[2].name}").wait_for()
        page.get_by_title("back to the worst tensors").click()
        page.locator(".heat-side h3", has_text="worst tensors").wait_for()
    with watched.step("columns are sorted by their worst error"):
        page.locator('.pass-row[data-pass="8"]').click()
        worst = page.get_by_role("button", name="worst first")
        worst.click()
        box = page.locator(".heat-plot").bounding_box()
        page.mouse.click(box["x"] + 6, box["y"] + 14 * 5 + 7)
        page.locator(".detail-name", has_text="Relu_7_out").wait_for()
        expect(worst).to_have_attribute("aria-pressed", "true")
    assert watched.is_clean(), watched


def test_a_near_tie_is_told_from_an_error(opened: Any, trace: Trace):
    report = accuracy_of(trace)
    tie = NearTie("softmax_1", "best", 2, (0, 3), 4, 7, 3e-7)
    passes = tuple(replace(p, near_ties=(tie,), ties=("softmax_1",)) for p in report.passes)
    watched = opened(
        replace(trace, accuracy=replace(report, passes=passes)), link="pass=8&dock=accuracy"
    )
    page = watched.page
    page.get_by_role("button", name="best ≈").click()
    page.locator(".heat-side", has_text="near-tie of an index").wait_for()
    words = page.locator(".heat-side").inner_text()
    assert "2 elements differ" in words
    assert "[0, 3]" in words
    assert "3.0e-7" in words
    assert watched.is_clean(), watched


def test_the_pane_says_what_the_verdict_rests_on(opened: Any, trace: Trace):
    report = accuracy_of(trace)
    (output,) = report.outputs
    tie = NearTie("conv_7", "best", 1, (0, 3), 6, 7, 0.008, kind="rounding")
    passes = tuple(replace(p, near_ties=(tie,), ties=("conv_7",)) for p in report.passes)
    off = (replace(output, max_relative=0.27, as_exact=False),)
    told = replace(report, passes=passes, end_to_end=off, rests_on="isolated")
    watched = opened(replace(trace, accuracy=told), link="pass=8&dock=accuracy")
    page = watched.page
    page.locator(".heat-grounds", has_text="is off by 0.27 of its largest element").wait_for()
    page.get_by_role("button", name="best ≈").click()
    page.locator(".heat-side", has_text="tie of rounding").wait_for()
    assert "by one step of a quantized number" in page.locator(".heat-side").inner_text()
    assert watched.is_clean(), watched


def test_what_a_bisection_found_and_what_was_left_out_are_said(opened: Any, faulty: Trace):
    fault = Fault(
        pass_name="fuse-add",
        rule="add-into-conv",
        operation="fused_1",
        tensor="Relu_7_out",
        max_relative=0.5,
        address="fuse-add/x/y",
    )
    report = accuracy_of(faulty)
    bare = tuple(
        replace(p, tensors=tuple(replace(t, detail=None) for t in p.tensors)) for p in report.passes
    )
    report = replace(report, fault=fault, passes=bare, details_left_out=12)
    page = opened(replace(faulty, accuracy=report), link="pass=2&dock=accuracy").page
    page.locator(".fault", has_text="guilty: add-into-conv at fused_1").wait_for()
    expect(page.get_by_role("button", name="bisect")).to_have_count(0)
    expect(page.get_by_role("button", name="fork without it")).to_have_count(0)
    page.get_by_role("button", name="Relu_7_out").click()
    page.locator(".heat-side", has_text="12 with smaller errors are left out").wait_for()
    expect(page.locator(".heat-side")).to_contain_text("[0, 2, 3, 5]")


# -- memory ----------------------------------------------------------------------------------------


def center(page: Any, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def overlapping(trace: Trace, name: str, offset: int) -> list[str]:
    """Buffers that share bytes and steps with a buffer at an offset, in the plan's order."""
    assert trace.memory is not None
    (moved,) = [p.buffer for p in trace.memory.placements if p.buffer.id == name]
    return [
        p.buffer.id
        for p in trace.memory.placements
        if p.buffer.id != name
        and p.buffer.first < moved.last
        and moved.first < p.buffer.last
        and p.offset_bytes < offset + moved.size_bytes
        and offset < p.offset_bytes + p.buffer.size_bytes
    ]


def test_a_buffer_is_moved_and_a_page_says_that_it_cannot_plan(opened: Any, trace: Trace):
    assert trace.memory is not None
    refusals = (RefusedPlacement("fused_1", 0, "conv_1", 4096),)
    key = (("compiler", "/usr/bin/cc <gcc>"), ("source", "12"))
    lookups = (
        ProgramLookup(
            name="net",
            digest="cd" * 32,
            tier="source",
            reason="it was not compiled before",
            seconds=1.5,
            key=key,
        ),
        ProgramLookup(
            name="net", digest="cd" * 32, tier="folder", reason="", seconds=0.002, key=key
        ),
    )
    memory = replace(trace.memory, refusals=refusals)
    refused = replace(trace, memory=memory, lookups=lookups)
    watched = opened(refused, link="pass=8&dock=memory&selection=conv_1")
    page = watched.page
    with watched.step("the chosen strategy is marked"):
        rows = page.locator(".dock table[aria-label='strategies'] tbody tr")
        rows.first.wait_for()
        names = [row.locator("td").all_inner_texts() for row in rows.all()]
        assert [[text.strip() for text in cells] for cells in names] == [
            ["✓", "by size", "32 KiB"],
            ["", "by time", "36 KiB"],
        ]
    with watched.step("a dragged buffer shows what it overlaps"):
        x, y = center(page, '.buffer.marked[data-buffer="conv_1"]')
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 12, steps=3)
        page.wait_for_selector(".ghost")
        offset = int(page.locator(".ghost").get_attribute("data-offset"))
        assert offset % 64 == 0
        names = overlapping(trace, "conv_1", offset)
        assert "fused_1" in names
        expect(page.locator(".overlap")).to_have_count(len(names))
        label = page.locator(".ghost-label").inner_text()
        moved, listed = label.split(" at byte ", 1)
        listed = listed.split(": overlaps ", 1)[1].removesuffix(", to be placed anew").split(", ")
        sources = {node.id: node.sources for s in trace.snapshots for node in s.graph.nodes}
        assert moved in sources["conv_1"], "buffers are called by nodes of the file"
        assert [a in sources[b] for a, b in zip(listed, names, strict=True)] == [True] * len(names)
        page.mouse.up()
        page.locator(".drop-note", has_text="This page has no compiler").wait_for()
        expect(page.locator(".drop-note")).to_contain_text("PinnedPlanner")
        expect(page.locator(".ghost")).to_have_count(0)
    with watched.step("a buffer is moved with the keys"):
        page.locator(".memory-plot").focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Shift+ArrowUp")
        page.wait_for_selector('.ghost[data-offset="1088"]')
        page.keyboard.press("ArrowDown")
        page.wait_for_selector('.ghost[data-offset="1024"]')
        page.keyboard.press("Escape")
        page.wait_for_selector(".ghost", state="detached")
        expect(page.locator(".subject h2")).to_have_text("conv_1")
        page.keyboard.press("ArrowRight")
        page.locator('.buffer.marked:not([data-buffer="conv_1"])').wait_for()
    with watched.step("a refused place is drawn while it is pointed at"):
        row = page.locator(".refusals button")
        assert row.inner_text().split() == ["byte", "0", "Conv_0", "4", "KiB"]
        row.hover()
        page.wait_for_selector('.ghost.refused[data-offset="0"]')
        expect(page.locator(".ghost-label")).to_contain_text("4 KiB of it are Conv_0")
        page.mouse.move(5, 5)
        page.wait_for_selector(".ghost", state="detached")
    with watched.step("which tier of the cache answered, and why the program was built"):
        page.keyboard.press("p")
        tiers = page.get_by_role("table", name="where the program is looked for, in order")
        expect(tiers.get_by_role("row", name="had it after")).to_contain_text("folder on disk")
        expect(page.locator(".specification")).to_contain_text("it was not compiled before")
        expect(page.locator(".key-parts")).to_contain_text("/usr/bin/cc <gcc>")
        rows = page.locator('table[aria-label="look-ups of the program"] tbody tr')
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("2 ms")
    assert watched.is_clean(), watched
