"""What a verdict rests on, and where a wrong program is looked at first, in a real browser."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import AccuracyReport, Fault, TensorError, Trace

pytestmark = pytest.mark.browser


def report_of(trace: Trace) -> AccuracyReport:
    assert trace.accuracy is not None
    return trace.accuracy


@pytest.fixture(scope="module")
def faulty(trace: Trace, synthetic: ModuleType) -> Trace:
    return synthetic.with_fault(trace, "fuse-add", "Relu_7_out")


@pytest.fixture(scope="module")
def exact(trace: Trace) -> Trace:
    """One tensor is 0.012 from the oracle, which is 0.0121 from float64: ours is 5e-6 from it."""
    report = report_of(trace)

    def judged(error: TensorError) -> TensorError:
        if error.tensor != "Relu_2_out":
            return error
        return replace(error, max_relative=0.012, from_exact=5e-6, reachable=0.0121, as_exact=True)

    passes = tuple(replace(p, tensors=tuple(map(judged, p.tensors))) for p in report.passes)
    return replace(trace, accuracy=replace(report, passes=passes))


def test_the_number_that_is_shown_is_the_one_that_is_judged(opened: Any, exact: Trace):
    watched = opened(exact, link="pass=8&dock=accuracy")
    page = watched.page
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("within tolerance")
    expect(page.locator(".totals")).to_contain_text(
        "worst layer5.0e-6 of 1.0e-4 allowed, from float64"
    )
    assert "differs by 0.012" in verdict.get_attribute("title")
    expect(page.locator(".passes")).to_contain_text("worst tensor 5.0e-6 of 1.0e-4 allowed")
    row = page.locator(".heat-side .worst", has_text="Relu_2_out")
    expect(row).to_contain_text("0.012")
    expect(row).to_contain_text("5.0e-6 of 1.0e-4 allowed, from float64")
    assert watched.is_clean(), watched


def test_a_wrong_program_opens_where_it_is_wrong(opened: Any, faulty: Trace):
    watched = opened(faulty, start=None)
    page = watched.page
    with watched.step("at the pass, the errors and the operation"):
        watched.expect_pass("fuse-add")
        expect(page.locator('.dock .tab[aria-selected="true"]').first).to_have_text("accuracy")
        expect(page.locator(".subject h2")).to_have_text("fused_1")
    with watched.step("passes with equal errors are one row of the map"):
        page.locator('.pass-row[data-pass="7"]').click()
        rows = page.locator(".heat-labels li")
        expect(rows.first).to_contain_text("import")
        expect(rows.first.locator(".fold-count")).to_have_text("+1")
        folded = rows.count()
        assert folded < len(faulty.passes)
        # remove-dead has the errors of fuse-add, whose row it shares.
        current = page.locator(".heat-labels [aria-current]")
        expect(current).to_have_text("fuse-add")
        page.get_by_role("button", name="all passes").click()
        expect(rows).to_have_count(len(report_of(faulty).passes))
        expect(current).to_have_text("remove-dead")
    assert watched.is_clean(), watched


@pytest.mark.sweep  # tests/javascript/first_place.test.mjs
def test_what_a_bisection_blamed_goes_before_the_first_wrong_pass(opened: Any, faulty: Trace):
    fault = Fault(
        pass_name="fuse-activation",
        rule="fuse-relu",
        operation="conv_1",
        tensor="Relu_2_out",
        max_relative=0.5,
    )
    blamed = replace(faulty, accuracy=replace(report_of(faulty), fault=fault))
    watched = opened(blamed, start=None)
    watched.expect_pass("fuse-activation")
    expect(watched.page.locator(".subject h2")).to_have_text("conv_1")


@pytest.mark.sweep  # tests/javascript/first_place.test.mjs
def test_a_link_goes_before_the_fault(opened: Any, faulty: Trace):
    watched = opened(faulty, link="pass=2&dock=memory")
    watched.expect_pass(faulty.passes[2].name)
    page = watched.page
    expect(page.locator('.dock .tab[aria-selected="true"]').first).to_have_text("memory")


def test_the_first_wrong_row_is_in_sight(opened: Any, trace: Trace, synthetic: ModuleType):
    """Also in a dock that has room for few rows."""
    late = synthetic.with_fault(trace, "schedule-loops", "Relu_7_out")
    watched = opened(late, start=None)
    page = watched.page
    page.wait_for_selector(".heat-plot canvas")
    page.locator(".splitter.horizontal").dblclick()  # as small as it goes
    page.reload()
    page.wait_for_selector(".row-mark")
    map_box = page.locator(".heat-scroll").bounding_box()
    row_box = page.locator(".heat-labels [aria-current]").bounding_box()
    assert row_box["y"] + row_box["height"] <= map_box["y"] + map_box["height"] + 1
    heads = page.locator(".heat-head").bounding_box()
    assert heads["height"] >= 16
    assert abs(heads["y"] - map_box["y"]) < 2
