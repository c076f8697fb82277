"""Whole quantized models: generated code gives what the interpreter gives, to the last bit.

Shapes leave tails everywhere: channels that fill no block, rows that no tile divides.
"""

import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

import explorer
from explorer.compilation import Compilation
from explorer.ir.evaluation import entry_function, entry_return
from explorer.ir.structure import value_name
from explorer.kernels.passes import KERNELS
from explorer.targets import load_target

X_SCALE, Y_SCALE = np.float32(0.02), np.float32(0.15)


def convolution(
    channels=24,
    filters=40,
    size=13,
    window=3,
    stride=1,
    group=1,
    x_zero=114,
    x_type=np.uint8,
    w_zero=0,
    w_type=np.int8,
    per_channel=False,
):
    """quantize, QLinearConv, dequantize. size, window: one number, or rows and columns."""
    rows, columns = (size, size) if isinstance(size, int) else size
    high, wide = (window, window) if isinstance(window, int) else window
    random = np.random.default_rng(filters + rows)
    limits = np.iinfo(w_type)
    shape = (filters, channels // group, high, wide)
    weight = random.integers(limits.min, limits.max + 1, shape).astype(w_type)
    scales = random.uniform(0.001, 0.01, filters) if per_channel else np.array(0.005)
    arrays = {
        "w": weight,
        "ws": scales.astype(np.float32),
        "wz": np.full(scales.shape, w_zero, w_type),
        "b": random.integers(-3000, 3000, filters).astype(np.int32),
    }
    inputs = ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    attributes = {
        "pads": [high // 2, wide // 2] * 2,
        "strides": [stride] * 2,
        "group": group,
    }
    node = helper.make_node("QLinearConv", inputs, ["yq"], **attributes)
    return _model(node, [1, channels, rows, columns], x_zero, x_type, arrays)


def matrix_product(
    rows=7,
    depth=32,
    columns=40,
    x_zero=114,
    x_type=np.uint8,
    w_zero=0,
    w_type=np.int8,
    per_column=False,
    batch=(),
):
    random = np.random.default_rng(rows + depth + columns)
    limits = np.iinfo(w_type)
    weight = random.integers(limits.min, limits.max + 1, (depth, columns)).astype(w_type)
    scales = random.uniform(0.001, 0.01, columns) if per_column else np.array(0.005)
    arrays = {
        "w": weight,
        "ws": scales.astype(np.float32),
        "wz": np.full(scales.shape, w_zero, w_type),
    }
    inputs = ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearMatMul", inputs, ["yq"])
    return _model(node, [*batch, rows, depth], x_zero, x_type, arrays)


def _model(node, shape, x_zero, x_type, arrays):
    arrays = {
        "xs": X_SCALE,
        "xz": np.array(x_zero, x_type),
        "ys": Y_SCALE,
        "yz": np.array(9, x_type),
        **arrays,
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node,
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


Compile = Callable[..., Compilation]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """`compiled(model, "cpu", vector_floats=8)`"""

    def compile_model(
        model: ModelProto, target: str = "cpu", **overrides: int | str
    ) -> Compilation:
        save(model, tmp_path / "model.onnx")
        return explorer.compile(tmp_path / "model.onnx", load_target(target, overrides))

    return compile_model


def steps_of(compilation: Compilation) -> list[str]:
    """Of all kernels; `compilation.kernels` would print the loop nest after each of them, too."""
    scheduled = compilation["schedule-loops"].artifacts[KERNELS]
    assert isinstance(scheduled, dict)
    return [step.name for kernel in scheduled.values() for step in kernel.steps]


def assert_same_bits(compilation: Compilation) -> None:
    inputs = compilation.example_inputs(seed=3)
    (actual,) = compilation.run(inputs).values()
    before = compilation["infer-shapes"].after
    (returned,) = entry_return(entry_function(before.module)).operands
    np.testing.assert_array_equal(actual, before.run(inputs)[value_name(returned)])


CONVOLUTIONS = {
    "dense": {},
    "signed": {"x_type": np.int8, "x_zero": 5},
    "lowest zero point": {"x_type": np.int8, "x_zero": -128},
    "a scale for each filter": {"per_channel": True},
    "filters with a zero point": {"w_type": np.uint8, "w_zero": 131},
    "filters around 128": {"w_type": np.uint8, "w_zero": 128},
    "few channels": {"channels": 3, "filters": 17, "stride": 2, "window": 5},
    "one pixel": {"window": 1, "size": 9},
    "depthwise": {"filters": 24, "group": 24, "stride": 2},
    "signed depthwise": {"filters": 24, "group": 24, "x_type": np.int8, "x_zero": -7},
    "depthwise with a zero point": {
        "filters": 24, "group": 24, "w_type": np.uint8, "w_zero": 77, "per_channel": True,
    },
    "depthwise in a column": {"filters": 24, "group": 24, "size": (23, 1), "window": (5, 1)},
    "grouped": {"filters": 48, "group": 2},
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("lanes", [4, pytest.param(8, marks=pytest.mark.sweep), 16])
def test_a_convolution_is_exact(case, lanes, compiled):
    compilation = compiled(convolution(**CONVOLUTIONS[case]), vector_floats=lanes)
    assert_same_bits(compilation)
    is_dense = CONVOLUTIONS[case].get("group", 1) == 1
    assert ("dot" in steps_of(compilation)) == is_dense


def test_what_a_zero_point_of_filters_is_multiplied_with_is_summed_up_in_registers(compiled):
    """Beside the products, by tasks of their own."""
    compilation = compiled(convolution(**CONVOLUTIONS["filters with a zero point"]))
    scheduled = compilation["schedule-loops"].artifacts[KERNELS]
    assert isinstance(scheduled, dict)
    (kernel,) = [k for name, k in scheduled.items() if name.startswith("conv")]
    arguments = {step.name: step.arguments for step in kernel.steps}
    assert ("buffer", "offsets") in arguments["accumulate"]
    assert ("loops", "plain2_i") in arguments["parallel"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ["dense", "signed", "filters with a zero point", "few channels"])
def test_filters_are_sizes_and_signs_where_bytes_are_multiplied_in_pairs(case, compiled):
    """Padding, which is no number of the picture, is flipped like the others."""
    if platform.machine() != "x86_64":
        pytest.skip("code for x86-64-v3 runs on such processors only")
    model = convolution(**CONVOLUTIONS[case])
    compilation = compiled(model, vector_floats=8, processor="x86-64-v3")
    assert "split-signs" in [event.rule for event in compilation["fuse-quantization"].rewrites]
    assert_same_bits(compilation)
    (kernel,) = [k for name, k in compilation.kernels.items() if name.startswith("conv")]
    assert "dot_split" in kernel.source.to_text()
    widened = compilation.fork(disable=["fuse-quantization/split-signs"])
    assert_same_bits(widened)


MATRICES = {
    "rows": {},
    "one row": {"rows": 1, "depth": 64, "columns": 100},
    "signed": {"x_type": np.int8, "x_zero": -3},
    "a scale for each column": {"rows": 9, "depth": 20, "columns": 37, "per_column": True},
    "a zero point": {"rows": 5, "depth": 12, "columns": 10, "w_type": np.uint8, "w_zero": 120},
    "a batch": {"rows": 6, "depth": 16, "columns": 48, "batch": (3,)},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_matrix_product_is_exact(case, lanes, compiled, monkeypatch):
    monkeypatch.setattr("explorer.backends.c.DOT_PRODUCTS", frozenset())
    compilation = compiled(matrix_product(**MATRICES[case]), vector_floats=lanes)
    assert_same_bits(compilation)
    assert "dot" in steps_of(compilation)
    splits = "split-signs" in [e.rule for e in compilation["fuse-quantization"].rewrites]
    assert splits == (lanes == 8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rows", [1, 6])
def test_fewer_columns_than_lanes_are_summed_up_along_rows(rows, columns, compiled, monkeypatch):
    """Weights keep their places and signs: there are no dot products for which they would move."""
    monkeypatch.setattr("explorer.backends.c.DOT_PRODUCTS", frozenset())
    model = matrix_product(rows=rows, depth=64, columns=columns, x_type=np.int8, x_zero=-3)
    compilation = compiled(model, vector_floats=8)
    assert_same_bits(compilation)
    assert "dot" not in steps_of(compilation)
    assert not any("gather" in name for name in compilation.kernels)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
@pytest.mark.parametrize(("processor", "splits"), [("x86-64-v3", True), ("icelake-server", False)])
def test_products_take_the_form_of_the_processor_that_is_compiled_for(processor, splits, compiled):
    """Whatever the machine at hand has: nothing runs here."""
    model = matrix_product(**MATRICES["a batch"])
    compilation = compiled(model, vector_floats=8, processor=processor)
    rules = [e.rule for e in compilation["fuse-quantization"].rewrites]
    assert ("split-signs" in rules) == splits


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
def test_sums_of_the_largest_bytes_are_exact(x_type, w_type, compiled, monkeypatch):
    monkeypatch.setattr("explorer.backends.c.DOT_PRODUCTS", frozenset())
    rows, depth, columns = 12, 48, 37
    x_ends, w_ends = ([np.iinfo(t).min, np.iinfo(t).max] for t in (x_type, w_type))
    random = np.random.default_rng(0)
    w = random.choice(w_ends, (depth, columns)).astype(w_type)
    w[:, :2] = w_ends
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(x_type))
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])],
        "sums",
        [
            helper.make_tensor_value_info("x", kind, [rows, depth]),
            helper.make_tensor_value_info("zero", kind, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [rows, columns])],
        [numpy_helper.from_array(w, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    compilation = compiled(
        helper.make_model(graph, opset_imports=opsets, ir_version=8), vector_floats=8
    )
    assert "split-signs" in [e.rule for e in compilation["fuse-quantization"].rewrites]
    x = random.choice(x_ends, (rows, depth)).astype(x_type)
    x[0], x[1] = x_ends
    for zero in x_ends:
        (actual,) = compilation.run({"x": x, "zero": np.array(zero, x_type)}).values()
        np.testing.assert_array_equal(actual, (x.astype(int) - zero) @ w.astype(int))


def test_depths_that_four_does_not_divide_are_multiplied_without_dots(compiled):
    compilation = compiled(matrix_product(rows=3, depth=10, columns=20))
    assert_same_bits(compilation)
    assert "dot" not in steps_of(compilation)


@pytest.mark.sampled(2)
@pytest.mark.opencl
@pytest.mark.parametrize("case", ["dense", "signed", "filters with a zero point", "depthwise"])
def test_a_convolution_is_exact_as_opencl(case, compiled):
    pytest.importorskip("pyopencl")
    compilation = compiled(convolution(**CONVOLUTIONS[case]), "opencl")
    assert_same_bits(compilation)
    assert "dot" not in steps_of(compilation)


def test_a_pool_and_a_sum_of_blocked_bytes_are_exact(compiled):
    """Convolution, maximum pool, and a sum with another scale: all of them in blocks."""
    random = np.random.default_rng(0)
    arrays = {
        "xs": X_SCALE,
        "xz": np.array(100, np.uint8),
        "ys": Y_SCALE,
        "yz": np.array(9, np.uint8),
        "w": random.integers(-128, 128, (20, 18, 3, 3)).astype(np.int8),
        "ws": np.array(0.004, np.float32),
        "wz": np.array(0, np.int8),
        "ss": np.array(0.31, np.float32),
        "sz": np.array(40, np.uint8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node(
            "QLinearConv",
            ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"],
            ["c"],
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["cr"]),
        helper.make_node("DequantizeLinear", ["p", "ys", "yz"], ["pr"]),
        helper.make_node("Add", ["cr", "pr"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "ss", "sz"], ["sq"]),
        helper.make_node("DequantizeLinear", ["sq", "ss", "sz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "blocked",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 18, 11, 11])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    compilation = compiled(model, vector_floats=16)
    text = str(compilation["assign-layouts"].after)
    pooled = next(line for line in text.splitlines() if "top.pool" in line)
    added = next(line for line in text.splitlines() if "top.binary" in line)
    assert "block = 16" in pooled
    assert "block = 16" in added
    assert_same_bits(compilation)
