"""Operators that read or write elements at computed places, each as a model of one node.

Compared with onnxruntime, or with ONNX's reference where it has no such operator. Operands in
capitals are weights of the model. Tolerance: 2e-6 of the largest number unless a case says why it
needs more; whole numbers must be equal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from explorer.accuracy.metrics import tensor_error
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

TOLERANCE = 2e-6


@dataclass(frozen=True)
class Case:
    operator: str
    opset: int
    operands: dict[str, np.ndarray | None]
    attributes: dict[str, object] = field(default_factory=dict)
    results: int = 1
    oracle: str = "onnxruntime"
    tolerance: float = TOLERANCE
    label: str = ""

    @property
    def name(self) -> str:
        shown = [f"{k}={v}" for k, v in self.attributes.items() if not isinstance(v, list)]
        return "-".join([self.operator, str(self.opset), *filter(None, [self.label]), *shown])

    def model(self, make_model: Callable) -> onnx.ModelProto:
        names = [name if array is not None else "" for name, array in self.operands.items()]
        results = [f"y{i}" for i in range(self.results)]
        node = helper.make_node(self.operator, names, results, name="node", **self.attributes)
        given = {n: a for n, a in self.operands.items() if a is not None}
        weights = {n: a for n, a in given.items() if n.isupper()}
        return make_model([node], self.inputs, weights, self.opset)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        return {n: a for n, a in self.operands.items() if a is not None and not n.isupper()}


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(*shape: int, low: int = 0, high: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape)


def vector(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def number(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


X = floats(2, 3, 4, 5)

SCATTERS = [
    Case("ScatterElements", 18, {"x": floats(4, 5), "i": places(2, 3), "u": floats(2, 3, seed=1)}),
    Case(
        "ScatterElements",
        18,
        {"x": floats(4, 5), "i": np.array([[3, -1], [0, 2]]), "u": floats(2, 2, seed=1)},
        {"axis": 1},
        label="negative",
    ),
    *[
        Case(
            "ScatterElements",
            18,
            {"x": floats(4, 5), "i": places(6, 5), "u": floats(6, 5, seed=1)},
            {"reduction": reduction},
        )
        for reduction in ("add", "mul", "max", "min")
    ],
    Case(
        "Scatter",
        9,
        {"x": floats(4, 5), "i": np.array([[3, 1], [0, 2]]), "u": floats(2, 2, seed=1)},
    ),
    Case(
        "ScatterND",
        18,
        {"x": floats(4, 5), "i": np.array([[1], [1], [3]]), "u": floats(3, 5, seed=1)},
        {"reduction": "add"},
    ),
    *[
        Case(
            "TensorScatter",
            24,
            {"x": floats(2, 6, 3), "u": floats(2, 2, 3, seed=1), "i": vector(1, 5 - shift)},
            {"mode": mode},
            oracle="reference",
        )
        for mode, shift in (("linear", 1), ("circular", 0))
    ],
    Case(
        "ReverseSequence",
        10,
        {"x": floats(4, 3, 2), "n": vector(4, 1, 3)},
        {"time_axis": 0, "batch_axis": 1},
    ),
    Case(
        "ReverseSequence",
        10,
        {"x": floats(3, 4), "n": vector(2, 3, 4)},
        {"time_axis": 1, "batch_axis": 0},
        label="batch-first",
    ),
    Case(
        "MaxUnpool",
        11,
        {
            "x": floats(1, 1, 2, 2),
            "i": np.array([[[[5, 7], [13, 15]]]]),
        },
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    *[
        Case(
            "Col2Im",
            18,
            {
                "x": floats(2, 3 * 4, columns),
                "IMAGE": vector(5, 6),
                "BLOCK": vector(2, 2),
            },
            attributes,
        )
        for attributes, columns in (
            ({}, 20),
            ({"strides": [2, 2]}, 6),
            ({"pads": [1, 0, 1, 2], "dilations": [2, 1]}, 35),
        )
    ],
]

SELECTIONS = [
    Case("NonZero", 13, {"x": places(3, 4, high=2)}),
    Case("NonZero", 13, {"x": np.float32([0, -1.5, np.nan, 0])}, label="floats"),
    Case("Compress", 11, {"x": floats(3, 4), "m": np.array([True, False, True])}, {"axis": 0}),
    Case("Compress", 11, {"x": floats(3, 2), "m": np.array([False, True, True])}, label="flat"),
    *[
        Case("Unique", 11, {"x": places(12, high=5).astype(np.float32)}, {"sorted": s}, results=4)
        for s in (0, 1)
    ],
    *[
        Case(
            "Unique",
            11,
            {"x": places(6, 3, high=2).astype(np.float32)},
            {"axis": axis, "sorted": s},
            results=4,
        )
        for axis in (0, -1)
        for s in (0, 1)
    ],
]

BOXES = np.random.default_rng(3).uniform(0, 1, (2, 12, 4)).astype(np.float32)
SCORES = np.random.default_rng(4).uniform(0, 1, (2, 3, 12)).astype(np.float32)
SELECTIONS += [
    Case(
        "NonMaxSuppression",
        11,
        {"b": BOXES, "s": SCORES, "N": vector(4), "T": np.float32([0.3]), "S": np.float32([0.2])},
        {"center_point_box": centered},
    )
    for centered in (0, 1)
]

EINSUMS = [
    Case("Einsum", 12, {f"x{i}": a for i, a in enumerate(arrays)}, {"equation": equation})
    for equation, arrays in (
        ("ij->ji", [floats(3, 4)]),
        ("ij->i", [floats(3, 4)]),
        ("ij", [floats(3, 4)]),
        ("ii->i", [floats(4, 4)]),
        ("bii->b", [floats(2, 4, 4)]),
        ("i,i", [floats(4), floats(4, seed=1)]),
        ("bij, bjk -> bik", [floats(2, 3, 4), floats(2, 4, 5, seed=1)]),
        ("bhqd,bhkd->bhqk", [floats(2, 2, 3, 4), floats(2, 2, 5, 4, seed=1)]),
        ("i,j->ij", [floats(3), floats(4, seed=1)]),
        ("...ij,jk->...ik", [floats(2, 3, 4), floats(4, 5, seed=1)]),
        ("ijk,jil->kl", [floats(2, 3, 4), floats(3, 2, 5, seed=1)]),
        ("ij,jk,kl->il", [floats(2, 3), floats(3, 4, seed=1), floats(4, 2, seed=2)]),
        ("bi,bi->b", [floats(3, 4), floats(3, 4, seed=1)]),
        ("abc,b->ac", [floats(2, 3, 4), floats(3, seed=1)]),
        ("a...,a...->...", [floats(2, 3, 1), floats(2, 1, 4, seed=1)]),
    )
]

GRID = np.random.default_rng(5).uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)
VOLUME_GRID = np.random.default_rng(5).uniform(-1.6, 1.6, (2, 2, 3, 2, 3)).astype(np.float32)
SAMPLES = [
    *[
        Case(
            "GridSample",
            20,
            {"x": X, "g": GRID},
            {"mode": mode, "padding_mode": border, "align_corners": align},
        )
        for mode in ("linear", "nearest", "cubic")
        for border in ("zeros", "border", "reflection")
        for align in (0, 1)
    ],
    *[
        Case("GridSample", 20, {"x": floats(2, 3, 3, 4, 5), "g": VOLUME_GRID}, {"mode": mode})
        for mode in ("linear", "nearest")
    ],
    Case("GridSample", 16, {"x": X, "g": GRID}, {"mode": "bicubic"}),
    *[
        Case(
            "RoiAlign",
            16,
            {
                "x": floats(2, 3, 10, 12),
                "ROIS": np.float32([[0, 0, 9, 7], [2.5, 1, 4, 8.5], [5, 5, 15, 15]]),
                "i": vector(0, 1, 0),
            },
            {"output_height": 3, "output_width": 2, "spatial_scale": 0.8, **attributes},
        )
        for attributes in (
            {"sampling_ratio": 2},
            {"sampling_ratio": 2, "coordinate_transformation_mode": "output_half_pixel"},
            {"sampling_ratio": 0},
            {"sampling_ratio": 1, "mode": "max"},
        )
    ],
    *[
        Case(
            "DeformConv",
            22,
            {
                "x": floats(2, 4, 6, 7),
                "W": floats(6, 4 // group, 3, 3, seed=1),
                "o": floats(2, 2 * parts * 9, 6, 7, seed=2),
                "B": floats(6, seed=3),
                "m": floats(2, parts * 9, 6, 7, seed=4) if masked else None,
            },
            {"pads": [1, 1, 1, 1], "group": group, "offset_group": parts},
            oracle="reference",
            # The reference adds the window's products up one by one in single precision.
            tolerance=1e-5,
            label="masked" if masked else "",
        )
        for group, parts, masked in ((1, 1, False), (2, 2, True))
    ],
]

SIGNAL = floats(2, 12, 1)
SPECTRA = [
    # onnxruntime's own transform is off by that much from one in double precision.
    Case("DFT", 20, {"x": SIGNAL, "N": None, "AXIS": number(1, np.int64)}, tolerance=4e-6),
    Case("DFT", 20, {"x": SIGNAL, "N": None, "AXIS": number(1, np.int64)}, {"onesided": 1}),
    Case("DFT", 20, {"x": floats(2, 12, 2), "N": number(9, np.int64)}, {"inverse": 1}, label="cut"),
    Case("DFT", 17, {"x": floats(2, 5, 2), "N": number(8, np.int64)}, {"axis": 1}, label="filled"),
    Case(
        "STFT",
        17,
        {
            "x": floats(2, 40, 1),
            "STEP": number(6, np.int64),
            "WINDOW": np.hanning(16).astype(np.float32),
        },
    ),
    Case(
        "STFT",
        17,
        {
            "x": floats(1, 20, 1),
            "STEP": number(4, np.int64),
            "WINDOW": None,
            "SIZE": number(8, np.int64),
        },
        {"onesided": 0},
    ),
    Case(
        "MelWeightMatrix",
        17,
        {
            "A": number(8, np.int64),
            "B": number(64, np.int64),
            "C": number(8000, np.int64),
            "D": number(20.0),
            "E": number(3800.0),
        },
    ),
]

OTHERS = [
    Case("EyeLike", 9, {"x": floats(3, 5)}, {"k": -1}),
    Case("EyeLike", 9, {"x": floats(3, 3)}, {"dtype": onnx.TensorProto.INT64}),
    Case("Tile", 13, {"x": floats(2, 3), "N": vector(2, 3)}),
    *[
        Case(
            "TfIdfVectorizer",
            9,
            {"x": np.int32([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])},
            {
                "mode": mode,
                "min_gram_length": 1,
                "max_gram_length": 2,
                "max_skip_count": skips,
                "ngram_counts": [0, 4],
                "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
                "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
                "weights": [0.5, 1.5, 2.0, 3.0, 1.0, 2.5, 4.0],
            },
        )
        for mode, skips in (("TF", 0), ("IDF", 0), ("TFIDF", 3))
    ],
]

ALL = [*SCATTERS, *SELECTIONS, *EINSUMS, *SAMPLES, *SPECTRA, *OTHERS]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_operator_matches_its_oracle(
    case: Case, make_model: Callable, compare: Callable, snapshot: Callable
) -> None:
    proto = case.model(make_model)
    if case.oracle == "onnxruntime":
        assert compare(from_proto(proto), case.inputs) <= case.tolerance
        return
    expected = ReferenceEvaluator(proto).run(None, case.inputs)
    imported = snapshot(from_proto(proto))
    outputs = outputs_by_name(imported.module, imported.run(case.inputs))
    for array, reference in zip(outputs.values(), expected, strict=True):
        assert array.dtype == reference.dtype
        assert tensor_error("y", "", array, reference).max_relative <= case.tolerance


RESIZES = [
    ({"mode": "linear", "antialias": 1}, [3, 2]),
    ({"mode": "cubic", "antialias": 1}, [2, 3]),
    ({"mode": "cubic", "antialias": 1, "exclude_outside": 1}, [3, 3]),
    ({"mode": "cubic", "exclude_outside": 1}, [9, 7]),
    ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, [9, 7]),
    ({"mode": "nearest", "keep_aspect_ratio_policy": "not_larger"}, [9, 7]),
    ({"mode": "linear", "keep_aspect_ratio_policy": "not_smaller"}, [3, 9]),
]


@pytest.mark.parametrize(("attributes", "sizes"), RESIZES)
def test_resize_of_two_axes(
    attributes: dict, sizes: list[int], make_model: Callable, compare: Callable
) -> None:
    nodes = [helper.make_node("Resize", ["x", "", "", "SIZES"], ["y"], axes=[2, 3], **attributes)]
    model = make_model(nodes, {"x": X}, {"SIZES": vector(*sizes)}, 19)
    assert compare(from_proto(model), {"x": X}) <= TOLERANCE


def test_resize_of_a_region_fills_what_lies_outside(
    make_model: Callable, compare: Callable
) -> None:
    region = np.float32([0, 0, 0.4, -0.2, 1, 1, 1.3, 0.7])
    nodes = [
        helper.make_node(
            "Resize",
            ["x", "ROI", "", "SIZES"],
            ["y"],
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
        )
    ]
    weights = {"ROI": region, "SIZES": vector(2, 3, 5, 6)}
    assert compare(from_proto(make_model(nodes, {"x": X}, weights, 19)), {"x": X}) <= TOLERANCE


def test_random_numbers_are_the_same_in_every_run_and_follow_from_the_seed(
    make_model: Callable, snapshot: Callable
) -> None:
    def draw(**attributes: object) -> np.ndarray:
        node = helper.make_node("RandomUniformLike", ["x"], ["y"], low=2.0, high=3.0, **attributes)
        imported = snapshot(from_proto(make_model([node], {"x": X}, {}, 22)))
        return outputs_by_name(imported.module, imported.run({"x": X}))["y"]

    first = draw(seed=1.0)
    assert first.shape == X.shape and first.dtype == np.float32
    assert first.min() >= 2 and first.max() <= 3 and np.unique(first).size > X.size // 2
    np.testing.assert_array_equal(first, draw(seed=1.0))
    assert not np.array_equal(first, draw(seed=2.0))


def test_a_pool_of_strings_and_images_are_refused_by_name(
    make_model: Callable, snapshot: Callable
) -> None:
    grams = {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_strings": ["a", "b"]}
    lengths = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    nodes = [
        helper.make_node("TfIdfVectorizer", ["x"], ["y"], name="words", **grams, **lengths),
        helper.make_node("ImageDecoder", ["b"], ["z"], name="image"),
    ]
    inputs = {"x": np.int32([1, 2]), "b": np.zeros(4, np.uint8)}
    with pytest.raises(UnsupportedError) as caught:
        snapshot(from_proto(make_model(nodes, inputs, {}, 20)))
    assert caught.value.problems == (
        "node words: TfIdfVectorizer (ai.onnx opset 20): a pool of strings",
        "node image: ImageDecoder (ai.onnx opset 20): not supported",
    )
