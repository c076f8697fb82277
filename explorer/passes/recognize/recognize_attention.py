"""Attention and rotary embeddings that a model spells out become the operations that they are.

    %p = top.softmax(%scores) {axis = 3, ...}; %y = top.matmul(%p, %v)
 => %y = top.attention(%q, %k, %v) {scale = 0.125}

The pass runs behind the one that finds softmaxes. Attention is taken apart again where no single
kernel is as fast as the scheduled products that it consists of (`split-attention`).
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.fixpoint import FixpointPass
from explorer.passes.recognize.patterns.attention import ATTENTION_RULES
from explorer.passes.recognize.patterns.rotary import ROTARY_RULES
from explorer.passes.simplify.eliminate_dead_code import EraseUnused


@dataclass(frozen=True)
class RecognizeAttentions(FixpointPass):
    """Attention and rotary embeddings that are spelled out become single operations."""

    name = "recognize-attention"
    rules = (*ROTARY_RULES, *ATTENTION_RULES, EraseUnused)
