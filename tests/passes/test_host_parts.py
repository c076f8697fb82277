"""Placement of what has no compiled form: functions of the host, with reasons and few transfers."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.ir.inspection.printing import dump, parse
from explorer.ir.operation import identity_of
from explorer.ir.structure import SIZED, device_of, functions, host_reason_of
from explorer.passes.lower.partition import partition
from explorer.passes.lower.place_on_device import PlaceOnDevice

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

FOUND = """
func.func @main(%x : tensor<4x32xf32>) -> (tensor<?xf32>, tensor<4x32xf32>) {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %i = top.nonzero(%a) : tensor<2x?xi64>
  %t = top.transpose(%i) {permutation = [1, 0]} : tensor<?x2xi64>
  %y = top.gather_nd(%a, %t) {batch_dims = 0} : tensor<?xf32>
  %z = top.unary(%a) {kind = "neg"} : tensor<4x32xf32>
  top.return(%y, %z)
}
"""

SIZED_PRODUCT = """
func.func @main(%x : tensor<40x4xf32>, %k : tensor<40xi1>) -> tensor<?x3xf32> {
  %i = top.nonzero(%k) : tensor<1x?xi64>
  %j = top.reshape(%i) {shape = [-1]} : tensor<?xi64>
  %g = top.gather(%x, %j) {axis = 0} : tensor<?x4xf32>
  %w = top.weight() {weight = "w"} : tensor<4x3xf32>
  %y = top.matmul(%g, %w) : tensor<?x3xf32>
  top.return(%y)
}
"""


def placed(text: str):
    (result,) = programs.run_passes(programs.program(text), [PlaceOnDevice("cpu", True)])
    return result


def pieces(text: str) -> list[tuple[str, list[str]]]:
    (function,) = functions(parse(text))
    found = partition(function.body.block)
    return [(p.place, [identity_of(op) for op in p.operations]) for p in found.pieces]


def test_what_has_no_compiled_form_moves_into_a_function_of_the_host():
    assert placed(FOUND).after.text.lines == (
        "builtin.module {",
        "  func.func @main(%x: tensor<4x32xf32>) -> (tensor<?xf32>, tensor<4x32xf32>) "
        'attributes {device = "host"} {',
        '    %send1 = top.transfer(%x) {to = "cpu"} : tensor<4x32xf32>',
        "    %a.device, %z.device = func.call @main_cpu(%send1) : (tensor<4x32xf32>) -> "
        "(tensor<4x32xf32>, tensor<4x32xf32>)",
        '    %receive1 = top.transfer(%a.device) {to = "host"} : tensor<4x32xf32>',
        '    %receive2 = top.transfer(%z.device) {to = "host"} : tensor<4x32xf32>',
        "    %y.host = func.call @main_host(%receive1) : (tensor<4x32xf32>) -> tensor<?xf32>",
        "    top.return(%y.host, %receive2)",
        "  }",
        "  func.func @main_cpu(%x.device: tensor<4x32xf32>) -> (tensor<4x32xf32>, "
        'tensor<4x32xf32>) attributes {device = "cpu"} {',
        '    %a = top.unary(%x.device) {kind = "relu"} : tensor<4x32xf32>',
        '    %z = top.unary(%a) {kind = "neg"} : tensor<4x32xf32>',
        "    top.return(%a, %z)",
        "  }",
        "  func.func @main_host(%receive1.host: tensor<4x32xf32>) -> tensor<?xf32> "
        'attributes {device = "host"} {',
        '    %i = top.nonzero(%receive1.host) {host.reason = "what it reads decides how large its '
        'result is (2x?)"} : tensor<2x?xi64>',
        '    %t = top.transpose(%i) {permutation = [1, 0], host.reason = "it reads i, whose size '
        'only a run tells (2x?)"} : tensor<?x2xi64>',
        '    %y = top.gather_nd(%receive1.host, %t) {batch_dims = 0, host.reason = "it reads t, '
        'whose size only a run tells (?x2)"} : tensor<?xf32>',
        "    top.return(%y)",
        "  }",
        "}",
    )


def test_numbers_names_and_origins_stay():
    result = placed(FOUND)
    inputs = programs.random_inputs(result.before)
    before, after = result.before.run(inputs), result.after.run(inputs)
    for name in ("a", "i", "t", "y", "z"):
        np.testing.assert_array_equal(after[name], before[name])
    np.testing.assert_array_equal(after["receive2"], before["z"])
    assert result.after.origins["y"].tensor == "y"


def test_every_operation_of_the_host_has_a_reason_and_an_event():
    result = placed(FOUND)
    reasons = {
        identity_of(op): host_reason_of(op)
        for function in functions(result.after.program)
        if function.sym_name.data == "main_host"
        for op in function.body.block.ops
        if op.name != "top.return"
    }
    told = {event.site: event.explanation for event in result.events if event.rule == "host"}
    assert reasons == told
    assert set(reasons) == {"i", "t", "y"} and all(reasons.values())


def test_text_with_reasons_reads_back():
    module = placed(FOUND).after.program
    assert dump(parse(dump(module))) == dump(module)


def test_a_product_of_a_size_that_a_run_tells_can_be_compiled_for_it():
    result = placed(SIZED_PRODUCT)
    by_name = {f.sym_name.data: f for f in functions(result.after.program)}
    assert list(by_name) == ["main", "main_host", "main_cpu_sized"]
    sized = by_name["main_cpu_sized"]
    assert device_of(sized) == "host" and SIZED in sized.attributes
    assert [op.name for op in sized.body.block.ops] == [
        "top.reshape", "top.gather", "top.weight", "top.matmul", "top.return"
    ]  # fmt: skip
    inputs = {"x": np.eye(40, 4, dtype=np.float32), "k": np.arange(40) % 7 == 0}
    before, after = result.before.run(inputs), result.after.run(inputs)
    np.testing.assert_array_equal(after["y"], before["y"])


def test_a_weight_that_two_functions_read_stands_in_both():
    result = placed("""
    func.func @main(%x : tensor<100xf32>) -> (tensor<1x?xi64>, tensor<100xf32>) {
      %w = top.weight() {weight = "w"} : tensor<100xf32>
      %a = top.binary(%x, %w) {kind = "add"} : tensor<100xf32>
      %i = top.nonzero(%w) : tensor<1x?xi64>
      top.return(%i, %a)
    }
    """)
    stands_in = {
        f.sym_name.data
        for f in functions(result.after.program)
        for op in f.body.block.ops
        if op.name == "top.weight"
    }
    assert stands_in == {"main_cpu", "main_host"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FOUND, [("device", ["a", "z"]), ("host", ["i", "t", "y"])]),
        (SIZED_PRODUCT, [("host", ["i"]), ("sized", ["j", "g", "y"])]),
    ],
)
def test_devices_take_first_what_is_ready(text: str, expected: list[tuple[str, list[str]]]):
    assert pieces(text) == expected


def test_scalars_beside_the_host_are_computed_there():
    found = pieces("""
    func.func @main(%x : tensor<100xf32>, %n : tensor<1xi64>) -> tensor<?xf32> {
      %one = top.weight() {weight = "one"} : tensor<1xi64>
      %m = top.binary(%n, %one) {kind = "add"} : tensor<1xi64>
      %y = top.slice(%x, starts_value = %n, stops_value = %m) {axes = [0]} : tensor<?xf32>
      top.return(%y)
    }
    """)
    assert found == [("host", ["m", "y"])]


def test_the_device_goes_on_with_what_the_host_found():
    found = pieces("""
    func.func @main(%x : tensor<100xf32>) -> tensor<100xf32> {
      %i = top.nonzero(%x) : tensor<1x?xi64>
      %s = top.shape(%i) {start = 1} : tensor<1xi64>
      %f = top.cast(%s) {to = f32} : tensor<1xf32>
      %y = top.binary(%x, %f) {kind = "div"} : tensor<100xf32>
      top.return(%y)
    }
    """)
    assert found == [("host", ["i", "s", "f"]), ("device", ["y"])]


def test_what_a_region_reads_from_outside_is_sent_along():
    text = """
    func.func @main(%x : tensor<100xf32>, %c : tensor<i1>) -> tensor<?xf32> {
      %a = top.unary(%x) {kind = "relu"} : tensor<100xf32>
      %y = top.if(%c) {
        top.return(%a)
      } {
        %s = top.slice(%a) {starts = [0], stops = [7], steps = [1]} : tensor<7xf32>
        top.return(%s)
      } : tensor<?xf32>
      top.return(%y)
    }
    """
    result = placed(text)
    assert pieces(text) == [("device", ["a"]), ("host", ["y"])]
    x = np.arange(-50, 50, dtype=np.float32)
    for condition in (True, False):
        inputs = {"x": x, "c": np.array(condition)}
        np.testing.assert_array_equal(result.after.run(inputs)["y"], result.before.run(inputs)["y"])


def test_without_host_parts_everything_goes_to_the_device():
    (result,) = programs.run_passes(programs.program(FOUND), [PlaceOnDevice("cpu", False)])
    assert [f.sym_name.data for f in functions(result.after.program)] == ["main", "main_cpu"]
