"""What commands say of programs of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled
    from explorer.results.runs.counted import CountedRun

MAX_PARTS = 4
"""Of a machine: those that take most of the energy."""
MAX_REASONS = 12
"""Operations of the host that are listed; of the rest the number is said."""


def counted_lines(compiled: Compiled) -> list[str]:
    """Counters of the last run, if instructions ran; nothing of targets whose cycles nobody
    counts."""
    if compiled.backend.runs_loops:
        return []
    found = compiled.counted
    return [*([] if found is None else run_lines(found)), *host_lines(compiled)]


def run_lines(found: CountedRun) -> list[str]:
    """The sums, and who waited for what."""
    said = "not predicted"
    if found.predicted_cycles is not None:
        said = f"{found.predicted_cycles:,} predicted"
    lines = [
        f"{found.cycles:,} cycles ({said}), {found.macs:,} multiply-accumulates "
        f"({100 * found.utilization:.1f}% of what the engine could), "
        f"{found.bytes:,} bytes moved"
    ]
    if found.bound_cycles and found.bound_bytes:
        lines.append(
            f"{found.cycles / found.bound_cycles:.1f} times the {found.bound_cycles:,.0f} cycles "
            f"and {found.bytes / found.bound_bytes:.1f} times the {found.bound_bytes:,} bytes that "
            "no schedule goes below"
        )
    if found.energy_picojoules:
        lines.append(_energy(found, found.energy_picojoules))
    waits = ", ".join(f"{queue} {count:,} for {cause}" for queue, cause, count in found.stalls)
    return [*lines, f"waited cycles: {waits}"] if waits else lines


def _energy(found: CountedRun, picojoules: float) -> str:
    """All of it, and the parts that take most."""
    from explorer.views.numbers import format_percent, format_picojoules

    largest = list(found.energy_by_part.items())[:MAX_PARTS]
    parts = ", ".join(f"{part} {format_percent(one / picojoules)}" for part, one in largest)
    return f"{format_picojoules(picojoules)} by the target's figures or estimates: {parts}"


def host_lines(compiled: Compiled) -> list[str]:
    """Each operation that the target does not run, who does, and the reason."""
    operations = compiled.placed_elsewhere
    lines = [f"  {name} on {on}: {reason}" for name, on, reason in operations[:MAX_REASONS]]
    if rest := len(operations) - len(lines):
        lines.append(f"  and {rest} more")
    return [_head(compiled, len(operations)), *lines] if operations else []


def _head(compiled: Compiled, count: int) -> str:
    """How many operations run elsewhere, and whether these are all."""
    target, plural = compiled.target.name, "s" * (count != 1)
    if compiled.is_all_elsewhere:
        return f"nothing of this model runs on {target}; {count} operation{plural} elsewhere:"
    return f"{count} operation{plural} that {target} does not run:"
