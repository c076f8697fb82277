"""Pads that repeat elements of an axis whose size is not known before the model runs."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.errors import InputError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function
from explorer.ir.sizes.constraints import constraints_of


def pad(mode: str, amounts: list[int]) -> onnx.ModelProto:
    """Of x: (n, 3); all begins, then all ends."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    weight = numpy_helper.from_array(np.array(amounts), "p")
    graph = helper.make_graph([node], "pad", [x], [onnx.ValueInfoProto(name="y")], [weight])
    opsets = [helper.make_opsetid("", 19)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def constraints(model: onnx.ModelProto, snapshot: Callable) -> list[str]:
    program = snapshot(from_proto(model)).program
    return [constraint.text for constraint in constraints_of(entry_function(program))]


@pytest.mark.parametrize("amounts", [[3, 1, 2, 2], [0, 0, 3, 0], [1, 0, 0, 0]])
@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_one_program_pads_axes_of_every_size(
    mode: str, amounts: list[int], compare: Callable
) -> None:
    for size in (4, 5, 9):
        x = np.random.default_rng(size).normal(size=(size, 3)).astype(np.float32)
        assert compare(from_proto(pad(mode, amounts)), {"x": x}) == 0


def test_the_axis_must_have_what_is_repeated(snapshot: Callable) -> None:
    assert constraints(pad("edge", [3, 0, 2, 0]), snapshot) == []
    assert constraints(pad("wrap", [3, 0, 2, 0]), snapshot) == ["n >= 3"]
    assert constraints(pad("reflect", [3, 0, 2, 0]), snapshot) == ["n >= 4"]
    assert constraints(pad("reflect", [3, 0, 200, 0]), snapshot) == ["n >= 201"]


def test_an_axis_that_is_too_short_is_refused(snapshot: Callable) -> None:
    program = snapshot(from_proto(pad("reflect", [3, 0, 2, 0])))
    with pytest.raises(InputError, match="n >= 4"):
        program.run({"x": np.zeros((3, 3), np.float32)})


def test_a_pad_that_cuts_an_open_axis_continues_what_is_left(
    snapshot: Callable, compare: Callable
) -> None:
    assert constraints(pad("reflect", [-1, 0, 2, 0]), snapshot) == ["n >= 4"]
    for size in (4, 5, 9):
        x = np.random.default_rng(size).normal(size=(size, 3)).astype(np.float32)
        assert compare(from_proto(pad("reflect", [-1, 0, 2, 0])), {"x": x}) == 0
