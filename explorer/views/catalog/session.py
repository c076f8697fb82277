"""The log of a session: which call met a program, and why the others did not.

digits_mlp for cpu, lazy: 3 calls, 1 met a program, 1 program
     call  event     answered by  time     compiling  why no program fitted
  ○     1  not hot   onnxruntime  1.2 ms              nothing was compiled before
  ▲     2  compiled  program      410 ms   409 ms     nothing was compiled before
  ●     3  hit       program      12 µs
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.results.runs.sessions import SessionCall, SessionProgram, SessionRecord
from explorer.views.numbers import format_count, format_exact
from explorer.views.parts.markup import shorten
from explorer.views.specification import Cell, Column, Part, Row, Specification, TableSpec, Text
from explorer.views.theme import FROM_FALLBACK, FROM_MEMORY, FROM_SOURCE, Look, tier_look

MAX_CALLS = 30
"""Calls that are listed; of more, those that compiled or met no program, then the latest."""
MAX_SIGNATURE, MAX_REASON = 80, 200
"""Characters."""
PROGRAMS = (
    Column(key="signature", title="made for", format="name"),
    Column(key="calls", title="calls", format="count"),
    Column(key="seconds", title="compiled in", format="seconds"),
    Column(key="tier", title="binary"),
    Column(key="reason", title="why it was built"),
)
CALLS = (
    Column(key="number", title="call", format="count"),
    Column(key="event", title="event"),
    Column(key="answered_by", title="answered by"),
    Column(key="seconds", title="time", format="seconds"),
    Column(key="compile_seconds", title="compiling", format="seconds"),
    Column(key="reason", title="why no program fitted"),
)
CUT_OFF = (
    "New signatures are no longer compiled: there were too many of them with too few calls each."
)


def session(record: SessionRecord) -> Specification:
    """The programs that are held, then a row for every call."""
    shown = _shown(record.calls)
    longest = max((call.seconds for call in shown), default=0.0) or 1.0
    parts: list[Part] = [Text(text=CUT_OFF)] if record.is_cut_off else []
    programs = tuple(map(_program, record.programs))
    parts.append(TableSpec(title="programs", columns=PROGRAMS, rows=programs))
    calls = tuple(_call(call, longest) for call in shown)
    parts.append(TableSpec(title="calls", columns=CALLS, rows=calls))
    if not calls:
        parts.append(Text(text="It was not called yet: session(array) or session({name: array})."))
    if rest := len(record.calls) - len(shown):
        parts.append(Text(text=f"and {format_exact(rest)} other calls; all of them: session.calls"))
    return Specification(title="Session", subtitle=_title(record), parts=tuple(parts))


def _title(record: SessionRecord) -> str:
    hits = sum(call.event == "hit" for call in record.calls)
    calls = format_count(len(record.calls), "call")
    programs = format_count(len(record.programs), "program")
    return (
        f"{shorten(record.model, 60)} for {record.target}, {record.mode}: {calls}, "
        f"{format_exact(hits)} met a program, {programs}"
    )


def _program(program: SessionProgram) -> Row:
    tier = program.tier
    signature = shorten(program.signature, MAX_SIGNATURE)
    return Row(
        cells={
            "signature": Cell(value=signature, look=tier_look(tier)),
            "calls": program.calls,
            "seconds": program.seconds,
            "tier": {"source": "built", "": ""}.get(tier, tier and f"from {tier}"),
            "reason": shorten(program.reason, MAX_REASON),
        }
    )


def _call(call: SessionCall, longest: float) -> Row:
    return Row(
        cells={
            "number": Cell(value=call.number, look=_look(call)),
            "event": call.event,
            "answered_by": call.answered_by,
            "seconds": Cell(value=call.seconds, share=call.seconds / longest),
            "compile_seconds": call.compile_seconds or None,
            "reason": shorten(call.reason, MAX_REASON),
        }
    )


def _look(call: SessionCall) -> Look:
    if call.event == "hit":
        return FROM_MEMORY
    return FROM_SOURCE if call.answered_by == "program" else FROM_FALLBACK


def _shown(calls: Sequence[SessionCall]) -> list[SessionCall]:
    if len(calls) <= MAX_CALLS:
        return list(calls)
    missed = [call for call in calls if call.event != "hit"][-MAX_CALLS:]
    hits = [call for call in calls if call.event == "hit"]
    latest = hits[len(hits) - (MAX_CALLS - len(missed)) :]
    return sorted([*missed, *latest], key=lambda call: call.number)
