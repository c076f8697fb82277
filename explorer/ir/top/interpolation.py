"""Interpolation along an axis: every element of the result is made of a few of the operand's.

    top.interpolate(%x, %positions, %weights) {axis = 3}
        x = [10, 20, 30]   positions = [[0, 1], [1, 2]]   weights = [[.5, .5], [.25, .75]]
        ->  [15, 27.5]

As a product with a matrix of mostly zeros it would multiply every element with each other one's
weight: one infinity or NaN would reach all results, for 0 times infinity is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.interfaces import Differentiable, MixesAxes
from explorer.ir.operation import Access
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import domain, load_element, load_index, store_element
from explorer.ir.top.support.taps import Taps, transposed, without_zeros
from explorer.ir.types import element_type_of, shape_of, static_shape, tensor_type

MAX_WRITTEN_OUT = 16
"""Taps whose sum is one expression; more are added up in a loop."""


@irdl_op_definition
class InterpolateOp(Differentiable, MixesAxes):
    """y[i] = sum over t of weights[i, t] x[positions[i, t]] along `axis`.

    positions (integers from 0 on) and weights: (size of the result's axis, taps). Elements at no
    position of a row have no part in it. Sums are held in the arithmetic type.
    """

    name = "top.interpolate"
    FAMILY: ClassVar[str] = "movement"

    input = operand_def(TensorType)
    positions = operand_def(TensorType)
    weights = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape, axis = shape_of(self.input), self.get("axis")
        taps = shape_of(self.positions)
        if not 0 <= axis < len(shape):
            raise ValueError(f"{self.name}: axis {axis} of {shape}: 0 to {len(shape) - 1} expected")
        if len(taps) != 2 or taps != shape_of(self.weights) or not taps[1]:
            raise ValueError(
                f"{self.name}: positions {taps} and weights {shape_of(self.weights)}: two equal "
                "shapes (size of the result, taps) expected"
            )
        result = (*shape[:axis], taps[0], *shape[axis + 1 :])
        return [tensor_type(element_type_of(self.input), result)]

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, positions, weights = operands
        axis = self.get("axis")
        along = [-1 if a == axis else 1 for a in range(x.ndim)]
        result = 0.0
        with np.errstate(all="ignore"):
            for position, weight in zip(positions.T, weights.T.astype(np.float64), strict=True):
                result = result + np.take(x, position, axis) * weight.reshape(along)
        return (np.asarray(result),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, positions, weights = inputs
        axis, size = self.get("axis"), static_shape(self.input)[self.get("axis")]
        taps = static_shape(self.positions)[1]
        loops = domain(static_shape(self.output))
        parallel = " ".join(loops)

        def weighted(s: ScalarBuilder, at: Sequence[Scalar], tap: Scalar) -> Scalar:
            place = [at[axis], tap]
            position = load_index(s, positions, place, size)
            taken = load_element(s, x, [*at[:axis], position, *at[axis + 1 :]])
            return taken * load_element(s, weights, place)

        def written_out(s: ScalarBuilder, *at: Scalar) -> None:
            total = weighted(s, at, s.index(0))
            for tap in range(1, taps):
                total = total + weighted(s, at, s.index(tap))
            store_element(s, total, output, at)

        def first(s: ScalarBuilder, *at: Scalar) -> None:
            store_element(s, weighted(s, at, s.index(0)), output, at)

        def further(s: ScalarBuilder, *indices: Scalar) -> None:
            *at, number = indices
            total = load_element(s, output, at)
            store_element(s, total + weighted(s, at, number + 1), output, at)

        if taps <= MAX_WRITTEN_OUT:
            k.nest(loops, written_out, parallel=parallel)
        else:
            k.nest(loops, first, parallel=parallel)
            k.nest({**loops, "tap": taps - 1}, further, parallel=parallel)
        return "explicit"

    def macs(self) -> int:
        return int(np.prod(static_shape(self.output))) * static_shape(self.positions)[1]

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        """Each element gets what the results took of it. Taps are constants of the importer."""
        positions, weights = build.stored(self.positions), build.stored(self.weights)
        if index or positions is None or weights is None:
            raise NotDifferentiable("the gradient of an interpolation for its taps")
        axis = self.get("axis")
        (size,) = build.sizes(self.input, [axis], "the gradient of an interpolation")
        taps = without_zeros(transposed(Taps(positions, weights), size))
        kept = [
            build.weight(taps.positions),
            build.weight(taps.weights.astype(build.dtype(self.weights))),
        ]
        return build.value(InterpolateOp, [g, *kept], axis=axis)
