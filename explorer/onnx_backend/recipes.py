"""How a random node of each operator is drawn: operands that fit, attributes that are valid.

A recipe is a function of a `Draft` that adds one node, or raises `NotPossible`. Operators that jump
take exact operands (inputs) only; those that need a bounded domain get one from another node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from onnx import helper

from explorer.onnx_backend.generation import FLOATS, TYPES, Draft, NotPossible, Value

Recipe = Callable[[Draft], None]
NUMBERS = (*FLOATS, "int32", "int64")
SMOOTH = (
    "Abs",
    "Atan",
    "Cos",
    "Elu",
    "Erf",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Mish",
    "Neg",
    "Relu",
    "Selu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Cosh",
    "Softplus",
    "Softsign",
    "Tanh",
    "Exp",
    "Asinh",
)
JUMPING = ("Ceil", "Floor", "Round", "Sign", "IsNaN", "IsInf")
ARITHMETIC = ("Add", "Sub", "Mul")
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
)
EXACT_REDUCTIONS = ("ReduceMax", "ReduceMin")


def smooth(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(("float32",) if operator in _NARROW else FLOATS).name])


_NARROW = ("Asinh", "Sinh", "Cosh", "Atan", "Mish", "Gelu", "Celu", "Selu", "Softsign")
"""onnxruntime has these for float32 only."""


def jumping(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(("float32", "float64"), is_exact=True).name])


def integer_unary(operator: str, draft: Draft) -> None:
    draft.add(operator, [draft.operand(("int32", "int64", "int8"), is_exact=True).name])


def domain(operator: str, draft: Draft) -> None:
    """Functions of positive numbers: of an absolute value plus something."""
    x = draft.operand(("float32", "float64"))
    draft.add("Abs", [x.name])
    shift = draft.constant(np.array(0.5, x.dtype))
    draft.add("Add", [draft.values[-1].name, shift])
    draft.add(operator, [draft.values[-1].name])


def arithmetic(operator: str, draft: Draft) -> None:
    x = draft.operand((*NUMBERS, "int8", "uint8", "uint32") if operator in ARITHMETIC else FLOATS)
    y = draft.like(x, draft.broadcast_to(x.shape))
    pair = [x.name, y.name]
    draft.add(operator, pair if draft.flag() else pair[::-1])


def division(draft: Draft) -> None:
    """The divisor is a constant without zeros."""
    x = draft.operand(NUMBERS, is_exact=True)
    array = draft.array(x.dtype, draft.broadcast_to(x.shape))
    divisor = np.where(np.abs(array) < 0.25, 1, array).astype(x.dtype)
    draft.add("Div", [x.name, draft.constant(divisor)])


def modulo(draft: Draft) -> None:
    x = draft.operand(("int32", "int64", "int8", "uint8"), is_exact=True)
    divisor = draft.constant(draft.array(x.dtype, draft.broadcast_to(x.shape)))
    draft.add("Mod", [x.name, divisor], fmod=draft.number(0, 1))


def extremum(operator: str, draft: Draft) -> None:
    x = draft.operand(NUMBERS)
    others = [draft.like(x, draft.broadcast_to(x.shape)).name for _ in range(draft.number(0, 2))]
    draft.add(operator, [x.name, *others])


def comparison(operator: str, draft: Draft) -> None:
    x = draft.operand(("float32", "int32", "int64"), is_exact=True)
    y = draft.constant(draft.array(x.dtype, draft.broadcast_to(x.shape)))
    draft.add(operator, [x.name, y])


def logic(operator: str, draft: Draft) -> None:
    x = draft.operand(("bool",))
    if operator == "Not":
        draft.add(operator, [x.name])
    else:
        draft.add(operator, [x.name, draft.like(x, draft.broadcast_to(x.shape)).name])


def bitwise(operator: str, draft: Draft) -> None:
    x = draft.operand(("int32", "int64", "int8", "uint8"))
    others = [draft.like(x, draft.broadcast_to(x.shape)).name] if operator != "BitwiseNot" else []
    draft.add(operator, [x.name, *others])


def power(draft: Draft) -> None:
    x = draft.operand(("float32", "float64"))
    exponent = draft.constant(np.array(draft.one_of([1, 2, 3]), x.dtype))
    draft.add("Pow", [x.name, exponent])


def prelu(draft: Draft) -> None:
    x = draft.operand(("float32",))
    slope = draft.constant(draft.array(x.dtype, draft.broadcast_to(x.shape)))
    draft.add("PRelu", [x.name, slope])


def clip(draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "int32", "int8"))
    low, high = (draft.constant(np.array(n, x.dtype)) for n in (-1, 2))
    bounds = draft.one_of([[low, high], [low], ["", high], []])
    draft.add("Clip", [x.name, *bounds])


def cast(draft: Draft) -> None:
    """Small numbers, so that no type is left; negative ones not to unsigned types."""
    x = draft.operand(TYPES, is_exact=True)
    target = draft.one_of([t for t in TYPES if not t.startswith("u") or not x.is_float])
    draft.add("Cast", [x.name], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


def where(draft: Draft) -> None:
    x = draft.operand(("float32", "int32", "int64", "uint8"))
    condition = draft.like(Value("", "bool", ()), draft.broadcast_to(x.shape))
    y = draft.like(x, draft.broadcast_to(x.shape))
    draft.add("Where", [condition.name, x.name, y.name])


def reduction(operator: str, draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "int32"), is_exact=operator in EXACT_REDUCTIONS)
    if 0 in x.shape:
        raise NotPossible
    if operator in ("ReduceL1", "ReduceL2", "ReduceLogSumExp") and not x.is_float:
        raise NotPossible
    count = draft.number(0, x.rank)
    axes = [int(a) for a in draft.random.permutation(x.rank)[:count]]
    axes = [a - x.rank if draft.flag() else a for a in axes]
    operands = [x.name, draft.constant(axes)] if axes else [x.name]
    empty = {"noop_with_empty_axes": draft.number(0, 1)} if not axes else {}
    draft.add(operator, operands, keepdims=draft.number(0, 1), **empty)


def position(operator: str, draft: Draft) -> None:
    x = draft.operand(("float32", "int32"), (1, 2, 3, 4), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    draft.add(
        operator,
        [x.name],
        axis=draft.number(-x.rank, x.rank - 1),
        keepdims=draft.number(0, 1),
        select_last_index=draft.number(0, 1),
    )


def top_k(draft: Draft) -> None:
    x = draft.operand(("float32", "int64"), (1, 2, 3), is_exact=True)
    axis = draft.number(0, x.rank - 1)
    k = draft.constant([draft.number(0, x.shape[axis])])
    draft.add("TopK", [x.name, k], 2, axis=axis, largest=draft.number(0, 1), sorted=1)


def running_sum(draft: Draft) -> None:
    x = draft.operand(("float32", "int32", "int64"), (1, 2, 3))
    axis = draft.constant(np.array(draft.number(-x.rank, x.rank - 1), np.int64))
    flags = {"exclusive": draft.number(0, 1), "reverse": draft.number(0, 1)}
    draft.add("CumSum", [x.name, axis], **flags)


def normalized(operator: str, draft: Draft) -> None:
    x = draft.operand(("float32", "float64"), (1, 2, 3, 4))
    draft.add(operator, [x.name], axis=draft.number(-x.rank, x.rank - 1))


def layer_norm(draft: Draft) -> None:
    x = draft.operand(("float32",), (2, 3, 4))
    axis = draft.number(0, x.rank - 1)
    scale = draft.constant(draft.array(x.dtype, x.shape[axis:]))
    bias = [draft.constant(draft.array(x.dtype, x.shape[axis:]))] if draft.flag() else []
    if 0 in x.shape or int(np.prod(x.shape[axis:])) < 4:
        raise NotPossible  # of very few numbers the variance can be nearly 0
    draft.add("LayerNormalization", [x.name, scale, *bias], axis=axis)


def batch_norm(draft: Draft) -> None:
    x = draft.operand(("float32",), (2, 3, 4))
    shape = (x.shape[1],)
    scale, bias, mean = (draft.constant(draft.array("float32", shape)) for _ in range(3))
    variance = draft.constant(np.abs(draft.array("float32", shape)) + np.float32(0.5))
    draft.add("BatchNormalization", [x.name, scale, bias, mean, variance])


def reshape(draft: Draft) -> None:
    x = draft.operand(TYPES)
    sizes = list(x.shape)
    draft.random.shuffle(sizes)
    if len(sizes) > 1 and draft.flag():
        sizes = [sizes[0] * sizes[1], *sizes[2:]]
    if sizes and 0 not in sizes and draft.flag():
        sizes[draft.number(0, len(sizes) - 1)] = -1
    draft.add("Reshape", [x.name, draft.constant(sizes)], allowzero=1 if 0 in sizes else 0)


def transpose(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3, 4, 5))
    draft.add("Transpose", [x.name], perm=[int(a) for a in draft.random.permutation(x.rank)])


def flatten(draft: Draft) -> None:
    x = draft.operand(TYPES)
    draft.add("Flatten", [x.name], axis=draft.number(-x.rank, x.rank))


def unsqueeze(draft: Draft) -> None:
    x = draft.operand(TYPES, (0, 1, 2, 3))
    draft.add("Unsqueeze", [x.name, draft.constant([draft.number(-x.rank - 1, x.rank)])])


def concat(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3, 4))
    axis = draft.number(0, x.rank - 1)
    parts = [x.name]
    for _ in range(draft.number(0, 2)):
        shape = [draft.number(0, 4) if a == axis else s for a, s in enumerate(x.shape)]
        parts.append(draft.like(x, shape).name)
    draft.add("Concat", parts, axis=axis - x.rank if draft.flag() else axis)


def split(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axis = draft.number(0, x.rank - 1)
    first = draft.number(0, x.shape[axis])
    draft.add("Split", [x.name, draft.constant([first, x.shape[axis] - first])], 2, axis=axis)


def slices(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3, 4))
    axes = [int(a) for a in draft.random.permutation(x.rank)[: draft.number(1, x.rank)]]
    starts = [draft.number(-x.shape[a] - 1, x.shape[a] + 1) for a in axes]
    steps = [draft.one_of([1, 1, 2, 3, -1, -2]) for _ in axes]
    ends = [
        2**31 - 1 if step > 0 and draft.flag() else draft.number(-x.shape[a] - 1, x.shape[a] + 1)
        for a, step in zip(axes, steps, strict=True)
    ]
    draft.add("Slice", [x.name, *(draft.constant(n) for n in (starts, ends, axes, steps))])


def pad(draft: Draft) -> None:
    x = draft.operand(("float32", "float64", "int32", "int64"), (1, 2, 3, 4))
    mode = draft.one_of(["constant", "edge", "reflect", "wrap"])
    amounts = [draft.number(0, 2) for _ in range(2 * x.rank)]
    if mode in ("reflect", "wrap", "edge") and min(x.shape) < 3:
        raise NotPossible
    value = (
        [draft.constant(draft.array(x.dtype, ()))] if mode == "constant" and draft.flag() else []
    )
    draft.add("Pad", [x.name, draft.constant(amounts), *value], mode=mode)


def expand(draft: Draft) -> None:
    x = draft.operand(TYPES, (0, 1, 2, 3))
    sizes = [draft.number(1, 3) if s == 1 else s for s in x.shape]
    draft.add("Expand", [x.name, draft.constant([draft.number(1, 2), *sizes])])


def tile(draft: Draft) -> None:
    x = draft.operand(("float32", "int32", "int64", "bool"), (1, 2, 3))
    draft.add("Tile", [x.name, draft.constant([draft.number(0, 3) for _ in x.shape])])


def gather(draft: Draft) -> None:
    x = draft.operand(TYPES, (1, 2, 3))
    axis = draft.number(-x.rank, x.rank - 1)
    indices = _indices(draft, x.shape[axis], draft.sizes(draft.number(0, 2), 4))
    draft.add("Gather", [x.name, indices], axis=axis)


def gather_elements(draft: Draft) -> None:
    x = draft.operand(("float32", "int64", "bool"), (1, 2, 3))
    axis = draft.number(0, x.rank - 1)
    shape = [draft.number(0, 4) if a == axis else s for a, s in enumerate(x.shape)]
    indices = _indices(draft, x.shape[axis], shape)
    draft.add("GatherElements", [x.name, indices], axis=axis)


def gather_nd(draft: Draft) -> None:
    x = draft.operand(("float32", "int64"), (1, 2, 3))
    depth = draft.number(1, x.rank)
    rows = draft.sizes(draft.number(0, 2), 3)
    if 0 in x.shape[:depth]:
        raise NotPossible
    columns = [draft.random.integers(-x.shape[a], x.shape[a], rows) for a in range(depth)]
    draft.add("GatherND", [x.name, draft.constant(np.stack(columns, -1).astype(np.int64))])


def scatter_elements(draft: Draft) -> None:
    """Every place is written at most once, unless what is written is added up."""
    x = draft.operand(("float32",), (1, 2), is_exact=True)
    axis = draft.number(0, x.rank - 1)
    if 0 in x.shape:
        raise NotPossible
    count = draft.number(1, x.shape[axis])
    shape = tuple(count if a == axis else s for a, s in enumerate(x.shape))
    places = np.moveaxis(np.zeros(shape, np.int64), axis, -1)
    for row in np.ndindex(places.shape[:-1]):
        places[row] = draft.random.permutation(x.shape[axis])[:count]
    indices = draft.constant(np.ascontiguousarray(np.moveaxis(places, -1, axis)))
    updates = draft.constant(draft.array(x.dtype, shape))
    mode = draft.one_of(["none", "add", "mul", "max", "min"])
    draft.add("ScatterElements", [x.name, indices, updates], axis=axis, reduction=mode)


def scatter_nd(draft: Draft) -> None:
    x = draft.operand(("float32",), (1, 2, 3), is_exact=True)
    if 0 in x.shape:
        raise NotPossible
    rows = draft.number(1, x.shape[0])
    indices = draft.random.permutation(x.shape[0])[:rows].reshape(-1, 1).astype(np.int64)
    updates = draft.constant(draft.array(x.dtype, (rows, *x.shape[1:])))
    draft.add("ScatterND", [x.name, draft.constant(indices), updates])


def depth_and_space(operator: str, draft: Draft) -> None:
    x = draft.input("float32", (draft.number(1, 2), 4 * draft.number(1, 2), 4, 2))
    mode = {"mode": draft.one_of(["DCR", "CRD"])} if operator == "DepthToSpace" else {}
    draft.add(operator, [x.name], blocksize=2, **mode)


def triangle(draft: Draft) -> None:
    x = draft.operand(("float32", "int64"), (2, 3))
    k = draft.constant(np.array(draft.number(-2, 2), np.int64))
    draft.add("Trilu", [x.name, k], upper=draft.number(0, 1))


def one_hot(draft: Draft) -> None:
    shape = draft.sizes(draft.number(0, 2), 4)
    indices = draft.constant(draft.random.integers(-5, 5, shape).astype(np.int64))
    depth = draft.constant(np.array(5, np.int64))
    values = draft.constant(draft.array("float32", (2,)))
    draft.add("OneHot", [indices, depth, values], axis=draft.number(-len(shape) - 1, len(shape)))


def matmul(draft: Draft) -> None:
    x = draft.operand(("float32", "float64"), (1, 2, 3, 4))
    inner, columns = x.shape[-1], draft.number(1, 20)
    batch = draft.broadcast_to(x.shape[:-2])
    right = draft.one_of([(inner,), (inner, columns), (*batch, inner, columns)])
    draft.add("MatMul", [x.name, draft.like(x, right).name])


def gemm(draft: Draft) -> None:
    x = draft.operand(("float32",), (2,))
    flip_a, flip_b = draft.number(0, 1), draft.number(0, 1)
    rows, inner = x.shape[::-1] if flip_a else x.shape
    columns = draft.number(1, 20)
    w = draft.like(x, (columns, inner) if flip_b else (inner, columns))
    bias = draft.one_of([[], [(columns,)], [(1, columns)], [(rows, 1)], [()]])
    factors = {"alpha": draft.one_of([1.0, 0.5]), "beta": draft.one_of([1.0, 2.0])}
    operands = [x.name, w.name, *(draft.like(x, shape).name for shape in bias)]
    draft.add("Gemm", operands, transA=flip_a, transB=flip_b, **factors)


def convolution(operator: str, draft: Draft) -> None:
    dims = draft.one_of([1, 2, 2, 2, 3])
    group = draft.one_of([1, 1, 2])
    own, others = group * draft.number(1, 9), group * draft.number(1, 18)
    channels = (own, others)
    if draft.random.random() < 0.2 and operator == "Conv":  # one filter per channel
        group, channels = own, (own, own)
    spatial = [draft.number(5, 8) for _ in range(dims)]
    x = draft.input("float32", (draft.number(1, 2), channels[0], *spatial))
    kernel = [draft.number(1, 3) for _ in range(dims)]
    shape = (
        (channels[1], channels[0] // group, *kernel)
        if operator == "Conv"
        else (channels[0], channels[1] // group, *kernel)
    )
    w = draft.constant(draft.array("float32", shape))
    bias = [draft.constant(draft.array("float32", (channels[1],)))] if draft.flag() else []
    windows = _windows(draft, dims)
    draft.add(operator, [x.name, w, *bias], 1, group=group, **windows)


def pooling(operator: str, draft: Draft) -> None:
    dims = draft.one_of([1, 2, 2, 3])
    spatial = [draft.number(5, 8) for _ in range(dims)]
    x = draft.input("float32", (draft.number(1, 2), draft.number(1, 18), *spatial))
    windows = _windows(draft, dims)
    windows["pads"] = [min(p, 1) for p in windows["pads"]]
    kernel = [draft.number(2, 3) for _ in range(dims)]
    counts = {"count_include_pad": draft.number(0, 1)} if operator == "AveragePool" else {}
    draft.add(
        operator,
        [x.name],
        1,
        kernel_shape=kernel,
        ceil_mode=draft.number(0, 1),
        **windows,
        **counts,
    )


def global_pooling(operator: str, draft: Draft) -> None:
    x = draft.operand(("float32",), (3, 4, 5))
    if 0 in x.shape:
        raise NotPossible
    draft.add(operator, [x.name])


def resize(draft: Draft) -> None:
    x = draft.input("float32", (1, draft.number(1, 3), draft.number(2, 5), draft.number(2, 5)))
    scales = draft.constant(np.array([1, 1, 2, draft.one_of([1, 2, 3])], np.float32))
    mode = draft.one_of(["nearest", "linear"])
    how = draft.one_of(["asymmetric", "half_pixel"])
    rounding = {"nearest_mode": "floor"} if mode == "nearest" else {}
    draft.add(
        "Resize", [x.name, "", scales], 1, mode=mode, coordinate_transformation_mode=how, **rounding
    )


def quantize(draft: Draft) -> None:
    x = draft.operand(("float32",), is_exact=True)
    scale = draft.constant(np.array(draft.one_of([0.03, 0.11]), np.float32))
    dtype = draft.one_of(["uint8", "int8"])
    zero = draft.constant(np.array(draft.number(0, 20), dtype))
    draft.add("QuantizeLinear", [x.name, scale, zero])
    draft.add("DequantizeLinear", [draft.values[-1].name, scale, zero])


def _windows(draft: Draft, dims: int) -> dict[str, list[int]]:
    return {
        "strides": [draft.number(1, 2) for _ in range(dims)],
        "pads": [draft.number(0, 2) for _ in range(2 * dims)],
        "dilations": [draft.number(1, 2) for _ in range(dims)],
    }


def _indices(draft: Draft, extent: int, shape) -> str:
    """Indices inside [-extent, extent); `NotPossible` where there is nothing to point at."""
    if extent == 0:
        raise NotPossible
    return draft.constant(np.asarray(draft.random.integers(-extent, extent, shape), np.int64))


RECIPES: tuple[Recipe, ...] = (
    *(partial(smooth, name) for name in SMOOTH),
    *(partial(jumping, name) for name in JUMPING),
    *(partial(integer_unary, name) for name in ("Abs", "Neg", "Sign")),
    *(partial(domain, name) for name in ("Log", "Sqrt", "Reciprocal")),
    *(partial(arithmetic, name) for name in ARITHMETIC),
    *(partial(arithmetic, name) for name in ARITHMETIC),
    division,
    modulo,
    power,
    prelu,
    clip,
    cast,
    cast,
    where,
    *(partial(extremum, name) for name in ("Max", "Min", "Sum", "Mean")),
    *(partial(comparison, name) for name in COMPARISONS),
    *(partial(logic, name) for name in ("And", "Or", "Xor", "Not")),
    *(partial(bitwise, name) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")),
    *(partial(reduction, name) for name in (*REDUCTIONS, *EXACT_REDUCTIONS)),
    *(partial(position, name) for name in ("ArgMax", "ArgMin")),
    top_k,
    running_sum,
    *(partial(normalized, name) for name in ("Softmax", "LogSoftmax")),
    layer_norm,
    batch_norm,
    reshape,
    transpose,
    transpose,
    flatten,
    unsqueeze,
    concat,
    split,
    slices,
    slices,
    pad,
    pad,
    expand,
    tile,
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
    *(partial(depth_and_space, name) for name in ("DepthToSpace", "SpaceToDepth")),
    triangle,
    one_hot,
    matmul,
    matmul,
    gemm,
    *(partial(convolution, name) for name in ("Conv", "Conv", "ConvTranspose")),
    *(partial(pooling, name) for name in ("MaxPool", "AveragePool")),
    *(partial(global_pooling, name) for name in ("GlobalAveragePool", "GlobalMaxPool")),
    resize,
    quantize,
)
