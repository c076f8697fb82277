"""Choices: what a schedule decides and a caller may override, with the values that are legal.

    Choices("conv_1", {"pixels": 4})
    choices.number("pixels", 14, range(1, 57), "29 of 32 registers")      -> 4
    choices.knobs     (Knob("pixels", 4, (1, ..., 56), "an override; by itself 14: 29 of ..."),)

A schedule asks for each of its choices once, with the value it would take by itself, all legal
ones and its reason. That is the only declaration: overrides are checked against it, and the
knobs that a person sees are made of it. What is legal may depend on choices made before.

Which choices a schedule has may depend on the processor: on one with few registers a layer has
several tiles, and weights may be asked for early (`prefetch`); on another it has a single one.
A value that changes nothing (`NEUTRAL`) is therefore accepted by every schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isqrt
from types import MappingProxyType

from explorer.kernels.loops.nest import ScheduleError
from explorer.kernels.schedules.schedule import Choice
from explorer.results import Knob
from explorer.results.names import near_name

CHOOSE = "choose"
"""Name of the step in errors about choices."""

_ONE_AT_A_TIME = (
    "bands", "channel_items", "channel_unroll", "channels", "column_items", "column_tiles",
    "column_warps", "key_vectors", "parts", "pixels", "reduction_unroll", "row", "row_items",
    "row_tiles", "row_warps", "rows", "value_vectors", "vectors",
)  # fmt: skip
NEUTRAL: Mapping[str, Choice | None] = MappingProxyType(
    {
        **dict.fromkeys(_ONE_AT_A_TIME, 1),
        "distance": "block",
        "epilogue": "separate",
        "instruction": "dot",
        "order": "channels",
        "pipeline": "none",
        "precision": "float32",
        "prefetch": "none",
        # These have no value without an effect.
        **dict.fromkeys(("band", "depth", "group", "schedule", "vectorize")),
    }
)
"""Of every choice that a schedule may have, the value with which a kernel is as if the schedule did
not have the choice: counts of what is taken together are 1. `dot`: no matrix instruction."""


class Choices:
    """Given overrides, and what was decided so far (`made`, `knobs`).

    `because`: where the overrides come from, for people.
    """

    def __init__(
        self, kernel: str, given: Mapping[str, Choice] | None, because: str = "an override"
    ):
        self.kernel = kernel
        self.given = dict(given or {})
        self.because = because
        self.made: dict[str, Choice] = {}
        self.knobs: list[Knob] = []

    def number(self, name: str, default: int, legal: Collection[int], why: str = "") -> int:
        """The value of an integer choice; raises ScheduleError saying what would be legal."""
        value = self.given.get(name, default)
        if isinstance(value, str):
            value = int(value) if value.lstrip("-").isdigit() else -1
        if isinstance(value, bool) or value not in legal:
            raise self._refused(name, f"{_listed(legal)} are legal")
        self._decide(name, value, default, sorted(legal), why)
        return value

    def word(self, name: str, default: str, legal: Collection[str], why: str = "") -> str:
        value = str(self.given.get(name, default))
        if value not in legal:
            raise self._refused(name, f"{', '.join(sorted(legal))} are legal")
        self._decide(name, value, default, list(legal), why)
        return value

    def finish(self) -> dict[str, Choice]:
        """All choices made; raises ScheduleError for overrides that nothing asked for.

        One of a neutral value needs no asking.
        """
        for name, value in self.given.items():
            neutral = NEUTRAL.get(name)
            if name in self.made or (neutral is not None and str(value) == str(neutral)):
                continue
            if neutral is not None:
                raise self._refused(
                    name, f"this kernel has no such choice, only {neutral} is legal"
                )
            offered = ", ".join(self.made) or "none"
            problem = f"there is no choice {name!r}; there are: {offered}"
            near = near_name(name, self.made, otherwise="")
            raise ScheduleError(CHOOSE, self.kernel, problem + (f" ({near})" if near else ""))
        return self.made

    def _decide(
        self, name: str, value: Choice, default: Choice, legal: list[Choice], why: str
    ) -> None:
        self.made[name] = value
        if name in self.given and value != default:
            own = f"by itself it would be {default}"
            why = f"{self.because}; {own}: {why}" if why else f"{self.because}; {own}"
        self.knobs.append(Knob(name, value, tuple(legal), why))

    def _refused(self, name: str, legal: str) -> ScheduleError:
        return ScheduleError(CHOOSE, self.kernel, f"{name} = {self.given.get(name)}; {legal}")


def divisors(number: int) -> list[int]:
    """All of them, ascending; found in pairs up to the square root."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    large = [number // d for d in reversed(small) if d * d != number]
    return [*small, *large]


def _listed(legal: Collection[int]) -> str:
    values = sorted(legal)
    if len(values) > 4 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
