"""Large programs in a real browser: closed blocks, opening them, search, long texts."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace
from explorer.views.page import export_page, script_data
from explorer.views.trace_payload import trace_payload

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def large(generated: ModuleType) -> Trace:
    return generated.make_large_trace(5000)


@pytest.fixture(scope="module")
def staged(generated: ModuleType) -> Trace:
    """Six blocks of 24 blocks each: enough for what is no question of size."""
    return generated.make_large_trace(1008)


COUNT_DRAWN = """(id) => {
  window.drawn = 0;
  new MutationObserver((records) => {
    for (const {addedNodes} of records)
      for (const node of addedNodes) window.drawn += Number(node.dataset?.id === id);
  }).observe(document.querySelector(".canvas .nodes"), {childList: true});
}"""
"""Counts how often the node of an operation is put into the graph."""


def shown_blocks(watched: Any) -> list[str]:
    return watched.texts(".node.block .label")


def test_a_large_program_is_walked_through_its_blocks(opened: Any, large: Trace):
    watched = opened(large, start=0)
    page = watched.page
    first = page.locator('.node[data-id="#1"]')
    with watched.step("it opens with closed blocks"):
        assert shown_blocks(watched)[:3] == ["stage0", "stage1", "stage2"]
        assert watched.texts(".node.block .shape")[0] == "24 × block"
        note = page.locator(".graph-cap").inner_text()
        assert note.startswith("4,998 operations in 30 closed blocks")
        assert page.locator(".node").count() < 40
    with watched.step("a block opens in its place and closes again"):
        before = first.bounding_box()
        page.locator('[data-open="#1"]').click()
        page.wait_for_selector('.block-box[data-box="1"]')
        assert shown_blocks(watched)[:2] == ["block0", "block1"]
        box = page.locator('.block-box[data-box="1"]').bounding_box()
        assert abs(box["y"] - before["y"]) < 4
        assert abs(box["x"] + box["width"] / 2 - before["x"] - before["width"] / 2) < 6
        expect(page).to_have_url(re.compile(re.escape("open=1")))
        page.locator('[data-close="#1"]').click()
        page.wait_for_selector(".block-box", state="detached")
        after = first.bounding_box()
        assert abs(after["y"] - before["y"]) < 2
    with watched.step("a block is selected and lists what is inside"):
        page.locator('.node[data-id="#1"] .label').click()
        page.wait_for_selector('.node.selected[data-id="#1"]')
        expect(page.locator(".subject h2")).to_have_text("stage0")
        expect(page.locator(".subject")).to_contain_text("168 operations after this pass")
        page.keyboard.press("e")
        page.wait_for_selector('.block-box[data-box="1"]')
        page.keyboard.press("e")
        page.wait_for_selector(".block-box", state="detached")
    with watched.step("search finds by kind, shape and source and opens the blocks"):
        page.keyboard.press("/")
        page.keyboard.type("conv 64x56")
        page.wait_for_selector(".hit")
        cap = page.locator(".hits .cap")
        expect(cap).to_have_text("14 of 1,428 shown: type more to narrow them down")
        page.get_by_role("combobox", name="search").fill("norm stage2/block3/")
        page.locator(".hit", has_text="norm_b_51").wait_for()
        # Those that took a norm over come from it too, behind those that are named so.
        named = ["norm_a_51", "norm_b_51", "conv_a_51", "conv_b_51"]
        watched.expect_names(".hit .mono", named)
        page.keyboard.press("Enter")
        page.wait_for_selector('.node.selected[data-id="norm_a_51"]')
        expect(page.locator(".block-box")).to_have_count(2)
    with watched.step("of a long text only what is in sight is made"):
        page.get_by_role("button", name="−", exact=True).click(click_count=8)
        page.wait_for_selector(".canvas.far")
        page.keyboard.press("/")
        page.get_by_role("combobox", name="search").fill("conv_a_700")
        page.locator(".hit", has_text="conv_a_700").first.wait_for()
        page.evaluate(COUNT_DRAWN, "conv_a_700")
        page.keyboard.press("Enter")
        found = page.locator('.node.selected[data-id="conv_a_700"]')
        found.wait_for()
        # Drawn once, where it is looked at, although blocks opened and the camera moved.
        assert page.evaluate("window.drawn") == 1
        node, pane = found.bounding_box(), page.locator(".graph-body").bounding_box()
        middle = (node["x"] + node["width"] / 2, node["y"] + node["height"] / 2)
        assert pane["x"] < middle[0] < pane["x"] + pane["width"]
        assert pane["y"] < middle[1] < pane["y"] + pane["height"]
        assert page.locator(".canvas.far").count() == 0
        page.keyboard.press("2")
        page.wait_for_selector(".inspector .line.marked")
        assert page.locator(".code-bar").inner_text().startswith("5,001 lines")
        assert page.locator(".inspector .line").count() < 400
        numbers = "getComputedStyle(document.querySelector('.line.marked'), '::before').position"
        assert page.evaluate(numbers) == "static"  # each sticky one would be a layer of its own
        code = page.locator(".inspector .code")
        code.evaluate("(node) => { node.scrollLeft = 40; }")
        watched.wait_until(f"{numbers} === 'sticky'")
        code.evaluate("(node) => { node.scrollLeft = 0; }")
        watched.wait_until(f"{numbers} === 'static'")
        marked = page.locator(".inspector .line.marked").inner_text()
        assert marked.startswith("%conv_a_700 = top.conv(%relu_b_699)")
    assert watched.is_clean(), watched


def test_differences_of_a_large_program_are_counted_and_told_once(opened: Any, large: Trace):
    watched = opened(large, start=2)
    page = watched.page
    with watched.step("a difference inside of a closed block is counted"):
        assert watched.texts(".node.block .shape")[0] == "120 ops, −48"
        blocks = page.locator(".node.block")
        assert page.locator(".node.block.changed").count() == blocks.count()
        page.locator('.node[data-id="#1"]').hover()
        tip = page.locator(".graph .tip").inner_text()
        assert "48 operations: gone after the pass" in tip
    with watched.step("the same change in many blocks is shown once"):
        page.locator('.pass-row[data-pass="3"]').click()
        told = page.locator(".same-changes")
        expect(told.locator("summary")).to_have_text("1,428 rewrites, 2 kinds")
        told.locator("summary").click()
        first = told.locator("li").first
        expect(first).to_contain_text("29 × stage")
        expect(first).to_contain_text("48 absorb")
        first.get_by_role("button").click()
        page.wait_for_selector(".graph .block-box")
        page.wait_for_selector(".graph .node.selected")
        # The first of them, and what is around it; all others are closed.
        assert page.locator(".graph .block-box").count() == 2
        assert page.locator(".graph .node.fused").count() == 2  # both of the block's convolutions
    assert watched.is_clean(), watched


def test_an_open_block_and_what_holds_a_selection(opened: Any, staged: Trace):
    watched = opened(staged, link="pass=2&open=1.2.3&selection=conv_a_1")
    page = watched.page
    with watched.step("nothing in an open block overlaps"):
        for _ in range(3):
            page.get_by_title("zoom out").click()
        page.wait_for_timeout(100)
        overlaps = page.evaluate(
            """() => {
              const boxes = [...document.querySelectorAll('.node:not(.ghost) .card:not(.back)')]
                .map(e => e.getBoundingClientRect());
              let count = 0;
              boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
                if (a.x < b.right - 1 && b.x < a.right - 1 &&
                    a.y < b.bottom - 1 && b.y < a.bottom - 1)
                  count += 1;
              }));
              return [boxes.length > 12, count];
            }"""
        )
        assert overlaps == [True, 0]
    with watched.step("a selection marks the closed block that holds it"):
        page.wait_for_selector('.node.selected[data-id="conv_a_1"]')
        page.get_by_role("button", name="close all").click()
        page.wait_for_selector('.node.selected[data-id="#1"]')
    assert watched.is_clean(), watched


def test_a_repeated_block_is_opened_once_for_all(opened: Any, generated: ModuleType):
    watched = opened(generated.make_large_trace(210, scoped=False), link="pass=0&blocks=true")
    page = watched.page
    page.locator('[data-open="#1"]').click()
    first = page.locator('.node[data-id="#2"]')
    expect(first).to_have_attribute("aria-label", "block residual block 1, 7 ops")
    first.hover()
    expect(page.locator(".graph .tip")).to_contain_text("29 blocks that repeat it")
    unit = "#2"
    page.locator(f'[data-open="{unit}"]').click()
    expect(page.locator(".block-box")).to_have_count(31)
    page.locator(f'[data-close="{unit}"]').click()
    expect(page.locator(".block-box")).to_have_count(1)
    page.locator(f'[data-open="{unit}"]').click(modifiers=["Shift"])
    expect(page.locator(".block-box")).to_have_count(2)
    assert watched.is_clean(), watched


def test_small_programs_are_drawn_one_by_one_until_blocks_are_wanted(
    opened: Any, generated: ModuleType
):
    watched = opened(generated.make_large_trace(40), start=0)
    page = watched.page
    expect(page.locator(".node.block")).to_have_count(0)
    page.get_by_role("button", name="blocks", exact=True).click()
    page.wait_for_selector(".node.block")
    assert shown_blocks(watched) == [f"block{index}" for index in range(5)]
    expect(page).to_have_url(re.compile(re.escape("blocks=true")))


# A host that answers as a kernel does, chunk by chunk, and the graphs of all passes when it is let.
SLOW_HOST = """
let listener = () => {};
window.asked = [];
const answers = [];
window.release = () => answers.splice(0).forEach((answer) => answer());
const values = {head: payload.head, revision: 0, mode: window.mode ?? "notebook"};
render({
  model: {
    get: (name) => values[name] ?? null,
    save_changes: () => {},
    on: (name, heard) => {
      if (name === "msg:custom") listener = heard;
    },
    send: ({kind, keys}) => {
      if (kind !== "need") return;
      window.asked.push(...keys);
      const answer = () => keys.forEach((key) => listener({kind: "chunk", key, revision: 0, part: 0,
        parts: 1, text: JSON.stringify(chunks.get(key))}));
      if (keys[0] === "graphs") answers.push(answer);
      else queueMicrotask(answer);
    },
  },
  el: document.getElementById("explorer"),
});
</script>
</body>
</html>
"""


def slow_page(trace: Trace, folder: Path) -> str:
    """The address of a page whose host gives the graphs of all passes when it is told to."""
    payload = trace_payload(trace)
    excerpts = [f"start/{index}" for index in range(len(trace.passes))]
    chunks = {**payload.saved_chunks(), **{key: payload.chunk(key) for key in excerpts}}
    begin, _, _ = export_page(trace).partition("render({\n  model: {")
    page_text = re.sub(
        r'(id="payload">).*?(</script>)',
        lambda m: m[1] + script_data({"head": payload.head, "chunks": chunks}) + m[2],
        begin,
        flags=re.DOTALL,
    )
    path = folder / "slow.html"
    path.write_text(page_text + SLOW_HOST, encoding="utf-8")
    return path.as_uri()


def test_the_first_picture_waits_for_one_pass_only(watched: Any, staged: Trace, tmp_path: Path):
    first = trace_payload(staged).head["first"]
    page = watched.page
    page.goto(slow_page(staged, tmp_path))
    page.wait_for_selector(".graph .node")
    watched.expect_pass(staged.passes[first].name)
    asked = page.evaluate("window.asked")
    assert f"start/{first}" in asked
    assert not [key for key in asked if key.startswith(("nodes/", "graph/", "block"))]
    shown = shown_blocks(watched)
    page.locator(f'.pass-row[data-pass="{first - 1}"]').click()  # it is there with all others
    page.evaluate("window.release()")
    watched.expect_names(".graph .pane-title", [staged.passes[first - 1].name])
    page.locator(f'.pass-row[data-pass="{first}"]').click()
    watched.expect_names(".graph .pane-title", [staged.passes[first].name])
    assert shown_blocks(watched) == shown
    assert watched.is_clean(), watched


def test_who_comes_back_waits_for_what_was_left(scripted: Any, staged: Trace, tmp_path: Path):
    watched = scripted
    first = trace_payload(staged).head["first"]
    left = next(
        index for index in range(first + 1, len(staged.passes)) if staged.passes[index].changed
    )
    shown = staged.snapshots[left].graph.nodes[-2].id
    page = watched.page
    page.add_init_script("window.mode = 'page'")  # with an address
    address = slow_page(staged, tmp_path)
    with watched.step("the pass that was left"):
        page.goto(f"{address}#pass={left}&selection={shown}")
        page.wait_for_selector(".graph .node")
        watched.expect_pass(staged.passes[left].name)
        asked = page.evaluate("window.asked")
        assert f"start/{left}" in asked and f"start/{first}" not in asked
        assert not [key for key in asked if key.startswith(("nodes/", "graph/", "block"))]
        watched.wait_until("() => document.querySelector('.graph .node.selected') !== null")
    with watched.step("what another pass alone has"):
        gone = staged.snapshots[1].graph.nodes[2].id
        last = len(staged.passes) - 1
        assert gone not in {node.id for node in staged.snapshots[last].graph.nodes}
        page.goto("about:blank")
        page.goto(f"{address}#pass={last}&selection={gone}")
        watched.wait_until("() => window.asked.includes('graphs')")
        assert page.locator(".graph .node").count() == 0
        page.evaluate("window.release()")
        page.wait_for_selector(".graph .node")
        watched.expect_names(".graph .pane-title", [staged.passes[last].name])
        assert page.locator(".banner.notice").count() == 0  # it is found
    assert watched.is_clean(), watched
