"""Padding of open sizes becomes part of the windows that read it, before sizes are kept.

   %1 = top.pad(%x) {low = [0, 0, 1, 1], high = [0, 0, 1, 1]} : tensor<1x3x?x?xf32>
   %2 = top.conv(%1, %w) {pads = [0, 0, 0, 0], ...} : tensor<1x8x?x?xf32>
=> %2 = top.conv(%x, %w) {pads = [1, 1, 1, 1], ...} : tensor<1x8x?x?xf32>

A padded tensor would be made whole, and masked where a call ends; the input of a window is masked
only there.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.rewriting.passes import RulePass
from explorer.passes.simplify.movement.pads import PadByConv, PadByPool


@dataclass(frozen=True)
class PadWindows(RulePass):
    """Convolutions and pools of open sizes add the padding around their input themselves."""

    name = "pad-windows"
    rules = (PadByConv, PadByPool)
