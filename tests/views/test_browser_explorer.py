"""The explorer in a real browser, as an offline page: passes, graph, inspector, links."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace
from explorer.views.module import explorer_module
from explorer.views.page import script_data
from explorer.views.trace_payload import chunk_messages, encode, trace_payload

pytestmark = pytest.mark.browser


WIDER = """[...document.querySelectorAll('.topbar, .pane, .pane-head, .tab-bar')]
  .filter((part) => part.scrollWidth > part.clientWidth + 1 ||
    part.getBoundingClientRect().right > innerWidth + 1)
  .map((part) => part.className)"""


def test_a_first_look(watched: Any, trace: Trace, opened: Any):
    page = watched.page
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1100, "height": 700})
    opened(trace, start=None)
    with watched.step("it opens at the pass that fused most"):
        watched.expect_pass("fold-batch-norm")
        assert page.locator(".verdict").inner_text().split("\n")[:1] == ["≈"]
        expect(page.locator(".verdict")).to_contain_text("within tolerance")
    with watched.step("the theme follows the system and the switch"):
        expect(page.locator(".explorer")).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name="switch between light and dark").click()
        expect(page.locator(".explorer")).to_have_attribute("data-theme", "light")
    with watched.step("nothing is wider than the screen"):
        assert page.evaluate(WIDER) == [], "1100 pixels"
        page.set_viewport_size({"width": 1440, "height": 700})
        assert page.evaluate(WIDER) == [], "1440 pixels"
    with watched.step("help lists the keys and closes"):
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("next pass, pass before")
        expect(page.locator(".help-list")).to_contain_text("in the timeline")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    with watched.step("search leads to an operation"):
        page.keyboard.press("/")
        page.keyboard.type("Gemm_13")
        page.wait_for_selector(".hit")
        page.keyboard.press("Enter")
        page.wait_for_selector('.node.selected[data-id="matmul_1"]')
    with watched.step("a small graph is drawn operation by operation"):
        expect(page.locator(".blocks-switch")).to_have_attribute("aria-pressed", "false")
    with watched.step("without float64 the error and the tolerance are shown"):
        page.keyboard.press("a")
        expect(page.locator(".totals")).to_contain_text("worst layer4.8e-5 of 1.0e-4 allowed")
    with watched.step("what the trace does not hold has no tab"):
        for name in ("compare", "ports", "layers", "against float", "quantization"):
            expect(page.get_by_role("tab", name=name, exact=True)).to_have_count(0)
    assert watched.is_clean(), watched


def test_passes_and_their_rewrites_are_stepped_through(watched: Any, trace: Trace, opened: Any):
    page = opened(trace).page
    with watched.step("by key and by slider"):
        page.keyboard.press("j")
        page.keyboard.press("j")
        watched.expect_pass("fold-batch-norm")
        page.keyboard.press("k")
        watched.expect_pass("fold-constants")
        slider = page.get_by_role("slider", name="pass", exact=True)
        slider.fill("11")
        watched.expect_pass("plan-memory")
        expect(slider).to_have_attribute("aria-valuetext", "plan-memory")
        expect(page).to_have_url(re.compile(re.escape("pass=11")))
    with watched.step("a difference marks what went and what took over"):
        page.locator('.pass-row[data-pass="4"]').click()
        page.wait_for_selector('.node.removed[data-id="norm_1"]')
        assert page.locator('.node.fused[data-id="conv_1"] .badge').text_content() == "⊃"
        page.get_by_role("tab", name="after").click()
        page.wait_for_selector('.node[data-id="norm_1"]', state="detached")
        page.get_by_role("tab", name="before").click()
        page.wait_for_selector('.node[data-id="norm_1"]')
        page.get_by_role("tab", name="diff").click()
    with watched.step("rewrites are stepped and explained"):
        page.wait_for_selector(".rule-row")
        page.keyboard.press("J")
        page.wait_for_selector('.site[aria-current="true"]')
        watched.expect_names('.site[aria-current="true"]', ["conv_1, norm_1 → conv_1"])
        page.keyboard.press("J")
        page.wait_for_selector('.node.selected[data-id="conv_2"]')
        page.wait_for_selector(".rewrite-card td.removed")
        card = page.locator(".rewrite-card")
        expect(card).to_contain_text("batch_norm(conv(x, w)) -> conv(x, w')")
    with watched.step("declined candidates say why"):
        page.locator('.pass-row[data-pass="5"]').click()
        page.get_by_role("button", name="declined candidates").click()
        page.wait_for_selector(".site .reason")
        assert watched.names(".site .reason")[0].endswith("it needs a whole row at once")
    with watched.step("who holds still finds everything in its place"):
        page.locator('.pass-row[data-pass="2"]').click()
        page.get_by_role("button", name="hold still").click()
        page.wait_for_selector('.node[data-id="weight_1"]')
        place = page.locator('.node[data-id="conv_2"]').get_attribute("transform")
        for _ in range(2):
            page.keyboard.press("j")
        watched.wait_until(
            "document.querySelector('.graph .pane-title').textContent == 'fold-batch-norm'"
        )
        page.wait_for_selector('.node.removed[data-id="norm_2"]')
        expect(page.locator('.node[data-id="conv_2"]')).to_have_attribute("transform", place)
    assert watched.is_clean(), watched


def test_a_convolution_is_found_in_every_pane(watched: Any, trace: Trace, opened: Any):
    page = opened(trace).page
    with watched.step("constants stand at their user"):
        node = page.locator('.node[data-id="conv_1"]')
        expect(page.locator('.node[data-id="weight_1"]')).to_have_count(0)
        expect(node.locator(".constants text")).to_have_text("●1")
        node.locator(".label").hover()
        expect(page.locator(".graph .tip")).to_contain_text("1 constant: weight_1")
        node.locator(".constants").click()
        page.wait_for_selector('.node.selected[data-id="conv_1"]')
        expect(page.locator(".inspector")).to_contain_text("weight_1")
        node.locator(".label").click()
        watched.expect_names(".origin", ["Conv_0"])
    with watched.step("IR, and the graph where a line is hovered"):
        page.keyboard.press("2")
        page.wait_for_selector(".line.marked")
        assert all("conv_1 = top.conv" in line for line in watched.names(".line.marked"))
        page.locator(".inspector .line", has_text="%relu_1 = top.relu").hover()
        page.wait_for_selector('.node.hovered[data-id="relu_1"]')
        page.locator('.node[data-id="norm_1"]').hover()
        page.wait_for_selector(".line.hovered")
        assert "norm_1 = top.batch_norm" in watched.names(".line.hovered")[0]
    with watched.step("memory, errors, tensors, kernels, times"):
        page.wait_for_selector('.buffer.marked[data-buffer="conv_1"]')
        page.keyboard.press("a")
        page.wait_for_selector(".column-mark")
        expect(page.locator(".column-mark")).to_have_count(1)
        page.keyboard.press("6")
        page.wait_for_selector(".tensor-head strong")
        watched.expect_names(".tensor-head strong", ["Conv_0_out"])
        page.keyboard.press("n")
        page.wait_for_selector(".dock tr.marked")
        watched.expect_names(".dock tr.marked td:first-child", ["Conv_0"])
        page.keyboard.press("t")
        page.wait_for_selector(".bar.marked")
        watched.expect_names(".bar.marked", ["conv_1"])
    with watched.step("loops and C"):
        page.keyboard.press("3")
        page.wait_for_selector(".rung[aria-current]")
        watched.expect_names(".rung[aria-current]", ["parallel"])
        page.keyboard.press("4")
        page.wait_for_selector(".inspector .kernel-line")
        watched.wait_until("document.querySelector('.code-bar').textContent.includes('of C')")
        assert "static void conv_1(" in watched.names(".inspector .line")[0]
    with watched.step("statements of a kernel are linked between levels"):
        page.keyboard.press("3")
        page.keyboard.press("b")
        page.wait_for_selector(".beside .line")
        page.locator(".tab-body:not(.beside) .line", has_text="arith.maximumf").hover()
        page.wait_for_selector(".beside .line.hovered")
        assert ["max8" in line for line in watched.names(".beside .line.hovered")] == [True]
    assert watched.is_clean(), watched


def test_a_selection_and_a_link_lead_to_what_was_seen(watched: Any, trace: Trace, opened: Any):
    page = opened(trace).page
    with watched.step("a selection is followed to what it became"):
        page.locator('.node[data-id="relu_1"]').click()
        page.wait_for_selector('.node.selected[data-id="relu_1"]')
        page.locator('.pass-row[data-pass="5"]').click()
        page.wait_for_selector('.node.removed[data-id="relu_1"]')
        page.keyboard.press("j")
        page.wait_for_selector('.node.selected[data-id="conv_1"]')
        page.wait_for_selector(".subject .hint")
        watched.expect_names(".subject .hint", ["relu_1 stands here as conv_1"])
        made_by = ["remove-identities", "fold-batch-norm", "fuse-activation"]
        watched.expect_names(".maker", made_by)
    with watched.step("a link brings back what was seen"):
        link = page.url.split("#")[0] + "#pass=8&selection=conv_3&tab=loops&step=1&dock=timeline"
        page.goto("about:blank")
        page.goto(link)
        page.wait_for_selector(".rung[aria-current]")
        watched.expect_pass("choose-layouts")
        watched.expect_names(".rung[aria-current]", ["split"])
        watched.expect_names('.dock > .tab-bar > .tabs [aria-selected="true"]', ["timeline"])
    with watched.step("of a program that is not quantized a link asks for nothing that is"):
        page = opened(trace, link="pass=8&dock=accuracy&mode=float").page
        expect(page.get_by_role("tab", name="accumulated")).to_have_attribute(
            "aria-selected", "true"
        )
        expect(page.get_by_role("tab", name="against float")).to_have_count(0)
        expect(page.get_by_role("tab", name="quantization")).to_have_count(0)
        hidden = page.locator(".overlay-choice option[data-quantized]")
        assert hidden.evaluate_all("options => options.map((o) => o.hidden)") == [True] * 3


@pytest.mark.sweep  # tests/javascript/state.test.mjs has what is taken of a link
def test_a_broken_link_opens_the_first_view(watched: Any, trace: Trace, opened: Any):
    page = opened(trace).page
    link = page.url.split("#")[0] + "#pass=999&tab=%3Cscript%3E&step=-4&dock=nothing&evil=1"
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".node")
    watched.expect_pass("fold-batch-norm")
    assert watched.is_clean(), watched


def test_names_of_a_model_stay_text(watched: Any, hostile_trace: Trace, opened: Any):
    page = opened(hostile_trace).page
    expect(page.locator(".model-name")).to_contain_text("<script>alert('x')</script>")
    page.locator('.node[data-id="conv_1"]').click()
    for key in ("1", "2", "3", "4", "5", "6", "m", "a", "t", "n", "a"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    page.locator('.node[data-id="conv_1"]').hover()
    expect(page.locator("#explorer script")).to_have_count(0)
    assert watched.is_clean(), watched


def test_two_traces_are_compared(watched: Any, trace: Trace, fork: Trace, opened: Any):
    page = opened(trace, against=fork).page
    page.get_by_role("tab", name="compare").click()
    page.wait_for_selector(".dock table")
    expect(page.locator(".first-difference")).to_contain_text("fuse-activation/*/*")
    page.locator(".dock").get_by_role("tab", name="passes").click()
    row = page.locator(".dock [aria-label='passes of all'] tbody tr", has_text="fuse-activation")
    row.wait_for()
    assert row.inner_text().split()[:7] == ["fuse-activation", "14", "→", "17", "3", "→", "0"]


def test_a_notebook_hosts_the_same_module(watched: Any, trace: Trace):
    """A stand-in for anywidget's model: traits by name, chunks over messages, in several parts."""
    payload = trace_payload(trace)
    chunks = {
        key: list(chunk_messages(key, encode(payload.chunk(key)), revision=0, most=5000))
        for key in payload.chunk_keys()
    }
    state = {"mode": "notebook", "head": payload.head, "revision": 0}
    watched.page.set_content(
        f"""<div id="cell" style="height: 720px"></div><script type="module">
        {explorer_module().replace("export default {render};", "")}
        const state = {script_data(state)}, chunks = {script_data(chunks)};
        let listener = null;
        const model = {{
          get: (name) => state[name], set: (name, value) => {{ state[name] = value; }},
          save_changes: () => {{}},
          on: (name, receive) => {{ if (name === "msg:custom") listener = receive; }},
          send: (message) => {{
            const parts = [...chunks[message.keys[0]]].reverse();
            for (const part of parts) setTimeout(listener, 0, part);
          }},
        }};
        render({{model, el: document.getElementById("cell")}});
        </script>"""
    )
    page = watched.page
    page.locator('.node[data-id="conv_1"]').click()
    page.keyboard.press("3")
    page.wait_for_selector(".rung[aria-current]")
    expect(page.get_by_role("button", name="share")).to_have_count(0)
    assert page.evaluate("location.hash") == ""
    assert watched.is_clean(), watched
