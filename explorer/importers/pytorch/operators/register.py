"""All converters, by the calls of a program.

add.Tensor, relu        elementwise.py       linear, conv2d      products.py
view, cat, pad          movement.py          sum.dim_IntList     reductions.py
sym_size.int            sizes.py             index.Tensor        indexing.py

A call that writes into its operand (`add_.Tensor`) is converted as the function of its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.flat import Convert, FileNode
from explorer.importers.building.installed import PYTORCH, extras_note, installed_modules
from explorer.importers.pytorch.file.program import Call, Graph
from explorer.importers.pytorch.file.versions import is_write
from explorer.importers.pytorch.operators import (
    activations,
    attention,
    control,
    creation,
    elementwise,
    embeddings,
    encoder_layers,
    experts,
    images,
    indexing,
    joining,
    losses,
    movement,
    normalization,
    parts,
    pooling,
    products,
    quantized_decomposed,
    recurrent,
    reductions,
    repeats,
    scattering,
    sizes,
    statistics,
    torchvision,
    unary,
)
from explorer.importers.pytorch.operators.node import AtenNode, dtype_of
from explorer.importers.pytorch.operators.written import ConvertNode, written

_FAMILIES = (
    unary,
    elementwise,
    activations,
    products,
    attention,
    encoder_layers,
    experts,
    movement,
    parts,
    joining,
    reductions,
    normalization,
    pooling,
    indexing,
    embeddings,
    creation,
    images,
    recurrent,
    losses,
    scattering,
    statistics,
    repeats,
)


@lru_cache(maxsize=1)
def known() -> dict[str, ConvertNode]:
    """By target: `aten.add.Tensor`. With those of other packages."""
    return {**_installed(), **_own()}


@lru_cache(maxsize=1)
def _installed() -> dict[str, ConvertNode]:
    found = {}
    for family in installed_modules(PYTORCH):
        converters: Mapping[str, ConvertNode] = getattr(family, "CONVERTERS", {})
        found |= {f"aten.{name}": convert for name, convert in converters.items()}
    return found


@lru_cache(maxsize=1)
def _own() -> dict[str, ConvertNode]:
    found: dict[str, ConvertNode] = {
        **sizes.CONVERTERS,
        **control.CONVERTERS,
        **experts.OF_LIBRARIES,
        **torchvision.OF_LIBRARIES,
        **quantized_decomposed.OF_LIBRARIES,
    }
    for family in _FAMILIES:
        found |= {f"aten.{name}": convert for name, convert in family.CONVERTERS.items()}
    return found


def converter_of(call: Call) -> ConvertNode | None:
    """What converts a call; None where nothing does."""
    for target in (call.target, _functional(call)):
        if convert := _own().get(target):
            return convert
    return _installed().get(call.target) or _installed().get(_functional(call))


def _of_complex_numbers(target: str, convert: ConvertNode) -> ConvertNode | None:
    """What converts a call of complex numbers, by what converts that of real ones."""
    for family in installed_modules(PYTORCH):
        if form_of := getattr(family, "complex_form", None):
            return form_of(target, convert)
    return None


def _functional(call: Call) -> str:
    """The target of a call, or of the function that does what a call that writes does."""
    if not is_write(call):
        return call.target
    name, dot, overload = call.target.removeprefix("aten.").partition(".")
    functional = name if name.startswith("__") else name.removesuffix("_")
    return f"aten.{functional}{dot}{overload}"


def is_known(call: Call) -> bool:
    """Whether a call, and all that graphs in it call, have converters."""
    graphs = [a for a in call.arguments.values() if isinstance(a, Graph)]
    return converter_of(call) is not None and all(
        is_known(inner) for graph in graphs for inner in graph.calls
    )


def for_flat_graphs(calls: Sequence[Call]) -> dict[str, Convert]:
    """What converts the targets of these calls, as a flat graph calls it."""
    found: dict[str, Convert] = {}
    for call in calls:
        convert = converter_of(call)
        if convert is not None and call.target not in found:
            found[call.target] = _of_flat_graphs(convert)
    return found


def _of_flat_graphs(convert: ConvertNode) -> Convert:
    """The converter with its operands in the node."""

    @wraps(convert)
    def converted(node: FileNode, operands: Sequence[Expr | None], build: Build) -> Sequence[Expr]:
        assert isinstance(node, AtenNode), node
        given = {n: v for n, v in zip(node.inputs, operands, strict=True) if v is not None}
        return convert_call(replace(node, given=given, convert=convert_call), build)

    return converted


def convert_call(node: AtenNode, build: Build) -> Sequence[Expr]:
    """A node's results as the file says them. Unsupported for what is not converted."""
    convert = converter_of(node.call)
    if convert is None:
        raise Unsupported(f"{node.call.target}: unknown operator{extras_note()}")
    if node.has_complex():
        convert = _of_complex_numbers(_functional(node.call), convert)
        if convert is None:
            raise Unsupported(f"{node.call.target} of complex numbers{extras_note()}")
    if is_write(node.call):
        results: Sequence[Expr] = written(node, build, convert, known().get)
    else:
        made = convert(node, build)
        results = [made] if isinstance(made, Expr) else list(made)
    _check(node, results, build)
    return results


def _check(node: AtenNode, results: Sequence[Expr], build: Build) -> None:
    """ValueError where a result is not what the file says it is."""
    for name, value in zip(node.call.results, results, strict=False):
        kind = node.types.get(name)
        if kind is None:
            continue
        kind = kind.in_parts
        dtype = dtype_of(kind.element_type)
        if value.dtype != dtype:
            raise Unsupported(f"{value.dtype} where the file says {dtype}")
        shape = value.shape
        fits = len(shape) == len(kind.sizes) and all(
            own == size or not isinstance(own, int) or not isinstance(size, int)
            for own, size in zip(shape, kind.sizes, strict=False)
        )
        if not fits:
            raise Unsupported(f"shape {shape} where the file says {kind.sizes}")
