"""The sample models are what their names and `accuracies.json` say they are."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

FOLDER = Path(__file__).parent.parent / "sample_models"
ACCURACIES = json.loads((FOLDER / "accuracies.json").read_text())
LARGEST_TOTAL_BYTES = 3_000_000

LOWEST_ACCURACY = {
    "digits_mlp": 0.95,
    "digits_cnn": 0.97,
    "digits_resnet": 0.97,
    "digits_mobilenet": 0.97,
    "digits_transformer": 0.95,
}
EVERY_MODEL = pytest.mark.parametrize("name", LOWEST_ACCURACY)
FIXED_BATCH_MODEL = pytest.mark.parametrize(
    "name", [name for name in LOWEST_ACCURACY if name != "digits_mlp"]
)

OPERATORS = {
    "digits_mlp": "Flatten Gemm Relu",
    "digits_cnn": "Conv BatchNormalization Relu MaxPool Identity Flatten Gemm Dropout",
    "digits_resnet": "Conv BatchNormalization Relu Add GlobalAveragePool Flatten Gemm",
    "digits_mobilenet": (
        "Conv BatchNormalization HardSwish HardSigmoid GlobalAveragePool Relu Mul Add Flatten Gemm"
    ),
    "digits_transformer": (
        "Reshape Transpose MatMul Add Div Mul Softmax Erf LayerNormalization ReduceMean Gemm"
    ),
}


def load_model(name: str) -> onnx.ModelProto:
    return onnx.load(FOLDER / f"{name}.onnx")


def load_test_part() -> tuple[np.ndarray, np.ndarray]:
    with np.load(FOLDER / "digits_test.npz") as arrays:
        return arrays["images"], arrays["labels"]


def run(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(["logits"], {"image": images})[0])


def run_one_by_one(name: str, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        FOLDER / f"{name}.onnx", providers=["CPUExecutionProvider"]
    )
    outputs = [session.run(["logits"], {"image": image[np.newaxis]}) for image in images]
    return np.concatenate([np.asarray(logits) for (logits,) in outputs])


def convolution_weights(model: onnx.ModelProto) -> list[tuple[int, ...]]:
    """Shapes of the convolutions' weights: outputs, inputs per group, rows, columns."""
    shapes = {weight.name: tuple(weight.dims) for weight in model.graph.initializer}
    return [shapes[node.input[1]] for node in model.graph.node if node.op_type == "Conv"]


def test_test_images_are_held_out_digits_scaled_to_one() -> None:
    images, labels = load_test_part()
    assert images.shape == (360, 1, 8, 8) and images.dtype == np.float32
    assert labels.shape == (360,) and labels.dtype == np.int64
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert set(labels.tolist()) == set(range(10))


@EVERY_MODEL
def test_accuracy_is_the_one_recorded(name: str) -> None:
    images, labels = load_test_part()
    right = int(np.sum(run_one_by_one(name, images).argmax(axis=1) == labels))
    record = ACCURACIES[name]
    assert record["test_samples"] == len(labels)
    assert right == round(record["accuracy"] * len(labels))
    assert record["accuracy"] >= LOWEST_ACCURACY[name]


@EVERY_MODEL
def test_recorded_bytes_are_the_size_of_the_file(name: str) -> None:
    assert ACCURACIES[name]["bytes"] == (FOLDER / f"{name}.onnx").stat().st_size


def test_every_model_is_recorded_and_no_other() -> None:
    files = {path.stem for path in FOLDER.glob("*.onnx")}
    assert files == set(ACCURACIES) == set(LOWEST_ACCURACY)


def test_models_and_test_images_stay_small_together() -> None:
    paths = [*FOLDER.glob("*.onnx"), *FOLDER.glob("*.npz")]
    assert sum(path.stat().st_size for path in paths) < LARGEST_TOTAL_BYTES


@EVERY_MODEL
def test_model_has_exactly_the_operators_it_is_named_for(name: str) -> None:
    assert {node.op_type for node in load_model(name).graph.node} == set(OPERATORS[name].split())


@EVERY_MODEL
def test_model_is_valid_onnx_of_opset_17(name: str) -> None:
    model = load_model(name)
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]


@EVERY_MODEL
def test_every_node_has_a_name_of_its_own(name: str) -> None:
    names = [node.name for node in load_model(name).graph.node]
    assert all(node_name.startswith("/") for node_name in names)
    assert len(set(names)) == len(names)


@EVERY_MODEL
def test_every_intermediate_value_has_a_known_shape(name: str) -> None:
    graph = load_model(name).graph
    shapes = {value.name: value.type.tensor_type.shape for value in graph.value_info}
    intermediate = {output for node in graph.node for output in node.output} - {"logits"}
    assert set(shapes) == intermediate
    for shape in shapes.values():
        assert all(dimension.dim_value or dimension.dim_param for dimension in shape.dim)


@FIXED_BATCH_MODEL
def test_every_dimension_is_a_number(name: str) -> None:
    graph = load_model(name).graph
    for value in [*graph.input, *graph.value_info, *graph.output]:
        assert all(dimension.dim_value > 0 for dimension in value.type.tensor_type.shape.dim)


def test_mlp_takes_a_batch_of_any_size() -> None:
    graph = load_model("digits_mlp").graph
    for value in [*graph.input, *graph.value_info, *graph.output]:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    images, _ = load_test_part()
    # A batch multiplies in another order than single images do; logits are of the order of 10.
    together = run(load_model("digits_mlp"), images[:7])
    one_by_one = run_one_by_one("digits_mlp", images[:7])
    np.testing.assert_allclose(together, one_by_one, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["digits_cnn", "digits_resnet", "digits_mobilenet"])
def test_batch_normalizations_are_not_folded(name: str) -> None:
    nodes = load_model(name).graph.node
    producers = {output: node.op_type for node in nodes for output in node.output}
    normalized = [node.input[0] for node in nodes if node.op_type == "BatchNormalization"]
    assert normalized and all(producers[value] == "Conv" for value in normalized)


@pytest.mark.parametrize("operator", ["Identity", "Dropout"])
def test_cnn_has_a_node_that_does_nothing_at_inference(operator: str) -> None:
    image = load_test_part()[0][:1]
    model = load_model("digits_cnn")
    expected = run(model, image)
    (idle,) = [node for node in model.graph.node if node.op_type == operator]
    for node in model.graph.node:
        node.input[:] = [
            idle.input[0] if value == idle.output[0] else value for value in node.input
        ]
    model.graph.node.remove(idle)
    # The same operations remain, in the same order: not a bit may differ.
    np.testing.assert_array_equal(run(model, image), expected)


def test_cnn_channels_are_multiples_of_16() -> None:
    outputs = [shape[0] for shape in convolution_weights(load_model("digits_cnn"))]
    assert outputs == [16, 32, 48]


def test_mobilenet_has_depthwise_convolutions_whose_channels_need_padding_to_16() -> None:
    depthwise = [
        shape
        for shape in convolution_weights(load_model("digits_mobilenet"))
        if shape[1:] == (1, 3, 3) and shape[0] != 16  # 16 is the stem's
    ]
    assert depthwise == [(40, 1, 3, 3), (72, 1, 3, 3), (72, 1, 3, 3), (120, 1, 3, 3)]
    assert all(outputs % 16 != 0 for outputs, *_ in depthwise)


def test_resnet_adds_a_shortcut_in_every_block() -> None:
    names = [node.name for node in load_model("digits_resnet").graph.node if node.op_type == "Add"]
    assert names == [
        "/stage1/block0/add",
        "/stage2/block0/add",
        "/stage2/block1/add",
        "/stage3/block0/add",
    ]
