"""What a page's graph shows at first sight, asked in the browser, and what is wrong with it.

look(page).problems()   ["an edge runs upwards and does not say so: conv_1 > relu_2", ...]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

LEAST_LABELS = 8
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
        least = min(LEAST_LABELS, self.nodes)
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
