"""What detectors of Caffe end with gives what OpenCV gives, interpreted and as C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.caffe.file.reading import read
from explorer.references.interface import reference_of
from verification.conformance.caffe.models import caffemodel, one_layer

BOXES = 40
RANDOM = np.random.default_rng(11)
VARIANCES = (0.1, 0.1, 0.2, 0.2)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def priors(scale: float = 1.0) -> np.ndarray:
    corners = np.sort(RANDOM.uniform(0, scale, (BOXES, 2, 2)), axis=1).reshape(-1)
    return np.stack([corners, np.tile(VARIANCES, BOXES)])[np.newaxis].astype(np.float32)


def detection(
    settings: str, classes: int = 4, locations: int = 1, images: int = 1, rows: int = 2
) -> tuple:
    scores = RANDOM.dirichlet(np.ones(classes), (images, BOXES)).reshape(images, -1)
    words = f"num_classes: {classes} keep_top_k: 25 {settings}"
    # What OpenCV wants to be said, though it has a default.
    for name, default in (("share_location", "true"), ("background_label_id", "0")):
        words += "" if name in settings else f" {name}: {default}"
    inputs = [normal(images, BOXES * locations * 4), scores.astype(np.float32), priors()[:, :rows]]
    return "DetectionOutput", f"detection_output_param {{ {words} }}", inputs


def regions(count: int, images: int = 2) -> np.ndarray:
    corners = np.sort(RANDOM.uniform(-6, 70, (count, 2, 2)), axis=1).reshape(count, 4)
    numbers = RANDOM.integers(0, images, (count, 1))
    return np.concatenate([numbers, corners], 1).astype(np.float32)


NMS = "nms_param { nms_threshold: 0.4 top_k: 15 } code_type: CENTER_SIZE"
PICTURES = [normal(1, 2, 3, 4), np.zeros((1, 3, 30, 40), np.float32)]
PROPOSED = "feat_stride: 16 base_size: 16 min_size: 0 ratio: 0.5 ratio: 1.5 scale: 2 scale: 4"
CASES: list[tuple[str, str, Sequence[np.ndarray]]] = [
    detection(NMS),
    detection(f"{NMS} confidence_threshold: 0.3 background_label_id: 2", images=2),
    detection(f"{NMS} share_location: false", locations=4),
    detection(
        "nms_param { nms_threshold: 0.5 } code_type: CORNER clip: true "
        "variance_encoded_in_target: true",
        rows=1,
    ),
    ("PriorBox", "prior_box_param { min_size: 10 max_size: 20 aspect_ratio: 2 "
     "clip: false variance: 0.1 }", PICTURES),
    ("PriorBox", "prior_box_param { min_size: 9 min_size: 12 aspect_ratio: 2 aspect_ratio: 3 "
     "flip: false clip: true variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }", PICTURES),
    ("PriorBox", "prior_box_param { min_size: 7 clip: false step: 9 offset: 0.3 "
     "variance: 0.2 }", PICTURES),
    ("ROIPooling", "roi_pooling_param { pooled_w: 3 pooled_h: 2 spatial_scale: 0.25 }",
     [normal(2, 4, 15, 17), regions(9)]),
    ("ROIPooling", "roi_pooling_param { pooled_w: 7 pooled_h: 7 spatial_scale: 0.0625 }",
     [normal(1, 4, 15, 17), regions(5, images=1)]),
    ("PSROIPooling", "psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 0.25 }",
     [normal(2, 18, 15, 17), regions(9)]),
    ("Proposal", f"proposal_param {{ {PROPOSED} pre_nms_topn: 60 post_nms_topn: 10 }}",
     [np.abs(normal(1, 8, 6, 8)), normal(1, 16, 6, 8) / 4, np.array([[96, 128, 1]], np.float32)]),
    ("Reorg", "reorg_param { stride: 2 }", [normal(2, 8, 6, 4)]),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("given", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_opencv_finds_the_same(given: tuple[str, str, Sequence[np.ndarray]]):
    pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")
    kind, settings, arrays = given
    text, content = one_layer(kind, settings, [array.shape for array in arrays])
    model = read(text, memoryview(content), "net")
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    compilation = ex.compile(model)
    found = {"interpreted": ex.interpret(model, inputs)["y"], "as C": compilation.run(inputs)["y"]}
    compilation.close()
    ((_, expected),) = reference_of(model).tensors(model, inputs, ["y"])

    for how, array in found.items():
        assert array.shape == expected.shape, how
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-5, err_msg=how)


def test_where_nothing_is_found_there_is_a_row_for_each_image():
    kind, settings, arrays = detection(f"{NMS} confidence_threshold: 1.5", images=2)
    text, content = one_layer(kind, settings, [array.shape for array in arrays])
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    found = ex.interpret(read(text, memoryview(content), "net"), inputs)["y"]

    np.testing.assert_array_equal(found, [[[[0, *[-1] * 6], [1, *[-1] * 6]]]])


SSD = """
input: "data" input_shape { dim: 1 dim: 3 dim: 24 dim: 32 }
layer { name: "f" type: "Convolution" bottom: "data" top: "f"
        convolution_param { num_output: 6 kernel_size: 3 stride: 4 } }
layer { name: "p" type: "PriorBox" bottom: "f" bottom: "data" top: "p"
        prior_box_param { min_size: 8 aspect_ratio: 2 clip: false variance: 0.1 } }
layer { name: "l" type: "Convolution" bottom: "f" top: "l"
        convolution_param { num_output: 12 kernel_size: 1 } }
layer { name: "lp" type: "Permute" bottom: "l" top: "lp"
        permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "lf" type: "Flatten" bottom: "lp" top: "lf" }
layer { name: "c" type: "Convolution" bottom: "f" top: "c"
        convolution_param { num_output: 9 kernel_size: 1 } }
layer { name: "cp" type: "Permute" bottom: "c" top: "cp"
        permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "cr" type: "Reshape" bottom: "cp" top: "cr"
        reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }
layer { name: "cs" type: "Softmax" bottom: "cr" top: "cs" softmax_param { axis: 2 } }
layer { name: "cf" type: "Flatten" bottom: "cs" top: "cf" }
layer { name: "found" type: "DetectionOutput" bottom: "lf" bottom: "cf" bottom: "p" top: "found"
        detection_output_param { num_classes: 3 share_location: true background_label_id: 0
          code_type: CENTER_SIZE keep_top_k: 20 confidence_threshold: 0.3
          nms_param { nms_threshold: 0.45 top_k: 30 } } }
"""


def test_a_whole_detector_passes_after_every_pass(tmp_path: Path):
    pytest.importorskip("cv2", reason="OpenCV judges here: the extra caffe")
    blobs = {"f": [normal(6, 3, 3, 3), normal(6)], "l": [normal(12, 6, 1, 1), normal(12)]}
    blobs["c"] = [normal(9, 6, 1, 1) / 20, normal(9) / 9]  # no two scores are one number
    (tmp_path / "ssd.prototxt").write_text(SSD)
    (tmp_path / "ssd.caffemodel").write_bytes(caffemodel(blobs))
    compilation = ex.compile(tmp_path / "ssd.prototxt")
    accuracy = compilation.accuracy()
    compilation.close()

    assert accuracy.passed
    assert "OpenCV" in accuracy.report.oracle
    assert {part.device for part in compilation.program.parts} == {"cpu", "host"}


def test_small_boxes_are_no_proposals():
    """OpenCV takes them."""
    text, content = one_layer(
        "Proposal",
        "proposal_param { base_size: 16 ratio: 1 scale: 1 min_size: 10 post_nms_topn: 6 }",
        [(1, 2, 2, 1), (1, 4, 2, 1), (1, 3)],
    )
    scores = np.array([0, 0, 0.6, 0.7], np.float32).reshape(1, 2, 2, 1)
    deltas = np.zeros((1, 4, 2, 1), np.float32)
    deltas[0, 2, 1] = -1  # the second box is 16 / e pixels wide
    picture = np.array([[64, 64, 1]], np.float32)
    inputs = {"x0": scores, "x1": deltas, "x2": picture}
    found = ex.interpret(read(text, memoryview(content), "net"), inputs)["y"]

    np.testing.assert_allclose(found[0], [0, 0, 0, 16, 16])
    assert found.shape == (6, 5)
    assert not found[2:].any()


def test_what_has_no_form_is_said():
    kind, settings, arrays = detection("nms_param { eta: 0.9 }")
    text, content = one_layer(kind, settings, [array.shape for array in arrays])
    with pytest.raises(UnsupportedError) as raised:
        ex.compile(read(text, memoryview(content), "net"))
    assert "eta" in str(raised.value.problems)
