"""Register tiles that a call fills in part: smaller bodies of the same nest.

    float16 acc[14];                                const long left = size - mt * 14;
    for (mp = 0; mp < 14; mp++) acc[mp] = 0         if (left <= 4) { mp < 4 .. }
    ...                                       =>    else if (left <= 7) { mp < 7 .. }
    for (mp = 0; mp < 14; mp++) y[.. mp] = ..       else { mp < 14 .. }

A loop over tiles that ends with the same size runs in two parts: whole tiles, which need no test,
and the last one. Unrolled loops keep constant bounds, as registers ask for. A *tail* is the
unrolled loops of one block over the same elements of a result: what stores them, and what fills
the register arrays that those read. It is found on scheduled kernels with extents
(`find_extents.py`), and printed where a language takes it: a decision of the schedule says nothing
of it, and no number changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import affine, arith, func, memref
from xdsl.ir import Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.clipping import Clip, clip_of
from explorer.kernels.loops.find_extents import Extent, extents_of_kernel
from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    accesses_in,
    bounds_of,
    index_of,
    is_store,
    kind_of,
    subscripts,
)

MAX_BODIES = 9
"""Bodies of one block; more text is slower to compile than smaller tiles are worth."""
STEPS = (1, 2, 4, 8, 16)
"""By how many iterations bodies differ, so that there are not too many of them."""


@dataclass(frozen=True)
class Tail:
    """Unrolled loops that may end at (times * size - minus) / per - base."""

    loops: tuple[affine.ForOp, ...]
    iterations: int
    base: LinearForm
    extent: Extent

    @property
    def may_be_empty(self) -> bool:
        """Whether a call may need nothing of the loops."""
        return self.base.constant > 0

    @property
    def tiles(self) -> SSAValue | None:
        """The index of the loop over tiles of which all but the last one are whole."""
        indices = tuple(self.base.terms)
        is_tiled = self.base == LinearForm(dict.fromkeys(indices, self.iterations))
        return indices[0] if is_tiled and len(indices) == 1 else None

    def steps(self, is_one: bool) -> tuple[int, ...]:
        """Numbers of iterations of the bodies, the largest last; `is_one`: of the only tail."""
        whole = self.iterations
        if whole == 1:
            return (1,)
        if not is_one:
            return tuple(sorted({-(-whole // 4), -(-whole // 2), whole}))
        step = next((step for step in STEPS if whole <= step * MAX_BODIES - step), STEPS[-1])
        return (*{1: None, **dict.fromkeys(range(step, whole, step))}, whole)


@dataclass(frozen=True)
class TailBody:
    """One body of a block: iterations by loop, and the limits up to which it is enough."""

    iterations: tuple[tuple[affine.ForOp, int], ...]
    limits: tuple[int | None, ...]
    """By tail; None: any number."""


def segments_of(operations: Sequence[Operation]) -> tuple[tuple[Operation, ...], ...]:
    """The parts of a block, in order, each of which has register arrays and values of its own."""
    places = {op: place for place, op in enumerate(operations)}
    ends = list(range(len(operations)))
    for place, op in enumerate(operations):
        for result in op.results:
            if isinstance(op, arith.ConstantOp):
                continue  # written where it is used
            for use in result.uses:
                user = use.operation
                while user is not None and user not in places:
                    user = user.parent_op()
                if user is not None:
                    ends[place] = max(ends[place], places[user])
    found: list[tuple[Operation, ...]] = []
    start, reach = 0, -1
    for place, op in enumerate(operations):
        if place > start and isinstance(op, memref.AllocaOp) and reach < place:
            found.append(tuple(operations[start:place]))
            start = place
        reach = max(reach, ends[place])
    return (*found, tuple(operations[start:]))


def has_extents(operations: Sequence[Operation]) -> bool:
    """Whether the kernel of a block ends with sizes of a call."""
    kernel = _kernel_of(operations[0]) if operations else None
    return kernel is not None and any(any(entry) for entry in extents_of_kernel(kernel))


def tails_of_block(operations: Sequence[Operation]) -> tuple[Tail, ...]:
    """The tails of a block that holds register arrays."""
    arrays = [op.memref for op in operations if isinstance(op, memref.AllocaOp)]
    kernel = _kernel_of(operations[0]) if arrays else None
    if kernel is None:
        return ()
    extents = extents_of_kernel(kernel)
    known: dict[SSAValue, list[Extent | None]] = dict(
        zip(kernel.body.block.args, extents, strict=False)
    )
    inside = [access for op in operations for access in accesses_in(op)]
    stores = [a for a in inside if is_store(a) and not isinstance(a.memref.owner, memref.AllocaOp)]
    loops = [
        loop
        for op in operations
        for loop in walk_inside(op)
        if isinstance(loop, affine.ForOp) and kind_of(loop) == "unroll"
    ]
    own = {index_of(loop): loop for op in operations for loop in _loops_in(op)}
    found: list[Tail] = []
    for loop in loops:
        if any(loop in tail.loops for tail in found):
            continue
        tail = _tail(loop, stores, inside, own, known)
        if tail is not None:
            found.append(tail)
    return tuple(sorted(found, key=lambda tail: -tail.iterations)[:2])


def tiles_of_loop(loop: affine.ForOp) -> Tail | None:
    """A tail inside a loop over tiles that ends where the tail does."""
    clip = clip_of(loop)
    if clip is None or kind_of(loop) == "unroll" or loop.step.value.data != 1:
        return None
    for inner in (loop, *_loops_in(loop)):
        for segment in segments_of(tuple(inner.body.block.ops)):
            for tail in tails_of_block(segment):
                own = tail.extent
                end = Clip(own.times, own.minus, tail.iterations * own.per, own.argument)
                if tail.tiles is index_of(loop) and clip == end:
                    return tail
    return None


def bodies_of(
    tails: Sequence[Tail], filled: Mapping[SSAValue, bool] | None = None
) -> tuple[TailBody, ...]:
    """The bodies of a block, from the smallest to the whole.

    filled: by the index of a loop over tiles, whether the tiles that it goes through are whole.
    """
    steps = [tail.steps(len(tails) == 1) for tail in tails]
    while len(list(product(*steps))) > MAX_BODIES:
        longest = max(range(len(steps)), key=lambda at: len(steps[at]))
        steps[longest] = steps[longest][1:]
    found: list[TailBody] = []
    for chosen in product(*steps):
        iterations = tuple(
            (loop, number)
            for tail, number in zip(tails, chosen, strict=True)
            for loop in tail.loops
        )
        limits = tuple(
            None if number == tail.iterations else number
            for tail, number in zip(tails, chosen, strict=True)
        )
        found.append(TailBody(iterations, limits))
    for place, tail in enumerate(tails):
        is_whole = (filled or {}).get(tail.tiles) if tail.tiles is not None else None
        if is_whole:
            found = [body for body in found if body.limits[place] is None]
        elif is_whole is False and any(b.limits[place] == tail.iterations - 1 for b in found):
            found = [body for body in found if body.limits[place] is not None]
    return tuple(found)


def _kernel_of(operation: Operation) -> func.FuncOp | None:
    parent = operation.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    return parent


def _loops_in(operation: Operation) -> Iterable[affine.ForOp]:
    return (op for op in walk_inside(operation) if isinstance(op, affine.ForOp))


def _tail(
    loop: affine.ForOp,
    stores: Sequence[Access],
    inside: Sequence[Access],
    own: dict[SSAValue, affine.ForOp],
    extents: dict[SSAValue, list[Extent | None]],
) -> Tail | None:
    """The tail that begins at an unrolled loop around a store to a result."""
    index, bounds = index_of(loop), bounds_of(loop)
    if bounds is None or bounds[0] or bounds[1] < 1:
        return None
    seen: set[tuple[tuple[tuple[SSAValue, int], ...], int, Extent]] = set()
    members: set[SSAValue] = set()
    first = next((s for s in stores if any(f and index in f.terms for f in subscripts(s))), None)
    if first is None:
        return None
    for store in stores:
        found = _end_of(store, bounds[1], own, extents, index if store is first else None)
        if found is None:
            return None
        member, base, extent = found
        members.add(member)
        seen.add((tuple(base.terms.items()), base.constant, extent))
    if len(seen) != 1:
        return None
    ((terms, constant, extent),) = seen
    loops = _family(members, bounds[1], inside, own)
    if loops is None or (bounds[1] == 1 and not constant):
        return None
    return Tail(loops, bounds[1], LinearForm(dict(terms), constant), extent)


def _end_of(
    store: Access,
    iterations: int,
    own: dict[SSAValue, affine.ForOp],
    extents: dict[SSAValue, list[Extent | None]],
    wanted: SSAValue | None,
) -> tuple[SSAValue, LinearForm, Extent] | None:
    """The unrolled index of a store that ends with a size, what is added to it, and the size."""
    known = extents.get(store.memref) or []
    forms = subscripts(store)
    if len(forms) == len(known) + 1:  # blocks of channels are the second and the last one
        known = [known[0], None, *known[2:], None]
    for form, extent in zip(forms, known, strict=False):
        if form is None or extent is None:
            continue
        inner = [index for index in form.terms if index in own]
        if len(inner) != 1 or form.terms[inner[0]] != 1:
            continue
        if wanted is not None and inner[0] is not wanted:
            continue
        if not _is_unrolled(own[inner[0]], iterations):
            continue
        rest = {index: c for index, c in form.terms.items() if index is not inner[0]}
        return inner[0], LinearForm(rest, form.constant), extent
    return None


def _is_unrolled(loop: affine.ForOp, iterations: int) -> bool:
    return kind_of(loop) == "unroll" and bounds_of(loop) == (0, iterations)


def _family(
    members: set[SSAValue],
    iterations: int,
    inside: Sequence[Access],
    own: dict[SSAValue, affine.ForOp],
) -> tuple[affine.ForOp, ...] | None:
    """The loops over the same elements of register arrays; None where one is used otherwise."""
    places: set[tuple[SSAValue, int]] = set()
    to_arrays = [a for a in inside if isinstance(a.memref.owner, memref.AllocaOp)]
    while True:
        before = len(members), len(places)
        for access in to_arrays:
            for axis, form in enumerate(subscripts(access)):
                if form is not None and any(index in members for index in form.terms):
                    places.add((access.memref, axis))
        for access in to_arrays:
            for axis, form in enumerate(subscripts(access)):
                if (access.memref, axis) not in places:
                    continue
                if form is None or form.constant or list(form.terms.values()) != [1]:
                    return None
                (index,) = form.terms
                if index not in own or not _is_unrolled(own[index], iterations):
                    return None
                members.add(index)
        if (len(members), len(places)) == before:
            break
    if not places:
        return None
    return tuple(own[index] for index in own if index in members)
