"""Decoders with a past that grows, as torch.onnx exports them: shared heads, rotary positions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    shared: int
    """Heads of queries for each of keys."""
    words: int = 8192


SIZES = {
    "small": Size(layers=2, width=64, heads=4, shared=2, words=256),
    "14m": Size(layers=4, width=384, heads=6, shared=3),
    "38m": Size(layers=8, width=576, heads=9, shared=3, words=4096),
}


def rotated(x: Any, positions: Any) -> Any:
    size = x.shape[-1]
    angles = positions[..., None].float() / 10000 ** (torch.arange(0, size, 2) / size)
    cosine, sine = (torch.cat([f(angles)] * 2, -1).unsqueeze(1) for f in (torch.cos, torch.sin))
    half = size // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


class Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        width, narrow = size.width, size.width // size.shared
        self.size, self.head = size, width // size.heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(width, narrow), nn.Linear(width, narrow)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads(self, x: Any) -> Any:
        return x.view(*x.shape[:2], -1, self.head).transpose(1, 2)

    def repeated(self, x: Any) -> Any:
        batch, heads, rows, head = x.shape
        wide = x[:, :, None].expand(batch, heads, self.size.shared, rows, head)
        return wide.reshape(batch, heads * self.size.shared, rows, head)

    def forward(self, x: Any, past: tuple[Any, Any], mask: Any, rows: Any) -> Any:
        y = self.first(x)
        query, key, value = (self.heads(f(y)) for f in (self.query, self.key, self.value))
        query, key = rotated(query, rows), rotated(key, rows)
        key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ self.repeated(key).transpose(2, 3) / math.sqrt(self.head) + mask
        found = torch.softmax(scores, -1) @ self.repeated(value)
        x = x + self.out(found.transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.relu(self.up(self.second(x)))), key, value


class Decoder(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(size.words, size.width), nn.LayerNorm(size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.words, bias=False)

    def forward(self, ids: Any, *pasts: Any) -> Any:
        new, past = ids.shape[1], pasts[0].shape[2]
        rows = torch.arange(past, past + new)
        seen = torch.arange(past + new)[None] <= rows[:, None]
        mask, x, present = torch.where(seen, 0.0, -1e9)[None, None], self.embed(ids), []
        for number, layer in enumerate(self.layers):
            x, *made = layer(x, pasts[2 * number : 2 * number + 2], mask, rows[None])
            present += made
        return (self.head(self.norm(x)), *present)


def export(size: Size, path: Path) -> None:
    """Writes the ONNX model of a decoder with random weights."""
    torch.manual_seed(0)
    shape = (1, size.heads // size.shared, 3, size.width // size.heads)
    names = [f"{n}.{kind}" for n in range(size.layers) for kind in ("key", "value")]
    axes = {"input_ids": {1: "seq"}}
    axes |= {f"past_key_values.{name}": {2: "past"} for name in names}
    axes |= {f"present.{name}": {2: "all"} for name in names}
    arrays = (torch.zeros(1, 2, dtype=torch.int64), *(torch.zeros(shape) for _ in names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Decoder(size).eval(), arrays, str(path), dynamo=False, opset_version=17,
            input_names=["input_ids", *(f"past_key_values.{name}" for name in names)],
            output_names=["logits", *(f"present.{name}" for name in names)], dynamic_axes=axes,
        )  # fmt: skip


def put_in_blocks(path: Path, level: int, block: int = 32) -> None:
    """Constant matrices of products become numbers of four bits with a scale for every block of
    rows (MatMulNBits); `level`: the accuracy that the file asks for, 4 permits bytes."""
    model = onnx.load(path)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in stored:
            continue
        weight = numpy_helper.to_array(stored[node.input[1]]).T
        columns, depth = weight.shape
        rows = weight.reshape(columns, -1, block)
        scale = np.abs(rows).max(axis=-1) / 7
        numbers = np.clip(np.rint(rows / scale[..., None]) + 8, 0, 15).astype(np.uint8)
        arrays = {"packed": numbers[..., 0::2] | numbers[..., 1::2] << 4, "scales": scale}
        names = [f"{node.input[1]}.{kind}" for kind in arrays]
        made = [
            numpy_helper.from_array(array, name)
            for name, array in zip(names, arrays.values(), strict=True)
        ]
        model.graph.initializer.extend(made)
        sizes = {"N": columns, "K": depth, "bits": 4, "block_size": block, "accuracy_level": level}
        inputs, outputs = [node.input[0], *names], list(node.output)
        node.CopyFrom(
            onnx.helper.make_node("MatMulNBits", inputs, outputs, domain="com.microsoft", **sizes)
        )
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
