"""Where the time of one inference goes: a bar per launch.

122 µs on Invented CPU with AVX2, 2 threads (median of 20 runs)
  conv_1   35.1 µs  29 %  ██████████  33.6 GFLOP/s
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.results.runs.events import ProfileRecord
from explorer.views.numbers import (
    format_amount,
    format_count,
    format_milliseconds,
    format_nanoseconds,
    format_percent,
)
from explorer.views.parts import plain as text_form
from explorer.views.parts.markup import badge, bar, card, code, escape, note, plain, table
from explorer.views.static.counted import counted_text, is_counted
from explorer.views.theme import family

SHOWN = 24
"""Most launches that get a bar; of more, the slowest are shown."""


@dataclass(frozen=True)
class _Row:
    name: str
    operation: str
    nanoseconds: int
    flops: int
    bytes_moved: int

    @property
    def gflops(self) -> float:
        """FLOP per nanosecond is GFLOP per second."""
        return self.flops / self.nanoseconds if self.nanoseconds > 0 else 0.0

    @property
    def gbytes_per_second(self) -> float:
        return self.bytes_moved / self.nanoseconds if self.nanoseconds > 0 else 0.0


def profile_text(profile: ProfileRecord) -> str:
    """The latency, and one line per launch in the order of execution."""
    if is_counted(profile):
        return counted_text(profile)
    rows, remark = _rows(profile)
    total = _total(profile)
    longest = max((row.nanoseconds for row in rows), default=0) or 1
    cells = [
        (
            row.name,
            format_nanoseconds(row.nanoseconds),
            format_percent(row.nanoseconds / total),
            text_form.bar(row.nanoseconds / longest),
            *_rate(row, profile),
        )
        for row in rows
    ]
    header = ("launch", "time", "share", "", "speed", "of peak")
    lines = [_summary(profile), *text_form.columns(cells, header, "lrrlrr")]
    return "\n".join([*lines, f"  {remark}"] if remark else lines)


def profile_html(profile: ProfileRecord, families: Mapping[str, str] | None = None) -> str:
    """A card with a bar per launch. `families` colours bars by what the operation is."""
    rows, remark = _rows(profile)
    total = _total(profile)
    longest = max((row.nanoseconds for row in rows), default=0) or 1
    cells = []
    for row in rows:
        look = family((families or {}).get(row.operation, ""))
        cells.append(
            [
                badge(look),
                code(row.name),
                escape(format_nanoseconds(row.nanoseconds)),
                escape(format_percent(row.nanoseconds / total)),
                bar(row.nanoseconds / longest, look.light.edge, 160),
                *(escape(part) for part in _rate(row, profile)),
            ]
        )
    body = table(cells, ("", "launch", "time", "share", "", "speed", "of peak"), "nlrrnrr")
    if remark:
        body += note(remark)
    return card("Profile", body, subtitle=_summary(profile))


def _rows(profile: ProfileRecord) -> tuple[list[_Row], str]:
    """The slowest events in the order of execution, and a line about the others."""
    slowest = sorted(
        range(len(profile.events)),
        key=lambda i: (profile.events[i].start_ns - profile.events[i].end_ns, i),
    )
    chosen = sorted(slowest[:SHOWN], key=lambda i: (profile.events[i].start_ns, i))
    rows = [
        _Row(e.name, e.operation, e.end_ns - e.start_ns, e.flops, e.bytes_moved)
        for e in (profile.events[i] for i in chosen)
    ]
    others = [profile.events[i] for i in slowest[SHOWN:]]
    if not others:
        return rows, ""
    rest = sum(e.end_ns - e.start_ns for e in others)
    return rows, (
        f"and {format_count(len(others), 'more event')} of {format_nanoseconds(rest)} together: "
        "profile.events"
    )


def _total(profile: ProfileRecord) -> int:
    return sum(e.end_ns - e.start_ns for e in profile.events) or 1


def _rate(row: _Row, profile: ProfileRecord) -> tuple[str, str]:
    """Arithmetic where there is some, else traffic; and its share of the measured peak."""
    if row.flops:
        return _against(row.gflops, profile.peak_gflops, "FLOP/s")
    if row.bytes_moved:
        return _against(row.gbytes_per_second, profile.bandwidth_for(row.bytes_moved), "B/s")
    return "", ""


def _against(billions: float, peak_billions: float, unit: str) -> tuple[str, str]:
    share = format_percent(billions / peak_billions) if peak_billions > 0 else ""
    return f"{format_amount(billions * 1e9)}{unit}", share


def _summary(profile: ProfileRecord) -> str:
    return (
        f"{format_milliseconds(profile.milliseconds)} on {plain(profile.device)}, "
        f"{format_count(profile.threads, 'thread')} "
        f"(median of {format_count(profile.repeats, 'run')})"
    )
