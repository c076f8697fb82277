"""Caches in buffers of PyTorch: what writes a few rows leaves the others where they lie.

Eager PyTorch judges results and buffers after each of four calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
ROWS = 9


class Cache(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("keys", torch.zeros(1, 2, ROWS, 4))

    def forward(self, x: Any, place: Any) -> Any:
        new = x.view(1, 2, 1, 4)
        if self.kind == "index":
            self.keys[:, :, place] = new
        elif self.kind == "added":
            self.keys.index_put_((torch.tensor([0]), torch.tensor([1]), place), new[0, 1], True)
        elif self.kind == "index_copy":
            self.keys.index_copy_(2, place, new)
        elif self.kind == "slice":
            self.keys[:, :, 3:4] = new
        elif self.kind == "row":
            self.keys[:, 1, 2] = x.view(2, 4)[:1]
        return self.keys.sum(2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["index", "added", "index_copy", "slice", "row"])
def test_rows_of_a_cache_are_written_where_it_lies(kind: str):
    module, eager = Cache(kind).eval(), Cache(kind).eval()
    with torch.no_grad():
        program = torch.export.export(module, (torch.zeros(8), torch.tensor([1])))
    compilation = ex.compile(program)
    (copied,) = compilation["write-in-place"].artifacts["state copies"].values()
    assert copied == ""
    if kind in ("index", "index_copy", "slice"):  # along one axis: nothing of it is moved
        kernels = [launch.kernel for launch in compilation.program.launches]
        assert not [name for name in kernels if name.startswith(("transpose", "concat", "slice"))]
    with compilation.open(isolated=False, remembers=True) as opened, torch.no_grad():
        assert opened.copied_bytes == 0
        names = [port.name for port in opened.program.inputs]
        for place in (0, 3, 3, ROWS - 1):
            x, places = torch.randn(8), torch.tensor([place])
            given = dict(zip(("x", "place"), (x.numpy(), places.numpy()), strict=True))
            found = opened.run({name: given[name] for name in names})
            expected = eager(x, places).numpy()
            np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(next(iter(opened.state().values())), eager.keys.numpy())
