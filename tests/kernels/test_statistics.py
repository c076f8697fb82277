"""Kernels that work row by row: softmax and normalizations over the last axis."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

# Means of at most 300 numbers of float32 in another order, and exp by a polynomial: 2e-7 each.
TOLERANCE = 1e-6


def softmax(shape: tuple[int, ...], axis: int, logarithm: str = "false", more: str = "") -> str:
    kind = "tensor<" + "x".join([*map(str, shape), "f32"]) + ">"
    return f"""
func.func @main(%x : {kind}) -> ({kind}) {{
  %y = top.softmax(%x) {{axis = {axis}, logarithm = {logarithm}{more}}} : {kind}
  top.return(%y)
}}
"""


def layer_norm(shape: tuple[int, ...], axis: int, centered: str = "true") -> str:
    kind = "tensor<" + "x".join([*map(str, shape), "f32"]) + ">"
    scale = f"tensor<{shape[-1]}xf32>"
    return f"""
func.func @main(%x : {kind}, %s : {scale}) -> ({kind}) {{
  %y = top.layer_norm(%x, scale = %s) {{axis = {axis}, epsilon = 1.0e-5, centered = {centered}}} : {kind}
  top.return(%y)
}}
"""  # noqa: E501


ROW_BY_ROW = {
    "whole vectors": softmax((4, 6, 64), 2),
    "columns left over": softmax((5, 45), 1),
    "narrower than a vector": softmax((3, 7), 1),
    "a vector and one": softmax((2, 2, 17), 2),
    "logarithm": softmax((40, 130), 1, "true"),
    "masked rows": softmax((6, 45), 1, more=", zero_masked = true"),
    "layer norm": layer_norm((3, 5, 48), 2),
    "layer norm of a ragged row": layer_norm((70, 99), 1),
    "rms norm": layer_norm((2, 9, 300), 2, "false"),
    "layer norm at offsets": layer_norm((6, 45), 1),
}
OFFSETS = np.array([1e4, 1e6, -1e8, 1e6, 0, 1e30], np.float32)[:, None]
"""Of rows of a layer norm; numbers there differ by some steps of the type."""
FAR = "logarithm"
OTHERS = {
    "softmax of channels": softmax((2, 5, 4, 20), 1),
    "layer norm of two axes": layer_norm((3, 6, 20), 1),
}


@pytest.fixture(scope="module")
def built():
    cases = {**ROW_BY_ROW, **OTHERS}
    texts = {f"s{index}": text for index, text in enumerate(cases.values())}
    working = programs.program(programs.side_by_side(texts))
    source = working.snapshot
    inputs = programs.random_inputs(source)
    # Rows far from zero: a maximum that is added to a logarithm takes its digits away.
    inputs[f"s{[*cases].index(FAR)}_x"] += np.float32(1e6)
    inputs[f"s{[*cases].index('masked rows')}_x"][2:5] = -np.inf
    rows = inputs[f"s{[*cases].index('layer norm at offsets')}_x"]
    rows *= np.maximum(1, 8 * np.spacing(np.abs(OFFSETS)))
    rows += OFFSETS
    rows[3, 0] = 1.0  # is far from the others
    rows[4, 0] = 1e6
    rows[5] /= np.float32(1e14)  # squares of 1e30 are infinite
    results = programs.lower(working, lanes=16)
    launches = [op for op in results[-1].after.program.walk() if op.name == "kernel.launch"]
    kernels = results[-2].artifacts["kernels"]
    schedules = [kernels[op.kernel.data].choices["schedule"] for op in launches]
    values = programs.run_binary(results, inputs, "c")
    return dict(zip(cases, schedules, strict=True)), values, source.run(inputs), inputs


@pytest.mark.parametrize("case", [*ROW_BY_ROW, *OTHERS])
def test_statistics_of_rows_are_right(built, case):
    _, values, expected, _ = built
    name = f"s{[*ROW_BY_ROW, *OTHERS].index(case)}_y"
    assert programs.max_relative(values[name], expected[name]) < TOLERANCE


def test_means_at_an_offset_are_more_precise_than_the_type(built):
    """In float64 of the same numbers: a mean of float32 alone leaves 0.01 at 1e6."""
    name = f"s{[*ROW_BY_ROW].index('layer norm at offsets')}"
    _, values, expected, inputs = built
    x = inputs[f"{name}_x"].astype(np.float64)
    apart = x - x.mean(1, keepdims=True)
    normalized = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
    exact = (normalized * inputs[f"{name}_s"]).astype(np.float32)
    for found in (values[f"{name}_y"], expected[f"{name}_y"]):
        errors = [programs.max_relative(a, b) for a, b in zip(found, exact, strict=True)]
        assert max(errors) < 2 * TOLERANCE, errors  # a number far from others has most of the sum


def test_contiguous_rows_are_read_once_and_others_keep_the_plain_schedule(built):
    schedules, *_ = built
    assert {schedules[case] for case in ROW_BY_ROW} == {"statistics"}
    assert {schedules[case] for case in OTHERS} == {"plain"}
