"""Matrix products and convolutions.

aten.linear(x, w, b)        w is (O, I)            top.matmul with w transposed
aten.addmm(b, x, y)         beta b + alpha x y     top.matmul with its bias, where b is one
aten.conv2d, convolution    (O, C / group, h, w)   top.conv
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.einsum import einsum
from explorer.importers.building.expr import Expr, Size
from explorer.importers.building.windows import Window, conv, transposed_conv
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import common_dtype


def linear(node: AtenNode, build: Build) -> Expr:
    """x times the transposed weights, and a bias."""
    x, weight, bias = node.operand("input"), node.operand("weight"), node.optional("bias")
    if weight.rank == 1:
        y = matrix_product(x, weight, build)
        return y if bias is None else y + bias
    columns = weight.transpose([1, 0])
    if x.rank != 1:
        return build.matmul(x, columns, bias)
    return build.matmul(x.unsqueeze([0]), columns, bias).squeeze([0])


def matmul(node: AtenNode, build: Build) -> Expr:
    """A vector is a row on the left and a column on the right; other axes broadcast."""
    names = list(node.call.arguments)
    return matrix_product(node.operand(names[0]), node.operand(names[1]), build)


def matrix_product(left: Expr, right: Expr, build: Build) -> Expr:
    rows, columns = left.rank, right.rank
    if rows == 1:
        left = left.unsqueeze([0])
    if columns == 1:
        right = right.unsqueeze([1])
    result = left @ right
    dropped = [axis for axis, rank in ((-2, rows), (-1, columns)) if rank == 1]
    return result.squeeze(dropped) if dropped else result


def add_product(node: AtenNode, build: Build) -> Expr:
    """beta self + alpha times a product of matrices or of a matrix and a vector."""
    first, second = FACTORS[node.call.target.removeprefix("aten.")]
    x, y = node.operand(first), node.operand(second)
    added = node.operand("self")
    alpha, beta = node.scalar("alpha", 1.0), node.scalar("beta", 1.0)
    if alpha == 0 and not _is_small_batch(x, y):
        return _without_product(added, beta, _sizes_of_product(x, y))
    if beta == 0:  # what is added may hold anything then
        return matrix_product(x, y, build).scaled(alpha)
    is_bias = added.rank == 1 and y.rank == 2 and x.rank == 2
    if is_bias and alpha == beta == 1.0 and added.shape == y.shape[1:]:
        return build.matmul(x, y, added)
    product = matrix_product(x, y, build).scaled(alpha)
    return added.scaled(beta) + product


FACTORS = {
    "addmm": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "baddbmm": ("batch1", "batch2"),
    "addr": ("vec1", "vec2"),
}


_SMALL_BATCH = 400
"""Multiplications of each matrix, below which PyTorch multiplies by an alpha of 0, too."""


def _is_small_batch(x: Expr, y: Expr) -> bool:
    if x.rank != 3:
        return False
    rows, depth = x.sizes([1, 2], "a product that is multiplied by 0")
    return rows * depth * y.sizes([2], "a product that is multiplied by 0")[0] < _SMALL_BATCH


def _sizes_of_product(x: Expr, y: Expr) -> list[Size]:
    rows: list[Size] = [x.dim(axis) for axis in range(x.rank - 1)]
    return rows if y.rank == 1 else [*rows, y.dim(y.rank - 1)]


def _without_product(added: Expr, beta: float, sizes: Sequence[Size]) -> Expr:
    """beta added, in the shape of the product: BLAS does not look at factors that alpha = 0 ends,
    nor at what is added where beta is 0."""
    kept = added.constant(0) if beta == 0 else added.scaled(beta)
    return kept.broadcast_to(sizes)


def add_batches(node: AtenNode, build: Build) -> Expr:
    """beta self + alpha times the sum of the products of a batch."""
    x, y, alpha = node.operand("batch1"), node.operand("batch2"), node.scalar("alpha", 1.0)
    beta = node.scalar("beta", 1.0)
    if alpha == 0:
        sizes = [x.dim(1), y.dim(2)]
        return _without_product(node.operand("self"), beta, sizes)
    total = (x @ y).sum([0]).scaled(alpha)
    if beta == 0:
        return total
    return node.operand("self").scaled(beta) + total


def outer(node: AtenNode, build: Build) -> Expr:
    """Each element of one vector times each of the other."""
    x, y = node.operand("self"), node.operand("vec2")
    return x.unsqueeze([1]) * y.unsqueeze([0])


def add_outer(node: AtenNode, build: Build) -> Expr:
    """beta self + alpha times the product of each element of one vector with each of another."""
    x, y = node.operand("vec1"), node.operand("vec2")
    product = (x.unsqueeze([1]) * y.unsqueeze([0])).scaled(node.scalar("alpha", 1.0))
    beta = node.scalar("beta", 1.0)
    if beta == 0:
        return product
    return node.operand("self").scaled(beta) + product


def dot(node: AtenNode, build: Build) -> Expr:
    """The sum of the products of two vectors."""
    names = list(node.call.arguments)
    return (node.operand(names[0]) * node.operand(names[1])).sum([0])


def vector_dot(node: AtenNode, build: Build) -> Expr:
    """The sum of products along an axis."""
    product = node.operand("x") * node.operand("y")
    return product.sum([build.axis(node.integer("dim", build, -1), product.rank)])


def convolution(node: AtenNode, build: Build) -> Expr:
    """A convolution over 1 to 3 axes, transposed if asked; of a single image, too."""
    x = node.operand("input")
    weight, bias = node.operand("weight"), node.optional("bias")
    rank = weight.rank - 2
    if not 1 <= rank <= 3:
        raise Unsupported(f"{rank} spatial dimensions; 1 to 3 are supported")
    is_single = x.rank == rank + 1
    if is_single:
        x = x.unsqueeze([0])
    sizes = tuple(weight.sizes(range(2, 2 + rank), "a convolution"))
    strides = _spread(node.integers("stride", build, [1]), rank)
    dilations = _spread(node.integers("dilation", build, [1]), rank)
    begins, ends = _pads(node, sizes, dilations, build)
    window = Window(sizes, strides, dilations, begins, ends)
    groups = node.integer("groups", build, 1)
    if node.flag("transposed") or "transpose" in node.call.target:
        extra = _spread(node.integers("output_padding", build, [0]), rank)
        y = transposed_conv(x, weight, bias, window, extra, groups, build)
    else:
        y = conv(x, weight, bias, window, groups, build)
    return y.squeeze([0]) if is_single else y


def _pads(
    node: AtenNode, sizes: Sequence[int], dilations: Sequence[int], build: Build
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(sizes)
    word = node.text("padding")
    if word == "same":
        totals = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
        return tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    if word not in ("", "valid"):
        raise ValueError(f"padding {word!r}")
    pads = (0,) * rank if word else _spread(node.integers("padding", build, [0]), rank)
    return pads, pads


def _spread(numbers: Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for all axes, or one for each."""
    found = tuple(numbers) * rank if len(numbers) == 1 else tuple(numbers)
    if len(found) != rank:
        raise ValueError(f"{list(numbers)} for {rank} spatial dimensions")
    return found


def bilinear(node: AtenNode, build: Build) -> Expr:
    """y_k = x1 W_k x2 + b_k"""
    x, other, weight = node.operand("input1"), node.operand("input2"), node.operand("weight")
    rows = x.unsqueeze([-1]).unsqueeze([-1])
    rows = rows.transpose([*range(x.rank - 1), x.rank, x.rank + 1, x.rank - 1])
    left = rows @ weight
    y = (left @ other.unsqueeze([-1]).unsqueeze([-3])).squeeze([-1, -2])
    bias = node.optional("bias")
    return y if bias is None else y + bias


def trilinear(node: AtenNode, build: Build) -> Expr:
    """The product of three tensors with new axes of their own, summed over some axes."""
    factors = [
        node.operand(f"i{n}").unsqueeze(sorted(node.integers(f"expand{n}", build, [])))
        for n in (1, 2, 3)
    ]
    return (factors[0] * factors[2] * factors[1]).sum(node.integers("sumdim", build, []))


def squared_distances(node: AtenNode, build: Build) -> Expr:
    """The distances of all rows of one matrix from all of another, by any norm."""
    x, y = node.operand("x1"), node.operand("x2")
    apart = x.unsqueeze([-2]) - y.unsqueeze([-3])
    p = node.number("p", 2.0)
    axes = [apart.rank - 1]
    if p == float("inf"):
        return abs(apart).max(axes)
    if p == 0:
        return (~(apart == apart.constant(0))).astype(apart.dtype).sum(axes)
    if p in (1.0, 2.0):
        return apart.reduce("l1" if p == 1 else "l2", axes)
    return (abs(apart) ** p).sum(axes) ** (1 / p)


def einstein_sum(node: AtenNode, build: Build) -> Expr:
    """Two operands at a time, each pair as a matrix product."""
    return einsum(node.text("equation"), node.tensors("tensors"))


def tensordot(node: AtenNode, build: Build) -> Expr:
    """Sums of products along pairs of axes; the other axes of the first, then of the second.

    An axis of size 1 is repeated to the size of its partner.
    """
    x, y = node.operand("self"), node.operand("other")
    ranks = x.rank, y.rank
    summed = [
        [build.axis(axis, rank) for axis in node.integers(name, build)]
        for name, rank in zip(("dims_self", "dims_other"), ranks, strict=True)
    ]
    letters = iter(ascii_letters)
    left, right = ([next(letters) for _ in range(rank)] for rank in ranks)
    for a, b in zip(*summed, strict=True):
        right[b] = left[a]
        x, y = _single_summed(x, y, a, b), _single_summed(y, x, b, a)
    kept = [label for a, label in enumerate(left) if a not in summed[0]]
    kept += [label for b, label in enumerate(right) if b not in summed[1]]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", [x, y])


def _single_summed(x: Expr, y: Expr, a: int, b: int) -> Expr:
    """x with its axis `a` summed up, where y has only one number for all of it in its axis `b`."""
    sizes = x.shape, y.shape
    return x.sum([a], keepdims=True) if sizes[0][a] != 1 == sizes[1][b] else x


def inner(node: AtenNode, build: Build) -> Expr:
    """Sums of products along the last axes; a number times a tensor where one has no axes."""
    x, y = node.operand("self"), node.operand("other")
    if not x.rank or not y.rank:
        return x * y
    if y.rank == 1 or x.rank == 1:
        first, second = (x, y) if y.rank == 1 else (y, x)
        return matrix_product(first, second, build)
    rows = y.reshape([-1, y.all_sizes()[-1]])
    product = matrix_product(x, rows.transpose([1, 0]), build)
    return product.reshape([*x.all_sizes()[:-1], *y.all_sizes()[:-1]])


def chain(node: AtenNode, build: Build) -> Expr:
    """The product of several matrices, from the left."""
    factors = node.tensors("matrices" if node.has("matrices") else "tensors")
    result = factors[0]
    for factor in factors[1:]:
        result = matrix_product(result, factor, build)
    return result


def kronecker(node: AtenNode, build: Build) -> Expr:
    """Each element of one tensor times all of the other, in blocks."""
    dtype = common_dtype(node, ("self", "other"))
    x, y = (node.operand(name).astype(dtype) for name in ("self", "other"))
    rank = max(x.rank, y.rank)
    x, y = (v.reshape([*[1] * (rank - v.rank), *v.all_sizes()]) for v in (x, y))
    own = x.sizes(range(rank), "a Kronecker product")
    other = y.sizes(range(rank), "a Kronecker product")
    left = x.reshape([n for size in own for n in (size, 1)])
    right = y.reshape([n for size in other for n in (1, size)])
    product = left * right
    return product.reshape([a * b for a, b in zip(own, other, strict=True)])


_CONVOLUTIONS = [
    f"{name}{n}d{suffix}"
    for n in (1, 2, 3)
    for name, suffixes in (("conv", ("", ".padding")), ("conv_transpose", ("", ".input")))
    for suffix in suffixes
]

CONVERTERS = {
    "linear": linear,
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "mv": matmul,
    "__matmul__": matmul,
    "linalg_matmul": matmul,
    "addmm": add_product,
    "addmv": add_product,
    "baddbmm": add_product,
    "addbmm": add_batches,
    "outer": outer,
    "ger": outer,
    "addr": add_outer,
    "dot": dot,
    "vdot": dot,
    "linalg_vecdot": vector_dot,
    "bilinear": bilinear,
    "_trilinear": trilinear,
    "einsum": einstein_sum,
    "tensordot": tensordot,
    "inner": inner,
    "chain_matmul": chain,
    "linalg_multi_dot": chain,
    "kron": kronecker,
    "cdist": squared_distances,
    "_cdist_forward": squared_distances,
    **dict.fromkeys(_CONVOLUTIONS, convolution),
    "conv_transpose2d.input": convolution,
    "convolution": convolution,
    "_convolution": convolution,
}
