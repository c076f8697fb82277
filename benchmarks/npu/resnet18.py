"""Convolutions of ResNet-18 on an NPU, one of each shape, with and without double buffering.

    python benchmarks/npu/resnet18.py [--target vta-16] [--predicted]

Shapes are those of a picture of 224 x 224 (He et al., 2016, table 1), which VTA's paper measures,
too (Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning Specialization",
2019); numbers are random, the input's zero point is 0. Tiles are those of a fast search. A layer
of few channels reads the network's input, which the host writes with neighbours as channels where
that takes fewer cycles, as `unfold-inputs` has it. `used`: the layer's multiply-accumulates over
what the array could have done in as many cycles; `single`: tiles of the same sizes without double
buffering. Outputs are compared with NumPy's, and cycles with those predicted; `--predicted` says
these and runs nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from explorer.ir.requantization import Requantization, fixed_point
from explorer.ir.unfolding import Unfolding
from explorer.npu import Convolution, LayerProgram, Rescaling, compile_layer, predict
from explorer.npu.layers.unfolding import unfolded_forms
from explorer.npu.program.compiling import Tiled
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.program.partition import TiledPieces
from explorer.npu.search.searching import search_layer
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import Machine, describe

SHAPES = (
    (3, 224, 64, 7, 2, 1),
    (64, 56, 64, 3, 1, 4),
    (64, 56, 128, 3, 2, 1),
    (64, 56, 128, 1, 2, 1),
    (128, 28, 128, 3, 1, 3),
    (128, 28, 256, 3, 2, 1),
    (128, 28, 256, 1, 2, 1),
    (256, 14, 256, 3, 1, 3),
    (256, 14, 512, 3, 2, 1),
    (256, 14, 512, 1, 2, 1),
    (512, 7, 512, 3, 1, 3),
)
"""Input channels, size, output channels, kernel, stride, and how often there is one."""
SIZES = ("rows", "columns", "blocks", "outputs", "inputs")
"""Choices for tiles that are sizes."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="vta-16")
    parser.add_argument("--predicted", action="store_true")
    options = parser.parse_args(arguments)
    machine, random = describe(load_target(options.target)), np.random.default_rng(0)
    print("| channels | size | kernel, stride | times | cycles | used | single |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    sums = np.zeros(3, np.int64)
    for inputs, size, outputs, kernel, stride, times in SHAPES:
        layer = convolution(machine, random, inputs, size, outputs, kernel, stride)
        x = random.integers(-128, 128, layer.input_shape)
        tiled, unfolding = best_tiles(layer, machine)
        written = x if unfolding is None else unfolding.apply(x)
        double, alone = (
            cycles_of(tiled, buffers, written, layer.run(x), options.predicted)
            for buffers in (2, 1)
        )
        sums += np.array([layer.macs, double, alone]) * times
        words = f"{inputs} to {outputs} | {size} x {size} | {kernel} x {kernel}, {stride} | {times}"
        print(f"| {words} | {columns(layer.macs, double, alone, machine)} |", flush=True)
    macs, double, alone = sums.tolist()
    print(f"| all | | | | {columns(macs, double, alone, machine)} |")


def columns(macs: int, double: int, alone: int, machine: Machine) -> str:
    peak = machine.batch * machine.rows * machine.columns
    return f"{double:,} | {macs / peak / double:.1%} | {macs / peak / alone:.1%}"


def convolution(
    machine: Machine, random: np.random.Generator, inputs: int, size: int, outputs: int,
    kernel: int, stride: int,
) -> Convolution:  # fmt: skip
    how = Requantization("shift", "down")
    if machine.set != "vta":
        if not machine.scheme or not machine.rounding:
            raise SystemExit(f"{machine.name} does not say how it requantizes")
        how = Requantization(machine.scheme, machine.rounding)
    factors = fixed_point(np.full(outputs, 2.0**-9), how)
    pad = kernel // 2
    return Convolution(
        name=f"conv {inputs} to {outputs}",
        input_shape=(inputs, size, size),
        weights=random.integers(-128, 128, (outputs, inputs, kernel, kernel)),
        bias=random.integers(-5000, 5000, outputs),
        rescaling=Rescaling(how=how, multipliers=factors.multipliers, shifts=factors.shifts),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
    )


def best_tiles(layer: Convolution, machine: Machine) -> tuple[Tiled, Unfolding | None]:
    """Of the layer, or of the one that computes the same in fewer cycles from what is unfolded."""
    found: list[tuple[Tiled, Unfolding | None]] = [(search_layer(layer, machine).tiled, None)]
    for form in unfolded_forms(layer, machine, by_host=True):
        found.append((search_layer(form.summing, machine).tiled, form.unfolding))
    return min(found, key=lambda one: predict(one[0]).cycles)


def cycles_of(
    tiled: Tiled, buffers: int, x: np.ndarray, expected: np.ndarray, is_predicted: bool
) -> int:
    """SystemExit where numbers or cycles are others than they should be."""
    made = program_of(tiled, buffers)
    predicted = predict(made.tiled).cycles
    if is_predicted:
        return predicted
    found = simulate(
        made.program, made.image_with(x.reshape(made.layer.inputs[0].shape)), tiled.machine
    )
    if found.cycles != predicted:
        raise SystemExit(f"{made.layer.name}: {found.cycles} cycles, {predicted} predicted")
    if not np.array_equal(made.output_of(found.image).reshape(expected.shape), expected):
        raise SystemExit(f"{made.layer.name}: numbers differ")
    return predicted


def program_of(tiled: Tiled, buffers: int) -> LayerProgram:
    if buffers == 1:
        return compile_layer(tiled.layer, tiled.machine, buffers=1, sizes=sizes_of(tiled))
    return compile_layer(tiled.layer, tiled.machine, choices=tiles_of(tiled))


def sizes_of(tiled: Tiled) -> tuple[int, ...] | None:
    """As `compile_layer` takes them; None for pieces, each of which is cut by itself."""
    if isinstance(tiled, TiledPieces):
        return None
    choices = tiles_of(tiled)
    return tuple(int(choices[name]) for name in SIZES if name in choices)


if __name__ == "__main__":
    main()
