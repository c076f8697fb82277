"""Reading TFLite files: what is shown, how tensors are called, and what damage is said to be."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.importers.format import format_of
from explorer.importers.tflite.file.contents import TfliteContent
from explorer.importers.tflite.file.reading import read
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator

KERNEL = np.arange(2 * 3 * 3 * 4, dtype=np.float32).reshape(2, 3, 3, 4)


def convolution() -> bytes:
    return one_operator(
        "CONV_2D",
        [
            TensorOf(name="x", shape=(1, 8, 8, 4)),
            TensorOf(name="w", shape=KERNEL.shape, data=KERNEL),
        ],
        [TensorOf(name="y", shape=(1, 8, 8, 2))],
        "Conv2DOptions",
        {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1},
    )


def opened(content: bytes) -> TfliteContent:
    found = read(memoryview(content), "net").content
    assert isinstance(found, TfliteContent)
    return found


def test_the_model_is_what_the_file_says(tmp_path: Path):
    path = tmp_path / "net.tflite"
    path.write_bytes(convolution())
    model = ex.load(path)

    assert (model.format, model.opset, model.producer) == ("tflite", "schema 3", "a test")
    assert [(v.name, v.element_type, v.shape) for v in model.inputs] == [
        ("x", "float32", (1, 8, 8, 4))
    ]
    assert model.parameters == KERNEL.size
    (node,) = model.nodes
    assert (node.name, node.operator) == ("CONV_2D_0", "CONV_2D")
    assert node.text.startswith("y = CONV_2D(x, w) {padding = SAME, ")
    assert "fused_activation_function = RELU" in node.text


def test_weights_are_views_of_the_file():
    content = memoryview(convolution())
    weights = read(content, "net").constants["w"]

    np.testing.assert_array_equal(weights, KERNEL)
    assert np.shares_memory(weights, np.frombuffer(content, np.uint8))


def test_sizes_that_the_signature_leaves_open_have_names():
    def shape_of_input(shape: tuple[int, ...], signature: tuple[int, ...]):
        tensors = [TensorOf(name="x", shape=shape, signature=signature)]
        made = one_operator("ABS", tensors, [TensorOf(name="y", shape=shape)])
        return read(memoryview(made), "net").inputs[0].shape

    assert shape_of_input((1, 8, 1), (-1, 8, -1)) == ("x.0", 8, "x.2")
    assert shape_of_input((1, 8), (1, 9)) == (1, 8)
    assert shape_of_input((1, 8), (-1,)) == (1, 8)


def test_tensors_without_a_name_of_their_own_get_one():
    names = ["", "x", "x"]
    content = model_of(
        [TensorOf(name=name, shape=(4,)) for name in names],
        [OperatorOf(kind="ADD", inputs=[0, 1], outputs=[2], options="AddOptions")],
        [0, 1],
        [2],
    )

    assert [t.name for t in opened(content).main.tensors] == ["t0", "x", "x#2"]


def test_a_file_is_known_by_its_mark_whatever_its_name(tmp_path: Path):
    path = tmp_path / "net.bin"
    path.write_bytes(convolution())

    assert format_of(path).name == "tflite"


def test_what_lies_behind_the_model_is_left_alone():
    assert opened(convolution() + b"PK\x03\x04 labels").main.operators[0].kind == "CONV_2D"


def test_operators_that_are_not_known_are_shown_and_named(tmp_path: Path):
    path = tmp_path / "net.tflite"
    tensors = [TensorOf(name="x", shape=(4,)), TensorOf(name="y", shape=(4,))]
    path.write_bytes(one_operator("custom.Strange", tensors[:1], tensors[1:]))
    model = ex.load(path)

    assert model.nodes[0].operator == "custom.Strange"
    with pytest.raises(UnsupportedError, match="unknown operator"):
        ex.compile(path)
    assert "custom.Strange" in ex.inspect(model)._repr_html_()


def test_four_bits_are_unpacked():
    packed = np.array([0x81, 0x7F], np.uint8)
    content = one_operator(
        "DEQUANTIZE",
        [TensorOf(name="w", shape=(3,), element_type="int4", data=packed)],
        [TensorOf(name="y", shape=(3,))],
    )
    weights = read(memoryview(content), "net").constants["w"]

    assert weights.astype(int).tolist() == [1, -8, -1]


# -- damage ----------------------------------------------------------------------------------------


def test_every_cut_is_one_message(tmp_path: Path):
    content, path = convolution(), tmp_path / "cut.tflite"
    for size in range(0, len(content), 13):
        path.write_bytes(content[:size])
        with suppress(ModelError):  # anything else is a failure
            ex.load(path)


@pytest.mark.parametrize("seed", range(4))
def test_no_damaged_byte_is_more_than_a_message(seed: int, tmp_path: Path):
    generator = np.random.default_rng(seed)
    whole, path = np.frombuffer(convolution(), np.uint8), tmp_path / "damaged.tflite"
    for _ in range(100):
        damaged = whole.copy()
        places = generator.integers(8, len(damaged), generator.integers(1, 5))
        damaged[places] = generator.integers(0, 256, len(places))
        path.write_bytes(damaged.tobytes())
        with suppress(ExplorerError):  # anything else is a failure
            ex.inspect(ex.load(path))


def test_vectors_longer_than_the_file_are_refused():
    content = bytearray(convolution())
    place = content.index(np.array([1, 8, 8, 4], np.int32).tobytes())
    content[place - 4 : place] = (2**32 - 1).to_bytes(4, "little")

    with pytest.raises(ValueError, match="4,294,967,295 elements"):
        opened(bytes(content))


def test_another_version_of_the_schema_is_refused():
    content = model_of([], [], [], [], version=2)
    with pytest.raises(ModelError, match="its schema has version 2; 3 can be read"):
        opened(content)


def test_a_file_without_the_mark_is_refused():
    with pytest.raises(ModelError, match="no TFLite model"):
        opened(b"\0" * 64)


def test_a_constant_of_another_size_than_its_shape_is_refused():
    content = one_operator(
        "ABS",
        [TensorOf(name="w", shape=(5,), data=np.zeros(4, np.float32))],
        [TensorOf(name="y", shape=(5,))],
    )
    with pytest.raises(ModelError, match="takes 20 bytes, and has 16"):
        opened(content)


def test_an_operand_that_is_no_tensor_is_refused():
    tensors = [TensorOf(name="x", shape=(4,)), TensorOf(name="y", shape=(4,))]
    node = OperatorOf(kind="ABS", inputs=[7], outputs=[1])
    with pytest.raises(ValueError, match="ABS asks for tensor 7 of 2"):
        opened(model_of(tensors, [node], [0], [1]))


@pytest.mark.parametrize("scale", [-1.0, float("nan")])
def test_a_scale_that_is_none_is_refused(scale: float):
    tensors = [
        TensorOf(name="x", shape=(4,), element_type="int8", scales=[scale]),
        TensorOf(name="y", shape=(4,), element_type="int8", scales=[1.0]),
    ]
    with pytest.raises(ModelError, match="a scale that is no scale"):
        opened(one_operator("RELU", tensors[:1], tensors[1:]))


@pytest.mark.parametrize("place", [0, 1])
def test_an_infinite_scale_is_refused_by_what_reads_it(place: int):
    scales = [1.0, 1.0]
    scales[place] = float("inf")
    x, y = (
        TensorOf(name=name, shape=(4,), element_type="int8", scales=[scale])
        for name, scale in zip("xy", scales, strict=True)
    )
    model = read(memoryview(one_operator("RELU", [x], [y])), "one")
    with pytest.raises(UnsupportedError, match="not positive, finite"):
        ex.interpret(model, {"x": np.zeros(4, np.int8)})


def test_infinite_scales_that_nothing_reads_are_left_alone():
    infinite = [float("inf")]
    tensors = [
        TensorOf(name="x", shape=(2, 3), element_type="int8", scales=infinite),
        TensorOf(name="turned", shape=(3, 2), element_type="int8", scales=infinite),
        TensorOf(
            name="axes", shape=(2,), element_type="int32", scales=infinite,
            data=np.array([1, 0], np.int32),
        ),
        TensorOf(name="y", shape=(6,), element_type="int8", scales=infinite),
        TensorOf(name="unused", shape=(4,), element_type="int8", scales=infinite),
    ]  # fmt: skip
    nodes = [
        OperatorOf(kind="TRANSPOSE", inputs=[0, 2], outputs=[1]),
        OperatorOf(kind="RESHAPE", inputs=[1], outputs=[3], options="ReshapeOptions",
                   values={"NewShape": np.array([6], np.int32)}),
    ]  # fmt: skip
    model = read(memoryview(model_of(tensors, nodes, [0], [3])), "moves")
    x = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(ex.interpret(model, {"x": x})["y"], x.T.reshape(-1))


def test_importing_the_explorer_loads_neither_schema_nor_judge():
    program = (
        "import sys, explorer; import explorer.importers; "
        "assert not {'tflite', 'ai_edge_litert'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["net.tflite", "net.onnx"])
def test_a_mark_without_a_model_behind_it_is_a_cut_file(name: str, tmp_path: Path):
    (tmp_path / name).write_bytes(b"\x1c\x00\x00\x00TFL3")
    with pytest.raises(ModelError, match="points outside of its 8 bytes"):
        ex.load(tmp_path / name)
