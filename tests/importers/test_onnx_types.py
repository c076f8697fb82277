"""Element types of ONNX: weights as files hold them, quantization with every type and in blocks."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from explorer.errors import ModelError
from explorer.importers.onnx import from_proto
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.types import numpy_dtype, widened

NARROW = {
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int2": TensorProto.INT2,
    "uint2": TensorProto.UINT2,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "bfloat16": TensorProto.BFLOAT16,
    "float16": TensorProto.FLOAT16,
}


def dtype_named(name: str) -> np.dtype:
    return np.dtype(name) if name == "float16" else np.dtype(getattr(ml_dtypes, name))


def small_numbers(name: str, *shape: int) -> np.ndarray:
    low = 0 if name.startswith("u") else -2
    high = 1 if name == "int2" else 3
    return np.random.default_rng(3).integers(low, high + 1, shape).astype(dtype_named(name))


def run_imported(model: onnx.ModelProto, inputs: Mapping, snapshot: Callable) -> list[np.ndarray]:
    imported = snapshot(from_proto(model))
    outputs = outputs_by_name(imported.module, imported.run(inputs))
    return [outputs[o.name] for o in model.graph.output]


def one_node(
    node: onnx.NodeProto,
    inputs: Mapping[str, np.ndarray],
    opset: int,
    results: Sequence[int | None] = (None,),
) -> onnx.ModelProto:
    """A model of one node; `results`: element types of its outputs."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    outputs = [
        onnx.ValueInfoProto(name=name)
        if kind is None
        else helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(node.output, results, strict=False)
    ]
    graph = helper.make_graph([node], "one", infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("name", NARROW)
def test_a_weight_is_read_as_it_was_written(name: str, is_raw: bool) -> None:
    array = small_numbers(name, 3, 5)
    if is_raw:
        tensor = numpy_helper.from_array(array, "w")
        assert tensor.HasField("raw_data")
    else:
        tensor = helper.make_tensor("w", NARROW[name], array.shape, widened(array).reshape(-1))
        assert not tensor.HasField("raw_data")
    found = read_tensor(tensor, None)
    assert found.dtype == array.dtype and not found.flags.writeable
    np.testing.assert_array_equal(widened(found), widened(array))


def test_packed_weights_may_lie_in_another_file(tmp_path: Path) -> None:
    array = small_numbers("int4", 3, 3)
    tensor = numpy_helper.from_array(array, "w")
    (tmp_path / "w.bin").write_bytes(b"\0\0" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "2"), ("length", "5")):
        tensor.external_data.add(key=key, value=value)
    np.testing.assert_array_equal(widened(read_tensor(tensor, tmp_path)), widened(array))


def test_packed_weights_of_a_wrong_length_are_refused() -> None:
    tensor = numpy_helper.from_array(small_numbers("uint4", 3, 3), "w")
    tensor.raw_data = tensor.raw_data[:-1]
    with pytest.raises(ModelError, match="5 bytes, but holds 4"):
        read_tensor(tensor, None)


@pytest.mark.parametrize("scale_type", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["int8", "uint8", "int16", "uint16", *(n for n in NARROW if "16" not in n)]
)
def test_quantizing_and_back_with_every_type(name, scale_type, snapshot) -> None:
    dtype = np.dtype(name) if "4" not in name and name[-1] in "68" else dtype_named(name)
    wide = np.random.default_rng(1).uniform(-9, 9, (4, 6)).astype(np.float32)
    x = wide.astype(dtype_named(scale_type) if scale_type != "float32" else np.float32)
    scale = np.array([0.5, 0.25, 2.0, 1.0]).astype(x.dtype)
    zero = np.array([0, 1, 0, 1]).astype(dtype)
    if name.startswith("float"):
        zero = np.zeros(4, dtype)
    inputs = {"x": x, "scale": scale, "zero": zero}
    quantize = helper.make_node("QuantizeLinear", [*inputs], ["y"], axis=0)
    model = one_node(quantize, inputs, 25)
    (stored,) = run_imported(model, inputs, snapshot)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    assert stored.dtype == dtype
    np.testing.assert_array_equal(widened(stored), widened(expected))

    inputs = {"x": stored, "scale": scale, "zero": zero}
    dequantize = helper.make_node("DequantizeLinear", [*inputs], ["y"], axis=0)
    model = one_node(dequantize, inputs, 25)
    (real,) = run_imported(model, inputs, snapshot)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    assert real.dtype == x.dtype
    np.testing.assert_array_equal(widened(real), widened(expected))


@pytest.mark.parametrize(("size", "block", "blocks"), [(8, 4, 2), (7, 4, 2), (6, 1, 6)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantization_in_blocks(axis, size, block, blocks, snapshot) -> None:
    shape, blocked = [3, 2, 5], [3, 2, 5]
    shape[axis], blocked[axis] = size, blocks
    generator = np.random.default_rng(2)
    inputs = {
        "x": generator.uniform(-20, 20, shape).astype(np.float32),
        "scale": generator.choice([0.25, 0.5, 1.0], blocked).astype(np.float32),
        "zero": generator.integers(0, 9, blocked).astype(np.uint8),
    }
    node = helper.make_node("QuantizeLinear", [*inputs], ["y"], axis=axis, block_size=block)
    (found,) = run_imported(one_node(node, inputs, 25), inputs, snapshot)
    repeated = {
        n: np.repeat(inputs[n], block, axis).take(range(size), axis) for n in ("scale", "zero")
    }
    rounded = np.rint(inputs["x"] / repeated["scale"]) + repeated["zero"]
    np.testing.assert_array_equal(found, np.clip(rounded, 0, 255).astype(np.uint8))

    inputs["x"] = found
    node = helper.make_node("DequantizeLinear", [*inputs], ["y"], axis=axis, block_size=block)
    (real,) = run_imported(one_node(node, inputs, 25), inputs, snapshot)
    expected = (found.astype(np.float32) - repeated["zero"]) * repeated["scale"]
    np.testing.assert_array_equal(real, expected)


def test_blocks_that_do_not_cover_the_axis_are_refused(snapshot) -> None:
    inputs = {"x": np.zeros((2, 9), np.float32), "scale": np.ones((2, 2), np.float32)}
    node = helper.make_node("QuantizeLinear", [*inputs], ["y"], axis=1, block_size=4)
    with pytest.raises(ModelError, match="2 blocks of 4 for 9 slices"):
        run_imported(one_node(node, inputs, 25), inputs, snapshot)


def test_integer_products_are_exact_where_floats_are_not(snapshot) -> None:
    """The sum 127 * 127 * 2049 + 1 has 25 bits: one more than single precision holds."""
    x = np.full((1, 2050), 127, np.int8)
    x[0, -1] = 1
    weight = np.full((2050, 1), 127, np.int8)
    weight[-1, 0] = 1
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    inputs = {"x": x, "w": weight}
    (found,) = run_imported(one_node(node, inputs, 13), inputs, snapshot)
    assert found.dtype == np.int32 and found.item() == 127 * 127 * 2049 + 1


def test_zero_points_of_matrices_are_per_row_and_per_column(snapshot) -> None:
    generator = np.random.default_rng(5)
    inputs = {
        "a": generator.integers(0, 255, (3, 4)).astype(np.uint8),
        "b": generator.integers(-9, 9, (4, 2)).astype(np.int8),
        "a_zero": np.array([1, 2, 3], np.uint8),
        "b_zero": np.array([-1, 4], np.int8),
    }
    node = helper.make_node("MatMulInteger", [*inputs], ["y"])
    (found,) = run_imported(one_node(node, inputs, 13), inputs, snapshot)
    left = inputs["a"].astype(np.int32) - inputs["a_zero"][:, np.newaxis]
    right = inputs["b"].astype(np.int32) - inputs["b_zero"]
    np.testing.assert_array_equal(found, left @ right)


@pytest.mark.parametrize("target", ["float8_e4m3fn", "int4", "bfloat16"])
def test_casts_keep_their_attributes(target, snapshot) -> None:
    x = np.array([1.3, -2.6, 1e4, np.inf], np.float32)[: 2 if target == "int4" else 4]
    node = helper.make_node("Cast", ["x"], ["y"], to=NARROW[target], saturate=0)
    model = one_node(node, {"x": x}, 25)
    (found,) = run_imported(model, {"x": x}, snapshot)
    expected = x.astype(dtype_named(target))
    assert found.dtype == numpy_dtype_of(target)
    np.testing.assert_array_equal(widened(found), widened(expected))


def numpy_dtype_of(name: str) -> np.dtype:
    from explorer.ir.types import ELEMENT_TYPES

    return numpy_dtype(ELEMENT_TYPES[name])
