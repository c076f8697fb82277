"""Linear models and tree ensembles of `ai.onnx.ml` against onnxruntime, as it runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import explorer as ex
from explorer.errors import ModelError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.program import Snapshot

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
X = np.array(
    [[-2, 0.5, 0], [-0.5, -1, 3], [0, 0, 0], [0.3, 2, -1], [0.7, np.nan, 1], [2, -0.25, 0.5]],
    np.float32,
)
FINITE = np.nan_to_num(X)
Snapshots = Callable[..., Snapshot]


def model_of(operator: str, x: np.ndarray, outputs: tuple[str, ...], **attributes: Any):
    node = helper.make_node(operator, ["x"], outputs, domain=DOMAIN, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    infos = [helper.make_tensor_value_info("x", kind, ["N", *x.shape[1:]])]
    text = (
        onnx.TensorProto.STRING if "classlabels_strings" in attributes else onnx.TensorProto.INT64
    )
    kinds = {"label": text, "y": onnx.TensorProto.FLOAT}
    results = [helper.make_tensor_value_info(n, kinds[n], None) for n in outputs]
    graph = helper.make_graph([node], "one", infos, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def assert_as_onnxruntime(
    snapshot: Snapshots, operator: str, x: np.ndarray, outputs: tuple[str, ...], **attributes: Any
) -> None:
    proto = model_of(operator, x, outputs, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected = dict(zip(outputs, session.run(None, {"x": x}), strict=True))
    model = from_proto(proto)
    made = snapshot(model)
    found = ex.host_values(model, outputs_by_name(made.module, made.run({"x": x})))
    assert found["y"].dtype == np.float32
    # PROBIT is the root of a difference of numbers near 4: near 0 the root of their rounding.
    is_root = attributes.get("post_transform") == "PROBIT"
    rtol, atol = (1e-4, 7e-4) if is_root else (2e-6, 2e-7)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=rtol, atol=atol)
    if "label" in outputs:
        assert found["label"].tolist() == expected["label"].tolist()


# -- linear models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2])
def test_a_linear_regressor(snapshot: Snapshots, transform: str, targets: int):
    coefficients = [0.1, -0.05, 0.02, 0.03, 0.04, 0.05][: 3 * targets]
    for intercepts in ([], [0.5, 0.4][:targets]):
        given = {"intercepts": intercepts} if intercepts else {}
        assert_as_onnxruntime(
            snapshot, "LinearRegressor", FINITE, ("y",), coefficients=coefficients,
            targets=targets, post_transform=transform, **given,
        )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    "labels",
    [
        {"classlabels_ints": [5, 9, 7]},
        {"classlabels_strings": ["cat", "horse", ""]},
        {"classlabels_ints": [5, 9]},
        {"classlabels_strings": ["no", "yes"]},
    ],
)
def test_a_linear_classifier(snapshot: Snapshots, transform: str, labels: dict):
    count = len(next(iter(labels.values())))
    for scores in {count, 1 if count == 2 and transform != "PROBIT" else count}:
        assert_as_onnxruntime(
            snapshot, "LinearClassifier", FINITE, ("label", "y"),
            coefficients=[0.1, -0.05, 0.02, -0.03, 0.04, 0.05, 0.01, 0.02, 0.2][: 3 * scores],
            intercepts=[0.5, 0.6, 0.4][:scores], post_transform=transform, **labels,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_a_linear_classifier_of_other_types(snapshot: Snapshots, dtype: type):
    assert_as_onnxruntime(
        snapshot, "LinearClassifier", FINITE.astype(dtype), ("label", "y"),
        coefficients=[0.1, -0.05, 0.02], intercepts=[0.5], classlabels_ints=[1, 2],
    )  # fmt: skip


# -- trees -----------------------------------------------------------------------------------------

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(seed: int, kind: str, ids: list[list[int]], lowest: float = 0.0, **changes: Any) -> dict:
    """Three trees of up to seven nodes; leaves say something of the classes in `ids`, in turns."""
    draw = np.random.default_rng(seed)
    lists: dict[str, list] = {
        f"nodes_{name}": []
        for name in (
            "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
            "missing_value_tracks_true",
        )
    }  # fmt: skip
    leaves = []
    for tree, is_leaf in enumerate(([0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1])):
        numbers = list(range(len(is_leaf)))
        children = iter(numbers[1:])
        for number, leaf in zip(numbers, is_leaf, strict=True):
            below = (0, 0) if leaf else (next(children), next(children))
            mode = "LEAF" if leaf else str(draw.choice(MODES))
            value = float(draw.choice([-0.5, 0.0, 0.3, 1.0]))
            feature, tracks = int(draw.integers(3)), int(draw.integers(2)) * (not leaf)
            row = (tree, number, feature, mode, value, *below, tracks)
            for name, item in zip(lists, row, strict=True):
                lists[name].append(item)
            leaves += [(tree, number)] * leaf
    said = [(*leaf, i) for turn, leaf in enumerate(leaves) for i in ids[turn % len(ids)]]
    weights = draw.uniform(lowest, 0.3, len(said)).astype(np.float32).tolist()
    return {
        **lists,
        **{
            f"{kind}_{name}": [s[n] for s in said]
            for n, name in enumerate(("treeids", "nodeids", "ids"))
        },
        f"{kind}_weights": weights,
        **changes,
    }


@pytest.mark.sampled(5)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_a_tree_regressor(snapshot: Snapshots, transform: str, aggregate: str, targets: int):
    ids = [[0]] if targets == 1 else [[0, 1, 2], [1], [2, 0]]
    for seed, base in enumerate(([], [0.1, 0.2, 0.05][:targets])):
        given = {"base_values": base} if base else {}
        attributes = forest(seed, "target", ids, -0.1 if transform != "PROBIT" else 0.0)
        assert_as_onnxruntime(
            snapshot, "TreeEnsembleRegressor", X, ("y",), n_targets=targets,
            aggregate_function=aggregate, post_transform=transform, **attributes, **given,
        )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("ids", [[[0, 1, 2]], [[0], [1], [2]], [[1, 2], [0]]], ids=str)
def test_a_tree_classifier_of_many_classes(snapshot: Snapshots, transform: str, ids: list):
    for seed, base in enumerate(([], [0.1, 0.2, 0.05])):
        given = {"base_values": base} if base else {}
        assert_as_onnxruntime(
            snapshot, "TreeEnsembleClassifier", X, ("label", "y"), post_transform=transform,
            classlabels_int64s=[4, 2, 7], **forest(seed, "class", ids, -0.1), **given,
        )  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("ids", [[[0]], [[1]], [[0, 1]]], ids=str)
@pytest.mark.parametrize("lowest", [0.0, -0.3])
def test_a_tree_classifier_of_two_classes(
    snapshot: Snapshots, transform: str, ids: list, lowest: float
):
    for seed, base in enumerate(([], [0.1], [0.1, 0.2])):
        if transform == "PROBIT" and ids == [[0]] and len(base) < 2:
            continue  # refused
        given = {"base_values": base} if base else {}
        assert_as_onnxruntime(
            snapshot, "TreeEnsembleClassifier", X, ("label", "y"), post_transform=transform,
            classlabels_strings=["no", "yes"], **forest(seed, "class", ids, lowest), **given,
        )  # fmt: skip


def test_a_tree_classifier_of_doubles_and_of_integers(snapshot: Snapshots):
    for dtype in (np.float64, np.int64, np.int32):
        x = FINITE.astype(dtype)
        attributes = forest(7, "class", [[0, 1, 2]])
        if dtype is np.float64:
            for name in ("nodes_values", "class_weights"):
                values = np.array(attributes.pop(name), np.float64)
                attributes[f"{name}_as_tensor"] = numpy_helper.from_array(values)
        assert_as_onnxruntime(
            snapshot, "TreeEnsembleClassifier", x, ("label", "y"), classlabels_int64s=[1, 2, 3],
            **attributes,
        )  # fmt: skip


def test_a_classifier_is_compiled_and_checked():
    attributes = forest(3, "class", [[0, 1, 2]])
    proto = model_of(
        "TreeEnsembleClassifier", X, ("label", "y"), classlabels_strings=["a", "b", "cc"],
        **attributes,
    )  # fmt: skip
    compilation = ex.compile(from_proto(proto), dimensions={"N": 6})
    assert compilation.accuracy({"x": X}).passed
    compilation.close()


# -- what stands beside them -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_normalizer(snapshot: Snapshots, norm: str, dtype: type):
    x = FINITE.astype(dtype)
    assert_as_onnxruntime(snapshot, "Normalizer", x, ("y",), norm=norm)
    assert_as_onnxruntime(snapshot, "Normalizer", x[1], ("y",), norm=norm)


def test_an_imputer(snapshot: Snapshots):
    assert_as_onnxruntime(
        snapshot, "Imputer", X, ("y",),
        imputed_value_floats=[9.0, 8.0, 7.0], replaced_value_float=float("nan"),
    )  # fmt: skip
    assert_as_onnxruntime(
        snapshot, "Imputer", FINITE, ("y",), imputed_value_floats=[0.5], replaced_value_float=2.0
    )


def test_a_classifier_with_maps_from_labels_as_scikit_learn_exports_it():
    """LinearClassifier, Normalizer, ZipMap: compiled, and given back as maps."""
    nodes = [
        helper.make_node(
            "LinearClassifier", ["x"], ["label", "raw"], domain=DOMAIN, post_transform="LOGISTIC",
            coefficients=[0.1, -0.05, 0.02, -0.03, 0.04, 0.05, 0.01, 0.02, 0.2],
            intercepts=[0.5, 0.6, 0.4], classlabels_strings=["a", "b", "c"],
        ),
        helper.make_node("Normalizer", ["raw"], ["shares"], domain=DOMAIN, norm="L1"),
        helper.make_node(
            "ZipMap", ["shares"], ["maps"], domain=DOMAIN, classlabels_strings=["a", "b", "c"]
        ),
    ]  # fmt: skip
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])]
    label = helper.make_tensor_value_info("label", onnx.TensorProto.STRING, ["N"])
    map_type = helper.make_map_type_proto(
        onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(map_type))
    graph = helper.make_graph(nodes, "pipeline", infos, [label, maps])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    labels, rows = session.run(None, {"x": FINITE})
    compilation = ex.compile(from_proto(proto), inputs={"x": FINITE})
    found = ex.host_values(compilation.model, compilation.run({"x": FINITE}))

    assert found["label"].tolist() == labels.tolist()
    for mine, theirs in zip(found["maps"], rows, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5)
    compilation.close()


# -- refusals --------------------------------------------------------------------------------------


def refusal(operator: str, **attributes: Any) -> str:
    outputs = ("label", "y") if operator.endswith("Classifier") else ("y",)
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        ex.compile(from_proto(model_of(operator, X, outputs, **attributes)), dimensions={"N": 6})
    return str(caught.value)


def test_what_runtimes_do_not_agree_on_is_refused():
    two = {"classlabels_int64s": [0, 1]}
    assert "some leaves name only one" in refusal(
        "TreeEnsembleClassifier", **forest(0, "class", [[0], [1]]), **two
    )
    assert "PROBIT of one score" in refusal(
        "TreeEnsembleClassifier", **forest(0, "class", [[0]]), **two, post_transform="PROBIT"
    )
    assert "a single class" in refusal(
        "TreeEnsembleClassifier", **forest(0, "class", [[0]]), classlabels_int64s=[1]
    )


def test_damage_is_named():
    good = forest(0, "target", [[0]])
    assert "post_transform 'LOG'" in refusal("TreeEnsembleRegressor", **good, post_transform="LOG")
    assert "a weight is for none of 1" in refusal(
        "TreeEnsembleRegressor", **{**good, "target_ids": [3] * len(good["target_ids"])}
    )
    assert "this machine has" in refusal("TreeEnsembleRegressor", **good, n_targets=10**12)
    assert "has no node 99" in refusal(
        "TreeEnsembleRegressor", **{**good, "nodes_truenodeids": [99] * len(good["nodes_modes"])}
    )
    assert "do not have the same length" in refusal(
        "TreeEnsembleRegressor", **{**good, "nodes_values": [1.0]}
    )
    assert "nodes of mode BRANCH_MEMBER" in refusal(
        "TreeEnsembleRegressor",
        **{**good, "nodes_modes": ["BRANCH_MEMBER"] * len(good["nodes_modes"])},
    )
    assert "0 coefficients for 1 columns" in refusal("LinearRegressor", intercepts=[1.0])
    assert "2 labels for 3 scores" in refusal(
        "LinearClassifier", coefficients=[1.0] * 9, intercepts=[0.0] * 3, classlabels_ints=[1, 2]
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_score_that_is_no_number_wins_only_as_the_first(snapshot: Snapshots, place: int):
    """Infinity times 0 is NaN: of the class `place` alone, and of all where x holds NaN."""
    coefficients = np.ones((3, 2), np.float32)
    coefficients[place, 0] = 0
    x = np.array([[np.inf, 1], [-np.inf, 1], [np.nan, 1], [2, 1]], np.float32)
    assert_as_onnxruntime(
        snapshot, "LinearClassifier", x, ("label", "y"),
        coefficients=coefficients.ravel().tolist(),
        intercepts=[0.5, 0.0, 0.25], classlabels_ints=[4, 5, 6], post_transform="NONE",
    )  # fmt: skip


def test_doubles_are_scaled_in_double_precision(snapshot: Snapshots):
    x = np.array([[1e300, 3.0], [-1e39, 1e-300]])
    assert_as_onnxruntime(snapshot, "Scaler", x, ("y",), offset=[0.5, -1.0], scale=[0.0, 1e-30])
