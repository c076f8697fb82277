"""Instructions of a loop nest, as the compiler of C will make them.

    for cb, p, q, ci:                      28 multiply-adds, 2 loads of weights, 14 of inputs:
      for jp in 14 (unrolled):             what an unrolled loop repeats without any difference
        for ov in 2 (unrolled):            is computed once; elements of a register array whose
          acc[jp][ov] += x[jp] * w[ov]     subscripts are all constants then cost no access

Loops that are not unrolled multiply what is in them, and cost something themselves. A reduction
cannot go faster than its chains of additions: `latency`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import affine, arith, func, math, memref, scf, vector
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from explorer.ir.loop_dialect import NormalCdfOp
from explorer.ir.types import numpy_dtype
from explorer.kernels.cost.machine import CostMachine
from explorer.kernels.cost.rules import (
    FLOAT_BYTES,
    broadcast_registers,
    conflict_cycles,
    executed_loads,
    kept_vectors,
    load_parts,
    loop_instructions,
    overlapped,
    parts_of,
    spill_cycles,
    spilled_chain_cycles,
    waiting_share,
)
from explorer.kernels.loops.nest import (
    Access,
    bounds_of,
    enclosing_loops,
    extent_of,
    index_of,
    is_access,
    is_store,
    kind_of,
    subscripts,
)
from explorer.kernels.steps.registers import is_held

OVERLAPPING = ("arithmetic", "loads", "stores", "issue", "latency")
"""What of a body goes on at the same time."""
UNKNOWN_EXTENT = 16
"""Iterations of a loop whose bounds depend on data."""
FUNCTION_CYCLES = 20.0
"""exp, tanh, erf: polynomials of about so many multiply-adds."""
EXTREME_INSTRUCTIONS = 3
"""Of a maximum or minimum of floats that keeps NaN (`maximum` of printing/prelude/c): comparing,
finding NaN, selecting. With a constant, which stands first, the first of them is enough."""
FORWARD_CYCLES = 5
"""From a store to a load of the same element: chains through memory are longer by this."""

FREE = (
    arith.ConstantOp,
    affine.YieldOp,
    scf.YieldOp,
    memref.AllocaOp,
    vector.BroadcastOp,  # folded into the load of what it repeats
    func.ReturnOp,
)
DIVISIONS = (arith.DivfOp, math.SqrtOp, math.RsqrtOp, arith.DivSIOp, arith.DivUIOp)
EXTREMES = (arith.MaximumfOp, arith.MinimumfOp)
CHEAP_FUNCTIONS = (math.AbsFOp, math.FloorOp, math.CeilOp, math.FmaOp, math.TruncOp)


@dataclass
class Counts:
    """Cycles of one core by what holds it up, and what they were made of."""

    cycles: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """arithmetic, loads, stores, issue, latency, spills."""
    instructions: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    most_registers: int = 0
    """Vector registers that the widest body asks for."""
    busy: float = 0.0
    """Cycles of all bodies, one after another: in each what takes longest, and its spills."""

    def add(self, other: Counts, times: float = 1.0) -> None:
        for name, value in other.cycles.items():
            self.cycles[name] += value * times
        for name, value in other.instructions.items():
            self.instructions[name] += value * times
        self.most_registers = max(self.most_registers, other.most_registers)
        self.busy += other.busy * times


def is_function(op: Operation) -> bool:
    """Whether an operation is a polynomial of many multiply-adds, and of as many constants."""
    is_cheap = isinstance(op, (*CHEAP_FUNCTIONS, *DIVISIONS))
    return isinstance(op, NormalCdfOp) or (op.dialect_name() == "math" and not is_cheap)


def extent_or_guess(loop: affine.ForOp) -> int:
    return extent_of(loop) if bounds_of(loop) is not None else UNKNOWN_EXTENT


def count(top: Operation, machine: CostMachine) -> Counts:
    """The counts of a whole loop nest (or of a single operation)."""
    counter = _Counter(machine)
    return counter.region([top], [])


def count_bodies(top: Operation, machine: CostMachine) -> dict[affine.ForOp, Counts]:
    """The counts of one iteration of every loop that is not unrolled, without loops inside."""
    counter = _Counter(machine)
    counter.region([top], [])
    return counter.bodies


class _Counter:
    def __init__(self, machine: CostMachine):
        self.machine = machine
        self.core = machine.core
        self.bodies: dict[affine.ForOp, Counts] = {}
        """Of every loop that is not unrolled: one iteration, without the loops inside."""

    def region(
        self,
        operations: list[Operation],
        unrolled: list[affine.ForOp],
        loop: affine.ForOp | None = None,
    ) -> Counts:
        """A body (of `loop`): its own operations, those of unrolled loops, and its other loops."""
        total = Counts()
        body: list[tuple[Operation, int, list[affine.ForOp]]] = []
        for op, inside in flattened(operations, unrolled):
            if isinstance(op, affine.ForOp):
                times = extent_or_guess(op)
                inner = self.region(list(op.body.block.ops), [], op)
                total.add(inner, times * repeats_of(op, inside))
            elif op.regions and not isinstance(op, affine.ForOp):
                for region in op.regions:
                    for block in region.blocks:
                        inner = self.region(list(block.ops), [])
                        total.add(inner, UNKNOWN_EXTENT if isinstance(op, scf.ForOp) else 1)
            else:
                body.append((op, repeats_of(op, inside), inside))
        own = Counts()
        most = max((repeats for _, repeats, _ in body), default=1)
        held = kept = 0
        for op, repeats, inside in body:
            if repeats > 1 and is_access(op) and not _is_register(op):
                offsets = _offsets(op, inside)
                own.cycles["conflicts"] += conflict_cycles(offsets, self.machine)
                if not is_store(op) and len(offsets) < repeats:
                    # Neighbours read the same elements, which are kept until all have.
                    repeats = len(offsets)
                    held = max(held, repeats // extent_of(inside[0]))
                elif not is_store(op) and isinstance(_touched(op), VectorType) and not _is_held(op):
                    kept = max(kept, kept_vectors(repeats, most, self.machine))
                    repeats = executed_loads(repeats, most, self.machine)
            self._operation(op, repeats, own)
        sums = self._sums([op for op, _, _ in body])
        has_held = any(is_access(op) and is_held(op.memref) for op, _, _ in body)
        operands = max(broadcast_registers(self.machine) + max(not has_held, kept), held)
        own.most_registers = sums + operands if sums else 0
        if loop is not None:
            own.instructions["other"] += loop_instructions(len(_arrays_along(loop, body)))
        issued = sum(own.instructions.values())
        own.cycles["issue"] += issued / self.core.issued_per_cycle
        if loop is not None:
            own.cycles["latency"] += self._chain_cycles(loop, issued)
        if sums:
            own.cycles["spills"] += spill_cycles(sums, self.machine, operands)
            own.cycles["latency"] = max(
                own.cycles["latency"], spilled_chain_cycles(own.cycles["spills"], self.machine)
            )
        longest = max(own.cycles[name] for name in OVERLAPPING)
        own.busy = overlapped(longest, own.cycles["conflicts"]) + own.cycles["spills"]
        if loop is not None:
            self.bodies[loop] = own
        total.add(own)
        return total

    def _operation(self, op: Operation, repeats: int, counts: Counts) -> None:
        if isinstance(op, FREE) or repeats == 0:
            return
        if is_access(op):
            if _is_register(op):
                return
            size = _size_bytes(_touched(op))
            if is_store(op):
                name, cycles = "stores", parts_of(size, self.machine) / self.core.store_units
            else:
                name, cycles = "loads", load_parts(size, self.machine) / self.core.load_units
            counts.cycles[name] += repeats * cycles
            counts.instructions[name] += repeats
            return
        kind = op.results[0].type if op.results else None
        if kind is None or isinstance(kind, IndexType):
            counts.instructions["other"] += repeats
            return
        if isinstance(op, arith.MulfOp) and is_fused(op):
            return
        cost = 1.0
        if isinstance(op, EXTREMES) and not any(map(_is_constant, op.operands)):
            repeats *= EXTREME_INSTRUCTIONS
        elif isinstance(op, DIVISIONS):
            cost = float(self.core.division_cycles * self.core.arithmetic_units)
        elif is_function(op):
            cost = FUNCTION_CYCLES
        parts = self._parts(kind)
        if isinstance(op, vector.ReductionOp):
            operand = op.operands[0].type
            assert isinstance(operand, VectorType)
            cost, parts = float(max(operand.get_shape()[0].bit_length(), 1)), self._parts(operand)
        counts.cycles["arithmetic"] += repeats * cost * parts / self.core.arithmetic_units
        counts.instructions["arithmetic"] += repeats

    def _parts(self, kind: Attribute) -> int:
        """How many times a unit is taken by an operation on such a value."""
        return parts_of(_size_bytes(kind), self.machine)

    def _chain_cycles(self, loop: affine.ForOp, issued: float) -> float:
        """Cycles that an iteration waits for the sums that the iterations have in common.

        `issued`: instructions of an iteration.
        """
        longest = 0.0
        for op, inside in flattened(list(loop.body.block.ops), []):
            if not is_access(op) or not is_store(op):
                continue
            used = _indices(op)
            if index_of(loop) in used or not _reads_itself(op):
                continue
            repeated = prod(
                extent_or_guess(other) for other in inside if index_of(other) not in used
            )
            step = self.core.multiply_add_latency_cycles
            if not _is_register(op):
                step += FORWARD_CYCLES
            share = waiting_share(issued * _iterations_of_sum(op, loop, used), self.machine)
            longest = max(longest, float(step * repeated) * share)
        return longest

    def _sums(self, body: list[Operation]) -> int:
        """Vectors of the local arrays that live in registers."""
        width_bytes = FLOAT_BYTES * self.machine.vector_floats
        arrays: dict[SSAValue, int] = {}
        for op in body:
            if is_access(op) and _is_register(op):
                elements = prod(_shape(op.memref)) if isinstance(op.memref.type, MemRefType) else 1
                lanes = _size_bytes(_element(op.memref))
                arrays[op.memref] = elements * max(1, -(-lanes // width_bytes))
        return sum(arrays.values())


# -- what is in a nest -----------------------------------------------------------------------------


def flattened(
    operations: list[Operation], unrolled: list[affine.ForOp]
) -> Iterator[tuple[Operation, list[affine.ForOp]]]:
    """Every operation of a body, those inside of unrolled loops with these around them."""
    for op in operations:
        if isinstance(op, affine.ForOp) and kind_of(op) == "unroll" and bounds_of(op) is not None:
            yield from flattened(list(op.body.block.ops), [*unrolled, op])
        else:
            yield op, unrolled


def repeats_of(op: Operation, inside: list[affine.ForOp]) -> int:
    """Different results that unrolled loops make of an operation: it is computed so many times."""
    if not inside:
        return 1
    if isinstance(op, affine.ForOp):
        return prod(extent_of(loop) for loop in inside)
    used = _dependences(op, {index_of(loop) for loop in inside})
    return prod(extent_of(loop) for loop in inside if index_of(loop) in used)


def _offsets(access: Access, inside: list[affine.ForOp]) -> set[int]:
    """Bytes from the first element that the copies of an access begin at, in unrolled loops."""
    strides: list[int] = []
    step = _size_bytes(_element(access.memref))
    for size in reversed(_shape(access.memref)):
        strides.insert(0, step)
        step *= size
    found = {0}
    for loop in inside:
        stride = sum(
            form.terms.get(index_of(loop), 0) * size
            for form, size in zip(subscripts(access), strides, strict=True)
            if form is not None
        )
        if stride:
            found = {at + stride * n for at in found for n in range(extent_of(loop))}
    return found


def _dependences(op: Operation, indices: set[SSAValue]) -> set[SSAValue]:
    """The loop indices that an operation's operands are computed from."""
    found: set[SSAValue] = set()
    pending = list(op.operands)
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in indices:
            found.add(value)
        elif not isinstance(value.owner, Block):
            pending.extend(value.owner.operands)
    return found


def _iterations_of_sum(store: Access, loop: affine.ForOp, used: set[SSAValue]) -> int:
    """Iterations of a loop and of those around it, as far as they add to the same sums."""
    home = store.memref.owner
    inside = not isinstance(home, Block) and home.parent_op()
    count = 1
    for around in reversed([*enclosing_loops(loop), loop]):
        if index_of(around) in used or around is inside:
            break
        count *= extent_or_guess(around)
    return count


def _indices(access: Access) -> set[SSAValue]:
    return {index for form in subscripts(access) if form is not None for index in form.terms}


def _arrays_along(
    loop: affine.ForOp, body: list[tuple[Operation, int, list[affine.ForOp]]]
) -> set[SSAValue]:
    """The arrays of a body of which every iteration touches another place."""
    return {
        op.memref
        for op, _, _ in body
        if is_access(op) and not _is_register(op) and index_of(loop) in _indices(op)
    }


def _is_register(access: Access) -> bool:
    """An element of a local array whose subscripts are known when the code is written out."""
    if not isinstance(access.memref.owner, memref.AllocaOp):
        return False
    for form in subscripts(access):
        if form is None:
            return False
        for index in form.terms:
            loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
            if not isinstance(loop, affine.ForOp) or kind_of(loop) != "unroll":
                return False
    return True


def _is_held(load: Operation) -> bool:
    """Whether what is loaded goes into an array of registers that `hold` has made."""
    use = load.results[0].first_use
    return use is not None and is_access(use.operation) and is_held(use.operation.memref)


def _reads_itself(store: Access) -> bool:
    """Whether a stored value is computed from a load of the same buffer."""
    pending = [store.operands[0]]
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in seen or isinstance(value.owner, Block):
            continue
        seen.add(value)
        owner = value.owner
        if is_access(owner):
            if owner.memref is store.memref:
                return True
            continue
        pending.extend(owner.operands)
    return False


def is_fused(multiplication: arith.MulfOp) -> bool:
    """Whether it becomes part of a multiply-add."""
    users = [use.operation for use in multiplication.result.uses]
    return len(users) == 1 and isinstance(users[0], arith.AddfOp | arith.SubfOp)


def _is_constant(value: SSAValue) -> bool:
    """A number that is written in the code, perhaps repeated in a vector."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp):
        return _is_constant(owner.operands[0])
    return isinstance(owner, arith.ConstantOp)


def _touched(access: Access) -> Attribute:
    """The type of what an access moves."""
    return access.operands[0].type if is_store(access) else access.results[0].type


def _element(buffer: SSAValue) -> Attribute:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.element_type


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _size_bytes(kind: Attribute) -> int:
    if isinstance(kind, VectorType):
        return prod(kind.get_shape()) * _size_bytes(kind.element_type)
    try:
        return numpy_dtype(kind).itemsize
    except (KeyError, ValueError, TypeError):
        return 8
