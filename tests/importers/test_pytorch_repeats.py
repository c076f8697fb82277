"""Different and repeated elements, whose number only a run knows, against PyTorch.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")

WHOLE = torch.tensor([[3, 1, 1], [1, 3, 3], [3, 1, 1]])
RUNS = torch.tensor([2.0, 2, 7, 7, 7, 2, 1])
COUNTS = torch.tensor([2, 0, 3])
Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "different": (lambda x: x.unique(), (WHOLE,)),
    "with places and counts": (
        lambda x: x.unique(return_inverse=True, return_counts=True),
        (WHOLE.float(),),
    ),
    "rows": (
        lambda x: x.unique(dim=0, return_inverse=True, return_counts=True),
        (WHOLE,),
    ),
    "columns": (lambda x: x.unique(dim=1), (WHOLE,)),
    "runs": (lambda x: x.unique_consecutive(), (RUNS,)),
    "runs with places and counts": (
        lambda x: x.unique_consecutive(return_inverse=True, return_counts=True),
        (WHOLE,),
    ),
    "runs of columns": (
        lambda x: x.unique_consecutive(return_inverse=True, return_counts=True, dim=1),
        (WHOLE,),
    ),
    "places by counts": (torch.repeat_interleave, (COUNTS,)),
    "elements by counts": (lambda x, n: x[0].repeat_interleave(n), (WHOLE, COUNTS)),
    "columns by counts": (lambda x, n: x.repeat_interleave(n, dim=1), (WHOLE, COUNTS)),
    "all by one count": (lambda x, n: x.repeat_interleave(n[:1]), (WHOLE, COUNTS)),
    "a known number": (
        lambda x, n: x.repeat_interleave(n, dim=0, output_size=5),
        (WHOLE, COUNTS),
    ),
    "coordinates of a number": (lambda x: x[0, 0].nonzero(), (WHOLE,)),
    "coordinates": (lambda x: (x - 1).nonzero(), (WHOLE,)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_call_gives_what_pytorch_gives(name: str):
    function, inputs = CASES[name]

    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    model = ex.load(torch.export.export(Module(), inputs))
    arrays = {v.name: x.numpy() for v, x in zip(model.inputs, inputs, strict=True)}
    found = ex.interpret(model, arrays)
    right = function(*inputs)
    right = [right] if torch.is_tensor(right) else list(right)
    for value, tensor in zip(model.outputs, right, strict=True):
        assert found[value.name].dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(found[value.name], tensor.numpy())
