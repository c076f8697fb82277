"""Winograd's matrices: what they promise, exactly, and the transform of weights."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Block

from explorer.ir.scalars import Scalar
from explorer.kernels.program.packing import pack_array, pack_transformed
from explorer.kernels.steps.winograd.matrices import VARIANTS, multiply, transform_weights

numbers = st.integers(-9, 9).map(Fraction)


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


@pytest.mark.parametrize("outputs", VARIANTS)
@given(st.data())
def test_the_product_of_the_transforms_is_the_filter_exactly(outputs, data):
    form = VARIANTS[outputs]
    inputs = data.draw(st.lists(numbers, min_size=outputs + 2, max_size=outputs + 2))
    filters = data.draw(st.lists(numbers, min_size=3, max_size=3))
    products = [
        a * b
        for a, b in zip(
            times(form.weight_matrix, filters), times(form.input_matrix, inputs), strict=True
        )
    ]
    expected = [sum(inputs[k + p] * filters[p] for p in range(3)) for k in range(outputs)]
    assert times(form.output_matrix, products) == expected


@pytest.mark.parametrize("outputs", VARIANTS)
@pytest.mark.parametrize("name", ["input_matrix", "output_matrix"])
def test_straight_line_code_multiplies_the_matrix(outputs, name):
    matrix = getattr(VARIANTS[outputs], name)
    block = Block()
    values = []
    for k in range(len(matrix[0])):
        constant = arith.ConstantOp(FloatAttr(float(3**k), f32))
        block.add_op(constant)
        values.append(Scalar(block, constant.result))
    results = multiply(matrix, values)
    known = {}
    for op in block.ops:
        operands = [known[o] for o in op.operands]
        match op:
            case arith.ConstantOp():
                known[op.result] = op.value.value.data
            case arith.AddfOp():
                known[op.result] = operands[0] + operands[1]
            case arith.SubfOp():
                known[op.result] = operands[0] - operands[1]
            case arith.MulfOp():
                known[op.result] = operands[0] * operands[1]
            case _:
                raise AssertionError(op.name)
    expected = times(matrix, [Fraction(3) ** k for k in range(len(matrix[0]))])
    assert [known[r.value] for r in results] == [float(e) for e in expected]


@pytest.mark.parametrize("outputs", VARIANTS)
def test_filters_are_transformed_from_both_sides(outputs):
    weights = np.random.default_rng(0).uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
    matrix = np.array(VARIANTS[outputs].weight_matrix, np.float64)
    expected = matrix @ weights.astype(np.float64) @ matrix.T
    found = transform_weights(weights, outputs)
    assert found.shape == (outputs + 2, outputs + 2, 4, 3)
    # Rounded once to float32.
    np.testing.assert_allclose(found, np.moveaxis(expected, (2, 3), (0, 1)), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    "pack",
    [
        ((2, 4, None), (0, 1, None), (1, 1, None), (3, 1, None), (2, 2, 2), (2, 1, 2)),
        ((0, 1, None), (3, 1, None), (1, 1, None), (2, 1, None)),
        ((0, 1, None), (1, 1, None), (2, 1, None), (3, 1, None)),
    ],
    ids=["groups", "mixed", "as it is"],
)
def test_packing_before_the_transform_gives_what_packing_behind_it_would(pack):
    weights = np.random.default_rng(1).uniform(-1, 1, (8, 3, 3, 3)).astype(np.float32)
    expected = pack_array(transform_weights(weights, 4), pack)
    np.testing.assert_array_equal(pack_transformed(weights, 4, pack), expected)


def test_weights_of_another_window_are_refused():
    with pytest.raises(ValueError, match="are not the 3x3 of filters"):
        transform_weights(np.zeros((4, 3, 5, 5), np.float32), 4)
