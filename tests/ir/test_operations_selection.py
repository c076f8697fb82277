"""Operations whose results are as large as what they find: meaning, declared sizes, kernels."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Block

from explorer.ir.top.indexing import ScatterElementsOp
from explorer.ir.top.selection import NonMaxSuppressionOp, NonZeroOp, UniqueOp
from explorer.ir.types import shape_of, tensor_type

SUPPRESSION = {"limit": 3, "overlap": 0.4, "threshold": 0.1, "is_centered": False}


def declared(op_class, arrays, **properties):
    """The operation with results as large as it finds in the arrays, as an importer makes it."""
    kinds = {"float32": f32, "int64": i64}
    block = Block(arg_types=[tensor_type(kinds[a.dtype.name], a.shape) for a in arrays])
    found = op_class.make(block.args, **properties)
    shapes = [result.shape for result in found.evaluate(*arrays)]
    elements = [result.type.element_type for result in found.results]
    types = [tensor_type(e, shape) for e, shape in zip(elements, shapes, strict=True)]
    return op_class.make(block.args, types, **properties)


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2)])
def test_nonzero_finds_positions_in_order(shape, onnx_outputs, compiled):
    x = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    op = declared(NonZeroOp, [x])
    (found,) = op.evaluate(x)
    np.testing.assert_array_equal(found, onnx_outputs("NonZero", [x])[0])
    np.testing.assert_array_equal(compiled.run(op, [x])[0], found)


def test_what_is_found_has_no_size_until_it_is_declared(build, compiled):
    x = np.float32([1, 0, 2])
    op = build(NonZeroOp, [x])
    assert shape_of(op.output) == (1, "?")
    with pytest.raises(NotImplementedError, match=r"top\.nonzero.* depends"):
        compiled.run(op, [x])
    assert shape_of(declared(NonZeroOp, [x]).output) == (1, 2)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((6, 2), 0), ((2, 5), 1), ((2, 6, 2), 1)])
def test_unique_slices(shape, axis, is_sorted, onnx_outputs, compiled):
    x = np.random.default_rng(1).integers(0, 2 if len(shape) > 1 else 4, shape).astype(np.float32)
    op = declared(UniqueOp, [x], axis=axis, is_sorted=is_sorted)
    results = op.evaluate(x)
    expected = onnx_outputs("Unique", [x], outputs=4, axis=axis, sorted=int(is_sorted))
    actual = compiled.run(op, [x])
    for result, reference, kernel in zip(results, expected, actual, strict=True):
        np.testing.assert_array_equal(result, reference)
        np.testing.assert_array_equal(kernel, result)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_unique_takes_all_nan_for_one_that_is_greatest(is_sorted, compiled):
    x = np.float32([2, np.nan, 1, np.inf, np.nan, 2, -np.inf])
    op = declared(UniqueOp, [x], axis=0, is_sorted=is_sorted)
    results = op.evaluate(x)
    if is_sorted:
        np.testing.assert_array_equal(results[0], np.unique(x))
    for result, kernel in zip(results, compiled.run(op, [x]), strict=True):
        np.testing.assert_array_equal(kernel, result)


def test_suppression_keeps_no_box_without_a_score(compiled):
    boxes = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1.1], [np.nan, 0, 1, 1], [0, 0, np.inf, 1]]])
    scores = np.float32([[[0.5, np.nan, 0.4, 0.3]]])
    op = declared(NonMaxSuppressionOp, [boxes, scores], **SUPPRESSION)
    (found,) = op.evaluate(boxes, scores)
    assert 1 not in found[:, 2] and found[0, 2] == 0
    np.testing.assert_array_equal(compiled.run(op, [boxes, scores])[0], found)


@pytest.mark.parametrize("is_centered", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.4, 1.0])
def test_suppression_keeps_the_best_boxes(is_centered, overlap, onnx_outputs, compiled):
    generator = np.random.default_rng(2)
    boxes = generator.uniform(0, 1, (2, 10, 4)).astype(np.float32)
    scores = generator.uniform(0, 1, (2, 2, 10)).astype(np.float32)
    properties = {**SUPPRESSION, "overlap": overlap, "is_centered": is_centered}
    op = declared(NonMaxSuppressionOp, [boxes, scores], **properties)
    (kept,) = op.evaluate(boxes, scores)
    limits = [np.array([3]), np.float32([overlap]), np.float32([0.1])]
    attributes = {"center_point_box": int(is_centered)}
    (expected,) = onnx_outputs("NonMaxSuppression", [boxes, scores, *limits], **attributes)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_array_equal(compiled.run(op, [boxes, scores])[0], kept)


def test_suppression_refuses_boxes_that_do_not_fit_the_scores(infer):
    assert infer(NonMaxSuppressionOp, [("n", 5, 4), ("n", 2, 5)], **SUPPRESSION) == [("?", 3)]
    with pytest.raises(ValueError, match="do not fit"):
        infer(NonMaxSuppressionOp, [(1, 5, 4), (1, 2, 6)], **SUPPRESSION)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(axis, reduction, values, build, check, onnx_outputs):
    x, updates = values(4, 5), values(3, 4)
    indices = np.array([[0, 1, 0, 3], [2, 1, -1, 3], [0, 2, 1, 2]])
    if reduction == "none":  # what is written twice would depend on an order
        indices = np.argsort(values(3, 4), axis=axis).astype(np.int64)
    op = build(ScatterElementsOp, [x, indices, updates], axis=axis, reduction=reduction)
    attributes = {"axis": axis, "reduction": reduction}
    check(
        op,
        [x, indices, updates],
        onnx_outputs("ScatterElements", [x, indices, updates], **attributes),
    )


def test_scatter_elements_checks_its_operands(infer):
    indices = ((2, 3), "int64")
    shapes = [("n", 4), indices, (2, 3)]
    assert infer(ScatterElementsOp, shapes, axis=0, reduction="add") == [("n", 4)]
    with pytest.raises(ValueError, match="unknown reduction 'mean'; known: none, add"):
        infer(ScatterElementsOp, shapes, axis=0, reduction="mean")
    with pytest.raises(ValueError, match="differ"):
        infer(ScatterElementsOp, [("n", 4), indices, (2, 4)], axis=0, reduction="add")
    with pytest.raises(ValueError, match="are larger than"):
        infer(ScatterElementsOp, [("n", 2), indices, (2, 3)], axis=0, reduction="add")
    with pytest.raises(ValueError, match="elements of type f32; integers expected"):
        infer(ScatterElementsOp, [("n", 4), (2, 3), (2, 3)], axis=0, reduction="add")
