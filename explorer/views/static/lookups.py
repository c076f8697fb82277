"""Where compiled programs came from: memory, folder, shipped file or compiler, and why.

3 programs: 1 from memory, 1 from folder, 1 built
  ▲  built   digits_cnn  82fc11a28f21  1.1 s  it was not compiled before
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explorer.results.runs.lookups import ProgramLookup
from explorer.views.numbers import format_count, format_seconds
from explorer.views.static.parts import plain as text_form
from explorer.views.static.parts.markup import (
    badge,
    card,
    code,
    escape,
    legend_of,
    note,
    shorten,
    table,
)
from explorer.views.theme import FROM_SOURCE, TIERS, Look

MOST_SHOWN = 40
DIGEST_CHARACTERS, NAME_CHARACTERS, REASON_CHARACTERS = 12, 40, 240
_HEADER = ("", "from", "program", "key", "time", "why it was built")
_ALIGN = "nlllrl"


def lookups_text(lookups: Sequence[ProgramLookup]) -> str:
    """One line per program that was asked for, the latest first."""
    rows = [(tier_look(f.tier).glyph, *_cells(f)) for f in _shown(lookups)]
    lines = [lookups_title(lookups), *text_form.columns(rows, _HEADER, _ALIGN)]
    return "\n".join([*lines, *(f"  {text}" for text in _left_out(lookups))])


def lookups_html(lookups: Sequence[ProgramLookup]) -> str:
    """A card with one row per program that was asked for, the latest first."""
    rows = []
    for found in _shown(lookups):
        tier, name, digest, time, reason = _cells(found)
        rows.append(
            [
                badge(tier_look(found.tier)),
                escape(tier),
                escape(name),
                code(digest),
                escape(time),
                escape(reason),
            ]
        )
    body = table(rows, _HEADER, _ALIGN) if rows else note("No program was asked for yet.")
    body += "".join(note(text) for text in _left_out(lookups))
    body += legend_of([(look, look.title) for look in TIERS])
    return card("Compiled programs", body, subtitle=lookups_title(lookups))


def lookups_title(lookups: Sequence[ProgramLookup]) -> str:
    """`3 programs: 1 from memory, 1 from folder, 1 built`."""
    counts = Counter(found.tier for found in lookups)
    parts = [f"{counts[look.name]} {_word(look)}" for look in TIERS if counts[look.name]]
    total = format_count(len(lookups), "program")
    return f"{total}: {', '.join(parts)}" if parts else total


def tier_look(tier: str) -> Look:
    """How a tier is shown; what is not known reads as built."""
    return next((look for look in TIERS if look.name == tier), FROM_SOURCE)


def _word(look: Look) -> str:
    return "built" if look is FROM_SOURCE else f"from {look.name}"


def _cells(found: ProgramLookup) -> tuple[str, str, str, str, str]:
    return (
        _word(tier_look(found.tier)).removeprefix("from "),
        shorten(found.name, NAME_CHARACTERS),
        found.digest[:DIGEST_CHARACTERS],
        format_seconds(found.seconds),
        shorten(found.reason, REASON_CHARACTERS),
    )


def _shown(lookups: Sequence[ProgramLookup]) -> list[ProgramLookup]:
    return list(reversed(lookups[-MOST_SHOWN:]))


def _left_out(lookups: Sequence[ProgramLookup]) -> list[str]:
    rest = len(lookups) - MOST_SHOWN
    return [f"and {rest} earlier; all of them: cache.looked"] if rest > 0 else []
