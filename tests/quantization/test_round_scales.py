"""A model that arrives quantized: its scales become powers of two where a target can only shift."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import explorer
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass, Working, run_pass
from explorer.ir.structure import value_name
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.quantization.quantize_tensors import I8, UI8
from explorer.quantization.round_scales import RoundScales, in_powers

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import source_model

SHIFT = {
    "target/arithmetic": "integer",
    "target/requantization.scheme": "shift",
    "target/requantization.rounding": "down",
}
NETWORK = """
net (float[1,4,8,8] x) => (float[1,8,4,4] y)
<float[8,4,3,3] w1, float[8] b1, float[8,8,3,3] w2, float[8] b2> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1, b1)
  r1 = Relu (c1)
  c2 = Conv <pads = [1,1,1,1]> (r1, w2, b2)
  s = Add (r1, c2)
  y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (s)
}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A quantized model of scales that are no powers of two, and an input."""
    folder = tmp_path_factory.mktemp("written")
    data = np.random.default_rng(0).normal(size=(12, 4, 8, 8)).astype(np.float32)
    model = source_model(folder, NETWORK)
    table = explorer.calibrate(model, {"x": data}, method="min-max", corrections=())
    explorer.compile(model, quantization=table).to_onnx(folder / "quantized.onnx")
    return folder / "quantized.onnx", {"x": data[:1]}


@pytest.fixture(scope="module")
def shifted(written):
    return explorer.compile(written[0], decisions=SHIFT)


def decibels(made, wanted):
    return 10 * np.log10((wanted**2).sum() / ((made - wanted) ** 2).sum())


def narrow(snapshot):
    kinds = [element_type_of(r) for op in snapshot.walked for r in op.results]
    return [k for k in kinds if isinstance(k, QuantizedType) and k.storage.width.data <= 16]


@pytest.mark.parametrize(
    ("storage", "zero"), [(UI8, 0), (UI8, 128), (UI8, 255), (UI8, 77), (I8, 0), (I8, -128), (I8, 5)]
)
def test_a_coarser_type_holds_what_the_old_one_held(storage, zero):
    for scale in (0.05, 0.0625, 0.99, 1.01, 3e-5):
        kind = QuantizedType.get(storage, [scale], [zero])
        new = in_powers(kind)
        (step,), (middle,) = new.scale_array.tolist(), new.zero_point_array.tolist()
        low, high = (-128, 127) if storage == I8 else (0, 255)
        assert np.log2(step) % 1 == 0 and scale <= step * (1 + 1e-6) and step < 2 * scale
        assert (low - middle) * step <= (low - zero) * scale + step / 2
        assert (high - middle) * step >= (high - zero) * scale - step / 2


def test_every_scale_becomes_a_power_of_two(shifted):
    before, after = shifted["round-scales"].before, shifted["round-scales"].after
    assert any(np.any(np.log2(k.scale_array) % 1) for k in narrow(before))
    assert len(narrow(after)) == len(narrow(before)) > 4
    for kind in narrow(after):
        assert np.all(np.log2(kind.scale_array) % 1 == 0)


def test_it_is_measured_against_the_source_and_exact_behind(shifted, written):
    accuracy = shifted.accuracy(written[1])
    assert accuracy.passed and accuracy.report.bit_exact
    assert accuracy.report.float_outputs[0].sqnr_db > 30
    assert accuracy.report.quantization is None  # no float operation was quantized


def test_it_is_nearer_to_the_source_than_with_its_own_scales(shifted, written):
    path, inputs = written
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, inputs)
    own = shifted.fork(disable=("round-scales",))
    far = decibels(own.run(inputs)["y"], wanted)
    assert far < 25 < decibels(shifted.run(inputs)["y"], wanted) - 5


def test_targets_with_multipliers_keep_the_source_s_scales(written):
    c = explorer.compile(written[0])
    assert "round-scales" not in c.names
    assert c.accuracy(written[1]).report.bit_exact is None


def test_powers_of_two_stay(written, tmp_path):
    """A program whose scales are powers of two is the source's, number by number."""
    c = explorer.compile(shift_model(tmp_path), decisions=SHIFT)
    assert not c["round-scales"].changed
    assert c.accuracy().passed and c.accuracy().report.bit_exact is None


def shift_model(folder):
    graph = """
    net (float[1,4,8,8] x) => (float[1,4,8,8] y) <float s = {0.25}, uint8 z = {128}> {
      q = QuantizeLinear (x, s, z)
      d = DequantizeLinear (q, s, z)
      r = Relu (d)
      p = QuantizeLinear (r, s, z)
      y = DequantizeLinear (p, s, z)
    }
    """
    return source_model(folder, graph)


def test_what_depends_on_a_scale_keeps_it_and_says_so(tmp_path):
    """Stored numbers that leave the program, or that something else computes with."""
    graph = """
    net (float[1,4,8,8] x) => (uint8[1,4,8,8] q, float[1,4,8,8] y)
    <float s = {0.3}, uint8 z = {128}> {
      q = QuantizeLinear (x, s, z)
      y = DequantizeLinear (q, s, z)
    }
    """
    c = explorer.compile(source_model(tmp_path, graph), decisions=SHIFT)
    declined = [r.reason for r in c["round-scales"].rewrites if not r.applied]
    assert declined and "depends on its scale" in declined[0]
    assert not c["round-scales"].changed
    assert c.accuracy().passed


class Limit(Pass):
    """Results of requantizations stay between 10 and 200, as those of activations do."""

    name = "limit"

    def run(self, rewriter, options):
        events = EventLog(self.name, rewriter)
        for op in [op for op in rewriter.module.walk() if isinstance(op, RequantizeOp)]:
            with events.rewrite("limit", op, ""):
                rewriter.update(op, by=op.by.with_(limits=(10, 200)))
        return events.rewrites


def test_programs_of_integers_are_changed_too(written):
    """Biases count in steps of sums, limits in steps of the result: nothing else moves."""
    path, inputs = written
    integers = explorer.compile(path)["compute-in-integers"]
    made, names = [integers.after], integers.names
    for one in (Limit(), RoundScales()):
        done = run_pass(one, Working.at(made[-1], names), RewriteOptions({}))
        made.append(done.after)
        names = done.names
    _, program, rounded = made
    before, after = ([op.by for op in s.walked if isinstance(op, RequantizeOp)] for s in made[1:])
    assert len(before) == len(after) > 0
    for old, new in zip(before, after, strict=True):
        factor = old.to.scale_array[0] / new.to.scale_array[0]
        ends = np.array(old.limits) - old.to.zero_point_array[0]
        moved = np.array(new.limits) - new.to.zero_point_array[0]
        assert np.all(np.abs(ends * factor - moved) <= 0.5) and np.any(ends != moved)
    assert all(np.all(np.log2(kind.scale_array) % 1 == 0) for kind in narrow(rounded))
    outputs = [s.run(inputs)[value_name(s.walked[-1].operands[0])] for s in (program, rounded)]
    assert decibels(outputs[1], outputs[0]) > 30 and not np.array_equal(*outputs)
