"""Running through the passes in a real browser: what is left out, folded, and drawn anew."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace

pytestmark = pytest.mark.browser


def test_passes_are_left_out_and_what_stays_is_drawn_as_it_was(opened: Any, trace: Trace):
    watched = opened(trace, start=2)
    page = watched.page
    with watched.step("passes that changed nothing are left out on request"):
        page.keyboard.press("u")
        page.wait_for_selector('.pass-row[data-pass="3"]', state="detached")
        assert "infer-shapes" not in watched.names(".passes .pass-name")
        page.keyboard.press("j")
        watched.expect_pass("fold-batch-norm")
        page.keyboard.press("k")
        watched.expect_pass("remove-identities")
        page.get_by_role("slider", name="pass", exact=True).fill("3")
        assert watched.current_pass() in ("remove-identities", "fold-batch-norm")
        expect(page).to_have_url(re.compile(re.escape("onlyChanges=true")))
        page.get_by_role("button", name="only passes that changed something").click()
        page.locator(".passes .pass-name", has_text="infer-shapes").wait_for()
    with watched.step("an edge between the same places is not drawn as new"):
        # fuse-add puts fused_1 where conv_2 stood: what leads there leads there still.
        page.get_by_role("slider", name="pass", exact=True).fill("6")
        page.wait_for_selector('.node.ghost[data-id="conv_2"]')
        edges = dict(
            page.evaluate(
                "[...document.querySelectorAll('.edge')]"
                ".map(e => [e.dataset.edge.replace('\\n', ' > '), e.getAttribute('class')])"
            )
        )
        assert edges["conv_1 > fused_1"].split() == ["edge"]
        assert "conv_1 > conv_2" not in edges
        # What added the two is gone, and so is the way to it.
        assert "removed" in edges["conv_2 > add_1"]
        assert "added" in edges["fused_1 > conv_3"]
    with watched.step("what this pass has is found first"):
        page.get_by_role("slider", name="pass", exact=True).fill("11")
        watched.expect_pass("plan-memory")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("Relu_7")
        page.wait_for_selector(".hit")
        watched.expect_names(".hit .mono", ["fused_1", "add_1", "relu_2"])
        elsewhere = [note.startswith("in another pass") for note in watched.names(".hit .hit-note")]
        assert elsewhere == [False, True, True]
        page.keyboard.press("Escape")
    with watched.step("a pane gets small and large again"):
        dock = page.locator(".dock")
        before = dock.bounding_box()["height"]
        bar = page.get_by_role("separator", name="height of the dock")
        bar.dblclick()
        assert dock.bounding_box()["height"] == 144, "its tabs and some lines"
        bar.focus()
        page.keyboard.press("Enter")
        assert abs(dock.bounding_box()["height"] - before) < 2
    assert watched.is_clean(), watched


def test_unchanged_passes_unfold_and_fold_again(opened: Any, synthetic: Any):
    watched = opened(synthetic.make_trace(fused=False), start=2)
    page = watched.page
    fold = page.locator(".fold button")
    expect(fold).to_have_text("3 unchanged")
    fold.click()
    page.locator(".passes .pass-name", has_text="fuse-add").wait_for()
    expect(fold).to_have_attribute("aria-expanded", "true")
    fold.click()
    page.locator(".passes .pass-name", has_text="fuse-add").wait_for(state="detached")


def test_what_the_current_pass_did_is_in_sight(watched: Any, trace: Trace, opened: Any):
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 600})
    last = max(index for index, record in enumerate(trace.passes) if record.events)
    opened(trace, start=last)
    button = page.locator(".pass.current").get_by_role("button", name="one by one")
    expect(button).to_be_in_viewport(ratio=1)
    row = page.locator('.pass-row[aria-current="step"]')
    page.get_by_role("slider", name="pass", exact=True).fill("0")
    expect(row).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.scrollingElement.scrollTop") == 0
    assert watched.is_clean(), watched
