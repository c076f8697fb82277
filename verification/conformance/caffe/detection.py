"""Random ends of detectors. What OpenCV wants to be said is said, though it has a default."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verification.conformance.caffe.drawing import Draw, Drawn, settings


def prior_box(draw: Draw) -> Drawn:
    least = [draw.number(3, 12) for _ in range(draw.integer(1, 2))]
    words = settings(
        "prior_box_param",
        min_size=least,
        max_size=[size + draw.number(1, 9) for size in least] if draw.flag() else None,
        aspect_ratio=[draw.choice(2, 3, 1.5) for _ in range(draw.integer(0, 2))],
        flip=draw.choice(None, False),
        clip=draw.flag(),
        step=draw.integer(2, 9) if draw.flag() else None,
        offset=draw.choice(None, 0.25),
        variance=[0.1, 0.1, 0.2, 0.2] if draw.flag() else 0.1,
    )
    images = draw.image(), (1, 3, draw.integer(20, 90), draw.integer(20, 90))
    return Drawn(inputs=[draw.numbers(image) for image in images], settings=words)


def corners(draw: Draw, count: int, most: float) -> np.ndarray:
    return np.sort(draw.random.uniform(0, most, (count, 2, 2)), axis=1).reshape(count, 4)


def detection_output(draw: Draw) -> Drawn:
    """No two scores are equal: nobody says which of them comes first."""
    images, classes = draw.integer(1, 2), draw.integer(2, 5)
    count = draw.integer(40, 90) if draw.is_large else draw.integer(6, 20)
    is_shared, in_target = draw.flag(), draw.flag()
    locations = 1 if is_shared else classes
    words = settings(
        "detection_output_param",
        num_classes=classes,
        share_location=is_shared,
        background_label_id=draw.integer(0, classes - 1),
        code_type=draw.choice("CORNER", "CENTER_SIZE"),
        variance_encoded_in_target=in_target,
        keep_top_k=draw.integer(5, 60),
        confidence_threshold=draw.number(0, 0.4),
        clip=draw.flag(),
    )
    nms = settings(
        "nms_param",
        nms_threshold=draw.number(0.2, 0.7),
        top_k=draw.integer(3, 40) if draw.flag() else None,
    )
    scores = draw.random.dirichlet(np.ones(classes), (images, count)).reshape(images, -1)
    rows = [corners(draw, count, 1.0).reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], count)]
    priors = np.stack(rows[: 1 if in_target else 2])[np.newaxis]
    deltas = draw.numbers((images, count * locations * 4), -1.0, 1.0)
    return Drawn(
        inputs=[deltas, scores.astype(np.float32), priors.astype(np.float32)],
        settings=words.replace(" }", f" {nms} }}"),
    )


def proposal(draw: Draw) -> Drawn:
    """`min_size` is 0: OpenCV has none."""
    ratios = [draw.choice(0.5, 1, 2) for _ in range(draw.integer(1, 2))]
    scales = [draw.choice(1, 2, 4) for _ in range(draw.integer(1, 2))]
    boxes = len(ratios) * len(scales)
    height, width = (draw.integer(3, 12 if draw.is_large else 6) for _ in range(2))
    words = settings(
        "proposal_param",
        feat_stride=16,
        base_size=16,
        min_size=0,
        ratio=ratios,
        scale=scales,
        pre_nms_topn=draw.integer(5, 200),
        post_nms_topn=draw.integer(3, 30),
        nms_thresh=draw.number(0.4, 0.8),
    )
    scores = draw.numbers((1, 2 * boxes, height, width), 0.0, 1.0)
    deltas = draw.numbers((1, 4 * boxes, height, width), -0.5, 0.5)
    picture = np.array([[16 * height, 16 * width, 1]], np.float32)
    return Drawn(inputs=[scores, deltas, picture], settings=words)


def regions(draw: Draw, images: int, size: float) -> np.ndarray:
    """In pixels of a picture, never half ones: who rounds them to even differs there."""
    count = draw.integer(1, 12)
    numbers = draw.random.integers(0, images, (count, 1))
    places = np.round(corners(draw, count, size), 2) + 0.001
    return np.concatenate([numbers, places], 1).astype(np.float32)


def roi_pooling(draw: Draw) -> Drawn:
    x = draw.image()
    words = settings(
        "roi_pooling_param",
        pooled_h=draw.integer(1, 5),
        pooled_w=draw.integer(1, 5),
        spatial_scale=0.25,
    )
    return Drawn(inputs=[draw.numbers(x), regions(draw, x[0], 4.0 * min(x[2:]))], settings=words)


def psroi_pooling(draw: Draw) -> Drawn:
    outputs, bins = draw.integer(1, 3), draw.integer(1, 4)
    x = draw.image(outputs * bins * bins)
    words = settings("psroi_pooling_param", output_dim=outputs, group_size=bins, spatial_scale=0.25)
    return Drawn(inputs=[draw.numbers(x), regions(draw, x[0], 4.0 * min(x[2:]))], settings=words)


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "DetectionOutput": detection_output,
    "PSROIPooling": psroi_pooling,
    "PriorBox": prior_box,
    "Proposal": proposal,
    "ROIPooling": roi_pooling,
}
