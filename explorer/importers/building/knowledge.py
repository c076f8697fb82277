"""What is already known of values while a model is imported.

    %shape = top.shape(%x)                     x: 1x24x8x8
    %target = top.concat(%shape[0:2], ...)     array(%target) = [1, 24, 64]
    %y = top.reshape(%x, target = %target)     result_shape = (1, 24, 64)

Nothing is folded here: that is a pass, which can be looked at. But results get the shapes that
follow, and converters ask where a result's form depends on contents (interpolation weights of a
resize, sizes of a split).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping

import numpy as np
from xdsl.ir import OpResult, SSAValue

from explorer.importers.building.expr import Value, plain
from explorer.ir.operation import TopOperation
from explorer.ir.sizes.dimensions import dimension_of, plus, reshaped, sum_of
from explorer.ir.top.data import WeightOp
from explorer.ir.top.elementwise import BinaryOp, CastOp, broadcast_shapes
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp, computed_slice
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.top.sizes import FoundContents
from explorer.ir.types import Dim, Shape, is_static, shape_of, static_shape
from explorer.ir.weights import Weights

_LARGEST_COMPUTED = 1 << 20
"""Elements of what is computed to know it; shape computations are tiny."""
_LARGEST_ASSUMED = 1024
"""Elements of an input that can decide a shape."""

Contents = Callable[[SSAValue | None], np.ndarray | None]


class Knowledge:
    """Contents of values, found on demand and remembered."""

    def __init__(
        self,
        weights: Weights,
        assumed: Mapping[str, np.ndarray] | None = None,
        whole_pasts: Container[str] = (),
    ) -> None:
        """`assumed`: contents of inputs by name, which `needed` may use. `whole_pasts`: those of
        which each sequence is taken to have all rows."""
        self._weights = weights
        self._arrays: dict[SSAValue, np.ndarray | None] = {}
        self._assumed = assumed or {}
        self._inputs: dict[SSAValue, str] = {}
        self._needed: dict[SSAValue, np.ndarray | None] = {}
        self._contents = FoundContents(weights)
        self.specialized: set[str] = set()
        """Inputs whose assumed contents were asked for."""
        self._whole_pasts = whole_pasts
        self.full_masks: set[str] = set()
        """Inputs that were taken to be masks of ones."""

    def array(self, value: Value | None) -> np.ndarray | None:
        """The value's contents; None where they depend on an input or are too large to compute."""
        if value is None:
            return None
        value = plain(value)
        if value not in self._arrays:
            self._arrays[value] = self._find(value)
        return self._arrays[value]

    def add_input(self, value: SSAValue, name: str) -> None:
        """Says which of the model's inputs a value is."""
        self._inputs[value] = name

    def input_name(self, value: SSAValue) -> str:
        """Which of the model's inputs a value is; empty for what is none."""
        return self._inputs.get(value, "")

    def is_whole(self, past: Value) -> bool:
        """Whether each sequence is taken to have all rows of a past, which is an input."""
        return self.input_name(plain(past)) in self._whole_pasts

    def counted_mask(self, value: Value, more: int) -> SSAValue | None:
        """The input (batch, size) of which a value is the sum of each row and `more`."""
        found = plain(value)
        while isinstance(found, OpResult):
            op = found.op
            if isinstance(op, CastOp | ReshapeOp):
                found = op.operands[0]
            elif isinstance(op, BinaryOp) and op.get("kind") in ("add", "sub"):
                added = self.array(op.operands[1])
                if added is None or added.size != 1:
                    return None
                more -= added.item() if op.get("kind") == "add" else -added.item()
                found = op.operands[0]
            elif isinstance(op, ReduceOp) and op.get("kind") == "sum":
                (mask,) = op.operands
                while isinstance(mask, OpResult) and isinstance(mask.op, CastOp):
                    mask = mask.op.operands[0]
                is_counted = list(op.get("axes")) == [1] and len(shape_of(mask)) == 2
                return mask if is_counted and more == 0 else None
            else:
                return None
        return None

    def needed(self, value: Value | None) -> np.ndarray | None:
        """As `array`, for what the program's shapes depend on: assumed contents count."""
        known = self.array(value)
        if known is not None or value is None or not self._assumed:
            return known
        value = plain(value)
        if value not in self._needed:
            assumed = self._assumed_contents(value)
            found = self._compute(value, self.needed) if assumed is None else assumed
            self._needed[value] = found
        return self._needed[value]

    def depend_on_inputs_of(self, value: Value) -> None:
        """The program is right only for certain contents of the inputs that decide a value."""
        pending, seen = [plain(value)], set[SSAValue]()
        while pending:
            found = pending.pop()
            if found in seen:
                continue
            seen.add(found)
            if found in self._inputs:
                self.specialized.add(self._inputs[found])
            elif isinstance(found, OpResult):
                pending.extend(found.op.operands)

    def integers(self, value: Value | None) -> list[int] | None:
        array = self.needed(value)
        return None if array is None else [int(i) for i in array.reshape(-1)]

    def sizes(self, value: Value | None) -> list[Dim] | None:
        """The contents of a vector: numbers, or expressions where they are computed from sizes."""
        known = self.integers(value)
        return (
            list(known)
            if known is not None
            else self._contents.sizes(None if value is None else plain(value))
        )

    def result_shapes(self, op: TopOperation) -> list[Shape] | None:
        """Shapes that follow from the contents of operands; None where they do not."""
        if op.SIZED_BY_DATA:
            return self._measured(op)
        shape = self._result_shape(op)
        return None if shape is None else [shape]

    def _result_shape(self, op: TopOperation) -> Shape | None:
        if isinstance(op, ReshapeOp) and op.target is not None:
            return self._reshaped(op)
        if isinstance(op, ExpandOp) and op.target is not None:
            sizes = self.sizes(op.target)
            return None if sizes is None else broadcast_shapes(shape_of(op.input), tuple(sizes))
        if isinstance(op, SliceOp) and op.starts_value is not None:
            return self._sliced(op)
        if isinstance(op, PadOp) and op.amounts is not None:
            return self._padded(op)
        if isinstance(op, RangeOp):
            return self._counted(op)
        return None

    def _assumed_contents(self, value: SSAValue) -> np.ndarray | None:
        name = self._inputs.get(value, "")
        array = self._assumed.get(name)
        if array is None or array.size > _LARGEST_ASSUMED:
            return None
        self.specialized.add(name)
        return array

    def _find(self, value: SSAValue) -> np.ndarray | None:
        return self._compute(value, self.array)

    def _compute(self, value: SSAValue, contents: Contents) -> np.ndarray | None:
        if not isinstance(value, OpResult) or not isinstance(value.op, TopOperation):
            return None
        op = value.op
        if isinstance(op, WeightOp):
            return self._weights[op.weight.data]
        if isinstance(op, ShapeOp):
            sizes = [size for size in op.sizes if isinstance(size, int)]
            return np.array(sizes, np.int64) if len(sizes) == len(op.sizes) else None
        if op.regions or not _is_small(value):
            return None
        operands = [contents(o) for o in op.operands]
        known = [o for o in operands if o is not None]
        if len(known) != len(operands):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(*known)[value.index])

    def _measured(self, op: TopOperation) -> list[Shape] | None:
        """Shapes of what the operation computes from contents that are known."""
        operands = [self.needed(o) for o in op.operands]
        known = [o for o in operands if o is not None]
        if len(known) != len(operands):
            return None
        return [result.shape for result in op.evaluate(*known)]

    def _reshaped(self, op: ReshapeOp) -> Shape | None:
        target = self.sizes(op.target)
        if target is None:
            return None
        source, copies = shape_of(op.input), not op.get("allow_zero", False)
        return reshaped(
            source, [source[axis] if s == 0 and copies else s for axis, s in enumerate(target)]
        )

    def _sliced(self, op: SliceOp) -> Shape | None:
        starts, stops = self.sizes(op.starts_value), self.sizes(op.stops_value)
        steps = [1] * len(starts or ()) if op.steps_value is None else self.sizes(op.steps_value)
        if starts is None or stops is None or steps is None:
            return None
        shape = list(shape_of(op.input))
        for axis, *bounds in zip(op.get("axes"), starts, stops, steps, strict=True):
            shape[axis] = computed_slice(shape[axis], *bounds)
        return tuple(shape)

    def _padded(self, op: PadOp) -> Shape | None:
        amounts = self.sizes(op.amounts)
        if amounts is None:
            return None
        shape = shape_of(op.input)
        low, high = amounts[: len(shape)], amounts[len(shape) :]
        return tuple(sum_of(sizes) for sizes in zip(shape, low, high, strict=True))

    def _counted(self, op: RangeOp) -> Shape | None:
        bounds = [self.needed(o) for o in op.operands]
        numbers = [b.item() for b in bounds if b is not None]
        if len(numbers) == len(bounds):
            start, limit, delta = numbers
            return (max(math.ceil((limit - start) / delta), 0),) if delta else None
        contents = [self._contents.array(o) for o in op.operands]
        known = [c.reshape(-1)[0] for c in contents if c is not None]
        if len(known) != len(contents) or not known[2].is_number or known[2].constant < 1:
            return None
        start, limit, delta = known
        return (plus(dimension_of((limit - start - 1).divided(delta.constant)), 1),)


def _is_small(value: SSAValue) -> bool:
    return is_static(value) and math.prod(static_shape(value)) <= _LARGEST_COMPUTED
