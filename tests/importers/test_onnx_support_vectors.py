"""Support vector machines and one-hot features of `ai.onnx.ml` against onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import explorer as ex
from explorer.errors import ModelError, UnsupportedError
from explorer.importers import program_inputs
from explorer.importers.onnx import from_proto
from tests.importers.test_onnx_classical import (
    DOMAIN,
    FINITE,
    TRANSFORMS,
    Snapshots,
    assert_as_onnxruntime,
    model_of,
)

KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.3, 0.7, 3.0],
    "RBF": [0.4, 0.0, 0.0],
    "SIGMOID": [0.2, -0.3, 0.0],
}
DRAW = np.random.default_rng(3)
ROWS = np.concatenate([FINITE, DRAW.normal(size=(12, 3)).astype(np.float32)])


def drawn(seed: int, count: int, scale: float = 1.0) -> list[float]:
    return (scale * np.random.default_rng(seed).normal(size=count)).astype(np.float32).tolist()


def machine(classes: int, kernel: str = "RBF", has_shares: bool = False) -> dict[str, Any]:
    """The attributes of a classifier with two or three vectors for each class."""
    per_class = [2 + index % 2 for index in range(classes)]
    count, pairs = sum(per_class), classes * (classes - 1) // 2
    shares = {"prob_a": drawn(4, pairs), "prob_b": drawn(5, pairs, 0.3)} if has_shares else {}
    return {
        "coefficients": drawn(1, (classes - 1) * count),
        "support_vectors": drawn(2, 3 * count),
        "vectors_per_class": per_class,
        "rho": drawn(3, pairs, 0.3),
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        **shares,
    }


@pytest.mark.parametrize(
    ("kernel", "degree"), [*((kernel, 3.0) for kernel in KERNELS), ("POLY", 2.0), ("POLY", 4.0)]
)
def test_a_regressor(snapshot: Snapshots, kernel: str, degree: float):
    params = [*KERNELS[kernel][:2], degree]
    for one_class in (0, 1):
        assert_as_onnxruntime(
            snapshot, "SVMRegressor", ROWS, ("y",), coefficients=drawn(1, 4), n_supports=4,
            support_vectors=drawn(2, 12), rho=[0.25], kernel_type=kernel, kernel_params=params,
            one_class=one_class, post_transform="LOGISTIC",
        )  # fmt: skip


def test_a_regressor_without_vectors(snapshot: Snapshots):
    assert_as_onnxruntime(
        snapshot, "SVMRegressor", ROWS, ("y",), coefficients=[0.5, -0.25, 2.0], n_supports=0,
        rho=[-0.5], kernel_type="RBF", kernel_params=KERNELS["RBF"],
    )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("transform", "classes"),
    # Of PROBIT of two classes onnxruntime leaves a score unwritten.
    [pair for pair in product(TRANSFORMS, (2, 3, 5)) if pair != ("PROBIT", 2)],
)
def test_pairs_of_classes_have_scores(snapshot: Snapshots, transform: str, classes: int):
    labels = [[7, 3, 9, 1, 5][:classes], ["a", "b", "", "d", "e"][:classes]]
    for name, given in zip(("classlabels_ints", "classlabels_strings"), labels, strict=True):
        assert_as_onnxruntime(
            snapshot, "SVMClassifier", ROWS, ("label", "y"), post_transform=transform,
            **machine(classes), **{name: given},
        )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_classes_have_probabilities(snapshot: Snapshots, kernel: str, classes: int):
    assert_as_onnxruntime(
        snapshot, "SVMClassifier", ROWS, ("label", "y"),
        classlabels_ints=list(range(10, 10 + classes)), **machine(classes, kernel, True),
    )  # fmt: skip


def test_probabilities_are_transformed(snapshot: Snapshots):
    assert_as_onnxruntime(
        snapshot, "SVMClassifier", ROWS, ("label", "y"), post_transform="SOFTMAX",
        classlabels_ints=[0, 1, 2], **machine(3, "RBF", True),
    )  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("is_positive", [False, True])
def test_a_classifier_without_vectors(
    snapshot: Snapshots, transform: str, classes: int, is_positive: bool
):
    coefficients = drawn(1, 3 * classes)
    if is_positive:
        coefficients = np.abs(coefficients).tolist()
    x = FINITE if transform != "PROBIT" else np.clip(FINITE, 0, 0.1)
    assert_as_onnxruntime(
        snapshot, "SVMClassifier", x, ("label", "y"), coefficients=coefficients, rho=[0.125],
        post_transform=transform, classlabels_ints=[4, 8, 6][:classes],
        kernel_params=[0.0, 0.0, 0.0],
    )  # fmt: skip


def test_the_later_class_wins_where_a_score_is_zero(snapshot: Snapshots):
    x = np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 0]], np.float32)
    assert_as_onnxruntime(
        snapshot, "SVMClassifier", x, ("label", "y"), coefficients=[1.0, -1.0],
        support_vectors=[1.0, 0, 0, -1, 0, 0], vectors_per_class=[1, 1], rho=[0.0],
        kernel_type="RBF", kernel_params=[0.5, 0, 0], classlabels_ints=[3, 4],
    )  # fmt: skip


def test_a_vector_is_one_row_and_there_may_be_no_rows(snapshot: Snapshots):
    proto = model_of("SVMClassifier", ROWS, ("label", "y"), classlabels_ints=[1, 2], **machine(2))
    found = ex.interpret(from_proto(proto), {"x": ROWS[:0]})
    assert [array.shape for array in found.values()] == [(0,), (0, 2)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kernel_type": "CUBIC"}, "kernel_type"),
        ({"rho": []}, "rho"),
        ({"coefficients": [1.0]}, "coefficients"),
        ({"vectors_per_class": [5]}, "labels"),
        ({"support_vectors": [1.0] * 7}, "vectors"),
        ({"post_transform": "PROBIT"}, "PROBIT"),
    ],
)
def test_what_does_not_fit_is_refused(snapshot: Snapshots, changes: dict, problem: str):
    given = {**machine(2), **changes}
    given = {name: value for name, value in given.items() if value != []}
    proto = model_of("SVMClassifier", ROWS, ("label", "y"), classlabels_ints=[1, 2], **given)
    with pytest.raises((ModelError, UnsupportedError), match=problem):
        snapshot(from_proto(proto))


@pytest.mark.parametrize(
    ("x", "categories"),
    [
        (np.array([[1, 7], [3, -2]], np.int64), [7, 3, -2]),
        (np.array([2**53 + 1, 5], np.int64), [2**53, 2**53 + 1]),
        (np.array([1.9, -1.9, -0.0, 3.5], np.float32), [1, -1, 0]),
        (np.array([2.0, 2.0], np.float64), [2, 5, 2]),
        (np.array([["a", ""], ["bc", "zz"]]), ["bc", "", "a"]),
        (np.array(["a", "b"]), ["a", "b", "a"]),
    ],
)
@pytest.mark.parametrize("zeros", [0, 1])
def test_categories_become_columns(x: np.ndarray, categories: list, zeros: int):
    is_text = x.dtype.kind == "U"
    name = "cats_strings" if is_text else "cats_int64s"
    node = helper.make_node(
        "OneHotEncoder", ["x"], ["y"], domain=DOMAIN, zeros=zeros, **{name: categories}
    )
    kind = onnx.TensorProto.STRING if is_text else helper.np_dtype_to_tensor_dtype(x.dtype)
    infos = [helper.make_tensor_value_info("x", kind, x.shape)]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([node], "one", infos, results)
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    given = x.astype(object) if is_text else x
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = from_proto(proto)
    (found,) = ex.interpret(model, program_inputs(model, {"x": given}, {})).values()
    if zeros == 0 and not found.sum(-1).all():
        with pytest.raises(Exception, match="Unknown Category"):
            session.run(None, {"x": given})
    else:
        np.testing.assert_array_equal(found, session.run(None, {"x": given})[0])


def test_probabilities_are_the_same_as_generated_code():
    proto = model_of("SVMClassifier", ROWS, ("label", "y"), classlabels_ints=[1, 2, 3],
                     **machine(3, "RBF", True))  # fmt: skip
    model = from_proto(proto)
    expected = ex.interpret(model, {"x": ROWS})
    found = ex.compile(model, dimensions={"N": len(ROWS)}).run({"x": ROWS})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
