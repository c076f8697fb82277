"""What detectors end with: boxes before and after they are found, of SSD and Faster R-CNN.

PriorBox           boxes at every pixel of a feature map     constants
DetectionOutput    (1, 1, R, 7): image label score x y x y   R is what data decide
Proposal           (R, 5): 0 x y x y, zeros behind the last

Source: src/caffe/layers/{prior_box,detection_output}_layer.cpp of SSD (Liu et al., 2016);
rpn/{generate_anchors,proposal_layer}.py of Faster R-CNN (Ren et al., 2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from explorer.importers.building import boxes
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, maximum, minimum, where
from explorer.importers.caffe.file.prototxt import Message
from explorer.importers.caffe.layers.node import CaffeNode, enum_of
from explorer.importers.caffe.layers.windows import pair
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.reductions.reduction import TopKOp
from explorer.ir.top.selection import NonZeroOp

_CODES = ("", "CORNER", "CENTER_SIZE", "CORNER_SIZE")
_NEVER = -float(np.finfo(np.float32).max)


def prior_box(node: CaffeNode, build: Build) -> Expr:
    """Boxes of each size and form around every pixel, as shares of the image; and variances."""
    layer = node.operand(0).sizes([2, 3], "prior boxes")
    image = node.operand(1).sizes([2, 3], "prior boxes")
    if any(node.own.has(name) for name in ("img_size", "img_h", "img_w")):
        image = list(pair(node.own, "img_size" if node.own.has("img_size") else "img", None))
    steps = [size / count for size, count in zip(image, layer, strict=True)]
    if node.own.has("step") or node.own.has("step_h"):
        steps = [node.own.number(f"step_{a}", node.own.number("step", 0.0)) for a in "hw"]
    if min(steps) <= 0:
        raise ValueError(f"steps of {steps[0]:g} by {steps[1]:g}")
    offset = node.own.number("offset", 0.5)
    y, x = ((np.arange(n) + offset) * step for n, step in zip(layer, steps, strict=True))
    halves = np.array(list(_sizes(node.own)), np.float64) / 2  # (boxes, width and height)
    centers = np.stack(np.meshgrid(x, y), 2)[:, :, np.newaxis]  # (H, W, 1, x and y)
    corners = np.concatenate([centers - halves, centers + halves], 3)
    corners = (corners / np.array([image[1], image[0]] * 2)).reshape(-1)
    if node.own.is_set("clip", False):
        corners = corners.clip(0, 1)
    variances = node.own.numbers("variance") or [0.1]
    if len(variances) not in (1, 4) or min(variances) <= 0:
        raise ValueError(f"variances {variances}")
    repeated = np.resize(np.array(variances), corners.size)
    return build.weight(np.stack([corners, repeated])[np.newaxis].astype(np.float32))


def _sizes(own: Message) -> Iterator[tuple[float, float]]:
    """Width and height of the boxes at a pixel, in pixels of the image."""
    least, most = own.numbers("min_size"), own.numbers("max_size")
    if not least or min(least) <= 0 or len(most) not in (0, len(least)):
        raise ValueError(f"min_size {least}, max_size {most}")
    ratios = []
    for ratio in own.numbers("aspect_ratio"):
        if ratio <= 0:
            raise ValueError(f"aspect_ratio {ratio:g}")
        if all(abs(ratio - known) >= 1e-6 for known in (1.0, *ratios)):
            ratios += [ratio, 1 / ratio] if own.is_set("flip", True) else [ratio]
    for index, size in enumerate(least):
        yield size, size
        if most:
            if most[index] <= size:
                raise ValueError(f"max_size {most[index]:g} is not above min_size {size:g}")
            between = math.sqrt(size * most[index])
            yield between, between
        for ratio in ratios:
            yield size * math.sqrt(ratio), size / math.sqrt(ratio)


def detection_output(node: CaffeNode, build: Build) -> Expr:
    """Boxes out of predictions, but for those that a better one of the same class hides."""
    own, nms = node.own, node.own.message("nms_param")
    images = node.operand(0).sizes([0], "a detection")[0]
    count = math.prod(node.operand(2).sizes([2], "a detection")) // 4
    classes, background = own.integer("num_classes", 0), own.integer("background_label_id", 0)
    labels = [label for label in range(classes) if label != background]
    if not labels or not count:
        raise ValueError(f"{classes} classes with the background {background}, {count} boxes")
    if nms.number("eta", 1.0) != 1.0:
        raise Unsupported("an overlap that changes (eta)")
    border = 0.0 if own.is_set("normalized_bbox", True) else 1.0
    found = _decoded(node, count, images, labels, border, build)  # (N, labels, P, 4)
    chances = node.operand(1).reshape([images, count, classes]).transpose([0, 2, 1])
    scores = _of_labels(chances, labels, classes)
    groups = images * len(labels)
    found, scores = boxes.best(
        found.reshape([groups, count, 4]),
        scores.reshape([groups, count]),
        nms.integer("top_k", -1),
        build,
    )
    overlap = nms.number("nms_threshold", 0.3)
    threshold = own.number("confidence_threshold", _NEVER)
    scores = boxes.kept(found, scores, overlap, threshold, border, build)
    return _rows(found, scores, images, labels, own.integer("keep_top_k", -1), build)


def _decoded(
    node: CaffeNode, count: int, images: int, labels: list[int], border: float, build: Build
) -> Expr:
    """For each image and class all boxes: (N, labels, P, 4)."""
    own = node.own
    is_shared = own.is_set("share_location", True)
    classes = 1 if is_shared else own.integer("num_classes", 0)
    deltas = node.operand(0).reshape([images, count, classes, 4]).transpose([0, 2, 1, 3])
    if not is_shared:
        deltas = _of_labels(deltas, labels, classes)
    priors = _prior(node, 0, count)
    if not own.is_set("variance_encoded_in_target", False):
        deltas = deltas * _prior(node, 1, count)
    found = boxes.decoded(
        deltas, priors, enum_of(own.word("code_type", "CORNER"), _CODES), border, build
    )
    if own.is_set("clip", False):
        zero, one = (found.constant(number) for number in (0, 1))
        found = maximum(minimum(found, one), zero)
    return found.broadcast_to([images, len(labels), count, 4]) if is_shared else found


def _prior(node: CaffeNode, row: int, count: int) -> Expr:
    """Corners of the prior boxes, or their variances."""
    return node.operand(2).slice(1, row, row + 1).reshape([1, 1, count, 4])


def _of_labels(x: Expr, labels: list[int], classes: int) -> Expr:
    """All classes along axis 1 but the background."""
    return x if len(labels) == classes else x.take(np.array(labels), 1)


def _rows(
    found: Expr, scores: Expr, images: int, labels: list[int], most: int, build: Build
) -> Expr:
    """The best of all classes, by image, class and score; one row of -1 for each image where there
    is none at all."""
    per_class = scores.sizes([1], "a detection")[0]
    every = len(labels) * per_class
    scores = scores.reshape([images, every])
    number = every if most < 0 else min(most, every)
    best, indices = build.values(TopKOp, [scores], k=number, axis=1, largest=True)
    is_found = best > -np.inf
    behind = build.weight(np.array(every, np.int64))
    places = where(is_found, indices, behind)
    # Places are in the order of classes, and of scores in a class.
    places = build.value(TopKOp, [places], k=number, axis=1, largest=False)
    is_found = places < behind
    places = minimum(places, build.weight(np.array(every - 1, np.int64)))
    first = build.weight(np.arange(images, dtype=np.int64)[:, np.newaxis] * every)
    flat = (places + first).reshape([-1])
    image, label = (
        build.weight(np.array(column, np.float32).reshape(-1, 1))
        for column in (
            np.repeat(np.arange(images), every),
            np.tile(np.repeat(labels, per_class), images),
        )
    )
    columns = [image, label, scores.reshape([-1, 1]), found.reshape([-1, 4])]
    rows = build.concat([build.value(GatherOp, [column, flat], axis=0) for column in columns], 1)
    nothing = np.full((images, 7), -1, np.float32)
    nothing[:, 0] = np.arange(images)
    is_found = is_found.reshape([-1]).astype(np.int64)
    one = build.weight(np.array(1, np.int64))
    is_empty = one - is_found.max([0], keepdims=True)
    shown = build.concat([is_found, is_empty.broadcast_to([images])], 0)
    chosen_rows = build.value(NonZeroOp, [shown]).reshape([-1])
    rows = build.concat([rows, build.weight(nothing)], 0)
    return build.value(GatherOp, [rows, chosen_rows], axis=0).reshape([1, 1, -1, 7])


def proposal(node: CaffeNode, build: Build) -> list[Expr]:
    """The best boxes that may hold something, and their scores; zeros behind the last one."""
    own = node.own
    images, channels, height, width = node.operand(0).sizes(range(4), "proposals")
    sizes = _anchors(own)
    if images != 1 or channels != 2 * len(sizes):
        raise Unsupported(f"{images} images, {channels} scores for {len(sizes)} boxes at a pixel")
    stride, before = own.integer("feat_stride", 16), own.integer("pre_nms_topn", 6000)
    shifts = np.stack(np.meshgrid(np.arange(width), np.arange(height)), 2) * stride
    anchors = np.tile(shifts, 2)[:, :, np.newaxis] + sizes  # (H, W, boxes, 4)
    priors = build.weight(anchors.reshape(1, -1, 4).astype(np.float32))
    scores = node.operand(0).slice(1, len(sizes), channels)
    scores = scores.transpose([0, 2, 3, 1]).reshape([1, -1])
    deltas = node.operand(1).transpose([0, 2, 3, 1]).reshape([1, -1, 4])
    found = boxes.decoded(deltas, priors, "CENTER_SIZE", 1.0, build)
    picture = node.operand(2).reshape([-1])  # height, width, scale
    most = picture.take(np.array([1, 0, 1, 0]), 0) - 1
    zero = found.constant(0)
    found = maximum(minimum(found, most), zero)
    scores = _large(found, scores, picture, own.number("min_size", 16.0), build)
    found, scores = boxes.best(found, scores, before, build)
    scores = boxes.kept(found, scores, own.number("nms_thresh", 0.7), _NEVER, 1.0, build)
    return _proposed(found, scores, own.integer("post_nms_topn", 300), build)[: len(node.outputs)]


def _anchors(own: Message) -> np.ndarray:
    """Boxes around the first pixel, of each ratio and scale: (boxes, 4)."""
    base = own.integer("base_size", 16)
    ratios, scales = own.numbers("ratio") or [0.5, 1, 2], own.numbers("scale") or [8, 16, 32]
    if base < 1 or min(*ratios, *scales) <= 0:
        raise ValueError(f"base_size {base}, ratios {ratios}, scales {scales}")
    made = []
    for ratio in ratios:
        width = math.floor(base / math.sqrt(ratio) + 0.5)
        height = math.floor(width * ratio + 0.5)
        made += [(width * scale, height * scale) for scale in scales]
    sizes = np.array(made, np.float64)
    low = (base - sizes) / 2
    return np.concatenate([low, low + sizes - 1], 1)


def _large(found: Expr, scores: Expr, picture: Expr, least: float, build: Build) -> Expr:
    """Scores with the least number for boxes that are smaller than pixels of the picture."""
    high, low = (found.slice(2, at, at + 2) for at in (2, 0))
    size = (high - low + 1).min([2])
    return where(size >= picture.slice(0, 2, 3).scaled(least), scores, _NEVER)


def _proposed(found: Expr, scores: Expr, most: int, build: Build) -> list[Expr]:
    count = scores.sizes([1], "proposals")[0]
    number = min(most, count)
    values, indices = build.values(TopKOp, [scores], k=number, axis=1, largest=True)
    rows = build.value(GatherOp, [found.reshape([-1, 4]), indices.reshape([-1])], axis=0)
    values = values.reshape([-1, 1])
    is_found = values > -np.inf
    zero = values.constant(0)
    made = [where(is_found, part, zero) for part in (rows, values)]
    made = [part.pad([0, 0], [most - number, 0]) for part in made]
    return [made[0].pad([0, 1], [0, 0]), made[1]]


CONVERTERS = {
    "PriorBox": prior_box,
    "DetectionOutput": detection_output,
    "Proposal": proposal,
}
