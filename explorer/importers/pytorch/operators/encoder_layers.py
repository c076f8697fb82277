"""Whole layers of encoders, which torch.nn computes in one operation where nothing is trained.

aten._native_multi_head_attention(q, k, v, ...)     nn.MultiheadAttention's fast path
aten._transformer_encoder_layer_fwd(src, ...)       nn.TransformerEncoderLayer's

torch.export traces the layers' own code, so that only graphs that come from elsewhere, such as
torch.compile's, have them. Tensors are (batch, positions, size).
"""

from __future__ import annotations

import numpy as np

from explorer.importers.building.attention_scores import Mixed, attend
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.ir.top.reductions.normalization import LayerNormOp

_OF_POSITIONS, _OF_KEYS, _OF_ALL = range(3)
"""What a mask is for (`mask_type`): (rows, keys), (batch, keys), (batch, heads, rows, keys)."""


def multi_head_attention(node: AtenNode, build: Build) -> list[Expr]:
    """The result, and the weights of its sums: averaged over the heads, of each, or nothing."""
    operands = [node.operand(name) for name in ("query", "key", "value")]
    has_weights = node.flag("need_weights", True)
    heads = node.integer("num_head", build)
    mixed = _mixed(node, operands, heads, has_weights, build)
    y = _linear(node, _joined(mixed.values), "proj", build)
    if not has_weights or mixed.weights is None:
        return [y, build.weight(np.zeros(0, y.dtype))]
    if not node.flag("average_attn_weights", True):
        return [y, mixed.weights]
    return [y, mixed.weights.mean([1], False)]


def encoder_layer(node: AtenNode, build: Build) -> Expr:
    """Attention and two linear layers, each added to what it takes, and normalized before or after.

    norm_first    x + f(norm(x))        else    norm(x + f(x))
    """
    x = node.operand("src")
    heads = node.integer("num_heads", build)

    def attended(v: Expr) -> Expr:
        mixed = _mixed(node, [v, v, v], heads, False, build)
        return _linear(node, _joined(mixed.values), "proj", build)

    def fed_forward(v: Expr) -> Expr:
        inner = _ffn(node, v, 1, build).unary("gelu" if node.flag("use_gelu") else "relu")
        return _ffn(node, inner, 2, build)

    for number, f in enumerate((attended, fed_forward), 1):
        if node.flag("norm_first"):
            x = x + f(_normalized(node, x, number, build))
        else:
            x = _normalized(node, x + f(x), number, build)
    return x


def _mixed(
    node: AtenNode, operands: list[Expr], heads: int, has_scores: bool, build: Build
) -> Mixed:
    """What attention makes, (batch, heads, positions, size of a head)."""
    width = node.integer("embed_dim", build)
    weight, bias = node.operand("qkv_weight"), node.operand("qkv_bias")
    projected = []
    for number, x in enumerate(operands):
        bounds = (number * width, (number + 1) * width)
        columns = build.slice(weight, 0, *bounds).transpose([1, 0])
        y = build.matmul(x, columns, build.slice(bias, 0, *bounds))
        apart = y.reshape([y.dim(0), y.dim(1), heads, width // heads])
        projected.append(apart.transpose([0, 2, 1, 3]))
    query, key, value = projected
    mask = _counted_keys(node, build)
    return attend(query, key, value, build, mask=mask, has_scores=has_scores)


def _counted_keys(node: AtenNode, build: Build) -> Expr | None:
    """True where a key counts, with the axes of scores; a mask of torch's says where none does."""
    mask = node.optional("mask")
    if mask is None:
        return None
    kept = ~mask.astype(np.bool_)
    kind = node.integer("mask_type", build, _OF_ALL)
    if kind == _OF_POSITIONS:
        return kept.unsqueeze([0, 1])
    if kind == _OF_KEYS:
        return kept.unsqueeze([1, 2])
    if kind == _OF_ALL and kept.rank == 4:
        return kept
    raise Unsupported(f"a mask of kind {kind} with {kept.rank} axes")


def _joined(mixed: Expr) -> Expr:
    """(batch, heads, positions, n) to (batch, positions, heads n)."""
    heads, size = mixed.sizes([1, 3], "heads")
    turned = mixed.transpose([0, 2, 1, 3])
    return turned.reshape([turned.dim(0), turned.dim(1), heads * size])


def _linear(node: AtenNode, x: Expr, name: str, build: Build) -> Expr:
    columns = node.operand(f"{name}_weight").transpose([1, 0])
    return build.matmul(x, columns, node.operand(f"{name}_bias"))


def _ffn(node: AtenNode, x: Expr, number: int, build: Build) -> Expr:
    columns = node.operand(f"ffn_weight_{number}").transpose([1, 0])
    return build.matmul(x, columns, node.operand(f"ffn_bias_{number}"))


def _normalized(node: AtenNode, x: Expr, number: int, build: Build) -> Expr:
    operands = [x, *(node.operand(f"norm_{part}_{number}") for part in ("weight", "bias"))]
    return build.value(LayerNormOp, operands, axis=2, epsilon=node.number("eps"))


CONVERTERS = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
}
