"""Layers of a quantized network, out of the program, give the network's own numbers."""

import numpy as np
import pytest

import explorer
from explorer.npu import compile_layer
from explorer.npu.reading import read_layers
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.machine import describe


@pytest.fixture(scope="module")
def quantized(sample_models):
    """digits_cnn, its table of thresholds, and a digit."""
    model = sample_models / "digits_cnn.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    examples = {"image": images[:20]}
    table = explorer.calibrate(model, examples, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return model, table, {"image": images[200:201]}


def compiled(quantized, machine):
    """The network's layers as the machine scales them, what was refused, and all values."""
    model, table, inputs = quantized
    decisions = {"target/arithmetic": "integer", "target/requantization.scheme": machine.scheme}
    if machine.scheme != "doubling_high_multiply":
        decisions["target/requantization.rounding"] = machine.rounding
    c = explorer.compile(model, quantization=table, decisions=decisions)
    snapshot = c["fuse-quantization"].after
    return read_layers(snapshot), snapshot.run(inputs)


@pytest.mark.parametrize("name", ["vta-16", "mac-128", "odd-12x20"])
def test_every_layer_of_a_network_gives_its_numbers(quantized, name):
    machine = describe(load_target(name))
    found, values = compiled(quantized, machine)
    assert [layer.layer.weights.shape[0] for layer in found.layers] == [16, 32, 48, 64]
    for layer in found.layers:
        x = layer.stored_input(values[layer.input])
        expected = layer.stored_output(values[layer.output])
        np.testing.assert_array_equal(layer.layer.run(x), expected)
        made = compile_layer(layer.layer, machine)
        image = made.image_with(x)
        assert check_program(made.program, image, machine) == []
        result = simulate(made.program, image, machine)
        np.testing.assert_array_equal(made.output_of(result.image), expected)


def test_what_is_no_layer_is_refused_by_name(quantized, sample_models):
    found, _ = compiled(quantized, describe(load_target("vta-16")))
    assert [reason for _, reason in found.refused] == ["its sums are not requantized in it"]
    plain = explorer.compile(sample_models / "digits_cnn.onnx")
    found = read_layers(plain["fuse-activation"].after)
    assert not found.layers
    assert {reason for _, reason in found.refused} == {"its input is not quantized"}
