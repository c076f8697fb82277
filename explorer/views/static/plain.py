"""Plain-text tables: what a terminal, a log or a screen reader shows of a result.

columns([("conv_1", "65"), ("relu_1", "7")], align="lr")
    conv_1  65
    relu_1   7
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.views.static.markup import plain


def columns(
    rows: Sequence[Sequence[object]], header: Sequence[str] = (), align: str = "", indent: int = 2
) -> list[str]:
    """Lines of aligned columns, two spaces apart; none at all without rows.

    `align` holds r per column of numbers, else l or n.
    """
    if not rows:
        return []
    every = [tuple(header)] if header else []
    every += [tuple(plain(cell) for cell in row) for row in rows]
    widths = [
        max(len(row[i]) if i < len(row) else 0 for row in every) for i in range(len(every[0]))
    ]
    lines = []
    for row in every:
        cells = [
            cell.rjust(width) if align[i : i + 1] == "r" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def bar(share: float, width: int = 20) -> str:
    """A bar in eighths of a character: 0.4375 of 4 is `█▊`."""
    eighths = 0 if share <= 0 else max(1, round(min(share, 1.0) * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]
