"""Whole factors and shifts that a file states: bit-equal on every machine, or refused."""

import operator
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, convolution, machine

from explorer.ir.requantization import BY_SHIFT, FixedPoint, Requantization, fixed_point, multiplied
from explorer.npu import Elementwise, ElementwiseOperand, LayerError, Rescaling, compile_layer
from explorer.npu.layers.matrices import IN_ROWS, MatrixProduct
from explorer.npu.layers.requantization_parameters import DOUBLING
from explorer.npu.layers.stated_requantization import doubled, reduced, shifted

NPUS = ["edge-64", "mac-128", "odd-12x20", "tiny-8", "vta-16", "vta-32"]
RATIOS = (514 / 65536, 257 / 65536, 12345 / 2**21, 1 / 128, 3 / 2**9)


def stated(ratios, outputs, **fields):
    factors = fixed_point(np.resize(ratios, outputs), BY_SHIFT)
    return Rescaling(how=BY_SHIFT, multipliers=factors.multipliers, shifts=factors.shifts,
                     **{"zero_point": -128, "low": -128, "high": 127, **fields})  # fmt: skip


def ties(random, shape):
    """Few different numbers, so that many sums lie halfway between two results."""
    return random.choice([-128, -127, -1, 0, 1, 2, 64, 127], shape)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ratios", [RATIOS, (257 / 2**15,), (1 / 64, 1 / 8)], ids=str)
@pytest.mark.parametrize("name", NPUS)
def test_a_convolution_has_a_factor_for_each_channel(name, ratios):
    found, random = machine(name), np.random.default_rng(3)
    layer = convolution(found, random, pads=(1, 1, 1, 1), rescaling=stated(ratios, 37))
    compared(layer, found, random)
    compared(layer, found, random, given=[ties(random, layer.input_shape)])


@pytest.mark.parametrize("name", NPUS)
def test_sums_of_few_numbers_may_grow(name):
    found, random = machine(name), np.random.default_rng(3)
    layer = convolution(found, random, inputs=4, kernel=(1, 1), zero_point=0,
                        rescaling=stated((2.0, 1.0, 3.0), 37, zero_point=0))  # fmt: skip
    compared(layer, found, random)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ratio", [514 / 65536, 1 / 64])
@pytest.mark.parametrize("name", NPUS)
def test_products_of_computed_matrices(name, ratio):
    found, random = machine(name), np.random.default_rng(3)
    inner = 4 * np.lcm(found.rows, found.columns)
    layer = MatrixProduct(
        name="layer", left_shape=(inner, 1, 33), right_shape=(inner, 1, 5 * found.columns),
        zeros=IN_ROWS, left_zero_point=2, rescaling=stated((ratio,), 1, zero_point=3),
    )  # fmt: skip
    compared(layer, found, random)
    compared(layer, found, random, given=[ties(random, t.shape) for t in layer.inputs])


def one(ratio):
    factors = fixed_point(np.array(ratio), BY_SHIFT)
    return int(factors.multipliers), int(factors.shifts)


def elementwise(ratio, kind="scale", constant=None):
    """As programs have them: sums of numbers of one scale are lifted by 20 bits and halved."""
    is_sum = kind != "scale"
    half, shape = one(0.5) if is_sum else None, (45, 9, 7)
    sides = [ElementwiseOperand(shape=shape, zero_point=zero, factor=half, constant=numbers)
             for zero, numbers in ((-128, None), (5, constant))]  # fmt: skip
    return Elementwise(
        name="layer", kind=kind, left=sides[0], right=sides[1] if is_sum else None, how=BY_SHIFT,
        lift=20 if is_sum else 0, factor=one(ratio / 2**19 if is_sum else ratio), zero_point=-128,
        low=-100, high=127,
    )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("ratio", [0.5, 2.0, 1.0, 1 / 16, 77 / 256])
@pytest.mark.parametrize("kind", ["scale", "add", "sub"])
@pytest.mark.parametrize("name", NPUS)
def test_sums_and_changes_of_scale(name, kind, ratio):
    found, random = machine(name), np.random.default_rng(3)
    compared(elementwise(ratio, kind), found, random)


@pytest.mark.parametrize("name", NPUS)
def test_a_constant_is_added(name):
    found, random = machine(name), np.random.default_rng(3)
    compared(elementwise(0.25, "add", random.integers(-128, 128, (45, 9, 7))), found, random)


@pytest.mark.parametrize(
    ("ratio", "why"),
    [(32767 / 2**30, "times 32767 need more than 32 bits"), (1 / 2**31, "has more than 32 bits")],
)
def test_what_32_bits_cannot_multiply_is_refused_on_vta(ratio, why):
    found, random = machine("vta-16"), np.random.default_rng(3)
    layer = convolution(found, random, rescaling=stated((ratio,), 37))
    with pytest.raises(LayerError, match=why):
        compile_layer(layer, found)


def test_bounds_of_a_computed_matrix_are_immediates():
    found = machine("vta-16")
    layer = MatrixProduct(
        name="layer", left_shape=(64, 1, 33), right_shape=(64, 1, 16), zeros=IN_ROWS,
        rescaling=stated((12345 / 2**22,), 1),
    )  # fmt: skip
    with pytest.raises(LayerError, match="by which it scales, is no immediate of 16 bits"):
        compile_layer(layer, found)


def test_a_ratio_that_doubling_would_round_twice_is_refused():
    found, random = machine("mac-128"), np.random.default_rng(3)
    for ratio in (3 / 2**33, 3000.0):
        layer = convolution(found, random, rescaling=stated((ratio,), 37))
        with pytest.raises(LayerError, match="not by multiplier shift of 32 bits, nearest up"):
            compile_layer(layer, found)


def test_another_rounding_is_refused():
    found = machine("tiny-8", **{"requantization.rounding": "nearest_even"})
    layer = convolution(found, np.random.default_rng(3), rescaling=stated(RATIOS, 37))
    with pytest.raises(LayerError, match="multiplier_shift, nearest_even"):
        compile_layer(layer, found)


STEPS = {"maximum": max, "minimum": min, "multiply": operator.mul, "add": operator.add,
         "shift_right": operator.rshift}  # fmt: skip
numbers = st.integers(-(2**31), 2**31 - 1)


@given(st.integers(1, 2**15 - 1), st.integers(0, 40), st.integers(0, 15), numbers)
def test_doubled_factors_give_the_same_numbers(multiplier, shift, zeros, x):
    factors = np.array([multiplier << zeros]), np.array([shift + zeros])
    found = doubled(*factors, abs(x))
    if found is None:
        # Too small to be held, or so large that the number would be lifted out of 32 bits.
        least, shift = (int(numbers[0]) for numbers in reduced(*factors))
        lift = max(0, least.bit_length() - shift)
        assert shift + lift > 31 or abs(x) << lift >= 2**31
        return
    assert 0 < found[0][0] < 2**31 and 1 <= found[1][0] <= 31
    actual = multiplied(np.array([x]), FixedPoint(*found), DOUBLING)
    assert actual == multiplied(np.array([x]), FixedPoint(*factors), BY_SHIFT)


@given(
    st.integers(1, 2**15 - 1), st.integers(0, 31), st.integers(-128, 127), numbers, st.booleans()
)
def test_shifted_steps_give_the_same_numbers(multiplier, shift, zero, x, is_any):
    """In 32 bits, with numbers of 16 bits between the steps."""
    factors = np.array([multiplier]), np.array([shift])
    scaling = Rescaling(how=BY_SHIFT, multipliers=factors[0], shifts=factors[1], zero_point=zero)
    found = shifted(scaling, 2**31 - 1 if is_any else abs(x))
    assume(not isinstance(found, str))
    y, steps = x, found.steps
    assume(not isinstance(steps, str))
    for operation, value in steps:
        assert -(2**15) < value < 2**15
        y = STEPS[operation](y, value)
        assert -(2**31) <= y < 2**31
    expected = scaling.applied(np.full((1, 1, 1), x))
    assert min(max(y + zero, -128), 127) == expected[0, 0, 0]


def test_schemes_that_no_file_states_stay_as_they_are():
    random = np.random.default_rng(3)
    found = machine("mac-128")
    layer = convolution(found, random)
    assert layer.rescaling.how == Requantization(found.scheme, found.rounding)
    assert compile_layer(layer, found).tiled.layer.rescaling == layer.rescaling
