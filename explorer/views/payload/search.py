"""What a search for the schedule of a kernel tried, as the page draws it.

KernelSearch(...)  ->  {"kernel": "conv_1", "default": 0, "chosen": 3, "correlation": 0.82,
                        "candidates": [{"choices": [["pixels", 14]], "predicted": 36.1, ...}]}
"""

from __future__ import annotations

from explorer.results import KernelSearch
from explorer.views.payload.measures import number
from explorer.views.payload.text import Json

MOST_CANDIDATES = 400
"""That are drawn; a search for one kernel tries some dozens."""
MOST_REASON = 400


def search_payload(search: KernelSearch) -> Json:
    """Times in microseconds; 0 where nothing was measured."""
    return {
        "kernel": search.kernel,
        "device": search.device,
        "threads": search.threads,
        "seed": search.seed,
        "default": search.default,
        "chosen": search.chosen,
        "why": search.why,
        "seconds": number(search.seconds),
        "correlation": number(search.rank_correlation),
        "total": len(search.candidates),
        "candidates": [
            {
                "choices": [list(pair) for pair in candidate.choices],
                "predicted": number(candidate.predicted_us),
                "measured": number(candidate.measured_us),
                "spread": number(candidate.spread_us),
                "ratio": number(candidate.ratio),
                "confirmed": number(candidate.confirmed_us),
                "status": candidate.status,
                "reason": candidate.reason[:MOST_REASON],
                "origin": candidate.origin,
            }
            for candidate in search.candidates[:MOST_CANDIDATES]
        ],
    }
