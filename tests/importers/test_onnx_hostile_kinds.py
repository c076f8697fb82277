"""Kinds of numbers that a composed operator may get wrong, each with its own judge in NumPy."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from explorer.errors import ModelError, UnsupportedError
from explorer.onnx_backend import Representation


def run(text: str, *inputs: np.ndarray, opset: int = 24) -> list[np.ndarray]:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
    names = [value.name for value in model.graph.input]
    arrays = dict(zip(names, inputs, strict=True))
    return list(Representation(model, "INTERPRETER", lambda _: None).run(arrays))


@pytest.mark.parametrize("index", [10, 2**63 - 1, 2**63, 2**64 - 1])
def test_an_index_without_a_sign_beyond_the_depth_is_off(index: int):
    text = """g (uint64[3] i, int64 d, float[2] v) => (float[3,10] y) { y = OneHot (i, d, v) }"""
    indices = np.array([0, 9, index], np.uint64)
    (found,) = run(text, indices, np.array(10), np.array([2.0, 5.0], np.float32))
    expected = np.full((3, 10), 2.0)
    expected[0, 0] = expected[1, 9] = 5.0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("p", [1, 2])
def test_the_norm_of_half_floats_does_not_overflow(p: int):
    x = np.array([[65504, 65504, 0], [6e-8, 0, -6e-8], [0, -0.0, 0]], np.float16)
    text = f"g (float16[3,3] x) => (float16[3,3] y) {{ y = LpNormalization <p = {p}> (x) }}"
    (found,) = run(text, x)
    wide = x.astype(np.float64)
    norm = np.linalg.norm(wide, p, -1, keepdims=True)
    expected = np.divide(wide, norm, np.zeros_like(wide), where=norm > 0)
    np.testing.assert_allclose(found.astype(np.float64), expected, 1e-3)


def attended(scores: np.ndarray, v: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mask_type", ["int8", "int16", "uint8", "uint16"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("float_type", ["float16", "float"])
def test_a_mask_of_whole_numbers_keeps_the_digits_of_the_scores(
    float_type: str, mask_type: str, causal: int
):
    """Half floats have no digits left next to 32767, and no whole number is -infinity."""
    dtype = np.dtype("float32" if float_type == "float" else float_type)
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((1, 2, n, 4)).astype(dtype) for n in (3, 5, 5))
    limits = np.iinfo(mask_type)
    mask = random.choice([limits.max, limits.min, 0], (3, 5), p=[0.7, 0.2, 0.1]).astype(mask_type)
    mask[:, 0] = limits.max  # one score counts in each row
    text = f"""g ({float_type}[1,2,3,4] q, {float_type}[1,2,5,4] k, {float_type}[1,2,5,4] v,
        {mask_type}[3,5] m) => ({float_type}[1,2,3,4] y) {{
      y = Attention <is_causal = {causal}> (q, k, v, m) }}"""
    (found,) = run(text, q, k, v, mask)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / 2 + mask
    if causal:
        scores = np.where(np.tril(np.ones((3, 5), bool)), scores, -np.inf)
    tolerance = {"float16": 8e-3, "float": 2e-2 if "16" in mask_type else 1e-4}[float_type]
    np.testing.assert_allclose(found.astype(np.float64), attended(scores, v), tolerance, tolerance)


@pytest.mark.parametrize("shorter", [0, 1, 2, 4])
def test_what_lies_beyond_a_mask_of_whole_numbers_is_hidden(shorter: int):
    """ONNX pads a mask with -infinity, also one of a single column."""
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((1, 1, n, 4)).astype(np.float32) for n in (2, 5, 5))
    mask = np.zeros((2, 5 - shorter), np.uint16)
    text = f"""g (float[1,1,2,4] q, float[1,1,5,4] k, float[1,1,5,4] v, uint16[2,{5 - shorter}] m)
        => (float[1,1,2,4] y) {{ y = Attention (q, k, v, m) }}"""
    (found,) = run(text, q, k, v, mask)
    scores = q @ k.swapaxes(-1, -2) / 2
    scores[..., 5 - shorter :] = -np.inf
    np.testing.assert_allclose(found, attended(scores, v), 1e-5, 1e-6)


def test_half_floats_keep_the_places_of_a_deformed_window():
    """1 - 2^-12 is no half float: the pixel before it weighs 2^-12, times 65504."""
    x = np.array([[[[65504, 1]]]], np.float16)
    offset = np.zeros((1, 2, 1, 2), np.float16)
    offset[0, 1, 0, 1] = -(2.0**-12)
    text = """g (float16[1,1,1,2] x, float16[1,1,1,1] w, float16[1,2,1,2] o)
        => (float16[1,1,1,2] y) { y = DeformConv <kernel_shape = [1, 1]> (x, w, o) }"""
    (found,) = run(text, x, np.ones((1, 1, 1, 1), np.float16), offset)
    expected = 65504 * 2.0**-12 + 1 - 2.0**-12
    np.testing.assert_allclose(found[0, 0, 0].astype(float), [65504, expected], 1e-3)


def test_a_threshold_of_several_elements_is_refused_by_its_name():
    text = """g (float[1,2,4] b, float[1,1,2] s, int64[1] n, float[3] t) => (int64[k,3] y) {
      y = NonMaxSuppression (b, s, n, t) }"""
    boxes, scores = np.zeros((1, 2, 4), np.float32), np.zeros((1, 1, 2), np.float32)
    with pytest.raises(ModelError, match="the overlap has 3 elements; one expected"):
        run(text, boxes, scores, np.array([1]), np.zeros(3, np.float32))


@pytest.mark.parametrize("opset", [24, 25])
def test_a_scale_of_8_bits_does_not_round_what_it_divides(opset: int):
    """6 has no e8m0: in the type of the scale it is 8."""
    text = """g (float[4] x, float s) => (uint8[4] y) {
      e = Cast <to = 24> (s)
      y = QuantizeLinear <output_dtype = 2> (x, e) }"""
    x = np.array([6, 12, 50, 5], np.float32)
    (found,) = run(text, x, np.float32(2), opset=opset)
    np.testing.assert_array_equal(found, [3, 6, 25, 2])


def test_floats_of_8_bits_keep_their_fractions_in_a_quantized_product():
    text = """g (uint8[1,4] a, float[4,2] b) => (uint8[1,2] y) {
      s = Constant <value = float[1] {0.5}> ()
      z = Constant <value = uint8[1] {3}> ()
      e = Cast <to = 19> (b)
      zero = Constant <value = float[1] {0.0}> ()
      ez = Cast <to = 19> (zero)
      y = QLinearMatMul (a, s, z, e, s, ez, s, z) }"""
    a = np.array([[3, 7, 8, 255]], np.uint8)
    b = np.array([[0.75, -0.5], [0.25, 1.75], [0.5, 0.625], [0.125, 0.25]], np.float32)
    (found,) = run(text, a, b)
    real = (a.astype(np.float64) - 3) * 0.5 @ (b * 0.5)
    np.testing.assert_array_equal(found, np.rint(real / 0.5) + 3)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_mixtures_of_booleans_are_refused_by_their_type(mode: str):
    text = f"""g (bool[1,1,2,2] x) => (bool[1,1,4,4] y) {{
      s = Constant <value = float[4] {{1.0, 1.0, 2.0, 2.0}}> ()
      y = Resize <mode = "{mode}"> (x, , s) }}"""
    with pytest.raises(UnsupportedError, match="elements of type bool"):
        run(text, np.ones((1, 1, 2, 2), np.bool_))


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("length", [7, 8, 9, 10])
def test_a_transposed_convolution_has_the_length_that_is_demanded(length: int, auto_pad: str):
    """Elements that no window reaches are zeros at the end, as in onnxruntime."""
    text = f"""g (float[1,1,3] x, float[1,1,2] w) => (float[a,b,c] y) {{
      y = ConvTranspose <strides = [3], output_shape = [{length}], auto_pad = "{auto_pad}"> (x, w)
    }}"""
    x = np.arange(1, 4, dtype=np.float32).reshape(1, 1, 3)
    (found,) = run(text, x, np.array([[[1, 2]]], np.float32))
    whole = np.array([1, 2, 0, 2, 4, 0, 3, 6, 0, 0], np.float32)
    cut = 1 if length == 7 and auto_pad != "SAME_UPPER" else 0
    np.testing.assert_array_equal(found[0, 0], whole[cut : cut + length])


def test_sequences_along_their_own_batch_are_refused():
    text = """g (float[4,4] x, int64[4] n) => (float[4,4] y) {
      y = ReverseSequence <time_axis = 0, batch_axis = 0> (x, n) }"""
    with pytest.raises(ModelError, match="axis 0 is both time and batch"):
        run(text, np.ones((4, 4), np.float32), np.array([4, 3, 2, 1]))


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
@pytest.mark.parametrize("pads", [(1, -3), (-3, 2), (2, -4), (-2, -1)])
def test_a_pad_cuts_before_it_continues_what_is_left(mode: str, pads: tuple[int, int]):
    text = (
        f"""g (float[2,6] x, int64[4] p) => (float[2,k] y) {{ y = Pad <mode = "{mode}"> (x, p) }}"""
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    (found,) = run(text, x, np.array([0, pads[0], 0, pads[1]]))
    left = x[:, max(-pads[0], 0) : 6 + min(pads[1], 0)]
    around = [(0, 0), (max(pads[0], 0), max(pads[1], 0))]
    np.testing.assert_array_equal(found, np.pad(left, around, mode))  # pyright: ignore


@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("bidirectional", 2)])
def test_a_sequence_without_a_step_ends_in_zeros(
    operator: str, gates: int, direction: str, count: int
):
    """Whatever its initial state is, as in onnxruntime; its neighbour does not notice."""
    random = np.random.default_rng(8)
    shapes = {"x": (3, 2, 4), "w": (count, gates * 3, 4), "r": (count, gates * 3, 3)}
    shapes |= {"h": (count, 2, 3)} | ({"c": (count, 2, 3)} if operator == "LSTM" else {})
    arrays = {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    results = "y, yh, yc" if operator == "LSTM" else "y, yh"
    text = f"""g ({", ".join(f"float[{','.join(map(str, s))}] {n}" for n, s in shapes.items())},
        int32[2] n) => ({", ".join(f"float[] {name}" for name in results.split(", "))}) {{
      {results} = {operator} <hidden_size = 3, direction = "{direction}"> (
        x, w, r, , n, {", ".join([*shapes][3:])}) }}"""
    found = run(text, *arrays.values(), np.array([2, 0], np.int32))
    other = run(text, *arrays.values(), np.array([2, 3], np.int32))
    for result, full in zip(found, other, strict=True):
        assert not result[..., 1, :].any() and full[..., 1, :].all()
        np.testing.assert_array_equal(result[..., 0, :], full[..., 0, :])
