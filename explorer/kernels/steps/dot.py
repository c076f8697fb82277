"""Step dot: sums of four products of bytes, or two of bfloat16, become a dot product per vector.

    for oi in 16: for cu in 4:                           %a = affine.vector_load %acc[0]
      acc[oi] = acc[oi] + ext(x[cu]) * ext(w[oi, cu])    %x = affine.vector_load %x[..] : 4 bytes
                                                    ->   %w = affine.vector_load %w[..] : 64 bytes
                                                         %s = loop.dot %a, %x, %w
                                                         affine.vector_store %s, %acc[0]

This is tensorization: a whole nest is recognized and replaced by what the machine has for it
(AVX-512 VNNI and AVX-VNNI: `vpdpbusd`). It is exact: bytes of x are unsigned (or signed with 128
added), those of w signed, and sums wrap around at 32 bits as they would one by one. Products whose
definition splits the signs of w off (`top.matmul`) become dot products that do so, too.

Signed bytes of x are multiplied with filters without a sign where these are what lies four by four;
where two numbers of four bits share a byte of them, it is two dot products, of its halves.

Two products of bfloat16 that are added to a sum of f32 become `loop.dot_pairs` (AVX-512 BF16:
`vdpbf16ps`; Arm: `bfdot`). That is not exact: products are, but their sums are added up in another
order, and rounded as the instruction does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.loop_dialect import HIGH, LOW, DotOp, DotPairsOp, DotUnsignedOp
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
"""Of bytes, in each lane."""
PAIR = 2
"""Of bfloat16."""
SIGN = 128
"""What makes a signed byte an unsigned one."""
SIGN_BIT = 31
LOW_BITS, HALF_BITS = 15, 4
"""Mask and width of half a byte."""
LANES = (4, 8, 16)
FITS_PAIRS, SPLITS_SIGNS = "kernel.fits_pairs", "kernel.splits_signs"
"""Attributes of kernels whose definition says so (`top.matmul`)."""


@dataclass(frozen=True)
class _Product:
    """The parts of `sums[..] += bytes[..] * filters[..]`: bytes, or numbers of bfloat16."""

    sums: affine.LoadOp
    bytes: affine.LoadOp
    filters: affine.LoadOp
    store: affine.StoreOp
    splits_signs: bool = False
    half: str | None = None
    """Of filters without a sign the bits that are the number, empty for all; None of others."""

    @property
    def together(self) -> int:
        """Products that are added at once."""
        return PAIR if _element(self.bytes) == bf16 else PRODUCTS


def dot(nest: LoopNest, lanes: str, products: str) -> None:
    """Turns the loops `lanes` that hold a loop `products` into dot products.

    Illegal unless four products of an unsigned byte (one that has a sign needs 128 added) and a
    signed one are added to a sum of i32, or two of bfloat16 to a sum of f32, the bytes do not
    depend on the lane, and filters lie four by four (two by two) for each lane. Filters without a
    sign may hold one number or two.
    """
    inner = {loop.parent_op() for loop in nest.loops(products, "dot")}
    around = [loop for loop in nest.loops(lanes, "dot") if loop in inner]
    if len(around) < len(inner) or not around:
        raise nest.error("dot", f"{products} does not stand in {lanes}")
    fits_pairs = FITS_PAIRS in nest.function.attributes
    for loop in around:
        found = _recognize(nest, loop, products)
        if found[0].half is None:
            _replace(loop, found[0], fits_pairs)
        else:
            _replace_unsigned(loop, found)
    nest.changed()


def _recognize(nest: LoopNest, loop: affine.ForOp, products: str) -> list[_Product]:
    """One product; or one for each half of a byte."""
    name = name_of(loop)
    (inner, *others) = body_of(loop)
    if others or not isinstance(inner, affine.ForOp):
        raise nest.error("dot", f"{name} does not hold the loop {products} and nothing else")
    stores = [a for a in accesses_in(inner) if is_store(a)]
    if len(stores) != 1 or not isinstance(store := stores[0], affine.StoreOp):
        raise nest.error("dot", f"{products} does not update one sum")
    group = [a for a in accesses_in(inner) if a.memref is store.memref]
    update = reduction_operation(group)
    loads = [a for a in group if isinstance(a, affine.LoadOp)]
    pair = update if isinstance(update, arith.AddfOp) and update.result.type == f32 else None
    together = PRODUCTS if pair is None else PAIR
    if extent_of(inner) != together or extent_of(loop) not in LANES:
        extents = f"{extent_of(loop)} lanes of {extent_of(inner)}"
        wanted = f"4, 8 or 16 lanes of {together} are multiplied at once"
        raise nest.error("dot", f"{extents} products; {wanted}")
    if pair is not None:
        found = _pair(nest, pair, loads[0], store)
        _require_places(nest, loop, inner, found)
        return [found]
    if not isinstance(update, arith.AddiOp) or update.result.type != i32:
        raise nest.error("dot", f"{products} does not add to a sum of i32")
    added = next(value for value in update.operands if value is not loads[0].result)
    unsigned = _unsigned_products(added, loads[0], store)
    for product in unsigned:
        _require_places(nest, loop, inner, product)
    if unsigned:
        return unsigned
    if not isinstance(added.owner, arith.MuliOp):
        raise nest.error("dot", "what is added is no product")
    first, second = added.owner.operands
    few, filters = _unsigned_byte(first), _signed_byte(second)
    if few is None or filters is None:
        few, filters = _unsigned_byte(second), _signed_byte(first)
    splits_signs = few is None or filters is None
    if few is None or filters is None:
        few, filters = _flipped_and_size(first, second)
    if few is None or filters is None:
        raise nest.error("dot", "the factors are not an unsigned and a signed byte")
    found = _Product(loads[0], few, filters, store, splits_signs)
    _require_places(nest, loop, inner, found)
    return [found]


def _unsigned_products(
    added: SSAValue, sums: affine.LoadOp, store: affine.StoreOp
) -> list[_Product]:
    """`ext(i8) * ext(ui8)` where the bytes without a sign lie four by four; or the sum of
    `ext(i8) * (ext(ui8) & 15)` and `ext(i8) * (ext(ui8) >> 4)`. None where it is anything else."""
    values = list(added.owner.operands) if isinstance(added.owner, arith.AddiOp) else [added]
    found = []
    for value in values:
        if not isinstance(value.owner, arith.MuliOp):
            return []
        few = _signed_byte(value.owner.lhs)
        filters, half = _half_of_byte(value.owner.rhs)
        if few is None or filters is None or shape_of(filters.memref)[-1] != PRODUCTS:
            return []
        found.append(_Product(sums, few, filters, store, half=half))
    wanted = [LOW, HIGH] if len(found) > 1 else [""]
    return found if [product.half for product in found] == wanted else []


def _half_of_byte(value: SSAValue) -> tuple[affine.LoadOp | None, str]:
    """The load that ext(ui8) reads, and which of its bits are taken; empty for all."""
    owner = value.owner
    if isinstance(owner, arith.AndIOp) and _constant(owner.rhs) == LOW_BITS:
        return _byte(owner.lhs.owner, arith.ExtUIOp, Signedness.UNSIGNED), LOW
    if isinstance(owner, arith.ShRSIOp) and _constant(owner.rhs) == HALF_BITS:
        return _byte(owner.lhs.owner, arith.ExtUIOp, Signedness.UNSIGNED), HIGH
    return _byte(owner, arith.ExtUIOp, Signedness.UNSIGNED), ""


def _pair(
    nest: LoopNest, update: arith.AddfOp, sums: affine.LoadOp, store: affine.StoreOp
) -> _Product:
    """`sums + ext(x) * ext(w)` of bfloat16: filters are what lies two by two."""
    added = next(value for value in update.operands if value is not sums.result)
    factors = added.owner.operands if isinstance(added.owner, arith.MulfOp) else ()
    loads = [
        value.owner.operands[0].owner for value in factors if isinstance(value.owner, arith.ExtFOp)
    ]
    found = [a for a in loads if isinstance(a, affine.LoadOp) and _element(a) == bf16]
    if len(found) != 2:
        raise nest.error("dot", "what is added is no product of two of bf16")
    few, filters = sorted(found, key=lambda load: shape_of(load.memref)[-1] == PAIR)
    return _Product(sums, few, filters, store)


def _unsigned_byte(value: SSAValue) -> affine.LoadOp | None:
    """The load that ext(ui8) reads, or ext(i8) - -128."""
    owner = value.owner
    wanted = Signedness.UNSIGNED
    if isinstance(owner, arith.SubiOp):
        if _constant(owner.rhs) != -SIGN:
            return None
        owner, wanted = owner.lhs.owner, Signedness.SIGNLESS
    return _byte(owner, arith.ExtUIOp if wanted == Signedness.UNSIGNED else arith.ExtSIOp, wanted)


def _flipped_and_size(
    flipped: SSAValue, size: SSAValue
) -> tuple[affine.LoadOp | None, affine.LoadOp | None]:
    """The loads behind x ^ s and (w ^ s) - s, where s = w >> 31 and x is ext(ui8) - 128 or
    ext(i8)."""
    nothing = None, None
    left, right = flipped.owner, size.owner
    if not isinstance(left, arith.XOrIOp) or not isinstance(right, arith.SubiOp):
        return nothing
    inner, sign = right.lhs.owner, right.rhs.owner
    if not isinstance(inner, arith.XOrIOp) or not isinstance(sign, arith.ShRSIOp):
        return nothing
    if _constant(sign.rhs) != SIGN_BIT or inner.lhs != sign.lhs:
        return nothing
    if inner.rhs != sign.result or left.rhs != sign.result:
        return nothing
    few = _signed_byte(left.lhs)
    byte = left.lhs.owner
    if isinstance(byte, arith.SubiOp) and _constant(byte.rhs) == SIGN:
        few = _byte(byte.lhs.owner, arith.ExtUIOp, Signedness.UNSIGNED)
    return few, _signed_byte(sign.lhs)


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
        return None
    return owner.value.value.data


def _signed_byte(value: SSAValue) -> affine.LoadOp | None:
    return _byte(value.owner, arith.ExtSIOp, Signedness.SIGNLESS)


def _byte(owner: object, extension: type[Operation], wanted: Signedness) -> affine.LoadOp | None:
    if not isinstance(owner, extension):
        return None
    load, kind = owner.operands[0].owner, owner.operands[0].type
    is_byte = isinstance(kind, IntegerType) and kind.width == i8.width
    if not isinstance(load, affine.LoadOp) or not is_byte:
        return None
    assert isinstance(kind, IntegerType)
    return load if kind.signedness.data == wanted else None


def _require_places(
    nest: LoopNest, loop: affine.ForOp, inner: affine.ForOp, product: _Product
) -> None:
    """Sums side by side, bytes side by side, filters four by four."""
    lane, step = index_of(loop), index_of(inner)
    try:
        sums = linear_subscripts(product.sums)
        few = linear_subscripts(product.bytes)
        filters = linear_subscripts(product.filters)
    except ValueError as reason:
        raise nest.error("dot", str(reason)) from reason
    if _stride(sums, lane) != 1 or _stride(sums, step) != 0:
        raise nest.error("dot", f"sums do not lie side by side along {name_of(loop)} only")
    if _stride(few, step) != 1 or _stride(few, lane) != 0:
        raise nest.error("dot", f"bytes do not lie side by side along {name_of(inner)} only")
    rows, products = filters[-2:] if len(filters) > 1 else (LinearForm(), filters[-1])
    is_packed = shape_of(product.filters.memref)[-1] == product.together
    if not is_packed or rows.terms.get(lane) != 1 or products != LinearForm({step: 1}):
        buffer = nest.name_of_buffer(product.filters.memref)
        held = f"{product.together} filters for each lane side by side"
        raise nest.error("dot", f"{buffer} does not hold {held}")
    if any(lane in form.terms or step in form.terms for form in filters[:-2]):
        raise nest.error("dot", f"filters of one {name_of(loop)} lie in several places")


def _stride(forms: list[LinearForm], index: SSAValue) -> int:
    """By how much the last subscript grows with an index; -1 where another one does."""
    *outer, last = forms
    if any(index in form.terms for form in outer):
        return -1
    return last.terms.get(index, 0)


def _replace(loop: affine.ForOp, product: _Product, fits_pairs: bool) -> None:
    (inner,) = body_of(loop)
    assert isinstance(inner, affine.ForOp)
    zero = {index_of(loop): LinearForm(), index_of(inner): LinearForm()}
    lanes = extent_of(loop)
    together, is_pair = product.together, product.together == PAIR
    sums = _whole(product.sums, zero, VectorType(f32 if is_pair else i32, [lanes]))
    few = _whole(product.bytes, zero, VectorType(_element(product.bytes), [together]))
    kind = VectorType(_element(product.filters), [together * lanes])
    filters = _whole(product.filters, zero, kind)
    form = "splits_signs" if product.splits_signs else "fits_pairs" if fits_pairs else None
    added = (DotPairsOp if is_pair else DotOp).create(
        operands=[sums.results[0], few.results[0], filters.results[0]],
        result_types=[sums.results[0].type],
        properties={form: UnitAttr()} if form else {},
    )
    _put(loop, [sums, few, filters, added], product.store, zero)


def _replace_unsigned(loop: affine.ForOp, products: list[_Product]) -> None:
    """One dot product after another, with the halves of the same bytes."""
    (inner,) = body_of(loop)
    assert isinstance(inner, affine.ForOp)
    zero = {index_of(loop): LinearForm(), index_of(inner): LinearForm()}
    first, lanes = products[0], extent_of(loop)
    sums = _whole(first.sums, zero, VectorType(i32, [lanes]))
    kind = VectorType(_element(first.filters), [PRODUCTS * lanes])
    filters = _whole(first.filters, zero, kind)
    made: list[Operation] = [sums, filters]
    total = sums.results[0]
    for product in products:
        few = _whole(product.bytes, zero, VectorType(i8, [PRODUCTS]))
        added = DotUnsignedOp.create(
            operands=[total, few.results[0], filters.results[0]],
            result_types=[total.type],
            properties={"half": StringAttr(product.half)} if product.half else {},
        )
        made += [few, added]
        total = added.result
    _put(loop, made, first.store, zero)


def _put(
    loop: affine.ForOp,
    made: Sequence[Operation],
    store: affine.StoreOp,
    zero: dict[SSAValue, LinearForm],
) -> None:
    """The operations in place of the loop, and a store of the vector that the last one makes."""
    indices, access_map = linear_map([f.substitute(zero) for f in linear_subscripts(store)])
    stored = affine.VectorStoreOp.create(
        operands=[made[-1].results[0], store.memref, *indices], properties={"map": access_map}
    )
    for op in (*made, stored):
        op.location = store.location
    block = loop.parent
    assert block is not None
    block.insert_ops_before([*made, stored], loop)
    block.detach_op(loop)
    loop.erase()


def _whole(
    load: affine.LoadOp, zero: dict[SSAValue, LinearForm], kind: VectorType
) -> affine.VectorLoadOp:
    """A vector that begins where a load stands in the first iteration."""
    indices, access_map = linear_map([form.substitute(zero) for form in linear_subscripts(load)])
    whole = affine.VectorLoadOp.create(
        operands=[load.memref, *indices], result_types=[kind], properties={"map": access_map}
    )
    whole.results[0].name_hint = load.result.name_hint
    return whole


def _element(load: affine.LoadOp) -> Attribute:
    kind = load.memref.type
    assert isinstance(kind, MemRefType)
    return kind.element_type
