"""Claims: how the tasks of a program's sections are handed out to threads.

    work of the sections     900000   400   700   2000000
    tasks                       224    12    12       448
    tasks claimed at once         4    12    12         7
    sections together             1     2     0         1

A section is one phase of one launch. Threads walk the table of sections together and claim the next
few tasks; what is not worth sharing is one claim, and neighbours of that kind are one together. The
driver of generated C and the chain of OpenCL have the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from explorer.kernels.printing.printer import PrintedKernel
from explorer.results.kernels import PhaseRecord

CLAIMS_PER_SECTION = 64
"""Fewer cost less, more balance better."""
MIN_CLAIM_OPERATIONS = 10_000
"""Half a microsecond to three: a claim takes a tenth of one when threads compete."""
MIN_SHARED_OPERATIONS = 30_000
"""Of a section: below that a second thread costs as much as it brings."""
UNKNOWN_WORK = 1 << 40


def phases_with_work(kernel: PrintedKernel) -> list[tuple[PhaseRecord, int]]:
    """The phases with their operations; many where nobody counted them."""
    work = kernel.work or (UNKNOWN_WORK,) * len(kernel.phases)
    return list(zip(kernel.phases, work, strict=True))


def tasks_per_claim(tasks: int, work: int, claims: int = CLAIMS_PER_SECTION) -> int:
    """How many tasks a thread claims at once: for balance few, but as many as are worth it."""
    if work < MIN_SHARED_OPERATIONS:
        return max(1, tasks)
    balanced = -(-tasks // claims)
    worthwhile = -(-MIN_CLAIM_OPERATIONS * tasks // work) if work else 1
    return max(1, min(tasks, max(balanced, worthwhile)))


def sections_together(is_shared: Sequence[bool]) -> list[int]:
    """For every section how many one thread runs as one claim; 0 behind the first of these.

    [True, False, False, False, True]  ->  [1, 3, 0, 0, 1]
    """
    counts: list[int] = []
    for shared, group in groupby(is_shared):
        length = len(list(group))
        counts += [1] * length if shared else [length, *[0] * (length - 1)]
    return counts
