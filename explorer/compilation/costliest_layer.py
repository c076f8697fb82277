"""The layer whose quantization costs the outputs most, found by bisection.

    found = costliest_layer(compilation, reference)
    found.tensor, found.alone_db, found.without_db

Each question is a run of `quantize-tensors` from its own snapshot, in which all tensors but the
ones that are asked about have the mode F32: the very program that a fork would have. Its NumPy
meaning is compared with the float source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import SSAValue

from explorer.accuracy.costliest import costliest
from explorer.accuracy.metrics import decibels, noise_to_signal
from explorer.ir.evaluation import EvaluationCache, entry_function, entry_return, output_names
from explorer.ir.origins import origin_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import Pass, Working, run_pass
from explorer.ir.structure import value_name
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.quantization.quantize_tensors import FLOAT, MODE, QuantizeTensors
from explorer.results import CostliestLayer

if TYPE_CHECKING:
    from explorer.compilation.compiled import Compiled

Values = Mapping[str, np.ndarray]


def costliest_layer(compilation: Compiled, inputs: Values, floats: Values) -> CostliestLayer | None:
    """floats: tensors of the float source; None where no output is of floats, or where weights
    alone are quantized."""
    record = compilation.quantization
    if record is None or QuantizeTensors.name not in compilation.names:
        return None
    tensors = {tensor.name: tensor for tensor in record.tensors if tensor.storage}
    probe = _Probe(compilation, inputs, floats, list(tensors))
    if not probe.wanted:
        return None
    found = costliest(list(tensors), probe.noise)
    if found is None:
        return None
    others = [name for name in tensors if name != found.layer]
    return CostliestLayer(
        tensor=found.layer,
        operation=tensors[found.layer].operation,
        alone_db=decibels(found.noise),
        all_db=decibels(probe.noise(list(tensors))),
        without_db=decibels(probe.noise(others)),
        runs=found.runs + 2,
        is_certain=found.is_certain,
        address=f"{QuantizeTensors.name}/{MODE}/{found.layer}",
        is_before_softmax=any(is_through for is_through, _ in probe.wanted.values()),
    )


class _Probe:
    """Programs in which some tensors are quantized, run one after the other."""

    def __init__(
        self, compilation: Compiled, inputs: Values, floats: Values, tensors: Sequence[str]
    ):
        index = compilation.names.index(QuantizeTensors.name)
        self._pass: Pass = compilation.pipeline[index - 1]
        self._before = compilation.passes[index].before
        self._names = compilation.passes[index - 1].names
        self._decisions = compilation.settings.decisions
        self._inputs, self._tensors = inputs, tensors
        self._cache = EvaluationCache()
        self._before.run(inputs, self._cache)
        self.wanted = _wanted_outputs(self._before, floats)

    def noise(self, layers: Sequence[str]) -> float:
        """Noise to signal of the outputs with these tensors quantized; infinite for no number."""
        kept = set(layers)
        decisions = {
            **self._decisions,
            **{
                f"{QuantizeTensors.name}/{MODE}/{name}": FLOAT
                for name in self._tensors
                if name not in kept
            },
        }
        working = Working.at(self._before, self._names)
        after = run_pass(self._pass, working, RewriteOptions(decisions)).after
        # Results of one probe are no other's: only those of floats are worth remembering.
        values = after.run(self._inputs, self._cache.copy())
        returned = _returned(after)
        actual, exact = [], []
        for place, (is_through, array) in self.wanted.items():
            judged = _logits(returned[place]) if is_through else returned[place]
            assert judged is not None, "the softmax stands where it stood"
            actual.append(values[value_name(judged)])
            exact.append(array)
        ratio = noise_to_signal(actual, exact)
        return ratio if math.isfinite(ratio) else math.inf


def _wanted_outputs(snapshot: Snapshot, floats: Values) -> dict[int, tuple[bool, np.ndarray]]:
    """By place among the outputs: whether what a softmax reads is judged instead, and what the
    float source has of it. Outputs of floats only.

    The result of a softmax at the end hides most errors in numbers near 0 and 1.
    """
    names = output_names(entry_function(snapshot.program))
    wanted = {}
    for place, (name, value) in enumerate(zip(names, _returned(snapshot), strict=True)):
        logits = _logits(value)
        origin = None if logits is None else origin_of(logits)
        array = None if origin is None else origin.found_in(floats)
        is_through = array is not None
        if array is None:
            array = floats.get(name)
        if array is not None and array.dtype.kind == "f":
            wanted[place] = (is_through, array)
    return wanted


def _returned(snapshot: Snapshot) -> Sequence[SSAValue]:
    return entry_return(entry_function(snapshot.program)).operands


def _logits(value: SSAValue) -> SSAValue | None:
    """What a softmax reads whose result this is, perhaps quantized and made real again."""
    if isinstance(value.owner, DequantizeOp) and isinstance(value.owner.input.owner, QuantizeOp):
        value = value.owner.input.owner.input
    return value.owner.input if isinstance(value.owner, SoftmaxOp) else None
