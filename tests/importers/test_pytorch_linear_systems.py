"""Systems of equations, inverses, powers, factors and singular values of matrices, against PyTorch.

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
VECTOR, COLUMNS = torch.randn(4), torch.randn(3, 4, 2)
POSITIVE = ONE @ ONE.mT + torch.eye(4)
LOWER, UPPER = torch.linalg.cholesky(POSITIVE), torch.linalg.cholesky(POSITIVE, upper=True)
TENSOR = torch.randn(2, 3, 6)

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {
    "inverse": (torch.inverse, (STACK,)),
    "inverse of one": (LINALG.inv, (ONE,)),
    "columns": (LINALG.solve, (STACK, COLUMNS)),
    "vector": (LINALG.solve, (ONE, VECTOR)),
    "a vector for each": (LINALG.solve, (STACK, STACK[..., 0])),
    "from the right": (lambda a, b: LINALG.solve(a, b, left=False), (ONE, COLUMNS.mT)),
    "solution with its error": (lambda a, b: tuple(LINALG.solve_ex(a, b)), (STACK, COLUMNS)),
    "inverse with its error": (lambda a: tuple(LINALG.inv_ex(a)), (STACK,)),
    "lower triangle": (
        lambda a, b: LINALG.solve_triangular(a, b, upper=False),
        (LOWER, COLUMNS),
    ),
    "upper triangle of ones": (
        lambda a, b: LINALG.solve_triangular(a, b, upper=True, unitriangular=True),
        (ONE, COLUMNS),
    ),
    "triangle from the right": (
        lambda a, b: LINALG.solve_triangular(a, b, upper=True, left=False),
        (UPPER, COLUMNS.mT),
    ),
    "triangle of old": (
        lambda b, a: tuple(torch.triangular_solve(b, a, upper=False, transpose=True)),
        (COLUMNS, LOWER),
    ),
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
    "behind both factors": (
        lambda a, b: LINALG.lu_solve(*LINALG.lu_factor(a), b, adjoint=True),
        (STACK, COLUMNS),
    ),
    "behind both factors, from the right": (
        lambda a, b: LINALG.lu_solve(*LINALG.lu_factor(a), b, left=False),
        (STACK, COLUMNS.mT),
    ),
    "behind factors of old": (
        lambda a, b: torch.lu_solve(b, *torch.linalg.lu_factor(a)),
        (STACK, COLUMNS),
    ),
    "behind factors": (torch.cholesky_solve, (COLUMNS, LOWER)),
    "behind upper factors": (
        lambda b, u: torch.cholesky_solve(b, u, upper=True),
        (COLUMNS, UPPER),
    ),
    "inverse by factors": (torch.cholesky_inverse, (LOWER,)),
    "fifth power": (lambda x: LINALG.matrix_power(x, 5), (STACK,)),
    "power of nothing": (lambda x: LINALG.matrix_power(x, 0), (STACK,)),
    "negative power": (lambda x: torch.matrix_power(x, -2), (ONE,)),
    "exponential": (torch.matrix_exp, (3 * STACK,)),
    "inverse of a tensor": (lambda x: LINALG.tensorinv(x, ind=2), (TENSOR,)),
    "system of tensors": (LINALG.tensorsolve, (TENSOR, torch.randn(2, 3))),
    "axes elsewhere": (
        lambda x, b: LINALG.tensorsolve(x, b, dims=(0,)),
        (TENSOR.permute(2, 0, 1), torch.randn(2, 3)),
    ),
}


def recomposed(x: Any, full: bool = False) -> Any:
    u, s, vh = LINALG.svd(x, full_matrices=full)
    return (u * s[..., None, :]) @ vh, s, u.abs()


def all_vectors(x: Any) -> Any:
    """What does not ask for signs, nor for the vectors of a value that is 0."""
    u, s, vh = LINALG.svd(x)
    count = s.shape[-1]
    return u.mT @ u, vh @ vh.mT, (u[..., :count] * s[..., None, :]) @ vh[..., :count, :]


LOW_RANK = torch.randn(5, 2) @ torch.randn(2, 4)
TALL, WIDE = STACK[..., :3], STACK[..., :3, :]
CASES |= {
    "orthogonal factor": (lambda x: tuple(LINALG.qr(x)), (STACK,)),
    "orthogonal factor of a tall matrix": (lambda x: tuple(LINALG.qr(x)), (TALL,)),
    "orthogonal factor of a wide matrix": (lambda x: tuple(LINALG.qr(x)), (WIDE,)),
    "all of an orthogonal factor": (lambda x: tuple(LINALG.qr(x, "complete")), (TALL,)),
    "no orthogonal factor": (lambda x: LINALG.qr(x, "r")[1], (TALL,)),
    "orthogonal factor of old": (lambda x: tuple(torch.qr(x, some=False)), (TALL,)),
    "reflections": (lambda x: tuple(torch.geqrf(x)), (TALL,)),
    "product of reflections": (lambda x: LINALG.householder_product(*torch.geqrf(x)), (TALL,)),
    "product of fewer reflections": (torch.orgqr, (STACK, STACK[..., 0, :2])),
    "behind reflections": (lambda x, y: torch.ormqr(*torch.geqrf(x), y), (TALL, WIDE.mT)),
    "behind their transpose": (
        lambda x, y: torch.ormqr(*torch.geqrf(x), y, transpose=True),
        (TALL, WIDE.mT),
    ),
    "before reflections": (
        lambda x, y: torch.ormqr(*torch.geqrf(x), y, left=False),
        (TALL, WIDE),
    ),
    "before their transpose": (
        lambda x, y: torch.ormqr(*torch.geqrf(x), y, left=False, transpose=True),
        (TALL, WIDE),
    ),
    "all vectors of a tall matrix": (all_vectors, (TALL,)),
    "all vectors of a wide matrix": (all_vectors, (WIDE,)),
    "all vectors of a low rank": (all_vectors, (LOW_RANK,)),
    "all vectors of old": (lambda x: torch.svd(x, some=False).U[..., :3].abs(), (TALL,)),
    "singular values": (LINALG.svdvals, (STACK[..., :3],)),
    "both sides": (recomposed, (STACK[..., :3, :],)),
    "both sides, all of them": (lambda x: recomposed(x, True), (STACK,)),
    "both sides of old": (lambda x: (torch.svd(x).U.abs(), torch.svd(x).V.abs()), (STACK,)),
    "rank": (LINALG.matrix_rank, (LOW_RANK,)),
    "rank by a bound": (lambda x: LINALG.matrix_rank(x, atol=1.0), (STACK,)),
    "pseudo-inverse": (LINALG.pinv, (LOW_RANK,)),
    "pseudo-inverse by a bound": (lambda x: torch.pinverse(x, 0.3), (STACK,)),
    "pseudo-inverse of a triangle": (lambda x: LINALG.pinv(x, hermitian=True), (ONE,)),
    "norm of nothing": (lambda x: LINALG.norm(x, 2, dim=(0, 1)), (torch.zeros(3, 0),)),
    "condition": (LINALG.cond, (STACK,)),
    "condition by sums": (lambda x: LINALG.cond(x, 1), (ONE,)),
    "condition by all values": (lambda x: LINALG.cond(x, "nuc"), (ONE,)),
    "largest value": (lambda x: LINALG.matrix_norm(x, 2, dim=(0, 2), keepdim=True), (STACK[0],)),
    "sum of values": (lambda x: torch.norm(x, "nuc"), (ONE,)),
    "smallest value": (lambda x: LINALG.norm(x, -2), (ONE,)),
    "eigenvalues": (LINALG.eigvalsh, (STACK + STACK.mT,)),
    "eigenvectors": (
        lambda x: (LINALG.eigh(x, UPLO="U")[0], LINALG.eigh(x, UPLO="U")[1].abs()),
        (STACK,),
    ),
}


OTHER_WHEN_DECOMPOSED = (
    "orthogonal factor of old",
    "product of fewer reflections",
    "inverse",
    "columns",
    "factor",
    "factors of a wide matrix",
    "behind both factors, from the right",
    "both sides",
    "singular values",
    "pseudo-inverse",
    "pseudo-inverse by a bound",
    "condition",
    "sum of values",
    "eigenvalues",
)


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


@pytest.mark.sampled(3)
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


@pytest.mark.parametrize("factor", [1e-307, 1e-200, 1e150, 1e306])
def test_singular_values_keep_the_range_of_doubles(factor: float):
    """Their squares do not fit into doubles."""
    x = STACK.double() * factor
    model, expected = exported(LINALG.svdvals, (x,), False), LINALG.svdvals(x).numpy()
    (found,) = ex.interpret(model, {model.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * expected.max())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_a_network_that_whitens_is_right_as_generated_code(target: str):
    """Features become uncorrelated: their covariance, its factor, and a system with it; its
    orthogonal factor comes from reflections."""

    class Whitening(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            centred = x - x.mean(1, keepdim=True)
            covariance = centred.mT @ centred / x.shape[1] + 0.1 * torch.eye(x.shape[2])
            factor = LINALG.cholesky(covariance)
            white = LINALG.solve_triangular(factor, centred.mT, upper=False).mT
            return white, LINALG.qr(covariance)[1]

    x = torch.randn(2, 10, 5)
    c = ex.compile(Whitening().eval(), args=(x,), target=target, host=False)
    try:
        report = c.accuracy().report
    finally:
        c.close()
    assert report.passed
