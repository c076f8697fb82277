"""Inputs of integers that a program only reshapes: the host writes them as they are read."""

import json
from contextlib import closing

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.backends.npu.emitted import LAYOUT, read_emitted

SHAPE = (1, 7, 30)
"""On every target its numbers lie otherwise than those of `READ`."""
READ = (1, 6, 7, 5)


def model_of(path, read_twice=False):
    """Convolutions of the bytes of one input, in one shape or in two."""
    random = np.random.default_rng(0)
    nodes, outputs, constants = [], [], [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.05]),
        helper.make_tensor("zero", TensorProto.INT8, [], [3]),
    ]  # fmt: skip
    shapes = [READ, (1, 5, 6, 7)] if read_twice else [READ]
    nodes.append(helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["f"]))
    for number, shape in enumerate(shapes):
        weights = random.integers(-128, 128, (9, shape[1], 3, 3)).astype(np.int8)
        constants += [
            helper.make_tensor(f"shape{number}", TensorProto.INT64, [4], shape),
            onnx.numpy_helper.from_array(weights, f"weights{number}"),
            helper.make_tensor(f"of_weights{number}", TensorProto.FLOAT, [], [0.002]),
            helper.make_tensor(f"zero_weights{number}", TensorProto.INT8, [], [0]),
        ]
        nodes += [
            helper.make_node("Reshape", ["f", f"shape{number}"], [f"r{number}"]),
            helper.make_node("QuantizeLinear", [f"r{number}", "scale", "zero"], [f"q{number}"]),
            helper.make_node("DequantizeLinear", [f"q{number}", "scale", "zero"], [f"d{number}"]),
            helper.make_node(
                "DequantizeLinear",
                [f"weights{number}", f"of_weights{number}", f"zero_weights{number}"],
                [f"w{number}"],
            ),
            helper.make_node("Conv", [f"d{number}", f"w{number}"], [f"c{number}"]),
            helper.make_node("QuantizeLinear", [f"c{number}", "scale", "zero"], [f"y{number}"]),
        ]
        sizes = [1, 9, shape[2] - 2, shape[3] - 2]
        outputs.append(helper.make_tensor_value_info(f"y{number}", TensorProto.INT8, sizes))
    given = [helper.make_tensor_value_info("x", TensorProto.INT8, SHAPE)]
    graph = helper.make_graph(nodes, "g", given, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)
    return path


def numbers():
    """The ends of the range among them, none twice in a row."""
    found = np.random.default_rng(1).integers(-128, 128, SHAPE)
    found[0, 0, :4] = (-128, 127, 0, 3)
    return found.astype(np.int8)


@pytest.mark.parametrize("target", ["edge-64", "mac-128", "odd-12x20", "tiny-8"])
def test_the_host_arranges_an_input_that_is_only_reshaped(target, tmp_path):
    path = model_of(tmp_path / "reshaped.onnx")
    c, reference = (explorer.compile(path, one) for one in (target, "cpu"))
    with closing(c), closing(reference):
        found = c.run({"x": numbers()})
        np.testing.assert_array_equal(found["y0"], reference.run({"x": numbers()})["y0"])
        assert [layer.title.split(" ")[0] for layer in c.counted.layers] == ["conv"]
        assert c.counted.cycles == c.counted.predicted_cycles


def test_an_input_that_two_read_lies_in_order(tmp_path):
    path = model_of(tmp_path / "twice.onnx", read_twice=True)
    c, reference = (explorer.compile(path, one) for one in ("tiny-8", "cpu"))
    with closing(c), closing(reference):
        found, expected = (one.run({"x": numbers()}) for one in (c, reference))
        for name in ("y0", "y1"):
            np.testing.assert_array_equal(found[name], expected[name])


def test_files_say_how_an_input_is_arranged(tmp_path):
    path, folder = model_of(tmp_path / "reshaped.onnx"), tmp_path / "out"
    with closing(explorer.compile(path, "tiny-8")) as c:
        expected = c.run({"x": numbers()})["y0"]
        c.backend.emit(c.passes, c.target, folder, 0)
    layout = json.loads((folder / LAYOUT).read_text())
    (entry,) = layout["inputs"]
    assert (entry["shape"], entry["arranged"]) == (list(SHAPE), [{"shape": list(READ)}])
    emitted = read_emitted(folder)
    (name,), (result,) = emitted.inputs, emitted.outputs
    outputs, _ = emitted.run({name: numbers()})
    np.testing.assert_array_equal(outputs[result], expected)
    entry["arranged"] = [{"shape": [1, 6, 7, 4]}]
    (folder / LAYOUT).write_text(json.dumps(layout))
    with pytest.raises(explorer.errors.InputError, match="another number of elements"):
        read_emitted(folder)
