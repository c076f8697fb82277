"""Transposed copies: blocks of rows, their tails, and what keeps the plain schedule."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))


def transpose(shape: tuple[int, ...], permutation: tuple[int, ...]) -> str:
    made = [shape[axis] for axis in permutation]
    given, result = ("x".join([*map(str, s), "f32"]) for s in (shape, made))
    return f"""
func.func @main(%x : tensor<{given}>) -> (tensor<{result}>) {{
  %y = top.transpose(%x) {{permutation = {[*permutation]}}} : tensor<{result}>
  top.return(%y)
}}
"""


BLOCKS = {
    "a matrix": transpose((48, 64), (1, 0)),
    "rows left over": transpose((37, 20), (1, 0)),
    "heads and columns": transpose((2, 35, 3, 8), (0, 2, 3, 1)),
    "first axis to the end": transpose((17, 4, 5), (1, 2, 0)),
}
PLAIN = {
    "lines stay lines": transpose((2, 35, 3, 8), (0, 2, 1, 3)),
    "few rows": transpose((9, 40), (1, 0)),
}


@pytest.fixture(scope="module")
def built():
    cases = {**BLOCKS, **PLAIN}
    texts = {f"t{index}": text for index, text in enumerate(cases.values())}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    results = programs.lower(working, lanes=16)
    launches = [op for op in results[-1].after.program.walk() if op.name == "kernel.launch"]
    kernels = results[-2].artifacts["kernels"]
    schedules = [kernels[op.kernel.data].choices["schedule"] for op in launches]
    values = programs.run_binary(results, inputs, "c")
    return dict(zip(cases, schedules, strict=True)), values, source.run(inputs)


@pytest.mark.parametrize("case", [*BLOCKS, *PLAIN])
def test_a_transposed_copy_moves_every_element(built, case):
    _, values, expected = built
    name = f"t{[*BLOCKS, *PLAIN].index(case)}_y"
    np.testing.assert_array_equal(values[name], expected[name])


def test_rows_that_become_columns_are_copied_in_blocks(built):
    schedules, _, _ = built
    assert {case: schedules[case] for case in BLOCKS} == dict.fromkeys(BLOCKS, "blocks")
    assert {case: schedules[case] for case in PLAIN} == dict.fromkeys(PLAIN, "plain")
