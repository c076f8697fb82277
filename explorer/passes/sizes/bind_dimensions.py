"""Binding: symbolic dimensions of the inputs get sizes.

    func @main(%x: tensor<?x3xf32, dims = ["batch", ""]>)     sizes = {"batch": 4}
 => func @main(%x: tensor<4x3xf32>)

Types inside the function follow by inference. Sizes that the function's constraints do not allow
are refused before anything changes. A dimension without a name is called after its
place: `x.2` is axis 2 of input x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.constraints import check_sizes, constraints_of
from explorer.ir.sizes.dimensions import UNKNOWN, dimension_of
from explorer.ir.sizes.symbols import parse
from explorer.ir.types import Dim, Shape, element_type_of, layout_of, shape_of, tensor_type
from explorer.passes.sizes.infer_shapes import infer_function
from explorer.results.names import near_name


@dataclass(frozen=True)
class BindDimensions(Pass):
    """Symbolic dimensions of the inputs become the sizes that were asked for."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes by name."""
    default: int | None = None
    """For dimensions that are some input's first (the batch) and have no size; None: an error."""

    name = "bind-dimensions"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        if sizes_of_function(function) is not None:
            return []  # they are bound to the largest of each range
        sizes = self.bound_sizes(function)
        check_sizes(constraints_of(function), sizes, "the sizes are")
        events = EventLog(self.name, rewriter)
        if sizes:
            with events.rewrite("bind", function, _explain(sizes)):
                _bind(function, sizes, rewriter)
        return events.rewrites

    def bound_sizes(self, function: func.FuncOp) -> dict[str, int]:
        """A size for every symbolic dimension; InputError for unknown names and missing sizes."""
        shapes = named_shapes(function)
        symbols = {i: [n for d in s for n in self._names_of(d)] for i, s in shapes.items()}
        names = list(dict.fromkeys(name for found in symbols.values() for name in found))
        for name, size in self.sizes.items():
            if name not in names:
                raise InputError(f"no input has a dimension {name!r}", hint=_near(name, names))
            if size < 1:
                raise InputError(f"dimension {name!r} cannot be {size}", hint="give 1 or more")
        first = {shape[0] for shape in shapes.values() if shape}
        sizes: dict[str, int] = {}
        for name in names:
            if name in self.sizes:
                sizes[name] = self.sizes[name]
            elif name in first and self.default is not None:
                sizes[name] = self.default
        missing = [n for n in names if n not in sizes]
        if missing:
            raise InputError(
                f"no size for {len(missing)} symbolic dimension(s): {', '.join(missing)}",
                node=", ".join(i for i, found in symbols.items() if set(missing) & {*found}),
                hint=" ".join(f"--dim {name}=16" for name in missing),
            )
        return sizes

    def _names_of(self, dimension: Dim) -> tuple[str, ...]:
        """The dimension, or the names that have a size and that it is computed from: `2*h`."""
        if not isinstance(dimension, str):
            return ()
        names = parse(dimension).names
        is_derived = dimension not in self.sizes and {*names} <= self.sizes.keys()
        return names if is_derived else (dimension,)


def named_shapes(function: func.FuncOp) -> dict[str, Shape]:
    """Shapes of the inputs by name, where unnamed dimensions are called after their place."""
    return {
        name: tuple(f"{name}.{i}" if d == "?" else d for i, d in enumerate(shape_of(argument)))
        for name, argument in zip(input_names(function), function.body.block.args, strict=True)
    }


def _bind(function: func.FuncOp, sizes: Mapping[str, int], rewriter: RecordedRewriter) -> None:
    shapes = named_shapes(function).values()
    for argument, shape in zip(function.body.block.args, shapes, strict=True):
        _set_shape(argument, _with_sizes(shape, sizes), rewriter)
    # Declared types of results whose shape depends on values may use the names as well.
    for op in list(function.body.walk()):
        if isinstance(op, TopOperation):
            for result in op.results:
                _set_shape(result, _with_sizes(shape_of(result), sizes), rewriter)
    infer_function(function, rewriter, BindDimensions.name)


def _with_sizes(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    return tuple(_with_size(d, sizes) for d in shape)


def _with_size(dimension: Dim, sizes: Mapping[str, int]) -> Dim:
    """Expressions over the names, too: `batch+1` becomes 5 where batch is 4."""
    if isinstance(dimension, int) or dimension in sizes or dimension == UNKNOWN:
        return sizes.get(dimension, dimension) if isinstance(dimension, str) else dimension
    return dimension_of(parse(dimension).substituted(sizes))


def _set_shape(value: SSAValue, shape: Shape, rewriter: RecordedRewriter) -> None:
    if shape != shape_of(value):
        rewriter.set_type(value, tensor_type(element_type_of(value), shape, layout_of(value)))


def _explain(sizes: Mapping[str, int]) -> str:
    return "sizes of symbolic dimensions: " + ", ".join(f"{n} = {s}" for n, s in sizes.items())


def _near(name: str, names: list[str]) -> str:
    known = f"the symbolic dimensions are {', '.join(names)}" if names else "all sizes are fixed"
    return near_name(name, names, otherwise=known)
