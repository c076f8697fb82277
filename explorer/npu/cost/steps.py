"""What a layer does, step by step: how long each takes, and what it occupies meanwhile.

    load       a transfer per block of inputs, and the weights
    compute    operands and constants of the vector engine; reset; multiply; operations
    store      a transfer per block of outputs

Follows the records that a layer is written as, before they are encoded and without numbers. Extents
of a sequence of micro-operations are worked out once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from explorer.npu.cost.dram import moved_bytes, row_cycles
from explorer.npu.program.stream import Stream
from explorer.targets.npu.instructions import (
    Instruction,
    Load,
    Loop,
    Multiply,
    Requantize,
    RowLoop,
    Table,
    Transfer,
    Vector,
)
from explorer.targets.npu.machine import Machine, Region

Bank = tuple[int, int]
"""A scratchpad, and one of its banks."""
Extent = tuple[str, int, int]
"""A content, and the first and last of its elements that are touched."""
ON_CHIP = " on chip"
"""What the name of a step ends with that moves inside the chip."""
Ends = tuple[int, int]
"""The least and the greatest index of some micro-operations."""


class Step(NamedTuple):
    """One instruction."""

    queue: int
    what: str
    """The content that is moved, reset, multiply, or an operation of the vector engine; finish."""
    cycles: int
    """From its beginning to its end."""
    fixed_cycles: int
    """Of these, those that do not depend on how much it does."""
    least_cycles: float = 0.0
    """Of an engine, beyond these: what so many steps take at least in any loops."""
    amount: int = 0
    """Bytes that cross global memory, or steps of an engine."""
    dma: int = -1
    """The engine that moves; -1 where nothing is moved."""
    banks: frozenset[Bank] = frozenset()
    takes: tuple[int, ...] = ()
    """Tokens that it waits for: twice the first of two queues, and 1 more for those backwards."""
    gives: tuple[int, ...] = ()
    """Tokens that it gives at its end."""
    extents: tuple[Extent, ...] = ()
    """What it touches in scratchpads."""
    replaces: bool = False
    """Whether sums begin with it: what lay where it writes is gone."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes between global memory and scratchpads by content, and multiply-accumulates."""

    macs: int
    """Of the array: blocks that are not full count whole, a batch of positions as it is."""
    loaded_bytes: dict[str, int]
    """Without micro-operations."""
    stored_bytes: dict[str, int]

    @property
    def bytes(self) -> int:
        """All of them."""
        return sum((*self.loaded_bytes.values(), *self.stored_bytes.values()))


def steps_of(stream: Stream) -> tuple[list[Step], Traffic]:
    """Of a layer that is not written yet, in the order of the program."""
    stream.complete()
    (steps,), traffic = steps_in(stream, [stream.instructions])
    return steps, traffic


def steps_in(
    stream: Stream, orders: Sequence[Sequence[Instruction]]
) -> tuple[list[list[Step]], Traffic]:
    """Of one that is, in some orders of its instructions, which move as much."""
    reader = _Reader(stream)
    found = [[reader.step(op) for op in orders[0]]]
    traffic = Traffic(
        macs=reader.macs,
        loaded_bytes={c: n for c, n in reader.loaded.items() if n and c != "micro_operations"},
        stored_bytes={c: n for c, n in reader.stored.items() if n},
    )
    found += [[reader.step(op) for op in order] for order in orders[1:]]
    return found, traffic


class _Reader:
    def __init__(self, stream: Stream) -> None:
        self.machine, self.operations = stream.machine, stream.micro.operations
        self.first = stream.micro.global_address
        self.held: list[tuple[int, int]] = []
        """Of each load of micro-operations, the newest last: where in the scratchpad it begins, and
        from there to the number of the operation that lies at a place."""
        self.known: dict[tuple[int, int], tuple[Ends, Ends, Ends]] = {}
        self.loops: dict[int, Step] = {}
        """By the identity of an instruction."""
        self.macs = 0
        self.loaded: Counter[str] = Counter()
        self.stored: Counter[str] = Counter()

    def step(self, op: Instruction) -> Step:
        if isinstance(op, Transfer):
            return self._transfer(op)
        if isinstance(op, Loop):
            if id(op) not in self.loops:
                self.loops[id(op)] = self._loop(op)
            return self.loops[id(op)]
        queue = self.machine.queue_of_engine(self.machine.matrix.name)
        takes, gives = _tokens(op, queue)
        return Step(queue=queue, what="finish", cycles=1, fixed_cycles=1, takes=takes, gives=gives)

    def _transfer(self, op: Transfer) -> Step:
        machine, is_load = self.machine, isinstance(op, Load)
        space = machine.by_content[op.memory]
        queue = machine.queue_of(op.memory, is_load, isinstance(op, Load) and op.prefetch)
        whole = op.y_size * op.x_size * space.global_bytes
        coded = op.coded_bytes if isinstance(op, Load) else 0
        size = coded or whole
        tall = op.y_pad_before + op.y_size + op.y_pad_after
        elements = tall * (op.x_pad_before + op.x_size + op.x_pad_after)
        if op.memory == "micro_operations" and op.x_size:
            if not op.scratchpad_address:  # the scratchpad begins anew
                self.held.clear()
            start = op.scratchpad_address
            self.held.append((start, op.global_address - self.first - start))
        if op.on_chip:
            return self._on_chip(op, queue, size, elements)
        (self.loaded if is_load else self.stored)[op.memory] += size
        region = region_of(machine, op.global_address * space.global_bytes)
        route = machine.route[region.name, space.memory, is_load]
        rate = route.bytes_per_cycle
        crossing = size
        if region.burst_bytes is not None:
            crossing = moved_bytes(op, space.global_bytes, region)
        moving = -(-crossing * rate.denominator // rate.numerator)
        moving += row_cycles(op, space.global_bytes, region)
        if coded:
            decoded = route.decoded_bytes_per_cycle
            assert decoded is not None, region.name
            moving = max(moving, -(-whole * decoded.denominator // decoded.numerator))
        scratchpad = machine.scratchpads[space.memory]
        if scratchpad.lane_bytes_per_cycle is not None:
            port = scratchpad.lane_bytes_per_cycle * scratchpad.lanes
            moving = max(moving, int(-(-elements * space.element_bytes // port)))
        extents = ((op.memory, op.scratchpad_address, op.scratchpad_address + elements - 1),)
        banks = self._banks(extents)
        if op.memory == "gathered":
            each = machine.columns  # the whole weights that it writes parts of
            extents = (("weights", op.scratchpad_address // each, extents[0][2] // each),)
        if op.memory == "diagonals":
            each = machine.columns // machine.rows
            last = (extents[0][2] + 1) * each - 1
            extents = (("weights", op.scratchpad_address * each, last),)
        takes, gives = _tokens(op, queue)
        if not op.x_size:  # nothing is moved, but the engine is waited for
            return Step(queue=queue, what="wait", cycles=1, fixed_cycles=1, dma=route.engine,
                        takes=takes, gives=gives)  # fmt: skip
        return Step(
            queue=queue, what=op.memory, cycles=max(1, route.fixed_cycles + moving),
            fixed_cycles=route.fixed_cycles, amount=size, dma=route.engine,
            banks=banks, takes=takes, gives=gives, extents=extents,
        )  # fmt: skip

    def _on_chip(self, op: Transfer, queue: int, size: int, elements: int) -> Step:
        """Its other end are activations, in whole elements from its first byte to its last."""
        machine = self.machine
        space, each = machine.by_content[op.memory], machine.by_content["activations"].element_bytes
        rate, fixed = machine.on_chip_rate(op.memory), machine.on_chip_start_cycles
        first, last = op.scratchpad_address, op.scratchpad_address + elements - 1
        touched: list[Extent] = [(op.memory, first, last)]
        if op.y_size:
            start = op.global_address * space.global_bytes
            reach = (op.y_size - 1) * op.x_stride + (op.x_size - 1) * op.x_step + 1
            end = start + reach * space.global_bytes
            touched.append(("activations", start // each, (end - 1) // each))
        banks = self._banks(touched)
        if op.memory == "gathered":
            columns = machine.columns
            touched[0] = ("weights", first // columns, last // columns)
        takes, gives = _tokens(op, queue)
        cycles = fixed - (-elements * rate.denominator // rate.numerator)
        return Step(
            queue=queue, what=f"{op.memory}{ON_CHIP}", cycles=max(1, cycles), fixed_cycles=fixed,
            amount=size, banks=banks, takes=takes, gives=gives, extents=tuple(touched),
        )  # fmt: skip

    def _loop(self, op: Loop) -> Step:
        machine, is_product = self.machine, isinstance(op, Multiply)
        engine = machine.matrix if is_product else machine.vector
        assert engine is not None
        each = machine.multiply_step_cycles if is_product else machine.vector_step_cycles
        if isinstance(op, RowLoop):
            each = machine.row_step_cycles(op.kind, op.count)
        steps = op.outer * op.inner * (op.micro_end - op.micro_begin)
        taken, least = steps, float(steps * each)
        if not is_product and not isinstance(op, RowLoop):
            at_once = machine.vector_elements if op.destination_inner else 1
            taken = op.outer * -(-op.inner // at_once) * (op.micro_end - op.micro_begin)
            least = steps * machine.vector_element_cycles
        fixed = engine.start_cycles + engine.latency_cycles
        queue = machine.queue_of_engine(engine.name)
        if isinstance(op, Multiply) and not op.reset:
            held = op.batch * machine.rows_per_element
            self.macs += steps * held * machine.rows * machine.columns
        takes, gives = _tokens(op, queue)
        extents = tuple(self._extents(op))
        return Step(
            queue=queue, what=_what(op), cycles=max(1, fixed + taken * each), fixed_cycles=fixed,
            least_cycles=least, amount=steps, banks=self._banks(extents), takes=takes, gives=gives,
            extents=extents, replaces=isinstance(op, Multiply) and (op.reset or op.replace),
        )  # fmt: skip

    def _extents(self, op: Loop) -> list[Extent]:
        """As far as the corners of the loops, for all steps are positive."""
        machine = self.machine
        if op.micro_end == op.micro_begin:
            return []
        destination, source, weight = self._ends(op.micro_begin, op.micro_end - op.micro_begin)
        outer, inner = op.outer - 1, op.inner - 1
        reached = destination[1] + outer * op.destination_outer + inner * op.destination_inner
        read = source[1] + outer * op.source_outer + inner * op.source_inner
        if isinstance(op, Multiply):
            reached += (op.batch - 1) * op.destination_step
            read += (op.batch - 1) * op.source_step
        if isinstance(op, RowLoop):
            reached += (op.count - 1) * op.step
            read += machine.row_constants(op.kind, op.count) - 1
        found = [("micro_operations", op.micro_begin, op.micro_end - 1),
                 ("accumulators", destination[0], reached)]  # fmt: skip
        if isinstance(op, Multiply):
            if op.reset:
                return found
            last = weight[1] + outer * op.weight_outer + inner * op.weight_inner
            return [*found, ("activations", source[0], read), ("weights", weight[0], last)]
        if isinstance(op, Vector) and op.use_immediate:
            return found
        if isinstance(op, Requantize):
            read += 1 + op.biased
        found.append(("accumulators", source[0], read))
        return [*found, ("tables", op.table, op.table)] if isinstance(op, Table) else found

    def _ends(self, begin: int, count: int) -> tuple[Ends, Ends, Ends]:
        key = begin + next(to for first, to in reversed(self.held) if first <= begin), count
        if key not in self.known:
            mine = self.operations[key[0] : key[0] + count]
            columns = zip(*((m.destination, m.source, m.weight) for m in mine), strict=True)
            first, second, third = ((min(column), max(column)) for column in columns)
            self.known[key] = first, second, third
        return self.known[key]

    def _banks(self, extents: Iterable[Extent]) -> frozenset[Bank]:
        found: set[Bank] = set()
        for content, first, last in extents:
            space = self.machine.by_content[content]
            memory = self.machine.scratchpads[space.memory]
            size = (memory.size_bytes or 0) // memory.banks
            begin, end = first * space.element_bytes, (last + 1) * space.element_bytes - 1
            banks = range(begin // size, min(end // size, memory.banks - 1) + 1)
            found.update((space.memory, bank) for bank in banks)
        return frozenset(found)


def _what(op: Loop) -> str:
    if isinstance(op, Multiply):
        return "reset" if op.reset else "multiply"
    return op.operation if isinstance(op, Vector) else op.kind


def region_of(machine: Machine, byte: int) -> Region:
    """The part of global memory that a byte lies in."""
    return next(one for one in reversed(machine.regions) if one.start_bytes <= byte)


def _tokens(op: Instruction, queue: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that it takes and gives: of the queue before its own, and of the one behind."""
    before, after = 2 * (queue - 1), 2 * queue
    takes = [before] * op.pop_before + [after + 1] * op.pop_after
    gives = [before + 1] * op.push_before + [after] * op.push_after
    return tuple(takes), tuple(gives)
