"""Trees, tables and optimizers against ONNX's reference: `ai.onnx.ml` and training."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from explorer.errors import ModelError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

TRAINING = "ai.onnx.preview.training"


def model_of(node: onnx.NodeProto, inputs: Mapping[str, np.ndarray], version: int):
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", infos, outputs)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(node.domain, version)]
    return helper.make_model(graph, opset_imports=opsets)


def imported(model: onnx.ModelProto, inputs: Mapping, snapshot: Callable) -> list[np.ndarray]:
    made = snapshot(from_proto(model))
    outputs = outputs_by_name(made.module, made.run(inputs))
    return [outputs[o.name] for o in model.graph.output]


def assert_as_reference(
    node: onnx.NodeProto, inputs: Mapping[str, np.ndarray], version: int, snapshot: Callable
) -> None:
    model = model_of(node, inputs, version)
    expected = ReferenceEvaluator(model).run(None, dict(inputs))
    for found, wanted in zip(imported(model, inputs, snapshot), expected, strict=True):
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


# -- trees -----------------------------------------------------------------------------------------

MODES = {"LEQ": 0, "LT": 1, "GTE": 2, "GT": 3, "EQ": 4, "NEQ": 5}


def forest_node(modes: list[int], **changes: object) -> onnx.NodeProto:
    """Two trees: one of two levels over both features, one of a single leaf pair.

    node 0: x[0] ? leaf 0 : node 1;  node 1: x[1] ? leaf 1 : leaf 2;  node 2: x[0] ? leaf 3 : leaf 0
    """
    attributes: dict = {
        "aggregate_function": 1,
        "n_targets": 2,
        "nodes_featureids": [0, 1, 0],
        "nodes_splits": numpy_helper.from_array(np.array([1, 0, 2], np.float32)),
        "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8)),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 0],
        "nodes_falseleafs": [0, 1, 1],
        "tree_roots": [0, 2],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": numpy_helper.from_array(np.array([1.5, -2.0, 4.0, 0.25], np.float32)),
        "post_transform": 0,
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml")
    node.attribute.extend(helper.make_attribute(k, v) for k, v in {**attributes, **changes}.items())
    return node


def walk_by_hand(x: np.ndarray, mode: str) -> np.ndarray:
    holds = {
        "LEQ": np.less_equal,
        "LT": np.less,
        "GTE": np.greater_equal,
        "GT": np.greater,
        "EQ": np.equal,
        "NEQ": np.not_equal,
    }[mode]
    weights, targets = [1.5, -2.0, 4.0, 0.25], [0, 1, 0, 1]
    result = np.zeros((len(x), 2), np.float32)
    for row, (a, b) in enumerate(x):
        first = 0 if holds(a, 1) else 1 if holds(b, 0) else 2
        second = 3 if holds(a, 2) else 0
        for leaf in (first, second):
            result[row, targets[leaf]] += weights[leaf]
    return result


X = np.array([[1, 0], [0, 1], [2, -1], [3, 0], [np.nan, 0.5], [1, np.nan]], np.float32)


@pytest.mark.parametrize("mode", MODES)
def test_every_condition_of_a_tree(mode, snapshot) -> None:
    model = model_of(forest_node([MODES[mode]] * 3), {"x": X}, 5)
    np.testing.assert_array_equal(imported(model, {"x": X}, snapshot)[0], walk_by_hand(X, mode))


def test_nodes_of_one_tree_may_have_different_conditions(snapshot) -> None:
    x = X[:4]
    (found,) = imported(model_of(forest_node([0, 3, 4]), {"x": x}, 5), {"x": x}, snapshot)
    leaves = [(0, 0), (0, 0), (2, 3), (2, 0)]
    weights, targets = [1.5, -2.0, 4.0, 0.25], [0, 1, 0, 1]
    expected = np.zeros((4, 2), np.float32)
    for row, pair in enumerate(leaves):
        for leaf in pair:
            expected[row, targets[leaf]] += weights[leaf]
    np.testing.assert_array_equal(found, expected)


def test_a_missing_value_may_count_as_yes(snapshot) -> None:
    node = forest_node([0, 0, 0], nodes_missing_value_tracks_true=[1, 0, 0])
    x = np.array([[np.nan, 5]], np.float32)
    (found,) = imported(model_of(node, {"x": x}, 5), {"x": x}, snapshot)
    np.testing.assert_array_equal(found, [[3.0, 0.0]])  # leaf 0 of both trees


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [(0, [[0.75, 0.125]]), (1, [[1.5, 0.25]]), (2, [[1.5, 0.25]]), (3, [[1.5, 0.25]])],
)
def test_what_the_trees_say_is_put_together(aggregate, expected, snapshot) -> None:
    x = np.array([[0, 0]], np.float32)
    node = forest_node([0, 0, 0], aggregate_function=aggregate)
    (found,) = imported(model_of(node, {"x": x}, 5), {"x": x}, snapshot)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes_falsenodeids": [0, 2, 0]},
        {"nodes_truenodeids": [9, 1, 3]},
        {"tree_roots": [0, 3]},
        {"leaf_targetids": [0, 1]},
    ],
    ids=["circle", "leaf", "root", "lengths"],
)
def test_a_damaged_tree_is_refused(changes, snapshot) -> None:
    model = model_of(forest_node([0, 0, 0], **changes), {"x": X}, 5)
    with pytest.raises(ModelError, match="TreeEnsemble does not fit"):
        imported(model, {"x": X}, snapshot)


# -- features --------------------------------------------------------------------------------------


def test_features_are_extracted_and_thresholded(snapshot) -> None:
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    columns = np.array([2, 0], np.int64)
    extract = helper.make_node(
        "ArrayFeatureExtractor", ["x", "columns"], ["y"], domain="ai.onnx.ml"
    )
    assert_as_reference(extract, {"x": x, "columns": columns}, 1, snapshot)
    binarize = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=3.0)
    assert_as_reference(binarize, {"x": x}, 1, snapshot)
    scale = helper.make_node(
        "Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0, 0.0, 2.0], scale=[2.0]
    )
    (found,) = imported(model_of(scale, {"x": x}, 1), {"x": x}, snapshot)
    np.testing.assert_array_equal(found, (x - [1, 0, 2]) * 2)


def test_labels_are_looked_up_and_nan_is_one(snapshot) -> None:
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_floats=[1.0, float("nan"), 2.5],
        values_int64s=[10, 20, 30],
        default_int64=-7,
    )
    x = np.array([[2.5, 1.0], [np.nan, 9.0]], np.float32)
    (found,) = imported(model_of(node, {"x": x}, 4), {"x": x}, snapshot)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [[30, 10], [20, -7]])


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize(
    ("operator", "states", "attributes"),
    [
        ("Adagrad", 1, {"decay_factor": 0.1, "norm_coefficient": 0.01, "epsilon": 1e-5}),
        ("Momentum", 1, {"alpha": 0.9, "beta": 0.5, "mode": "standard", "norm_coefficient": 0.1}),
        ("Momentum", 1, {"alpha": 0.9, "beta": 0.5, "mode": "nesterov", "norm_coefficient": 0.1}),
        ("Adam", 2, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.2, "epsilon": 1e-3}),
    ],
)
def test_optimizers_move_two_weights(operator, states, attributes, step, snapshot) -> None:
    generator = np.random.default_rng(8)
    shapes = [(3,), (2, 2)]
    inputs = {"rate": np.array(0.1, np.float32), "step": np.array(step, np.int64)}
    for kind in range(2 + states):
        for index, shape in enumerate(shapes):
            array = generator.uniform(0.1, 2, shape).astype(np.float32)
            inputs[f"k{kind}_{index}"] = array
    outputs = [f"y{i}" for i in range(2 * (1 + states))]
    node = helper.make_node(operator, [*inputs], outputs, domain=TRAINING, **attributes)
    assert_as_reference(node, inputs, 1, snapshot)


def test_a_trained_batch_norm_uses_the_batch_and_moves_its_statistics(snapshot) -> None:
    generator = np.random.default_rng(4)
    inputs = {"x": generator.standard_normal((4, 3, 5)).astype(np.float32)}
    for name in ("scale", "shift", "mean", "variance"):
        inputs[name] = generator.uniform(0.5, 1.5, 3).astype(np.float32)
    node = helper.make_node(
        "BatchNormalization", [*inputs], ["y", "m", "v"], training_mode=1, momentum=0.7
    )
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "one", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    x = inputs["x"]
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    y, moved_mean, moved_variance = imported(model, inputs, snapshot)
    np.testing.assert_allclose(moved_mean, inputs["mean"] * 0.7 + mean * 0.3, rtol=1e-5)
    np.testing.assert_allclose(moved_variance, inputs["variance"] * 0.7 + variance * 0.3, rtol=1e-5)
    normal = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    expected = normal * inputs["scale"][:, None] + inputs["shift"][:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
