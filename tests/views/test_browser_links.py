"""From the model's node to the instruction and back, in a real browser: hovering, shares, rules."""

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import RuleRecord, SourceText, Trace

pytestmark = pytest.mark.browser

UPPER, LOWER = ".tab-body:not(.beside)", ".tab-body.beside"


def is_in_sight(page: Any, selector: str) -> bool:
    """Whether the first element lies within its pane of code."""
    return page.locator(selector).first.evaluate(
        """line => {
          const pane = line.closest('.code').getBoundingClientRect();
          const box = line.getBoundingClientRect();
          return box.top >= pane.top - 1 && box.bottom <= pane.bottom + 1;
        }"""
    )


def test_the_nodes_that_a_selection_comes_from_are_marked(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=4&selection=conv_1&tab=model")
    watched.page.wait_for_selector(".line.marked")
    assert watched.names(".line.marked") == [
        "Conv(images, weight_1) -> conv_1",
        "BatchNormalization(conv_1) -> norm_1",
    ]
    assert watched.is_clean(), watched


def test_a_node_leads_to_its_operation(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=8&tab=model")
    page = watched.page
    page.locator(".inspector .line", has_text="Gemm(").click()
    page.wait_for_selector('.node.selected[data-id="matmul_1"]')
    expect(page.locator(".subject h2")).to_have_text("matmul_1")


def test_hovering_a_node_scrolls_the_next_level_to_its_operation(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=2&tab=model&beside=true")
    page = watched.page
    page.wait_for_selector(f"{LOWER} .line")
    page.locator(f"{LOWER} .code").evaluate("pane => { pane.style.maxHeight = '72px'; }")
    line = f"{LOWER} .line.hovered"
    page.locator(f"{UPPER} .line", has_text="Softmax(").hover()
    page.wait_for_selector(line)
    assert watched.names(line)[0].startswith("%softmax_1 = ")
    watched.wait_until("document.querySelector('.tab-body.beside .code').scrollTop > 0")
    assert is_in_sight(page, line)


def test_hovering_the_ir_marks_the_loops_of_its_operation(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=8&selection=conv_1&tab=ir&beside=true")
    page = watched.page
    page.wait_for_selector(f"{LOWER} .line")
    page.locator(f"{UPPER} .line:not(.removed)", has_text="%conv_1 = ").hover()
    page.wait_for_selector(f"{LOWER} .line.hovered")
    assert any("arith.mulf" in line for line in watched.names(f"{LOWER} .line.hovered"))
    page.locator(f"{UPPER} .line:not(.removed)", has_text="%conv_3 = ").hover()
    page.wait_for_selector(f"{LOWER} .line.hovered", state="detached")


def test_hovering_a_statement_marks_the_nodes_it_comes_from(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=8&selection=conv_1&tab=c&beside=true")
    page = watched.page
    page.locator(f"{UPPER} .line", has_text="sum += ").hover()
    page.wait_for_selector('.node.hovered[data-id="conv_1"]')


def test_a_closed_block_shows_that_something_inside_is_hovered(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=2&blocks=true&tab=ir")
    page = watched.page
    page.wait_for_selector(".node.block")
    page.locator(".inspector .line", has_text="%norm_2 = ").hover()
    page.wait_for_selector(".node.block.hovered")
    expect(page.locator(".node.hovered")).to_have_count(1)


def test_the_share_of_linked_lines_is_said_with_what_is_missing(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=8&selection=conv_1&tab=c")
    page = watched.page
    page.wait_for_selector(".link-share.low")
    expect(page.locator(".link-share summary")).to_have_text(
        "linked 50 %, program 50 %: below the aim"
    )
    page.locator(".link-share summary").click()
    expect(page.locator(".link-table tbody tr")).to_have_count(4)
    rows = [row.split("\t") for row in watched.names(".link-table tbody tr")]
    assert [row[0] for row in rows] == [
        "model, nodes", "IR (top), lines", "loops, lines", "source, lines",
    ]  # fmt: skip
    assert rows[3][1:] == ["50 % of 12", "50 % of 84", "95 %"]
    expect(page.locator(".link-table")).to_contain_text("conv_1: static void conv_1(")
    page.keyboard.press("Escape")
    expect(page.locator(".link-table")).to_be_hidden()
    expect(page.locator(".subject h2")).to_have_text("conv_1")


def test_a_rule_shows_its_text(opened: Any, trace: Trace):
    text = SourceText(
        "python", ("class FoldIntoConv(Rule):", '    """batch_norm(...)"""'), ((), ())
    )
    known = replace(trace, rules=(RuleRecord("fold-into-conv", text),))
    watched = opened(known, link="pass=4&rewrite=0")
    page = watched.page
    page.locator(".rewrite-card .rule-link").click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    assert watched.names(".dialog .line")[0] == "class FoldIntoConv(Rule):"
    expect(dialog).to_contain_text("explorer/passes/fold_batch_norm.py:31")
    page.keyboard.press("j")
    watched.expect_pass("fold-batch-norm")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert page.evaluate("document.activeElement.className").endswith("rule-link")
    assert watched.is_clean(), watched


def test_without_its_text_a_rule_says_where_it_stands(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=4&rewrite=0")
    watched.page.locator(".rewrite-card .rule-link").click()
    expect(watched.page.get_by_role("dialog")).to_contain_text("does not hold the text of the rule")


def test_a_rewrite_names_what_it_matched_and_made(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=6&rewrite=0")
    page = watched.page
    page.wait_for_selector(".rewrite-card")
    watched.expect_names(".rewrite-card .chip", ["add_1", "fused_1"])
    page.locator(".rewrite-card .chip", has_text="add_1").hover()
    page.wait_for_selector('.node.hovered[data-id="add_1"]')


def test_no_hover_text_holds_a_whole_page(opened: Any, synthetic: Any):
    watched = opened(synthetic.make_trace(mark="x" * 10_000), link="pass=4&selection=conv_1")
    page = watched.page
    for key in ("0", "2", "4", "6", "a", "t", "J"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('*')].flatMap("
        "e => ['title', 'aria-label'].map(name => (e.getAttribute(name) ?? '').length)))"
    )
    assert 0 < longest <= 600
    assert watched.is_clean(), watched
