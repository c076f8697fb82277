"""Small programs written as IR text, and their way through all levels to a running binary.

    module, weights = program('''func.func @main(%x : tensor<1x3x8x8xf32>) -> ... { ... }''')
    inputs = random_inputs(module)
    results = lower(module, weights)               PassResult of place-on-device ... plan-memory
    values = run_binary(results, inputs, "c")      every value by name, the outputs among them
"""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from explorer.accuracy.execution import execute_compiled, tapped_values
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.passes import Pass, PassResult, Working, run_pass
from explorer.ir.printing import parse
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names, RewriteOptions
from explorer.ir.structure import operations
from explorer.ir.top.data import WeightOp
from explorer.ir.types import element_type_of, numpy_dtype, static_shape
from explorer.ir.weights import Weights
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.program import BuiltProgram, build_program, host_ports
from explorer.kernels.schedules import Machine
from explorer.memory.planning import MEMORY, PlanMemory, value_offsets
from explorer.passes.layout import AssignLayouts
from explorer.passes.lower import LowerToKernels
from explorer.passes.place import PlaceOnDevice
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.native import NativeProgram
from explorer.runtime.opencl import OpenCLProgram

Arrays = Mapping[str, np.ndarray]


def program(text: str, arrays: Arrays | None = None) -> tuple[ModuleOp, Weights]:
    """The module that the text says. Weights that `arrays` does not give are random, by name."""
    module = parse(text)
    weights = Weights(arrays)
    for op in operations(module):
        if isinstance(op, WeightOp) and op.weight.data not in weights:
            shape, dtype = static_shape(op.output), numpy_dtype(element_type_of(op.output))
            # Sums over a filter stay near 1, so that values do not grow from layer to layer.
            scale = 1 / np.sqrt(max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 1.0
            random = np.random.default_rng(zlib.crc32(op.weight.data.encode()))
            weights.add(op.weight.data, (random.normal(size=shape) * scale).astype(dtype))
    return module, weights


def random_inputs(module: ModuleOp, seed: int = 0) -> dict[str, np.ndarray]:
    """Normally distributed arrays for the entry's arguments."""
    random = np.random.default_rng(seed)
    function = entry_function(module)
    return {
        name: random.normal(size=static_shape(a)).astype(numpy_dtype(element_type_of(a)))
        for name, a in zip(input_names(function), function.body.block.args, strict=True)
    }


def start(module: ModuleOp, weights: Weights) -> Working:
    """What a list of passes begins with."""
    return Working(module.clone(), weights.copy(), Names.of(module), "top", execute_compiled)


def run_passes(working: Working, passes: Sequence[Pass]) -> list[PassResult]:
    """The results of the passes in turn, without overrides and without limit."""
    return [run_pass(p, working, RewriteOptions()) for p in passes]


def lower(
    module: ModuleOp, weights: Weights, lanes: int = 16, language: str = "c", device: str = "cpu"
) -> list[PassResult]:
    """Placement, layouts (blocks of `lanes` channels), kernels, loops, schedules, memory plan."""
    passes = (
        PlaceOnDevice(device),
        AssignLayouts(lanes),
        LowerToKernels(),
        LowerToLoops(),
        ScheduleLoops(Machine(lanes, language)),
        PlanMemory(),
    )
    return run_passes(start(module, weights), passes)


def build(results: Sequence[PassResult], language: str) -> BuiltProgram:
    """The planned program after the last pass, printed as C or OpenCL C."""
    plan = results[-1].artifacts[MEMORY]
    target = "opencl" if language == "opencl" else "cpu"
    ports = host_ports(results[-1].after)
    offsets = value_offsets(plan)  # pyright: ignore[reportArgumentType]
    return build_program(
        results[-1].after, offsets, plan.peak_bytes, target, language, *ports
    )


def run_binary(
    results: Sequence[PassResult],
    inputs: Arrays,
    language: str = "c",
    device: DeviceRecord | None = None,
) -> dict[str, np.ndarray]:
    """All values of the built program, outputs under `output:NAME`."""
    built = build(results, language)
    if language == "opencl":
        assert device is not None
        executable = OpenCLProgram(built.program, built.weights, device)
    else:
        executable = NativeProgram(built.program, built.weights)
    with executable:
        return dict(tapped_values(executable, inputs))


def max_relative(actual: np.ndarray, expected: np.ndarray) -> float:
    """max|a - b| / max(max|b|, 1e-6); infinity where types, shapes or special values differ."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    special = ~np.isfinite(expected)
    if not np.array_equal(actual[special], expected[special], equal_nan=True):
        return float("inf")
    difference = np.abs(actual[~special].astype(float) - expected[~special].astype(float))
    if not np.isfinite(difference).all():
        return float("inf")
    scale = max(float(np.max(np.abs(expected[~special]), initial=0)), 1e-6)
    return float(np.max(difference, initial=0)) / scale


def levels(results: Sequence[PassResult]) -> list[Snapshot]:
    """The snapshots after each pass."""
    return [r.after for r in results]
