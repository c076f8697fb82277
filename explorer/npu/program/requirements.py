"""What a convolution needs of a machine, and how its sums become outputs.

convolution_problem(layer, machine)   what it cannot compute, whatever the tiles
vector_passes(layer, machine)         how often the vector engine goes through the sums
"""

from __future__ import annotations

import dataclasses

import numpy as np

from explorer.npu.layers.convolution import Convolution
from explorer.npu.layers.stated_requantization import Shifted, is_stated, scaling_problem, shifted
from explorer.npu.layers.tensors import element_problem
from explorer.npu.program.arithmetic import combined_passes
from explorer.npu.tiling import layouts
from explorer.targets.npu.machine import Machine


def convolution_problem(layer: Convolution, machine: Machine) -> str:
    """What the machine cannot compute, whatever the tiles; empty where it can."""
    scaling = layer.rescaling
    numbers = [("weights", layer.weights, machine.weight_bits + 1)]
    if scaling is not None:
        zeros = np.array([scaling.zero_point, layer.input_zero_point])
        numbers.append(("zero points", zeros, machine.input_bits))
    if scaling is not None and layer.is_scaled:
        limits = np.array([scaling.low, scaling.high])
        numbers.append(("limits", limits, machine.input_bits))
    for what, found, bits in numbers:
        if found.min() < -(1 << bits - 1) or found.max() >= 1 << bits - 1:
            return f"{what} from {found.min()} to {found.max()} are no numbers of {bits} bits"
    if machine.accumulator_bits != 32:
        return f"sums have 32 bits, its accumulators {machine.accumulator_bits}"
    if layer.moved is not None and "multiply" not in machine.operations:
        return "its vector engine has no multiply"
    if problem := _missing_operations(machine) or element_problem(machine):
        return problem
    if layer.combined is not None and (problem := layer.combined.problem(machine)):
        return problem
    if scaling is None:
        return ""
    is_shifting = not machine.instruction_set.requantizes
    return scaling_problem(scaling, machine, layer.largest_sum(machine) if is_shifting else 0)


def _missing_operations(machine: Machine) -> str:
    """What of the vector engine requantizing lacks; empty where nothing."""
    there = set(machine.operations)
    if machine.instruction_set.requantizes:
        is_there = {"requantize", "add"} <= there
        return "" if is_there else "its vector engine does not requantize and add"
    missing = {"add", "shift_right", "maximum", "minimum"} - there
    return f"its vector engine has no {min(missing)}" if missing else ""


def shifted_of(layer: Convolution, machine: Machine) -> Shifted | None:
    """How a machine without requantization multiplies by stated factors; None: it only shifts."""
    scaling = layer.rescaling
    if scaling is None or machine.instruction_set.requantizes or not is_stated(scaling.how):
        return None
    found = shifted(scaling, layer.largest_sum(machine))
    assert isinstance(found, Shifted), found
    return found


def vector_passes(layer: Convolution, machine: Machine) -> int:
    """How often the vector engine goes through all sums of a tile at least, with an instruction
    each time; what stores that only cut need is left out."""
    scaling = layer.rescaling
    if layer.combined is not None:
        alone = dataclasses.replace(layer, combined=None)
        return vector_passes(alone, machine) + combined_passes(layer.combined, machine)
    if layouts.adds_biases(layer, machine):
        return 1
    found = 1 if layer.moved is None else 3  # biases, and what is multiplied and added
    if scaling is None or not layer.is_scaled:
        return found
    if machine.instruction_set.requantizes:
        return found + 1
    by_factors = shifted_of(layer, machine)
    if by_factors is not None:
        found += 2 if by_factors.bounds is None else 4
    return found + 3 + bool(scaling.zero_point)
