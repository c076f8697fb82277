"""Step fuse: a statement that is computed point by point moves to where its points are used.

    for o: y[o] = b[o]                                     for o:
    for o: acc = y[o]; for c: acc += ...; y[o] = acc  ->     acc = b[o]; for c: acc += ...
    for o: y[o] = relu(y[o])                                 y[o] = relu(acc)

`fuse_producer` inlines a statement before (bias) at the loads of its result, `fuse_consumer` one
behind (residual, activation) at the stores of its operand. Both need the tile to be kept in
registers (`accumulate`) first: then the tile is loaded once before the reduction and stored once
after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import affine
from xdsl.ir import Operation, SSAValue

from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.loops.nest import (
    Access,
    AffineAccess,
    LinearForm,
    LoopNest,
    accesses_in,
    accesses_of,
    enclosing_loops,
    extent_of,
    index_of,
    index_range,
    is_store,
    linear_subscripts,
    name_of,
    perfect_chain,
    precedes,
    set_subscripts,
    stage_of,
)
from explorer.kernels.steps.dependences import (
    boxes_are_disjoint,
    determined_indices,
    nests_are_independent,
    separated,
)


def fuse_producer(nest: LoopNest, statement: str, buffer: str) -> None:
    """Inlines the statement that defines every element of `buffer` at the loads of them.

    Illegal unless the statement writes each element once by a perfect nest, and its consumer
    reads exactly these elements, each once, before it writes them.
    """
    producer = _only_nest(nest, statement)
    operations = innermost_operations(producer)
    value = nest.buffer(buffer, "fuse")
    stores = [op for op in accesses_in(producer) if is_store(op)]
    if len(stores) != 1 or stores[0].memref is not value or not operations:
        raise nest.error("fuse", f"{statement} is not one store into {buffer}")
    store = stores[0]
    if not isinstance(store, affine.StoreOp):
        raise nest.error("fuse", f"subscripts of {buffer} in {statement} depend on data")
    if any(a.memref is value for a in accesses_in(producer) if a is not store):
        raise nest.error("fuse", f"{statement} reads {buffer}, which it writes")
    loads, stores_behind = _consumers(nest, producer, store)
    if not loads:
        raise nest.error("fuse", f"nothing reads {buffer} behind {statement}")
    later = [a for a in nest.accesses(buffer) if a not in loads and nest.top_of(a) is not producer]
    for load in loads:
        _require_once(nest, load, statement)
        for access in later:
            if is_store(access) and _is_needed_later(load, access, earlier=True):
                raise nest.error(
                    "fuse",
                    f"{buffer} is written before it is read; accumulate {buffer} in registers "
                    f"before fusing {statement}",
                )
    _require_undisturbed(nest, producer, loads, statement)
    _require_cover(nest, producer, store, loads, statement)
    if stores_behind:
        _require_cover(nest, producer, store, stores_behind, statement)
    source = _forms(nest, store)
    for load in loads:
        positions = _solve(nest, statement, producer, source, _forms(nest, load))
        values = _inline(operations[:-1], positions, load, {})
        load.result.replace_all_uses_with(values.get(store.value, store.value))
        _erase(load)
    _erase(producer)
    nest.changed()


def fuse_consumer(nest: LoopNest, statement: str, buffer: str) -> None:
    """Inlines a statement that reads `buffer` point by point at the stores of its points.

    Illegal unless the statement is pointwise (a perfect nest in which every loop subscripts
    `buffer`), and each of its points is stored once, in its final state.
    """
    consumer = _only_nest(nest, statement)
    operations = innermost_operations(consumer)
    value = nest.buffer(buffer, "fuse")
    loads = [a for a in accesses_in(consumer) if a.memref is value and not is_store(a)]
    results = [a for a in accesses_in(consumer) if is_store(a)]
    if len(results) != 1 or not loads or not isinstance(results[0], affine.StoreOp):
        raise nest.error("fuse", f"{statement} is not one store computed from {buffer}")
    source = _forms(nest, loads[0])
    if any(_forms(nest, load) != source for load in loads):
        raise nest.error("fuse", f"{statement} is not pointwise in {buffer}")
    result = results[0]
    if result.memref is value and _forms(nest, result) != source:
        raise nest.error("fuse", f"{statement} writes other elements of {buffer} than it reads")
    if not {index_of(loop) for loop in perfect_chain(consumer)} <= determined_indices(source):
        raise nest.error("fuse", f"{statement} is not pointwise: a loop does not index {buffer}")
    stores = [
        a
        for a in nest.accesses(buffer)
        if isinstance(a, affine.StoreOp)
        and nest.top_of(a) is not consumer
        and not boxes_are_disjoint(a, loads[0])
    ]
    others = [
        a for a in nest.accesses(buffer) if a not in stores and nest.top_of(a) is not consumer
    ]
    for store in stores:
        _require_once(nest, store, statement)
        for access in others:
            if _is_needed_later(store, access, earlier=False):
                raise nest.error(
                    "fuse",
                    f"{buffer} is not final where it is stored; accumulate it in registers "
                    f"before fusing {statement}",
                )
    _require_undisturbed(nest, consumer, stores, statement)
    _require_cover(nest, consumer, loads[0], stores, statement)
    keeps_buffer = result.memref is value or nest.roles[buffer] == "scratch"
    body = [op for op in operations if op not in loads]
    for store in stores:
        positions = _solve(nest, statement, consumer, source, _forms(nest, store))
        _inline(body, positions, store, {load.results[0]: store.value for load in loads})
        if keeps_buffer:
            _erase(store)
    _erase(consumer)
    nest.changed()


def _consumers(
    nest: LoopNest, producer: affine.ForOp, store: Access
) -> tuple[list[affine.LoadOp], list[Access]]:
    """(loads that see what the producer stored, stores of the same statement over it).

    They stand in the first statement that overwrites the elements; what comes after that sees
    other values. Where nothing overwrites them, all loads see them.
    """
    touching = [
        a
        for a in accesses_of(store.memref)
        if nest.top_of(a) is not producer and not boxes_are_disjoint(a, store)
    ]
    overwriting = [a for a in touching if is_store(a)]
    loads = [a for a in touching if isinstance(a, affine.LoadOp)]
    if not overwriting:
        return loads, []
    order = list(nest.function.body.block.ops)
    first = min((nest.top_of(a) for a in overwriting), key=lambda top: _place(order, top))
    stage = stage_of(first)
    here = [a for a in overwriting if stage_of(nest.top_of(a)) == stage]
    return [load for load in loads if stage_of(nest.top_of(load)) == stage], here


def _place(order: Sequence[Operation], top: Operation) -> int:
    return next(k for k, other in enumerate(order) if other is top)


def _only_nest(nest: LoopNest, statement: str) -> affine.ForOp:
    found = nest.statements(statement)
    if len(found) != 1:
        present = ", ".join(nest.stages())
        raise nest.error(
            "fuse", f"{statement!r} is {len(found)} loop nests, not one; statements: {present}"
        )
    return found[0]


def _forms(nest: LoopNest, access: Access) -> list[LinearForm]:
    try:
        return linear_subscripts(access)
    except ValueError as reason:
        raise nest.error("fuse", str(reason)) from reason


def _require_once(nest: LoopNest, access: Access, statement: str) -> None:
    """Every iteration of the loops around an access must touch another element."""
    determined = determined_indices(_forms(nest, access))
    for loop in enclosing_loops(access):
        if index_of(loop) not in determined and extent_of(loop) > 1:
            raise nest.error(
                "fuse",
                f"loop {name_of(loop)} touches the same elements of "
                f"{nest.name_of_buffer(access.memref)} repeatedly; accumulate them in registers "
                f"before fusing {statement}",
            )


def _require_undisturbed(
    nest: LoopNest, moved: affine.ForOp, targets: Sequence[Access], statement: str
) -> None:
    """No statement on the way may touch what the moved one touches, nor its target its operands."""
    homes = {nest.top_of(target) for target in targets}
    tops = nest.statements()
    places = [tops.index(moved), *(k for k, top in enumerate(tops) if top in homes)]
    for top in tops[min(places) : max(places) + 1]:
        if top is not moved and top not in homes and not nests_are_independent(top, moved):
            raise nest.error("fuse", f"another statement stands between and touches {statement}")
    buffer = targets[0].memref if targets else None
    touched = {a.memref for a in accesses_in(moved)}
    written = {a.memref for a in accesses_in(moved) if is_store(a)}
    for home in homes:
        for access in accesses_in(home):
            other = access.memref
            if other is buffer or other not in touched:
                continue
            if is_store(access) or other in written:
                raise nest.error(
                    "fuse", f"{nest.name_of_buffer(other)} is written while {statement} needs it"
                )


def _require_cover(
    nest: LoopNest,
    moved: affine.ForOp,
    own: Access,
    targets: Sequence[Access],
    statement: str,
) -> None:
    """The targets must be all points of the moved statement, each once."""
    points = prod(extent_of(loop) for loop in perfect_chain(moved))
    covered = sum(prod(extent_of(loop) for loop in enclosing_loops(t)) for t in targets)
    overlap = any(
        not boxes_are_disjoint(a, b) for k, a in enumerate(targets) for b in targets[k + 1 :]
    )
    if points != covered or overlap:
        raise nest.error(
            "fuse",
            f"{statement} has {points} points, and {nest.name_of_buffer(own.memref)} is used at "
            f"{covered}",
        )


def _is_needed_later(target: Access, other: Access, earlier: bool) -> bool:
    """Whether `other` touches an element of `target` on the wrong side of it.

    Both may only meet within one iteration of the loops around both, and there `other` has to
    stand behind the target (`earlier` is False: in front of it).
    """
    if boxes_are_disjoint(target, other):
        return False
    stands_right = precedes(target, other) if earlier else precedes(other, target)
    fixed: set[SSAValue] = set()
    around = enclosing_loops(other)
    for loop in enclosing_loops(target):
        if loop not in around:
            break
        index = index_of(loop)
        both = {target: index, other: index}
        if extent_of(loop) > 1 and not separated([target, other], both, fixed):
            return True
        fixed.add(index)
    return not stands_right


def _solve(
    nest: LoopNest,
    statement: str,
    moved: affine.ForOp,
    source: Sequence[LinearForm],
    target: Sequence[LinearForm],
) -> dict[SSAValue, LinearForm]:
    """The loop indices of a pointwise statement, from the element that it shall compute."""
    positions: dict[SSAValue, LinearForm] = {}
    for own, wanted in zip(source, target, strict=True):
        if not own.terms:
            continue
        (index, coefficient), *rest = own.terms.items()
        if rest or coefficient != 1:
            raise nest.error("fuse", f"{statement} is not pointwise: a subscript is not one index")
        positions[index] = wanted + LinearForm({}, -own.constant)
        reached, allowed = positions[index].range(), index_range(index)
        if reached is None or allowed is None or reached[0] < allowed[0] or reached[1] > allowed[1]:
            raise nest.error("fuse", f"elements outside of {statement} are used")
    for loop in perfect_chain(moved):
        if index_of(loop) not in positions:
            if extent_of(loop) != 1:
                raise nest.error("fuse", f"{statement} repeats itself over {name_of(loop)}")
            positions[index_of(loop)] = LinearForm()
    return positions


def _inline(
    operations: Sequence[Operation],
    positions: Mapping[SSAValue, LinearForm],
    before: Operation,
    values: dict[SSAValue, SSAValue],
) -> dict[SSAValue, SSAValue]:
    """Clones a statement's body in front of `before`, its loop indices replaced."""
    block = before.parent
    assert block is not None
    for op in operations:
        clone = op.clone(values)
        if isinstance(clone, AffineAccess):
            forms = linear_subscripts(clone)
            set_subscripts(clone, [form.substitute(positions) for form in forms])
        block.insert_op_before(clone, before)
    return values


def _erase(operation: Operation) -> None:
    block = operation.parent
    assert block is not None
    block.erase_op(operation)
