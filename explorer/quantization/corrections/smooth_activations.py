"""Channels with outliers are made smaller, and the weights that read them larger.

    s = max |x|^alpha / max |w|^(1 - alpha)         x / s, w * s, channel by channel

Weights bear it, for each of them has many others in its sum and a scale of its own; activations
have one scale for all channels, so that one with outliers costs all others their steps. What makes
the channels, a normalization or a product, takes the factors into its parameters.

Source: Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
Language Models, 2022, equation 4. Factors are eighths of octaves, about one in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.quantization.choosing import quantizable_tensors
from explorer.quantization.corrections.record import Corrections
from explorer.quantization.corrections.seams import (
    Seam,
    eighths_of,
    magnitudes,
    read_ranges,
    rescale,
    seams,
    whole_eighths,
)
from explorer.quantization.corrections.weights import is_wanted
from explorer.results import Knob

RULE = "migrate"
ALPHA = 0.5


@dataclass(frozen=True)
class SmoothActivations(Pass):
    """Outliers of channels go from activations into the weights that read them.

    Decisions: smooth-activations/alpha, from 0 (weights get like ranges) to 1 (activations do);
    smooth-activations/migrate/OPERATION, false to leave what that operation makes as it is.
    """

    record: Corrections

    name = "smooth-activations"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        alpha = self._alpha(options)
        why = "how much of the outliers goes from activations into weights"
        rewriter.artifacts[KNOBS] = (Knob(f"{self.name}/alpha", alpha, (), why),)
        function = entry_function(rewriter.module)
        names = {tensor.value: tensor.name for tensor in quantizable_tensors(function)}
        for op, seam in list(seams(function, rewriter.weights)):
            ranges = "" if isinstance(seam, str) else self._ranges(seam, names)
            if isinstance(seam, str) or isinstance(ranges, str):
                events.decline(RULE, op, seam if isinstance(seam, str) else str(ranges))
                continue
            if not is_wanted(events.address(RULE, op), options):
                events.decline(RULE, op, "a decision forbids it")
                continue
            behind = read_ranges(seam, [magnitudes(r.op, rewriter.weights) for r in seam.readers])
            eighths = smoothing(ranges, behind, alpha)
            before, after = (_ratio(r) for r in (ranges, ranges * np.exp2(eighths / 8)))
            words = f"{seam.count} channels: ranges were 1 : {before:.3g}, are 1 : {after:.3g}"
            if not eighths.any():
                events.decline(RULE, op, "its channels are smooth already")
                continue
            with events.rewrite(RULE, op, words):
                rescale(seam, eighths, rewriter)
        return events.rewrites

    def _ranges(self, seam: Seam, names) -> np.ndarray | str:
        """(channels,) largest magnitudes of what readers read; or why they are not known."""
        for place in reversed(seam.between):
            limits = self.record.limits.get(names.get(place.value, ""))
            if limits is None:
                continue
            own = np.abs(limits).max(axis=0).astype(np.float64)
            known = eighths_of(place.value)
            if known:
                own = own * np.exp2(np.array(known) / 8)
            found = np.zeros(seam.count)
            np.maximum.at(found, place.channels, own)
            return found
        return "nothing in it is quantized"

    def _alpha(self, options: RewriteOptions) -> float:
        address = f"{self.name}/alpha"
        asked = options.decision(address)
        if asked is None:
            return ALPHA
        is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
        if not is_number or not 0 <= asked <= 1:  # pyright: ignore[reportOperatorIssue]
            raise InputError(f"{address} cannot be {asked!r}", hint="a number from 0 to 1")
        return float(asked)  # pyright: ignore[reportArgumentType]


def smoothing(ranges: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
    """(channels,) eighths of octaves: logarithms of 1 / s; 0 for channels that are always 0."""
    is_alive = (ranges > 0) & (weights > 0)
    if not is_alive.any():
        return np.zeros(ranges.shape, np.int64)
    factors = np.ones(ranges.shape)
    factors[is_alive] = weights[is_alive] ** (1 - alpha) / ranges[is_alive] ** alpha
    factors[is_alive] /= np.exp(np.log(factors[is_alive]).mean())
    return whole_eighths(factors)


def _ratio(ranges: np.ndarray) -> float:
    alive = ranges[ranges > 0]
    return float(alive.max() / alive.min()) if alive.size else 1.0
