"""Compute definitions: what an operation computes, as `linalg.generic` over memrefs.

A kernel is a `func.func` whose arguments are buffers. Its body is a list of *statements*:

    linalg.generic   iteration domain + affine accesses + scalar body      (KernelBuilder.generic)
    affine.for nest  with memref.load / memref.store, where the access
                     depends on data (gather, argmax, recurrences)         (KernelBuilder.nest)

Example, a convolution without padding:

    k = KernelBuilder("conv")
    x = k.argument("x", (1, 3, 10, 10), f32, "input")
    w = k.argument("w", (8, 3, 3, 3), f32, "weight")
    y = k.argument("y", (1, 8, 8, 8), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(n=1, o=8, i=8, j=8, c=3, p=3, q=3)
    k.generic("main", [(x, (n, c, i + p, j + q)), (w, (o, c, p, q))], (y, (n, o, i, j)),
              lambda s, x, w, y: y + x * w, reductions="c p q", accumulates=True)
    function = k.finish(kind="convolution")

The scheduler (`explorer.kernels`) turns statements into loop nests; nothing here knows about
layouts, vectors or threads.

Elements narrower than 32 bits (f16, bf16, f8, f4) and integers narrower than 8 are stored as they
are and computed in f32 (i8): loads are widened where arithmetic meets them, and what is stored is
rounded once. A result that a definition reads again (a sum) is held wide until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from explorer.ir.scalars import Scalar, constant_scalar
from explorer.ir.types import arithmetic_type

MAX_ELEMENTS = 2**48
"""Of one buffer: more than any machine holds, and few enough to count bytes with."""
ROLES = ("input", "weight", "output", "scratch")
STAGES = ("halo", "init", "main", "epilogue", "plain")

Subscript = AffineExpr | int

INDEX = IndexType()


@dataclass(frozen=True)
class Dimension:
    """One loop of an iteration domain: its name, extent and the affine expression that names it."""

    name: str
    extent: int


@dataclass(frozen=True)
class Buffer:
    """A memref argument of a kernel. `role` is one of ROLES."""

    name: str
    role: str
    value: SSAValue

    @property
    def type(self) -> MemRefType[Attribute]:
        assert isinstance(self.value.type, MemRefType)
        return self.value.type


class Statement(GenericOp):
    """A `linalg.generic` that knows its iteration domain (`loop.dims`).

    Plain linalg reads loop ranges back off operand shapes. That has no answer where a loop never
    stands alone in a subscript (a pooling window, the interior of a haloed buffer), so here the
    extents are stated, and the verifier checks every access against them.
    """

    def verify_(self) -> None:
        self.get_irdl_definition().verify(self)
        extents = [d.extent for d in statement_dimensions(self)]
        for operand, attribute in zip(self.operands, self.indexing_maps.data, strict=True):
            assert isinstance(operand.type, MemRefType)
            name = operand.name_hint or "a buffer"
            for axis, (subscript, size) in enumerate(
                zip(attribute.data.results, operand.type.get_shape(), strict=True)
            ):
                lowest, highest = subscript_range(subscript, extents)
                if lowest < 0 or highest >= size:
                    raise VerifyException(
                        f"dimension {axis} of {name} has {size} elements, and "
                        f"{subscript} reaches from {lowest} to {highest}"
                    )


def subscript_range(subscript: AffineExpr, extents: Sequence[int]) -> tuple[int, int]:
    """Smallest and largest value of a linear subscript over an iteration domain."""
    if isinstance(subscript, AffineConstantExpr):
        return subscript.value, subscript.value
    if isinstance(subscript, AffineDimExpr):
        return 0, extents[subscript.position] - 1
    assert isinstance(subscript, AffineBinaryOpExpr), subscript
    left = subscript_range(subscript.lhs, extents)
    right = subscript_range(subscript.rhs, extents)
    if subscript.kind is AffineBinaryOpKind.Add:
        return left[0] + right[0], left[1] + right[1]
    if subscript.kind is AffineBinaryOpKind.Mul:
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    raise VerifyException(f"{subscript} is not linear")


class ScalarBuilder:
    """First argument of a statement's body: makes constants and, in nests, loads and stores."""

    def __init__(self, block: Block, element_type: Attribute | None):
        self.block = block
        self.element_type = element_type

    def constant(self, value: float, element_type: Attribute | None = None) -> Scalar:
        chosen = element_type or self.element_type
        assert chosen is not None, "a constant in a nest needs its element type"
        return constant_scalar(self.block, value, chosen)

    def index(self, value: int) -> Scalar:
        return constant_scalar(self.block, value, INDEX)

    def load(self, buffer: Buffer, indices: Sequence[Scalar]) -> Scalar:
        """Loads one element; the indices are index scalars, data-dependent ones allowed."""
        op = memref.LoadOp.get(buffer.value, [i.value for i in indices])
        op.results[0].name_hint = buffer.name
        self.block.add_op(op)
        return Scalar(self.block, op.results[0])

    def store(self, value: Scalar, buffer: Buffer, indices: Sequence[Scalar]) -> None:
        stored = _as_stored(value, buffer)
        self.block.add_op(
            memref.StoreOp.get(stored.value, buffer.value, [i.value for i in indices])
        )


def _as_stored(value: Scalar, buffer: Buffer) -> Scalar:
    """A value in the buffer's element type, where only one of both is for storage."""
    element_type = buffer.type.element_type
    is_alike = arithmetic_type(value.value.type) == arithmetic_type(element_type)
    return value.convert(element_type) if is_alike else value


class KernelBuilder:
    """Builds one kernel function out of statements."""

    def __init__(self, name: str):
        self.name = name
        self._block = Block()
        self._roles: list[str] = []
        self._names: list[str] = []
        self._dimensions: list[Dimension] = []
        self._narrow: list[tuple[SSAValue, Buffer]] = []
        """Outputs of a type for storage, each with the wide buffer that statements write."""

    def argument(
        self, name: str, shape: Sequence[int], element_type: Attribute, role: str
    ) -> Buffer:
        """A buffer argument, shape in elements; a scalar has shape (1,).

        Intermediate results are wide; an output of a narrow type is wide until `finish`.
        NotImplementedError for one that no machine could hold (with a halo, say, of huge pads).
        """
        assert role in ROLES, role
        if prod(shape) > MAX_ELEMENTS:
            size = "x".join(map(str, shape))
            raise NotImplementedError(f"a buffer of {size} elements is larger than any memory")
        wide = arithmetic_type(element_type)
        if role == "output" and wide != element_type:
            narrow = self._add_argument(name, shape, element_type, role)
            held = self._add_argument(f"{name}_wide", shape, wide, "scratch")
            self._narrow.append((narrow.value, held))
            return held
        return self._add_argument(name, shape, wide if role == "scratch" else element_type, role)

    def _add_argument(
        self, name: str, shape: Sequence[int], element_type: Attribute, role: str
    ) -> Buffer:
        value = self._block.insert_arg(MemRefType(element_type, list(shape)), len(self._block.args))
        value.name_hint = name
        self._roles.append(role)
        self._names.append(name)
        return Buffer(name, role, value)

    def dimensions(self, **extents: int) -> tuple[AffineExpr, ...]:
        """Declares the iteration domain of the next `generic`, in iteration order."""
        self._dimensions = [Dimension(n, e) for n, e in extents.items()]
        return tuple(AffineExpr.dimension(i) for i in range(len(extents)))

    def generic(
        self,
        stage: str,
        reads: Sequence[tuple[Buffer, Sequence[Subscript]]],
        write: tuple[Buffer, Sequence[Subscript]],
        body: Callable[..., Scalar],
        reductions: str = "",
        accumulates: bool = False,
    ) -> GenericOp:
        """One statement over the declared domain; none where a dimension is empty.

        `body` receives a ScalarBuilder, one Scalar for every read and, if `accumulates`, the
        output's present value; it returns what is stored. `reductions` names the dimensions
        (separated by blanks) over which the output is updated repeatedly.
        """
        assert stage in STAGES, stage
        reduced = set(reductions.split())
        accesses = [*reads, write]
        element_types = [buffer.type.element_type for buffer, _ in accesses]
        block = Block(arg_types=element_types)
        for (buffer, _), argument in zip(accesses, block.args, strict=True):
            argument.name_hint = buffer.name
        scalars = [Scalar(block, argument) for argument in block.args]
        given = scalars if accumulates else scalars[:-1]
        result = _as_stored(body(ScalarBuilder(block, element_types[-1]), *given), write[0])
        block.add_op(LinalgYieldOp(result.value))
        iterators = [
            IteratorTypeAttr.reduction() if d.name in reduced else IteratorTypeAttr.parallel()
            for d in self._dimensions
        ]
        op = Statement(
            [buffer.value for buffer, _ in reads],
            [write[0].value],
            Region(block),
            [self._map(subscripts) for _, subscripts in accesses],
            iterators,
        )
        op.attributes["loop.dims"] = ArrayAttr(
            [StringAttr(f"{d.name}={d.extent}") for d in self._dimensions]
        )
        op.attributes["loop.stage"] = StringAttr(stage)
        if all(d.extent for d in self._dimensions):
            self._block.add_op(op)
        return op

    def nest(
        self,
        extents: Mapping[str, int],
        body: Callable[..., None],
        parallel: str = "",
    ) -> None:
        """An explicit loop nest, none where an extent is 0.

        `body` receives a ScalarBuilder and one index Scalar per loop.

        `parallel` names the outer loops (separated by blanks) whose iterations are independent.
        Data-dependent indices must be kept in range by the body (see `clamp_index`).
        """
        if not all(extents.values()):
            return
        outer: affine.ForOp | None = None
        parent = self._block
        indices: list[SSAValue] = []
        independent = set(parallel.split())
        for name, extent in extents.items():
            loop = make_loop(0, extent, name)
            if name in independent:
                loop.attributes["loop.independent"] = StringAttr("true")
            indices.append(loop.body.block.args[0])
            _insert_before_yield(parent, loop)
            parent = loop.body.block
            outer = outer or loop
        assert outer is not None, "a nest needs at least one loop"
        scratch = Block()
        body(ScalarBuilder(scratch, None), *[Scalar(scratch, i) for i in indices])
        for op in list(scratch.ops):
            op.detach()
            _insert_before_yield(parent, op)

    def finish(self, kind: str, parameters: Mapping[str, int] | None = None) -> func.FuncOp:
        """Closes the function. `kind` names the family that the scheduler chooses by:

        convolution, depthwise, matmul, elementwise, pool, reduce, copy, plain, explicit.
        """
        for narrow, wide in reversed(self._narrow):
            self._finish_narrow(narrow, wide)
        self._block.add_op(func.ReturnOp())
        function = func.FuncOp(
            self.name, ([a.type for a in self._block.args], []), Region(self._block)
        )
        function.attributes["kernel.kind"] = StringAttr(kind)
        function.attributes["kernel.roles"] = ArrayAttr([StringAttr(r) for r in self._roles])
        function.attributes["kernel.names"] = ArrayAttr([StringAttr(n) for n in self._names])
        for name, value in (parameters or {}).items():
            function.attributes[f"kernel.{name}"] = IntegerAttr(value, 64)
        return function

    def _finish_narrow(self, narrow: SSAValue, wide: Buffer) -> None:
        """What was written wide is rounded: where it is stored, or at the end if it is read."""
        uses = [use.operation for use in wide.value.uses]
        if any(_reads(op, wide.value) for op in uses):
            shape = wide.type.get_shape()
            d = self.dimensions(**{f"d{axis}": size for axis, size in enumerate(shape)})
            target = Buffer(wide.name.removesuffix("_wide"), "output", narrow)
            self.generic("plain", [(wide, d)], (target, d), lambda s, x: x)
            return
        for op in uses:
            _store_into(op, wide.value, narrow)
        position = wide.value.index  # pyright: ignore[reportAttributeAccessIssue]
        self._block.erase_arg(wide.value)  # pyright: ignore[reportArgumentType]
        del self._roles[position], self._names[position]

    def _map(self, subscripts: Sequence[Subscript]) -> AffineMapAttr:
        expressions = [AffineExpr.constant(s) if isinstance(s, int) else s for s in subscripts]
        return AffineMapAttr(AffineMap(len(self._dimensions), 0, tuple(expressions)))


def _reads(op: Operation, buffer: SSAValue) -> bool:
    """Whether a statement, or an operation of a nest, reads the buffer that it uses."""
    if isinstance(op, Statement):
        return buffer in op.inputs or op.body.block.args[-1].first_use is not None
    return not isinstance(op, memref.StoreOp)


def _store_into(op: Operation, old: SSAValue, new: SSAValue) -> None:
    """Lets an operation that only writes write into another buffer, rounding what it stores."""
    op.operands = [new if operand is old else operand for operand in op.operands]
    assert isinstance(new.type, MemRefType)
    if isinstance(op, Statement):
        block = op.body.block
        Rewriter.replace_value_with_new_type(block.args[-1], new.type.element_type)
        op = block.last_op  # pyright: ignore[reportAssignmentType]
    scratch = Block()
    stored = _source_of(op.operands[0], new.type.element_type, scratch)
    for conversion in list(scratch.ops):
        conversion.detach()
        assert op.parent is not None
        op.parent.insert_op_before(conversion, op)
    op.operands[0] = stored


def _source_of(value: SSAValue, element_type: Attribute, scratch: Block) -> SSAValue:
    """The value rounded to a type; what it was widened from, if that has the type already."""
    owner = value.owner
    is_widened = isinstance(owner, arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp)
    if is_widened and owner.operands[0].type == element_type:
        return owner.operands[0]
    return Scalar(scratch, value).convert(element_type).value


def clamp_index(s: ScalarBuilder, index: Scalar, extent: int) -> Scalar:
    """Python's negative indices resolved, then kept inside [0, extent): no data leaves a buffer."""
    zero, size = s.index(0), s.index(extent)
    wrapped = index.compare("lt", zero).select(index + size, index)
    return wrapped.maximum(zero).minimum(s.index(extent - 1))


def make_loop(lower: int, upper: int, name: str) -> affine.ForOp:
    """An empty `affine.for` named `name` (attribute loop.name and the index's name hint)."""
    block = Block([affine.YieldOp.create()], arg_types=[INDEX])
    block.args[0].name_hint = name
    return affine.ForOp.create(
        properties=dict(_loop_properties(lower, upper)),
        attributes={"loop.name": StringAttr(name)},
        regions=[Region(block)],
    )


@lru_cache(maxsize=4096)
def _loop_properties(lower: int, upper: int) -> Mapping[str, Attribute]:
    """What makes a loop go from `lower` to `upper`: immutable, so that loops can share it."""
    empty = Region(Block([affine.YieldOp.create()], arg_types=[INDEX]))
    loop = affine.ForOp.from_region([], [], [], [], lower, upper, empty)
    return MappingProxyType(loop.properties)


def _insert_before_yield(block: Block, op: Operation) -> None:
    last = block.last_op
    if isinstance(last, affine.YieldOp):
        block.insert_op_before(op, last)
    else:
        block.add_op(op)


def statement_dimensions(op: Operation) -> list[Dimension]:
    """The named iteration domain of a statement made by `KernelBuilder.generic`."""
    names = op.attributes["loop.dims"]
    assert isinstance(names, ArrayAttr)
    pairs = [str(a.data).split("=") for a in names.data if isinstance(a, StringAttr)]
    return [Dimension(name, int(extent)) for name, extent in pairs]


__all__ = [
    "AffineConstantExpr",
    "AffineDimExpr",
    "Buffer",
    "Dimension",
    "KernelBuilder",
    "Scalar",
    "ScalarBuilder",
    "clamp_index",
    "constant_scalar",
    "make_loop",
    "statement_dimensions",
]
