"""Step settle: finished sums move into registers of their own before they are used.

    for k: for mp: acc[mp] += ..                  for k: for mp: acc[mp] += ..
    for mp: y[mp] = gelu(acc[mp] + b)       ->    for mp: settled[mp] = acc[mp]
                                                  for mp: y[mp] = gelu(settled[mp] + b)

gcc gives a sum one place for all of its life. Where what is computed with the sums needs registers
itself (functions: a polynomial's terms beside a whole tile of sums), some sums are put on the
stack, and the loop that adds to them does so there: 14 cycles for an addition of 4. Sums that are
handed over are only crowded where they are used, once.
"""

from __future__ import annotations

from xdsl.dialects import affine, memref
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    extent_of,
    index_form,
    index_of,
    is_store,
    linear_subscripts,
    make_load,
    make_store,
    name_of,
    nest_loops,
    new_loop,
    perfect_chain,
    redirect,
)
from explorer.kernels.steps.registers import HELD


def settle(nest: LoopNest, buffer: str, name: str = "settled") -> None:
    """Copies the register array `buffer` before each nest that only reads it.

    Illegal unless another step has made such an array, and these nests are perfect and read it
    at one place.
    """
    arrays = [
        op
        for op in walk_inside(nest.function)
        if isinstance(op, memref.AllocaOp) and op.memref.name_hint == buffer
    ]
    readers = [(array, reader) for array in arrays for reader in _readers(array)]
    if not readers:
        raise nest.error("settle", f"nothing only reads a register array {buffer!r}")
    for array, reader in readers:
        _settle(nest, array, reader, name)
    nest.changed()


def _readers(array: memref.AllocaOp) -> list[affine.ForOp]:
    """The loops beside the array that read and do not write it."""
    following: Operation | None = array.next_op
    found: list[affine.ForOp] = []
    while following is not None:
        if isinstance(following, affine.ForOp):
            own = [a for a in accesses_in(following) if a.memref is array.memref]
            if own and not any(is_store(access) for access in own):
                found.append(following)
        following = following.next_op
    return found


def _settle(nest: LoopNest, array: memref.AllocaOp, reader: affine.ForOp, name: str) -> None:
    loads = [a for a in accesses_in(reader) if a.memref is array.memref]
    chain = perfect_chain(reader)
    forms = linear_subscripts(loads[0])
    if any(linear_subscripts(load) != forms for load in loads):
        raise nest.error("settle", f"{name_of(reader)} reads several places of the array")
    if {index for form in forms for index in form.terms} != {index_of(loop) for loop in chain}:
        raise nest.error(
            "settle", f"{name_of(reader)} has loops that do not walk through the array"
        )
    settled = memref.AllocaOp.get(array.memref.type.element_type, 64, array.memref.type.get_shape())
    settled.memref.name_hint = name
    settled.location = array.location
    settled.attributes[HELD] = UnitAttr()
    copies = [new_loop(extent_of(loop), name_of(loop), loop) for loop in chain]
    renamed: dict[SSAValue, LinearForm] = {
        index_of(old): index_form(new) for old, new in zip(chain, copies, strict=True)
    }
    place = [form.substitute(renamed) for form in forms]
    like = loads[0]
    value = make_load(array.memref, place, like)
    copy = nest_loops(copies, [value, make_store(value.result, settled.memref, place, like)])
    block = reader.parent
    assert block is not None
    block.insert_ops_before([settled, copy], reader)
    for load in loads:
        assert isinstance(load, affine.LoadOp)  # its subscripts are linear, and it is no store
        redirect(load, settled.memref, forms)
