"""Layers of Caffe: one-layer nets with seeded weights give what OpenCV gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import explorer as ex
from explorer.importers.caffe.file.reading import read
from explorer.importers.caffe.layers.register import converters
from explorer.references.interface import reference_of
from tests.importers.test_caffe_detection import CASES as DETECTION
from verification.conformance.caffe.models import Shape, one_layer

X = (2, 6, 7, 9)

Case = tuple[str, str, Sequence[Shape], Sequence[Shape], int]


def case(
    kind: str, settings: str = "", shapes: Sequence[Shape] = (X,), blobs: Sequence[Shape] = (),
    tops: int = 1,
) -> Case:  # fmt: skip
    return kind, settings, shapes, blobs, tops


def convolution(settings: str, *blobs: Shape, kind: str = "Convolution", x: Shape = X) -> Case:
    return case(kind, f"convolution_param {{ {settings} }}", [x], blobs)


def pooling(settings: str, x: Shape = X) -> Case:
    return case("Pooling", f"pooling_param {{ {settings} }}", [x])


CASES = [
    convolution("num_output: 4 kernel_size: 3", (4, 6, 3, 3), (4,)),
    convolution("num_output: 4 kernel_size: 3 stride: 2 pad: 1 group: 2", (4, 3, 3, 3), (4,)),
    convolution("num_output: 5 kernel_h: 1 kernel_w: 3 pad_h: 0 pad_w: 1", (5, 6, 1, 3), (5,)),
    convolution("num_output: 6 kernel_size: 3 group: 6 bias_term: false", (6, 1, 3, 3)),
    convolution("num_output: 3 kernel_size: 3 dilation: 2 pad: 2", (3, 6, 3, 3), (3,)),
    convolution("num_output: 4 kernel_size: 2 stride: 2", (6, 4, 2, 2), (4,), kind="Deconvolution"),
    convolution(
        "num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2 bias_term: false",
        (6, 2, 4, 4),
        kind="Deconvolution",
    ),
    convolution(
        "num_output: 6 kernel_size: 3 group: 6", (6, 1, 3, 3), (6,), kind="ConvolutionDepthwise"
    ),
    case("InnerProduct", "inner_product_param { num_output: 5 }", [(2, 3, 4)], [(5, 12), (5,)]),
    case(
        "InnerProduct",
        "inner_product_param { num_output: 5 axis: 2 bias_term: false }",
        [(2, 3, 4)],
        [(5, 4)],
    ),
    pooling("kernel_size: 2 stride: 2"),
    pooling("kernel_size: 3 stride: 2", (1, 2, 8, 8)),
    pooling("kernel_size: 3 stride: 2 pad: 1", (1, 2, 8, 6)),
    pooling("pool: AVE kernel_size: 3 stride: 2"),
    pooling("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    pooling("pool: AVE kernel_size: 3 stride: 2 pad: 1", (1, 2, 8, 6)),
    pooling("pool: AVE kernel_size: 2 stride: 2", (1, 2, 7, 5)),
    pooling("pool: AVE global_pooling: true"),
    pooling("pool: MAX global_pooling: true"),
    case("ReLU"),
    case("ReLU", "relu_param { negative_slope: 0.1 }"),
    case("ReLU6"),
    case("PReLU", "", [X], [(6,)]),
    case("PReLU", "prelu_param { channel_shared: true }", [X], [(1,)]),
    case("ELU", "elu_param { alpha: 0.7 }"),
    case("Sigmoid"),
    case("TanH"),
    case("AbsVal"),
    case("BNLL"),
    case("Swish"),
    case("Power", "power_param { power: 2 scale: 0.5 shift: 3 }"),
    case("Power", "power_param { scale: -2 shift: 1 }"),
    case("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }"),
    case("Exp"),
    case("BatchNorm", "", [X], [(6,), (6,), (1,)]),
    case("BatchNorm", "batch_norm_param { eps: 0.01 }", [(2, 6)], [(6,), (6,), (1,)]),
    case("Scale", "scale_param { bias_term: true }", [X], [(6,), (6,)]),
    case("Scale", "", [X], [(6,)]),
    case("LRN", "lrn_param { local_size: 3 alpha: 0.2 beta: 0.6 }"),
    case("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5 }"),
    case("MVN"),
    case("MVN", "mvn_param { across_channels: true }"),
    case("MVN", "mvn_param { normalize_variance: false }"),
    case("Normalize", "norm_param { across_spatial: false channel_shared: false }", [X], [(6,)]),
    case("Normalize", "norm_param { across_spatial: true channel_shared: true }", [X], [(1,)]),
    case("Softmax"),
    case("Softmax", "softmax_param { axis: -1 }"),
    case("Eltwise", "", [X, X]),
    case("Eltwise", "eltwise_param { operation: SUM coeff: 2 coeff: -0.5 }", [X, X]),
    case("Eltwise", "eltwise_param { operation: PROD }", [X, X]),
    case("Eltwise", "eltwise_param { operation: MAX }", [X, X, X]),
    case("Concat", "", [X, (2, 3, 7, 9)]),
    case("Concat", "concat_param { axis: 2 }", [X, (2, 6, 1, 9)]),
    case("Slice", "", [X], (), 3),
    case("Slice", "slice_param { axis: 3 slice_point: 2 slice_point: 3 }", [X], (), 3),
    case("Split", "", [X], (), 2),
    case("Flatten"),
    case("Flatten", "flatten_param { axis: 2 }"),
    case("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }"),
    case("Reshape", "reshape_param { shape { dim: 3 dim: -1 } axis: 1 num_axes: 2 }"),
    case("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
    case("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", [X, (2, 6, 4, 5)]),
    case("Crop", "crop_param { axis: 2 offset: 1 }", [X, (2, 6, 4, 5)]),
    case("ShuffleChannel", "shuffle_channel_param { group: 3 }"),
    case("Interp", "interp_param { height: 11 width: 5 }"),
    case("Interp", "interp_param { zoom_factor: 2 }"),
    case("Dropout"),
]


@pytest.mark.parametrize("given", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_opencv_computes_the_same(given: Case):
    pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")
    kind, settings, shapes, blobs, tops = given
    random = np.random.default_rng(7)
    # Statistics and factors to divide by are positive.
    weights = [random.uniform(0.2, 1.0, shape).astype(np.float32) for shape in blobs]
    text, content = one_layer(kind, settings, shapes, weights, tops)
    if tops > 1:  # OpenCV gives a layer as many results as others take
        text += "".join(f'layer {{ name: "z{i}" type: "AbsVal" bottom: "t{i}" top: "z{i}" }}'
                        for i in range(tops))  # fmt: skip
    model = read(text, memoryview(content), "net")
    inputs = {f"x{i}": random.normal(size=s).astype(np.float32) for i, s in enumerate(shapes)}
    found = ex.interpret(model, inputs)
    expected = dict(reference_of(model).tensors(model, inputs, list(found)))

    for name, array in expected.items():
        assert found[name].shape == array.shape, name
        np.testing.assert_allclose(found[name], array, rtol=2e-5, atol=2e-6, err_msg=name)


_AROUND = ((0, 0), (0, 0), (2, 2), (2, 2))
WRITTEN_OUT: list[tuple[Case, Callable[..., np.ndarray]]] = [
    (case("Threshold", "threshold_param { threshold: 0.3 }"), lambda x: 1.0 * (x > 0.3)),
    (case("Clip", "clip_param { min: -0.5 max: 0.7 }"), lambda x: np.clip(x, -0.5, 0.7)),
    (case("Log", "log_param { base: 2 scale: 0.1 shift: 9 }"), lambda x: np.log2(9 + 0.1 * x)),
    (case("Tile", "tile_param { axis: 1 tiles: 3 }"), lambda x: np.tile(x, (1, 3, 1, 1))),
    (
        case("Reduction", "reduction_param { operation: SUMSQ axis: 1 coeff: 0.5 }"),
        lambda x: 0.5 * (x * x).sum((1, 2, 3)),
    ),
    (
        case("ArgMax", "argmax_param { axis: 1 }"),
        lambda x: x.argmax(1)[:, np.newaxis],
    ),
    (case("ArgMax"), lambda x: x.reshape(2, 1, -1).argmax(2)[..., np.newaxis]),
    (case("Power", "power_param { power: 0 scale: 3 }"), np.ones_like),
    (case("Exp", "exp_param { base: 3 }"), lambda x: 3.0**x),
    (case("Padding", "padding_param { pad: 2 }"), lambda x: np.pad(x, _AROUND)),
    (case("Bias", "", [X], [(6,)]), lambda x, w: x + w[:, np.newaxis, np.newaxis]),
    (case("Axpy", "", [(2, 6, 1, 1), X, X]), lambda a, x, y: a * x + y),
    (case("Scale", "scale_param { axis: 0 }", [X, (2, 6)]), lambda x, y: x * y[..., None, None]),
]


@pytest.mark.parametrize(
    ("given", "expected"), WRITTEN_OUT, ids=[f"{c[0]}-{i}" for i, (c, _) in enumerate(WRITTEN_OUT)]
)
def test_what_opencv_does_not_know_is_what_caffe_says(
    given: Case, expected: Callable[..., np.ndarray]
):
    kind, settings, shapes, blobs, _ = given
    random = np.random.default_rng(3)
    values = [random.normal(size=s).astype(np.float32) for s in shapes]
    weights = [random.normal(size=s).astype(np.float32) for s in blobs]
    text, content = one_layer(kind, settings, shapes, weights)
    inputs = {f"x{i}": value for i, value in enumerate(values)}
    found = ex.interpret(read(text, memoryview(content), "net"), inputs)["y"]

    wanted = expected(*values, *weights)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("kernel_size: 1 stride: 2", [1, 3, -np.finfo(np.float32).max]),
        ("pool: AVE kernel_size: 1 stride: 2", [1, 3, np.nan]),
        ("kernel_h: 2 kernel_w: 1 pad_h: 1 stride: 2", [1, 3]),
    ],
)
def test_windows_behind_the_image_have_no_element(settings: str, expected: list[float]):
    """OpenCV takes 0 for the greatest of nothing, and looks at each axis for itself."""
    x = np.array([[[[1, 2, 3, 4]]]], np.float32)
    text, content = one_layer("Pooling", f"pooling_param {{ {settings} }}", [x.shape])
    found = ex.interpret(read(text, memoryview(content), "net"), {"x0": x})["y"]

    np.testing.assert_array_equal(found[0, 0, 0], np.array(expected, np.float32))


def test_a_normalization_across_channels_has_a_constant():
    """OpenCV takes it for 1, whatever the file says."""
    x = np.random.default_rng(3).normal(size=X).astype(np.float32)
    settings = "lrn_param { local_size: 3 alpha: 0.2 beta: 0.6 k: 2 }"
    text, content = one_layer("LRN", settings, [X])
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]

    found = ex.interpret(read(text, memoryview(content), "net"), {"x0": x})["y"]
    np.testing.assert_allclose(found, x / (2 + 0.2 / 3 * total) ** 0.6, rtol=2e-5)


def test_a_transposed_convolution_is_cut_by_its_padding():
    """OpenCV dies of a padding that is larger than its windows reach."""
    random = np.random.default_rng(3)
    x = random.normal(size=X).astype(np.float32)
    weight = random.normal(size=(6, 4, 1, 1)).astype(np.float32)
    settings = "convolution_param { num_output: 4 kernel_size: 1 pad: 1 bias_term: false }"
    text, content = one_layer("Deconvolution", settings, [X], [weight])

    found = ex.interpret(read(text, memoryview(content), "net"), {"x0": x})["y"]
    whole = np.einsum("nchw,co->nohw", x, weight[:, :, 0, 0])
    np.testing.assert_allclose(found, whole[:, :, 1:-1, 1:-1], rtol=1e-4, atol=1e-5)


def test_every_kind_is_tried():
    tried = {given[0] for given in (*CASES, *DETECTION)} | {given[0] for given, _ in WRITTEN_OUT}
    same = {"DepthwiseConvolution": "ConvolutionDepthwise"}
    assert {same.get(kind, kind) for kind in converters()} == tried
