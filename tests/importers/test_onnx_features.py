"""Features and categories of `ai.onnx.ml` against onnxruntime, with strings and other sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import explorer as ex
from explorer.errors import ModelError
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.string_inputs import program_inputs
from explorer.ir.evaluation import outputs_by_name

DOMAIN = "ai.onnx.ml"
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
MORE = np.arange(10, 14, dtype=np.float32).reshape(2, 2)
CATEGORIES = {"cats_int64s": [1, 2, 2, -5], "cats_strings": ["a", "bee", "c", "a"]}


CLASSES = {"classes_strings": ["a", "bee", "c", "a"]}


def model_of(operator: str, arrays: list[np.ndarray], version: int = 3, **attributes: Any):
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    node = helper.make_node(operator, [*inputs], ["y"], domain=DOMAIN, **attributes)
    infos = [
        helper.make_tensor_value_info(
            name,
            onnx.TensorProto.STRING
            if a.dtype.kind in "UO"
            else helper.np_dtype_to_tensor_dtype(a.dtype),
            a.shape,
        )
        for name, a in inputs.items()
    ]
    output = onnx.ValueInfoProto(name="y")
    if operator != "FeatureVectorizer" and arrays[0].dtype.kind == "i":
        output = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, None)
    graph = helper.make_graph([node], "one", infos, [output])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs


def assert_as_onnxruntime(snapshot, operator: str, arrays: list[np.ndarray], **attributes: Any):
    proto, inputs = model_of(operator, arrays, **attributes)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    model = from_proto(proto)
    longest = {f"{n}.places": 4 for n, a in inputs.items() if a.dtype.kind == "U"}
    made = snapshot(model, longest)
    given = program_inputs({i.name for i in model.inputs}, inputs)
    found = ex.host_values(model, outputs_by_name(made.module, made.run(given)))["y"]
    assert np.shape(found) == expected.shape
    assert np.array(found).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("sizes", [[3, 2], [2, 2], [4, 3], [1, 7]])
def test_features_are_cut_and_filled_up(snapshot, sizes, dtype):
    arrays = [ROWS.astype(dtype), MORE.astype(dtype)]
    assert_as_onnxruntime(snapshot, "FeatureVectorizer", arrays, inputdimensions=sizes)


def test_vectors_are_rows_and_inner_axes_columns(snapshot):
    assert_as_onnxruntime(snapshot, "FeatureVectorizer", [ROWS[0], MORE[0]], inputdimensions=[3, 2])
    images = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    for size in (3, 8, 9):
        assert_as_onnxruntime(snapshot, "FeatureVectorizer", [images], inputdimensions=[size])


def test_features_without_their_sizes_are_refused(snapshot):
    proto, _ = model_of("FeatureVectorizer", [ROWS, MORE], inputdimensions=[3])
    with pytest.raises(ModelError, match="1 sizes for 2 operands"):
        snapshot(from_proto(proto))


@pytest.mark.parametrize("default", [{}, {"default_string": "other"}])
@pytest.mark.parametrize("numbers", [[[1, 2], [3, -5]], [2**62, -(2**63), 1, 0], []])
def test_numbers_become_categories(snapshot, numbers, default):
    array = np.array(numbers, np.int64)
    assert_as_onnxruntime(snapshot, "CategoryMapper", [array], **CATEGORIES, **default)


@pytest.mark.parametrize("default", [{}, {"default_int64": 2**62 + 1}])
def test_categories_become_numbers(snapshot, default):
    texts = np.array([["a", "bee", "c"], ["", "be", "beee"]], np.str_)
    assert_as_onnxruntime(snapshot, "CategoryMapper", [texts], **CATEGORIES, **default)


@pytest.mark.parametrize("x", [np.array([3, 0, 1, 2, 4, -1]), np.array([["c", "a"], ["", "bee"]])])
def test_the_first_label_encoder_counts_its_classes(snapshot, x):
    assert_as_onnxruntime(snapshot, "LabelEncoder", [x], version=1, **CLASSES)
    default = {"default_string": "none", "default_int64": 9}
    assert_as_onnxruntime(snapshot, "LabelEncoder", [x], version=1, **CLASSES, **default)


def test_categories_without_numbers_are_refused(snapshot):
    changed = CATEGORIES | {"cats_int64s": [1]}
    proto, _ = model_of("CategoryMapper", [np.array([1])], **changed)
    with pytest.raises(ModelError, match="as many numbers as strings"):
        snapshot(from_proto(proto))
