"""Tensors out of nothing: constants, and numbers that count up."""

from __future__ import annotations

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, Size, where
from explorer.importers.pytorch.file.program import Argument, Ref
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.promotion import as_value, constant_of
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.shapes import RangeOp

LARGEST_CONSTANT = 1 << 16
"""Elements; more are made in a run of one."""


def filled(number: Expr, sizes: list[Size], build: Build) -> Expr:
    """A tensor of one number: a constant where it is small, else what broadcasts it."""
    stored = build.stored(number)
    if stored is not None and all(isinstance(size, int) for size in sizes):
        shape = [size for size in sizes if isinstance(size, int)]
        if int(np.prod(shape)) <= LARGEST_CONSTANT:
            return build.weight(np.full(shape, stored))
    return number.broadcast_to(sizes) if sizes else number


def full(node: AtenNode, build: Build) -> Expr:
    """A tensor of one number."""
    number = node.argument("fill_value")
    return filled(_number(node, number, node.result_dtype(), build), node.sizes("size"), build)


def full_like(node: AtenNode, build: Build) -> Expr:
    """A tensor of one number, with the shape of another."""
    x = node.operand("self")
    number = _number(node, node.argument("fill_value"), _dtype(node, x), build)
    return filled(number, _shape(x), build)


def _number(node: AtenNode, found: Argument, dtype: np.dtype, build: Build) -> Expr:
    if isinstance(found, Ref):
        value = node.given[found.name].astype(dtype)
        return value.reshape([]) if value.rank else value
    return constant_of(found, "fill_value", dtype, build)


def _dtype(node: AtenNode, x: Expr) -> np.dtype:
    asked = node.dtype()
    return x.dtype if asked is None else asked


def _shape(x: Expr) -> list[Size]:
    known = [x.size(axis) for axis in range(x.rank)]
    return [
        size if size is not None else axis for size, axis in zip(known, x.all_sizes(), strict=True)
    ]


def constant(node: AtenNode, build: Build) -> Expr:
    """A tensor of zeros or of ones."""
    number = 1 if "ones" in node.call.target else 0
    zero = build.weight(np.array(number, node.result_dtype()))
    return filled(zero, node.sizes("size"), build)


def constant_like(node: AtenNode, build: Build) -> Expr:
    """A tensor of zeros or of ones, with the shape of another."""
    x = node.operand("self")
    number = 1 if "ones" in node.call.target else 0
    return filled(build.weight(np.array(number, _dtype(node, x))), _shape(x), build)


def scalar_tensor(node: AtenNode, build: Build) -> Expr:
    """A number as a tensor without axes."""
    return _number(node, node.argument(node.first()), node.result_dtype(), build)


def arange(node: AtenNode, build: Build) -> Expr:
    """Numbers from start, each `step` above the one before, below end."""
    dtype = node.result_dtype()
    found = [
        default if node.argument(name) is None else node.argument(name)
        for name, default in (("start", 0), ("end", None), ("step", 1))
    ]
    if not any(isinstance(a, Ref) for a in found):
        start, end, step = (_plain(a) for a in found)
        count = max(int(np.ceil((end - start) / step)), 0)
        if dtype.kind in "iu":  # as PyTorch: the numbers are counted in whole ones
            start, step = int(start), int(step)
        return build.weight(np.asarray(start + np.arange(count) * step).astype(dtype))
    scalars = [_number(node, a, np.dtype(np.int64), build) for a in found]
    return build.value(RangeOp, scalars).astype(dtype)


def _plain(argument: Argument) -> int | float:
    if not isinstance(argument, int | float):
        raise ValueError(f"{argument!r}; a number expected")
    return argument


def linspace(node: AtenNode, build: Build) -> Expr:
    """So many numbers from start to end, evenly apart, or their powers of a base."""
    dtype = node.result_dtype()
    if any(isinstance(node.argument(name), Ref) for name in ("start", "end")):
        return _between(node, build).astype(dtype)
    start, end = (_plain(node.argument(name)) for name in ("start", "end"))
    if dtype.kind in "iu":
        start, end = int(start), int(end)
    steps = node.integer("steps", build)
    is_first, places = _halves(steps)
    with np.errstate(all="ignore"):
        step = (end - start) / max(steps - 1, 1)
        numbers = np.where(is_first, start, end) + step * places
        if "logspace" in node.call.target:
            numbers = node.number("base", 10.0) ** numbers
        return build.weight(numbers.astype(dtype))


def _halves(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers are counted from the start, and how many steps each is away from its end.

    As PyTorch counts: the last half from the end, negatively; a single number is the start."""
    places = np.arange(steps)
    is_first = (places < steps // 2) | (steps == 1)
    return is_first, np.where(is_first, places, places - (steps - 1)).astype(np.float64)


def _between(node: AtenNode, build: Build) -> Expr:
    """The same, in doubles, of a start or an end that only a run knows."""
    start, end = (as_value(node, name, np.dtype(np.float64), build) for name in ("start", "end"))
    dtype, steps = node.result_dtype(), node.integer("steps", build)
    if dtype.kind in "iu":
        start, end = (n.astype(dtype).astype(np.float64) for n in (start, end))
    is_first, places = _halves(steps)
    span = end - start
    step = span / max(steps - 1, 1)
    origin = where(build.weight(is_first), start, end)
    numbers = origin + step * build.weight(places)
    if "logspace" not in node.call.target:
        return numbers
    return node.number("base", 10.0) ** numbers


def eye(node: AtenNode, build: Build) -> Expr:
    """Ones on the diagonal, zeros elsewhere."""
    rows = node.integer("n", build)
    columns = node.integer("m", build, rows)
    return build.weight(np.eye(rows, columns, dtype=node.result_dtype()))


def triangle_places(node: AtenNode, build: Build) -> Expr:
    """Rows and columns of the elements on and below, or above, a diagonal."""
    rows, columns = node.integer("row", build), node.integer("col", build)
    offset = node.integer("offset", build, 0)
    places = np.tril_indices if "tril" in node.call.target else np.triu_indices
    return build.weight(np.array(places(rows, offset, columns)).astype(node.result_dtype()))


def uninitialized(node: AtenNode, build: Build) -> Expr:
    """Memory that nobody wrote to: zeros, as good as anything."""
    if node.has("size"):
        return filled(build.weight(np.array(0, node.result_dtype())), node.sizes("size"), build)
    x = node.operand("self")
    return filled(build.weight(np.array(0, _dtype(node, x))), _shape(x), build)


def copy(node: AtenNode, build: Build) -> Expr:
    """Another tensor's numbers, in the type and shape of the first."""
    x, source = node.operand("self"), node.operand("src")
    source = source.astype(x.dtype)
    return source if source.shape == x.shape else source.broadcast_to(x.all_sizes())


def fill(node: AtenNode, build: Build) -> Expr:
    """One number everywhere."""
    x = node.operand("self")
    return filled(_number(node, node.argument("value"), x.dtype, build), _shape(x), build)


def zero(node: AtenNode, build: Build) -> Expr:
    """Zeros everywhere."""
    x = node.operand("self")
    return filled(x.constant(0), _shape(x), build)


def random(node: AtenNode, build: Build) -> Expr:
    """Not what a program can be compared by."""
    del node, build
    raise Unsupported("random numbers")


def one_hot(node: AtenNode, build: Build) -> Expr:
    """1 at each number's place along a new last axis."""
    x, classes = node.operand("self"), node.integer("num_classes", build, -1)
    if classes < 0:
        raise Unsupported("as many classes as the data have: give num_classes")
    places = build.weight(np.arange(classes))
    is_place = x.unsqueeze([-1]) == places
    one, none = (build.weight(np.array(n, np.int64)) for n in (1, 0))
    return build.value(SelectOp, [is_place, one, none])


_RANDOM = [
    "rand",
    "randn",
    "randint",
    "randint.low",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli",
    "bernoulli.p",
    "normal_functional",
    "multinomial",
    "uniform",
    "normal.float_float",
    "normal.Tensor_float",
    "normal.float_Tensor",
    "normal.Tensor_Tensor",
    "exponential",
    "poisson",
    "normal",
    "cauchy",
    "geometric",
    "log_normal",
]

CONVERTERS = {
    "full": full,
    "new_full": full,
    "full_like": full_like,
    "zeros": constant,
    "ones": constant,
    "new_zeros": constant,
    "new_ones": constant,
    "zeros_like": constant_like,
    "ones_like": constant_like,
    "scalar_tensor": scalar_tensor,
    "arange": arange,
    "arange.start": arange,
    "arange.start_step": arange,
    **{
        f"{kind}space{overload}": linspace
        for kind in ("lin", "log")
        for overload in ("", ".Tensor_Tensor", ".Tensor_Scalar", ".Scalar_Tensor")
    },
    "eye": eye,
    "eye.m": eye,
    "tril_indices": triangle_places,
    "triu_indices": triangle_places,
    "empty.memory_format": uninitialized,
    "empty": uninitialized,
    "empty_like": uninitialized,
    "new_empty": uninitialized,
    "empty_strided": uninitialized,
    "new_empty_strided": uninitialized,
    "empty_permuted": uninitialized,
    "copy": copy,
    "fill.Scalar": fill,
    "fill.Tensor": fill,
    "zero": zero,
    "one_hot": one_hot,
    **dict.fromkeys(_RANDOM, random),
}
