"""How much of the time the machine was taken away, and how much others used of it.

with watching() as load:
    ...
load.steal     0.02: the host of a virtual machine ran something else for 2% of the time
load.others    0.4 of all processors were busy with other processes than this one and its own
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

STAT = Path("/proc/stat")
_IDLE, _STEAL = (3, 4), 7
"""Places among the times of a processor: idle and waiting for input; stolen (man proc)."""
_COUNTED = 8
"""What comes behind them, guests, is counted in the user's time."""


@dataclass
class Load:
    """Parts of the time of all processors together; None where the system does not tell."""

    steal: float | None = field(default=None)
    others: float | None = field(default=None)


@contextmanager
def watching(stat: Path = STAT) -> Iterator[Load]:
    """The load of a block, which is known when it ends."""
    load = Load()
    before, own_before = _ticks(stat), _own_seconds()
    yield load
    after, own = _ticks(stat), _own_seconds() - own_before
    if before is None or after is None:
        return
    passed = [b - a for a, b in zip(before, after, strict=True)]
    whole = sum(passed)
    if whole <= 0:
        return
    busy = whole - sum(passed[n] for n in _IDLE) - passed[_STEAL]
    load.steal = passed[_STEAL] / whole
    load.others = max(busy - own * os.sysconf("SC_CLK_TCK"), 0.0) / whole


def _ticks(stat: Path) -> list[int] | None:
    """user nice system idle iowait irq softirq steal, of all processors together."""
    try:
        whole = re.match(r"cpu((?: +\d+)+)", stat.read_text(encoding="ascii"))
    except OSError:
        return None
    numbers = whole[1].split() if whole else ()
    return [int(number) for number in numbers[:_COUNTED]] if len(numbers) >= _COUNTED else None


def _own_seconds() -> float:
    """Of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
