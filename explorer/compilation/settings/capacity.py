"""A capacity for states that would grow with each call, and the sizes that follow from it.

sizes_with_capacity(model, {"seq": 1}, 256)
    -> (GrowingPair("past.0.key", "present.0.key", 2), ...), {"seq": 1, "past": 255}
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from explorer.compilation.settings.sizes import Size
from explorer.errors import ExplorerError, InputError, UnsupportedError
from explorer.importers import SourceModel, to_top
from explorer.importers.model import State, is_batch, symbolic_dimensions
from explorer.ir.evaluation import entry_function, entry_return, full_masks, output_names
from explorer.ir.sizes.constraints import constraints_of
from explorer.ir.sizes.symbols import parse
from explorer.ir.types import shape_of
from explorer.passes.states.growth import GrowingPair, growing_symbols, mask_symbols

MAX_CAPACITY = 1 << 24
SAMPLE_SIZE = 64
"""Of all dimensions, where it counts only whether they grow."""


def growing_states(model: SourceModel) -> list[State]:
    """The model's states that are longer after each call."""
    return [state for state in model.states if state.axis is not None]


def with_capacity(model: SourceModel, capacity: int | None) -> SourceModel:
    """The model as a program with a capacity imports it: masks that count tokens are full."""
    if capacity is None:
        return model
    return replace(model, whole_pasts=frozenset(state.input for state in growing_states(model)))


def require_any_mask(imported: ModuleOp, form: str) -> None:
    """UnsupportedError for a program that is right for masks of ones only, where nothing checks
    them: in a package, or in a model of another format."""
    masks = full_masks(entry_function(imported))
    if masks:
        names = ", ".join(f"`{name}`" for name in masks)
        raise UnsupportedError(
            f"{form} cannot check that {names} has ones only, which the capacity needs",
            hint="compile it for one size of the past, without a capacity",
        )


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
    entry = entry_function(_symbolic(model))
    growing = _growing(model, entry)
    sizes = {name: size for name, size in sizes.items() if name not in growing}
    pairs = tuple(GrowingPair(s.input, s.output, s.axis) for s in grown if s.axis is not None)
    past = past_dimension(model, grown[0])
    rows = _rows(model, entry, sizes)
    if rows >= capacity:
        raise InputError(
            f"a call adds {rows} rows, and the capacity is {capacity}",
            hint=f"a capacity above {rows}",
        )
    masks = mask_symbols(entry, {past})
    return pairs, {**sizes, **dict.fromkeys(masks, capacity), past: capacity - rows}


@dataclass(frozen=True)
class KnownPast:
    """What an import without sizes says of states that grow."""

    dimensions: frozenset[str] = frozenset()
    """Those that grow with the past; a capacity says their sizes."""
    full_masks: tuple[str, ...] = ()
    """The inputs that a program with a capacity takes to be masks of ones."""


def known_past(model: SourceModel) -> KnownPast:
    """UnsupportedError where the model cannot be imported without sizes."""
    entry = entry_function(_symbolic(model))
    return KnownPast(_growing(model, entry), full_masks(entry))


def _growing(model: SourceModel, entry: func.FuncOp) -> frozenset[str]:
    pasts = {past_dimension(model, state) for state in growing_states(model)}
    sizes = dict.fromkeys(symbolic_dimensions(model), SAMPLE_SIZE)
    return frozenset(growing_symbols(entry, pasts, sizes))


def capacity_for(model: SourceModel, sizes: Mapping[str, int], wanted: int) -> int | None:
    """The capacity for a call of these sizes and longer ones: at most `wanted`, and what tables of
    the model permit. None where masks are not as long as the past with the rows of the call."""
    entry, past = entry_function(_symbolic(model)), past_dimension(model, growing_states(model)[0])
    before, rows = sizes[past], _rows(model, entry, sizes)
    if any(sizes[name] != before + rows for name in mask_symbols(entry, {past})):
        return None
    constraints, growing = constraints_of(entry), _growing(model, entry)

    def is_met(more: int) -> bool:
        larger = {name: size + more * (name in growing) for name, size in sizes.items()}
        return not any(constraint.holds(larger) is False for constraint in constraints)

    most = wanted - rows - before
    if not is_met(0) or is_met(most):
        return wanted
    longer = bisect_left(range(most), True, key=lambda more: not is_met(more))
    return before + rows + longer - 1


def past_dimension(model: SourceModel, state: State) -> str:
    """The name of the size of a past."""
    shapes = {value.name: value.shape or () for value in model.inputs}
    return str(shapes[state.input][state.axis or 0])


def _symbolic(model: SourceModel) -> ModuleOp:
    try:
        return to_top(with_capacity(model, MAX_CAPACITY))[0]
    except ExplorerError as error:
        raise UnsupportedError(
            f"the past cannot be kept in a state with a capacity: {error}",
            problems=[str(error)],
            hint="compile it for one size of the past, without a capacity",
        ) from error


def _rows(model: SourceModel, entry: func.FuncOp, sizes: Mapping[str, Size]) -> int:
    """How many rows a call adds; UnsupportedError where its sizes do not decide that."""
    state = growing_states(model)[0]
    made = dict(zip(output_names(entry), entry_return(entry).operands, strict=True))
    expression = parse(str(shape_of(made[state.output])[state.axis or 0]))
    past = past_dimension(model, state)
    known: dict[str, int] = {past: 0}
    for name in sorted(set(expression.names) & _growing(model, entry) - {past}):
        problem = f"{state.output} has {expression} rows: {name} decides it, and not {past}"
        raise UnsupportedError(
            f"the past cannot be kept in a state with a capacity: {problem}",
            problems=[problem],
            hint="compile it for one size of the past, without a capacity",
        )
    for name in expression.names:
        found = known.get(name, sizes.get(name))
        if isinstance(found, int):
            known[name] = found
        else:
            if not is_batch(model, name):
                raise InputError(f"no size for {name!r}", hint=f"--dim {name}=1")
            known[name] = 1
    return expression.value(known)
