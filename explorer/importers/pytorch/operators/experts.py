"""Products of groups of rows, each with weights of its own: mixtures of experts.

aten._grouped_mm(x, weights, ends)      rows in front of ends[0] times weights[0], up to ends[1] ...

How many rows a group has only a run decides, so that every row is multiplied by every group's
weights, and one of these products is kept.
"""

from __future__ import annotations

from explorer.importers.building.attention_scores import counted
from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.pytorch.operators.node import AtenNode


def grouped_product(node: AtenNode, build: Build) -> Expr:
    """(rows, n) by (groups, n, m); or as many matrices as there are groups, without ends."""
    names = list(node.call.arguments)
    x, weights = node.operand(names[0]), node.operand(names[1])
    if node.has("bias") or weights.rank != 3:
        raise Unsupported("a grouped product with a bias, or whose groups are columns")
    ends = node.optional("offs")
    product = _product_of_groups(x, weights, ends, build)
    return product.astype(node.dtype("out_dtype") or x.dtype)


def _product_of_groups(x: Expr, weights: Expr, ends: Expr | None, build: Build) -> Expr:
    if ends is None and x.rank == 3:
        return x @ weights
    if ends is None or x.rank != 2:
        raise Unsupported(f"groups of a tensor with {x.rank} axes")
    (groups,) = weights.sizes([0], "groups")
    rows = counted(x, 0, build)
    ends = ends.astype(rows.dtype)
    begins = ends.slice(0, 0, groups - 1).pad([1], [0])
    is_in = (begins.unsqueeze([1]) <= rows) & (rows < ends.unsqueeze([1]))
    products = x.unsqueeze([0]) @ weights
    zero = products.constant(0)
    return where(is_in.unsqueeze([2]), products, zero).sum([0])


CONVERTERS = {"_grouped_mm": grouped_product}
OF_LIBRARIES = {"transformers.grouped_mm_fallback": grouped_product}
"""The same product where ATen's is not for the element type."""
