"""Tables that quantize weights alone: nearest integers in blocks, or rounded by GPTQ over data.

    table = quantized_weights(model, BlockForm("int4", 32))
    table = quantized_weights(model, BlockForm("int4", 32), data, "gptq")
    table.corrections.blocks["matmul_3"].numbers

GPTQ takes one walk through the program over a sample of the examples: what each product reads is
what the program computes with all weights before it quantized, so that a layer makes up for them.
A quarter of its rows only judge: where GPTQ makes the sums of a column err more on them, the column
has the nearest numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.compilation.settings.quantizing import digest_of_model
from explorer.compilation.settings.settings import Progress
from explorer.errors import InputError
from explorer.importers import SourceModel
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.passes.quantize.convolutions_of_one_window import ConvolutionsOfOneWindow
from explorer.quantization.block_numbers import BlockForm, nearest
from explorer.quantization.corrections.gptq import errors, gptq
from explorer.quantization.corrections.moments import batches, products, windows
from explorer.quantization.corrections.record import (
    GPTQ,
    BlockRounding,
    Corrections,
    digest_of_weights,
)
from explorer.quantization.quantize_weights import NEAREST, ROUNDINGS, weighted
from explorer.quantization.table import ThresholdTable
from explorer.tuning.calibration import calibration_program
from explorer.tuning.correcting import sampled
from explorer.tuning.examples import Chosen, Data, examples_of, read_data

Rounding = Literal["nearest", "gptq"]
"""How weights of blocks become integers."""
JUDGING = 4
"""One of so many rows judges what the others found."""
MAX_ROWS = 8192
"""Of a matrix whose rows make up for one another: their moments are a square of them."""


def quantized_weights(
    model: SourceModel,
    form: BlockForm,
    data: Data | str | Path | None = None,
    rounding: str = "",
    dimensions: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    chosen: Chosen | None = None,
) -> ThresholdTable:
    """A table that quantizes the weights of all products with a constant matrix.

    rounding: nearest, or gptq, which takes data and is the default where there are some.

    Raises:
        InputError: for a rounding that there is not, GPTQ without data, data that do not fit, and
            a model without such products.
    """
    rounding = rounding or (NEAREST if data is None else GPTQ)
    if rounding not in ROUNDINGS:
        raise InputError(f"weights cannot be rounded by {rounding!r}", hint=" or ".join(ROUNDINGS))
    if rounding == GPTQ and data is None:
        raise InputError("gptq rounds by what weights are multiplied with", hint="--data FILE.npz")
    program = calibration_program(model, dimensions, corrections=(ConvolutionsOfOneWindow(),))
    snapshot = program[ConvolutionsOfOneWindow.name].after
    walk = Walk(snapshot, form)
    if not walk.layers:
        raise InputError(
            f"{model.name} has no weights that can be quantized alone: no product of floats with a "
            "constant matrix",
            hint="explorer calibrate without --weights quantizes convolutions",
        )
    table = ThresholdTable({}, digest_of_model(model), rounding, weights=form)
    if rounding == NEAREST or data is None:
        return table
    data = read_data(Path(data)) if isinstance(data, str | Path) else data
    examples = examples_of(program, data, chosen)
    inputs = [examples.at(number) for number in sampled(examples.count, snapshot)]
    walk.over(inputs, progress)
    record = Corrections(kinds=(GPTQ,), blocks=walk.found)
    return ThresholdTable(
        {}, table.model, GPTQ, warnings=tuple(walk.warnings), weights=form, corrections=record
    )


@dataclass
class Walk:
    """From operation to operation; each is done for all examples before the next."""

    snapshot: Snapshot
    form: BlockForm
    found: dict[str, BlockRounding] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    values: dict[SSAValue, list[np.ndarray]] = field(default_factory=dict)
    done: set[TopOperation] = field(default_factory=set)

    def __post_init__(self) -> None:
        function = entry_function(self.snapshot.program)
        assert isinstance(function, func.FuncOp)
        self.function = function
        self.layers = dict(weighted(function, self.snapshot.weights))

    def over(self, inputs: list[dict[str, np.ndarray]], progress: Progress | None = None) -> None:
        """Finds the numbers of all weights."""
        names = input_names(self.function)
        for argument, name in zip(self.function.body.block.args, names, strict=True):
            self.values[argument] = [example[name] for example in inputs]
        steps = [op for op in self.function.body.block.ops if isinstance(op, TopOperation)]
        waiting = set(self.layers)
        for number, op in enumerate(steps):
            if not waiting:
                return
            if isinstance(op, WeightOp | ReturnOp):
                continue
            if progress is not None:
                progress(f"weights of {identity_of(op)}", number, len(steps))
            self._step(op, len(inputs))
            waiting.discard(op)  # pyright: ignore[reportArgumentType]

    def _step(self, op: TopOperation, count: int) -> None:
        operands = [self._value(operand, count) for operand in op.operands]
        array = self.layers.get(op) if isinstance(op, MatMulOp) else None
        if isinstance(op, MatMulOp) and array is not None and np.isfinite(array).all():
            operands[1] = [self._rounded(op, array, operands[0])] * count
        results = [op.evaluate(*(o[i] for o in operands)) for i in range(count)]
        for index, result in enumerate(op.results):
            self.values[result] = [np.asarray(r[index]) for r in results]
        self.done.add(op)
        for operand in op.operands:  # what nothing behind it reads
            if {use.operation for use in operand.uses} <= self.done:
                self.values.pop(operand, None)

    def _value(self, value: SSAValue, count: int) -> list[np.ndarray]:
        array = constant(value, self.snapshot.weights)
        return self.values[value] if array is None else [array] * count

    def _rounded(self, op: MatMulOp, array: np.ndarray, rows: list[np.ndarray]) -> np.ndarray:
        """The weights of one product as the program has them from now on."""
        plain = nearest(array, self.form)
        if len(array) > MAX_ROWS:
            self.warnings.append(
                f"the weights of {identity_of(op)} are rounded to the nearest: they have "
                f"{len(array)} rows, more than {MAX_ROWS}"
            )
            return plain.real()
        seen, unseen = moments_of_rows(op, rows)
        found = gptq(array, seen, self.form, unseen)
        self.found[identity_of(op)] = BlockRounding(
            numbers=found,
            weights=digest_of_weights(array),
            error=float(errors(array, plain, unseen).mean()),
            error_after=float(errors(array, found, unseen).mean()),
        )
        return found.real()


def moments_of_rows(op: MatMulOp, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(k, k) f64 twice: the mean of x x^T over the rows of what the product reads.

    Of three quarters of the rows in all examples, which numbers are found with, and of the others,
    which judge them; a few rows are both.
    """
    totals, counts = [np.zeros(()), np.zeros(())], [0, 0]
    for some in batches(len(rows), rows[0].nbytes):
        x = windows(op, np.concatenate(rows[some]))
        is_unseen = np.arange(x.shape[2]) % JUDGING == JUDGING - 1
        for index, chosen in enumerate((~is_unseen, is_unseen)):
            own = np.ascontiguousarray(x[:, :, chosen])
            totals[index] = totals[index] + products(own, own)[0]
            counts[index] += own.shape[2]
    seen, unseen = (total / max(count, 1) for total, count in zip(totals, counts, strict=True))
    return (seen, unseen) if counts[1] else (seen, seen)
