"""Calls of ATen, mostly of programs after run_decompositions(), against PyTorch itself.

They skip where torch is not installed (its CPU build: scripts/setup.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # torch's own types, which are not known here

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.model import SourceModel

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
torch: Any = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
F: Any = torch.nn.functional
ATEN: Any = torch.ops.aten

torch.manual_seed(0)
X, Y = torch.randn(2, 3, 7, 5), torch.randn(6, 4)
SQUARE = torch.randn(3, 4, 4)
TABLE, PLACES = torch.randn(9, 4), torch.tensor([4, 1, 1, 8, 0, 3])
OFFSETS = torch.tensor([0, 2, 2, 5])
SHARES = torch.rand(6)
MEAN, VARIANCE = torch.randn(3), torch.rand(3) + 0.5
BILINEAR = torch.nn.Bilinear(4, 4, 5)


def bag(table: Any, places: Any, offsets: Any, **settings: Any) -> Any:
    return ATEN._embedding_bag_forward_only(table, places, offsets, **settings)[0]


def pool_gradient(x: Any, given: Any) -> Any:
    _, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return ATEN.max_pool2d_with_indices_backward(
        given, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places
    )


Case = tuple[Callable[..., Any], tuple[Any, ...], str]
CASES: dict[str, Case] = {
    "determinant": (torch.linalg.det, (SQUARE,), "aten._linalg_det"),
    "sign and logarithm": (
        lambda x: tuple(torch.linalg.slogdet(x)),
        (SQUARE,),
        "aten._linalg_slogdet",
    ),
    "pairs": (lambda x: F.pdist(x, 3.0), (Y,), "aten._pdist_forward"),
    "largest of uneven windows": (
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        (X,),
        "aten.adaptive_max_pool2d",
    ),
    "along one axis": (
        lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True),
        (X[0],),
        "aten.adaptive_max_pool2d",
    ),
    "along three axes": (
        lambda x: F.adaptive_max_pool3d(x, (2, 5, 3), return_indices=True),
        (X,),
        "aten.adaptive_max_pool3d",
    ),
    "equal elements": (
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
        (torch.zeros(1, 1, 7, 5),),
        "aten.adaptive_max_pool2d",
    ),
    "back to the maxima": (
        lambda x, g: ATEN.max_pool2d_with_indices_backward(
            g,
            x,
            [3, 3],
            [2, 2],
            [1, 1],
            [1, 1],
            False,
            F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
        ),
        (X, torch.randn(2, 3, 4, 3)),
        "aten.max_pool2d_with_indices_backward",
    ),
    "bilinear": (BILINEAR, (Y, Y.flip(0)), "aten._trilinear"),
    "random slope": (
        lambda x: F.rrelu(x, 0.1, 0.4, training=False),
        (Y,),
        "aten.rrelu_with_noise_functional",
    ),
    **{
        f"bags by {mode}": (
            lambda t, p, o, mode=mode: F.embedding_bag(p, t, o, mode=mode),
            (TABLE, PLACES, OFFSETS),
            "aten._embedding_bag_forward_only",
        )
        for mode in ("sum", "mean", "max")
    },
    "bags with an end": (
        lambda t, p, o: F.embedding_bag(p, t, o, mode="mean", include_last_offset=True),
        (TABLE, PLACES, torch.tensor([0, 1, 4, 6])),
        "aten._embedding_bag_forward_only",
    ),
    "bags with shares": (
        lambda t, p, o, s: F.embedding_bag(
            p, t, o, mode="sum", per_sample_weights=s, padding_idx=1
        ),
        (TABLE, PLACES, OFFSETS, SHARES),
        "aten._embedding_bag_forward_only",
    ),
    "an infinite row of another bag": (
        bag,
        (TABLE.clone().index_fill_(0, torch.tensor([8]), float("inf")), PLACES, OFFSETS),
        "aten._embedding_bag_forward_only",
    ),
    "shortened rows": (
        lambda t, p: ATEN.embedding_renorm(t, p, 1.5, 2.0),
        (TABLE, PLACES),
        "aten.embedding_renorm",
    ),
    **{
        f"batch normalization, {name}": (
            lambda x, m, v, training=training: ATEN._native_batch_norm_legit_functional(
                x, None, None, m, v, training, 0.3, 1e-4
            ),
            (X, MEAN, VARIANCE),
            "aten._native_batch_norm_legit_functional",
        )
        for name, training in (("trained", True), ("evaluated", False))
    },
    "batch normalization that updates": (
        lambda x, m, v: ATEN._batch_norm_with_update_functional(x, v, m, m, v, 0.3, 1e-4),
        (X, MEAN, VARIANCE),
        "aten._batch_norm_with_update_functional",
    ),
}


START, END = torch.tensor(1.5), torch.tensor(-2.0)
AS_EXPORTED: dict[str, Case] = {
    "from a tensor": (lambda a: torch.linspace(a, 3.0, 5), (START,), "aten.linspace.Tensor_Scalar"),
    "to a tensor": (lambda b: torch.linspace(7, b, 1), (END,), "aten.linspace.Scalar_Tensor"),
    "between tensors": (
        lambda a, b: torch.linspace(a, b, 6, dtype=torch.float64),
        (START, END),
        "aten.linspace.Tensor_Tensor",
    ),
    "whole numbers between tensors": (
        lambda a, b: torch.linspace(a, b, 50, dtype=torch.int64),
        (torch.tensor(-7.9), torch.tensor(30.5)),
        "aten.linspace.Tensor_Tensor",
    ),
    "whole numbers": (
        lambda x: x + torch.linspace(4.3, 50.9, 50, dtype=torch.int64),
        (torch.zeros(1, dtype=torch.int64),),
        "aten.linspace",
    ),
    "whole powers": (
        lambda x: x + torch.logspace(5.7, -1, 9, base=3, dtype=torch.int32),
        (torch.zeros(1, dtype=torch.int32),),
        "aten.logspace",
    ),
    "powers between tensors": (
        lambda a, b: torch.logspace(a, b, 4, base=2.0),
        (START, END),
        "aten.logspace.Tensor_Tensor",
    ),
    "bags": (
        lambda t, p, o: F.embedding_bag(p, t, o),
        (TABLE, PLACES, OFFSETS),
        "aten.embedding_bag.padding_idx",
    ),
}


def exported(
    function: Callable[..., Any], inputs: tuple[Any, ...], is_decomposed: bool = True
) -> SourceModel:
    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    with torch.no_grad():
        program = torch.export.export(Module(), inputs)
        return ex.load(program.run_decompositions() if is_decomposed else program)


def results(model: SourceModel, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    arrays = {v.name: x.numpy() for v, x in zip(model.inputs, inputs, strict=True)}
    found = ex.interpret(model, arrays)
    return [found[value.name] for value in model.outputs]


@pytest.mark.parametrize("name", [*CASES, *AS_EXPORTED])
def test_a_call_gives_what_pytorch_gives(name: str):
    function, inputs, operator = (CASES | AS_EXPORTED)[name]
    model = exported(function, inputs, name in CASES)
    assert operator in {node.operator for node in model.nodes}
    with torch.no_grad():
        right = function(*inputs)
    right = [right] if torch.is_tensor(right) else list(right)
    for ours, tensor in zip(results(model, inputs), right, strict=True):
        assert ours.dtype == tensor.numpy().dtype
        np.testing.assert_allclose(ours, tensor.numpy(), rtol=1e-5, atol=1e-5)


TRAINED = {
    "batch": lambda: torch.nn.BatchNorm2d(4, momentum=0.2),
    "instances": lambda: torch.nn.InstanceNorm2d(
        4, momentum=0.2, affine=True, track_running_stats=True
    ),
}


@pytest.mark.parametrize("kind", TRAINED)
@pytest.mark.parametrize("is_decomposed", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_a_module_that_trains_keeps_its_statistics(kind: str, is_decomposed: bool):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), TRAINED[kind]())
    before = {name: buffer.clone().numpy() for name, buffer in module.named_buffers()}
    with torch.no_grad():
        program = torch.export.export(module, (X,))
        model = ex.load(program.run_decompositions() if is_decomposed else program)
        inputs = {model.inputs[0].name: X.numpy()}
        inputs |= {state.input: state.initial for state in model.states}
        c = ex.compile(model)
        try:
            found = c.run(inputs)
            assert c.accuracy().report.passed
        finally:
            c.close()
        right = module(X)
    (output,) = (v.name for v in model.outputs if v.name not in {s.output for s in model.states})
    np.testing.assert_allclose(found[output], right.numpy(), rtol=1e-4, atol=1e-5)
    ends = {state.input: found[state.output] for state in model.states}
    assert {"1.running_mean", "1.running_var"} <= set(ends)
    for name, expected in module.named_buffers():
        np.testing.assert_allclose(
            ends.get(name, before[name]), expected.numpy(), rtol=1e-4, atol=1e-5
        )


def test_statistics_that_are_inputs_are_refused_by_name():
    """`instance_norm` writes into them, and no overload says it."""

    def normalized(x: Any, mean: Any, variance: Any) -> Any:
        return torch.nn.functional.instance_norm(x, mean, variance)

    with pytest.raises(UnsupportedError, match="writes into its inputs") as caught:
        exported(normalized, (X, torch.zeros(3), torch.ones(3)))
    assert len(caught.value.problems) == 2


def test_the_factors_behind_a_determinant_are_refused():
    with pytest.raises(UnsupportedError) as caught:
        ex.compile(exported(lambda x: ATEN._linalg_det(x)[1], (SQUARE,)))
    assert "the factors of a matrix" in "\n".join(caught.value.problems)


def test_an_order_of_effects_has_no_values():
    """A check for errors is kept in its place by a token, which programs take and return."""

    def checked(x: Any) -> Any:
        ATEN._linalg_check_errors(x.int(), "a function", is_matrix=False)
        return x + 1

    zeros = (torch.zeros(3),)
    model = exported(checked, zeros)
    assert [value.name for value in model.inputs] == ["tensors_0"]
    assert "aten._linalg_check_errors" in {node.operator for node in model.nodes}
    (found,) = results(model, zeros)
    np.testing.assert_array_equal(found, np.ones(3, np.float32))
