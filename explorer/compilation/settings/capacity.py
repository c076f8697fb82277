"""A capacity for states that would grow with each call, and the sizes that follow from it.

sizes_with_capacity(model, {"seq": 1}, 256)
    -> (GrowingPair("past.0.key", "present.0.key", 2), ...), {"seq": 1, "past": 255}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from explorer.compilation.settings.sizes import Size
from explorer.errors import ExplorerError, InputError, UnsupportedError
from explorer.importers import SourceModel, to_top
from explorer.importers.model import State, is_batch, symbolic_dimensions
from explorer.ir.evaluation import entry_function, entry_return, output_names
from explorer.ir.sizes.symbols import parse
from explorer.ir.types import shape_of
from explorer.passes.states.growth import GrowingPair, growing_symbols

MAX_CAPACITY = 1 << 24
SAMPLE_SIZE = 64
"""Of all dimensions, where it counts only whether they grow."""


def growing_states(model: SourceModel) -> list[State]:
    """The model's states that are longer after each call."""
    return [state for state in model.states if state.axis is not None]


def require_capacity(model: SourceModel, capacity: int | None) -> None:
    """InputError for a named state that grows, where nothing says how far."""
    grown = [state for state in growing_states(model) if not state.is_guessed]
    if grown and capacity is None:
        raise InputError(
            f"the state {grown[0].input!r} and its output differ: it grows with each call",
            hint="give it a capacity: capacity=256, --capacity 256",
        )


def sizes_with_capacity(
    model: SourceModel, sizes: Mapping[str, Size], capacity: int
) -> tuple[tuple[GrowingPair, ...], dict[str, Size]]:
    """The states that grow, and the sizes with that of the past: the capacity without what a call
    adds. InputError where no state grows, or a call alone is larger than the capacity."""
    grown = growing_states(model)
    if not grown:
        raise InputError(
            "no state of the model grows: a capacity is for inputs and outputs that are called as "
            "past and present, or that are named",
            hint="states=['past.*=present.*'], --state",
        )
    if not 1 <= capacity <= MAX_CAPACITY:
        raise InputError(f"capacity: expected 1 to {MAX_CAPACITY}, got {capacity}")
    growing = growing_dimensions(model, grown)
    sizes = {name: size for name, size in sizes.items() if name not in growing}
    pairs = tuple(GrowingPair(s.input, s.output, s.axis) for s in grown if s.axis is not None)
    shapes = {value.name: value.shape or () for value in model.inputs}
    past = shapes[pairs[0].input][pairs[0].axis]
    rows = _rows(model, pairs[0], sizes, str(past))
    if rows >= capacity:
        raise InputError(
            f"a call adds {rows} rows, and the capacity is {capacity}",
            hint=f"a capacity above {rows}",
        )
    return pairs, {**sizes, str(past): capacity - rows}


def growing_dimensions(model: SourceModel, grown: Sequence[State]) -> frozenset[str]:
    """The symbolic dimensions that grow with the past; a capacity says their sizes."""
    module = _symbolic(model)
    shapes = {value.name: value.shape or () for value in model.inputs}
    pasts = {str(shapes[s.input][s.axis]) for s in grown if s.axis is not None}
    sizes = dict.fromkeys(symbolic_dimensions(model), SAMPLE_SIZE)
    return frozenset(growing_symbols(entry_function(module), pasts, sizes))


def _symbolic(model: SourceModel) -> ModuleOp:
    try:
        return to_top(model)[0]
    except ExplorerError as error:
        raise UnsupportedError(
            f"the past cannot be kept in a state with a capacity: {error}",
            problems=[str(error)],
            hint="compile it for one size of the past, without a capacity",
        ) from error


def _rows(model: SourceModel, pair: GrowingPair, sizes: Mapping[str, Size], past: str) -> int:
    """How many rows a call adds."""
    entry = entry_function(_symbolic(model))
    made = dict(zip(output_names(entry), entry_return(entry).operands, strict=True))
    expression = parse(str(shape_of(made[pair.output])[pair.axis]))
    known: dict[str, int] = {past: 0}
    for name in expression.names:
        found = known.get(name, sizes.get(name))
        if isinstance(found, int):
            known[name] = found
        else:
            if not is_batch(model, name):
                raise InputError(f"no size for {name!r}", hint=f"--dim {name}=1")
            known[name] = 1
    return expression.value(known)
