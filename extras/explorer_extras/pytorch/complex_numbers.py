"""Complex numbers: the real and the imaginary part are a last axis of 2, as `view_as_real` has it.

aten.view(z, [2, 3])        the view of either part
aten.mul.Tensor(z, w)       (ac - bd, ad + bc)
aten.abs(z)                 sqrt(a^2 + b^2)

What moves numbers, and sums of them, is converted twice by what converts it of real numbers, once
for each part; products four times. Of what is real the imaginary part is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import wraps

import numpy as np

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.pytorch.file.program import PARTS, Argument, ElementType, Ref
from explorer.importers.pytorch.operators import (
    control,
    creation,
    joining,
    movement,
    parts,
    products,
    sizes,
)
from explorer.importers.pytorch.operators.creation import filled
from explorer.importers.pytorch.operators.elementwise import angle_of, length_of
from explorer.importers.pytorch.operators.movement import expanded
from explorer.importers.pytorch.operators.node import AtenNode, dtype_of
from explorer.importers.pytorch.operators.promotion import promoted
from explorer.importers.pytorch.operators.unary import plain_name
from explorer.importers.pytorch.operators.written import ConvertNode
from explorer_extras.pytorch import fourier
from explorer_extras.pytorch.complex_pairs import (
    FUNCTIONS,
    joined,
    over,
    pair_of,
    reciprocal,
    square_root,
    times,
    turned,
)


def zeros_of(x: Expr, build: Build) -> Expr:
    return filled(x.constant(0), x.all_sizes(), build)


# -- by parts --------------------------------------------------------------------------------------

_PLACES = ("index", "indices", "mask", "condition", "repeats")
"""Operands that say where: they belong to both parts."""
_ADDED = ("self", "other", "value", "fill_value", "values", "src", "source")
"""Numbers that are taken as tensors: their imaginary part is 0."""


def of_parts(node: AtenNode, chosen: Mapping[str, int] | int, build: Build) -> AtenNode:
    """The call of real numbers: one part of each operand, the same or each its own."""
    given: dict[str, Expr] = {}

    def part_of(argument: Argument, name: str, part: int) -> Argument:
        if isinstance(argument, tuple):
            return tuple(part_of(inner, name, part) for inner in argument)
        if isinstance(argument, complex):
            return (argument.real, argument.imag)[part]
        if isinstance(argument, ElementType):
            return ElementType(PARTS.get(argument.name, argument.name))
        is_number = isinstance(argument, bool | int | float)
        if isinstance(argument, Ref):
            value = node.given[argument.name]
            is_number = argument.name in node.numbers
            if argument.name in node.complexes or (part and name not in _PLACES and not is_number):
                is_whole = argument.name not in node.complexes
                taken = zeros_of(value, build) if is_whole else pair_of(value, build)[part]
                given[f"{argument.name} part {part}"] = taken
                return Ref(f"{argument.name} part {part}")
            given[argument.name] = value
        return 0 if is_number and part and name in _ADDED else argument

    arguments = {
        name: part_of(argument, name, chosen if isinstance(chosen, int) else chosen.get(name, 0))
        for name, argument in node.call.arguments.items()
    }
    step = replace(node.step, call=replace(node.call, arguments=arguments))
    types = {name: kind.of_part for name, kind in node.types.items()}
    return replace(node, step=step, given=given, types=types, complexes=frozenset())


def _listed(made: Expr | Sequence[Expr]) -> list[Expr]:
    return [made] if isinstance(made, Expr) else list(made)


def by_parts(convert: ConvertNode) -> ConvertNode:
    """What moves numbers or adds them up: of either part."""

    @wraps(convert)
    def converted(node: AtenNode, build: Build) -> list[Expr]:
        made = [_listed(convert(of_parts(node, part, build), build)) for part in (0, 1)]
        return [joined(real, imaginary, build) for real, imaginary in zip(*made, strict=True)]

    return converted


def of_real_part(convert: ConvertNode) -> ConvertNode:
    """What asks for sizes, which are those of a part."""

    @wraps(convert)
    def converted(node: AtenNode, build: Build) -> Expr | Sequence[Expr]:
        return convert(of_parts(node, 0, build), build)

    return converted


def of_magnitude(convert: ConvertNode) -> ConvertNode:
    """What knows of numbers only how large they are."""

    @wraps(convert)
    def converted(node: AtenNode, build: Build) -> Expr | Sequence[Expr]:
        inner = of_parts(node, 0, build)
        name = node.first()
        size = length_of(*pair_of(node.operand(name), build), build)
        call = replace(inner.call, arguments={**inner.call.arguments, name: Ref("size")})
        given = {**inner.given, "size": size}
        return convert(replace(inner, step=replace(inner.step, call=call), given=given), build)

    return converted


def product(convert: ConvertNode) -> ConvertNode:
    """(a + ib)(c + id) = ac - bd + i(ad + bc), of whatever is linear in each of two factors."""

    @wraps(convert)
    def converted(node: AtenNode, build: Build) -> Expr:
        first, second = list(node.call.arguments)[:2]
        has_bias = node.has("bias")

        def term(left: int, right: int, bias: int | None = None) -> Expr:
            chosen = {first: left, second: right, "bias": bias or 0}
            inner = of_parts(node, chosen, build)
            if has_bias and bias is None:
                rest = {name: a for name, a in inner.call.arguments.items() if name != "bias"}
                step = replace(inner.step, call=replace(inner.call, arguments=rest))
                inner = replace(inner, step=step)
            return _listed(convert(inner, build))[0]

        is_left, is_right = node.is_complex(first), node.is_complex(second)
        if not is_left and not is_right:
            raise Unsupported("real numbers with a complex bias")
        real = term(0, 0, 0)
        imaginary = term(1, 0, 1) if is_left else term(0, 1, 1)
        if is_left and is_right:
            real = real - term(1, 1)
            imaginary = imaginary + term(0, 1)
        return joined(real, imaginary, build)

    return converted


# -- arithmetic ------------------------------------------------------------------------------------


def divide(node: AtenNode, build: Build) -> Expr:
    """The quotient of complex numbers, or by a real number."""
    if node.text("rounding_mode"):
        raise Unsupported("a rounded quotient of complex numbers")
    if not node.is_complex("other"):
        left, right = (of_parts(node, {"self": part}, build) for part in (0, 1))
        a, b = (x / y for x, y in (promoted(part, _PAIR, build) for part in (left, right)))
        return joined(a, b, build)
    parts_of_both = [promoted(of_parts(node, part, build), _PAIR, build) for part in (0, 1)]
    (a, c), (b, d) = parts_of_both
    return joined(*over((a, b), (c, d), build), build)


_PAIR = ("self", "other")


def equal(node: AtenNode, build: Build) -> Expr:
    """Whether both parts are equal, or that they are not."""
    pairs = (promoted(of_parts(node, part, build), _PAIR, build) for part in (0, 1))
    real, imaginary = (x == y for x, y in pairs)
    both = real & imaginary
    return ~both if plain_name(node) in ("ne", "not_equal") else both


def power(node: AtenNode, build: Build) -> Expr:
    """A small whole power, by products; or a root, or the reciprocal."""
    exponent = node.argument("exponent")
    z = pair_of(node.operand("self"), build)
    if exponent in (0.5, -0.5):
        root = square_root(*z, build)
        return joined(*(root if exponent == 0.5 else reciprocal(*root, build)), build)
    if not isinstance(exponent, int | float) or exponent != int(exponent) or abs(exponent) > 8:
        raise Unsupported(f"complex numbers to the power {exponent!r}")
    found = z
    for _ in range(abs(int(exponent)) - 1):
        found = times(found, z)
    if exponent == 0:
        zero = zeros_of(z[0], build)
        return joined(zero + 1, zero, build)
    return joined(*(found if exponent > 0 else reciprocal(*found, build)), build)


def add_product(node: AtenNode, build: Build) -> Expr:
    """beta self + alpha times a product of matrices."""
    first, second = products.FACTORS[node.call.target.removeprefix("aten.")]
    beta, alpha = (node.number(name, 1.0) for name in ("beta", "alpha"))
    names = ("self", first, second)
    inner = [of_parts(node, part, build) for part in (0, 1)]
    (e, a, c), (f, b, d) = ([part.operand(name) for name in names] for part in inner)

    def combined(kind: str, added: Expr, *factors: Expr) -> Expr:
        a, c, b, d = factors
        both = (products.matrix_product(*pair, build) for pair in ((a, c), (b, d)))
        product = build.binary(kind, *both).scaled(alpha)
        return added.scaled(beta) + product if beta else product

    return joined(combined("sub", e, a, c, b, d), combined("add", f, a, d, b, c), build)


# -- functions of one number -----------------------------------------------------------------------


def function(node: AtenNode, build: Build) -> Expr:
    """A function of complex numbers, by those of their parts."""
    pair = pair_of(node.operand(node.first()), build)
    return joined(*FUNCTIONS[plain_name(node)](*pair, build), build)


def magnitude(node: AtenNode, build: Build) -> Expr:
    """How far from 0."""
    return length_of(*pair_of(node.operand("self"), build), build)


def angle(node: AtenNode, build: Build) -> Expr:
    """The angle, from -pi to pi."""
    return angle_of(*pair_of(node.operand("self"), build), build)


def real(node: AtenNode, build: Build) -> Expr:
    """The real part."""
    return pair_of(node.operand("self"), build)[0]


def imaginary(node: AtenNode, build: Build) -> Expr:
    """The imaginary part."""
    return pair_of(node.operand("self"), build)[1]


def is_of_parts(node: AtenNode, build: Build) -> Expr:
    """Whether a part is none or infinite; `isfinite`: whether neither is; `isreal`: without one."""
    a, b = pair_of(node.operand("self"), build)
    kind = plain_name(node)
    if kind == "isreal":
        return b == 0
    not_a_number = a.is_nan() | b.is_nan()
    if kind == "isnan":
        return not_a_number
    infinite = a.unary("is_infinite", 1.0, 1.0) | b.unary("is_infinite", 1.0, 1.0)
    if kind == "isinf":
        return infinite
    return ~(infinite | not_a_number)


# -- made and taken apart --------------------------------------------------------------------------


def of_two(node: AtenNode, build: Build) -> Expr:
    """Complex numbers of their real and their imaginary part."""
    real, imaginary = promoted(node, ("real", "imag"), build)
    if real.shape != imaginary.shape:
        shapes = [x.sizes(range(x.rank), "both parts") for x in (real, imaginary)]
        shape = np.broadcast_shapes(*map(tuple, shapes))
        real, imaginary = (expanded(x, shape) for x in (real, imaginary))
    return joined(real, imaginary, build)


def polar(node: AtenNode, build: Build) -> Expr:
    """Complex numbers of their size and angle."""
    size, turn = promoted(node, ("abs", "angle"), build)
    return joined(*turned(size, turn), build)


def as_it_is(node: AtenNode, build: Build) -> Expr:
    """Both parts as a last axis, which they are."""
    del build
    return node.operand(node.first())


def hermitian(node: AtenNode, build: Build) -> Expr:
    """Rows become columns, and numbers their conjugates."""
    (moved,) = _listed(by_parts(movement.matrix_transpose)(node, build))
    return joined(*FUNCTIONS["conj"](*pair_of(moved, build), build), build)


def convert_type(node: AtenNode, build: Build) -> Expr:
    """In another element type: a real number gets no imaginary part, or a complex one loses it."""
    x, kind = node.operand("self"), node.types[node.call.results[0]]
    dtype = dtype_of(kind.of_part.element_type)
    if not node.is_complex("self"):
        value = x.astype(dtype)
        return joined(value, zeros_of(value, build), build)
    return (x if kind.is_complex else pair_of(x, build)[0]).astype(dtype)


def ones(node: AtenNode, build: Build) -> Expr:
    """Real ones, which are complex numbers, too."""
    convert = creation.CONVERTERS[node.call.target.removeprefix("aten.")]
    (made,) = _listed(convert(of_parts(node, 0, build), build))
    return joined(made, zeros_of(made, build), build)


_TYPES = tuple(n for n, c in movement.CONVERTERS.items() if c is movement.convert)
_ONES = ("ones", "ones_like", "new_ones")
_UNLIKE = ("view.dtype", "view_copy.dtype", "view_as_real_copy")
"""Of movement: calls that do not treat parts alike."""
_SUMS = frozenset(
    (
        *("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Scalar", "rsub.Tensor"),
        *("subtract.Tensor", "subtract.Scalar", "neg", "negative", "_neg_view"),
        *("sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "trace", "diff"),
        *(f"where.{o}" for o in ("self", "ScalarSelf", "ScalarOther", "Scalar")),
        *("masked_fill.Scalar", "masked_fill.Tensor", "masked_select"),
        *("index_select", "gather", "take_along_dim", "take", "index.Tensor"),
        *("_unsafe_index.Tensor", "index_put", "_unsafe_index_put", "select_scatter"),
        *("slice_scatter", "diagonal_scatter", "scatter.src", "scatter_add", "index_add"),
        *("unfold_backward",),
    )
)
_BY_PARTS = frozenset(
    (*_SUMS, *movement.CONVERTERS, *parts.CONVERTERS, *joining.CONVERTERS, *creation.CONVERTERS)
) - {*_TYPES, *_ONES, *_UNLIKE}
_PRODUCTS = frozenset(
    (
        *(f"{name}{o}" for name in ("mul", "multiply") for o in (".Tensor", ".Scalar")),
        *("matmul", "mm", "bmm", "mv", "__matmul__", "linalg_matmul", "outer", "ger", "dot"),
        *("linear", "kron", "inner", "convolution"),
        *(f"conv{axes}d" for axes in (1, 2, 3)),
    )
)
_MAGNITUDES = frozenset(
    ("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim", "count_nonzero")
)

CONVERTERS: dict[str, ConvertNode] = {
    "complex": of_two,
    "polar": polar,
    "view_as_real": as_it_is,
    "view_as_complex": as_it_is,
    "imag": imaginary,
    "_conj_physical": function,
}
"""Calls of complex numbers only."""
_OF_COMPLEX: dict[str, ConvertNode] = {
    **CONVERTERS,
    **dict.fromkeys(FUNCTIONS, function),
    **dict.fromkeys(("mH", "matrix_H", "adjoint"), hermitian),
    **dict.fromkeys(_TYPES, convert_type),
    **dict.fromkeys(_ONES, ones),
    **{f"{name}.{o}": equal for name in ("eq", "ne", "not_equal") for o in ("Tensor", "Scalar")},
    **{
        f"{name}.{o}": divide
        for name in ("div", "divide", "true_divide")
        for o in ("Tensor", "Scalar")
    },
    **dict.fromkeys(("isnan", "isinf", "isfinite", "isreal"), is_of_parts),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), add_product),
    "pow.Tensor_Scalar": power,
    "abs": magnitude,
    "absolute": magnitude,
    "angle": angle,
    "real": real,
    "view_as_real_copy": as_it_is,
}
"""Of calls that are known of real numbers, too, what converts them of complex ones."""


def complex_form(target: str, plain: ConvertNode) -> ConvertNode | None:
    """What converts a call of complex numbers, from what converts it of real ones, if anything."""
    name = target.removeprefix("aten.")
    if target in control.CONVERTERS or name in fourier.CONVERTERS:
        return plain
    if target in sizes.CONVERTERS:
        return of_real_part(plain)
    if name in _OF_COMPLEX:
        return _OF_COMPLEX[name]
    for names, form in ((_BY_PARTS, by_parts), (_PRODUCTS, product), (_MAGNITUDES, of_magnitude)):
        if name in names:
            return form(plain)
    return None
