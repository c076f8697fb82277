"""Functions of half precision which rest on the limits of a type, judged by eager PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
HALVES = [torch.float16, torch.bfloat16]


def results(function: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ours, and eager's, in float64."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    model = ex.load(torch.export.export(Module(), (x,)))
    given = x if x.dtype == torch.float16 else x.float()
    array = given.numpy().astype(model.inputs[0].element_type)
    (found,) = ex.interpret(model, {model.inputs[0].name: array}).values()
    return np.asarray(found).astype(np.float64), function(x).double().numpy()


@pytest.mark.parametrize("dtype", HALVES)
def test_the_least_addend_of_an_rms_norm_is_that_of_float32(dtype: Any):
    x = torch.tensor([[1e-3, -2e-3, 1e-4, 0]], dtype=dtype)
    found, right = results(lambda x: torch.nn.functional.rms_norm(x, (4,)), x)
    np.testing.assert_allclose(found, right, rtol=1e-2)


@pytest.mark.parametrize("dtype", HALVES)
def test_infinities_become_the_ends_of_their_type(dtype: Any):
    x = torch.tensor([np.inf, -np.inf, np.nan, 2.0], dtype=dtype)
    found, right = results(torch.nan_to_num, x)
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("p", [1.0, 2.0, 5.0])
def test_a_norm_beyond_the_type_still_scales_its_slice(p: float, dtype: Any):
    end = torch.finfo(torch.float16).max
    x = torch.tensor([[end, -end, 1], [end, end, end], [0.5, 0, -0.5]], dtype=dtype)
    found, right = results(lambda x: torch.renorm(x, p, 0, 2.0), x)
    assert right[:2].any(-1).all()
    np.testing.assert_allclose(found, right, rtol=1e-2, atol=1e-7)
