"""The ladder of a kernel, measured: every step of its schedule built as a program and timed.

    measure_ladder(schedule_kernel(convolution, Machine(16, "c"), packs))

    lower          2.3 GFLOP/s  ▍
    reorder        4.2 GFLOP/s  ▊
    vectorize     23.9 GFLOP/s  ████▏
    unroll       115.8 GFLOP/s  ████████████████████

Each rung is the loop nest after one step, printed as C, compiled, and run on the same seeded
numbers; its result is compared with the first rung's, which is the textbook's. Views draw the bars
(`explorer/views/catalog/bars.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType

from explorer.accuracy.metrics import tensor_error
from explorer.backends import backend_named
from explorer.backends.interface import Backend
from explorer.ir.deferred import ArrayForm, Deferred
from explorer.ir.dialects.kernel import kernel_arguments
from explorer.ir.types import numpy_dtype
from explorer.kernels.loops.nest import LoopNest, extent_of, perfect_chain
from explorer.kernels.program.build import BuiltProgram, KernelText, memref_bytes
from explorer.kernels.program.packing import pack_argument, pack_array
from explorer.kernels.schedules import Pack, ScheduledKernel, Step
from explorer.kernels.steps.pack import identity_pack, pack
from explorer.results import Argument, KernelRecord, Launch, Port, Program
from explorer.results.displayed import Displayed
from explorer.runtime.native.program import NativeProgram

ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Rung:
    """A kernel after one step."""

    step: str
    arguments: tuple[tuple[str, str], ...]
    milliseconds: float
    """Best of the repeats, one thread."""
    gflops: float
    """0 where the kernel does not multiply and add."""
    max_relative: float
    """Largest error of a result against the first rung's, relative to its largest number."""


@dataclass(frozen=True, repr=False)
class Ladder(Displayed):
    """The rungs of one kernel, the first one the textbook's loops."""

    kernel: str
    flops: int
    rungs: tuple[Rung, ...]

    def __getitem__(self, step: str) -> Rung:
        """The last rung of that name; KeyError lists the names."""
        for rung in reversed(self.rungs):
            if rung.step == step:
                return rung
        raise KeyError(f"{step}; the steps are {', '.join(r.step for r in self.rungs)}")

    @property
    def gains(self) -> dict[str, float]:
        """How many times faster each step made the kernel, by the step's name."""
        pairs = zip(self.rungs, self.rungs[1:], strict=False)
        return {after.step: before.milliseconds / after.milliseconds for before, after in pairs}


@dataclass(frozen=True, repr=False)
class Bars(Displayed):
    """Named numbers as bars, for a few measurements side by side."""

    values: tuple[tuple[str, float], ...]
    unit: str


# -- measuring -------------------------------------------------------------------------------------


def measure_ladder(kernel: ScheduledKernel, repeats: int = 5, seed: int = 0) -> Ladder:
    """Builds and times the kernel after every step; about half a second per step.

    BuildError and DeviceError as for any program. Speeds depend on what else the machine does:
    the best of `repeats` runs counts.
    """
    flops = multiply_add_flops(kernel.steps[0].function)
    arrays = random_arguments(kernel.steps[0].function, seed)
    expected: dict[str, np.ndarray] = {}
    rungs = []
    for step in kernel.steps:
        seconds, results = run_nest(step.function, layouts_at(step), arrays, repeats)
        expected = expected or results
        errors = [tensor_error(n, n, results[n], expected[n]) for n in expected]
        worst = max(error.max_relative for error in errors)
        rungs.append(Rung(step.name, step.arguments, seconds * 1e3, flops / seconds * 1e-9, worst))
    return Ladder(kernel.name, flops, tuple(rungs))


def measure_last_rung(kernel: ScheduledKernel, repeats: int = 5, seed: int = 0) -> Rung:
    """The speed of the finished kernel; its result is compared with the textbook's, too."""
    first, last = kernel.steps[0], kernel.steps[-1]
    ends = ScheduledKernel(
        name=kernel.name,
        function=kernel.function,
        steps=(first, last),
        packs=kernel.packs,
        choices={},
    )
    return measure_ladder(ends, repeats, seed).rungs[-1]


def multiply_add_flops(function: func.FuncOp) -> int:
    """Two operations for every iteration of the main loop nests; 0 where there is none."""
    return sum(
        2 * prod(extent_of(loop) for loop in perfect_chain(main))
        for main in LoopNest(function).statements("main")
    )


def layouts_at(step: Step) -> dict[str, Pack]:
    """The layouts that arguments have after a step; those that are row-major are left out."""
    return {
        call.arguments["buffer"]: call.arguments["layout"]
        for call in step.calls
        if call.function is pack
    }


def random_arguments(function: func.FuncOp, seed: int) -> dict[str, np.ndarray]:
    """Seeded logical arrays for what a kernel reads, zeros for what it writes, by name."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for argument in kernel_arguments(function):
        assert isinstance(argument.type, MemRefType)
        shape, dtype = argument.type.get_shape(), numpy_dtype(argument.type.element_type)
        is_read = argument.role in ("input", "weight") and dtype.kind == "f"
        values = generator.uniform(-1, 1, shape) if is_read else np.zeros(shape)
        arrays[argument.name] = values.astype(dtype)
    return arrays


def run_nest(
    function: func.FuncOp,
    layouts: Mapping[str, Pack],
    arrays: Mapping[str, np.ndarray],
    repeats: int,
) -> tuple[float, dict[str, np.ndarray]]:
    """Runs a kernel of loop nests as a program of its own.

    `arrays`: logical values of all arguments by name; `layouts` says in which form the kernel
    wants them. Returns the seconds of the fastest run and the logical results by name.
    """
    made = nest_program(function, layouts, arrays)
    with NativeProgram(made.program, made.weights) as executable:
        seconds = min(executable.time(made.inputs, repeats))
        outputs = executable.run(made.inputs)
    return seconds, logical_results(outputs, layouts, arrays)


@dataclass(frozen=True)
class NestProgram:
    """A program that is nothing but one kernel, and what it runs on."""

    program: Program
    weights: np.ndarray
    inputs: Mapping[str, np.ndarray]
    """In the form in which the kernel takes them."""

    @property
    def built(self) -> BuiltProgram:
        """The same as backends open it."""
        form = ArrayForm(self.weights.shape, self.weights.dtype)
        return BuiltProgram(self.program, Deferred(form, lambda: self.weights))


def nest_program(
    function: func.FuncOp,
    layouts: Mapping[str, Pack],
    arrays: Mapping[str, np.ndarray],
    backend: Backend | None = None,
) -> NestProgram:
    """A kernel of loop nests as a program of its own; see `run_nest`. By default it is C."""
    backend = backend or backend_named("c")
    name = function.sym_name.data
    physical = {n: pack_argument(function, n, a, _layout(layouts, n, a)) for n, a in arrays.items()}
    ends = {"arena": 0, "weights": 0}
    arguments = []
    for argument in kernel_arguments(function):
        space = "weights" if argument.role == "weight" else "arena"
        size = memref_bytes(argument.type)
        arguments.append(Argument(argument.name, space, ends[space], size, argument.role))
        ends[space] += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    launch = Launch(name, name, tuple(arguments), ())
    text = backend.text({name: function}, [launch], is_chained=False)
    program = Program(
        target=backend.name,
        source=text.source,
        kernels=tuple(_kernel_record(n, kernel) for n, kernel in text.kernels.items()),
        launches=(launch,),
        inputs=tuple(_port(a, physical) for a in arguments if a.role == "input"),
        outputs=tuple(_port(a, physical) for a in arguments if a.role == "output"),
        taps=(),
        weights=(),
        arena_bytes=max(ends["arena"], ALIGNMENT_BYTES),
        weights_bytes=max(ends["weights"], ALIGNMENT_BYTES),
    )
    weights = np.zeros(program.weights_bytes, np.uint8)
    for a in arguments:
        if a.space == "weights":
            data = physical[a.name].reshape(-1).view(np.uint8)
            weights[a.offset_bytes : a.offset_bytes + a.size_bytes] = data
    return NestProgram(program, weights, {p.name: physical[p.name] for p in program.inputs})


def logical_results(
    outputs: Mapping[str, np.ndarray],
    layouts: Mapping[str, Pack],
    arrays: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """A kernel's outputs out of the form in which it leaves them."""
    return {
        n: unpack_array(output, arrays[n].shape, _layout(layouts, n, arrays[n]))
        for n, output in outputs.items()
    }


def unpack_array(physical: np.ndarray, shape: tuple[int, ...], layout: Pack) -> np.ndarray:
    """The logical array out of a packed one: packing numbered elements says where each lies."""
    numbers = pack_array(np.arange(1, prod(shape) + 1).reshape(shape), layout)
    logical = np.empty(prod(shape), physical.dtype)
    logical[numbers[numbers > 0] - 1] = physical[numbers > 0]
    return logical.reshape(shape)


def _kernel_record(name: str, text: KernelText) -> KernelRecord:
    """What a device has to know of a kernel: the sections that it runs."""
    return KernelRecord(
        name=name,
        kind="",
        operations=(),
        flops=0,
        bytes_moved=0,
        steps=(),
        phases=text.phases,
        source=text.source,
    )


def _port(argument: Argument, physical: Mapping[str, np.ndarray]) -> Port:
    array = physical[argument.name]
    return Port(
        name=argument.name,
        element_type=array.dtype.name,
        shape=array.shape,
        offset_bytes=argument.offset_bytes,
        size_bytes=argument.size_bytes,
    )


def _layout(layouts: Mapping[str, Pack], name: str, array: np.ndarray) -> Pack:
    return layouts.get(name) or identity_pack(array.ndim)
