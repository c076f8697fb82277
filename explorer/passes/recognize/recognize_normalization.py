"""Normalizations that a model spells out become the one operation that they are.

   %m = top.reduce(%x) {kind = "mean", ...}; %d = %x - %m; ...; %y = %d / sqrt(%v + epsilon)
=> %y = top.layer_norm(%x) {axis = 2, epsilon = 1e-05}
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.fixpoint import FixpointPass
from explorer.passes.recognize.patterns.normalizations import NORMALIZATION_RULES
from explorer.passes.recognize.patterns.softmax import SOFTMAX_RULES
from explorer.passes.simplify.eliminate_dead_code import EraseUnused


@dataclass(frozen=True)
class RecognizeNormalization(FixpointPass):
    """Layer and RMS normalizations and softmaxes that are spelled out become single operations."""

    name = "recognize-normalization"
    rules = (*NORMALIZATION_RULES, *SOFTMAX_RULES, EraseUnused)
