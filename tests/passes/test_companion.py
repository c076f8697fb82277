"""Placement of what only this device cannot run: functions of its companion."""

from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import device_of, functions, host_reason_of
from explorer.ir.top.data import TransferOp
from explorer.passes.lower.partition import Other
from explorer.passes.lower.place_on_device import PlaceOnDevice

programs = SimpleNamespace(**run_path(str(Path(__file__).parents[1] / "programs.py")))

MIXED = """
func.func @main(%x : tensor<4x32xf32>) -> (tensor<?xf32>, tensor<4x32xf32>) {
  %a = top.unary(%x) {kind = "relu"} : tensor<4x32xf32>
  %b = top.unary(%a) {kind = "exp"} : tensor<4x32xf32>
  %i = top.nonzero(%b) : tensor<2x?xi64>
  %t = top.transpose(%i) {permutation = [1, 0]} : tensor<?x2xi64>
  %y = top.gather_nd(%b, %t) {batch_dims = 0} : tensor<?xf32>
  %z = top.unary(%b) {kind = "neg"} : tensor<4x32xf32>
  top.return(%y, %z)
}
"""
VIEW = """
func.func @main(%x : tensor<4x32xf32>) -> tensor<2x64xf32> {
  %r = top.reshape(%x) {shape = [8, 16]} : tensor<8x16xf32>
  %a = top.unary(%r) {kind = "relu"} : tensor<8x16xf32>
  %y = top.reshape(%a) {shape = [2, 64]} : tensor<2x64xf32>
  top.return(%y)
}
"""


def no_exponentials(op: TopOperation, weights: object) -> str:
    return "it has no exponentials" if op.label().startswith("exp") else ""


def no_relu(op: TopOperation, weights: object) -> str:
    return "" if op.is_view else "it computes nothing"


def no_views(op: TopOperation, weights: object) -> str:
    return "it has no views" if op.is_view else ""


def placed(text, refuses, **options):
    passes = [PlaceOnDevice("array", True, refuses, **options)]
    (result,) = programs.run_passes(programs.program(text), passes)
    return result


def pieces(result):
    return [
        (device_of(f), [identity_of(op) for op in f.body.block.ops if isinstance(op, TopOperation)])
        for f in functions(result.after.program)[1:]
    ]


def test_the_device_beside_takes_what_has_a_compiled_form():
    result = placed(MIXED, no_exponentials, others=(Other("cpu"),))
    found = [(device, names[:-1]) for device, names in pieces(result)]
    assert found == [("array", ["a"]), ("cpu", ["b"]), ("host", ["i", "t", "y"]), ("array", ["z"])]
    reasons = [host_reason_of(result.after.operations[name]) for name in "abz"]
    assert reasons == ["", "it has no exponentials", ""]


def test_transfers_go_to_it_and_back():
    text = "\n".join(placed(MIXED, no_exponentials, others=(Other("cpu"),)).after.text.lines)
    assert text.count('{to = "cpu"}') == 1
    assert text.count('{to = "array"}') == 2
    assert "func.func @main_cpu(%receive1.cpu" in text


def test_numbers_stay_as_they_were():
    result = placed(MIXED, no_exponentials, others=(Other("cpu"),))
    x = np.random.default_rng(0).standard_normal((4, 32), np.float32)
    before, after = result.before.run({"x": x}), result.after.run({"x": x})
    for name in ("b", "y", "z"):
        np.testing.assert_array_equal(before[name], after[name])


def test_what_a_device_refuses_once_a_transfer_lies_in_between_is_asked_again():
    """A negation that reads what was sent; of the device's own result it would be run."""

    def no_sent_negations(op: TopOperation, weights: object) -> str:
        is_sent = any(isinstance(operand.owner, TransferOp) for operand in op.operands)
        refused = is_sent and op.label().startswith("neg")
        return "it negates no sent numbers" if refused else no_exponentials(op, weights)

    result = placed(MIXED, no_sent_negations, others=(Other("cpu"),))
    found = {name: device for device, names in pieces(result) for name in names}
    assert (found["a"], found["b"], found["z"]) == ("array", "cpu", "cpu")
    assert host_reason_of(result.after.operations["z"]) == "it negates no sent numbers"
    alone = placed(MIXED.replace('"exp"', '"sin"'), no_sent_negations, others=(Other("cpu"),))
    assert "cpu" not in [device for device, _ in pieces(alone)]


def test_a_view_beside_what_it_computes_stays_with_that():
    result = placed(VIEW, no_relu, others=(Other("cpu"),))
    assert [(device, names[:-1]) for device, names in pieces(result)] == [("cpu", ["r", "a", "y"])]
    assert "views of what is elsewhere" in host_reason_of(result.after.operations["r"])


def test_views_alone_are_no_function_of_it():
    result = placed(VIEW, no_views, others=(Other("cpu"),))
    assert [device for device, _ in pieces(result)] == ["host", "array", "host"]


@pytest.mark.parametrize("missing", ["", "no C compiler was found on this machine"])
def test_without_one_the_host_does_it_and_says_why(missing):
    result = placed(MIXED, no_exponentials, missing=missing)
    assert "cpu" not in [device for device, _ in pieces(result)]
    said = "it has no exponentials" + (f"; {missing}" if missing else "")
    assert host_reason_of(result.after.operations["b"]) == said
    assert missing == "" or missing not in host_reason_of(result.after.operations["i"])
