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
FOLDED_USES = 3
"""A vector that is used up to so often gets no register: compilers fold its load into every
multiply-add, and it is loaded so many times (gcc 12 for AVX2, tiles of 3 x 1, 2 x 2 and 3 x 2
points x vectors; of 4 x 1, 4 x 2 and 5 x 1 it keeps them)."""
HELD_USES = 4
"""Up to which the step `hold` keeps it in a register by force: one more, to be sure."""
SPILLED_CYCLES = 10
"""From the store of a sum on the stack until it can be added to: 7 x 2 sums with one of them there
take 14.1 cycles per step where 4 are the latency of a multiply-add (Zen 4, vectors of 8)."""
LOOP_INSTRUCTIONS = 2
"""Of an iteration that is not written out: comparing, and jumping back. Each array that it goes
along takes one more, which advances an address (gcc 12, clang: `addq $64, %rdx`)."""
TILE_ARRAYS = 2
"""That a tile's step goes along: its input and its weights."""
IN_THE_WAY = 0.07
"""What loads, or waiting for sums, add to arithmetic that takes as long, as a share of it. Tiles of
vectors of 8 in 16 registers, cycles of a step: 6 x 2 sums 6.0, 5 x 2 5.26, 4 x 2 4.29, 3 x 3 4.82,
and 7 x 2, whose 15 loads would take 7.5, 8.0 (Zen 4)."""
NOT_HIDDEN = 0.3
"""What is added where waiting for data takes as long as computing."""


def loop_instructions(arrays: int) -> int:
    """Of an iteration that goes along so many arrays, beside those of its body."""
    return LOOP_INSTRUCTIONS + arrays


def load_parts(size_bytes: int, machine: CostMachine) -> int:
    """How many times a load unit is taken by a value of that size."""
    return max(1, -(-size_bytes // machine.core.load_bytes))


def parts_of(size_bytes: int, machine: CostMachine) -> int:
    """How many times a unit is taken by an operation on a value of that size."""
    return max(1, -(-size_bytes // machine.core.unit_bytes))


def executed_loads(
    distinct: int, uses: int, machine: CostMachine, *, can_hold: bool = False
) -> int:
    """Loads of `distinct` vectors with which `uses` sums are updated, each with one of them.

    `can_hold`: whether the schedule keeps them in registers where there is room (the step `hold`).
    """
    if not 0 < distinct < uses:
        return distinct
    held = held_vectors(distinct, uses, machine, can_hold=can_hold)
    return held + (distinct - held) * (uses // distinct)


def held_vectors(distinct: int, uses: int, machine: CostMachine, *, can_hold: bool = False) -> int:
    """How many of them stay in a register from one use to the next; the others are read again."""
    room = max(1, min(distinct, machine.registers - uses - broadcast_registers(machine)))
    return min(room, kept_vectors(distinct, uses, machine, can_hold=can_hold))


def kept_vectors(distinct: int, uses: int, machine: CostMachine, *, can_hold: bool = False) -> int:
    """How many of them compilers give a register, at the cost of a sum where there is no room.

    gcc 12 reads both vectors of a tile of 7 x 2 once, and adds one of the 14 sums up in memory.
    """
    room = machine.registers - uses - broadcast_registers(machine)
    is_folded = uses <= FOLDED_USES * distinct and not (can_hold and room >= distinct)
    return 0 if is_folded else distinct


def broadcast_registers(machine: CostMachine) -> int:
    """Registers beside sums and vectors: a broadcast input, and perhaps the product with it."""
    return 1 if machine.core.fuses_products else 2


def should_hold(points: int, vectors: int, machine: CostMachine) -> bool:
    """Whether vectors are to be kept in registers by force: compilers would fold their loads, and
    there is room."""
    needed = (points + 1) * vectors + broadcast_registers(machine)
    return 1 < points <= HELD_USES and needed <= machine.registers


def multiply_parts(size_bytes: int, machine: CostMachine) -> int:
    """How many times a unit is taken by a multiply-add of vectors of that size."""
    return parts_of(size_bytes, machine) * (1 if machine.core.fuses_products else 2)


def spill_cycles(sums: int, machine: CostMachine, operands: int | None = None) -> float:
    """A sum without a register is loaded and stored for every addition.

    `operands`: registers beside the sums, by default the fewest with which anything goes.
    """
    operands = 1 + broadcast_registers(machine) if operands is None else operands
    spilled = max(0, sums + operands - machine.registers)
    parts = load_parts(FLOAT_BYTES * machine.vector_floats, machine)
    return spilled * (parts / machine.core.load_units + parts / machine.core.store_units)


def spilled_chain_cycles(spills: float, machine: CostMachine) -> float:
    """The least an iteration takes whose sums do not all have registers: one is added to in memory,
    and can be read again only when it was stored."""
    return machine.core.multiply_add_latency_cycles + SPILLED_CYCLES if spills else 0.0


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
    too_many = [n for n in Counter(line % places for line in lines).values() if n > nearest.ways]
    return sum(too_many) * LINE_BYTES / nearest.bytes_per_cycle


def overlapped(computing: float, fetching: float) -> float:
    """The time of both: they go on at once, and the nearer they come the less is hidden."""
    longer, shorter = max(computing, fetching), min(computing, fetching)
    return longer + NOT_HIDDEN * shorter * shorter / longer if longer else 0.0


def crowded(computing: float, *others: float) -> float:
    """The longest of several that a core does at once, and what the others are in its way: next to
    nothing, unless they take as long."""
    longest = max(computing, *others)
    shorter = sorted((computing, *others))[:-1]
    return longest + sum(IN_THE_WAY * one * (one / longest) ** 3 for one in shorter if longest)
