"""Attention and rotary embedding, of ONNX and of onnxruntime's own domain."""

from __future__ import annotations

import numpy as np
from onnx import helper

from verification.random_models.draft import Draft
from verification.random_models.recipes.recipe import recipes

FLOATS = ("float32", "float32", "float16")


def attention(draft: Draft) -> None:
    """Heads along an axis of their own or inside the last one; also fewer heads of keys."""
    dtype = draft.one_of(FLOATS)
    batch, queries, keys, width = (draft.number(1, n) for n in (2, 5, 6, 4))
    key_heads = draft.number(1, 2)
    heads = key_heads * draft.number(1, 2)
    attributes: dict[str, object] = {"is_causal": draft.number(0, 1)}
    if draft.flag():
        shapes = [(batch, heads, queries, width), *[(batch, key_heads, keys, width)] * 2]
    else:
        shapes = [(batch, queries, heads * width), *[(batch, keys, key_heads * width)] * 2]
        attributes |= {"q_num_heads": heads, "kv_num_heads": key_heads}
    operands = [draft.input(dtype, shape).name for shape in shapes]
    if not attributes["is_causal"] and draft.flag():
        mask = draft.array(draft.one_of(["bool", dtype]), (queries, keys))
        if mask.dtype == np.bool_:
            mask[:, 0] = True
        operands.append(draft.constant(mask))
    if draft.flag():
        attributes["scale"] = 0.3
    if draft.random.random() < 0.3:
        attributes["softcap"] = 2.0
    draft.add("Attention", operands, **attributes)


def rotary(draft: Draft) -> None:
    dtype = draft.one_of(FLOATS)
    batch, heads, length, half = (draft.number(1, n) for n in (2, 3, 4, 4))
    x = draft.input(dtype, (batch, heads, length, 2 * half))
    has_positions = draft.flag()
    shape = (8, half) if has_positions else (batch, length, half)
    caches = [draft.weight(dtype, shape) for _ in range(2)]
    positions = []
    if has_positions:
        found = draft.random.integers(0, 8, (batch, length))
        positions = [draft.constant(np.asarray(found, np.int64))]
    draft.add("RotaryEmbedding", [x.name, *caches, *positions], interleaved=draft.number(0, 1))


def fused_attention(draft: Draft) -> None:
    """onnxruntime's: one product gives queries, keys and values."""
    batch, length, heads, width = (draft.number(1, n) for n in (2, 4, 2, 4))
    hidden = heads * width
    x = draft.input("float32", (batch, length, hidden))
    weight = draft.weight("float32", (hidden, 3 * hidden))
    bias = draft.weight("float32", (3 * hidden,))
    draft.add_typed(
        "Attention",
        [x.name, weight, bias],
        [("float32", (batch, length, hidden))],
        "com.microsoft",
        num_heads=heads,
        unidirectional=draft.number(0, 1),
    )


def multi_head(draft: Draft) -> None:
    """onnxruntime's, with queries, keys and values of their own."""
    batch, queries, keys, heads, width = (draft.number(1, n) for n in (2, 4, 4, 2, 4))
    hidden = heads * width
    operands = [draft.input("float32", (batch, n, hidden)).name for n in (queries, keys, keys)]
    bias = [draft.weight("float32", (3 * hidden,))] if draft.flag() else []
    types = [("float32", (batch, queries, hidden))]
    operands += bias
    draft.add_typed("MultiHeadAttention", operands, types, "com.microsoft", num_heads=heads)


def embedding(draft: Draft) -> None:
    """onnxruntime's sum of three embeddings, normalized."""
    batch, length, hidden = draft.number(1, 2), draft.number(1, 4), draft.number(4, 8)
    words = np.asarray(draft.random.integers(0, 9, (batch, length)), np.int32)
    segments = np.asarray(draft.random.integers(0, 2, (batch, length)), np.int32)
    ids = [draft.input("int32", a.shape, a).name for a in (words, segments)]
    tables = [draft.weight("float32", (rows, hidden)) for rows in (9, 6, 2)]
    scale, bias = (draft.weight("float32", (hidden,)) for _ in range(2))
    (result,) = draft.fresh()
    node = helper.make_node(
        "EmbedLayerNormalization",
        [*ids, *tables, scale, bias],
        [result, f"{result}_mask"],
        domain="com.microsoft",
        epsilon=1e-5,
    )
    draft.add_nodes([node], [result], types=[("float32", (batch, length, hidden))])


RECIPES = (
    *recipes(fused_attention, multi_head, embedding),
    *recipes(attention, attention, rotary, since=23),
)
