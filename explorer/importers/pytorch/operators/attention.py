"""Attention, which arrives as one operation and stays one.

aten.scaled_dot_product_attention(q, k, v, attn_mask, is_causal=True)       top.attention
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import causal
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.attention import AttentionOp


def attention(node: AtenNode, build: Build) -> Expr:
    """softmax(scale query key^T, masked) value; a mask is of truth values, or added.

    A query without a key that counts gets 0.
    """
    query, key, value = (node.operand(name) for name in ("query", "key", "value"))
    if node.number("dropout_p", 0.0) > 0:
        raise Unsupported("random numbers: export the module in evaluation mode, module.eval()")
    rank = query.rank
    (size,) = query.sizes([rank - 1], "attention")
    scale = node.number("scale", size**-0.5)
    mask, bias = None, node.optional("attn_mask")
    if bias is not None and bias.dtype == np.bool_:
        mask, bias = bias, None
    elif bias is not None:
        bias = bias.astype(query.dtype)
    if node.flag("is_causal"):
        order = causal(_with_heads(query), _with_heads(key), None, build)
        mask = order if mask is None else mask & order
    shapes = {x.shape[: -3 if rank > 2 else -2] for x in (query, key, value)}
    if len(shapes) > 1:
        query, key, value = _broadcast([query, key, value])
    operands = [query, key, value, mask, bias]
    is_masked = mask is not None or bias is not None
    return build.value(AttentionOp, operands, scale=scale, zero_masked=is_masked or None)


def fused_attention(node: AtenNode, build: Build) -> list[Expr]:
    """As it is after a program's decomposition: with results for the backward pass, unused here."""
    if any(name in node.used for name in node.call.results[1:] if name):
        raise Unsupported("what its backward pass needs")
    return [attention(node, build)]


def _with_heads(x: Expr) -> Expr:
    """(batch, heads, positions, size), as far as x has these axes."""
    missing = 4 - x.rank
    return x.unsqueeze(range(missing)) if missing > 0 else x


def _broadcast(tensors: list[Expr]) -> list[Expr]:
    """The axes in front of the matrices in one shape."""
    leads = [tuple(t.sizes(range(t.rank - 2), "attention")) for t in tensors]
    lead = list(np.broadcast_shapes(*leads))
    return [t.broadcast_to([*lead, *t.all_sizes()[-2:]]) for t in tensors]


CONVERTERS = {
    "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention_for_cpu": fused_attention,
    "_scaled_dot_product_flash_attention": fused_attention,
    "_scaled_dot_product_efficient_attention": fused_attention,
    "_scaled_dot_product_attention_math": fused_attention,
}
