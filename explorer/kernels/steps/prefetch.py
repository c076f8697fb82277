"""Step prefetch: lines of memory are asked for before the loads that wait for them.

prefetch x at cb, ahead cb       for cb:                    touch x[cb + 1, jt .. jt + 5], by lines
                                   for ci: for jp:     ->   for ci: for jp:
                                     .. x[cb, jt + jp, ci]    .. x[cb, jt + jp, ci]

prefetch w at cb, ahead ot       for ot: for jt:            touch line (32 jt + cb) of w[ot + 1]
                                   for cb:             ->
                                     .. w[ot, cb]           .. w[ot, cb]

prefetch x at cb, ahead jt       for jt: for cb:            touch x[cb, jt + 6 .. jt + 11], by lines
                                   for ci: for jp:     ->   for ci: for jp:
                                     .. x[cb, jt + jp, ci]    .. x[cb, jt + jp, ci]

A core foresees what lies behind one another. It does not foresee the next block of channels, which
lies a whole picture farther, for a hundred blocks at a time; nor weights that are read once, which
come from memory slower than they are used: they are asked for one tile earlier, a line now and
then, as long as all tiles take. A block earlier is soon enough for what the second cache holds; for
what comes from farther it is a tile of pixels, whose lines the nearest cache then has to keep.

The nest stays as it is, for nothing is read: loops get a mark, of which printers make what their
language has (gcc and clang: `__builtin_prefetch`). Behind the last iteration what is asked for may
lie behind the end of a buffer, which no processor minds.

Mowry, Lam and Gupta, Design and Evaluation of a Compiler Algorithm for Prefetching, ASPLOS 1992.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.dialects import affine, func
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    LoopNest,
    access_width,
    accesses_in,
    enclosing_loops,
    extent_of,
    index_form,
    index_of,
    is_store,
    item_bytes,
    linear_subscripts,
    name_of,
    shape_of,
)
from explorer.kernels.steps.registers import ALIGNMENT_BYTES as LINE_BYTES

PREFETCH = "loop.prefetch"
"""Attribute of a loop: by the name of a buffer, that of the loop of which the next iteration's
elements are touched in each iteration of this one."""
MAX_LINES = 32
"""Touched by one iteration; more would keep the load units busy."""


@dataclass(frozen=True)
class Touch:
    """A line of a buffer, at element `place`; or line `line` behind it, but at most the `last`."""

    buffer: SSAValue
    place: LinearForm
    line: LinearForm | None = None
    last: int = 0


def prefetch(nest: LoopNest, at: str, buffer: str, ahead: str) -> None:
    """Touches in each iteration of `at` what the next iteration of `ahead` reads of a buffer.

    Where both are one loop that is all of it, line by line. Where `ahead` is around `at`, every
    iteration of `at` touches an even share of what lies together; of what does not it touches what
    it reads itself in the next iteration of `ahead`. Illegal for a buffer that is not just read at
    one place inside, and for more than `MAX_LINES` lines.
    """
    target = nest.buffer(buffer, "prefetch")
    for loop in nest.loops(at, "prefetch"):
        try:
            _touches(loop, target, ahead)
        except ValueError as reason:
            raise nest.error("prefetch", f"{buffer} in {at}: {reason}") from reason
    for loop in nest.loops(at, "prefetch"):
        before = loop.attributes.get(PREFETCH)
        marks = dict(before.data) if isinstance(before, DictionaryAttr) else {}
        loop.attributes[PREFETCH] = DictionaryAttr({**marks, buffer: StringAttr(ahead)})


def touches_of(loop: affine.ForOp) -> list[Touch]:
    """What an iteration of a marked loop touches, in order; nothing for other loops."""
    marks = loop.attributes.get(PREFETCH)
    if not isinstance(marks, DictionaryAttr):
        return []
    function: Operation | None = loop
    while not isinstance(function, func.FuncOp):
        assert function is not None, "loops are those of a kernel"
        function = function.parent_op()
    buffers = LoopNest(function).buffers
    return [
        touch
        for name, ahead in marks.data.items()
        if isinstance(ahead, StringAttr)
        for touch in _touches(loop, buffers[name], ahead.data)
    ]


def _touches(loop: affine.ForOp, buffer: SSAValue, ahead: str) -> list[Touch]:
    """ValueError says why there are none."""
    accesses = [access for access in accesses_in(loop) if access.memref is buffer]
    if len(accesses) != 1 or is_store(accesses[0]):
        raise ValueError("it is not just read, at one place")
    (access,) = accesses
    place = _flat(access)
    around = {name_of(op): op for op in (*enclosing_loops(loop), loop)}
    if ahead not in around:
        raise ValueError(f"{ahead} is not a loop around it")
    outer = around[ahead]
    if outer is not loop and _lies_together(outer, access, place):
        found = _share(loop, outer, access, place)
    else:
        found = _all_lines(loop, outer, access, place)
    if len(found) > MAX_LINES:
        raise ValueError(f"an iteration touches {len(found)} lines, more than {MAX_LINES}")
    return found


def _all_lines(
    loop: affine.ForOp, outer: affine.ForOp, access: Access, place: LinearForm
) -> list[Touch]:
    """All that an iteration of the loop reads in the next iteration of `outer`."""
    moved = place.terms.get(index_of(outer), 0)
    if not moved:
        raise ValueError(f"{name_of(outer)} reads the same in each iteration")
    line = LINE_BYTES // item_bytes(access.memref)
    inside = [op for op in enclosing_loops(access) if loop in enclosing_loops(op)]
    start = LinearForm(
        {i: c for i, c in place.terms.items() if i not in {index_of(op) for op in inside}},
        place.constant + moved,
    )
    length, apart = access_width(access), list[range]()
    steps = sorted((place.terms.get(index_of(op), 0), extent_of(op)) for op in inside)
    for step, extent in steps:
        if step < 0:
            raise ValueError("it is read backwards")
        if extent == 1:
            continue
        if step < length + line:  # what lies between shares its lines
            length += step * (extent - 1)
        else:
            apart.append(range(0, step * extent, step))
    offsets = [sum(parts) for parts in product(*reversed(apart), range(0, length, line))]
    return [Touch(access.memref, start + LinearForm({}, offset)) for offset in offsets]


def _lies_together(outer: affine.ForOp, access: Access, place: LinearForm) -> bool:
    """Whether all that an iteration of a loop reads lies between it and the next iteration's."""
    size = place.terms.get(index_of(outer), 0)
    within = [index_of(op) for op in enclosing_loops(access) if outer in enclosing_loops(op)]
    reach = LinearForm({i: c for i, c in place.terms.items() if i in within}).range()
    return (
        size > 0 and reach is not None and 0 <= reach[0] <= reach[1] + access_width(access) <= size
    )


def _share(
    loop: affine.ForOp, outer: affine.ForOp, access: Access, place: LinearForm
) -> list[Touch]:
    """A part of what the next iteration of a loop around reads, in each iteration another one."""
    around = [*enclosing_loops(loop), loop]
    between = around[around.index(outer) + 1 :]
    size = place.terms[index_of(outer)]
    within = [index_of(op) for op in enclosing_loops(access) if outer in enclosing_loops(op)]
    lines = -(-size * item_bytes(access.memref) // LINE_BYTES)
    counted = [op for op in between if extent_of(op) > 1]
    count = -(-lines // prod(extent_of(op) for op in counted))
    number = LinearForm()
    for op in counted:
        number = number.scaled(extent_of(op)) + index_form(op)
    start = LinearForm({i: c for i, c in place.terms.items() if i not in within}, size)
    number = number.scaled(count)
    return [
        Touch(access.memref, start, number + LinearForm({}, n), lines - 1) for n in range(count)
    ]


def _flat(access: Access) -> LinearForm:
    """The number of the element that an access begins at."""
    flat, stride = LinearForm(), 1
    forms: Sequence[LinearForm] = linear_subscripts(access)
    for form, extent in zip(reversed(forms), reversed(shape_of(access.memref)), strict=True):
        flat = flat + form.scaled(stride)
        stride *= extent
    return flat
