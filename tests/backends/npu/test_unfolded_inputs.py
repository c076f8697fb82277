"""Inputs that the host writes with neighbouring positions as channels."""

import json
from contextlib import closing

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.utils.exceptions import VerifyException

import explorer
from explorer.backends.npu.emitted import LAYOUT, read_emitted
from explorer.compilation.bit_exactness import is_bit_exact
from explorer.errors import InputError
from explorer.ir.dialects.npu import LayerOp, UnfoldOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of
from explorer.ir.structure import operations

PASS = "unfold-inputs"


class Net:
    """Convolutions of integers, with scales that are powers of 2: every sum is exact in floats.

    Quotients end in .25 or .75, so that all ways of rounding agree.
    """

    def __init__(self, shape, zero_point, kind=TensorProto.INT8):
        self.kind, self.shape, self.zero_point = kind, shape, zero_point
        self.random = np.random.default_rng(0)
        self.nodes, self.outputs, self.constants = [], [], []
        self._scalar("scale", TensorProto.FLOAT, 0.25)
        self._scalar("of_weights", TensorProto.FLOAT, 0.5)
        self._scalar("of_sums", TensorProto.FLOAT, 0.125)
        self._scalar("of_results", TensorProto.FLOAT, 16.0)
        self._scalar("zero", kind, zero_point)
        self._scalar("zero_of_weights", TensorProto.INT8, 0)
        self._node("DequantizeLinear", ["x", "scale", "zero"], "f")

    def _scalar(self, name, kind, value):
        self.constants.append(helper.make_tensor(name, kind, [], [value]))

    def _node(self, kind, inputs, output, **fields):
        self.nodes.append(helper.make_node(kind, inputs, [output], **fields))

    def convolution(self, name, weights, source="f", **fields):
        numbers = self.random.choice([-128, -64, 64, 0, 0, 0], weights).astype(np.int8)
        biases = 128 * self.random.integers(-99, 99, weights[0]) + 32
        self.constants.append(numpy_helper.from_array(numbers, f"{name}.weights"))
        self.constants.append(numpy_helper.from_array(biases.astype(np.int32), f"{name}.bias"))
        inputs = [f"{name}.weights", "of_weights", "zero_of_weights"]
        self._node("DequantizeLinear", inputs, f"{name}.w")
        self._node("DequantizeLinear", [f"{name}.bias", "of_sums"], f"{name}.b")
        self._node("Conv", [source, f"{name}.w", f"{name}.b"], f"{name}.sums", **fields)
        self._node("QuantizeLinear", [f"{name}.sums", "of_results", "zero"], name)
        self.outputs.append(helper.make_tensor_value_info(name, self.kind, None))
        return self

    def reshaped(self, shape):
        self.constants.append(numpy_helper.from_array(np.array(shape), "shape"))
        self._node("Reshape", ["f", "shape"], "r")
        self._node("QuantizeLinear", ["r", "scale", "zero"], "q")
        self._node("DequantizeLinear", ["q", "scale", "zero"], "d")
        return self

    def returned(self):
        self.constants.append(numpy_helper.from_array(np.array([-1]), "row"))
        self._node("Reshape", ["x", "row"], "same")
        self.outputs.append(helper.make_tensor_value_info("same", self.kind, None))
        return self

    def save(self, path):
        given = [helper.make_tensor_value_info("x", self.kind, self.shape)]
        graph = helper.make_graph(self.nodes, "g", given, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 19)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        return path

    def input(self, seed=1):
        """Ends of the range and the zero point among the numbers."""
        random = np.random.default_rng(seed)
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(self.kind))
        limits = np.iinfo(kind)
        numbers = random.integers(limits.min, limits.max + 1, self.shape)
        ends = random.choice([limits.min, limits.max, self.zero_point], self.shape)
        return np.where(random.random(self.shape) < 0.3, ends, numbers).astype(kind)


def compiled(net, folder, target="mac-128", **decisions):
    """A compilation whose outputs are those of ONNX's reference, at every level."""
    path, x = net.save(folder / "net.onnx"), {"x": net.input()}
    evaluator = ReferenceEvaluator(str(path))
    expected = dict(zip(evaluator.output_names, evaluator.run(None, x), strict=True))
    with closing(explorer.compile(path, target, decisions=decisions)) as c:
        outputs = c.run(x)
        for name, array in expected.items():
            np.testing.assert_array_equal(outputs[name], array)
        found = c.counted
        assert found.cycles == found.predicted_cycles
        assert found.bound_cycles <= found.cycles and found.bound_bytes <= found.bytes
        before = c["place-on-device"].after
        assert is_bit_exact(before, c.executable, x)
        values = before.run(x)
        for level in ("group-layers", "assign-addresses", "emit-instructions"):
            after = c[level].after
            for name, array in after.run(x).items():
                if name in values:
                    np.testing.assert_array_equal(array, values[name])
        return c, found


def unfolds(c):
    return [op for op in operations(c[PASS].after.program) if isinstance(op, UnfoldOp)]


def first_site(c):
    return next(event.site for event in c[PASS].events)


def forms_of_host(c):
    (knob,) = [knob for knob in c.knobs if knob.address == f"{PASS}/unfold/{first_site(c)}"]
    return knob, [choice for choice in knob.choices if choice.endswith(":host")]


BROKEN = {
    "even": ((1, 3, 12, 8), (8, 3, 3, 3), [2, 2], [0, 0, 1, 1], 3),
    "odd sizes": ((1, 3, 11, 13), (8, 3, 3, 3), [2, 2], [1, 1, 1, 1], -128),
    "padding above": ((1, 3, 9, 10), (8, 3, 3, 3), [2, 2], [1, 0, 0, 0], 127),
    "one channel": ((1, 1, 12, 6), (4, 1, 10, 4), [2, 2], [4, 1, 5, 1], 83),
    "one row": ((1, 2, 1, 15), (4, 2, 1, 5), [1, 2], [0, 2, 0, 2], -5),
    "rows that nothing reads": ((1, 3, 10, 9), (8, 3, 1, 3), [2, 2], [0, 0, 0, 0], 0),
    "windows of padding": ((1, 3, 5, 5), (8, 3, 3, 3), [2, 2], [4, 4, 4, 4], -7),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("target", ["mac-128", "odd-12x20"])
def test_the_host_writes_neighbours_as_channels(name, target, tmp_path):
    shape, weights, strides, pads, zero_point = BROKEN[name]
    net = Net(shape, zero_point).convolution("y", weights, strides=strides, pads=pads)
    c, found = compiled(net, tmp_path, target)
    (unfold,) = unfolds(c)
    assert unfold.is_view and unfold.get("padding") == zero_point
    assert [layer.operation for layer in found.layers] == [first_site(c)]
    _, whole = compiled(net, tmp_path, target, **{PASS: False})
    assert found.cycles <= whole.cycles


@pytest.mark.parametrize("target", ["vta-16", "odd-12x20"])
@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_unsigned_numbers(target, zero_point, tmp_path):
    net = Net((1, 3, 9, 12), zero_point, TensorProto.UINT8)
    net.convolution("y", (8, 3, 3, 3), strides=[2, 2], pads=[0, 1, 1, 0])
    c, _ = compiled(net, tmp_path, target)
    (unfold,) = unfolds(c)
    assert unfold.get("padding") == zero_point


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("number", range(5))
def test_every_form_is_a_decision(name, number, tmp_path):
    shape, weights, strides, pads, zero_point = BROKEN[name]
    net = Net(shape, zero_point).convolution("y", weights, strides=strides, pads=pads)
    c, _ = compiled(net, tmp_path)
    knob, forms = forms_of_host(c)
    assert knob.value in forms and "which the host writes" in knob.why
    form = forms[number % len(forms)]
    c, _ = compiled(net, tmp_path, **{knob.address: form})
    assert "{}x{}:host".format(*unfolds(c)[0].unfolding.neighbours) == form
    assert forms_of_host(c)[0].value == form


def test_no_rows_of_padding_are_written(tmp_path):
    net = Net((1, 3, 12, 12), 5).convolution("y", (8, 3, 3, 3), strides=[2, 2], pads=[0, 0, 1, 1])
    form = "2x2:host"
    address = f"{PASS}/unfold/{first_site(compiled(net, tmp_path)[0])}"
    c, _ = compiled(net, tmp_path, **{address: form})
    assert unfolds(c)[0].output.type.get_shape() == (1, 12, 6, 6)
    assert c.memory.peak_bytes < compiled(net, tmp_path, **{PASS: False})[0].memory.peak_bytes


def test_views_between_the_input_and_its_reader(tmp_path):
    net = Net((1, 120), 9).reshaped((1, 1, 12, 10))
    net.convolution("y", (4, 1, 3, 3), "d", strides=[2, 2], pads=[1, 1, 0, 0])
    assert len(unfolds(compiled(net, tmp_path)[0])) == 1


def test_an_input_that_two_layers_read_stays_as_it_is(tmp_path):
    net = Net((1, 3, 12, 12), -3).convolution("y", (8, 3, 3, 3), strides=[2, 2])
    net.convolution("z", (8, 3, 1, 1))
    c, _ = compiled(net, tmp_path)
    assert not unfolds(c)
    assert not [k for k in c.knobs if any(":host" in str(choice) for choice in k.choices)]


def test_an_input_that_is_an_output(tmp_path):
    net = Net((1, 3, 12, 12), -3).convolution("y", (8, 3, 3, 3), strides=[2, 2]).returned()
    compiled(net, tmp_path)


def test_several_pictures_stay_as_they_are(tmp_path):
    net = Net((2, 3, 8, 8), 4).convolution("y", (8, 3, 3, 3), strides=[2, 2])
    assert not unfolds(compiled(net, tmp_path)[0])


def test_files_state_what_is_unfolded(tmp_path):
    net = Net((1, 3, 12, 12), 255, TensorProto.UINT8)
    net.convolution("y", (8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 0, 0])
    folder, x = tmp_path / "out", net.input()
    with closing(explorer.compile(net.save(tmp_path / "net.onnx"), "mac-128")) as c:
        expected = c.run({"x": x})["y"]
        c.backend.emit(c.passes, c.target, folder, 0)
        unfolding = unfolds(c)[0].unfolding
    layout = json.loads((folder / LAYOUT).read_text())
    (entry,) = layout["inputs"]
    assert entry["shape"] == [1, 3, 12, 12] and entry["unfolded"]["padding"] == 255
    assert tuple(entry["unfolded"]["neighbours"]) == unfolding.neighbours
    emitted = read_emitted(folder)
    (name,), (result,) = emitted.inputs, emitted.outputs
    outputs, _ = emitted.run({name: x})
    np.testing.assert_array_equal(outputs[result], expected)
    good = dict(entry["unfolded"])
    damage = [("pads", [0, 0, 0, -1]), ("neighbours", [0, 2]), ("strides", [1]), ("padding", 0.5)]
    for field, value in [*damage, ("pads", None), ("neighbours", [1 << 70, 2])]:
        entry["unfolded"] = {**good, field: value}
        (folder / LAYOUT).write_text(json.dumps(layout))
        with pytest.raises(InputError, match=LAYOUT):
            read_emitted(folder)


def test_what_the_host_does_not_write_does_not_verify(tmp_path):
    net = Net((1, 3, 12, 12), 0).convolution("y", (8, 3, 3, 3), strides=[2, 2])
    c, _ = compiled(net, tmp_path)
    module = c[PASS].after.program.clone()
    (function,) = functions_on(module, "mac-128")
    (unfold,) = [op for op in operations(module) if isinstance(op, UnfoldOp)]
    (layer,) = [op for op in function.body.block.ops if isinstance(op, LayerOp)]
    unfold.verify()
    again = UnfoldOp.make([unfold.input], **unfold.properties)
    function.body.block.insert_op_after(again, unfold)
    with pytest.raises(VerifyException, match="read by another operation"):
        unfold.verify()
    again.detach()
    again.drop_all_references()
    changes = {"pads": (0, 0, 0, 1), "strides": (2,), "neighbours": (0, 1)}
    for name, value in changes.items():
        wrong = UnfoldOp.create(
            operands=[layer.output],
            properties={**unfold.properties, name: type(unfold).make(
                [unfold.input], [unfold.output.type], **{**unfold.properties, name: value}
            ).properties[name]},
            result_types=[unfold.output.type],
        )  # fmt: skip
        with pytest.raises(VerifyException):
            wrong.verify()
    assert identity_of(unfold) == f"{first_site(c)}.unfolded"
