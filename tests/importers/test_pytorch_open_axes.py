"""Operators along axes that are open, in one program for all sizes, judged by PyTorch.

Height and width have equal bounds: what confuses one axis with the other gives wrong numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.importers import load

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
F = torch.nn.functional
SIZES = [(1, 4, 4), (2, 20, 20), (2, 5, 17), (1, 19, 6)]
OPERATORS = {
    "softmax along both": lambda x: x.softmax(3) + x.softmax(2),
    "flip both": lambda x: x.flip((2, 3)),
    "flip a slice": lambda x: x[:, :, 1:].flip(3)[..., :-1],
    "roll": lambda x: torch.roll(x, (1, -22), (2, 3)),
    "rot90": lambda x: torch.rot90(x, 1, (2, 3)),
    "reflect": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, -2, 3, 0), mode="replicate"),
    "circular": lambda x: F.pad(x, (1, 2, 3, 4), mode="circular"),
    "var": lambda x: (x + 1000).var((1, 3)),
    "std": lambda x: x[:, :, :1].std((2,), unbiased=False)[..., None] + x.std((2, 3), keepdim=True),
    "var_mean": lambda x: torch.cat(torch.var_mean(x, (2,), keepdim=True), 2),
    "diff": lambda x: x.diff(dim=3).abs().sum((2, 3)),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(3), dim=3),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x.repeat(1, 1, 2, 2), 2),
}
QUICK = ("softmax along both", "flip a slice", "replicate", "roll", "std", "pixel_unshuffle")


def check(operator: Any, path: Any) -> None:
    class Operator(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return operator(x)

    batch, height, width = (
        torch.export.Dim(name, min=low, max=high)
        for name, low, high in (("batch", 1, 2), ("height", 4, 20), ("width", 4, 20))
    )
    module, generator = Operator().eval(), torch.Generator().manual_seed(1)
    sample = torch.randn(2, 3, 8, 10, generator=generator)
    exported = torch.export.export(
        module, (sample,), dynamic_shapes={"x": {0: batch, 2: height, 3: width}}
    )
    torch.export.save(exported, path)
    c = ex.compile(path, dimensions=dict(load(path).ranges))
    for n, h, w in SIZES:
        x = torch.randn(n, 3, h, w, generator=generator)
        (found,) = c.run({"x": x.numpy()}).values()
        expected = module(x).numpy()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", QUICK)
def test_an_operator_is_right_at_every_size(name, tmp_path):
    check(OPERATORS[name], tmp_path / "operator.pt2")


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in QUICK])
def test_every_operator_is_right_at_every_size(name, tmp_path):
    check(OPERATORS[name], tmp_path / "operator.pt2")
