"""Choices: the numbers of a schedule that a caller may override.

    {"pixels": 14, "vectors": 2, "rows": 1, "channel_unroll": 1}

A schedule asks for each of its choices once, with the value it would take by itself; the answers
are recorded, so that the same kernel can be scheduled again with one of them changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from explorer.kernels.nest import ScheduleError
from explorer.kernels.schedules.schedule import Choice


class Choices:
    """Given overrides, and what was decided so far (`made`)."""

    def __init__(self, kernel: str, given: Mapping[str, Choice] | None):
        self.kernel = kernel
        self.given = dict(given or {})
        self.made: dict[str, Choice] = {}

    def number(self, name: str, default: int, legal: Collection[int]) -> int:
        """The value of an integer choice; raises ScheduleError saying what would be legal."""
        value = self.given.get(name, default)
        if isinstance(value, str):
            value = int(value) if value.lstrip("-").isdigit() else -1
        if value not in legal:
            raise self._refused(name, f"{_listed(legal)} are legal")
        self.made[name] = value
        return value

    def word(self, name: str, default: str, legal: Collection[str]) -> str:
        value = str(self.given.get(name, default))
        if value not in legal:
            raise self._refused(name, f"{', '.join(sorted(legal))} are legal")
        self.made[name] = value
        return value

    def finish(self) -> dict[str, Choice]:
        """All choices made; raises ScheduleError for overrides that nothing asked for."""
        unknown = [name for name in self.given if name not in self.made]
        if unknown:
            offered = ", ".join(self.made) or "none"
            raise ScheduleError(
                "choose", self.kernel, f"there is no choice {unknown[0]!r}; there are: {offered}"
            )
        return self.made

    def _refused(self, name: str, legal: str) -> ScheduleError:
        return ScheduleError("choose", self.kernel, f"{name} = {self.given.get(name)}; {legal}")


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _listed(legal: Collection[int]) -> str:
    values = sorted(legal)
    if len(values) > 4 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
