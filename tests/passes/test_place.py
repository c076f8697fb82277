"""Placement: one function per device with explicit transfers; numbers, names and origins stay."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np

from explorer.ir.origins import Origin
from explorer.ir.structure import device_of, functions
from explorer.passes.lower.place_on_device import PlaceOnDevice

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

TWO_PORTS = """
func.func @main(%x : tensor<4xf32>, %z : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = top.binary(%x, %z) {kind = "add"} : tensor<4xf32>
  %y = top.unary(%a) {kind = "neg"} : tensor<4xf32>
  top.return(%y, %a)
}
"""


def placed(text: str, device: str = "cpu"):
    (result,) = programs.run_passes(programs.program(text), [PlaceOnDevice(device)])
    return result


def test_the_program_moves_into_a_function_of_the_device():
    assert placed(TWO_PORTS).after.text.lines == (
        "builtin.module {",
        "  func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) "
        'attributes {device = "host"} {',
        '    %send1 = top.transfer(%x) {to = "cpu"} : tensor<4xf32>',
        '    %send2 = top.transfer(%z) {to = "cpu"} : tensor<4xf32>',
        "    %y.device, %a.device = func.call @main_cpu(%send1, %send2) : "
        "(tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
        '    %receive1 = top.transfer(%y.device) {to = "host"} : tensor<4xf32>',
        '    %receive2 = top.transfer(%a.device) {to = "host"} : tensor<4xf32>',
        "    top.return(%receive1, %receive2)",
        "  }",
        "  func.func @main_cpu(%x.device: tensor<4xf32>, %z.device: tensor<4xf32>) -> "
        '(tensor<4xf32>, tensor<4xf32>) attributes {device = "cpu"} {',
        '    %a = top.binary(%x.device, %z.device) {kind = "add"} : tensor<4xf32>',
        '    %y = top.unary(%a) {kind = "neg"} : tensor<4xf32>',
        "    top.return(%y, %a)",
        "  }",
        "}",
    )


def test_numbers_and_origins_stay():
    result = placed(TWO_PORTS)
    inputs = programs.random_inputs(result.before)
    before, after = result.before.run(inputs), result.after.run(inputs)
    for name in ("a", "y"):
        np.testing.assert_array_equal(after[name], before[name])
    np.testing.assert_array_equal(after["receive1"], before["y"])
    np.testing.assert_array_equal(after["receive2"], before["a"])
    assert result.after.origins["receive1"] == Origin("y")
    assert result.after.origins["a"] == Origin("a")


def test_operations_keep_their_identity():
    result = placed(TWO_PORTS)
    assert set(result.after.operations) - set(result.before.operations) == {
        "send1", "send2", "receive1", "receive2"
    }  # fmt: skip
    assert result.diff.removed == ()


def test_a_device_may_have_any_name():
    result = placed(TWO_PORTS, "my-gpu 2")
    names = {f.sym_name.data: device_of(f) for f in functions(result.after.module)}
    assert names == {"main": "host", "main_my_gpu_2": "my-gpu 2"}


def test_an_input_may_be_an_output_twice():
    text = """func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      top.return(%x, %x)
    }"""
    result = placed(text)
    inputs = programs.random_inputs(result.before)
    values = result.after.run(inputs)
    np.testing.assert_array_equal(values["receive1"], inputs["x"])
    np.testing.assert_array_equal(values["receive2"], inputs["x"])


def test_an_output_that_is_an_input_is_copied():
    result = placed(
        """
        func.func @main(%x : tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>) {
          %v = top.reshape(%x) {shape = [2, 2]} : tensor<2x2xf32>
          top.return(%v, %x)
        }
        """
    )
    device = next(f for f in functions(result.after.program) if device_of(f) == "cpu")
    assert [op.name for op in device.body.block.ops] == [
        "top.reshape",
        "top.convert_layout",
        "top.convert_layout",
        "top.return",
    ]
    inputs = programs.random_inputs(result.before)
    after = result.after.run(inputs)
    np.testing.assert_array_equal(after["receive1"], inputs["x"].reshape(2, 2))
    np.testing.assert_array_equal(after["receive2"], inputs["x"])
    assert result.after.origins["copy1"] == Origin("v")
