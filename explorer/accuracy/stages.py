"""What quantizing costs each operation by itself: its weights, what it reads, both.

    errors = quantization_errors(before, after, inputs)     snapshots of `quantize-tensors`, or of
                                                            `quantize-weights`

Every operation is fed the float program's tensors, so that no error travels. Its weights alone are
rounded, then what it reads alone, then both:

    SQNR = 10 log10(sum of y^2 / sum of (y' - y)^2)

Where weights are the worse half, scales per channel, equalization or more bits for them help; where
activations are, other thresholds do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.accuracy.metrics import tensor_error
from explorer.ir.constants import constant
from explorer.ir.interfaces import Moving, Quantizable
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import value_name
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp, QuantizeBlocksOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.quantization.choosing import has_integer_form, moves
from explorer.quantization.records import (
    limits_of,
    made_tensor,
    quantized_tensor,
    tensor_names,
)
from explorer.results.runs.quantization import LayerErrors, QuantizationErrors, Saturation

Values = Mapping[str, np.ndarray]


def quantization_errors(before: Snapshot, after: Snapshot, inputs: Values) -> QuantizationErrors:
    """inputs: arrays by the model's names. Both programs are at level top."""
    floats = before.run(inputs)
    rounded = _Rounded(before, after, floats)
    has_tensors = any(isinstance(op, QuantizeOp) for op in after.walked)
    names = tensor_names(before) if has_tensors else {}
    layers = [
        layer
        for op in before.walked
        if isinstance(op, Quantizable) and has_integer_form(op)
        if (layer := _layer_errors(op, rounded, names)) is not None
    ]
    saturation = tuple(_saturation(after, floats, names))
    return QuantizationErrors(layers=tuple(layers), saturation=saturation)


class _Rounded:
    """Operands as an operation of the quantized program has them, made of the float tensors."""

    def __init__(self, before: Snapshot, after: Snapshot, floats: Values):
        self._before, self._after = before, after
        self.floats = floats

    def behind(self, op: TopOperation) -> TopOperation | None:
        """The same operation of the quantized program."""
        return self._after.operations.get(identity_of(op))

    def kinds(self, op: TopOperation) -> tuple[bool, bool]:
        """Whether there are quantized weights among the operands, and quantized activations."""
        found = [self._pair(operand) for operand in op.operands]
        return "weights" in found, "activations" in found

    def result(
        self, op: TopOperation, behind: TopOperation, weights: bool, activations: bool
    ) -> np.ndarray:
        """What the operation makes of operands of which some are rounded."""
        arrays = [
            self._operand(exact, operand, weights, activations)
            for exact, operand in zip(op.operands, behind.operands, strict=True)
        ]
        return np.asarray(op.evaluate(*arrays)[0])

    def _operand(
        self, exact: SSAValue, operand: SSAValue, weights: bool, activations: bool
    ) -> np.ndarray:
        is_rounded = {"weights": weights, "activations": activations, "": False}
        if is_rounded[self._pair(operand)]:
            return self._evaluated(operand)
        stored = constant(exact, self._before.weights)
        return self.floats[value_name(exact)] if stored is None else stored

    def _pair(self, value: SSAValue) -> str:
        """What a value of the quantized program was rounded as; empty for what is float."""
        owner = value.owner
        if isinstance(owner, DequantizeOp):
            if isinstance(owner.operands[0].owner, QuantizeOp):
                return "activations"
            is_stored = constant(owner.operands[0], self._after.weights) is not None
            return "weights" if is_stored else ""
        if isinstance(owner, DequantizeBlocksOp):
            if isinstance(owner.input.owner, QuantizeBlocksOp):
                return "activations"
            is_given = identity_of(owner) in self._before.operations
            return "" if is_given else "weights"  # of a file that has its weights in blocks
        if isinstance(owner, Moving) and moves(owner):
            found = {self._pair(moved) for moved in owner.moved_operands()}
            return next((kind for kind in ("activations", "weights") if kind in found), "")
        return ""

    def _evaluated(self, value: SSAValue) -> np.ndarray:
        owner = value.owner
        if not self._pair(value):
            stored = constant(value, self._after.weights)
            return self.floats[value_name(value)] if stored is None else stored
        assert isinstance(owner, TopOperation)
        if isinstance(owner, DequantizeOp):
            (inner,) = owner.operands
            stored = constant(inner, self._after.weights)
            if stored is not None:
                return np.asarray(owner.evaluate(stored)[0])
            pair = inner.owner
            assert isinstance(pair, QuantizeOp)
            real = self._evaluated(pair.operands[0])  # which may be rounded itself
            return real_array(stored_array(real, pair.to), pair.to).astype(real.dtype)
        made = owner.operands[0].owner
        if isinstance(owner, DequantizeBlocksOp) and isinstance(made, QuantizeBlocksOp):
            numbers, scales, _ = made.evaluate(self._evaluated(made.input))
            return np.asarray(owner.evaluate(numbers, scales)[0])
        return np.asarray(owner.evaluate(*map(self._evaluated, owner.operands))[0])


def _layer_errors(
    op: TopOperation, rounded: _Rounded, names: Mapping[str, str]
) -> LayerErrors | None:
    """None where nothing that the operation reads is quantized."""
    behind = rounded.behind(op)
    if behind is None:
        return None
    has_weights, has_activations = rounded.kinds(behind)
    if not (has_weights or has_activations):
        return None
    expected = rounded.floats[value_name(op.results[0])]

    def decibels(weights: bool, activations: bool) -> float:
        found = rounded.result(op, behind, weights, activations)
        return tensor_error("", "", found, expected).sqnr_db

    return LayerErrors(
        operation=identity_of(op),
        tensor=made_tensor(op, names) or _source_tensor(op),
        weights_db=decibels(True, False) if has_weights else None,
        activations_db=decibels(False, True) if has_activations else None,
        both_db=decibels(True, True),
        reads=tuple(dict.fromkeys(name for o in op.operands for name in _read(o, names))),
    )


def _read(value: SSAValue, names: Mapping[str, str]) -> Iterator[str]:
    """Tensors of a table that an operand is, or that were moved into it."""
    if value_name(value) in names:
        yield names[value_name(value)]
    elif isinstance(value.owner, Moving) and moves(value.owner):
        for moved in value.owner.moved_operands():
            yield from _read(moved, names)


def _source_tensor(op: TopOperation) -> str:
    origin = origin_of(op.results[0])
    return origin.tensor if origin is not None and not origin.steps else ""


def _saturation(after: Snapshot, floats: Values, names: Mapping[str, str]) -> Iterator[Saturation]:
    """How many elements of every quantized tensor lie beyond half a step outside of its range:
    what is nearer is rounded to the end, as everything is to some step. Parts are added up."""
    found: dict[str, Saturation] = {}
    for op in after.walked:
        if not isinstance(op, QuantizeOp):
            continue
        (value,) = op.operands
        real = floats.get(value_name(value))
        if real is None:
            continue
        low, high = limits_of(op.to)
        half = float(op.to.scale_array[0]) / 2
        clipped = np.count_nonzero((real < low - half) | (real > high + half))
        owner = value.owner
        tensor = quantized_tensor(op, names)
        own = Saturation(
            tensor=tensor,
            operation=identity_of(owner) if isinstance(owner, Operation) else value_name(value),
            clipped=int(clipped),
            total=real.size,
        )
        known = found.get(tensor)
        found[tensor] = own if known is None else _together(known, own)
    yield from found.values()


def _together(known: Saturation, other: Saturation) -> Saturation:
    return replace(known, clipped=known.clipped + other.clipped, total=known.total + other.total)
