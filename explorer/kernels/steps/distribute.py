"""Steps for nests of several statements: distribute, and localize, which follows from it.

for mp:                      for mp_a: S1        distribute mp before S2's loop, into mp_a mp_b
  S1                   ->    for mp_b: S2
  S2

for mt:                      for mt:
  s[8 mt + mp] = ..    ->      local[8]          localize s at mt
  .. = s[8 mt + mp]            local[mp] = ..
                               .. = local[mp]

Distribution is the textbook's loop fission (Allen and Kennedy, Optimizing Compilers for Modern
Architectures, section 5.2); together with merging it decides which statements take turns on a tile.
"""

from __future__ import annotations

from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from explorer.kernels.loops.nest import (
    Access,
    AffineAccess,
    LinearForm,
    LoopNest,
    access_width,
    accesses_in,
    body_of,
    enclosing_loops,
    extent_of,
    index_of,
    linear_subscripts,
    name_of,
    redirect,
    rename,
)
from explorer.kernels.steps.dependences import conflict, separated
from explorer.kernels.steps.registers import ALIGNMENT_BYTES


def distribute(nest: LoopNest, loop: str, before: str, into: str) -> None:
    """Divides a loop into several with the same iterations, one behind the other.

    `before` names loops of its body: each begins a new part, and what stands in front of it belongs
    to the part before. `into` names the loops of the parts. Illegal if iterations depend on one
    another, and if a value of one part is used in another.
    """
    starts, names = before.split(), into.split()
    if len(names) != len(starts) + 1:
        raise nest.error("distribute", f"{len(starts)} cuts make {len(starts) + 1} loops")
    target = nest.loop(loop, "distribute")
    culprit = conflict(target)
    if culprit is not None:
        touched = nest.name_of_buffer(culprit)
        raise nest.error("distribute", f"iterations of {loop} touch the same elements of {touched}")
    body = body_of(target)
    part_of: dict[Operation, int] = {}
    part = 0
    for op in body:
        if isinstance(op, affine.ForOp) and part < len(starts) and name_of(op) == starts[part]:
            part += 1
        part_of[op] = part
    if set(part_of.values()) != set(range(len(names))):
        raise nest.error("distribute", f"{before} do not divide the body of {loop} in this order")
    for op in body:
        for user in [use.operation for result in op.results for use in result.uses]:
            holder = next(o for o in body if o is user or o.is_ancestor(user))
            if part_of[holder] != part_of[op]:
                raise nest.error("distribute", f"a value of {loop} is used in another part of it")
    block = target.parent
    assert block is not None
    for number, name in enumerate(names):
        copy = target.clone()
        rename(copy, name)
        kept = [op for op in body if part_of[op] == number]
        copy.location = kept[-1].location
        others = [c for op, c in zip(body, body_of(copy), strict=True) if part_of[op] != number]
        block.insert_op_before(copy, target)
        for op in reversed(others):
            copy.body.block.erase_op(op)
    block.erase_op(target)
    nest.changed()


def localize(nest: LoopNest, buffer: str, at: str) -> None:
    """Gives every iteration of the loops `at` an array of its own instead of a scratch buffer.

    The argument stays in the signature, unused. Illegal for other roles, for accesses outside of
    these loops, and where iterations exchange elements: these must differ with every loop around.
    """
    value = nest.buffer(buffer, "localize")
    if nest.roles[buffer] != "scratch":
        raise nest.error("localize", f"{buffer} is {nest.roles[buffer]}, not scratch")
    homes = [nest.loop(name, "localize") for name in at.split()]
    groups = [[a for a in accesses_in(home) if a.memref is value] for home in homes]
    if sum(map(len, groups)) != len(nest.accesses(buffer)):
        raise nest.error("localize", f"{buffer} is used outside of {at}")
    for home, group in zip(homes, groups, strict=True):
        if group:
            _localize(nest, buffer, home, group)
    nest.changed()


def _localize(nest: LoopNest, buffer: str, home: affine.ForOp, group: list[Access]) -> None:
    around = [*enclosing_loops(home), home]
    for position, loop in enumerate(around):
        fixed = {index_of(outer) for outer in around[:position]}
        indices = {access: index_of(loop) for access in group}
        if extent_of(loop) > 1 and not separated(group, indices, fixed):
            raise nest.error(
                "localize", f"iterations of {name_of(loop)} exchange elements of {buffer}"
            )
    outer = {index_of(loop) for loop in around}
    forms = {access: _inner_forms(nest, access, outer) for access in group}
    rank = len(forms[group[0]])
    first: list[int] = []
    extents: list[int] = []
    for dimension in range(rank):
        lows, highs = [], []
        for access, inner in forms.items():
            bounds = inner[dimension].range()
            if bounds is None:
                raise nest.error("localize", f"a subscript of {buffer} has no constant range")
            lows.append(bounds[0])
            highs.append(bounds[1] + (access_width(access) if dimension == rank - 1 else 1))
        first.append(min(lows))
        extents.append(max(highs) - min(lows))
    kept = [d for d in range(rank) if extents[d] > 1]
    kind = nest.buffers[buffer].type
    assert isinstance(kind, MemRefType)
    array = memref.AllocaOp.get(kind.element_type, ALIGNMENT_BYTES, [extents[d] for d in kept])
    array.memref.name_hint = buffer
    array.location = home.location
    start = home.body.block.first_op
    assert start is not None
    home.body.block.insert_op_before(array, start)
    for access, inner in forms.items():
        assert isinstance(access, AffineAccess)
        moved = [inner[d] + LinearForm({}, -first[d]) for d in kept]
        redirect(access, array.memref, moved)


def _inner_forms(nest: LoopNest, access: Access, outer: set) -> list[LinearForm]:
    """The subscripts without the indices of the loops around."""
    try:
        forms = linear_subscripts(access)
    except ValueError as reason:
        raise nest.error("localize", str(reason)) from reason
    return [
        LinearForm({i: c for i, c in form.terms.items() if i not in outer}, form.constant)
        for form in forms
    ]
