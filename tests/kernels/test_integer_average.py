"""Averages of stored numbers: whole-number division, ties away from zero."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness

from explorer.ir.top.quantization.integer_average import IntegerAverageOp
from explorer.ir.types import QuantizedType, numpy_dtype

sys.path.insert(0, str(Path(__file__).parent))
from quantized_kernels import RUNNERS, build, run_kernel

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


@pytest.mark.parametrize("name", KINDS)
def test_kernels_are_its_meaning(name: str, run):
    kind, shape = KINDS[name], (2, 3, 9, 7)
    op, x = average(kind, shape), numbers(kind, shape)
    np.testing.assert_array_equal(run_kernel(op, [x], run, {}), op.evaluate(x)[0])


def test_windows_in_the_padding_and_real_numbers_are_refused():
    with pytest.raises(ValueError, match="padding"):
        build(
            IntegerAverageOp,
            [(KINDS["i8"], (1, 1, 4, 4))],
            window=[2, 2], strides=[1, 1], pads=[2, 0, 0, 0], low=0, high=1,
        )  # fmt: skip
    with pytest.raises(ValueError, match="limits"):
        average(KINDS["i8"], (1, 1, 4, 4), (0, 200))
