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


def test_nodes_of_the_model_rules_and_blocks_are_linked(opened: Any, trace: Trace):
    text = SourceText(
        "python", ("class FoldIntoConv(Rule):", '    """batch_norm(...)"""'), ((), ())
    )
    known = replace(trace, rules=(RuleRecord("fold-into-conv", text),))
    watched = opened(known, link="pass=4&selection=conv_1&tab=model")
    page = watched.page
    with watched.step("the nodes that a selection comes from are marked"):
        page.wait_for_selector(".line.marked")
        assert watched.names(".line.marked") == [
            "Conv(images, weight_1) -> conv_1",
            "BatchNormalization(conv_1) -> norm_1",
        ]
    with watched.step("a rule shows its text"):
        page.keyboard.press("J")
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
    with watched.step("a rewrite names what it matched and made"):
        page.locator('.pass-row[data-pass="6"]').click()
        page.keyboard.press("J")
        watched.expect_names(".rewrite-card .chip", ["add_1", "fused_1"])
        page.locator(".rewrite-card .chip", has_text="add_1").hover()
        page.wait_for_selector('.node.hovered[data-id="add_1"]')
    with watched.step("without its text a rule names its file"):
        page.locator(".rewrite-card .rule-link").click()
        expect(dialog).to_contain_text("does not hold the text of the rule")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    with watched.step("a node leads to its operation"):
        page.locator('.pass-row[data-pass="8"]').click()
        page.keyboard.press("0")
        page.locator(".inspector .line", has_text="Gemm(").click()
        page.wait_for_selector('.node.selected[data-id="matmul_1"]')
        expect(page.locator(".subject h2")).to_have_text("matmul_1")
    with watched.step("a closed block shows that something inside is hovered"):
        page.locator('.pass-row[data-pass="2"]').click()
        page.keyboard.press("2")
        page.locator(".blocks-switch").click()
        page.wait_for_selector(".node.block")
        page.locator(".inspector .line", has_text="%norm_2 = ").hover()
        page.wait_for_selector(".node.block.hovered")
        expect(page.locator(".node.hovered")).to_have_count(1)
    assert watched.is_clean(), watched


def test_hovering_leads_from_level_to_level(opened: Any, trace: Trace):
    watched = opened(trace, link="pass=2&tab=model&beside=true")
    page = watched.page
    hovered = f"{LOWER} .line.hovered"
    with watched.step("a node scrolls the IR to its operation"):
        page.wait_for_selector(f"{LOWER} .line")
        limit = page.locator(f"{LOWER} .code")
        limit.evaluate("pane => { pane.style.maxHeight = '72px'; }")
        page.locator(f"{UPPER} .line", has_text="Softmax(").hover()
        page.wait_for_selector(hovered)
        assert watched.names(hovered)[0].startswith("%softmax_1 = ")
        watched.wait_until("document.querySelector('.tab-body.beside .code').scrollTop > 0")
        assert is_in_sight(page, hovered)
        limit.evaluate("pane => { pane.style.maxHeight = ''; }")
    with watched.step("IR marks the loops of its operation"):
        page.locator('.pass-row[data-pass="8"]').click()
        page.locator('.node[data-id="conv_1"]').click()
        page.keyboard.press("2")
        page.wait_for_selector(f"{LOWER} .line")
        page.locator(f"{UPPER} .line:not(.removed)", has_text="%conv_1 = ").hover()
        page.wait_for_selector(hovered)
        assert any("arith.mulf" in line for line in watched.names(hovered))
        page.locator(f"{UPPER} .line:not(.removed)", has_text="%conv_3 = ").hover()
        page.wait_for_selector(hovered, state="detached")
    with watched.step("a statement marks the nodes it comes from"):
        page.keyboard.press("4")
        page.locator(f"{UPPER} .line", has_text="sum += ").hover()
        page.wait_for_selector('.node.hovered[data-id="conv_1"]')
    with watched.step("the share of linked lines is said with what is missing"):
        page.wait_for_selector(".link-share.low")
        summary = page.locator(".link-share summary")
        expect(summary).to_have_text("linked 50 %, program 50 %: below the aim")
        summary.click()
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
    assert watched.is_clean(), watched


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
