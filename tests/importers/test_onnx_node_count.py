"""Models of absurd size are refused from a look at the file, before anything is made of them."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from explorer.errors import ModelError
from explorer.importers import load
from explorer.importers.onnx.file.node_count import MAX_NODES

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def saved(
    folder: Path, nodes: list[onnx.NodeProto], functions: dict[str, list[onnx.NodeProto]]
) -> Path:
    """A model from `x` to `y`, whose functions are called by their name in the domain `own`."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    bodies = [
        helper.make_function("own", name, ["x"], ["y"], body, OPSETS)
        for name, body in functions.items()
    ]
    model = helper.make_model(graph, opset_imports=OPSETS, functions=bodies, ir_version=8)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def call(function: str, operand: str, result: str) -> onnx.NodeProto:
    return helper.make_node(function, [operand], [result], domain="own")


def chain(nodes: int) -> list[onnx.NodeProto]:
    """So many Relu from `x` to `y`."""
    names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
    return [helper.make_node("Relu", names[i : i + 1], names[i + 1 : i + 2]) for i in range(nodes)]


def test_a_model_of_a_hundred_thousand_nodes_is_refused(tmp_path: Path):
    path = saved(tmp_path, chain(100_000), {})
    with pytest.raises(ModelError) as refused:
        load(path)
    assert str(refused.value) == (
        "the model has 100,000 nodes; at most 20,000 can be compiled, for every pass keeps all of "
        f"them; where: file {path}; try: export a part of the model, or a smaller one"
    )


def test_the_most_nodes_are_read(tmp_path: Path):
    assert len(load(saved(tmp_path, chain(MAX_NODES), {})).nodes) == MAX_NODES


def test_functions_that_double_one_another_are_counted_before_they_are_written_out(tmp_path: Path):
    doubling = {
        f"f{i}": [call(f"f{i + 1}", "x", "m"), call(f"f{i + 1}", "m", "y")] for i in range(29)
    }
    doubling["f29"] = chain(2)
    path = saved(tmp_path, [call("f0", "x", "y")], doubling)
    assert path.stat().st_size < 3000
    with pytest.raises(ModelError, match="the model has 1,073,741,824 nodes when its functions"):
        load(path)


def test_functions_are_counted_where_they_are_called(tmp_path: Path):
    twice = {"twice": [call("three", "x", "m"), call("three", "m", "y")], "three": chain(3)}
    model = load(saved(tmp_path, [call("twice", "x", "m"), call("three", "m", "y")], twice))
    assert [node.operator for node in model.nodes] == ["Relu"] * 9


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ({"f": "f"}, "needs itself: f -> f"),
        ({"f": "g", "g": "f"}, "needs itself: f -> g -> f"),
    ],
)
def test_functions_that_need_themselves_are_refused(
    tmp_path: Path, calls: dict[str, str], message: str
):
    functions = {name: [call(other, "x", "y")] for name, other in calls.items()}
    with pytest.raises(ModelError, match=message):
        load(saved(tmp_path, [call("f", "x", "y")], functions))


def test_functions_that_nobody_calls_may_not_need_themselves_either(tmp_path: Path):
    path = saved(tmp_path, chain(1), {"f": [call("f", "x", "y")]})
    with pytest.raises(ModelError, match="needs itself: f -> f"):
        load(path)


def test_more_functions_than_onnx_allows_are_refused(tmp_path: Path):
    functions = {f"f{i}": [helper.make_node("Relu", ["x"], ["y"])] for i in range(10_001)}
    with pytest.raises(ModelError, match=r"cannot be written out: Model contains 10001 local"):
        load(saved(tmp_path, [call("f1", "x", "y")], functions))


def test_functions_nested_too_deep_are_refused(tmp_path: Path):
    nested = {f"f{i}": [call(f"f{i + 1}", "x", "y")] for i in range(5000)}
    nested["f5000"] = chain(1)
    with pytest.raises(ModelError, match="nested more than 100 deep"):
        load(saved(tmp_path, [call("f0", "x", "y")], nested))
