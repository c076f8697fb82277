"""Gather in its three forms and scatter_nd against onnxruntime, and as C."""

import numpy as np
import pytest

from explorer.ir.top.indexing import GatherElementsOp, GatherNdOp, GatherOp, ScatterNdOp
from explorer.ir.types import Layout

BLOCKED = Layout(4, (1, 0, 2, 1), 5.0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("axis", "indices"), [(0, [2, -1, 0]), (1, [[3], [-4]]), (1, 2), (0, -3)])
def test_gather_counts_negative_indices_from_the_end(
    axis, indices, dtype, values, build, check, onnx_outputs
):
    x, positions = values(3, 4, 2), np.array(indices, dtype)
    op = build(GatherOp, [x, positions], axis=axis)
    check(op, [x, positions], onnx_outputs("Gather", [x, positions], axis=axis))


def test_gather_from_a_vector_by_a_scalar_is_a_scalar(build, check):
    x, position = np.array([5, 6, 7], np.int64), np.array(1, np.int64)
    check(build(GatherOp, [x, position], axis=0), [x, position], [np.array(6, np.int64)])


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_gather_between_layouts(axis, values, build, check):
    x, positions = values(1, 6, 3, 4), np.array([2, 0, -1, 1, 1], np.int64)
    op = build(
        GatherOp,
        [x, positions],
        layouts=[BLOCKED],
        result_layout=Layout(4, (0, 1, 1, 0)),
        axis=axis,
    )
    check(op, [x, positions], [np.take(x, positions, axis)])


def test_an_index_outside_is_an_error_in_numpy_and_clamped_in_compiled_code(
    values, build, compiled
):
    x, positions = values(3), np.array([-9, -4, 3, 100], np.int64)
    op = build(GatherOp, [x, positions], axis=0)
    with pytest.raises(IndexError):
        op.evaluate(x, positions)
    (clamped,) = compiled.run(op, [x, positions])
    np.testing.assert_array_equal(clamped, x[[0, 0, 2, 2]])


def test_gather_of_symbolic_dimensions(infer):
    shapes = [("vocabulary", 768), (("batch", "length"), "int64")]
    assert infer(GatherOp, shapes, axis=0) == [("batch", "length", 768)]


def test_gather_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match=r"axis 2 of \(3, 4\): 0 to 1 expected"):
        infer(GatherOp, [(3, 4), ((2,), "int64")], axis=2)
    with pytest.raises(ValueError, match="the indexed axis is empty"):
        infer(GatherOp, [(0, 4), ((2,), "int64")], axis=0)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis, values, build, check, onnx_outputs):
    x, positions = values(3, 4), values(2, 3, dtype="int64", low=-3, high=2)
    op = build(GatherElementsOp, [x, positions], axis=axis)
    check(op, [x, positions], onnx_outputs("GatherElements", [x, positions], axis=axis))


def test_gather_elements_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="have another rank"):
        infer(GatherElementsOp, [(3, 4), ((2,), "int64")], axis=0)
    with pytest.raises(ValueError, match=r"indices \(2, 5\) are larger than \(3, 4\)"):
        infer(GatherElementsOp, [(3, 4), ((2, 5), "int64")], axis=0)


@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims"),
    [
        ((3, 4), [[0, -1], [2, 1]], 0),
        ((3, 4), [[1], [-3]], 0),
        ((2, 3, 4), [[[0, 1]], [[2, -4]]], 1),
        ((2, 3, 4), [[1], [0]], 1),
    ],
)
def test_gather_nd(shape, indices, batch_dims, values, build, check, onnx_outputs):
    x, coordinates = values(*shape), np.array(indices, np.int64)
    op = build(GatherNdOp, [x, coordinates], batch_dims=batch_dims)
    check(op, [x, coordinates], onnx_outputs("GatherND", [x, coordinates], batch_dims=batch_dims))


def test_gather_nd_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match=r"coordinates of 3 numbers do not fit \(3, 4\)"):
        infer(GatherNdOp, [(3, 4), ((5, 3), "int64")], batch_dims=0)
    assert infer(GatherNdOp, [("n", 4), (("m", 1), "int64")], batch_dims=0) == [("m", 4)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "indices"),
    [((5,), [[4], [1], [-4]]), ((4, 3), [[0, 2], [-1, 0]]), ((4, 3), [[[2]], [[0]]])],
)
def test_scatter_nd(shape, indices, reduction, values, build, check, onnx_outputs):
    x, coordinates = values(*shape), np.array(indices, np.int64)
    updates = values(*coordinates.shape[:-1], *shape[coordinates.shape[-1] :])
    arrays = [x, coordinates, updates]
    op = build(ScatterNdOp, arrays, reduction=reduction)
    # onnxruntime changes its first input in place where the negative index comes from a feed.
    expected = onnx_outputs("ScatterND", [a.copy() for a in arrays], reduction=reduction)
    check(op, arrays, expected)


def test_scatter_nd_adds_repeated_coordinates_one_after_another(build, check):
    x, coordinates = np.zeros(3, np.float32), np.array([[1], [1], [0]], np.int64)
    updates = np.array([1, 2, 4], np.float32)
    op = build(ScatterNdOp, [x, coordinates, updates], reduction="add")
    check(op, [x, coordinates, updates], [np.array([4, 3, 0], np.float32)])


def test_scatter_nd_names_what_does_not_fit(infer):
    shapes = [(4, 3), ((2, 1), "int64"), (2, 4)]
    with pytest.raises(ValueError, match=r"updates are \(2, 4\), but \(2, 3\) is expected"):
        infer(ScatterNdOp, shapes, reduction="none")
    with pytest.raises(ValueError, match="unknown reduction 'xor'; known: none, add"):
        infer(ScatterNdOp, shapes, reduction="xor")
