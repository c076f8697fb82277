"""What an imported module looks like: names, sources, origins, and what is reported."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from explorer.errors import InputError, ModelError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import entry_function, input_names, output_names
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.origins import origin_of, sources_of
from explorer.ir.types import shape_of

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def symbolic(model: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """The model with names instead of the sizes of its first input."""
    for dimension, name in zip(
        model.graph.input[0].type.tensor_type.shape.dim, names, strict=False
    ):
        if name:
            dimension.dim_param = name
    return model


def test_an_imported_model_in_text(make_model: Callable, snapshot: Callable) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "W", "B"], ["h"], name="/block/linear1"),
        helper.make_node("Relu", ["h"], ["y"], name="/block/act"),
    ]
    weights = {"W": np.zeros((3, 4), np.float32), "B": np.zeros(4, np.float32)}
    imported = snapshot(from_proto(make_model(nodes, {"x": X}, weights, 13)))
    lines = [line.strip() for line in imported.text.lines]
    assert lines[1:7] == [
        'func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> attributes {device = "host", '
        'input_names = ["x"], output_names = ["y"]} {',
        '%W1 = top.weight() {weight = "W"} : tensor<3x4xf32>',
        '%B1 = top.weight() {weight = "B"} : tensor<4xf32>',
        "%linear1 = top.matmul(%x, %W1, bias = %B1) : tensor<2x4xf32>",
        '%act1 = top.unary(%linear1) {kind = "relu"} : tensor<2x4xf32>',
        "top.return(%act1)",
    ]


def test_the_complete_text_of_an_imported_model_can_be_read_back(
    make_model: Callable, snapshot: Callable
) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name='odd "name"')
    imported = snapshot(from_proto(symbolic(make_model([node], {"x": X}, {}, 11), "batch")))
    assert dump(parse(imported.dump())) == imported.dump()


def test_only_the_last_operation_of_a_decomposed_node_carries_the_origin(
    make_model: Callable, snapshot: Callable
) -> None:
    node = helper.make_node("Mish", ["x"], ["y"], name="act")
    imported = snapshot(from_proto(make_model([node], {"x": X}, {}, 18)))
    found = {
        identity: (sources_of(op), origin_of(op.results[0]))
        for identity, op in imported.operations.items()
        if op.results
    }
    assert {i: s for i, (s, _) in found.items()} == {
        "softplus1": ("act",),
        "tanh1": ("act",),
        "act1": ("act",),
    }
    assert [o.tensor if o else None for _, o in found.values()] == [None, None, "y"]


def test_a_node_that_computes_nothing_is_a_source_of_what_is_before_it(
    make_model: Callable, snapshot: Callable
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="act"),
        helper.make_node("Identity", ["h"], ["y"], name="same"),
    ]
    imported = snapshot(from_proto(make_model(nodes, {"x": X}, {}, 13)))
    assert sources_of(imported.operations["act1"]) == ("act", "same")
    assert imported.origins["act1"].tensor == "h"


def test_inputs_are_fed_and_outputs_are_named_as_in_the_model(
    make_model: Callable, snapshot: Callable
) -> None:
    node = helper.make_node("Add", ["input.1", "input_1"], ["out:0"])
    inputs = {"input.1": X, "input_1": X}
    imported = snapshot(from_proto(make_model([node], inputs, {}, 13)))
    function = entry_function(imported.module)
    assert input_names(function) == ("input.1", "input_1")
    assert output_names(function) == ("out:0",)
    assert [a.name_hint for a in function.body.block.args] == ["input1", "input1x2"]
    np.testing.assert_array_equal(imported.run(inputs)["add1"], X + X)
    with pytest.raises(InputError, match="the model has no input 'input1'"):
        imported.run({"input1": X})


def test_shapes_that_depend_on_shapes_are_known_without_folding(
    make_model: Callable, snapshot: Callable
) -> None:
    """Shape -> Slice -> Concat -> Reshape stays visible, its result has a static type."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "ZERO", "ONE"], ["b"]),
        helper.make_node("Concat", ["b", "REST"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"], name="view"),
    ]
    weights = {name: np.array([n], np.int64) for name, n in dict(ZERO=0, ONE=1, REST=-1).items()}
    x = np.zeros((2, 3, 4), np.float32)
    imported = snapshot(from_proto(make_model(nodes, {"x": x}, weights, 13)))
    view = imported.operations["view1"]
    assert [op.name for op in imported.operations.values() if op.name != "top.weight"] == [
        "top.shape",
        "top.slice",
        "top.concat",
        "top.reshape",
        "top.return",
    ]
    assert len(view.operands) == 2
    assert shape_of(view.results[0]) == (2, 12)


def test_symbolic_dimensions_stay_or_are_given_a_size(
    make_model: Callable, snapshot: Callable
) -> None:
    model = from_proto(
        symbolic(make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, {}, 13), "batch")
    )
    assert shape_of(snapshot(model).operations["relu1"].results[0]) == ("batch", 3)
    assert shape_of(snapshot(model, {"batch": 5}).operations["relu1"].results[0]) == (5, 3)
    with pytest.raises(InputError, match=r"no dimension 'bath'; try: .*'batch'"):
        snapshot(model, {"bath": 5})
    assert shape_of(snapshot(model, {"batch": 0}).operations["relu1"].results[0]) == (0, 3)
    with pytest.raises(InputError, match="cannot be -1"):
        snapshot(model, {"batch": -1})


def test_unsupported_nodes_are_reported_all_at_once(
    make_model: Callable, snapshot: Callable
) -> None:
    nodes = [
        helper.make_node("Reluu", ["x"], ["a"], name="typo"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="fine"),
        helper.make_node("ImageDecoder", ["b"], ["c"], name="known to ONNX"),
        helper.make_node("Relu", ["c"], ["d"], name="wrong", domain="com.microsoft"),
        helper.make_node("Cast", ["x"], ["e"], name="to text", to=TensorProto.STRING),
    ]
    model = from_proto(make_model(nodes, {"x": X}, {}, 20, ["com.microsoft"]))
    with pytest.raises(UnsupportedError, match="4 nodes of model cannot be imported") as caught:
        snapshot(model)
    assert caught.value.problems == (
        "node typo: Reluu (ai.onnx opset 20): unknown operator; did you mean Relu?",
        "node known to ONNX: ImageDecoder (ai.onnx opset 20): not supported",
        "node wrong: Relu (com.microsoft opset 1): unknown here; ai.onnx has it: wrong domain?",
        "node to text: Cast (ai.onnx opset 20): casts to strings",
    )


def test_a_second_result_is_a_problem_only_where_it_is_used(
    make_model: Callable, snapshot: Callable
) -> None:
    domain = "com.microsoft"
    node = helper.make_node(
        "SkipLayerNormalization", ["x", "x", "SCALE"], ["y", "mean"], name="skip", domain=domain
    )
    weights = {"SCALE": np.ones(X.shape[-1], np.float32)}
    model = make_model([node], {"x": X}, weights, 13, [domain])
    del model.graph.output[1]
    assert snapshot(from_proto(model)).operation_count > 0
    with pytest.raises(UnsupportedError, match="cannot be imported") as caught:
        snapshot(from_proto(make_model([node], {"x": X}, weights, 13, [domain])))
    assert caught.value.problems == (
        "the model's output: it uses result 1 ('mean') of skip (SkipLayerNormalization), "
        "which is not supported",
    )


def test_operands_that_do_not_fit_name_the_node(make_model: Callable, snapshot: Callable) -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="square")
    with pytest.raises(
        ModelError, match=r"MatMul does not fit its operands: .*3 columns"
    ) as caught:
        snapshot(from_proto(make_model([node], {"x": X}, {}, 13)))
    assert caught.value.node == "square"


def branches(make_model: Callable, condition: list[onnx.NodeProto]) -> onnx.ModelProto:
    """y = Relu(x) where the condition `c` holds, else a weight of the branch minus x."""
    result = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    one = helper.make_tensor("ONE", TensorProto.FLOAT, [], [1.0])
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["z"], name="t")], "t", [], result)
    other = helper.make_graph(
        [helper.make_node("Sub", ["ONE", "x"], ["z"], name="e")], "e", [], result, [one]
    )
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)
    return make_model([*condition, node], {"x": X}, {}, 13)


def test_a_conditional_on_data_becomes_two_regions(
    make_model: Callable, snapshot: Callable, compare: Callable
) -> None:
    condition = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Constant", [], ["limit"], value_float=1.0),
        helper.make_node("Greater", ["m", "limit"], ["c"]),
    ]
    model = from_proto(branches(make_model, condition))
    assert "top.if" in [op.name for op in snapshot(model).operations.values()]
    assert compare(model, {"x": X}) == 0.0
    assert compare(model, {"x": X + 10}) == 0.0
    assert compare(model, {"x": X - 10}) == 0.0


def test_a_conditional_on_shapes_is_decided(
    make_model: Callable, snapshot: Callable, compare: Callable
) -> None:
    condition = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Constant", [], ["limit"], value_int=100),
        helper.make_node("Greater", ["n", "limit"], ["c"]),
    ]
    model = from_proto(branches(make_model, condition))
    imported = snapshot(model)
    assert "top.if" not in [op.name for op in imported.operations.values()]
    assert "e1" in imported.operations and "t1" not in imported.operations
    assert imported.origins["e1"].tensor == "y"
    assert compare(model, {"x": X}) == 0.0


def test_functions_of_the_model_itself_are_inlined(make_model: Callable, compare: Callable) -> None:
    model = make_model([helper.make_node("Twice", ["x"], ["y"], domain="own")], {"x": X}, {}, 13)
    model.opset_import.append(helper.make_opsetid("own", 1))
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", 13)]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, opsets))
    assert compare(from_proto(model), {"x": X}) == 0.0


def test_importing_twice_gives_the_same_text(make_model: Callable, snapshot: Callable) -> None:
    node = helper.make_node("Mish", ["x"], ["y"])
    model = from_proto(make_model([node], {"x": X}, {}, 18))
    assert snapshot(model).dump() == snapshot(model).dump()
