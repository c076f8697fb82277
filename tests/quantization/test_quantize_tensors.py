"""A float program with a table becomes one of quantized tensors, and then of integers."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.errors import InputError
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.top.linear.convolution import ConvOp
from explorer.quantization.quantize_tensors import _is_whole, type_of, weight_type
from explorer.quantization.table import Threshold, ThresholdTable
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from programs import program
from source_models import source_model

BLOCK = """
block (float[1,4,8,8] x) => (float[1,5] y)
<float[8,4,3,3] w1, float[8] b1, float[8] scale, float[8] shift, float[8] mean, float[8] variance,
 float[8,8,3,3] w2, float[8] b2, float[8,5] w3, int64[2] flat> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  n1 = BatchNormalization (c1, scale, shift, mean, variance)
  r1 = Relu (n1)
  c2 = Conv <pads = [1,1,1,1]> (r1, w2, b2)
  a = Add (r1, c2)
  r2 = Relu (a)
  m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r2)
  g = GlobalAveragePool (m)
  f = Flatten (g)
  y = MatMul (f, w3)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), BLOCK.replace(", int64[2] flat", ""))


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(12, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def table(model, data):
    return calibrate(model, data, "min-max")


@pytest.fixture(scope="module")
def quantized(model, table):
    return explorer.compile(model, quantization=table)


def test_tensors_that_integers_are_made_of_are_in_the_table(table):
    """Not what a clamp reads, not what only moves, not the result that is read in floats."""
    assert list(table.thresholds) == [
        "x",
        "r1",
        "c2",
        "r2",
        "f" if "f" in table.thresholds else "g",
    ]


def test_nothing_but_the_ends_is_left_in_floats(quantized):
    last = quantized["eliminate-dead-code"].after
    floats = [
        name
        for name, op in last.operations.items()
        if op.results and "xf32" in str(op.results[0].type) and op.name != "top.weight"
    ]
    assert [last.operations[name].name for name in floats] == ["top.dequantize"]


def test_the_outputs_are_those_of_the_float_model(model, data, quantized):
    plain = explorer.compile(model)
    for x in data["x"][:3]:
        real = plain.run({"x": x[None]})["y"]
        found = quantized.run({"x": x[None]})["y"]
        assert np.abs(found - real).max() <= 0.05 * np.abs(real).max()
        assert not np.array_equal(found, real)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_devices_compute_the_same_bits_as_the_numpy_meaning(model, table, data, target):
    c = explorer.compile(model, target, quantization=table)
    meaning = c["compute-in-integers"].after
    # Beyond what was seen, too: saturation is part of the meaning.
    for factor in (0.0, 1.0, 100.0, -100.0):
        x = {"x": np.float32(factor) * data["x"][:1]}
        expected = outputs_by_name(meaning.program, meaning.run(x))
        assert np.array_equal(c.run(x)["y"], expected["y"])


def test_a_threshold_is_a_knob(quantized):
    address = "quantize-tensors/threshold/r1"
    knob = next(k for k in quantized.knobs if k.address == address)
    half = quantized.fork(decisions={address: knob.value / 2})
    scales = [
        next(
            op.to.scale_array[0]
            for name, op in c["quantize-tensors"].after.operations.items()
            if op.name == "top.quantize" and "r1" in str(op.attributes.get("origin"))
        )
        for c in (quantized, half)
    ]
    assert scales[1] == pytest.approx(scales[0] / 2)
    assert half["fuse-bias"] is quantized["fuse-bias"]  # what stands before is shared


@pytest.mark.parametrize("value", [0, -1.0, "wide", float("nan"), True, None])
def test_a_threshold_that_is_none_is_refused(quantized, value):
    if value is None:
        assert quantized.fork(decisions={"quantize-tensors/threshold/r1": None}) is not None
        return
    with pytest.raises(InputError, match="cannot be"):
        quantized.fork(decisions={"quantize-tensors/threshold/r1": value})


def test_a_tensor_that_stays_float_does(quantized):
    mixed = quantized.fork(decisions={"quantize-tensors/mode/c2": "F32"})
    kinds = [op.name for op in mixed["eliminate-dead-code"].after.operations.values()]
    assert kinds.count("top.dequantize") > 1
    declined = [r.reason for r in mixed["quantize-tensors"].rewrites if not r.applied]
    assert any("c2 stays float" in reason for reason in declined)


def test_a_tensor_that_stays_float_needs_no_threshold(model, table, quantized):
    fewer = ThresholdTable({k: v for k, v in table.thresholds.items() if k != "c2"})
    mixed = explorer.compile(model, quantization=fewer, modes={"c2": "F32"})
    whole = explorer.compile(model, quantization=table, modes={"c2": "F32"})
    name = "quantize-tensors"
    assert str(mixed[name].after.program) == str(whole[name].after.program)
    with pytest.raises(InputError, match="lacks 1 tensors of the model: c2"):
        mixed.fork(decisions={"quantize-tensors/mode/c2": "INT16"})


def test_a_threshold_of_nothing_is_refused(quantized):
    with pytest.raises(InputError):
        quantized.fork(decisions={"quantize-tensors/threshold/r9": 1.0})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "c2"}, "lacks 1 tensors of the model: c2"),
        (lambda t: {**t, "c22": t["c2"]}, "no tensor `c22`"),
        (lambda t: {f"other_{k}": v for k, v in t.items()}, "none of the 5 tensors"),
    ],
)
def test_tables_that_do_not_fit_are_refused(model, table, change, said):
    with pytest.raises(InputError, match=said):
        explorer.compile(model, quantization=ThresholdTable(change(table.thresholds)))


def test_types_represent_what_the_table_says():
    wide = Threshold("t", 2.0, -1.0, 2.0)
    assert _fields(type_of(wide)) == ("ui8", pytest.approx(3 / 255), 85)
    assert _fields(type_of(wide, is_symmetric=True)) == ("i8", pytest.approx(2 / 127), 0)
    assert _fields(type_of(wide, "INT16")) == ("i16", pytest.approx(2 / 32767), 0)
    positive = Threshold("t", 2.55, 0.0, 2.55)
    for symmetric in (False, True):
        assert _fields(type_of(positive, is_symmetric=symmetric)) == ("ui8", pytest.approx(0.01), 0)


@pytest.mark.parametrize(
    ("threshold", "low", "high"),
    [(2.0, -1.0, 2.0), (1.5, -1.0, 1.5), (0.5, -0.5, 0.5), (4.0, -2.0, 4.0)],
)
def test_a_threshold_that_was_edited_cuts_off_or_widens(threshold, low, high):
    """Those of TPU-MLIR lie below the ends, too, where tuning found that better."""
    edited = Threshold("t", threshold, -1.0, 2.0)
    assert edited.represented == (low, high)
    kind = type_of(edited)
    assert _fields(kind)[1] == pytest.approx((high - low) / 255)


def _fields(kind):
    return str(kind.storage), float(kind.scale_array[0]), int(kind.zero_point_array[0])


def test_a_channel_that_is_never_used_keeps_no_layer_in_floats(tmp_path, data):
    """Weights of nothing beside a bias, which has to be a whole number of steps of the sums."""
    text = """
    pruned (float[1,4,8,8] x) => (float[1,3,6,6] y) {
      c = Conv (x, w1, b1)
      r = Relu (c)
      y = Conv (r, w2, b2)
    }"""
    path = tmp_path / "pruned.onnx"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 4, 1, 1), "b1": (8,), "w2": (3, 8, 3, 3), "b2": (3,)}
    arrays = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    arrays["w1"][2] = 0
    arrays["w1"][5] *= 1e-30
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    onnx.save(model, path)
    table = calibrate(explorer.load(path), data, "min-max")
    compilation = explorer.compile(path, quantization=table)
    events = compilation["compute-in-integers"].rewrites
    rules = [event.rule for event in events if event.applied]
    assert rules.count("multiply-integers") == 2
    assert compilation.accuracy().passed
    floats = explorer.compile(path)
    inputs = compilation.example_inputs()
    (wanted,), (found,) = (tuple(c.run(inputs).values()) for c in (floats, compilation))
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


def test_weights_have_a_scale_for_each_channel_and_zeros_stay_zeros():
    array = np.stack([np.full((2, 3), 127.0), np.zeros((2, 3)), np.full((2, 3), -12.7)])
    kind = weight_type(array, 0)
    assert kind.axis_number == 0
    assert kind.scale_array[0] == 1 and kind.scale_array[2] == pytest.approx(0.1)
    assert kind.scale_array[1] > 0


@pytest.mark.parametrize(
    ("scale", "weight", "bias", "is_whole"),
    [
        (1.0, -128.0, 7.0, True),
        (0.5, -128.0, 7.0, False),  # what is read is no whole number
        (1.0, 128.0, 7.0, False),  # no byte
        (1.0, 0.5, 7.0, False),
        (1.0, -128.0, 7.5, False),
    ],
)
def test_a_product_is_one_of_whole_numbers_where_all_that_it_reads_is(
    scale: float, weight: float, bias: float, is_whole: bool
):
    kind = f"!top.quantized<ui8, {scale}:0>"
    text = f"""
        func.func @main(%qx: tensor<1x1x2x2x{kind}>) {{
          %w = top.weight() {{weight = "w"}} : tensor<1x1x1x1xf32>
          %b = top.weight() {{weight = "b"}} : tensor<1xf32>
          %x = top.dequantize(%qx) {{to = f32}} : tensor<1x1x2x2xf32>
          %y = top.conv(%x, %w, bias = %b) {{dilations = [1, 1], group = 1, pads = [0, 0, 0, 0],
            strides = [1, 1]}} : tensor<1x1x2x2xf32>
          top.return(%y)
        }}"""
    array = np.full((1, 1, 1, 1), weight, np.float32)
    snapshot = program(text, {"w": array, "b": np.float32([bias])}).snapshot
    (op,) = (op for op in snapshot.program.walk() if isinstance(op, ConvOp))
    rewriter: Any = SimpleNamespace(weights=snapshot.weights)
    others = [operand for index, operand in enumerate(op.operands) if index != 1]
    assert _is_whole(op, array, others, rewriter) == is_whole
