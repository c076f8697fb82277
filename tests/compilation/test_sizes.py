"""Sizes that a page begins with where the model's file does not say them."""

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compilation.settings.sizes import FIRST_SIZE, complete_sizes, suggested_sizes
from explorer.errors import DeviceError, ExplorerError, InputError
from explorer.importers import to_top
from explorer.importers.onnx import from_proto

ANTIALIASED: dict[str, Any] = {"mode": "linear", "antialias": 1, "name": "resize"}
"""A resize that the importer knows at given sizes only."""


def model_of(nodes: list[Any], **inputs: list[str | int]) -> Any:
    """A model with the output y."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sized", values, [output])
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


def attention_like() -> Any:
    """A mask over what was seen before and what comes now."""
    return model_of(
        [
            helper.make_node("Concat", ["past", "now"], ["all"], axis=1, name="join"),
            helper.make_node("Add", ["all", "mask"], ["y"], name="masked"),
        ],
        past=["batch", "seen"],
        now=["batch", "length"],
        mask=["batch", "total"],
    )


def test_what_the_file_says_needs_no_suggestion():
    assert suggested_sizes(model_of([helper.make_node("Relu", ["x"], ["y"])], x=["n", 3])) == {}


def test_batches_are_one_and_sums_of_sizes_fit():
    assert suggested_sizes(attention_like()) == {
        "batch": 1,
        "seen": FIRST_SIZE,
        "length": FIRST_SIZE,
        "total": 2 * FIRST_SIZE,
    }


def test_a_table_bounds_what_runs_along_it():
    table = helper.make_node(
        "Constant",
        [],
        ["table"],
        value=helper.make_tensor("t", TensorProto.FLOAT, (5,), [1, 2, 3, 4, 5]),
    )
    add = helper.make_node("Add", ["x", "table"], ["y"], name="add")
    model = model_of([table, add], x=["n", "length"])
    assert suggested_sizes(model) == {}  # it follows from the model
    assert complete_sizes(model, {})["length"] in (1, 5)


@pytest.mark.parametrize("make", [attention_like])
def test_a_model_compiles_at_its_suggested_sizes(make: Any):
    model = make()
    compilation = explorer.compile(model, dimensions=suggested_sizes(model))
    assert compilation.accuracy().passed


def test_given_sizes_stay_and_what_follows_from_them_is_not_chosen_anew():
    sizes = suggested_sizes(attention_like(), {"seen": 3})
    assert sizes == {"batch": 1, "seen": 3, "length": FIRST_SIZE, "total": 3 + FIRST_SIZE}


def test_a_size_that_others_imply_is_not_asked_for():
    assert complete_sizes(attention_like(), {"seen": 3, "length": 4}) == {
        "batch": 1,
        "seen": 3,
        "length": 4,
        "total": 7,
    }


def test_the_proposal_is_one_that_the_model_can_take():
    """And names only what has to be given: `total` follows from the others."""
    with pytest.raises(InputError, match="has no size of its own") as caught:
        complete_sizes(attention_like(), {"seen": 3})
    assert "--dim length=16 " in caught.value.hint
    assert "total" not in caught.value.hint
    with pytest.raises(InputError, match="has no dimension 'gone'"):
        complete_sizes(attention_like(), {"gone": 3})


def halves_that_meet() -> Any:
    """Two maps, of which the importer says at given sizes only that they do not meet: x is halved
    three times and then enlarged to eight times that."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[8], strides=[8], name="pool"),
        helper.make_node("Shape", ["a"], ["s"], name="shape"),
        helper.make_node("Constant", [], ["f"], value_floats=[1.0, 1.0, 8.0], name="factors"),
        helper.make_node("Resize", ["a", "", "f"], ["b"], **ANTIALIASED),
        helper.make_node("Add", ["x", "b"], ["y"], name="add"),
    ]
    return model_of(nodes, x=["n", 2, "length"])


def test_sizes_are_tried_where_a_model_is_imported_at_given_ones_only():
    model = halves_that_meet()
    with pytest.raises(ExplorerError):
        to_top(model)
    sizes = suggested_sizes(model)
    assert sizes["length"] % 8 == 0
    to_top(model, sizes)
    with pytest.raises(ExplorerError):
        to_top(model, {"n": 1, "length": 12})


def constant(name: str, array: np.ndarray) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def windows_below(most: int, reach: int, strides: int = 1, last: int = 1) -> Any:
    """A window over x that the importer knows at given sizes only, and a table that bounds x."""
    ones = np.ones((1, 1, reach), np.float32)
    nodes = [
        constant("w", ones),
        constant("v", np.ones((1, 1, last), np.float32)),
        constant("table", np.zeros((1, 1, most), np.float32)),
        constant("starts", np.array([0, 0, 0], np.int64)),
        constant("f", np.array([1, 1, 2], np.float32)),
        helper.make_node("Shape", ["x"], ["ends"], name="shape"),
        helper.make_node("Slice", ["table", "starts", "ends"], ["part"], name="part"),
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2], strides=[2], name="pool"),
        helper.make_node("Shape", ["p"], ["s"], name="shape2"),
        helper.make_node("Resize", ["p", "", "f"], ["q"], **ANTIALIASED),
        helper.make_node("Add", ["x", "q"], ["same"], name="meet"),
        helper.make_node("Add", ["same", "part"], ["a"], name="add"),
        helper.make_node("Conv", ["a", "w"], ["b"], strides=[strides], name="conv"),
        helper.make_node("Conv", ["b", "v"], ["y"], name="conv2"),
    ]
    return model_of(nodes, x=["n", 1, "length"])


@pytest.mark.parametrize(
    ("most", "reach", "strides", "last"),
    [(200, 130, 1, 1), (120, 100, 1, 1), (180, 10, 8, 20), (FIRST_SIZE, 4, 1, 1)],
)
def test_a_refused_window_proposes_the_next_size(most: int, reach: int, strides: int, last: int):
    model = windows_below(most, reach, strides, last)
    sizes = suggested_sizes(model)
    with pytest.raises(ExplorerError):
        to_top(model)
    assert sizes["length"] <= most and sizes["length"] % 2 == 0
    assert (sizes["length"] - reach) // strides + 1 >= last
    to_top(model, sizes)


def test_windows_that_nothing_fits_end_the_search():
    model = windows_below(50, 100)
    assert suggested_sizes(model)["length"] == FIRST_SIZE
    with pytest.raises(ExplorerError):
        to_top(model, {"n": 1, "length": 50})


def test_a_bound_of_an_expression_is_met_by_the_nearest_size():
    nodes = [
        constant("w", np.ones((1, 1, 150), np.float32)),
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[3, 4], name="conv"),
    ]
    model = model_of(nodes, x=["n", 1, "length"])
    sizes = suggested_sizes(model)
    assert sizes["length"] >= 143
    to_top(model, sizes)


def test_a_size_that_follows_from_another_input_needs_none_of_its_own():
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        halves (float[1,3,"h//2"] y, float[1,3,h] x) => (float[1,3,"h//2"] z) {
          p = MaxPool <kernel_shape = [2], strides = [2]> (x)
          z = Add (p, y)
        }"""
    )
    source = from_proto(model)
    compiled = explorer.compile(source, "cpu", dimensions={"h": (2, 16)})
    for size in (2, 9, 16):
        x = np.arange(3 * size, dtype=np.float32).reshape(1, 3, size)
        y = np.ones((1, 3, size // 2), np.float32)
        wanted = x[:, :, : size // 2 * 2].reshape(1, 3, -1, 2).max(3) + 1
        np.testing.assert_array_equal(compiled.run({"x": x, "y": y})["z"], wanted)
    long = {"x": np.ones((1, 3, 9), np.float32), "y": np.ones((1, 3, 5), np.float32)}
    with pytest.raises(InputError, match="is 5, but h//2 is 4"):
        compiled.run(long)
    with pytest.raises(InputError, match="'y': axis 2 has size 5, expected 4"):
        explorer.compile(source, "cpu", inputs=long)
    assert explorer.compile(source, "cpu", dimensions={"h": 5}).run(
        {"x": np.ones((1, 3, 5), np.float32), "y": np.ones((1, 3, 2), np.float32)}
    )["z"].shape == (1, 3, 2)


@pytest.mark.parametrize("isolated", [False, True])
def test_an_arena_that_no_machine_has_is_named_with_its_bytes(isolated):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        large (float[a,1,1] x, float[b,1] z, float[c] w) => (float[a,b,c] y) {
          p = Mul (x, z)
          y = Mul (p, w)
        }"""
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions=dict.fromkeys("abc", 60_000))
    with pytest.raises(DeviceError, match=r"an arena of [\d,]{19,} bytes"):
        compiled.open(isolated=isolated).run(compiled.example_inputs())
