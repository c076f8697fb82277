"""Steps for devices with work-groups (OpenCL on GPUs): group, items, stage, tree, single.

    for k: acc += x[m, k] * w[k, n]
    ->
    parallel mt, nt:                            one work-group per tile
        for kt:
            for x_0, x_1 {item}: x_tile[x_0, x_1] = x[...]     local memory, filled by all items
            for mi, ni {item}: for kk: acc[mi, ni] += x_tile[mi, kk] * w_tile[kk, ni]

A loop of the kind "item" is divided among the work-items of a group. Loops that follow each other
run one after the other for *all* their iterations: that is what a barrier between them does on the
device, so that a nest means the same as plain loops (generated C runs it) and barriers need not be
written down; the printer puts one where two neighbours touch the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, VectorType, f16, i64
from xdsl.ir import Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    body_of,
    element_name,
    enclosing_loops,
    extent_of,
    index_form,
    index_of,
    is_access,
    is_store,
    kind_of,
    linear_subscripts,
    make_load,
    make_store,
    name_of,
    nest_loops,
    new_loop,
    perfect_chain,
    redirect,
    set_upper_bound,
    subscripts,
)
from explorer.kernels.loops.scalar_types import scalar_type
from explorer.kernels.steps.dependences import (
    boxes_are_disjoint,
    conflict,
    determined_indices,
    reduction_operation,
    written_outside,
)

ITEM = "item"
GROUP = "kernel.work_group"
MAX_PADDED = 16
ROUNDS = "loop.rounds"
"""On arrays of items: there may be more elements than items, which take turns (`pipeline`)."""

LOCAL_ALIGNMENT_BYTES = 16
"""What a load of four floats needs."""

LOCAL_BYTES = 32 * 1024
"""Local memory that every GPU of today has; the least that OpenCL 1.2's full profile asks for."""


def group(nest: LoopNest, items: int) -> None:
    """Tasks are work-groups of so many work-items, or are executed by work-items of such groups."""
    if not 1 <= items <= 1024:
        raise nest.error("group", f"a work-group of {items} items; 1 to 1024 are legal")
    nest.function.attributes[GROUP] = IntegerAttr(items, i64)


def items(nest: LoopNest, loops: str) -> None:
    """Divides the iterations of loops among the work-items of a group.

    Illegal for loops whose iterations depend on one another, and for loops inside of a sequential
    one that items already run.
    """
    for name in loops.split():
        for loop in nest.loops(name, "items"):
            culprit = conflict(loop) if extent_of(loop) > 1 else None
            if culprit is not None and not _determines(loop):
                raise nest.error(
                    "items",
                    f"iterations of {name} touch the same elements of "
                    f"{nest.name_of_buffer(culprit)}",
                )
            kinds = [kind_of(outer) for outer in enclosing_loops(loop)]
            if ITEM in kinds and kinds[-1] != ITEM:
                raise nest.error("items", f"{name} lies inside of what a work-item runs")
            loop.attributes["loop.kind"] = StringAttr(ITEM)


def _determines(loop: affine.ForOp) -> bool:
    """Whether the element that an iteration writes tells which iteration it is.

    So it is for digits of a mixed radix that other digits follow: `16 jt + 4 jp + lane`. Other
    elements may be read where no iteration writes: the other half, `part[i + 8]`.
    """
    for touched in written_outside(loop):
        stores = [access for access in touched if is_store(access)]
        own = subscripts(stores[0])
        if index_of(loop) not in determined_indices(own):
            return False
        for access in touched:
            elsewhere = all(boxes_are_disjoint(access, store) for store in stores)
            if subscripts(access) != own and not (elsewhere and not is_store(access)):
                return False
    return True


def stage(
    nest: LoopNest,
    buffer: str,
    at: str,
    order: Sequence[int] = (),
    name: str = "",
    element: str = "",
    pad: int = 0,
) -> None:
    """Copies what loop `at` reads of `buffer` into local memory at the begin of each iteration.

    The copy is a nest of its own, with loops `NAME_0`, `NAME_1` .. over the dimensions of the
    part that is read, in the buffer's order (`NAME`: the buffer's, if none is given). `order` lists
    these numbers as the local tile shall have them (default: as they are). `element` "f16" rounds
    a float32 buffer's numbers to halves on their way into the tile. `pad` elements stay free behind
    each row, so that columns of it lie in different banks of the memory. Illegal where the loop
    writes the buffer or reads it in two ways.
    """
    value = nest.buffer(buffer, "stage")
    if element not in ("", "f16") or (element and element_name(value) not in ("f32", "f16")):
        raise nest.error("stage", f"a tile of {element or 'no type'} for {element_name(value)}")
    if not 0 <= pad <= MAX_PADDED:
        raise nest.error("stage", f"{pad} elements behind a row; 0 to {MAX_PADDED} are legal")
    for loop in nest.loops(at, "stage"):
        group_of = [a for a in accesses_in(loop) if a.memref is value]
        loads = [a for a in group_of if isinstance(a, affine.LoadOp)]
        if len(group_of) != 1 or len(loads) != 1:
            raise nest.error(
                "stage", f"{at} has {len(group_of)} accesses of {buffer}, not a single load"
            )
        _stage_load(nest, buffer, loop, loads[0], order, name or buffer, element, pad)
    nest.changed()


def _stage_load(
    nest: LoopNest,
    buffer: str,
    at: affine.ForOp,
    load: affine.LoadOp,
    order: Sequence[int],
    name: str,
    element: str,
    pad: int,
) -> None:
    value = nest.buffer(buffer)
    try:
        forms = linear_subscripts(load)
    except ValueError as reason:
        raise nest.error("stage", str(reason)) from reason
    around = enclosing_loops(load)
    inside = {index_of(loop) for loop in around[around.index(at) + 1 :]}
    starts: list[LinearForm] = []
    local: list[tuple[LinearForm, int, int, int]] = []
    for dimension, form in enumerate(forms):
        moving = {i: c for i, c in form.terms.items() if i in inside}
        starts.append(
            LinearForm({i: c for i, c in form.terms.items() if i not in inside}, form.constant)
        )
        if not moving:
            continue
        step = gcd(*moving.values())
        if any(c < 0 for c in moving.values()):
            raise nest.error("stage", f"{buffer} is read backwards")
        own = LinearForm({i: c // step for i, c in moving.items()})
        reach = own.range()
        assert reach is not None, "the loops inside have constant bounds"
        local.append((own, reach[1] + 1, dimension, step))
    if not local:
        raise nest.error("stage", f"{at} reads one element of {buffer}")
    numbers = list(order) or list(range(len(local)))
    if sorted(numbers) != list(range(len(local))):
        raise nest.error("stage", f"the tile of {buffer} has {len(local)} dimensions")
    shape = [local[number][1] for number in numbers]
    shape[-1] += pad
    assert isinstance(value.type, MemRefType)
    is_narrow = bool(element) and element_name(value) != element
    tile_type = f16 if is_narrow else value.type.element_type
    tile = memref.AllocaOp.get(tile_type, LOCAL_ALIGNMENT_BYTES, shape)
    tile.memref.name_hint = f"{buffer}_tile"
    tile.location = load.location
    loops = [
        new_loop(extent, f"{name}_{number}", load) for number, (_, extent, _, _) in enumerate(local)
    ]
    source = list(starts)
    for loop, (_, _, dimension, step) in zip(loops, local, strict=True):
        source[dimension] = source[dimension] + index_form(loop).scaled(step)
    copied = make_load(value, source, load)
    target = [index_form(loops[number]) for number in numbers]
    rounded = [arith.TruncFOp(copied.result, f16)] if is_narrow else []
    for op in rounded:
        op.location = load.location
    last = rounded[0].result if rounded else copied.result
    copy = nest_loops(loops, [copied, *rounded, make_store(last, tile.memref, target, load)])
    first = at.body.block.first_op
    assert first is not None
    at.body.block.insert_ops_before([tile, copy], first)
    own = [local[number][0] for number in numbers]
    if is_narrow:
        _load_wider(load, tile.memref, own)
    else:
        redirect(load, tile.memref, own)


def _load_wider(load: affine.LoadOp, tile: SSAValue, forms: Sequence[LinearForm]) -> None:
    """A load of a narrower tile, converted, in the place of a load."""
    narrow = make_load(tile, forms, load)
    wide = arith.ExtFOp(narrow.result, load.result.type)
    wide.location = load.location
    block = load.parent
    assert block is not None
    block.insert_ops_before([narrow, wide], load)
    load.result.replace_all_uses_with(wide.result)
    block.erase_op(load)


def tree(nest: LoopNest, loop: str) -> None:
    """Combines partial results pairwise: half of the items add what the other half has, and so on.

    `loop` is what `rfactor` leaves: `for i: y = y + part[i]`, maybe with loops over a tile inside.
    Its extent must be a power of two. Afterwards loops `LOOP_64`, `LOOP_32` .. fold the array, and
    `LOOP_last` updates y once.
    """
    for combine in nest.loops(loop, "tree"):
        extent = extent_of(combine)
        if extent < 2 or extent & (extent - 1):
            raise nest.error("tree", f"{loop} has {extent} iterations, not a power of two")
        stores = [a for a in accesses_in(combine) if is_store(a)]
        parts = [
            a for a in accesses_in(combine) if not is_store(a) and a.memref is not stores[0].memref
        ]
        group_of = [a for a in accesses_in(combine) if a.memref is stores[0].memref]
        update = reduction_operation(group_of)
        if len(stores) != 1 or len(parts) != 1 or update is None:
            raise nest.error("tree", f"{loop} does not combine partial results")
        part = parts[0]
        assert isinstance(part, affine.LoadOp) and part.result in update.operands
        tile = perfect_chain(combine)[1:]
        if linear_subscripts(part) != [index_form(inner) for inner in (combine, *tile)]:
            raise nest.error("tree", f"{loop} does not walk through the partial results")
        block = combine.parent
        assert block is not None
        width = extent // 2
        while width:
            inner = [new_loop(extent_of(old), name_of(old), combine) for old in tile]
            level = [new_loop(width, f"{loop}_{width}", combine), *inner]
            here = [index_form(own) for own in level]
            mine = make_load(part.memref, here, part)
            there = [here[0] + LinearForm({}, width), *here[1:]]
            other = make_load(part.memref, there, part)
            folded = update.clone(
                {update.operands[0]: mine.result, update.operands[1]: other.result}
            )
            folding = [mine, other, folded, make_store(folded.results[0], part.memref, here, part)]
            block.insert_op_before(nest_loops(level, folding), combine)
            width //= 2
        combine.attributes["loop.name"] = StringAttr(f"{loop}_last")
        index_of(combine).name_hint = f"{loop}_last"
        redirect(part, part.memref, [LinearForm(), *(index_form(inner) for inner in tile)])
        set_upper_bound(combine, 1)
    nest.changed()


def single(nest: LoopNest, within: str, name: str) -> None:
    """Puts what stands between the loops directly inside `within` into loops of one iteration.

    Work that is not in a loop would be done by every work-item. The loops are called `NAME`,
    `NAME_2` and so on.
    """
    number = 0
    for outer in nest.loops(within, "single"):
        run: list[Operation] = []
        for op in [*body_of(outer), None]:
            if op is not None and not isinstance(op, affine.ForOp | memref.AllocaOp):
                run.append(op)
                continue
            if any(is_store(o) for o in run):
                _require_local_values(nest, run)
                number += 1
                loop = new_loop(1, name if number == 1 else f"{name}_{number}", run[0])
                block = outer.body.block
                block.insert_op_before(loop, run[0])
                for moved in run:
                    moved.detach()
                first = loop.body.block.last_op
                assert first is not None
                loop.body.block.insert_ops_before(run, first)
            run = []
    nest.changed()


def _require_local_values(nest: LoopNest, run: Sequence[Operation]) -> None:
    """What the operations compute must not be used outside of them."""
    for op in run:
        for result in op.results:
            if any(use.operation not in run for use in result.uses):
                raise nest.error("single", f"{op.name} is used by a loop that follows")


def local_bytes(nest: LoopNest) -> int:
    """Bytes of local memory that a group takes at most: nests are launched one by one."""
    found = 0
    for top in nest.statements():
        arrays = [op for op in walk_inside(top) if isinstance(op, memref.AllocaOp)]
        found = max(found, sum(_size(array) for array in arrays if own_dimensions(array) < 0))
    return found


def _size(array: memref.AllocaOp) -> int:
    """Bytes of an array of numbers or vectors of them."""
    kind = array.memref.type
    lanes = prod(kind.element_type.get_shape()) if isinstance(kind.element_type, VectorType) else 1
    return scalar_type(kind.element_type).size_bytes * prod(kind.get_shape()) * lanes


def item_chain(loop: affine.ForOp) -> list[affine.ForOp]:
    """A loop over items and those that it holds directly: together they number the items."""
    chain = [loop]
    while True:
        body = body_of(chain[-1])
        if len(body) != 1 or not isinstance(body[0], affine.ForOp) or kind_of(body[0]) != ITEM:
            return chain
        chain.append(body[0])


def items_around(operation: Operation) -> list[affine.ForOp]:
    """The item loops around an operation, the outermost first."""
    return [loop for loop in enclosing_loops(operation) if kind_of(loop) == ITEM]


def own_dimensions(array: memref.AllocaOp) -> int:
    """How many leading dimensions of an array are the work-item's own number; -1: it is shared.

    An array that every access subscripts with the item loops around it, in their order and with
    the same extents, is a separate one for each item: those dimensions need no memory.
    """
    accesses = [use.operation for use in array.memref.uses]
    if items_around(array):
        return 0
    extents: tuple[int, ...] | None = None
    for access in accesses:
        assert is_access(access)
        loops = items_around(access)
        here = tuple(extent_of(loop) for loop in loops)
        if not loops or (extents is not None and here != extents):
            return -1
        extents = here
        try:
            forms = linear_subscripts(access)
        except ValueError:
            return -1
        if forms[: len(loops)] != [index_form(loop) for loop in loops]:
            return -1
    return len(extents or ())


def in_rounds(array: memref.AllocaOp) -> bool:
    """Whether an item may keep several elements of an array of items: one for each of its turns."""
    return ROUNDS in array.attributes


def has_items(operation: Operation) -> bool:
    """Whether a nest divides loops among work-items."""
    return any(
        isinstance(op, affine.ForOp) and kind_of(op) == ITEM for op in walk_inside(operation)
    )


def group_items(function: Operation) -> int:
    """Work-items per group of a kernel; 0 where the runtime decides."""
    found = function.attributes.get(GROUP)
    return found.value.data if isinstance(found, IntegerAttr) else 0


def items_of_nest(top: Operation, otherwise: int) -> int:
    """Work-items of a group that runs a nest: as many as keep sums in registers.

    Where none do, any number serves: `otherwise`. A group of just that size leaves no item out.
    """
    sizes = [0]
    for op in walk_inside(top):
        if isinstance(op, memref.AllocaOp) and not in_rounds(op) and own_dimensions(op) > 0:
            extents = op.memref.type.get_shape()[: own_dimensions(op)]
            sizes.append(prod(extents))
    return max(sizes) or otherwise
