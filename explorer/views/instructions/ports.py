"""What limits every hot loop of a program on a core: two predictions side by side.

kernel      loop              share  cycles  limit         ours  off   of peak  spills
conv_3x3_2  task > cb > p     62%    8.1     multiply-add  8.0   -2%   98%      –
"""

from __future__ import annotations

from explorer.results import LoopPorts, PortsRecord, Trace
from explorer.results.runs.ports import TOLERANCE
from explorer.views.numbers import format_count, format_percent
from explorer.views.parts.markup import card, code, escape, fold, note, plain, table
from explorer.views.parts.plain import WIDTH, columns

HEADER = ("kernel", "loop", "share", "cycles", "limit", "ours", "off", "of peak", "spills")
ALIGN = "llrrlrrrr"
NONE = "–"
MOST_PORTS = 4
"""Of a loop that are named."""


def ports_text(trace: Trace, width: int = WIDTH) -> str:
    """A line for every hot loop, and what the figures are of."""
    record = trace.ports
    assert record is not None
    rows = [_row(loop) for loop in record.loops]
    lines = [_title(trace, record), *(f"  {plain(line)}" for line in _about(record))]
    lines += columns(rows, HEADER, ALIGN, width=width)
    lines += [f"  not counted: {plain(name)}: {plain(why)}" for name, why in record.left_out]
    return "\n".join(lines)


def ports_html(trace: Trace) -> str:
    """A card of the same; the instructions of a loop unfold."""
    record = trace.ports
    assert record is not None
    rows = [[code(row[0]), code(row[1]), *map(escape, row[2:])] for row in map(_row, record.loops)]
    body = "".join(note(line) for line in _about(record)) + table(rows, HEADER, ALIGN)
    for loop in record.loops:
        title = f"{plain(loop.kernel)}, {plain(' > '.join(loop.loop))}: {ports_words(loop)}"
        lines = "<br>".join(code(line.expandtabs(8)) for line in loop.text)
        body += fold(title, lines)
    if record.left_out:
        rows = [[code(name), escape(why)] for name, why in record.left_out]
        body += table(rows, ("not counted", "why"), "ll")
    return card(_title(trace, record), body)


def ports_words(loop: LoopPorts) -> str:
    """The busiest ports: `Zn4FP0 8.0, Zn4FP1 8.0 cycles`."""
    named = ", ".join(f"{name} {used:.1f}" for name, used in loop.ports[:MOST_PORTS])
    return f"{named} cycles" if named else ""


def _title(trace: Trace, record: PortsRecord) -> str:
    loops = format_count(len(record.loops), "hot loop")
    return f"{plain(trace.model.name)} on {plain(record.core)}: {loops}"


def _about(record: PortsRecord) -> list[str]:
    spilling = sum(loop.spills > 0 for loop in record.loops)
    kept = sum(loop.should_multiply for loop in record.loops)
    return [
        f"{record.analyser} counts the ports of {record.model}; compiled by {record.compiler}"
        + (f"; {record.note}" if record.note else ""),
        f"cycles are of one iteration, of caches and branches nothing is known; ours is the cost "
        f"model, within {format_percent(TOLERANCE)} in {format_percent(record.within)} of the "
        f"loops",
        f"{format_count(kept, 'loop')} with multiply-adds limited by something else, "
        f"{spilling} with spills",
    ]


def _row(loop: LoopPorts) -> tuple[str, ...]:
    return (
        loop.kernel,
        " > ".join(loop.loop),
        format_percent(loop.share),
        f"{loop.cycles:.1f}",
        loop.limit,
        f"{loop.predicted_cycles:.1f}",
        f"{loop.error:+.0%}",
        format_percent(loop.peak_cycles / loop.cycles) if loop.peak_cycles else NONE,
        f"{loop.spills:g}" if loop.spills else NONE,
    )
