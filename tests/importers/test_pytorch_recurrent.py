"""LSTMs that project their state, against PyTorch.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")

CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "one layer": (5, {}),
    "one step": (1, {"bias": False}),
    "both directions, two layers": (3, {"num_layers": 2, "bidirectional": True}),
    "more steps than are unrolled": (70, {"num_layers": 2}),
    "batch first": (4, {"batch_first": True, "num_layers": 2, "bias": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_projected_state_goes_to_the_next_step(name: str):
    steps, settings = CASES[name]
    torch.manual_seed(0)
    module = torch.nn.LSTM(6, 8, proj_size=3, **settings).eval()
    x = torch.randn(*((2, steps) if settings.get("batch_first") else (steps, 2)), 6)
    count = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    h, c = torch.randn(count, 2, 3), torch.randn(count, 2, 8)

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            y, (last, cell) = self.inner(x, (h, c))
            return y, last, cell

    with torch.no_grad():
        expected = Module()(x, h, c)
        model = ex.load(torch.export.export(Module().eval(), (x, h, c)))
    names = [value.name for value in model.inputs]
    given = {n: value.numpy() for n, value in zip(names, (x, h, c), strict=True)}
    found = list(ex.interpret(model, given).values())
    for own, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, theirs.numpy(), rtol=1e-5, atol=1e-6)
