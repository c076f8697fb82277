"""Averages of stored numbers, divided as whole numbers are: bit-equal to the operation."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.dialects.test import TestOp as AnyOp

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine

from explorer.ir.requantization import (
    FixedPoint,
    Requantization,
    RequantizationAttr,
    multiplied,
)
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.types import QuantizedType, tensor_type
from explorer.npu import LayerError, Pieces, compile_layer
from explorer.npu.layers.averages import division
from explorer.npu.layers.from_operations import read_operation
from explorer.npu.layers.value_layout import stored_form
from explorer.runtime.npu import simulate

FULL = ["edge-64", "mac-128", "odd-12x20", "tiny-8"]
PADDED = {"window": [3, 2], "strides": [2, 1], "pads": [1, 1, 2, 0], "low": -100, "high": 90}
RESCALED = {"window": [3, 2], "strides": [2, 1], "pads": [1, 1, 2, 0]}
WHOLE = {"window": [7, 6], "strides": [1, 1], "pads": [0, 0, 0, 0], "low": -128, "high": 127}


def average_of(fields, is_signed=True, pictures=1):
    """The operation, and the one layer that it is read as."""
    storage = IntegerType(8) if is_signed else IntegerType(8, Signedness.UNSIGNED)
    kind = QuantizedType.get(storage, [0.1], [3])
    made = AnyOp(result_types=[tensor_type(kind, (pictures, 23, 7, 6))])
    if not is_signed and "low" in fields:
        fields = {**fields, "low": fields["low"] + 128, "high": fields["high"] + 128}
    op = IntegerAverageOp.make([made.results[0]], **fields)
    return op, lambda: read_operation(op, {})[0].layer


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("fields", "is_signed", "pictures"),
    [(PADDED, True, 1), (PADDED, False, 2), (WHOLE, True, 3), (WHOLE, False, 1)],
)
@pytest.mark.parametrize("name", FULL)
def test_averages_are_those_of_the_operation_on_every_machine(name, fields, is_signed, pictures):
    found, random = machine(name), np.random.default_rng(1)
    op, read = average_of(fields, is_signed, pictures)
    layer = read()
    assert isinstance(layer, Pieces) == (fields is PADDED or pictures > 1)
    compared(layer, found, random)
    stored = stored_form(op.input)
    # Of few different numbers, so that many sums lie halfway between two.
    low, high = (-128, 128) if is_signed else (0, 256)
    chosen = random.choice([low, low + 1, 0, 1, 2, high - 1], stored.logical_shape)
    (expected,) = op.evaluate(chosen.astype(stored.element_type))
    averages = layer.run(stored.signed(chosen).reshape(layer.inputs[0].shape))
    np.testing.assert_array_equal(stored_form(op.output).logical(averages), expected)
    made = compile_layer(layer, found)
    image = simulate(
        made.program, made.image_with(stored.signed(chosen).reshape(layer.inputs[0].shape)), found
    ).image
    np.testing.assert_array_equal(made.output_of(image), averages)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize(("is_signed", "pictures"), [(True, 1), (False, 2)])
def test_averages_of_another_scale_have_a_factor_for_each_count(name, is_signed, pictures):
    found, random = machine(name), np.random.default_rng(1)
    storage = IntegerType(8, Signedness.UNSIGNED)
    by = RequantizationAttr.get(
        QuantizedType.get(storage, [0.043], [90]), Requantization(found.scheme, found.rounding)
    )
    op, read = average_of({**RESCALED, "by": by}, is_signed, pictures)
    layer = read()
    compared(layer, found, random)
    stored = stored_form(op.input)
    low, high = (-128, 128) if is_signed else (0, 256)
    x = random.integers(low, high, stored.logical_shape)
    (expected,) = op.evaluate(x.astype(stored.element_type))
    averages = layer.run(stored.signed(x).reshape(layer.inputs[0].shape))
    np.testing.assert_array_equal(stored_form(op.output).logical(averages), expected)


def test_windows_of_one_axis_and_with_holes_are_refused_by_name():
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = AnyOp(result_types=[tensor_type(kind, (1, 4, 9)), tensor_type(kind, (1, 4, 9, 9))])
    limits = {"low": -128, "high": 127}
    line = IntegerAverageOp.make([made.results[0]], window=[3], strides=[1], pads=[1, 1], **limits)
    with pytest.raises(LayerError, match="its window has 1 axes, and layers have two"):
        read_operation(line, {})
    apart = IntegerAverageOp.make(
        [made.results[1]], window=[3, 3], strides=[1, 1], pads=[1] * 4, dilations=[2, 2], **limits
    )
    with pytest.raises(LayerError, match="lie apart"):
        read_operation(apart, {})


@pytest.mark.parametrize(
    "how",
    [
        Requantization("multiplier_shift", rounding)
        for rounding in ("nearest_even", "nearest_up", "nearest_away_from_zero")
    ]
    + [Requantization("doubling_high_multiply", "nearest_away_from_zero")],
    ids=str,
)
def test_every_sum_is_divided_exactly(how):
    for divisor in (1, 2, 3, 4, 6, 7, 9, 16, 49, 64, 100, 1024):
        largest = divisor * 128
        found = division(divisor, largest, how)
        assert found is not None
        sums = np.arange(-largest, largest + 1)
        factors = FixedPoint(*map(np.array, found))
        nearest = np.sign(sums) * ((np.abs(sums) + divisor // 2) // divisor)
        np.testing.assert_array_equal(multiplied(sums, factors, how), nearest, str(divisor))


def test_what_no_factor_divides_exactly_is_refused_by_name():
    doubling = Requantization("doubling_high_multiply", "nearest_away_from_zero")
    assert division(3000, 3000 * 32768, doubling) is None
    _, read = average_of(WHOLE)
    with pytest.raises(LayerError, match="vta-16: requantization by shift, down does not divide"):
        compile_layer(read(), machine("vta-16"))
    for scheme, rounding in itertools.product(["shift", "float"], ["down", "nearest_even"]):
        assert division(4, 512, Requantization(scheme, rounding)) is None
    assert division(4, 512, Requantization("multiplier_shift", "down")) is None
