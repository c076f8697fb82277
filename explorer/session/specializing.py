"""Sizes that come often: a program of their own, compiled while the one for all sizes answers.

ranges={"seq": [(1, 128)]}, specialize_after=32

32 calls with seq = 17        hit       the program for seq = 1..128
a thread compiles for seq = 17
the next one with seq = 17    specialized, then hit
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from explorer.errors import InputError
from explorer.session.signatures import Signature

MAX_SPECIALIZED = 4
"""Sizes of one session that get a program of their own."""
MAX_COUNTED = 1000
"""Sizes that are counted; those that come seldom begin again after so many."""


@dataclass
class Specializing:
    """Counts the calls of each size that a program for several sizes answered."""

    after: int
    """Calls of a size before it is compiled for; 0: never."""
    reasons: dict[Signature, str] = field(default_factory=dict)
    """Of the sizes that are, or are being, compiled for."""
    _counts: Counter[tuple[object, ...]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.after < 0:
            raise InputError(
                f"specialize_after is {self.after}", hint="give a number of calls, or 0 for never"
            )

    def is_due(self, form: tuple[object, ...]) -> bool:
        """Counts a call; whether its size gets a program now."""
        if not self.after or not form or len(self.reasons) >= MAX_SPECIALIZED:
            return False
        if len(self._counts) >= MAX_COUNTED and form not in self._counts:
            self._counts.clear()
        self._counts[form] += 1
        return self._counts[form] == self.after

    def begin(self, signature: Signature) -> bool:
        """Notes why a size is compiled for; False where it is already."""
        if signature in self.reasons:
            return False
        self.reasons[signature] = (
            f"{signature} came {self.after} times: a program for these sizes alone was compiled "
            "in the background, and answers instead of the one for all sizes"
        )
        return True
