"""Insights about time: kernels far below their roof, searches that found better, copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.results import KernelSearch, ProfileRecord, Trace
from explorer.views.insights.insight import Insight
from explorer.views.numbers import (
    format_amount,
    format_count,
    format_nanoseconds,
    format_percent,
)
from explorer.views.specification import Link

FAR_BELOW = 0.5
"""Of its roof; nearer is near."""
NOTABLE = 0.03
"""Of the time of all launches."""
MANY_COPIES = 0.1
BETTER = 1.05
"""Times as fast as the default schedule."""
MOST = 5


@dataclass
class _Spent:
    """All launches of a kernel."""

    nanoseconds: int = 0
    needed: float = 0.0
    """Nanoseconds that they would take at their roof."""
    flops: int = 0
    launches: int = 0
    slowest: tuple[int, str] = (0, "")


def below_the_roof(trace: Trace) -> Iterator[Insight]:
    """Kernels that reach less than half of what arithmetic and memory allow (S. Williams and
    others: Roofline, Communications of the ACM 52(4), 2009)."""
    profile = trace.profile
    if profile is None or not profile.peak_gflops or not profile.peak_gbytes_per_second:
        return
    spent = _by_kernel(profile)
    total = sum(each.nanoseconds for each in spent.values())
    found = {search.kernel: search for search in trace.searches}
    ranked = sorted(spent, key=lambda name: spent[name].needed - spent[name].nanoseconds)
    for name in ranked[:MOST]:
        kernel = spent[name]
        lost = kernel.nanoseconds - kernel.needed
        if kernel.needed > FAR_BELOW * kernel.nanoseconds or lost < NOTABLE * total:
            continue
        times = format_count(kernel.launches, "launch", "launches")
        gflops = kernel.flops / kernel.nanoseconds
        rate = f", {format_amount(gflops * 1e9)}FLOP/s" if kernel.flops else ""
        yield Insight(
            name="below-the-roof",
            text=f"{name} reaches {format_percent(kernel.needed / kernel.nanoseconds)} of its "
            f"roof in {times}{rate}. {_better(found.get(name))}",
            effect=f"up to {format_nanoseconds(lost)} of {format_nanoseconds(total)}",
            share=lost / total,
            place=Link(dock="roofline", tab="loops", selection=kernel.slowest[1]),
        )


def better_schedules(trace: Trace) -> Iterator[Insight]:
    """Searches whose choice is faster than what the program runs."""
    profile = trace.profile
    spent = {} if profile is None else _by_kernel(profile)
    total = sum(each.nanoseconds for each in spent.values())
    operations = {kernel.name: kernel.operations for kernel in trace.kernels}
    for search in trace.searches:
        if search.gain < BETTER or not operations.get(search.kernel):
            continue
        won = 1 - 1 / search.gain
        time = spent[search.kernel].nanoseconds * won if search.kernel in spent else 0.0
        yield Insight(
            name="better-schedule",
            text=f"A search found a schedule of {search.kernel} that is {search.gain:.1f} times as "
            "fast as the default one. It counts in the fork that takes it.",
            effect=f"{format_nanoseconds(time)} of {format_nanoseconds(total)}"
            if time
            else f"{format_percent(won)} of the kernel",
            share=time / total if total else won / max(len(operations), 1),
            place=Link(dock="kernels", tab="loops", selection=operations[search.kernel][0]),
        )


def copies(trace: Trace) -> Iterator[Insight]:
    """A large part of the time that only moves data."""
    profile = trace.profile
    moving = {kernel.name for kernel in trace.kernels if kernel.kind == "copy"}
    if profile is None or not moving:
        return
    spent = _by_kernel(profile)
    total = sum(each.nanoseconds for each in spent.values())
    moved = {name: each for name, each in spent.items() if name in moving}
    time = sum(each.nanoseconds for each in moved.values())
    if not total or time < MANY_COPIES * total:
        return
    longest = max(moved, key=lambda name: moved[name].nanoseconds)
    count = sum(each.launches for each in moved.values())
    yield Insight(
        name="copies",
        text=f"{format_percent(time / total)} of the time goes into "
        f"{format_count(count, 'launch', 'launches')} that only move data, most of it into "
        f"{longest}. Another layout may need fewer.",
        effect=f"{format_nanoseconds(time)} of {format_nanoseconds(total)}",
        share=time / total,
        place=Link(dock="timeline", selection=moved[longest].slowest[1]),
    )


def _by_kernel(profile: ProfileRecord) -> dict[str, _Spent]:
    spent: dict[str, _Spent] = {}
    for event in profile.launches:
        time = event.end_ns - event.start_ns
        if not event.kernel or time <= 0:
            continue
        kernel = spent.setdefault(event.kernel, _Spent())
        kernel.nanoseconds += time
        kernel.flops += event.flops
        kernel.launches += 1
        kernel.slowest = max(kernel.slowest, (time, event.operation))
        bandwidth = profile.bandwidth_for(event.bytes_moved)
        # GFLOP/s and GB/s are FLOP and bytes a nanosecond.
        arithmetic = event.flops / profile.peak_gflops if profile.peak_gflops else 0.0
        kernel.needed += max(arithmetic, event.bytes_moved / bandwidth if bandwidth else 0.0)
    return spent


def _better(search: KernelSearch | None) -> str:
    if search is None:
        return "No search for a better schedule was made."
    if search.gain < BETTER:
        tried = Counter(candidate.status for candidate in search.candidates)["measured"]
        return f"A search measured {format_count(tried, 'schedule')} and found none that is better."
    return f"A search found a schedule that is {search.gain:.1f} times as fast."
