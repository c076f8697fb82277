"""Networks of whole factors and shifts (Deeploy's): the file's numbers on every machine, and on the
processor, with nothing beside the instructions but the conversions at the ends."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.quantization.table import Threshold, ThresholdTable

MACHINES = ("vta-16", "vta-32", "edge-64", "tiny-8", "mac-128", "odd-12x20")
BYTES = ThresholdTable({"x": Threshold("x", 255.0, 0.0, 255.0)})
"""The input is a byte: the scale of 0 to 255 is 1."""


class Network:
    """A graph that is written node by node, and its numbers in whole arithmetic beside it."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.initializers = [], []

    def constant(self, array):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, kind, inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, channels, outputs, kernel=3, group=1):
        shape = (outputs, channels // group, kernel, kernel)
        weight = self.constant(self.random.integers(-30, 31, shape))
        pads = [kernel // 2] * 4
        return self.node("Conv", [x, weight], pads=pads, kernel_shape=[kernel] * 2, group=group)

    def shift(self, x, factor, signed=0, offset=0):
        given = (self.constant(factor), self.constant(offset))
        numbers = {"div": 65536, "n_levels_out": 256, "signed": signed}
        stated = {n: numpy_helper.from_array(np.float32([a])) for n, a in numbers.items()}
        return self.node("RequantShift", [x, *given], **stated)

    def saved(self, path, output):
        shapes = {"x": (1, 3, 8, 8), output: (1, 12)}
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
        graph = helper.make_graph(self.nodes, "graph", [x], [y], self.initializers)
        opsets = [helper.make_opsetid("", 13)]
        save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


@pytest.fixture(scope="module", params=["one", "by channel"])
def network(request, tmp_path_factory):
    """A residual network of five products; its path, an input, and its outputs."""
    net = Network()
    several = request.param == "by channel"
    by_channel = np.reshape(np.linspace(301, 901, 16).astype(int), (16, 1, 1))
    factor, offset = (by_channel, by_channel * 3) if several else (514, 0)
    first = net.shift(net.conv("x", 3, 16), factor, offset=offset)
    y = net.shift(net.conv(first, 16, 16, group=16), 514)
    y = net.shift(net.conv(y, 16, 16, kernel=1), 257, signed=1)
    y = net.node("Add", [y, net.shift(first, 32768, signed=1)])
    y = net.shift(y, 131072)
    y = net.node("MaxPool", [y], kernel_shape=[8, 8], strides=[8, 8])
    y = net.node("Reshape", [y, "shape"])
    net.initializers.append(numpy_helper.from_array(np.array([1, 16]), "shape"))
    weight, bias = (net.constant(net.random.integers(-15, 16, s)) for s in ((12, 16), 12))
    y = net.shift(net.node("Gemm", [y, weight, bias], transB=1), 257, signed=1)
    path = net.saved(tmp_path_factory.mktemp("stated") / "net.onnx", y)
    inputs = {"x": net.random.integers(0, 256, (1, 3, 8, 8)).astype(np.float32)}
    c = explorer.compile(path, "cpu")
    expected = c.run(inputs)[y]
    c.close()
    assert np.unique(expected).size > 4 and np.abs(expected).max() < 127
    return path, inputs, y, expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_computes_the_file_s_numbers_alone(network, machine):
    path, inputs, output, expected = network
    c = explorer.compile(path, machine, quantization=BYTES, inputs=inputs)
    np.testing.assert_array_equal(c.run(inputs)[output], expected)
    assert c.accuracy(inputs).report.bit_exact
    assert is_bit_exact(c["place-on-device"].after, c.executable, inputs)
    assert c.counted.cycles == c.counted.predicted_cycles
    assert [reason for _, reason in c.host_operations] == ["it reads or makes floats"] * 2
    c.close()


def test_the_processor_computes_the_same_with_and_without_a_table(network):
    path, inputs, output, expected = network
    c = explorer.compile(path, "cpu", quantization=BYTES, inputs=inputs)
    np.testing.assert_array_equal(c.run(inputs)[output], expected)
    after = c["fuse-quantization"].after
    kinds = [op.name for op in after.walked if op.name.startswith("top.")]
    assert {"top.unary", "top.binary", "top.requantize"} & set(kinds) <= {"top.requantize"}
    assert kinds.count("top.quantize") == kinds.count("top.dequantize") == 1
    c.close()


@pytest.mark.sampled(1)
def test_only_what_the_file_has_not_quantized_wants_a_threshold(network):
    path, inputs, _, _ = network
    table = explorer.calibrate(path, inputs, method="min-max", corrections=(), arithmetic="integer")
    assert list(table.thresholds) == ["x"]


def test_interpreter_and_whole_arithmetic_agree(network):
    path, inputs, output, expected = network
    np.testing.assert_array_equal(whole(path, inputs)[output], expected)


def whole(path, inputs):
    """The values of a network in numbers of 64 bits, without this project's operations."""
    model = onnx.load(path)
    known = {i.name: numpy_helper.to_array(i).astype(np.int64) for i in model.graph.initializer}
    known |= {name: x.astype(np.int64) for name, x in inputs.items()}
    for node in model.graph.node:
        known[node.output[0]] = WHOLE[node.op_type](node, *[known[n] for n in node.input])
    return known


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A network of offsets that factors do not divide; path, input, name of its output."""
    net = Network()
    odd = 7 * np.arange(16).reshape(16, 1, 1) - 311
    by_channel = np.reshape(np.linspace(301, 901, 16).astype(int), (16, 1, 1))
    y = net.shift(net.conv("x", 3, 16), by_channel, offset=odd)
    y = net.shift(net.conv(y, 16, 16, group=16), 514, offset=33333)
    y = net.node("MaxPool", [y], kernel_shape=[8, 8], strides=[8, 8])
    y = net.node("Reshape", [y, "shape"])
    net.initializers.append(numpy_helper.from_array(np.array([1, 16]), "shape"))
    weight, bias = (net.constant(net.random.integers(-15, 16, s)) for s in ((12, 16), 12))
    y = net.node("Gemm", [y, weight, bias], transB=1)
    y = net.shift(y, 256, signed=1, offset=np.arange(12) - 6)
    path = net.saved(tmp_path_factory.mktemp("uneven") / "net.onnx", y)
    return path, {"x": net.random.integers(0, 256, (1, 3, 8, 8)).astype(np.float32)}, y


@pytest.mark.sampled(2)
@pytest.mark.parametrize("machine", MACHINES)
def test_offsets_that_a_factor_does_not_divide_are_added_to_the_products(uneven, machine):
    path, inputs, output = uneven
    c = explorer.compile(path, machine, quantization=BYTES, inputs=inputs)
    found = c.run(inputs)[output]
    np.testing.assert_array_equal(found, whole(path, inputs)[output])
    assert np.unique(found).size > 4 and np.abs(found).max() < 127
    assert is_bit_exact(c["place-on-device"].after, c.executable, inputs)
    assert c.counted.cycles == c.counted.predicted_cycles
    assert [reason for _, reason in c.host_operations] == ["it reads or makes floats"] * 2
    c.close()


def attribute(node, name):
    (found,) = [a for a in node.attribute if a.name == name]
    return helper.get_attribute_value(found)


def whole_conv(node, x, w):
    pad, group = attribute(node, "pads")[0], attribute(node, "group")
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    each = len(w) // group
    result = np.zeros((1, len(w), *x.shape[2:]), np.int64)
    for o, i, ky, kx in np.ndindex(*w.shape):
        read = padded[0, o // each * w.shape[1] + i]
        result[0, o] += w[o, i, ky, kx] * read[ky : ky + x.shape[2], kx : kx + x.shape[3]]
    return result


def whole_shift(node, x, factor, offset):
    divisor, signed = (
        int(numpy_helper.to_array(attribute(node, n)).item()) for n in ("div", "signed")
    )
    low = -128 if signed else 0
    return np.clip((2 * (x * factor + offset) + divisor) // (2 * divisor), low, low + 255)


WHOLE = {
    "Conv": whole_conv,
    "RequantShift": whole_shift,
    "Add": lambda node, a, b: a + b,
    "MaxPool": lambda node, x: x.max((2, 3), keepdims=True),
    "Reshape": lambda node, x, shape: x.reshape(shape),
    "Gemm": lambda node, x, w, b: x @ w.T + b,
}
