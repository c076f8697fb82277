"""A sequence of calls: outputs and states after each are compared with the reference's.

    check_calls(compilation, 3)
        -> CallsVerdict(calls=3, problem="")
        -> CallsVerdict(calls=2, problem="call 2: the state 'h' is off by 3e-02 (tolerance 1e-04)")

The program keeps its states (`remembers=True`); the reference is given those that it has left
itself. A state with a capacity begins empty, and both begin anew when it is full. What differs is
right where the imported program in float64 says that it is as exact as the reference (`exact.py`).

Where rows of a past are stored in fewer bytes (`narrow-past`) the reference is the program's NumPy
meaning, which goes on from the rows that the program has stored. New rows may differ by a step of
the type in few places, where a number next to a tie was rounded. How far the outputs are from the
source's is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from explorer.accuracy.exact import ExactReference, step
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.oracle import reference
from explorer.accuracy.steps import FEW, MAX_TIES, are_ties_of_rows
from explorer.compilation.checking_quantized import meaning_of_stored
from explorer.compilation.compilation import Compilation
from explorer.errors import InputError
from explorer.ir.evaluation import entry_function, entry_return, output_names
from explorer.ir.origins import Origin, origin_of
from explorer.ir.padding import cut, filled, valid_rows
from explorer.ir.program import Snapshot
from explorer.ir.states import StateRecord, states_of
from explorer.ir.structure import value_name
from explorer.ir.valid_length import length_of
from explorer.references.interface import reference_of
from explorer.results.program import GrowingValue, ValidLength


@dataclass(frozen=True)
class CallsVerdict:
    """What came of a sequence of calls."""

    calls: int
    """That were compared, the wrong one included."""
    problem: str
    worst: float
    """Largest `max_relative` of any output or state (`explorer.accuracy.metrics`)."""
    from_source: float | None = None
    """The same of outputs against the source model, where the program is not held to it."""

    @property
    def passed(self) -> bool:
        return not self.problem


def check_calls(
    compilation: Compilation, calls: int, tolerance: float = 1e-4, seed: int = 0
) -> CallsVerdict:
    """Compares so many calls with seeded random inputs. InputError for a model without states;
    ModelError where the reference does not run it."""
    length = compilation.program.length
    scales = frozenset() if length is None else length.scales
    every = states_of(entry_function(compilation.final.program))
    states = tuple(state for state in every if state.input not in scales)
    if not states:
        raise InputError(
            "the model has no states: one call says all",
            hint="--state INPUT=OUTPUT names some",
        )
    model = compilation.model
    sizes = dict(compilation.settings.dimensions)
    meaning = _Meaning.of(compilation)
    worst, from_source = 0.0, None if meaning is None else 0.0
    with (
        compilation.open(remembers=True) as program,
        reference_of(model).open(model, sizes=sizes if length is None else None) as judge,
    ):
        carried = of_source = program.state()
        for call in range(1, calls + 1):
            if length is not None and program.valid_rows + length.rows > length.capacity:
                program.reset()
                carried = of_source = program.state()
            inputs = _inputs(compilation, seed + call, states, length, program.valid_rows)
            previous, expected = carried, judge.run({**inputs, **of_source})
            found: dict[str, np.ndarray] = program.run(inputs)
            left = program.state()
            carried = of_source = {s.input: np.asarray(expected[s.output]) for s in states}
            if meaning is not None:
                from_source = max(from_source or 0.0, _furthest(found, expected))
                expected, carried = meaning.run({**inputs, **previous}, left), left
            pairs = {f"output {name!r}": (array, expected[name]) for name, array in found.items()}
            pairs |= {
                f"state {s.input!r}": (left[s.input], expected[s.output])
                for s in states
                if s.input in left
            }
            for name, (one, other) in pairs.items():
                error = tensor_error(name, "", one, np.asarray(other)).max_relative
                tensor = name.split("'")[1]
                if meaning is not None and meaning.is_tie(tensor, one, other, tolerance):
                    continue
                worst = max(worst, error)
                if not error <= tolerance:
                    given = {**inputs, **previous}
                    if length is None and _is_as_exact(compilation, tensor, one, given, tolerance):
                        continue
                    words = f"call {call}: {name} is off by {error:.1e} (tolerance {tolerance:g})"
                    return CallsVerdict(call, words, worst, from_source)
    return CallsVerdict(calls, "", worst, from_source)


def _furthest(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    errors = (tensor_error(n, "", array, np.asarray(expected[n])) for n, array in found.items())
    return max((error.max_relative for error in errors), default=0.0)


@dataclass(frozen=True)
class _Meaning:
    """What is right where rows of a past are stored in fewer bytes."""

    snapshot: Snapshot
    length: ValidLength
    stored: Mapping[str, GrowingValue] = field(default_factory=dict)
    """The states that are, by the names of their inputs."""
    places: Mapping[str, str] = field(default_factory=dict)
    """The values that hold their rows after a call, by the same names."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The values of all outputs, by their names."""

    @staticmethod
    def of(compilation: Compilation) -> _Meaning | None:
        """None where the source says what is right."""
        snapshot = meaning_of_stored(compilation)
        if snapshot is None:
            return None
        function = entry_function(snapshot.program)
        length = length_of(function)
        assert length is not None
        returned = zip(output_names(function), entry_return(function).operands, strict=True)
        names = {name: value_name(value) for name, value in returned}
        return _Meaning(
            snapshot,
            length,
            {value.name: value for value in length.inputs if value.stored},
            {state.input: names[state.output] for state in states_of(function)},
            names,
        )

    def run(
        self, inputs: Mapping[str, np.ndarray], left: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The outputs of a call, by name, of which `left` are the states after it."""
        fed = {
            self.places[part]: array
            for name, value in self.stored.items()
            for part, array in filled(left[name], value, self.length.capacity).items()
        }
        values = self.snapshot.run(inputs, replaced=fed)
        rows = valid_rows(self.length, inputs)
        found = {name: values[value] for name, value in self.outputs.items()}
        return cut(self.length, found, rows or 0)

    def is_tie(self, state: str, one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
        """Whether rows of a state differ by a step of its type at most, in few places."""
        if state not in self.stored or one.shape != other.shape or not one.size:
            return False
        value = self.stored[state]
        if value.scale:
            return are_ties_of_rows(one, other, value.axis, self.length.rows, tolerance)
        coarse = step(np.dtype(value.stored))
        with np.errstate(invalid="ignore"):
            far = np.abs(one - other) > tolerance * np.nanmax(np.abs(other))
        added = one.size // one.shape[value.axis] * self.length.rows
        error = tensor_error(state, "", one, other).max_relative
        is_few = np.count_nonzero(far) <= max(FEW, MAX_TIES * added)
        return bool(is_few) and tolerance < error <= tolerance + coarse


def _is_as_exact(
    compilation: Compilation,
    name: str,
    found: np.ndarray,
    inputs: Mapping[str, np.ndarray],
    tolerance: float,
) -> bool:
    """Whether an output, or what a state's input or output is called, is as near to float64 as the
    reference's is."""
    model, imported = compilation.model, compilation.passes[0].after
    output = next((s.output for s in model.states if s.input == name), name)
    returned = entry_function(imported.program).body.block.last_op
    assert returned is not None
    names = [value.name for value in model.outputs]
    made = returned.operands[names.index(output)]  # by a node that only passes it on, maybe
    origin = origin_of(made) or Origin(output)
    wanted = {known.tensor for known in imported.origins.values()} | {origin.tensor}
    expected = reference(model, inputs, sorted(wanted & {*model.tensors}))
    if origin.tensor not in expected:
        return False
    exact = ExactReference(model, imported, inputs, expected, tolerance)
    error = tensor_error(name, "", found, np.asarray(origin.apply(expected[origin.tensor])))
    return is_right(exact.judged(error, origin, found, "accumulated"), tolerance)


def _inputs(
    compilation: Compilation,
    seed: int,
    states: tuple[StateRecord, ...],
    length: ValidLength | None,
    rows: int,
) -> dict[str, np.ndarray]:
    """Random inputs that are no states, as long as what is valid."""
    kept = {state.input for state in states}
    found = {n: a for n, a in compilation.example_inputs(seed).items() if n not in kept}
    for value in () if length is None else length.inputs:
        if value.name in found:
            part = (slice(None),) * value.axis + (slice(rows + value.more),)
            found[value.name] = np.ascontiguousarray(found[value.name][part])
    return found
