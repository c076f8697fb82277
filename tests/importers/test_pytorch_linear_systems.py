"""Factors of matrices, against PyTorch.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex
from explorer.importers.model import SourceModel

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
LINALG: Any = torch.linalg

torch.manual_seed(0)
ONE, STACK = torch.randn(4, 4), torch.randn(2, 3, 4, 4)
POSITIVE = ONE @ ONE.mT + torch.eye(4)

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "factor": (LINALG.cholesky, (POSITIVE,)),
    "upper factor": (lambda x: LINALG.cholesky(x, upper=True), (POSITIVE,)),
    "factor with its error": (lambda x: tuple(LINALG.cholesky_ex(x)), (POSITIVE,)),
    "error of a factor": (
        lambda x: LINALG.cholesky_ex(x)[1],
        (torch.diag(torch.tensor([4.0, -1, 9])),),
    ),
    "both factors": (lambda x: tuple(LINALG.lu_factor_ex(x)), (STACK,)),
    "factors without a pivot": (
        lambda x: tuple(LINALG.lu_factor_ex(x)),
        (torch.tensor([[0.0, 1, 2], [0, 3, 4], [0, 5, 6]]),),
    ),
    "factors of a tall matrix": (lambda x: tuple(LINALG.lu(x)), (STACK[..., :3],)),
    "factors of a wide matrix": (
        lambda x: tuple(torch.lu_unpack(*LINALG.lu_factor(x))),
        (STACK[..., :3, :],),
    ),
}


OTHER_WHEN_DECOMPOSED = ("factor", "factors of a wide matrix")


def exported(
    function: Callable[..., Any], inputs: tuple[Any, ...], is_decomposed: bool
) -> SourceModel:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    with torch.no_grad():
        program = torch.export.export(Module(), inputs)
        return ex.load(program.run_decompositions() if is_decomposed else program)


@pytest.mark.parametrize("name", list(CASES))
def test_a_call_gives_what_pytorch_gives(name: str):
    require_right(name, is_decomposed=False)


@pytest.mark.parametrize("name", [name for name in CASES if name in OTHER_WHEN_DECOMPOSED])
def test_a_call_does_so_after_its_decomposition(name: str):
    require_right(name, is_decomposed=True)


def require_right(name: str, is_decomposed: bool) -> None:
    function, inputs = CASES[name]
    model = exported(function, inputs, is_decomposed)
    arrays = {v.name: x.numpy() for v, x in zip(model.inputs, inputs, strict=True)}
    found = ex.interpret(model, arrays)
    right = function(*inputs)
    right = [right] if torch.is_tensor(right) else list(right)
    for value, tensor in zip(model.outputs, right, strict=True):
        assert found[value.name].dtype == tensor.numpy().dtype
        bound = 1e-4 * float(tensor.abs().max())
        np.testing.assert_allclose(found[value.name], tensor.numpy(), rtol=0, atol=bound)
