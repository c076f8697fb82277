"""Attention with and without its softmax: products of computed matrices, heads split and joined;
and a transformer with its layer normalizations."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import explorer

HEADS, ROWS = 2, 16


def attention(folder, each, has_softmax=False, rows=ROWS):
    """Of two examples, heads of so many channels and rows; the scores go on as they are, or their
    softmax does. A model, its table, and an input."""
    random, wide = np.random.default_rng(0), HEADS * each
    nodes, constants = [], [numpy_helper.from_array(np.array([0, 0, HEADS, each]), "split"),
                            numpy_helper.from_array(np.array([0, 0, wide]), "joined")]  # fmt: skip
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weights = random.normal(0, 0.5, (wide, wide)).astype(np.float32)
        constants.append(numpy_helper.from_array(weights, f"w{name}"))
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            helper.make_node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            helper.make_node("Transpose", [f"{name}1"], [name], perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        *([helper.make_node("Softmax", ["scores"], ["shares"], axis=-1)] if has_softmax else []),
        helper.make_node("MatMul", ["shares" if has_softmax else "scores", "v"], ["y0"]),
        helper.make_node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["y1", "joined"], ["y2"]),
        helper.make_node("MatMul", ["y2", "wq"], ["y"]),
    ]
    shape = (2, rows, wide)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "attention", infos[:1], infos[1:], constants)
    path = folder / "attention.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = {"x": random.normal(0, 1, shape).astype(np.float32)}
    table = explorer.calibrate(
        path, {"x": x["x"][None]}, method="min-max", corrections=(), arithmetic="integer"
    )
    return path, table, x


# Weights of VTA take sixteen rows, so that matrices of others get rows of zeros; of an array of
# 12 x 20 heads of 16 channels leave a block of rows that is filled with channels of zeros.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("target", "each", "has_softmax", "rows"),
    [("tiny-8", 8, False, ROWS), ("tiny-8", 8, True, ROWS), ("odd-12x20", 8, False, ROWS),
     ("odd-12x20", 8, True, ROWS), ("odd-12x20", 16, True, ROWS), ("vta-16", 16, False, ROWS),
     ("vta-16", 6, False, 18), ("vta-32", 20, False, 7)],
)  # fmt: skip
def test_everything_but_the_ends_runs_on_the_machine(tmp_path, target, each, has_softmax, rows):
    path, table, x = attention(tmp_path, each, has_softmax, rows)
    c = explorer.compile(path, target, quantization=table)
    assert c.accuracy(x).report.bit_exact
    found = c.counted
    assert found is not None and found.cycles == found.predicted_cycles
    assert {reason for _, reason in c.host_operations} == {"it reads or makes floats"}
    assert [part.device for part in c.program.parts] == ["cpu", target, "cpu"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["tiny-8", "edge-64", "mac-128", "odd-12x20"])
def test_a_transformer_runs_on_the_machines_of_the_full_set(sample_models, target):
    path = sample_models / "digits_transformer.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    table = explorer.calibrate(path, {"image": images[:20]}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    c = explorer.compile(path, target, quantization=table)
    assert c.accuracy({"image": images[200:201]}).report.bit_exact
    found = c.counted
    assert found is not None and found.cycles == found.predicted_cycles
    assert sum(layer.title == "layer norm in integers" for layer in found.layers) == 5
    assert {reason for _, reason in c.host_operations} == {"it reads or makes floats"}
    assert [part.device for part in c.program.parts] == ["cpu", target, "cpu"]
    c.close()
