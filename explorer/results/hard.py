"""Verdicts on inputs that were constructed to break operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["broken", "documented", "not judged", "right"]
STATES: tuple[State, ...] = ("broken", "documented", "not judged", "right")


@dataclass(frozen=True, kw_only=True)
class HardVerdict:
    """What one kind of input did to one operation."""

    kind: str
    operator: str
    """As the source model calls it."""
    node: str
    """The first node of this form in the source model."""
    alike: int
    """How many nodes have this form."""
    state: State
    reason: str = ""
    """What differs, why nothing was compared, or which difference is documented."""
    tensor: str = ""
    """The tensor that is off."""
    max_relative: float = 0.0
    """The largest of all tensors, as in `TensorError`."""
    is_whole: bool = False
    """Whether the inputs were those of the model, instead of the operation's alone."""


@dataclass(frozen=True, kw_only=True)
class HardReport:
    target: str
    oracle: str
    tolerance: float
    verdicts: tuple[HardVerdict, ...]
    """The broken ones first, then in the order of the model."""

    @property
    def passed(self) -> bool:
        """Whether something was judged, and nothing is broken."""
        states = {verdict.state for verdict in self.verdicts}
        return "broken" not in states and bool(states & {"right", "documented"})

    def count(self, state: State) -> int:
        return sum(verdict.state == state for verdict in self.verdicts)
