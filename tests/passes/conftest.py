"""Tools for testing passes: IR text in, one pass, IR text out, and the numbers stay.

    checked = check(FuseActivation(), '''
        func.func @main(%x: tensor<1x3x6x6xf32>) { ... }
    ''')
    checked.lines == ["%conv1 = top.conv(...) ... : tensor<...>", ...]    without weights
    checked.fired == ["fuse-unary conv1"]                                 rule and site
    checked.declined == ["%relu1: conv1 is used 2 times"]

Whatever is checked also agrees in its numbers with the program before: the outputs, and every
value that has an origin; and its events, replayed forwards and backwards, tell the whole story.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from explorer.ir.evaluation import entry_function, entry_return, input_names
from explorer.ir.inspection.printing import parse
from explorer.ir.operation import identity_of
from explorer.ir.origins import Origin, location_of, set_origins, sources_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names, RewriteOptions, replay
from explorer.ir.rewriting.passes import Pass, PassResult, Working, run_pass
from explorer.ir.structure import index_operations, operations, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import element_type_of, numpy_dtype, static_shape, widened
from explorer.ir.weights import Weights

Arrays = Mapping[str, np.ndarray]

# Largest difference, relative to the largest element: some units in the last place of float32
# (1.2e-7 each), for constants that are rounded once more and sums in another order.
TOLERANCE = 2e-6


def program(text: str, arrays: Arrays | None = None) -> Working:
    """A program whose values are the source's: each has itself as origin, each its own source.

    Weights that `arrays` does not give are random, by name.
    """
    module = parse(text)
    weights = Weights(arrays)
    for op in operations(module):
        if isinstance(op, WeightOp):
            if op.weight.data not in weights:
                random = np.random.default_rng(zlib.crc32(op.weight.data.encode()))
                array = random.normal(size=static_shape(op.output))
                weights.add(op.weight.data, array.astype(numpy_dtype(element_type_of(op.output))))
        elif not isinstance(op, ReturnOp):
            op.location = location_of([identity_of(op)])
            set_origins(op, [Origin(value_name(r)) for r in op.results])
    return Working(module=module, weights=weights, names=Names.of(module))


def random_inputs(snapshot: Snapshot, seed: int = 0) -> dict[str, np.ndarray]:
    """Normally distributed arrays for the arguments; whole numbers for integers."""
    random = np.random.default_rng(seed)
    function = entry_function(snapshot.module)
    return {
        name: random.normal(size=static_shape(a), scale=2).astype(numpy_dtype(element_type_of(a)))
        for name, a in zip(input_names(function), function.body.block.args, strict=True)
    }


def outputs(snapshot: Snapshot, inputs: Arrays) -> list[np.ndarray]:
    values = snapshot.run(inputs)
    returned = entry_return(entry_function(snapshot.module))
    return [values[value_name(o)] for o in returned.operands]


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """max|a - b| / max|b|; 0 for equal infinities and NaNs at equal places."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    if actual.dtype.kind != "f":
        return 0.0 if np.array_equal(actual, expected) else np.inf
    assert np.array_equal(np.isfinite(actual), np.isfinite(expected))
    finite = np.isfinite(expected)
    assert np.array_equal(actual[~finite], expected[~finite], equal_nan=True)
    if not finite.any():
        return 0.0
    largest = np.abs(actual - expected, where=finite, out=np.zeros_like(expected)).max()
    return float(largest / max(np.abs(expected[finite]).max(), 1e-6))


def assert_same_numbers(
    before: Snapshot, after: Snapshot, inputs: Arrays, tolerance: float = TOLERANCE
) -> None:
    """Outputs, and all values with an origin: equal to what the program before computes.

    A value that takes the place of a narrow one may hold its numbers in a wider type.
    """
    for actual, expected in zip(outputs(after, inputs), outputs(before, inputs), strict=True):
        assert difference(actual, expected) <= tolerance
    source, values = before.run(inputs), after.run(inputs)
    for name, origin in after.origins.items():
        if origin.tensor in source:
            expected = origin.apply(source[origin.tensor])
            if values[name].dtype == widened(expected).dtype:
                expected = widened(expected)
            assert difference(values[name], expected) <= tolerance, f"{name} is no longer {origin}"


def assert_events_tell_everything(result: PassResult) -> None:
    """Replaying the events turns the operations before into those after, and back."""
    forwards = index_operations(result.before.walked)
    for rewrite in result.rewrites:
        forwards = replay(forwards, rewrite)
    assert forwards == index_operations(result.after.walked)
    backwards = index_operations(result.after.walked)
    for rewrite in reversed(result.rewrites):
        backwards = replay(backwards, rewrite, backwards=True)
    assert backwards == index_operations(result.before.walked)


@dataclass(frozen=True)
class Checked:
    result: PassResult
    inputs: Arrays

    @property
    def lines(self) -> list[str]:
        """Operations after the pass, one per line, weights left out."""
        lines = [line.strip() for line in self.result.after.text.lines]
        inner = lines[2 : len(lines) - 2 - (not lines[-1])]
        return [line for line in inner if " = top.weight(" not in line]

    @property
    def fired(self) -> list[str]:
        """Rules that fired and where, in order."""
        return [f"{r.rule} {r.site}" for r in self.result.rewrites if r.applied]

    @property
    def rewritten(self) -> list[str]:
        """`fired` without the operations that were erased because nothing reads them any more."""
        return [name for name in self.fired if not name.startswith("erase-unused")]

    @property
    def declined(self) -> list[str]:
        return [f"{r.rule} {r.site}: {r.reason}" for r in self.result.rewrites if not r.applied]

    def weight(self, name: str) -> np.ndarray:
        """The array of the `top.weight` with that identity."""
        op = self.result.after.operations[name]
        assert isinstance(op, WeightOp)
        return self.result.after.weights[op.weight.data]

    def sources(self, identity: str) -> tuple[str, ...]:
        """Source nodes of the operation with that identity."""
        return sources_of(self.result.after.operations[identity])


@pytest.fixture(scope="session")
def check() -> Callable[..., Checked]:
    """Runs one pass on IR text; see the top of this file."""

    def run(
        pass_: Pass,
        text: str,
        arrays: Arrays | None = None,
        options: RewriteOptions | None = None,
        inputs: Arrays | None = None,
        tolerance: float = TOLERANCE,
    ) -> Checked:
        working = program(text, arrays)
        result = run_pass(pass_, working, options or RewriteOptions())
        given = random_inputs(result.after) if inputs is None else inputs
        assert_same_numbers(result.before, result.after, given, tolerance)
        assert_events_tell_everything(result)
        return Checked(result, given)

    return run


@pytest.fixture(scope="session")
def check_pipeline() -> Callable[..., list[PassResult]]:
    """Runs passes one after another; every snapshot must agree with the first one's numbers."""

    def run(
        working: Working, passes: Sequence[Pass], inputs: Arrays, tolerance: float = TOLERANCE
    ) -> list[PassResult]:
        results = []
        for pass_ in passes:
            result = run_pass(pass_, working, RewriteOptions())
            assert_events_tell_everything(result)
            results.append(result)
            first = results[0].after
            assert_same_numbers(first, result.after, inputs, tolerance)
        return results

    return run


@pytest.fixture(scope="session")
def make_program() -> Callable[..., Working]:
    """`program` for tests that run passes themselves."""
    return program
