"""Loops that accumulate end where a call's elements end: masked ones add nothing."""

import re

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.importers.onnx import from_proto

GRAPHS = {
    "softmax": "{ y = Softmax <axis = 2> (x) }",
    "log softmax": "{ y = LogSoftmax <axis = 2> (x) }",
    "sum": "{ y = ReduceMean <axes = [2]> (x) }",
    "maximum": "{ y = ReduceMax <axes = [2]> (x) }",
    "product": "{ t = Tanh (x)  y = ReduceProd <axes = [2]> (t) }",
    "log of a sum": "{ y = ReduceLogSumExp <axes = [2]> (x) }",
    "length": "{ y = ReduceL2 <axes = [2]> (x) }",
    "matrix product": "{ t = Transpose <perm = [0,2,1]> (x)  y = MatMul (x, t) }",
    "attention": "{ t = Transpose <perm = [0,2,1]> (x)  a = MatMul (x, t)  "
    "b = Softmax <axis = 2> (a)  y = MatMul (b, x) }",
    "squares of a softmax": "{ t = Transpose <perm = [0,2,1]> (x)  a = MatMul (x, t)  "
    "b = Softmax <axis = 2> (a)  c = Mul (b, b)  n = Neg (c)  y = MatMul (n, x) }",
    "attention over columns": "{ t = Transpose <perm = [0,2,1]> (x)  a = MatMul (t, x)  "
    "b = Softmax <axis = 2> (a)  c = Abs (b)  y = MatMul (c, t) }",
    "joined attention": "{ t = Transpose <perm = [0,2,1]> (x)  a = MatMul (t, x)  "
    "b = Softmax <axis = 2> (a)  n = Neg (b)  c = Concat <axis = 0> (b, n)  "
    "u = Concat <axis = 0> (t, t)  m = MatMul (c, u)  y, z = Split <axis = 0> (m) }",
}
LARGEST = {"r": 5, "s": 70}


def graph(text):
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]> g (float[2,r,s] x) => (float[2,o,p] y) {text}'
    )


def texts_of(compiled):
    return "\n".join(line for k in compiled.kernels.values() for line in k.source.lines)


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("name", GRAPHS)
def test_equals_onnxruntime_at_each_end_of_a_vector(name):
    model = graph(GRAPHS[name])
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"r": (1, 5), "s": (1, 70)})
    with compiled.open(isolated=False) as program:
        for size in (70, 1, 15, 16, 17, 31, 33, 48, 69):
            program.run({"x": np.full((2, 5, 70), np.nan, np.float32)})
            x = np.random.default_rng(size).standard_normal((2, 1 + size % 5, size))
            x = x.astype(np.float32)
            found = program.run({"x": x})["y"]
            np.testing.assert_allclose(found, np.asarray(judge.run(None, {"x": x})[0]), 3e-5, 3e-5)


@pytest.mark.parametrize("name", ["softmax", "sum", "maximum", "matrix product"])
def test_the_loop_over_masked_elements_ends_with_the_call(name):
    compiled = explorer.compile(
        from_proto(graph(GRAPHS[name])), "cpu", dimensions={"r": 5, "s": (1, 70)}
    )
    kernels = [k for k in compiled.kernels.values() if not k.name.startswith("select")]
    loops = [line for k in kernels for line in k.source.lines if "_end = call_size" in line
             or "_end = (call_size" in line]  # fmt: skip
    assert loops


def test_all_loops_of_a_softmax_end_with_the_call():
    compiled = explorer.compile(
        from_proto(graph(GRAPHS["attention over columns"])),
        "cpu",
        dimensions={"s": (1, 64), "r": 5},
    )
    (kernel,) = (k for k in compiled.kernels.values() if k.name.startswith("softmax"))
    text = "\n".join(kernel.source.lines)
    assert text.count("_end = ") == 3
    assert not re.search(r"for \(long \w+ = 0; \w+ < \d", text)


def test_infinities_and_nan_of_a_call_stay_what_they_are():
    model = graph(GRAPHS["softmax"])
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"r": (1, 5), "s": (1, 70)})
    x = np.zeros((2, 4, 20), np.float32)
    x[0, 0, 3], x[0, 1, 4], x[0, 2, :], x[1, 0, 5] = np.nan, np.inf, -np.inf, -np.inf
    found = compiled.run({"x": x})["y"]
    expected = np.asarray(judge.run(None, {"x": x})[0])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(np.nan_to_num(found), np.nan_to_num(expected), 1e-6, 1e-6)


BLOCKED = {
    "mean": "GlobalAveragePool (c)",
    "mean of columns": "ReduceMean <axes = [2]> (c)",
    "mean of rows": "ReduceMean <axes = [3]> (c)",
    "maximum": "ReduceMax <axes = [2,3]> (c)",
    "length": "ReduceL2 <axes = [2,3]> (c)",
}


def blocked_graph(name):
    """A sum over rows and columns of a value with channels in blocks."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1,16,h,w] x) => '
        "(float[1,16,p,q] y, float[1,16,h,w] z) "
        f"{{ c = Conv (x, k)  y = {BLOCKED[name]}  z = Neg (c) }}"
    )
    weights = np.random.default_rng(1).standard_normal((16, 16, 1, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "k"))
    return model


@pytest.mark.parametrize("highest", [(5, 5), (40, 70)])
@pytest.mark.parametrize("name", BLOCKED)
def test_sums_over_planes_of_blocks_of_channels_equal_onnxruntime(name, highest):
    model, (rows, columns) = blocked_graph(name), highest
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    dimensions = {"h": (1, rows), "w": (1, columns)}
    compiled = explorer.compile(from_proto(model), "cpu", dimensions=dimensions)
    sizes = [highest, (1, 1), (3, 2), (rows, 1), (1, columns), (rows - 1, columns - 1), highest]
    with compiled.open(isolated=False) as program:
        for height, width in sizes:
            program.run({"x": np.full((1, 16, *highest), np.nan, np.float32)})
            random = np.random.default_rng(height).random((1, 16, height, width), np.float32)
            for x in (random, np.full_like(random, np.inf)):
                found, wanted = program.run({"x": x}), judge.run(None, {"x": x})
                for output, array in zip("yz", wanted, strict=True):
                    np.testing.assert_allclose(found[output], array, 1e-5, 1e-5)


@pytest.mark.parametrize("highest", [(4, 4), (40, 70)])
def test_sums_over_blocks_of_channels_end_with_the_rows_and_columns_of_a_call(highest):
    dimensions = {"h": (1, highest[0]), "w": (1, highest[1])}
    compiled = explorer.compile(from_proto(blocked_graph("mean")), "cpu", dimensions=dimensions)
    (kernel,) = (k for k in compiled.kernels.values() if k.name.startswith("reduce"))
    text = "\n".join(kernel.source.lines)
    for argument, size in enumerate(highest):
        assert f"_end = call_size{argument}[0] < {size} ? call_size{argument}[0] : {size}" in text
    assert "+ 15" not in texts_of(compiled)
