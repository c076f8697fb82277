"""Steps that keep values in registers: accumulate, hold, rfactor, contract.

accumulate y at c                                      acc[jp] = y[jp]      for all jp
for c: for jp: y[jp] = y[jp] + x[jp, c]          ->    for c: for jp: acc[jp] += x[jp, c]
                                                       y[jp] = acc[jp]      for all jp

hold w at c                                            held[ov] = w[c, ov]  for all ov
for c: for jp: for ov: ..  x[jp, c] * w[c, ov]   ->    for jp: for ov: ..  x[jp, c] * held[ov]
                                                                                (in every c)

rfactor ko, ki into y                                  part[ki] = 0         for all ki
for ko: for ki: y = y + x[16 ko + ki]            ->    for ko: for ki: part[ki] += x[16 ko + ki]
                                                       y += part[ki]        for all ki
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import AnyFloat, FloatAttr, MemRefType, UnitAttr, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    extent_of,
    index_form,
    index_of,
    linear_subscripts,
    make_load,
    make_store,
    name_of,
    nest_loops,
    new_loop,
    redirect,
    rename,
)
from explorer.kernels.steps.dependences import reduction_operation

HELD = "held"
"""Attribute of arrays whose elements are to stay in registers."""
ALIGNMENT_BYTES = 64
"""One cache line, and the widest vector register there is."""


def accumulate(nest: LoopNest, at: str, buffer: str, name: str = "acc") -> None:
    """Keeps the elements of `buffer` that are updated under loop `at` in a register array.

    `buffer` is an argument, or the name of an array that another step has made. They are loaded
    before the loop and stored after it. `at` may name several loops that follow each other, the
    parts of a reduction that was cut: they share the registers. Illegal unless each loop reads and
    writes exactly one set of elements, the same in all its iterations and in all the loops.
    """
    names = at.split()
    for loops in zip(*(nest.loops(part, "accumulate") for part in names), strict=True):
        updates = [_update_under(nest, "accumulate", loop, buffer) for loop in loops]
        tiles = [
            _tile_of(nest, loop, update[1]) for loop, update in zip(loops, updates, strict=True)
        ]
        _require_same_elements(nest, at, loops, updates, tiles)
        (load, store), tile, loop = updates[0], tiles[0], loops[0]
        forms = _forms(nest, "accumulate", store)
        target = load.memref
        registers = _register_array(target, [extent_of(inner) for inner in tile], name, loop)
        block = loop.parent
        assert block is not None

        def copy_in(
            inside: list[LinearForm],
            outside: list[LinearForm],
            target: SSAValue = target,
            registers: SSAValue = registers.memref,
            store: affine.StoreOp = store,
        ) -> list[Operation]:
            value = make_load(target, outside, store)
            return [value, make_store(value.result, registers, inside, store)]

        def copy_out(
            inside: list[LinearForm],
            outside: list[LinearForm],
            target: SSAValue = target,
            registers: SSAValue = registers.memref,
            store: affine.StoreOp = store,
        ) -> list[Operation]:
            value = make_load(registers, inside, store)
            return [value, make_store(value.result, target, outside, store)]

        block.insert_ops_before([registers, *_tile_nest(tile, forms, copy_in)], loop)
        following = loops[-1].next_op
        assert following is not None
        block.insert_ops_before(_tile_nest(tile, forms, copy_out), following)
        for update, own in zip(updates, tiles, strict=True):
            for access in update:
                redirect(access, registers.memref, [index_form(inner) for inner in own])
    nest.changed()


def hold(nest: LoopNest, at: str, buffer: str, name: str = "held") -> None:
    """Reads what an iteration of the loops `at` uses of `buffer` once, into registers.

    Compilers take a vector that is used a few times for an operand in memory, and load it at each
    use; languages that can print it keep the array's elements from that. Illegal where such a loop
    writes to the buffer, reads it at more than one place, or reads but one element.
    """
    for part in at.split():
        for loop in nest.loops(part, "hold"):
            target = nest.buffer(buffer, "hold")
            group = [access for access in accesses_in(loop) if access.memref is target]
            loads = [access for access in group if isinstance(access, affine.LoadOp)]
            if len(group) != 1 or len(loads) != 1:
                raise nest.error("hold", f"{part} does not just read {buffer} at one place")
            (load,) = loads
            forms = _forms(nest, "hold", load)
            used = {index for form in forms for index in form.terms}
            inside = [op for op in walk_inside(loop) if isinstance(op, affine.ForOp)]
            tile = [op for op in inside if op is not loop and index_of(op) in used]
            if not tile:
                raise nest.error("hold", f"an iteration of {part} reads one element of {buffer}")
            shape = [extent_of(inner) for inner in tile]
            registers = _register_array(target, shape, name, load)
            registers.attributes[HELD] = UnitAttr()

            def copy_in(
                inside: list[LinearForm],
                outside: list[LinearForm],
                target: SSAValue = target,
                registers: SSAValue = registers.memref,
                load: affine.LoadOp = load,
            ) -> list[Operation]:
                value = make_load(target, outside, load)
                return [value, make_store(value.result, registers, inside, load)]

            first = loop.body.block.first_op
            assert first is not None
            copies = _tile_nest(tile, forms, copy_in)
            loop.body.block.insert_ops_before([registers, *copies], first)
            redirect(load, registers.memref, [index_form(inner) for inner in tile])
    nest.changed()


def is_held(buffer: SSAValue) -> bool:
    """Whether it is an array that `hold` has made."""
    return isinstance(buffer.owner, memref.AllocaOp) and HELD in buffer.owner.attributes


def _tile_of(nest: LoopNest, loop: affine.ForOp, store: affine.StoreOp) -> list[affine.ForOp]:
    """The loops inside that walk through the elements, which the loop itself must not do."""
    used = {index for form in _forms(nest, "accumulate", store) for index in form.terms}
    if index_of(loop) in used:
        raise nest.error(
            "accumulate",
            f"every iteration of {name_of(loop)} updates other elements of "
            f"{nest.name_of_buffer(store.memref)}; accumulate at a loop that is reduced over",
        )
    inside = [inner for inner in walk_inside(loop) if isinstance(inner, affine.ForOp)]
    return [inner for inner in inside if index_of(inner) in used]


def _require_same_elements(
    nest: LoopNest,
    at: str,
    loops: Sequence[affine.ForOp],
    updates: Sequence[tuple[affine.LoadOp, affine.StoreOp]],
    tiles: Sequence[Sequence[affine.ForOp]],
) -> None:
    """Several loops must be neighbours that update the same tile of elements."""
    forms = _forms(nest, "accumulate", updates[0][1])
    for before, loop, update, tile in zip(loops, loops[1:], updates[1:], tiles[1:], strict=False):
        if before.next_op is not loop:
            raise nest.error("accumulate", f"{at} do not follow each other")
        own = {index_of(a): index_form(b) for a, b in zip(tile, tiles[0], strict=False)}
        here = [form.substitute(own) for form in _forms(nest, "accumulate", update[1])]
        is_same = [extent_of(inner) for inner in tile] == [extent_of(inner) for inner in tiles[0]]
        if not is_same or here != forms:
            raise nest.error("accumulate", f"{at} update different elements")


def rfactor(nest: LoopNest, outer: str, inner: str, buffer: str, name: str = "part") -> None:
    """Gives every iteration of a reduction loop `inner` its own partial result.

    The partial results are combined after loop `outer`, which `inner` must be nested in; then
    `inner` is no reduction any more and can be vectorized. Where a tile of elements is reduced
    under `outer`, every iteration of `inner` gets a tile: `part[inner, tile ..]`. Illegal unless
    the update is a sum, product, maximum or minimum of floating-point numbers over both loops.
    """
    for loop in nest.loops(outer, "rfactor"):
        load, store = _update_under(nest, "rfactor", loop, buffer)
        update = reduction_operation([load, store])
        neutral = None if update is None else _neutral(update, load.result.type)
        if update is None or neutral is None:
            raise nest.error("rfactor", f"the update of {buffer} is not an associative reduction")
        inside = [op for op in walk_inside(loop) if isinstance(op, affine.ForOp)]
        lanes = [i for i in inside if name_of(i) == inner]
        if len(lanes) != 1:
            raise nest.error("rfactor", f"{inner} is not one loop inside {outer}")
        forms = _forms(nest, "rfactor", store)
        lane = lanes[0]
        used = {index for form in forms for index in form.terms}
        if index_of(loop) in used or index_of(lane) in used:
            raise nest.error("rfactor", f"{outer} or {inner} is not reduced over")
        tile = [i for i in inside if index_of(i) in used]
        target = nest.buffer(buffer) if buffer in nest.buffers else load.memref
        shape = [extent_of(lane), *(extent_of(i) for i in tile)]
        parts = _register_array(target, shape, name, loop)
        block, following = loop.parent, loop.next_op
        assert block is not None and following is not None

        def cleared(
            inside: list[LinearForm],
            outside: list[LinearForm],
            neutral: arith.ConstantOp = neutral,
            parts: SSAValue = parts.memref,
            store: affine.StoreOp = store,
        ) -> list[Operation]:
            zero = neutral.clone()
            zero.location = store.location
            return [zero, make_store(zero.result, parts, inside, store)]

        def combined(
            inside: list[LinearForm],
            outside: list[LinearForm],
            update: Operation = update,
            parts: SSAValue = parts.memref,
            target: SSAValue = target,
            store: affine.StoreOp = store,
        ) -> list[Operation]:
            total = make_load(target, outside, store)
            part = make_load(parts, inside, store)
            added = update.clone(
                {update.operands[0]: total.result, update.operands[1]: part.result}
            )
            return [total, part, added, make_store(added.results[0], target, outside, store)]

        clear = _tile_nest([lane, *tile], forms, cleared)
        combine = _tile_nest([lane, *tile], forms, combined)
        for nested in combine:
            assert isinstance(nested, affine.ForOp)
            rename(nested, f"{inner}_sum")
        block.insert_ops_before([parts, *clear], loop)
        block.insert_ops_before(combine, following)
        own = [index_form(lane), *(index_form(i) for i in tile)]
        redirect(load, parts.memref, own)
        redirect(store, parts.memref, own)
    nest.changed()


def contract(nest: LoopNest, buffer: str) -> None:
    """Makes a scratch buffer local to the iterations of the loops around all of its accesses.

    Dimensions that every access subscripts with the same enclosing index disappear. The argument
    stays in the kernel's signature, unused. Illegal for other roles, and where an access lies
    outside the loop nest that holds the others.
    """
    if nest.roles.get(buffer) != "scratch":
        raise nest.error("contract", f"{buffer} is not a scratch buffer")
    value = nest.buffer(buffer, "contract")
    accesses = nest.accesses(buffer)
    tops = {nest.top_of(access) for access in accesses}
    if len(tops) != 1:
        raise nest.error("contract", f"{len(tops)} loop nests use {buffer}; merge them first")
    (top,) = tops
    assert isinstance(top, affine.ForOp) and isinstance(value.type, MemRefType)
    forms = [_forms(nest, "contract", access) for access in accesses]
    shared = [
        dimension
        for dimension, form in enumerate(forms[0])
        if form == index_form(top) and all(other[dimension] == form for other in forms)
    ]
    if not shared:
        raise nest.error("contract", f"iterations of {name_of(top)} exchange elements of {buffer}")
    kept = [d for d in range(len(forms[0])) if d not in shared]
    shape = [value.type.get_shape()[d] for d in kept]
    local = _register_array(value, shape, buffer, top)
    first = top.body.block.first_op
    assert first is not None
    top.body.block.insert_op_before(local, first)
    for access, access_forms in zip(accesses, forms, strict=True):
        assert isinstance(access, affine.LoadOp | affine.StoreOp)
        redirect(access, local.memref, [access_forms[d] for d in kept])


def promote_to_vectors(nest: LoopNest) -> None:
    """Register arrays that are only accessed by whole rows become arrays of vectors.

    `memref<14x2x16xf32>` with vectors of 16 becomes `memref<14x2xvector<16xf32>>`: in C an array
    that the compiler keeps in registers.
    """
    for allocation in [op for op in walk_inside(nest.function) if isinstance(op, memref.AllocaOp)]:
        uses = [use.operation for use in allocation.memref.uses]
        vectors = [u for u in uses if isinstance(u, affine.VectorLoadOp | affine.VectorStoreOp)]
        if not uses or len(vectors) != len(uses):
            continue
        types = {
            u.result.type if isinstance(u, affine.VectorLoadOp) else u.value.type for u in vectors
        }
        (vector_type, *others) = types
        *rows, row = allocation.memref.type.get_shape()
        if others or not isinstance(vector_type, VectorType) or vector_type.get_shape() != (row,):
            continue
        array = memref.AllocaOp.get(vector_type, ALIGNMENT_BYTES, rows)
        array.memref.name_hint = allocation.memref.name_hint
        array.location = allocation.location
        if HELD in allocation.attributes:
            array.attributes[HELD] = UnitAttr()
        block = allocation.parent
        assert block is not None
        block.insert_op_before(array, allocation)
        for access in vectors:
            _access_whole_vector(access, array.memref)
        block.erase_op(allocation)


def _access_whole_vector(
    access: affine.VectorLoadOp | affine.VectorStoreOp, array: SSAValue
) -> None:
    forms = linear_subscripts(access)[:-1]
    block = access.parent
    assert block is not None
    if isinstance(access, affine.VectorLoadOp):
        load = make_load(array, forms, access)
        load.result.name_hint = access.result.name_hint
        block.insert_op_before(load, access)
        access.result.replace_all_uses_with(load.result)
    else:
        block.insert_op_before(make_store(access.value, array, forms, access), access)
    block.erase_op(access)


def _update_under(
    nest: LoopNest, step: str, loop: affine.ForOp, buffer: str
) -> tuple[affine.LoadOp, affine.StoreOp]:
    """The one load and the one store of a buffer in a loop, which must touch the same element."""
    if buffer in nest.buffers:
        group = [a for a in accesses_in(loop) if a.memref is nest.buffers[buffer]]
    else:
        group = [a for a in accesses_in(loop) if a.memref.name_hint == buffer]
    loads = [a for a in group if isinstance(a, affine.LoadOp)]
    stores = [a for a in group if isinstance(a, affine.StoreOp)]
    if len(group) != 2 or len(loads) != 1 or len(stores) != 1:
        raise nest.error(
            step,
            f"loop {name_of(loop)} has {len(group)} accesses of {buffer}, not one load and one "
            f"store",
        )
    if _forms(nest, step, loads[0]) != _forms(nest, step, stores[0]):
        raise nest.error(step, f"the load and the store of {buffer} touch different elements")
    return loads[0], stores[0]


def _forms(nest: LoopNest, step: str, access: Operation) -> list[LinearForm]:
    assert isinstance(access, affine.LoadOp | affine.StoreOp)
    try:
        return linear_subscripts(access)
    except ValueError as reason:
        raise nest.error(step, str(reason)) from reason


def _register_array(
    buffer: SSAValue, shape: Sequence[int], name: str, like: Operation
) -> memref.AllocaOp:
    assert isinstance(buffer.type, MemRefType)
    array = memref.AllocaOp.get(buffer.type.element_type, ALIGNMENT_BYTES, list(shape))
    array.memref.name_hint = name
    array.location = like.location
    return array


def _tile_nest(
    tile: Sequence[affine.ForOp],
    forms: Sequence[LinearForm],
    make: Callable[[list[LinearForm], list[LinearForm]], list[Operation]],
) -> list[Operation]:
    """`make`(subscripts in the register array, subscripts in the buffer) for the whole tile."""
    if not tile:
        return make([], list(forms))
    loops = [new_loop(extent_of(loop), name_of(loop), loop) for loop in tile]
    inside = [index_form(loop) for loop in loops]
    renamed = {index_of(old): index_form(new) for old, new in zip(tile, loops, strict=True)}
    return [nest_loops(loops, make(inside, [form.substitute(renamed) for form in forms]))]


def can_rfactor(update: Operation, element_type: Attribute) -> bool:
    """Whether `rfactor` knows what partial results of an update begin with."""
    return _neutral(update, element_type) is not None


def _neutral(update: Operation, element_type: Attribute) -> arith.ConstantOp | None:
    """The constant that an update leaves everything unchanged with."""
    values = {
        arith.AddfOp: 0.0,
        arith.MulfOp: 1.0,
        arith.MaximumfOp: float("-inf"),
        arith.MinimumfOp: float("inf"),
    }
    value = values.get(type(update))
    if value is None or not isinstance(element_type, AnyFloat):
        return None
    return arith.ConstantOp(FloatAttr(value, element_type))
