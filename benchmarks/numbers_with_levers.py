"""Counts the numbers in the page from which a person reaches what moves them.

    python benchmarks/numbers_with_levers.py sample_models/digits_cnn.onnx [--target vta-16]
        [--quantize t.json] [--list]

The page is served, every tab of the dock and of the inspector is opened, the inner tabs of the dock
too, and every number in a text there is counted, in charts as well: those of which a press (in rows
and buttons the second button of the mouse, or the menu key) opens levers, those of which it says
why no decision moves them, and the others. Texts of programs, names and the graph of operations
hold no such numbers. Pictures of points (maps of errors and memory, timelines) have no text: a
press selects what has its numbers next to the picture.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

from playwright.sync_api import Locator, Page

TESTS = Path(__file__).resolve().parent.parent / "tests"
browsing = SimpleNamespace(**run_path(str(TESTS / "browsing.py")))

NUMBERS = r"""(area) => {
  const TOKEN =
    /(?<![\w.:/[\u2044-])[-−+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?(\s?(%|×|dB|[a-zA-Zµ/]{1,7}))?/g;
  const NONE = 'pre, code, svg.canvas, canvas, .code, th, input, textarea, select, [data-names]';
  const UNITS = /dB|ns|µs|ms|^s$|B$|bytes?|cycles?/;
  const found = [];
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const host = walker.currentNode.parentElement;
    if (host.closest(NONE) || !host.checkVisibility()) continue;
    for (const [text, , , , unit] of walker.currentNode.textContent.matchAll(TOKEN)) {
      const said = host.closest('[data-moves], [data-fixed], [data-about]');
      const about = said?.dataset.moves ?? said?.dataset.about ?? '';
      const isReason = said?.dataset.fixed || about.includes(' ');
      const column = host.closest('td, dd')?.className ?? '';
      // A press on a letter that the pointer does not meet reaches what is drawn below it.
      const isMissed = host.closest('svg') && getComputedStyle(host).pointerEvents === 'none';
      found.push({
        text,
        isDrawn: Boolean(host.closest('svg')),
        kind: isMissed ? 'none'
          : said?.dataset.fixed ? 'reason'
          : UNITS.test(unit ?? '') || (about && !isReason) ? 'levers'
          : isReason ? 'reason' : 'none',
        where: `${host.tagName.toLowerCase()}.${host.className} ${column}`,
      });
    }
  }
  return found;
}"""
"""All numbers in an area: whether a press opens levers, or a reason, or nothing."""


@contextmanager
def served(arguments: list[str]) -> Iterator[str]:
    """The address of `explorer serve`, without what earlier pages left."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "explorer", "serve", "--no-browser", *arguments],
            env={**os.environ, "EXPLORER_WORKSPACES": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            found = re.search(r"http://\S+", process.stdout.readline() if process.stdout else "")
            assert found, "the app did not start"
            yield found.group()
        finally:
            process.terminate()
            process.wait(30)


def areas(page: Page) -> Iterator[tuple[str, Locator]]:
    """Head, every tab of the dock with its inner tabs, every tab of the inspector."""
    yield "head", page.locator(".facts-row")
    for name in ("passes-pane", "graph"):
        yield name, page.locator(f".{name}")
    for kind in (".dock", ".inspector"):
        outer = page.locator(f"{kind} [role=tab][data-tab]")
        for name in [tab.get_attribute("data-tab") for tab in outer.all()]:
            page.locator(f'{kind} [role=tab][data-tab="{name}"]').click()
            page.wait_for_timeout(1500)
            inner = page.locator(f"{kind} [role=tab]:not([data-tab])")
            for at in range(inner.count()) or (None,):
                if at is not None:
                    inner.nth(at).click()
                    page.wait_for_timeout(700)
                yield f"{kind[1:]} {name}{'' if at is None else f' {at}'}", page.locator(kind)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts numbers that say what moves them.")
    parser.add_argument("--list", action="store_true", help="the numbers that are not reached")
    known, rest = parser.parse_known_args()
    total, drawn = Counter[str](), Counter[str]()
    with (
        served(rest) as address,
        browsing.chromium() as browser,
        browsing.watched(browser) as seen,
    ):
        page = seen.page
        page.goto(address)
        page.wait_for_selector(".node", timeout=120_000)
        page.locator(".background:empty").wait_for(state="attached", timeout=300_000)
        page.locator(".node:not(.block)").nth(2).click()
        for name, area in areas(page):
            numbers = area.evaluate(NUMBERS)
            counts = Counter(number["kind"] for number in numbers)
            total += counts
            drawn += Counter(number["kind"] for number in numbers if number["isDrawn"])
            print(f"{name:24} {words(counts)}")
            missed = Counter((n["where"], n["text"]) for n in numbers if n["kind"] == "none")
            for (where, text), count in missed.most_common(20) if known.list else ():
                print(f"    {count:4} in {where[:50]!r}: {text!r}")
    print(f"{'all':24} {words(total)}")
    print(f"{'of them in charts':24} {words(drawn)}")


def words(counts: Counter[str]) -> str:
    """`40 of 45 numbers: 30 open levers, 10 say why nothing moves them`"""
    levers, reason = counts["levers"], counts["reason"]
    return (
        f"{levers + reason:5} of {counts.total():5} numbers: {levers} open levers, "
        f"{reason} say why nothing moves them"
    )


if __name__ == "__main__":
    main()
