"""Times calls, one by one. Nothing of ours and no package is imported: peers' processes use it too.

seconds = time_calls(lambda: session.run(None, inputs), least=5, budget_seconds=0.02)
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

MAX_CALLS = 1000
"""In one turn."""
WARM_UP_SECONDS = 0.002
"""Calls that are not counted, one at least: caches, branch predictors and sleeping threads."""


def time_calls(call: Callable[[], object], least: int, budget_seconds: float) -> list[float]:
    """Seconds of each of `least` calls, and of more until the budget is spent.

    The collector of garbage rests meanwhile.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        begin = time.perf_counter()
        while True:
            call()
            if time.perf_counter() - begin >= WARM_UP_SECONDS:
                break
        return _timed(call, least, budget_seconds)
    finally:
        if was_enabled:
            gc.enable()


def _timed(call: Callable[[], object], least: int, budget_seconds: float) -> list[float]:
    clock = time.perf_counter
    seconds: list[float] = []
    end = clock() + budget_seconds
    while True:
        begin = clock()
        call()
        now = clock()
        seconds.append(now - begin)
        if len(seconds) >= least and (now >= end or len(seconds) >= MAX_CALLS):
            return seconds
