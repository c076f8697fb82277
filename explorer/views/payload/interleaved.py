"""Programs timed in turns, as data for the page: medians, spreads, and what is a difference."""

from __future__ import annotations

from explorer.results.runs.interleaved import InterleavedTiming, SideTimes
from explorer.views.payload.text import Json


def turns_payload(record: InterleavedTiming) -> Json:
    """Sides from base to fork; times in nanoseconds."""
    return {
        "device": record.device,
        "threads": record.threads,
        "rounds": record.rounds,
        "sides": [
            {
                "label": side.label,
                "latency": _times(side.latency),
                "kernels": {name: _times(times) for name, times in side.kernels},
            }
            for side in record.sides
        ],
    }


def _times(times: SideTimes) -> Json:
    return {
        "median": times.median_ns,
        "low": times.low_ns,
        "high": times.high_ns,
        "ratio": times.ratio,
        "lowRatio": times.low_ratio,
        "highRatio": times.high_ratio,
        "isSame": times.is_same_code,
        "isDifferent": times.is_different,
    }
