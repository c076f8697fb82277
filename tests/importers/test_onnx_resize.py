"""Resize: which elements an infinity or a NaN reaches."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.compilation import Compilation
from explorer.ir.top.support.taps import Taps, transposed, without_zeros

SIZE = 7


def resized(path, target: int, mode: str, antialias: int = 0) -> Compilation:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, SIZE, SIZE])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, target, target])]
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 2, target, target])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, antialias=antialias)
    graph = helper.make_graph([node], "resize", inputs, outputs, [sizes])
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return explorer.compile(path, tuned=False)


@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize(
    ("target", "mode", "antialias"),
    [(14, "linear", 0), (11, "cubic", 0), (3, "linear", 1), (SIZE * 2 - 1, "linear", 0)],
)
def test_one_pixel_without_a_number_reaches_what_it_is_a_part_of(
    tmp_path, number, target, mode, antialias
):
    """Exactly those results that another number there would change."""
    c = resized(tmp_path / "resize.onnx", target, mode, antialias)
    x = np.random.default_rng(0).normal(size=(1, 2, SIZE, SIZE)).astype(np.float32)
    plain, other, spoiled = x, x.copy(), x.copy()
    other[0, 1, 2, 4], spoiled[0, 1, 2, 4] = 1e6, number
    wanted = c.run({"x": plain})["y"]
    depends = c.run({"x": other})["y"] != wanted
    assert 0 < depends.sum() < target * target
    for run in (c.run, c["import"].after.run):
        found = list(run({"x": spoiled}).values())[-1]  # a snapshot gives every value
        np.testing.assert_array_equal(np.isfinite(found), ~depends)
        # The interpreter sums in double precision; numbers of size 1 cancel.
        np.testing.assert_allclose(found[~depends], wanted[~depends], rtol=1e-6, atol=1e-6)


def test_taps_that_weigh_nothing_are_left_out():
    positions = np.array([[0, 0, 1, 2], [0, 1, 2, 3], [4, 5, 6, 6]])
    weights = np.array([[0.5, 0.25, 0.25, 0], [0, 0, 1, 0], [0.125, 0.5, 0.25, 0.125]])
    found = without_zeros(Taps(positions, weights))
    assert found.positions.shape == (3, 3)
    assert (found.weights != 0).all()
    for row, (places, parts) in enumerate(zip(found.positions, found.weights, strict=True)):
        dense, wanted = np.zeros(7), np.zeros(7)
        np.add.at(dense, places, parts)
        np.add.at(wanted, positions[row], weights[row])
        np.testing.assert_array_equal(dense, wanted)


def test_transposed_taps_are_those_of_the_transposed_matrix():
    random = np.random.default_rng(0)
    positions, weights = random.integers(0, 5, (8, 3)), random.normal(size=(8, 3))
    dense = np.zeros((8, 5))
    np.add.at(dense, (np.arange(8)[:, np.newaxis], positions), weights)
    back = transposed(Taps(positions, weights), 5)
    found = np.zeros((5, 8))
    np.add.at(found, (np.arange(5)[:, np.newaxis], back.positions), back.weights)
    np.testing.assert_allclose(found, dense.T)
