"""The plain schedule: textbook nests with the cheap improvements that are always legal.

    for n: for c: for i: for j:  y[n,c,i,j] = max(x[n,c,i,j], 0)       layouts NCHW16c
    ->
    parallel n, c_block, i:  for j:  y[n,c_block,i,j,:] = max(x[..], 0)   vectors of 16 channels

In this order: loops through a blocked dimension are split by the block; the loop along which all
accesses are neighbours is put innermost; statements of one kernel over the same rows share their
outer loops (merge) or are fused; reductions keep their sum in a register, one partial sum per lane
where they run along a contiguous dimension (rfactor); copies that turn neighbours into rows get
tiles that are turned in registers (transpose); the innermost contiguous loop is vectorized; the
leading independent loops become tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from xdsl.dialects import affine, arith

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.find_extents import ends_sums
from explorer.kernels.loops.nest import (
    Access,
    AffineAccess,
    LoopNest,
    accesses_in,
    body_of,
    bounds_of,
    element_name,
    enclosing_loops,
    extent_of,
    index_of,
    is_store,
    kind_of,
    name_of,
    perfect_chain,
    shape_of,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.rows import find_row_reduction, is_contiguous, schedule_rows
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.transposes import transpose_tiles
from explorer.kernels.steps.contract import contract
from explorer.kernels.steps.dependences import (
    conflict,
    determined_indices,
    nests_are_independent,
    reduction_operation,
)
from explorer.kernels.steps.dual_products import (
    PRODUCTS,
    dual_products,
    factor_of,
    factors_in,
    pairs_along,
)
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.kernels.steps.registers import accumulate, can_rfactor, rfactor
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.vectorize import can_vectorize, is_same_in_all_lanes, vectorize

ENOUGH_TASKS = 128
"""Leading loops are made parallel until there are so many tasks."""

MAX_UNROLLED = 25
"""Updates of a small window (5x5) that are written out."""

MIN_ROWS = 8
"""Rows that statements must have in common before they share loops: these become the tasks."""

MIN_TASK_OPERATIONS = 2000
"""Operations of a task: claiming one costs about as much as some hundred operations."""

SHARED = 4
"""Results of a sum of products of bytes that are computed together where there are no vectors."""

VECTOR_TYPES = {"f32", "f16", "bf16", "i32", "i8", "ui8"}
"""Element types of kernels that compute in vectors of 32-bit numbers."""

WHY_VECTORS = "innermost contiguous loops, where there are any, run in whole vectors"
WHY_NO_VECTORS = "the target has no vectors"


def schedule_plain(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Any kernel: elementwise, pooling, reductions, copies, explicit nests."""
    pack_arguments(schedule, packs)
    _put_neighbours_inside(schedule)
    has_vectors = choose_vectors(machine, choices)
    rows = find_row_reduction(schedule.nest) if has_vectors else None
    if rows is not None:
        schedule_rows(schedule, machine, rows)
    elif schedule.nest.statements("main"):
        _schedule_reduction(schedule, machine)
    else:
        _merge_rows(schedule, schedule.nest.statements())
    if has_vectors:
        _vectorize_reductions(schedule, machine)
        transpose_tiles(schedule, machine)
        _vectorize_statements(schedule, machine)
    contract_scratch(schedule)
    if machine.optimize == "speed":
        _mark_tasks(schedule, machine)


def choose_vectors(machine: Machine, choices: Choices) -> bool:
    """The choice `vectorize`: not where the machine has no vectors."""
    if not machine.has_vectors:
        return choices.word("vectorize", "no", ("no",), WHY_NO_VECTORS) == "yes"
    return choices.word("vectorize", "yes", ("yes", "no"), WHY_VECTORS) == "yes"


def contract_scratch(schedule: Schedule) -> None:
    """Buffers between statements that were fused are not needed any more."""
    nest = schedule.nest
    for name, value in list(nest.buffers.items()):
        if nest.roles[name] == "scratch" and value.first_use is None:
            schedule.apply(contract, buffer=name)


def finish_statements(schedule: Schedule, machine: Machine) -> None:
    """The same for what a tiled schedule left over: halos and separate epilogues."""
    _put_neighbours_inside(schedule)
    _vectorize_statements(schedule, machine)
    _mark_tasks(schedule, machine)


def pack_arguments(schedule: Schedule, packs: Mapping[str, Pack]) -> None:
    """Applies the given layouts; loops that walk through a divided dimension are split for it.

    The widest blocks come first: what they are split into can be split again for narrower ones.
    """
    present = [item for item in packs.items() if item[0] in schedule.nest.buffers]
    for name, layout in sorted(present, key=lambda item: -_widest(item[1])):
        if is_identity(layout):
            continue
        for dimension, divisor, _ in layout:
            if divisor > 1:
                _split_walkers(schedule, name, dimension, divisor)
        schedule.pack(name, layout)


def _widest(layout: Pack) -> int:
    return max((divisor for _, divisor, _ in layout), default=1)


def _split_walkers(schedule: Schedule, buffer: str, dimension: int, divisor: int) -> None:
    """Splits the loops that subscript `dimension` so that a block is one inner loop.

    Where a loop begins or ends inside of a block, that part becomes a nest of its own.
    """
    nest = schedule.nest
    while walker := _next_walker(nest, buffer, dimension, divisor):
        loop, start = walker
        name, extent = name_of(loop), extent_of(loop)
        chain = [name_of(i) for i in _chain_around(loop)]
        schedule.attempt(reorder, order=" ".join([name, *(i for i in chain if i != name)]))
        if start:
            schedule.apply(cut, loop=name, at=divisor - start, suffix="_next")
        elif extent % divisor:
            schedule.apply(cut, loop=name, at=extent - extent % divisor, suffix="_last")
        else:
            schedule.apply(split, loop=name, into=f"{name}_block {name}_lane", factors=(divisor,))
            chain = [name_of(i) for i in _chain_around(nest.loop(f"{name}_block"))]
            others = [i for i in chain if i != f"{name}_lane"]
            schedule.attempt(reorder, order=" ".join([*others, f"{name}_lane"]))


def _next_walker(
    nest: LoopNest, buffer: str, dimension: int, divisor: int
) -> tuple[affine.ForOp, int] | None:
    """A loop that crosses blocks in steps of one, and where in a block it starts."""
    for access in nest.accesses(buffer):
        form = subscripts(access)[dimension]
        if form is None:
            continue
        for loop in enclosing_loops(access):
            if form.terms.get(index_of(loop)) != 1 or bounds_of(loop) is None:
                continue
            start = form.constant % divisor
            if start + extent_of(loop) > divisor:
                return loop, start
    return None


def _chain_around(loop: affine.ForOp) -> list[affine.ForOp]:
    """The perfect nest that a loop is part of."""
    top = loop
    parent = top.parent_op()
    while isinstance(parent, affine.ForOp) and len(body_of(parent)) == 1:
        top, parent = parent, parent.parent_op()
    return perfect_chain(top)


def _put_neighbours_inside(schedule: Schedule) -> None:
    """In nests that nothing was decided about, the loop along which all accesses are neighbours.

    A block of channels that is all there is isn't split, so that its loop stands outside.
    """
    for top in schedule.nest.statements():
        chain = perfect_chain(top)
        accesses = accesses_in(top)
        if any(bounds_of(loop) is None or kind_of(loop) for loop in chain):
            continue
        if _holds_loop(chain[-1]) or _are_neighbours(chain[-1], accesses):
            continue
        inside = [i for i in chain if extent_of(i) > 1 and _are_neighbours(i, accesses)]
        if len(inside) == 1:
            others = [name_of(loop) for loop in chain if loop is not inside[0]]
            schedule.attempt(reorder, order=" ".join([*others, name_of(inside[0])]))


def _are_neighbours(loop: affine.ForOp, accesses: Sequence[Access]) -> bool:
    """Whether it steps to the next element in memory, or nowhere; in what is stored it steps."""
    for access in accesses:
        forms = list(subscripts(access))
        shape = shape_of(access.memref)
        while forms and shape[len(forms) - 1] == 1:
            forms.pop()
        steps = [None if form is None else form.terms.get(index_of(loop), 0) for form in forms]
        if any(step != 0 for step in steps[:-1]) or (steps and steps[-1] not in (0, 1)):
            return False
        if is_store(access) and not any(steps):
            return False
    return True


def _schedule_reduction(schedule: Schedule, machine: Machine) -> None:
    """init, main, epilogue: the sum in registers, the other statements fused into the main one."""
    nest = schedule.nest
    mains = nest.statements("main")
    if len(mains) != 1:
        return
    if machine.has_dual_products:
        _put_filters_inside(schedule, mains[0])
        if machine.optimize == "speed":
            _share_bytes(schedule, mains[0])
        mains = nest.statements("main")
    stores = [a for a in accesses_in(mains[0]) if is_store(a)]
    chain = perfect_chain(mains[0])
    if len(stores) != 1 or any(bounds_of(loop) is None for loop in chain):
        return
    determined = determined_indices(subscripts(stores[0]))
    reduced = [loop for loop in chain if index_of(loop) not in determined and extent_of(loop) > 1]
    if not reduced or len(reduced) == len(chain):
        return  # register arrays stand inside of an outer loop
    along = _loop_of_dual_products(reduced, chain[-1]) if machine.has_dual_products else None
    if along is not None:
        reduced = [*(loop for loop in reduced if loop is not along), along]
    first = min(chain.index(loop) for loop in reduced)
    after = chain if along is not None else chain[first:]
    lanes = [loop for loop in after if loop not in reduced]
    kept_inside = [loop for loop in lanes if name_of(loop).endswith("_lane")]
    order = [loop for loop in chain if loop not in reduced and loop not in kept_inside]
    names = " ".join(name_of(loop) for loop in [*order, *reduced, *kept_inside])
    buffer = nest.name_of_buffer(stores[0].memref)
    if schedule.attempt(reorder, order=names):
        return
    if schedule.attempt(accumulate, at=name_of(reduced[0]), buffer=buffer):
        return
    if (
        machine.has_vectors
        and kept_inside
        and prod(extent_of(loop) for loop in reduced) <= MAX_UNROLLED
        and not ends_sums(nest.function)
    ):
        schedule.apply(unroll, loops=" ".join(name_of(loop) for loop in reduced))
    if nest.statements("init"):
        schedule.attempt(fuse_producer, statement="init", buffer=buffer)
    if nest.statements("epilogue"):
        schedule.attempt(fuse_consumer, statement="epilogue", buffer=buffer)
    if along is not None:
        name = name_of(along)
        into = f"{name}_step {name}_four"
        schedule.apply(split, loop=name, into=into, factors=(PRODUCTS,))
        if kept_inside:
            lane_names = [name_of(loop) for loop in kept_inside]
            inner = " ".join([f"{name}_step", *lane_names, f"{name}_four"])
            schedule.apply(reorder, order=inner)
            schedule.apply(unroll, loops=" ".join(lane_names))
        schedule.apply(dual_products, loop=f"{name}_four")


def _put_filters_inside(schedule: Schedule, main: affine.ForOp) -> None:
    """Filters of a sum of products of bytes get the longest reduced dimension innermost, where no
    other one is there: `[o, c, p, q]` becomes `[o, p, q, c]`."""
    chain = perfect_chain(main)
    factors = factors_in(chain[-1])
    if factors is None or any(factor_of(factor) is None for factor in factors):
        return
    if any(pairs_along(i, f) for f in factors for i in chain if extent_of(i) % PRODUCTS == 0):
        return
    nest = schedule.nest
    found: list[tuple[int, str, int, int]] = []
    for load, extension, zero in filter(None, map(factor_of, factors)):
        name = nest.name_of_buffer(load.memref)
        if nest.roles.get(name) != "weight" or extension is not arith.ExtSIOp or zero:
            continue
        forms = subscripts(load)
        found += [
            (extent_of(loop), name, place, len(forms))
            for loop in chain
            for place, form in enumerate(forms)
            if extent_of(loop) % PRODUCTS == 0
            and form is not None
            and form.terms == {index_of(loop): 1}
            and not _stores_along(main, loop)
        ]
    if found:
        _, name, inner, rank = max(found)
        order = [*(place for place in range(rank) if place != inner), inner]
        schedule.pack(name, [(place, 1, None) for place in order])


def _stores_along(main: affine.ForOp, loop: affine.ForOp) -> bool:
    """Whether what is written depends on a loop, which is not a reduced one then."""
    stores = [a for a in accesses_in(main) if is_store(a)]
    return any(f is None or index_of(loop) in f.terms for a in stores for f in subscripts(a))


def _share_bytes(schedule: Schedule, main: affine.ForOp) -> None:
    """Two results that read the same bytes are summed up together: their loop is split."""
    factors = factors_in(perfect_chain(main)[-1])
    found = [factor_of(factor) for factor in factors or ()]
    loads = [factor[0] for factor in found if factor is not None]
    if len(loads) != 2:
        return
    for loop in perfect_chain(main):
        reads = [any(index_of(loop) in f.terms for f in subscripts(a) if f) for a in loads]
        name = name_of(loop)
        if sum(reads) == 1 and extent_of(loop) % SHARED == 0 and extent_of(loop) > SHARED:
            into = f"{name}_pair {name}_lane"
            schedule.attempt(split, loop=name, into=into, factors=(SHARED,))
            return


def _loop_of_dual_products(
    reduced: Sequence[affine.ForOp], innermost: affine.ForOp
) -> affine.ForOp | None:
    """The longest loop of a sum of products of bytes along which one factor's are neighbours."""
    factors = factors_in(innermost)
    if factors is None or any(factor_of(factor) is None for factor in factors):
        return None
    found = [
        loop
        for loop in reduced
        if extent_of(loop) % PRODUCTS == 0 and any(pairs_along(loop, f) for f in factors)
    ]
    return max(found, key=extent_of, default=None)


def _merge_rows(schedule: Schedule, loops: list[affine.ForOp]) -> None:
    """Merges neighbouring loops over the same rows, from the outermost inwards."""
    related = [
        any(other is not loop and not nests_are_independent(loop, other) for other in loops)
        for loop in loops
    ]
    merged: list[affine.ForOp] = []
    for loop, is_related in zip(loops, related, strict=True):
        if merged and is_related and _can_share(merged[-1], loop):
            names = f"{name_of(merged[-1])} {name_of(loop)}"
            if not schedule.attempt(merge, loops=names):
                continue
        merged.append(loop)
    for loop in merged:
        inside = [op for op in body_of(loop) if isinstance(op, affine.ForOp)]
        if len(inside) == len(body_of(loop)) > 1:
            _merge_rows(schedule, inside)


def _can_share(first: affine.ForOp, second: affine.ForOp) -> bool:
    """Both run over independent rows, not both innermost (those are vectorized one by one)."""
    if bounds_of(first) is None or bounds_of(first) != bounds_of(second):
        return False
    if not (_holds_loop(first) or _holds_loop(second)):
        return False
    if (
        _shared_rows(first, second) < MIN_ROWS
        and _work(first) + _work(second) > MIN_TASK_OPERATIONS
    ):
        return False  # merging would leave too few tasks
    return conflict(first) is None and conflict(second) is None


def _shared_rows(first: affine.ForOp, second: affine.ForOp) -> int:
    """Iterations of the outer loops that two nests, and the loops around them, can share."""
    rows = prod(extent_of(loop) for loop in enclosing_loops(first) if bounds_of(loop) is not None)
    for a, b in zip(_first_chain(first), _first_chain(second), strict=False):
        if bounds_of(a) is None or bounds_of(a) != bounds_of(b):
            break
        rows *= extent_of(a)
    return rows


def _first_chain(loop: affine.ForOp) -> list[affine.ForOp]:
    """A loop and the first loops inside, as far as they lead."""
    chain = [loop]
    while inner := [op for op in body_of(chain[-1]) if isinstance(op, affine.ForOp)]:
        chain.append(inner[0])
    return chain


def _holds_loop(loop: affine.ForOp) -> bool:
    return any(isinstance(op, affine.ForOp) for op in body_of(loop))


def _innermost_loops(nest: LoopNest) -> Iterator[affine.ForOp]:
    for loops in list(nest.index.values()):
        yield from (loop for loop in loops if not _holds_loop(loop))


def _vectorize_reductions(schedule: Schedule, machine: Machine) -> None:
    """Sums and maxima along a contiguous dimension: one partial result per lane."""
    nest = schedule.nest
    lanes = machine.vector_floats
    for loop in list(_innermost_loops(nest)):
        name = name_of(loop)
        accesses = accesses_in(loop)
        stores = [a for a in accesses if isinstance(a, affine.StoreOp)]
        if len(stores) != 1 or bounds_of(loop) is None or extent_of(loop) < 2 * lanes:
            continue
        group = [a for a in accesses if a.memref is stores[0].memref]
        along = [a for a in accesses if a not in group]
        update = reduction_operation(group)
        if update is None or not can_rfactor(update, stores[0].value.type):
            continue
        if index_of(loop) in stores[0].indices:
            continue
        if not _is_vectorizable(nest, loop) or not is_contiguous(loop, along):
            continue
        if len(nest.loops(name)) != 1 or not nest.name_of_buffer(stores[0].memref):
            continue
        left = extent_of(loop) % lanes
        if left:
            schedule.apply(cut, loop=name, at=extent_of(loop) - left)
        buffer = nest.name_of_buffer(stores[0].memref)
        schedule.apply(split, loop=name, into=f"{name}_step {name}_lane", factors=(lanes,))
        schedule.apply(rfactor, outer=f"{name}_step", inner=f"{name}_lane", buffer=buffer)
        schedule.apply(vectorize, loop=f"{name}_lane")
        schedule.apply(vectorize, loop=f"{name}_lane_sum")


def _vectorize_statements(schedule: Schedule, machine: Machine) -> None:
    """The innermost contiguous loop of every statement, cut to a multiple of the vector."""
    nest = schedule.nest
    lanes = machine.vector_floats
    for name in dict.fromkeys(name_of(loop) for loop in _innermost_loops(nest)):
        loops = nest.loops(name)
        if any(bounds_of(loop) is None or kind_of(loop) for loop in loops):
            continue
        if not all(
            _is_vectorizable(nest, loop) and is_contiguous(loop, accesses_in(loop))
            for loop in loops
        ):
            continue
        if any(conflict(loop) is not None for loop in loops) or not _computes(loops):
            continue
        extent = extent_of(loops[0])
        is_outermost = any(not enclosing_loops(loop) for loop in loops)
        if extent == lanes and not is_outermost:
            schedule.apply(vectorize, loop=name)
        elif extent >= lanes:
            if extent % lanes:
                schedule.apply(cut, loop=name, at=extent - extent % lanes)
            schedule.apply(split, loop=name, into=f"{name}_step {name}_vector", factors=(lanes,))
            schedule.apply(vectorize, loop=f"{name}_vector")


def _is_vectorizable(nest: LoopNest, loop: affine.ForOp) -> bool:
    operations = [op for op in body_of(loop) if not is_same_in_all_lanes(op, loop)]
    types = {element_name(a.memref) for a in accesses_in(loop) if a in operations}
    return types <= VECTOR_TYPES and all(can_vectorize(op) for op in operations)


def _computes(loops: Sequence[affine.ForOp]) -> bool:
    """Whether floats or sums are made there: the compiler of C copies bytes in wider vectors."""
    operations = [op for loop in loops for op in body_of(loop)]
    moves = AffineAccess | arith.ConstantOp | arith.BitcastOp
    is_float = any(element_name(a.memref) == "f32" for loop in loops for a in accesses_in(loop))
    return is_float or any(not isinstance(op, moves) for op in operations)


def _mark_tasks(schedule: Schedule, machine: Machine) -> None:
    """Marks the leading independent loops of every nest that has no tasks yet.

    A processor gets enough tasks for its cores; a GPU's work-items are as many as there can be.
    """
    nest = schedule.nest
    for top in nest.statements():
        if kind_of(top) == "parallel":
            continue
        if machine.processor == "gpu":
            _mark_all(schedule, top)
            continue
        top = _lengthen_tasks(schedule, top)
        work, tasks = _work(top), 1
        for loop in perfect_chain(top):
            if bounds_of(loop) is None or tasks >= ENOUGH_TASKS:
                break
            tasks *= extent_of(loop)
            if tasks > 1 and work // tasks < MIN_TASK_OPERATIONS:
                break
            if schedule.attempt(parallel, loops=name_of(loop)):
                break


def _mark_all(schedule: Schedule, top: affine.ForOp) -> None:
    for loop in perfect_chain(top):
        if bounds_of(loop) is None or schedule.attempt(parallel, loops=name_of(loop)):
            return


def _lengthen_tasks(schedule: Schedule, top: affine.ForOp) -> affine.ForOp:
    """A long loop over little work is split, so that a task is worth claiming."""
    if bounds_of(top) is None or conflict(top) is not None:
        return top
    extent, work = extent_of(top), _work(top)
    if extent <= ENOUGH_TASKS and work // extent >= MIN_TASK_OPERATIONS:
        return top
    most = min(2 * ENOUGH_TASKS, work // MIN_TASK_OPERATIONS)
    counts = [d for d in range(2, min(most, extent - 1) + 1) if extent % d == 0]
    if not counts or (extent <= 2 * ENOUGH_TASKS and work // extent >= MIN_TASK_OPERATIONS):
        return top
    name = name_of(top)
    factor = extent // counts[-1]
    if schedule.attempt(split, loop=name, into=f"{name}_task {name}_part", factors=(factor,)):
        return top
    return schedule.nest.loop(f"{name}_task")


def _work(top: affine.ForOp) -> int:
    """Operations that a nest executes."""
    total = 0
    for operation in walk_inside(top):
        if not isinstance(operation, affine.ForOp | affine.YieldOp):
            around = [i for i in enclosing_loops(operation) if bounds_of(i) is not None]
            total += prod(extent_of(loop) for loop in around)
    return total
