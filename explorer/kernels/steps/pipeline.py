"""Step pipeline: the next tile is on its way while the present one is used.

    for kt:                                   next = x[.. 0]           every item keeps its part
        tile = x[.. kt]     {item}            for kt in 0 .. n - 1:
        sums += .. tile ..  {item}      ->        tile = next
                                                  next = x[.. kt + 1]  nothing waits for it yet
                                                  sums += .. tile ..
                                              tile = next
                                              sums += .. tile ..

What one iteration copies into local memory (`stage`) waits for the device's memory, and the items
wait for it at the barrier. Here the loads of the next tile are issued before the present one is
used, into registers of the items, and stored when the tile is free again: software pipelining with
one stage (Lam, "Software pipelining", PLDI 1988), as kernels of matrix products on GPUs have it.
The tile itself is there once, so that as many groups fit on a core as before.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    append,
    body_of,
    bounds_of,
    enclosing_loops,
    extent_of,
    index_form,
    index_of,
    is_store,
    make_load,
    make_store,
    new_loop,
    perfect_chain,
    set_upper_bound,
    substitute_index,
)
from explorer.kernels.steps.groups import ROUNDS, has_items
from explorer.kernels.steps.registers import ALIGNMENT_BYTES

MIN_ITERATIONS = 2


def pipeline(nest: LoopNest, at: str) -> None:
    """Loads what the next iteration of loop `at` stages while this one computes.

    The copies must stand at the begin of the loop's body, divided among items, each a perfect nest
    with one store into local memory. Illegal where the loop writes what a copy reads, and where it
    has a single iteration.
    """
    for loop in nest.loops(at, "pipeline"):
        tiles, copies, rest = _parts(nest, at, loop)
        _require_independence(nest, at, copies, rest)
        _pipeline_loop(loop, tiles, copies, rest)
    nest.changed()


def _parts(
    nest: LoopNest, at: str, loop: affine.ForOp
) -> tuple[list[memref.AllocaOp], list[affine.ForOp], list[Operation]]:
    """The body of the loop: its tiles, the copies into them, and what uses them."""
    if not enclosing_loops(loop):
        raise nest.error("pipeline", f"{at} has no loop around it that could hold the registers")
    bounds = bounds_of(loop)
    if bounds is None or bounds[0] or bounds[1] < MIN_ITERATIONS:
        raise nest.error("pipeline", f"{at} has no second iteration to load a tile for")
    body = body_of(loop)
    tiles = [op for op in body if isinstance(op, memref.AllocaOp)]
    arrays: set[SSAValue] = {tile.memref for tile in tiles}
    copies: list[affine.ForOp] = []
    rest: list[Operation] = []
    for op in body:
        if op in tiles:
            continue
        if not rest and isinstance(op, affine.ForOp) and _fills(op, arrays):
            copies.append(op)
        else:
            rest.append(op)
    if not copies or not rest:
        raise nest.error("pipeline", f"{at} does not begin with copies of tiles; stage them first")
    if any(
        access.memref in arrays and is_store(access) for op in rest for access in accesses_in(op)
    ):
        raise nest.error("pipeline", f"{at} writes to a tile behind its copies")
    return tiles, copies, rest


def _fills(copy: affine.ForOp, tiles: set[SSAValue]) -> bool:
    """Whether a nest is a copy into a tile that items make: one load, one store."""
    innermost = perfect_chain(copy)[-1].body.block
    accesses = accesses_in(copy)
    return (
        has_items(copy)
        and [is_store(access) for access in accesses] == [False, True]
        and all(access.parent is innermost for access in accesses)
        and accesses[0].memref not in tiles
        and accesses[1].memref in tiles
        and isinstance(accesses[0], affine.LoadOp | affine.VectorLoadOp)
    )


def _require_independence(
    nest: LoopNest, at: str, copies: Sequence[affine.ForOp], rest: Sequence[Operation]
) -> None:
    """A tile is read one iteration early: nothing in between may write what is read."""
    read = {a.memref for copy in copies for a in accesses_in(copy) if not is_store(a)}
    for op in rest:
        for access in accesses_in(op):
            is_argument = not isinstance(access.memref.owner, Operation)
            if is_store(access) and (is_argument or access.memref in read):
                written = nest.name_of_buffer(access.memref)
                raise nest.error("pipeline", f"{at} writes {written} while a tile is loaded")


def _pipeline_loop(
    loop: affine.ForOp,
    tiles: Sequence[memref.AllocaOp],
    copies: Sequence[affine.ForOp],
    rest: Sequence[Operation],
) -> None:
    block, following = loop.parent, loop.next_op
    assert block is not None and following is not None
    last = LinearForm({}, extent_of(loop) - 1)
    arrays = [_registers_of(copy) for copy in copies]
    for op in (*tiles, *copies, *rest):
        op.detach()

    def fetched(when: LinearForm) -> list[Operation]:
        nests = _at(copies, loop, when)
        for nest, array in zip(nests, arrays, strict=True):
            _store_in_registers(nest, array)
        return nests

    def stored() -> list[Operation]:
        nests = _at(copies, loop, LinearForm())
        for nest, array in zip(nests, arrays, strict=True):
            _load_from_registers(nest, array)
        return nests

    block.insert_ops_before([*arrays, *tiles, *fetched(LinearForm())], loop)
    block.insert_ops_before([*stored(), *_at(rest, loop, last)], following)
    ahead = index_form(loop) + LinearForm({}, 1)
    append(loop, [*stored(), *fetched(ahead), *rest])
    set_upper_bound(loop, last.constant)
    for copy in copies:
        copy.erase()


def _registers_of(copy: affine.ForOp) -> memref.AllocaOp:
    """An element for every iteration of a copy, kept as it is loaded by the item that runs it."""
    load, store = accesses_in(copy)
    extents = [extent_of(loop) for loop in perfect_chain(copy)]
    assert isinstance(load, affine.LoadOp | affine.VectorLoadOp)
    array = memref.AllocaOp.get(load.result.type, ALIGNMENT_BYTES, extents)
    array.memref.name_hint = f"next_{store.memref.name_hint or 'tile'}"
    array.location = store.location
    array.attributes[ROUNDS] = UnitAttr()
    return array


def _own_element(copy: Operation) -> list[LinearForm]:
    assert isinstance(copy, affine.ForOp)
    return [index_form(loop) for loop in perfect_chain(copy)]


def _store_in_registers(copy: Operation, array: memref.AllocaOp) -> None:
    """The copy ends with what it loads: that goes into registers instead of the tile."""
    load, store = accesses_in(copy)
    block = load.parent
    assert block is not None and isinstance(load, affine.LoadOp | affine.VectorLoadOp)
    kept = make_store(load.result, array.memref, _own_element(copy), store)
    for op in reversed([op for op in block.ops if op is not load and op is not block.last_op]):
        block.erase_op(op)
    block.insert_op_after(kept, load)


def _load_from_registers(copy: Operation, array: memref.AllocaOp) -> None:
    """The copy begins with what its item has kept, and may still compute with it."""
    load, _ = accesses_in(copy)
    block = load.parent
    assert block is not None and isinstance(load, affine.LoadOp | affine.VectorLoadOp)
    kept = make_load(array.memref, _own_element(copy), load)
    block.insert_op_before(kept, load)
    load.result.replace_all_uses_with(kept.result)
    block.erase_op(load)


def _at(operations: Sequence[Operation], loop: affine.ForOp, when: LinearForm) -> list[Operation]:
    """Copies of operations of the loop's body for another iteration of it."""
    holder = new_loop(1, "when", loop)
    mapped: dict[SSAValue, SSAValue] = {index_of(loop): index_of(holder)}
    copied = [op.clone(mapped) for op in operations]
    append(holder, copied)
    substitute_index(index_of(holder), when)
    for op in copied:
        op.detach()
    return copied
