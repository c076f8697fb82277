"""Decisions as a page sends them, checked: whatever no page of ours would send is no request.

{"target": "cpu", "decisions": {"fuse-activation": false, "schedule-loops/conv_1/pixels": 4}}
    <->    CompileRequest(...)

Links of earlier versions hold `disable`, `budget`, `pins` and `order` beside the decisions: other
words for what has an address, too (`results.decisions`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from explorer.app.protocol import CompileRequest
from explorer.results.decisions import BUDGET, FLASH, ORDER, PINS, STEPS, Value, place_of

MAX_DECISIONS = 500
MAX_TEXT = 400
"""Characters of an address or a word that a page may send."""
MAX_STEPS_TEXT = 100_000
METHODS = ("mse", "best")
"""Of calibration, that the page offers: a quick one, and the one that judges by the outputs."""
MAX_EDITS = 50
MAX_EDIT = 4000
"""Of a model, and characters of one."""


def settings_of(request: CompileRequest) -> dict[str, Any]:
    """The decisions of a request as fork.js reads and sends them."""
    edits = {"edits": list(request.model_edits)} if request.model_edits else {}
    quantize = {"quantize": request.quantize[0]} if request.quantize else {}
    return {"target": request.target, "decisions": request.values, **edits, **quantize}


def request_of(settings: object, path: str, targets: Sequence[str]) -> CompileRequest | None:
    """The request of a page's settings; None for what no page of ours would send.

    Whether there are such passes and decisions is for the compiler to say.
    """
    if not isinstance(settings, Mapping) or settings.get("target") not in targets:
        return None
    decisions, disable = settings.get("decisions"), settings.get("disable", [])
    if not isinstance(decisions, Mapping) or not _are_names(disable):
        return None
    asked: dict[str, Value] = dict.fromkeys(disable, False)
    for word, address in (("budget", BUDGET), ("pins", PINS), ("order", ORDER)):
        if word in settings:
            asked[address] = settings[word]
    asked |= decisions
    if len(asked) > MAX_DECISIONS or not all(_is_decision(a, v) for a, v in asked.items()):
        return None
    if asked.get(PINS):
        asked[PINS] = sorted(asked[PINS])
    for address in (BUDGET, PINS, ORDER):
        if asked.get(address) in (None, []):  # as by default
            asked.pop(address, None)
    edits = settings.get("edits", [])
    if not _are_edits(edits):
        return None
    request = CompileRequest.deciding(path, str(settings["target"]), asked)
    method = settings.get("quantize", "")
    if method and method not in METHODS:
        return None
    return replace(request, model_edits=tuple(edits), quantize=(str(method),) if method else ())


def _are_edits(edits: object) -> TypeGuard[list[str]]:
    """Whether they are lines of a bounded length: what they say is for the worker to read."""
    return (
        isinstance(edits, list)
        and len(edits) <= MAX_EDITS
        and all(isinstance(text, str) and len(text) <= MAX_EDIT for text in edits)
    )


def _is_decision(address: object, value: Value) -> bool:
    if not _is_text(address):
        return False
    check = _CHECKS.get(address)
    if check is not None:
        return check(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return len(value) <= MAX_DECISIONS and all(map(_is_single, value))
    is_steps = place_of(address).title == STEPS
    return _is_single(value, MAX_STEPS_TEXT if is_steps else MAX_TEXT)


def _is_single(value: object, longest: int = MAX_TEXT) -> bool:
    return isinstance(value, bool | int | str) and len(str(value)) <= longest


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and len(value) <= MAX_DECISIONS and all(map(_is_text, value))


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _are_pins(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_DECISIONS and all(map(_is_pin, value))


def _is_pin(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not _is_text(value[0]):
        return False
    return _is_size(value[1]) or _is_text(value[1])


def _is_budget(value: object) -> bool:
    return value is None or _is_size(value)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


_CHECKS: Mapping[str, Callable[[object], bool]] = {
    BUDGET: _is_budget,
    FLASH: _is_budget,
    PINS: _are_pins,
    ORDER: _are_names,
}
