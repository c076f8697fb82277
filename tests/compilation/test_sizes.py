"""Sizes that a page begins with where the model's file does not say them."""

from typing import Any

import pytest
from onnx import TensorProto, helper

import explorer
from explorer.compilation.sizes import FIRST_SIZE, suggested_sizes
from explorer.importers.onnx import from_proto


def model_of(nodes: list[Any], **inputs: list[str | int]) -> Any:
    """A model with the output y."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sized", values, [output])
    return from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


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
    assert suggested_sizes(model_of([table, add], x=["n", "length"]))["length"] in (1, 5)


@pytest.mark.parametrize("make", [attention_like])
def test_a_model_compiles_at_its_suggested_sizes(make: Any):
    model = make()
    compilation = explorer.compile(model, dimensions=suggested_sizes(model))
    assert compilation.accuracy().passed
