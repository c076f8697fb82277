"""Small programs written as IR text, and their way through all levels to a running binary.

    working = program('''func.func @main(%x : tensor<1x3x8x8xf32>) -> ... { ... }''')
    inputs = random_inputs(working.snapshot)
    results = lower(working)                       PassResults of place-on-device ... plan-memory
    values = run_binary(results, inputs, "c")      every value by name, outputs as `output:NAME`

Test modules load this file by its path, for xDSL's wheel installs a top-level package `tests`.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from explorer.accuracy.execution import TappedProgram, execute_compiled
from explorer.ir.evaluation import entry_function, input_names
from explorer.ir.inspection.printing import parse
from explorer.ir.operation import identity_of
from explorer.ir.origins import Origin, location_of, set_origins
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import Names, RewriteOptions
from explorer.ir.rewriting.passes import Pass, PassResult, Working, run_pass
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import element_type_of, numpy_dtype, static_shape
from explorer.ir.weights import Weights
from explorer.kernels.passes import LowerToLoops, ScheduleLoops
from explorer.kernels.program.build import BuiltProgram, build_program, host_ports
from explorer.kernels.schedules import Machine
from explorer.memory.planning import MEMORY, PlanMemory, value_offsets
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.lower_to_kernels import LowerToKernels
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.results import MemoryPlan
from explorer.runtime.core_at_hand import lanes_at_hand
from explorer.runtime.devices import DeviceRecord
from explorer.runtime.native.program import NativeProgram
from explorer.runtime.opencl.program import PHASES, OpenCLProgram

Arrays = Mapping[str, np.ndarray]


def program(text: str, arrays: Arrays | None = None) -> Working:
    """A program whose values are the source's: each has itself as origin, each its own source.

    Weights that `arrays` does not give are random, by name.
    """
    module = parse(text)
    weights = Weights(arrays)
    for op in operations(module):
        if isinstance(op, WeightOp):
            if op.weight.data not in weights:
                weights.add(op.weight.data, _random_weight(op))
        elif not isinstance(op, ReturnOp):
            op.location = location_of([f"node_{identity_of(op)}"])
            set_origins(op, [Origin(value_name(r)) for r in op.results])
    return Working(
        module=module,
        weights=weights,
        names=Names.of(module),
        level="top",
        execute_compiled=execute_compiled,
    )


def _random_weight(op: WeightOp) -> np.ndarray:
    """Scaled so that sums over a filter stay near 1 and values do not grow from layer to layer."""
    shape = static_shape(op.output)
    scale = 1 / np.sqrt(max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 1.0
    random = np.random.default_rng(zlib.crc32(op.weight.data.encode()))
    array = random.normal(size=shape) * scale
    return np.asarray(array, numpy_dtype(element_type_of(op.output)))


def random_inputs(snapshot: Snapshot, seed: int = 0) -> dict[str, np.ndarray]:
    """Normally distributed arrays for the entry's arguments."""
    random = np.random.default_rng(seed)
    function = entry_function(snapshot.module)
    return {
        name: np.asarray(random.normal(size=static_shape(a)), dtype=numpy_dtype(element_type_of(a)))
        for name, a in zip(input_names(function), function.body.block.args, strict=True)
    }


def side_by_side(texts: Mapping[str, str]) -> str:
    """Programs without a common value as one, so that one build runs them all.

    Every value and weight gets its program's name in front: `%x` of `pool` is `%pool_x`.
    """
    arguments, types, bodies, returned = [], [], [], []
    pattern = r"\s*func\.func @main\((.*?)\) -> \((.*?)\) \{\n(.*)top\.return\((.*?)\)\s*\}\s*"
    for name, text in texts.items():
        found = re.fullmatch(pattern, text, re.DOTALL)
        assert found is not None, text
        taken, given, body, values = (
            re.sub(r"%(\w+)", rf"%{name}_\1", part) for part in found.groups()
        )
        arguments.append(taken)
        types.append(given)
        bodies.append(body.replace('weight = "', f'weight = "{name}_').rstrip())
        returned.append(values)
    signature = f"func.func @main({', '.join(arguments)}) -> ({', '.join(types)})"
    return "\n".join([f"{signature} {{", *bodies, f"  top.return({', '.join(returned)})", "}"])


def run_passes(working: Working, passes: Sequence[Pass]) -> list[PassResult]:
    """The results of the passes in turn, without overrides and without limit."""
    return [run_pass(p, working, RewriteOptions()) for p in passes]


def lower(working: Working, lanes: int | None = None, language: str = "c") -> list[PassResult]:
    """Placement, layouts (blocks of `lanes` channels), kernels, loops, schedules, memory plan.

    lanes: float32 in a vector; None: as many as the core has (`EXPLORER_TEST_CORE`). gcc takes ten
    times as long for vectors that it has to divide.
    """
    lanes = lanes or lanes_at_hand()
    passes = (
        PlaceOnDevice("cpu"),
        AssignLayouts(lanes),
        LowerToKernels(),
        LowerToLoops(),
        ScheduleLoops(Machine(vector_floats=lanes, language=language)),
        PlanMemory(),
    )
    return run_passes(working, passes)


def build(results: Sequence[PassResult], language: str = "c") -> BuiltProgram:
    """The planned program after the last pass, printed as C or OpenCL C."""
    final, plan = results[-1].after, results[-1].artifacts[MEMORY]
    assert isinstance(plan, MemoryPlan)
    target = "opencl" if language == "opencl" else "cpu"
    offsets = value_offsets(plan)
    return build_program(final, offsets, plan.peak_bytes, target, language, *host_ports(final))


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
        # Launches are run one by one for their values: a chain would be built and not run.
        apart = replace(built.program, chain=None)
        executable = OpenCLProgram(apart, built.weights, device, options=(PHASES,))
    else:
        executable = NativeProgram(built.program, built.weights)
    with executable:
        return TappedProgram(executable).values(inputs, {})


def max_relative(actual: np.ndarray, expected: np.ndarray) -> float:
    """max|a - b| / max(max|b|, 1e-6); infinity where types, shapes or special values differ.

    Written apart from `explorer.accuracy.metrics`, which is under test.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    difference = np.abs(actual[finite].astype(float) - expected[finite].astype(float))
    if not np.isfinite(difference).all():
        return float("inf")
    scale = max(float(np.max(np.abs(expected[finite]), initial=0)), 1e-6)
    return float(np.max(difference, initial=0)) / scale
