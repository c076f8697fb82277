"""Random choices of a case, the same on every machine.

choices = Choices(seed=1, kind="ADD", number=4)
choices.choice("a", "b"), choices.integer(1, 9), choices.flag()
"""

from __future__ import annotations

from typing import TypeVar
from zlib import crc32

import numpy as np

Chosen = TypeVar("Chosen")
LARGE = 4000
"""Elements of the operands of large cases, at least."""


class Choices:
    """One source of random numbers for a case; `attempt` tells those apart that were refused.

    Every second case is large, since small ones pass with wrong roundings and wrong borders.
    """

    def __init__(self, seed: int, kind: str, number: int, attempt: int = 0) -> None:
        self.kind = kind
        self.is_large = number % 2 == 0
        self.random = np.random.default_rng([seed, crc32(kind.encode()), number, attempt])

    def choice(self, *among: Chosen) -> Chosen:
        return among[int(self.random.integers(len(among)))]

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.random.integers(2))
