"""Judges of placements: which device runs what, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real

from explorer.compilation.compilation import Compilation
from explorer.course.exercises.compiling import _numbers_are_right, _of_compilation
from explorer.course.predictions import Judge
from explorer.errors import ExplorerError

COST_TOLERANCE = 0.01
"""Relative: a sum that was typed with two or three digits counts."""
Prices = Callable[[float], Mapping[str, object]]
"""Decisions by the bandwidth of the link, in bytes per second."""


def keeps_all_on(device: str, c: Compilation, prices: Prices) -> Judge:
    """A bandwidth with which the cheapest assignment has every operation on the device."""

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            return "bytes per second are asked for, a number such as 5e7"
        bandwidth = float(answer)
        if not math.isfinite(bandwidth) or bandwidth <= 0:
            return f"{bandwidth:g} is no bandwidth of a link: it is above 0"
        try:
            found = c.fork(decisions=dict(prices(bandwidth)))
        except ExplorerError as error:
            return error.message
        placement = found.placement
        elsewhere = sum(op.device != device for op in placement.operations)
        found.close()
        return not elsewhere or f"{elsewhere} operations run on another device then"

    return judge


def runs_on(devices: Mapping[str, str]) -> Judge:
    """A compilation with these operations on these devices, and the right numbers."""

    def judge(mine: Compilation) -> bool | str:
        placed = {op.operation: op.device for op in mine.placement.operations}
        if missing := [name for name in devices if name not in placed]:
            return f"it has no operation {missing[0]}"
        wrong = [name for name, device in devices.items() if placed[name] != device]
        if wrong:
            return f"{wrong[0]} runs on {placed[wrong[0]]}"
        return _numbers_are_right(mine)

    return _of_compilation(judge)


def cost_of(c: Compilation) -> Judge:
    """The predicted microseconds of the compilation's assignment."""
    assignment = c.placement.assignment
    assert assignment is not None, "the lesson compiles for two targets"
    truth = assignment.seconds * 1e6
    sent = sum(transfer.predicted_us or 0.0 for transfer in c.placement.transfers)

    def judge(answer: object) -> bool | str:
        if not isinstance(answer, Real) or isinstance(answer, bool):
            return "microseconds are asked for, a number"
        number = float(answer)
        if abs(number - truth) <= COST_TOLERANCE * truth:
            return True
        if abs(number - (truth - sent)) <= COST_TOLERANCE * truth:
            return "the transfers are missing"
        return f"{number:g} is too {'large' if number > truth else 'small'}"

    return judge
