"""The position of an extremum along an axis.

top.arg {kind = "max", axis = 1}    (1, 21, 8, 8)  ->  (1, 8, 8), positions from 0 to 20
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.interfaces import MixesAxes, Permutable, Permutation, Permuted
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import (
    clear_padding_channels,
    element_type,
    highest,
    load_element,
    lowest,
    may_be_nan,
    scratch,
    store_element,
)
from explorer.ir.top.reductions.domain import (
    ReductionDomain,
    permutation_behind,
    reduced_shape,
)
from explorer.ir.types import shape_of, tensor_type


@irdl_op_definition
class ArgOp(MixesAxes, Permutable):
    """Position (i64) of the maximum or minimum along an axis; of equal ones the first, or the last.

    A NaN comes before all numbers for both, as in NumPy.
    """

    name = "top.arg"
    FAMILY: ClassVar[str] = "reduction"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    keepdims = prop_def(BoolAttr)
    select_last = prop_def(BoolAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in ("max", "min"):
            raise ValueError(f"unknown kind {self.kind.data!r}; known: max, min")
        axis, shape = self.get("axis"), shape_of(self.input)
        result = reduced_shape(shape, (axis,), self.get("keepdims"))
        if shape[axis] == 0:
            raise ValueError(f"axis {axis} of {shape} is empty: there is no extremum")
        return [tensor_type(i64, result)]

    @property
    def keeps_mixed_axes(self) -> bool:
        return self.get("keepdims")

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    def permuted(self, permutation: Permutation) -> Permuted:
        moved = permutation[self.get("axis")]
        behind = permutation_behind(permutation, (self.get("axis"),), self.get("keepdims"))
        return Permuted({"axis": moved}, behind)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        axis = self.get("axis")
        position = np.argmax if self.kind.data == "max" else np.argmin
        if self.get("select_last"):
            result = x.shape[axis] - 1 - position(np.flip(x, axis), axis=axis, keepdims=True)
        else:
            result = position(x, axis=axis, keepdims=True)
        if not self.get("keepdims"):
            result = np.squeeze(result, axis)
        return (np.asarray(result, np.int64),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        """The result itself holds the best position so far; the axis is walked in order.

        Numbers of few bits carry their positions in lower ones, so that vectors compare both.
        """
        (x,) = inputs
        axis = self.get("axis")
        loops = ReductionDomain.of(self, (axis,), self.get("keepdims"), x, output)
        if _has_room_for_positions(x, loops.count):
            self._define_with_positions(k, loops, x, output)
            return "reduce"
        predicate = {"max": "gt", "min": "lt"}[self.kind.data]
        if self.get("select_last"):
            predicate = {"gt": "ge", "lt": "le"}[predicate]

        def step(s: ScalarBuilder, *indices: Scalar) -> None:
            target = loops.output_subscripts(indices, zero=s.index(0))
            best = load_element(s, output, target)
            candidate = loops.input_subscripts(indices)
            present = list(candidate)
            present[axis] = best.convert(IndexType())
            value, held = (load_element(s, x, at).widened() for at in (candidate, present))
            is_better = value.compare(predicate, held)
            if may_be_nan(x):
                is_first = value.compare("ne", value)
                if not self.get("select_last"):
                    is_first = is_first.logical_and(held.compare("eq", held))
                is_better = is_better.logical_or(is_first)
            position = candidate[axis].convert(i64)
            store_element(s, is_better.select(position, best), output, target)

        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [], output.at(*loops.output_subscripts(d)), lambda s: s.constant(0))
        k.nest(loops.all_loops, step, parallel=" ".join(loops.outer_loops))
        clear_padding_channels(k, output, loops.covered_channels(output))
        return "explicit"

    def _define_with_positions(
        self, k: KernelBuilder, loops: ReductionDomain, x: Access, output: Access
    ) -> None:
        """number * 2^bits + position; of equal numbers the one that is wanted wins."""
        last, bits = loops.count - 1, (loops.count - 1).bit_length()
        is_max = self.kind.data == "max"
        is_reversed = is_max != self.get("select_last")
        places = scratch(k, "places", (loops.count,), i32)
        best = scratch(k, "best", tuple(loops.outer_loops.values()), i32)

        def place(s: ScalarBuilder, i: Scalar) -> None:
            position = i.convert(i64).convert(i32)
            store_element(
                s, position.constant(last) - position if is_reversed else position, places, [i]
            )

        def better(s: ScalarBuilder, number: Scalar, place: Scalar, held: Scalar) -> Scalar:
            both = number.convert(i32).shift_left(bits) + place
            return held.maximum(both) if is_max else held.minimum(both)

        def position(s: ScalarBuilder, held: Scalar) -> Scalar:
            found = held.logical_and((1 << bits) - 1)
            return (held.constant(last) - found if is_reversed else found).convert(i64)

        k.nest({"place": loops.count}, place)
        d = k.dimensions(**loops.outer_loops)
        start = lowest(i32) if is_max else highest(i32)
        k.generic("plain", [], best.at(*d), lambda s: s.constant(start))
        d = k.dimensions(**loops.all_loops)
        k.generic(
            "plain",
            [x.at(*loops.input_subscripts(d)), places.at(d[-1])],
            best.at(*d[:-1]),
            better,
            reductions=loops.reductions,
            accumulates=True,
        )
        d = k.dimensions(**loops.outer_loops)
        k.generic("plain", [best.at(*d)], output.at(*loops.output_subscripts(d)), position)
        clear_padding_channels(k, output, loops.covered_channels(output))

    def label(self) -> str:
        return f"arg {self.kind.data}"


def _has_room_for_positions(x: Access, count: int) -> bool:
    """Do 32 bits hold a number and a position on an axis of that size?"""
    kind = element_type(x)
    if not isinstance(kind, IntegerType) or kind.width.data not in (8, 16):
        return False
    return kind.width.data + (count - 1).bit_length() < i32.width.data
