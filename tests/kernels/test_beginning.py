"""Kernels that replace what is beyond a call's sizes touch nothing else, in place."""

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import explorer
from explorer.importers.onnx import from_proto
from explorer.ir.sizes.symbols import parse
from explorer.kernels.loops.extents import MAX_TEXT, Bounds

WEIGHTS = ",".join(f"{n % 7 - 3}" for n in range(16 * 16 * 9))
TWO = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["": 17]> g (float[1,16,h,w] x) => (float[1,16,o,q] y) '
    f"<float[16,16,3,3] k = {{{WEIGHTS}}}> "
    "{ a = Conv <pads = [1,1,1,1]> (x, k)  y = Conv <pads = [1,1,1,1]> (a, k) }"
)


@pytest.fixture(scope="module")
def compiled():
    return explorer.compile(from_proto(TWO), "cpu", dimensions={"h": (1, 9), "w": (1, 21)})


def test_a_mask_in_place_begins_after_the_elements_of_a_call(compiled):
    masks = [k for k in compiled.kernels.values() if k.name.startswith("select")]
    texts = ["\n".join(kernel.source.lines) for kernel in masks]
    assert texts
    assert all("_begin = " in text for text in texts)
    assert all(" ? (call_size" in text for text in texts)


def test_a_convolution_writes_the_padding_of_the_next_one_as_at_one_size(compiled):
    fixed = explorer.compile(from_proto(TWO), "cpu", dimensions={"h": 9, "w": 21})
    masks = [n for n in compiled.kernels if n.startswith("select")]
    others = [name for name in compiled.kernels if name not in masks]
    assert len(others) == len(fixed.kernels)


@pytest.mark.parametrize(("h", "w"), [(9, 21), (1, 1), (9, 1), (1, 21), (4, 17), (8, 16), (5, 20)])
def test_each_size_equals_onnxruntime_after_one_without_numbers(compiled, h, w):
    x = np.random.default_rng(h * 32 + w).integers(-3, 4, (1, 16, h, w)).astype(np.float32)
    judge = onnxruntime.InferenceSession(TWO.SerializeToString())
    compiled.run({"x": np.full((1, 16, 9, 21), np.nan, np.float32)})
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], judge.run(None, {"x": x})[0])


def test_the_larger_of_two_sizes_is_found_by_trying_all():
    sizes = Bounds({"h": (1, 320)})
    small, large = parse("2*((h+15)//16)"), parse("(h+7)//8+1")
    assert sizes.more(small, large) == large == sizes.more(large, small)
    either = sizes.more(parse("h"), parse("9"))
    assert str(either) in ("max(9,h)", "max(h,9)", "max(9, h)", "max(h, 9)")
    assert sizes.more(parse("h"), None) is None


def test_what_no_short_text_says_is_all_of_a_dimension():
    sizes = Bounds({})
    long = parse("+".join(f"name{number}" for number in range(40)))
    assert len(str(long)) > MAX_TEXT / 2
    assert sizes.more(long, parse("+".join(f"other{number}" for number in range(40)))) is None


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceL2"])
def test_a_mask_of_joined_sizes_is_no_beginning(kind):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[b,s,4] x) => (float[1,4] y) '
        "<int64[2] one = {-1, 4}, int64[1] a = {0}> "
        f"{{ r = Reshape (x, one)  t = Tanh (r)  y = {kind} (t, a) }}"
    )
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"b": (1, 4), "s": (1, 5)})
    with compiled.open(isolated=False) as program:
        for b, s in ((4, 5), (3, 2), (2, 4), (1, 1), (4, 1)):
            program.run({"x": np.full((4, 5, 4), np.nan, np.float32)})
            x = np.random.default_rng(b * s).standard_normal((b, s, 4)).astype(np.float32)
            found, expected = program.run({"x": x})["y"], judge.run(None, {"x": x})[0]
            np.testing.assert_allclose(found, np.asarray(expected), 1e-5, 1e-5)


def test_a_mask_of_a_rounded_size_begins_at_that_size():
    """Twice the halves of 16 elements are 16, those of 15 are 16, too, and neither is 17."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1,2,h,w] x) => '
        "(float[1,2,i,j] y, float[1,2,1,1] m) <float[4] k = {1, 1, 2, 2}> { "
        "a = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]> (x) "
        'b = Resize <coordinate_transformation_mode = "asymmetric", mode = "nearest", '
        'nearest_mode = "floor"> (a, "", k) '
        "y = AveragePool <count_include_pad = 1, kernel_shape = [3,3], pads = [1,1,1,1]> (b) "
        "m = GlobalAveragePool (y) }"
    )
    compiled = explorer.compile(from_proto(model), "cpu", dimensions={"h": (5, 24), "w": (5, 43)})
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    whole = np.random.default_rng(5).standard_normal((1, 2, 24, 43)).astype(np.float32) + 3
    with compiled.open(isolated=False) as program:
        for w in range(5, 44):
            program.run({"x": np.full_like(whole, np.nan)})
            part = np.ascontiguousarray(whole[:, :, : 5 + w % 20, :w])
            found = program.run({"x": part})
            for name, wanted in zip("ym", judge.run(None, {"x": part}), strict=True):
                np.testing.assert_allclose(found[name], wanted, 2e-5, 2e-5)
