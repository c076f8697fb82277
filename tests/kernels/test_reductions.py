"""Reductions of every shape: the register that holds the sum stands inside of some loop."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

pytestmark = pytest.mark.usefixtures("quick_builds")

# Sums of 1,000 products of float32 in another order.
TOLERANCE = 2e-6


def reduction(kind: str, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> str:
    result = np.sum(np.zeros(shape), axis=axes, keepdims=keepdims).shape
    given, made = ("x".join([*map(str, s), "f32"]) for s in (shape, result))
    keep = "true" if keepdims else "false"
    return f"""
func.func @main(%x : tensor<{given}>) -> (tensor<{made}>) {{
  %y = top.reduce(%x) {{kind = "{kind}", axes = {[*axes]}, keepdims = {keep}}} : tensor<{made}>
  top.return(%y)
}}
"""


CASES = {
    "all axes": ((4, 10, 25), (0, 1, 2), False),
    "all axes, kept": ((4, 10, 25), (0, 1, 2), True),
    "all axes of a vector": ((1000,), (0,), False),
    "first axis, one vector wide": ((100, 16), (0,), False),
    "first axis, a vector and a half": ((100, 24), (0,), False),
    "first axis, narrow": ((100, 3), (0,), False),
    "first axis, a row of one": ((100, 1), (0,), False),
    "last axis": ((3, 100), (1,), False),
    "middle axis": ((4, 50, 16), (1,), False),
    "one element": ((1, 1), (0, 1), False),
}


@pytest.mark.parametrize("kind", ["mean", "sum", "max"])
def test_a_reduction_over_any_axes_is_scheduled_and_right(kind):
    texts = {f"r{index}": reduction(kind, *case) for index, case in enumerate(CASES.values())}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    expected = source.run(inputs)
    values = programs.run_binary(programs.lower(working), inputs, "c")
    errors = {
        case: programs.max_relative(values[f"r{index}_y"], expected[f"r{index}_y"])
        for index, case in enumerate(CASES)
    }
    assert {case: e for case, e in errors.items() if e > TOLERANCE} == {}


def test_matrices_with_a_single_column_left_over_are_tiled():
    """77 = 2 * 32 + 8 + 4 + 1 columns of a matrix that is computed."""
    text = """
func.func @main(%x : tensor<70x33xf32>, %z : tensor<33x77xf32>) -> (tensor<70x77xf32>) {
  %y = top.matmul(%x, %z) : tensor<70x77xf32>
  top.return(%y)
}
"""
    working = programs.program(text)
    inputs = programs.random_inputs(working.snapshot)
    expected = working.snapshot.run(inputs)["y"]
    results = programs.lower(working, lanes=16)
    (kernel,) = results[-2].artifacts["kernels"].values()
    assert kernel.choices["schedule"] == "tiled"
    values = programs.run_binary(results, inputs, "c")
    assert programs.max_relative(values["y"], expected) <= TOLERANCE
