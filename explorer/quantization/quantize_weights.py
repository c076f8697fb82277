"""Weights of a float program become narrow integers in blocks; all else stays as it is.

    %y = top.matmul(%x, %w, bias = %b)                                    %w : tensor<768x3072xf32>
 => %q = top.weight() {weight = "fc.integers"}
             : tensor<768x3072x!top.quantized<i4, axis 0, block 32>>
    %s = top.weight() {weight = "fc.scales"} : tensor<24x3072xf32>
    %v = top.dequantize_blocks(%q, %s) : tensor<768x3072xf32>
    %y = top.matmul(%x, %v, bias = %b)

Products unpack them where they multiply (`fuse-quantization`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation

from explorer.errors import InputError
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.operation import identity_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.types import element_type_of
from explorer.ir.weights import Weights
from explorer.quantization.block_numbers import BLOCKS, BlockForm, BlockNumbers, nearest
from explorer.quantization.choosing import F32
from explorer.quantization.corrections.record import GPTQ, BlockRounding, digest_of_weights
from explorer.quantization.corrections.weights import decibels
from explorer.quantization.table import FLOAT, WEIGHT_MODES, ThresholdTable, require_known
from explorer.results import Knob

RULE = "weights"
NEAREST = "nearest"
ROUNDINGS = (NEAREST, GPTQ)
MODE, BLOCK, ROUNDING = "mode", "block", "rounding"


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Constant matrices of products get the form of weights that the table says.

    Decisions, by the product's name: quantize-weights/mode/OPERATION, INT4, UINT4, INT8, UINT8 or
    F32 (its weights stay float); quantize-weights/block/OPERATION, rows with one scale;
    quantize-weights/rounding/OPERATION, nearest, or gptq where that was found for its weights.
    """

    table: ThresholdTable

    name = "quantize-weights"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        layers = dict(weighted(function, rewriter.weights))
        if not layers:
            raise InputError(
                "this model has no weights that can be quantized alone: no product of floats with "
                "a constant matrix",
                hint="a table of thresholds (explorer calibrate without --weights) quantizes "
                "convolutions",
            )
        require_known(self.table, [identity_of(op) for op in layers])
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for op, array in layers.items():
            form = self._form(op, options, knobs)
            if form is None:
                events.decline(RULE, op, "a mode says that its weights stay float")
                continue
            if not np.isfinite(array).all():
                events.decline(RULE, op, "some of its weights are no finite numbers")
                continue
            found, words = self._numbers(op, array, form, options, knobs)
            sizes = f"{found.size_bytes} bytes instead of {array.nbytes}"
            with events.rewrite(RULE, op, f"{form}: {sizes}; {words}"):
                _insert(op, found, rewriter)
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _form(self, op: MatMulOp, options: RewriteOptions, knobs: list[Knob]) -> BlockForm | None:
        """What the weights of one product become; None where they stay float."""
        form = self.table.weights
        assert form is not None
        name = identity_of(op)
        mode = self.table.modes.get(name, form.name.upper())
        mode = self._decided(MODE, name, mode, options, knobs, WEIGHT_MODES, "what weights are")
        why = "rows of weights that share a scale"
        block = self._decided(BLOCK, name, form.block, options, knobs, BLOCKS, why)
        if mode not in WEIGHT_MODES:
            address = f"{self.name}/{MODE}/{name}"
            raise InputError(f"{address} cannot be {mode!r}", hint=" or ".join(WEIGHT_MODES))
        if mode == FLOAT:
            return None
        return BlockForm(str(mode).lower(), block)  # pyright: ignore[reportArgumentType]

    def _decided(
        self,
        kind: str,
        name: str,
        value: object,
        options: RewriteOptions,
        knobs: list[Knob],
        legal: tuple,
        why: str,
    ) -> object:
        """The value, or what a decision says instead; a knob either way."""
        address = f"{self.name}/{kind}/{name}"
        asked = options.decision(address)
        chosen = value if asked is None else asked
        knobs.append(Knob(address, chosen, legal, why))  # pyright: ignore[reportArgumentType]
        return chosen

    def _numbers(
        self,
        op: MatMulOp,
        array: np.ndarray,
        form: BlockForm,
        options: RewriteOptions,
        knobs: list[Knob],
    ) -> tuple[BlockNumbers, str]:
        """The numbers, and how they were rounded."""
        name, record = identity_of(op), self.table.corrections
        known = None if record is None else record.blocks.get(name)
        reason = "" if known is None else _why_not(known, array, form)
        best = GPTQ if known is not None and not reason else NEAREST
        legal = ROUNDINGS if best == GPTQ else (NEAREST,)
        why = "how weights are rounded"
        chosen = self._decided(ROUNDING, name, best, options, knobs, legal, why)
        if chosen not in legal:
            address = f"{self.name}/{ROUNDING}/{name}"
            raise InputError(
                f"{address} cannot be {chosen!r}" + (f": {reason}" if reason else ""),
                hint=" or ".join(legal),
            )
        if chosen == NEAREST or known is None:
            return nearest(array, form), "each is the nearest" + (f": {reason}" if reason else "")
        gain = decibels(known.error, known.error_after)
        return known.numbers, f"by GPTQ, sums err {gain} less than with the nearest"


def weighted(function: func.FuncOp, weights: Weights) -> Iterator[tuple[MatMulOp, np.ndarray]]:
    """Products of floats with a constant matrix, and that matrix (k, n)."""
    for op in list(function.body.block.ops):
        if not isinstance(op, MatMulOp) or op.sums is not None:
            continue
        array = constant(op.right, weights)
        is_single = all(element_type_of(o) == F32 for o in op.operands)
        if array is not None and array.ndim == 2 and array.size and is_single:
            yield op, array


def _why_not(known: BlockRounding, array: np.ndarray, form: BlockForm) -> str:
    """Why what GPTQ found is not for these weights; empty where it is."""
    if known.weights != digest_of_weights(array):
        return "what GPTQ found is for other weights"
    if known.numbers.form != form:
        return f"what GPTQ found is {known.numbers.form}"
    return ""


def _insert(op: MatMulOp, found: BlockNumbers, rewriter: RecordedRewriter) -> None:
    """The numbers, their parameters, and real numbers of them in the weight's place."""
    stem, before = identity_of(op), op.right.owner
    kind = found.form.type_along(0)
    numbers = rewriter.add_weight(op, f"{stem}.integers", found.numbers, like=op, element_type=kind)
    scales = rewriter.add_weight(op, f"{stem}.scales", found.scales, like=op)
    zeros = None
    if found.zeros is not None:
        zeros = rewriter.add_weight(op, f"{stem}.zeros", found.zeros, like=op)
    real = DequantizeBlocksOp.make([numbers, scales, zeros])
    rewriter.insert_before(op, real, stem=f"{stem}.real", like=op)
    rewriter.set_operand(op, 1, real.output)
    if isinstance(before, Operation) and not any(r.uses for r in before.results):
        rewriter.erase(before)
