"""Elements around and between those of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from explorer.ir.compute import KernelBuilder
from explorer.ir.gradients import GradientBuild, NotDifferentiable
from explorer.ir.interfaces import (
    Blockable,
    Differentiable,
    Elements,
    Permutable,
    Permutation,
    Permuted,
    require_rows,
)
from explorer.ir.operation import Access, PropertyValue
from explorer.ir.sizes.dimensions import (
    plus,
    times,
)
from explorer.ir.top.definitions import (
    CHANNELS,
    domain,
)
from explorer.ir.top.movement.operation import (
    MovementOperation,
    affine,
    permuted_numbers,
    same_element,
)
from explorer.ir.top.support.operands import require_integers, require_vector
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.ir.types import (
    Dim,
    QuantizedType,
    Shape,
    element_type_of,
    numpy_dtype,
    shape_of,
    static_shape,
)

ALL_TYPES_HAVE = (0.0, 1.0, -1.0, float("inf"), float("-inf"))
"""Numbers that padding is filled with, and that every type of floats has."""


def fill_properties(number: float) -> dict[str, PropertyValue | None]:
    """The properties `value` and `whole` of a pad with a number (or an integer of 64 bits)."""
    is_rounded = isinstance(number, int) and int(float(number)) != number
    bits = (int(number) + 2**63) % 2**64 - 2**63 if is_rounded else None
    return {"value": float(number), "whole": bits}


@irdl_op_definition
class PadOp(Differentiable, Permutable, Blockable, MovementOperation):
    """Elements of `value` before (low), behind (high) and between (interior) those of each axis.

    As XLA's pad, without negative numbers. Or the operand `amounts`, an i64 vector of all begins,
    then all ends, in which negative ones take elements away. An integer that `value` rounds is
    `whole`, the bits of an i64; see `fill_properties`.
    """

    name = "top.pad"

    input = operand_def(TensorType)
    amounts = opt_operand_def(TensorType)
    low = opt_prop_def(DenseArrayBase)
    high = opt_prop_def(DenseArrayBase)
    interior = opt_prop_def(DenseArrayBase)
    value = prop_def(FloatAttr)
    whole = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def keeps_finite(self) -> bool:
        return bool(np.isfinite(self.get("value")))

    @property
    def fill(self) -> int | float:
        """What it pads with: an integer of 64 bits exactly."""
        bits = self.get("whole")
        if bits is None:
            return self.get("value")
        is_unsigned = numpy_dtype(element_type_of(self.input)).kind == "u"
        return bits % 2**64 if is_unsigned else bits

    def result_shape(self) -> Shape:
        shape = shape_of(self.input)
        if self.amounts is not None:
            require_integers("the amounts", self.amounts)
            require_vector("the amounts", self.amounts, 2 * len(shape))
            return self.declared_or_unknown(len(shape))
        low, high, interior = self._properties()
        if any(len(n) != len(shape) or min(n, default=0) < 0 for n in (low, high, interior)):
            raise ValueError(
                f"pad of {shape}: low {list(low)}, high {list(high)} and interior {list(interior)} "
                "need a number of 0 or more for each axis"
            )
        return tuple(
            plus(_spread(size, between), before + after)
            for size, before, after, between in zip(shape, low, high, interior, strict=True)
        )

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        x, *rest = operands
        if rest:
            begins, ends = np.split(rest[0], 2)
            low, high = np.maximum(begins, 0).tolist(), np.maximum(ends, 0).tolist()
            interior = [0] * x.ndim
            cuts = [(max(-a, 0), max(-b, 0)) for a, b in zip(begins, ends, strict=True)]
        else:
            low, high, interior = self._properties()
            cuts = [(0, 0)] * x.ndim
        spread = [
            max((size - 1) * (between + 1) + 1, 0) if size else 0
            for size, between in zip(x.shape, interior, strict=True)
        ]
        shape = [a + s + b for a, s, b in zip(low, spread, high, strict=True)]
        result = np.full(shape, self.fill, x.dtype)
        places = zip(low, spread, interior, strict=True)
        result[tuple(slice(a, a + s, between + 1) for a, s, between in places)] = x
        kept = zip(cuts, shape, strict=True)
        return (result[tuple(slice(a, max(size - b, a)) for (a, b), size in kept)],)

    def carried_axis(self, index: int, axis: int) -> int:
        require_rows(self.amounts is None, "its amounts are computed")
        require_rows(not any(numbers[axis] for numbers in self._properties()), "it adds rows")
        return axis

    @property
    def keeps_numbers(self) -> bool:
        return self.get("value") in ALL_TYPES_HAVE

    def on_stored(self, kind: QuantizedType) -> Mapping[str, PropertyValue]:
        """The integer that stands for what is padded with; ValueError where none does exactly."""
        if not kind.is_per_tensor:
            raise ValueError("it pads numbers with a scale per slice")
        value = np.array(self.get("value"), np.float32)
        stored = stored_array(value, kind)
        if not np.isfinite(value) or real_array(stored, kind) != value:
            raise ValueError(f"no integer stands for {value:g}, which it pads with")
        return {"value": float(stored)}

    def why_not_blocked(self, block: int) -> str:
        if self.amounts is not None:
            return "its amounts are computed"
        low, _, interior = self._properties()
        if self.get("value") != 0:
            return "it pads with no zeros"
        if low[CHANNELS] % block or interior[CHANNELS]:
            return "it moves channels to other lanes"
        return ""

    def permuted(self, permutation: Permutation) -> Permuted:
        if self.amounts is not None:
            raise ValueError("its amounts are computed")
        return permuted_numbers(self, ("low", "high", "interior"), permutation)

    def computed_sizes(self, elements: Elements) -> np.ndarray | None:
        return None

    @property
    def is_sized_by_contents(self) -> bool:
        return self.amounts is not None

    def missing_form(self) -> str:
        return (
            "" if self.amounts is None else "a pad whose amounts are computed has no compiled form"
        )

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        self.check_form()
        (x,) = inputs
        low, _, interior = self._properties()
        value = self.fill
        d = k.dimensions(**domain(output.shape))
        k.generic("plain", [], output.at(*d), lambda s: s.constant(value))
        extents = list(static_shape(self.input))
        d = k.dimensions(**domain(extents))
        target = [
            affine(index, between + 1, before)
            for index, between, before in zip(d, interior, low, strict=False)
        ]
        k.generic("plain", [x.at(*d)], output.at(*target), same_element)
        return "copy"

    def _properties(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        rank = len(shape_of(self.input))
        return (
            self.get("low", ()),
            self.get("high", ()),
            self.get("interior", (0,) * rank),
        )

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        if self.amounts is not None:
            raise NotDifferentiable("the derivative of a pad with computed amounts is not known")
        axes = range(build.rank(self.input))
        sizes = build.sizes(self.input, axes, "the gradient of a pad")
        low, interior = self.get("low"), self.get("interior", (0,) * len(sizes))
        bounds = {
            axis: (low[axis], low[axis] + (sizes[axis] - 1) * (interior[axis] + 1) + 1, step)
            if sizes[axis]
            else (0, 0, 1)
            for axis, step in ((a, interior[a] + 1) for a in axes)
        }
        return build.slices(g, bounds)


def _spread(size: Dim, between: int) -> Dim:
    """Elements that an axis takes with `between` new ones after each but the last."""
    if not between or size == 0:
        return size
    return plus(times(size, between + 1), -between)
