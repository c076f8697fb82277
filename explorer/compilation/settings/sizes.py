"""Sizes of symbolic dimensions as a person gives them: a number or a range each.

    chosen_sizes(model, {"batch": (1, 8), "time": 16})
        -> {"batch": 8, "time": 16}, (SizeRange("batch", 1, 8),)

Everything is compiled for the largest size of each range.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.errors import ExplorerError, InputError
from explorer.importers import SourceModel, to_top
from explorer.importers.model import (
    bind_dimensions,
    check_dimension_names,
    is_batch,
    sizes_of_inputs,
    symbolic_dimensions,
)
from explorer.ir.evaluation import entry_function
from explorer.ir.sizes.constraints import Constraint, constraints_of
from explorer.ir.sizes.ranges import SizeRange
from explorer.ir.sizes.symbols import parse
from explorer.ir.top.support.windows import WindowError
from explorer.passes.sizes.open_shapes import implied_sizes

FIRST_SIZE = 16
"""What a dimension without a size of its own begins with."""
CANDIDATE_SIZES = (FIRST_SIZE, 32, 64, 128, 256, 512, 1024, 28, 224, 227)
"""What is tried where a model says what it can take only when it is imported."""
MAX_CHANGES = 30
LARGEST_SIZE = 4096
"""That is proposed."""
STEPS = (1, 2, 8, 32)
"""Of which a size is a multiple where models halve theirs."""

Size = int | tuple[int, int]
"""A size, or the lowest and the highest of a range."""


def chosen_sizes(
    model: SourceModel, sizes: Mapping[str, Size]
) -> tuple[dict[str, int], tuple[SizeRange, ...]]:
    """A size for every dimension, the largest where a range is given, and the ranges.

    InputError for what is no size, and as `bind_dimensions`.
    """
    ranges = [_range(name, size) for name, size in sizes.items() if not isinstance(size, int)]
    numbers = {name: size for name, size in sizes.items() if isinstance(size, int)}
    numbers |= {found.name: found.highest for found in ranges}
    kept = tuple(found for found in ranges if found.lowest != found.highest)
    return complete_sizes(model, numbers), kept


def sizes_with_inputs(
    model: SourceModel, sizes: Mapping[str, Size], inputs: Mapping[str, np.ndarray]
) -> dict[str, Size]:
    """`sizes`, and for dimensions that they leave out those of arrays that the model gets.

    InputError for an array that does not fit the model, or has another size than the one given.
    """
    told = sizes_of_inputs(model, inputs)
    for name, size in told.items():
        given = sizes.get(name, size)
        lowest, highest = (given, given) if isinstance(given, int) else (given[0], given[-1])
        if not lowest <= size <= highest:
            raise InputError(
                f"dimension {name!r} is {size} in the inputs, and {given} was asked for",
                hint="give one of the two, or arrays of that size",
            )
    return {**told, **sizes}


def sizes_with_implied(
    program: ModuleOp,
    ranges: Sequence[SizeRange],
    largest: Mapping[str, int],
    given: Mapping[str, int],
) -> dict[str, int]:
    """The largest size of every dimension, those that are given, and what follows from these.

    program: as it was imported, with its constraints.
    """
    sizes = {**largest, **given}
    constraints = constraints_of(entry_function(program))
    implied = implied_sizes(constraints, [found.name for found in ranges], sizes)
    for name, expression in implied.items():
        if name not in given:
            sizes[name] = expression.value(sizes)
    return sizes


def complete_sizes(model: SourceModel, sizes: Mapping[str, int]) -> dict[str, int]:
    """As `bind_dimensions`; sizes that follow from the given ones need not be given.

    The InputError for a size that does not proposes sizes that the model can take.
    """
    try:
        return bind_dimensions(model, sizes)
    except InputError as error:
        check_dimension_names(model, sizes)
        constraints = constraints_on_sizes(model)
        known = _with_implied(model, sizes, constraints)
        if set(symbolic_dimensions(model)) <= known.keys():
            return known
        proposal = suggested_sizes(model, sizes)
        asked: dict[str, int] = {}
        for name in symbolic_dimensions(model):
            if name not in _with_implied(model, {**sizes, **asked}, constraints):
                asked[name] = proposal[name]
        for name in list(asked):  # one that follows from those behind it
            others = {n: size for n, size in asked.items() if n != name}
            if name in _with_implied(model, {**sizes, **others}, constraints):
                asked = others
        options = " ".join(f"--dim {shlex.quote(f'{n}={size}')}" for n, size in asked.items())
        error.hint = (
            f"give sizes, as {options} (dimensions={asked}), or inputs that tell them: "
            "--input FILE.npz"
        )
        raise


def suggested_sizes(model: SourceModel, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Sizes for a look at a model whose inputs do not say them all; none where they do.

    `FIRST_SIZE`, changed until what the model asks of its dimensions is met. Where that is known
    for given sizes only, the model is imported at some (`_candidates`), and the first that it can
    take are the answer. `given` sizes stay as they are and are part of it.
    """
    given = dict(given or {})
    try:
        bind_dimensions(model, given)
    except InputError:
        check_dimension_names(model, given)
    else:
        return {}
    constraints = constraints_on_sizes(model)
    sizes = _with_implied(model, given, constraints)
    free = [name for name in symbolic_dimensions(model) if name not in sizes]
    if not free:
        return {}
    if constraints is None:
        found = (_grown(model, tried, free) for tried in _candidates(sizes, free))
        none = {**sizes, **dict.fromkeys(free, FIRST_SIZE)}
        return next((one for one in found if one is not None), none)
    fixed = {name: size for name, size in sizes.items() if name in given}
    sizes |= dict.fromkeys(free, FIRST_SIZE)
    for _ in range(MAX_CHANGES):
        violated = next((c for c in constraints if c.holds(sizes) is False), None)
        if violated is None:
            break
        sizes = {**_changed(sizes, violated), **fixed}
    return sizes


def constraints_on_sizes(model: SourceModel) -> Sequence[Constraint] | None:
    """What a model asks of its dimensions; None where it can be imported at given sizes only."""
    try:
        module, _ = to_top(model)
    except ExplorerError:
        return None
    return constraints_of(entry_function(module))


def _with_implied(
    model: SourceModel, sizes: Mapping[str, int], constraints: Sequence[Constraint] | None
) -> dict[str, int]:
    """The sizes, 1 for batches that have none, and those that are equal to what is known. Where a
    1 would also do, since it is broadcast, that is no size to begin with."""
    known = dict(sizes)
    dimensions = symbolic_dimensions(model)
    for name in dimensions:
        if is_batch(model, name):
            known.setdefault(name, 1)
    equal = [c for c in constraints or () if c.kind in ("equal", "fixed", "broadcast")]
    for _ in dimensions:  # each round finds one at least, or nothing more
        for constraint in equal:
            left, right = constraint.left, constraint.right
            for name, other in ((left, right), (right, left)):
                is_told = name in dimensions and name not in known
                if is_told and all(n in known for n in parse(other).names):
                    size = parse(other).value(known)
                    if size >= 1:
                        known[name] = size
    return known


def _candidates(sizes: Mapping[str, int], free: Sequence[str]) -> Iterator[dict[str, int]]:
    """All free dimensions of one size, from `FIRST_SIZE` upwards; or one of them of size 1, as a
    batch whose name does not tell."""
    for size in CANDIDATE_SIZES:
        equal = {**sizes, **dict.fromkeys(free, size)}
        yield equal
        if len(free) > 1:
            yield from ({**equal, name: 1} for name in free)


def _grown(model: SourceModel, sizes: dict[str, int], free: Sequence[str]) -> dict[str, int] | None:
    """The sizes, or larger ones that the model can take; None where refusals do not say what they
    lack.

    A window that does not fit lacks so many numbers. Strides in front of it take several of a
    dimension for one, so that twice as many are added each time; and models that halve sizes take
    multiples of `STEPS` only.
    """
    missing = _missing(model, sizes)
    if not missing:
        return None if missing == 0 else sizes
    longest = [name for name in free if sizes[name] > 1]
    found = (_with_more(model, sizes, longest, missing, step) for step in STEPS)
    return next((one for one in found if one is not None), None)


def _with_more(
    model: SourceModel, sizes: dict[str, int], longest: Sequence[str], missing: int, step: int
) -> dict[str, int] | None:
    """Larger sizes, multiples of a step; None where something else than a window is refused."""
    more = 0
    while longest and missing and max(sizes.values()) <= LARGEST_SIZE:
        more = max(missing, 2 * more)
        sizes = {**sizes, **{n: -(-(sizes[n] + more) // step) * step for n in longest}}
        left = _missing(model, sizes)
        if left is None:
            return sizes
        missing = left
    return None


def _missing(model: SourceModel, sizes: Mapping[str, int]) -> int | None:
    """None where the model can be imported at these sizes; else what a window lacks, 0 where
    something else is the reason."""
    try:
        to_top(model, sizes)
    except ExplorerError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, WindowError):
            cause = cause.__cause__
        return 0 if cause is None else cause.missing
    return None


def _changed(sizes: dict[str, int], constraint: Constraint) -> dict[str, int]:
    """Sizes that meet a constraint: one of its sides where that is a name, else the nearest size
    of one of its names; all halved where there is none."""
    for name, other in ((constraint.left, constraint.right), (constraint.right, constraint.left)):
        size = parse(other).value(sizes)
        if name in sizes and size >= 1:
            return {**sizes, name: size}
        if constraint.kind in ("at least", "at most", "multiple"):
            break  # only the left side is what is asked about
    for name in constraint.names:
        for size in sorted(range(1, LARGEST_SIZE), key=lambda n: abs(n - sizes.get(name, 0))):
            if name in sizes and constraint.holds({**sizes, name: size}):
                return {**sizes, name: size}
    return {name: max(1, size // 2) for name, size in sizes.items()}


def as_sizes(dimensions: Mapping[str, int], ranges: Sequence[SizeRange]) -> dict[str, Size]:
    """The inverse of `chosen_sizes`."""
    return {**dimensions, **{r.name: (r.lowest, r.highest) for r in ranges}}


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
