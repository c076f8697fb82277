"""Step dual_products: four products of bytes become two dual multiply-adds of halves.

    for cu in 4:                                     %v = affine.vector_load %w[..] : 4 bytes
      acc += (ext(x[4 * c + cu]) - zero)       ->    %x0 .. %x3 = affine.load %x[..]
             * ext(w[4 * c + cu])                    %s = loop.dual_products %acc, %zero, %v, %x0 ..

An instruction multiplies the two halves of a word with those of another one and adds both products
to a sum of 32 bits (Arm's DSP extension: `smlad`). It is exact: a byte less a zero point fits into
16 bits, and sums wrap around as they would one by one. The bytes of x are read as a word, too,
where they are neighbours.
"""

from __future__ import annotations

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, VectorType, i32
from xdsl.ir import Operation, SSAValue

from explorer.ir.loop_dialect import DualProductsOp
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    body_of,
    extent_of,
    index_of,
    is_store,
    linear_map,
    linear_subscripts,
    name_of,
    shape_of,
)
from explorer.kernels.steps.dependences import reduction_operation

PRODUCTS = 4
MAX_ZERO = 255
"""Of a zero point, without its sign: what a byte less it needs is below 16 bits."""
Factor = tuple[affine.LoadOp, type[Operation], int]
"""The load of a byte, how it is extended, and the zero point that is taken from it."""


def dual_products(nest: LoopNest, loop: str) -> None:
    """Turns loops of four iterations that add products of two bytes into dual multiply-adds.

    Illegal unless such a loop holds one update of a sum of i32 by the product of two bytes, from
    each of which a constant may be taken, and the second one's lie side by side along it.
    """
    found = [(each, *_recognize(nest, each)) for each in nest.loops(loop, "dual_products")]
    for each, store, sums, few, filters in found:
        _replace(each, store, sums, few, filters)
    nest.changed()


def pairs_along(loop: affine.ForOp, factor: SSAValue) -> bool:
    """Whether a factor is a signed byte, and its neighbours lie side by side along the loop."""
    found = factor_of(factor)
    if found is None or found[1:] != (arith.ExtSIOp, 0):
        return False
    return _stride(found[0], loop) == 1


def factor_of(value: SSAValue) -> Factor | None:
    """The byte that is extended to 32 bits, less a zero point; None where it is anything else."""
    owner, zero = value.owner, 0
    if isinstance(owner, arith.SubiOp):
        constant = _constant(owner.rhs)
        if constant is None or abs(constant) > MAX_ZERO:
            return None
        owner, zero = owner.lhs.owner, constant
    if not isinstance(owner, arith.ExtSIOp | arith.ExtUIOp) or owner.result.type != i32:
        return None
    load, kind = owner.input.owner, owner.input.type
    is_byte = isinstance(kind, IntegerType) and kind.width.data == 8
    if not is_byte or not isinstance(load, affine.LoadOp):
        return None
    assert isinstance(kind, IntegerType)
    is_unsigned = kind.signedness.data == Signedness.UNSIGNED
    wanted = arith.ExtUIOp if is_unsigned else arith.ExtSIOp
    return (load, type(owner), zero) if isinstance(owner, wanted) else None


def factors_in(loop: affine.ForOp) -> tuple[SSAValue, SSAValue] | None:
    """What is multiplied and added to a sum of i32, where that is all that the loop does."""
    stores = [a for a in accesses_in(loop) if isinstance(a, affine.StoreOp)]
    if len(stores) != 1 or stores[0].value.type != i32:
        return None
    group = [a for a in accesses_in(loop) if a.memref is stores[0].memref]
    update = reduction_operation(group)
    if not isinstance(update, arith.AddiOp):
        return None
    loads = [a.result for a in group if isinstance(a, affine.LoadOp)]
    added = next(value for value in update.operands if value not in loads)
    if not isinstance(added.owner, arith.MuliOp):
        return None
    return added.owner.lhs, added.owner.rhs


def _recognize(
    nest: LoopNest, loop: affine.ForOp
) -> tuple[affine.StoreOp, affine.LoadOp, Factor, Factor]:
    name = name_of(loop)
    if any(isinstance(op, affine.ForOp) for op in body_of(loop)):
        raise nest.error("dual_products", f"{name} is not the innermost loop")
    if extent_of(loop) != PRODUCTS:
        count = extent_of(loop)
        raise nest.error("dual_products", f"{name} has {count} iterations, not {PRODUCTS}")
    factors = factors_in(loop)
    if factors is None:
        raise nest.error("dual_products", f"{name} does not add products to a sum of i32")
    first, second = factors
    if not pairs_along(loop, second):
        first, second = second, first
    few = factor_of(first)
    if few is None or not pairs_along(loop, second):
        raise nest.error(
            "dual_products", "the factors are not two bytes of which one's lie side by side"
        )
    filters = factor_of(second)
    assert filters is not None
    stores = [a for a in accesses_in(loop) if is_store(a)]
    (store,) = stores
    assert isinstance(store, affine.StoreOp)
    sums = next(a for a in accesses_in(loop) if a.memref is store.memref and a is not store)
    assert isinstance(sums, affine.LoadOp)
    if _stride(sums, loop) != 0:
        raise nest.error("dual_products", f"the sum is another one in each iteration of {name}")
    return store, sums, few, filters


def _stride(load: affine.LoadOp, loop: affine.ForOp) -> int | None:
    """How many elements further in memory the next iteration reads; None where that varies."""
    try:
        forms = linear_subscripts(load)
    except ValueError:
        return None
    stride, apart = 0, 1
    for form, extent in zip(reversed(forms), reversed(shape_of(load.memref)), strict=True):
        stride += apart * form.terms.get(index_of(loop), 0)
        apart *= extent
    return stride


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
        return None
    return owner.value.value.data


def _replace(
    loop: affine.ForOp, store: affine.StoreOp, sums: affine.LoadOp, few: Factor, filters: Factor
) -> None:
    made: list[Operation] = []

    def loaded(load: affine.LoadOp, place: int) -> affine.LoadOp:
        forms = linear_subscripts(load)
        at = {index_of(loop): LinearForm({}, place)}
        indices, access_map = linear_map([form.substitute(at) for form in forms])
        found = affine.LoadOp.create(
            operands=[load.memref, *indices],
            result_types=[load.result.type],
            properties={"map": access_map},
        )
        made.append(found)
        return found

    def word(load: affine.LoadOp) -> affine.VectorLoadOp:
        at = {index_of(loop): LinearForm()}
        indices, access_map = linear_map([form.substitute(at) for form in linear_subscripts(load)])
        found = affine.VectorLoadOp.create(
            operands=[load.memref, *indices],
            result_types=[VectorType(load.result.type, [PRODUCTS])],
            properties={"map": access_map},
        )
        made.append(found)
        return found

    def bytes_of(load: affine.LoadOp) -> list[SSAValue]:
        if _stride(load, loop) == 1:
            return [word(load).results[0]]
        return [loaded(load, place).result for place in range(PRODUCTS)]

    total = loaded(sums, 0)
    zero = arith.ConstantOp(IntegerAttr(few[2], i32))
    made.append(zero)
    added = DualProductsOp.create(
        operands=[total.result, zero.result, word(filters[0]).results[0], *bytes_of(few[0])],
        result_types=[i32],
    )
    at = {index_of(loop): LinearForm()}
    indices, access_map = linear_map([form.substitute(at) for form in linear_subscripts(store)])
    made += [
        added,
        affine.StoreOp.create(
            operands=[added.result, store.memref, *indices], properties={"map": access_map}
        ),
    ]
    for op in made:
        op.location = store.location
    block = loop.parent
    assert block is not None
    block.insert_ops_before(made, loop)
    block.detach_op(loop)
    loop.erase()
