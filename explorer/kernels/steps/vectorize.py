"""Step vectorize: an innermost loop becomes vector operations of its extent.

    for oi in 16:                          %w = affine.vector_load %weights[..] : vector<16xf32>
      acc[oi] = acc[oi] + x * w[oi]   ->   %x = vector.broadcast %s : f32 to vector<16xf32>
                                           %r = arith.addf %a, arith.mulf %x, %w

Loads that the loop indexes contiguously become vector loads, loads that it doesn't index are
broadcast, and an accumulation over the loop itself becomes `vector.reduction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from xdsl.dialects import affine, arith, math, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.loop_dialect import (
    CompareIntegerLanesOp,
    CompareLanesOp,
    ExtendSignedOp,
    ExtendUnsignedOp,
    FloatToSignedLanesOp,
    HighProductOp,
    NormalCdfOp,
    SelectLanesOp,
    SignedToFloatLanesOp,
    TruncateLanesOp,
    UnsignedToFloatLanesOp,
    UpperProductOp,
)
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    body_of,
    enclosing_loops,
    extent_of,
    index_of,
    linear_map,
    linear_subscripts,
    name_of,
)
from explorer.kernels.steps.dependences import (
    conflict,
    reduction_operation,
    separated,
    written_outside,
)
from explorer.kernels.steps.registers import promote_to_vectors

LANEWISE = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.DivfOp,
    arith.NegfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.CmpfOp,
    arith.SelectOp,
    arith.ExtFOp,
    arith.TruncFOp,
    math.AbsFOp,
    math.CeilOp,
    math.CosOp,
    math.ErfOp,
    math.ExpM1Op,
    math.ExpOp,
    math.FloorOp,
    math.FmaOp,
    math.Log1pOp,
    math.LogOp,
    math.PowFOp,
    math.RoundEvenOp,
    math.RsqrtOp,
    math.SinOp,
    math.SqrtOp,
    math.TanhOp,
    NormalCdfOp,
)
"""Operations that mean the same lane by lane on vectors."""

INTEGER_LANEWISE = (
    arith.AddiOp,
    arith.AndIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    HighProductOp,
    UpperProductOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.MaxSIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
    arith.MinUIOp,
)
"""The same of integers."""

INTEGER_CONVERSIONS = (
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.TruncIOp,
    arith.SIToFPOp,
    arith.UIToFPOp,
    arith.FPToSIOp,
    arith.BitcastOp,
)
"""Between integers of 8 to 32 bits, and from and to f32."""

LANE_FORMS: Mapping[type[Operation], type[Operation]] = MappingProxyType(
    {
        arith.CmpfOp: CompareLanesOp,
        arith.CmpiOp: CompareIntegerLanesOp,
        arith.SelectOp: SelectLanesOp,
        arith.ExtSIOp: ExtendSignedOp,
        arith.ExtUIOp: ExtendUnsignedOp,
        arith.TruncIOp: TruncateLanesOp,
        arith.SIToFPOp: SignedToFloatLanesOp,
        arith.UIToFPOp: UnsignedToFloatLanesOp,
        arith.FPToSIOp: FloatToSignedLanesOp,
    }
)
"""Operations whose vector form is another one."""

COMBINING_KINDS: Mapping[type[Operation], vector.CombiningKindFlag] = MappingProxyType(
    {
        arith.AddfOp: vector.CombiningKindFlag.ADD,
        arith.MulfOp: vector.CombiningKindFlag.MUL,
        arith.MaximumfOp: vector.CombiningKindFlag.MAXIMUMF,
        arith.MinimumfOp: vector.CombiningKindFlag.MINIMUMF,
        arith.AddiOp: vector.CombiningKindFlag.ADD,
    }
)
"""How `vector.reduction` names an associative update."""


def is_same_in_all_lanes(operation: Operation, loop: affine.ForOp) -> bool:
    """Whether an operation inside a loop loads one element in all of its iterations."""
    return isinstance(operation, affine.LoadOp) and index_of(loop) not in operation.indices


def can_vectorize(operation: Operation) -> bool:
    """Whether `vectorize` knows a vector form of an operation inside a loop."""
    if isinstance(operation, arith.ConstantOp):
        return True
    if isinstance(operation, affine.LoadOp | affine.StoreOp):
        kind = operation.memref.type
        return isinstance(kind, MemRefType) and (
            isinstance(kind.element_type, AnyFloat) or _is_lane_integer(kind.element_type)
        )
    if isinstance(operation, INTEGER_LANEWISE):
        return _is_lane_integer(operation.results[0].type)
    if isinstance(operation, arith.CmpiOp):
        return _is_lane_integer(operation.lhs.type)
    if isinstance(operation, arith.ExtUIOp) and operation.input.type == i1:
        return _is_lane_integer(operation.result.type)
    if isinstance(operation, INTEGER_CONVERSIONS):
        values = (operation.operands[0], operation.results[0])
        return all(_is_lane_integer(v.type) or isinstance(v.type, Float32Type) for v in values)
    if not isinstance(operation, LANEWISE):
        return False
    if isinstance(operation, arith.ExtFOp | arith.TruncFOp):
        return all(_has_lanes(v.type) for v in (*operation.operands, *operation.results))
    # Selections of integers, and all of indices, have no vector form.
    value = operation.operands[-1]
    return isinstance(value.type, AnyFloat)


def _has_lanes(kind: Attribute) -> bool:
    """Whether vectors of the type are converted: f32, and what is widened to it in hardware."""
    return isinstance(kind, Float32Type | Float16Type | BFloat16Type)


def _is_lane_integer(kind: Attribute) -> bool:
    return isinstance(kind, IntegerType) and kind.width.data in (8, 16, 32)


def vectorize(nest: LoopNest, loop: str) -> None:
    """Turns all loops of that name into vector operations as wide as their extents.

    Illegal for loops that are not innermost, that a subscript doesn't follow contiguously, whose
    iterations depend on one another, or with an operation that has no vector form.
    """
    for target in nest.loops(loop, "vectorize"):
        _require_vectorizable(nest, target)
    for target in nest.loops(loop, "vectorize"):
        _Vectorizer(nest, target).run()
    promote_to_vectors(nest)
    nest.changed()


def _require_vectorizable(nest: LoopNest, loop: affine.ForOp) -> None:
    name = name_of(loop)
    if not isinstance(loop.parent_op(), affine.ForOp):
        raise nest.error("vectorize", f"{name} is the outermost loop; split it first")
    for op in body_of(loop):
        if isinstance(op, affine.ForOp):
            raise nest.error("vectorize", f"{name} is not innermost: it holds {name_of(op)}")
        if not can_vectorize(op) and not is_same_in_all_lanes(op, loop):
            raise nest.error("vectorize", f"{op.name} in {name} has no vector form")
    index = index_of(loop)
    for access in accesses_in(loop):
        try:
            *outer, last = linear_subscripts(access) or [None]
        except ValueError as reason:
            raise nest.error("vectorize", str(reason)) from reason
        stride = 0 if last is None else last.terms.get(index, 0)
        elsewhere = any(index in form.terms for form in outer if form is not None)
        if elsewhere or stride not in (0, 1):
            raise nest.error(
                "vectorize",
                f"{name} is not contiguous in {nest.name_of_buffer(access.memref)}; pack it or "
                f"choose another loop",
            )
    if conflict(loop) is None:
        return
    around = {index_of(outer) for outer in enclosing_loops(loop)}
    for group in written_outside(loop):
        if separated(group, dict.fromkeys(group, index), around):
            continue  # every lane has elements of its own
        indexed = any(index in form.terms for a in group for form in linear_subscripts(a))
        update = reduction_operation(group)
        if indexed or type(update) not in COMBINING_KINDS:
            raise nest.error(
                "vectorize",
                f"iterations of {name} depend on one another through "
                f"{nest.name_of_buffer(group[0].memref)}",
            )


@lru_cache(maxsize=1024)
def _vector_type(element_type: Attribute, lanes: int) -> VectorType:
    return VectorType(element_type, [lanes])


class _Vectorizer:
    """Rewrites one loop; `vectors` maps scalars of the loop to the vectors of all its lanes."""

    def __init__(self, nest: LoopNest, loop: affine.ForOp):
        self.nest = nest
        self.loop = loop
        self.index = index_of(loop)
        self.width = extent_of(loop)
        self.vectors: dict[SSAValue, SSAValue] = {}
        self.broadcasts: dict[SSAValue, SSAValue] = {}
        self.result: list[Operation] = []

    def run(self) -> None:
        operations = body_of(self.loop)
        for op in operations:
            op.detach()
        replaced = [op for op in operations if not self._rewrite(op)]
        for op in reversed(replaced):
            op.erase(safe_erase=False)
        kept: list[Operation] = []
        for op in reversed(self.result):
            if _is_dead(op):
                op.erase()
            else:
                kept.append(op)
        block = self.loop.parent
        assert block is not None
        block.insert_ops_before(kept[::-1], self.loop)
        block.erase_op(self.loop)

    def _rewrite(self, op: Operation) -> bool:
        """Appends what an operation becomes; False if something else took its place."""
        if isinstance(op, affine.LoadOp) and self._follows(op):
            indices, access_map = linear_map(self._base(op))
            load = affine.VectorLoadOp.create(
                operands=[op.memref, *indices],
                result_types=[self._vector_of(op.result.type)],
                properties={"map": access_map},
            )
            load.results[0].name_hint = op.result.name_hint
            self.vectors[op.result] = load.results[0]
            return self._replace(op, load)
        if isinstance(op, affine.StoreOp) and self._follows(op):
            indices, access_map = linear_map(self._base(op))
            store = affine.VectorStoreOp.create(
                operands=[self._as_vector(op.value, op), op.memref, *indices],
                properties={"map": access_map},
            )
            return self._replace(op, store)
        if isinstance(op, affine.StoreOp):
            self._reduce_into(op)
            return True
        if any(operand in self.vectors for operand in op.operands):
            # A condition that is the same in all lanes chooses one of two vectors.
            is_choice = isinstance(op, arith.SelectOp) and op.cond not in self.vectors
            operands = [
                operand if is_choice and not index else self._as_vector(operand, op)
                for index, operand in enumerate(op.operands)
            ]
            form = type(op) if is_choice else LANE_FORMS.get(type(op), type(op))
            lanes = form.create(
                operands=operands,
                result_types=[self._vector_of(op.results[0].type)],
                properties=op.properties,
                attributes=op.attributes,
            )
            self.vectors[op.results[0]] = lanes.results[0]
            return self._replace(op, lanes)
        self.result.append(op)
        return True

    def _reduce_into(self, store: affine.StoreOp) -> None:
        """`acc = acc + lanes` over the loop: all lanes are added at once."""
        update = store.value.owner
        if store.value not in self.vectors or not isinstance(update, Operation):
            self.result.append(store)
            return
        before, lanes = update.operands
        if before in self.vectors:
            before, lanes = lanes, before
        kind = vector.CombiningKindAttr(COMBINING_KINDS[type(update)])
        reduction = vector.ReductionOp.create(
            operands=[self.vectors[lanes], before],
            result_types=[before.type],
            properties={"kind": kind, "fastmath": arith.FastMathFlagsAttr("none")},
        )
        reduction.location = store.location
        self.result.append(reduction)
        store.operands[0] = reduction.dest
        self.result.append(store)

    def _replace(self, old: Operation, new: Operation) -> bool:
        new.location = old.location
        self.result.append(new)
        return False

    def _follows(self, access: affine.LoadOp | affine.StoreOp) -> bool:
        return self.index in access.indices

    def _base(self, access: affine.LoadOp | affine.StoreOp) -> list[LinearForm]:
        """The subscripts of the first lane."""
        first_lane = {self.index: LinearForm()}
        return [form.substitute(first_lane) for form in linear_subscripts(access)]

    def _vector_of(self, element_type: Attribute) -> VectorType:
        return _vector_type(element_type, self.width)

    def _as_vector(self, value: SSAValue, user: Operation) -> SSAValue:
        """The vector of a scalar: its lanes, or the same value in every lane."""
        if value in self.vectors:
            return self.vectors[value]
        if value not in self.broadcasts:
            broadcast = vector.BroadcastOp(value, self._vector_of(value.type))
            broadcast.location = user.location
            self.result.append(broadcast)
            self.broadcasts[value] = broadcast.vector
        return self.broadcasts[value]


def _is_dead(op: Operation) -> bool:
    """Operations whose result was absorbed by a reduction, and those before them."""
    return bool(op.results) and all(r.first_use is None for r in op.results)
