"""What a page's graph shows at first sight, asked in the browser, and what is wrong with it.

look(page).problems()   ["an edge runs upwards and does not say so: conv_1 > relu_2", ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

MIN_LABELS = 8
"""Of operations or named blocks; all of them where there are fewer."""
LEGIBLE_PIXELS = 9.0
"""Size of a font on the screen that can be read."""
LEGIBLE_SHARE = 0.8
"""Of all labels."""

_LOOK = """() => {
  const svg = document.querySelector('.graph .canvas');
  const pane = svg.getBoundingClientRect();
  const nodes = [...svg.querySelectorAll('.node:not(.ghost)')];
  const labels = [...svg.querySelectorAll('.node .label, .block-title .label, .far-name')]
    .filter((label) => label.textContent)
    .map((label) => [
      label.textContent,
      parseFloat(getComputedStyle(label).fontSize) * label.getScreenCTM().a,
    ]);
  const outside = nodes.filter((node) => {
    const box = node.querySelector('.card:not(.back)').getBoundingClientRect();
    return box.left < pane.left - 1 || box.right > pane.right + 1 ||
      box.top < pane.top - 1 || box.bottom > pane.bottom + 1;
  });
  const upward = [...svg.querySelectorAll('.edge')].filter((edge) => {
    if (edge.matches('.back, .turn')) return false;
    const wire = edge.querySelector('.wire');
    const length = wire.getTotalLength();
    let last = -Infinity;
    for (let step = 0; step <= 24; step += 1) {
      const {y} = wire.getPointAtLength((length * step) / 24);
      if (y < last - 1) return true;
      last = y;
    }
    return false;
  });
  const name = (edge) => edge.getAttribute('data-edge').replace('\\n', ' > ');
  return {
    labels,
    nodes: nodes.length,
    blocks: svg.querySelectorAll('.node.block, .block-title').length,
    outside: outside.map((node) => node.getAttribute('data-id')),
    upward: upward.map(name),
    back: svg.querySelectorAll('.edge.back').length,
    scale: svg.querySelector('.nodes').getScreenCTM().a,
  };
}"""


_OVERLAPS = """([kinds, across, down]) => {
  const svg = document.querySelector('.graph .canvas');
  const pane = svg.getBoundingClientRect();
  const isSeen = {opacityProperty: true, visibilityProperty: true};
  const boxes = [...svg.querySelectorAll(kinds)]
    .filter((label) => label.textContent.trim() && label.checkVisibility(isSeen))
    .map((label) => ({text: label.textContent, box: label.getBoundingClientRect()}))
    .filter(({box}) => box.width && box.right > pane.left && box.left < pane.right &&
      box.bottom > pane.top && box.top < pane.bottom);
  const shared = (a, b, from, to) => Math.min(a[to], b[to]) - Math.max(a[from], b[from]);
  return boxes.flatMap((one, index) => boxes.slice(index + 1)
    .filter(({box}) => shared(one.box, box, 'left', 'right') > across &&
      shared(one.box, box, 'top', 'bottom') > down)
    .map((other) => `${one.text} / ${other.text}`));
}"""
LABELS = ".node .label, .node .shape, .block-title .label, .far-name, .edge-label"
"""What is written in a graph."""
ACROSS, DOWN = 1, 4
"""Pixels that two boxes of labels may share: a box of a line of text is higher than its letters."""
ZOOMS = 6
"""Steps out from all of a graph, and in to it, at which labels are looked at."""
_FRAMES = """async () => {
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
}"""
COLOURS = ("", "macs")
"""Numbers by which operations are coloured meanwhile, by the address of a page."""


@dataclass(frozen=True, kw_only=True)
class FirstSight:
    """Operations and closed blocks of a graph as it is drawn at first, and the words at them."""

    nodes: int
    blocks: int
    labels: tuple[tuple[str, float], ...]
    """Text, and the size of its font on the screen in pixels."""
    outside: tuple[str, ...]
    """Identities of what is not wholly in the pane."""
    upward: tuple[str, ...]
    """Edges that run upwards and are not marked as such."""
    back: int
    """Edges that are marked: they lead back."""
    scale: float
    """Pixels of the screen for one of the drawing."""

    @property
    def legible(self) -> int:
        return sum(size >= LEGIBLE_PIXELS for _, size in self.labels)

    def problems(self) -> list[str]:
        """What a person cannot read, one line each; none where all is well."""
        found = []
        least = min(MIN_LABELS, self.nodes)
        if len(self.labels) < least:
            found.append(f"{len(self.labels)} labels of {self.nodes} operations; at least {least}")
        if self.legible < LEGIBLE_SHARE * len(self.labels):
            small = min(size for _, size in self.labels)
            found.append(
                f"{self.legible} of {len(self.labels)} labels have {LEGIBLE_PIXELS:g} pixels or "
                f"more; the smallest has {small:.1f}"
            )
        if self.outside:
            found.append(f"{len(self.outside)} of {self.nodes} are outside: {self.outside[0]}, ...")
        found += [f"an edge runs upwards and does not say so: {edge}" for edge in self.upward[:3]]
        return found


def look(page: Page) -> FirstSight:
    """The graph of an explorer that has drawn it; `page` is as large as the person's."""
    found: dict[str, Any] = page.evaluate(_LOOK)
    return FirstSight(
        nodes=found["nodes"],
        blocks=found["blocks"],
        labels=tuple((text, size) for text, size in found["labels"]),
        outside=tuple(found["outside"]),
        upward=tuple(found["upward"]),
        back=found["back"],
        scale=found["scale"],
    )


def overlapping_labels(page: Page, colours: Sequence[str] = COLOURS) -> list[str]:
    """Labels that lie on one another at any zoom, `place: one / other`; none where all is well.

    page: an explorer that has drawn a graph.
    """
    found = []
    for colour in colours:
        page.get_by_label("colour of operations").select_option(colour)
        page.get_by_role("button", name="fit", exact=True).click()
        for key in ("", *["-"] * ZOOMS, "", *["+"] * ZOOMS):
            if key:
                page.locator(".graph .canvas").press(key)
            else:
                page.get_by_role("button", name="fit", exact=True).click()
            pairs = overlapping_now(page)
            scale = page.locator(".graph .nodes").evaluate("layer => layer.getScreenCTM().a")
            found += [f"{colour or 'kind'} at {scale:.2f}: {pair}" for pair in pairs]
    return list(dict.fromkeys(found))


def overlapping_now(page: Page) -> list[str]:
    """Labels that lie on one another as the graph is drawn now, `one / other`."""
    page.evaluate(_FRAMES)
    return page.evaluate(_OVERLAPS, [LABELS, ACROSS, DOWN])
