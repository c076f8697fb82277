"""Max and average pooling against onnxruntime, and as C on plain, haloed and blocked buffers."""

import ml_dtypes
import numpy as np
import pytest

from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import Layout

INFINITY = float("inf")


def attributes(window, strides=None, pads=None, dilations=None) -> dict:
    rank = len(window)
    return {
        "window": window,
        "strides": strides or [1] * rank,
        "pads": pads or [0] * (2 * rank),
        "dilations": dilations or [1] * rank,
    }


def onnx_attributes(properties: dict) -> dict:
    renamed = dict(properties)
    renamed["kernel_shape"] = renamed.pop("window")
    return renamed


WINDOWS = {
    "2x2": attributes([2, 2], [2, 2]),
    "3x3 stride 2": attributes([3, 3], [2, 2]),
    "uneven": attributes([3, 2], [1, 2]),
    "dilated": attributes([2, 3], dilations=[3, 2]),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pool_without_padding(kind, window, values, build, check, onnx_outputs):
    x, properties = values(2, 3, 9, 8), WINDOWS[window]
    op = build(PoolOp, [x], kind=kind, **properties)
    name = {"max": "MaxPool", "average": "AveragePool"}[kind]
    check(op, [x], onnx_outputs(name, [x], **onnx_attributes(properties)))


@pytest.mark.parametrize("shape", [(2, 3, 11), (1, 2, 5, 6, 4)])
def test_pool_over_one_and_three_spatial_dimensions(shape, values, build, check, onnx_outputs):
    rank = len(shape) - 2
    x, properties = values(*shape), attributes([2] * rank, [2] * rank)
    op = build(PoolOp, [x], kind="max", **properties)
    check(op, [x], onnx_outputs("MaxPool", [x], **onnx_attributes(properties)))


@pytest.mark.parametrize("block", [0, 4])
def test_max_pool_reads_its_padding_from_the_halo(block, values, build, check, onnx_outputs):
    x, properties = values(1, 6, 7, 8), attributes([3, 3], [2, 2], [1, 2, 1, 0])
    layout = Layout(block, (1, 2, 1, 1), -INFINITY)
    result = Layout(block, (0, 1, 1, 0), 0.0)
    op = build(PoolOp, [x], layouts=[layout], result_layout=result, kind="max", **properties)
    check(op, [x], onnx_outputs("MaxPool", [x], **onnx_attributes(properties)))


@pytest.mark.parametrize("block", [0, 4])
def test_average_pool_counts_padding(block, values, build, check, onnx_outputs):
    x, properties = values(1, 6, 7, 8), attributes([3, 3], [2, 2], [1, 2, 1, 0])
    op = build(
        PoolOp,
        [x],
        layouts=[Layout(block, (1, 2, 1, 1))],
        result_layout=Layout(block),
        kind="average",
        includes_padding=True,
        **properties,
    )
    expected = onnx_outputs("AveragePool", [x], count_include_pad=1, **onnx_attributes(properties))
    check(op, [x], expected)


def test_average_pool_without_padding_divides_by_what_is_inside(values, build, onnx_outputs):
    x, properties = values(1, 2, 5, 5), attributes([3, 3], [1, 1], [1, 1, 1, 1])
    op = build(PoolOp, [x], kind="average", includes_padding=False, **properties)
    expected = onnx_outputs("AveragePool", [x], **onnx_attributes(properties))
    np.testing.assert_allclose(op.evaluate(x), expected, rtol=1e-6)


def test_average_pool_that_leaves_padding_out_has_no_definition(values, build, compiled):
    op = build(
        PoolOp,
        [values(1, 2, 5, 5)],
        kind="average",
        includes_padding=False,
        **attributes([3, 3], pads=[1, 1, 1, 1]),
    )
    with pytest.raises(NotImplementedError, match="an average that leaves padding out"):
        compiled.run(op, [values(1, 2, 5, 5)])


def test_max_pool_of_bytes_begins_with_their_least(values, build, check, onnx_outputs):
    x = values(1, 2, 4, 4, dtype="int8", low=-128, high=-100)
    properties = attributes([2, 2], [2, 2])
    op = build(PoolOp, [x], kind="max", **properties)
    check(op, [x], onnx_outputs("MaxPool", [x], **onnx_attributes(properties)))


def test_pool_keeps_symbolic_dimensions(infer):
    properties = attributes([3, 3], [2, 2], [1, 1, 1, 1])
    shapes = infer(PoolOp, [("batch", 16, "height", 9)], kind="max", **properties)
    assert shapes == [("batch", 16, "(height+1)//2", 5)]


def test_pool_names_what_does_not_fit(infer):
    with pytest.raises(ValueError, match="a window of 7 does not fit into 5"):
        infer(PoolOp, [(1, 3, 5, 5)], kind="max", **attributes([7, 7]))
    with pytest.raises(
        ValueError, match="unknown kind 'median'; known: max, max_position, average"
    ):
        infer(PoolOp, [(1, 3, 5, 5)], kind="median", **attributes([2, 2]))
    with pytest.raises(ValueError, match="one number and pads two for each"):
        infer(PoolOp, [(1, 3, 5, 5)], kind="max", **attributes([2]))


@pytest.mark.parametrize(
    ("size", "pads", "dilation"), [(4, [3, 0], 1), (4, [0, 3], 1), ("n", [3, 0], 1), (1, [2, 2], 3)]
)
def test_a_maximum_of_padding_alone_is_refused(size, pads, dilation, infer):
    """Nothing is the maximum of a window without an element: pads are smaller than windows."""
    window = {"window": [2], "strides": [1], "pads": pads, "dilations": [dilation]}
    with pytest.raises(ValueError, match="lies in the padding"):
        infer(PoolOp, [(1, 1, size)], kind="max", **window)
    assert infer(PoolOp, [(1, 1, size)], kind="average", **window)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_position_of_a_maximum_is_that_of_an_element(
    pads, dtype, values, build, check, onnx_outputs
):
    x = values(2, 3, 5, 6, dtype=dtype)
    x[0, 0] = np.array(-3, dtype)
    op = build(PoolOp, [x], kind="max_position", **attributes([3, 3], strides=[2, 1], pads=pads))
    expected = onnx_outputs(
        "MaxPool", [x], outputs=2, kernel_shape=[3, 3], strides=[2, 1], pads=pads
    )[1]
    planes = np.arange(6).reshape(2, 3, 1, 1) * 30
    check(op, [x], [expected - planes])


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_max_pool_of_numbers_narrower_than_a_byte(name, build):
    dtype = np.dtype(getattr(ml_dtypes, name))
    ends = ml_dtypes.iinfo(dtype)
    x = np.full((1, 2, 5, 4), ends.min, np.int8)
    x[0, 1] = np.random.default_rng(0).integers(ends.min, ends.max + 1, (5, 4))
    op = build(PoolOp, [x.astype(dtype)], kind="max", **attributes([2, 3], pads=[1, 1, 0, 1]))
    (found,) = op.evaluate(x.astype(dtype))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 1)), constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), axis=(2, 3))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.int8), windows.max(axis=(-2, -1)))
