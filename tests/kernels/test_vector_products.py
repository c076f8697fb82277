"""A vector times a matrix: tiled like other products, several vectors of columns at a time."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

# Sums of at most 300 products of float32 in another order.
TOLERANCE = 2e-6


def product(left: str, right: str, result: str, is_weight: bool) -> str:
    given = "" if is_weight else f", %w : tensor<{right}xf32>"
    weight = f'  %w = top.weight() {{weight = "w"}} : tensor<{right}xf32>\n' if is_weight else ""
    return f"""
func.func @main(%x : tensor<{left}xf32>{given}) -> (tensor<{result}xf32>) {{
{weight}  %y = top.matmul(%x, %w) : tensor<{result}xf32>
  top.return(%y)
}}
"""


CASES = {
    "a weight": product("1x300", "300x130", "1x130", True),
    "a weight of few columns": product("1x64", "64x6", "1x6", True),
    "a computed matrix": product("1x40", "40x77", "1x77", False),
    "a vector for every matrix": product("3x1x33", "3x33x48", "3x1x48", False),
}


@pytest.fixture(scope="module")
def built():
    texts = {f"v{index}": text for index, text in enumerate(CASES.values())}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    results = programs.lower(working)
    kernels = results[-2].artifacts["kernels"]
    return kernels, programs.run_binary(results, inputs, "c"), source.run(inputs)


@pytest.mark.parametrize("case", CASES)
def test_a_vector_times_a_matrix_is_right(built, case):
    _, values, expected = built
    name = f"v{list(CASES).index(case)}_y"
    assert programs.max_relative(values[name], expected[name]) < TOLERANCE


def test_a_vector_times_a_matrix_is_tiled_and_its_weights_are_packed(built):
    kernels, _, _ = built
    assert {kernel.choices["schedule"] for kernel in kernels.values()} == {"tiled"}
    widest = kernels["matmul_1"]
    assert widest.choices["vectors"] > 1
    assert "pack" in [step.name for step in widest.steps]
