"""A few measured numbers side by side, as bars: the rungs of a kernel's ladder, or named numbers.

lower          2.3 GFLOP/s  ▍
unroll       115.8 GFLOP/s  ████████████████████████
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.views.parts.markup import escape, plain

BAR_BLOCKS = 24
"""Length of the longest bar of text, in characters."""

Rung = tuple[str, float, float]
"""The step, milliseconds, and GFLOP/s, which is 0 where nothing is multiplied and added."""
_Bar = tuple[str, str, float]
"""What is measured, the number as text, the height."""


def ladder_text(rungs: Sequence[Rung]) -> str:
    """A line per rung: longer is faster."""
    return _text([_rung(*rung) for rung in rungs])


def ladder_html(rungs: Sequence[Rung]) -> str:
    return _html([_rung(*rung) for rung in rungs])


def bars_text(values: Sequence[tuple[str, float]], unit: str) -> str:
    """A line per named number."""
    return _text([(name, f"{value:.1f} {unit}", value) for name, value in values])


def bars_html(values: Sequence[tuple[str, float]], unit: str) -> str:
    return _html([(name, f"{value:.1f} {unit}", value) for name, value in values])


def _rung(step: str, milliseconds: float, gflops: float) -> _Bar:
    if gflops:
        return step, f"{gflops:.1f} GFLOP/s", gflops
    return step, f"{milliseconds * 1e3:.1f} µs", 1 / milliseconds


def _text(bars: Sequence[_Bar]) -> str:
    most = max((height for _, _, height in bars), default=0.0) or 1.0
    names = [plain(name) for name, _, _ in bars]
    name_width = max(map(len, names), default=0)
    number_width = max((len(number) for _, number, _ in bars), default=0)
    return "\n".join(
        f"{name:{name_width}}  {number:>{number_width}}  "
        f"{'█' * max(1, round(height / most * BAR_BLOCKS))}"
        for name, (_, number, height) in zip(names, bars, strict=True)
    )


def _html(bars: Sequence[_Bar]) -> str:
    """A table with inline styles: notebooks that are not trusted strip all others."""
    most = max((height for _, _, height in bars), default=0.0) or 1.0
    cell = "padding:1px 10px 1px 0;border:0;background:transparent"
    lines = [
        f'<tr style="background:transparent"><td style="{cell};text-align:left">'
        f"<code>{escape(name)}</code></td>"
        f'<td style="{cell};text-align:right;white-space:nowrap">{escape(number)}</td>'
        f'<td style="{cell};width:24em"><div style="width:{max(height / most * 100, 0.5):.1f}%;'
        f'height:0.9em;background:#4c78a8;border-radius:2px"></div></td></tr>'
        for name, number, height in bars
    ]
    return f'<table style="border-collapse:collapse;border:0">{"".join(lines)}</table>'
