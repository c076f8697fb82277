"""Operands that do not fit are refused by the operation itself, whoever makes it.

One valid instance of every operation is taken apart: each operand in turn gets another rank,
another size or another element type. What is made of that is refused with a ValueError, or it is
another valid operation: then its generated code computes what NumPy does, in its own buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from explorer.ir.operation import TopOperation
from explorer.ir.top import OPERATIONS
from explorer.ir.top.attention import AttentionOp, RotaryOp
from explorer.ir.top.casting import BitcastOp, CastOp
from explorer.ir.top.control import IfOp, LoopOp
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, TransferOp, WeightOp
from explorer.ir.top.data_dependent import DataDependentNodeOp
from explorer.ir.top.determinant import DeterminantOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.indexing import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.linear.matmul_blocks import MatMulBlocksOp
from explorer.ir.top.linear_systems import SolveOp
from explorer.ir.top.matrix_factors import CholeskyOp, LuOp
from explorer.ir.top.movement.concat import ConcatOp
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp, QuantizeBlocksOp
from explorer.ir.top.quantization.dynamic import DynamicQuantizeOp
from explorer.ir.top.quantization.fixed_point import FixedPointOp
from explorer.ir.top.quantization.fixed_point_softmax import FixedPointSoftmaxOp
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.top.quantization.integer_log_softmax import IntegerLogSoftmaxOp
from explorer.ir.top.quantization.integer_normalizations import (
    IntegerLayerNormOp,
    IntegerSoftmaxOp,
)
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp, RequantizeOp
from explorer.ir.top.quantization.simulated import SimulateQuantizationOp
from explorer.ir.top.reductions.arg import ArgOp
from explorer.ir.top.reductions.cumulative import CumulativeOp
from explorer.ir.top.reductions.local_response_norm import LocalResponseNormOp
from explorer.ir.top.reductions.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    SoftmaxOp,
)
from explorer.ir.top.reductions.reduction import ReduceOp, TopKOp
from explorer.ir.top.reflections import HouseholderOp, ReflectOp
from explorer.ir.top.selection import NonMaxSuppressionOp, NonZeroOp, UniqueOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.top.singular_values import OrthogonalizeOp
from explorer.ir.types import ELEMENT_TYPES, QuantizedType, is_static

Operands = list[np.ndarray | list[np.ndarray] | None]

_F32, _U8 = ELEMENT_TYPES["float32"], ELEMENT_TYPES["uint8"]
_BYTES = QuantizedType.get(_U8, [0.5, 0.25, 0.125], [3, 4, 5], 1)  # pyright: ignore
_SUMS = QuantizedType.get(ELEMENT_TYPES["int32"], [0.5], [0])  # pyright: ignore


def reals(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.25, 2, shape).astype(np.float32)


def indices(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True)
class Valid:
    """One valid instance; `None` is an optional operand that is left out."""

    kind: type[TopOperation]
    operands: Operands
    properties: dict = field(default_factory=dict)


WINDOW = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}
VALID = [
    Valid(CastOp, [reals(2, 3)], {"to": ELEMENT_TYPES["int32"]}),
    Valid(BitcastOp, [reals(2, 3)], {"to": ELEMENT_TYPES["int32"]}),
    Valid(UnaryOp, [reals(2, 3)], {"kind": "abs"}),
    Valid(BinaryOp, [reals(2, 3), reals(2, 3)], {"kind": "add"}),
    Valid(SelectOp, [np.array([[True], [False]]), reals(2, 3), reals(2, 3)]),
    Valid(
        ConvOp,
        [reals(1, 4, 5, 5), reals(6, 2, 3, 3), reals(6), reals(1, 6, 3, 3)],
        {"group": 2, **WINDOW},
    ),
    Valid(MatMulOp, [reals(2, 3, 4), reals(4, 5), reals(5), reals(2, 3, 5)]),
    Valid(PoolOp, [reals(1, 3, 5, 5)], {"kind": "max", "window": [3, 3], **WINDOW}),
    Valid(QuantizeOp, [reals(2, 3, 4)], {"to": _BYTES}),
    Valid(QuantizeBlocksOp, [reals(2, 3, 4)], {"block": 2}),
    Valid(SimulateQuantizationOp, [reals(2, 3, 4)], {"tensor": "x"}),
    Valid(ReduceOp, [reals(2, 3, 4)], {"kind": "sum", "axes": [1], "keepdims": True}),
    Valid(
        ArgOp,
        [reals(2, 3, 4)],
        {"kind": "max", "axis": 1, "keepdims": True, "select_last": False},
    ),
    Valid(TopKOp, [reals(2, 5)], {"k": 5, "axis": 1, "largest": True}),
    Valid(
        CumulativeOp,
        [reals(2, 3)],
        {"kind": "sum", "axis": 1, "exclusive": False, "reverse": False},
    ),
    Valid(DeterminantOp, [reals(2, 3, 3)]),
    Valid(SolveOp, [reals(2, 3, 3), reals(2, 3, 2)]),
    Valid(OrthogonalizeOp, [reals(2, 3, 2)]),
    Valid(LuOp, [reals(2, 3, 4)]),
    Valid(CholeskyOp, [reals(2, 3, 3) + 4 * np.eye(3, dtype=np.float32)]),
    Valid(HouseholderOp, [reals(2, 4, 3)]),
    Valid(ReflectOp, [reals(2, 4, 3), reals(2, 3), reals(2, 4, 5)], {"transposed": False}),
    Valid(SoftmaxOp, [reals(2, 3)], {"axis": 1, "logarithm": False}),
    Valid(BatchNormOp, [reals(2, 3, 4, 4), *(reals(3) for _ in range(4))], {"epsilon": 1e-5}),
    Valid(LayerNormOp, [reals(2, 3, 4), reals(4), reals(4)], {"axis": 2, "epsilon": 1e-5}),
    Valid(InstanceNormOp, [reals(2, 3, 4, 4), reals(3), reals(3)], {"epsilon": 1e-5}),
    Valid(
        LocalResponseNormOp,
        [reals(1, 3, 4, 4)],
        {"size": 2**62, "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
    ),
    Valid(
        AttentionOp,
        [
            reals(1, 4, 3, 8),
            reals(1, 2, 5, 8),
            reals(1, 2, 5, 6),
            np.ones((3, 5), bool),
            reals(1, 4, 3, 5),
        ],
        {"scale": 0.5},
    ),
    Valid(RotaryOp, [reals(2, 3, 4), reals(3, 4), reals(3, 4)]),
    Valid(ReshapeOp, [reals(2, 6), None], {"shape": [3, 4]}),
    Valid(ReshapeOp, [reals(2, 6), indices(2)]),
    Valid(TransposeOp, [reals(2, 3, 4)], {"permutation": [2, 0, 1]}),
    Valid(ConcatOp, [[reals(2, 3), reals(2, 4)]], {"axis": 1}),
    Valid(SliceOp, [reals(5, 6)], {"starts": [1, 0], "stops": [4, 6], "steps": [1, 2]}),
    Valid(SliceOp, [reals(5, 6), indices(1), indices(1), indices(1)], {"axes": [1]}),
    Valid(
        PadOp,
        [reals(2, 3), None],
        {"low": [0, 1], "high": [1, 0], "interior": [0, 0], "value": 1.0},
    ),
    Valid(PadOp, [reals(2, 3), indices(4)], {"value": 1.0}),
    Valid(ExpandOp, [reals(1, 3), None], {"shape": [2, 3]}),
    Valid(ExpandOp, [reals(1, 3), indices(2)]),
    Valid(GatherOp, [reals(4, 3), indices(2, 2)], {"axis": 0}),
    Valid(GatherElementsOp, [reals(4, 3), indices(2, 3)], {"axis": 0}),
    Valid(GatherNdOp, [reals(2, 3, 4), indices(2, 5, 1)], {"batch_dims": 1}),
    Valid(
        ScatterElementsOp,
        [reals(4, 3), indices(2, 3), reals(2, 3)],
        {"axis": 0, "reduction": "add"},
    ),
    Valid(ScatterNdOp, [reals(4, 3), indices(2, 1), reals(2, 3)], {"reduction": "add"}),
    Valid(NonZeroOp, [reals(2, 3)]),
    Valid(UniqueOp, [reals(5, 2)], {"axis": 0, "is_sorted": True}),
    Valid(
        NonMaxSuppressionOp,
        [reals(1, 5, 4), reals(1, 2, 5)],
        {"limit": 3, "overlap": 0.5, "threshold": 0.0, "is_centered": False},
    ),
    Valid(ShapeOp, [reals(2, 3)]),
    Valid(RangeOp, [np.array(0.0), np.array(4.0), np.array(0.5)]),
]
WITHOUT_OPERANDS_TO_FIT = {WeightOp, TransferOp, ConvertLayoutOp, ReturnOp, DataDependentNodeOp}
IN_TESTS_OF_THEIR_OWN = {
    IfOp,
    LoopOp,
    DequantizeOp,
    RequantizeOp,
    DequantizeBlocksOp,
    MatMulBlocksOp,
    DynamicQuantizeOp,
    FixedPointOp,
    FixedPointSoftmaxOp,
    IntegerAverageOp,
    LookupOp,
    IntegerSoftmaxOp,
    IntegerLogSoftmaxOp,
    IntegerLayerNormOp,
    InterpolateOp,
}


def test_every_operation_has_a_valid_instance() -> None:
    covered = {valid.kind for valid in VALID} | WITHOUT_OPERANDS_TO_FIT | IN_TESTS_OF_THEIR_OWN
    assert covered == set(OPERATIONS)


def named(valid: Valid) -> str:
    return f"{valid.kind.name.removeprefix('top.')}-{len(valid.operands)}"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("valid", VALID, ids=named)
def test_an_operand_that_does_not_fit_is_refused(
    valid: Valid, build: Callable[..., TopOperation], compiled
) -> None:
    original = build(valid.kind, valid.operands, **valid.properties)
    cases, refused = [], 0
    for operands in perturbed(valid.operands):
        try:
            op = build(valid.kind, operands, **valid.properties)
        except ValueError:
            refused += 1
            continue
        cases.append((op, flat(operands)))
    several = len(original.operands) > 1
    assert refused or not several, "nothing is asked of any operand beside another"
    computed = [(op, arrays) for op, arrays in cases if is_computed(op, arrays)]
    results = compiled.run_all(computed) if computed else []
    for (op, arrays), found in zip(computed, results, strict=True):
        for actual, expected in zip(found, op.evaluate(*arrays), strict=True):
            assert actual.shape == expected.shape, op
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, err_msg=str(op))


def perturbed(operands: Operands) -> Iterator[Operands]:
    """The operands with one of them changed."""
    for position, operand in enumerate(operands):
        if operand is None:
            continue
        if isinstance(operand, list):
            for changed in perturbed(operand):  # pyright: ignore[reportArgumentType]
                yield [*operands[:position], changed, *operands[position + 1 :]]
            continue
        for array in others(operand):
            yield [*operands[:position], array, *operands[position + 1 :]]


def others(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array with an axis more or less, with a size more or less, and of other types."""
    yield array[np.newaxis]
    yield np.stack([array, array])
    for axis in range(array.ndim):
        yield np.asarray(np.take(array, 0, axis))
        yield np.concatenate([array, np.take(array, [0], axis)], axis)
        if array.shape[axis] > 1:
            yield np.take(array, range(array.shape[axis] - 1), axis)
            yield np.take(array, [0], axis)
    for dtype in (np.float64, np.float32, np.int64, bool):
        if array.dtype != dtype:
            yield array.astype(dtype)


def flat(operands: Operands) -> list[np.ndarray]:
    return [
        array
        for operand in operands
        if operand is not None
        for array in (operand if isinstance(operand, list) else [operand])
    ]


def is_computed(op: TopOperation, arrays: list[np.ndarray]) -> bool:
    """Whether generated code can be made of it: not of what is sized by data."""
    if not all(is_static(value) for value in (*op.operands, *op.results)):
        return False
    return not isinstance(op, ShapeOp) and not op.kernel_constants()
