"""A quantized program is compared with its float source and with its own meaning."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.rewriting import Rule
from explorer.ir.rewriting.passes import RulePass
from explorer.ir.top.linear.convolution import ConvOp
from explorer.tuning.calibration import calibrate

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import CHAIN, source_model


@pytest.fixture(scope="module")
def quantized(tmp_path_factory) -> Compilation:
    model = source_model(tmp_path_factory.mktemp("model"), CHAIN)
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (8, 3, 8, 8)).astype(np.float32)}
    return explorer.compile(model, quantization=calibrate(model, data, "min-max"))


@pytest.fixture(scope="module")
def report(quantized):
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    return quantized.accuracy({"x": x}).report


def test_every_later_pass_and_the_binary_equal_the_quantized_program(quantized, report):
    assert report.passed and report.bit_exact
    assert [p.name for p in report.passes[:-1]] == list(quantized.names)
    names = list(quantized.names)
    for accuracy in report.passes[names.index("compute-in-integers") :]:
        assert accuracy.tensors
        assert all(t.max_relative == 0 for t in accuracy.tensors)


def test_the_distance_from_the_float_model_is_measured_and_judges_nothing(report):
    (output,) = report.float_outputs
    assert 25 < output.sqnr_db < 60 and output.cosine > 0.99
    assert output.max_relative > report.tolerance
    assert next(p.name for p in report.against_float) == "quantize-tensors"
    tensors = {t.tensor for t in report.against_float[0].tensors}
    assert {"r1", "y"} <= tensors


class AddOne(Rule):
    """conv(x, w) {requantization}   =>   the same with one less as its lowest number (wrong)"""

    matches = (ConvOp,)

    def rewrite(self, op, rewriter):
        by = op.get("requantization")
        if by is not None and by.limits[0] == 0:
            rewriter.replace(op, op.altered(requantization=by.with_(limits=(1, by.limits[1]))))


class Planted(RulePass):
    """A wrong pass over integers."""

    name = "planted"
    rules = (AddOne,)


def test_a_wrong_pass_over_integers_is_found(quantized):
    wrong = quantized.insert(Planted(), after="fuse-quantization")
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    accuracy = wrong.accuracy({"x": x})
    assert not accuracy.passed and accuracy.report.bit_exact is False
    fault = accuracy.bisect()
    assert (fault.pass_name, fault.rule) == ("planted", "add-one")


@pytest.fixture(scope="module", params=["x narrow", "r1 narrow", "r1 wide"])
def planted(request, quantized):
    """A tensor with a wrong threshold, and the check of that program."""
    name, how = request.param.split()
    (own,) = [t.threshold for t in quantized.quantization.tensors if t.name == name]
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    address = f"quantize-tensors/threshold/{name}"
    wrong = quantized.fork(decisions={address: own / 8 if how == "narrow" else own * 30})
    return name, how, wrong.accuracy({"x": x})


@pytest.mark.sampled(2)
def test_a_wrong_threshold_is_no_fault_but_costs_decibels(planted, report):
    name, how, wrong = planted
    found = wrong.report
    assert found.passed and found.bit_exact
    assert found.float_outputs[0].sqnr_db < report.float_outputs[0].sqnr_db - 6
    if (name, how) == ("r1", "narrow"):
        first = next(t for t in found.against_float[0].tensors if t.sqnr_db < 15)
        assert first.tensor == name


def test_a_planted_wrong_threshold_is_found_by_bisection(planted, quantized, report):
    name, _, wrong = planted
    assert wrong.bisect() is None
    found = wrong.report.quantization.costliest
    assert found.tensor == name and found.is_certain
    assert found.alone_db == pytest.approx(found.all_db, abs=3)
    assert found.without_db > found.all_db + 3
    assert report.quantization.costliest.all_db > found.all_db + 3
    assert wrong.report.float_outputs[0].sqnr_db == pytest.approx(found.all_db, abs=1.5)
    saved = wrong.compilation.fork(decisions={found.address: "F32"})
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    imported = quantized["fold-constants"].before
    (exact,) = outputs_by_name(imported.program, imported.run({"x": x})).values()
    (output,) = saved.run({"x": x}).values()
    assert decibels(output, exact) == pytest.approx(found.without_db, abs=1.5)


def decibels(found: np.ndarray, expected: np.ndarray) -> float:
    noise = np.sum((found.astype(np.float64) - expected) ** 2)
    return float(10 * np.log10(np.sum(expected.astype(np.float64) ** 2) / noise))


def test_the_error_of_a_layer_is_told_apart_by_what_was_rounded(quantized, report):
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    before = quantized["quantize-tensors"].before
    conv = next(op for op in before.walked if isinstance(op, ConvOp))
    w, b = (before.weights[o.owner.weight.data] for o in conv.operands[1:])
    (exact,) = conv.evaluate(x, w, b)
    step = np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127
    rounded_w = (np.rint(w / step) * step).astype(np.float32)
    chosen = next(t for t in quantized.quantization.tensors if t.name == "x")
    scale = (chosen.high - chosen.low) / 255
    zero = np.rint(-chosen.low / scale)
    stored = np.clip(np.rint(x / scale) + zero, 0, 255)
    rounded_x = ((stored - zero) * scale).astype(np.float32)

    layer = report.quantization.layers[0]
    assert layer.tensor == "r1"
    for found, arguments in [
        (layer.weights_db, (x, rounded_w, b)),
        (layer.activations_db, (rounded_x, w, b)),
        (layer.both_db, (rounded_x, rounded_w, b)),
    ]:
        assert found == pytest.approx(decibels(conv.evaluate(*arguments)[0], exact), abs=0.05)
    assert layer.both_db < min(layer.weights_db, layer.activations_db)


def test_what_saturates_is_counted(planted, report):
    assert all(s.share < 0.05 for s in report.quantization.saturation)
    name, how, wrong = planted
    by_name = {s.tensor: s for s in wrong.report.quantization.saturation}
    assert (by_name[name].share > 0.05) == (how == "narrow")
    if name != "x":
        return
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    chosen = next(t for t in wrong.compilation.quantization.tensors if t.name == "x")
    half = (chosen.high - chosen.low) / 255 / 2
    outside = np.count_nonzero((x > chosen.high + half) | (x < chosen.low - half))
    assert by_name["x"].clipped == outside and outside > 50
    assert by_name["x"].total == x.size


def test_weights_have_a_range_for_every_channel(quantized):
    before = quantized["quantize-tensors"].before
    for op, ranges in zip(
        [op for op in before.walked if isinstance(op, ConvOp)],
        quantized.quantization.weights,
        strict=False,
    ):
        w = before.weights[op.operands[1].owner.weight.data]
        assert ranges.lows == pytest.approx(w.min(axis=(1, 2, 3)), rel=1e-5)
        assert ranges.highs == pytest.approx(w.max(axis=(1, 2, 3)), rel=1e-5)


def test_a_saved_trace_tells_how_it_was_quantized(quantized, report, tmp_path):
    quantized.save(tmp_path / "net.nnx")
    trace = explorer.open(tmp_path / "net.nnx").trace()
    assert trace.quantization == quantized.quantization
    assert trace.accuracy.quantization == quantized.trace().accuracy.quantization
    assert all(t.observed is not None for t in trace.quantization.tensors)


def test_a_last_softmax_is_judged_by_what_it_reads(tmp_path):
    model = source_model(
        tmp_path,
        """
classes (float[1,4] x) => (float[1,4] y) <float[4,4] w>
{ m = MatMul (x, w) y = Softmax (m) }
""",
    )
    data = {"x": np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)}
    quantized = explorer.compile(model, quantization=calibrate(model, data, "min-max"))
    found = quantized.accuracy({"x": data["x"][:1]}).report
    (output,) = found.float_outputs
    costliest = found.quantization.costliest
    assert costliest.is_before_softmax and costliest.all_db < output.sqnr_db
