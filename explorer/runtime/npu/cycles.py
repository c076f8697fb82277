"""How long each instruction takes once it has begun.

    transfer    fixed + max(bytes / bytes per cycle, bytes written / bytes per cycle of the lanes,
                of coded weights their bytes / those decoded per cycle); of a memory with bursts
                the bytes of whole ones, and then rows opened * cycles of a row
    on chip     start + elements, or bytes of the scratchpad / bytes per cycle of the lanes
    multiply    start + steps + latency      (a step: batch x rows x columns multiply-accumulates)
    vector      start + steps * ceil(numbers of an element / lanes) + latency; where the lanes take
                several elements, so many steps of the inner loop are one
    softmax     start + steps * (3 * elements of a row * ceil(...) + trees + division) + latency
    normalize   the same with a root, which takes as long as a division
    finish      1

All are whole cycles, rounded up, and at least one. What an instruction waits for before is found by
the event model in events.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from explorer.errors import InputError
from explorer.targets.npu.encoding import COLUMN
from explorer.targets.npu.formats import OPCODES
from explorer.targets.npu.instructions import RECORDS, RowLoop
from explorer.targets.npu.machine import CONTENTS, Machine, Region, Route, Space

PIECES = ("x_size", "y_size", "x_step", "x_stride", "coded_bytes", "global_address")


@dataclass(frozen=True)
class Durations:
    """Of every instruction, in program order."""

    cycles: np.ndarray
    """i64: from its beginning to its end."""
    queues: np.ndarray
    """i64: index of its queue."""
    dma: np.ndarray
    """i64: index of its DMA engine, -1 where it moves nothing."""


def durations(table: np.ndarray, machine: Machine) -> Durations:
    """Of the rows of `field_table`. InputError where nothing can move what a transfer asks for."""
    count = len(table)
    found = Durations(
        np.ones(count, np.int64), np.zeros(count, np.int64), np.full(count, -1, np.int64)
    )
    opcodes = table[:, COLUMN["opcode"]]
    names = {opcode: kind for kind, opcode in OPCODES.items()}
    for opcode in np.unique(opcodes).tolist():
        chosen = np.flatnonzero(opcodes == opcode)
        if names[opcode] in ("load", "store"):
            _transfers(table, chosen, machine, names[opcode] == "load", found)
            continue
        engine = machine.matrix if names[opcode] in ("multiply", "finish") else machine.vector
        assert engine is not None
        found.queues[chosen] = machine.queue_of_engine(engine.name)
        if names[opcode] != "finish":
            found.cycles[chosen] = _loops(table[chosen], machine, names[opcode])
    np.maximum(found.cycles, 1, out=found.cycles)
    return found


def steps_of(rows: np.ndarray) -> np.ndarray:
    """How often the body of a loop instruction runs."""
    micro = rows[:, COLUMN["micro_end"]] - rows[:, COLUMN["micro_begin"]]
    product = np.maximum(micro, 0).astype(np.float64)
    product *= rows[:, COLUMN["outer"]] * rows[:, COLUMN["inner"]].astype(np.float64)
    # A program that asks for more ends by its limit of work long before this many cycles.
    return np.minimum(product, 2.0**52).astype(np.int64)


def _loops(rows: np.ndarray, machine: Machine, kind: str) -> np.ndarray:
    steps = steps_of(rows)
    if kind == "multiply":
        engine, each = machine.matrix, machine.multiply_step_cycles
    else:
        engine, each = machine.vector, machine.vector_step_cycles
        assert engine is not None
    if issubclass(RECORDS[kind], RowLoop):
        counts = rows[:, COLUMN["count"]]
        each = np.array([machine.row_step_cycles(kind, count) for count in counts.tolist()])
    elif kind != "multiply" and machine.vector_elements > 1:
        at_once = np.where(rows[:, COLUMN["destination_inner"]] > 0, machine.vector_elements, 1)
        joined = rows.copy()
        joined[:, COLUMN["inner"]] = -(-rows[:, COLUMN["inner"]] // at_once)
        steps = steps_of(joined)
    return engine.start_cycles + steps * each + engine.latency_cycles


def _transfers(
    table: np.ndarray, chosen: np.ndarray, machine: Machine, is_load: bool, found: Durations
) -> None:
    memories = table[chosen, COLUMN["memory"]]
    inside = table[chosen, COLUMN["on_chip"]] != 0
    ahead = table[chosen, COLUMN["prefetch"]] != 0
    found.queues[chosen[ahead]] = machine.queue_of("activations", True)
    for memory in np.unique(memories).tolist():
        content = CONTENTS[memory]
        mine = chosen[~ahead & (memories == memory)]
        found.queues[mine] = machine.queue_of(content, is_load)
        mine = chosen[inside & (memories == memory)]
        if mine.size:
            found.cycles[mine] = _on_chip(table[mine], machine, content)
    chosen = chosen[~inside]
    memories = table[chosen, COLUMN["memory"]]
    regions = regions_of(table[chosen], machine)
    for memory in np.unique(memories).tolist():
        space = machine.by_content[CONTENTS[memory]]
        for region in np.unique(regions[memories == memory]).tolist():
            group = chosen[(memories == memory) & (regions == region)]
            name = machine.regions[region].name
            route = machine.route.get((name, space.memory, is_load))
            if route is None:
                pad = machine.scratchpads[space.memory].name
                ends = f"{name} to {pad}" if is_load else f"{pad} to {name}"
                raise InputError(
                    f"instruction {group[0]}: no DMA engine of {machine.name} moves from {ends}"
                )
            coded = np.flatnonzero(table[group, COLUMN["coded_bytes"]])
            if route.decoded_bytes_per_cycle is None and coded.size:
                raise InputError(
                    f"instruction {group[coded[0]]}: no DMA engine of {machine.name} decodes "
                    f"weights out of {name}"
                )
            found.dma[group] = route.engine
            found.cycles[group] = _moving(
                table[group], machine, machine.regions[region], route, memory, is_load
            )


def _on_chip(rows: np.ndarray, machine: Machine, content: str) -> np.ndarray:
    """A start, then elements at the rate of the scratchpads; the other end is never wider."""
    x = rows[:, COLUMN["x_size"]] + rows[:, COLUMN["x_pad_before"]] + rows[:, COLUMN["x_pad_after"]]
    y = rows[:, COLUMN["y_size"]] + rows[:, COLUMN["y_pad_before"]] + rows[:, COLUMN["y_pad_after"]]
    cycles = machine.on_chip_start_cycles + _rounded_up(x * y, machine.on_chip_rate(content))
    return np.where(rows[:, COLUMN["x_size"]] == 0, 1, cycles)


def regions_of(rows: np.ndarray, machine: Machine) -> np.ndarray:
    """In which region of global memory each transfer begins."""
    sizes = np.zeros(len(CONTENTS), np.int64)
    for space in machine.spaces:
        sizes[CONTENTS.index(space.content)] = space.global_bytes
    starts = rows[:, COLUMN["global_address"]] * sizes[rows[:, COLUMN["memory"]]]
    firsts = np.array([region.start_bytes for region in machine.regions], np.int64)
    return np.searchsorted(firsts, starts, side="right") - 1


def _moving(
    rows: np.ndarray, machine: Machine, region: Region, route: Route, memory: int, is_load: bool
) -> np.ndarray:
    space = machine.by_content[CONTENTS[memory]]
    x, y = rows[:, COLUMN["x_size"]], rows[:, COLUMN["y_size"]]
    whole, coded = x * y * space.global_bytes, rows[:, COLUMN["coded_bytes"]]
    crossing = np.where(coded > 0, coded, whole)
    if region.burst_bytes is not None:
        crossing = _units(rows, space, region, region.burst_bytes) * region.burst_bytes
    moved = _rounded_up(crossing, route.bytes_per_cycle)
    if region.row_bytes is not None:
        moved = moved + _units(rows, space, region, region.row_bytes) * region.row_cycles
    if route.decoded_bytes_per_cycle is not None:
        decoded = _rounded_up(whole, route.decoded_bytes_per_cycle)
        moved = np.where(coded > 0, np.maximum(moved, decoded), moved)
    if is_load:
        x = x + rows[:, COLUMN["x_pad_before"]] + rows[:, COLUMN["x_pad_after"]]
        y = y + rows[:, COLUMN["y_pad_before"]] + rows[:, COLUMN["y_pad_after"]]
    scratchpad = machine.scratchpads[space.memory]
    if scratchpad.lane_bytes_per_cycle is not None:
        port = Fraction(scratchpad.lane_bytes_per_cycle * scratchpad.lanes)
        moved = np.maximum(moved, _rounded_up(x * y * space.element_bytes, port))
    # Nothing is moved, and nothing padded, where rows are empty.
    return np.where(rows[:, COLUMN["x_size"]] == 0, 1, route.fixed_cycles + moved)


def _units(rows: np.ndarray, space: Space, region: Region, unit: int) -> np.ndarray:
    """Bursts, or rows of the memory, that each transfer opens one after the other: those that its
    pieces reach, less those that the piece before has reached."""
    each, found = space.global_bytes, np.zeros(len(rows), np.int64)
    for index, row in enumerate(rows):
        x, y, step, stride, coded, address = (row[COLUMN[name]] for name in PIECES)
        start = address * each - region.start_bytes
        firsts, size = np.arange(y) * stride * each, x * each
        if step != 1:
            firsts, size = np.add.outer(firsts, np.arange(x) * step * each).reshape(-1), each
        if coded:
            firsts, size = np.zeros(1, np.int64), coded
        if not (size and firsts.size):
            continue
        begin, end = (start + firsts) // unit, (start + firsts + size - 1) // unit
        again = np.count_nonzero(begin[1:] == end[:-1])
        found[index] = (end - begin + 1).sum() - again
    return found


def _rounded_up(sizes: np.ndarray, rate: Fraction) -> np.ndarray:
    return -(-sizes * rate.denominator // rate.numerator)
