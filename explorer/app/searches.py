"""Searches for schedules that a page started: what is asked for, and how far each one is.

page: {"kind": "search", "kernel": "conv_1", "candidates": 16, "seconds": 60, "keep": false}
    ->  SearchOrder("conv_1", 16, 60.0, False)
    ->  Search(7, request, order, "running", number=3, most=16, result={...})  and so on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.app.branches import Branch
from explorer.app.protocol import CompileRequest, SearchProgress
from explorer.results.decisions import BUDGET, PINS, SCHEDULES

MAX_CANDIDATES = 200
MAX_SECONDS = 600
MAX_NAME = 400
MAX_SEARCHES = 24
"""Of one page; the oldest goes when there are more."""
PLACED = (PINS, BUDGET)
"""Decisions about memory, which no schedule asks for."""
"""How the addresses of decisions about schedules begin."""


@dataclass(frozen=True)
class SearchOrder:
    """What is to be searched, and what that may take."""

    kernel: str
    candidates: int
    seconds: float
    keep: bool = False
    """Whether later compilations use what is found."""

    @staticmethod
    def of_page(message: Mapping[str, Any]) -> SearchOrder | None:
        """What a page asks for; None for what no page of ours would send."""
        kernel, candidates = message.get("kernel"), message.get("candidates")
        seconds, keep = message.get("seconds"), message.get("keep")
        if not isinstance(kernel, str) or not 0 < len(kernel) <= MAX_NAME:
            return None
        if isinstance(candidates, bool) or not isinstance(candidates, int):
            return None
        if isinstance(seconds, bool) or not isinstance(seconds, int) or not isinstance(keep, bool):
            return None
        if not 2 <= candidates <= MAX_CANDIDATES or not 2 <= seconds <= MAX_SECONDS:
            return None
        return SearchOrder(kernel, candidates, float(seconds), keep)


def newly_known(number: int, most: int, result: Any, found: SearchProgress) -> dict[str, Any]:
    """Fields of what is measured bit by bit, by name, with those of `found` that it tells."""
    return {
        "status": found.status,
        "number": found.number or number,
        "most": found.most or most,
        "error": found.error,
        "result": result if found.result is None else found.result,
    }


@dataclass(frozen=True)
class Search:
    """One search. `status`: running, done, cancelled or failed."""

    key: int
    request: CompileRequest
    order: SearchOrder
    status: str = "running"
    number: int = 0
    most: int = 0
    error: str = ""
    result: Any = None  # JSON, see explorer.views.catalog.search

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    def after(self, found: SearchProgress) -> Search:
        """The search with what is newly known; what is not told stays."""
        return replace(self, **newly_known(self.number, self.most, self.result, found))

    def applies_to(self, request: CompileRequest) -> bool:
        """Whether a branch has this kernel: only decisions about schedules may differ."""
        return _without_schedules(self.request) == _without_schedules(request)

    def session(self, branches: Sequence[Branch]) -> dict[str, Any]:
        """As session.js reads it."""
        return {
            "kernel": self.order.kernel,
            "branches": [b.key for b in branches if self.applies_to(b.request)],
            "status": self.status,
            "number": self.number,
            "most": self.most or self.order.candidates,
            "error": self.error,
            "result": self.result,
        }


def with_search(searches: Sequence[Search], search: Search) -> tuple[Search, ...]:
    """The searches with another one in place of an earlier one of the same kernel."""
    others = [
        other
        for other in searches
        if other.key != search.key
        and not (other.order.kernel == search.order.kernel and other.applies_to(search.request))
    ]
    return (*others, search)[-MAX_SEARCHES:]


def _without_schedules(request: CompileRequest) -> CompileRequest:
    others = tuple(
        (address, value)
        for address, value in request.decisions
        if address.split("/")[0] != SCHEDULES and address not in PLACED
    )
    return replace(request, decisions=others)
