"""Damaged or unusual nodes end in an error that names them, and none in an error of Python's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import ModelError, UnsupportedError
from explorer.importers.onnx import from_proto, to_top

ONES = np.ones((2, 3), np.float32)


def refused(model: onnx.ModelProto) -> str:
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        to_top(from_proto(model))
    return str(caught.value)


def test_a_shape_that_is_no_vector(make_model: Callable) -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="flat")
    model = make_model([node], {"x": ONES}, {"shape": np.array(6)}, 21)
    message = refused(model)
    assert "flat" in message
    assert "0 axes, one expected" in message


def test_an_axis_outside_of_the_operand(make_model: Callable) -> None:
    node = helper.make_node("Squeeze", ["x"], ["y"], name="narrow", axes=[7])
    assert "narrow" in refused(make_model([node], {"x": ONES}, {}, 11))


def test_a_sparse_attribute(make_model: Callable) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    attribute = node.attribute.add()
    attribute.name, attribute.type = "alpha", onnx.AttributeProto.SPARSE_TENSOR
    assert "'alpha' is a sparse tensor" in refused(make_model([node], {"x": ONES}, {}, 21))


def test_a_constant_of_an_unknown_element_type(make_model: Callable) -> None:
    value = TensorProto(dims=[2], data_type=127, raw_data=b"12345678")
    node = helper.make_node("Constant", [], ["y"], value=value)
    assert "number 127" in refused(make_model([node], {}, {}, 21))


def test_booleans_where_numbers_are_expected(make_model: Callable) -> None:
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"], name="mean")
    model = make_model([node], {"x": np.ones((1, 2, 3), bool)}, {}, 21)
    message = refused(model)
    assert "mean" in message
    assert "operand 0 has elements of type bool; it takes double, float" in message


def test_a_conversion_that_needs_too_much_memory_is_named(
    make_model: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_memory(*sizes: object) -> None:
        raise MemoryError

    node = helper.make_node("OneHot", ["x", "depth", "pair"], ["y"], name="huge")
    weights = {"depth": np.array(3), "pair": np.ones(2, np.float32)}
    model = make_model([node], {"x": np.array([1])}, weights, 18)
    monkeypatch.setattr("explorer.importers.onnx.operators.shapes.np.arange", without_memory)
    message = refused(model)
    assert "OneHot asks for more memory than there is" in message
    assert "node huge" in message


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2**40, 2**40], "pads": [2**39] * 4}),
        ("Conv", {"pads": [2**40] * 4, "dilations": [2**40, 2**40]}),
    ],
)
def test_pads_that_no_buffer_could_hold(
    operator: str, attributes: dict, make_model: Callable
) -> None:
    """The result is small; the halo around the operand is what would be huge."""
    names = ["x", "w"] if operator == "Conv" else ["x"]
    node = helper.make_node(operator, names, ["y"], name="huge", **attributes)
    weights = {"w": np.ones((1, 1, 3, 3), np.float32)} if operator == "Conv" else {}
    model = make_model([node], {"x": np.ones((1, 1, 4, 4), np.float32)}, weights, 18)
    with pytest.raises(UnsupportedError, match=r"larger than any memory.*from huge"):
        explorer.compile(from_proto(model), "cpu")


def test_a_result_that_no_machine_could_hold(make_model: Callable) -> None:
    """Also where its first size is not known."""
    padded = {"pads": np.array([0, 2**40, 2**30, 0, 0, 0])}
    node = helper.make_node("Pad", ["x", "pads"], ["y"], name="huge")
    model = make_model([node], {"x": ONES[np.newaxis]}, padded, 21)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    message = refused(model)
    assert "huge" in message
    assert "elements" in message
