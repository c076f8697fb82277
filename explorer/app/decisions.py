"""Decisions as a page sends them, checked: whatever no page of ours would send is no request.

{"target": "cpu", "disable": ["fuse-activation"], "decisions": {"schedule-loops/conv_1/pixels": 4},
 "budget": null, "pins": [["conv_1", 1024]], "order": []}    <->    Request(...)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from explorer.app.session import STEPS_SUFFIX, Request, sorted_pairs

MOST_DECISIONS = 500
MOST_TEXT = 400
"""Characters of an address or a word that a page may send."""
MOST_STEPS_TEXT = 100_000


def settings_of(request: Request) -> dict[str, Any]:
    """The decisions of a request as fork.js reads and sends them."""
    return {
        "target": request.target,
        "disable": list(request.disable),
        "decisions": request.values,
        "budget": request.budget_bytes,
        "pins": [list(pin) for pin in request.pins],
        "order": list(request.order),
    }


def request_of(settings: object, path: str, targets: Sequence[str]) -> Request | None:
    """The request of a page's settings; None for what no page of ours would send.

    Whether there are such passes and decisions is for the compiler to say.
    """
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
    order = settings.get("order", [])
    if not _are_names(disable) or not _are_names(order):
        return None
    return Request(
        path,
        str(target),
        tuple(dict.fromkeys(disable)),
        sorted_pairs(decisions),
        budget,
        tuple(sorted((name, offset) for name, offset in pins)),
        tuple(order),
    )


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and len(value) <= MOST_DECISIONS and all(map(_is_text, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MOST_TEXT


def _are_decisions(value: object) -> TypeGuard[Mapping[str, bool | int | str]]:
    return (
        isinstance(value, Mapping)
        and len(value) <= MOST_DECISIONS
        and all(
            _is_text(address)
            and isinstance(choice, bool | int | str)
            and len(str(choice)) <= _longest(address)
            for address, choice in value.items()
        )
    )


def _longest(address: str) -> int:
    return MOST_STEPS_TEXT if address.endswith(STEPS_SUFFIX) else MOST_TEXT


def _is_pin(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_text(value[0]) and _is_size(value[1])


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
