"""Step narrow: a weight is stored in halves, and widened where it is read.

    y += x[k] * w[k, n]     w: float32      ->      y += x[k] * float(w[k, n])     w: f16

A product with few rows takes as long as its weights take from memory: half as many bytes are half
the time. Every device reads halves (`vload_half`), whether it computes with them or not; products
and sums stay in float32. A weight of 11 bits differs by at most 2^-11 of itself.
"""

from __future__ import annotations

from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr, f16, f32

from explorer.kernels.loops.nest import LoopNest, element_name, shape_of

NARROWED = "kernel.narrowed"


def narrow(nest: LoopNest, buffer: str) -> None:
    """Stores a weight of float32 as f16. Illegal for other buffers: their makers would not know."""
    value = nest.buffer(buffer, "narrow")
    if nest.roles[buffer] != "weight" or element_name(value) != "f32":
        what = f"{nest.roles[buffer]} of {element_name(value)}"
        raise nest.error("narrow", f"{buffer} is {what}, not a weight of f32")
    loads = nest.accesses(buffer)
    if not all(isinstance(load, affine.LoadOp) for load in loads):
        raise nest.error("narrow", f"{buffer} is read in vectors, or depends on data; narrow first")
    nest.retype(buffer, MemRefType(f16, shape_of(value)))
    for load in loads:
        assert isinstance(load, affine.LoadOp)
        block = load.parent
        assert block is not None
        narrow_load = affine.LoadOp(load.memref, load.indices, load.map)
        narrow_load.location = load.location
        narrow_load.result.name_hint = load.result.name_hint
        wide = arith.ExtFOp(narrow_load.result, f32)
        wide.location = load.location
        block.insert_ops_before([narrow_load, wide], load)
        load.result.replace_all_uses_with(wide.result)
        block.erase_op(load)
    names = [*sorted(narrowed_weights(nest.function)), buffer]
    nest.function.attributes[NARROWED] = ArrayAttr([StringAttr(name) for name in names])


def narrowed_weights(function: func.FuncOp) -> frozenset[str]:
    """By name, the weight arguments that a kernel wants in halves."""
    found = function.attributes.get(NARROWED)
    if not isinstance(found, ArrayAttr):
        return frozenset()
    return frozenset(item.data for item in found.data if isinstance(item, StringAttr))
