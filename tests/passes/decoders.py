"""Decoders with a past that grows, as torch.onnx exports them: six ways to say what is seen."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no test of PyTorch runs")
nn = torch.nn

KINDS = ("no mask", "table", "compared", "triangle", "given mask", "given positions")
WORDS, WIDTH, HEADS = 32, 16, 2
SIZE = WIDTH // HEADS


def rotated(x: Any, positions: Any) -> Any:
    """Rotary embedding, halves apart."""
    angles = positions[..., None].float() / 10 ** torch.arange(0, 1, 2 / SIZE)
    cosine, sine = (torch.cat([f(angles)] * 2, -1).unsqueeze(1) for f in (torch.cos, torch.sin))
    half = SIZE // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


class Decoder(nn.Module):
    """One layer: every row of keys and values is new once and past afterwards."""

    def __init__(self, kind: str, shared: int) -> None:
        super().__init__()
        self.kind, self.shared = kind, shared
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.query, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)
        self.key, self.value = (nn.Linear(WIDTH, WIDTH // shared) for _ in range(2))
        seen = torch.tril(torch.ones(64, 64, dtype=torch.bool))
        self.register_buffer("seen", seen[None, None])

    def heads(self, x: Any) -> Any:
        return x.view(*x.shape[:2], -1, SIZE).transpose(1, 2)

    def forward(self, ids: Any, *rest: Any) -> Any:
        *given, past_key, past_value = rest
        new, past = ids.shape[1], past_key.shape[2]
        rows, mask = torch.arange(past, past + new), None
        x = self.embed(ids)
        if self.kind == "table":
            x = x + self.place(rows)[None]
            seen = self.seen[:, :, past : past + new, : past + new]
            mask = torch.where(seen, torch.tensor(0.0), torch.tensor(-1e30))
        elif self.kind == "triangle":
            mask = torch.full((new, past + new), -1e9).triu(past + 1)[None, None]
        elif self.kind != "no mask":
            seen = (torch.arange(past + new)[None] <= rows[:, None])[None, None]
            if given:
                seen = seen & (given[0][:, None, None, :] > 0)
            mask = torch.where(seen, 0.0, -1e9)
        positions = given[1] if len(given) > 1 else rows[None]
        query, key, value = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        query, key = rotated(query, positions), rotated(key, positions)
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
        every_key, every_value = (self.repeated(each) for each in (key, value))
        scores = query @ every_key.transpose(2, 3) / math.sqrt(SIZE)
        scores = scores if mask is None else scores + mask
        found = torch.softmax(scores, -1) @ every_value
        return self.out(x + found.transpose(1, 2).reshape(x.shape)), key, value

    def repeated(self, x: Any) -> Any:
        if self.shared == 1:
            return x
        batch, heads, rows, size = x.shape
        wide = x[:, :, None].expand(batch, heads, self.shared, rows, size)
        return wide.reshape(batch, heads * self.shared, rows, size)


def exported(kind: str, shared: int = 1) -> onnx.ModelProto:
    """The ONNX model of a decoder."""
    torch.manual_seed(0)
    new, past = 2, 3
    values: dict[str, tuple[Any, dict[int, str]]] = {
        "input_ids": (torch.zeros(1, new, dtype=torch.int64), {0: "batch", 1: "seq"})
    }
    if kind.startswith("given"):
        ones = torch.ones(1, past + new, dtype=torch.int64)
        values["attention_mask"] = (ones, {0: "batch", 1: "total"})
    if kind == "given positions":
        positions = torch.arange(past, past + new)[None]
        values["position_ids"] = (positions, {0: "batch", 1: "seq"})
    for name in ("key", "value"):
        array = torch.randn(1, HEADS // shared, past, SIZE)
        values[f"past_key_values.0.{name}"] = (array, {0: "batch", 2: "past"})
    outputs = ["logits", "present.0.key", "present.0.value"]
    axes = {name: found for name, (_, found) in values.items()}
    axes |= {name: {0: "batch", 2: "all"} for name in outputs[1:]}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Decoder(kind, shared).eval(), tuple(array for array, _ in values.values()), file,
            input_names=list(values), output_names=outputs, dynamic_axes=axes,
            opset_version=17, dynamo=False,
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())
