"""How a program was quantized, as data: read off the programs before and behind the pass.

    record = quantization_record(before, after, table)       snapshots of `quantize-tensors`

Whatever decided a range (the table, an edited threshold, a correction), it stands in the type of
the `top.quantize` that reads the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant, is_constant
from explorer.ir.evaluation import entry_function
from explorer.ir.interfaces import Moving, Quantizable
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.requantization import integer_limits
from explorer.ir.structure import value_name
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import QuantizedType
from explorer.quantization.choosing import (
    has_integer_form,
    joins,
    moved_from,
    moves,
    quantizable_tensors,
)
from explorer.quantization.quantize_tensors import FLOAT, INT8, INT16
from explorer.quantization.table import ThresholdTable
from explorer.results.runs.quantization import (
    MAX_CHANNELS,
    QuantizationRecord,
    QuantizedTensor,
    WeightRanges,
)

MAX_FOLLOWERS = 8
"""Operations between a product and the tensor that is quantized: bias, moves, activation."""


def quantization_record(
    before: Snapshot, after: Snapshot, table: ThresholdTable, integers_only: bool = False
) -> QuantizationRecord:
    """Of the pass `quantize-tensors`, whose table is given, for a target with floats or without."""
    types = quantized_types(after)
    function = entry_function(before.program)
    assert isinstance(function, func.FuncOp)
    tensors, names = [], {}
    for tensor in quantizable_tensors(function, integers_only):
        name = value_name(tensor.value)
        names[name] = tensor.name
        own = table.thresholds.get(tensor.name)
        kind = types.get(name)
        low, high = (own.low, own.high) if kind is None and own is not None else limits_of(kind)
        owner = tensor.value.owner
        tensors.append(
            QuantizedTensor(
                name=tensor.name,
                operation=identity_of(owner) if isinstance(owner, Operation) else name,
                mode=_mode(kind),
                storage="" if kind is None else str(kind.storage),
                threshold=max(-low, high),
                low=low,
                high=high,
                observed=table.observations.get(tensor.name),
            )
        )
    return QuantizationRecord(
        method=table.method,
        table=table.path,
        tensors=tuple(tensors),
        precision=table.precision,
        weights=tuple(
            _weight_ranges(op, before, names)
            for op in before.walked
            if isinstance(op, Quantizable) and has_integer_form(op) and _weight(op, before)
        ),
    )


def tensor_names(before: Snapshot) -> dict[str, str]:
    """Names in tables of all tensors that can be quantized, by the value's name."""
    function = entry_function(before.program)
    assert isinstance(function, func.FuncOp)
    return {value_name(t.value): t.name for t in quantizable_tensors(function)}


def quantized_types(after: Snapshot) -> Mapping[str, QuantizedType]:
    """The type of every value that a `top.quantize` reads, or whose parts one reads, by name."""
    found = {value_name(op.operands[0]): op.to for op in after.walked if isinstance(op, QuantizeOp)}
    for op in after.walked:
        if isinstance(op, Moving) and moves(op) and joins(op):
            kinds = {_dequantized_type(operand) for operand in op.moved_operands()}
            if len(kinds) == 1 and (kind := kinds.pop()) is not None:
                found[value_name(op.results[0])] = kind
    return found


def _dequantized_type(value: SSAValue) -> QuantizedType | None:
    """What a value's numbers were stored in, perhaps behind moves; None where that is not one."""
    owner = moved_from(value).owner
    if isinstance(owner, DequantizeOp):
        return owner.parameters
    if isinstance(owner, Moving) and moves(owner):
        kinds = {_dequantized_type(operand) for operand in owner.moved_operands()}
        return kinds.pop() if len(kinds) == 1 else None
    return None


def quantized_tensor(op: QuantizeOp, names: Mapping[str, str]) -> str:
    """The name in tables of what a `top.quantize` rounds: a tensor, or what it is a part of."""
    own = value_name(op.operands[0])
    if own in names:
        return names[own]
    value: SSAValue = op.output
    while value_name(value) not in names:
        users = {use.operation for use in value.uses}
        if len(users) != 1 or not (user := users.pop()).results:
            return own
        value = user.results[0]
    return names[value_name(value)]


def limits_of(kind: QuantizedType | None) -> tuple[float, float]:
    """The lowest and highest number that a type of one scale represents."""
    if kind is None:
        return 0.0, 0.0
    lowest, highest = integer_limits(kind.storage)
    scale, zero = float(kind.scale_array[0]), int(kind.zero_point_array[0])
    return (lowest - zero) * scale, (highest - zero) * scale


def made_tensor(op: TopOperation, names: Mapping[str, str]) -> str:
    """The quantized tensor that an operation makes, perhaps behind a bias or an activation."""
    value: SSAValue = op.results[0]
    for _ in range(MAX_FOLLOWERS):
        if value_name(value) in names:
            return names[value_name(value)]
        users = {use.operation for use in value.uses}
        user = next(iter(users), None)
        if len(users) != 1 or not isinstance(user, TopOperation) or not user.results:
            return ""
        if sum(not is_constant(operand) for operand in user.operands) > 1:
            return ""  # what several make is none of theirs
        value = user.results[0]
    return ""


def _mode(kind: QuantizedType | None) -> str:
    if kind is None:
        return FLOAT
    return INT16 if kind.storage.width.data > 8 else INT8


def _weight(op: Quantizable, snapshot: Snapshot) -> bool:
    place = op.quantized_weight()
    return place is not None and constant(op.operands[place[0]], snapshot.weights) is not None


def _weight_ranges(op: Quantizable, before: Snapshot, names: Mapping[str, str]) -> WeightRanges:
    place = op.quantized_weight()
    assert place is not None
    index, axis = place
    array = constant(op.operands[index], before.weights)
    assert array is not None
    others = tuple(a for a in range(array.ndim) if a != axis % array.ndim)
    lows, highs = array.min(axis=others, initial=np.inf), array.max(axis=others, initial=-np.inf)
    chosen = _shown_channels(np.maximum(np.abs(lows), np.abs(highs)))
    return WeightRanges(
        operation=identity_of(op),
        tensor=made_tensor(op, names),
        channels=tuple(chosen.tolist()),
        total=lows.size,
        lows=tuple(float(f"{n:.6g}") for n in lows[chosen]),
        highs=tuple(float(f"{n:.6g}") for n in highs[chosen]),
    )


def _shown_channels(largest: np.ndarray) -> np.ndarray:
    """All, or the widest and the narrowest ones, in their order."""
    if largest.size <= MAX_CHANNELS:
        return np.arange(largest.size)
    ranked = np.argsort(-largest, kind="stable")
    half = MAX_CHANNELS // 2
    return np.sort(np.concatenate([ranked[:half], ranked[-half:]]))
