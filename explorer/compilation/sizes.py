"""Sizes of symbolic dimensions as a person gives them: a number, or a range for one of them.

    chosen_sizes(model, {"batch": (1, 8), "time": 16})
        -> {"batch": 8, "time": 16}, SizeRange("batch", 1, 8)

Everything is compiled for the largest size of a range.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.errors import ExplorerError, InputError
from explorer.importers import SourceModel, to_top
from explorer.importers.model import bind_dimensions, is_batch, symbolic_dimensions
from explorer.ir.constraints import Constraint, constraints_of
from explorer.ir.evaluation import entry_function
from explorer.ir.ranges import SizeRange
from explorer.ir.symbols import parse

FIRST_SIZE = 16
"""What a dimension without a size of its own begins with."""
MOST_CHANGES = 30

Size = int | tuple[int, int]
"""A size, or the lowest and the highest of a range."""


def chosen_sizes(
    model: SourceModel, sizes: Mapping[str, Size]
) -> tuple[dict[str, int], SizeRange | None]:
    """A size for every dimension, the largest where a range is given, and that range.

    InputError for what is no size, for more than one range, and as `bind_dimensions`.
    """
    ranges = [_range(name, size) for name, size in sizes.items() if not isinstance(size, int)]
    if len(ranges) > 1:
        raise InputError(
            f"{' and '.join(map(repr, (r.name for r in ranges)))} cannot both be ranges",
            hint="give one of them one size",
        )
    numbers = {name: size for name, size in sizes.items() if isinstance(size, int)}
    open_range = ranges[0] if ranges else None
    if open_range is not None:
        numbers[open_range.name] = open_range.highest
        if open_range.lowest == open_range.highest:
            open_range = None
    return bind_dimensions(model, numbers), open_range


def suggested_sizes(model: SourceModel) -> dict[str, int]:
    """Sizes for a look at a model whose inputs do not say them all; none where they do.

    `FIRST_SIZE`, changed until what the model asks of its dimensions is met, as far as that can
    be told before it is compiled.
    """
    try:
        bind_dimensions(model, {})
    except InputError:
        pass
    else:
        return {}
    sizes = {
        name: 1 if is_batch(model, name) else FIRST_SIZE for name in symbolic_dimensions(model)
    }
    try:
        module, _ = to_top(model)
    except ExplorerError:  # it can be imported at given sizes only
        return sizes
    constraints = constraints_of(entry_function(module))
    for _ in range(MOST_CHANGES):
        violated = next((c for c in constraints if c.holds(sizes) is False), None)
        if violated is None:
            break
        sizes = _changed(sizes, violated)
    return sizes


def _changed(sizes: dict[str, int], constraint: Constraint) -> dict[str, int]:
    """Sizes that meet a constraint where one of its sides is a name; all halved otherwise."""
    for name, other in ((constraint.left, constraint.right), (constraint.right, constraint.left)):
        size = parse(other).value(sizes)
        if name in sizes and size >= 1:
            return {**sizes, name: size}
        if constraint.kind in ("at least", "at most", "multiple"):
            break  # only the left side is what is asked about
    return {name: max(1, size // 2) for name, size in sizes.items()}


def as_sizes(dimensions: Mapping[str, int], open_range: SizeRange | None) -> dict[str, Size]:
    """The inverse of `chosen_sizes`."""
    sizes: dict[str, Size] = dict(dimensions)
    if open_range is not None:
        sizes[open_range.name] = (open_range.lowest, open_range.highest)
    return sizes


def parse_size(text: str) -> Size | None:
    """`8` -> 8, `1..8` -> (1, 8); None for anything else."""
    lowest, dots, highest = text.partition("..")
    parts = [lowest, highest] if dots else [lowest]
    if not all(p.isdecimal() and len(p) < 10 for p in parts):
        return None
    numbers = [int(p) for p in parts]
    return (numbers[0], numbers[1]) if dots else numbers[0]


def _range(name: str, size: object) -> SizeRange:
    pair = tuple(size) if isinstance(size, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in pair):
        raise InputError(
            f"dimension {name!r} cannot be {size!r}",
            hint="a number of 1 or more, or a pair of the lowest and the highest size",
        )
    lowest, highest = pair
    if not 1 <= lowest <= highest:
        raise InputError(
            f"dimension {name!r} cannot go from {lowest} to {highest}",
            hint="the lowest size is 1 or more, the highest not below it",
        )
    return SizeRange(name, lowest, highest)
