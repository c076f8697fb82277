"""Layers whose factors a file states, with factors of a machine's own scheme: the same numbers.

with_own_factors(layer, machine)

doubling_high_multiply    `stated_requantization.py` has the factors; layers that have
                          none stay as they are, and are refused by their scheme
VTA                       half a step in the bias where nothing is multiplied, so that a shift
                          is all; operands that are lifted alike are not lifted at all
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.ir.requantization import Requantization
from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.elementwise import Elementwise, ElementwiseOperand, Factor
from explorer.npu.layers.layer import Layer
from explorer.npu.layers.matrices import MatrixProduct
from explorer.npu.layers.stated_requantization import MAX_SUM, doubled, is_stated, reduced, shifted
from explorer.targets.npu.machine import Machine

DOUBLING = Requantization("doubling_high_multiply", "nearest_away_from_zero")
DOWN = Requantization("shift", "down")


def with_own_factors(layer: Layer, machine: Machine) -> Layer:
    """The layer as the machine computes it; itself where nothing has to be, or can be, changed."""
    is_shifting = not machine.instruction_set.requantizes
    if not is_shifting and machine.scheme != DOUBLING.scheme:
        return layer
    if isinstance(layer, Elementwise) and is_stated(layer.how):
        return _unlifted(layer) if is_shifting else _doubled_elementwise(layer, machine)
    if isinstance(layer, Convolution) and layer.combined is not None:
        own = with_own_factors(layer.combined, machine)
        assert isinstance(own, Elementwise)
        layer = replace(layer, combined=own)
    if isinstance(layer, Convolution | MatrixProduct):
        scaling = layer.rescaling
        if scaling is not None and not scaling.divisor and is_stated(scaling.how):
            return _with_half_steps(layer, machine) if is_shifting else _doubled(layer, machine)
    return layer


def _doubled(layer: Convolution | MatrixProduct, machine: Machine) -> Layer:
    assert layer.rescaling is not None
    scaling = layer.rescaling
    found = doubled(scaling.multipliers, scaling.shifts, layer.largest_sum(machine))
    if found is None:
        return layer
    own = replace(scaling, how=DOUBLING, multipliers=found[0], shifts=found[1])
    return replace(layer, rescaling=own)


def _with_half_steps(layer: Convolution | MatrixProduct, machine: Machine) -> Layer:
    scaling = layer.rescaling
    assert scaling is not None
    found = shifted(scaling, layer.largest_sum(machine))
    is_multiplied = isinstance(found, str) or np.any(found.multipliers != 1) or found.bounds
    if is_multiplied or not isinstance(layer, Convolution):
        return layer
    assert not isinstance(found, str)
    own = replace(scaling, how=DOWN, multipliers=found.multipliers, shifts=found.shifts)
    if layer.moved is not None:
        moved = replace(layer.moved, addends=layer.moved.addends + found.halves)
        return replace(layer, moved=moved, rescaling=own)
    return replace(layer, bias=layer.bias + found.halves, rescaling=own)


def _doubled_elementwise(layer: Elementwise, machine: Machine) -> Elementwise:
    operands: list[ElementwiseOperand] = []
    for one in layer.operands:
        most = MAX_SUM if one.is_wide else (1 << layer.width(machine)) - 1
        made = _doubled_factor(one.factor, most)
        if one.factor is not None and made is None:
            return layer
        operands.append(replace(one, factor=made))
    is_wide = any(one.is_wide for one in operands)
    most = MAX_SUM if is_wide else (1 << min(layer.result_width(machine), 31)) - 1
    own = _doubled_factor(layer.factor, most)
    if layer.factor is not None and own is None:
        return layer
    left, *right = operands
    return replace(layer, how=DOUBLING, left=left, right=right[0] if right else None, factor=own)


def _doubled_factor(factor: Factor | None, most: int) -> Factor | None:
    if factor is None:
        return None
    found = doubled(np.array(factor[:1]), np.array(factor[1:]), most)
    return None if found is None else (int(found[0][0]), int(found[1][0]))


def _unlifted(layer: Elementwise) -> Elementwise:
    """((a << l >> k) + (b << l >> k)) m >> s   as   (a + b) m >> (s - l + k), where k <= l."""
    if layer.kind not in ("add", "sub") or layer.factor is None or not layer.lift:
        return layer
    factors = {_reduced_factor(one.factor or (1, 0)) for one in layer.operands}
    multiplier, down = factors.pop()
    if factors or multiplier != 1 or down > layer.lift:
        return layer
    multiplier, shift = layer.factor
    shift -= layer.lift - down
    factor = multiplier << max(-shift, 0), max(shift, 0)
    left, *right = [replace(one, factor=None) for one in layer.operands]
    return replace(layer, lift=0, left=left, right=right[0] if right else None, factor=factor)


def _reduced_factor(factor: Factor) -> Factor:
    multiplier, shift = reduced(np.array(factor[:1]), np.array(factor[1:]))
    return int(multiplier[0]), int(shift[0])
