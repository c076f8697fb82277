"""The functions of a program in a column for each device, and the values that go between them.

cpu                 opencl
[main_cpu   ]
      \\ conv7, 256 B
                    [main_opencl]        a line is as wide as its value is large
      / dense2, 40 B
[main_cpu_2 ]
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.results.placement import PlacedPart
from explorer.results.program import Transfer
from explorer.views.numbers import format_bytes, format_count, format_seconds
from explorer.views.parts.svg import fit
from explorer.views.specification import ChartSpec, Label, Line, Mark, Rect

COLUMN, BOX, HEIGHT, ROW, TOP = 230.0, 180.0, 34.0, 62.0, 26.0
"""Of the picture: width of a column and of a function in it; height of a function and of a row."""
MAX_PARTS = 60
"""Functions that are drawn; of more, the first ones."""
MAX_LINE = 8.0
CALLER = ""
"""What gives the inputs and takes the outputs."""


def device_chart(parts: Sequence[PlacedPart], transfers: Sequence[Transfer]) -> ChartSpec:
    """Functions from top to bottom in the order in which they run, values as lines."""
    shown = parts[:MAX_PARTS]
    devices = list(dict.fromkeys(part.device for part in parts))
    columns = {device: COLUMN * (number + 0.5) for number, device in enumerate(devices)}
    rows = {part.function: number for number, part in enumerate(shown)}
    places = {p.function: (columns[p.device], TOP + ROW * (n + 0.5)) for n, p in enumerate(shown)}
    bottom = TOP + ROW * (len(shown) + 0.5)
    marks: list[Mark] = [
        Label(x=x, y=TOP - 10, text=device, anchor="middle", role="text")
        for device, x in columns.items()
    ]
    known = [
        t for t in transfers if t.source in (*rows, CALLER) and t.destination in (*rows, CALLER)
    ]
    largest = max((transfer.size_bytes for transfer in known), default=0) or 1
    for transfer in known:
        marks.append(_line(transfer, places, rows, bottom, largest))
    for part in shown:
        x, y = places[part.function]
        marks.append(
            Rect(
                x=x - BOX / 2,
                y=y - HEIGHT / 2,
                width=BOX,
                height=HEIGHT,
                role="raised",
                stroke="border",
                title=f"{part.function} on {part.device}: {', '.join(part.operations)}",
            )
        )
        for down, text in ((-2, part.function), (12, _facts(part))):
            words = fit(text, BOX - 8, 11)
            marks.append(Label(x=x, y=y + down, text=words, anchor="middle", role="text", size=11))
    more = len(parts) - len(shown)
    return ChartSpec(
        title="functions by device, and the values that go between them"
        + (f"; {format_count(more, 'more function')} below" if more else ""),
        width=COLUMN * len(devices) + MAX_LINE,
        height=bottom + 8,
        marks=tuple(marks),
        lines=tuple(
            f"{t.source or 'caller'} -> {t.destination or 'caller'}: {t.value}, {_size(t)}"
            for t in known
        ),
    )


def _line(
    transfer: Transfer,
    places: dict[str, tuple[float, float]],
    rows: dict[str, int],
    bottom: float,
    largest: int,
) -> Line:
    """From below its maker to above its reader; past the functions between them in one column."""
    reader = places.get(transfer.destination)
    maker = places.get(transfer.source)
    end = (maker[0] if maker else 0.0, bottom) if reader is None else reader
    start = (end[0], TOP) if maker is None else maker
    down = start[1] + (HEIGHT / 2 if maker else 0.0)
    up = end[1] - (HEIGHT / 2 if reader else 0.0)
    points = [(start[0], down), (end[0], up)]
    first = rows.get(transfer.source, -1)
    last = rows.get(transfer.destination, len(rows))
    if start[0] == end[0] and last - first > 1:
        beside = start[0] + BOX / 2 + 10
        points = [points[0], (beside, down + 10), (beside, up - 10), points[1]]
    return Line(
        points=tuple(points),
        role="accent",
        title=f"{transfer.value}: {_size(transfer)}",
        width=1 + (MAX_LINE - 1) * transfer.size_bytes / largest,
    )


def _size(transfer: Transfer) -> str:
    return format_bytes(transfer.size_bytes) if transfer.size_bytes else "known at run time"


def _facts(part: PlacedPart) -> str:
    count = format_count(len(part.operations), "operation")
    if part.predicted_us is None:
        return count
    return f"{count}, {format_seconds(part.predicted_us * 1e-6)}"
