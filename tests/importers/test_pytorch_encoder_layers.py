"""Layers of encoders that are one operation, as torch.compile's graphs have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about itself

LATER = torch.ones(5, 5).triu(1) > 0
PADDED = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]) > 0


def interpreted(function: Any, x: Any) -> list[np.ndarray]:
    class Module(torch.nn.Module):
        def forward(self, x):
            return function(x)

    model = ex.load(Module(), args=(x,))
    (node,) = model.nodes  # one operation, and not the layer's own code
    assert node.operator.startswith("aten._")
    return list(ex.interpret(model, {model.inputs[0].name: x.numpy()}).values())


@pytest.mark.parametrize(
    ("is_first", "mask", "kind"), [(False, PADDED, 1), (True, LATER, 0), (True, None, None)]
)
def test_an_encoder_s_layer_is_its_formula(is_first: bool, mask: Any, kind: int | None):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 24, activation="gelu" if is_first else "relu", batch_first=True, norm_first=is_first
    ).eval()
    weights = [p.detach() + 0.1 * torch.randn(p.shape) for p in layer.parameters()]
    qkv, projection, inner, outer, first, second = zip(weights[::2], weights[1::2], strict=True)

    def run(x):
        return torch._transformer_encoder_layer_fwd(
            x, 16, 4, *qkv, *projection, is_first, is_first, 1e-5,
            *first, *second, *inner, *outer, mask, kind,
        )  # fmt: skip

    x = torch.randn(2, 5, 16)
    (found,) = interpreted(run, x)
    np.testing.assert_allclose(found, run(x).numpy(), atol=1e-5)


@pytest.mark.parametrize("is_averaged", [True, False])
def test_attention_gives_its_weights_where_they_are_wanted(is_averaged: bool):
    torch.manual_seed(0)
    weights = [torch.randn(shape) for shape in ((48, 16), (48,), (16, 16), (16,))]

    def run(x):
        return torch._native_multi_head_attention(x, x, x, 16, 4, *weights, None, True, is_averaged)

    x = torch.randn(2, 5, 16)
    for found, expected in zip(interpreted(run, x), run(x), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
