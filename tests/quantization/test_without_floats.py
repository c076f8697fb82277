"""Programs for targets without floats: integers between the first and the last conversion."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat, MemRefType

import explorer
from explorer.compilation import Compilation
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.ir.evaluation import outputs_by_name
from explorer.quantization.table import ThresholdTable
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

SAMPLES = Path(__file__).parents[2] / "sample_models"
INTEGER = {"target/arithmetic": "integer"}

ALL = """
all (float[1,4,8,8] x) => (float[1,5] y)
<float[8,4,3,3] w, float[8] b, float[8,1,1] moved, float[1] half, float[8] scale, float[8] shift,
 float[8,5] v, float[8,8,1,1] u> {
  c = Conv <pads = [1,1,1,1]> (x, w, b)
  s = Sigmoid (c)
  p = Mul (c, s)
  a = AveragePool <kernel_shape = [2,2], strides = [2,2]> (p)
  d = Conv (a, u)
  m = Max (a, d)
  k = Add (m, moved)
  l = Sub (k, a)
  r = Relu (l)
  q = Pow (r, half)
  t = Transpose <perm = [0,2,3,1]> (q)
  n = LayerNormalization <axis = -1> (t, scale, shift)
  o = Softmax <axis = 3> (n)
  z = MatMul (o, v)
  y = ReduceMean <axes = [1,2], keepdims = 0> (z)
}
"""


def float_kernels(c: Compilation) -> set[str]:
    """Names of kernels in which there is any float, without their numbers."""
    found = set()
    for name, function in c["lower-to-kernels"].after.kernels.items():
        types = [a.type for a in function.body.block.args]
        types += [r.type for op in function.walk() for r in op.results]
        elements = [t.element_type if isinstance(t, MemRefType) else t for t in types]
        if any(isinstance(element, AnyFloat) for element in elements):
            found.add(name.rpartition("_")[0])
    return found


def assert_is_its_meaning(c: Compilation, inputs: dict[str, np.ndarray]) -> None:
    """What the generated code computes is what the operations in integers mean, bit by bit."""
    snapshot = c["compute-without-floats"].after
    wanted = outputs_by_name(snapshot.program, snapshot.run(inputs))
    for name, found in c.run(inputs).items():
        np.testing.assert_array_equal(found, wanted[name])


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> SourceModel:
    half = np.array([0.5], np.float32)
    return source_model(tmp_path_factory.mktemp("model"), ALL, half=half)


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).normal(size=(12, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def table(model, data) -> ThresholdTable:
    return calibrate(model, data, "min-max", arithmetic="integer")


@pytest.fixture(scope="module")
def fewer(model, data) -> ThresholdTable:
    """For a target with floats."""
    return calibrate(model, data, "min-max")


@pytest.fixture(scope="module")
def integers(model, table) -> Compilation:
    return explorer.compile(model, quantization=table, decisions=INTEGER)


def test_more_tensors_are_quantized_where_there_are_no_floats(fewer, table):
    more = set(table.thresholds) - set(fewer.thresholds)
    assert set(fewer.thresholds) <= set(table.thresholds) and {"q", "t", "n"} & more


def test_the_view_has_all_tensors_of_a_target_without_floats(integers, table):
    assert {tensor.name for tensor in integers.quantization.tensors} == set(table.thresholds)


def test_all_that_lies_between_is_integers(integers):
    rules = {event.rule for event in integers["compute-without-floats"].rewrites}
    assert rules == {
        "compute-in-fixed-point",
        "tabulate-function",
        "average-integers",
        "softmax-of-integers",
        "normalize-integers",
    }
    assert float_kernels(integers) == {"quantize_ui8", "dequantize"}


def test_the_program_is_bit_exact_and_close_to_the_float_model(integers, data):
    accuracy = integers.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact
    assert accuracy.report.float_outputs[0].sqnr_db > 20


@pytest.mark.opencl
def test_opencl_computes_the_same_integers(model, table, data):
    c = explorer.compile(model, "opencl", quantization=table, decisions=INTEGER)
    assert_is_its_meaning(c, {"x": data["x"][:1]})


def test_words_are_computed_with_in_integers_too(model, table, data):
    """Also a root, of which only numbers from 0 on are taken: a relu stands before it."""
    modes = dict.fromkeys(table.thresholds, "INT16")
    wide = ThresholdTable(table.thresholds, table.model, modes=modes)
    c = explorer.compile(model, quantization=wide, decisions=INTEGER)
    assert float_kernels(c) == {"quantize_i16", "dequantize"}
    assert_is_its_meaning(c, {"x": data["x"][:1]})


def test_a_scheme_of_integers_is_kept(integers):
    knobs = {knob.address: knob for knob in integers.knobs}
    assert knobs["target/arithmetic"].value == "integer"
    once = integers.fork(decisions={"target/requantization.scheme": "multiplier_shift"})
    text = str(once["compute-without-floats"].after.program)
    assert "multiplier_shift" in text and "doubling_high_multiply" not in text
    assert "doubling_high_multiply" in str(integers["compute-without-floats"].after.program)


def test_the_best_thresholds_are_found_for_all_tensors(tmp_path, data):
    """Also for what a softmax at the end makes."""
    model = source_model(
        tmp_path,
        """ends (float[1,4,8,8] x) => (float[1,5,8,8] y) <float[5,4,1,1] w> {
        c = Conv (x, w)
        y = Softmax <axis = 1> (c) }""",
    )
    table = calibrate(model, {"x": data["x"][:4]}, "best", arithmetic="integer")
    assert list(table.thresholds) == ["x", "c", "y"]
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    assert float_kernels(c) == {"quantize_ui8", "dequantize"}


def test_embeddings_are_gathered_as_integers(tmp_path):
    model = source_model(
        tmp_path,
        """embeds (int64[1,6] ids) => (float[1,6,5] y)
        <float[30,8] words, float[6,8] places, float[8] scale, float[8] shift, float[8,5] w> {
        e = Gather <axis = 0> (words, ids)
        a = Add (e, places)
        n = LayerNormalization <axis = -1> (a, scale, shift)
        y = MatMul (n, w) }""",
    )
    ids = np.random.default_rng(0).integers(0, 30, (8, 1, 6))
    table = calibrate(model, {"ids": ids}, "min-max", arithmetic="integer")
    assert list(table.thresholds) == ["e", "a", "n"]
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    assert "store-moved-constants" in {e.rule for e in c["compute-without-floats"].rewrites}
    assert float_kernels(c) == {"dequantize"}
    assert_is_its_meaning(c, {"ids": ids[0]})


def test_what_stays_in_floats_is_named(tmp_path, data):
    model = source_model(
        tmp_path,
        """stays (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w, float[4,4,1,1] v> {
        c = Conv (x, w)
        d = Conv (x, v)
        l = Div (c, d)
        y = Conv (l, v) }""",
    )
    table = calibrate(model, data, "min-max", arithmetic="integer")
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    declined = [e for e in c["compute-without-floats"].rewrites if not e.applied]
    assert {e.rule for e in declined} == {"stays-float"}
    assert any("div has no form in integers" in e.reason for e in declined)


def test_slopes_of_channels_and_logarithms_of_a_softmax_are_integers_too(tmp_path, data):
    model = source_model(
        tmp_path,
        """faces (float[1,4,8,8] x) => (float[1,6,8,8] y)
        <float[6,4,1,1] w, float[6,1,1] slopes, float[6,6,1,1] v> {
        c = Conv (x, w)
        p = PRelu (c, slopes)
        d = Conv (p, v)
        y = LogSoftmax <axis = 1> (d) }""",
    )
    table = calibrate(model, data, "min-max", arithmetic="integer")
    assert list(table.thresholds) == ["x", "c", "p", "d", "y"]
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    assert float_kernels(c) == {"quantize_ui8", "dequantize"}
    assert_is_its_meaning(c, {"x": data["x"][:1]})
    assert c.accuracy({"x": data["x"][:1]}).report.float_outputs[0].sqnr_db > 20


def test_a_table_for_floats_lacks_tensors_and_an_unknown_arithmetic_is_refused(model, data, fewer):
    with pytest.raises(InputError, match="the table lacks"):
        explorer.compile(model, quantization=fewer, decisions=INTEGER)
    with pytest.raises(InputError, match="no arithmetic 'fixed'"):
        calibrate(model, data, "min-max", arithmetic="fixed")  # pyright: ignore[reportArgumentType]


def test_a_table_for_integers_quantizes_what_a_target_with_floats_can(model, data, table, fewer):
    x = {"x": data["x"][:1]}
    shared = {name: table.thresholds[name] for name in fewer.thresholds}
    expected = explorer.compile(model, quantization=replace(table, thresholds=shared)).run(x)
    found = explorer.compile(model, quantization=table).run(x)
    np.testing.assert_array_equal(found["y"], expected["y"])
    threshold = replace(table.thresholds["q"], tensor="Q")
    other = replace(table, thresholds=table.thresholds | {"Q": threshold})
    with pytest.raises(InputError, match="the model has no tensor `Q`"):
        explorer.compile(model, quantization=other)


ATTENTION = """
attention (float[1,6,8] x) => (float[1,6,8] y)
<float[8,8] q, float[8,8] k, float[8,8] v, float[8] scale, float[8] shift, float[1] small,
 float[8,12] up, float[12,8] down> {
  n = LayerNormalization <axis = -1> (x, scale, shift)
  a = MatMul (n, q)
  b = MatMul (n, k)
  t = Transpose <perm = [0,2,1]> (b)
  s = MatMul (a, t)
  m = Mul (s, small)
  p = Softmax <axis = -1> (m)
  c = MatMul (n, v)
  o = MatMul (p, c)
  r = Add (x, o)
  u = MatMul (r, up)
  e = Erf (u)
  f = Mul (u, e)
  w = MatMul (f, down)
  y = Add (r, w)
}
"""


def test_a_layer_of_a_transformer_has_no_float_between_its_ends(tmp_path):
    small = np.array([0.35], np.float32)
    model = source_model(tmp_path, ATTENTION, small=small)
    data = np.random.default_rng(2).normal(size=(8, 1, 6, 8)).astype(np.float32)
    table = calibrate(model, {"x": data}, "min-max", arithmetic="integer")
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    assert float_kernels(c) == {"quantize_ui8", "dequantize"}
    assert_is_its_meaning(c, {"x": data[0]})


@pytest.mark.sweep
def test_a_transformer_has_no_float_between_its_input_and_its_output():
    digits = np.load(SAMPLES / "digits_test.npz")
    model = explorer.load(SAMPLES / "digits_transformer.onnx")
    data = {"image": digits["images"][:8]}
    table = calibrate(model, data, "min-max", arithmetic="integer")
    c = explorer.compile(model, quantization=table, decisions=INTEGER)
    assert float_kernels(c) == {"quantize_ui8", "dequantize"}
    inputs = {"image": digits["images"][200:201]}
    assert_is_its_meaning(c, inputs)
    imported = c["fold-constants"].before
    exact = outputs_by_name(imported.program, imported.run(inputs))
    for name, found in c.run(inputs).items():
        noise = np.sum((found - exact[name]) ** 2) / np.sum(exact[name] ** 2)
        assert -10 * np.log10(noise) > 25
