"""The graph's camera and motion in a real browser: what fits, what is never lost, what moves."""

from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.results import Trace

pytestmark = pytest.mark.browser

IN_SIGHT = """() => {
  const pane = document.querySelector('.graph .canvas').getBoundingClientRect();
  return [...document.querySelectorAll('.graph .node .card:not(.back)')].filter((card) => {
    const box = card.getBoundingClientRect();
    return box.right > pane.left && box.left < pane.right &&
      box.bottom > pane.top && box.top < pane.bottom;
  }).length;
}"""
COVERED = """() => {
  const over = [...document.querySelectorAll('.graph-foot, .minimap:not([hidden])')]
    .map((element) => element.getBoundingClientRect());
  return [...document.querySelectorAll('.graph .node .card')]
    .map((card) => card.getBoundingClientRect())
    .filter((a) => over.some((b) => a.left < b.right && a.right > b.left &&
      a.top < b.bottom && a.bottom > b.top)).length;
}"""
PLACES = """cards => cards.map((card) => {
  const {left, top} = card.getBoundingClientRect();
  return [Math.round(left), Math.round(top)];
})"""
MOVES = """() => document.getAnimations().map((one) => one.effect)
  .filter((effect) => effect.target.closest('.graph'))
  .map((effect) => effect.getTiming().duration)"""


LABELS_OVER = """() => {
  const boxes = (selector) => [...document.querySelectorAll(`.graph ${selector}`)]
    .map((element) => element.getBoundingClientRect());
  const labels = boxes('.edge-label');
  const solid = boxes('.node .card, .node .badge circle, .block-title, .turn circle');
  const hits = (a, b) => a.left < b.right - 1 && a.right > b.left + 1 &&
    a.top + 2 < b.bottom && a.bottom - 2 > b.top;
  return labels.filter((label, index) =>
    solid.some((box) => hits(label, box)) ||
    labels.some((other, at) => at > index && hits(label, other))).length;
}"""


@pytest.fixture(scope="module")
def medium(generated: ModuleType) -> Trace:
    return generated.make_large_trace(120)


def test_a_graph_in_blocks_fits_is_covered_by_nothing_and_is_never_lost(
    opened: Any, medium: Trace
) -> None:
    watched = opened(medium, start=None)
    page = watched.page
    with watched.step("what would be small one by one opens in blocks"):
        assert page.locator(".node.block").count() >= 5
        expect(page.locator(".blocks-switch")).to_have_attribute("aria-pressed", "true")
    with watched.step("what fits is covered by nothing"):
        page.get_by_role("slider", name="pass", exact=True).fill("2")
        for width in (1440, 1100):
            page.set_viewport_size({"width": width, "height": 760})
            page.locator(".graph-body").focus()
            page.keyboard.press("g")
            watched.wait_until("document.querySelector('.minimap').hidden")
            watched.wait_until(f"({COVERED})() === 0")
    with watched.step("a graph is never out of sight"):
        page.set_viewport_size({"width": 1440, "height": 900})
        page.keyboard.press("g")
        page.get_by_title("zoom to 100 %").click()
        watched.wait_until("document.querySelector('.zoom').textContent === '100 %'")
        watched.wait_until(f"({IN_SIGHT})() > 0")
        expect(page.locator(".minimap")).to_be_visible()
        page.mouse.move(700, 300)
        for _ in range(4):
            page.mouse.wheel(4000, 4000)
        page.set_viewport_size({"width": 1100, "height": 700})
        lost = page.locator(".graph-lost")
        if lost.is_visible():
            lost.click()
        watched.wait_until(f"({IN_SIGHT})() > 0")
    with watched.step("the switch draws it one by one"):
        page.locator(".blocks-switch").click()
        expect(page.locator(".node.block")).to_have_count(0)
    assert watched.is_clean(), watched


def test_a_selection_moves_no_graph_that_is_in_sight_as_a_whole(opened: Any, trace: Trace) -> None:
    page = opened(trace, link="pass=4&view=after&tab=ir&panes=source_levels-ir").page
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator(".graph-body").focus()
    page.keyboard.press("g")
    page.wait_for_timeout(300)  # what moved has arrived
    nodes = page.locator(".graph .node .card")
    places = nodes.evaluate_all(PLACES)
    lines = page.locator(".inspector .line", has_text=" = top.")
    for number in range(lines.count()):
        lines.nth(number).click(position={"x": 60, "y": 8})
        expect(page.locator(".subject h2")).not_to_have_text("")
        assert nodes.evaluate_all(PLACES) == places
    assert page.locator(".graph .node.selected").count()


def test_what_stays_keeps_its_place_and_is_seen_to_move(opened: Any, medium: Trace) -> None:
    watched = opened(medium, link="pass=1&blocks=false&selection=conv_a_5")
    page = watched.page
    page.emulate_media(reduced_motion="no-preference")
    selected = '.node.selected[data-id="conv_a_5"]'
    with watched.step("what is selected stays where it is on the screen"):
        page.wait_for_selector(selected)
        page.get_by_title("zoom to 100 %").click()
        watched.wait_until("document.querySelector('.zoom').textContent === '100 %'")
        page.wait_for_selector(selected)
        before = page.locator('.node[data-id="conv_a_5"]').bounding_box()
        page.keyboard.press("j")
        page.wait_for_selector(".node.removed")
        watched.wait_until(f"({MOVES})().length === 0")
        after = page.locator('.node[data-id="conv_a_5"] .card').bounding_box()
        assert after["x"] == pytest.approx(before["x"], abs=2)
        assert after["y"] == pytest.approx(before["y"], abs=12), "a badge may stand on its corner"
    with watched.step("a long chain says where it goes on"):
        page.locator(".graph-body").focus()
        page.keyboard.press("g")
        page.wait_for_selector(".turn text", state="attached")
        ends = watched.texts(".turn text")
        assert ends
        assert all(ends.count(number) >= 2 for number in ends)
        page.locator(".legend summary").click()
        expect(page.locator(".legend")).to_contain_text("goes on at the same number")
        page.locator(".legend summary").click()
    with watched.step("what stays is seen to move"):
        page.keyboard.press("k")
        page.wait_for_selector(".node.removed", state="detached")
        watched.wait_until(f"({MOVES})().length === 0")
        page.evaluate(
            f"""() => {{
              window.moves = [];
              const watch = () => {{
                window.moves.push(...({MOVES})());
                requestAnimationFrame(watch);
              }};
              watch();
            }}"""
        )
        page.keyboard.press("j")
        page.wait_for_selector(".node.removed")
        watched.wait_until("window.moves.length > 0")
        assert max(page.evaluate("window.moves")) <= 200
        watched.wait_until(f"({MOVES})().length === 0")
    with watched.step("but for who wants less motion"):
        page.emulate_media(reduced_motion="reduce")
        page.evaluate("window.moves.length = 0")
        page.keyboard.press("j")
        watched.wait_until("document.querySelector('.graph .pane-title').textContent[0] === 'f'")
        page.wait_for_selector(".node.fused")
        assert page.evaluate("window.moves") == []


def test_what_edges_carry_lies_on_nothing(opened: Any, trace: Trace) -> None:
    for place in ("pass=2", "pass=2&blocks=true&open=1", "pass=4&view=after"):
        watched = opened(trace, link=place)
        with watched.step(place):
            for _ in range(3):
                assert watched.page.locator(".edge-label").count() >= 2
                assert watched.page.evaluate(LABELS_OVER) == 0
                watched.page.get_by_title("zoom in").click()
                watched.wait_until("document.querySelector('.graph .canvas.full')")
