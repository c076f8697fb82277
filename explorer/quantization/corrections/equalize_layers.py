"""Channels of neighbouring layers get weights of like ranges.

    filters of conv1: 0.1 and 10 at most       => 1 and 1
    weights of conv2 for these: 10 and 0.1     => 1 and 1

    f = sqrt(r2 / r1)         r1, r2: largest magnitudes of a channel's weights before and behind

again and again over all pairs, until nothing moves: a pair's ranges depend on its neighbours'.
Factors are eighths of octaves, 2^(e / 8), so that an origin can say them. No data are needed.

Source: Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction, 2019,
section 4.1. Biases that become large are not absorbed (4.1.3): ranges come from data here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.ir.evaluation import entry_function
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.top.reductions.normalization import LayerNormOp
from explorer.ir.weights import Weights
from explorer.quantization.corrections.seams import (
    Seam,
    magnitudes,
    read_ranges,
    rescale,
    seams,
    whole_eighths,
)
from explorer.quantization.corrections.weights import is_wanted

RULE = "pair"
SWEEPS = 40
SETTLED = 0.02
"""Of the logarithm of a factor."""


@dataclass(frozen=True)
class EqualizeLayers(Pass):
    """Weights before and behind a channel get like ranges: what the one gains the other gives.

    Decisions: equalize-layers/pair/OPERATION, false to leave what that operation makes as it is.
    """

    name = "equalize-layers"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        found: list[Seam] = []
        for op, seam in seams(entry_function(rewriter.module), rewriter.weights):
            if isinstance(op, LayerNormOp):
                continue
            if isinstance(seam, str):
                events.decline(RULE, op, seam)
            elif not is_wanted(events.address(RULE, op), options):
                events.decline(RULE, op, "a decision forbids it")
            else:
                found.append(seam)
        for seam, eighths in zip(found, equalizing(found, rewriter.weights), strict=True):
            before = _ratio(seam, rewriter.weights)
            words = f"{seam.count} channels: weights that read them were 1 : {before:.3g}"
            if not eighths.any():
                events.decline(RULE, seam.producer, "its channels are equal already")
                continue
            after = _ratio(seam, rewriter.weights, eighths)
            with events.rewrite(RULE, seam.producer, f"{words}, are 1 : {after:.3g}"):
                rescale(seam, eighths, rewriter)
        return events.rewrites


def equalizing(found: Sequence[Seam], weights: Weights) -> list[np.ndarray]:
    """Eighths of octaves for each seam, with which ranges before and behind are like."""
    ops = {r.op: r.op for s in found for r in s.readers} | {
        s.producer: s.producer for s in found if not isinstance(s.producer, LayerNormOp)
    }
    own = {op: magnitudes(op, weights) for op in ops}
    totals = [np.ones(seam.count) for seam in found]
    for _ in range(SWEEPS):
        largest = 0.0
        for seam, total in zip(found, totals, strict=True):
            assert not isinstance(seam.producer, LayerNormOp)
            before = own[seam.producer].max(axis=1)
            behind = read_ranges(seam, [own[r.op] for r in seam.readers])
            is_alive = (before > 0) & (behind > 0)
            factors = np.ones(seam.count)
            factors[is_alive] = np.sqrt(behind[is_alive] / before[is_alive])
            own[seam.producer] = own[seam.producer] * factors[:, None]
            for reader in seam.readers:
                own[reader.op] = own[reader.op] / factors[reader.channels]
            total *= factors
            largest = max(largest, float(np.abs(np.log2(factors)).max()))
        if largest < SETTLED:
            break
    return [whole_eighths(total) for total in totals]


def _ratio(seam: Seam, weights: Weights, eighths: np.ndarray | None = None) -> float:
    """Of the largest to the smallest range that reads a channel, of those that are not 0."""
    ranges = read_ranges(seam, [magnitudes(r.op, weights) for r in seam.readers])
    if eighths is not None:
        ranges = ranges / np.exp2(eighths / 8)
    ranges = ranges[ranges > 0]
    return float(ranges.max() / ranges.min()) if ranges.size else 1.0
