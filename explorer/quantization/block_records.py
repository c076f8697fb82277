"""What weights alone became, as data: read off the programs before and behind the pass.

    record = weights_record(before, after, table)       snapshots of `quantize-weights`
    record.blocks[0]    fc1: INT4 in blocks of 32 by gptq, 5120 bytes of 32768, sums err 2 dB less

What decided (the table, a mode, a fork) is not asked: numbers and their type stand in the program.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import func

from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.types import QuantizedType
from explorer.quantization.block_numbers import DTYPES, BlockForm, BlockNumbers, nearest
from explorer.quantization.corrections.record import (
    GPTQ,
    BlockRounding,
    Corrections,
    digest_of_weights,
)
from explorer.quantization.quantize_weights import NEAREST, weighted
from explorer.quantization.table import FLOAT, ThresholdTable
from explorer.results.runs.quantization import BlockedWeights, QuantizationRecord


def weights_record(before: Snapshot, after: Snapshot, table: ThresholdTable) -> QuantizationRecord:
    """Of the pass `quantize-weights`, whose table is given."""
    function = entry_function(before.program)
    assert isinstance(function, func.FuncOp)
    return QuantizationRecord(
        method=table.method,
        table=table.path,
        tensors=(),
        weights=(),
        blocks=tuple(
            _blocked(op, array, after, table.corrections)
            for op, array in weighted(function, before.weights)
        ),
    )


def _blocked(
    op: MatMulOp, array: np.ndarray, after: Snapshot, corrections: Corrections | None
) -> BlockedWeights:
    name = identity_of(op)
    behind = after.operations[name]
    assert isinstance(behind, MatMulOp)
    real = behind.right.owner
    if not isinstance(real, DequantizeBlocksOp):
        return BlockedWeights(
            operation=name,
            mode=FLOAT,
            block=0,
            rounding="",
            size_bytes=array.nbytes,
            float_bytes=array.nbytes,
            nearest_db=None,
            weights_db=None,
        )
    found = _numbers(real, after)
    known = corrections.blocks.get(name) if corrections is not None else None
    if known is not None and not _is_applied(known, found, array):
        known = None
    own = _weights_db(array, found)
    return BlockedWeights(
        operation=name,
        mode=found.form.name.upper(),
        block=found.form.block,
        rounding=NEAREST if known is None else GPTQ,
        size_bytes=found.size_bytes,
        float_bytes=array.nbytes,
        nearest_db=own if known is None else _weights_db(array, nearest(array, found.form)),
        weights_db=own,
        sums_gain_db=None if known is None else _gain(known),
    )


def _numbers(op: DequantizeBlocksOp, snapshot: Snapshot) -> BlockNumbers:
    arrays = [constant(operand, snapshot.weights) for operand in op.operands]
    numbers, scales, zeros = (*arrays, None)[:3]
    assert numbers is not None and scales is not None
    kind: QuantizedType = op.blocks
    name = next(name for name, dtype in DTYPES.items() if dtype == numbers.dtype)
    form = BlockForm(name, kind.block_size)
    return BlockNumbers(form=form, numbers=numbers, scales=scales, zeros=zeros)


def _is_applied(known: BlockRounding, found: BlockNumbers, array: np.ndarray) -> bool:
    """Whether the numbers of the program are those that GPTQ found for these weights."""
    return (
        known.numbers.form == found.form
        and known.weights == digest_of_weights(array)
        and np.array_equal(known.numbers.numbers, found.numbers)
    )


def _weights_db(array: np.ndarray, found: BlockNumbers) -> float:
    """Signal to noise of the weights themselves."""
    wide = array.astype(np.float64)
    return _ratio_db(float((wide**2).sum()), float(((found.real() - wide) ** 2).sum()))


def _gain(known: BlockRounding) -> float:
    return _ratio_db(known.error, known.error_after)


def _ratio_db(signal: float, noise: float) -> float:
    if noise > 0 and signal > 0:
        return 10 * math.log10(signal / noise)
    return math.inf if signal > 0 else 0.0
