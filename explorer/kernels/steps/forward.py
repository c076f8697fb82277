"""Step forward: what reads a buffer that was filled with a constant takes the constant itself.

for z: sums[z] = 0                          for i:
for i:                                        acc = 0
  acc = sums[i]                        ->     for c: acc += ..
  for c: acc += ..                            sums[i] = acc
  sums[i] = acc
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import affine, arith
from xdsl.ir import Operation

from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.loops.nest import (
    Access,
    LoopNest,
    accesses_in,
    body_of,
    enclosing_loops,
    extent_of,
    index_of,
    is_store,
    linear_subscripts,
    name_of,
    perfect_chain,
)
from explorer.kernels.steps.dependences import boxes_are_disjoint, determined_indices


def forward(nest: LoopNest, loop: str) -> None:
    """Removes the nests headed by `loop`, which fill a part of a scratch buffer with a constant.

    Illegal unless the nests right behind each read every filled element once, before they store to
    it, and nothing else reads it before then.
    """
    for filling in nest.loops(loop, "forward"):
        _forward(nest, filling)
    nest.changed()


def _forward(nest: LoopNest, filling: affine.ForOp) -> None:
    store, constant = _filled(nest, filling)
    name = nest.name_of_buffer(store.memref)
    around = enclosing_loops(filling)
    siblings = body_of(around[-1]) if around else list(nest.block.ops)
    behind = siblings[next(k for k, op in enumerate(siblings) if op is filling) + 1 :]
    taken: list[affine.LoadOp] = []
    missing = prod(extent_of(one) for one in perfect_chain(filling))
    for reader in behind:
        if not isinstance(reader, affine.ForOp) or not missing:
            break
        group = [a for a in accesses_in(reader) if a.memref is store.memref]
        for load in _first_loads(nest, name, reader, group, len(around)):
            if not _lies_inside(load, store, len(around)):
                raise nest.error("forward", f"elements of {name} that were not filled are read")
            if any(not boxes_are_disjoint(load, other) for other in taken):
                raise nest.error("forward", f"elements of {name} are read twice")
            taken.append(load)
            missing -= prod(extent_of(one) for one in enclosing_loops(load)[len(around) :])
    if missing:
        raise nest.error("forward", f"{missing} filled elements of {name} are not read behind it")
    block = filling.parent
    assert block is not None
    for load in taken:
        assert load.parent is not None
        copy = constant.clone()
        copy.location = load.location
        load.parent.insert_op_before(copy, load)
        load.result.replace_all_uses_with(copy.result)
        load.parent.erase_op(load)
    block.erase_op(filling)


def _filled(nest: LoopNest, filling: affine.ForOp) -> tuple[affine.StoreOp, arith.ConstantOp]:
    """The one store of a filling nest, and what it stores."""
    operations = innermost_operations(filling)
    stores = [op for op in operations if isinstance(op, affine.StoreOp)]
    others = [op for op in operations if op not in stores]
    if len(stores) != 1 or len(others) != 1 or stores[0].value.owner is not others[0]:
        raise nest.error("forward", f"{name_of(filling)} does not just store a constant")
    (store,), (constant,) = stores, others
    name = nest.name_of_buffer(store.memref)
    if not isinstance(constant, arith.ConstantOp):
        raise nest.error("forward", f"{name_of(filling)} does not just store a constant")
    if nest.roles.get(name) != "scratch":
        raise nest.error("forward", f"{name} is no scratch buffer")
    determined = determined_indices(linear_subscripts(store))
    if not {index_of(loop) for loop in perfect_chain(filling)} <= determined:
        raise nest.error("forward", f"{name_of(filling)} fills elements of {name} repeatedly")
    return store, constant


def _first_loads(
    nest: LoopNest, name: str, reader: affine.ForOp, group: list[Access], depth: int
) -> list[affine.LoadOp]:
    """The loads of a nest: each of elements that a store behind it writes, and that one only."""
    loads = [a for a in group if isinstance(a, affine.LoadOp)]
    stores = [a for a in group if is_store(a)]
    if len(loads) != len(stores) or len(group) != 2 * len(loads):
        raise nest.error("forward", f"{name_of(reader)} does not store all that it loads of {name}")
    for number, (load, store) in enumerate(zip(loads, stores, strict=True)):
        determined = determined_indices(linear_subscripts(load))
        for loop in enclosing_loops(load)[depth:]:
            if index_of(loop) not in determined and extent_of(loop) > 1:
                raise nest.error(
                    "forward",
                    f"{name_of(loop)} reads the same elements of {name} repeatedly; accumulate "
                    "them first",
                )
        others = [other for k, other in enumerate(stores) if k != number]
        if not _is_written_behind(load, store) or any(
            not boxes_are_disjoint(load, other) for other in others
        ):
            raise nest.error("forward", f"{name_of(reader)} stores to {name} before it reads it")
    return loads


def _is_written_behind(load: affine.LoadOp, store: Access) -> bool:
    """Whether the store writes, behind the load, just the elements that were read.

    The nests below their common loops copy the same box, dimension by dimension.
    """
    common = [one for one in enclosing_loops(load) if one in enclosing_loops(store)]
    tops = [_inside(op, common) for op in (load, store)]
    if tops[0] is not tops[1] and not tops[0].is_before_in_block(tops[1]):
        return False
    if tops[0] is tops[1]:
        return linear_subscripts(load) == linear_subscripts(store)
    fixed = {index_of(one) for one in common}
    for one, other in zip(linear_subscripts(load), linear_subscripts(store), strict=True):
        shared = {i: c for i, c in one.terms.items() if i in fixed}
        if shared != {i: c for i, c in other.terms.items() if i in fixed}:
            return False
        moving = [i for i in (*one.terms, *other.terms) if i not in fixed]
        if one.range(moving) != other.range(moving):
            return False
    return True


def _inside(operation: Access, common: list[affine.ForOp]) -> Operation:
    """The operation right below the last of the common loops that holds an access."""
    path = [*enclosing_loops(operation), operation]
    return path[len(common)]


def _lies_inside(load: affine.LoadOp, store: affine.StoreOp, depth: int) -> bool:
    """Whether all elements that are read are filled, at equal indices of the loops around both."""
    fixed = {index_of(one) for one in enclosing_loops(load)[:depth]}
    for read, filled in zip(linear_subscripts(load), linear_subscripts(store), strict=True):
        if {i: c for i, c in read.terms.items() if i in fixed} != {
            i: c for i, c in filled.terms.items() if i in fixed
        }:
            return False
        inner = read.range([i for i in read.terms if i not in fixed])
        outer = filled.range([i for i in filled.terms if i not in fixed])
        if inner is None or outer is None or inner[0] < outer[0] or inner[1] > outer[1]:
            return False
    return True
