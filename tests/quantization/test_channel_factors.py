"""Factors per channel go from one operation's weights into those of what reads it."""

import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, outputs_by_name
from explorer.ir.operation import identity_of
from explorer.ir.top.reductions.normalization import LayerNormOp
from explorer.quantization.corrections.seams import magnitudes, read_ranges, seams
from explorer.quantization.corrections.smooth_activations import smoothing
from explorer.quantization.table import read_thresholds, write_thresholds

sys.path.insert(0, str(Path(__file__).parents[1]))
from source_models import SEPARABLE, source_model

NORMALIZED = """
normalized (float[1,6,8] x) => (float[1,6,4] y)
<float[8] scale, float[8] shift, float[8,12] w1, float[12] b1, float[12,4] w2> {
  n = LayerNormalization <axis = -1> (x, scale, shift)
  p = MatMul (n, w1)
  c = Add (p, b1)
  r = Relu (c)
  y = MatMul (r, w2)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return source_model(tmp_path_factory.mktemp("model"), SEPARABLE)


@pytest.fixture(scope="module")
def data():
    return {"x": np.random.default_rng(0).normal(size=(16, 4, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def plain(model):
    return explorer.compile(model)


@pytest.fixture(scope="module", params=["smooth", "cle,smooth"])
def rescaled(request, model, data):
    """The network, with filters of different sizes, and the kinds of corrections."""
    table = explorer.calibrate(model, data, method="min-max", corrections=request.param)
    return request.param, explorer.compile(model, quantization=table), table


@pytest.mark.sampled(1)
def test_factors_keep_what_the_program_computes(rescaled, plain, data):
    """Every tensor, in the form that its origin says; the output as it is."""
    kinds, c, _ = rescaled
    before, snapshot = plain["fuse-bias"].after, c["smooth-activations"].after
    inputs = {"x": data["x"][:1]}
    wanted, found = before.run(inputs), snapshot.run(inputs)
    assert c["smooth-activations"].changed and ("cle" not in kinds or c["equalize-layers"].changed)
    compared = 0
    for name, origin in snapshot.origins.items():
        expected = origin.apply(wanted[name])
        assert found[name] == pytest.approx(expected, rel=1e-4, abs=1e-5)
        compared += not np.allclose(expected, wanted[name])
    assert compared >= 3
    outputs = [outputs_by_name(s.program, run) for s, run in ((before, wanted), (snapshot, found))]
    assert outputs[1]["y"] == pytest.approx(outputs[0]["y"], abs=1e-5)


def test_equalized_channels_have_like_ranges_before_and_behind(model, data):
    """Nagel et al.: of every pair the channel's two ranges are the same, but for eighths."""
    table = explorer.calibrate(model, data, method="min-max", corrections="cle")
    c = explorer.compile(model, quantization=table)
    snapshot = c["equalize-layers"].after
    found = [s for _, s in seams(entry_function(snapshot.program), snapshot.weights)]
    pairs = [s for s in found if not isinstance(s, str)]
    assert len(pairs) == 3
    for seam in pairs:
        assert not isinstance(seam.producer, LayerNormOp)
        before = magnitudes(seam.producer, snapshot.weights).max(axis=1)
        behind = read_ranges(seam, [magnitudes(r.op, snapshot.weights) for r in seam.readers])
        # Both are off by half an eighth, and what is before by that of the pair before it.
        assert np.abs(np.log2(before / behind)).max() <= 4 / 16


def test_smoothing_is_the_formula():
    ranges, weights = np.array([8.0, 1.0, 0.0, 0.25]), np.array([0.5, 0.5, 1.0, 2.0])
    for alpha in (0.0, 0.5, 1.0):
        factors = np.exp2(smoothing(ranges, weights, alpha) / 8)
        s = ranges[[0, 1, 3]] ** alpha / weights[[0, 1, 3]] ** (1 - alpha)
        wanted = 1 / s / np.exp(np.mean(np.log(1 / s)))
        assert np.abs(np.log2(factors[[0, 1, 3]] / wanted)).max() <= 1 / 16 + 1e-9
        assert factors[2] == 1


def test_a_normalization_takes_factors_into_its_scale(tmp_path):
    model = source_model(tmp_path, NORMALIZED)
    x = np.random.default_rng(5).normal(size=(8, 6, 8)).astype(np.float32)
    x[:, :, 2] *= 30
    table = explorer.calibrate(model, {"x": x}, method="min-max", corrections="smooth")
    c = explorer.compile(model, quantization=table)
    first = next(r for r in c["smooth-activations"].rewrites if r.applied)
    assert c["smooth-activations"].before.operations[first.site].name == "top.layer_norm"
    accuracy = c.accuracy({"x": x[:1]})
    assert accuracy.passed and accuracy.report.bit_exact, accuracy.summary


def test_alpha_is_a_knob(rescaled):
    _, c, _ = rescaled
    address = "smooth-activations/alpha"
    assert next(k for k in c.knobs if k.address == address).value == 0.5
    fork = c.fork(decisions={address: 1.0})
    assert fork["smooth-activations"].after is not c["smooth-activations"].after
    with pytest.raises(InputError, match="cannot be 2"):
        c.fork(decisions={address: 2})


@pytest.fixture(scope="module")
def unscaled(model, data):
    return explorer.calibrate(model, data, method="min-max", corrections=())


def test_thresholds_follow_factors_that_are_others_than_were_seen(rescaled, unscaled):
    """Without the passes, those of the program without them: min-max keeps all numbers."""
    kinds, c, _ = rescaled
    passes = {"cle": "equalize-layers", "smooth": "smooth-activations"}
    fork = c.fork(disable=[passes[kind] for kind in kinds.split(",")])
    for knob in fork.knobs:
        head = "quantize-tensors/threshold/"
        if knob.address.startswith(head):
            wanted = unscaled.thresholds[knob.address.removeprefix(head)].threshold
            assert knob.value == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("rescaled", ["cle,smooth"], indirect=True)
def test_scaled_tensors_are_compared_bit_by_bit(rescaled, data):
    _, c, _ = rescaled
    accuracy = c.accuracy({"x": data["x"][:1]})
    assert accuracy.passed and accuracy.report.bit_exact, accuracy.summary
    last = [t.tensor for t in accuracy.report.passes[-1].tensors]
    assert "r1" in last


def test_factors_are_in_the_file(rescaled, tmp_path):
    _, _, table = rescaled
    write_thresholds(tmp_path / "net.table", table)
    again = read_thresholds(tmp_path / "net.table").corrections
    assert again is not None
    assert again.digest == table.corrections.digest and again.limits and again.eighths


def test_what_adds_two_tensors_takes_no_factors(tmp_path):
    graph = SEPARABLE.replace("  r2 = Relu (c2)", "  a2 = Add (c2, r1)\n  r2 = Relu (a2)")
    graph = graph.replace("pads = [2,1,2,1], dilations = [2,1]", "pads = [1,1,1,1]")
    c = explorer.compile(source_model(tmp_path, graph))
    snapshot = c["eliminate-common-subexpressions"].after
    found = {
        identity_of(op): seam
        for op, seam in seams(entry_function(snapshot.program), snapshot.weights)
    }
    refused = [seam for seam in found.values() if isinstance(seam, str)]
    assert sum("takes no factors" in reason for reason in refused) == 3
