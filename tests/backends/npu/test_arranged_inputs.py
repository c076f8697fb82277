"""Inputs and results that a program only transposes: the host writes and reads them so."""

import json
from contextlib import closing

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.utils.exceptions import VerifyException

import explorer
from explorer.backends.npu.emitted import LAYOUT, read_emitted
from explorer.errors import InputError
from explorer.ir.dialects.npu import PermuteOp
from explorer.ir.operation import identity_of, to_attribute
from explorer.ir.structure import operations
from explorer.npu.layers.arrangement import Step, arranged, restored
from tests.backends.npu.test_unfolded_inputs import Net, compiled

PASS = "arrange-inputs"
TO_CHANNELS = [0, 3, 1, 2]


class Moved(Net):
    """Moves before and after convolutions; what is moved is quantized with the same scale."""

    scale = "scale"

    def transposed(self, name, order, source="f"):
        self._node("Transpose", [source], f"{name}.t", perm=order)
        return self._again(name)

    def reshaped_to(self, name, shape, source="f"):
        self.constants.append(numpy_helper.from_array(np.array(shape), f"{name}.shape"))
        self._node("Reshape", [source, f"{name}.shape"], f"{name}.t")
        return self._again(name)

    def joined(self, name, sources, axis):
        self._node("Concat", sources, f"{name}.t", axis=axis)
        return self._again(name)

    def product(self, name, shape, source):
        weights = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
        self.constants.append(numpy_helper.from_array(weights, f"{name}.weights"))
        self._node(
            "DequantizeLinear", [f"{name}.weights", "of_weights", "zero_of_weights"], f"{name}.w"
        )
        self._node("MatMul", [source, f"{name}.w"], f"{name}.m")
        self._node("QuantizeLinear", [f"{name}.m", "of_results", "zero"], name)
        self.outputs.append(helper.make_tensor_value_info(name, self.kind, None))
        return self

    def _again(self, name):
        self._node("QuantizeLinear", [f"{name}.t", self.scale, "zero"], f"{name}.q")
        self._node("DequantizeLinear", [f"{name}.q", self.scale, "zero"], name)
        return self

    def dequantized(self, name):
        """What a convolution makes, with its scale."""
        self._node("DequantizeLinear", [name, "of_results", "zero"], f"{name}.f")
        self.scale = "of_results"
        return self

    def output(self, name):
        """Stored integers of what was moved."""
        self.outputs.append(helper.make_tensor_value_info(f"{name}.q", self.kind, None))
        return self


def permutes(c):
    return [op for op in operations(c[PASS].after.program) if isinstance(op, PermuteOp)]


def knobs(c):
    return [knob for knob in c.knobs if knob.address.startswith(f"{PASS}/")]


def titles(found):
    return [layer.title.split(" ")[0] for layer in found.layers]


@pytest.mark.parametrize("target", ["edge-64", "mac-128", "odd-12x20", "tiny-8"])
@pytest.mark.parametrize(
    ("shape", "zero_point", "kind", "fields"),
    [
        ((1, 9, 7, 3), -128, TensorProto.INT8, {"pads": [0, 0, 1, 1], "strides": [2, 2]}),
        ((2, 5, 6, 17), 127, TensorProto.INT8, {"pads": [1, 0, 0, 1]}),
        ((3, 4, 3, 2), 255, TensorProto.UINT8, {"pads": [1, 1, 1, 1]}),
        ((1, 3, 3, 20), 0, TensorProto.UINT8, {}),
    ],
)
def test_pictures_with_channels_last(shape, zero_point, kind, fields, target, tmp_path):
    net = Moved(shape, zero_point, kind).transposed("t", TO_CHANNELS)
    net.convolution("y", (5, shape[3], 3, 3), "t", **fields)
    c, found = compiled(net, tmp_path, target)
    assert [op.get("permutation") for op in permutes(c)] == [tuple(TO_CHANNELS)]
    assert len(found.layers) == 1 and titles(found) == ["conv"]
    (knob,) = knobs(c)
    assert (knob.value, knob.choices) == ("host", ("none", "host"))
    (event,) = c[PASS].events
    assert event.applied and event.address == knob.address


def test_a_fork_moves_numbers_by_a_layer(tmp_path):
    net = Moved((1, 5, 4, 16), -1).transposed("t", TO_CHANNELS)
    net.convolution("y", (4, 16, 3, 3), "t")
    c, fast = compiled(net, tmp_path)
    (knob,) = knobs(c)
    other, slow = compiled(net, tmp_path, **{knob.address: "none"})
    assert not permutes(other) and knobs(other)[0].value == "none"
    assert slow.cycles > fast.cycles and len(slow.layers) > len(fast.layers)
    with pytest.raises(InputError, match="cannot be 'device'"):
        compiled(net, tmp_path, **{knob.address: "device"})


def test_views_and_orders_of_axes_in_a_row(tmp_path):
    net = Moved((1, 210), 9).reshaped_to("r", (6, 5, 7, 1)).transposed("t", [3, 1, 0, 2], "r")
    net.reshaped_to("s", (1, 7, 5, 6), "t").transposed("u", [0, 2, 3, 1], "s")
    net.convolution("y", (4, 5, 3, 3), "u")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 2 and titles(found) == ["conv"]


def test_what_is_moved_and_read_by_several(tmp_path):
    net = Moved((1, 6, 7, 3), 5).transposed("t", TO_CHANNELS)
    net.convolution("y", (4, 3, 3, 3), "t").convolution("z", (4, 3, 1, 1), "t")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 1 and titles(found) == ["conv", "conv"]


def test_what_is_moved_and_returned(tmp_path):
    net = Moved((1, 6, 7, 3), 5).transposed("t", TO_CHANNELS).output("t")
    net.convolution("y", (4, 3, 3, 3), "t")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 1 and titles(found) == ["conv"]


def test_an_input_that_two_read_is_moved_by_a_layer(tmp_path):
    net = Moved((1, 6, 7, 16), 5).transposed("t", TO_CHANNELS)
    net.convolution("y", (4, 16, 3, 3), "t").convolution("z", (4, 6, 1, 1))
    c, _ = compiled(net, tmp_path)
    assert not permutes(c)
    (event,) = c[PASS].events
    assert "is read by" in event.reason and "written once" in event.reason
    (knob,) = knobs(c)
    assert knob.choices == ("none",)
    with pytest.raises(InputError, match="written once"):
        compiled(net, tmp_path, **{knob.address: "host"})


@pytest.mark.parametrize("target", ["edge-64", "mac-128", "odd-12x20", "tiny-8", "vta-16"])
@pytest.mark.parametrize(
    ("shape", "zero_point", "kind"),
    [
        ((1, 3, 7, 5), -128, TensorProto.INT8),
        ((2, 17, 4, 3), 127, TensorProto.INT8),
        ((3, 2, 3, 4), 255, TensorProto.UINT8),
    ],
)
def test_results_with_channels_last(shape, zero_point, kind, target, tmp_path):
    net = Moved(shape, zero_point, kind).convolution("y", (5, shape[1], 3, 3), pads=[0, 1, 1, 0])
    net.outputs.clear()
    net.dequantized("y").transposed("t", [0, 2, 3, 1], "y.f").output("t")
    c, found = compiled(net, tmp_path, target)
    assert len(permutes(c)) == 1 and titles(found) == ["conv"]
    (event,) = c[PASS].events
    assert event.applied and "the host reads" in event.explanation
    (knob,) = knobs(c)
    assert (knob.value, knob.choices) == ("host", ("none", "host"))


def test_moves_in_a_row_at_both_ends(tmp_path):
    net = Moved((1, 210), 9).reshaped_to("r", (6, 5, 7, 1)).transposed("t", [3, 1, 0, 2], "r")
    net.convolution("y", (4, 5, 3, 3), "t").dequantized("y")
    net.outputs.clear()
    net.transposed("u", [0, 2, 3, 1], "y.f").reshaped_to("s", (5, 4, 2, 2), "u")
    net.transposed("v", [1, 3, 0, 2], "s").reshaped_to("w", (8, 10), "v").output("w")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 3 and titles(found) == ["conv"]
    last = [event.address for event in c[PASS].events][1]
    other, slow = compiled(net, tmp_path, **{last: False})
    assert slow.cycles > found.cycles and len(permutes(other)) < 3


def test_a_result_that_a_layer_reads_is_moved_by_one(tmp_path):
    net = Moved((1, 16, 4, 4), 5).convolution("y", (16, 16, 3, 3), pads=[1, 1, 1, 1])
    net.dequantized("y").transposed("t", [0, 2, 3, 1], "y.f").output("t")
    net.convolution("z", (4, 4, 1, 1), "t")
    c, _ = compiled(net, tmp_path)
    assert not permutes(c)
    (event,) = c[PASS].events
    assert not event.applied and "read as it is by" in event.reason


@pytest.mark.parametrize("target", ["edge-64", "mac-128", "odd-12x20", "tiny-8"])
def test_a_result_that_a_product_reads_flattened_is_moved_by_none(target, tmp_path):
    net = Moved((1, 3, 6, 5), 5).convolution("y", (7, 3, 3, 3)).dequantized("y")
    net.outputs.clear()
    net.transposed("t", [0, 2, 3, 1], "y.f").output("t")
    net.reshaped_to("r", (1, 7 * 4 * 3), "t").product("z", (7 * 4 * 3, 9), "r")
    c, found = compiled(net, tmp_path, target)
    assert len(permutes(c)) == 1 and titles(found) == ["conv", "matmul"]
    (knob,) = knobs(c)
    assert (knob.value, knob.choices) == ("host", ("none", "host"))
    if target == "mac-128":
        other, slow = compiled(net, tmp_path, target, **{knob.address: "none"})
        assert not permutes(other) and titles(slow) == ["conv", "transpose", "matmul"]
        assert slow.cycles > found.cycles


def test_a_result_that_is_joined_with_itself(tmp_path):
    net = Moved((1, 3, 6, 5), 5).convolution("y", (4, 3, 3, 3)).dequantized("y")
    net.outputs.clear()
    net.transposed("t", [0, 2, 3, 1], "y.f").output("t")
    net.joined("j", ["t", "t"], 3).transposed("u", [0, 3, 1, 2], "j")
    net.convolution("z", (5, 8, 1, 1), "u")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 1 and titles(found) == ["conv", "concat", "conv"]


def test_a_result_in_two_orders(tmp_path):
    net = Moved((1, 3, 6, 5), 5).convolution("y", (4, 3, 3, 3)).dequantized("y")
    net.transposed("t", [0, 2, 3, 1], "y.f").output("t")
    net.transposed("u", [3, 2, 1, 0], "y.f").output("u")
    c, found = compiled(net, tmp_path)
    assert len(permutes(c)) == 2 and titles(found) == ["conv"]


@pytest.mark.parametrize("is_twice", [False, True])
def test_integers_that_the_host_makes_of_floats(is_twice, tmp_path):
    """A processor quantizes the input, and may read the integers, too."""
    net = Moved((1, 6, 7, 3), 5)
    net._node("QuantizeLinear", ["given", "scale", "zero"], "x")
    net.nodes.insert(0, net.nodes.pop())
    net.transposed("t", TO_CHANNELS).convolution("y", (4, 3, 3, 3), "t")
    if is_twice:
        net._node("Sinh", ["f"], "z")
        net.outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    given = [helper.make_tensor_value_info("given", TensorProto.FLOAT, net.shape)]
    graph = helper.make_graph(net.nodes, "g", given, net.outputs, net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    x = {"given": net.random.choice([-1e6, -9, -0.0, 0.124, 99], net.shape).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(["y"], x)[0]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with closing(explorer.compile(tmp_path / "net.onnx", "mac-128")) as c:
        np.testing.assert_array_equal(c.run(x)["y"], expected)
        assert len(permutes(c)) == 1 and titles(c.counted) == ["conv"]
        assert c.counted.cycles == c.counted.predicted_cycles


def test_two_orders_of_one_input_each_have_an_event(tmp_path):
    net = Moved((1, 6, 6, 6), 5).transposed("t", TO_CHANNELS)
    net.transposed("u", [0, 1, 3, 2]).convolution("y", (4, 6, 3, 3), "t")
    net.convolution("z", (4, 6, 1, 1), "u")
    c, _ = compiled(net, tmp_path)
    assert len(c[PASS].events) == 2 and all(event.reason for event in c[PASS].events)


@pytest.mark.parametrize("target", ["edge-64", "mac-128"])
@pytest.mark.parametrize("has_layer", [False, True])
def test_an_input_that_is_an_output_as_it_is(has_layer, target, tmp_path):
    net = Moved((1, 6, 7, 3), 5)
    net._node("Identity", ["x"], "same")
    net.outputs.append(helper.make_tensor_value_info("same", net.kind, None))
    if has_layer:
        net.transposed("t", TO_CHANNELS).convolution("y", (4, 3, 3, 3), "t")
    else:
        net.nodes = net.nodes[1:]
    path, x = net.save(tmp_path / "net.onnx"), net.input()
    expected = ReferenceEvaluator(str(path)).run(["same"], {"x": x})[0]
    with closing(explorer.compile(path, target)) as c:
        np.testing.assert_array_equal(c.run({"x": x})["same"], expected)
        assert len(permutes(c)) == has_layer


def test_matrices_are_products_second_operands_as_they_were(tmp_path):
    net = Moved((9, 20), 5).transposed("t", [1, 0])
    net._node("MatMul", ["f", "t"], "sums")
    net._node("QuantizeLinear", ["sums", "of_results", "zero"], "y")
    net.outputs.append(helper.make_tensor_value_info("y", net.kind, None))
    compiled(net, tmp_path)


def test_files_state_the_order(tmp_path):
    net = Moved((2, 5, 6, 3), 255, TensorProto.UINT8).transposed("t", TO_CHANNELS)
    net.convolution("y", (4, 3, 3, 3), "t")
    folder, x = tmp_path / "out", net.input()
    with closing(explorer.compile(net.save(tmp_path / "net.onnx"), "mac-128")) as c:
        expected = c.run({"x": x})["y"]
        c.backend.emit(c.passes, c.target, folder, 0)
    layout = json.loads((folder / LAYOUT).read_text())
    (entry,) = layout["inputs"]
    assert entry["shape"] == [2, 5, 6, 3] and entry["arranged"] == [{"permutation": TO_CHANNELS}]
    emitted = read_emitted(folder)
    (name,), (result,) = emitted.inputs, emitted.outputs
    outputs, _ = emitted.run({name: x})
    np.testing.assert_array_equal(outputs[result], expected)
    for damage in (
        [{"permutation": [0, 3, 1]}], [{"permutation": [0, 3, 1, 1]}], [{}], [[]], ["shape"], 7,
        [{"shape": [2, 5, 6, 4]}], [{"shape": [2, 5, -6, -3]}], [{"shape": 9}], [None],
        [{"shape": [2, 5, 6, 3], "permutation": TO_CHANNELS}], [{"shape": [2, 5, 3, 6]}],
        [{"shape": [1 << 70, 0, 6, 3]}],
    ):  # fmt: skip
        entry["arranged"] = damage
        (folder / LAYOUT).write_text(json.dumps(layout))
        with pytest.raises(InputError, match=LAYOUT):
            read_emitted(folder)


def test_what_the_host_does_not_write_does_not_verify(tmp_path):
    net = Moved((1, 6, 7, 3), 5).transposed("t", TO_CHANNELS)
    c, _ = compiled(net.convolution("y", (4, 3, 3, 3), "t"), tmp_path)
    module = c[PASS].after.program.clone()
    (op,) = [one for one in operations(module) if isinstance(one, PermuteOp)]
    op.verify()
    (reader,) = [use.operation for use in op.output.uses]
    for order in ((0, 1, 2), (0, 3, 1, 1)):
        wrong = PermuteOp.create(
            operands=[op.input], result_types=[op.output.type],
            properties={"permutation": to_attribute(order)},
        )  # fmt: skip
        with pytest.raises(VerifyException, match="no order of 4 axes"):
            wrong.verify()
        wrong.drop_all_references()
    made = PermuteOp.make([reader.results[0]], permutation=(0, 1, 2, 3))
    with pytest.raises(VerifyException, match=r"not by the host|read by another"):
        made.verify()
    assert identity_of(op).startswith("transpose")


@pytest.mark.parametrize("seed", range(8))
def test_steps_are_undone(seed):
    random = np.random.default_rng(seed)
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    steps, shape = [], x.shape
    for _ in range(random.integers(0, 5)):
        if random.integers(2):
            step = Step(permutation=tuple(map(int, random.permutation(len(shape)))))
        else:
            step = Step(shape=tuple(map(int, random.permutation(shape))))
        assert not step.problem(shape)
        steps.append(step)
        shape = step.result(shape)
    found = arranged(x, tuple(steps))
    assert found.shape == shape
    np.testing.assert_array_equal(restored(found, tuple(steps), x.shape), x)
