"""What is already known of values while a model is imported: contents and shapes.

    %shape = top.shape(%x)          x: 1x24x8x8       shape(...) and array(...) see through
    %target = top.concat(...)                    ->   array(%target) = [1, 24, 64]
    %y = top.reshape(%x, target = %target)            shape(%y) = (1, 24, 64)

Nothing is folded here: that is a pass, which can be looked at. Converters ask where a result's
form depends on it (interpolation weights of a resize, pads of `auto_pad`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.utils.test_value import create_ssa_value

from explorer.ir.operation import TopOperation
from explorer.ir.top.data import WeightOp
from explorer.ir.top.dimensions import UNKNOWN, reshaped
from explorer.ir.top.elementwise import broadcast_shapes
from explorer.ir.top.movement import ExpandOp, PadOp, ReshapeOp, SliceOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import Dim, Shape, element_type_of, is_static, shape_of, tensor_type
from explorer.ir.weights import Weights

_LARGEST_EVALUATED = 1 << 20
"""Elements of what is computed to know it; shape computations are tiny."""


class Knowledge:
    """Contents and shapes of values, found on demand and remembered."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._arrays: dict[SSAValue, np.ndarray | None] = {}
        self._shapes: dict[SSAValue, Shape] = {}

    def array(self, value: SSAValue | None) -> np.ndarray | None:
        """The value's contents; None where they depend on an input or are too large to compute."""
        if value is None:
            return None
        if value not in self._arrays:
            self._arrays[value] = self._find_array(value)
        return self._arrays[value]

    def shape(self, value: SSAValue) -> Shape:
        """As `types.shape_of`, with sizes that follow from known contents."""
        if is_static(value) or not isinstance(value, OpResult):
            return shape_of(value)
        if value not in self._shapes:
            self._shapes[value] = self._find_shape(value)
        return self._shapes[value]

    def _find_array(self, value: SSAValue) -> np.ndarray | None:
        if not isinstance(value, OpResult) or not isinstance(value.op, TopOperation):
            return None
        op = value.op
        if isinstance(op, WeightOp):
            return self._weights[op.weight.data]
        if isinstance(op, ShapeOp):
            return _whole_numbers(self.shape(op.input)[op.get("start") : op.get("end")])
        if op.regions or not _is_small(self.shape(value)):
            return None
        operands = [self.array(o) for o in op.operands]
        known = [o for o in operands if o is not None]
        if len(known) != len(operands):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(*known)[value.index])

    def _find_shape(self, value: OpResult) -> Shape:
        op = value.op
        declared = shape_of(value)
        if not isinstance(op, TopOperation) or op.regions:
            return declared
        found = self._shape_from_contents(op)
        if found is None:
            types = self._types_from_shapes(op)
            found = declared if types is None else shape_of(types[value.index])
        return found

    def _shape_from_contents(self, op: TopOperation) -> Shape | None:
        """Shapes that depend on an operand's contents; None for other operations."""
        if isinstance(op, ReshapeOp) and op.target is not None:
            target = self.array(op.target)
            return None if target is None else self._reshaped(op, target)
        if isinstance(op, ExpandOp) and op.target is not None:
            target = self.array(op.target)
            sizes = None if target is None else tuple(int(s) for s in target)
            return None if sizes is None else broadcast_shapes(self.shape(op.input), sizes)
        if isinstance(op, RangeOp):
            bounds = [self.array(o) for o in op.operands]
            start, limit, delta = (None if b is None else b.item() for b in bounds)
            if start is None or limit is None or delta is None:
                return None
            return (max(math.ceil((limit - start) / delta), 0),)
        if isinstance(op, SliceOp) and len(op.operands) > 1:
            return self._sliced(op)
        if isinstance(op, PadOp) and op.amounts is not None:
            amounts = self.array(op.amounts)
            return None if amounts is None else _padded(self.shape(op.input), amounts)
        return None

    def _reshaped(self, op: ReshapeOp, target: np.ndarray) -> Shape:
        source = self.shape(op.input)
        keeps_zero = bool(op.get("allow_zero", False))
        sizes = [
            source[axis] if size == 0 and not keeps_zero else int(size)
            for axis, size in enumerate(target)
        ]
        if all(isinstance(s, int) for s in sizes):
            return reshaped(source, [s for s in sizes if isinstance(s, int)])
        return tuple(UNKNOWN if s == -1 else s for s in sizes)

    def _sliced(self, op: SliceOp) -> Shape | None:
        starts, stops = self.array(op.starts_value), self.array(op.stops_value)
        if starts is None or stops is None:
            return None
        steps = np.ones_like(starts) if op.steps_value is None else self.array(op.steps_value)
        if steps is None:
            return None
        shape = list(self.shape(op.input))
        for axis, *bounds in zip(op.get("axes"), starts, stops, steps, strict=True):
            shape[axis] = _sliced_size(shape[axis], *(int(b) for b in bounds))
        return tuple(shape)

    def _types_from_shapes(self, op: TopOperation) -> list[Attribute] | None:
        """What the operation's own shape inference says of operands of the known shapes."""
        shapes = [self.shape(o) for o in op.operands]
        if all(s == shape_of(o) for s, o in zip(shapes, op.operands, strict=True)):
            return None
        operands = [
            create_ssa_value(tensor_type(element_type_of(o), s))
            for s, o in zip(shapes, op.operands, strict=True)
        ]
        probe = type(op).create(operands=operands, properties=dict(op.properties))
        types = probe.infer_types()
        probe.erase()
        return types


def _is_small(shape: Shape) -> bool:
    sizes = [d for d in shape if isinstance(d, int)]
    return len(sizes) == len(shape) and math.prod(sizes) <= _LARGEST_EVALUATED


def _whole_numbers(sizes: Sequence[Dim]) -> np.ndarray | None:
    if any(isinstance(s, str) for s in sizes):
        return None
    return np.array(sizes, np.int64).reshape(len(sizes))


def _sliced_size(size: Dim, start: int, stop: int, step: int) -> Dim:
    if isinstance(size, str):
        return UNKNOWN
    return len(range(*slice(start, _stop(stop, size, step), step).indices(size)))


def _stop(stop: int, size: int, step: int) -> int | None:
    """ONNX writes "before element 0" as a stop below -size, which a Python slice calls None."""
    return None if step < 0 and stop < -size else stop


def _padded(shape: Shape, amounts: np.ndarray) -> Shape:
    low, high = np.split(amounts, 2)
    return tuple(
        UNKNOWN if isinstance(d, str) else d + int(a) + int(b)
        for d, a, b in zip(shape, low, high, strict=True)
    )
