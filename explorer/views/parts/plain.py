"""Plain-text tables: what a terminal, a log or a screen reader shows of a result.

columns([("conv_1", "65"), ("relu_1", "7")], align="lr")
    conv_1  65
    relu_1   7
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

from explorer.views.parts.markup import plain

WIDTH = 100
"""Characters of a line where nobody says how many fit."""
LONGEST_WORD = 40
"""Longer ones, as names in a model may be, are cut where a line would be too long."""


def columns(
    rows: Sequence[Sequence[object]],
    header: Sequence[str] = (),
    align: str = "",
    indent: int = 2,
    width: int = 0,
) -> list[str]:
    """Lines of aligned columns, two spaces apart; none at all without rows.

    `align` holds r per column of numbers, else l or n. `width`: characters that a line may have, 0
    for any number; columns of text go on below themselves, the widest first, until the lines fit.
    """
    if not rows:
        return []
    every = [tuple(map(plain, header))] if any(header) else []
    every += [tuple(plain(cell) for cell in row) for row in rows]
    widths = [
        max(len(row[i]) if i < len(row) else 0 for row in every) for i in range(len(every[0]))
    ]
    if width:
        excess = indent + sum(widths) + 2 * (len(widths) - 1) - width
        widths = _narrowed(widths, _least(every, align), excess)
        every = [part for row in every for part in _wrapped(row, widths)]
    lines = []
    for row in every:
        cells = [
            cell.rjust(width) if align[i : i + 1] == "r" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def _least(rows: Sequence[Sequence[str]], align: str) -> list[int]:
    """How narrow columns may become: those of text as their longest word, if that is not long."""
    least = []
    for i, cells in enumerate(itertools.zip_longest(*rows, fillvalue="")):
        words = [len(word) + 2 for cell in cells for word in cell.split()]
        is_text = align[i : i + 1] == "l"
        least.append(min(max(words, default=0), LONGEST_WORD) if is_text else max(map(len, cells)))
    return least


def _narrowed(widths: Sequence[int], least: Sequence[int], excess: int) -> list[int]:
    """The widths less the excess, taken from the widest columns first."""
    found = list(widths)
    for i in sorted(range(len(widths)), key=lambda i: -widths[i]):
        taken = max(0, min(excess, found[i] - least[i]))
        found[i] -= taken
        excess -= taken
    return found


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[tuple[str, ...]]:
    """A row, and rows below it for the text that its columns do not hold, cut between words."""
    cells = [
        textwrap.wrap(cell, width, subsequent_indent="  ", break_on_hyphens=False)
        if len(cell) > width
        else [cell]
        for cell, width in zip(row, widths, strict=False)
    ]
    return list(itertools.zip_longest(*cells, fillvalue=""))


def bar(share: float, width: int = 20) -> str:
    """A bar in eighths of a character: 0.4375 of 4 is `█▊`."""
    eighths = 0 if share <= 0 else max(1, round(min(share, 1.0) * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]
