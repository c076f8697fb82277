"""Outliers of calibration data are reported, and `best` judges corrections by the outputs."""

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import explorer
from explorer.quantization.histogram import Histogram
from explorer.tuning.outliers import MAX_TENSORS, Outliers, outlier_words, outliers_in


def histogram(*batches):
    found = Histogram()
    for batch in batches:
        found = found.including(np.asarray(batch, np.float32))
    return found


NORMAL = np.random.default_rng(0).standard_normal(4095)


@pytest.mark.parametrize("far", [5e4, -5e4, 40.0])
def test_one_number_far_beyond_the_others_is_an_outlier(far):
    found = outliers_in("x", histogram(NORMAL, [far]))
    assert found is not None
    assert (found.count, found.of, found.largest) == (1, 4096, abs(far))
    assert np.abs(NORMAL).max() <= found.rest <= max(np.abs(NORMAL).max() * 1.1, abs(far) / 4096)


@pytest.mark.parametrize(
    "numbers",
    [
        NORMAL,
        [*NORMAL, 8.0],  # near the others
        [*NORMAL, *np.full(200, 5e4)],  # many
        np.exp(3 * NORMAL),  # long tails without a gap
        np.zeros(100),
        [0.0, 5e4] * 50,
        [],
    ],
    ids=["normal", "near", "many", "tails", "zeros", "two values", "empty"],
)
def test_numbers_that_are_part_of_the_rest_are_none(numbers):
    assert outliers_in("x", histogram(numbers)) is None


def test_only_some_tensors_are_named():
    found = [Outliers(f"t{n}", 1, 10, 9.0, 1.0, (n,)) for n in range(MAX_TENSORS + 2)]
    thresholds = {one.tensor: explorer.quantization.table.Threshold(one.tensor, 1.0, -1.0, 1.0)
                  for one in found}  # fmt: skip
    words = list(outlier_words(found, thresholds, "kl"))
    assert len(words) == MAX_TENSORS + 1 and words[-1] == "2 tensors more have such outliers"
    assert "example 3, counted from 0" in words[3] and "kl cuts the range off at 1" in words[3]


PRODUCT = """<ir_version: 9, opset_import: ["" : 17]>
product (float[1,8] x) => (y) <float[8,4] w = {VALUES}> { a = MatMul (x, w)  y = Relu (a) }"""


@pytest.mark.parametrize("method", ["best", "min-max", "mse"])
def test_calibration_names_example_and_tensor_and_what_the_method_does(tmp_path, method):
    rng = np.random.default_rng(1)
    w = ", ".join(f"{v:.4f}" for v in rng.uniform(-1, 1, 32))
    onnx.save(onnx.parser.parse_model(PRODUCT.replace("VALUES", w)), path := tmp_path / "p.onnx")
    x = rng.standard_normal((300, 8)).astype(np.float32)
    x[7, 3] = 5e4
    x[9, 2] = np.nan
    table = explorer.calibrate(path, {"x": np.nan_to_num(x)}, method=method, corrections=())
    (words,) = [w for w in table.warnings if w.startswith("x: ")]
    assert words.startswith("x: 1 number is 50000 of 2,400, all others are at most 8 (example 7")
    kept = table.thresholds["x"].threshold > 32
    assert (f"{method} keeps it" in words) == kept
    assert (f"{method} cuts the range off" in words) == (not kept)


def normalized(rng, factors):
    """A layer normalization whose channels have these factors, and a product that undoes them."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
    n (float[1,6,16] x) => (y) {
      a = LayerNormalization (x, scale, bias)
      b = MatMul (a, w)
      c = Relu (b)
      y = MatMul (c, v)
    }"""
    model = onnx.parser.parse_model(text)
    w = rng.standard_normal((16, 16)) / factors[:, None]
    weights = {"scale": factors, "bias": 0.1 * factors, "w": w, "v": rng.standard_normal((16, 8))}
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()
    )
    return model


def decibels(path, table, images, expected):
    c = explorer.compile(path, quantization=table)
    found = np.concatenate([c.run({"x": x[None]})["y"] for x in images])
    c.close()
    return 10 * np.log10(np.sum(expected**2) / np.sum((found - expected) ** 2))


def exact(model, images):
    """In float64, by NumPy alone."""
    w = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in model.graph.initializer}
    x = images.astype(np.float64)
    x = x - x.mean(axis=-1, keepdims=True)
    a = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) * w["scale"] + w["bias"]
    return np.maximum(a @ w["w"], 0) @ w["v"]


def test_best_takes_the_factors_that_outliers_of_channels_need(tmp_path):
    rng = np.random.default_rng(2)
    factors = np.ones(16)
    factors[[3, 11]] = 64
    model = normalized(rng, factors)
    onnx.save(model, path := tmp_path / "n.onnx")
    images = rng.standard_normal((24, 6, 16)).astype(np.float32)
    tests = rng.standard_normal((16, 6, 16)).astype(np.float32)
    plain = explorer.calibrate(path, {"x": images}, corrections="adaround")
    judged = explorer.calibrate(path, {"x": images})
    assert judged.corrections is not None and judged.corrections.kinds[0] in ("smooth", "cle")
    assert any("were tried" in words for words in judged.warnings)
    expected = exact(model, tests)
    before, after = (decibels(path, table, tests, expected) for table in (plain, judged))
    assert after > before + 8


def test_best_leaves_the_default_where_channels_are_alike(tmp_path):
    rng = np.random.default_rng(3)
    onnx.save(normalized(rng, np.ones(16)), path := tmp_path / "n.onnx")
    images = rng.standard_normal((16, 6, 16)).astype(np.float32)
    table = explorer.calibrate(path, {"x": images})
    assert table.corrections is not None and table.corrections.kinds == ("adaround",)
    assert not table.warnings


def test_what_is_done_to_weights_is_judged_where_outputs_are_noisy(tmp_path):
    rng = np.random.default_rng(4)
    model = normalized(rng, np.ones(16))
    (w,) = [i for i in model.graph.initializer if i.name == "w"]
    spread = numpy_helper.to_array(w).copy()
    spread[0] *= 300  # one row makes the steps of all others wide
    w.CopyFrom(numpy_helper.from_array(spread, "w"))
    onnx.save(model, path := tmp_path / "n.onnx")
    images = rng.standard_normal((16, 6, 16)).astype(np.float32)
    images[:, :, 0] = images.mean(axis=-1)
    table = explorer.calibrate(path, {"x": images})
    words = [words for words in table.warnings if words.startswith("corrections of weights")]
    kinds = table.corrections.kinds if table.corrections else ()
    assert words
    for one in words:
        shares = dict(part.rsplit(" ", 2)[:2] for part in one.split(": ")[1].split(", "))
        best = max(shares.values(), key=float)
        taken = "+".join(kind for kind in kinds if kind in ("adaround", "bias")) or "none"
        assert float(shares[taken]) > float(best) - 0.5
