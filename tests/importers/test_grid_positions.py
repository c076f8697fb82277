"""Positions of a grid that are no numbers, judged by PyTorch."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from explorer.onnx_backend import Representation

X = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
NAN = [[[[np.nan, 0.2], [0.1, np.nan], [np.nan, np.nan], [0.3, -0.4]]]]
INFINITE = [[[[np.inf, 0.2], [-np.inf, 0.1], [0.1, np.inf], [0.3, -0.4]]]]


def sampled(grid: list, mode: str, border: str, align: int) -> tuple[np.ndarray, np.ndarray]:
    """Ours, and PyTorch's."""
    import torch

    text = f"""<ir_version: 9, opset_import: ["" : 20]>
      g (float[1,1,3,4] x, float[1,1,4,2] grid) => (float[1,1,1,4] y) {{
        y = GridSample <mode = "{mode}", padding_mode = "{border}", align_corners = {align}>
          (x, grid)
      }}"""
    array = np.array(grid, np.float32)
    representation = Representation(onnx.parser.parse_model(text), "INTERPRETER", lambda _: None)
    (found,) = representation.run({"x": X, "grid": array})
    torch_mode = "bilinear" if mode == "linear" else mode
    right = torch.nn.functional.grid_sample(
        torch.from_numpy(X), torch.from_numpy(array), torch_mode, border, bool(align)
    )
    return found, right.numpy()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_nan_is_the_lower_end(mode: str, border: str, align: int):
    """PyTorch's documentation: NaN in the grid is read as -1."""
    found, _ = sampled(NAN, mode, border, align)
    plain = np.nan_to_num(np.array(NAN, np.float32), nan=-1).tolist()
    _, right = sampled(plain, mode, border, align)
    np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.mark.parametrize("border", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_an_infinite_position_lies_outside(mode: str, border: str):
    """As one far outside does; PyTorch has NaN there for linear mixtures with zeros."""
    found, _ = sampled(INFINITE, mode, border, 0)
    far = np.nan_to_num(np.array(INFINITE, np.float32), posinf=1e4, neginf=-1e4).tolist()
    _, right = sampled(far, mode, border, 0)
    np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_an_infinite_position_without_a_mirror_image_is_no_error(mode: str):
    found, right = sampled(INFINITE, mode, "reflection", 1)
    np.testing.assert_allclose(found[..., 3], right[..., 3], rtol=1e-5)


def test_an_image_without_pixels_is_all_outside():
    """As onnx's reference has it."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[1,2,3,0] x, float[1,2,4,2] grid) => (float[1,2,2,4] y) { y = GridSample (x, grid) }
        """
    )
    feeds = {"x": np.zeros((1, 2, 3, 0), np.float32), "grid": np.zeros((1, 2, 4, 2), np.float32)}
    (found,) = Representation(model, "INTERPRETER", lambda _: None).run(feeds)
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_no_pixel_outside_meets_the_outermost_one(mode: str, number: float):
    """Zeros lie outside: the outermost pixel times their weight of 0 would be NaN."""
    import torch

    x = X.copy()
    x[..., 0, 0] = x[..., 2, 3] = x[..., 0, 3] = number
    grid = [[[[-3.0, -3.0], [3.0, 3.0], [-1.6, 0.1], [1.9, -2.2]]]]
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
      g (float[1,1,3,4] x, float[1,1,4,2] grid) => (float[1,1,1,4] y) {{
        y = GridSample <mode = "{mode}", padding_mode = "zeros"> (x, grid)
      }}"""
    array = np.array(grid, np.float32)
    representation = Representation(onnx.parser.parse_model(text), "INTERPRETER", lambda _: None)
    (found,) = representation.run({"x": x, "grid": array})
    torch_mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    right = torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(array), torch_mode, "zeros", False
    )
    np.testing.assert_allclose(found, right.numpy(), rtol=1e-5, atol=1e-6)
    assert np.isfinite(found[..., [0, 1, 3]]).all()
