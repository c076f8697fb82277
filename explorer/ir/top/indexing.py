"""Indexing by data: gather in ONNX's three forms, and scatter in two.

    top.gather(%table, %ids) {axis = 0}     (30522, 768), (1, 128)  ->  (1, 128, 768)

Negative indices count from the end. In NumPy's meaning an index outside the axis is an error; in
compiled code it is clamped, so that no data can reach outside a buffer. `check_indices` finds such
an index: of constants the importer does, of what is computed `explorer.accuracy.indices`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.gradients import GradientBuild, Term
from explorer.ir.interfaces import (
    ComputesSizes,
    Differentiable,
    Elements,
    Moving,
    RowWise,
    SizeConstrained,
    SizeContents,
    require_rows,
)
from explorer.ir.operation import Access, PropertyValue, TopOperation
from explorer.ir.sizes.dimensions import dimension_of
from explorer.ir.sizes.relations import Relation
from explorer.ir.top.definitions import (
    CHANNELS,
    clear_padding_channels,
    common_extents,
    domain,
    load_element,
    load_index,
    store_element,
)
from explorer.ir.top.sizes import plain_numbers
from explorer.ir.top.support.operands import may_be_same_shape, require_integers, require_same_type
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    element_type_of,
    shape_of,
    static_shape,
    tensor_type,
)


@dataclass(frozen=True)
class Outside:
    """The first of `count` indices that lie outside of what they index."""

    element: tuple[int, ...]
    """Where it stands among the indices."""
    value: int
    axis: int
    extent: int
    """Elements of the axis that it is for: -extent to extent - 1 lie inside."""
    count: int

    def __str__(self) -> str:
        others = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return (
            f"index {self.value} at {list(self.element)}{others} lies outside of axis {self.axis}, "
            f"which has {self.extent} elements"
        )


NO_LIMIT = 2**63 - 1


class IndexingOperation(TopOperation):
    """What they share: the first operand is indexed by the second, an integer tensor."""

    FAMILY: ClassVar[str] = "movement"
    KEEPS_FINITE: ClassVar[bool] = True

    def indexed_axes(self) -> Sequence[int]:
        """The axis that every index is for, or one for each number of the last axis of indices."""
        return (self.get("axis"),)

    def outside(self, indices: np.ndarray, shape: Sequence[Dim]) -> Outside | None:
        """The first index that is outside of an operand of that shape; None where all are inside.

        An axis whose size is not known is taken to be long enough.
        """
        axes = self.indexed_axes()
        sizes = [shape[axis] for axis in axes]
        extents = np.array([size if isinstance(size, int) else NO_LIMIT for size in sizes])
        beyond = (indices >= extents) | (indices < -extents)
        if not beyond.any():
            return None
        element = tuple(int(i) for i in np.argwhere(beyond)[0])
        column = element[-1] if len(axes) > 1 else 0
        return Outside(
            element, int(indices[element]), axes[column], int(extents[column]), int(beyond.sum())
        )

    def check_indices(self, indices: np.ndarray) -> None:
        """ValueError where constant indices reach outside of the first operand."""
        found = self.outside(indices, shape_of(self.operands[0]))
        if found is not None:
            raise ValueError(f"{self.name}: {found}")

    def infer_types(self) -> list[Attribute]:
        x, indices, *updates = self.operands
        require_integers("the indices", indices)
        require_same_type("what is written, and what it is written into,", [x, *updates])
        shape = self.result_shape(shape_of(x), shape_of(indices))
        return [tensor_type(element_type_of(self.operands[0]), shape)]

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        """Shape of the result; ValueError where the operands do not fit."""
        raise NotImplementedError(self.name)

    def define_gather(
        self,
        k: KernelBuilder,
        output: Access,
        source: Callable[[ScalarBuilder, Sequence[Scalar]], Scalar],
    ) -> str:
        """Every element of the result is `source(s, its indices)`, independent of the others."""
        logical = static_shape(self.results[0])
        loops = domain(logical)

        def copy(s: ScalarBuilder, *indices: Scalar) -> None:
            at = indices[: len(logical)]
            store_element(s, source(s, at), output, at)

        k.nest(loops, copy, parallel=" ".join(loops))
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, logical[CHANNELS])
        return "explicit"


def _check_axis(name: str, shape: Shape, axis: int) -> None:
    if not 0 <= axis < len(shape):
        raise ValueError(f"{name}: axis {axis} of {shape}: 0 to {len(shape) - 1} expected")


def _check_not_empty(name: str, size: Dim, indices: Shape) -> None:
    if size == 0 and 0 not in indices:
        raise ValueError(f"{name}: the indexed axis is empty, but there are indices {indices}")


def _check_inside(name: str, shape: Shape, indices: Shape, axis: int) -> None:
    """Indices have the rank of what they index, and are larger than it along `axis` only."""
    if len(indices) != len(shape):
        raise ValueError(f"{name}: indices {indices} have another rank than {shape}")
    for position, (own, size) in enumerate(zip(indices, shape, strict=True)):
        if position == axis or isinstance(own, str) or isinstance(size, str):
            continue
        if own > size:
            raise ValueError(f"{name}: indices {indices} are larger than {shape}")


def _coordinates(name: str, shape: Shape, indices: Shape, batch: int) -> int:
    """How many numbers a coordinate has; ValueError where these do not fit what they index."""
    depth = indices[-1] if indices else 0
    if not 0 <= batch < max(len(indices), 1):
        raise ValueError(f"{name}: {batch} batch dimensions of indices {indices}")
    if not isinstance(depth, int) or not 0 < depth <= len(shape) - batch:
        raise ValueError(
            f"{name}: coordinates of {depth} numbers do not fit {shape} with {batch} batch "
            "dimensions"
        )
    if not may_be_same_shape(shape[:batch], indices[:batch]):
        raise ValueError(f"{name}: {batch} batch dimensions of {shape} and {indices} differ")
    for size in shape[batch : batch + depth]:
        _check_not_empty(name, size, indices)
    return depth


def _check_reduction(reduction: str) -> None:
    if reduction not in SCATTER:
        raise ValueError(f"unknown reduction {reduction!r}; known: {', '.join(SCATTER)}")


@irdl_op_definition
class GatherOp(Differentiable, RowWise, SizeConstrained, ComputesSizes, Moving, IndexingOperation):
    """Slices of `axis` at the given positions: result (before..., indices..., behind...)."""

    name = "top.gather"
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        axis = self.get("axis")
        _check_axis(self.name, shape, axis)
        _check_not_empty(self.name, shape[axis], indices)
        return (*shape[:axis], *indices, *shape[axis + 1 :])

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, indices = operands
        return (np.take(x, indices, axis=self.get("axis")),)

    def on_stored(self, kind: QuantizedType) -> Mapping[str, PropertyValue]:
        if not kind.is_per_tensor:
            raise ValueError("it moves numbers with a scale per slice")
        return {}

    def carried_axis(self, index: int, axis: int) -> int:
        """The same places of every row, or for every row of indices what they name in a table."""
        own = self.get("axis")
        if index:
            return own + axis
        require_rows(axis != own, "it takes rows by their number")
        return axis if axis < own else axis + len(shape_of(self.indices)) - 1

    def size_relations(self, contents: SizeContents) -> Iterator[Relation]:
        """A table has a row for each index that is constant, or that is counted up to a size."""
        rows = shape_of(self.input)[self.get("axis")]
        known = contents.stored(self.indices)
        if isinstance(rows, str) and known is not None and known.size:
            yield "at least", rows, max(int(known.max()) + 1, -int(known.min()))
        end = contents.end(self.indices)
        if end is not None:
            yield "at most", dimension_of(end), rows

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        x, indices = elements(self.input), plain_numbers(elements(self.indices))
        return None if x is None or indices is None else self.evaluate(x, indices)[0]

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, indices = inputs
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]

        def source(s: ScalarBuilder, at: Sequence[Scalar]) -> Scalar:
            behind = axis + indices.rank
            position = load_index(s, indices, at[axis:behind], size)
            return load_element(s, x, [*at[:axis], position, *at[behind:]])

        return self.define_gather(k, output, source)

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """Adds each slice of g where it was taken from."""
        axis, rank = self.get("axis"), build.rank(self.input)
        count = build.rank(self.indices)
        order = [axis, *(a for a in range(rank) if a != axis)]
        zeros = _zeros(self.input, build)
        behind = [a for a in range(build.rank(g)) if not axis <= a < axis + count]
        updates = build.transpose(g, [*range(axis, axis + count), *behind])
        places = build.unsqueeze(_counted(self.indices, self.input, axis, build), [count])
        added = build.value(
            ScatterNdOp, [build.transpose(zeros, order), places, updates], reduction="add"
        )
        return build.transpose(added, np.argsort(order).tolist())


@irdl_op_definition
class GatherElementsOp(Differentiable, IndexingOperation):
    """y[i, j] = x[indices[i, j], j] for axis 0, and so on; the result has the indices' shape."""

    name = "top.gather_elements"

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        axis = self.get("axis")
        _check_axis(self.name, shape, axis)
        _check_not_empty(self.name, shape[axis], indices)
        _check_inside(self.name, shape, indices, axis)
        return indices

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, indices = operands
        axis = self.get("axis")
        others = tuple(
            slice(None) if position == axis else slice(size)
            for position, size in enumerate(indices.shape)
        )
        return (np.take_along_axis(x[others], indices, axis),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, indices = inputs
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]

        def source(s: ScalarBuilder, at: Sequence[Scalar]) -> Scalar:
            position = load_index(s, indices, at, size)
            return load_element(s, x, [*at[:axis], position, *at[axis + 1 :]])

        return self.define_gather(k, output, source)

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        axis = self.get("axis")
        places = _counted(self.indices, self.input, axis, build)
        zeros = _zeros(self.input, build)
        return build.value(ScatterElementsOp, [zeros, places, g], axis=axis, reduction="add")


@irdl_op_definition
class GatherNdOp(IndexingOperation):
    """Slices at coordinates: the last axis of the indices names the first axes of the input.

    x: (batch..., sizes..., rest...), indices: (batch..., places..., number of sizes)
    -> (batch..., places..., rest...).
    """

    name = "top.gather_nd"

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    batch_dims = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def indexed_axes(self) -> Sequence[int]:
        batch, depth = self.get("batch_dims"), shape_of(self.indices)[-1]
        assert isinstance(depth, int)
        return range(batch, batch + depth)

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        batch = self.get("batch_dims")
        depth = _coordinates(self.name, shape, indices, batch)
        return (*indices[:-1], *shape[batch + depth :])

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, indices = operands
        batch, depth = self.get("batch_dims"), indices.shape[-1]
        result_shape = (*indices.shape[:-1], *x.shape[batch + depth :])
        batches = np.ndindex(*x.shape[:batch])
        slices = [x[b][tuple(np.moveaxis(indices[b], -1, 0))] for b in batches]
        return (np.array(slices, x.dtype).reshape(result_shape),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, indices = inputs
        batch, sizes = self.get("batch_dims"), static_shape(self.input)
        depth, places = indices.shape[-1], indices.rank - 1

        def source(s: ScalarBuilder, at: Sequence[Scalar]) -> Scalar:
            coordinates = [
                load_index(s, indices, [*at[:places], s.index(number)], sizes[batch + number])
                for number in range(depth)
            ]
            return load_element(s, x, [*at[:batch], *coordinates, *at[places:]])

        return self.define_gather(k, output, source)


@irdl_op_definition
class ScatterElementsOp(IndexingOperation):
    """x with x[indices[i, j], j] = updates[i, j] for axis 0, and so on.

    Indices and updates have one shape, which is smaller than the input's nowhere but along `axis`.
    reduction: none (the last of equal places wins), add, mul, max or min.
    """

    name = "top.scatter_elements"

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    reduction = prop_def(StringAttr)
    output = result_def(TensorType)

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        _check_reduction(self.get("reduction"))
        _check_axis(self.name, shape, self.get("axis"))
        _check_not_empty(self.name, shape[self.get("axis")], indices)
        if not may_be_same_shape(indices, shape_of(self.updates)):
            raise ValueError(
                f"{self.name}: indices {indices} and updates {shape_of(self.updates)} differ"
            )
        _check_inside(self.name, shape, indices, self.get("axis"))
        return shape

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, indices, updates = operands
        result, axis = x.copy(), self.get("axis")
        combine, _ = SCATTER[self.get("reduction")]
        for place in np.ndindex(*indices.shape):
            target = (*place[:axis], indices[place], *place[axis + 1 :])
            result[target] = combine(result[target], updates[place])
        return (result,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """Along the axis the updates come in order, since places may repeat."""
        x, indices, updates = inputs
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]
        names = {f"d{i}": extent for i, extent in enumerate(static_shape(self.indices))}
        inner = f"d{axis}"
        loops = {**{n: e for n, e in names.items() if n != inner}, inner: names[inner]}

        def write(s: ScalarBuilder, *loop_indices: Scalar) -> None:
            by_name = dict(zip(loops, loop_indices, strict=True))
            place = [by_name[name] for name in names]
            position = load_index(s, indices, place, size)
            target = [*place[:axis], position, *place[axis + 1 :]]
            value = load_element(s, updates, place)
            _store_combined(s, self.get("reduction"), value, output, target)

        extents = common_extents(x.shape, output.shape)
        d = k.dimensions(**domain(extents))
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, x: x)
        k.nest(loops, write, parallel=" ".join(n for n in loops if n != inner))
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, extents[CHANNELS])
        return "explicit"


@irdl_op_definition
class ScatterNdOp(IndexingOperation):
    """A copy of the input with slices replaced at coordinates, one slice of `updates` for each.

    input: (sizes..., rest...), indices: (places..., number of sizes), updates: (places...,
    rest...). reduction: none (the last of equal coordinates wins), add, mul, max or min.
    """

    name = "top.scatter_nd"

    input = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    reduction = prop_def(StringAttr)
    output = result_def(TensorType)

    def indexed_axes(self) -> Sequence[int]:
        depth = shape_of(self.indices)[-1]
        assert isinstance(depth, int)
        return range(depth)

    def result_shape(self, shape: Shape, indices: Shape) -> Shape:
        _check_reduction(self.get("reduction"))
        depth, updates = _coordinates(self.name, shape, indices, 0), shape_of(self.updates)
        expected = (*indices[:-1], *shape[depth:])
        if not may_be_same_shape(expected, updates):
            raise ValueError(f"{self.name}: updates are {updates}, but {expected} is expected")
        return shape

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, indices, updates = operands
        result = x.copy()
        combine, _ = SCATTER[self.get("reduction")]
        for place in np.ndindex(*indices.shape[:-1]):
            coordinates = tuple(indices[place])
            result[coordinates] = combine(result[coordinates], updates[place])
        return (result,)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """The places are walked in order, since coordinates may repeat; a slice is independent."""
        x, indices, updates = inputs
        sizes, depth = static_shape(self.input), indices.shape[-1]
        places = {f"place{i}": size for i, size in enumerate(indices.shape[:-1])} or {"place0": 1}
        inner = {f"d{i}": size for i, size in enumerate(sizes[depth:])}

        def write(s: ScalarBuilder, *loop_indices: Scalar) -> None:
            place = list(loop_indices[len(inner) :])[: indices.rank - 1]
            rest = list(loop_indices[: len(inner)])
            coordinates = [
                load_index(s, indices, [*place, s.index(number)], sizes[number])
                for number in range(depth)
            ]
            target = [*coordinates, *rest]
            value = load_element(s, updates, [*place, *rest])
            _store_combined(s, self.get("reduction"), value, output, target)

        extents = common_extents(x.shape, output.shape)
        d = k.dimensions(**domain(extents))
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, x: x)
        k.nest({**inner, **places}, write, parallel=" ".join(inner))
        if output.rank > CHANNELS:
            clear_padding_channels(k, output, extents[CHANNELS])
        return "explicit"


def _store_combined(
    s: ScalarBuilder, reduction: str, value: Scalar, output: Access, target: Sequence[Scalar]
) -> None:
    """Stores what a reduction makes of the present element and a value. Where it is the value, the
    present one is not read: a result of narrow floats is written as it comes then."""
    if reduction != "none":
        _, combine = SCATTER[reduction]
        value = combine(load_element(s, output, target), value)
    store_element(s, value, output, target)


SCATTER: dict[
    str,
    tuple[
        Callable[[np.ndarray, np.ndarray], np.ndarray],
        Callable[[Scalar, Scalar], Scalar],
    ],
] = {
    "none": (lambda present, new: new, lambda present, new: new),
    "add": (np.add, lambda present, new: present + new),
    "mul": (np.multiply, lambda present, new: present * new),
    "max": (np.maximum, lambda present, new: present.maximum(new)),
    "min": (np.minimum, lambda present, new: present.minimum(new)),
}
"""For each reduction the meaning on arrays and on scalars."""


def _counted(indices: SSAValue, x: SSAValue, axis: int, build: GradientBuild) -> SSAValue:
    """Positions from the front, where some count from the end."""
    (size,) = build.sizes(x, [axis], "the gradient of a gather")
    wide = Term(build, build.cast(indices, np.int64))
    return wide.compare("less", 0).select(wide + size, wide).value


def _zeros(x: SSAValue, build: GradientBuild) -> SSAValue:
    return build.expand(build.scalar_like(0, x), build.all_sizes(x))
