"""The same number reads alike in page and notebook."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from explorer.views import module, numbers

pytestmark = pytest.mark.browser

PAIRS = {
    "bytesText": numbers.format_bytes,
    "secondsText": numbers.format_seconds,
    "amountText": numbers.format_amount,
    "errorText": numbers.format_error,
    "decibelsText": numbers.format_decibels,
    "percentText": numbers.format_percent,
}


def some_numbers() -> list[float]:
    """Halves of the last digit that is shown, which round up, and numbers of every size."""
    generator = random.Random(0)
    halves = [14.25, 2.5, 0.125, 99.95, 999.5, 1023.5, 14.25 * 1024, 1.25e-3, 2.25, 0.5, 62.5]
    spread = [generator.uniform(1, 10) * 10 ** generator.randrange(-6, 9) for _ in range(400)]
    return [0.0, 1.0, 100.0, 123.4, *halves, *spread]


def test_page_and_notebook_round_alike(chromium: Any):
    text = (module.FOLDER / "js" / "ground" / "numbers.js").read_text(encoding="utf-8")
    functions = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    given = some_numbers()
    page = chromium.new_page()
    try:
        for name, python in PAIRS.items():
            shown = page.evaluate(f"given => {{ {functions}\nreturn given.map({name}); }}", given)
            assert list(zip(given, shown, strict=True)) == [(n, python(n)) for n in given], name
        pairs = [[a, b] for a, b in pairwise(given[1:])]
        shown = page.evaluate(
            f"given => {{ {functions}\nreturn given.map(([a, b]) => ratioText(a, b)); }}", pairs
        )
        assert shown == [numbers.format_ratio(a, b) for a, b in pairs]
    finally:
        page.close()
