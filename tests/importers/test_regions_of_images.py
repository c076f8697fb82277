"""Pools of regions do not meet what lies outside of them, be it NaN or infinite."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.importers.caffe.file.reading import read
from verification.conformance.caffe.models import one_layer


def defined(x: np.ndarray, region: np.ndarray, bins: int) -> np.ndarray:
    """R-FCN's definition, pixel by pixel."""
    begins, lengths = [], []
    for first in (1, 2):
        begin, end = (np.floor(region[at] + 0.5) for at in (first, first + 2))
        begins.append(begin)
        lengths.append(max(end + 1 - begin, 0.1))
    found = np.zeros((bins, bins))
    for i in range(bins):
        for j in range(bins):
            ends = [
                (
                    int(np.floor(begin + k * length / bins)),
                    int(np.ceil(begin + (k + 1) * length / bins)),
                )
                for k, begin, length in zip((j, i), begins, lengths, strict=True)
            ]
            (left, right), (top, bottom) = ends
            found[i, j] = x[i * bins + j, max(top, 0) : bottom, max(left, 0) : right].mean()
    return found


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_mean_of_a_region_leaves_out_what_lies_around_it(number: float):
    settings = "psroi_pooling_param { output_dim: 1 group_size: 2 spatial_scale: 1 }"
    text, content = one_layer("PSROIPooling", settings, [(1, 4, 6, 6), (2, 5)])
    model = read(text, memoryview(content), "net")
    x = np.random.default_rng(2).standard_normal((1, 4, 6, 6)).astype(np.float32)
    x[..., 0, :] = x[..., 5] = number
    regions = np.array([[0, 1, 1, 4, 4], [0, 0, 1, 3, 5]], np.float32)
    (found,) = ex.interpret(model, {"x0": x, "x1": regions}).values()
    for result, region in zip(found, regions, strict=True):
        np.testing.assert_allclose(result[0], defined(x[0], region, 2), 1e-5)
    assert np.isfinite(found).all()


def test_the_greatest_of_a_bin_may_be_minus_infinity_and_is_0_of_an_empty_one():
    settings = "roi_pooling_param { pooled_h: 1 pooled_w: 2 spatial_scale: 1 }"
    text, content = one_layer("ROIPooling", settings, [(1, 1, 4, 4), (3, 5)])
    x = np.full((1, 1, 4, 4), -np.inf, np.float32)
    x[0, 0, 0, 3] = -2
    regions = np.array([[0, 0, 0, 1, 3], [0, 2, 0, 3, 3], [0, 6, 6, 9, 9]], np.float32)
    model = read(text, memoryview(content), "net")
    (found,) = ex.interpret(model, {"x0": x, "x1": regions}).values()
    expected = [[-np.inf, -np.inf], [-np.inf, -2], [0, 0]]
    np.testing.assert_array_equal(found[:, 0, 0], expected)
