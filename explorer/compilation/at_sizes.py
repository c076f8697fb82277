"""Checking one program at several sizes of its open dimensions.

At the largest size every pass is compared, tensor by tensor, as always: the snapshots are of that
size. At any other size the imported program, whose dimension is still symbolic, is compared tensor
by tensor, and of the binary its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from explorer.accuracy.comparison import Runner, Subject, Values
from explorer.accuracy.metrics import is_right, tensor_error
from explorer.ir.sizes.calls import sizes_of_call
from explorer.results import AccuracyReport
from explorer.runtime.sizes import size_of_inputs

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled


def is_smaller(compilation: Compiled, inputs: Mapping[str, np.ndarray]) -> bool:
    """Whether the inputs are of another size than the one that the snapshots have."""
    ranges = compilation.settings.open_ranges
    if not ranges:
        return False
    open_sizes = compilation.program.sizes
    if open_sizes is not None:
        call = sizes_of_call(open_sizes, inputs)
        return call is not None and any(call[r.name] != r.highest for r in ranges)
    return size_of_inputs(compilation.program, inputs) != ranges[0].highest


def smaller_subject(compilation: Compiled) -> Subject:
    """The imported program, with the binary's outputs as `output:NAME`."""
    imported = compilation.passes[0].after

    def run(inputs: Values, replaced: Values) -> Values:
        outputs = compilation.executable.run(inputs)
        values = imported.run(inputs, None, replaced)
        return {**values, **{f"output:{name}": array for name, array in outputs.items()}}

    runner: Runner = run
    return Subject("import", imported, runner)


def with_lowest(
    compilation: Compiled,
    report: AccuracyReport,
    reference: Callable[[Values, Sequence[str]], Values],
    seed: int = 0,
) -> AccuracyReport:
    """The report, with the binary's outputs at the smallest size of every range.

    `reference`: what tensors should be for inputs of that size, by their names.
    """
    ranges = compilation.settings.open_ranges
    if not ranges:
        return report
    inputs = compilation.example_inputs(seed, {r.name: r.lowest for r in ranges})
    names = compilation.port_names[1]
    expected = reference(inputs, names)
    outputs = compilation.executable.run(inputs)
    label = ", ".join(f"{r.name} = {r.lowest}" for r in ranges)
    errors = tuple(
        replace(tensor_error(name, f"output:{name}", outputs[name], expected[name]),
                tensor=f"{name} ({label})")
        for name in names
    )  # fmt: skip
    wrong = next((error for error in errors if not is_right(error, report.tolerance)), None)
    problem = f"output {wrong.tensor} is off by {wrong.max_relative:.2g}" if wrong else ""
    return replace(
        report,
        outputs=(*report.outputs, *errors),
        end_to_end=(*report.end_to_end, *errors),
        passed=report.passed and wrong is None,
        problem=report.problem or problem,
    )
