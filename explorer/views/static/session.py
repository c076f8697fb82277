"""The log of a session: which call met a program, and why the others did not.

digits_mlp for cpu, lazy: 3 calls, 1 met its program, 1 program
     call  event     answered by  time     compiling  why no program fitted
  ○     1  not hot   onnxruntime  1.2 ms              nothing was compiled before
  ▲     2  compiled  program      410 ms   409 ms     nothing was compiled before
  ●     3  hit       program      12 µs
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.results.runs.sessions import SessionCall, SessionProgram, SessionRecord
from explorer.views.numbers import format_count, format_exact, format_seconds
from explorer.views.parts import plain as text_form
from explorer.views.parts.markup import (
    badge,
    bar,
    card,
    code,
    escape,
    legend_of,
    note,
    section,
    shorten,
    table,
)
from explorer.views.theme import FROM_FALLBACK, FROM_MEMORY, FROM_SOURCE, Look, tier_look

MOST_CALLS = 30
"""Calls that are listed; of more, those that compiled or met no program, then the latest."""
SIGNATURE_CHARACTERS, REASON_CHARACTERS = 80, 200
_HEADER = ("", "call", "event", "answered by", "time", "compiling", "why no program fitted")
_ALIGN = "nrllrrl"
_PROGRAM_HEADER = ("", "made for", "calls", "compiled in", "binary", "why it was built")
_PROGRAM_ALIGN = "nlrrll"


def session_text(record: SessionRecord) -> str:
    """The programs, then one line per call."""
    shown, rest = _shown(record.calls)
    rows = [(_look(call).glyph, *_cells(call)) for call in shown]
    lines = [session_title(record)]
    if record.is_cut_off:
        lines.append(f"  {_CUT_OFF}")
    programs = [(tier_look(p.tier).glyph, *_program_cells(p)) for p in record.programs]
    lines += text_form.columns(programs, _PROGRAM_HEADER, _PROGRAM_ALIGN)
    lines += text_form.columns(rows, _HEADER, _ALIGN)
    return "\n".join([*lines, *(f"  {text}" for text in rest)])


def session_html(record: SessionRecord) -> str:
    """A card: the programs that are held, and the calls with a bar of time each."""
    shown, rest = _shown(record.calls)
    body = note(_CUT_OFF) if record.is_cut_off else ""
    if record.programs:
        cells = []
        for program in record.programs:
            signature, *others = _program_cells(program)
            cells.append(
                [badge(tier_look(program.tier)), code(signature), *(escape(o) for o in others)]
            )
        body += section("programs") + table(cells, _PROGRAM_HEADER, _PROGRAM_ALIGN)
    longest = max((call.seconds for call in shown), default=0.0) or 1.0
    rows = []
    for call in shown:
        look = _look(call)
        number, event, answered, time, compiling, reason = map(escape, _cells(call))
        length = bar(call.seconds / longest, look.light.edge, 96)
        rows.append([badge(look), number, event, answered, time, length, compiling, reason])
    if rows:
        header = (*_HEADER[:5], "", *_HEADER[5:])
        body += section("calls") + table(rows, header, "nrllrnrl")
    else:
        body += note("It was not called yet: session(array) or session({name: array}).")
    body += "".join(note(text) for text in rest)
    body += legend_of(
        [
            (FROM_MEMORY, "met its program"),
            (FROM_SOURCE, "compiled first"),
            (FROM_FALLBACK, "answered without a program"),
        ]
    )
    return card("Session", body, subtitle=session_title(record))


def session_title(record: SessionRecord) -> str:
    """`digits_mlp for cpu, lazy: 3 calls, 1 met its program, 1 program`."""
    hits = sum(call.event == "hit" for call in record.calls)
    calls = format_count(len(record.calls), "call")
    programs = format_count(len(record.programs), "program")
    return (
        f"{shorten(record.model, 60)} for {record.target}, {record.mode}: {calls}, "
        f"{format_exact(hits)} met a program, {programs}"
    )


_CUT_OFF = (
    "New signatures are no longer compiled: there were too many of them with too few calls each."
)


def _look(call: SessionCall) -> Look:
    if call.event == "hit":
        return FROM_MEMORY
    return FROM_SOURCE if call.answered_by == "program" else FROM_FALLBACK


def _cells(call: SessionCall) -> tuple[str, str, str, str, str, str]:
    return (
        str(call.number),
        call.event,
        call.answered_by,
        format_seconds(call.seconds),
        format_seconds(call.compile_seconds) if call.compile_seconds else "",
        shorten(call.reason, REASON_CHARACTERS),
    )


def _program_cells(program: SessionProgram) -> tuple[str, str, str, str, str]:
    return (
        shorten(program.signature, SIGNATURE_CHARACTERS),
        format_exact(program.calls),
        format_seconds(program.seconds),
        {"source": "built", "": ""}.get(program.tier, program.tier and f"from {program.tier}"),
        shorten(program.reason, REASON_CHARACTERS),
    )


def _shown(calls: Sequence[SessionCall]) -> tuple[list[SessionCall], list[str]]:
    """The calls to list, and what is said of the others."""
    if len(calls) <= MOST_CALLS:
        return list(calls), []
    missed = [call for call in calls if call.event != "hit"][-MOST_CALLS:]
    hits = [call for call in calls if call.event == "hit"]
    latest = hits[len(hits) - (MOST_CALLS - len(missed)) :]
    shown = sorted([*missed, *latest], key=lambda call: call.number)
    rest = len(calls) - len(shown)
    return shown, [f"and {format_exact(rest)} other calls; all of them: session.calls"]
