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


def test_what_fits_is_covered_by_nothing(opened: Any, medium: Trace) -> None:
    watched = opened(medium, start=2)
    page = watched.page
    for width in (1440, 1100):
        page.set_viewport_size({"width": width, "height": 760})
        page.locator(".graph-body").focus()
        page.keyboard.press("g")
        watched.wait_until("document.querySelector('.minimap').hidden")
        watched.wait_until(f"({COVERED})() === 0")


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


def test_a_graph_is_never_out_of_sight(opened: Any, medium: Trace) -> None:
    watched = opened(medium, start=2)
    page = watched.page
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
    assert watched.is_clean(), watched


def test_what_stays_is_seen_to_move_but_for_who_wants_less_motion(
    opened: Any, medium: Trace
) -> None:
    watched = opened(medium, link="pass=1&blocks=false")
    page = watched.page
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
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("window.moves.length = 0")
    page.keyboard.press("j")
    watched.wait_until("document.querySelector('.graph .pane-title').textContent[0] === 'f'")
    page.wait_for_selector(".node.fused")
    assert page.evaluate("window.moves") == []


def test_constants_stand_at_their_user(opened: Any, trace: Trace) -> None:
    watched = opened(trace, start=2)
    page = watched.page
    node = page.locator('.node[data-id="conv_1"]')
    expect(page.locator('.node[data-id="weight_1"]')).to_have_count(0)
    expect(node.locator(".constants text")).to_have_text("●1")
    node.locator(".label").hover()
    expect(page.locator(".graph .tip")).to_contain_text("1 constant: weight_1")
    node.locator(".constants").click()
    page.wait_for_selector('.node.selected[data-id="conv_1"]')
    expect(page.locator(".inspector")).to_contain_text("weight_1")


def test_a_long_chain_says_where_it_goes_on(opened: Any, medium: Trace) -> None:
    watched = opened(medium, link="pass=2&blocks=false")
    page = watched.page
    ends = watched.texts(".turn text")
    assert ends
    assert all(ends.count(number) >= 2 for number in ends)
    page.locator(".legend summary").click()
    expect(page.locator(".legend")).to_contain_text("goes on at the same number")


def test_what_is_selected_stays_where_it_is_on_the_screen(opened: Any, medium: Trace) -> None:
    watched = opened(medium, link="pass=1&blocks=false&selection=conv_a_5")
    page = watched.page
    page.wait_for_selector('.node.selected[data-id="conv_a_5"]')
    page.get_by_title("zoom to 100 %").click()
    watched.wait_until("document.querySelector('.zoom').textContent === '100 %'")
    page.wait_for_selector('.node.selected[data-id="conv_a_5"]')
    before = page.locator('.node[data-id="conv_a_5"]').bounding_box()
    page.keyboard.press("j")
    page.wait_for_selector(".node.removed")
    watched.wait_until(f"({MOVES})().length === 0")
    after = page.locator('.node[data-id="conv_a_5"] .card').bounding_box()
    assert after["x"] == pytest.approx(before["x"], abs=2)
    assert after["y"] == pytest.approx(before["y"], abs=12), "a badge may stand on its corner"


def test_what_would_be_small_one_by_one_opens_in_blocks(
    opened: Any, medium: Trace, trace: Trace
) -> None:
    page = opened(medium, start=None).page
    assert page.locator(".node.block").count() >= 5
    expect(page.locator(".blocks-switch")).to_have_attribute("aria-pressed", "true")
    page.locator(".blocks-switch").click()
    expect(page.locator(".node.block")).to_have_count(0)
    page = opened(trace, start=None).page
    expect(page.locator(".blocks-switch")).to_have_attribute("aria-pressed", "false")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["pass=2", "pass=2&blocks=true&open=1", "pass=4&view=after"])
def test_what_edges_carry_lies_on_nothing(opened: Any, trace: Trace, place: str) -> None:
    watched = opened(trace, link=place)
    for _ in range(3):
        assert watched.page.locator(".edge-label").count() >= 2
        assert watched.page.evaluate(LABELS_OVER) == 0
        watched.page.get_by_title("zoom in").click()
        watched.wait_until("document.querySelector('.graph .canvas.full')")
