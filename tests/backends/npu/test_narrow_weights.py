"""Weights of 4 bits next to activations of 8, from a calibration to the array."""

import numpy as np
import pytest

import explorer
from explorer.errors import InputError
from explorer.quantization.table import read_thresholds, write_thresholds
from explorer.targets import load_target

NARROW = {"engines.matrix.weight_bits": 4}


@pytest.fixture(scope="module")
def calibrated(digits):
    """The model, a table for weights of 4 bits, a digit, and the other digits."""
    model, _, x = digits
    images = np.load(model.with_name("digits_test.npz"))["images"]
    table = explorer.calibrate(
        model, {"image": images[:20]}, method="min-max", corrections="adaround",
        arithmetic="integer", weight_bits=4,
    )  # fmt: skip
    return model, table, x


def integers_of(c):
    """Weights of products by name, as they were quantized."""
    found = c["quantize-tensors"].after.weights
    return {name: array for name, array in found.items() if name.endswith(".integers")}


def test_weights_take_four_bits_and_keep_the_integers_that_were_chosen(calibrated):
    model, table, _ = calibrated
    c = explorer.compile(model, "tiny-8", quantization=table)
    chosen = table.corrections.roundings
    assert chosen and all(np.abs(one.integers).max() == 7 for one in chosen.values())
    found = integers_of(c)
    assert found and all(np.abs(array).max() == 7 for array in found.values())
    for name, one in chosen.items():
        np.testing.assert_array_equal(found[f"{name}.integers"], one.integers)


def test_an_array_of_narrow_weights_runs_the_network_with_half_the_bytes(calibrated):
    model, table, x = calibrated
    plain = {"engines.dma.decoder": "none"}
    same = {"unfold-inputs": False}
    target = load_target("mac-128", NARROW | plain)
    narrow = explorer.compile(model, target, quantization=table, decisions=same)
    assert narrow.accuracy(x).report.bit_exact
    target = load_target("mac-128", plain)
    wide = explorer.compile(model, target, quantization=table, decisions=same)
    wide.run(x)
    runs = narrow.counted, wide.counted
    assert runs[0].cycles == runs[0].predicted_cycles < runs[1].cycles
    moved = [dict(run.loaded_bytes)["weights"] for run in runs]
    assert 2 * moved[0] == moved[1]
    assert not [one for one in narrow.placed_elsewhere if "conv" in one[0] or "matmul" in one[0]]


def test_weights_of_bytes_name_the_bits_that_the_array_lacks(digits):
    model, table, _ = digits
    c = explorer.compile(model, load_target("mac-128", NARROW), quantization=table)
    reasons = [reason for name, _, reason in c.placed_elsewhere if name.startswith("conv")]
    assert reasons and all("are no numbers of 5 bits" in reason for reason in reasons)


def test_the_width_of_a_layer_is_a_knob(calibrated, tmp_path):
    model, table, _ = calibrated
    write_thresholds(tmp_path / "t.table", table)
    c = explorer.compile(model, "tiny-8", quantization=read_thresholds(tmp_path / "t.table"))
    knobs = [knob for knob in c.knobs if knob.address.startswith("quantize-tensors/weight-bits/")]
    assert knobs and all((knob.value, knob.choices) == (4, (8, 4)) for knob in knobs)
    assert len(knobs) == len(integers_of(c))
    wide = c.fork(decisions={knobs[0].address: 8})
    words = {
        rewrite.site: rewrite.explanation
        for rewrite in wide["quantize-tensors"].rewrites
        if rewrite.rule == "weights"
    }
    name = knobs[0].address.rsplit("/", 1)[1]
    assert words.pop(name).startswith("signed bytes, ")
    assert words and all(text.startswith("signed numbers of 4 bits, ") for text in words.values())
    with pytest.raises(InputError, match="cannot be 5"):
        c.fork(decisions={knobs[0].address: 5})


def test_other_widths_are_refused(digits):
    model, _, x = digits
    with pytest.raises(InputError, match="weights cannot have 3 bits"):
        explorer.calibrate(model, x, weight_bits=3)
    with pytest.raises(InputError, match="weight_bits is for thresholds"):
        explorer.calibrate(model, weights="int4", weight_bits=4)
