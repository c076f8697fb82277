"""A sequence of calls: outputs and states after each are compared with the reference's.

    check_calls(compilation, 3)
        -> CallsVerdict(calls=3, problem="")
        -> CallsVerdict(calls=2, problem="call 2: the state 'h' is off by 3e-02 (tolerance 1e-04)")

The program keeps its states (`remembers=True`); the reference is given those that it has left
itself. A state with a capacity begins empty, and both begin anew when it is full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.accuracy.metrics import tensor_error
from explorer.compilation.compilation import Compilation
from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.states import StateRecord, states_of
from explorer.references.interface import reference_of
from explorer.results.program import ValidLength


@dataclass(frozen=True)
class CallsVerdict:
    """What came of a sequence of calls."""

    calls: int
    """That were compared, the wrong one included."""
    problem: str
    worst: float
    """Largest `max_relative` of any output or state (`explorer.accuracy.metrics`)."""

    @property
    def passed(self) -> bool:
        return not self.problem


def check_calls(
    compilation: Compilation, calls: int, tolerance: float = 1e-4, seed: int = 0
) -> CallsVerdict:
    """Compares so many calls with seeded random inputs. InputError for a model without states;
    ModelError where the reference does not run it."""
    states = states_of(entry_function(compilation.final.program))
    if not states:
        raise InputError(
            "the model has no states: one call says all",
            hint="--state INPUT=OUTPUT names some",
        )
    model, length = compilation.model, compilation.program.length
    sizes = dict(compilation.settings.dimensions)
    worst = 0.0
    with (
        compilation.open(remembers=True) as program,
        reference_of(model).open(model, sizes=sizes if length is None else None) as judge,
    ):
        carried = program.state()
        for call in range(1, calls + 1):
            if length is not None and program.valid_rows + length.rows > length.capacity:
                program.reset()
                carried = program.state()
            inputs = _inputs(compilation, seed + call, states, length, program.valid_rows)
            expected = judge.run({**inputs, **carried})
            found: dict[str, np.ndarray] = program.run(inputs)
            left = program.state()
            carried = {state.input: np.asarray(expected[state.output]) for state in states}
            pairs = {f"output {name!r}": (array, expected[name]) for name, array in found.items()}
            pairs |= {f"state {name!r}": (array, carried[name]) for name, array in left.items()}
            for name, (one, other) in pairs.items():
                error = tensor_error(name, "", one, np.asarray(other)).max_relative
                worst = max(worst, error)
                if not error <= tolerance:
                    words = f"call {call}: {name} is off by {error:.1e} (tolerance {tolerance:g})"
                    return CallsVerdict(call, words, worst)
    return CallsVerdict(calls, "", worst)


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
