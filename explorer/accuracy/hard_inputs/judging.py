"""One operation on hard inputs: what a program makes of them, and what the reference does.

    judge_part(part, compile, 1e-4)      HardVerdict(kind="offset 1e8", state="broken", ...), ...

The metric is that of every comparison (`metrics`). Where results differ and the format has float64,
both are measured against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from explorer.accuracy.exact import step
from explorer.accuracy.hard_inputs.documented import documented, documented_by_values
from explorer.accuracy.hard_inputs.kinds import HardInput, hard_inputs, resized_inputs
from explorer.accuracy.metrics import is_right, tensor_error, with_exact
from explorer.errors import ExplorerError, ModelError, UnsupportedError
from explorer.importers.model import SourceModel
from explorer.ir.types import is_float_dtype
from explorer.references.interface import reference_of
from explorer.references.parts import Arrays, Part
from explorer.results import TensorError
from explorer.results.hard import STATES, HardVerdict, State

ALL = "all"
"""In place of a kind: what is said of an operation as such."""

NEXT_TO_A_TIE = 2.0**-10
"""Steps of a quantization: 256 steps times the roundings of sums in single precision."""


class PartProgram(Protocol):
    """A compiled operation."""

    def run(self, inputs: Arrays) -> Arrays: ...

    def outside_indices(self, inputs: Arrays) -> Sequence[object]:
        """What lies outside of what it indexes: for such inputs nothing is defined."""
        ...


Compiler = Callable[[SourceModel], AbstractContextManager[PartProgram]]


def judge_part(part: Part, compile: Compiler, tolerance: float) -> list[HardVerdict]:
    """One verdict for each kind of input, the worst of all inputs of that kind."""
    found: dict[str, list[HardVerdict]] = {}
    hard = list(hard_inputs(part))
    if hard:
        for verdict in _judged_alike(part, hard, compile, tolerance):
            found.setdefault(verdict.kind, []).append(verdict)
    for resized in resized_inputs(part):
        for verdict in _judged_alike(part, [resized], compile, tolerance):
            found.setdefault(verdict.kind, []).append(verdict)
    if not found:
        why = "no kind of input fits it" if part.inputs else "all its operands are constants"
        found[ALL] = [_verdict(part, ALL, "not judged", why)]
    return [min(each, key=lambda v: STATES.index(v.state)) for each in found.values()]


def _judged_alike(
    part: Part, hard: Sequence[HardInput], compile: Compiler, tolerance: float
) -> Iterator[HardVerdict]:
    """Inputs of one shape, for which one program is made."""
    is_resized = hard[0].kind.startswith("size")
    kind = hard[0].kind if is_resized else ALL
    try:
        model = part.model_for(hard[0].arrays)
        if is_resized:  # an operation need not allow a size
            try:
                _expected(part, model, hard[0].arrays)
            except ModelError:
                return
        with compile(model) as program:
            for each in hard:
                yield _judged(part, model, each, program, tolerance)
    except (ModelError, UnsupportedError) as error:
        yield _verdict(part, kind, "not judged", f"refused: {_one_line(error)}")
    except Exception as error:  # a defect of the compiler is the result here
        yield _verdict(part, kind, "broken", f"{type(error).__name__}: {_one_line(error)}")


def _judged(
    part: Part, model: SourceModel, hard: HardInput, program: PartProgram, tolerance: float
) -> HardVerdict:
    try:
        expected = _expected(part, model, hard.arrays)
    except ModelError as error:
        return _verdict(part, hard.kind, "not judged", _one_line(error))
    try:
        if program.outside_indices(hard.arrays):
            return _verdict(part, hard.kind, "not judged", "an index lies outside")
        found = program.run(hard.arrays)
    except Exception as error:  # as above
        words = f"{type(error).__name__}: {_one_line(error)}"
        return _verdict(part, hard.kind, "broken", words)
    return compared(part, model, hard, found, expected, tolerance)


def compared(
    part: Part,
    model: SourceModel,
    hard: HardInput,
    found: Arrays,
    expected: Arrays,
    tolerance: float,
) -> HardVerdict:
    """The verdict on the outputs of one run."""
    worst = 0.0
    for name in part.outputs:
        if name not in expected:
            continue
        if name not in found:
            return _verdict(part, hard.kind, "broken", f"there is no output {name}", name, np.inf)
        ours, right = np.asarray(found[name]), np.asarray(expected[name])
        error = tensor_error(name, part.node, ours, right)
        if not is_right(error, tolerance):
            if _is_next_to_unrounded(part, hard, name, ours, right):
                continue
            error = _by_float64(part, model, hard, error, ours, right, tolerance)
        if is_right(error, tolerance):
            worst = max(worst, error.judged(tolerance)[0])
            continue
        known = documented(part, hard.kind, right.dtype.kind in "iu")
        known = known or documented_by_values(part, model.format, hard, ours, right, tolerance)
        state: State = "documented" if known else "broken"
        words = known or difference(ours, right)
        return _verdict(part, hard.kind, state, words, name, error.max_relative)
    if not set(part.outputs) & set(expected):
        return _verdict(part, hard.kind, "not judged", "the reference shows none of its results")
    return _verdict(part, hard.kind, "right", largest=worst)


def _expected(part: Part, model: SourceModel, inputs: Arrays) -> dict[str, np.ndarray]:
    return dict(reference_of(model).tensors(model, inputs, part.outputs))


def _by_float64(
    part: Part,
    model: SourceModel,
    hard: HardInput,
    error: TensorError,
    ours: np.ndarray,
    right: np.ndarray,
    tolerance: float,
) -> TensorError:
    """The error with both distances from float64, where somebody computes the operation there."""
    if ours.shape != right.shape or not is_float_dtype(right.dtype):
        return error
    try:
        exact = _exact(part, model, hard, error.tensor)
    except Exception:  # the reference implementation raises whatever its NumPy code meets
        return error
    if exact.shape != right.shape:
        return error
    with np.errstate(over="ignore", invalid="ignore"):
        exact = exact.astype(right.dtype)  # whose range a result has
    if np.any(np.isfinite(right) & ~np.isfinite(exact)):
        return error  # float64 that overflows on the way proves nothing
    distance = tensor_error("", "", ours, exact).max_relative
    reachable = tensor_error("", "", right, exact).max_relative
    coarse = step(right.dtype)
    if coarse > tolerance:
        reachable = max(reachable, coarse / 2)
    if distance <= tolerance:
        reachable = min(reachable, tolerance)
    return with_exact(error, distance, reachable, tolerance)


def _is_next_to_unrounded(
    part: Part, hard: HardInput, tensor: str, ours: np.ndarray, right: np.ndarray
) -> bool:
    """Whether integers differ from the reference's where both are next to what was rounded: on a
    tie, which floats miss by rounding."""
    if part.unrounded is None or right.dtype.kind not in "iu" or ours.shape != right.shape:
        return False
    exact = part.unrounded(hard.arrays)[tensor]
    return bool(np.all((ours == right) | (np.abs(ours - exact) <= 0.5 + NEXT_TO_A_TIE)))


def _exact(part: Part, model: SourceModel, hard: HardInput, tensor: str) -> np.ndarray:
    if part.exact is not None:
        return np.asarray(part.exact(hard.arrays)[tensor])
    node = reference_of(model).nodes(model)[tensor]
    known = {**model.constants, **hard.arrays}
    results = node.evaluate([known[n] if n else None for n in node.inputs])
    return np.asarray(results[node.outputs.index(tensor)])


def difference(ours: np.ndarray, right: np.ndarray) -> str:
    """The element that is furthest off, in words."""
    if ours.shape != right.shape:
        return f"shape {list(right.shape)} expected, {list(ours.shape)} found"
    a, b = (array.astype(np.float64) for array in (ours, right))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    apart = np.where(np.isfinite(apart), apart, np.inf)
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    at = ", ".join(str(int(n)) for n in place)
    others = int(np.count_nonzero(apart)) - 1
    more = f" and {others:,} others" if others > 0 else ""
    return f"[{at}]{more}: {right[place]} expected, {ours[place]} found"


def _verdict(
    part: Part, kind: str, state: State, reason: str = "", tensor: str = "", largest: float = 0.0
) -> HardVerdict:
    return HardVerdict(
        kind=kind,
        operator=part.operator,
        node=part.node,
        alike=1,
        state=state,
        reason=reason,
        tensor=tensor,
        max_relative=float(largest),
    )


def _one_line(error: Exception) -> str:
    words = error.message if isinstance(error, ExplorerError) else str(error)
    return " ".join(words.split())[:300]
