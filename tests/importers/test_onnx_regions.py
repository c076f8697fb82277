"""MaxRoiPool: bins of regions of an image, against onnxruntime."""

import numpy as np
import pytest
from onnx import helper

from explorer.importers.onnx import from_proto

EXACT = 0.0
# Inside, at the border, outside, of no size, between pixels.
CHOSEN = np.float32(
    [
        [0, 0, 0, 5, 7],
        [1, 2, 3, 4, 4],
        [0, -3, -2, 2, 3],
        [1, 4, 5, 20, 30],
        [1, 5, 5, 2, 2],
        [0, 50, 60, 70, 80],
        [0, 3.5, 2.5, 6.5, 6.4],
    ]
)


def drawn(count: int) -> np.ndarray:
    random = np.random.default_rng(4)
    corners = np.sort(random.uniform(-2, 12, (count, 2, 2)), axis=1).reshape(count, 4)
    return np.concatenate([random.integers(0, 2, (count, 1)), corners], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("regions", "bins", "scale"),
    [(CHOSEN, [2, 3], 1.0), (CHOSEN, [1, 1], 0.3), (drawn(30), [7, 5], 0.9)],
)
def test_the_greatest_of_each_bin(make_model, compare, regions, bins, scale):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32) - 3
    inputs = {"x": x, "regions": regions}
    node = helper.make_node(
        "MaxRoiPool", list(inputs), ["y"], name="n", pooled_shape=bins, spatial_scale=scale
    )
    assert compare(from_proto(make_model([node], inputs, {}, 11)), inputs) == EXACT
