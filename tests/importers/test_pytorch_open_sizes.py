"""Exported programs with a batch and a length that are open: one program, judged by PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.errors import InputError
from explorer.importers.live import load_any
from explorer.importers.model import symbolic_dimensions

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
CALLS = [(3, 12), (1, 4), (2, 7), (3, 5)]


def ids(batch: int, length: int) -> Any:
    return torch.randint(0, 20, (batch, length), generator=torch.Generator().manual_seed(length))


class Decoder(torch.nn.Module):
    """Rotated positions, shared heads and a mask above the diagonal, as Llama has them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 16)
        self.query, self.key = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)

    def forward(self, ids: Any) -> Any:
        batch, length = ids.shape
        x = self.words(ids)
        angles = torch.arange(length)[:, None] * torch.tensor([1.0, 0.1])
        cosine, sine = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))

        def turned(z: Any) -> Any:
            return z * cosine + torch.cat([-z[..., 2:], z[..., :2]], -1) * sine

        query = turned(self.query(x).view(batch, length, 4, 4).transpose(1, 2))
        key = turned(self.key(x).view(batch, length, 2, 4).transpose(1, 2))
        key = key.repeat_interleave(2, 1)
        mask = torch.full((length, length), float("-inf")).triu(1)
        shares = (query @ key.transpose(-1, -2) / 2 + mask).softmax(-1)
        return (shares @ key).transpose(1, 2).reshape(batch, length, -1)


class Buckets(torch.nn.Module):
    """A bias by relative positions, and sums below the diagonal, as T5 has them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bias = torch.nn.Embedding(20, 8), torch.nn.Embedding(32, 1)

    def forward(self, ids: Any) -> Any:
        x, places = self.words(ids), torch.arange(ids.shape[1])
        far = (places[None] - places[:, None]).clamp(-15, 16) + 15
        shares = (x @ x.transpose(1, 2) + self.bias(far)[..., 0]).softmax(-1)
        return (shares.tril() @ x).sum(1)


class Encoder(torch.nn.Module):
    """A stride of two and learned positions up to the length, as Whisper has them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 8)
        self.windows = torch.nn.Conv1d(8, 8, 3, stride=2, padding=1)
        self.places = torch.nn.Parameter(torch.linspace(-1, 1, 160).view(20, 8))
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)

    def forward(self, ids: Any) -> Any:
        x = self.windows(self.words(ids).transpose(1, 2)).transpose(1, 2)
        return self.layer(x + self.places[: x.shape[1]])


@pytest.mark.parametrize("kind", [Decoder, Buckets, Encoder])
def test_one_program_gives_what_eager_gives_at_each_size(kind):
    module = kind().eval()
    open_axes = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", min=4, max=16)}
    exported = torch.export.export(module, (ids(2, 5),), dynamic_shapes={"ids": open_axes})
    model = ex.load(exported)
    shape = list(model.inputs[0].shape or ())
    batch, length = shape[0], shape[1]
    compiled = ex.compile(model, dimensions={str(batch): (1, 3), str(length): (4, 12)})
    with compiled.open() as program:
        for call in CALLS:
            (found,) = program.run({"ids": ids(*call).numpy()}).values()
            with torch.no_grad():
                expected = module(ids(*call)).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


class Halves(torch.nn.Module):
    """Half as large and back, blocks of pixels and groups of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.GroupNorm(2, 8)

    def forward(self, x: Any) -> Any:
        small = torch.nn.functional.max_pool2d(self.inner(x).relu(), 2)
        back = torch.nn.functional.interpolate(small, scale_factor=2.0, mode="bilinear")
        same = torch.nn.functional.interpolate(small, size=x.shape[2:], mode="nearest")
        return torch.nn.functional.pixel_shuffle(self.outer(torch.cat([back, same], 1)), 2)


def test_sizes_that_are_multiples_follow_from_their_symbols():
    torch.manual_seed(4)
    module, half = Halves().eval(), [torch.export.Dim(n, min=2, max=8) for n in ("h", "w")]
    sizes = {2: 2 * half[0], 3: 2 * half[1]}
    with torch.no_grad():
        x = torch.randn(1, 4, 8, 12)
        exported = torch.export.export(module, (x,), dynamic_shapes=(sizes,))
    model = ex.load(exported)
    h, w = symbolic_dimensions(model)
    compiled = ex.compile(model, dimensions={h: (2, 6), w: (2, 6)})
    with compiled.open() as program:
        for call in [(12, 12), (4, 4), (8, 6)]:
            x = torch.randn(1, 4, *call)
            (found,) = program.run({"x": x.numpy()}).values()
            np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    with ex.Session(model, ranges={h: [(2, 6)]}, isolated=False) as session:
        for call in [(12, 8), (4, 8)]:
            x = torch.randn(1, 4, *call)
            (found,) = session(x.numpy()).values()
            np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
        assert [call.event for call in session.calls] == ["compiled", "hit"]
    with pytest.raises(InputError, match=f"axis 2 has size 7|is 7, which is no 2.{h}"):
        compiled.run({"x": np.zeros((1, 4, 7, 4), np.float32)})
    with pytest.raises(InputError, match=f"{h} is 7 in the inputs"):
        compiled.run({"x": np.zeros((1, 4, 14, 4), np.float32)})


class Scanned(torch.nn.Module):
    """A recurrence over an open length; `torch.nn.LSTM` and its like are exported for one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(5, 5), torch.nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            following = (self.inner(h) + row).tanh()
            return following, following * 2

        start = torch.zeros(x.shape[1], 5)
        return torch._higher_order_ops.scan(step, start, self.outer(x))


@pytest.mark.sweep
def test_a_scan_ends_with_the_length_of_a_call():
    torch.manual_seed(3)
    module = Scanned().eval()
    sizes = {0: torch.export.Dim("length", max=16), 1: torch.export.Dim("batch", max=8)}
    with torch.no_grad():
        exported = torch.export.export(module, (torch.zeros(5, 2, 4),), dynamic_shapes=(sizes,))
    model = ex.load(exported)
    name, shape = model.inputs[0].name, list(model.inputs[0].shape or ())
    length, batch = shape[0], shape[1]
    compiled = ex.compile(model, dimensions={str(batch): (1, 3), str(length): (1, 6)})
    with compiled.open() as program:
        program.run({name: np.full((6, 3, 4), np.nan, np.float32)})
        for call in [(6, 3), (1, 1), (4, 2)]:
            x = torch.randn(*call, 4)
            with torch.no_grad():
                expected = module(x)
            found = program.run({name: x.numpy()}).values()
            for own, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(own, other.numpy(), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("is_exported", [False, True])
def test_dimensions_have_the_names_that_torch_was_given(is_exported: bool):
    class Sum(torch.nn.Module):
        def forward(self, x: Any, y: Any, z: Any) -> Any:
            return (x + y).relu(), z * 2

    batch, rows = torch.export.Dim("batch", max=4), torch.export.Dim("rows", min=2, max=8)
    both = {0: batch, 1: 4 * rows}
    shapes = {"x": both, "y": both, "z": {0: torch.export.Dim.AUTO}}
    arrays = (torch.zeros(2, 12, 3), torch.zeros(2, 12, 3), torch.zeros(5))
    if is_exported:
        model = load_any(torch.export.export(Sum(), arrays, dynamic_shapes=shapes))
    else:
        model = load_any(Sum(), args=arrays, dynamic_shapes=shapes)
    assert [v.shape for v in model.inputs[:2]] == [("batch", "4*rows", 3)] * 2
    own = symbolic_dimensions(model)[2]
    assert own not in ("batch", "rows")
    c = ex.compile(model, dimensions={"batch": (1, 4), "rows": (2, 8), own: 5})
    x = np.random.default_rng(0).standard_normal((3, 20, 3)).astype(np.float32)
    first, second = c.run({"x": x, "y": x, "z": np.ones(5, np.float32)}).values()
    np.testing.assert_array_equal(first, np.maximum(2 * x, 0))
    np.testing.assert_array_equal(second, 2)


def test_a_name_that_torch_has_for_another_size_is_left_out():
    class Twice(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    shapes = {"x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}
    arrays = (torch.zeros(2, 3),)
    first, second = load_any(Twice(), args=arrays, dynamic_shapes=shapes).inputs[0].shape or ()
    shapes = {"x": {0: torch.export.Dim(str(second), max=9), 1: torch.export.Dim.AUTO}}
    model = load_any(Twice(), args=arrays, dynamic_shapes=shapes)
    assert model.inputs[0].shape == (first, second)

    class Places(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.nonzero(), x * 1

    def shapes_of(name: str) -> list[Any]:
        shapes = {"x": {0: torch.export.Dim(name, min=3, max=9)}}
        model = load_any(Places(), args=(torch.ones(6, 2),), dynamic_shapes=shapes)
        return [value.shape for value in (*model.inputs, *model.outputs)]

    given, found, same = shapes_of("rows")
    assert given == same == ("rows", 2)
    own = found[0]  # of the entries that are not zero, which are as many as the values say
    given, found, same = shapes_of(own)
    assert given == same and given[0] != found[0] == own
