"""Transposed convolutions with infinite filters: no weight meets a zero that is no element.

Judged by the definition in float64: every element times every tap, added where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from explorer.importers.caffe.file.reading import read as read_caffe
from explorer.importers.tflite.file.reading import read as read_tflite
from explorer.ir.evaluation import outputs_by_name
from verification.conformance.caffe.models import one_layer
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of


def defined(
    x: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    begins: Sequence[int],
    sizes: Sequence[int],
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> np.ndarray:
    """weight: (C, M / group, window...). sizes: of the result, which begins behind `begins`."""
    rank, taps = weight.ndim - 2, weight.shape[2:]
    dilations = dilations or [1] * rank
    per_group = weight.shape[1]
    reach = [
        max((n - 1) * s + (k - 1) * d + 1, b + size)
        for n, s, k, d, b, size in zip(
            x.shape[2:], strides, taps, dilations, begins, sizes, strict=True
        )
    ]
    y = np.zeros((x.shape[0], group * per_group, *reach))
    with np.errstate(all="ignore"):
        for c, place, tap in np.ndindex(x.shape[1], x[0, 0].size, int(np.prod(taps))):
            at, k = np.unravel_index(place, x.shape[2:]), np.unravel_index(tap, taps)
            where = tuple(
                a * s + b * d for a, s, b, d in zip(at, strides, k, dilations, strict=True)
            )
            first = c // (x.shape[1] // group) * per_group
            for m in range(per_group):
                product = x[(slice(None), c, *at)].astype(np.float64) * weight[(c, m, *k)]
                y[(slice(None), first + m, *where)] += product
    cut = (slice(b, b + size) for b, size in zip(begins, sizes, strict=True))
    return y[(slice(None), slice(None), *cut)]


def drawn(seed: int, x: Sequence[int], weight: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Finite elements; of the filters one is infinite and one NaN."""
    random = np.random.default_rng(seed)
    filters = random.normal(size=weight).astype(np.float32)
    places = random.choice(filters.size, 2, replace=False)
    filters.reshape(-1)[places] = np.inf, np.nan
    return random.normal(size=x).astype(np.float32), filters


SHAPES: dict[str, tuple[Sequence[int], ...]] = {
    "one axis": ((2, 2, 4), (2, 3, 3), (2,), (1,), (8,), (1,), (1,)),
    "wide gaps": ((1, 2, 3, 2), (2, 1, 1, 2), (3, 2), (0, 0), (7, 4), (1, 1), (1,)),
    "groups and dilation": ((1, 4, 3, 3), (4, 2, 2, 3), (2, 1), (1, 2), (5, 4), (2, 2), (2,)),
    "large pads": ((1, 1, 4, 4), (1, 2, 1, 2), (2, 2), (1, 1), (5, 6), (1, 1), (1,)),
    "three axes": ((1, 1, 2, 2, 2), (1, 2, 2, 1, 2), (2, 1, 2), (0,) * 3, (4, 2, 4), (1,) * 3, [1]),
}  # fmt: skip


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_only_elements_meet_filters(
    name: str, is_constant: bool, make_model: Callable, snapshot: Callable, load_proto: Callable
):
    x_shape, w_shape, strides, begins, sizes, dilations, (group,) = SHAPES[name]
    x, weight = drawn(len(name), x_shape, w_shape)
    bias = np.arange(group * w_shape[1], dtype=np.float32)
    whole = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x_shape[2:], strides, w_shape[2:], dilations, strict=True)
    ]
    ends = [w - b - size for w, b, size in zip(whole, begins, sizes, strict=True)]
    more = [max(-end, 0) for end in ends]
    node = helper.make_node(
        "ConvTranspose", ["x", "w", "b"], ["y"], strides=strides, dilations=dilations, group=group,
        pads=[*begins, *(max(end, 0) for end in ends)], output_padding=more,
    )  # fmt: skip
    feeds = {"x": x} if is_constant else {"x": x, "w": weight}
    constants = {"b": bias} if not is_constant else {"b": bias, "w": weight}
    found = snapshot(load_proto(make_model([node], feeds, constants, 17)))
    (y,) = outputs_by_name(found.module, found.run(feeds)).values()
    expected = defined(x, weight, strides, begins, sizes, dilations, group)
    expected += bias.reshape(-1, *(1,) * len(sizes))
    assert np.isinf(expected).any() and np.isfinite(expected).any()
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_compiled_code_keeps_zeros_from_filters(make_model: Callable, load_proto: Callable):
    x, weight = drawn(5, (1, 3, 4, 4), (3, 4, 3, 3))
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    feeds = {"x": x, "w": weight}
    c = ex.compile(load_proto(make_model([node], feeds, {}, 17)))
    try:
        (y,) = c.run(feeds).values()
    finally:
        c.close()
    expected = defined(x, weight, (2, 2), (0, 0), (9, 9))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_a_deconvolution_of_caffe():
    x, weight = drawn(2, (1, 4, 3, 3), (4, 2, 3, 3))
    settings = (
        "convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2 "
        "bias_term: false }"
    )
    text, content = one_layer("Deconvolution", settings, [x.shape], [weight])
    found = ex.interpret(read_caffe(text, memoryview(content), "net"), {"x0": x})["y"]
    expected = defined(x, weight, (2, 2), (1, 1), (5, 5), group=2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transposed_convolution_of_tflite(padding: str):
    x, weight = drawn(3, (1, 3, 4, 2), (3, 2, 3, 3))
    sizes = (8, 4) if padding == "SAME" else (9, 5)
    tensors = [
        TensorOf(
            name="s", shape=(4,), element_type="int32", data=np.array([1, *sizes, 2], np.int32)
        ),
        TensorOf(name="w", shape=(2, 3, 3, 3), data=weight.transpose(1, 2, 3, 0).copy()),
        TensorOf(name="x", shape=(1, 4, 2, 3)),
        TensorOf(name="y", shape=(1, *sizes, 2)),
    ]
    node = OperatorOf(
        kind="TRANSPOSE_CONV",
        inputs=[0, 1, 2],
        outputs=[3],
        options="TransposeConvOptions",
        values={"Padding": int(padding == "VALID"), "StrideW": 2, "StrideH": 2},
    )
    model = read_tflite(memoryview(model_of(tensors, [node], [2], [3])), "transposed")
    found = ex.interpret(model, {"x": x.transpose(0, 2, 3, 1).copy()})["y"]
    expected = defined(x, weight, (2, 2), (0, 0), sizes)
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-5)
