"""Runs every layer of a quantized network on NPUs: its numbers, cycles, and how busy the array is.

    python benchmarks/npu/layers.py MODEL.onnx [--calibrate N] [--targets vta-16,tiny-8] [--rows]
    python benchmarks/npu/layers.py resnet18 --calibrate 1 --targets vta-16 --rows

MODEL: quantized (QDQ or integer operators), or float with `--calibrate N`: thresholds (min-max) of
N random inputs are enough, for numbers are compared with the quantized program's own, bit by bit;
or a name of `benchmarks/architectures`, whose weights are random.
Dense convolutions of equal shapes run once.
`used`: multiply-accumulates of the layer over what the array could have done in as many cycles;
`single` the same without double buffering, in the same tiles.
`off`: the largest difference of a layer's predicted cycles from the simulated ones, over these.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import explorer
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations, value_name
from explorer.npu import Convolution, LayerError, compile_layer, predict
from explorer.npu.layers.from_operations import FoundLayer, read_layers
from explorer.npu.layers.value_layout import Stored, stored_form
from explorer.runtime.npu import Simulation, simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import Machine, describe

sys.path.append(str(Path(__file__).resolve().parents[1]))
from architectures import open_architecture
from resnet18 import sizes_of

ALL = "edge-64,mac-128,odd-12x20,tiny-8,vta-16,vta-32"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a file, or the name of an architecture")
    parser.add_argument("--calibrate", type=int, default=0, metavar="N")
    parser.add_argument("--targets", default=ALL)
    parser.add_argument("--rows", action="store_true", help="a row for every layer")
    options = parser.parse_args(arguments)
    is_file = Path(options.model).suffix
    model = explorer.load(options.model) if is_file else open_architecture(options.model)
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
    values, forms = snapshot.run(c.example_inputs()), forms_of(snapshot)
    refused = [reason for _, reason in found.refused]
    known: dict[object, tuple[Simulation, Simulation, float]] = {}
    equal = cycles = single_cycles = macs = 0
    most_off = 0.0
    for one in found.layers:
        try:
            result = known.get(shape_of(one.layer)) or run_layer(one, values, forms, machine)
        except LayerError as error:
            refused.append(error.message)
            continue
        known[shape_of(one.layer)] = result
        double, single, off = result
        equal += 1
        most_off = max(most_off, off)
        cycles, single_cycles = cycles + double.cycles, single_cycles + single.cycles
        mine = one.layer.macs if isinstance(one.layer, Convolution) else 0
        macs += mine
        if with_rows:
            print(
                f"  {one.output:20} {type(one.layer).__name__:12} {double.cycles:9,} cycles, used "
                f"{used(mine, double.cycles, machine):5.1%}, single "
                f"{used(mine, single.cycles, machine):5.1%}"
            )
    print(
        f"{machine.name:10} {len(found.layers):6} {len(refused):8} {equal:6} {cycles:12,} "
        f"{macs:9,} {used(macs, cycles, machine):6.1%} {used(macs, single_cycles, machine):6.1%} "
        f"{most_off:6.2%}"
    )
    for reason in sorted(set(refused)):
        print(f"  refused: {reason}")


def forms_of(snapshot: Snapshot) -> dict[str, Stored]:
    """How the values that layers can read lie."""
    found: dict[str, Stored] = {}
    for op in operations(snapshot.program):
        for value in (*op.operands, *op.results):
            with contextlib.suppress(LayerError):
                found[value_name(value)] = stored_form(value)
    return found


def used(macs: int, cycles: int, machine: Machine) -> float:
    most = machine.batch * machine.rows * machine.columns * cycles
    return macs / most if most else 0.0


def shape_of(layer: object) -> object:
    """What decides over tiles and cycles of a convolution; others are all looked at."""
    if not isinstance(layer, Convolution) or layer.is_sparse or layer.placement is not None:
        return id(layer)
    return (layer.input_shape, layer.weights.shape, layer.strides, layer.dilations, layer.pads,
            layer.groups, layer.input_zero_point == 0, layer.is_scaled)  # fmt: skip


def run_layer(
    found: FoundLayer, values: dict[str, np.ndarray], forms: dict[str, Stored], machine: Machine
) -> tuple[Simulation, Simulation, float]:
    """With two buffers and with one; numbers must be the program's own. Last: see `off`."""
    layer = found.layer
    tensors = (*layer.inputs, layer.output)
    *given, expected = (
        forms[name].signed(values[name]).reshape(tensor.shape)
        for name, tensor in zip((*found.inputs, found.output), tensors, strict=True)
    )
    if isinstance(layer, Convolution) and layer.placement is not None:
        expected = layer.run(*given)  # one of several that write positions of their own
    made = compile_layer(layer, machine)
    results: list[Simulation] = []
    off = 0.0
    for one in (made, compile_layer(layer, machine, buffers=1, sizes=sizes_of(made.tiled))):
        result = simulate(one.program, one.image_with(*given), machine)
        if not np.array_equal(one.output_of(result.image), expected):
            raise SystemExit(f"{machine.name}, {found.output}: numbers differ")
        off = max(off, abs(predict(one.tiled).cycles / result.cycles - 1))
        results.append(result)
    return results[0], results[1], off


if __name__ == "__main__":
    main()
