"""Averages of quantized numbers over open axes: the integers that a program of each size makes."""

from itertools import product

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.importers.onnx import from_proto
from explorer.ir.requantization import AS_ONNXRUNTIME, requantize

CHANNELS = 48
SIZES = {"h": (1, 4), "w": (1, 3)}
TYPES = {"uint8": np.uint8, "int8": np.int8, "int16": np.int16}
POOL = "m = GlobalAveragePool (x)"
CASES = [
    ("uint8", 0.5, 0, "uint8", 0.5, 0),  # ties of even counts
    ("uint8", 0.25, 255, "uint8", 0.5, 128),  # ties of all counts, below zero
    ("int8", 0.06052063778042793, -3, "int8", 0.06052063778042793, 5),
    ("uint8", 0.1, 7, "int8", 0.3, -128),  # factors that singles round
    ("int8", 1.0, 127, "uint8", 0.125, 0),  # most results lie beyond an end
    ("int16", 0.5, -32768, "int16", 0.25, 32767),
]


def averaged(source, scale, zero, to, new_scale, new_zero, body=POOL, outputs=""):
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> '
        f"net ({source}[1,{CHANNELS},h,w] q) => ({to}[1,{CHANNELS},i,j] y{outputs}) "
        f"<float s = {{{scale!r}}}, float t = {{{new_scale!r}}}, {source} z = {{{zero}}}, "
        f"{to} o = {{{new_zero}}}> "
        f"{{ x = DequantizeLinear (q, s, z)  {body}  y = QuantizeLinear (m, t, o) }}"
    )
    return from_proto(onnx.parser.parse_model(text))


def sums_near_ties(count, low, high, ratio, random):
    """Sums of `count` numbers: both ends, those that lie next to a half, and random ones."""
    every = np.arange(count * low, count * high + 1)
    off = np.abs(every * (ratio / count) % 1 - 0.5)
    near = every[np.argsort(off, kind="stable")[: 8 * CHANNELS]]
    chosen = [every[[0, -1]], random.choice(near, CHANNELS - 10), random.choice(every, 8)]
    return np.concatenate(chosen)


def stored_with_sums(sums, zero, height, width):
    """(1, channels, height, width) of stored numbers that add up to the sums, less their zeros."""
    count = height * width
    more = sums % count
    ones = np.arange(count) < more[:, None]
    return (sums[:, None] // count + ones + zero).reshape(1, -1, height, width)


def calls(source, scale, zero, new_scale):
    """Stored numbers and their sums at all sizes."""
    random, limits = np.random.default_rng(0), np.iinfo(TYPES[source])
    for height, width in product(range(1, 5), range(1, 4)):
        count = height * width
        low, high = limits.min - zero, limits.max - zero
        sums = sums_near_ties(count, low, high, scale / new_scale, random)
        array = stored_with_sums(sums, zero, height, width).astype(TYPES[source])
        yield count, sums, array


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("case", CASES)
def test_a_mean_of_a_call_is_the_integer_of_a_program_of_its_size(case, target):
    source, scale, zero, to, new_scale, new_zero = case
    model = averaged(*case)
    compiled = explorer.compile(model, target, dimensions=SIZES)
    limits = np.iinfo(TYPES[to])
    ties = 0
    with compiled.open(isolated=False) as program:
        for count, sums, array in calls(source, scale, zero, new_scale):
            ratio = np.asarray(np.float32(scale) / np.float32(count) / np.float32(new_scale))
            bounds = (limits.min, limits.max)
            wanted = requantize(sums, ratio, new_zero, bounds, AS_ONNXRUNTIME)
            found = program.run({"q": array})["y"].reshape(-1)
            np.testing.assert_array_equal(found, wanted, f"{array.shape}")
            ties += np.count_nonzero(np.float32(sums) * ratio % 1 == 0.5)
            if count in (1, 6) and target == "cpu":
                sizes = dict(zip(SIZES, array.shape[2:], strict=True))
                fixed = explorer.compile(model, target, dimensions=sizes)
                assert np.array_equal(fixed.run({"q": array})["y"].reshape(-1), wanted)
    assert ties > CHANNELS or new_scale in (0.125, 0.3)


def test_a_mean_that_is_read_as_a_float_too_is_made_of_the_same_sums():
    source, scale, zero, _, new_scale, new_zero = case = CASES[1]
    body = f"{POOL}  f = Mul (m, t)"
    model = averaged(*case, body=body, outputs=f", float[1,{CHANNELS},i,j] f")
    compiled = explorer.compile(model, "cpu", dimensions=SIZES)
    for count, sums, array in calls(source, scale, zero, new_scale):
        found = compiled.run({"q": array})
        mean = np.float32(scale) / np.float32(count)
        ratio = np.asarray(mean / np.float32(new_scale))
        wanted = requantize(sums, ratio, new_zero, (0, 255), AS_ONNXRUNTIME)
        np.testing.assert_array_equal(found["y"].reshape(-1), wanted)
        real = np.float32(sums) * mean * np.float32(new_scale)
        np.testing.assert_array_equal(found["f"].reshape(-1), real)


def test_a_sum_divided_by_another_size_of_a_call_stays_one_of_floats():
    body = (
        "n = Shape <start = 2, end = 3> (x)  l = Squeeze (n)  f = Cast <to = 1> (l)  "
        "a = Constant <value_ints = [2, 3]> ()  r = ReduceSum (x, a)  m = Div (r, f)"
    )
    model = averaged("uint8", 0.5, 3, "uint8", 0.5, 0, body=body)
    compiled = explorer.compile(model, "cpu", dimensions=SIZES)
    events = compiled.passes["compute-in-integers"].events
    assert any("divides sums of 12 numbers by at most 4" in event.reason for event in events)
    for height, width in product(range(1, 5), range(1, 4)):
        q = np.random.default_rng(height).integers(
            0, 99, (1, CHANNELS, height, width), dtype=np.uint8
        )
        wanted = np.rint(((q - 3.0).sum((2, 3)) / height).clip(0, 255))
        found = compiled.run({"q": q})["y"].reshape(1, -1)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("zero", [-128, 5])
@pytest.mark.parametrize("clamp", ["Relu (a)", "Clip (a, low, high)"])
def test_a_mean_that_is_clamped_is_the_integer_of_a_program_of_its_size(clamp, zero):
    case = ("int8", 0.25, -3, "int8", 0.5, zero)
    body = (
        "low = Constant <value_float = -1.0> ()  high = Constant <value_float = 4.5> ()  "
        f"a = GlobalAveragePool (x)  m = {clamp}"
    )
    model = averaged(*case, body=body)
    compiled = explorer.compile(model, dimensions=SIZES)
    fixed = explorer.compile(model, dimensions={"h": 2, "w": 3})
    bounds = (0.0, np.inf) if clamp.startswith("Relu") else (-1.0, 4.5)
    with compiled.open(isolated=False) as program:
        for count, sums, array in calls("int8", 0.25, -3, 0.5):
            ratio = np.asarray(np.float32(0.25) / np.float32(count) / np.float32(0.5))
            ends = [float(np.clip(bound / 0.5 + zero, -128, 127)) for bound in bounds]
            wanted = requantize(sums, ratio, zero, (-128, 127), AS_ONNXRUNTIME).clip(*ends)
            found = program.run({"q": array})["y"].reshape(-1)
            np.testing.assert_array_equal(found, wanted, f"{array.shape}")
            if array.shape[2:] == (2, 3):
                np.testing.assert_array_equal(fixed.run({"q": array})["y"].reshape(-1), wanted)
