"""Resize: which elements an infinity or a NaN reaches."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import explorer
from explorer.compilation import Compilation
from explorer.ir.top.support.taps import Taps, transposed, without_zeros

SIZE = 7


def resized(path, target: int, mode: str, antialias: int = 0) -> Compilation:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, SIZE, SIZE])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, target, target])]
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 2, target, target])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, antialias=antialias)
    graph = helper.make_graph([node], "resize", inputs, outputs, [sizes])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return explorer.compile(path, tuned=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize(
    ("target", "mode", "antialias"),
    [(14, "linear", 0), (11, "cubic", 0), (3, "linear", 1), (SIZE * 2 - 1, "linear", 0)],
)
def test_one_pixel_without_a_number_reaches_what_it_is_a_part_of(
    tmp_path, number, target, mode, antialias
):
    """Exactly those results that another number there would change."""
    c = resized(tmp_path / "resize.onnx", target, mode, antialias)
    x = np.random.default_rng(0).normal(size=(1, 2, SIZE, SIZE)).astype(np.float32)
    plain, other, spoiled = x, x.copy(), x.copy()
    other[0, 1, 2, 4], spoiled[0, 1, 2, 4] = 1e6, number
    wanted = c.run({"x": plain})["y"]
    depends = c.run({"x": other})["y"] != wanted
    assert 0 < depends.sum() < target * target
    for run in (c.run, c["import"].after.run):
        found = list(run({"x": spoiled}).values())[-1]  # a snapshot gives every value
        np.testing.assert_array_equal(np.isfinite(found), ~depends)
        # The interpreter sums in double precision; numbers of size 1 cancel.
        np.testing.assert_allclose(found[~depends], wanted[~depends], rtol=1e-6, atol=1e-6)


def test_taps_that_weigh_nothing_are_left_out():
    positions = np.array([[0, 0, 1, 2], [0, 1, 2, 3], [4, 5, 6, 6]])
    weights = np.array([[0.5, 0.25, 0.25, 0], [0, 0, 1, 0], [0.125, 0.5, 0.25, 0.125]])
    found = without_zeros(Taps(positions, weights))
    assert found.positions.shape == (3, 3)
    assert (found.weights != 0).all()
    for row, (places, parts) in enumerate(zip(found.positions, found.weights, strict=True)):
        dense, wanted = np.zeros(7), np.zeros(7)
        np.add.at(dense, places, parts)
        np.add.at(wanted, positions[row], weights[row])
        np.testing.assert_array_equal(dense, wanted)


def test_transposed_taps_are_those_of_the_transposed_matrix():
    random = np.random.default_rng(0)
    positions, weights = random.integers(0, 5, (8, 3)), random.normal(size=(8, 3))
    dense = np.zeros((8, 5))
    np.add.at(dense, (np.arange(8)[:, np.newaxis], positions), weights)
    back = transposed(Taps(positions, weights), 5)
    found = np.zeros((5, 8))
    np.add.at(found, (np.arange(5)[:, np.newaxis], back.positions), back.weights)
    np.testing.assert_allclose(found, dense.T)


# -- whole numbers ---------------------------------------------------------------------------------


def whole_images(dtype: type) -> np.ndarray:
    """Random numbers, and rows of both bounds, so that cubic sums leave the range."""
    info = np.iinfo(dtype)
    low, high = max(info.min, -(2**20)), min(info.max, 2**20)
    x = np.random.default_rng(3).integers(low, high, (2, 6, 7), endpoint=True).astype(dtype)
    x[0, :3], x[0, 3:] = low, high
    return x[np.newaxis]


def resize_model(
    make_model, x: np.ndarray, scales: list[float], is_computed: bool, **attributes: object
) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **attributes)
    given = {"s": np.array(scales, np.float32)}
    inputs = {"x": x, **given} if is_computed else {"x": x}
    return make_model([node], inputs, {} if is_computed else given, 19)


def outputs_of(path, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Of the interpreter and of C."""
    path.write_bytes(model.SerializeToString())
    loaded = explorer.load(path)
    c = explorer.compile(loaded, tuned=False)
    return [*explorer.interpret(loaded, feeds).values(), *c.run(feeds).values()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.5, 2], [1, 1, 4, 1]])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_linear_of_whole_numbers_truncates_once_as_onnxruntime_does(
    tmp_path, make_model, dtype, scales
):
    """Scales of powers of two, where weights are exact in single precision."""
    x = whole_images(dtype)
    model = resize_model(make_model, x, scales, False, mode="linear")
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for found in outputs_of(tmp_path / "net.onnx", model, {"x": x}):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_cubic_of_whole_numbers_rounds_once_and_saturates(tmp_path, make_model, dtype, is_computed):
    """Judged by onnx's reference, which computes in float64."""
    x, scales = whole_images(dtype), [1.0, 1.0, 2.0, 1.5]
    model = resize_model(make_model, x, scales, is_computed, mode="cubic")
    feeds = {"x": x, "s": np.array(scales, np.float32)}
    given = feeds if is_computed else {"x": x}
    (expected,) = ReferenceEvaluator(model).run(None, given)  # pyright: ignore
    (real,) = ReferenceEvaluator(
        resize_model(make_model, x.astype(np.float64), scales, is_computed, mode="cubic")
    ).run(None, {**given, "x": x.astype(np.float64)})  # pyright: ignore
    assert real.min() < np.iinfo(dtype).min or real.max() > np.iinfo(dtype).max or dtype != np.uint8
    is_tie = np.abs(np.abs(real) % 1 - 0.5) < 1e-4
    for found in outputs_of(tmp_path / "net.onnx", model, given):
        assert found.dtype == dtype
        apart = np.abs(found.astype(np.float64) - expected)
        # Positions are f32: weights of numbers up to 2^20 have an error of 2^-23.
        limit = 0 if dtype == np.uint8 else 1
        assert apart[~is_tie].max() <= limit and apart.max() <= 1


def test_an_antialiased_byte_does_not_wrap_around(tmp_path, make_model):
    """255 became 17, and 0 238."""
    x = np.array([0, 255, 0, 255, 0, 255], np.uint8).reshape(1, 1, 1, 6)
    attributes = {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5}
    model = resize_model(make_model, x, [1, 1, 1, 3], False, **attributes)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert {0, 255} <= set(expected.ravel())
    for found in outputs_of(tmp_path / "net.onnx", model, {"x": x}):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_reading_whole_numbers_at_places_rounds_once_and_saturates(tmp_path, make_model, mode):
    """onnx's reference computes its weights in the type of x: the same in floats is the judge."""
    x = whole_images(np.uint8)
    grid = np.random.default_rng(0).uniform(-1.1, 1.1, (1, 4, 5, 2)).astype(np.float32)
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode)
    wide = x.astype(np.float32)
    real_model = make_model([node], {"x": wide, "g": grid}, {}, 20)
    session = onnxruntime.InferenceSession(real_model.SerializeToString())
    (real,) = session.run(None, {"x": wide, "g": grid})
    expected = np.clip(np.trunc(real + np.copysign(0.5, real)), 0, 255)
    model = make_model([node], {"x": x, "g": grid}, {}, 20)
    for found in outputs_of(tmp_path / "net.onnx", model, {"x": x, "g": grid}):
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("size", "scales"), [(0, [2.0, 3.0]), (1, [0.3, 2.0]), (0, [1.0, 0.2])])
def test_an_image_without_pixels(mode, size, scales, make_model, snapshot, load_proto):
    """As onnxruntime and onnx's reference have it."""
    x = np.ones((2, 1, size, 3), np.float32)
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode)
    model = make_model([node], {"x": x}, {"s": np.float32([1, 1, *scales])}, 18)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert expected.size == 0
    found = list(snapshot(load_proto(model)).run({"x": x}).values())[-1]
    assert found.shape == expected.shape and found.dtype == expected.dtype
