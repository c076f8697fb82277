"""Executing `top` through NumPy meanings: incremental, isolated, checked at both ends."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.errors import InputError, PassError
from explorer.ir.evaluation import (
    EvaluationCache,
    entry_function,
    evaluate_module,
    input_names,
    output_names,
    outputs_by_name,
)
from explorer.ir.printing import parse
from explorer.ir.weights import Weights

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

CHAIN = """
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %k = top.weight() {weight = "k"} : tensor<4xf32>
  %a = top.unary(%x) {kind = "abs"} : tensor<4xf32>
  %b = top.binary(%a, %k) {kind = "add"} : tensor<4xf32>
  %y = top.unary(%b) {kind = "neg"} : tensor<4xf32>
  top.return(%y)
}
"""
X = np.array([-2, -1, 0, 3], np.float32)
K = np.array([10, 20, 30, 40], np.float32)


def evaluate(text, inputs, cache=None, replaced=None, arrays=None):
    return evaluate_module(parse(text), Weights(arrays or {"k": K}), inputs, cache, replaced)


def test_all_values_come_back_by_name():
    values = evaluate(CHAIN, {"x": X})
    assert list(values) == ["x", "k", "a", "b", "y"]
    np.testing.assert_array_equal(values["a"], [2, 1, 0, 3])
    np.testing.assert_array_equal(values["b"], [12, 21, 30, 43])
    np.testing.assert_array_equal(values["y"], [-12, -21, -30, -43])


# -- incremental -----------------------------------------------------------------------------------


def test_an_unchanged_program_runs_nothing_again():
    cache, weights = EvaluationCache(), Weights({"k": K})
    first = evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (3, 0)
    second = evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (3, 3)
    assert second["y"] is first["y"]


def test_only_what_follows_a_change_runs_again():
    cache, weights = EvaluationCache(), Weights({"k": K})
    evaluate_module(parse(CHAIN), weights, {"x": X}, cache)
    changed = CHAIN.replace('kind = "add"', 'kind = "sub"')
    values = evaluate_module(parse(changed), weights, {"x": X}, cache)
    assert (cache.runs, cache.hits) == (5, 1)  # %a is found; %b and, behind it, %y are new
    np.testing.assert_array_equal(values["y"], [8, 19, 30, 37])


def test_renamed_values_and_layouts_are_found():
    cache, weights = EvaluationCache(), Weights({"k": K})
    image = 'func.func @main(%x : tensor<1x2x1x1xf32>) -> tensor<1x2x1x1xf32> {{\n  %{0} = top.unary(%x) {{{{kind = "abs"}}}} : {1}\n  top.return(%{0})\n}}'  # noqa: E501
    plain, blocked = "tensor<1x2x1x1xf32>", "tensor<1x2x1x1xf32, #top.encoding<block = 4>>"
    x = {"x": np.ones((1, 2, 1, 1), np.float32)}
    evaluate_module(
        parse(image.format("a", plain).replace("{{", "{").replace("}}", "}")), weights, x, cache
    )
    assert (cache.runs, cache.hits) == (1, 0)
    evaluate_module(
        parse(image.format("b", plain).replace("{{", "{").replace("}}", "}")), weights, x, cache
    )
    assert (cache.runs, cache.hits) == (1, 1)
