"""A sequence of calls: outputs and states after each are compared with the reference's.

    check_calls(compilation, 3)
        -> CallsVerdict(calls=3, problem="")
        -> CallsVerdict(calls=2, problem="call 2: the state 'h' is off by 3e-02 (tolerance 1e-04)")

The program keeps its states (`remembers=True`); the reference is given those that it has left
itself. A state with a capacity begins empty, and both begin anew when it is full. What differs is
right where the imported program in float64 says that it is as exact as the reference (`exact.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explorer.accuracy.exact import ExactReference
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.accuracy.oracle import reference
from explorer.compilation.compilation import Compilation
from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.origins import Origin, origin_of
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
            previous, expected = carried, judge.run({**inputs, **carried})
            found: dict[str, np.ndarray] = program.run(inputs)
            left = program.state()
            carried = {state.input: np.asarray(expected[state.output]) for state in states}
            pairs = {f"output {name!r}": (array, expected[name]) for name, array in found.items()}
            pairs |= {f"state {name!r}": (array, carried[name]) for name, array in left.items()}
            for name, (one, other) in pairs.items():
                error = tensor_error(name, "", one, np.asarray(other)).max_relative
                worst = max(worst, error)
                if not error <= tolerance:
                    tensor = name.split("'")[1]
                    given = {**inputs, **previous}
                    if length is None and _is_as_exact(compilation, tensor, one, given, tolerance):
                        continue
                    words = f"call {call}: {name} is off by {error:.1e} (tolerance {tolerance:g})"
                    return CallsVerdict(call, words, worst)
    return CallsVerdict(calls, "", worst)


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
