"""Products of matrices, convolutions, einsum, determinants."""

from __future__ import annotations

import numpy as np

from verification.random_models.draft import FLOATS, Draft, NotPossible
from verification.random_models.recipes.recipe import family, recipes

SUMS = (*FLOATS, "int32", "int64", "uint32", "uint64")
HALVES = ("float32", "float32", "float16", "float64")


def matmul(draft: Draft) -> None:
    x = draft.operand(SUMS, (1, 2, 3, 4))
    inner, columns = x.shape[-1], draft.number(1, 20)
    batch = draft.broadcast_to(x.shape[:-2])
    right = draft.one_of([(inner,), (inner, columns), (*batch, inner, columns)])
    draft.add("MatMul", [x.name, draft.like(x, right).name])


def gemm(draft: Draft) -> None:
    x = draft.operand(SUMS, (2,))
    flip_a, flip_b = draft.number(0, 1), draft.number(0, 1)
    rows, inner = x.shape[::-1] if flip_a else x.shape
    columns = draft.number(1, 20)
    w = draft.like(x, (columns, inner) if flip_b else (inner, columns))
    bias = draft.one_of([[], [(columns,)], [(1, columns)], [(rows, 1)], [()]])
    alpha = draft.one_of([1.0, 0.5]) if x.is_float else 1.0
    factors = {"alpha": alpha, "beta": draft.one_of([1.0, 2.0])}
    operands = [x.name, w.name, *(draft.like(x, shape).name for shape in bias)]
    draft.add("Gemm", operands, transA=flip_a, transB=flip_b, **factors)


def fused_matmul(draft: Draft) -> None:
    rows, inner, columns = (draft.number(1, 9) for _ in range(3))
    flip_a, flip_b = draft.number(0, 1), draft.number(0, 1)
    x = draft.input("float32", (2, *((inner, rows) if flip_a else (rows, inner))))
    w = draft.like(x, (2, *((columns, inner) if flip_b else (inner, columns))))
    draft.add_typed(
        "FusedMatMul",
        [x.name, w.name],
        [("float32", (2, rows, columns))],
        "com.microsoft",
        transA=flip_a,
        transB=flip_b,
        alpha=draft.one_of([1.0, 0.5]),
    )


def convolution(operator: str, draft: Draft) -> None:
    dims = draft.one_of([1, 2, 2, 2, 3])
    group = draft.one_of([1, 1, 2])
    own, others = group * draft.number(1, 9), group * draft.number(1, 18)
    channels = (own, others)
    if draft.random.random() < 0.2 and operator == "Conv":  # one filter per channel
        group, channels = own, (own, own)
    spatial = [draft.number(5, 8) for _ in range(dims)]
    dtype = draft.one_of(HALVES)
    x = draft.input(dtype, (draft.number(1, 2), channels[0], *spatial))
    kernel = [draft.number(1, 3) for _ in range(dims)]
    shape = (
        (channels[1], channels[0] // group, *kernel)
        if operator == "Conv"
        else (channels[0], channels[1] // group, *kernel)
    )
    w = draft.weight(dtype, shape)
    bias = [draft.weight(dtype, (channels[1],))] if draft.flag() else []
    windows = _windows(draft, dims)
    if draft.random.random() < 0.15:
        windows.pop("pads")
        windows["auto_pad"] = draft.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
        windows["dilations"] = [1] * dims
    elif operator == "ConvTranspose" and draft.flag():
        windows["output_padding"] = [draft.number(0, s - 1) for s in windows["strides"]]
    draft.add(operator, [x.name, w, *bias], 1, group=group, **windows)


def residual(draft: Draft) -> None:
    """A convolution that keeps its input's shape, and what it read added to it."""
    channels, dims = draft.number(1, 18), draft.one_of([1, 2, 2])
    x = draft.input("float32", (1, channels, *(draft.number(3, 9) for _ in range(dims))))
    around, group = draft.number(0, 1), draft.one_of([1, 1, channels])
    kernel = [2 * around + 1] * dims
    w = draft.weight("float32", (channels, channels // group, *kernel))
    (y,) = draft.add("Conv", [x.name, w], group=group, pads=[around] * 2 * dims)
    if draft.random.random() < 0.3:
        (y,) = draft.add("Relu", [y.name])
    draft.add("Add", draft.one_of([(x.name, y.name), (y.name, x.name)]))


def deformable(draft: Draft) -> None:
    """Offsets of whole quarters, so that no sample lies on an edge by its last bits."""
    channels, out, height, width = draft.number(1, 3), draft.number(1, 3), 5, 6
    kernel, pads = (draft.number(1, 2), draft.number(1, 2)), [draft.number(0, 1)] * 4
    x = draft.input("float32", (1, channels, height, width))
    w = draft.weight("float32", (out, channels, *kernel))
    sizes = [n + 2 * pads[0] - k + 1 for n, k in zip((height, width), kernel, strict=True)]
    taps = kernel[0] * kernel[1]
    quarters = draft.random.integers(-4, 5, (1, 2 * taps, *sizes)) / 4 + 0.125
    offset = draft.constant(quarters.astype(np.float32))
    bias = draft.weight("float32", (out,))
    mask = draft.weight("float32", (1, taps, *sizes))
    optional = draft.one_of([[], [bias], [bias, mask], ["", mask]])
    draft.add("DeformConv", [x.name, w, offset, *optional], kernel_shape=kernel, pads=pads)


EQUATIONS = (
    ("ij,jk->ik", (2, 2)),
    ("bij,bjk->bik", (3, 3)),
    ("i,j->ij", (1, 1)),
    ("ij->ji", (2,)),
    ("ij->i", (2,)),
    ("ii->i", (2,)),
    ("ii->", (2,)),
    ("bhid,bhjd->bhij", (4, 4)),
    ("bid,dhk->bhik", (3, 3)),
    ("...ij,...jk->...ik", (3, 3)),
    ("ij,ij", (2, 2)),
    ("ij,jk,kl->il", (2, 2, 2)),
)


def einsum(draft: Draft) -> None:
    equation, ranks = draft.one_of(EQUATIONS)
    sizes: dict[str, int] = {}
    terms = equation.split("->")[0].replace("...", ".").split(",")
    dtype = draft.one_of(("float32", "float64", "float16", "int32", "int64"))
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        shape = [sizes.setdefault(letter, draft.number(1, 5)) for letter in term]
        assert len(shape) == rank
        operands.append(draft.input(dtype, shape).name)
    draft.add("Einsum", operands, equation=equation)


def determinant(draft: Draft) -> None:
    """Of a matrix with a large diagonal, whose determinant does not nearly cancel."""
    size = draft.number(1, 4)
    shape = (*draft.sizes(draft.number(0, 2), 3), size, size)
    if 0 in shape:
        raise NotPossible
    dtype = draft.one_of(["float32", "float64"])
    matrix = draft.array(dtype, shape) + 6 * np.eye(size, dtype=dtype)
    x = draft.input(dtype, shape, matrix.astype(dtype))
    draft.add("Det", [x.name])


def column_to_image(draft: Draft) -> None:
    image = [draft.number(3, 5), draft.number(3, 5)]
    block = [draft.number(1, 3), draft.number(1, 3)]
    places = [i - b + 1 for i, b in zip(image, block, strict=True)]
    channels = draft.number(1, 3)
    shape = (draft.number(1, 2), channels * block[0] * block[1], places[0] * places[1])
    x = draft.input(draft.one_of(("float32", "float64")), shape)
    draft.add("Col2Im", [x.name, draft.constant(image), draft.constant(block)])


def _windows(draft: Draft, dims: int) -> dict[str, list[int]]:
    return {
        "strides": [draft.number(1, 2) for _ in range(dims)],
        "pads": [draft.number(0, 2) for _ in range(2 * dims)],
        "dilations": [draft.number(1, 2) for _ in range(dims)],
    }


RECIPES = (
    *recipes(matmul, matmul, gemm, fused_matmul, deformable, einsum, determinant, column_to_image),
    *family(convolution, "Conv", "Conv", "ConvTranspose"),
    *recipes(residual),
)
