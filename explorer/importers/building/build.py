"""What converters build with: operations appended to the block that is being imported.

    x = node.operand(0).sigmoid()                   an `Expr`: see expr.py
    y = x.reshape([x.dim(0), -1])                   sizes may be another value's
    z = build.value(ConvOp, [y, w, None], ...)      any other operation

Every operation gets the location of the node that is being converted; identities and
origins are given at the end of the node, when it is clear which operations make its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar  # Any: a number of whichever type an array has

import numpy as np
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, SSAValues

from explorer.importers.building.expr import (
    Axis,
    Expr,
    Operand,
    Size,
    Value,
    all_plain,
    plain,
    plain_operand,
)
from explorer.importers.building.knowledge import Knowledge
from explorer.importers.building.limits import check_size
from explorer.ir.operation import PropertyValue, TopOperation
from explorer.ir.origins import location_of
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.top.control import IfOp, LoopOp
from explorer.ir.top.data import ReturnOp, WeightOp, weight_type
from explorer.ir.top.elementwise import BinaryOp, CastOp, SelectOp, UnaryOp
from explorer.ir.top.indexing import GatherOp, IndexingOperation
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp, fill_properties
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import TO_THE_END, SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.top.shapes import ShapeOp
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    element_type_from_numpy,
    element_type_of,
    is_static,
    numpy_dtype,
    static_shape,
    tensor_type,
)
from explorer.ir.weights import Weights

AnyTopOperation = TypeVar("AnyTopOperation", bound=TopOperation)


class Unsupported(Exception):
    """What a node asks for cannot be expressed; the message says why."""


class Undecided(Unsupported):
    """What decides the form of a node is known in a run only."""


@dataclass
class Build:
    """The block under construction."""

    weights: Weights
    knowledge: Knowledge
    block: Block
    source: str = ""
    """Name of the node that is being converted."""
    created: list[Operation] = field(default_factory=list)
    """What was made for that node, in order."""

    # -- operations ----------------------------------------------------------------------------
    def operation(
        self,
        kind: type[AnyTopOperation],
        operands: Sequence[Operand],
        /,
        **properties: PropertyValue | Attribute | None,
    ) -> AnyTopOperation:
        """Appends an operation with inferred result types."""
        op = kind.make([plain_operand(o) for o in operands], **properties)  # pyright: ignore[reportArgumentType]
        shapes = self.knowledge.result_shapes(op)
        if shapes is not None:
            types = [
                tensor_type(element_type_of(result), shape)
                for result, shape in zip(op.results, shapes, strict=True)
            ]
            op.results = SSAValues(OpResult(t, op, index) for index, t in enumerate(types))
        if isinstance(op, IndexingOperation):
            indices = self.stored(op.operands[1])
            if indices is not None:
                op.check_indices(indices)
        return self.append(op)

    def value(
        self,
        kind: type[TopOperation],
        operands: Sequence[Operand],
        /,
        **properties: PropertyValue | Attribute | None,
    ) -> Expr:
        """Appends an operation and returns its first result."""
        return self.values(kind, operands, **properties)[0]

    def values(
        self,
        kind: type[TopOperation],
        operands: Sequence[Operand],
        /,
        **properties: PropertyValue | Attribute | None,
    ) -> list[Expr]:
        """Appends an operation and returns its results."""
        return self.exprs(self.operation(kind, operands, **properties).results)

    def expr(self, value: Value) -> Expr:
        """A value with its operators."""
        return value if isinstance(value, Expr) else Expr(self, value)

    def exprs(self, values: Iterable[Value]) -> list[Expr]:
        return [self.expr(value) for value in values]

    def results(self, op: TopOperation) -> list[Expr]:
        """Appends an operation that is made already and returns its results."""
        return self.exprs(self.append(op).results)

    def append(self, op: AnyTopOperation) -> AnyTopOperation:
        """Appends an operation; ModelError where a result is larger than this machine's memory."""
        for result in op.results:
            if is_static(result):
                item_bytes = numpy_dtype(element_type_of(result)).itemsize
                check_size(static_shape(result), item_bytes, "a result", self.source)
        op.location = location_of([self.source] if self.source else [])
        self.block.add_op(op)
        self.created.append(op)
        return op

    def weight(self, array: np.ndarray, name: str = "", kind: QuantizedType | None = None) -> Expr:
        """A constant, of quantized numbers if asked. Without a name it is called after the node."""
        array = np.asarray(array)
        stored = self.weights.add(name or f"{self.source}.constant", array)
        result = weight_type(array) if kind is None else tensor_type(kind, array.shape)
        return self.results(WeightOp.make([], [result], weight=stored))[0]

    def scalar_like(self, number: float, value: Value) -> Expr:
        """A constant of rank 0 with the value's element type."""
        return self.weight(np.array(number, self.dtype(value)))

    # -- control flow ------------------------------------------------------------------------------
    @contextmanager
    def inside(self, types: Sequence[Attribute]) -> Iterator[Block]:
        """Everything built meanwhile stands in a block of its own."""
        outer, self.block = self.block, Block(arg_types=types)
        try:
            yield self.block
        except Exception:
            discard(self.block)
            raise
        finally:
            self.block = outer

    def arguments(self, block: Block) -> list[Expr]:
        return self.exprs(block.args)

    def end(self, block: Block, values: Iterable[Value]) -> Region:
        """The region of a block that returns these values."""
        block.add_op(ReturnOp.make([all_plain(values)], []))
        return Region(block)

    def branch(self, condition: Value, if_true: Region, if_false: Region) -> list[Expr]:
        """What one of two regions returns. ValueError where their results do not fit."""
        return self.results(IfOp.make_with_regions(plain(condition), if_true, if_false))

    def loop(
        self,
        body: Region,
        states: Sequence[Value],
        scans: int = 0,
        *,
        trip_count: int | None = None,
        count: Value | None = None,
        condition: Value | None = None,
    ) -> list[Expr]:
        """The last states and the rows of a `top.loop`. ValueError where states do not fit."""
        sizes = None if trip_count is not None else self.knowledge.sizes(count)
        op = LoopOp.make_with_body(
            body,
            all_plain(states),
            scans,
            trip_count=trip_count,
            count=None if count is None else plain(count),
            condition=None if condition is None else plain(condition),
            length=sizes[0] if sizes else None,
        )
        return self.results(op)

    # -- questions -------------------------------------------------------------------------------
    def shape(self, value: Value) -> Shape:
        return self.expr(value).shape

    def rank(self, value: Value) -> int:
        return len(self.shape(value))

    def size(self, value: Value, axis: int) -> int | None:
        """Size of an axis; None where it is symbolic."""
        size = self.shape(value)[axis]
        return size if isinstance(size, int) else None

    def sizes(self, value: Value, axes: Sequence[int], purpose: str) -> list[int]:
        """Sizes of axes that must be known."""
        shape = self.shape(value)
        found = [shape[axis] for axis in axes]
        numbers = [s for s in found if isinstance(s, int)]
        if len(numbers) != len(found):
            raise Undecided(
                f"{purpose} needs sizes that are known; the operand has shape {_text(shape)} "
                "(give symbolic dimensions a size)"
            )
        return numbers

    def dtype(self, value: Value) -> np.dtype:
        return self.expr(value).dtype

    def is_float(self, value: Value) -> bool:
        return self.expr(value).is_float

    def axis(self, axis: int, rank: int) -> int:
        """The axis counted from the front; ValueError where there is none."""
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} of a tensor with {rank} dimensions")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        return sorted({self.axis(a, rank) for a in axes})

    def stored(self, value: Value | None) -> np.ndarray | None:
        """Contents of a weight of the model; None for anything that is computed."""
        is_weight = value is not None and isinstance(plain(value).owner, WeightOp)
        return self.knowledge.array(value) if is_weight else None

    def name_of(self, value: Value) -> str:
        """Name of a weight of the model; the node's for anything that is computed."""
        made = plain(value).owner
        return made.weight.data if isinstance(made, WeightOp) else self.source

    def is_true(self, value: Value | None) -> bool | None:
        """Contents of a boolean that may decide a shape; None where they are not known."""
        array = self.knowledge.needed(value)
        return None if array is None else bool(array.item())

    def known(self, value: Value | None, purpose: str) -> np.ndarray:
        """Contents that must be known while importing; they may be computed from shapes."""
        array = self.knowledge.needed(value)
        if array is None:
            raise Undecided(f"{purpose} depends on the inputs")
        return array

    def scalar(self, value: Value | None, purpose: str) -> Any:  # int, float or bool by its type
        """The one number of contents that must be known. ValueError for several, or none."""
        array = self.known(value, purpose)
        if array.size != 1:
            raise ValueError(f"{purpose} has {array.size} elements; one expected")
        return array.item()

    def integers(self, value: Value | None, purpose: str) -> list[int]:
        return [int(i) for i in self.known(value, purpose).reshape(-1)]

    # -- families that many converters need -----------------------------------------------------
    def unary(
        self, kind: str, x: Value, alpha: float | None = None, beta: float | None = None
    ) -> Expr:
        return self.value(UnaryOp, [x], kind=kind, alpha=alpha, beta=beta)

    def binary(self, kind: str, left: Value, right: Value) -> Expr:
        return self.value(BinaryOp, [left, right], kind=kind)

    def scaled(self, x: Value, factor: float) -> Expr:
        """x * factor; x itself for 1."""
        return self.expr(x) if factor == 1.0 else self.binary("mul", x, self.scalar_like(factor, x))

    def cast(self, x: Value, dtype: np.dtype | type) -> Expr:
        """x in another element type; x itself where it has it already."""
        target = element_type_from_numpy(np.dtype(dtype))
        x = self.expr(x)
        return x if x.element_type == target else self.value(CastOp, [x], to=target)

    def wide(self, x: Value) -> Expr:
        """x in f32 where it has fewer bits: statistics of narrow floats are computed in f32."""
        return self.expr(x) if self.dtype(x).itemsize >= 4 else self.cast(x, np.float32)

    def of_one_float(self, values: Sequence[Value]) -> list[Expr]:
        """The values in the type that all have, or else in the narrowest of f32 and f64 that holds
        every one of them."""
        types = {self.dtype(value) for value in values}
        if len(types) == 1:
            return self.exprs(values)
        widest = np.float64 if np.dtype(np.float64) in types else np.float32
        return [self.cast(value, widest) for value in values]

    def floor_quotient(self, left: Value, right: Value) -> Expr:
        """left / right of integers, rounded downwards: 1 less than in C where signs differ."""
        quotient = self.binary("div", left, right)
        if self.dtype(left).kind != "i":
            return quotient
        zero = self.scalar_like(0, left)
        signs = [self.binary("less", value, zero) for value in (left, right)]
        is_whole = self.binary("equal", self.binary("mod", left, right), zero)
        is_less = self.binary("and", self.binary("xor", *signs), self.unary("not", is_whole))
        return self.binary("sub", quotient, self.cast(is_less, self.dtype(left)))

    def matmul(self, left: Value, right: Value, bias: Value | None = None) -> Expr:
        return self.value(MatMulOp, [left, right, bias, None])

    def transpose(self, x: Value, permutation: Sequence[int]) -> Expr:
        if list(permutation) == list(range(len(permutation))):
            return self.expr(x)
        return self.value(TransposeOp, [x], permutation=list(permutation))

    def concat(self, values: Sequence[Value], axis: int) -> Expr:
        return (
            self.expr(values[0]) if len(values) == 1 else self.value(ConcatOp, [values], axis=axis)
        )

    def gather(self, x: Value, indices: np.ndarray | Expr, axis: int) -> Expr:
        """Slices of an axis at positions."""
        if isinstance(indices, np.ndarray):
            indices = self.weight(indices.astype(np.int64))
        return self.value(GatherOp, [x, indices], axis=axis)

    def padded(self, x: Value, low: Sequence[int], high: Sequence[int], value: float = 0.0) -> Expr:
        """x with elements of a value before and behind those of each axis; x itself for none."""
        if not any((*low, *high)):
            return self.expr(x)
        interior = [0] * self.rank(x)
        fill = fill_properties(value)
        return self.value(PadOp, [x, None], low=low, high=high, interior=interior, **fill)

    def reduce(self, kind: str, x: Value, axes: Sequence[int], keepdims: bool = False) -> Expr:
        """x reduced along axes; x itself for none."""
        if not axes:
            return self.expr(x)
        return self.value(ReduceOp, [x], kind=kind, axes=list(axes), keepdims=keepdims)

    def select(self, condition: Value, if_true: Value, if_false: Value) -> Expr:
        return self.value(SelectOp, [condition, if_true, if_false])

    def slice(self, x: Value, axis: int, start: int, stop: int) -> Expr:
        """Elements of one axis, bounds as in Python's slices."""
        return self.slices(x, {axis: (start, stop, 1)})

    def slices(self, x: Value, bounds: Mapping[int, tuple[int, int, int]]) -> Expr:
        """Elements of some axes; (start, stop, step) as `top.slice` has them."""
        everything = (0, TO_THE_END, 1)
        chosen = [bounds.get(axis, everything) for axis in range(self.rank(x))]
        return self.value(
            SliceOp,
            [x, None, None, None],
            starts=[start for start, _, _ in chosen],
            stops=[stop for _, stop, _ in chosen],
            steps=[step for _, _, step in chosen],
        )

    # -- shapes ------------------------------------------------------------------------------------
    def all_sizes(self, value: Value) -> list[Size]:
        return [Axis(plain(value), axis) for axis in range(self.rank(value))]

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Expr:
        """x in another shape. At most one size may be -1; unknown ones are computed."""
        return self._shaped(ReshapeOp, x, sizes, can_infer=True)

    def expand(self, x: Value, sizes: Sequence[Size]) -> Expr:
        """x repeated along axes of size 1 (and new leading ones) to a shape."""
        return self._shaped(ExpandOp, x, sizes, can_infer=False)

    def _shaped(
        self, kind: type[TopOperation], x: Value, sizes: Sequence[Size], can_infer: bool
    ) -> Expr:
        """The shape is a property where it can be said in numbers, else an operand."""
        found = [self._resolved(s) for s in sizes]
        numbers = [s if isinstance(s, int) else -1 for s in found]
        if numbers.count(-1) <= (1 if can_infer else 0):
            return self.value(kind, [x, None], shape=numbers)
        return self.value(kind, [x, self.shape_vector(sizes)])

    def _resolved(self, size: Size) -> Dim:
        """The size where it is known, else the expression that says it, or "?"."""
        if isinstance(size, SSAValue):
            found = self.knowledge.sizes(size)
            return UNKNOWN if found is None else found[0]
        return self.shape(size.value)[size.axis] if isinstance(size, Axis) else size

    def shape_vector(self, sizes: Sequence[Size]) -> Expr:
        """The sizes as an i64 vector, computed where they are not known."""
        parts = []
        for size in sizes:
            found = self._resolved(size)
            if isinstance(found, int):
                parts.append(self.weight(np.array([found], np.int64)))
            elif isinstance(size, SSAValue):
                parts.append(self.reshape(self.cast(size, np.int64), [1]))
            else:
                assert isinstance(size, Axis)
                axis = size.axis
                parts.append(self.value(ShapeOp, [size.value], start=axis, end=axis + 1))
        return self.concat(parts, 0)

    def times(self, size: Size, factor: int) -> Size:
        """A multiple of a size, computed where it is not known."""
        found = self._resolved(size)
        if isinstance(found, int):
            return found * factor
        return plain(self.shape_vector([size]) * self.weight(np.array([factor], np.int64)))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Expr:
        dropped = self.axes(axes, self.rank(x))
        return self.reshape(x, [s for a, s in enumerate(self.all_sizes(x)) if a not in dropped])

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Expr:
        """`axes` count in the result."""
        rank = self.rank(x) + len(axes)
        new = self.axes(axes, rank)
        if len(new) != len(axes):
            raise ValueError(f"axes {list(axes)} name an axis twice")
        sizes = iter(self.all_sizes(x))
        return self.reshape(x, [1 if axis in new else next(sizes) for axis in range(rank)])


def discard(block: Block, behind: Operation | None = None) -> None:
    """Erases the operations of a block (behind one of them), so that they are no users of values
    any more."""
    while block.last_op is not None and block.last_op is not behind:
        block.erase_op(block.last_op)


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"
