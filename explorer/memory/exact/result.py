"""What the exact planner returns."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.results.memory import MemoryPlan


@dataclass(frozen=True)
class ExactResult:
    """A plan, with what is known of the least peak."""

    plan: MemoryPlan
    lower_bound: int
    """No plan has a lower peak; at least the live bound."""
    nodes: int
    seconds: float

    @property
    def optimal(self) -> bool:
        return self.plan.peak_bytes == self.lower_bound
