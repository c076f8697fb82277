"""Layers of a quantized network, out of the program, give the network's own numbers."""

import functools

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import explorer
from explorer.npu import LayerError, compile_layer
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


@pytest.fixture(scope="module")
def read(quantized):
    """Machine and what `compiled` says, by the machine's name; each is compiled once."""

    @functools.cache
    def of(name):
        machine = describe(load_target(name))
        return machine, *compiled(quantized, machine)

    return of


@pytest.mark.parametrize("name", ["vta-16", "mac-128", "odd-12x20"])
def test_every_layer_of_a_network_gives_its_numbers(read, name):
    machine, found, values = read(name)
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


@pytest.mark.parametrize("name", ["vta-16", "mac-128", "odd-12x20"])
def test_pools_of_a_network_give_its_numbers(read, name):
    machine, found, values = read(name)
    assert [one.layer.kernel for one in found.windows] == [(2, 2), (2, 2)]
    for one in found.windows:
        check_windows_of(one, values, machine)


def check_windows_of(found, values, machine):
    """NumPy's meaning and the simulated run of a layer, against the program's values."""
    x, expected = (found.stored_input(values[found.input]),
                   found.stored_output(values[found.output]))  # fmt: skip
    np.testing.assert_array_equal(found.layer.run(x), expected)
    made = compile_layer(found.layer, machine)
    image = made.image_with(x)
    assert check_program(made.program, image, machine) == []
    result = simulate(made.program, image, machine)
    np.testing.assert_array_equal(made.output_of(result.image), expected)


@pytest.mark.parametrize("name", ["tiny-8", "vta-16"])
def test_a_function_of_a_network_is_read_as_a_table(name, tmp_path):
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["y"]),
        helper.make_node("AveragePool", ["y"], ["z"], **window),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 19, size, size))
             for n, size in (("x", 6), ("z", 3))]  # fmt: skip
    path = tmp_path / "function.onnx"
    save(helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]),
                           opset_imports=[helper.make_opsetid("", 17)]), path)  # fmt: skip
    random = np.random.default_rng(0)
    x = {"x": random.normal(0, 3, (1, 19, 6, 6)).astype(np.float32)}
    table = explorer.calibrate(path, x, method="min-max", corrections=(), arithmetic="integer")
    machine = describe(load_target(name))
    found, values = compiled((path, table, x), machine)
    (function,) = found.windows
    assert len(function.layer.table) == 256
    if name == "vta-16":
        with pytest.raises(LayerError, match="its vector engine has no table"):
            compile_layer(function.layer, machine)
        return
    check_windows_of(function, values, machine)
    (average,) = found.layers
    assert average.layer.kernel == (2, 2)


def test_what_is_no_layer_is_refused_by_name(read, sample_models):
    _, found, _ = read("vta-16")
    assert [reason for _, reason in found.refused] == ["its sums are not requantized in it"]
    plain = explorer.compile(sample_models / "digits_cnn.onnx")
    found = read_layers(plain["fuse-activation"].after)
    assert not found.layers
    assert {reason for _, reason in found.refused} == {"its input is not quantized"}
