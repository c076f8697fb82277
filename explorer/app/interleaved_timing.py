"""Interleaved measurements that a page started: of which branches, and how far each one is.

page: {"kind": "turns", "branches": ["1", "2"]}
    ->  TimingOrder(7, ("1", "2"), request, "running", number=3, most=8)  and so on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.app.protocol import CompileRequest, SearchProgress
from explorer.app.searches import newly_known

MAX_TIMINGS = 12
"""Of one page; the oldest goes when there are more."""


@dataclass(frozen=True)
class TimingOrder:
    """One measurement. `status`: running, done, cancelled or failed."""

    key: int
    branches: tuple[str, ...]
    """Their keys, the base of the others first."""
    request: CompileRequest
    """Of the base: what the worker knows it by."""
    status: str = "running"
    number: int = 0
    most: int = 0
    error: str = ""
    result: Any = None  # JSON, see explorer.views.payload.interleaved

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    def after(self, found: SearchProgress) -> TimingOrder:
        """The measurement with what is newly known; what is not told stays."""
        return replace(self, **newly_known(self.number, self.most, self.result, found))

    def session(self) -> dict[str, Any]:
        """As session.js reads it."""
        return {
            "branches": list(self.branches),
            "status": self.status,
            "number": self.number,
            "most": self.most,
            "error": self.error,
            "result": self.result,
        }


def with_timing(kept: Sequence[TimingOrder], turns: TimingOrder) -> tuple[TimingOrder, ...]:
    """The measurements with another one in place of an earlier one of the same branches."""
    others = [
        other for other in kept if other.key != turns.key and other.branches != turns.branches
    ]
    return (*others, turns)[-MAX_TIMINGS:]
