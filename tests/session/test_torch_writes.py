"""torch.compile of what writes into its inputs and buffers, or returns views of them.

Results, inputs and buffers are compared with eager PyTorch after each of three calls; a view of an
input shows whether the input's own memory was written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself


@pytest.fixture(autouse=True)
def _without_earlier_graphs():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def into_view(cache: Any, v: Any) -> Any:
    cache[1:2] += v[:1]
    return cache.sum()


def into_transposed(x: Any, v: Any) -> Any:
    x.T[0].mul_(2).add_(v[0])
    return x * v[1]


def into_both(x: Any, v: Any) -> Any:
    x.add_(v[0])
    v.copy_(x.reshape(-1)[: v.numel()].reshape(v.shape))
    return x + 1, v.sum()


def kept_and_written(x: Any, v: Any) -> Any:
    before = x.clone()
    x.relu_()
    return before - x, v


def read_before_written(x: Any, v: Any) -> Any:
    y = x.sum()
    x.zero_()
    return y + v, x


def view_of_input(x: Any, v: Any) -> Any:
    return x[1:], v + 1


def cast_on_the_way(x: Any, v: Any) -> Any:
    x.copy_((x * v.sum()).to(torch.int32))
    return x.argmax()


def masked(x: Any, v: Any) -> Any:
    x.masked_fill_(x > 0, float("inf"))
    x[..., 0] = float("nan")
    return v * 1


WRITERS = [
    into_view,
    into_transposed,
    into_both,
    kept_and_written,
    read_before_written,
    view_of_input,
    cast_on_the_way,
    masked,
]


def arguments() -> tuple[Any, Any]:
    """A matrix with signed zeros and ties, and a vector."""
    x = torch.tensor([[-0.0, 0.0, 1.0], [-1.5, 2.5, 2.5], [3e38, -3e38, 1e-40]])
    return x, torch.tensor([[1.0, -2.0, 0.5]]).reshape(-1)


def of_views() -> tuple[Any, Any]:
    """The same values, each every second element of a larger tensor."""
    x, v = arguments()
    return torch.stack([x, -x], -1)[..., 0], torch.stack([v, v], -1)[..., 0]


def leaves(value: Any) -> list[Any]:
    return [each for one in value for each in leaves(one)] if isinstance(value, tuple) else [value]


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("make", [arguments, of_views])
@pytest.mark.parametrize("function", WRITERS, ids=lambda f: f.__name__)
def test_inputs_are_afterwards_what_eager_leaves(function: Callable[..., Any], make: Any):
    fast = torch.compile(function, backend="explorer")
    ours, theirs = make(), make()
    bases = [[value._base for value in values if value._is_view()] for values in (ours, theirs)]
    with torch.no_grad():
        for _ in range(3):
            found, expected = leaves(fast(*ours)), leaves(function(*theirs))
            same(found, expected)
            same(ours, theirs)
            same(*bases)
    # A result that is memory of an input in eager is so here: a write into it reaches the input.
    for result, other in zip(found, expected, strict=True):
        if result.dim() and result.is_floating_point():
            result.fill_(7)
            other.fill_(7)
            same(ours, theirs)


def test_inputs_that_share_memory_change_together():
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    fast = torch.compile(function, backend="explorer")
    ours, theirs = torch.arange(6.0), torch.arange(6.0)
    with torch.no_grad():
        for first, second in ((slice(0, 3), slice(3, 6)), (slice(0, 3), slice(1, 4))) * 2:
            same(fast(ours[first], ours[second]), function(theirs[first], theirs[second]))
            same(ours, theirs)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.register_buffer("history", torch.zeros(4, 2))
        self.scale = torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        self.n += 1
        self.history = torch.roll(self.history, 1, 0)
        self.history[0] = x
        return self.scale(x) + self.n, self.n


class Trained(torch.nn.Module):
    """Its statistics change with every call."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2, momentum=0.25)

    def forward(self, x: Any) -> Any:
        return torch.relu_(self.norm(x.expand(3, 2) * torch.tensor([[1.0], [2.0], [4.0]])))


@pytest.mark.parametrize("kind", [Counter, Trained])
def test_buffers_are_afterwards_what_eager_leaves(kind: Any):
    torch.manual_seed(0)
    module = kind()
    other = kind()
    other.load_state_dict(module.state_dict())
    fast = torch.compile(module, backend="explorer")
    with torch.no_grad():
        for number in range(3):
            x = torch.tensor([1.0, -2.0]) * (number + 1)
            torch.testing.assert_close(leaves(fast(x)), leaves(other(x)))
            torch.testing.assert_close(module.state_dict(), other.state_dict())
    assert ex.last_compilation() is not None


def test_parameters_that_are_only_read_stay_constants():
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(2))
            self.scale = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            self.n += 1
            return self.scale(x) + self.n

    module = Scaled()
    fast = torch.compile(module, backend="explorer")
    with torch.no_grad():
        fast(torch.ones(2))
        first = ex.last_compilation()
        fast(torch.ones(2))
        assert ex.last_compilation() is first
        assert first is not None and first.model.parameters >= 6
        module.scale.weight.mul_(2)
        expected = module.scale(torch.ones(2)) + module.n + 1
        torch.testing.assert_close(fast(torch.ones(2)), expected)


@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.parametrize("function", WRITERS[:5], ids=lambda f: f.__name__)
def test_a_file_that_writes_its_input_is_refused_by_name(
    function: Callable[..., Any], is_decomposed: bool, tmp_path: Path
):
    class Module(torch.nn.Module):
        def forward(self, x: Any, v: Any) -> Any:
            return function(x, v)

    program = torch.export.export(Module(), arguments())
    torch.export.save(
        program.run_decompositions() if is_decomposed else program, tmp_path / "n.pt2"
    )
    with pytest.raises(UnsupportedError, match="writes into its inputs") as caught:
        ex.load(tmp_path / "n.pt2")
    names = {"x", "v"} if function is into_both else {"x"}
    assert {line.split()[1].rstrip(":") for line in caught.value.problems} == names


def test_a_file_that_writes_into_a_copy_is_read(tmp_path: Path):
    class Module(torch.nn.Module):
        def forward(self, x: Any, v: Any) -> Any:
            x = x.clone()
            return into_view(x, v), x

    torch.export.save(torch.export.export(Module(), arguments()), tmp_path / "n.pt2")
    x, v = (value.numpy() for value in arguments())
    expected = x.copy()
    expected[1:2] += v[:1]
    model = ex.load(tmp_path / "n.pt2")
    found = ex.interpret(model, {"x": x, "v": v})
    np.testing.assert_allclose(found[model.outputs[1].name], expected, rtol=1e-6)
