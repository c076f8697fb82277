"""A search as a table: one row per candidate, with its choices side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explorer.results import SearchResult
from explorer.traces.tables import Row, as_frame

COLUMNS = (
    "kernel",
    "number",
    "chosen",
    "status",
    "predicted_us",
    "measured_us",
    "spread_us",
    "default_us",
    "ratio",
    "confirmed_us",
    "confirmed_ratio",
    "origin",
    "choices",
    "reason",
)


def search_frame(result: SearchResult) -> Any:  # a pandas.DataFrame or a frames.Table
    """One row per candidate in the order in which they were tried; 0 where nothing was measured."""
    return as_frame(COLUMNS, _rows(result))


def _rows(result: SearchResult) -> Iterator[Row]:
    for search in result.kernels:
        for number, candidate in enumerate(search.candidates):
            yield {
                "kernel": search.kernel,
                "number": number,
                "chosen": number == search.chosen,
                "status": candidate.status,
                "predicted_us": candidate.predicted_us,
                "measured_us": candidate.measured_us,
                "spread_us": candidate.spread_us,
                "default_us": candidate.default_us,
                "ratio": candidate.ratio,
                "confirmed_us": candidate.confirmed_us,
                "confirmed_ratio": candidate.confirmed_ratio,
                "origin": candidate.origin,
                "choices": ", ".join(f"{name}={value}" for name, value in candidate.choices),
                "reason": candidate.reason,
            }
