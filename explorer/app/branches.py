"""The branches of one page: compilations of one model, each named by what was decided otherwise.

Branch("1", Request("net.onnx", "cpu"))                             "first"
Branch("2", Request("net.onnx", "cpu", ("fuse-activation",)))       "without fuse-activation"
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.app.session import Bisection, DrawnTrace, Request, missing_stages, sorted_pairs
from explorer.views.payload_comparison import comparison_payload, side_of

KEPT_RESULTS = 12
MOST_BRANCHES = 12
"""Of one page; the oldest but the first goes when there are more."""
MOST_DECISIONS = 500
MOST_TEXT = 400
"""Characters of an address or a word that a page may send."""


class ResultStore:
    """The last few finished compilations, shared by all pages: going back to one costs nothing."""

    def __init__(self, capacity: int = KEPT_RESULTS) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._results: OrderedDict[Request, DrawnTrace] = OrderedDict()

    def get(self, request: Request) -> DrawnTrace | None:
        with self._lock:
            if request in self._results:
                self._results.move_to_end(request)
            return self._results.get(request)

    def put(self, request: Request, result: DrawnTrace) -> None:
        with self._lock:
            self._results[request] = result
            self._results.move_to_end(request)
            while len(self._results) > self._capacity:
                self._results.popitem(last=False)


@dataclass(frozen=True)
class Branch:
    key: str
    request: Request
    trace: DrawnTrace
    failed: tuple[str, ...] = ()
    """Stages that could not be made."""
    bisection: Bisection | None = None
    is_bisecting: bool = False

    @property
    def pending(self) -> list[str]:
        """Stages that are still to come."""
        return missing_stages((*self.trace.stages, *self.failed))

    def label(self, first_target: str) -> str:
        parts = [self.request.label]
        if self.request.target != first_target:
            parts.append(f"for {self.request.target}")
        return ", ".join(part for part in parts if part) or "first"


def settings_of(request: Request) -> dict[str, Any]:
    """The decisions of a request as fork.js reads and sends them."""
    return {
        "target": request.target,
        "disable": list(request.disable),
        "decisions": request.values,
        "budget": request.budget_bytes,
        "pins": [list(pin) for pin in request.pins],
    }


def request_of(
    settings: object, path: str, targets: Sequence[str], passes: set[str]
) -> Request | None:
    """The request of a page's settings; None for what no page of ours would send."""
    if not isinstance(settings, Mapping):
        return None
    target, disable = settings.get("target"), settings.get("disable")
    decisions, budget = settings.get("decisions"), settings.get("budget")
    pins = settings.get("pins")
    if target not in targets or not isinstance(disable, list) or not isinstance(pins, list):
        return None
    if not _are_decisions(decisions) or not (budget is None or _is_size(budget)):
        return None
    if len(pins) > MOST_DECISIONS or not all(_is_pin(pin) for pin in pins):
        return None
    return Request(
        path,
        str(target),
        tuple(dict.fromkeys(name for name in disable if name in passes)),
        sorted_pairs(decisions),  # pyright: ignore[reportArgumentType]  (checked above)
        budget,
        tuple(sorted((name, offset) for name, offset in pins)),
    )


def _are_decisions(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= MOST_DECISIONS
        and all(
            len(address) <= MOST_TEXT
            and isinstance(choice, bool | int | str)
            and len(str(choice)) <= MOST_TEXT
            for address, choice in value.items()
        )
    )


def _is_pin(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and len(value[0]) <= MOST_TEXT
        and _is_size(value[1])
    )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def compared(left: DrawnTrace, right: DrawnTrace, labels: tuple[str, str]) -> str:
    """The comparison of two branches as the chunk's JSON text."""
    sides = [side_of(trace.head, lambda key, t=trace: json.loads(t.chunks[key]))
             for trace in (left, right)]  # fmt: skip
    return json.dumps({**comparison_payload(*sides), "labels": list(labels)})
