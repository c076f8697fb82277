"""Operators of torchvision's own, which need not be there: programs name them.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from math import floor
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")

LIBRARY: Any = torch.library.Library("torchvision", "FRAGMENT")
SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}


def declare(name: str, shape: Any) -> Any:
    """The operator as torchvision declares it; shape: an empty result for its operands."""
    if not hasattr(torch.ops.torchvision, name):
        LIBRARY.define(f"{name}{SCHEMAS[name]}")
        torch.library.register_fake(f"torchvision::{name}", shape)
    return getattr(torch.ops.torchvision, name)


def interpreted(module: Any, inputs: tuple[Any, ...]) -> np.ndarray:
    with torch.no_grad():
        model = ex.load(torch.export.export(module, inputs))
    names = [value.name for value in model.inputs]
    arrays = {n: x.numpy() for n, x in zip(names, inputs, strict=True)}
    (found,) = ex.interpret(model, arrays).values()
    return found


def test_boxes_that_a_better_one_hides_go():
    nms = declare("nms", places_of_boxes)

    class Module(torch.nn.Module):
        def forward(self, boxes: Any, scores: Any) -> Any:
            return boxes[nms(boxes, scores, 0.4)]

    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3], [5, 5, 9, 9], [1, 0, 4, 4], [8, 8, 9, 9]])
    scores = torch.tensor([0.5, 0.9, 0.1, 0.2, 0.8])
    found = interpreted(Module(), (boxes, scores))
    np.testing.assert_array_equal(found, boxes.numpy()[[1, 4, 2]])


def places_of_boxes(boxes: Any, scores: Any, threshold: float) -> Any:
    """What torch.export learns of the result: not how many there are."""
    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(count, dtype=torch.int64)


@pytest.mark.parametrize("has_mask", [False, True])
def test_windows_are_deformed(has_mask: bool):
    torch.manual_seed(0)
    convolve = declare("deform_conv2d", image_of_windows)
    weight, bias = torch.randn(4, 2, 3, 2), torch.randn(4)
    settings = (2, 1, 1, 0, 1, 2, 2, 2, has_mask)  # strides, pads, dilations, groups

    class Module(torch.nn.Module):
        def forward(self, x: Any, offset: Any, mask: Any) -> Any:
            return convolve(x, weight, offset, mask, bias, *settings)

    x, offset = torch.randn(1, 4, 6, 5), 2 * torch.randn(1, 24, 3, 3)
    mask = torch.rand(1, 12, 3, 3)
    expected = deformed(*(t.numpy() for t in (x, weight, offset)), mask.numpy() if has_mask else 1)
    found = interpreted(Module(), (x, offset, mask))
    expected = expected + bias.numpy()[:, np.newaxis, np.newaxis]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def image_of_windows(x: Any, weight: Any, offset: Any, *rest: Any) -> Any:
    return x.new_empty((x.shape[0], weight.shape[0], *offset.shape[2:]))


def deformed(x: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: Any) -> np.ndarray:
    """The convolution of one image, pixel by pixel: two groups, each with its offsets."""
    outputs, inner, height, width = weight.shape
    mask = np.broadcast_to(mask, (1, 2 * height * width, *offset.shape[2:]))
    result = np.zeros((outputs, *offset.shape[2:]))
    for o, row, column in np.ndindex(result.shape):
        group = o // (outputs // 2)
        for c, i, j in np.ndindex(inner, height, width):
            element = (group * height + i) * width + j
            dy, dx = offset[0, 2 * element : 2 * element + 2, row, column]
            place = 2 * row - 1 + i + dy, column + 2 * j + dx
            value = between_pixels(x[0, group * inner + c], *place)
            result[o, row, column] += value * mask[0, element, row, column] * weight[o, c, i, j]
    return result


def between_pixels(image: np.ndarray, y: float, x: float) -> float:
    """Zeros lie outside."""
    value = 0.0
    for row, column in np.ndindex(2, 2):
        i, j = floor(y) + row, floor(x) + column
        share = (1 - abs(y - i)) * (1 - abs(x - j))
        if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
            value += share * image[i, j]
    return value
