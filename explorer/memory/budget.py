"""Refuses a plan that does not fit, and says by how much and which layers are at fault.

refuse(plan, budget_bytes=65536)
    -> MemoryBudgetError: the plan needs 81920 bytes of arena, 16384 more than the budget of
       65536. Live in step 3 (conv_4): conv_3, 40960 bytes in steps 2-3; conv_4, ...
"""

from __future__ import annotations

from explorer.errors import MemoryBudgetError
from explorer.results.memory import BufferLifetime, MemoryPlan

MAX_LISTED = 12
"""Buffers that the message lists; of the rest it gives the number and the sum."""
MAX_NAMES = 3
"""Names of one buffer: views and results that are written over their operands have the same."""


def refuse(plan: MemoryPlan, budget_bytes: int) -> None:
    """Raise `MemoryBudgetError` if the plan's peak is above the budget.

    The message names the layers live at the fullest step. If the live bound alone is above the
    budget, no planner can help, and the hint says so.
    """
    if plan.peak_bytes > budget_bytes:
        raise _refused(plan, budget_bytes, advice(plan, budget_bytes))


def refuse_fit(plan: MemoryPlan, budget_bytes: int) -> MemoryBudgetError:
    """The error for a program that does not fit after all that can be decided for it.

    plan: the smallest one that was found; its peak is the least budget that can be met.
    """
    hint = (
        f"a budget of {plan.peak_bytes:,} bytes, which all decisions together reach, or "
        "smaller layers"
    )
    return _refused(plan, budget_bytes, hint)


def _refused(plan: MemoryPlan, budget_bytes: int, hint: str) -> MemoryBudgetError:
    step = fullest_step(plan, budget_bytes)
    live = [p.buffer for p in plan.placements if p.buffer.first <= step < p.buffer.last]
    live.sort(key=lambda buffer: (-buffer.size_bytes, buffer.first, buffer.id))
    listed = [describe(buffer) for buffer in live[:MAX_LISTED]]
    if rest := live[MAX_LISTED:]:
        listed.append(f"{len(rest)} more of {sum(b.size_bytes for b in rest):,} bytes together")
    return MemoryBudgetError(
        f"memory: the plan needs {plan.peak_bytes:,} bytes of arena, "
        f"{plan.peak_bytes - budget_bytes:,} more than the budget of {budget_bytes:,}. "
        f"Live in step {step} ({plan.steps[step]}): {'; '.join(listed)}",
        budget_bytes=budget_bytes,
        needed_bytes=plan.peak_bytes,
        operations=[value for buffer in live[:MAX_LISTED] for value in buffer.values],
        hint=hint,
    )


def fullest_step(plan: MemoryPlan, budget_bytes: int) -> int:
    """The step that cannot fit; where every step could, the one with the highest address."""
    if plan.bound_bytes > budget_bytes:
        return plan.live_bytes.index(plan.bound_bytes)
    topmost = max(plan.placements, key=lambda p: p.offset_bytes + p.buffer.size_bytes).buffer
    return max(range(topmost.first, topmost.last), key=lambda step: plan.live_bytes[step])


def describe(buffer: BufferLifetime) -> str:
    names = " = ".join(buffer.values[:MAX_NAMES])
    if len(buffer.values) > MAX_NAMES:
        names += f" = {len(buffer.values) - MAX_NAMES} more"
    return f"{names}, {buffer.size_bytes:,} bytes in steps {buffer.first}-{buffer.last - 1}"


def advice(plan: MemoryPlan, budget_bytes: int) -> str:
    if plan.bound_bytes > budget_bytes:
        return (
            f"a budget of at least {plan.bound_bytes:,} bytes or smaller layers: so much lives at "
            "once, whatever the planner"
        )
    return f"another planner: only {plan.bound_bytes:,} bytes are live at once, gaps take the rest"
