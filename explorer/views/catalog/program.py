"""Where compiled programs came from: memory, folder, shipped file or compiler, and why.

Compiled programs: 3 programs: 1 from memory, 1 from folder, 1 built
  from        program     key           time   why it was built
  ▲ compiler  digits_cnn  82fc11a28f21  1.1 s  it was not compiled before
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explorer.results.runs.lookups import ProgramLookup
from explorer.views.fixed_numbers import CACHE
from explorer.views.numbers import format_count, format_seconds
from explorer.views.specification import (
    Cell,
    Column,
    Facts,
    Part,
    Row,
    Section,
    Specification,
    TableSpec,
    Text,
)
from explorer.views.theme import FROM_SOURCE, TIERS, tier_look
from explorer.views.view import Pane, View

MAX_ROWS = 40
DIGEST_CHARACTERS = 12
_SOURCES = {
    "memory": "memory of this process",
    "folder": "folder on disk",
    "shipped": "exported file",
    "source": "compiler",
}


def programs(lookups: Sequence[ProgramLookup]) -> Specification:
    """Programs that were looked for, the latest first, and what the latest one depends on."""
    if not lookups:
        parts: tuple[Part, ...] = (
            Text(text="No program was looked for: none was run, or the machine takes it as it is."),
        )
        return Specification(title="Compiled programs", subtitle="0 programs", parts=parts)
    latest = lookups[-1]
    return Specification(
        title="Compiled programs",
        subtitle=programs_title(lookups),
        parts=(
            _lookups(lookups),
            Section(title="where the latest one was looked for", parts=(_tiers(latest),)),
            Section(
                title="what it depends on",
                parts=(Facts(rows=(*latest.key, ("digest of all", latest.digest))),),
            ),
        ),
    )


def programs_title(lookups: Sequence[ProgramLookup]) -> str:
    """`3 programs: 1 from memory, 1 from folder, 1 built`."""
    counts = Counter(found.tier for found in lookups)
    parts = [
        f"{counts[look.name]} {'built' if look is FROM_SOURCE else f'from {look.name}'}"
        for look in TIERS
        if counts[look.name]
    ]
    total = format_count(len(lookups), "program")
    return f"{total}: {', '.join(parts)}" if parts else total


def _lookups(lookups: Sequence[ProgramLookup]) -> TableSpec:
    return TableSpec(
        title="look-ups of the program",
        max_rows=MAX_ROWS,
        columns=(
            Column(key="tier", title="from"),
            Column(key="name", title="program", format="name"),
            Column(key="digest", title="key", format="name"),
            Column(key="seconds", title="time", format="seconds", moves=CACHE),
            Column(key="reason", title="why it was built"),
        ),
        rows=tuple(_row(found) for found in reversed(lookups)),
    )


def _row(found: ProgramLookup) -> Row:
    look = tier_look(found.tier)
    return Row(
        cells={
            "tier": Cell(value=_SOURCES[look.name], look=look, exact=look.title),
            "name": found.name,
            "digest": Cell(
                value=found.digest, text=found.digest[:DIGEST_CHARACTERS], exact=found.digest
            ),
            "seconds": Cell(value=found.seconds, exact=f"{found.seconds} s"),
            "reason": found.reason,
        }
    )


def _tiers(latest: ProgramLookup) -> TableSpec:
    """Every tier in the order in which programs are looked for, and what it answered."""
    reached = TIERS.index(tier_look(latest.tier))
    answers = [
        f"had it after {format_seconds(latest.seconds)}"
        if place == reached
        else "did not have it"
        if place < reached
        else "not queried"
        for place in range(len(TIERS))
    ]
    rows = (
        Row(cells={"tier": Cell(value=_SOURCES[look.name], look=look), "answer": answer})
        for look, answer in zip(TIERS, answers, strict=True)
    )
    return TableSpec(
        title="where the program is looked for, in order",
        columns=(Column(key="tier", title="in"), Column(key="answer", title="answer")),
        rows=tuple(rows),
    )


VIEW = View(
    name="program",
    title="where the compiled program came from, and why",
    uses=("program", "profile"),
    specification=lambda trace, _: programs(trace.lookups),
    json=lambda trace, _: trace.lookups,
    pane=Pane(moves=CACHE, key="p"),
)
