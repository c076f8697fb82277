"""Tensors without elements: kernels over them have no statement, and everything else is right."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

PROGRAMS = {
    "elementwise": """
func.func @main(%x : tensor<0x4xf32>) -> tensor<0x4xf32> {
  %a = top.unary(%x) {kind = "relu"} : tensor<0x4xf32>
  %y = top.binary(%a, %x) {kind = "add"} : tensor<0x4xf32>
  top.return(%y)
}
""",
    "joined with others": """
func.func @main(%x : tensor<0x4xf32>, %z : tensor<3x4xf32>) -> tensor<3x4xf32> {
  %a = top.unary(%x) {kind = "exp"} : tensor<0x4xf32>
  %y = top.concat(%a, %z) {axis = 0} : tensor<3x4xf32>
  top.return(%y)
}
""",
    "sum of nothing": """
func.func @main(%x : tensor<2x0xf32>) -> tensor<2xf32> {
  %y = top.reduce(%x) {kind = "sum", axes = [1], keepdims = false} : tensor<2xf32>
  top.return(%y)
}
""",
    "product over no columns": """
func.func @main(%x : tensor<2x0xf32>, %z : tensor<0x5xf32>) -> tensor<2x5xf32> {
  %y = top.matmul(%x, %z) : tensor<2x5xf32>
  top.return(%y)
}
""",
    "convolution of no images": """
func.func @main(%x : tensor<0x3x5x5xf32>) -> tensor<0x4x5x5xf32> {
  %w = top.weight() {weight = "w"} : tensor<4x3x3x3xf32>
  %y = top.conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1}
    : tensor<0x4x5x5xf32>
  top.return(%y)
}
""",
    "softmax": """
func.func @main(%x : tensor<0x4xf32>) -> tensor<0x4xf32> {
  %y = top.softmax(%x) {axis = 0, logarithm = false} : tensor<0x4xf32>
  top.return(%y)
}
""",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_level_and_the_binary_compute_what_numpy_does(name):
    working = programs.program(PROGRAMS[name])
    inputs = programs.random_inputs(working.snapshot)
    expected = working.snapshot.run(inputs)["y"]
    results = programs.lower(working)
    for result in results:
        values = result.after.run(inputs)
        assert programs.max_relative(values["y"], expected) <= 1e-6, result.name
    values = programs.run_binary(results, inputs, "c")
    assert programs.max_relative(values["y"], expected) <= 1e-6


def test_a_kernel_over_nothing_is_one_task_that_does_nothing():
    working = programs.program(PROGRAMS["elementwise"])
    program = programs.build(programs.lower(working)).program
    first = program.kernels[0]
    assert [p.tasks for p in first.phases] == [1]
    assert first.source.lines[0] == f"// {first.name}: its tensors have no elements"
    assert np.prod(program.outputs[0].shape) == 0
