"""Averages of stored numbers: whole-number division, or a factor for each number of elements."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness

from explorer.ir.requantization import AS_ONNXRUNTIME, Requantization, RequantizationAttr
from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.types import QuantizedType, layout_of, numpy_dtype

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import RUNNERS, build, run_kernel

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

KINDS = {
    "i8": QuantizedType.get(IntegerType(8), [0.1], [-7]),
    "ui8": QuantizedType.get(IntegerType(8, Signedness.UNSIGNED), [0.1], [121]),
    "i16": QuantizedType.get(IntegerType(16), [0.1], [0]),
}


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest):
    return request.getfixturevalue(request.param)


def average(
    kind: QuantizedType, shape: tuple[int, ...], limits: tuple[int, int] = (-5, 100)
) -> IntegerAverageOp:
    op = build(
        IntegerAverageOp,
        [(kind, shape)],
        window=[3, 2],
        strides=[2, 1],
        pads=[1, 0, 1, 1],
        low=max(limits[0], 0) if kind is KINDS["ui8"] else limits[0],
        high=limits[1],
    )
    assert isinstance(op, IntegerAverageOp)
    return op


BLOCKED = """
func.func @main(%x : tensor<2x4x8x6x!pixel>) -> tensor<2x20x2x1x!byte> {
  %w = top.weight() {weight = "w"} : tensor<20x4x3x3x!top.quantized<i8, 0.25:0>>
  %a = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1],
    requantization = #top.requantization<!byte, multiplier_shift 32, nearest_up>} :
    tensor<2x20x8x6x!byte>
  %y = top.integer_average(%a) {window = [4, 6], strides = [4, 6], pads = [0, 0, 0, 0],
    RESULT} : tensor<2x20x2x1x!byte>
  top.return(%y)
}
"""
"""Channels that no block divides."""


def numbers(kind: QuantizedType, shape: tuple[int, ...]) -> np.ndarray:
    limits = np.iinfo(numpy_dtype(kind))
    drawn = np.random.default_rng(1).integers(limits.min, limits.max + 1, shape)
    return drawn.astype(numpy_dtype(kind))


@pytest.mark.parametrize("name", KINDS)
def test_padding_does_not_count(name: str):
    """Written out window by window, in fractions."""
    kind, shape = KINDS[name], (2, 3, 5, 4)
    x = numbers(kind, shape)
    op = average(kind, shape)
    (found,) = op.evaluate(x)
    for n, c, i, j in np.ndindex(*found.shape):
        window = x[n, c, max(2 * i - 1, 0) : 2 * i + 2, j : j + 2].astype(float)
        mean = window.sum() / window.size
        rounded = np.sign(mean) * np.floor(abs(mean) + 0.5)
        assert found[n, c, i, j] == np.clip(rounded, op.get("low"), op.get("high"))


@pytest.mark.parametrize(
    "result",
    [
        "low = -128, high = 127",
        "low = -7, high = 9",
        "by = #top.requantization<!byte, doubling_high_multiply, nearest_away_from_zero>",
    ],
)
@pytest.mark.parametrize("zero", [-128, 127])
@pytest.mark.usefixtures("quick_builds")
def test_channels_of_an_average_lie_in_blocks(result: str, zero: int):
    text = BLOCKED.replace("RESULT", result).replace("!byte", f"!top.quantized<i8, 0.5:{zero}>")
    text = text.replace("!pixel", "!top.quantized<i8, 0.5:-128>")
    working = programs.program(text)
    inputs = programs.random_inputs(working.snapshot)
    results = programs.lower(working, lanes=16)
    laid_out = next(r for r in results if r.name == "assign-layouts").after
    (op,) = (o for o in laid_out.walked if isinstance(o, IntegerAverageOp))
    assert layout_of(op.input).block == layout_of(op.output).block == 16
    outputs = programs.run_binary(results, inputs, "c")
    (found,) = (array for name, array in outputs.items() if name.startswith("output:"))
    np.testing.assert_array_equal(found, working.snapshot.run(inputs)["y"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KINDS)
def test_kernels_are_its_meaning(name: str, run):
    kind, shape = KINDS[name], (2, 3, 9, 7)
    op, x = average(kind, shape), numbers(kind, shape)
    np.testing.assert_array_equal(run_kernel(op, [x], run, {}), op.evaluate(x)[0])


ONCE = Requantization("multiplier_shift", "nearest_even")
TWICE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
TO = QuantizedType.get(IntegerType(8), [0.037], [5])
WINDOWS = {
    "2 axes": ((2, 3, 6, 5), {"window": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "1 axis": ((1, 2, 7), {"window": [3], "strides": [2], "pads": [2, 1]}),
    "3 axes": (
        (1, 1, 3, 4, 3),
        {"window": [2, 2, 3], "strides": [1, 2, 1], "pads": [1, 0, 2, 0, 1, 1]},
    ),
    "apart": (
        (1, 2, 5, 6),
        {"window": [2, 3], "strides": [1, 2], "pads": [2, 3, 1, 2], "dilations": [2, 2]},
    ),
    "inside": ((2, 3, 7, 6), {"window": [3, 2], "strides": [2, 1], "pads": [0] * 4}),
    "inside, apart": (
        (1, 5, 8, 7),
        {"window": [2, 3], "strides": [1, 2], "pads": [0] * 4, "dilations": [3, 2]},
    ),
    "one number": ((1, 2, 3, 4), {"window": [1, 1], "strides": [1, 1], "pads": [0] * 4}),
    "none inside": (
        (1, 1, 1, 2),
        {"window": [2, 1], "strides": [1, 1], "pads": [1, 0, 1, 0], "dilations": [2, 1]},
    ),
}


def rescaled(kind: QuantizedType, case: str, how: Requantization, to=TO) -> IntegerAverageOp:
    shape, fields = WINDOWS[case]
    op = build(IntegerAverageOp, [(kind, shape)], **fields, by=RequantizationAttr.get(to, how))
    assert isinstance(op, IntegerAverageOp)
    return op


def exact(op: IntegerAverageOp, x: np.ndarray, place: tuple[int, ...]) -> Fraction:
    """The average of real numbers in steps of the result, less its zero point."""
    spatial, found = x.shape[2:], []
    for taps in product(*map(range, op.get("window"))):
        at = [
            i * stride + tap * step - pad
            for i, stride, tap, step, pad in zip(
                place[2:], op.get("strides"), taps, op.steps, op.get("pads"), strict=False
            )
        ]
        if all(0 <= i < size for i, size in zip(at, spatial, strict=True)):
            found.append(int(x[(*place[:2], *at)]) - int(op.kind.zero_point_array[0]))
    scales = Fraction(float(op.kind.double_scales[0])), Fraction(float(op.to.double_scales[0]))
    return Fraction(sum(found), max(len(found), 1)) * scales[0] / scales[1]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("how", [ONCE, TWICE], ids=str)
def test_averages_of_another_scale_are_rounded_once(name: str, case: str, how: Requantization):
    """In fractions: a half apart, or a little more where a scheme rounds twice."""
    op = rescaled(KINDS[name], case, how)
    x = numbers(KINDS[name], WINDOWS[case][0])
    (found,) = op.evaluate(x)
    allowed = Fraction(1, 2) + Fraction(1, 1 << (12 if how is ONCE else op.lift + 1))
    for place in np.ndindex(*found.shape):
        average = min(max(exact(op, x, place) + 5, Fraction(-128)), Fraction(127))
        assert abs(int(found[place]) - average) <= allowed


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("case", "name", "how"),
    [
        ("2 axes", "i8", ONCE),
        ("2 axes", "i16", TWICE),
        ("1 axis", "ui8", TWICE),
        ("3 axes", "i16", ONCE),
        ("apart", "ui8", ONCE),
        ("none inside", "i8", TWICE),
        ("inside", "i8", TWICE),
        ("inside, apart", "ui8", ONCE),
        ("one number", "i16", TWICE),
    ],
)
def test_kernels_that_rescale_are_its_meaning(case: str, name: str, how: Requantization, run):
    op = rescaled(KINDS[name], case, how)
    x = numbers(KINDS[name], WINDOWS[case][0])
    np.testing.assert_array_equal(run_kernel(op, [x], run, {}), op.evaluate(x)[0])


def test_sums_that_32_bits_do_not_hold_and_floats_are_refused():
    with pytest.raises(ValueError, match="no scheme of floats"):
        rescaled(KINDS["i8"], "2 axes", AS_ONNXRUNTIME)
    with pytest.raises(ValueError, match="more than 32 bits hold"):
        build(
            IntegerAverageOp, [(KINDS["i16"], (1, 1, 300, 300))], window=[300, 300],
            strides=[1, 1], pads=[0] * 4, by=RequantizationAttr.get(TO, ONCE),
        )  # fmt: skip
    with pytest.raises(ValueError, match="either low and high, or by"):
        build(IntegerAverageOp, [(KINDS["i8"], (1, 1, 3, 3))], window=[2, 2], strides=[1, 1],
              pads=[0] * 4)  # fmt: skip


def test_windows_in_the_padding_and_real_numbers_are_refused():
    with pytest.raises(ValueError, match="padding"):
        build(
            IntegerAverageOp,
            [(KINDS["i8"], (1, 1, 4, 4))],
            window=[2, 2], strides=[1, 1], pads=[2, 0, 0, 0], low=0, high=1,
        )  # fmt: skip
    with pytest.raises(ValueError, match="limits"):
        average(KINDS["i8"], (1, 1, 4, 4), (0, 200))
