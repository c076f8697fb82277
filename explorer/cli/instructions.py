"""What commands say of programs of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled
    from explorer.results.runs.counted import CountedRun

MOST_REASONS = 12
"""Operations of the host that are listed; of the rest the number is said."""


def counted_lines(compiled: Compiled) -> list[str]:
    """Counters of the last run; nothing of targets whose cycles nobody counts."""
    found = compiled.counted
    return [] if found is None else [*run_lines(found), *host_lines(compiled)]


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
    waits = ", ".join(f"{queue} {count:,} for {cause}" for queue, cause, count in found.stalls)
    return [*lines, f"waited cycles: {waits}"] if waits else lines


def host_lines(compiled: Compiled) -> list[str]:
    """Each operation that the target does not run, who does, and the reason."""
    operations = compiled.placed_elsewhere
    lines = [f"  {name} on {on}: {reason}" for name, on, reason in operations[:MOST_REASONS]]
    if rest := len(operations) - len(lines):
        lines.append(f"  and {rest} more")
    head = f"{len(operations)} operations that {compiled.target.name} does not run:"
    return [head, *lines] if operations else []
