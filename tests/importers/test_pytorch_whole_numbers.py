"""Calls of whole numbers, booleans and half types give what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex

torch = pytest.importorskip("torch", reason="PyTorch judges here: the extra torch")
F = torch.nn.functional
Calls = Callable[..., tuple[Any, ...]]


def distances(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
    return (
        F.pairwise_distance(x, y),
        F.pairwise_distance(x, y, p=1.0, keepdim=True),
        F.triplet_margin_loss(x, y, z, swap=True),
        F.triplet_margin_loss(x, y, z, reduction="none", margin=3.0),
    )


def cosines(x: Any, y: Any, target: Any) -> tuple[Any, ...]:
    return (F.cosine_embedding_loss(x, y, target, reduction="none", margin=0.2),)


def averages(x: Any) -> tuple[Any, ...]:
    return (
        F.avg_pool2d(x, (4, 4), (2, 3), (1, 1), True, False, 2),
        F.avg_pool2d(x, 3, divisor_override=-5),
        F.avg_pool2d(x, 3),
    )


def scattered(x: Any, places: Any, values: Any) -> tuple[Any, ...]:
    return (
        x.scatter_reduce(1, places, values, "amax", include_self=False),
        x.scatter_reduce(1, places, values, "amin", include_self=False),
        *torch.mode(x, 1),
    )


def bags(weight: Any, places: Any, begins: Any) -> tuple[Any, ...]:
    """A negative padding counts rows from the end."""
    return tuple(
        F.embedding_bag(places, weight, begins, mode=mode, padding_idx=padding)
        for mode in ("sum", "mean", "max")
        for padding in (-1, -2, None)
    )


def grids(x: Any, grid: Any) -> tuple[Any, ...]:
    return tuple(
        F.grid_sample(x, grid, mode, border, False)
        for mode in ("bilinear", "bicubic")
        for border in ("zeros", "reflection")
    )


def nothing(x: Any, places: Any, images: Any) -> tuple[Any, ...]:
    return (
        torch.gather(x, 0, places),
        *torch.native_group_norm(images, None, None, images.shape[0], 4, 3, 2, 1e-5),
    )


def drawn(dtype: Any, *shape: int, low: int = -100, high: int = 100) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    least = 0 if dtype == torch.uint8 else low
    return torch.randint(least, high, shape, generator=generator).to(dtype)


INT8, UINT8, INT32, INT64 = torch.int8, torch.uint8, torch.int32, torch.int64
TARGETS = torch.tensor([1, -1, -1, 1])
CASES: dict[str, tuple[Calls, tuple[Any, ...]]] = {
    **{
        f"distances of {dtype}": (distances, tuple(drawn(dtype, n, 3) for n in (4, 4, 4)))
        for dtype in (INT8, UINT8, INT32, INT64)
    },
    "uint8 wraps": (distances, (drawn(UINT8, 4, 3), drawn(UINT8, 4, 3) + 200, drawn(UINT8, 1, 3))),
    "cosines of uint8": (cosines, (drawn(UINT8, 4, 5), drawn(UINT8, 4, 5) + 3, TARGETS.to(UINT8))),
    "cosines of bool": (
        cosines,
        (drawn(INT8, 4, 5) > 0, drawn(INT8, 4, 5) > -50, TARGETS > 0),
    ),
    "averages": (averages, (drawn(INT64, 1, 3, 9, 9),)),
    "places of bool": (
        scattered,
        (
            drawn(INT8, 3, 6) > 0,
            torch.tensor([[0, 0, 5], [1, 2, 3], [4, 4, 4]]),
            torch.tensor([[False, False, True], [True, False, True], [False, False, False]]),
        ),
    ),
    "bags of float16": (
        bags,
        (drawn(INT8, 5, 5).half(), torch.tensor([4, 1, 1, 0, 4, 3]), torch.tensor([0, 3])),
    ),
    **{
        f"grids of {dtype}": (
            grids,
            (drawn(INT8, 1, 2, 5, 5).to(dtype) / 7, (drawn(INT8, 1, 4, 4, 2) / 90).to(dtype)),
        )
        for dtype in (torch.float16, torch.bfloat16)
    },
    "no places, no images": (
        nothing,
        (drawn(INT64, 5), torch.zeros(2, 0, dtype=INT64), torch.zeros(0, 4, 3).half()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_what_eager_gives(name: str):
    calls, inputs = CASES[name]

    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return calls(*tensors)

    model = ex.load(torch.export.export(Module(), inputs))
    arrays = {v.name: as_array(t) for v, t in zip(model.inputs, inputs, strict=True)}
    found = ex.interpret(model, arrays)
    expected = calls(*inputs)
    if calls is grids:  # eager has places of half precision
        expected = [y.to(inputs[0].dtype) for y in calls(*(t.double() for t in inputs))]
    for value, right in zip(model.outputs, expected, strict=True):
        ours = np.asarray(found[value.name])
        assert ours.shape == tuple(right.shape) and ours.dtype.name == str(right.dtype)[6:]
        step = torch.finfo(right.dtype).eps if right.dtype.is_floating_point else 0
        scale = float(right.double().abs().max()) if right.numel() else 0.0
        np.testing.assert_allclose(
            ours.astype(np.float64), right.double().numpy(), rtol=0, atol=4 * step * scale
        )


def as_array(tensor: Any) -> np.ndarray:
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    import ml_dtypes

    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def test_an_addition_at_places_wraps_its_factor():
    """alpha is a number of the tensor's type."""
    x, values = drawn(UINT8, 5, 3), drawn(UINT8, 2, 3)

    class Module(torch.nn.Module):
        def forward(self, x: Any, values: Any) -> Any:
            return x.index_add(0, torch.tensor([4, 1]), values, alpha=-1)

    model = ex.load(torch.export.export(Module(), (x, values)))
    names = [value.name for value in model.inputs]
    (found,) = ex.interpret(
        model, dict(zip(names, (x.numpy(), values.numpy()), strict=True))
    ).values()
    np.testing.assert_array_equal(found, Module()(x, values).numpy())
