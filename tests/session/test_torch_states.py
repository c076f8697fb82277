"""torch.compile of the writers: after each of three calls all is what eager PyTorch leaves."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself
WRITERS = run_path(str(Path(__file__).with_name("torch_writers.py")))["WRITERS"]


def dense() -> tuple[Any, Any]:
    """A matrix with zeros of both signs, ties and small numbers, and a vector."""
    x = torch.tensor([[-0.0, 0.0, 1.0], [-1.5, 2.5, 2.5], [3e3, -3e3, 1e-40]])
    return x, torch.tensor([1.0, -2.0, 0.5])


def strided() -> tuple[Any, Any]:
    """The same numbers, each every second element of a larger tensor."""
    x, v = dense()
    return torch.stack([x, -x], -1)[..., 0], torch.stack([v, v], -1)[..., 0]


def same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def memories(results: list[Any], inputs: tuple[Any, ...]) -> list[list[bool]]:
    """Which results are memory of which inputs."""
    places = [value.untyped_storage().data_ptr() for value in inputs]
    return [
        [result.untyped_storage().data_ptr() == place for place in places] for result in results
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", [dense, strided], ids=["dense", "strided"])
@pytest.mark.parametrize("writer", WRITERS, ids=lambda each: each.__name__)
def test_three_calls_leave_what_eager_leaves(writer: Any, make: Any):
    torch._dynamo.reset()
    function, eager = writer, writer
    if isinstance(writer, type):
        torch.manual_seed(0)
        function, eager = writer(), writer()
        eager.load_state_dict(function.state_dict())
    fast = torch.compile(function, backend="explorer")
    ours, theirs = make(), make()
    leaves = torch.utils._pytree.tree_leaves
    with torch.no_grad():
        for _ in range(3):
            found, expected = leaves(fast(*ours)), leaves(eager(*theirs))
            assert memories(found, ours) == memories(expected, theirs)
            pairs = [*zip(found, expected, strict=True), *zip(ours, theirs, strict=True)]
            pairs += [(a._base, b._base) for a, b in pairs if a._is_view() and b._is_view()]
            if isinstance(writer, type):
                states = function.state_dict().values(), eager.state_dict().values()
                pairs += zip(*states, strict=True)
            for a, b in pairs:
                same(a, b)


def test_there_are_more_writers_than_forty():
    assert len(WRITERS) >= 43
    assert len({each.__name__ for each in WRITERS}) == len(WRITERS)
