"""Requantization against exact rational arithmetic, for every scheme and rounding."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8
from xdsl.parser import Parser

from explorer.ir.inspection.printing import make_context
from explorer.ir.requantization import (
    ROUNDINGS,
    Requantization,
    RequantizationAttr,
    Rounding,
    fixed_point,
    in_words,
    integer_limits,
    ratio_of,
    requantize,
    rounded_float,
    rounding_shift,
)
from explorer.ir.types import QuantizedType

U8 = IntegerType(8, Signedness.UNSIGNED)
WIDE = (-(2**31), 2**31 - 1)
accumulators = st.integers(*WIDE)
ratios = st.floats(2**-30, 64, width=32)
roundings = st.sampled_from(ROUNDINGS)


def rounded(x: Fraction, rounding: Rounding) -> int:
    """The definition of each rounding."""
    below = math.floor(x)
    rest = x - below
    half = Fraction(1, 2)
    if rounding == "down":
        return below
    if rounding == "to_zero":
        return math.trunc(x)
    if rest != half:
        return below + (rest > half)
    return {
        "nearest_even": below + below % 2,
        "nearest_up": below + 1,
        "nearest_away_from_zero": below + (x > 0),
    }[rounding]


@given(accumulators, ratios, roundings, st.integers(2, 32))
def test_multiplier_and_shift_round_the_product_once(accumulator, ratio, rounding, bits):
    how = Requantization("multiplier_shift", rounding, bits)
    factors = fixed_point(np.array(ratio), how)
    product = Fraction(accumulator) * int(factors.multipliers) / 2 ** int(factors.shifts)
    found = requantize(np.array([accumulator], np.int32), np.array(ratio, np.float32), 0, WIDE, how)
    assert found[0] == min(max(rounded(product, rounding), WIDE[0]), WIDE[1])


@given(ratios, st.integers(2, 32).filter(lambda bits: bits != 16))
def test_a_multiplier_has_its_upper_half_set_and_errs_by_half_a_unit(ratio, bits):
    factors = fixed_point(np.array(ratio), Requantization("multiplier_shift", "down", bits))
    multiplier, shift = int(factors.multipliers), int(factors.shifts)
    unit = Fraction(max(multiplier.bit_length() - bits + 1, 0))
    assert 2 ** (bits - 2) <= multiplier
    error = abs(Fraction(ratio) * 2**shift - multiplier)
    assert error <= Fraction(1, 2) * 2 ** int(unit)


@given(ratios)
def test_a_multiplier_of_16_bits_is_the_upper_half_of_one_of_32(ratio):
    """As TensorFlow Lite narrows it for sums of 64 bits: `(q + (1 << 15)) >> 16`, 0x7FFF on top."""
    how = Requantization("multiplier_shift", "nearest_up", 16)
    whole = fixed_point(np.array(ratio), replace(how, multiplier_bits=32))
    half = fixed_point(np.array(ratio), how)
    fraction = Fraction(int(whole.multipliers), 2 ** int(whole.shifts))
    kept = min(math.floor(fraction * 2 ** int(half.shifts) + Fraction(1, 2)), 0x7FFF)
    if ratio < 1:  # larger ones are lifted to whole multipliers
        assert int(half.multipliers) == kept
    assert fixed_point(np.array(1 - 2.0**-20), how).multipliers == 0x7FFF


def published(accumulator: int, ratio: float) -> int:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING, word by word:
    QuantizeMultiplier, SaturatingRoundingDoublingHighMul, RoundingDivideByPOT."""
    fraction, shift = math.frexp(ratio)
    fixed = math.floor(fraction * 2**31 + 0.5)  # std::round of a positive number
    if fixed == 2**31:
        fixed, shift = fixed // 2, shift + 1
    if shift < -31:
        fixed, shift = 0, 0
    left, right = max(shift, 0), max(-shift, 0)
    lifted = (accumulator * 2**left + 2**31) % 2**32 - 2**31
    product = lifted * fixed
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)  # C's division truncates
    mask = 2**right - 1
    threshold = (mask >> 1) + (high < 0)
    return (high >> right) + ((high & mask) > threshold)


EXTREMES = [-(2**31), -(2**31) + 1, -(2**30), -1, 0, 1, 2**30, 2**31 - 1]


@given(
    st.one_of(accumulators, st.sampled_from(EXTREMES)),
    st.one_of(st.floats(2**-40, 2**29), st.sampled_from([2.0**-32, 0.5, 1 - 2.0**-53, 1.0])),
)
def test_a_doubling_high_multiply_rounds_twice_as_published(accumulator, ratio):
    how = Requantization("doubling_high_multiply", "nearest_away_from_zero")
    found = requantize(np.array([accumulator], np.int32), np.array(ratio), 0, WIDE, how)
    assert found[0] == published(accumulator, ratio)


def test_two_roundings_are_not_one():
    """-1.5 steps: half up in the first rounding, away from zero in the second."""
    twice = Requantization("doubling_high_multiply", "nearest_away_from_zero")
    once = Requantization("multiplier_shift", "nearest_up")
    sums, ratio = np.array([-3, -6, 6, 3], np.int32), np.array(0.25)
    assert requantize(sums, ratio, 0, WIDE, twice).tolist() == [-1, -2, 2, 1]
    assert requantize(sums, ratio, 0, WIDE, once).tolist() == [-1, -1, 2, 1]


def test_a_doubling_high_multiply_knows_no_other_rounding():
    to = QuantizedType.get(U8, [0.1], [3])
    down = RequantizationAttr.get(to, Requantization("doubling_high_multiply", "down"))
    assert down == RequantizationAttr.get(
        to, Requantization("doubling_high_multiply", "nearest_even")
    )
    assert "doubling high multiply" in in_words(down)


def test_a_ratio_that_lifts_out_of_32_bits_is_refused():
    how = Requantization("doubling_high_multiply", "nearest_even")
    with pytest.raises(ValueError, match="more than 30 bits"):
        fixed_point(np.array([2.0**31]), how)


def test_integer_schemes_know_ratios_in_double_precision():
    source = QuantizedType.get(IntegerType(32), [float(np.float32(0.1)) ** 2], [0])
    to = QuantizedType.get(i8, [0.3], [0])
    exact = float(np.float32(0.1)) ** 2 / float(np.float32(0.3))
    assert ratio_of(source, RequantizationAttr.get(to, Requantization("shift", "down")))[0] == exact
    single = ratio_of(source, RequantizationAttr.get(to, Requantization("float", "down")))[0]
    assert single.dtype == np.float32 and float(single) != exact


@given(accumulators, ratios, roundings)
def test_shift_takes_the_nearest_power_of_two(accumulator, ratio, rounding):
    exponent = round(math.log2(ratio))
    exact = Fraction(accumulator) * Fraction(2) ** exponent
    how = Requantization("shift", rounding)
    found = requantize(np.array([accumulator], np.int32), np.array(ratio, np.float32), 0, WIDE, how)
    assert found[0] == min(max(rounded(exact, rounding), WIDE[0]), WIDE[1])


@given(accumulators, ratios, roundings, st.integers(0, 255))
def test_float_rounds_a_product_in_single_precision(accumulator, ratio, rounding, zero):
    product = np.float32(accumulator) * np.float32(ratio)
    expected = rounded(Fraction(float(product)), rounding) + zero
    how = Requantization("float", rounding)
    found = requantize(
        np.array([accumulator], np.int32), np.array(ratio, np.float32), zero, (0, 255), how
    )
    assert found[0] == min(max(expected, 0), 255)


@given(st.integers(-(2**62), 2**62 - 1), st.integers(0, 60), roundings)
def test_a_rounding_shift_is_a_division(number, shift, rounding):
    found = rounding_shift(np.array([number]), np.array([shift]), rounding)
    assert found[0] == rounded(Fraction(number, 2**shift), rounding)


@given(st.floats(-(2**22), 2**22, width=32), roundings)
def test_rounding_floats_is_exact(number, rounding):
    found = rounded_float(np.array([number], np.float32), rounding)
    assert found[0] == rounded(Fraction(number), rounding)


def test_ratios_per_channel_and_limits():
    sums = np.array([[[100, -7]], [[100, -7]]], np.int32)
    ratio = np.array([0.5, 0.25], np.float32).reshape(2, 1, 1)
    how = Requantization("float", "nearest_even")
    found = requantize(sums, ratio, 3, (0, 40), how)
    np.testing.assert_array_equal(found, [[[40, 0]], [[28, 1]]])


def test_a_ratio_that_vanishes_gives_the_zero_point():
    how = Requantization("shift", "nearest_even")
    found = requantize(
        np.array([2**31 - 1], np.int32), np.array(2.0**-70, np.float32), 5, (0, 255), how
    )
    assert found[0] == 5


def test_a_ratio_that_needs_more_than_32_bits_is_refused():
    how = Requantization("multiplier_shift", "nearest_even", 32)
    with pytest.raises(ValueError, match="more than 32 bits"):
        fixed_point(np.array([2.0**32]), how)


def test_integer_limits():
    assert integer_limits(U8) == (0, 255)
    assert integer_limits(i8) == (-128, 127)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"how": Requantization("float", "sideways")}, "unknown rounding 'sideways'"),  # pyright: ignore
        ({"how": Requantization("lookup", "down")}, "unknown scheme 'lookup'"),  # pyright: ignore
        ({"how": Requantization("multiplier_shift", "down", 40)}, "2 to 32 bits"),
        ({"limits": (0, 300)}, "lie outside"),
        ({"to": QuantizedType.get(IntegerType(32), [1.0], [0])}, "at most 16 bits"),
        ({"to": QuantizedType.get(i8, [1.0, 2.0], [0, 0], 1)}, "one scale"),
    ],
)
def test_what_no_kernel_can_do_is_refused(change, problem):
    given = {"to": QuantizedType.get(U8, [0.1], [3]), **change}
    with pytest.raises(ValueError, match=problem):
        RequantizationAttr.get(**given).check()


@pytest.mark.parametrize("limits", [None, (3, 200)])
@pytest.mark.parametrize("of_singles", [False, True])
def test_text_of_an_attribute_is_read_back(limits, of_singles):
    to = QuantizedType.get(U8, [0.1], [3])
    attribute = RequantizationAttr.get(to, Requantization("shift", "down"), limits, of_singles)
    module = ModuleOp([], attributes={"by": attribute})
    text = str(module)
    assert ("singles" in text) == of_singles
    assert Parser(make_context(), text).parse_module().attributes["by"] == attribute


def test_limits_of_two_activations_are_those_of_both():
    attribute = RequantizationAttr.get(QuantizedType.get(U8, [0.1], [3]), limits=(3, 200))
    assert attribute.with_(limits=(0, 100)).limits == (3, 100)
    assert attribute.with_(limits=(220, 255)).limits == (200, 200)
