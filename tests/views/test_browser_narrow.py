"""On small screens nothing of the frame is cut off, and nothing lies on anything else."""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest

from explorer.results import Trace

pytestmark = pytest.mark.browser

SMALL = {"width": 1100, "height": 700}
FAULTS = """() => {
  const seen = (element) => element.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
  const name = (element) => element.getAttribute("aria-label") || element.textContent.trim();
  const faults = [];
  for (const text of all(".tab, .pass-name"))
    if (text.scrollWidth > text.clientWidth + 1) faults.push(`${name(text)} is cut`);
  for (const pane of all(".pane, .dock")) {
    const {left, right} = pane.getBoundingClientRect();
    const parts = all("button, select, input, .tab").filter((part) =>
      part.closest(".pane, .dock") === pane && part.closest(".tab-bar, .pane-head, .pane-tools"));
    const boxes = parts.map((part) => part.getBoundingClientRect());
    boxes.forEach((a, index) => {
      if (a.left < left - 1 || a.right > right + 1) faults.push(`${name(parts[index])} is outside`);
      boxes.slice(index + 1).forEach((b, rest) => {
        const other = parts[index + 1 + rest];
        if (parts[index].contains(other) || other.contains(parts[index])) return;
        if (a.left + 1 < b.right && a.right - 1 > b.left &&
            a.top + 1 < b.bottom && a.bottom - 1 > b.top)
          faults.push(`${name(parts[index])} and ${name(other)} overlap`);
      });
    });
  }
  return faults;
}"""


BAR = """() => {
  const bar = document.querySelector(".topbar").getBoundingClientRect();
  const name = document.querySelector(".model-name"),
    row = document.querySelector(".facts-row").getBoundingClientRect();
  const verdict = document.querySelector(".verdict").getBoundingClientRect();
  const facts = [...document.querySelectorAll(".fact")].filter((fact) => {
    const box = fact.getBoundingClientRect();
    return box.top < row.bottom - 1 && box.left < row.right - 1;
  });
  const outside = [...document.querySelectorAll(".topbar > *")]
    .filter((part) => part.getBoundingClientRect().right > bar.right + 1);
  return {
    isNameWhole: name.scrollWidth <= name.clientWidth,
    isVerdictFree: verdict.right <= row.left || verdict.bottom <= row.top,
    facts: facts.map((fact) => fact.textContent),
    cut: facts.filter((fact) => fact.getBoundingClientRect().right > row.right + 1).length,
    outside: outside.length,
  };
}"""


STACK = """() => [...document.querySelectorAll(".panes > .pane, .panes > .dock")]
  .filter((pane) => pane.getClientRects().length)
  .map((pane) => {
    const {left, right, top, bottom} = pane.getBoundingClientRect();
    return {name: pane.getAttribute("aria-label"), left, right, top, bottom};
  })
  .sort((a, b) => a.top - b.top)"""


def test_nothing_of_the_frame_is_cut_or_covered(watched: Any, trace: Trace, opened: Any) -> None:
    name = "mobilenet_v2_035_128_quantized_per_channel"
    named = replace(trace, model=replace(trace.model, name=name))
    page = watched.page
    page.set_viewport_size(SMALL)
    opened(named)
    arrangements = page.locator(".preset-select option").all_text_contents()
    for arrangement, dock in product(arrangements, ["memory", "accuracy", "timeline"]):
        page.locator(".preset-select").select_option(value=arrangement)
        tab = page.locator(f'.dock .tab[data-tab="{dock}"]')
        if not tab.is_visible():
            continue
        tab.click()
        page.wait_for_selector(f'.dock .tab[data-tab="{dock}"][aria-selected="true"]')
        assert page.evaluate(FAULTS) == [], (arrangement, dock)
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.evaluate(FAULTS) == []
    with watched.step("the bar on top shows the name and all numbers"):
        every = [fact.strip() for fact in page.locator(".fact").all_text_contents()]
        assert len(every) >= 3
        for width in (2560, 2101, 2100, 1920, 1440, 1280, 1100, 820):
            page.set_viewport_size({"width": width, "height": 720})
            bar = page.evaluate(BAR)
            assert bar["isVerdictFree"] and (bar["isNameWhole"] or width < 1200), (width, bar)
            assert bar["cut"] == bar["outside"] == 0, (width, bar)
            assert bar["facts"] == every, width
    with watched.step("on a telephone the panes are one column, the graph first"):
        page.locator(".preset-select").select_option(value="graph")
        page.set_viewport_size({"width": 390, "height": 800})
        boxes = page.evaluate(STACK)
        assert boxes[0]["name"] == "graph" and len(boxes) == 4
        for upper, lower in pairwise(boxes):
            assert upper["bottom"] <= lower["top"] + 1, boxes
        assert all(box["left"] >= -1 and box["right"] <= 391 for box in boxes), boxes
        bar = page.evaluate(BAR)
        assert bar["cut"] == bar["outside"] == 0, bar
        assert bar["facts"] == every
