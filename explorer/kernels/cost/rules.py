"""Rules of the cost model that hold for a loop nest and for a register tile alike.

counting.py asks them of operations that are there, tiles.py of numbers: so a tile is chosen by
the same model by which a finished kernel is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from explorer.kernels.cost.machine import CostMachine

FLOAT_BYTES = 4
LINE_BYTES = 64
FOLDED_USES = 4
"""A vector that is used up to so often gets no register: compilers fold its load into every
multiply-add, and it is loaded so many times (gcc 12; seen in the assembly of tiles of 4 and 5)."""
OPERAND_REGISTERS = 2
"""Beside the sums: what is multiplied. What else is used again is read again from a cache."""
LOOP_INSTRUCTIONS = 2
"""Of an iteration that is not written out: counting, and jumping back."""
NOT_HIDDEN = 0.3
"""What is added where waiting for data takes as long as computing."""


def load_parts(size_bytes: int, machine: CostMachine) -> int:
    """How many times a load unit is taken by a value of that size."""
    return max(1, -(-size_bytes // machine.core.load_bytes))


def parts_of(size_bytes: int, machine: CostMachine) -> int:
    """How many times a unit is taken by an operation on a value of that size."""
    return max(1, -(-size_bytes // machine.core.unit_bytes))


def executed_loads(distinct: int, uses: int) -> int:
    """Loads of vectors of which each is used by `uses / distinct` multiply-adds."""
    return uses if 0 < distinct < uses <= FOLDED_USES * distinct else distinct


def spill_cycles(sums: int, machine: CostMachine, operands: int = OPERAND_REGISTERS) -> float:
    """A sum without a register is loaded and stored for every addition."""
    spilled = max(0, sums + operands - machine.registers)
    parts = load_parts(FLOAT_BYTES * machine.vector_floats, machine)
    return spilled * (parts / machine.core.load_units + parts / machine.core.store_units)


def waiting_share(instructions: float, machine: CostMachine) -> float:
    """The share of a chain of that many instructions that a core waits for.

    It begins with what comes next while it waits, as far as its window reaches.
    """
    return min(1.0, instructions / machine.core.window_instructions)


def conflict_cycles(offsets: Collection[int], machine: CostMachine) -> float:
    """Cycles for lines that are read at once and share their place in the nearest cache.

    A cache holds `ways` lines of a place; more of them evict one another, and each is fetched
    again. `offsets`: bytes from any common beginning.
    """
    if not machine.caches or len(offsets) <= machine.caches[0].ways:
        return 0.0
    nearest = machine.caches[0]
    places = max(1, nearest.size_bytes // (LINE_BYTES * nearest.ways))
    lines = {offset // LINE_BYTES for offset in offsets}
    crowded = [n for n in Counter(line % places for line in lines).values() if n > nearest.ways]
    return sum(crowded) * LINE_BYTES / nearest.bytes_per_cycle


def overlapped(computing: float, fetching: float) -> float:
    """The time of both: they go on at once, and the nearer they come the less is hidden."""
    longer, shorter = max(computing, fetching), min(computing, fetching)
    return longer + NOT_HIDDEN * shorter * shorter / longer if longer else 0.0
