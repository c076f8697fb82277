"""Tiles that a call fills in part run smaller bodies, with the same numbers."""

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.importers.onnx import from_proto

WEIGHTS = ",".join(f"{(n * 37 % 64) / 32 - 1}" for n in range(24 * 40))
PRODUCT = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["": 17]> g (float[b,s,24] x) => (float[b,s,40] y) '
    f"<float[24,40] k = {{{WEIGHTS}}}> {{ p = MatMul (x, k)  y = Softmax <axis = 1> (p) }}"
)
LARGEST = {"b": 2, "s": 37}


@pytest.fixture(scope="module")
def compiled():
    dimensions = {name: (1, size) for name, size in LARGEST.items()}
    return explorer.compile(from_proto(PRODUCT), "cpu", dimensions=dimensions)


def text_of(compiled):
    kernels = [k for k in compiled.kernels.values() if k.name.startswith("matmul")]
    return "\n".join(line for kernel in kernels for line in kernel.source.lines)


def test_a_tile_has_bodies_for_parts_of_its_rows(compiled):
    text = text_of(compiled)
    assert "_left <= " in text
    assert text.count("UNROLL(") > text.count("_left <= ")
    fixed = explorer.compile(from_proto(PRODUCT), "cpu", dimensions=LARGEST)
    assert "_left" not in text_of(fixed)


def test_every_number_of_rows_gives_its_softmax(compiled):
    x = np.random.default_rng(3).standard_normal((2, 37, 24)).astype(np.float32)
    weight = np.fromstring(WEIGHTS, np.float32, sep=",").reshape(24, 40)
    with compiled.open(isolated=False) as program:
        for rows in range(1, 38):
            part = x[: 1 + rows % 2, :rows]
            product = part.astype(np.float64) @ weight
            e = np.exp(product - product.max(1, keepdims=True))
            found = program.run({"x": part})["y"]
            np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), 2e-5, 1e-7)


def test_whole_tiles_run_without_a_test_at_every_width():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1,16,2,w] x) => '
        f"(float[1,16,2,w] y) <float[16,1,3,3] k = {{{','.join(WEIGHTS.split(',')[:144])}}}> "
        "{ y = Conv <group = 16, pads = [1,1,1,1]> (x, k) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"w": (1, 63)})
    kernels = [k for k in compiled.kernels.values() if k.name.startswith("depthwise")]
    text = "\n".join(line for kernel in kernels for line in kernel.source.lines)
    assert "_whole; " in text and "_left <= 0" in text
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(5)
    with compiled.open(isolated=False) as program:
        for width in (63, *range(1, 64)):
            x = random.standard_normal((1, 16, 2, width)).astype(np.float32)
            (wanted,) = judge.run(None, {"x": x})
            np.testing.assert_allclose(program.run({"x": x})["y"], np.asarray(wanted), 2e-5, 2e-5)


@pytest.mark.parametrize("isolated", [False, True])
def test_a_call_is_timed_and_profiled_at_its_sizes(compiled, isolated):
    inputs = {"x": np.ones((1, 5, 24), np.float32)}
    with compiled.open(isolated=isolated) as program:
        assert len(program.time(inputs, repeats=3)) == 3
        assert program.profile(inputs, repeats=2).events
        assert program.run(inputs)["y"].shape == (1, 5, 40)


def test_a_scalar_result_is_that_of_its_own_call():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 13]> g (float[b,s,2] x) => (float y) '
        "{ y = ReduceSum <keepdims = 0> (x) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"b": (1, 3), "s": (1, 50)})
    for isolated in (False, True):
        with compiled.open(isolated=isolated) as program:
            for rows in (2, 50, 1):
                found = program.run({"x": np.ones((3, rows, 2), np.float32)})["y"]
                assert found.shape == ()
                assert found == 6 * rows


def test_integers_beyond_a_call_are_no_rows_of_a_table():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (int64[b,s] i) => (float[b,s,2] y) '
        "<float[3,2] t = {1,2,3,4,5,6}> { y = Gather <axis = 0> (t, i) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"b": (1, 3), "s": (1, 50)})
    with compiled.open(isolated=False) as program:
        program.run({"i": np.full((3, 50), 2)})
        found = program.run({"i": np.array([[1, -3]])})["y"]
        np.testing.assert_array_equal(found, [[[3, 4], [1, 2]]])
        strided = np.array([[0, 9, 1, 9]])[:, ::2]
        np.testing.assert_array_equal(program.run({"i": strided})["y"], [[[1, 2], [3, 4]]])


def test_blocks_of_pixels_that_are_turned_end_with_the_call():
    """Each of the stores of such a block has a column of its own."""
    weights = ",".join(["0.5"] * 24 * 24 * 9)
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1,24,h,w] x) => '
        f"(float[1,24,h,w] y) <float[24,24,3,3] k = {{{weights}}}> "
        "{ t = Abs (x)  y = Conv <pads = [1,1,1,1]> (t, k) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"h": (1, 33), "w": (1, 40)})
    kernels = [k for k in compiled.kernels.values() if k.name.startswith("to_nchw")]
    lines = [line for kernel in kernels for line in kernel.source.lines]
    tiles = [line for line in lines if "for (" in line and "d3_tile = 0" in line]
    assert tiles and all("_end;" in line for line in tiles)
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    with compiled.open(isolated=False) as program:
        program.run({"x": np.full((1, 24, 33, 40), np.nan, np.float32)})
        for height, width in ((1, 1), (33, 7), (5, 8), (8, 9), (32, 40), (33, 39)):
            x = np.random.default_rng(width).standard_normal((1, 24, height, width))
            x = x.astype(np.float32)
            found = program.run({"x": x})["y"]
            np.testing.assert_allclose(found, judge.run(None, {"x": x})[0], 1e-4, 1e-4)
