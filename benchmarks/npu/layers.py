"""Runs every layer of a quantized network on NPUs: its numbers, cycles, and how busy the array is.

    python benchmarks/npu/layers.py MODEL.onnx [--calibrate N] [--targets vta-16,tiny-8] [--rows]

MODEL: quantized (QDQ or integer operators), or float with `--calibrate N`: thresholds (min-max) of
N random inputs are enough, for numbers are compared with the quantized program's own, bit by bit.
Layers of equal shapes run once. A last row counts maxima and functions by table, and their cycles.
`used`: multiply-accumulates of the layer over what the array could have done in as many cycles;
`single` the same without double buffering, in the same tiles.
`off`: the largest difference of a layer's predicted cycles from the simulated ones, over these.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import explorer
from explorer.npu import Convolution, LayerError, compile_layer, predict
from explorer.npu.reading import FoundLayer, FoundWindows, read_layers
from explorer.runtime.npu import Simulation, simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import Machine, describe

ALL = "edge-64,mac-128,odd-12x20,tiny-8,vta-16,vta-32"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--calibrate", type=int, default=0, metavar="N")
    parser.add_argument("--targets", default=ALL)
    parser.add_argument("--rows", action="store_true", help="a row for every layer")
    options = parser.parse_args(arguments)
    model = explorer.load(options.model)
    table = None
    if options.calibrate:
        inputs = explorer.compile(model).example_inputs()
        random = np.random.default_rng(0)
        examples = {
            name: random.random((options.calibrate, *array.shape[1:]), np.float32)
            for name, array in inputs.items()
        }
        table = explorer.calibrate(
            model, examples, method="min-max", corrections=(), arithmetic="integer"
        )
    print("target     layers  refused  equal       cycles      macs   used  single    off")
    for name in options.targets.split(","):
        run_target(model, table, describe(load_target(name)), options.rows)


def run_target(model: object, table: object, machine: Machine, with_rows: bool) -> None:
    decisions: dict[str, object] = {
        "target/arithmetic": "integer", "target/requantization.scheme": machine.scheme,
    }  # fmt: skip
    if machine.scheme != "doubling_high_multiply":
        decisions["target/requantization.rounding"] = machine.rounding
    c = explorer.compile(model, quantization=table, decisions=decisions)  # pyright: ignore[reportArgumentType]
    snapshot = c["fuse-quantization"].after
    found = read_layers(snapshot)
    values = snapshot.run(c.example_inputs())
    refused = [reason for _, reason in found.refused]
    known: dict[object, tuple[Simulation, Simulation, float]] = {}
    equal = cycles = single_cycles = macs = 0
    most_off = 0.0
    for layer in found.layers:
        key = shape_of(layer.layer)
        try:
            result = known.get(key) or run_layer(layer, values, machine)
        except LayerError as error:
            refused.append(error.message)
            continue
        known[key] = result
        double, single, off = result
        equal += 1
        most_off = max(most_off, off)
        cycles, single_cycles = cycles + double.cycles, single_cycles + single.cycles
        macs += layer.layer.macs
        if with_rows:
            print(
                f"  {layer.output:20} {double.cycles:9,} cycles, used "
                f"{used(layer.layer.macs, double.cycles, machine):5.1%}, single "
                f"{used(layer.layer.macs, single.cycles, machine):5.1%}"
            )
    print(
        f"{machine.name:10} {len(found.layers):6} {len(refused):8} {equal:6} {cycles:12,} "
        f"{macs:9,} {used(macs, cycles, machine):6.1%} {used(macs, single_cycles, machine):6.1%} "
        f"{most_off:6.2%}"
    )
    run_windows(found.windows, values, machine, refused)
    for reason in sorted(set(refused)):
        print(f"  refused: {reason}")


def run_windows(
    layers: Sequence[FoundWindows],
    values: dict[str, np.ndarray],
    machine: Machine,
    refused: list[str],
) -> None:
    """Maxima and functions by table, if there are any; those that cannot run join `refused`."""
    cycles = equal = 0
    for found in layers:
        try:
            made = compile_layer(found.layer, machine)
        except LayerError as error:
            refused.append(error.message)
            continue
        x = found.stored_input(values[found.input])
        result = simulate(made.program, made.image_with(x), machine)
        if not np.array_equal(
            made.output_of(result.image), found.stored_output(values[found.output])
        ):
            raise SystemExit(f"{machine.name}, {found.output}: numbers differ")
        equal, cycles = equal + 1, cycles + result.cycles
    if layers:
        print(f"  maxima and tables: {equal} of {len(layers)} equal, {cycles:,} cycles")


def used(macs: int, cycles: int, machine: Machine) -> float:
    most = machine.batch * machine.rows * machine.columns * cycles
    return macs / most if most else 0.0


def shape_of(layer: Convolution) -> tuple[object, ...]:
    """What decides over tiles and cycles."""
    return (layer.input_shape, layer.weights.shape, layer.strides, layer.dilations, layer.pads,
            layer.groups, layer.input_zero_point == 0)  # fmt: skip


def run_layer(
    found: FoundLayer, values: dict[str, np.ndarray], machine: Machine
) -> tuple[Simulation, Simulation, float]:
    """With two buffers and with one; numbers must be the program's own. Last: see `off`."""
    made = compile_layer(found.layer, machine)
    tiled = made.tiled
    sizes = (tiled.rows, tiled.columns, tiled.outputs, tiled.inputs)
    results: list[Simulation] = []
    off = 0.0
    for buffers in (2, 1):
        made = compile_layer(found.layer, machine, buffers=buffers, sizes=sizes)
        x = found.stored_input(values[found.input])
        result = simulate(made.program, made.image_with(x), machine)
        expected = found.stored_output(values[found.output])
        if not np.array_equal(made.output_of(result.image), expected):
            raise SystemExit(f"{machine.name}, {found.output}: numbers differ")
        off = max(off, abs(predict(made.tiled).cycles / result.cycles - 1))
        results.append(result)
    return results[0], results[1], off


if __name__ == "__main__":
    main()
